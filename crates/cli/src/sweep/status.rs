//! How far a sweep is.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::Document;
use schemars::JsonSchema;
use serde::Serialize;

use super::Shard;
use super::plan::{Identity, Sweep};
use crate::VERSION;
use crate::output::{self, FAILED, Form, Stop};

/// Say which cells are done, how they ended, and which are left
///
/// The exit status is 0 if every cell has a result, however it ended, and otherwise 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep status S
  fairground sweep status S --format json")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Look at one shard only, such as 3/64
    #[arg(long, value_name = "NUMBER/COUNT")]
    shard: Option<Shard>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
}

/// The document that `fairground sweep status --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Progress of a sweep")]
pub struct Progress {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// Number of cells.
    cells: usize,
    /// Those that have a result.
    done: usize,
    /// The others.
    left: usize,
    /// How many of those with a result ended how.
    statuses: BTreeMap<String, usize>,
    /// Number of files with a row for each run.
    files: usize,
    /// Size of all files with results, in bytes.
    bytes: u64,
}

impl Document for Progress {
    const COMMAND: &'static str = "sweep-status";
    const VERSION: u32 = 1;
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let sweep = Sweep::open(&arguments.folder)?;
    let progress = progress(&sweep, arguments.shard)?;
    output::print(&match arguments.format {
        Form::Json => progress.text(),
        Form::Table => told(&progress),
    })?;
    Ok(match progress.left {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

/// How far the cells of a shard are; without one, all of them.
pub fn progress(sweep: &Sweep, shard: Option<Shard>) -> Result<Progress, Error> {
    let cells = sweep.cells_of(shard);
    let mut names: Vec<String> = Vec::new();
    let mut ended: HashMap<Identity, u8> = HashMap::new();
    sweep.done(&cells, |identity, status| {
        let place = names.iter().position(|name| name == status);
        let place = place.unwrap_or_else(|| {
            names.push(status.to_owned());
            names.len() - 1
        });
        ended.insert(identity, place as u8);
    })?;
    let mut counts = vec![0; names.len()];
    for identity in sweep.identities(cells.clone())? {
        if let Some(place) = ended.get(&identity) {
            counts[usize::from(*place)] += 1;
        }
    }
    let done = counts.iter().sum();
    let files = sweep.files(&cells)?;
    let sizes = files.iter().flat_map(|file| [&file.runs, &file.tasks]);
    let sizes = sizes.filter_map(|path| Some(path.metadata().ok()?.len()));
    let counted = names.into_iter().zip(counts);
    Ok(Progress {
        version: Progress::VERSION,
        fairground: VERSION,
        cells: cells.len(),
        done,
        left: cells.len() - done,
        statuses: counted.filter(|(_, count)| *count > 0).collect(),
        bytes: sizes.sum(),
        files: files.len(),
    })
}

fn told(progress: &Progress) -> String {
    let Progress { cells, done, left, statuses, files, bytes, .. } = progress;
    let statuses: Vec<String> =
        { statuses.iter() }.map(|(status, count)| format!("  {status:10}  {count}\n")).collect();
    format!(
        "{cells} cells: {done} done, {left} left\n{}Files with runs: {files}, with those of tasks {:.1} MB\n",
        statuses.concat(),
        *bytes as f64 / 1e6
    )
}
