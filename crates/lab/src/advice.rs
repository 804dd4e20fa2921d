//! Which scheduler suits a load, how certain that is, and with which tunables.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use fairground_machine::Machine;
use fairground_metrics::RunMetrics;
use fairground_report::Comparison;
use fairground_simulator::{CostModel, Surroundings};
use fairground_workload::Workload;

use crate::cell::Failure;
use crate::compare::compare;
use crate::contender::Contender;
use crate::error::Error;
use crate::plan::{DEFAULT_HZ, Plan};

/// The known error of replays (docs/recordings.md) in the time until all tasks are done, as a fraction of it.
pub const MAKESPAN_ERROR: f64 = 0.05;
/// The same for CPU time and shares of it, as a fraction of the run.
pub const SHARE_ERROR: f64 = 0.015;
/// The same for 99th percentiles of wakeup latency: as a fraction of the larger, and in nanoseconds, at least a timer tick.
pub const LATENCY_ERROR: (f64, f64) = (0.5, 4e6);
/// Number of tunables for which other values are tried.
const TUNABLES_TRIED: usize = 8;

/// What the user wants from a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Short waits for tasks with this name, or for all.
    Latency(Option<String>),
    /// High throughput: an early end if the load ends, otherwise as much work as possible.
    Throughput,
    /// Even shares.
    Fairness,
}

/// How a goal is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time until all tasks are done; less is better.
    Makespan,
    /// Work done as a fraction of the available CPU time; more is better.
    Work,
    /// 99th percentile of the wakeup latency; less is better.
    Latency,
    /// Jain's index; more is better.
    Fairness,
}

impl Measure {
    /// Whether less is better.
    pub fn less_is_better(self) -> bool {
        matches!(self, Measure::Makespan | Measure::Latency)
    }

    /// How far a replay's value may be from the kernel's.
    pub fn error(self, value: f64) -> f64 {
        match self {
            Measure::Makespan => MAKESPAN_ERROR * value,
            Measure::Latency => (LATENCY_ERROR.0 * value).max(LATENCY_ERROR.1),
            Measure::Work | Measure::Fairness => SHARE_ERROR,
        }
    }
}

/// The measure for `goal` with a load that `ends`, or does not.
pub fn measure_of(goal: &Goal, ends: bool) -> Measure {
    match goal {
        Goal::Latency(_) => Measure::Latency,
        Goal::Throughput if ends => Measure::Makespan,
        Goal::Throughput => Measure::Work,
        Goal::Fairness => Measure::Fairness,
    }
}

/// The value for a run; `None` if it has none.
pub fn value_of(goal: &Goal, measure: Measure, run: &RunMetrics) -> Option<f64> {
    match (measure, goal) {
        (Measure::Makespan, _) => run.makespan_ns.map(|time| time as f64),
        (Measure::Work, _) => {
            let available = run.cpu_time.available_ns.max(1) as f64;
            Some(run.throughput?.work_ns as f64 / available)
        }
        (Measure::Fairness, _) => Some(run.fairness?.jain_index),
        (Measure::Latency, Goal::Latency(Some(name))) => run
            .tasks
            .iter()
            .filter(|task| is_called(&task.name, name))
            .filter_map(|task| Some(task.wakeup_latency.as_ref()?.p99_ns as f64))
            .max_by(f64::total_cmp),
        (Measure::Latency, _) => Some(run.wakeup_latency?.p99_ns as f64),
    }
}

/// Whether a task has this name, or is one of several instances with it.
pub fn is_called(task: &str, name: &str) -> bool {
    task.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['#', '-']))
}

/// What to give advice on.
pub struct Question {
    /// The load.
    pub workload: Arc<Workload>,
    /// What else runs on the machine.
    pub surroundings: Surroundings,
    /// The schedulers to rank.
    pub contenders: Vec<Contender>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// Scheduling costs on the machine.
    pub cost: CostModel,
    /// The goal.
    pub goal: Goal,
    /// Number of simulations of each, every one with its own seed.
    pub repeats: u32,
    /// Simulations at once.
    pub threads: Option<NonZero<usize>>,
}

