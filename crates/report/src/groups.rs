//! Groups runs: blocks of runs under the same conditions, with rows of repeats.

use crate::text::each_once;
use crate::{Labels, Run};
use fairground_metrics::{RunMetrics, Share, TaskMetrics};
use fairground_results::{Failure, Interval, Measure, Status, Summary, are_one};
use std::collections::BTreeSet;

/// What repeats are from which nothing follows about chance.
pub(crate) const ONE_RUN: &str = "runs that are one: no seed changes anything";

/// In how many of all cells repeats are one run; `None` if in none.
pub(crate) fn told_one_run(one: usize, cells: usize) -> Option<String> {
    (one > 0).then(|| format!("In {one} of {cells} cells there are only {ONE_RUN}."))
}

/// Runs of one workload under the same conditions.
pub(crate) struct Block<'a> {
    pub(crate) rows: Vec<Row<'a>>,
}

/// Repeats: runs of one scheduler with the same tunables.
pub(crate) struct Row<'a> {
    pub(crate) runs: Vec<&'a Run>,
    /// The runs that count: those that are ok or, if none is, the measured parts of those that failed.
    measured: Vec<Measured<'a>>,
}

/// A run with figures.
struct Measured<'a> {
    run: &'a Run,
    /// `None` if it was read from a data set, which has only numbers.
    metrics: Option<&'a RunMetrics>,
    /// Its tasks, sorted by name.
    tasks: Box<[&'a TaskMetrics]>,
}

impl<'a> Measured<'a> {
    fn task(&self, name: &str) -> Option<&'a TaskMetrics> {
        let place = self.tasks.binary_search_by(|task| (*task.name).cmp(name));
        Some(self.tasks[place.ok()?])
    }
}

/// Groups runs into blocks and rows, both in order of first appearance.
pub(crate) fn blocks(runs: &[Run]) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in runs {
        let block =
            match blocks.iter_mut().find(|block| block.labels().has_conditions_of(&run.labels)) {
                Some(block) => block,
                None => {
                    blocks.push(Block { rows: Vec::new() });
                    blocks.last_mut().expect("just pushed")
                }
            };
        match block.rows.iter_mut().find(|row| row.labels().is_repeat_of(&run.labels)) {
            Some(row) => row.add(run),
            None => {
                let mut row = Row { runs: Vec::new(), measured: Vec::new() };
                row.add(run);
                block.rows.push(row);
            }
        }
    }
    blocks
}

impl<'a> Block<'a> {
    /// Labels of the first run.
    pub(crate) fn labels(&self) -> &'a Labels {
        self.rows[0].labels()
    }

    /// Workload and machine.
    pub(crate) fn key(&self) -> (String, String) {
        let labels = self.labels();
        (labels.workload.clone(), labels.machine.clone())
    }

    /// The maximum number of repeats in any row.
    pub(crate) fn repeats(&self) -> usize {
        self.rows.iter().map(|row| row.runs.len()).max().unwrap_or(0)
    }

    /// Whether the repeats in each row are one run.
    pub(crate) fn is_one_run(&self) -> bool {
        are_one(&self.rows.iter().map(|row| row.runs.as_slice()).collect::<Vec<_>>())
    }

    /// Names of the tasks of all runs, in order of first appearance, with their nice values.
    pub(crate) fn tasks(&self) -> Vec<(&'a str, i32)> {
        let mut seen = BTreeSet::new();
        self.runs()
            .flat_map(Run::tasks)
            .filter(|(name, ..)| seen.insert(*name))
            .map(|(name, nice, _)| (name, nice))
            .collect()
    }

    /// Notes of all runs, each once.
    pub(crate) fn notes(&self) -> Vec<&'a str> {
        each_once(self.runs().flat_map(|run| run.notes.iter().map(String::as_str)))
    }

    fn runs(&self) -> impl Iterator<Item = &'a Run> {
        self.rows.iter().flat_map(|row| row.runs.iter().copied())
    }

    /// The conditions that the runs have in common, in one line; `shown` describes how repeats are shown.
    pub(crate) fn conditions(&self, shown: &str) -> String {
        let mut parts = basis(self.labels());
        let mut seeds: Vec<u64> = self.runs().filter_map(|run| run.labels.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        match seeds.as_slice() {
            [] => {}
            [seed] => parts.push(format!("seed {seed}")),
            [first, .., last] => parts.push(format!("seeds {first} to {last}")),
        }
        if self.repeats() > 1 {
            let runs = if self.is_one_run() { ONE_RUN } else { "runs" };
            parts.push(format!("{shown} of {} {runs}", self.repeats()));
        }
        parts.join(", ")
    }
}

/// Machine, length and costs of a run, in words.
pub(crate) fn basis(labels: &Labels) -> Vec<String> {
    let mut parts = vec![format!("machine {}", labels.machine)];
    if let Some(duration) = labels.duration_ns {
        parts.push(crate::format::value(Some(duration as f64), crate::format::Unit::Time));
    }
    parts.push(match &labels.cost_model {
        Some(cost_model) => format!("cost model {cost_model}"),
        None => "real kernel".to_owned(),
    });
    let noise = labels.noise.as_ref().filter(|noise| *noise != "none");
    parts.extend(noise.map(|noise| format!("noise {noise}")));
    parts
}

