//! Requirements on a run, and where it falls short of them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use fairground_metrics::{RunMetrics, TaskMetrics, WindowShare};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::amount;
use crate::format::{Unit, seconds, time, value};
use crate::measure::{Better, ERROR_OF_SHARE, Episode, IDLE_BESIDE_WAITING, MAKESPAN, Measure};
use crate::quantity::{Lack, Quantity};

/// A bound that a measure of a run must keep.
#[derive(Clone, Debug)]
pub struct Requirement {
    text: String,
    quantity: Quantity,
    /// Which values are better: higher ones if it must be above the bound, rather than below.
    better: Better,
    bound: Bound,
}

/// Ids of the measures of how CPU time was divided.
const OF_SHARES: [&str; 9] = [
    "jain_index",
    "lag",
    "lag_ahead",
    "lag_behind",
    "share",
    ERROR_OF_SHARE,
    "window_share_min",
    "window_share_max",
    "window_spread",
];

/// Those of them that are large where a task got much.
const OF_LARGE_PARTS: [&str; 3] = ["lag_ahead", "share", "window_share_max"];

/// Ids of the measures of what scheduling itself costs, whoever waits.
const OF_COSTS: [&str; 3] = ["overhead", "migrations", "context_switches"];

/// [`Requirement::nearness`] of a run that could not fall shorter: where nothing is allowed.
const MOST_NEARNESS: f64 = 1e6;

/// How much is allowed.
#[derive(Clone, Debug)]
enum Bound {
    /// In the measure's unit.
    Value(f64),
    /// This many times the value of another scheduler on the same machine, with the same workload and seed.
    Times(f64, String),
    /// This many times another value of the same run.
    Own(f64, Quantity),
}

/// A requirement that a run does not meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breach {
    /// The requirement, as it was written.
    pub requirement: String,
    /// Id of the measure.
    pub measure: String,
    /// The measured value, in the measure's unit.
    pub value: f64,
    /// The allowed value, if that depends on another scheduler or measure.
    pub allowed: Option<f64>,
    /// The task for which the measure is worst; `None` if it is not one of tasks.
    pub task: Option<String>,
    /// When and where that was, if the measure knows.
    pub episode: Option<Episode>,
    /// Whether the value is the least that it can be: the run's length, within which it did not come to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The share that the task had then and the one that it was due, of [`ERROR_OF_SHARE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<WindowShare>,
}

