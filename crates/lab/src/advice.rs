//! Which scheduler suits a load, how certain that is, with which tunables, and its cost beside the kernel's own.
//!
//! All schedulers replay the same variations of a recording ([`Replay`]), so their differences are paired. A difference counts if its whole
//! 95 % interval lies beyond the known error of replays.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use fairground_machine::Machine;
use fairground_metrics::RunMetrics;
use fairground_results::{
    Advice, Distance, Judgement, LeftToOthers, Measure, OTHERS_SERVED, Patience, Price, Quantity,
    Rank, Recommendation, Setting, Summary, Values, median,
};
use fairground_simulator::{CostModel, Release};
use fairground_workload::Workload;

use crate::compare::{Failed, Results, compare};
use crate::contender::{Contender, KERNEL};
use crate::error::Error;
use crate::noise::Noise;
use crate::plan::{DEFAULT_HZ, Kept, Plan, Settings, Site};
use crate::recorded::Replay;

/// Number of tunables for which other values are tried.
const TUNABLES_TRIED: usize = 8;
/// Seed of the first replay: seed 0 would be the recording as it is.
const FIRST_SEED: u64 = 1;

/// The user's aim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// High throughput: an early end if the load ends, otherwise as much work as possible.
    Throughput,
    /// Good values of this quantity, whose error in replays is known.
    Quantity(Quantity),
}

impl Goal {
    /// The quantity for it, with a load that `ends`, or does not.
    fn aim(&self, ends: bool) -> Quantity {
        match self {
            Self::Throughput if ends => Quantity::of("makespan"),
            Self::Throughput => Quantity::of("throughput"),
            Self::Quantity(quantity) => quantity.clone(),
        }
    }
}

/// The subject of the advice.
pub struct Question {
    /// The load.
    pub workload: Arc<Workload>,
    /// Its surroundings and variations.
    pub replay: Arc<Replay>,
    /// The schedulers to rank; [`KERNEL`] is one of them.
    pub contenders: Vec<Contender>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// Scheduling costs on the machine.
    pub cost: CostModel,
    /// The release of Linux that is simulated.
    pub release: Release,
    /// The goal.
    pub goal: Goal,
    /// Number of replays under each, every one with its own seed; at least 2.
    pub repeats: u32,
    /// Simulations at once.
    pub threads: Option<NonZero<usize>>,
}

/// The runs of each scheduler, in the order of seeds.
type Runs<'a> = BTreeMap<&'a str, Vec<&'a RunMetrics>>;

/// The runs of all schedulers that finished all of them.
fn runs_of(results: &Results) -> Runs<'_> {
    let mut runs = Runs::new();
    for run in &results.comparison.runs {
        let name = run.labels.scheduler.as_str();
        let mut of_it = results.comparison.runs.iter();
        if let Some(metrics) = &run.metrics
            && of_it.all(|other| other.labels.scheduler != name || other.is_ok())
        {
            runs.entry(name).or_default().push(metrics);
        }
    }
    runs
}

/// What a scheduler leaves to other programs, if there are any.
fn others_of(scheduler: &str, runs: &Runs<'_>) -> Option<LeftToOthers> {
    let aim = Quantity::of(OTHERS_SERVED);
    let own = Values::of(&aim, &runs[scheduler]);
    let kernel = runs.get(KERNEL).filter(|_| scheduler != KERNEL);
    Some(LeftToOthers {
        served: median(own.present())?,
        difference: kernel.and_then(|kernel| Distance::of(&aim, &own, &Values::of(&aim, kernel))),
    })
}

/// How much of the CPU time of the kernel's own runs other programs had.
fn part_of_others(runs: &Runs<'_>) -> Option<f64> {
    let parts = runs.get(KERNEL)?.iter().filter_map(|run| {
        let time = run.cpu_time;
        Some(time.others_ns? as f64 / time.available_ns.max(1) as f64)
    });
    median(parts)
}

