//! Recordings as workloads.

use std::path::Path;
use std::sync::Arc;

use fairground_metrics::{MachineFacts, Metrics, RunMetrics};
use fairground_recording::{Chance, KernelWork, Recording, Source};
use fairground_simulator::{CostModel, Options, Surroundings, Thread, Turn};
use fairground_workload::{Template, Workload};

use crate::error::Error;

/// The parts of a recording's replay beside its tasks.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The machine's other threads.
    pub surroundings: Surroundings,
    /// The times that may be different another time.
    pub chance: Chance,
    /// CPUs of the machine.
    pub cpus: u32,
}

impl Replay {
    /// Changes a run's options into those of another time, according to its seed. Seed 0 repeats the recorded times.
    pub(crate) fn vary(&self, options: &mut Options) {
        if options.seed == 0 {
            return;
        }
        self.chance.vary(Arc::make_mut(&mut options.workload), options.seed);
        for (number, thread) in options.surroundings.threads.iter_mut().enumerate() {
            let mut turns: Vec<_> = thread.turns.iter().map(recorded_turn).collect();
            Chance::vary_turns(&mut turns, number, options.seed);
            thread.turns = turns.iter().map(simulated_turn).collect();
        }
    }
}

/// The load in a file.
#[derive(Debug)]
pub enum Load {
    /// An rt-app file, which may depend on the machine.
    File(Template),
    /// The workload that a recording stands for, and the other parts of its replay.
    Recording(Arc<Workload>, Arc<Replay>),
}

/// Reads an rt-app file or a recording, for a simulation with these costs.
///
/// # Errors
///
/// If it cannot be read, or is neither.
pub fn read_load(path: &Path, cost: &CostModel) -> Result<Load, Error> {
    match Source::open(path)? {
        Source::Recording(recording) => {
            let (workload, replay) = load_recording(&recording, cost)?;
            Ok(Load::Recording(Arc::new(workload), Arc::new(replay)))
        }
        Source::Other(rest) => {
            Ok(Load::File(Template::read_rest(&path.display().to_string(), rest)?))
        }
    }
}

/// Turns a recording into a workload and the other parts of its replay. The tasks' programs leave out the time that these costs will add, and the recorder's.
///
/// # Errors
///
/// If the recording is empty.
pub fn load_recording(
    recording: &Recording,
    cost: &CostModel,
) -> Result<(Workload, Replay), Error> {
    // If no sched_ext scheduler was in charge, the kernel's own was.
    let built_in = recording.header.scheduler.is_none();
    let cost = if built_in { &cost.built_in() } else { cost };
    let load = recording.load_without(KernelWork {
        switch: cost.context_switch + cost.capture_switch,
        waking: cost.wakeup + cost.capture_wakeup,
        call: cost.system_call,
    })?;
    let replay = Replay { surroundings: surroundings(&load), cpus: load.cpus, chance: load.chance };
    Ok((load.workload, replay))
}

fn simulated_turn(turn: &fairground_recording::Turn) -> Turn {
    Turn { at: turn.at, cpu_time: turn.cpu_time }
}

fn recorded_turn(turn: &Turn) -> fairground_recording::Turn {
    fairground_recording::Turn { at: turn.at, cpu_time: turn.cpu_time }
}

/// The threads of a recording that are not its tasks.
fn surroundings(load: &fairground_recording::Load) -> Surroundings {
    let threads = load.others.iter().map(|other| Thread {
        name: other.name.clone(),
        kernel: other.kernel,
        policy: other.policy,
        cpus: other.cpus.clone(),
        group: other.group.clone(),
        turns: other.turns.iter().map(simulated_turn).collect(),
        period: None,
    });
    Surroundings { threads: threads.collect(), ..Surroundings::default() }
}

/// Measures of the tasks of a recording while it was made.
pub fn recorded_metrics(recording: &Recording) -> RunMetrics {
    let facts = MachineFacts { capacities: vec![1024; recording.header.cpus as usize] };
    let mut metrics = Metrics::new(facts, fairground_metrics::Options::default());
    recording.play_back(&mut metrics);
    metrics.result()
}
