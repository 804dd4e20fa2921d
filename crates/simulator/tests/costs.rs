//! Where each cost causes which delay, in the kernel's order of things.

mod common;

use common::{Referee, built_in, free, referee, scheduler};
use fairground_events::{CpuId, Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_simulator::{CostModel, Options, Scheduler, simulate};
use std::sync::Arc;

/// Keeps all events.
#[derive(Default)]
struct Events(Vec<Event>);

impl Sink for Events {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, event: &Event) {
        self.0.push(*event);
    }
    fn finish(&mut self, _: Nanoseconds) {}
}

impl Events {
    fn of(scheduler: &Arc<Scheduler>, options: &Options) -> Events {
        let mut events = Events::default();
        simulate(scheduler, options, vec![&mut events]).unwrap();
        events
    }

    /// When the first event from `start` on happens that `matches`.
    fn first(&self, start: Nanoseconds, matches: impl Fn(&EventKind) -> bool) -> Nanoseconds {
        let found = self.0.iter().find(|event| event.time >= start && matches(&event.kind));
        found.unwrap_or_else(|| panic!("not in {:#?}", self.0)).time
    }

    fn wake(&self, start: Nanoseconds, task: u32) -> Nanoseconds {
        self.first(
            start,
            |kind| matches!(kind, EventKind::Wake { task: woken, .. } if woken.0 == task),
        )
    }

    fn sleep(&self, start: Nanoseconds, task: u32) -> Nanoseconds {
        self.first(start, |kind| *kind == EventKind::Sleep { task: TaskId(task) })
    }

    fn switch_to(&self, start: Nanoseconds, cpu: u32, task: Option<u32>) -> Nanoseconds {
        let to = task.map(TaskId);
        self.first(start, |kind| {
            matches!(kind, EventKind::Switch { cpu: on, next, .. } if *on == CpuId(cpu) && *next == to)
        })
    }

    fn passes(&self) -> Vec<Nanoseconds> {
        let durations = self.0.iter().filter_map(|event| match event.kind {
            EventKind::Pass { duration, .. } => Some(duration),
            _ => None,
        });
        durations.collect()
    }
}

const SLEEPER: &str = r#"{"tasks": {"sleeper": {"loop": -1, "run": 1000, "sleep": 3000}}, "global": {"duration": 1}}"#;

#[test]
fn a_timer_on_an_idle_cpu_passes_through_idle_exit_interrupt_wake_up_and_switch() {
    let mut options = free("1", SLEEPER);
    options.cost.context_switch = 1_000;
    options.cost.idle_exit = 2_000;
    options.cost.timer = 500;
    options.cost.wakeup = 300;
    options.cost.wakeup_remote = 7_000;
    options.cost.interrupt = 70_000;
    let events = Events::of(&scheduler("bare", &[]), &options);
    let sleeps = events.sleep(0, 0);
    assert_eq!(events.switch_to(sleeps, 0, None), sleeps + 1_000);
    let woken = events.wake(sleeps, 0);
    assert_eq!(woken, sleeps + 3_000_000 + 2_000 + 500 + 300);
    let runs = events.switch_to(woken, 0, Some(0));
    assert_eq!(runs, woken + 1_000);
    assert_eq!(events.sleep(runs, 0), runs + 1_000_000);
}

#[test]
fn a_task_that_is_woken_on_a_busy_cpu_waits_for_no_idle_exit() {
    let text = r#"{"tasks": {
        "sleeper": {"loop": -1, "policy": "SCHED_FIFO", "priority": 10, "run": 1000, "sleep": 3000},
        "hog": {"loop": -1, "run": 100000}
    }, "global": {"duration": 1}}"#;
    let mut options = free("1", text);
    options.cost.context_switch = 1_000;
    options.cost.idle_exit = 2_000;
    options.cost.timer = 500;
    options.cost.wakeup = 300;
    let events = Events::of(&scheduler("bare", &[]), &options);
    let sleeps = events.sleep(0, 0);
    let woken = events.wake(sleeps, 0);
    assert_eq!(woken, sleeps + 3_000_000 + 500 + 300);
    assert_eq!(events.switch_to(woken, 0, Some(0)), woken + 1_000);
}

#[test]
fn a_kick_waits_for_an_interrupt_that_the_cpu_sends_to_itself() {
    let text = r#"{"tasks": {
        "sleeper": {"loop": -1, "run": 1000, "sleep": 3000},
        "hog": {"loop": -1, "run": 100000}
    }, "global": {"duration": 1}}"#;
    let mut options = free("1", text);
    options.cost.context_switch = 1_000;
    options.cost.irq_work = 400;
    let events = Events::of(&scheduler("kicks", &[]), &options);
    let sleeps = events.sleep(0, 0);
    let woken = events.wake(sleeps, 0);
    assert_eq!(woken, sleeps + 3_000_000);
    assert_eq!(events.switch_to(woken, 0, Some(0)), woken + 400 + 1_000);
}