impl Requirement {
    /// Id of the measure.
    pub fn measure(&self) -> &'static str {
        self.quantity.measure().id
    }

    /// The scheduler with which a run is compared, if with any.
    pub fn reference(&self) -> Option<&str> {
        match &self.bound {
            Bound::Value(_) | Bound::Own(..) => None,
            Bound::Times(_, scheduler) => Some(scheduler),
        }
    }

    /// How a run falls short, compared with the metrics of the reference if there is one. A measure without a value breaks nothing, but for the time
    /// until the end of a run that does not come to it.
    pub fn breach(&self, run: &RunMetrics, reference: Option<&RunMetrics>) -> Option<Breach> {
        let length = self.unfinished(run);
        let bound = self.allowed(run, reference)?;
        let value = self.value(run).or(length.map(|length| length as f64))?;
        let is_met = self.better.order(value, bound).is_lt();
        let is_relative = !matches!(self.bound, Bound::Value(_));
        // Nobody has to be better than a scheduler that has 0.
        if is_met || (is_relative && value == bound) {
            return None;
        }
        let worst = self.quantity.worst(run, self.better);
        Some(Breach {
            requirement: self.text.clone(),
            measure: self.measure().to_owned(),
            value,
            allowed: is_relative.then_some(bound),
            at_least: length.is_some(),
            task: worst.map(|task| task.name.clone()),
            episode: self.episode(run, worst),
            share: worst
                .and_then(|task| task.worst_share)
                .filter(|_| self.measure() == ERROR_OF_SHARE),
        })
    }

    /// The quantity that must keep the bound.
    pub const fn quantity(&self) -> &Quantity {
        &self.quantity
    }

    /// All that it is about: the quantity, and the other one of the same run that it is bounded by.
    pub fn quantities(&self) -> impl Iterator<Item = &Quantity> {
        let other = match &self.bound {
            Bound::Own(_, other) => Some(other),
            Bound::Value(_) | Bound::Times(..) => None,
        };
        std::iter::once(&self.quantity).chain(other)
    }

    /// Why a run that breaks nothing does not show that it keeps the bound; `None` if it does.
    pub fn undecided(&self, run: &RunMetrics, reference: Option<&RunMetrics>) -> Option<Lack> {
        if self.breach(run, reference).is_some() {
            return None;
        }
        if let Some(lack) = self.quantity.lack(run) {
            return Some(match (&lack, self.unfinished(run)) {
                (Lack::Value, Some(length)) => Lack::Unfinished(length),
                _ => lack,
            });
        }
        match &self.bound {
            Bound::Own(_, other) if other.lack(run).is_some() => return other.lack(run),
            Bound::Times(_, name) if self.needs_reference(run) => {
                let lack = Lack::Reference(name.clone());
                if reference.and_then(|run| self.value(run)).is_none() {
                    return Some(lack);
                }
            }
            _ => {}
        }
        let least = self.quantity.measure().least_samples;
        let samples = self.quantity.samples(run)?;
        (samples < least).then_some(Lack::Samples(samples, least))
    }

    fn is_above(&self) -> bool {
        self.better == Better::Higher
    }

    /// Whether the run has to be compared with that of the reference: a part of a part of the whole is met by more than that part of the whole.
    pub fn needs_reference(&self, run: &RunMetrics) -> bool {
        let Bound::Times(factor, _) = self.bound else { return false };
        let is_part = self.is_above() && self.quantity.measure().unit == Unit::Fraction;
        !is_part || self.value(run).is_some_and(|value| value <= factor)
    }

    /// How near a run is to falling short: 1 at the bound, more beyond it, and 0 where nothing points there or nothing was measured. Without a reference
    /// that is not needed, it is how near the run would be beside the best possible one.
    pub fn nearness(&self, run: &RunMetrics, reference: Option<&RunMetrics>) -> f64 {
        let measured = match (&self.bound, reference) {
            (Bound::Times(factor, _), None) if !self.needs_reference(run) => {
                self.value(run).map(|value| (value, *factor))
            }
            _ => self.measured(run, reference),
        };
        let Some((value, bound)) = measured else { return 0.0 };
        let (part, whole) = if self.is_above() { (bound, value) } else { (value, bound) };
        if part <= 0.0 {
            return 0.0;
        }
        (part / whole).min(MOST_NEARNESS)
    }

    /// The measured value, and the allowed one.
    fn measured(&self, run: &RunMetrics, reference: Option<&RunMetrics>) -> Option<(f64, f64)> {
        Some((self.value(run)?, self.allowed(run, reference)?))
    }

    /// The allowed value.
    fn allowed(&self, run: &RunMetrics, reference: Option<&RunMetrics>) -> Option<f64> {
        Some(match &self.bound {
            Bound::Value(bound) => *bound,
            Bound::Times(factor, _) => factor * self.value(reference?)?,
            Bound::Own(factor, other) => factor * other.value(run, self.better)?,
        })
    }

    /// The length of a run within which it, or a task that is meant, did not come to its end, in nanoseconds, if that is what is asked for.
    fn unfinished(&self, run: &RunMetrics) -> Option<u64> {
        let is_asked = self.measure() == MAKESPAN && !self.is_above();
        let is_there = self.quantity.lack(run) == Some(Lack::Value);
        (is_asked && is_there).then_some(run.duration_ns)
    }

    /// When and where it was worst.
    fn episode(&self, run: &RunMetrics, worst: Option<&TaskMetrics>) -> Option<Episode> {
        let idle = run
            .idle_beside
            .filter(|_| self.quantity.task().is_none() && self.measure() == IDLE_BESIDE_WAITING);
        idle.map(Episode::from).or_else(|| self.quantity.measure().episode?(worst?))
    }

    /// The measured value.
    fn value(&self, run: &RunMetrics) -> Option<f64> {
        self.quantity.value(run, self.better)
    }
}

