//! Makes few files of many.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::{DataFiles, Unwritten};

use super::open;
use super::plan::{Identity, Sweep, parse};
use super::results::DataFile;
use crate::output::{self, FAILED};

/// About how many bytes of small files become one.
const SIZE: u64 = 128 << 20;

/// Make few large files of the many small ones, with one row for each cell
///
/// Nobody may read the data set meanwhile, but others may go on running cells. Cells that were run twice have to have the same result: if they do
/// not, a machine or fairground made a mistake, which is said, and the exit status is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep pack S")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
///
/// If there is no sweep, or something cannot be read or written.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let sweep = open(&arguments.folder)?;
    let packed = pack(&sweep).map_err(|(path, cause)| Error::Write { path, cause })?;
    let text = format!(
        "{} files became {}; {} cells were there twice\n",
        packed.before, packed.after, packed.repeated
    );
    for cell in &packed.different {
        output::say!(
            "fairground: cell {cell:032x} has two different results; a machine that ran it, or fairground, made a mistake"
        );
    }
    let code = match packed.different.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    };
    Ok(output::print(&text).err().unwrap_or(code))
}

/// The changes.
#[derive(Default)]
struct Packed {
    before: usize,
    after: usize,
    repeated: usize,
    different: Vec<Identity>,
}

fn pack(sweep: &Sweep) -> Result<Packed, Unwritten> {
    let files = sweep.files(&(0..sweep.len()));
    let files = files.map_err(|error| (sweep.data("runs"), io::Error::other(error)))?;
    let mut packed = Packed {
        before: files.len(),
        ..Packed::default()
    };
    let mut known: HashMap<Identity, u64> = HashMap::new();
    let mut into: Option<(DataFiles, u64)> = None;
    for file in &files {
        let (target, size) = match &mut into {
            Some(into) => into,
            None => {
                packed.after += 1;
                into.insert((sweep.new_files(&(0..sweep.len()))?, 0))
            }
        };
        fairground_report::pack(target, &file.runs, &file.tasks, |cell, result| {
            let Some(identity) = parse(cell) else {
                return false;
            };
            match known.insert(identity, result) {
                None => true,
                Some(other) => {
                    packed.repeated += 1;
                    if other != result {
                        packed.different.push(identity);
                    }
                    false
                }
            }
        })?;
        *size += size_of(&file.runs) + size_of(&file.tasks);
        if *size >= SIZE
            && let Some((target, _)) = into.take()
        {
            target.finish()?;
        }
    }
    if let Some((target, _)) = into {
        target.finish()?;
    }
    remove(&files).map_err(|error| (sweep.data("runs"), error))?;
    Ok(packed)
}

fn size_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Removes the files that were packed.
fn remove(packed: &[DataFile]) -> io::Result<()> {
    for file in packed {
        fs::remove_file(&file.runs)?;
        fs::remove_file(&file.tasks)?;
    }
    Ok(())
}
