//! The files of an experiment.
//!
//! An experiment is a folder: `experiment.toml`, the rt-app files that it names, `document.toml` with the document's figures, and a README.
//! Machines have files of their own, `machines/<name>.toml` beside the experiments, shared by all experiments of a document.
//! `experiments/README.md` explains the keys.

use std::collections::BTreeMap;
use std::num::NonZero;

use serde::Deserialize;

/// Name of the file that makes a folder an experiment.
pub(crate) const FILE: &str = "experiment.toml";
/// Name of the file with the document's figures.
pub(crate) const DOCUMENT: &str = "document.toml";

/// `experiment.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExperimentFile {
    /// Its subject.
    pub(crate) title: String,
    /// The document, in short.
    pub(crate) document: String,
    /// Where in the document.
    pub(crate) section: String,
    /// What its stated lines are about.
    #[serde(default)]
    pub(crate) kind: fairground_results::Subject,
    /// Name of the machine's file.
    pub(crate) machine: String,
    /// Timer ticks per second, if not the machine's.
    pub(crate) hz: Option<u64>,
    /// Costs that differ from the machine's file.
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
    /// Values to set in the workload, by JSON pointer; a string that begins with `=` is an expression.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// The quantity that the points stand for.
    #[serde(default)]
    pub(crate) axis: String,
    /// Whether the metrics keep each task's samples: laps, jobs, windows, stretches.
    #[serde(default)]
    pub(crate) records: bool,
    /// The schedulers.
    pub(crate) column: Vec<ColumnFile>,
    /// The points on the x axis; if empty, there is a single one.
    #[serde(default)]
    pub(crate) point: Vec<PointFile>,
    /// The measures.
    pub(crate) measure: Vec<MeasureFile>,
    /// The acceptance lines.
    #[serde(default)]
    pub(crate) accept: Vec<AcceptFile>,
    /// The experiment in one row.
    pub(crate) headline: Option<HeadlineFile>,
    /// Values fitted to the baseline column.
    #[serde(default)]
    pub(crate) fit: Vec<FitFile>,
    /// Plots for the page.
    #[serde(default)]
    pub(crate) plot: Vec<PlotFile>,
    /// Limits of the result, one sentence each.
    #[serde(default)]
    pub(crate) caveats: Vec<String>,
    /// How it runs on a real kernel, if it can.
    pub(crate) kernel: Option<KernelFile>,
}

fn twenty() -> u32 {
    20
}

/// `[kernel]`: how the experiment runs on a real kernel. Absent keys have the same values as in the simulator.
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
    /// Values to set in the workload, after the experiment's.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// The quantity that the points stand for.
    pub(crate) axis: Option<String>,
    /// Names of the experiment's points to run here; all if absent.
    pub(crate) points: Option<Vec<String>>,
    /// Points instead of the experiment's.
    #[serde(default)]
    pub(crate) point: Vec<PointFile>,
    /// A shell script that is run instead of a workload.
    pub(crate) command: Option<String>,
    /// The programs that the script needs, each with its Debian package.
    #[serde(default)]
    pub(crate) programs: BTreeMap<String, String>,
    /// Names of the experiment's measures to take here; if absent, all of them, or none with a command.
    pub(crate) measures: Option<Vec<String>>,
    /// Additional measures; they replace those of the same name.
    #[serde(default)]
    pub(crate) measure: Vec<MeasureFile>,
    /// Names of the experiment's acceptance lines that apply here; all if absent.
    pub(crate) lines: Option<Vec<String>>,
    /// Additional acceptance lines.
    #[serde(default)]
    pub(crate) accept: Vec<AcceptFile>,
    /// Limits of the result, instead of the experiment's.
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
    /// Exactly this many.
    Exactly(usize),
    /// At least this many.
    AtLeast(usize),
}

/// A column: a scheduler with its settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnFile {
    /// Its name; the scheduler's if absent.
    pub(crate) name: Option<String>,
    /// Id of the scheduler.
    pub(crate) scheduler: String,
    /// Its tunables.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// Timer ticks per second, if not the experiment's.
    pub(crate) hz: Option<u64>,
    /// Name of the machine's file, if not the point's: for an explanation by another machine.
    pub(crate) machine: Option<String>,
    /// Values to set in the workload on that machine, after the point's.
    #[serde(default)]
    pub(crate) work: BTreeMap<String, toml::Value>,
    /// The document's name of the column.
    pub(crate) printed: Option<String>,
    /// Simulations of it at each point, if fewer than the experiment's.
    pub(crate) seeds: Option<NonZero<u32>>,
}