impl Display for Requirement {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for Requirement {
    type Err = String;

    /// Parses `MEASURE < BOUND` or `MEASURE > BOUND`, with `of TASK` behind the measure of a task. The bound is a number with a unit, such as
    /// `5ms` or `1 %`, or a multiple: of another scheduler's value, such as `3x eevdf`, or of another of the same run, such as `0.5x longest_wait of hog`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(at) = text.find(['>', '<']) else {
            return Err("not of the form 'idle_beside_waiting < 5ms'".to_owned());
        };
        let quantity: Quantity = text[..at].parse()?;
        let above = text[at..].starts_with('>');
        Ok(Self {
            text: text.to_owned(),
            better: if above { Better::Higher } else { Better::Lower },
            bound: bound(text[at + 1..].trim(), quantity.measure())?,
            quantity,
        })
    }
}

/// A multiple of something, which is a measure of the same run or else a scheduler.
fn multiple(factor: f64, of: &str, measure: &Measure) -> Result<Bound, String> {
    let id = of.split(" of ").next().unwrap_or(of).trim();
    let Some(other) = Measure::find(id) else { return Ok(Bound::Times(factor, of.to_owned())) };
    if other.unit != measure.unit {
        return Err(format!("{id} has another unit than {}", measure.id));
    }
    Ok(Bound::Own(factor, of.parse()?))
}

fn bound(text: &str, measure: &Measure) -> Result<Bound, String> {
    let times = text.split_once('x').and_then(|(factor, of)| {
        let factor: f64 = factor.trim().parse().ok()?;
        Some((factor, of.trim()))
    });
    match times {
        Some((_, "")) => {
            Err(format!("{text:?} names no scheduler; write for example '{text} eevdf'"))
        }
        Some((factor, of)) => multiple(factor, of, measure),
        None => {
            let example = match measure.unit {
                Unit::Time => "5ms",
                Unit::Fraction => "1 %",
                _ => "0.9",
            };
            let wrong = || format!("{text:?} is not a bound such as {example}, or 3x eevdf");
            let (number, unit) = amount(text).ok_or_else(wrong)?;
            let scale = match (unit, measure.unit) {
                ("%", Unit::Fraction) => 0.01,
                ("", Unit::Time) => {
                    return Err(format!("{text:?} has no unit; write ns, us, ms or s"));
                }
                ("", Unit::Fraction) if number > 1.0 => {
                    return Err(format!("{text:?} is more than the whole; write '{text} %'"));
                }
                _ => measure.unit.scale(unit).ok_or_else(wrong)?,
            };
            Ok(Bound::Value(number * scale))
        }
    }
}

impl Breach {
    /// Whether it is about how CPU time was divided.
    pub fn is_about_shares(&self) -> bool {
        OF_SHARES.contains(&self.measure.as_str())
    }

    /// Whether a task had more than it is allowed, which no wait of it explains.
    pub fn is_excess(&self) -> bool {
        if let Some(share) = &self.share {
            return share.actual > share.ideal;
        }
        OF_LARGE_PARTS.contains(&self.measure.as_str()) && self.requirement.contains('<')
    }

    /// Whether it is about what scheduling costs, which no wait explains.
    pub fn is_about_costs(&self) -> bool {
        OF_COSTS.contains(&self.measure.as_str())
    }

    /// The wait that explains it: when it began, and the task that waited.
    pub fn wait(&self, run: &RunMetrics) -> Option<(String, u64)> {
        if self.is_excess() || self.is_about_costs() {
            return None;
        }
        if self.is_about_shares() {
            let named = run.tasks.iter().find(|task| self.task.as_ref() == Some(&task.name));
            let task = named.or_else(|| poorest(run))?;
            let wait = task.worst_wait.or(task.longest_wait)?;
            return Some((task.name.clone(), wait.from_ns));
        }
        let beside_idle = |task: &&TaskMetrics| task.idle_beside.map_or(0, |idle| idle.length_ns);
        let mut tasks = run.tasks.iter();
        let task = match &self.task {
            Some(name) => tasks.find(|task| task.name == *name),
            // Work that was not done may have waited beside an idle CPU: for longest, the first of equals.
            None => tasks
                .reduce(|one, other| match beside_idle(&other) > beside_idle(&one) {
                    true => other,
                    false => one,
                })
                .filter(|task| beside_idle(task) > 0),
        }?;
        let beside = task.idle_beside.map(|idle| idle.wait_from_ns);
        let longest = task.longest_wait.map(|wait| wait.from_ns);
        let own = self.episode.and_then(|episode| episode.wait_from_ns);
        let is_idle = self.task.is_none() || self.measure == IDLE_BESIDE_WAITING;
        let beside = beside.filter(|_| is_idle);
        Some((task.name.clone(), own.or(beside).or(longest)?))
    }

