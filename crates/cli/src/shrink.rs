//! `fairground compare --shrink`: reduces failures to their smallest form.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fairground_lab::{Failure, Plan, Shrunk};
use fairground_recording::{is_recording, rt_app};
use fairground_results::short_name;

use crate::output::{self, Progress};
use crate::simulation::{Simulation, Single};

/// Maximum number of runs per failure.
const MOST_RUNS: usize = 500;

/// Shrinks each failure, writes its workload into `folder` and prints the command that reproduces it. `failed` holds the numbers of the
/// failed runs and how they failed.
pub fn shrink(
    simulation: &Simulation,
    plan: &Plan,
    failed: &[(usize, Failure)],
    folder: &Path,
) -> Result<(), ExitCode> {
    std::fs::create_dir_all(folder).map_err(|cause| output::unwritten(folder, cause))?;
    for (number, failure) in failed {
        let path = folder.join(file_name(plan, *number, failure));
        match shrink_one(simulation, plan, (*number, failure), &path) {
            Ok(Some((shrunk, command))) => {
                output::write(&path, &shrunk.workload)?;
                tell(&shrunk, failure, &command);
            }
            Ok(None) => crate::output::say!(
                "fairground: {} under {}: it does not fail in a run of its rt-app file alone, so it cannot be shrunk",
                failure.workload,
                failure.scheduler
            ),
            Err(message) => crate::output::say!(
                "fairground: {} cannot be shrunk: {message}",
                failure.workload
            ),
        }
    }
    Ok(())
}

/// The failure in its smallest form, with the command that reproduces it.
fn shrink_one(
    simulation: &Simulation,
    plan: &Plan,
    (number, failure): (usize, &Failure),
    path: &Path,
) -> Result<Option<(Shrunk, String)>, String> {
    let place = number / (plan.contenders.len() * plan.repeats as usize);
    let text = text_of(plan, place, &simulation.workloads[place])?;
    let progress = Progress::new(format!("shrinking {}", failure.workload));
    let file = path.display().to_string();
    let shrunk = plan.shrink(number, failure, (&file, &text), MOST_RUNS, &|runs, most| {
        progress.tell(runs, most);
    });
    progress.clear();
    let Some(shrunk) = shrunk else {
        return Ok(None);
    };
    let contender = &plan.contenders[number / plan.repeats as usize % plan.contenders.len()];
    let repeat = number % plan.repeats as usize;
    let command = simulation.command(&Single {
        workload: path,
        contender,
        machine: &shrunk.machine,
        duration: shrunk.duration,
        seed: plan.seed.wrapping_add(repeat as u64),
    });
    Ok(Some((shrunk, command)))
}

/// A workload as an rt-app file.
fn text_of(plan: &Plan, place: usize, path: &Path) -> Result<String, String> {
    // A pipe cannot be read a second time.
    if !path.is_file() || is_recording(path) {
        return rt_app(&plan.workloads[place]);
    }
    let read = std::fs::read_to_string(path);
    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Name of the file for a run's workload.
fn file_name(plan: &Plan, number: usize, failure: &Failure) -> PathBuf {
    let mut name = format!("{}-{}", failure.workload, short_name(&failure.scheduler));
    if plan.repeats > 1 {
        name.push_str(&format!("-{}", number % plan.repeats as usize));
    }
    let name: String = name
        .chars()
        .map(|one| {
            if one == '/' || one.is_whitespace() {
                '_'
            } else {
                one
            }
        })
        .collect();
    PathBuf::from(name + ".json")
}

fn tell(shrunk: &Shrunk, failure: &Failure, command: &str) {
    let how = match shrunk.is_smallest {
        true => "nothing smaller was found",
        false => "smaller ones may exist",
    };
    let runs = shrunk.runs;
    crate::output::say!(
        "fairground: {} under {}: shrunk in {runs} runs of at most {MOST_RUNS}; {how}. It fails like this:\n  {}\nTo reproduce it:\n  {command}",
        failure.workload,
        failure.scheduler,
        shrunk.failure.message
    );
}
