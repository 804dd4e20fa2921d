//! Which scheduler suits a load, how certain that is, with which tunables, and what it costs beside the kernel's own.
//!
//! All schedulers replay the same variations of a recording ([`Replay`]), so their differences are paired. A difference counts if its whole
//! 95 % interval lies beyond the known error of replays.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use fairground_machine::Machine;
use fairground_metrics::RunMetrics;
use fairground_results::{Comparison, Interval, Patience};
use fairground_simulator::{CostModel, Release};
use fairground_workload::Workload;
use serde::Serialize;

use crate::compare::{Failed, Results, compare};
use crate::contender::{Contender, KERNEL};
use crate::error::Error;
use crate::median::median;
use crate::noise::Noise;
use crate::plan::{DEFAULT_HZ, Plan, Settings, Site};
use crate::recorded::Replay;

/// The known error of replays (docs/recordings.md) in the time until all tasks are done, as a fraction of it.
pub const MAKESPAN_ERROR: f64 = 0.05;
/// The same for CPU time and shares of it, as a fraction of the run.
pub const SHARE_ERROR: f64 = 0.015;
/// The same for long waits for a CPU: as a fraction of the larger, and in nanoseconds, at least a timer tick.
pub const LATENCY_ERROR: (f64, f64) = (0.5, 4e6);
/// Number of tunables for which other values are tried.
const TUNABLES_TRIED: usize = 8;
/// Seed of the first replay: seed 0 would be the recording as it is.
const FIRST_SEED: u64 = 1;

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

/// What is measured of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time until all tasks are done, nanoseconds; less is better.
    Makespan,
    /// Work done as a fraction of the available CPU time; more is better.
    Work,
    /// 99th percentile of the wakeup latency of tasks with this name, or of all, nanoseconds; less is better.
    Latency(Option<String>),
    /// The longest wait for a CPU, nanoseconds; less is better.
    LongestWait,
    /// Jain's index; more is better.
    Fairness,
}

impl Measure {
    /// The measure for `goal` with a load that `ends`, or does not.
    fn of_goal(goal: &Goal, ends: bool) -> Self {
        match goal {
            Goal::Latency(task) => Self::Latency(task.clone()),
            Goal::Throughput if ends => Self::Makespan,
            Goal::Throughput => Self::Work,
            Goal::Fairness => Self::Fairness,
        }
    }

    /// All measures of a load that ends, or does not.
    fn all(ends: bool) -> Vec<Self> {
        let mut all = vec![
            Self::Work,
            Self::Latency(None),
            Self::LongestWait,
            Self::Fairness,
        ];
        if ends {
            all.insert(0, Self::Makespan);
        }
        all
    }

    /// Whether less is better.
    pub fn less_is_better(&self) -> bool {
        matches!(self, Self::Makespan | Self::Latency(_) | Self::LongestWait)
    }

    /// How far a replay's value may be from the kernel's.
    pub fn error(&self, value: f64) -> f64 {
        match self {
            Self::Makespan => MAKESPAN_ERROR * value,
            Self::Latency(_) | Self::LongestWait => (LATENCY_ERROR.0 * value).max(LATENCY_ERROR.1),
            Self::Work | Self::Fairness => SHARE_ERROR,
        }
    }

    /// The value for a run; `None` if it has none.
    pub fn value_of(&self, run: &RunMetrics) -> Option<f64> {
        match self {
            Self::Makespan => run.makespan_ns.map(|time| time as f64),
            Self::Work => {
                let available = run.cpu_time.available_ns.max(1) as f64;
                Some(run.throughput?.work_ns as f64 / available)
            }
            Self::Fairness => Some(run.fairness?.jain_index),
            Self::LongestWait => run.longest_wait_ns.map(|time| time as f64),
            Self::Latency(Some(name)) => run
                .tasks
                .iter()
                .filter(|task| is_called(&task.name, name))
                .filter_map(|task| Some(task.wakeup_latency.as_ref()?.p99_ns as f64))
                .max_by(f64::total_cmp),
            Self::Latency(None) => Some(run.wakeup_latency?.p99_ns as f64),
        }
    }

