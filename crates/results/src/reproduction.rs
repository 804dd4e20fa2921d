//! The result of an experiment from a document.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reproduced experiment: the document's claims and numbers next to the values measured here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproduction {
    /// Name of the experiment.
    pub id: String,
    /// Its subject.
    pub title: String,
    /// The document.
    pub document: String,
    /// The experiment's place in it.
    pub section: String,
    /// What its document states there: rules or results.
    #[serde(default)]
    pub kind: Subject,
    /// Where it ran.
    pub world: Where,
    /// The machine, its tick rate and its costs, in words.
    pub machine: String,
    /// Runs of each scheduler at each point, if not fewer of some: one per seed in the simulator, one per repetition on a kernel.
    pub repeats: u32,
    /// Names of the columns: schedulers with their settings.
    pub columns: Vec<String>,
    /// Names of the points of the x axis; a single empty name if there is none.
    pub points: Vec<String>,
    /// The quantity that the points stand for: `threads`, `children`; empty if there is a single one.
    pub axis: String,
    /// The measured figures, in the order of the experiment's file.
    pub figures: Vec<Figure>,
    /// The verdicts on the document's acceptance lines.
    pub verdicts: Vec<Verdict>,
    /// The experiment in one row; `None` if its file has none.
    pub headline: Option<Headline>,
    /// Values that were fitted to the baseline column.
    pub fits: Vec<Fit>,
    /// The document's tables, as printed.
    pub printed: Vec<PrintedTable>,
    /// Remarks about the result, one sentence each.
    pub notes: Vec<String>,
    /// If the verdicts tell of runs on a kernel: the machine and its kernel in words, and how many runs there were of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// What the stated lines of an experiment are about.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// Rules, formulas and mechanisms of the algorithm.
    Rules,
    /// What machines gave that ran it.
    #[default]
    Results,
}

impl Subject {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Rules, Self::Results];
}

/// Where an experiment ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// The simulator.
    Simulator,
    /// A real kernel.
    Kernel,
}

/// A measure, at every point, for every column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its name in the experiment's file.
    pub measure: String,
    /// The document's name of its own figure or table, such as `Figure 2(a)`; empty if it has none.
    pub label: String,
    /// Its name for people.
    pub title: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// Digits after the decimal point.
    pub decimals: usize,
    /// By point, then by column; `None` if it was not measured.
    pub here: Vec<Vec<Option<Interval>>>,
    /// The document's numbers, in the same order; `None` if it prints none.
    pub document: Vec<Vec<Option<f64>>>,
}

impl Figure {
    /// Whether it has a number at a point, measured or printed.
    pub fn is_of(&self, point: usize) -> bool {
        self.here[point].iter().any(Option::is_some)
            || self.document[point].iter().any(Option::is_some)
    }
}

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Arithmetic mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Interval {
    /// The mean of `samples` with Student's 95 % interval, which for a single sample is that sample; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let half = if samples.len() < 2 {
            0.0
        } else {
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            students_quantile(samples.len() - 1) * deviation / count.sqrt()
        };
        Some(Self {
            mean,
            low: mean - half,
            high: mean + half,
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            samples: samples.len(),
        })
    }

    /// The ends that people see, and whether they are those of the interval: with fewer than five samples it is so wide that the least and the
    /// most say more.
    pub fn shown(&self) -> (f64, f64, bool) {
        match self.samples {
            ..5 => (self.min, self.max, false),
            _ => (self.low, self.high, true),
        }
    }

    /// The place of the mean according to the samples: the interval, and for a single sample anywhere.
    pub fn bounds(&self) -> (f64, f64) {
        match self.samples {
            ..2 => (f64::NEG_INFINITY, f64::INFINITY),
            _ => (self.low, self.high),
        }
    }
}

/// The 97.5 % quantile of Student's distribution with this many degrees of freedom. Those that are needed again and again are kept.
fn students_quantile(freedom: usize) -> f64 {
    use statrs::distribution::{ContinuousCDF, StudentsT};
    static KNOWN: [OnceLock<f64>; 64] = [const { OnceLock::new() }; 64];
    let quantile = || {
        StudentsT::new(0.0, 1.0, freedom as f64)
            .map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
    };
    match KNOWN.get(freedom) {
        Some(known) => *known.get_or_init(quantile),
        None => quantile(),
    }
}

