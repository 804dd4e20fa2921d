//! Properties of every scheduler, machine and workload: nothing lost, nothing on two CPUs, affinity kept, the watchdog silent.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::random_task::{Changes, RandomTask, json};
use common::{Referee, built_in, free, referee, workload};
use fairground_events::{Event, EventKind, Nanoseconds, Queue, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, ExitKind, Hotplug, Options, Outcome, Scheduler, simulate};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};

fn task() -> impl Strategy<Value = RandomTask> {
    (
        1u32..4,
        -20i32..20,
        50u32..40_000,
        prop_oneof![Just(0u32), 50u32..30_000],
        prop_oneof![3 => Just(0u32), 1 => 1_000u32..50_000],
        prop_oneof![4 => Just(None), 1 => (0u32..8).prop_map(Some)],
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(instances, nice, run, sleep, period, pinned, yields, locks)| RandomTask {
            instances,
            nice,
            run,
            sleep,
            period,
            pinned,
            yields,
            locks,
            real_time: None,
            changes: None,
            forks: false,
        })
}

/// A task's changes of its attributes, on a machine of up to eight CPUs.
fn changes() -> impl Strategy<Value = Changes> {
    let cpus = prop::collection::vec(0u32..8, 0..4);
    let real_time = prop::option::weighted(0.3, 1u32..100);
    (-20i32..20, real_time, cpus).prop_map(|(nice, real_time, cpus)| Changes {
        nice,
        real_time,
        cpus,
    })
}

/// A task that forks, or changes its policy, nice value and CPUs while it runs, and may be a real-time task at times.
fn lively_task() -> impl Strategy<Value = RandomTask> {
    let real_time = prop::option::weighted(0.2, 1u32..100);
    let changes = prop::option::weighted(0.6, changes());
    (task(), real_time, changes, any::<bool>()).prop_map(|(mut task, real_time, changes, forks)| {
        task.real_time = real_time;
        task.forks = forks && changes.is_none();
        task.changes = changes;
        let changed = task.changes.as_ref();
        if real_time.is_some() || changed.is_some_and(|changes| changes.real_time.is_some()) {
            // Real-time tasks leave some time to the others.
            task.sleep = task.sleep.max(2 * task.run);
        }
        task
    })
}

/// All schedulers, or those that `FAIRGROUND_SCHEDULERS` names, separated by commas.
fn schedulers() -> Vec<(String, Arc<Scheduler>)> {
    let named = std::env::var("FAIRGROUND_SCHEDULERS").ok();
    let is_wanted =
        |id: &str| named.as_ref().is_none_or(|named| named.split(',').any(|name| name == id));
    fairground_catalog::all()
        .iter()
        .filter(|scheduler| is_wanted(scheduler.id()))
        .map(|scheduler| (scheduler.id().to_owned(), built_in(scheduler.id())))
        .collect()
}

fn random_options(text: &str, seed: u64, seconds: u64) -> Options {
    let mut options = free("1", r#"{"tasks": {"t": {"loop": 1, "run": 1}}}"#);
    options.workload = workload(text);
    options.seed = seed;
    options.duration = Some(seconds * 1_000_000_000);
    options
}

/// Some tunables of a scheduler away from their defaults: mostly by a factor of up to four, sometimes to an end of the range.
/// The same numbers give the same settings. Left alone is the limit that keeps tasks from starving, which may be switched off.
fn random_settings(id: &str, numbers: &[u32]) -> Vec<(String, i128)> {
    let tunables = &fairground_catalog::find(id).unwrap().manifest.tunables;
    let chosen = tunables.iter().zip(numbers.iter().cycle());
    chosen
        .filter(|(tunable, number)| **number % 3 == 0 && tunable.name != "starvation_limit")
        .map(|(tunable, number)| {
            let number = i128::from(number / 3);
            let width = tunable.maximum - tunable.minimum + 1;
            let value = match number % 8 {
                _ if width <= 8 => tunable.minimum + number / 8 % width,
                0 => tunable.minimum,
                1 => tunable.maximum,
                _ => (tunable.default * (25 + number / 8 % 376) / 100)
                    .clamp(tunable.minimum, tunable.maximum),
            };
            (tunable.name.clone(), value)
        })
        .collect()
}

/// Number of random workloads; every one runs under every scheduler.
fn cases() -> u32 {
    std::env::var("FAIRGROUND_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

/// The same cases in every run, unless `FAIRGROUND_SEED` asks for others.
fn seed() -> RngSeed {
    let asked = std::env::var("FAIRGROUND_SEED").ok();
    RngSeed::Fixed(asked.and_then(|seed| seed.parse().ok()).unwrap_or(1))
}

/// Few steps of shrinking: every one runs under all schedulers.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: seed(),
        max_shrink_iters: 20,
        ..ProptestConfig::default()
    })
}