/// A scheduler in the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// Its place; schedulers that cannot be told apart share one.
    pub place: usize,
    /// Its name.
    pub scheduler: String,
    /// The median of its runs.
    pub value: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

/// A tunable of the first scheduler that would improve it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Its name.
    pub tunable: String,
    /// The value, as a user writes it.
    pub setting: String,
    /// The median with this value.
    pub value: f64,
}

/// The answer.
pub struct Advice {
    /// How the goal was measured.
    pub measure: Measure,
    /// All schedulers whose runs finished, the best first.
    pub ranking: Vec<Rank>,
    /// Settings that improve the first scheduler by more than the known error, the best first.
    pub tuned: Vec<Tuned>,
    /// How many settings were tried.
    pub tried: usize,
    /// In words, what is assumed about the ranked schedulers.
    pub assumptions: Vec<String>,
    /// All runs.
    pub comparison: Comparison,
    /// In words, what failed.
    pub failures: Vec<String>,
}

impl Question {
    fn plan(&self, contenders: Vec<Contender>) -> Plan {
        let name = self.workload.name.clone();
        Plan {
            workloads: vec![self.workload.clone()],
            surroundings: BTreeMap::from([(name, self.surroundings.clone())]),
            contenders,
            machine: self.machine.clone(),
            duration: None,
            seed: 0,
            repeats: self.repeats,
            cost: self.cost.clone(),
            hz: Some(DEFAULT_HZ),
            hotplug: Vec::new(),
            traces: None,
            threads: self.threads,
        }
    }