    fn order(&self, a: f64, b: f64) -> std::cmp::Ordering {
        match self.less_is_better() {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        }
    }
}

/// Whether a task has this name, or is one of several instances with it.
pub fn is_called(task: &str, name: &str) -> bool {
    task.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['#', '-']))
}

/// What a difference between two schedulers means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is beyond the known error of replays, on the good side.
    Better,
    /// It is within that error.
    Same,
    /// It is beyond it, on the bad side.
    Worse,
    /// None of these: more replays might decide.
    Undecided,
}

/// How much larger a scheduler's value is than another one's with the same seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The mean.
    pub mean: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it means.
    pub verdict: Verdict,
}

/// A value for each seed; `None` where a run has none.
type Values = Vec<Option<f64>>;

impl Difference {
    /// The difference between paired values; `None` with fewer than two pairs, which have no interval.
    fn of(measure: &Measure, own: &Values, other: &Values) -> Option<Self> {
        let pairs = own.iter().zip(other);
        let pairs: Vec<(f64, f64)> = pairs
            .filter_map(|(own, other)| Some(((*own)?, (*other)?)))
            .collect();
        let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
        if differences.len() < 2 {
            return None;
        }
        let interval = Interval::of(&differences)?;
        let own = median(pairs.iter().map(|(own, _)| *own))?;
        let other = median(pairs.iter().map(|(_, other)| *other))?;
        let margin = measure.error(own.max(other));
        // How much worse it is, at least and at most.
        let (least, most) = match measure.less_is_better() {
            true => (interval.low, interval.high),
            false => (-interval.high, -interval.low),
        };
        Some(Self {
            mean: interval.mean,
            low: interval.low,
            high: interval.high,
            verdict: match () {
                () if least > margin => Verdict::Worse,
                () if most < -margin => Verdict::Better,
                () if least >= -margin && most <= margin => Verdict::Same,
                () => Verdict::Undecided,
            },
        })
    }
}

/// What to give advice on.
pub struct Question {
    /// The load.
    pub workload: Arc<Workload>,
    /// What belongs to it.
    pub replay: Arc<Replay>,
    /// The schedulers to rank; [`KERNEL`] is one of them.
    pub contenders: Vec<Contender>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// Scheduling costs on the machine.
    pub cost: CostModel,
    /// The goal.
    pub goal: Goal,
    /// Number of replays under each, every one with its own seed; at least 2.
    pub repeats: u32,
    /// Simulations at once.
    pub threads: Option<NonZero<usize>>,
}

/// A scheduler in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// Its place; schedulers that cannot be told apart share one.
    pub place: usize,
    /// Its name.
    pub scheduler: String,
    /// The median of its runs.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// By how much it differs from the kernel's own; `None` for that itself.
    pub difference: Option<Difference>,
}

/// Another value of a tunable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The tunable.
    pub tunable: String,
    /// The value, as a user writes it.
    pub value: String,
}

/// What a scheduler gives or costs beside the kernel's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// In which respect.
    pub measure: Measure,
    /// The median under the kernel's own.
    pub kernel: f64,
    /// The median under the scheduler.
    pub value: f64,
    /// By how much it differs.
    pub difference: Difference,
}

/// A scheduler that is better than the kernel's own by more than the known error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Its name.
    pub scheduler: String,
    /// A setting with which it is better still, by more than the known error.
    pub setting: Option<Setting>,
    /// The median for the goal, with that setting.
    pub median: f64,
    /// How many settings were tried.
    pub tried: usize,
    /// What it gives and costs; the goal comes first.
    pub prices: Vec<Price>,
}

