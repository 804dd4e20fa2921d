//! Why tasks waited. A simulation is deterministic: one run finds the waits, and a second one, which also reports callbacks and queues, explains them.

use fairground_events::Nanoseconds;
use fairground_metrics::{Explainer, Explanation, LongestWait, LongestWaitFinder};
use fairground_results::{Patience, Waits};
use fairground_workload::Workload;

use crate::cell::{Cell, CellResult, Failure};
use crate::error::Error;
use crate::moments::again;
use crate::parallel;
use crate::plan::{Cells, Plan};

/// Number of task names in a message.
const NAMED_TASKS: usize = 20;

/// Which waits to explain.
#[derive(Clone, Debug)]
pub struct Search {
    /// Number of waits per run, the longest ones.
    pub most: usize,
    /// Minimum length.
    pub at_least: Nanoseconds,
    /// Only waits of the task with this name, or of its instances; `None` for all tasks.
    pub task: Option<String>,
}

/// Explains the waits of every run of the plan, in its order; also returns the failures of runs.
pub fn explain(plan: &Plan, search: &Search) -> Result<(Vec<Waits>, Vec<Failure>), Error> {
    plan.check()?;
    let cells = Cells::of(plan);
    let order: Vec<usize> = (0..plan.run_count()).collect();
    let explained =
        parallel::map(&order, plan.threads, |number| explain_cell(&cells.get(number), search));
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    for one in explained {
        let (waits, failure) = one?;
        runs.extend(waits);
        failures.extend(failure);
    }
    Ok((runs, failures))
}

fn explain_cell(cell: &Cell, search: &Search) -> Result<(Option<Waits>, Option<Failure>), Error> {
    let mut finder = LongestWaitFinder::new(search.most, search.at_least).only(search.task.clone());
    let CellResult { run, failure, .. } = cell.run_with(&mut [&mut finder])?;
    let Some(metrics) = run.metrics.as_deref() else { return Ok((None, failure)) };
    if let Some(task) = search.task.as_ref().filter(|_| !finder.has_seen_it()) {
        return Err(no_such_task(&cell.options.workload, task));
    }
    let waits = explain_waits(cell, &finder.result())?;
    // A run that fails before anything waits has nothing to tell but that.
    if waits.is_empty() && failure.is_some() {
        return Ok((None, failure));
    }
    let mut notes = run.notes.to_vec();
    // Here nothing starves unless that was asked for, but a wait that compare would call so is told with what it would be elsewhere.
    let judged = Cell { patience: Patience::default(), ..cell.clone() };
    let is_starved = |wait: &&Explanation| {
        let task = metrics.tasks.iter().find(|task| task.name == wait.task);
        let starved = task.and_then(|task| judged.patience.exceeded_by(task));
        starved.is_some_and(|starved| starved.wait.from_ns == wait.from_ns)
    };
    let starved = waits.iter().filter(is_starved).max_by_key(|wait| wait.to_ns - wait.from_ns);
    if let Some(wait) = starved {
        let told = beside_background(&judged, wait)?;
        notes.extend(told.map(|told| told.trim_matches(|one| " ()".contains(one)).to_owned()));
    }
    Ok((Some(Waits { labels: run.labels, waits, notes }), failure))
}

/// Runs the cell again and explains these waits.
pub(crate) fn explain_waits(cell: &Cell, waits: &[LongestWait]) -> Result<Vec<Explanation>, Error> {
    let cpus = u32::try_from(cell.options.machine.cpu_count()).unwrap_or(u32::MAX);
    let mut explainer = Explainer::new(cpus, waits);
    let mut detailed = cell.clone();
    detailed.options.details = true;
    again(&detailed, &mut explainer)?;
    let mut explained = explainer.result();
    for wait in &mut explained {
        wait.number_cpus(&cell.options.machine.numbers);
    }
    Ok(explained)
}

/// The course of the wait of `task` that began at `from_ns`.
pub(crate) fn why_it_waited(
    cell: &Cell,
    task: &str,
    from_ns: Nanoseconds,
) -> Result<Option<Explanation>, Error> {
    let wait = LongestWait { task: task.to_owned(), from_ns, to_ns: from_ns };
    Ok(explain_waits(cell, &[wait])?.pop())
}

/// Whether a task starves that waits beside an idle CPU if the kernel's own threads run there, as on any machine, in words; `None` of other waits, and where
/// something else runs already.
pub(crate) fn beside_background(
    cell: &Cell,
    wait: &Explanation,
) -> Result<Option<&'static str>, Error> {
    let half = (wait.to_ns - wait.from_ns) / 2;
    let is_idle = wait.cpus.iter().any(|cpu| cpu.idle_ns > half);
    let Some(cell) = cell.with_background().filter(|_| is_idle) else { return Ok(None) };
    Ok(Some(match cell.run_with(&mut [])?.failure {
        None => " (nothing else runs here: with --noise default no task starves)",
        Some(_) => " (nothing else runs here, and with --noise default it is the same)",
    }))
}

fn no_such_task(workload: &Workload, name: &str) -> Error {
    let names = workload.tasks.iter().map(|task| task.name.as_str());
    let mut names: Vec<&str> = names.take(NAMED_TASKS + 1).collect();
    if names.len() > NAMED_TASKS {
        names[NAMED_TASKS] = "...";
    }
    Error::Plan(format!(
        "no task called {name} ran in {}; its tasks are {}",
        workload.name,
        names.join(", ")
    ))
}
