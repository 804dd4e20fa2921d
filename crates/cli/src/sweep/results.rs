//! The data set of a sweep: its files, and their comparison.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fairground_lab::Error;
use fairground_report::{
    Comparison, Groups, Run, StoredRun, Style, TaskTables, comparison_csv, comparison_markdown,
    comparison_table, overall_table,
};

use super::plan::{Identity, Planned, Sweep, parse};
use crate::VERSION;
use crate::output::{self, DocumentForm, Stop};

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

/// That a file or folder of results cannot be read.
pub fn unreadable(path: &Path, cause: &io::Error) -> Error {
    let is_lost = cause.raw_os_error().is_none() || cause.kind() == io::ErrorKind::NotFound;
    let remedy = match is_lost {
        true => "remove the files of this name in runs and tasks, and run the sweep again",
        false => fairground_files::remedy(cause),
    };
    let path = path.display();
    Error::System(format!("{path}: cannot be read: {cause}; {remedy}"))
}

impl Sweep {
    /// The files with results, of those that may have results of these cells.
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
    pub fn done(
        &self,
        cells: &Range<usize>,
        mut each: impl FnMut(Identity, &str),
    ) -> Result<(), Error> {
        for file in self.files(cells)? {
            let read = fairground_report::kept(&file.runs, |StoredRun { cell, status }| {
                if let Some(identity) = parse(&cell) {
                    each(identity, &status);
                }
            });
            match read {
                // Packed by another process meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read.map_err(|error| unreadable(&file.runs, &error))?,
            }
        }
        Ok(())
    }

    /// Calls `each` with the number of each cell that has a result, and its run, once for each; with its tasks if they are wanted.
    pub fn runs(&self, with_tasks: bool, mut each: impl FnMut(usize, Run)) -> Result<(), Error> {
        let all = 0..self.len();
        let mut numbers: HashMap<Identity, usize> = self.numbers(all.clone())?;
        let workloads = self.workload_names()?;
        for file in self.files(&all)? {
            let tasks = with_tasks.then_some(&*file.tasks);
            let read = fairground_report::runs_of(&file.runs, tasks, |mut run| {
                let cell = run.labels.cell.as_deref().and_then(parse);
                if let Some(number) = cell.and_then(|cell| numbers.remove(&cell)) {
                    self.name_as_planned(&mut run, number, &workloads);
                    each(number, run);
                }
            });
            read.map_err(|(path, error)| unreadable(&path, &error))?;
        }
        Ok(())
    }

    /// Gives a run the names of the plan: a former one may have called the same things otherwise.
    fn name_as_planned(&self, run: &mut Run, number: usize, workloads: &[String]) {
        let row = self.row(number);
        let Planned { schedulers, machines, conditions, .. } = &self.planned;
        let scheduler = &schedulers[row.part / conditions.len()].name;
        let (workload, machine) = (&workloads[row.workload], &machines[row.machine].name);
        let labels = &run.labels;
        if (scheduler, workload, machine) != (&labels.scheduler, &labels.workload, &labels.machine)
        {
            let recipe = run.labels.recipe.make_mut();
            recipe.scheduler.clone_from(scheduler);
            recipe.workload.clone_from(workload);
            recipe.machine.clone_from(machine);
        }
    }
}

/// Print a comparison, from the results that are there
///
/// Each combination of costs, tick rate and hotplug has tables of its own. All results are in memory meanwhile, some 10 KB for each cell. With --by it is
/// one table of medians, a line for each combination of what it names, and any number of cells.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep table S
  fairground sweep table S --by scheduler,sched_latency
  fairground sweep table S --format csv > S.csv")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Form of the result
    #[arg(long, value_parser = forms(), default_value = "table")]
    format: DocumentForm,

    /// Show the tasks' shares even if there are many tasks
    #[arg(long, conflicts_with = "by")]
    tasks: bool,

    /// Medians by these: workload, scheduler, machine, cost, hz, hotplug, seed, and names of settings
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    by: Vec<String>,
}