#[test]
fn a_wake_up_of_an_idle_cpu_passes_through_interrupt_idle_exit_and_switch() {
    let text = r#"{"tasks": {
        "waiter": {"loop": -1, "cpus": [1], "suspend": "waiter", "run": 1000},
        "waker": {"loop": -1, "cpus": [0], "run": 5000, "resume": "waiter"}
    }, "global": {"duration": 1}}"#;
    let mut options = free("2", text);
    options.cost.context_switch = 1_000;
    options.cost.idle_exit = 2_000;
    options.cost.interrupt = 1_500;
    options.cost.wakeup = 300;
    options.cost.wakeup_remote = 700;
    options.cost.system_call = 100;
    let events = Events::of(&scheduler("bare", &[]), &options);
    let woken = events.wake(6_000_000, 0);
    let runs = events.switch_to(woken, 1, Some(0));
    assert_eq!(runs, woken + 1_500 + 2_000 + 1_000);
    // The waker pays for the wake-up: it runs for 5 ms, then comes the system call, then the wake-up.
    let next = events.wake(woken + 1, 0);
    assert_eq!(next, woken + 5_000_000 + 100 + 700);
}

#[test]
fn system_calls_are_cpu_time_of_the_task_that_makes_them() {
    let text = r#"{"tasks": {
        "ping": {"phases": {"p": {"fairground1": {"pipe_write": {"pipe": "a", "bytes": 1}}, "fairground2": {"pipe_read": {"pipe": "b", "bytes": 1}}}}},
        "pong": {"phases": {"p": {"fairground1": {"pipe_read": {"pipe": "a", "bytes": 1}}, "fairground2": {"pipe_write": {"pipe": "b", "bytes": 1}}}}}
    }, "global": {"duration": 1}}"#;
    let mut options = free("1", text);
    options.cost.system_call = 100;
    options.cost.wakeup = 300;
    options.cost.context_switch = 1_000;
    options.duration = Some(30_000_000);
    let (_, pair) = referee(&scheduler("bare", &[]), &options);
    // In a round of 3 us each makes two calls, wakes the other, and gives it the CPU.
    assert!(pair.overhead.abs_diff(26_000_000) < 5_000, "{}", pair.overhead);
    for ran in &pair.ran {
        assert!(ran.abs_diff(15_000_000) < 5_000, "{ran}");
    }
    // Alone, with a pipe of its own, a task has the whole CPU.
    let text = r#"{"tasks": {"alone": {"loop": 1000000, "phases": {"p": {
        "fairground1": {"pipe_write": {"pipe": "a", "bytes": 1}}, "fairground2": {"pipe_read": {"pipe": "a", "bytes": 1}}}}}}}"#;
    let mut options = free("1", text);
    options.cost.system_call = 100;
    options.duration = Some(30_000_000);
    let (_, alone) = referee(&scheduler("bare", &[]), &options);
    assert_eq!((alone.overhead, alone.ran[0]), (0, 30_000_000));
}

#[test]
fn who_wakes_a_task_that_is_still_leaving_its_cpu_waits_for_it() {
    let text = r#"{"tasks": {
        "waiter": {"loop": -1, "cpus": [1], "run": 5000, "suspend": "waiter"},
        "waker": {"loop": -1, "cpus": [0], "run": 5001, "resume": "waiter", "sleep": 4999}
    }, "global": {"duration": 1}}"#;
    let mut options = free("2", text);
    options.cost.context_switch = 40_000;
    let events = Events::of(&scheduler("bare", &[]), &options);
    let sleeps = events.sleep(0, 0);
    assert_eq!(events.switch_to(sleeps, 1, None), sleeps + 40_000);
    assert_eq!(events.wake(sleeps, 0), sleeps + 40_000);
}