    /// Runs the load under all schedulers, and under the first one with other values of its tunables.
    ///
    /// # Errors
    ///
    /// As for [`compare`], and if no run has a value for the goal.
    pub fn answer(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Advice, Error> {
        let results = compare(&self.plan(self.contenders.clone()), progress)?;
        let measure = measure_of(&self.goal, self.workload.duration.is_none());
        let failed: Vec<&str> = results
            .failures
            .iter()
            .map(|one| one.scheduler.as_str())
            .collect();
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in &results.comparison.runs {
            let name = run.labels.scheduler.as_str();
            if let Some(value) = value_of(&self.goal, measure, &run.metrics)
                && !failed.contains(&name)
            {
                values.entry(name).or_default().push(value);
            }
        }
        let ranking = rank(measure, &values);
        let Some(first) = ranking.first() else {
            return Err(Error::Plan(self.unmeasured(&results.failures)));
        };
        let (tuned, tried) = self.tune(measure, first, progress)?;
        Ok(Advice {
            measure,
            tuned,
            tried,
            assumptions: self
                .contenders
                .iter()
                .filter_map(Contender::assumption)
                .collect(),
            failures: results
                .failures
                .iter()
                .map(|failure| format!("{} failed {}", failure.scheduler, failure.message))
                .collect(),
            ranking,
            comparison: results.comparison,
        })
    }

    /// Why there is no ranking.
    fn unmeasured(&self, failures: &[Failure]) -> String {
        if let Some(first) = failures.first() {
            return format!(
                "no run finished: {} failed {}",
                first.scheduler, first.message
            );
        }
        match &self.goal {
            Goal::Latency(Some(name)) => {
                let mut names: Vec<&str> = self
                    .workload
                    .tasks
                    .iter()
                    .map(|task| task.name.as_str())
                    .collect();
                names.truncate(20);
                format!(
                    "no task called {name} was woken in any run; the tasks are {}",
                    names.join(", ")
                )
            }
            _ => "no run has a value for this goal; choose another with --for".to_owned(),
        }
    }

    /// Tries half and twice the value of each of the first scheduler's tunables.
    fn tune(
        &self,
        measure: Measure,
        first: &Rank,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(Vec<Tuned>, usize), Error> {
        let contender = self
            .contenders
            .iter()
            .find(|one| one.name() == first.scheduler);
        let Some(contender) = contender else {
            return Ok((Vec::new(), 0));
        };
        let mut found = Vec::new();
        let settings = contender.alternatives(TUNABLES_TRIED);
        for (tunable, setting) in &settings {
            let mut other = contender.clone();
            other.set(tunable, setting)?;
            let results = compare(&self.plan(vec![other]), progress)?;
            let runs = results.comparison.runs.iter();
            let mut values: Vec<f64> = runs
                .filter_map(|run| value_of(&self.goal, measure, &run.metrics))
                .collect();
            if !results.failures.is_empty() || values.is_empty() {
                continue;
            }
            let value = median(&mut values);
            if is_better(measure, value, first.value) && !is_equal(measure, value, first) {
                found.push(Tuned {
                    tunable: tunable.clone(),
                    setting: setting.clone(),
                    value,
                });
            }
        }
        found.sort_by(|a, b| order(measure, a.value, b.value));
        Ok((found, settings.len()))
    }
}

fn order(measure: Measure, a: f64, b: f64) -> std::cmp::Ordering {
    if measure.less_is_better() {
        a.total_cmp(&b)
    } else {
        b.total_cmp(&a)
    }
}

fn is_better(measure: Measure, a: f64, b: f64) -> bool {
    order(measure, a, b).is_lt()
}

/// Whether a value cannot be told apart from a scheduler's: it is within the range over seeds, or within the error of replays.
fn is_equal(measure: Measure, value: f64, other: &Rank) -> bool {
    let inside = (other.low..=other.high).contains(&value);
    inside || (value - other.value).abs() <= measure.error(value.max(other.value))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Ranks schedulers by the values of their runs.
fn rank(measure: Measure, values: &BTreeMap<&str, Vec<f64>>) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = values
        .iter()
        .map(|(scheduler, values)| {
            let mut values = values.clone();
            Rank {
                place: 0,
                scheduler: (*scheduler).to_owned(),
                value: median(&mut values),
                low: values[0],
                high: values[values.len() - 1],
            }
        })
        .collect();
    ranks.sort_by(|a, b| order(measure, a.value, b.value));
    // Those that cannot be told apart from the first in a place share it.
    let mut leader: Option<Rank> = None;
    for (index, rank) in ranks.iter_mut().enumerate() {
        match &leader {
            Some(first)
                if is_equal(measure, rank.value, first) || is_equal(measure, first.value, rank) =>
            {
                rank.place = first.place;
            }
            _ => {
                rank.place = index + 1;
                leader = Some(rank.clone());
            }
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_closer_than_the_known_error_share_a_place() {
        let values = BTreeMap::from([
            ("a", vec![10.0, 10.1, 10.2]),
            ("b", vec![10.4, 10.5, 10.6]),
            ("c", vec![12.0, 12.0, 12.0]),
        ]);
        let ranks = rank(Measure::Makespan, &values);
        let places: Vec<(usize, &str)> = ranks
            .iter()
            .map(|rank| (rank.place, rank.scheduler.as_str()))
            .collect();
        assert_eq!(places, [(1, "a"), (1, "b"), (3, "c")]);
        // In the other direction the last is the first.
        let ranks = rank(Measure::Work, &values);
        assert_eq!(ranks[0].scheduler, "c");
        assert_eq!(ranks[0].place, 1);
    }

    #[test]
    fn seeds_that_overlap_are_equal() {
        let values = BTreeMap::from([("a", vec![1.0, 2.0, 9.0]), ("b", vec![5.0, 5.0, 5.0])]);
        let ranks = rank(Measure::Latency, &values);
        assert_eq!((ranks[0].place, ranks[1].place), (1, 1));
    }

    #[test]
    fn instances_share_a_name() {
        assert!(is_called("cc1#12", "cc1"));
        assert!(is_called("hog-0", "hog"));
        assert!(is_called("hog", "hog"));
        assert!(!is_called("hogs", "hog"));
    }
}
