//! The files of an experiment.
//!
//! An experiment is a folder: `experiment.toml`, the rt-app files that it names, `document.toml` with what the document prints, and a
//! README. Machines are files of their own, `machines/<name>.toml` beside the experiments, shared by all of one document. What the
//! keys mean is in `experiments/README.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Name of the file that makes a folder an experiment.
pub(crate) const FILE: &str = "experiment.toml";
/// Name of the file with what the document prints.
pub(crate) const DOCUMENT: &str = "document.toml";

/// `experiment.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExperimentFile {
    /// What it is about.
    pub(crate) title: String,
    /// The document, in short.
    pub(crate) document: String,
    /// Where in the document.
    pub(crate) section: String,
    /// Name of the machine's file.
    pub(crate) machine: String,
    /// Timer ticks a second, if not the machine's.
    pub(crate) hz: Option<u64>,
    /// Costs that differ from those of the machine's file.
    #[serde(default)]
    pub(crate) cost: BTreeMap<String, toml::Value>,
    /// Simulations of each column at each point.
    #[serde(default = "twenty")]
    pub(crate) seeds: u32,
    /// Length of a run in seconds, if not the workload's own.
    pub(crate) duration: Option<f64>,
    /// Length in seconds of the windows in which shares are compared.
    pub(crate) window: Option<f64>,
    /// The rt-app file.
    pub(crate) workload: Option<String>,
    /// Values set in the workload: JSON pointer to value; a text that begins with `=` is an expression.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// What the points are.
    #[serde(default)]
    pub(crate) axis: String,
    /// Whether the metrics keep each task's samples: laps, jobs, windows, stretches.
    #[serde(default)]
    pub(crate) records: bool,
    /// The schedulers.
    pub(crate) column: Vec<ColumnFile>,
    /// The points of the x axis; none is a single one.
    #[serde(default)]
    pub(crate) point: Vec<PointFile>,
    /// What is measured.
    pub(crate) measure: Vec<MeasureFile>,
    /// The acceptance lines.
    #[serde(default)]
    pub(crate) accept: Vec<AcceptFile>,
    /// Values fitted to the baseline column.
    #[serde(default)]
    pub(crate) fit: Vec<FitFile>,
    /// Plots for the page.
    #[serde(default)]
    pub(crate) plot: Vec<PlotFile>,
    /// What limits the result, one sentence each.
    #[serde(default)]
    pub(crate) caveats: Vec<String>,
    /// How it runs on a real kernel, if it can.
    pub(crate) kernel: Option<KernelFile>,
}

fn twenty() -> u32 {
    20
}

/// `[kernel]`: how the experiment runs on a real kernel. What is absent is as in the simulator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelFile {
    /// The CPUs that the machine must have; any number if absent.
    pub(crate) cpus: Option<CpusFile>,
    /// Runs of each column at each point.
    #[serde(default = "five")]
    pub(crate) repeats: u32,
    /// Length of a run in seconds.
    pub(crate) duration: Option<f64>,
    /// Length in seconds of the windows in which shares are compared.
    pub(crate) window: Option<f64>,
    /// The rt-app file.
    pub(crate) workload: Option<String>,
    /// Values set in the workload, after the experiment's.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// What the points are.
    pub(crate) axis: Option<String>,
    /// Names of the experiment's points that run here; all if absent.
    pub(crate) points: Option<Vec<String>>,
    /// Points instead of the experiment's.
    #[serde(default)]
    pub(crate) point: Vec<PointFile>,
    /// A shell script that is run instead of a workload.
    pub(crate) command: Option<String>,
    /// The programs that the script needs, with the Debian packages that have them.
    #[serde(default)]
    pub(crate) programs: BTreeMap<String, String>,
    /// Names of the experiment's measures that are taken here; all if absent, and with a command none.
    pub(crate) measures: Option<Vec<String>>,
    /// Further measures, or others instead of those with the same name.
    #[serde(default)]
    pub(crate) measure: Vec<MeasureFile>,
    /// Names of the experiment's acceptance lines that apply here; all if absent.
    pub(crate) lines: Option<Vec<String>>,
    /// Further acceptance lines.
    #[serde(default)]
    pub(crate) accept: Vec<AcceptFile>,
    /// What limits the result, instead of the experiment's.
    #[serde(default)]
    pub(crate) caveats: Vec<String>,
}

fn five() -> u32 {
    5
}

/// A number of CPUs that a machine must have.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CpusFile {
    /// That many.
    Exactly(usize),
    /// That many or more.
    AtLeast(usize),
}