/// Why there is no ranking.
fn unmeasured(aim: &Quantity, failures: &[Failed], runs: &Runs<'_>) -> String {
    if let Some(Failed { failure: first, .. }) = failures.first() {
        return format!("no run finished: {} {}", first.scheduler, first.sentence());
    }
    let runs: Vec<&RunMetrics> = runs.values().flatten().copied().collect();
    aim.absent_from(&runs).unwrap_or_else(|| "no run finished".to_owned())
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
                release: self.release,
                hotplug: Vec::new(),
                window: None,
            },
            repeats: self.repeats,
            patience: Patience::default(),
            requirements: Vec::new(),
            noise: Noise::None,
            kept: Kept::All,
            traces: None,
            threads: self.threads,
        }
    }

    /// Runs the load under all schedulers, and under the one to recommend with other values of its tunables.
    pub fn answer(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Advice, Error> {
        let results = compare(&self.plan(self.contenders.clone()), progress)?;
        let aim = self.goal.aim(self.workload.duration.is_none());
        let runs = runs_of(&results);
        let mut ranking = rank(&aim, &runs);
        for rank in &mut ranking {
            rank.others = others_of(&rank.scheduler, &runs);
        }
        if ranking.is_empty() {
            return Err(Error::Plan(unmeasured(&aim, &results.failures, &runs)));
        }
        let recommended = match self.choose(&ranking, &runs, &aim) {
            Some(scheduler) => Some(self.tune(&aim, scheduler, &runs, progress)?),
            None => None,
        };
        let assumptions = self.contenders.iter().filter_map(Contender::assumption);
        let notes = self.workload.notes.iter().cloned().chain(assumptions);
        Ok(Advice {
            recording: self.workload.name.clone(),
            machine: self.machine.description.clone(),
            aim,
            replays: self.repeats,
            recommended,
            command: None,
            notes: notes.collect(),
            failures: results
                .failures
                .iter()
                .map(|Failed { failure, .. }| {
                    format!("{} {}", failure.scheduler, failure.sentence())
                })
                .collect(),
            part_of_others: part_of_others(&runs),
            ranking,
            confirmation: None,
            comparison: results.comparison,
        })
    }

    /// Of the schedulers in the first place that are better than the kernel's own, the one that is worse than that in the fewest respects. One that
    /// leaves less CPU time to other programs than the kernel's own is none: what it gains is theirs.
    fn choose<'a>(&self, ranking: &'a [Rank], runs: &Runs<'_>, aim: &Quantity) -> Option<&'a str> {
        let kernel = runs.get(KERNEL)?;
        let is_better = |rank: &&Rank| {
            let judgement = rank.difference.map(|difference| difference.judgement);
            rank.place == 1 && judgement == Some(Judgement::Better)
        };
        let costs = |rank: &Rank| {
            let prices = self.prices(aim, &runs[rank.scheduler.as_str()], kernel);
            let worse = |price: &&Price| price.difference.judgement == Judgement::Worse;
            prices.iter().filter(worse).count()
        };
        let better = ranking.iter().filter(is_better).filter(|rank| !rank.takes_from_others());
        better.min_by_key(|rank| costs(rank)).map(|rank| rank.scheduler.as_str())
    }

    /// The goal, then everything else that replays are known to tell.
    fn prices(&self, goal: &Quantity, own: &[&RunMetrics], kernel: &[&RunMetrics]) -> Vec<Price> {
        let others = Measure::foreseen().map(|measure| Quantity::of(measure.id));
        let aims = [goal.clone()].into_iter().chain(others.filter(|one| one != goal));
        let price = |aim: Quantity| {
            let (own, kernel) = (Values::of(&aim, own), Values::of(&aim, kernel));
            Some(Price {
                difference: Distance::of(&aim, &own, &kernel)?,
                kernel: median(kernel.present())?,
                value: median(own.present())?,
                aim,
            })
        };
        aims.filter_map(price).collect()
    }

    /// Tries half and twice the value of each of the scheduler's tunables.
    fn tune(
        &self,
        aim: &Quantity,
        scheduler: &str,
        runs: &Runs<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Recommendation, Error> {
        let (own, kernel) = (&runs[scheduler], &runs[KERNEL]);
        let usual = Values::of(aim, own);
        let mut best = Recommendation {
            scheduler: scheduler.to_owned(),
            setting: None,
            median: median(usual.present()).unwrap_or_default(),
            tried: 0,
            prices: self.prices(aim, own, kernel),
        };
        let contender = self.contenders.iter().find(|one| one.name() == scheduler);
        let Some(contender) = contender else { return Ok(best) };
        for (tunable, value) in contender.alternatives(TUNABLES_TRIED) {
            let mut other = contender.clone();
            other.set(&tunable, &value)?;
            let results = compare(&self.plan(vec![other]), progress)?;
            best.tried += 1;
            let Some(tuned) = runs_of(&results).remove(scheduler) else { continue };
            let found = Values::of(aim, &tuned);
            let difference = Distance::of(aim, &found, &usual);
            let is_better = difference.is_some_and(|one| one.judgement == Judgement::Better);
            let Some(median) = median(found.present()).filter(|_| is_better) else { continue };
            if aim.better().order(median, best.median).is_lt() {
                best.setting = Some(Setting { tunable, value });
                best.median = median;
                best.prices = self.prices(aim, &tuned, kernel);
            }
        }
        Ok(best)
    }
}

/// Ranks schedulers by the medians of their runs. Those that are not known to be worse than the first in a place share it.
fn rank(aim: &Quantity, runs: &Runs<'_>) -> Vec<Rank> {
    let all: BTreeMap<&str, Values> =
        runs.iter().map(|(scheduler, runs)| (*scheduler, Values::of(aim, runs))).collect();
    rank_values(aim, &all)
}

fn rank_values(aim: &Quantity, all: &BTreeMap<&str, Values>) -> Vec<Rank> {
    let ranked = all.iter().filter_map(|(scheduler, values)| {
        let kernel = all.get(KERNEL).filter(|_| *scheduler != KERNEL);
        Some(Rank {
            place: 0,
            scheduler: (*scheduler).to_owned(),
            summary: Summary::of(values.present().collect())?,
            difference: kernel.and_then(|kernel| Distance::of(aim, values, kernel)),
            others: None,
        })
    });
    let mut ranks: Vec<Rank> = ranked.collect();
    ranks.sort_by(|a, b| aim.better().order(a.summary.median, b.summary.median));
    let mut leader: Option<(usize, String)> = None;
    for (index, rank) in ranks.iter_mut().enumerate() {
        let own = &all[rank.scheduler.as_str()];
        let first = leader.as_ref().filter(|(_, first)| {
            let difference = Distance::of(aim, own, &all[first.as_str()]);
            difference.is_none_or(|one| one.judgement != Judgement::Worse)
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
        let some = |values: &[f64]| Values {
            numbers: values.iter().copied().map(Some).collect(),
            samples: None,
        };
        values.iter().map(|(name, values)| (*name, some(values))).collect()
    }

    fn places(ranks: &[Rank]) -> Vec<(usize, &str)> {
        ranks.iter().map(|rank| (rank.place, rank.scheduler.as_str())).collect()
    }

    #[test]
    fn those_closer_than_the_known_error_share_a_place() {
        let values = all(&[
            ("a", &[10.0, 10.1, 10.2]),
            ("b", &[10.3, 10.4, 10.5]),
            ("c", &[12.0, 12.1, 12.2]),
        ]);
        let ranks = rank_values(&Quantity::of("makespan"), &values);
        assert_eq!(places(&ranks), [(1, "a"), (1, "b"), (3, "c")]);
        // In the other direction the last is the first.
        let ranks = rank_values(&Quantity::of("throughput"), &values);
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
        let ranks = rank_values(&Quantity::of("makespan"), &values);
        assert_eq!(places(&ranks), [(1, "a"), (1, "c"), (3, "b")]);
    }
}
