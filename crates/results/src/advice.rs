//! Which scheduler suits a recorded load.

use fairground_metrics::RunMetrics;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Better, Comparison, Confirmation, Interval, Judgement, Quantity, Summary, median};

/// What a scheduler's runs have of a quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// A value for each seed; `None` where a run has none.
    pub numbers: Vec<Option<f64>>,
    /// The samples behind all of them; `None` if they do not come from samples.
    pub samples: Option<u64>,
}

impl Values {
    /// Those of these runs.
    pub fn of(aim: &Quantity, runs: &[&RunMetrics]) -> Self {
        let samples = runs.iter().map(|run| aim.samples(*run));
        Self {
            numbers: runs.iter().map(|run| aim.value(*run, aim.better())).collect(),
            samples: samples.sum(),
        }
    }

    /// The values that there are.
    pub fn present(&self) -> impl Iterator<Item = f64> {
        self.numbers.iter().copied().flatten()
    }
}

/// How much larger a scheduler's value is than another one's with the same seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// The mean.
    pub mean: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Better or worse if the whole interval is beyond the known error of replays, the same if it is within it.
    pub judgement: Judgement,
    /// Whether all runs together have fewer samples than the measure needs, so that nothing is decided.
    pub too_few_samples: bool,
}

impl Distance {
    /// The distance between paired values; `None` with fewer than two pairs, which have no interval.
    pub fn of(aim: &Quantity, own: &Values, other: &Values) -> Option<Self> {
        let pairs = own.numbers.iter().zip(&other.numbers);
        let pairs: Vec<(f64, f64)> =
            pairs.filter_map(|(own, other)| Some(((*own)?, (*other)?))).collect();
        let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
        if differences.len() < 2 {
            return None;
        }
        let interval = Interval::of(&differences)?;
        let least = aim.measure().least_samples;
        let is_few = |values: &Values| values.samples.is_some_and(|samples| samples < least);
        // Without any difference there is nothing that more samples could show.
        let too_few_samples =
            differences.iter().any(|one| *one != 0.0) && (is_few(own) || is_few(other));
        let own = median(pairs.iter().map(|(own, _)| *own))?;
        let other = median(pairs.iter().map(|(_, other)| *other))?;
        let margin = aim.measure().replay_error_at(own.max(other));
        // How much worse it is, at least and at most.
        let (least, most) = match aim.better() {
            Better::Lower => (interval.low, interval.high),
            Better::Higher => (-interval.high, -interval.low),
        };
        Some(Self {
            mean: interval.mean,
            low: interval.low,
            high: interval.high,
            too_few_samples,
            judgement: match () {
                () if too_few_samples => Judgement::Undecided,
                () if least > margin => Judgement::Worse,
                () if most < -margin => Judgement::Better,
                () if least >= -margin && most <= margin => Judgement::Same,
                () => Judgement::Undecided,
            },
        })
    }
}

/// A scheduler in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rank {
    /// Its place; schedulers that cannot be told apart share one.
    pub place: usize,
    /// Its name.
    pub scheduler: String,
    /// Its replays.
    pub summary: Summary,
    /// By how much it differs from the kernel's own; `None` for that itself.
    pub difference: Option<Distance>,
    /// What it leaves to other programs; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<LeftToOthers>,
}

impl Rank {
    /// Whether other programs get less CPU time than under the kernel's own.
    pub fn takes_from_others(&self) -> bool {
        let difference = self.others.and_then(|others| others.difference);
        difference.is_some_and(|one| one.judgement == Judgement::Worse)
    }
}

/// The CPU time of other programs under a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftToOthers {
    /// What they had of what they wanted, the median.
    pub served: f64,
    /// By how much that differs from the kernel's own; `None` for that itself.
    pub difference: Option<Distance>,
}

/// Another value of a tunable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The tunable.
    pub tunable: String,
    /// The value, as a user writes it.
    pub value: String,
}

/// A gain or cost of a scheduler in comparison with the kernel's own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// In which respect.
    pub aim: Quantity,
    /// The median under the kernel's own.
    pub kernel: f64,
    /// The median under the scheduler.
    pub value: f64,
    /// By how much it differs.
    pub difference: Distance,
}

/// A scheduler that is better than the kernel's own by more than the known error.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// Its name.
    pub scheduler: String,
    /// A setting with which it is better still, by more than the known error.
    pub setting: Option<Setting>,
    /// The median for the goal, with that setting.
    pub median: f64,
    /// How many settings were tried.
    pub tried: usize,
    /// Its gains and costs; the goal comes first.
    pub prices: Vec<Price>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Name of the recording.
    pub recording: String,
    /// Description of the machine.
    pub machine: String,
    /// The measure by which the schedulers were ranked.
    pub aim: Quantity,
    /// Replays under each.
    pub replays: u32,
    /// Part of the CPU time that other programs had under the kernel's own; `None` if there were none.
    pub part_of_others: Option<f64>,
    /// All schedulers whose runs finished, the best first.
    pub ranking: Vec<Rank>,
    /// The scheduler to load; `None` if no scheduler is known to be better than the kernel's own.
    pub recommended: Option<Recommendation>,
    /// The command that loads it.
    pub command: Option<String>,
    /// Remarks about the load and the ranked schedulers, in words.
    pub notes: Vec<String>,
    /// Failures, in words.
    pub failures: Vec<String>,
    /// The confirmation by runs on a real machine, if there were any.
    pub confirmation: Option<Confirmation>,
    /// All runs.
    pub comparison: Comparison,
}

impl Advice {
    /// The schedulers that share the first place. If they are several, there is no clear winner.
    pub fn leaders(&self) -> Vec<&str> {
        let leaders = self.ranking.iter().filter(|rank| rank.place == 1);
        leaders.map(|rank| rank.scheduler.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_judged_by_the_known_error_of_replays() {
        let judgement = |aim: &Quantity, own: &[f64], other: &[f64]| {
            let some = |values: &[f64]| Values {
                numbers: values.iter().copied().map(Some).collect(),
                samples: None,
            };
            Distance::of(aim, &some(own), &some(other)).map(|one| one.judgement)
        };
        let latency = Quantity::of("wakeup_p99");
        let ms = |values: [f64; 3]| values.map(|value| value * 1e6);
        let cases = [
            (ms([90.0, 91.0, 92.0]), Judgement::Worse),
            (ms([1.0, 2.0, 3.0]), Judgement::Same),
            (ms([-5.0, 4.0, 30.0]), Judgement::Undecided),
        ];
        for (own, expected) in cases {
            let found = judgement(&latency, &own, &ms([1.0, 1.1, 0.9]));
            assert_eq!(found, Some(expected), "{own:?}");
        }
        let more = judgement(&Quantity::of("jain_index"), &[0.9, 0.91], &[0.5, 0.51]);
        assert_eq!(more, Some(Judgement::Better));
        // A single pair shows nothing.
        assert_eq!(judgement(&latency, &[1.0], &[1e9]), None);
    }
}