/// The scheduler was in charge to the end, and nothing failed; `input` is for the message.
fn ended_well(id: &str, outcome: &Outcome, input: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(
        outcome.exit.kind,
        ExitKind::Unregistered,
        "{}: {} {}\n{}",
        id,
        outcome.exit.reason,
        outcome.exit.message,
        input
    );
    let failure = &outcome.failure;
    prop_assert!(failure.is_none(), "{}: {:?}\n{}", id, failure, input);
    Ok(())
}

/// All tasks together ran no longer than these CPUs could in as many seconds.
fn took_no_more_than_there_is(
    id: &str,
    referee: &Referee,
    cpus: u64,
    seconds: u64,
) -> Result<(), TestCaseError> {
    let total: u64 = referee.ran.iter().sum();
    prop_assert!(total <= cpus * seconds * 1_000_000_000, "{}: more time than there is", id);
    Ok(())
}

const MACHINES: [&str; 7] = ["1", "2", "3", "4", "numa:2 core:2", "l3:2 core:2 pu:2", "8"];

#[test]
fn every_scheduler_keeps_the_kernels_laws() {
    let schedulers = schedulers();
    let mut runner = runner(cases());
    let inputs =
        (prop::collection::vec(task(), 1..7), 0..MACHINES.len(), any::<bool>(), 0u64..1000);
    let outcome = runner.run(&inputs, |(tasks, machine, costs, seed)| {
        let machine = Machine::parse(MACHINES[machine]).unwrap();
        let text = json(&tasks, machine.cpus.len() as u32);
        let mut options = random_options(&text, seed, 3);
        if costs {
            options.cost = CostModel::default_model();
        }
        let cpus = machine.cpus.len() as u64;
        options.machine = machine.into();
        for (id, scheduler) in &schedulers {
            // The referee panics on a broken law; here the sums.
            let (outcome, referee) = referee(scheduler, &options);
            ended_well(id, &outcome, &text)?;
            took_no_more_than_there_is(id, &referee, cpus, 3)?;
            // Linux 1.2 to 2.4 refill all tasks whenever one CPU has used up its own, so a task that is refilled often enough
            // never comes to its end, and others that may only use its CPU wait, for the fifteen seconds of `starvation_limit`.
            // In 1.2 and 2.2 a quantum is 21 - nice ticks of 10 ms, nearly twice as much after a sleep, so the wait for all
            // others may be longer than this run.
            // CFS makes a new task wait for one slice of its own in virtual time, which for a light task among heavy ones is
            // many seconds.
            // O(1) lets expired tasks wait for a second for each task of the CPU while interactive ones keep coming back.
            // FBFS refills a slice at each wake-up, so a task that sleeps before its end keeps its deadline and goes first for ever.
            // 4BSD forgets a task's use of the CPU within a second as long as the load average, which starts at 0, is low.
            let nices = || tasks.iter().map(|task| task.nice);
            let spread = nices().max().unwrap_or(0) - nices().min().unwrap_or(0);
            let old = matches!(id.as_str(), "linux12" | "linux22");
            let ticks = |task: &RandomTask| 2 * (21 - task.nice) * task.instances as i32;
            let may_starve = spread > 5
                || (id == "bsd4" && spread > 0)
                || (id == "fbfs"
                    && tasks.iter().any(|task| task.locks || task.sleep > 0 || task.period > 0))
                || (id == "o1" && tasks.iter().map(|task| task.instances).sum::<u32>() > 2)
                || (old && tasks.iter().map(ticks).sum::<i32>() > 300)
                || ((old || id == "linux24") && tasks.iter().any(|task| task.pinned.is_some()));
            prop_assert!(
                may_starve || referee.ran.iter().all(|ran| *ran > 0),
                "{}: a task never ran in 3 s: {:?}\n{}",
                id,
                referee.ran,
                text
            );
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// The laws hold with other tunables too. One run in ten is long enough for the watchdog, which is to stay silent.
#[test]
fn every_scheduler_keeps_the_kernels_laws_with_other_tunables() {
    let schedulers = schedulers();
    let mut runner = runner(cases() / 2);
    let inputs = (
        prop::collection::vec(task(), 1..7),
        0..MACHINES.len(),
        prop::collection::vec(any::<u32>(), 31),
        0u64..1000,
        prop_oneof![9 => Just(2), 1 => Just(45)],
    );
    let outcome = runner.run(&inputs, |(tasks, machine, numbers, seed, seconds)| {
        let machine = Machine::parse(MACHINES[machine]).unwrap();
        let text = json(&tasks, machine.cpus.len() as u32);
        let mut options = random_options(&text, seed, seconds);
        options.machine = machine.into();
        for (id, scheduler) in &schedulers {
            let settings = random_settings(id, &numbers);
            options.variables = settings
                .iter()
                .map(|(name, value)| {
                    let tunable = fairground_catalog::find(id).unwrap().tunable(name).unwrap();
                    (name.clone(), tunable.encode(*value))
                })
                .collect();
            let (outcome, _) = referee(scheduler, &options);
            ended_well(id, &outcome, &format!("{settings:?}\n{text}"))?;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// The laws hold, too, while tasks fork, become real-time tasks, change their nice values and CPUs, and CPUs come and go.
#[test]
fn every_scheduler_keeps_the_kernels_laws_while_tasks_and_cpus_change() {
    let schedulers = schedulers();
    let mut runner = runner(cases() / 2);
    let inputs = (
        prop::collection::vec(lively_task(), 1..7),
        0..MACHINES.len(),
        any::<bool>(),
        0u64..1000,
        prop::collection::vec((0usize..8, 0u64..1500, 0u64..400), 0..4),
    );
    let outcome = runner.run(&inputs, |(tasks, machine, costs, seed, absences)| {
        let machine = Machine::parse(MACHINES[machine]).unwrap();
        let cpus = machine.cpus.len();
        let text = json(&tasks, cpus as u32);
        let mut options = random_options(&text, seed, 2);
        if costs {
            options.cost = CostModel::default_model();
        }
        options.machine = machine.into();
        let millisecond = 1_000_000;
        for (cpu, at, length) in absences {
            let change = |at, online| Hotplug { at: at * millisecond, cpu: cpu % cpus, online };
            options.hotplug.extend([change(at, false), change(at + length, true)]);
        }
        options.hotplug.sort();
        let mut still = options.clone();
        still.hotplug.clear();
        for (id, scheduler) in &schedulers {
            let (mut outcome, mut watched) = referee(scheduler, &options);
            // One that does not know of hotplug is to be loaded again when it happens.
            if outcome.exit.message.ends_with("line, exiting scheduler") {
                (outcome, watched) = referee(scheduler, &still);
            }
            ended_well(id, &outcome, &format!("{text}\n{:?}", options.hotplug))?;
            took_no_more_than_there_is(id, &watched, cpus as u64, 2)?;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn details_change_nothing_else_and_say_where_tasks_are() {
    let text = r#"{"tasks": {
        "hog": {"instance": 3, "run": 9000},
        "short": {"instance": 2, "run": 300, "sleep": 2000}}}"#;
    for (id, scheduler) in schedulers() {
        let mut options = random_options(text, 3, 1);
        options.machine = Arc::new(Machine::parse("2").unwrap());
        options.cost = CostModel::default_model();
        let mut logs = [false, true].map(|details| {
            options.details = details;
            let mut places = Places::default();
            let outcome = simulate(&scheduler, &options, vec![&mut places]).unwrap();
            (places, outcome.context_switches)
        });
        assert_eq!(logs[0].1, logs[1].1, "{id}");
        assert!(logs[0].0.events == logs[1].0.events, "{id}: details change what happens");
        assert_eq!(logs[0].0.details, 0, "{id}");
        let found = std::mem::take(&mut logs[1].0);
        assert!(found.details > 100, "{id}: {} details", found.details);
    }
}

/// Keeps all but details, and follows with those in which queue tasks are.
#[derive(Default)]
struct Places {
    events: Vec<Event>,
    details: usize,
    queued: BTreeMap<TaskId, Queue>,
    time: Nanoseconds,
}

impl Sink for Places {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}

    fn event(&mut self, event: &Event) {
        assert!(event.time >= self.time, "time goes back");
        self.time = event.time;
        match event.kind {
            EventKind::Insert { task, queue, .. } => {
                let before = self.queued.insert(task, queue);
                assert_eq!(before, None, "{task:?} was on a queue");
            }
            EventKind::Remove { task, queue } => {
                assert_eq!(self.queued.remove(&task), Some(queue), "{task:?}");
            }
            EventKind::Callback { .. } | EventKind::Condition { .. } => {}
            EventKind::Switch { next: Some(task), .. } if self.details > 0 => {
                assert_eq!(self.queued.get(&task), None, "{task:?} runs");
                return self.events.push(*event);
            }
            _ => return self.events.push(*event),
        }
        self.details += 1;
    }

    fn finish(&mut self, _: Nanoseconds) {}
}