/// All forms but JSON: the rows of a sweep do not have all that a run of compare has, and so are not its JSON. The files of Parquet have what
/// they have, and `fairground work` all.
fn forms() -> impl TypedValueParser<Value = DocumentForm> {
    let forms = DocumentForm::value_variants().iter().filter(|form| **form != DocumentForm::Json);
    PossibleValuesParser::new(forms.filter_map(ValueEnum::to_possible_value))
        .try_map(|name| DocumentForm::from_str(&name, false))
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let sweep = Sweep::open(&arguments.folder)?;
    if !arguments.by.is_empty() {
        return grouped(&sweep, arguments);
    }
    let mut runs = Vec::new();
    sweep.runs(true, |number, run| runs.push((number, run)))?;
    runs.sort_by_key(|(number, _)| {
        let row = sweep.row(*number);
        (sweep.condition_of(*number), row.workload, row.machine, *number)
    });
    tell_left(&sweep, runs.len());
    if arguments.format != DocumentForm::Table {
        let comparison = comparison(runs.into_iter().map(|(_, run)| run).collect());
        let text = match arguments.format {
            DocumentForm::Csv => comparison_csv(&comparison),
            _ => comparison_markdown(&comparison),
        };
        return output::finish(&text);
    }
    print_tables(&sweep, runs, arguments.tasks).map(|()| ExitCode::SUCCESS)
}

/// Says how many cells have no result yet, if any.
pub(super) fn tell_left(sweep: &Sweep, found: usize) {
    let left = sweep.len() - found;
    if left > 0 {
        output::say!("fairground: {left} of {} cells have no result yet", sweep.len());
    }
}

/// Prints medians of groups of cells.
fn grouped(sweep: &Sweep, arguments: &Arguments) -> Result<ExitCode, Stop> {
    arguments.by.iter().try_for_each(|key| check_key(sweep, key))?;
    let mut groups = Groups::new(arguments.by.clone());
    let (mut found, mut failed, mut noted) = (0, 0, false);
    sweep.runs(false, |number, run| {
        noted |= !run.notes.is_empty();
        failed += usize::from(!run.is_ok());
        let values = arguments.by.iter().map(|key| value_of(key, sweep, number, &run));
        groups.add(values.collect(), number, &run);
        found += 1;
    })?;
    tell_left(sweep, found);
    for (name, what) in mixed(sweep, &arguments.by) {
        output::say!("fairground: medians are over {what}; --by {name} tells them apart");
    }
    if failed > 0 {
        output::say!(
            "fairground: {failed} runs failed; the medians of their lines are over the others, and are not to be compared with those of other lines"
        );
    }
    if noted {
        output::say!("fairground: there are notes on these runs; without --by they are told");
    }
    output::finish(&match arguments.format {
        DocumentForm::Csv => groups.csv(),
        DocumentForm::Markdown => groups.markdown(),
        _ => groups.table(),
    })
}

