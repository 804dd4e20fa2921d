//! Running a plan.

use fairground_report::Comparison;

use crate::cell::{CellResult, Failure, run_cells};
use crate::error::Error;
use crate::plan::Plan;

/// What came of a plan.
pub struct Results {
    /// All runs, in the order of the plan. A run that failed holds what was measured until then, and a note.
    pub comparison: Comparison,
    /// The runs that failed, in the order of the plan.
    pub failures: Vec<Failure>,
}

/// Runs every simulation of the plan, at most as many at a time as it says. `progress` is told after each one how many of how many are
/// done, from any thread.
///
/// # Errors
///
/// If the plan makes no sense, or a trace cannot be written. A run that fails is not an error: see [`Results::failures`].
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
    let mut failures = Vec::new();
    for CellResult { run, failure, .. } in results {
        comparison.runs.extend(run);
        failures.extend(failure);
    }
    Ok(Results {
        comparison,
        failures,
    })
}
