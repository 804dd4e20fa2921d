//! All workloads and machines of a comparison at once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::difference::titled;
use crate::summary::Judgement;
use crate::{Better, Comparison, Decision, Difference, Labels, Measure, Run, Status};

/// In how many cells, a workload on a machine each, schedulers differ by a margin that matters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overall {
    /// Number of cells.
    pub cells: usize,
    /// The scheduler that all are compared with; without one it is the best in each cell.
    pub baseline: Option<String>,
    /// Whether some difference rests on a single run of each scheduler.
    pub single_runs: bool,
    /// The measures that tell something, in the order of the table of measures.
    pub measures: Vec<Compared>,
    /// The schedulers, in the order of the runs.
    pub schedulers: Vec<Overview>,
}

/// A measure over all cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// Its id.
    pub measure: &'static str,
    /// The cells without a difference that matters.
    pub same: usize,
    /// All cells in which schedulers were compared by it.
    pub cells: usize,
}

/// A scheduler over all cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overview {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The cells in which one of its runs is not ok, by the worst way in which one ended; it takes no part in them.
    pub failed: BTreeMap<Status, usize>,
    /// The first of them.
    pub first_failed: Option<CellName>,
    /// The conclusions, by measure in the order of [`Overall::measures`].
    pub tallies: Vec<Tally>,
}

/// A workload on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellName {
    /// Name of the workload.
    pub workload: String,
    /// Description of the machine.
    pub machine: String,
}

impl CellName {
    pub(crate) fn of(labels: &Labels) -> Self {
        Self { workload: labels.workload.clone(), machine: labels.machine.clone() }
    }
}

/// The numbers of cells in which a scheduler is better, worse or neither, in one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Better than the baseline, or than every other scheduler.
    pub better: usize,
    /// Worse than the baseline, or than the best scheduler.
    pub worse: usize,
    /// As good as these: the difference does not matter.
    pub same: usize,
    /// More runs could show either.
    pub undecided: usize,
}

impl Tally {
    fn add(&mut self, judgement: Judgement) {
        *match judgement {
            Judgement::Better => &mut self.better,
            Judgement::Worse => &mut self.worse,
            Judgement::Same => &mut self.same,
            Judgement::Undecided => &mut self.undecided,
        } += 1;
    }
}

/// The runs of a scheduler in a cell.
pub(crate) struct Row<'a> {
    /// Its place among the schedulers.
    pub(crate) scheduler: usize,
    pub(crate) runs: Vec<&'a Run>,
}

/// The runs under the same conditions.
pub(crate) type Cell<'a> = Vec<Row<'a>>;

impl Overall {
    /// The results of a comparison over all its cells: against its baseline, or, if it has none, against the best scheduler of each cell.
    pub fn of(comparison: &Comparison) -> Self {
        let (cells, names) = grouped(&comparison.runs);
        let measures: Vec<&'static Measure> = Measure::in_summaries().collect();
        let mut schedulers: Vec<Overview> = { names.into_iter() }
            .map(|scheduler| Overview {
                scheduler,
                tallies: vec![Tally::default(); measures.len()],
                ..Overview::default()
            })
            .collect();
        for cell in &cells {
            note_failures(cell, &mut schedulers);
        }
        let baseline = { comparison.differences.first() }.map(|one| one.baseline.clone());
        let mut compared = Vec::new();
        let mut single_runs = false;
        for (place, measure) in measures.iter().enumerate() {
            let (mut same, mut all) = (0, 0);
            for cell in &cells {
                let judged = match baseline {
                    Some(_) => against_baseline(cell, measure, &comparison.differences),
                    None => against_best(cell, measure),
                };
                all += usize::from(!judged.is_empty());
                let is_same = |one: &(usize, Judgement)| one.1 == Judgement::Same;
                same += usize::from(!judged.is_empty() && judged.iter().all(is_same));
                single_runs |= !judged.is_empty() && cell.iter().any(|row| row.runs.len() < 2);
                for (scheduler, judgement) in judged {
                    schedulers[scheduler].tallies[place].add(judgement);
                }
            }
            compared.push(Compared { measure: measure.id, same, cells: all });
        }
        let mut overall =
            Self { cells: cells.len(), baseline, single_runs, measures: compared, schedulers };
        overall.leave_out_unmeasured();
        overall
    }

    /// Leaves out measures by which nothing was compared.
    fn leave_out_unmeasured(&mut self) {
        let kept: Vec<bool> = self.measures.iter().map(|one| one.cells > 0).collect();
        retain(&mut self.measures, &kept);
        for one in &mut self.schedulers {
            retain(&mut one.tallies, &kept);
        }
    }
}

