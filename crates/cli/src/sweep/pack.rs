//! Makes few files of many.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::{Fault, Pack, Unwritten};

use super::plan::{Identity, Sweep, parse};
use super::results::{DataFile, unreadable};
use crate::output::{self, FAILED, Stop};

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

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let sweep = Sweep::open(&arguments.folder)?;
    let packed = pack(&sweep)?;
    let text = format!(
        "{} files became {}; {} cells were there twice\n",
        packed.before, packed.after, packed.repeated
    );
    for cell in &packed.different {
        output::say!(
            "fairground: cell {cell:032x} has two different results; a machine that ran it, or fairground, made a mistake"
        );
    }
    output::print(&text)?;
    Ok(if packed.different.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The changes.
#[derive(Default)]
struct Packed {
    before: usize,
    after: usize,
    repeated: usize,
    different: Vec<Identity>,
}

fn pack(sweep: &Sweep) -> Result<Packed, Error> {
    let files = sweep.files(&(0..sweep.len()))?;
    let repeated = repeated(&files)?;
    let is_repeated = |cell: &str| parse(cell).is_some_and(|one| repeated.contains(&one));
    let mut packed = Packed { before: files.len(), ..Packed::default() };
    // The first result of each cell that there are several of.
    let mut known: HashMap<Identity, u64> = HashMap::new();
    let mut into: Option<(Pack, u64)> = None;
    for file in &files {
        let (target, size) = match &mut into {
            Some(into) => into,
            None => {
                packed.after += 1;
                into.insert((sweep.new_pack().map_err(unwritten)?, 0))
            }
        };
        let added = target.add(&file.runs, &file.tasks, is_repeated, |cell, result| {
            let other = parse(cell).and_then(|one| known.insert(one, result));
            let Some(other) = other else { return true };
            packed.repeated += 1;
            if other != result {
                packed.different.extend(parse(cell));
            }
            false
        });
        added.map_err(|fault| match fault {
            Fault::Read(path, cause) => unreadable(&path, &cause),
            Fault::Write(path, cause) => Error::Write { path, cause },
        })?;
        *size += size_of(&file.runs) + size_of(&file.tasks);
        if *size >= SIZE
            && let Some((target, _)) = into.take()
        {
            target.finish().map_err(unwritten)?;
        }
    }
    if let Some((target, _)) = into {
        target.finish().map_err(unwritten)?;
    }
    remove(&files).map_err(unwritten)?;
    Ok(packed)
}

fn unwritten((path, cause): Unwritten) -> Error {
    Error::Write { path, cause }
}

/// The cells that have several results.
fn repeated(files: &[DataFile]) -> Result<HashSet<Identity>, Error> {
    let mut all = Vec::new();
    for file in files {
        let read = fairground_report::kept(&file.runs, |one| all.extend(parse(&one.cell)));
        read.map_err(|error| unreadable(&file.runs, &error))?;
    }
    all.sort_unstable();
    Ok(all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect())
}

fn size_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Removes the files that were packed.
fn remove(packed: &[DataFile]) -> Result<(), Unwritten> {
    for path in packed.iter().flat_map(|file| [&file.runs, &file.tasks]) {
        fs::remove_file(path).map_err(|cause| (path.clone(), cause))?;
    }
    Ok(())
}
