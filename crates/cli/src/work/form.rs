//! The lines that come in and go out.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;

use fairground_lab::CellResult;
use fairground_report::{Document, Run};
use schemars::JsonSchema;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::VERSION;
use crate::scalar::Scalar;
use crate::sweep::Progress;

/// A cell for `fairground work`: one simulation, in the words of the options of `fairground compare`. Only workload and scheduler have to be
/// there.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Cell")]
pub struct Request {
    /// The name by which the answer is to be told; any value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub id: Value,
    /// A file, or the name of a load, with the values of its parameters: `schbench:threads=16`.
    pub workload: String,
    /// An id, or the path of a source, folder or object; `exec:LOADER ARGUMENTS` for a loader.
    pub scheduler: String,
    /// Another name for the scheduler in the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The scheduler's settings, as by `--set`: tunables, or settings of its loader. Times have a unit and are texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
    pub set: BTreeMap<String, Scalar>,
    /// The companion file that describes the scheduler's loader, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// Folders with headers for sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<PathBuf>,
    /// Macros for sources: `NAME` or `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub define: Vec<String>,
    /// A number of CPUs, an hwloc synthetic description or XML file, or host; without it as many CPUs as a recording had, otherwise 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Costs of scheduling: default, zero, or a TOML file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Timer ticks per second, or native; 250 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<Scalar>,
    /// The release of Linux, such as 6.18; the newest without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Load by the kernel's own threads: none, or default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<String>,
    /// CPUs that go and come: `2:off@3s`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hotplug: Vec<String>,
    /// Length, such as 500ms, instead of the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Length of the windows in which shares are compared; 3s without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How long a task may wait before the run counts as starved, or off, as for `--starved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved: Option<String>,
    /// Seed of all random choices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u64,
    /// A run on a kernel, as `fairground play --records --format json` prints it: the process that created its threads and the other threads of
    /// the machine are simulated, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<PathBuf>,
    /// Whether the answer is to have the member `charged_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub charged: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Document for Request {
    const COMMAND: &'static str = "work-cell";
    const VERSION: u32 = 1;
}

/// A shard of a sweep for `fairground work`: those of its cells that have no result are run, and the results written into the sweep's folder.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Shard")]
pub struct ShardRequest {
    /// What the answer is to be told by; any value.
    #[serde(default)]
    pub id: Value,
    /// The folder of the sweep.
    pub sweep: PathBuf,
    /// Which of how many shards, from 0, as for `fairground sweep run`: `3/64`.
    pub shard: String,
    /// Cells at once; 1 without it.
    #[serde(default = "one")]
    pub threads: NonZero<usize>,
    /// Begin no cell after this time, such as 55m.
    #[serde(default)]
    pub until: Option<String>,
}

fn one() -> NonZero<usize> {
    NonZero::<usize>::MIN
}

impl Document for ShardRequest {
    const COMMAND: &'static str = "work-shard";
    const VERSION: u32 = 1;
}

/// Settings, none of them twice.
fn each_once<'a, D: Deserializer<'a>>(input: D) -> Result<BTreeMap<String, Scalar>, D::Error> {
    struct Settings;

    impl<'a> Visitor<'a> for Settings {
        type Value = BTreeMap<String, Scalar>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object of settings")
        }

        fn visit_map<M: MapAccess<'a>>(self, mut members: M) -> Result<Self::Value, M::Error> {
            let mut settings = BTreeMap::new();
            while let Some((name, value)) = members.next_entry::<String, Scalar>()? {
                if settings.contains_key(&name) {
                    return Err(M::Error::custom(format_args!("duplicate setting `{name}`")));
                }
                settings.insert(name, value);
            }
            Ok(settings)
        }
    }

    input.deserialize_map(Settings)
}

/// What a line asks for.
pub enum Wanted {
    /// One cell.
    Cell(Box<Request>),
    /// A shard of a sweep.
    Shard(ShardRequest),
}

impl Wanted {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// The id, null if the line has none, and a message with the column.
    pub fn parse(line: &str) -> Result<Self, (Value, String)> {
        let told = |what: &str, error: serde_json::Error| format!("this is no {what}: {error}");
        // Its reader takes a list of a structure's members for one, too.
        if !line.trim_start().starts_with('{') {
            return Err((Value::Null, "this is no cell: an object is expected".into()));
        }
        let marks: Marks =
            serde_json::from_str(line).map_err(|error| (Value::Null, told("cell", error)))?;
        match marks.sweep {
            None => match serde_json::from_str(line) {
                Ok(request) => Ok(Self::Cell(Box::new(request))),
                Err(error) => Err((marks.id, told("cell", error))),
            },
            Some(_) => match serde_json::from_str(line) {
                Ok(request) => Ok(Self::Shard(request)),
                Err(error) => Err((marks.id, told("shard", error))),
            },
        }
    }
}

/// What tells lines apart.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Marks {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    sweep: Option<IgnoredAny>,
}

/// The line that `fairground work` prints for a cell.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Result of a cell")]
pub struct Answer {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// The id that came with the cell.
    id: Value,
    /// The run, however it ended; `None` if the cell could not be understood, or names things that are not there, and for a shard.
    run: Option<Run>,
    /// CPU time of each task as a kernel accounts it, with the overhead on its CPU, if the cell asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    charged_ns: Option<BTreeMap<String, u64>>,
    /// For a shard: how far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// Why there is no run, and the remedy.
    error: Option<String>,
}

impl Document for Answer {
    const COMMAND: &'static str = "work";
    const VERSION: u32 = 1;
}

impl Answer {
    pub fn result(id: Value, result: CellResult, charged: bool) -> Self {
        let charged_ns = charged.then(|| result.charged.into_iter().collect());
        Self { run: Some(result.run), charged_ns, ..Self::of(id) }
    }

    pub fn progress(id: Value, progress: Progress) -> Self {
        Self { progress: Some(progress), ..Self::of(id) }
    }

    pub fn refusal(id: Value, message: String) -> Self {
        Self { error: Some(message), ..Self::of(id) }
    }

    fn of(id: Value) -> Self {
        Self {
            version: Self::VERSION,
            fairground: VERSION,
            id,
            run: None,
            charged_ns: None,
            progress: None,
            error: None,
        }
    }

    /// The answer as a line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("all keys are texts and all numbers finite")
    }
}