impl<'a> Row<'a> {
    /// Labels of the first run.
    pub(crate) fn labels(&self) -> &'a Labels {
        &self.runs[0].labels
    }

    /// The scheduler, and its tunables if any are set.
    pub(crate) fn name(&self) -> String {
        let labels = self.labels();
        let mut name = self.labels().scheduler.clone();
        for (tunable, value) in &labels.tunables {
            name.push_str(&format!("\n {tunable}={value}"));
        }
        name
    }

    /// [`name`](Self::name) in one line.
    pub(crate) fn title(&self) -> String {
        self.name().replace('\n', "")
    }

    /// Mean and 95 % interval of a number over the repeats; `None` if no run has it.
    pub(crate) fn interval(&self, of: impl Fn(&RunMetrics) -> Option<f64>) -> Option<Interval> {
        let values = self.metrics().filter_map(of);
        interval(&values.collect::<Vec<_>>())
    }

    /// The same for a number of the task with this name.
    pub(crate) fn task_interval(
        &self,
        name: &str,
        of: impl Fn(&TaskMetrics) -> Option<f64>,
    ) -> Option<Interval> {
        let values = self.measured.iter().filter_map(|one| of(one.task(name)?));
        interval(&values.collect::<Vec<_>>())
    }

    /// Summary of a number over the repeats; `None` if no run has it.
    pub(crate) fn summary(&self, measure: &Measure) -> Option<Summary> {
        let values = self.measured.iter().filter_map(|one| one.run.measured()?.number(measure));
        Summary::of(values.collect())
    }

    /// The measures in tables that only some of the repeats have, so that a median is not of all; how many have them, and of how many.
    pub(crate) fn partly_measured(&self) -> impl Iterator<Item = (&'static Measure, [usize; 2])> {
        let has = |one: &&Measured, measure: &Measure| {
            one.run.measured().is_some_and(|run| run.number(measure).is_some())
        };
        let all = self.measured.len();
        let count = move |measure| self.measured.iter().filter(|one| has(one, measure)).count();
        let counted = Measure::shown().map(move |measure| (measure, [count(measure), all]));
        counted.filter(|(_, [count, all])| *count > 0 && count < all)
    }

    /// Summaries over the repeats of the machine's share that the task with this name got, and of the ideal one.
    pub(crate) fn share_summaries(&self, name: &str) -> Option<(Summary, Summary)> {
        let found = self.measured.iter().filter_map(|one| {
            let mut tasks = one.run.tasks().into_iter();
            tasks.find(|(task, ..)| *task == name)?.2
        });
        let shares: Vec<Share> = found.collect();
        let summary = |of: fn(&Share) -> f64| Summary::of(shares.iter().map(of).collect());
        Some((summary(|one| one.actual)?, summary(|one| one.ideal)?))
    }

    /// The metrics of the runs that count.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &'a RunMetrics> {
        self.measured.iter().filter_map(|one| one.metrics)
    }

    /// How many runs count.
    pub(crate) fn measured(&self) -> usize {
        self.measured.len()
    }

    /// Whether all runs went on to their end and starved no task.
    pub(crate) fn is_ok(&self) -> bool {
        self.runs.iter().all(|run| run.is_ok())
    }

    /// How the runs ended: `ok`, `starved`, or of several `starved 2 of 10`.
    pub(crate) fn status(&self) -> String {
        let all = self.runs.len();
        let counted = Status::ALL.into_iter().filter_map(|status| {
            let count = self.runs.iter().filter(|run| run.status == status).count();
            (count > 0 && (status != Status::Ok || count == all)).then_some((status, count))
        });
        let words = counted.map(|(status, count)| match count == all {
            true => status.name().to_owned(),
            false => format!("{status} {count} of {all}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Failures, each sort once: how the first such run ended, why, and in how many of several runs: ` (2 of 3 runs)`.
    pub(crate) fn failures(&self) -> Vec<(Status, &'a Failure, String)> {
        let mut found: Vec<(Status, &Failure, usize)> = Vec::new();
        for run in &self.runs {
            let Some(failure) = &run.failure else { continue };
            let mut known = found.iter_mut();
            match known.find(|(status, one, _)| *status == run.status && one.kind == failure.kind) {
                Some((.., count)) => *count += 1,
                None => found.push((run.status, failure, 1)),
            }
        }
        let often = |count: usize| match self.runs.len() {
            1 => String::new(),
            all => format!(" ({count} of {all} runs)"),
        };
        found.into_iter().map(|(status, failure, count)| (status, failure, often(count))).collect()
    }

    fn add(&mut self, run: &'a Run) {
        self.runs.push(run);
        if run.measured().is_none() {
            return;
        }
        let metrics = run.metrics.as_deref();
        let mut tasks: Box<[&TaskMetrics]> =
            metrics.iter().flat_map(|metrics| &metrics.tasks).collect();
        tasks.sort_by(|a, b| a.name.cmp(&b.name));
        let measured = Measured { run, metrics, tasks };
        let has_ok = self.measured.first().is_some_and(|first| first.run.is_ok());
        if run.is_ok() && !has_ok {
            self.measured.clear();
        }
        if run.is_ok() || !has_ok {
            self.measured.push(measured);
        }
    }
}

/// Mean and 95 % interval. If no sample is below 0, the interval is not either, although Student's may be.
fn interval(values: &[f64]) -> Option<Interval> {
    let mut interval = Interval::of(values)?;
    if interval.min >= 0.0 {
        interval.low = interval.low.max(0.0);
    }
    Some(interval)
}
