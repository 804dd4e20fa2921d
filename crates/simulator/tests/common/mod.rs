//! The parts that the engine's tests share: schedulers from source, and sinks that check the events that they see.
#![allow(dead_code, missing_docs)]

pub mod random_task;

use std::path::Path;
use std::sync::Arc;

use fairground_catalog::compile_source;
use fairground_events::{Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, LoadError, Options, Outcome, Scheduler, simulate};
use fairground_workload::Workload;

/// A scheduler of the tests' own, from `tests/schedulers/`, with macro definitions put before its source.
pub fn scheduler(name: &str, definitions: &[&str]) -> Arc<Scheduler> {
    Arc::new(load(name, definitions).unwrap())
}

/// The same for one that may be refused.
pub fn load(name: &str, definitions: &[&str]) -> Result<Scheduler, LoadError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schedulers/{name}.bpf.c"));
    let mut text: String =
        definitions.iter().map(|definition| format!("#define {definition}\n")).collect();
    text.push_str(&std::fs::read_to_string(path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.bpf.c"));
    std::fs::write(&file, text).unwrap();
    let compiled = compile_source(&file, &Default::default()).unwrap();
    Scheduler::load(&compiled.object)
}

/// A built-in scheduler.
pub fn built_in(id: &str) -> Arc<Scheduler> {
    let found = fairground_catalog::find(id).unwrap();
    Arc::new(Scheduler::load(&found.object).unwrap())
}

pub fn workload(text: &str) -> Arc<Workload> {
    Arc::new(Workload::parse("test.json", text).unwrap())
}

/// Options without costs.
pub fn free(machine: &str, text: &str) -> Options {
    let mut options = Options::new(Machine::parse(machine).unwrap(), workload(text));
    options.cost = CostModel::zero();
    options
}

pub fn run(scheduler: &Arc<Scheduler>, options: &Options) -> Outcome {
    simulate(scheduler, options, Vec::new()).unwrap()
}

/// Everything that happened, as text.
#[derive(Default)]
pub struct Log(pub Vec<String>);

impl Sink for Log {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.0.push(format!("{time} {task:?} {info:?}"));
    }
    fn event(&mut self, event: &Event) {
        self.0.push(format!("{event:?}"));
    }
    fn finish(&mut self, end: Nanoseconds) {
        self.0.push(format!("end {end}"));
    }
}

/// Checks the invariants of every run: order of time, one CPU per task, affinity, runnable tasks only; sums running time.
#[derive(Default)]
pub struct Referee {
    allowed: Vec<Vec<u32>>,
    running_on: Vec<Option<u32>>,
    since: Vec<Nanoseconds>,
    runnable: Vec<bool>,
    current: Vec<Option<usize>>,
    time: Nanoseconds,
    pub ran: Vec<Nanoseconds>,
    pub switches: u64,
    pub migrations: u64,
    pub overhead: Nanoseconds,
    pub runs: Vec<(usize, Nanoseconds, Nanoseconds)>,
}

impl Sink for Referee {
    fn task(&mut self, _time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let number = task.0 as usize;
        if self.allowed.len() <= number {
            self.allowed.resize(number + 1, Vec::new());
            self.running_on.resize(number + 1, None);
            self.since.resize(number + 1, 0);
            self.runnable.resize(number + 1, false);
            self.ran.resize(number + 1, 0);
        }
        self.allowed[number] = info.allowed.iter().map(|cpu| cpu.0).collect();
    }

    fn event(&mut self, event: &Event) {
        assert!(event.time >= self.time, "time went backwards: {event:?}");
        self.time = event.time;
        match event.kind {
            EventKind::Wake { task, .. } => {
                assert!(!self.runnable[task.0 as usize], "woken twice: {event:?}");
                self.runnable[task.0 as usize] = true;
            }
            EventKind::Sleep { task } | EventKind::Exit { task } => {
                assert!(self.runnable[task.0 as usize], "not awake: {event:?}");
                self.runnable[task.0 as usize] = false;
            }
            EventKind::Migrate { .. } => self.migrations += 1,
            EventKind::Overhead { duration, .. } => self.overhead += duration,
            EventKind::Switch { cpu, prev, next } => {
                let cpu = cpu.0 as usize;
                self.switches += 1;
                if self.current.len() <= cpu {
                    self.current.resize(cpu + 1, None);
                }
                let left = prev.map(|task| task.0 as usize);
                assert_eq!(self.current[cpu], left, "wrong task leaves: {event:?}");
                if let Some(task) = left {
                    assert_eq!(self.running_on[task].take(), Some(cpu as u32));
                    self.ran[task] += event.time - self.since[task];
                    self.runs.push((task, self.since[task], event.time));
                }
                self.current[cpu] = next.map(|task| task.0 as usize);
                if let Some(task) = self.current[cpu] {
                    assert!(self.runnable[task], "runs while it sleeps: {event:?}");
                    assert_eq!(self.running_on[task], None, "on two CPUs: {event:?}");
                    let allowed = &self.allowed[task];
                    assert!(
                        allowed.is_empty() || allowed.contains(&(cpu as u32)),
                        "not allowed there: {event:?}"
                    );
                    self.running_on[task] = Some(cpu as u32);
                    self.since[task] = event.time;
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        for task in 0..self.running_on.len() {
            if self.running_on[task].is_some() {
                self.ran[task] += end - self.since[task];
            }
        }
    }
}

/// Runs with a [`Referee`].
pub fn referee(scheduler: &Arc<Scheduler>, options: &Options) -> (Outcome, Referee) {
    let mut referee = Referee::default();
    let outcome = simulate(scheduler, options, vec![&mut referee]).unwrap();
    for task in &outcome.tasks {
        let ran = referee.ran.get(task.id.0 as usize).copied().unwrap_or(0);
        // The kernel's clock goes from one pass through the scheduler to the next, so a task is charged for overhead as well.
        assert!(
            task.cpu_time.abs_diff(ran) <= referee.overhead,
            "the kernel's account of {} is {}, and it ran for {ran} beside an overhead of {}",
            task.name,
            task.cpu_time,
            referee.overhead
        );
    }
    (outcome, referee)
}
