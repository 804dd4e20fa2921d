//! Runs a plan.

use std::io;
use std::sync::OnceLock;

use fairground_events::Nanoseconds;
use fairground_metrics::Explanation;
use fairground_metrics::RunMetrics;
use fairground_results::{Breach, Comparison, Labels, Patience, Run, Status};

use crate::cell::{Failure, run_in_order};
use crate::error::Error;
use crate::explain::{beside_background, why_it_waited};
use crate::parallel;
use crate::plan::{Cells, Kept, Plan};

/// The results of a plan.
pub struct Results {
    /// All runs, in the order of the plan. A failed run has the measures until the failure.
    pub comparison: Comparison,
    /// The runs that failed or starved a task, in the order of the plan.
    pub failures: Vec<Failed>,
    /// The first trace that could not be written to its end, and so is not there.
    pub untraced: Option<Error>,
}

/// A run that failed or starved a task.
pub struct Failed {
    /// Its index among all runs of the plan.
    pub run: usize,
    /// Why it failed.
    pub failure: Failure,
    /// The requirements that it does not meet.
    pub breaches: Vec<Breach>,
    /// Why the task that it is about waited; only for the first of runs that differ in nothing but the seed.
    pub wait: Option<Explanation>,
}

/// Runs every simulation of the plan, at most `threads` at a time. After each one `progress` is called, from any thread, with the number of
/// finished runs and the total.
///
/// # Errors
///
/// If the plan is invalid, or there can be no file for a trace. A failed run is not an error: see [`Results::failures`].
pub fn compare(plan: &Plan, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Results, Error> {
    plan.check()?;
    if let Some((folder, _)) = &plan.traces {
        std::fs::create_dir_all(folder)
            .map_err(|cause| Error::Write { path: folder.clone(), cause })?;
    }
    let cells = Cells::of(plan);
    // The first run of each scheduler under its conditions to end: its repeats share the equal parts with it.
    let rows = plan.run_count() / plan.repeats as usize;
    let firsts: Vec<OnceLock<Run>> = (0..rows).map(|_| OnceLock::new()).collect();
    let results = run_in_order(&cells.longest_first(), plan.threads, progress, |number| {
        let cell = cells.get(number);
        let result = cell.run()?;
        let untraced = result.untraced.and_then(|error| {
            Some(Error::Write { path: cell.trace?, cause: io::Error::from_raw_os_error(error) })
        });
        let mut run = result.run;
        if let (Kept::Shares(most), None) = (plan.kept, &result.failure) {
            run.reduce(cell.options.workload.tasks.len() <= most);
        }
        let first = &firsts[number / plan.repeats as usize];
        run.share(first.get_or_init(|| run.clone()));
        let failed = result.failure.map(|failure| Failed {
            run: number,
            failure,
            breaches: result.breaches,
            wait: None,
        });
        Ok((run, failed.map(Box::new), untraced.map(Box::new)))
    })?;
    let mut comparison = Comparison::default();
    let mut failures = Vec::new();
    let mut untraced = None;
    for (run, failed, lacking) in results {
        comparison.runs.push(run);
        untraced = untraced.or(lacking.map(|error| *error));
        failures.extend(failed.map(|failed| *failed));
    }
    explain_waits(plan, &cells, &comparison, &mut failures)?;
    Ok(Results { comparison, failures, untraced })
}

/// When the wait began that a failure is about, and the task that waited.
fn wait_of(failed: &Failed, patience: Patience, run: &RunMetrics) -> Option<(String, Nanoseconds)> {
    match failed.failure.status {
        Status::Starved => {
            let starvation = patience.exceeded_in(run)?;
            Some((starvation.task, starvation.wait.from_ns))
        }
        Status::Unmet => failed.breaches.iter().find_map(|breach| breach.wait(run)),
        _ => None,
    }
}

/// Runs those simulations again that failed because a task waited, one of each workload, machine and scheduler, and explains the wait.
fn explain_waits(
    plan: &Plan,
    cells: &Cells<&Plan>,
    comparison: &Comparison,
    failures: &mut [Failed],
) -> Result<(), Error> {
    let mut told: Vec<&Labels> = Vec::new();
    let mut places = Vec::new();
    for (place, failed) in failures.iter().enumerate() {
        let labels = &comparison.runs[failed.run].labels;
        let metrics = comparison.runs[failed.run].metrics.as_ref();
        let wait = metrics.and_then(|metrics| wait_of(failed, plan.patience, metrics));
        if let Some(wait) = wait
            && !told.iter().any(|other| labels.is_repeat_of(other))
        {
            told.push(labels);
            places.push((place, failed.run, wait));
        }
    }
    let order: Vec<usize> = (0..places.len()).collect();
    let waits = parallel::map(&order, plan.threads, |index| {
        let (place, run, (task, from_ns)) = &places[index];
        let cell = cells.get(*run);
        let wait = why_it_waited(&cell, task, *from_ns)?;
        let told = match (&wait, failures[*place].failure.status) {
            (Some(wait), Status::Starved) => beside_background(&cell, wait)?,
            _ => None,
        };
        Ok::<_, Error>((wait, told))
    });
    for ((place, ..), told) in places.into_iter().zip(waits) {
        let (wait, told) = told?;
        failures[place].wait = wait;
        failures[place].failure.message.push_str(told.unwrap_or_default());
    }
    Ok(())
}
