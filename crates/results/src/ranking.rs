//! Schedulers over many loads: how many times worse each is than the best, and which of the others beats it at no price.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::condition::limit;
use crate::difference::{in_measures, pairs, status, whole};
use crate::measure::MAKESPAN;
use crate::overall::{Cell, grouped, is_ok, judgement, note_failures};
use crate::{
    Better, CellName, Judgement, Limit, MEASURES, Margin, Measure, OTHERS_SERVED, Overview,
    Quantity, Run, Status, Unit, are_one,
};

/// A scheduler is beaten by more than this factor, or has a price: what a user notices without measuring.
pub const NOTABLE: f64 = 1.5;

/// The largest ratio that counts, so that one catastrophe does not hide all else.
const LARGEST: f64 = 1000.0;

/// Fewer samples of a run than these are those of its start.
const SAMPLES: u64 = 20;

/// Parts of runs that do not end are not told apart below this, as those of missed periods.
const FEW: f64 = 0.01;

/// One measure for each thing that a user may notice or pay for, by which schedulers are ranked.
const RANKED: [&str; 20] = [
    "throughput",
    "jain_index",
    "lag",
    "window_spread",
    "longest_wait",
    "wakeup_p50",
    "wakeup_p99",
    "wakeup_max",
    "response_p99",
    "missed_periods",
    "lap_p50",
    "lap_p99",
    "lap_rate",
    "makespan",
    "overhead",
    "overhead_per_work",
    "idle_wasted",
    "idle_wasted_per_work",
    "energy",
    OTHERS_SERVED,
];

/// A margin of the user's for a ranking, in place of that of a measure.
#[derive(Clone, Debug)]
pub struct OwnMargin {
    /// The measure.
    pub measure: &'static Measure,
    /// The margin, which takes the place of all parts of the measure's.
    pub margin: Margin,
}

impl FromStr for OwnMargin {
    type Err = String;

    /// Parses `MEASURE=VALUE`, as in `wakeup_p99=2ms`, `makespan=5 %` or `idle_wasted=3 points`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("not of the form wakeup_p99=2ms")?;
        let measure = ranked().find(|measure| measure.id == name.trim()).ok_or_else(|| {
            format!("nobody is ranked by {:?}; there are {}", name.trim(), RANKED.join(", "))
        })?;
        let margin = match limit(value.trim(), measure)? {
            Limit::Relative(relative) => Margin { relative, ..Margin::default() },
            Limit::Absolute(absolute) => Margin { absolute, ..Margin::default() },
        };
        match margin.relative < 0.0 || margin.absolute < 0.0 {
            true => Err(format!("{}: no margin is negative", value.trim())),
            false => Ok(Self { measure, margin }),
        }
    }
}

impl Display for OwnMargin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = self.margin.words(self.measure.unit);
        write!(f, "{} {}", self.measure.id, if words.is_empty() { "0" } else { &words })
    }
}

/// The measures by which schedulers are ranked.
fn ranked() -> impl Iterator<Item = &'static Measure> {
    MEASURES.iter().filter(|measure| RANKED.contains(&measure.id))
}

/// A ranking of schedulers. A *question* is a measure of a cell, a workload on a machine, in which one of them is known to be worse than another
/// by more than the measure's margin. In each a scheduler is so many times worse than the best: 1 if it is not known to be worse than any.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// Number of cells that all schedulers have.
    pub cells: usize,
    /// The schedulers that lack cells which others have: those cells are left out.
    pub absent: Vec<Absent>,
    /// Number of questions.
    pub questions: usize,
    /// The measures of all cells in which none is known to be worse than another.
    pub alike: usize,
    /// Whether there is a single run of each scheduler somewhere, so that differences may be chance.
    pub single_runs: bool,
    /// Number of cells in which several runs of each scheduler are one: no seed changes anything.
    pub one_run: usize,
    /// What else differs from run to run, as for `--noise`; `None` if nothing does.
    pub noise: Option<String>,
    /// The user's own margins, in words.
    pub margins: Vec<String>,
    /// The measures with a question, in the order of the table of measures.
    pub measures: Vec<&'static str>,
    /// The schedulers, the best first; those that were never well are last.
    pub places: Vec<Ranked>,
    /// Remarks on the runs, each once, sorted.
    pub notes: Vec<Noted>,
}