/// How directly a line of an experiment follows from the document, and whether it could fail. Only [`S`](Level::S) counts as a result that the
/// document states.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Level {
    /// Stated: in the document's words, or the order of the numbers that it prints.
    S,
    /// Derived: a band around a printed number or ratio.
    D,
    /// Expected: a property of the algorithm that the document does not state, or another reading of its statement.
    X,
    /// Fitted: values were fitted to the very numbers that it compares.
    F,
    /// By construction: the workload, the procedure or arithmetic forces it.
    C,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 5] = [Self::S, Self::D, Self::X, Self::F, Self::C];

    /// The level in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::S => "stated",
            Self::D => "derived",
            Self::X => "expected",
            Self::F => "fitted",
            Self::C => "by construction",
        }
    }
}

/// Whether a line holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It holds.
    Holds,
    /// The 95 % intervals of this many runs leave it open.
    NotShown(u32),
    /// It does not.
    Fails,
    /// The value that it needs and that was not measured.
    NotMeasured(String),
}

/// The verdict on an acceptance line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Its name within the experiment, such as `A1`.
    pub id: String,
    /// How directly it follows from the document.
    pub level: Level,
    /// The claim.
    pub claim: String,
    /// Whether it holds.
    pub holds: Claim,
    /// The numbers that decide, in words.
    pub shows: String,
    /// If it does not hold or is not shown: why, as far as known.
    pub reason: Option<String>,
    /// The same in at most five words, for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The verdict from the runs on a kernel that the experiment's folder tells of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_kernel: Option<OnKernel>,
}

impl Verdict {
    /// Whether the runs contradict it or leave it open.
    pub fn is_open(&self) -> bool {
        matches!(self.holds, Claim::NotShown(_) | Claim::Fails)
    }

    /// Whether the verdict from runs on a kernel is the opposite.
    pub fn is_contradicted(&self) -> bool {
        let on_kernel = self.on_kernel.as_ref().map(|kernel| &kernel.holds);
        matches!(
            (&self.holds, on_kernel),
            (Claim::Holds, Some(Claim::Fails)) | (Claim::Fails, Some(Claim::Holds))
        )
    }
}

/// The verdict on an acceptance line from runs on a real kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnKernel {
    /// Whether it holds there.
    pub holds: Claim,
    /// The numbers that decide, in words.
    pub shows: String,
}

/// A value that was fitted to the baseline column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The value that it was fitted to.
    pub to: String,
}

/// A table of the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrintedTable {
    /// Its name.
    pub name: String,
    /// Headings of the columns, that of the keys first.
    pub heads: Vec<String>,
    /// The rows: the key, then the values with the document's digits.
    pub rows: Vec<Vec<String>>,
}

/// An experiment in one row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// The document's statement.
    pub says: String,
    /// Its numbers.
    pub document: String,
    /// The numbers measured here; empty if they were not.
    pub here: String,
    /// Names of the stated lines that this is about.
    pub lines: Vec<String>,
}

/// How an experiment compares with the statements of its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All of it holds.
    Holds,
    /// The headline holds in part, or it holds and something else does not.
    Partly,
    /// Nothing contradicts it, but the intervals of this many runs overlap.
    NotShown(u32),
    /// It does not hold.
    Fails,
    /// None of it was measured.
    NotMeasured,
}

