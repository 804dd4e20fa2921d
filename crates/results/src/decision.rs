//! Which of several schedulers is best in one measure under the same conditions, and how far the others are.

use crate::difference::{in_quantity, pairs};
use crate::{Better, Difference, Judgement, Measure, Quantity, Run};

/// The schedulers that ran under the same conditions, by one measure. Those of which a run is not ok take no part.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Id of the measure.
    pub measure: &'static str,
    /// Place of the scheduler that the others are compared with: of those that are worse than no other the one to which most are worse, so
    /// that an unsteady one does not hide certain differences; of equals the one with the best mean.
    pub best: usize,
    /// Its mean.
    pub mean: f64,
    /// The places of the others and their differences from it, from better means to worse ones.
    pub others: Vec<(usize, Difference)>,
}

impl Decision {
    /// The decision for schedulers whose runs are `rows`; a place is one among these. `None` if fewer than two have the measure.
    pub fn of(rows: &[&[&Run]], measure: &'static Measure) -> Option<Self> {
        let mean = |runs: &[&Run]| {
            let numbers = runs.iter().filter_map(|run| run.measured()?.number(measure));
            let numbers: Vec<f64> = numbers.collect();
            (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
        };
        let gain = |mean: f64| match measure.better {
            Some(Better::Higher) => mean,
            _ => -mean,
        };
        let well = rows.iter().enumerate();
        let well = well.filter(|(_, runs)| runs.iter().all(|run| run.is_ok()));
        let mut entrants: Vec<(usize, f64)> =
            well.filter_map(|(place, runs)| Some((place, mean(runs)?))).collect();
        entrants.sort_by(|a, b| gain(b.1).total_cmp(&gain(a.1)));
        let against = |base: usize| -> Vec<(usize, Difference)> {
            let others = entrants.iter().filter(|(other, _)| *other != base);
            let difference = |(other, _): &(usize, f64)| {
                let pairs = pairs(rows[base], rows[*other]);
                Some((*other, in_quantity(&pairs, &Quantity::of(measure.id))?))
            };
            others.filter_map(difference).collect()
        };
        let all: Vec<Vec<(usize, Difference)>> =
            { entrants.iter() }.map(|(base, _)| against(*base)).collect();
        let is_worse = |one: &&(usize, Difference)| one.1.judgement == Judgement::Worse;
        let loses = |place: usize| {
            let mut worse = all.iter().flatten().filter(is_worse);
            worse.any(|(other, _)| *other == place)
        };
        let wins = |number: usize| all[number].iter().filter(is_worse).count();
        // The first of equals, which has the best mean.
        let mut leader: Option<usize> = None;
        for number in (0..entrants.len()).filter(|number| !loses(entrants[*number].0)) {
            if leader.is_none_or(|leader| wins(number) > wins(leader)) {
                leader = Some(number);
            }
        }
        let number = leader.filter(|_| entrants.len() > 1)?;
        let (best, mean) = entrants[number];
        Some(Self { measure: measure.id, best, mean, others: all.into_iter().nth(number)? })
    }

    /// The place of the last of those that are worse than the best by a margin that matters.
    pub fn last(&self) -> Option<usize> {
        let mut others = self.others.iter().rev();
        Some(others.find(|(_, difference)| difference.judgement == Judgement::Worse)?.0)
    }
}