/// The answer.
pub struct Advice {
    /// How the goal was measured.
    pub measure: Measure,
    /// All schedulers whose runs finished, the best first.
    pub ranking: Vec<Rank>,
    /// What to load; `None` if no scheduler is known to be better than the kernel's own.
    pub recommended: Option<Recommendation>,
    /// In words, what is assumed about the ranked schedulers.
    pub assumptions: Vec<String>,
    /// All runs.
    pub comparison: Comparison,
    /// In words, what failed.
    pub failures: Vec<String>,
}

impl Advice {
    /// The schedulers that share the first place. If they are several, there is no clear winner.
    pub fn leaders(&self) -> Vec<&str> {
        let leaders = self.ranking.iter().filter(|rank| rank.place == 1);
        leaders.map(|rank| rank.scheduler.as_str()).collect()
    }
}

/// The runs of each scheduler, in the order of seeds.
type Runs<'a> = BTreeMap<&'a str, Vec<&'a RunMetrics>>;

/// The runs of all schedulers that finished all of them.
fn runs_of(results: &Results) -> Runs<'_> {
    let mut runs = Runs::new();
    for run in &results.comparison.runs {
        let name = run.labels.scheduler.as_str();
        let has_failed = |one: &Failed| one.failure.scheduler == name;
        if let Some(metrics) = &run.metrics
            && !results.failures.iter().any(has_failed)
        {
            runs.entry(name).or_default().push(metrics);
        }
    }
    runs
}

fn values(measure: &Measure, runs: &[&RunMetrics]) -> Values {
    runs.iter().map(|run| measure.value_of(run)).collect()
}

impl Question {
    fn plan(&self, contenders: Vec<Contender>) -> Plan {
        let name = self.workload.name.clone();
        Plan {
            replays: BTreeMap::from([(name, self.replay.clone())]),
            sites: vec![Site {
                machine: self.machine.clone(),
                workloads: vec![self.workload.clone()],
                contenders,
                references: Vec::new(),
            }],
            settings: Settings {
                duration: None,
                seed: FIRST_SEED,
                cost: self.cost.clone(),
                hz: Some(DEFAULT_HZ),
                release: Release::NEWEST,
                hotplug: Vec::new(),
                window: None,
            },
            repeats: self.repeats,
            patience: Patience::default(),
            requirements: Vec::new(),
            noise: Noise::None,
            traces: None,
            threads: self.threads,
        }
    }

