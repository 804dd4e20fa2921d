//! All workloads and machines of a comparison at once.

use std::collections::BTreeMap;

use crate::difference::{in_measure, pairs, titled};
use crate::summary::Judgement;
use crate::{Better, Comparison, Difference, Labels, Measure, Run, Status};

/// In how many cells, a workload on a machine each, schedulers differ by more than what matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Overall {
    /// Number of cells.
    pub cells: usize,
    /// The scheduler that all are compared with; without one it is the best in each cell.
    pub baseline: Option<String>,
    /// Whether some difference rests on a single run of each scheduler.
    pub single_runs: bool,
    /// Ids of the measures that tell something, in the order of the table of measures.
    pub measures: Vec<&'static str>,
    /// For each measure, the cells without a difference that matters, and all in which schedulers were compared.
    pub alike: Vec<(usize, usize)>,
    /// The schedulers, in the order of the runs.
    pub schedulers: Vec<Overview>,
}

/// A scheduler over all cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The cells in which one of its runs is not ok, by the worst way in which one ended; it takes no part in them.
    pub failed: BTreeMap<Status, usize>,
    /// Workload and machine of the first of them.
    pub first_failed: Option<(String, String)>,
    /// What follows of it, measure by measure.
    pub tallies: Vec<Tally>,
}

/// The number of cells in which a scheduler is what, in one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
struct Row<'a> {
    /// Its place among the schedulers.
    scheduler: usize,
    runs: Vec<&'a Run>,
}

/// The runs under the same conditions.
type Cell<'a> = Vec<Row<'a>>;

impl Overall {
    /// What a comparison shows over all its cells: against its baseline, or, if it has none, against the best scheduler of each cell.
    #[must_use]
    pub fn of(comparison: &Comparison) -> Self {
        let (cells, names) = grouped(&comparison.runs);
        let measures: Vec<&Measure> = Measure::in_summaries().collect();
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
        let mut alike = Vec::new();
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
            alike.push((same, all));
        }
        let mut overall = Self {
            cells: cells.len(),
            baseline,
            single_runs,
            measures: measures.iter().map(|measure| measure.id).collect(),
            alike,
            schedulers,
        };
        overall.leave_out_unmeasured();
        overall
    }

    /// Leaves out measures by which nothing was compared.
    fn leave_out_unmeasured(&mut self) {
        let kept: Vec<bool> = self.alike.iter().map(|(_, all)| *all > 0).collect();
        retain(&mut self.measures, &kept);
        retain(&mut self.alike, &kept);
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

/// The cells, and the names of the schedulers, which are told apart by their paths if need be.
fn grouped(runs: &[Run]) -> (Vec<Cell<'_>>, Vec<String>) {
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
                Some(row) => row.runs.push(run),
                None => cell.push(Row { scheduler, runs }),
            },
        }
    }
    let name = |labels: &&Labels| {
        let title = titled(labels);
        let alike = schedulers.iter().filter(|other| titled(other) == title);
        match alike.count() {
            1 => title,
            _ => { labels.tunables.iter() }.fold(labels.scheduler.clone(), |name, (key, value)| {
                format!("{name} {key}={value}")
            }),
        }
    };
    let names = schedulers.iter().map(name).collect();
    (cells, names)
}

fn note_failures(cell: &Cell, schedulers: &mut [Overview]) {
    for row in cell {
        let Some(worst) = row.runs.iter().map(|run| run.status).max() else {
            continue;
        };
        if worst != Status::Ok {
            let one = &mut schedulers[row.scheduler];
            *one.failed.entry(worst).or_default() += 1;
            let labels = &row.runs[0].labels;
            let place = || (labels.workload.clone(), labels.machine.clone());
            one.first_failed.get_or_insert_with(place);
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
    let ok = cell.iter().filter(|row| is_ok(row));
    ok.filter_map(judged).collect()
}

/// How each scheduler is compared with the one that has the best mean; this one is better only if all others are worse.
fn against_best(cell: &Cell, measure: &Measure) -> Vec<(usize, Judgement)> {
    let number = |run: &&Run| measure.run(run.metrics.as_ref()?);
    let mean = |row: &Row| {
        let numbers: Vec<f64> = row.runs.iter().filter_map(number).collect();
        let count = numbers.len() as f64;
        (count > 0.0).then(|| numbers.into_iter().sum::<f64>() / count)
    };
    let ok = cell.iter().filter(|row| is_ok(row));
    let measured: Vec<(&Row, f64)> = ok.filter_map(|row| Some((row, mean(row)?))).collect();
    let ahead = |one: &&(&Row, f64), other: &&(&Row, f64)| match measure.better {
        Some(Better::Higher) => other.1.total_cmp(&one.1),
        _ => one.1.total_cmp(&other.1),
    };
    let Some((best, _)) = measured.iter().min_by(ahead) else {
        return Vec::new();
    };
    let others = measured.iter().map(|(row, _)| *row);
    let others = others.filter(|row| row.scheduler != best.scheduler);
    let mut judged: Vec<(usize, Judgement)> = others
        .filter_map(|row| {
            let difference = in_measure(&pairs(&best.runs, &row.runs), measure)?;
            Some((row.scheduler, judgement(&difference)))
        })
        .collect();
    if !judged.is_empty() {
        let alone = judged.iter().all(|(_, one)| *one == Judgement::Worse);
        let of_best = if alone {
            Judgement::Better
        } else {
            Judgement::Same
        };
        judged.push((best.scheduler, of_best));
    }
    judged
}

fn is_ok(row: &Row) -> bool {
    row.runs.iter().all(|run| run.is_ok())
}

/// The judgement on a difference. That of single runs, from which nothing follows, is as it looks: beyond the margin or within.
fn judgement(one: &Difference) -> Judgement {
    if one.pairs > 1 || one.too_few_samples {
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
