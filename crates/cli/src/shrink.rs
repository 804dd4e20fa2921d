//! `fairground compare --shrink`: reduces failures to their smallest form.

use std::path::Path;

use fairground_lab::{Failure, Plan, Results, Shrunk};
use fairground_recording::{is_recording, rt_app};
use fairground_workload::Workload;

use crate::finding::judging;
use crate::loads::Wanted;
use crate::output::{self, Progress, Stop};
use crate::simulation::{Simulation, Single};

/// Maximum number of runs per failure.
const MOST_RUNS: usize = 500;

/// Shrinks each failure, writes its workload into `folder` and prints the command that reproduces it.
pub fn shrink(
    simulation: &Simulation,
    plan: &Plan,
    results: &Results,
    folder: &Path,
) -> Result<(), Stop> {
    std::fs::create_dir_all(folder).map_err(|cause| output::unwritten(folder, cause))?;
    if results.failures.is_empty() {
        crate::output::say!(
            "fairground: nothing failed and no task was starved, so there is nothing to shrink"
        );
    }
    for failed in &results.failures {
        let failure = &failed.failure;
        if failure.status.never_began() {
            crate::output::say!(
                "fairground: {} never began, so it cannot be shrunk",
                failure.place()
            );
            continue;
        }
        let path = folder.join(plan.file_name(plan.place(failed.run)) + ".json");
        match shrink_one(simulation, plan, (failed.run, failure), &path, MOST_RUNS) {
            Ok(Some((shrunk, command))) => {
                output::write(&path, &shrunk.workload)?;
                tell(&shrunk, failure, &format!("{command}{}", judging(plan)));
            }
            Ok(None) => crate::output::say!(
                "fairground: {}: it does not fail in a run of its rt-app file alone, so it cannot be shrunk",
                failure.place()
            ),
            Err(message) => {
                crate::output::say!("fairground: {} cannot be shrunk: {message}", failure.workload)
            }
        }
    }
    Ok(())
}

/// The failure of the run with this number in the smallest form found in `most` runs, to be written to `path`, with the command that reproduces
/// it; `None` if its rt-app file alone does not show it.
pub fn shrink_one(
    simulation: &Simulation,
    plan: &Plan,
    (run, failure): (usize, &Failure),
    path: &Path,
    most: usize,
) -> Result<Option<(Shrunk, String)>, String> {
    let place = plan.place(run);
    let workload = &simulation.workloads[place.workload];
    let cpus = plan.sites[place.site].machine.cpu_count() as u32;
    let text = text_of(plan.workload(place), workload, cpus)?;
    let progress = Progress::new(format!("shrinking {}", failure.workload));
    let file = path.display().to_string();
    let shrunk = plan.shrink(run, failure, (&file, &text), most, &|runs, most| {
        progress.tell(runs, most);
    });
    progress.clear();
    let Some(shrunk) = shrunk else { return Ok(None) };
    let command = simulation.command(&Single {
        command: "compare",
        workload: path,
        contender: plan.contender(place),
        machine: &shrunk.machine,
        duration: Some(shrunk.duration),
        seed: plan.settings.seed.wrapping_add(u64::from(place.repeat)),
    });
    Ok(Some((shrunk, command)))
}

/// A workload as an rt-app file, for a machine with this many CPUs.
fn text_of(workload: &Workload, written: &Path, cpus: u32) -> Result<String, String> {
    let wanted = Wanted::parse(written)?;
    // A pipe cannot be read a second time.
    let is_pipe = wanted.named().is_none() && !wanted.path.is_file();
    if is_pipe || is_recording(wanted.path) {
        return rt_app(workload);
    }
    file_text(&wanted, cpus)
}

/// A file or named load as an rt-app file without parameters, for a machine with this many CPUs.
pub fn file_text(wanted: &Wanted, cpus: u32) -> Result<String, String> {
    let template = wanted.template().map_err(|error| error.to_string())?;
    Ok(template.fill(&wanted.arguments(cpus)).map_err(|error| error.to_string())?.text())
}

fn tell(shrunk: &Shrunk, failure: &Failure, command: &str) {
    let how = match shrunk.is_smallest {
        true => "nothing smaller was found",
        false => "smaller ones may exist",
    };
    let runs = shrunk.runs;
    crate::output::say!(
        "fairground: {}: shrunk in {runs} runs of at most {MOST_RUNS}; {how}. It fails like this:\n  {}\nTo reproduce it:\n  {command}",
        failure.place(),
        shrunk.failure.message
    );
}
