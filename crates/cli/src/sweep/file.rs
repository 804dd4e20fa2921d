//! The file of a sweep: TOML with axes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fairground_lab::Error;
use fairground_results::{Better, Quantity};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scalar::Scalar;
use crate::settings;
use crate::simulation::MOST_SEED;

/// The contents of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Files, or names of loads, with the values of their parameters.
    pub workloads: Vec<String>,
    /// Descriptions of machines; without any one as for `fairground compare`.
    pub machines: Option<Vec<String>>,
    /// Cost models.
    #[serde(default = "usual_costs")]
    pub costs: Vec<String>,
    /// Timer ticks per second.
    #[serde(default = "usual_rates")]
    pub hz: Vec<Scalar>,
    /// CPUs that go and come: each list is one alternative.
    #[serde(default = "no_changes")]
    pub hotplug: Vec<Vec<String>>,
    /// The seeds of all cells.
    #[serde(default)]
    pub seeds: Seeds,
    /// Length of every run.
    pub duration: Option<String>,
    /// Length of the windows in which shares are compared.
    pub window: Option<String>,
    /// The release of Linux.
    pub kernel: Option<String>,
    /// What else differs from seed to seed, as for `--noise`.
    pub noise: Option<String>,
    /// How long a task may wait.
    pub starved: Option<String>,
    /// The schedulers.
    #[serde(rename = "scheduler")]
    pub schedulers: Vec<SchedulerTable>,
    /// Numbers that sum the results up.
    #[serde(default, rename = "score")]
    pub scores: Vec<Score>,
}

fn usual_costs() -> Vec<String> {
    vec!["default".to_owned()]
}

fn usual_rates() -> Vec<Scalar> {
    vec![Scalar::Whole(fairground_lab::DEFAULT_HZ.cast_signed())]
}

fn no_changes() -> Vec<Vec<String>> {
    vec![Vec::new()]
}

/// Seeds: so many from 0, or from another one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "seeds are a number, such as 20, or { from = 100, count = 20 }")]
pub enum Seeds {
    /// So many, from 0.
    Count(u32),
    /// So many from this one.
    #[serde(deserialize_with = "by_name")]
    From(FirstAndCount),
}

/// A table, not a list of its members' values.
fn by_name<'a, D: Deserializer<'a>>(input: D) -> Result<FirstAndCount, D::Error> {
    let members = toml::Table::deserialize(input)?;
    members.try_into().map_err(D::Error::custom)
}

/// The first seed, and how many there are.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstAndCount {
    #[serde(default)]
    pub from: u64,
    pub count: u32,
}

impl Default for Seeds {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Seeds {
    /// The first, and how many there are.
    pub fn first_and_count(self) -> Result<(u64, u32), Error> {
        let (first, count) = match self {
            Self::Count(count) => (0, count),
            Self::From(FirstAndCount { from, count }) => (from, count),
        };
        let further = count.checked_sub(1);
        let further =
            further.ok_or_else(|| Error::Plan("seeds: there has to be one".to_owned()))?;
        match first.checked_add(further.into()) {
            Some(..=MOST_SEED) => Ok((first, count)),
            _ => Err(Error::Plan(format!("seeds: the last one is above {MOST_SEED}"))),
        }
    }
}

/// A scheduler, with ranges of its settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerTable {
    /// An id, or the path of a source, folder or object.
    pub id: String,
    /// Another name in results.
    pub name: Option<String>,
    /// A companion file, or none.
    pub with: Option<String>,
    /// Folders with headers.
    #[serde(default)]
    pub include: Vec<PathBuf>,
    /// Macros.
    #[serde(default)]
    pub define: Vec<String>,
    /// The settings, with all values that are to be tried. All combinations are.
    #[serde(default)]
    pub set: BTreeMap<String, Values>,
}

/// The values of a setting.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "the values of a setting are one, a list of them, or { from = \"1ms\", to = \"8ms\", steps = 4 }, perhaps with scale = \"log\""
)]
pub enum Values {
    /// One, or a range or list for many, as with `--set`.
    One(Scalar),
    /// Several.
    Many(Vec<Scalar>),
    /// Steps from one to another.
    Steps(Steps),
}

/// Values at equal distances, or with equal ratios.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    from: Scalar,
    to: Scalar,
    steps: u32,
    #[serde(default)]
    scale: Scale,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    #[default]
    Linear,
    Log,
}

impl Values {
    /// The values as texts, as behind `--set`.
    pub fn texts(&self) -> Result<Vec<String>, String> {
        match self {
            Self::One(value) => settings::values(&value.to_string()),
            Self::Many(values) => Ok(values.iter().map(ToString::to_string).collect()),
            Self::Steps(steps) => {
                let ends = [&steps.from, &steps.to].map(ToString::to_string);
                let is_log = matches!(steps.scale, Scale::Log);
                settings::steps(&ends[0], &ends[1], steps.steps, is_log)
            }
        }
    }
}

/// A number that sums the results of a scheduler up.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Its name.
    pub name: String,
    /// The measure, with 'of TASK' that of a task.
    #[serde(serialize_with = "as_text")]
    pub measure: Quantity,
    /// The way in which the numbers of several seeds become one.
    #[serde(default)]
    pub over_seeds: Over,
    /// The direction that is better; `None` for that of the measure.
    #[serde(default)]
    pub goal: Option<Goal>,
}

/// The way in which several numbers become one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    #[default]
    Median,
    Mean,
    Min,
    Max,
}

/// Which numbers are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    Min,
    Max,
}

fn as_text<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(quantity)
}

/// Whether scores can be told apart, and say what is better.
pub fn check_scores(scores: &[Score]) -> Result<(), Error> {
    for (place, score) in scores.iter().enumerate() {
        score.better()?;
        let name = &score.name;
        if scores[..place].iter().any(|other| other.name == *name) {
            return Err(Error::Plan(format!("two scores are called {name}; rename one")));
        }
    }
    Ok(())
}

impl Score {
    /// Which numbers are better.
    pub fn better(&self) -> Result<Better, Error> {
        let goal = self.goal.map(|goal| match goal {
            Goal::Max => Better::Higher,
            Goal::Min => Better::Lower,
        });
        goal.or(self.measure.measure().better).ok_or_else(|| {
            let (name, measure) = (&self.name, &self.measure);
            Error::Plan(format!(
                "score {name}: whether more or less of {measure} is better depends; write goal = \"min\" or goal = \"max\""
            ))
        })
    }
}