/// A column: a scheduler with its settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnFile {
    /// Its name; the scheduler's if absent.
    pub(crate) name: Option<String>,
    /// Id of the scheduler.
    pub(crate) scheduler: String,
    /// Its tunables.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// Timer ticks a second, if not the experiment's.
    pub(crate) hz: Option<u64>,
    /// The document's name of the column.
    pub(crate) printed: Option<String>,
}

/// A point of the x axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PointFile {
    /// Its name; a number where the axis is one.
    pub(crate) name: String,
    /// The rt-app file, if not the experiment's.
    pub(crate) workload: Option<String>,
    /// Values set in the workload, after the experiment's.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// Name of the machine's file, if not the experiment's.
    pub(crate) machine: Option<String>,
    /// Length of a run in seconds, if not the experiment's.
    pub(crate) duration: Option<f64>,
}

/// A measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeasureFile {
    /// Its name in expressions.
    pub(crate) name: String,
    /// Its name for people.
    pub(crate) title: String,
    /// Its unit.
    #[serde(default)]
    pub(crate) unit: String,
    /// Digits after the point.
    #[serde(default = "two")]
    pub(crate) decimals: usize,
    /// The expression over one run.
    pub(crate) value: String,
    /// The document's name of it.
    pub(crate) printed: Option<String>,
    /// The points at which it is measured; empty means all.
    #[serde(default)]
    pub(crate) points: Vec<String>,
    /// Only for acceptance lines: not among the figures.
    #[serde(default)]
    pub(crate) hidden: bool,
}

fn two() -> usize {
    2
}

/// An acceptance line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptFile {
    /// Its name within the experiment.
    pub(crate) id: String,
    /// S, D or X.
    pub(crate) level: fairground_results::Level,
    /// What is claimed.
    pub(crate) claim: String,
    /// The expression that is true if it holds.
    pub(crate) holds: String,
    /// The expression of the numbers that decide.
    #[serde(default)]
    pub(crate) shows: String,
    /// Why it does not hold, where that is so.
    pub(crate) reason: Option<String>,
}

/// A fitted value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FitFile {
    /// Its name in expressions.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: f64,
    /// Its unit.
    #[serde(default)]
    pub(crate) unit: String,
    /// What it was fitted to, in words.
    pub(crate) to: String,
    /// How it is found again: the column, point and measure that reach a number of the document.
    pub(crate) target: Option<TargetFile>,
}

/// What a value is fitted to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetFile {
    /// Column of the baseline.
    pub(crate) column: String,
    /// Point.
    #[serde(default)]
    pub(crate) point: String,
    /// Measure.
    pub(crate) measure: String,
    /// The value that it is to have.
    pub(crate) value: f64,
    /// Where the fitted value is looked for.
    pub(crate) range: [f64; 2],
}

/// A plot of the page: how samples of all runs are distributed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotFile {
    /// Its title.
    pub(crate) title: String,
    /// The expression over one run that gives the samples.
    pub(crate) samples: String,
    /// The width of a bin.
    pub(crate) bin: f64,
    /// Name of the x axis.
    #[serde(default)]
    pub(crate) x: String,
}

/// `machines/<name>.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// What it is.
    pub(crate) title: String,
    /// hwloc's synthetic description.
    pub(crate) topology: String,
    /// Timer ticks a second.
    pub(crate) hz: u64,
    /// Clock in MHz, for what documents give in cycles.
    pub(crate) mhz: Option<f64>,
    /// Name of the file of its costs, beside this one; the default model if absent.
    pub(crate) cost: Option<String>,
    /// Where these facts are from.
    pub(crate) origin: String,
}

/// `document.toml`: what the document prints.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct DocumentFile {
    /// The tables.
    #[serde(default)]
    pub(crate) table: Vec<TableFile>,
}

/// A printed table.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TableFile {
    /// Its name.
    pub(crate) name: String,
    /// What the keys are.
    pub(crate) key: String,
    /// The keys.
    pub(crate) keys: Vec<toml::Value>,
    /// Digits after the point by row, where the rows are metrics.
    pub(crate) row_decimals: Option<Vec<usize>>,
    /// The columns.
    pub(crate) column: Vec<TableColumnFile>,
}

/// A printed column.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TableColumnFile {
    /// As printed.
    pub(crate) label: String,
    /// The scheduler that it measures.
    pub(crate) scheduler: Option<String>,
    /// What it measures, where the columns are metrics.
    pub(crate) metric: Option<String>,
    /// Digits after the point.
    pub(crate) decimals: Option<usize>,
    /// One for each key.
    pub(crate) values: Vec<toml::Value>,
}
