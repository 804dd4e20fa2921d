//! Recordings as workloads.

use std::path::Path;

use fairground_metrics::{MachineFacts, Metrics, RunMetrics};
use fairground_recording::{KernelWork, Load, Recording, Source};
use fairground_simulator::{CostModel, Surroundings, Thread, Turn};
use fairground_workload::Workload;

use crate::error::Error;

/// Reads an rt-app file or a recording: the workload, and what else runs on the machine, for a simulation with these costs.
///
/// # Errors
///
/// If it cannot be read, or is neither.
pub fn read_workload(path: &Path, cost: &CostModel) -> Result<(Workload, Surroundings), Error> {
    match Source::open(path)? {
        Source::Recording(recording) => load_recording(&recording, cost),
        Source::Other(rest) => {
            let workload = Workload::read_rest(&path.display().to_string(), rest)?;
            Ok((workload, Surroundings::default()))
        }
    }
}

/// Turns a recording into a workload and what else runs on the machine. The tasks' programs leave out what these costs will add, and the recorder's own costs.
///
/// # Errors
///
/// If the recording is empty.
pub fn load_recording(
    recording: &Recording,
    cost: &CostModel,
) -> Result<(Workload, Surroundings), Error> {
    // If no sched_ext scheduler was in charge, the kernel's own was.
    let built_in = recording.header.scheduler.is_none();
    let cost = if built_in { &cost.built_in() } else { cost };
    let load = recording.load_without(KernelWork {
        switch: cost.context_switch + cost.capture_switch,
        waking: cost.wakeup + cost.capture_wakeup,
        call: cost.system_call,
    })?;
    let surroundings = surroundings(&load);
    Ok((load.workload, surroundings))
}

/// The threads of a recording that are not its tasks.
fn surroundings(load: &Load) -> Surroundings {
    let threads = load.others.iter().map(|other| Thread {
        name: other.name.clone(),
        kernel: other.kernel,
        policy: other.policy,
        cpus: other.cpus.clone(),
        turns: other
            .turns
            .iter()
            .map(|turn| Turn {
                at: turn.at,
                cpu_time: turn.cpu_time,
            })
            .collect(),
    });
    Surroundings {
        threads: threads.collect(),
        ..Surroundings::default()
    }
}

/// What was measured about the tasks of a recording while it was made.
pub fn recorded_metrics(recording: &Recording) -> RunMetrics {
    let facts = MachineFacts {
        capacities: vec![1024; recording.header.cpus as usize],
    };
    let mut metrics = Metrics::new(facts, fairground_metrics::Options::default());
    recording.play_back(&mut metrics);
    metrics.result()
}
