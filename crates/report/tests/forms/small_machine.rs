//! Runs to show: a machine that gives each CPU to its waiting tasks in turn, for a slice each.

use fairground_events::{CpuId, Event, EventKind, OverheadKind, Sink, TaskId, TaskInfo};
use fairground_metrics::{MachineFacts, Metrics, Options, RunMetrics};
use fairground_report::{Comparison, Labels, Run};
use fairground_results::{CpuChange, Failure, Hashes, Recipe, Shared, Status};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const MS: u64 = 1_000_000;

fn wake(task: TaskId, cpu: CpuId) -> EventKind {
    let waker = None;
    EventKind::Wake { task, cpu, waker }
}

fn switch(cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) -> EventKind {
    EventKind::Switch { cpu, prev, next }
}

/// Digits that differ from run to run.
fn cell(workload: &str, scheduler: &str, cpus: u32, seed: u64) -> String {
    let mut hasher = DefaultHasher::new();
    (workload, scheduler, cpus, seed).hash(&mut hasher);
    format!("{:032x}", hasher.finish())
}

fn labels(workload: &str, scheduler: &str, cpus: u32, seed: u64) -> Labels {
    let recipe = Recipe {
        workload: workload.to_owned(),
        scheduler: scheduler.to_owned(),
        reference: None,
        machine: cpus.to_string(),
        cost_model: Some("default".to_owned()),
        tunables: Default::default(),
        numbers: Default::default(),
        hz: Some(250),
        duration_ns: Some(10_000 * MS),
        noise: Some("none".to_owned()),
        hotplug: Vec::new(),
        hashes: Some(Hashes {
            scheduler: Some("5c".repeat(32)),
            companion: None,
            workload: "01".repeat(32),
            machine: "3a".repeat(32),
            costs: "c0".repeat(32),
        }),
    };
    Labels {
        recipe: recipe.into(),
        seed: Some(seed),
        repeat: seed as u32,
        cell: Some(cell(workload, scheduler, cpus, seed)),
    }
}

/// The part of a run that it has in common with its repeats.
pub fn recipe(run: &mut Run) -> &mut Recipe {
    run.labels.recipe.make_mut()
}

/// Runs `hogs` hogs for 10 s on `cpus` CPUs; hog n stays on CPU n modulo `cpus`. With `beats`, each CPU also has a task that
/// wants 2 ms every 20 ms.
pub fn run(
    workload: &str,
    scheduler: &str,
    slice_ms: u64,
    hogs: u32,
    cpus: u32,
    beats: bool,
    seed: u64,
) -> Run {
    let mut metrics = Metrics::new(MachineFacts::equal(cpus as usize), Options::default());
    let mut number = 0;
    let mut tell = |metrics: &mut Metrics, name: String, nice: i32| {
        let info = TaskInfo { nice, ..TaskInfo::named(name) };
        metrics.task(0, TaskId(number), &info);
        number += 1;
        TaskId(number - 1)
    };
    let mut queues: Vec<VecDeque<TaskId>> = vec![VecDeque::new(); cpus as usize];
    for hog in 0..hogs {
        let task = tell(&mut metrics, format!("hog-{hog}"), 0);
        queues[(hog % cpus) as usize].push_back(task);
    }
    let beat_tasks: Vec<TaskId> = (0..if beats { cpus } else { 0 })
        .map(|cpu| tell(&mut metrics, format!("beat-{cpu}"), -5))
        .collect();
    let mut event = |time: u64, kind| metrics.event(&Event { time, kind });
    for (cpu, queue) in queues.iter().enumerate() {
        for &task in queue {
            event(0, wake(task, CpuId(cpu as u32)));
        }
    }
    let mut running: Vec<Option<TaskId>> = vec![None; cpus as usize];
    let mut left: Vec<u64> = vec![0; cpus as usize];
    let mut released: Vec<u64> = vec![0; cpus as usize];
    let mut needs: Vec<u64> = vec![0; cpus as usize];
    for ms in 0..10_000 + seed {
        let time = ms * MS;
        for cpu in 0..cpus as usize {
            let id = CpuId(cpu as u32);
            if let (Some(&beat), 0) = (beat_tasks.get(cpu), ms % 20) {
                if needs[cpu] == 0 {
                    needs[cpu] = 2;
                    released[cpu] = time;
                    event(time, wake(beat, id));
                    event(
                        time,
                        EventKind::JobRelease { task: beat, due: time, deadline: time + 20 * MS },
                    );
                    queues[cpu].push_back(beat);
                }
            }
            if let Some(task) = running[cpu] {
                left[cpu] -= 1;
                if beat_tasks.contains(&task) {
                    needs[cpu] -= 1;
                    if needs[cpu] == 0 {
                        let deadline = released[cpu] + 20 * MS;
                        event(time, EventKind::JobComplete { task, deadline });
                        event(time, EventKind::Sleep { task });
                        event(time, switch(id, Some(task), None));
                        running[cpu] = None;
                    }
                }
            }
            if running[cpu].is_none() || left[cpu] == 0 {
                if let Some(task) = running[cpu] {
                    queues[cpu].push_back(task);
                }
                let next = queues[cpu].pop_front();
                if next != running[cpu] {
                    event(time, cost_of_a_switch(id));
                    event(time, switch(id, running[cpu], next));
                }
                running[cpu] = next;
                left[cpu] = slice_ms;
            }
        }
    }
    let end = (10_000 + seed) * MS;
    metrics.finish(end);
    Run {
        labels: labels(workload, scheduler, cpus, seed),
        status: Status::Ok,
        failure: None,
        metrics: Some(Box::new(metrics.result())),
        figures: None,
        shares: None,
        counters: Default::default(),
        notes: Shared::default(),
    }
}

fn cost_of_a_switch(cpu: CpuId) -> EventKind {
    EventKind::Overhead { cpu, kind: OverheadKind::Switch, duration: 1500 }
}

/// The figures of a run.
pub fn metrics(comparison: &mut Comparison, run: usize) -> &mut RunMetrics {
    comparison.runs[run].metrics.as_mut().unwrap()
}

/// Lets a run end so.
pub fn fail(run: &mut Run, status: Status, kind: &str, message: &str) {
    run.status = status;
    run.failure = Some(Failure {
        kind: kind.to_owned(),
        message: message.to_owned(),
        at_ns: Some(7 * MS),
        explain: Some("fairground explain hogs.json".to_owned()),
    });
}

/// Three workloads: one without periodic tasks, one with and with repeats, one with many tasks.
pub fn comparison() -> Comparison {
    let mut runs = Vec::new();
    for (scheduler, slice) in [("o1", 100), ("cfs", 4), ("eevdf", 3), ("linux24", 60)] {
        runs.push(run("hogs-five", scheduler, slice, 5, 4, false, 0));
    }
    for (scheduler, slice) in [("o1", 100), ("cfs", 4)] {
        for seed in 0..3 {
            runs.push(run("mix-two", scheduler, slice, 4, 2, true, seed));
        }
    }
    runs.push(run("crowd", "cfs", 4, 40, 2, false, 0));
    recipe(&mut runs[1]).tunables.insert("sched_latency".into(), "20ms".into());
    recipe(&mut runs[1]).numbers.insert("sched_latency".into(), 20_000_000);
    let last = runs.last_mut().unwrap();
    recipe(last).hotplug.push(CpuChange { at_ns: 1000 * MS, cpu: 1, online: false });
    runs[4].notes = vec!["memory traffic is played as computing".to_owned()].into();
    Comparison { version: "0.1.0 (0123456789ab)".to_owned(), runs, ..Comparison::default() }
}