/// Keeps those elements whose place is marked.
fn retain<T>(list: &mut Vec<T>, kept: &[bool]) {
    let mut marks = kept.iter();
    list.retain(|_| marks.next().is_some_and(|kept| *kept));
}

/// The cells, and the names of the schedulers.
pub(crate) fn grouped(runs: &[Run]) -> (Vec<Cell<'_>>, Vec<String>) {
    let mut schedulers: Vec<&Labels> = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    for run in runs {
        let labels = &run.labels;
        let same = |other: &&Labels| {
            (&other.scheduler, &other.tunables) == (&labels.scheduler, &labels.tunables)
        };
        let scheduler = schedulers.iter().position(same);
        let scheduler = scheduler.unwrap_or_else(|| {
            schedulers.push(labels);
            schedulers.len() - 1
        });
        let known =
            { cells.iter_mut() }.find(|cell| cell[0].runs[0].labels.has_conditions_of(labels));
        let runs = vec![run];
        match known {
            None => cells.push(vec![Row { scheduler, runs }]),
            Some(cell) => match cell.iter_mut().find(|row| row.scheduler == scheduler) {
                // A cell that is named twice has been run twice, and its runs are the same.
                Some(row) if row.runs.iter().any(|one| is_same(one, run)) => {}
                Some(row) => row.runs.push(run),
                None => cell.push(Row { scheduler, runs }),
            },
        }
    }
    let names = schedulers.iter().map(|labels| titled(labels)).collect();
    (cells, names)
}

/// Whether both are the same simulation.
fn is_same(one: &Run, other: &Run) -> bool {
    one.labels.cell.is_some() && one.labels.cell == other.labels.cell
}

pub(crate) fn note_failures(cell: &Cell, schedulers: &mut [Overview]) {
    for row in cell {
        let Some(worst) = row.runs.iter().map(|run| run.status).max() else { continue };
        if worst != Status::Ok {
            let one = &mut schedulers[row.scheduler];
            *one.failed.entry(worst).or_default() += 1;
            let labels = &row.runs[0].labels;
            one.first_failed.get_or_insert_with(|| CellName::of(labels));
        }
    }
}

/// The judgements on the differences from the baseline.
fn against_baseline(
    cell: &Cell,
    measure: &Measure,
    differences: &[Difference],
) -> Vec<(usize, Judgement)> {
    let judged = |row: &Row| {
        let labels = &row.runs[0].labels;
        let title = titled(labels);
        let is_it = |one: &&Difference| {
            one.measure == measure.id
                && one.scheduler == title
                && (&one.workload, &one.machine) == (&labels.workload, &labels.machine)
        };
        let found = differences.iter().find(is_it)?;
        Some((row.scheduler, judgement(found)))
    };
    cell.iter().filter(|row| is_ok(row)).filter_map(judged).collect()
}

/// How each scheduler is compared with the best one, which is better only if all others are worse.
fn against_best(cell: &Cell, measure: &'static Measure) -> Vec<(usize, Judgement)> {
    let runs: Vec<&[&Run]> = cell.iter().map(|row| row.runs.as_slice()).collect();
    let Some(decision) = Decision::of(&runs, measure) else { return Vec::new() };
    let mut judged: Vec<(usize, Judgement)> = { decision.others.iter() }
        .map(|(place, difference)| (cell[*place].scheduler, judgement(difference)))
        .collect();
    if !judged.is_empty() {
        let alone = judged.iter().all(|(_, one)| *one == Judgement::Worse);
        let of_best = if alone { Judgement::Better } else { Judgement::Same };
        judged.push((cell[decision.best].scheduler, of_best));
    }
    judged
}

pub(crate) fn is_ok(row: &Row) -> bool {
    row.runs.iter().all(|run| run.is_ok())
}

/// The judgement on a difference. That of single runs, from which nothing follows, is as it looks: beyond the margin or within.
pub(crate) fn judgement(one: &Difference) -> Judgement {
    if one.pairs > 1 || one.too_few_samples || one.halves > 0 {
        return one.judgement;
    }
    let better = Measure::find(&one.measure).and_then(|measure| measure.better);
    let higher = better == Some(Better::Higher);
    if one.difference.abs() <= one.margin {
        Judgement::Same
    } else if (one.difference > 0.0) == higher {
        Judgement::Better
    } else {
        Judgement::Worse
    }
}
