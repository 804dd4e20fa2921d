//! Runs a plan.

use std::io;

use fairground_report::Comparison;

use crate::cell::{Failure, run_cells};
use crate::error::Error;
use crate::plan::Plan;

/// The results of a plan.
pub struct Results {
    /// All runs, in the order of the plan. A failed run has what was measured until the failure, and a note.
    pub comparison: Comparison,
    /// The runs that failed, in the order of the plan.
    pub failures: Vec<Failure>,
    /// Their indices among all runs of the plan.
    pub failed_runs: Vec<usize>,
    /// The first trace that could not be written to its end, and so is not there.
    pub untraced: Option<Error>,
}

/// Runs every simulation of the plan, at most `threads` at a time. After each one `progress` is called, from any thread, with the number of
/// finished runs and the total.
///
/// # Errors
///
/// If the plan is invalid, or there can be no file for a trace. A failed run is not an error: see [`Results::failures`].
pub fn compare(plan: &Plan, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Results, Error> {
    plan.check()?;
    if let Some(folder) = &plan.traces {
        std::fs::create_dir_all(folder).map_err(|cause| Error::Write {
            path: folder.clone(),
            cause,
        })?;
    }
    let cells = plan.cells();
    let results = run_cells(&cells, plan.threads, progress, |_, result| result)?;
    let mut comparison = Comparison::default();
    let (mut failures, mut failed_runs) = (Vec::new(), Vec::new());
    let mut untraced = None;
    for (number, result) in results.into_iter().enumerate() {
        comparison.runs.extend(result.run);
        if let (Some(path), Some(error)) = (&cells[number].trace, result.untraced) {
            untraced.get_or_insert(Error::Write {
                path: path.clone(),
                cause: io::Error::from_raw_os_error(error),
            });
        }
        if let Some(failure) = result.failure {
            failures.push(failure);
            failed_runs.push(number);
        }
    }
    Ok(Results {
        comparison,
        failures,
        failed_runs,
        untraced,
    })
}