    /// Runs the load under all schedulers, and under the one to recommend with other values of its tunables.
    ///
    /// # Errors
    ///
    /// As for [`compare`], and if no run has a value for the goal.
    pub fn answer(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Advice, Error> {
        let results = compare(&self.plan(self.contenders.clone()), progress)?;
        let measure = Measure::of_goal(&self.goal, self.workload.duration.is_none());
        let runs = runs_of(&results);
        let ranking = rank(&measure, &runs);
        if ranking.is_empty() {
            return Err(Error::Plan(self.unmeasured(&results.failures)));
        }
        let recommended = match self.choose(&ranking, &runs, &measure) {
            Some(scheduler) => Some(self.tune(&measure, scheduler, &runs, progress)?),
            None => None,
        };
        Ok(Advice {
            measure,
            recommended,
            assumptions: self
                .contenders
                .iter()
                .filter_map(Contender::assumption)
                .collect(),
            failures: results
                .failures
                .iter()
                .map(|Failed { failure, .. }| {
                    format!("{} {}", failure.scheduler, failure.sentence())
                })
                .collect(),
            ranking,
            comparison: results.comparison,
        })
    }

    /// Why there is no ranking.
    fn unmeasured(&self, failures: &[Failed]) -> String {
        if let Some(Failed { failure: first, .. }) = failures.first() {
            return format!("no run finished: {} {}", first.scheduler, first.sentence());
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

    /// Of the schedulers in the first place that are better than the kernel's own, the one that is worse than that in the fewest respects.
    fn choose<'a>(
        &self,
        ranking: &'a [Rank],
        runs: &Runs<'_>,
        measure: &Measure,
    ) -> Option<&'a str> {
        let kernel = runs.get(KERNEL)?;
        let is_better = |rank: &&Rank| {
            let verdict = rank.difference.map(|difference| difference.verdict);
            rank.place == 1 && verdict == Some(Verdict::Better)
        };
        let costs = |rank: &&Rank| {
            let prices = self.prices(measure, &runs[rank.scheduler.as_str()], kernel);
            let worse = |price: &&Price| price.difference.verdict == Verdict::Worse;
            prices.iter().filter(worse).count()
        };
        let better = ranking.iter().filter(is_better);
        better.min_by_key(costs).map(|rank| rank.scheduler.as_str())
    }

    fn prices(&self, goal: &Measure, own: &[&RunMetrics], kernel: &[&RunMetrics]) -> Vec<Price> {
        let others = Measure::all(self.workload.duration.is_none()).into_iter();
        let measures = [goal.clone()]
            .into_iter()
            .chain(others.filter(|one| one != goal));
        let price = |measure: Measure| {
            let (own, kernel) = (values(&measure, own), values(&measure, kernel));
            Some(Price {
                difference: Difference::of(&measure, &own, &kernel)?,
                kernel: median(kernel.into_iter().flatten())?,
                value: median(own.into_iter().flatten())?,
                measure,
            })
        };
        measures.filter_map(price).collect()
    }

    /// Tries half and twice the value of each of the scheduler's tunables.
    fn tune(
        &self,
        measure: &Measure,
        scheduler: &str,
        runs: &Runs<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Recommendation, Error> {
        let (own, kernel) = (&runs[scheduler], &runs[KERNEL]);
        let usual = values(measure, own);
        let mut best = Recommendation {
            scheduler: scheduler.to_owned(),
            setting: None,
            median: median(usual.iter().copied().flatten()).unwrap_or_default(),
            tried: 0,
            prices: self.prices(measure, own, kernel),
        };
        let contender = self.contenders.iter().find(|one| one.name() == scheduler);
        let Some(contender) = contender else {
            return Ok(best);
        };
        for (tunable, value) in contender.alternatives(TUNABLES_TRIED) {
            let mut other = contender.clone();
            other.set(&tunable, &value)?;
            let results = compare(&self.plan(vec![other]), progress)?;
            best.tried += 1;
            let Some(tuned) = runs_of(&results).remove(scheduler) else {
                continue;
            };
            let found = values(measure, &tuned);
            let difference = Difference::of(measure, &found, &usual);
            let is_better = difference.is_some_and(|one| one.verdict == Verdict::Better);
            let Some(median) = median(found.into_iter().flatten()).filter(|_| is_better) else {
                continue;
            };
            if measure.order(median, best.median).is_lt() {
                best.setting = Some(Setting { tunable, value });
                best.median = median;
                best.prices = self.prices(measure, &tuned, kernel);
            }
        }
        Ok(best)
    }
}

/// Ranks schedulers by the medians of their runs. Those that are not known to be worse than the first in a place share it.
fn rank(measure: &Measure, runs: &Runs<'_>) -> Vec<Rank> {
    let all: BTreeMap<&str, Values> = runs
        .iter()
        .map(|(scheduler, runs)| (*scheduler, values(measure, runs)))
        .collect();
    rank_values(measure, &all)
}

fn rank_values(measure: &Measure, all: &BTreeMap<&str, Values>) -> Vec<Rank> {
    let ranked = all.iter().filter_map(|(scheduler, values)| {
        let present = || values.iter().copied().flatten();
        let kernel = all.get(KERNEL).filter(|_| *scheduler != KERNEL);
        Some(Rank {
            place: 0,
            scheduler: (*scheduler).to_owned(),
            median: median(present())?,
            low: present().fold(f64::INFINITY, f64::min),
            high: present().fold(f64::NEG_INFINITY, f64::max),
            difference: kernel.and_then(|kernel| Difference::of(measure, values, kernel)),
        })
    });
    let mut ranks: Vec<Rank> = ranked.collect();
    ranks.sort_by(|a, b| measure.order(a.median, b.median));
    let mut leader: Option<(usize, String)> = None;
    for (index, rank) in ranks.iter_mut().enumerate() {
        let own = &all[rank.scheduler.as_str()];
        let first = leader.as_ref().filter(|(_, first)| {
            let difference = Difference::of(measure, own, &all[first.as_str()]);
            difference.is_none_or(|one| one.verdict != Verdict::Worse)
        });
        rank.place = match first {
            Some((place, _)) => *place,
            None => index + 1,
        };
        if rank.place == index + 1 {
            leader = Some((rank.place, rank.scheduler.clone()));
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<'a>(values: &[(&'a str, &[f64])]) -> BTreeMap<&'a str, Values> {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect();
        let values = values.iter().map(|(name, values)| (*name, some(values)));
        values.collect()
    }