/// A scheduler that has no run in some cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The number of cells that it lacks.
    pub cells: usize,
    /// The first of them.
    pub first: CellName,
}

/// A remark on runs. Those that differ in nothing but numbers and the name of the load are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// The first of them, a sentence.
    pub note: String,
    /// Number of loads that it is about.
    pub loads: usize,
}

/// A scheduler in a ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ranked {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The cells in which one of its runs is not ok, by the worst way in which one ended; it takes no part in them.
    pub failed: BTreeMap<Status, usize>,
    /// The first of them.
    pub first_failed: Option<CellName>,
    /// Geometric mean over its questions of how many times worse it is than the best; `None` if there is no question in which it takes part.
    pub times: Option<f64>,
    /// The same for each measure of the ranking.
    pub by_measure: Vec<Option<f64>>,
    /// The questions in which it takes part.
    pub questions: usize,
    /// Those in which it is not known to be worse than any other.
    pub at_best: usize,
    /// Comparisons with another one that are undecided and that more runs could decide.
    pub undecided: usize,
    /// The cells in which another one beats it at no price.
    pub dominated: Vec<Dominated>,
}

/// A cell in which another scheduler is better in some measure by more than [`NOTABLE`], and worse by that in none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dominated {
    /// The cell.
    pub cell: CellName,
    /// The one that gains most.
    pub by: String,
    /// The measure in which it does.
    pub measure: &'static str,
    /// How many times better it is there.
    pub times: f64,
}

/// How many times worse each scheduler of a cell is than each other one, in each measure; of a pair in either order at least one is 1.
struct Compared {
    /// The places of the schedulers that take part.
    schedulers: Vec<usize>,
    /// By scheduler, by the other, by measure; `None` if the two have no such measure.
    times: Vec<Vec<Vec<Option<f64>>>>,
    /// For each scheduler, how often more runs could tell.
    undecided: Vec<usize>,
}

impl Ranking {
    /// The ranking that runs give: every scheduler with every other one, by pairs of runs with the same seeds. Of several own margins of a measure
    /// the first one counts.
    pub fn of(runs: &[Run], margins: &[OwnMargin]) -> Self {
        let measures: Vec<&'static Measure> = ranked().collect();
        let own: Vec<Option<&OwnMargin>> = { measures.iter() }
            .map(|measure| {
                let of = |id: &str| margins.iter().find(|own| own.measure.id == id);
                of(measure.id).or_else(|| of(measure.instead_of?.0))
            })
            .collect();
        let (mut cells, names) = grouped(runs);
        let absent = absent(&cells, &names);
        cells.retain(|cell| cell.len() == names.len());
        let mut overviews: Vec<Overview> = vec![Overview::default(); names.len()];
        cells.iter().for_each(|cell| note_failures(cell, &mut overviews));
        let mut places: Vec<Ranked> = { names.iter().zip(overviews) }
            .map(|(name, overview)| Ranked {
                scheduler: name.clone(),
                failed: overview.failed,
                first_failed: overview.first_failed,
                ..Ranked::default()
            })
            .collect();
        let mut sums = vec![vec![(0.0, 0_usize); names.len()]; measures.len()];
        let (mut questions, mut alike) = (0, 0);
        for cell in &cells {
            let compared = Compared::of(cell, &measures, &own);
            for (measure, sums) in sums.iter_mut().enumerate() {
                let worst = compared.to_best(measure);
                match worst.iter().flatten().any(|times| *times > 1.0) {
                    true => questions += 1,
                    false => {
                        alike += usize::from(worst.iter().flatten().count() > 1);
                        continue;
                    }
                }
                for (scheduler, times) in compared.schedulers.iter().zip(worst) {
                    let Some(times) = times else { continue };
                    let (sum, count) = &mut sums[*scheduler];
                    (*sum, *count) = (*sum + times.ln(), *count + 1);
                    places[*scheduler].at_best += usize::from(times == 1.0);
                }
            }
            compared.add_to(&mut places, &CellName::of(&cell[0].runs[0].labels), &measures);
        }
        let asked = |measure: &usize| sums[*measure].iter().any(|(_, count)| *count > 0);
        let asked: Vec<usize> = (0..measures.len()).filter(asked).collect();
        let mean = |(sum, count): (f64, usize)| (count > 0).then(|| (sum / count as f64).exp());
        for (scheduler, place) in places.iter_mut().enumerate() {
            let own = sums.iter().map(|one| one[scheduler]);
            let all = own.fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            place.by_measure =
                asked.iter().map(|measure| mean(sums[*measure][scheduler])).collect();
            (place.times, place.questions) = (mean(all), all.1);
        }
        let order = |place: &Ranked| place.times.unwrap_or(f64::INFINITY);
        places.sort_by(|a, b| order(a).total_cmp(&order(b)));
        Self {
            cells: cells.len(),
            absent,
            questions,
            alike,
            single_runs: cells.iter().flatten().any(|row| row.runs.len() < 2),
            one_run: cells.iter().filter(|cell| is_one_run(cell)).count(),
            noise: runs.iter().find_map(|run| run.labels.noise.clone().filter(|one| one != "none")),
            margins: margins.iter().map(OwnMargin::to_string).collect(),
            measures: asked.into_iter().map(|measure| measures[measure].id).collect(),
            places,
            notes: notes(runs),
        }
    }