/// The axes with several values that are not among the keys: their names, and how many of what they have. Seeds are what medians are for.
fn mixed(sweep: &Sweep, by: &[String]) -> Vec<(String, String)> {
    let planned = &sweep.planned;
    // Of a scheduler that is there several times, a setting may have one value each time, or none once.
    let values_of = |name: &str, key: &str| -> BTreeSet<Option<&String>> {
        let of_name = planned.schedulers.iter().filter(|one| one.name == name);
        let values = of_name.flat_map(|one| match one.set.iter().find(|(own, _)| own == key) {
            Some((_, values)) => values.iter().map(Some).collect(),
            None => vec![None],
        });
        values.collect()
    };
    let mut settings: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &planned.schedulers {
        for (key, _) in &one.set {
            let most = settings.entry(key).or_default();
            *most = values_of(&one.name, key).len().max(*most);
        }
    }
    let schedulers: BTreeSet<&String> = planned.schedulers.iter().map(|one| &one.name).collect();
    let conditions = || planned.conditions.iter();
    let costs: BTreeSet<&String> = conditions().map(|one| &one.cost.name).collect();
    let rates: BTreeSet<&String> = conditions().map(|one| &one.hz).collect();
    let hotplug: BTreeSet<&Vec<String>> = conditions().map(|one| &one.hotplug).collect();
    let axes = [
        ("workload", planned.workloads.len(), "workloads"),
        ("machine", planned.machines.len(), "machines"),
        ("scheduler", schedulers.len(), "schedulers"),
        ("cost", costs.len(), "costs"),
        ("hz", rates.len(), "tick rates"),
        ("hotplug", hotplug.len(), "alternatives of hotplug"),
    ];
    let axes = axes.into_iter().map(|(name, count, what)| (name, count, what.to_owned()));
    let settings =
        settings.into_iter().map(|(name, count)| (name, count, format!("values of {name}")));
    axes.chain(settings)
        .filter(|(name, count, _)| *count > 1 && !by.iter().any(|by| by == name))
        .map(|(name, count, what)| (name.to_owned(), format!("{count} {what}")))
        .collect()
}

/// The keys by which cells are grouped, beside the names of settings.
const KEYS: [&str; 7] = ["workload", "scheduler", "machine", "cost", "hz", "hotplug", "seed"];

/// Checks that cells have this key.
fn check_key(sweep: &Sweep, key: &str) -> Result<(), Error> {
    let sets = sweep.planned.schedulers.iter().flat_map(|one| &one.set);
    let settings: BTreeSet<&str> = sets.map(|(key, _)| key.as_str()).collect();
    if KEYS.contains(&key) || settings.contains(key) {
        return Ok(());
    }
    let known = KEYS.into_iter().chain(settings).collect::<Vec<_>>().join(", ");
    Err(Error::Plan(format!("--by {key}: the sweep sets no {key}; there are {known}")))
}

/// What a cell has for a key; empty if its scheduler has no such setting.
fn value_of(key: &str, sweep: &Sweep, cell: usize, run: &Run) -> String {
    let labels = &run.labels;
    let condition = || &sweep.planned.conditions[sweep.condition_of(cell)];
    match key {
        "workload" => labels.workload.clone(),
        "scheduler" => labels.scheduler.clone(),
        "machine" => labels.machine.clone(),
        "cost" => condition().cost.name.clone(),
        "hz" => condition().hz.clone(),
        "hotplug" => condition().hotplug.join(" "),
        "seed" => labels.seed.map_or(String::new(), |seed| seed.to_string()),
        setting => labels.tunables.get(setting).cloned().unwrap_or_default(),
    }
}

fn comparison(runs: Vec<Run>) -> Comparison {
    Comparison { version: VERSION.to_owned(), runs, ..Comparison::default() }
}

fn print_tables(sweep: &Sweep, runs: Vec<(usize, Run)>, tasks: bool) -> Result<(), Stop> {
    let conditions = &sweep.planned.conditions;
    let mut of_conditions: Vec<Vec<Run>> = conditions.iter().map(|_| Vec::new()).collect();
    for (number, run) in runs {
        of_conditions[sweep.condition_of(number)].push(run);
    }
    let mut is_first = true;
    for (condition, runs) in conditions.iter().zip(of_conditions) {
        if runs.is_empty() {
            continue;
        }
        if conditions.len() > 1 {
            let changes: Vec<String> =
                { condition.hotplug.iter() }.map(|change| format!(", {change}")).collect();
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
        let style =
            Style { tasks: if tasks { TaskTables::Always } else { TaskTables::WhenFew }, colours };
        output::print(&comparison_table(&comparison, style))?;
        output::print(&overall_table(&comparison, colours))?;
    }
    Ok(())
}
