//! Schedulers compared with one of them, the baseline, run by run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::MAKESPAN;
use crate::summary::{Judgement, judge, runs_needed};
use crate::{Better, Interval, Labels, Measure, Quantity, Run};

/// The name under which how runs ended is judged like a measure.
pub const STATUS: &str = "status";

/// How far a scheduler is from the baseline in one measure, under the same conditions and with the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Name of the workload.
    pub workload: String,
    /// Description of the machine.
    pub machine: String,
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The baseline.
    pub baseline: String,
    /// Id of the measure, or `status` for how the runs ended.
    pub measure: String,
    /// Mean of the baseline over the pairs, or, if no pair is whole, over its runs that have the measure; for `status` the part of its runs that
    /// are ok and, if any run came to its end, did so.
    pub before: Option<f64>,
    /// Mean of the scheduler.
    pub after: Option<f64>,
    /// Mean of the differences of the pairs, `after - before`; 0 if there are none.
    pub difference: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Differences up to this have no practical meaning.
    pub margin: f64,
    /// Number of pairs of runs that have the measure.
    pub pairs: usize,
    /// Number of pairs of which one run has it and the other one has not, so that nothing is decided.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub halves: usize,
    /// The conclusion.
    pub judgement: Judgement,
    /// How many pairs would decide an undecided difference, as far as that can be said.
    pub pairs_needed: Option<usize>,
    /// Whether all runs together have fewer samples than the measure needs.
    pub too_few_samples: bool,
    /// Whether several runs are one: no seed changes anything, so that the interval says nothing of how they vary.
    pub one_run: bool,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Difference {
    /// The difference as a fraction of the baseline; `None` if that is 0, or if nothing could be compared.
    pub fn relative(&self) -> Option<f64> {
        let before = self.before.filter(|before| *before != 0.0 && self.pairs > 0)?;
        Some(self.difference / before.abs())
    }

    /// Whether 0 is outside the interval, so that there is a difference, important or not.
    pub fn is_certain(&self) -> bool {
        let is_whole = self.pairs > 1 && !self.too_few_samples && self.halves == 0;
        is_whole && (self.low > 0.0 || self.high < 0.0)
    }
}

/// Whether runs with these labels are of the scheduler that `name` means: its name, or that with its settings behind.
pub fn is_called(labels: &Labels, name: &str) -> bool {
    name == labels.scheduler || name == titled(labels)
}

/// The scheduler's name with its settings.
pub fn titled(labels: &Labels) -> String {
    let mut title = labels.scheduler.clone();
    for (name, value) in &labels.tunables {
        title.push_str(&format!(" {name}={value}"));
    }
    title
}

/// Compares all runs with those of the baseline under the same conditions, pair by pair: runs with the same seed and repetition. In the order
/// of the runs and of the table of measures.
pub fn differences(runs: &[Run], baseline: &str) -> Vec<Difference> {
    compared(runs, baseline).iter().flat_map(|(base, group)| between(base, group)).collect()
}

/// The runs of the baseline and those of each other scheduler under the same conditions, in the order of the runs.
pub fn compared<'r>(runs: &'r [Run], baseline: &str) -> Vec<(Vec<&'r Run>, Vec<&'r Run>)> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let mut known = groups.iter_mut();
        match known.find(|group| group[0].labels.is_repeat_of(&run.labels)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let mut found = Vec::new();
    for group in &groups {
        let labels = &group[0].labels;
        let is_base = |other: &&Vec<&Run>, is_called: fn(&Labels, &str) -> bool| {
            is_called(&other[0].labels, baseline) && other[0].labels.has_conditions_of(labels)
        };
        // One without settings is not meant where another one with the same name has some.
        let exact = |labels: &Labels, name: &str| titled(labels) == name;
        let base = { groups.iter() }
            .find(|other| is_base(other, exact))
            .or_else(|| groups.iter().find(|other| is_base(other, is_called)));
        if let Some(base) = base.filter(|base| !std::ptr::eq(*base, group)) {
            found.push((base.clone(), group.clone()));
        }
    }
    found
}

/// The runs of a group behind those of another one with the same seed and repetition.
pub(crate) fn pairs<'a>(base: &[&'a Run], group: &[&'a Run]) -> Vec<(&'a Run, &'a Run)> {
    let pair = |run: &&'a Run| {
        let same = |other: &&&Run| {
            (other.labels.seed, other.labels.repeat) == (run.labels.seed, run.labels.repeat)
        };
        base.iter().find(same).map(|other| (*other, *run))
    };
    group.iter().filter_map(pair).collect()
}