    /// The cells in which a scheduler took part.
    pub fn cells_of(&self, one: &Ranked) -> usize {
        self.cells - one.failed.values().sum::<usize>()
    }

    /// Those that none beats at no price in any cell, and that were well in all.
    pub fn undominated(&self) -> impl Iterator<Item = &str> {
        let places = self.places.iter();
        let places = places.filter(|one| one.dominated.is_empty() && one.failed.is_empty());
        places.map(|one| one.scheduler.as_str())
    }
}

impl Compared {
    fn of(cell: &Cell, measures: &[&'static Measure], own: &[Option<&OwnMargin>]) -> Self {
        let rows: Vec<_> = cell.iter().filter(|row| is_ok(row)).collect();
        let mut undecided = vec![0; rows.len()];
        let mut times = vec![vec![Vec::new(); rows.len()]; rows.len()];
        for (one, row) in rows.iter().enumerate() {
            for (other, base) in rows.iter().enumerate().filter(|(other, _)| *other != one) {
                let pairs = whole(pairs(&base.runs, &row.runs));
                let of_pair = &mut times[one][other];
                of_pair.resize(measures.len(), None);
                if let Some(place) = measures.iter().position(|known| known.id == MAKESPAN) {
                    of_pair[place] = unended(&pairs);
                }
                for (measure, found) in in_measures(&pairs, measures.iter().copied()) {
                    if !has_samples(&pairs, &Quantity::of(measure.id)) {
                        continue;
                    }
                    let place = measures.iter().position(|known| known.id == measure.id);
                    let place = place.expect("it is one of them");
                    let (found, margin) = match own[place] {
                        None => (found, measure.margin),
                        Some(OwnMargin { margin, .. }) => {
                            let [before, after] =
                                [found.before, found.after].map(|one| one.unwrap_or(0.0));
                            let wide = margin.around(before, after, 0.0);
                            (found.within(wide, measure.better.unwrap_or(Better::Lower)), *margin)
                        }
                    };
                    let judged = judgement(&found);
                    let is_open = judged == Judgement::Undecided && found.is_open();
                    undecided[one] += usize::from(is_open);
                    let times = match (judged, found.after, found.before) {
                        (Judgement::Worse, Some(worse), Some(better)) => {
                            ratio(measure, margin, worse, better)
                        }
                        _ => 1.0,
                    };
                    of_pair[place] = Some(of_pair[place].unwrap_or(1.0).max(times));
                }
            }
        }
        Self { schedulers: rows.iter().map(|row| row.scheduler).collect(), times, undecided }
    }

    /// For each scheduler, how many times worse it is than the best in a measure.
    fn to_best(&self, measure: usize) -> Vec<Option<f64>> {
        let best = |others: &Vec<Vec<Option<f64>>>| {
            let times = others.iter().filter_map(|one| *one.get(measure)?);
            times.reduce(f64::max)
        };
        self.times.iter().map(best).collect()
    }

    /// The other one that beats a scheduler at no price and gains most, with the measure.
    fn dominator(&self, one: usize) -> Option<(usize, usize, f64)> {
        let notable = |times: &Option<f64>| times.is_some_and(|times| times > NOTABLE);
        let free =
            (0..self.times.len()).filter(|other| !self.times[*other][one].iter().any(notable));
        let gains = free.flat_map(|other| {
            let times = self.times[one][other].iter().enumerate();
            times.filter_map(move |(measure, times)| Some((other, measure, (*times)?)))
        });
        gains.filter(|(.., times)| *times > NOTABLE).max_by(|a, b| a.2.total_cmp(&b.2))
    }

    fn add_to(&self, places: &mut [Ranked], cell: &CellName, measures: &[&'static Measure]) {
        let names: Vec<String> =
            { self.schedulers.iter() }.map(|place| places[*place].scheduler.clone()).collect();
        for (one, scheduler) in self.schedulers.iter().enumerate() {
            let place = &mut places[*scheduler];
            place.undecided += self.undecided[one];
            place.dominated.extend(self.dominator(one).map(|(other, measure, times)| Dominated {
                cell: cell.clone(),
                by: names[other].clone(),
                measure: measures[measure].id,
                times,
            }));
        }
    }
}

/// Who lacks cells that others have. Those who never met cannot be compared.
fn absent(cells: &[Cell], names: &[String]) -> Vec<Absent> {
    let of_one = |(place, name): (usize, &String)| {
        let lacks = |cell: &&Cell| !cell.iter().any(|row| row.scheduler == place);
        let mut lacking = cells.iter().filter(lacks);
        let first = CellName::of(&lacking.next()?[0].runs[0].labels);
        Some(Absent { scheduler: name.clone(), cells: 1 + lacking.count(), first })
    };
    names.iter().enumerate().filter_map(of_one).collect()
}

fn is_one_run(cell: &Cell) -> bool {
    are_one(&cell.iter().map(|row| row.runs.as_slice()).collect::<Vec<_>>())
}

/// The notes of all runs, and of how many workloads each is.
fn notes(runs: &[Run]) -> Vec<Noted> {
    let mut found: BTreeMap<String, (&String, BTreeSet<&str>)> = BTreeMap::new();
    for run in runs {
        let load = run.labels.workload.as_str();
        // What a run measured differs from run to run.
        let differs = |word: &&str| {
            word.starts_with(|one: char| one.is_ascii_digit()) || word.trim_end_matches(':') == load
        };
        for note in run.notes.iter() {
            let words: Vec<&str> = note.split(' ').filter(|word| !differs(word)).collect();
            let (_, loads) = found.entry(words.join(" ")).or_insert((note, BTreeSet::new()));
            loads.insert(load);
        }
    }
    let found = found.into_values();
    found.map(|(note, loads)| Noted { note: note.clone(), loads: loads.len() }).collect()
}

/// Whether each run has some samples of a quantity that comes from samples. In a load without sleepers the only wake-ups are those of its start.
fn has_samples(pairs: &[(&Run, &Run)], quantity: &Quantity) -> bool {
    let enough = |run: &Run| {
        let samples = run.measured().and_then(|measured| quantity.samples(measured));
        samples.is_none_or(|some| some >= SAMPLES)
    };
    pairs.iter().all(|(before, after)| enough(before) && enough(after))
}

/// How many times as many of the runs do not end their work as of the other scheduler's; `None` if no more do.
fn unended(pairs: &[(&Run, &Run)]) -> Option<f64> {
    let worse = status(pairs).filter(|one| one.judgement == Judgement::Worse)?;
    let lack = |part: Option<f64>| (1.0 - part.unwrap_or(0.0)).max(FEW);
    Some(lack(worse.after) / lack(worse.before))
}

/// How many times worse a value is than a better one. Of shares of which more is better it is what is missing that is compared; a relative margin
/// is one of the share then, near a whole. Values below the margin are not told apart.
fn ratio(measure: &Measure, margin: Margin, worse: f64, better: f64) -> f64 {
    let is_share = matches!(measure.unit, Unit::Fraction | Unit::Index);
    let (worse, better, of_missing) = match measure.better {
        Some(Better::Higher) if is_share => (1.0 - worse, 1.0 - better, margin.relative),
        Some(Better::Higher) => (better, worse, 0.0),
        _ => (worse, better, 0.0),
    };
    let floor = margin.absolute.max(of_missing).max(f64::MIN_POSITIVE);
    (worse.max(floor) / better.max(floor)).clamp(1.0, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(id: &str, worse: f64, better: f64) -> f64 {
        let measure = Measure::find(id).unwrap();
        ratio(measure, measure.margin, worse, better)
    }

    #[test]
    fn a_ratio_is_of_what_costs_and_not_below_what_can_be_felt() {
        assert_eq!(times("wakeup_p99", 4e6, 1e6), 4.0);
        assert_eq!(times("wakeup_p99", 40e3, 1e3), 2.0);
        assert_eq!(times("makespan", 3e9, 2e9), 1.5);
        assert_eq!(times("lap_rate", 100.0, 300.0), 3.0);
        assert!((times("throughput", 0.8, 0.9) - 2.0).abs() < 1e-9);
        assert!((times("jain_index", 0.9, 1.0) - 10.0).abs() < 1e-9);
        assert!((times("others_served", 0.6, 0.95) - 8.0).abs() < 1e-9);
        assert_eq!(times("missed_periods", 1.0, 0.0), 100.0);
        // Five percent of an overhead are not five points.
        assert!((times("overhead_per_work", 0.03, 0.01) - 3.0).abs() < 1e-9);
        assert_eq!(times("idle_wasted_per_work", 0.04, 0.002), 4.0);
        assert_eq!(times("lag", 1e15, 0.0), LARGEST);
    }

    #[test]
    fn every_ranked_measure_has_a_better_direction() {
        for id in RANKED {
            assert!(Measure::find(id).is_some_and(|measure| measure.better.is_some()), "{id}");
        }
    }

    /// Three schedulers: `times[one][other]` in two measures.
    fn compared(times: [[[f64; 2]; 3]; 3]) -> Compared {
        let times = times.map(|one| one.map(|other| other.map(Some).to_vec()).to_vec()).to_vec();
        Compared { schedulers: vec![0, 1, 2], times, undecided: vec![0; 3] }
    }

    #[test]
    fn who_pays_more_than_a_notable_price_dominates_nobody() {
        let same = [1.0, 1.0];
        // 1 is better than 0 at no price; 2 is better still, but pays for it; 1 and 2 have one advantage each.
        let one = compared([
            [same, [2.0, 1.0], [4.0, 1.0]],
            [[1.0, 1.2], same, [2.0, 1.0]],
            [[1.0, 3.0], [1.0, 2.5], same],
        ]);
        assert_eq!(one.dominator(0), Some((1, 0, 2.0)));
        assert_eq!(one.dominator(1), None);
        assert_eq!(one.dominator(2), None);
        assert_eq!(one.to_best(0), [Some(4.0), Some(2.0), Some(1.0)]);
        assert_eq!(one.to_best(1), [Some(1.0), Some(1.2), Some(3.0)]);
    }
}
