//! The data set of a sweep: its files, and their comparison.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::{Comparison, Forms as _, Kept, Run, Style, TaskTables};

use super::open;
use super::plan::{Identity, Sweep, parse};
use crate::VERSION;
use crate::output::{self, DocumentForm};

/// A file with a row for each run, and the one beside it with a row for each task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataFile {
    pub runs: PathBuf,
    pub tasks: PathBuf,
}

impl DataFile {
    /// The cells that it may have, if its name tells: `FIRST-END-UNIQUE.parquet`.
    fn cells(&self, plan: &str) -> Option<Range<usize>> {
        let name = self.runs.file_stem()?.to_str()?;
        let mut words = name.strip_prefix(plan)?.strip_prefix('-')?.split('-');
        let first = words.next()?.parse().ok()?;
        let end = words.next()?.parse().ok()?;
        Some(first..end)
    }
}

pub fn unreadable(path: &Path, cause: &io::Error) -> Error {
    Error::System(format!("{}: cannot be read: {cause}", path.display()))
}

impl Sweep {
    /// The files with results, of those that may have results of these cells.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn files(&self, cells: &Range<usize>) -> Result<Vec<DataFile>, Error> {
        let folder = self.data("runs");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&folder, &error)),
        };
        let tasks = self.data("tasks");
        let mut found = Vec::new();
        for entry in entries {
            let runs = entry.map_err(|error| unreadable(&folder, &error))?.path();
            if runs.extension() != Some(OsStr::new("parquet")) {
                continue;
            }
            let tasks = tasks.join(runs.file_name().unwrap_or_default());
            let file = DataFile { runs, tasks };
            let may_have = |of: Range<usize>| of.start < cells.end && cells.start < of.end;
            if file.cells(&self.planned.mark).is_none_or(may_have) {
                found.push(file);
            }
        }
        found.sort();
        Ok(found)
    }

    /// How the cells ended that have results, among those of a range.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn done(
        &self,
        cells: &Range<usize>,
        mut each: impl FnMut(Identity, &str),
    ) -> Result<(), Error> {
        for file in self.files(cells)? {
            let kept = match fairground_report::kept(&file.runs) {
                Ok(kept) => kept,
                // Packed by another process meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&file.runs, &error)),
            };
            for Kept { cell, status } in kept {
                if let Some(identity) = parse(&cell) {
                    each(identity, &status);
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with the number of each cell that has a result, and its run, once for each; with its tasks if they are wanted.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn runs(&self, with_tasks: bool, mut each: impl FnMut(usize, Run)) -> Result<(), Error> {
        let all = 0..self.len();
        let list = self.numbers(all.clone());
        let mut numbers: HashMap<Identity, usize> =
            list.map_err(|error| unreadable(&self.data("runs"), &error))?;
        for file in self.files(&all)? {
            let tasks = with_tasks.then_some(&*file.tasks);
            let runs = fairground_report::runs_of(&file.runs, tasks);
            let runs = runs.map_err(|error| unreadable(&file.runs, &error))?;
            for run in runs {
                let cell = run.labels.cell.as_deref().and_then(parse);
                if let Some(number) = cell.and_then(|cell| numbers.remove(&cell)) {
                    each(number, run);
                }
            }
        }
        Ok(())
    }
}

/// Print a comparison, from the results that are there
///
/// Each combination of costs, tick rate and hotplug has tables of its own.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep table S
  fairground sweep table S --format csv > S.csv")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = DocumentForm::Table)]
    format: DocumentForm,

    /// Show the tasks' shares even if there are many tasks
    #[arg(long)]
    tasks: bool,
}

/// Runs the subcommand.
///
/// # Errors
///
/// If there is no sweep, or its results cannot be read.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let sweep = open(&arguments.folder)?;
    let mut runs = Vec::new();
    sweep.runs(true, |number, run| runs.push((number, run)))?;
    runs.sort_by_key(|(number, _)| {
        let row = sweep.row(*number);
        let conditions = sweep.planned.conditions.len();
        (row.part % conditions, row.workload, row.machine, *number)
    });
    let left = sweep.len() - runs.len();
    if left > 0 {
        output::say!(
            "fairground: {left} of {} cells have no result yet",
            sweep.len()
        );
    }
    if arguments.format != DocumentForm::Table {
        let comparison = comparison(runs.into_iter().map(|(_, run)| run).collect());
        let text = match arguments.format {
            DocumentForm::Json => comparison.json(),
            DocumentForm::Csv => comparison.csv(),
            _ => comparison.markdown(),
        };
        return Ok(output::print(&text).err().unwrap_or(ExitCode::SUCCESS));
    }
    Ok(print_tables(&sweep, runs, arguments.tasks)
        .err()
        .unwrap_or(ExitCode::SUCCESS))
}

fn comparison(runs: Vec<Run>) -> Comparison {
    Comparison {
        version: VERSION.to_owned(),
        runs,
        differences: Vec::new(),
    }
}

fn print_tables(sweep: &Sweep, runs: Vec<(usize, Run)>, tasks: bool) -> Result<(), ExitCode> {
    let conditions = &sweep.planned.conditions;
    let mut of_conditions: Vec<Vec<Run>> = conditions.iter().map(|_| Vec::new()).collect();
    for (number, run) in runs {
        of_conditions[sweep.row(number).part % conditions.len()].push(run);
    }
    let mut is_first = true;
    for (condition, runs) in conditions.iter().zip(of_conditions) {
        if runs.is_empty() {
            continue;
        }
        if conditions.len() > 1 {
            let changes: Vec<String> = { condition.hotplug.iter() }
                .map(|change| format!(", {change}"))
                .collect();
            let heading = format!(
                "{}costs {}, {} ticks a second{}\n\n",
                if is_first { "" } else { "\n" },
                condition.cost.name,
                condition.hz,
                changes.concat()
            );
            output::print(&heading)?;
            is_first = false;
        }
        let comparison = comparison(runs);
        let colours = output::has_colours();
        let style = Style {
            tasks: match tasks {
                true => TaskTables::Always,
                false => TaskTables::WhenFew,
            },
            colours,
        };
        output::print(&comparison.table(style))?;
        output::print(&comparison.overall_table(colours))?;
    }
    Ok(())
}