/// Mean length of a pass in the second half of a run of `tasks` that yield all the time.
fn mean_pass(scheduler: &str, cpus: &str, tasks: u32, cost: &CostModel) -> f64 {
    // They come one by one, so that each finds the next idle CPU.
    let task = |number| {
        format!(r#""y{number}": {{"loop": -1, "delay": {}, "run": 1, "yield": ""}}"#, number * 100)
    };
    let tasks: Vec<String> = (0..tasks).map(task).collect();
    let text = format!(r#"{{"tasks": {{ {} }}, "global": {{"duration": 1}}}}"#, tasks.join(", "));
    let mut options = free(cpus, &text);
    options.cost = cost.clone();
    options.duration = Some(100_000_000);
    let passes = Events::of(&built_in(scheduler), &options).passes();
    let late = &passes[passes.len() / 2..];
    assert!(late.len() > 400, "{}", late.len());
    late.iter().sum::<u64>() as f64 / late.len() as f64
}

#[test]
fn a_lock_that_all_cpus_scan_under_makes_them_wait_for_one_another() {
    let mut cost = CostModel::zero();
    cost.scan = 1_000;
    // One CPU visits the 15 tasks that wait; each of eight visits the 8 that wait, once the seven others have.
    let alone = mean_pass("linux24", "1", 16, &cost);
    let crowd = mean_pass("linux24", "8", 16, &cost);
    assert!((14_000.0..=16_000.0).contains(&alone), "{alone}");
    assert!((55_000.0..=66_000.0).contains(&crowd), "{crowd}");
    // Queues of their own have locks of their own.
    let split = mean_pass("bmqs", "8", 16, &cost);
    assert!(split < 3_000.0, "{split}");
}

#[test]
fn a_spin_lock_of_the_scheduler_makes_cpus_wait_for_one_another() {
    let mut cost = CostModel::zero();
    cost.kilo_instructions = 1_000;
    let pass = |cpus: &str| {
        let text = r#"{"tasks": {"y": {"instance": 16, "loop": -1, "run": 1, "yield": ""}}, "global": {"duration": 1}}"#;
        let mut options = free(cpus, text);
        options.cost = cost.clone();
        options.duration = Some(50_000_000);
        let passes = Events::of(&scheduler("locked", &[]), &options).passes();
        let late = &passes[passes.len() / 2..];
        late.iter().sum::<u64>() as f64 / late.len() as f64
    };
    let (alone, crowd) = (pass("1"), pass("8"));
    assert!(alone > 4_000.0, "{alone}");
    assert!((6.0..=8.5).contains(&(crowd / alone)), "{alone}, {crowd}");
}

#[test]
fn a_call_that_the_verifier_inlines_costs_its_instructions_alone() {
    let longest = |calls: &str, kfunc: u64, kilo_instructions: u64| {
        let mut options = free("1", SLEEPER);
        options.cost.kfunc = kfunc;
        options.cost.kilo_instructions = kilo_instructions;
        let passes = Events::of(&scheduler("inlined", &[calls]), &options).passes();
        passes.into_iter().max().expect("there are choices")
    };
    assert_eq!(longest("CALLS 0", 1_000, 0), 0);
    assert_eq!(longest("CALLS 3", 1_000, 0), 3_000);
    let instructions = longest("CALLS 0", 0, 1_000_000) / 1_000;
    // Its own are fewer than a hundred, those of the calls are 77.
    assert!((120..220).contains(&instructions), "{instructions}");
}

#[test]
fn a_lock_costs_more_the_farther_it_comes_from() {
    let mut cost = CostModel::zero();
    cost.lock_transfer = [1_000, 2_000, 4_000, 8_000];
    let near = mean_pass("linux24", "core:1 pu:2", 4, &cost);
    let far = mean_pass("linux24", "numa:2 core:1 pu:1", 4, &cost);
    assert!(near >= 1_000.0 && far > 4.0 * near, "{near}, {far}");
}

#[test]
fn events_stay_in_a_possible_order_whatever_things_cost() {
    let text = r#"{"tasks": {
        "p": {"instance": 7, "loop": -1, "run": 300, "timer": {"ref": "unique", "period": 2000}},
        "m": {"instance": 4, "loop": -1, "lock": "m", "run": 50, "unlock": "m", "sleep": 100},
        "chain": {"loop": -1, "suspend": "chain", "run": 20},
        "starter": {"loop": -1, "run": 60, "resume": "chain"},
        "y": {"instance": 3, "loop": -1, "run": 20, "yield": ""},
        "bound": {"loop": -1, "phases": {"a": {"cpus": [0], "run": 700}, "b": {"cpus": [3], "run": 700}}},
        "rt": {"loop": -1, "policy": "SCHED_RR", "priority": 5, "run": 100, "sleep": 900}
    }, "global": {"duration": 1}}"#;
    let mut options = free("4", text);
    for (id, factor) in [("cfs", 1), ("bfs", 9), ("linux24", 9), ("o1", 1), ("bmqs", 3)] {
        let mut cost = CostModel::default_model();
        cost.context_switch *= factor;
        cost.lock_transfer = cost.lock_transfer.map(|time| time * factor);
        cost.scan *= factor;
        cost.callback *= factor;
        options.cost = cost;
        options.duration = Some(400_000_000);
        let mut referee = Referee::default();
        let outcome = simulate(&built_in(id), &options, vec![&mut referee]).unwrap();
        assert!(referee.switches > 1_000, "{id}");
        assert!(outcome.failure.is_none(), "{id}");
    }
}

#[test]
fn a_run_ends_when_its_last_task_has_left_its_cpu() {
    let text = r#"{"tasks": {"short": {"loop": 1, "run": 1000}}}"#;
    let mut options = free("1", text);
    options.cost.context_switch = 5_000;
    let mut events = Events::default();
    let outcome = simulate(&scheduler("bare", &[]), &options, vec![&mut events]).unwrap();
    assert_eq!(outcome.end, 5_000 + 1_000_000 + 5_000);
    assert_eq!(events.switch_to(1_000_000, 0, None), outcome.end);
}
