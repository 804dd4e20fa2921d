//! Statistics over repeats, defined once for all tables and pages (`docs/metrics.md`, "Statistics").

use crate::Interval;

/// Median and extremes of the repeats of a run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// The summary of these values in any order; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => return None,
            length if length % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { median, min: values[0], max: values[values.len() - 1] })
    }

    /// Largest minus smallest value.
    pub fn spread(&self) -> f64 {
        self.max - self.min
    }
}

/// The median of these values in any order; `None` if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Summary::of(values.into_iter().collect()).map(|summary| summary.median)
}

/// The judgement on a difference.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It is worse, by more than the margin.
    Worse,
    /// It is better, by more than the margin.
    Better,
    /// The difference is within the margin.
    Same,
    /// More runs could show either.
    Undecided,
}

impl Judgement {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Same => "same",
            Self::Undecided => "undecided",
        }
    }
}

/// The most runs that are ever said to be needed.
const MOST_RUNS: usize = 10_000;

/// Judges a difference by its 95 % interval and the margin of practical equivalence. `sign` is 1 if larger is better and otherwise -1.
///
/// It is the same if the whole interval lies within the margin, better or worse if the interval lies on one side of 0 and the mean beyond
/// the margin, and otherwise undecided. From a single pair nothing follows, unless there is no difference at all.
pub fn judge(difference: &Interval, margin: f64, sign: f64) -> Judgement {
    let one = difference.samples < 2;
    let within = difference.low >= -margin && difference.high <= margin;
    let apart = difference.low > 0.0 || difference.high < 0.0;
    if (one && difference.mean == 0.0) || (!one && within) {
        Judgement::Same
    } else if one || !apart || difference.mean.abs() <= margin {
        Judgement::Undecided
    } else if difference.mean * sign > 0.0 {
        Judgement::Better
    } else {
        Judgement::Worse
    }
}

/// How many pairs of runs would decide an undecided difference, if they go on to vary as those so far. `None` if there are too few to say, or
/// it would take more than 10,000.
pub fn runs_needed(difference: &Interval, margin: f64) -> Option<usize> {
    let pairs = difference.samples;
    if pairs < 2 {
        return None;
    }
    let half = (difference.high - difference.low) / 2.0;
    let size = difference.mean.abs();
    // Beyond the margin the interval must leave 0, within it the margin.
    let room = if size > margin { size } else { margin - size };
    if room <= 0.0 {
        return None;
    }
    // The half of the interval shrinks with the root of the number of runs.
    let factor = (half / room).powi(2);
    let needed = (factor * pairs as f64).ceil() + 1.0;
    (needed <= MOST_RUNS as f64).then_some((needed as usize).max(pairs + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let median = |values: &[f64]| Summary::of(values.to_vec()).unwrap().median;
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(Summary::of(Vec::new()).is_none());
    }

    fn judged(values: &[f64], margin: f64) -> Judgement {
        judge(&Interval::of(values).unwrap(), margin, 1.0)
    }

    #[test]
    fn a_difference_is_judged_by_its_interval_and_the_margin() {
        assert_eq!(judged(&[0.0, 0.1, -0.1, 0.05], 1.0), Judgement::Same);
        assert_eq!(judged(&[5.0, 5.2, 4.9, 5.1], 1.0), Judgement::Better);
        assert_eq!(judged(&[-5.0, -5.2, -4.9, -5.1], 1.0), Judgement::Worse);
        assert_eq!(judged(&[5.0, -4.0, 3.0, -2.0], 1.0), Judgement::Undecided);
        // Surely a difference, but perhaps one that does not matter.
        assert_eq!(judged(&[0.9, 0.8, 1.2, 0.7], 1.0), Judgement::Undecided);
        // If less is better, the same numbers say the opposite.
        let more = Interval::of(&[5.0, 5.2, 4.9]).unwrap();
        assert_eq!(judge(&more, 1.0, -1.0), Judgement::Worse);
    }

    #[test]
    fn a_single_pair_shows_nothing_but_that_there_is_no_difference() {
        assert_eq!(judged(&[5.0], 1.0), Judgement::Undecided);
        assert_eq!(judged(&[0.1], 1.0), Judgement::Undecided);
        assert_eq!(judged(&[0.0], 1.0), Judgement::Same);
        assert_eq!(runs_needed(&Interval::of(&[5.0]).unwrap(), 1.0), None);
    }

    #[test]
    fn the_runs_that_are_said_to_be_needed_suffice() {
        // A mean of 2 beyond a margin of 1, with a deviation of about 3.
        let few = [5.0, -1.0, 2.0, 2.0];
        let interval = Interval::of(&few).unwrap();
        assert_eq!(judge(&interval, 1.0, 1.0), Judgement::Undecided);
        let needed = runs_needed(&interval, 1.0).unwrap();
        let more: Vec<f64> = few.iter().copied().cycle().take(needed).collect();
        assert_eq!(judged(&more, 1.0), Judgement::Better, "with {needed}");
    }
}
