//! Whether the advice on two schedulers holds on a real machine.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Advice, Quantity};

/// One run under a scheduler on a real machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The scheduler's name.
    pub scheduler: String,
    /// The median of its replays.
    pub predicted: f64,
    /// The value measured here.
    pub here: f64,
}

/// The confirmation of a ranking's first two schedulers by runs on a real machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    /// The first in the ranking, and the second.
    pub trials: [Trial; 2],
    /// The scheduler that is better here by more than the known error of replays; `None` if none is.
    pub better: Option<String>,
    /// The fate of the prediction.
    pub outcome: Fate,
}

/// The fate of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// There was none: the two share a place.
    NothingPredicted,
    /// The first is better here, too.
    Held,
    /// Here they are equal.
    Equal,
    /// Here the second is better.
    Reversed,
}

impl Confirmation {
    /// The confirmation by these values of the first two of a ranking, measured here; `None` if it does not have two.
    pub fn of(advice: &Advice, here: [f64; 2]) -> Option<Self> {
        let [first, second, ..] = advice.ranking.as_slice() else { return None };
        let better = first_is_better(&advice.aim, here);
        let outcome = match better {
            _ if first.place == second.place => Fate::NothingPredicted,
            None => Fate::Equal,
            Some(true) => Fate::Held,
            Some(false) => Fate::Reversed,
        };
        let trial = |(rank, here): (&crate::Rank, f64)| Trial {
            scheduler: rank.scheduler.clone(),
            predicted: rank.summary.median,
            here,
        };
        Some(Self {
            trials: [(first, here[0]), (second, here[1])].map(trial),
            better: better.map(|is_first| if is_first { first } else { second }.scheduler.clone()),
            outcome,
        })
    }

    /// Whether the machine contradicts the advice.
    pub const fn contradicts(&self) -> bool {
        matches!(self.outcome, Fate::Equal | Fate::Reversed)
    }
}

/// Whether the first of two values is better than the second, or the second than the first; `None` if they are no further apart than replays
/// are off.
fn first_is_better(aim: &Quantity, [first, second]: [f64; 2]) -> Option<bool> {
    let apart = (first - second).abs() > aim.measure().replay_error_at(first.max(second));
    apart.then(|| aim.better().order(first, second).is_lt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparison, Rank, Summary};

    fn confirmed(places: [usize; 2], here: [f64; 2]) -> Confirmation {
        let rank = |(scheduler, place): (&str, usize)| Rank {
            others: None,
            place,
            scheduler: scheduler.to_owned(),
            summary: Summary::of(vec![1e9]).unwrap(),
            difference: None,
        };
        let advice = Advice {
            recording: "one".to_owned(),
            machine: "1".to_owned(),
            aim: Quantity::of("makespan"),
            replays: 10,
            ranking: [("a", places[0]), ("b", places[1])].map(rank).to_vec(),
            recommended: None,
            part_of_others: None,
            command: None,
            notes: Vec::new(),
            failures: Vec::new(),
            confirmation: None,
            comparison: Comparison::default(),
        };
        Confirmation::of(&advice, here).unwrap()
    }

    #[test]
    fn where_nothing_was_predicted_nothing_can_fail_to_hold() {
        for here in [[1e9, 1e9], [1e9, 2e9], [2e9, 1e9]] {
            let confirmation = confirmed([1, 1], here);
            assert_eq!(confirmation.outcome, Fate::NothingPredicted);
            assert!(!confirmation.contradicts(), "{here:?}");
        }
        assert_eq!(confirmed([1, 1], [2e9, 1e9]).better.as_deref(), Some("b"));
    }

    #[test]
    fn a_prediction_holds_if_the_first_is_better_by_more_than_replays_are_off() {
        for (here, outcome) in [
            ([1e9, 2e9], Fate::Held),
            ([1e9, 1.01e9], Fate::Equal),
            ([1.01e9, 1e9], Fate::Equal),
            ([2e9, 1e9], Fate::Reversed),
        ] {
            assert_eq!(confirmed([1, 2], here).outcome, outcome, "{here:?}");
        }
    }
}