/// The differences of the runs of one scheduler from those of another under the same conditions, the `base`: in how they ended, unless all are
/// ok, and in each measure that is judged.
pub fn between(base: &[&Run], group: &[&Run]) -> Vec<Difference> {
    let pairs = pairs(base, group);
    let mut found: Vec<Difference> = status(&pairs).into_iter().collect();
    let whole = whole(pairs);
    found.extend(in_measures(&whole, Measure::judged()).map(|(_, difference)| difference));
    found
}

/// Those pairs of which both runs are ok.
pub(crate) fn whole<'a>(pairs: Vec<(&'a Run, &'a Run)>) -> Vec<(&'a Run, &'a Run)> {
    pairs.into_iter().filter(|(before, after)| before.is_ok() && after.is_ok()).collect()
}

/// The differences of pairs of runs that are ok in those of the measures that they have. A measure for which all pairs have another one that stands
/// in for it is left out, and so is one that could stand in but that only some have.
pub(crate) fn in_measures<'a>(
    pairs: &'a [(&'a Run, &'a Run)],
    measures: impl Iterator<Item = &'static Measure> + 'a,
) -> impl Iterator<Item = (&'static Measure, Difference)> + 'a {
    let of = |measure: &Measure| in_quantity(pairs, &Quantity::of(measure.id));
    let stands_in =
        move |measure: &Measure| of(measure).is_some_and(|one| one.pairs == pairs.len());
    let own = measures.filter(move |measure| {
        !measure.instead().is_some_and(stands_in)
            && (measure.instead_of.is_none() || stands_in(measure))
    });
    own.filter_map(move |measure| Some((measure, of(measure)?)))
}

fn difference(pair: (&Run, &Run), measure: &str) -> Difference {
    let (before, after) = (&pair.0.labels, &pair.1.labels);
    Difference {
        workload: after.workload.clone(),
        machine: after.machine.clone(),
        scheduler: titled(after),
        baseline: titled(before),
        measure: measure.to_owned(),
        before: None,
        after: None,
        difference: 0.0,
        low: 0.0,
        high: 0.0,
        margin: 0.0,
        pairs: 1,
        halves: 0,
        judgement: Judgement::Same,
        pairs_needed: None,
        too_few_samples: false,
        one_run: false,
    }
}

/// Whether runs end as well as those of the baseline; `None` if all are ok and, if one came to its end, all did.
pub(crate) fn status(pairs: &[(&Run, &Run)]) -> Option<Difference> {
    let first = pairs.first()?;
    let ends = |run: &Run| {
        let measured = run.measured().filter(|_| run.is_ok());
        measured.is_some_and(|run| Quantity::of(MAKESPAN).value(run, Better::Lower).is_some())
    };
    let has_end = pairs.iter().any(|pair| ends(pair.0) || ends(pair.1));
    let part = |of: &dyn Fn(&(&Run, &Run)) -> bool| {
        pairs.iter().filter(|pair| of(pair)).count() as f64 / pairs.len() as f64
    };
    let is_well = |run: &Run| run.is_ok() && (!has_end || ends(run));
    let (before, after) = (part(&|pair| is_well(pair.0)), part(&|pair| is_well(pair.1)));
    let judgement = match before.total_cmp(&after) {
        std::cmp::Ordering::Greater => Judgement::Worse,
        std::cmp::Ordering::Less => Judgement::Better,
        // Where neither ever is, nothing is known of how they compare.
        std::cmp::Ordering::Equal if after == 0.0 => Judgement::Undecided,
        std::cmp::Ordering::Equal => Judgement::Same,
    };
    (before < 1.0 || after < 1.0).then(|| Difference {
        before: Some(before),
        after: Some(after),
        difference: after - before,
        low: after - before,
        high: after - before,
        pairs: pairs.len(),
        judgement,
        ..difference(*first, STATUS)
    })
}

/// The difference in what is judged where a quantity is named: what stands in for it, if all pairs have that, or the quantity itself.
pub(crate) fn judged(pairs: &[(&Run, &Run)], quantity: &Quantity) -> Option<Difference> {
    let stand_in = quantity.measure().instead().filter(|_| quantity.task().is_none());
    let per_work = stand_in.and_then(|measure| in_quantity(pairs, &Quantity::of(measure.id)));
    per_work.filter(|one| one.pairs == pairs.len()).or_else(|| in_quantity(pairs, quantity))
}

/// The difference of pairs of runs that are ok in one quantity; `None` if no run has it.
pub(crate) fn in_quantity(pairs: &[(&Run, &Run)], quantity: &Quantity) -> Option<Difference> {
    let first = pairs.first()?;
    let (measure, better) = (quantity.measure(), quantity.better());
    let number = |run: &Run| {
        let run = run.measured()?;
        // Where nothing of it happened, it is nothing.
        let nothing = (measure.is_rare && quantity.lack(run).is_none()).then_some(0.0);
        quantity.value(run, better).or(nothing)
    };
    let both: Vec<[Option<f64>; 2]> =
        pairs.iter().map(|(before, after)| [number(before), number(after)]).collect();
    let halves = both.iter().filter(|[before, after]| before.is_some() != after.is_some()).count();
    let differences = both.iter().filter_map(|[before, after]| Some((*after)? - (*before)?));
    let differences: Vec<f64> = differences.collect();
    if differences.is_empty() && halves == 0 {
        return None;
    }
    let mean = |side: usize| {
        let counted =
            |pair: &&[Option<f64>; 2]| differences.is_empty() || pair.iter().all(Option::is_some);
        let numbers = both.iter().filter(counted).filter_map(|pair| pair[side]);
        Interval::of(&numbers.collect::<Vec<f64>>()).map(|numbers| numbers.mean)
    };
    let interval = Interval::of(&differences).unwrap_or_default();
    let (before, after) = (mean(0), mean(1));
    let hz = first.1.labels.hz.unwrap_or(250).max(1);
    let tick = 1e9 / hz as f64;
    let margin = measure.margin.around(before.unwrap_or(0.0), after.unwrap_or(0.0), tick);
    let one_run = pairs.len() > 1
        && pairs.iter().all(|(before, after)| before.is_as(first.0) && after.is_as(first.1));
    // Those of runs that are one are the same samples.
    let counted = if one_run { &pairs[..1] } else { pairs };
    let samples = |run: &Run| {
        let samples = run.measured().and_then(|run| quantity.samples(run));
        samples.unwrap_or(measure.least_samples)
    };
    let before_samples: u64 = counted.iter().map(|pair| samples(pair.0)).sum();
    let after_samples: u64 = counted.iter().map(|pair| samples(pair.1)).sum();
    // Without any difference there is nothing that more samples could show.
    let too_few_samples = differences.iter().any(|one| *one != 0.0)
        && before_samples.min(after_samples) < measure.least_samples;
    let found = Difference {
        before,
        after,
        difference: interval.mean,
        low: interval.low,
        high: interval.high,
        pairs: differences.len(),
        halves,
        too_few_samples,
        one_run,
        ..difference(*first, &quantity.to_string())
    };
    Some(found.within(margin, better))
}

impl Difference {
    /// The same judged by a margin.
    pub(crate) fn within(self, margin: f64, better: Better) -> Self {
        let Self { difference: mean, low, high, pairs: samples, .. } = self;
        let interval = Interval { mean, low, high, min: low, max: high, samples };
        let sign = if better == Better::Higher { 1.0 } else { -1.0 };
        let judgement = match self.too_few_samples || self.halves > 0 {
            true => None,
            false => Some(judge(&interval, margin, sign)),
        };
        let undecided = judgement == Some(Judgement::Undecided);
        Self {
            margin,
            judgement: judgement.unwrap_or(Judgement::Undecided),
            pairs_needed: undecided.then(|| runs_needed(&interval, margin)).flatten(),
            ..self
        }
    }

    /// Whether it is undecided, and more runs could decide it.
    pub fn is_open(&self) -> bool {
        self.judgement == Judgement::Undecided
            && !self.one_run
            && self.halves == 0
            && self.measure != STATUS
    }

    /// Why it is undecided, in words.
    pub fn doubt(&self) -> String {
        match (self.too_few_samples, self.pairs_needed) {
            _ if self.measure == STATUS => "no run is ok".to_owned(),
            _ if self.halves > 0 => {
                format!("{} of {} pairs lack it", self.halves, self.halves + self.pairs)
            }
            (true, _) => "too few samples".to_owned(),
            (false, Some(pairs)) => format!("{pairs} runs would tell"),
            (false, None) if self.pairs < 2 => "one run".to_owned(),
            (false, None) => "over 10000 runs".to_owned(),
        }
    }
}