    fn places(ranks: &[Rank]) -> Vec<(usize, &str)> {
        let ranks = ranks.iter();
        ranks
            .map(|rank| (rank.place, rank.scheduler.as_str()))
            .collect()
    }

    #[test]
    fn those_closer_than_the_known_error_share_a_place() {
        let values = all(&[
            ("a", &[10.0, 10.1, 10.2]),
            ("b", &[10.3, 10.4, 10.5]),
            ("c", &[12.0, 12.1, 12.2]),
        ]);
        let ranks = rank_values(&Measure::Makespan, &values);
        assert_eq!(places(&ranks), [(1, "a"), (1, "b"), (3, "c")]);
        // In the other direction the last is the first.
        let ranks = rank_values(&Measure::Work, &values);
        assert_eq!(ranks[0].scheduler, "c");
        assert_eq!(ranks[0].place, 1);
    }

    #[test]
    fn what_a_seed_does_to_both_is_no_doubt() {
        // The ranges overlap, but with each seed the one takes a tenth longer.
        let values = all(&[
            ("a", &[10.0, 12.0, 14.0, 16.0]),
            ("b", &[11.0, 13.2, 15.4, 17.6]),
            // Sometimes better and sometimes worse.
            ("c", &[16.5, 13.0, 13.0, 12.0]),
        ]);
        let ranks = rank_values(&Measure::Makespan, &values);
        assert_eq!(places(&ranks), [(1, "a"), (1, "c"), (3, "b")]);
    }

    #[test]
    fn a_difference_has_a_verdict() {
        let verdict = |measure: Measure, own: &[f64], other: &[f64]| {
            let values = all(&[("own", own), ("other", other)]);
            Difference::of(&measure, &values["own"], &values["other"]).map(|one| one.verdict)
        };
        let latency = || Measure::Latency(None);
        let ms = |values: [f64; 3]| values.map(|value| value * 1e6);
        let cases = [
            (ms([90.0, 91.0, 92.0]), Verdict::Worse),
            (ms([1.0, 2.0, 3.0]), Verdict::Same),
            (ms([-5.0, 4.0, 30.0]), Verdict::Undecided),
        ];
        for (own, expected) in cases {
            let found = verdict(latency(), &own, &ms([1.0, 1.1, 0.9]));
            assert_eq!(found, Some(expected), "{own:?}");
        }
        let more = verdict(Measure::Fairness, &[0.9, 0.91], &[0.5, 0.51]);
        assert_eq!(more, Some(Verdict::Better));
        // A single pair shows nothing.
        assert_eq!(verdict(latency(), &[1.0], &[1e9]), None);
    }

    #[test]
    fn instances_share_a_name() {
        assert!(is_called("cc1#12", "cc1"));
        assert!(is_called("hog-0", "hog"));
        assert!(is_called("hog", "hog"));
        assert!(!is_called("hogs", "hog"));
    }
}