    /// The breach in words: how much it was, for which task, when and where.
    pub fn sentence(&self) -> String {
        let measure = Measure::find(&self.measure);
        let unit = measure.map_or(Unit::Plain, |measure| measure.unit);
        let number = |number: f64| value(Some(number), unit);
        let at_least = if self.at_least { "at least " } else { "" };
        let mut text = format!("'{}' with {at_least}{}", self.requirement, number(self.value));
        if let Some(allowed) = self.allowed {
            text.push_str(&format!(", where {} would be allowed", number(allowed)));
        }
        let times = self.episode.map(|Episode { from_ns, length_ns, .. }| {
            format!("for {} from {} on", time(length_ns), seconds(from_ns))
        });
        let cpu = self.episode.and_then(|episode| episode.cpu);
        match (&self.task, times, cpu) {
            (Some(task), Some(times), Some(cpu)) => {
                // Of a whole run it is known only that some task waited all along.
                let of_it = self.episode.is_some_and(|episode| episode.wait_from_ns.is_some());
                let who = if of_it { task.clone() } else { format!("tasks such as {task}") };
                text.push_str(&format!(": CPU {cpu} was idle {times}, while {who} waited"));
            }
            (Some(task), Some(times), None) => {
                let part = |part: f64| value(Some(part), Unit::Fraction);
                let got = { self.share }.map_or_else(
                    String::new,
                    |WindowShare { actual, ideal, .. }| {
                        format!(" had {} of a CPU, where {} was due,", part(actual), part(ideal))
                    },
                );
                text.push_str(&format!(": {task}{got} {times}"));
            }
            (Some(task), None, _) => text.push_str(&format!(": {task}")),
            (None, ..) => {}
        }
        text
    }
}

/// The task that got the smallest part of what it was due.
fn poorest(run: &RunMetrics) -> Option<&TaskMetrics> {
    let part = |task: &TaskMetrics| {
        let share = task.share.filter(|share| share.ideal > 0.0)?;
        Some(share.actual / share.ideal)
    };
    let parts = { run.tasks.iter() }.filter_map(|task| Some((part(task)?, task)));
    Some(parts.min_by(|(one, _), (other, _)| one.total_cmp(other))?.1)
}

#[cfg(test)]
mod tests {
    use fairground_metrics::{MachineFacts, Metrics, Options, Throughput};

    use super::*;

