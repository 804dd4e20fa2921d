//! Recordings as workloads.

use std::path::Path;
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_metrics::{MachineFacts, Metrics, RunMetrics};
use fairground_recording::{Chance, KernelWork, Recording, Source};
use fairground_results::{Creator as Past, OtherThread, Turn as Activity};
use fairground_simulator::{CostModel, Creator, Options, Surroundings, Thread, Turn};
use fairground_workload::{Policy, Template, Workload};
use serde::Deserialize;

use crate::error::Error;

/// The longest time in a run on a kernel that is simulated.
const LONGEST: Nanoseconds = 86_400_000_000_000;
/// Maximum number of waits of the process that created the tasks of such a run.
const MOST_WAITS: u64 = 10_000_000;

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
    /// Changes a run's options into those of another time, according to its seed. Seed 0 repeats the recorded times, and what was on a kernel
    /// when a run of a workload began is as it was with every seed.
    pub(crate) fn vary(&self, options: &mut Options) {
        if options.seed == 0 || self.surroundings.creator.is_some() {
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

/// A run on a kernel, as `fairground play --records --format json` prints it, as far as a simulation can begin like it.
#[derive(Deserialize)]
struct KernelRun {
    /// Common start of the threads on the kernel's clock, on which ticks are at multiples of their length.
    #[serde(default)]
    start_ns: Option<Nanoseconds>,
    /// The same on the clock that schedulers see.
    #[serde(default)]
    scheduler_start_ns: Option<Nanoseconds>,
    cpus: u32,
    #[serde(default)]
    creator: Option<Past>,
    #[serde(default)]
    others: Vec<OtherThread>,
}

impl KernelRun {
    /// Checks that a simulation of it would end.
    fn check(&self) -> Result<(), String> {
        let turns = self.others.iter().flat_map(|other| &other.turns);
        let past = self.creator.iter();
        let waits = past.clone().map(|past| past.waits).max().unwrap_or(0);
        let past = past.flat_map(|past| [past.age_ns, past.cpu_time_ns, past.preparation_ns]);
        let longest = turns.flat_map(|Activity(at, length)| [*at, *length]).chain(past).max();
        match longest.filter(|time| *time > LONGEST) {
            Some(time) => {
                Err(format!("it has a time of {time} ns; a day is the longest that is simulated"))
            }
            None if waits > MOST_WAITS => {
                Err(format!("the creator waited {waits} times; at most {MOST_WAITS} are simulated"))
            }
            None => Ok(()),
        }
    }

    fn surroundings(self, tick: Nanoseconds) -> Surroundings {
        let clocks = self.start_ns.zip(self.scheduler_start_ns);
        let threads = self.others.into_iter().map(|other| Thread {
            policy: match other.rt_priority {
                0 => Policy::Other { nice: other.nice, slice: None },
                priority => Policy::Fifo { priority },
            },
            name: other.name,
            kernel: other.kernel,
            cpus: (!other.cpus.is_empty()).then_some(other.cpus),
            group: None,
            turns: other
                .turns
                .iter()
                .map(|&Activity(at, cpu_time)| Turn { at, cpu_time })
                .collect(),
            period: None,
        });
        Surroundings {
            creator: self.creator.map(|past| Creator {
                age: past.age_ns,
                cpu_time: past.cpu_time_ns,
                waits: past.waits,
                preparation: past.preparation_ns,
                begin: clocks.map(|(_, scheduler)| scheduler % 1_000_000_000),
            }),
            threads: threads.collect(),
            // Ticks are at multiples of the tick length on the kernel's clock.
            tick_offset: clocks
                .map_or(0, |(kernel, scheduler)| (scheduler % tick + tick - kernel % tick) % tick),
        }
    }
}

impl Replay {
    /// The surroundings of a run on a kernel with this many ticks per second, in the JSON of `fairground play --records --format json`: the
    /// process that created its threads, and the other threads meanwhile.
    pub fn of_kernel_run(path: &Path, hz: u64) -> Result<Self, Error> {
        let unusable = |message: String| Error::Recording { path: path.to_owned(), message };
        let text = fairground_files::read_text(path).map_err(|cause| {
            let remedy = fairground_files::remedy(&cause);
            unusable(format!("cannot be read: {cause}; {remedy}"))
        })?;
        let run: KernelRun = serde_json::from_str(&text).map_err(|cause| {
            unusable(format!("not the JSON of fairground play --records --format json: {cause}"))
        })?;
        run.check().map_err(unusable)?;
        let cpus = run.cpus;
        Ok(Self {
            surroundings: run.surroundings(1_000_000_000 / hz),
            chance: Chance::default(),
            cpus,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{ "version": 1, "workload": "hogs", "cpus": 2, "start_ns": 9001500000, "scheduler_start_ns": 8990200000,
        "creator": { "age_ns": 500, "cpu_time_ns": 200, "waits": 7, "preparation_ns": 50 },
        "others": [{ "name": "kworker/1:0", "kernel": true, "nice": -20, "rt_priority": 0, "cpus": [1], "turns": [[20, 4], [90, 5]] }] }"#;

    fn read(text: &str) -> Result<Replay, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        std::fs::write(&path, text).expect("a file");
        Replay::of_kernel_run(&path, 250)
    }

    #[test]
    fn surroundings_are_what_a_run_on_a_kernel_tells() {
        let found = read(RUN).expect("sound").surroundings;
        let creator = Creator {
            age: 500,
            cpu_time: 200,
            waits: 7,
            preparation: 50,
            begin: Some(990_200_000),
        };
        assert_eq!(found.creator, Some(creator));
        // The last tick was 1.5 ms before the start, at 8988.7 ms.
        assert_eq!(found.tick_offset, 700_000);
        let thread = Thread {
            name: "kworker/1:0".to_owned(),
            kernel: true,
            policy: Policy::Other { nice: -20, slice: None },
            cpus: Some(vec![1]),
            group: None,
            turns: vec![Turn { at: 20, cpu_time: 4 }, Turn { at: 90, cpu_time: 5 }],
            period: None,
        };
        assert_eq!(found.threads, [thread]);
    }

    #[test]
    fn a_run_whose_simulation_would_not_end_is_refused() {
        let refused =
            |from: &str, to: &str| read(&RUN.replace(from, to)).expect_err(to).to_string();
        assert!(refused("[90, 5]", "[90, 1000000000000000]").contains("a day"));
        assert!(refused("\"waits\": 7", "\"waits\": 70000000").contains("70000000 times"));
        assert!(read("{}").expect_err("nothing in it").to_string().contains("run.json"));
    }
}
