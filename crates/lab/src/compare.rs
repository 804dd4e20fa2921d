//! Runs a plan.

use std::io;
use std::sync::OnceLock;

use fairground_events::Nanoseconds;
use fairground_metrics::Explanation;
use fairground_metrics::RunMetrics;
use fairground_results::{Breach, Comparison, Labels, Lack, Patience, Run, Status};

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
    /// Requirements that finished runs neither meet nor break: the run's index, the requirement, and why.
    pub undecided: Vec<(usize, String, Lack)>,
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
        let finished = matches!(run.status, Status::Ok | Status::Starved | Status::Unmet);
        let undecided = result.undecided.into_iter().filter(|_| finished);
        let undecided: Vec<_> = undecided.map(|(text, lack)| (number, text, lack)).collect();
        Ok((run, failed.map(Box::new), undecided, untraced.map(Box::new)))
    })?;
    let mut comparison = Comparison::default();
    let mut failures = Vec::new();
    let mut untraced = None;
    let mut undecided = Vec::new();
    for (run, failed, doubts, lacking) in results {
        undecided.extend(doubts);
        comparison.runs.push(run);
        untraced = untraced.or(lacking.map(|error| *error));
        failures.extend(failed.map(|failed| *failed));
    }
    explain_waits(plan, &cells, &comparison, &mut failures)?;
    Ok(Results { comparison, failures, undecided, untraced })
}

impl Results {
    /// Adds the results of a plan that differs from this one's, of so many repeats, in its seeds: those of the next repeats.
    pub fn extend(&mut self, repeats: u32, more: Self, more_repeats: u32) {
        let (own, others) = (repeats as usize, more_repeats as usize);
        let place =
            |run: usize, of: usize, from: usize| run / of * (own + others) + from + run % of;
        let mut theirs = more.comparison.runs.into_iter();
        let mut runs = Vec::new();
        for (number, run) in std::mem::take(&mut self.comparison.runs).into_iter().enumerate() {
            runs.push(run);
            if (number + 1) % own == 0 {
                runs.extend(theirs.by_ref().take(others).map(|mut run| {
                    run.labels.repeat += repeats;
                    run
                }));
            }
        }
        self.comparison.runs = runs;
        self.failures.iter_mut().for_each(|one| one.run = place(one.run, own, 0));
        self.undecided.iter_mut().for_each(|one| one.0 = place(one.0, own, 0));
        self.failures.extend(more.failures.into_iter().map(|mut one| {
            one.run = place(one.run, others, own);
            one
        }));
        self.undecided.extend(
            more.undecided
                .into_iter()
                .map(|(run, text, lack)| (place(run, others, own), text, lack)),
        );
        self.failures.sort_by_key(|one| one.run);
        self.undecided.sort_by_key(|one| one.0);
        self.untraced = self.untraced.take().or(more.untraced);
    }
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