    #[test]
    fn what_is_no_requirement_is_told_with_what_would_be() {
        for (text, told) in [
            ("fast", "not of the form 'idle_beside_waiting < 5ms'"),
            ("wakeup_p98 < 1ms", "there is no measure \"wakeup_p98\""),
            ("wakeup_p99 < 5", "\"5\" has no unit"),
            ("wakeup_p99 < 5 %", "is not a bound such as 5ms"),
            ("missed_periods < 5", "\"5\" is more than the whole; write '5 %'"),
            ("throughput > 5ms", "is not a bound such as 1 %"),
            ("jain_index > high", "is not a bound such as 0.9"),
            ("wakeup_p99 < 3x", "\"3x\" names no scheduler"),
            ("wakeup_p99 of s < 3x wakeups of s", "wakeups has another unit than wakeup_p99"),
            ("wakeups of s < 3x throughput of s", "throughput has another unit"),
            ("share of s < 3x share", "share is one of tasks; write 'share of TASK'"),
            ("share > 5 %", "share is one of tasks; write 'share of TASK'"),
            ("throughput of hog > 5 %", "throughput is none of tasks"),
        ] {
            let error = text.parse::<Requirement>().unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn nearness_grows_to_1_at_the_bound() {
        let facts = MachineFacts { capacities: vec![1024] };
        let empty = Metrics::new(facts, Options::default()).result();
        let run = |ratio| RunMetrics {
            throughput: Some(Throughput { work_ns: 0, ideal_work_ns: 0, ratio }),
            longest_wait_ns: Some(50),
            ..empty.clone()
        };
        let near = |text: &str, run: &RunMetrics, reference: Option<&RunMetrics>| {
            let requirement = text.parse::<Requirement>().unwrap();
            let is_met = requirement.breach(run, reference).is_none();
            let nearness = requirement.nearness(run, reference);
            assert_eq!(is_met, nearness < 1.0 || reference.is_some() && nearness == 1.0);
            nearness
        };
        assert_eq!(near("longest_wait < 200ns", &run(1.0), None), 0.25);
        assert_eq!(near("longest_wait < 25ns", &run(1.0), None), 2.0);
        assert_eq!(near("throughput > 0.6", &run(0.8), None), 0.6 / 0.8);
        let relative = "throughput > 0.5x eevdf";
        assert_eq!(near(relative, &run(0.4), Some(&run(0.4))), 0.5);
        assert_eq!(near(relative, &run(0.2), Some(&run(0.8))), 2.0);
        // More than half of everything is more than half of anything.
        let requirement = relative.parse::<Requirement>().unwrap();
        assert!(!requirement.needs_reference(&run(0.6)));
        assert!(requirement.needs_reference(&run(0.5)));
        assert_eq!(near(relative, &run(0.8), None), 0.5 / 0.8);
    }

    #[test]
    fn a_run_that_does_not_end_takes_at_least_its_length() {
        let facts = MachineFacts { capacities: vec![1024] };
        let run = RunMetrics {
            duration_ns: 1_000_000_000,
            makespan_ns: None,
            ..Metrics::new(facts, Options::default()).result()
        };
        let requirement: Requirement = "makespan < 990ms".parse().unwrap();
        let breach = requirement.breach(&run, None).unwrap();
        assert_eq!(breach.sentence(), "'makespan < 990ms' with at least 1.00 s");
        assert_eq!(requirement.undecided(&run, None), None);
        let requirement: Requirement = "makespan < 2s".parse().unwrap();
        assert_eq!(requirement.breach(&run, None), None);
        assert_eq!(requirement.undecided(&run, None), Some(Lack::Unfinished(1_000_000_000)));
    }

    #[test]
    fn requirements_are_read() {
        let value = |text: &str| match text.parse::<Requirement>().map(|one| one.bound) {
            Ok(Bound::Value(value)) => value,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(value("due<500ms"), 5e8);
        assert_eq!(value("idle_wasted < 1 %"), 0.01);
        assert_eq!(value("migrations of hog < 10"), 10.0);
        let of_another: Requirement = "wakeup_p99 < 1.5 x eevdf".parse().unwrap();
        assert_eq!(of_another.reference(), Some("eevdf"));
        assert!(matches!(of_another.bound, Bound::Times(1.5, _)));
    }

    #[test]
    fn a_bound_may_be_a_multiple_of_another_measure() {
        let facts = MachineFacts { capacities: vec![1024] };
        let run = RunMetrics {
            longest_wait_ns: Some(40),
            context_switches: 10,
            ..Metrics::new(facts, Options::default()).result()
        };
        let allowed = |text: &str| {
            let requirement = text.parse::<Requirement>().unwrap();
            assert_eq!(requirement.reference(), None);
            assert!(!requirement.needs_reference(&run));
            requirement.breach(&run, None)?.allowed
        };
        assert_eq!(allowed("longest_wait < 0.5x longest_wait"), Some(20.0));
        assert_eq!(allowed("longest_wait < 2x longest_wait"), None);
        assert_eq!(allowed("longest_wait > 2x longest_wait"), Some(80.0));
    }
}