/// A point of the x axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PointFile {
    /// Its name; a number if the axis is numeric.
    pub(crate) name: String,
    /// The rt-app file, if not the experiment's.
    pub(crate) workload: Option<String>,
    /// Values to set in the workload, after the experiment's.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// Name of the machine's file, if not the experiment's.
    pub(crate) machine: Option<String>,
    /// Length of a run in seconds, if not the experiment's.
    pub(crate) duration: Option<f64>,
    /// Simulations of each column at it, if fewer than the experiment's.
    pub(crate) seeds: Option<NonZero<u32>>,
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
    /// Digits after the decimal point.
    #[serde(default = "two")]
    pub(crate) decimals: usize,
    /// The expression over one run.
    pub(crate) value: String,
    /// The document's name for it.
    pub(crate) printed: Option<String>,
    /// The document's name of its own figure or table, such as `Figure 2(a)`.
    #[serde(default)]
    pub(crate) label: String,
    /// The column over which it is also shown as a ratio, seed by seed.
    pub(crate) over: Option<String>,
    /// The points at which it is measured; empty means all.
    #[serde(default)]
    pub(crate) points: Vec<String>,
    /// Used in acceptance lines only, and left out of the figures.
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
    /// S, D, X, F or C.
    pub(crate) level: fairground_results::Level,
    /// The claim.
    pub(crate) claim: String,
    /// The expression that is true if it holds.
    pub(crate) holds: String,
    /// The expression for the numbers that decide.
    #[serde(default)]
    pub(crate) shows: String,
    /// Why the line does not hold, if it does not.
    pub(crate) reason: Option<String>,
    /// The same in at most five words, for tables.
    pub(crate) cause: Option<String>,
}

/// `[headline]`: the experiment in one row of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadlineFile {
    /// The document's statement.
    pub(crate) says: String,
    /// Its numbers.
    pub(crate) document: String,
    /// The expression for the numbers measured here.
    pub(crate) here: String,
    /// Names of the stated lines that this is about.
    pub(crate) lines: Vec<String>,
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
    /// The value that it was fitted to, in words, or another origin.
    pub(crate) to: String,
    /// How to find the value again: the column, point and measure that must reach a number from the document.
    pub(crate) target: Option<TargetFile>,
}

/// The target of a fit.
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
    /// The value that the measure must reach.
    pub(crate) value: f64,
    /// The range to search.
    pub(crate) range: [f64; 2],
}

/// A plot for the page: the distribution of the samples of all runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotFile {
    /// Its title.
    pub(crate) title: String,
    /// The document's names of its own figures, by point.
    #[serde(default)]
    pub(crate) labels: Vec<String>,
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
    /// The machine in words.
    pub(crate) title: String,
    /// hwloc's synthetic description.
    pub(crate) topology: String,
    /// Timer ticks per second.
    pub(crate) hz: u64,
    /// Clock rate in MHz, for figures that documents give in cycles.
    pub(crate) mhz: Option<f64>,
    /// Name of the cost file beside this one; the default model if absent.
    pub(crate) cost: Option<String>,
    /// Size of its last-level caches, where tasks with a footprint displace one another.
    pub(crate) cache: Option<CacheFile>,
    /// The source of these facts.
    pub(crate) origin: String,
}

/// The last-level caches of a machine.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheFile {
    /// KiB of each.
    pub(crate) kib: u64,
    /// Nanoseconds to fetch 64 bytes from memory.
    pub(crate) line_ns: u64,
}

/// `document.toml`: the document's figures.
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
    /// The meaning of the keys.
    pub(crate) key: String,
    /// The keys.
    pub(crate) keys: Vec<toml::Value>,
    /// Digits after the decimal point by row, if the rows are metrics.
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
    /// The measure, if the columns are metrics.
    pub(crate) metric: Option<String>,
    /// Digits after the decimal point.
    pub(crate) decimals: Option<usize>,
    /// One value per key.
    pub(crate) values: Vec<toml::Value>,
}