impl Reproduction {
    /// How the experiment compares with the statements of its document, its headline first.
    pub fn standing(&self) -> Standing {
        let measured = |one: &&Verdict| !matches!(one.holds, Claim::NotMeasured(_));
        let stated = self.verdicts.iter().filter(|one| one.level == Level::S);
        let stated: Vec<&Verdict> = stated.filter(measured).collect();
        let named = |verdict: &&&Verdict| {
            let headline = self.headline.as_ref();
            headline.is_some_and(|headline| headline.lines.contains(&verdict.id))
        };
        let mut decisive: Vec<&Verdict> = stated.iter().filter(named).copied().collect();
        if decisive.is_empty() {
            decisive.clone_from(&stated);
        }
        let all_hold = |verdicts: &[&Verdict]| {
            let mut verdicts = verdicts.iter();
            verdicts.all(|verdict| verdict.holds == Claim::Holds)
        };
        let fails = |verdict: &&Verdict| verdict.holds == Claim::Fails;
        let holds = |verdict: &&Verdict| verdict.holds == Claim::Holds;
        if stated.is_empty() {
            Standing::NotMeasured
        } else if all_hold(&stated) {
            Standing::Holds
        } else if all_hold(&decisive) {
            Standing::Partly
        } else if !decisive.iter().any(fails) {
            Standing::NotShown(self.repeats)
        } else if decisive.iter().any(holds) {
            Standing::Partly
        } else {
            Standing::Fails
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // 2.262 is the quantile for nine degrees of freedom; the deviation of 1 to 10 is 3.0277.
        let samples: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = Interval::of(&samples).unwrap();
        assert!((interval.mean - 5.5).abs() < 1e-12);
        assert!((interval.high - interval.mean - 2.2622 * 3.02765 / 10f64.sqrt()).abs() < 1e-3);
        assert!((interval.mean - interval.low - (interval.high - interval.mean)).abs() < 1e-12);
        assert_eq!((interval.min, interval.max, interval.samples), (1.0, 10.0, 10));
    }

    #[test]
    fn a_single_sample_is_its_own_interval_and_none_has_none() {
        let interval = Interval::of(&[3.0]).unwrap();
        assert_eq!((interval.low, interval.high), (3.0, 3.0));
        assert!(Interval::of(&[]).is_none());
    }

    fn with_lines(lines: &[(&str, Level, Claim)]) -> Reproduction {
        Reproduction {
            id: "one".into(),
            title: String::new(),
            document: String::new(),
            section: String::new(),
            kind: Subject::Results,
            world: Where::Simulator,
            machine: String::new(),
            repeats: 20,
            columns: Vec::new(),
            points: Vec::new(),
            axis: String::new(),
            figures: Vec::new(),
            verdicts: lines
                .iter()
                .map(|(id, level, holds)| Verdict {
                    id: (*id).to_owned(),
                    level: *level,
                    claim: String::new(),
                    holds: holds.clone(),
                    shows: String::new(),
                    reason: None,
                    cause: None,
                    on_kernel: None,
                })
                .collect(),
            headline: Some(Headline {
                says: String::new(),
                document: String::new(),
                here: String::new(),
                lines: vec!["A1".into()],
            }),
            fits: Vec::new(),
            printed: Vec::new(),
            notes: Vec::new(),
            kernel: None,
        }
    }

    #[test]
    fn the_headline_decides_and_other_stated_lines_make_it_partly() {
        use Claim::{Fails, Holds, NotMeasured, NotShown};
        let of = |lines: &[_]| with_lines(lines).standing();
        let (s, d) = (Level::S, Level::D);
        assert_eq!(of(&[("A1", s, Holds), ("A2", s, Holds)]), Standing::Holds);
        assert_eq!(of(&[("A1", s, Holds), ("A2", s, Fails)]), Standing::Partly);
        assert_eq!(of(&[("A1", s, Fails), ("A2", s, Holds)]), Standing::Fails);
        assert_eq!(of(&[("A1", s, Holds), ("A2", d, Fails)]), Standing::Holds);
        assert_eq!(of(&[("A1", s, NotShown(20)), ("A2", s, Fails)]), Standing::NotShown(20));
        let mut two = with_lines(&[("A1", s, Holds), ("A2", s, Fails)]);
        let headline = two.headline.as_mut().expect("it has one");
        headline.lines.push("A2".into());
        assert_eq!(two.standing(), Standing::Partly);
        let open = || NotMeasured("no such program".into());
        assert_eq!(of(&[("A1", s, open())]), Standing::NotMeasured);
        assert_eq!(of(&[("A1", s, open()), ("A2", s, Fails)]), Standing::Fails);
    }

    #[test]
    fn few_samples_are_shown_by_the_least_and_the_most() {
        let of = |samples: &[f64]| Interval::of(samples).unwrap().shown();
        assert_eq!(of(&[1.0, 2.0, 6.0]), (1.0, 6.0, false));
        let (low, high, is_interval) = of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(is_interval && low > 1.0 && high < 5.0);
    }

    #[test]
    fn a_single_sample_may_lie_anywhere() {
        assert_eq!(Interval::of(&[1.0]).unwrap().bounds(), (f64::NEG_INFINITY, f64::INFINITY));
    }
}
