//! Interrupts that come while a CPU makes system calls one after the other: as in a kernel, where they are on in system calls, each is handled
//! before the next call, in any program.

mod common;

use std::sync::Arc;

use common::{Log, free, scheduler};
use fairground_bpf::{ProgramRun, RunTime, Setup};
use fairground_simulator::{Options, Surroundings, Thread, Turn, simulate};
use fairground_workload::Policy;

const MS: u64 = 1_000_000;
/// The time of a system call, the only thing that costs time.
const CALL: u64 = 10_000;

/// Two tasks that wake each other and do nothing else.
const PAIR: &str = r#"
    "ping": {"cpus": [0], "phases": {"p": {"fairground1": {"pipe_write": {"pipe": "a", "bytes": 1}},
        "fairground2": {"pipe_read": {"pipe": "b", "bytes": 1}}}}},
    "pong": {"cpus": [0], "phases": {"p": {"fairground1": {"pipe_read": {"pipe": "a", "bytes": 1}},
        "fairground2": {"pipe_write": {"pipe": "b", "bytes": 1}}}}}"#;
/// A task that calls the kernel and never has to wait.
const CALLER: &str = r#"
    "caller": {"cpus": [0], "loop": 1000000000, "phases": {"p": {"fairground1": {"pipe_write": {"pipe": "a", "bytes": 1}},
        "fairground2": {"pipe_read": {"pipe": "a", "bytes": 1}}}}}"#;

/// Options for CPU 0 full of the system calls of `callers`, beside `others`.
fn busy(machine: &str, callers: &str, others: &str) -> Options {
    let text = format!(r#"{{"tasks": {{{callers}{others}}}}}"#);
    let mut options = free(machine, &text);
    options.duration = Some(20 * MS);
    options.cost.system_call = CALL;
    // What schedulers tell has the times of events.
    options.uptime = 0;
    options
}

/// The scheduler's output, and the events.
fn watch(options: &Options, definitions: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut log = Log::default();
    let scheduler = scheduler("interrupts", definitions);
    let outcome = simulate(&scheduler, options, vec![&mut log]).unwrap();
    assert_eq!(outcome.failure, None);
    (outcome.messages, log.0)
}

/// The numbers that follow `word` in the lines that contain all of `words`.
fn numbers(lines: &[String], words: &[&str], word: &str) -> Vec<u64> {
    let lines = lines.iter().filter(|line| words.iter().all(|word| line.contains(word)));
    let numbers = lines.map(|line| {
        let (_, rest) = line.split_once(word).expect("the word is in the line");
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit());
        digits.take(1).collect::<String>().parse().unwrap()
    });
    numbers.collect()
}

/// Asserts that there are at least `count` times, none more than a system call after a multiple of a millisecond.
fn are_on_time(times: &[u64], count: usize, of: &str) {
    assert!(times.len() >= count, "{of}: only {times:?}");
    for time in times {
        assert!(time % MS <= CALL, "{of}: at {time} ns");
    }
}

#[test]
fn sleeps_end_on_time() {
    let sleeper =
        r#", "sleeper": {"cpus": [0], "run": 10, "timer": {"ref": "unique", "period": 1000}}"#;
    // The caller leaves the CPU to the sleeper only at the end of its slice.
    for (callers, number, count) in [(PAIR, 2, 18), (CALLER, 1, 1)] {
        let (_, log) = watch(&busy("1", callers, sleeper), &[]);
        let wake = format!("Wake {{ task: TaskId({number})");
        let times = numbers(&log, &[&wake], "time:");
        are_on_time(&times, count, "a sleep");
    }
}

#[test]
fn disks_report_on_time() {
    let reader = r#", "reader": {"cpus": [0], "run": 10, "fairground1": {"disk": 1000}}"#;
    let (_, log) = watch(&busy("1", PAIR, reader), &[]);
    let asked = numbers(&log, &["Sleep { task: TaskId(2)"], "time:");
    let woken = numbers(&log, &["Wake { task: TaskId(2)"], "time:");
    assert!(woken.len() > 15, "{woken:?}");
    for (asked, woken) in asked.iter().zip(&woken[1..]) {
        assert!(woken - asked <= MS + CALL, "asked at {asked}, woken at {woken}");
    }
}

#[test]
fn timers_of_schedulers_expire_on_time() {
    for callers in [PAIR, CALLER] {
        let (messages, _) = watch(&busy("1", callers, ""), &[]);
        are_on_time(&numbers(&messages, &["timer"], "by"), 19, "a timer");
    }
}

#[test]
fn loaders_run_on_time() {
    let mut options = busy("1", PAIR, "");
    options.setup = Arc::new(Setup {
        runs: vec![ProgramRun {
            place: String::new(),
            program: "visit".into(),
            context: Vec::new(),
            passed: Vec::new(),
            writes: Vec::new(),
            cpu: 0,
            time: RunTime::Every(MS),
            follows: false,
        }],
        ..Setup::default()
    });
    let (messages, _) = watch(&options, &[]);
    let times = numbers(&messages, &["loader"], "at");
    assert!(times.len() > 15, "{times:?}");
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] <= MS + CALL, "{pair:?}");
    }
}

#[test]
fn wake_ups_that_are_handed_over_arrive_on_time() {
    let others = r#",
        "woken": {"cpus": [0], "phases": {"p": {"sem_wait": "s"}}},
        "waker": {"cpus": [1], "run": 10, "sem_post": "s", "timer": {"ref": "unique", "period": 1000}}"#;
    let options = busy("l3:2 core:1 pu:1", PAIR, others);
    let (messages, log) = watch(&options, &["FLAGS SCX_OPS_ALLOW_QUEUED_WAKEUP"]);
    let handed = numbers(&log, &["Wake { task: TaskId(2)"], "time:");
    let taken = numbers(&messages, &["taken in"], "at");
    assert!(taken.len() > 15 && taken.len() == handed.len(), "{taken:?}");
    for (handed, taken) in handed.iter().zip(&taken) {
        assert!(taken - handed <= CALL, "handed over at {handed}, taken in at {taken}");
    }
}

#[test]
fn a_real_time_task_that_another_cpu_wakes_runs_after_the_call() {
    let others = r#",
        "woken": {"policy": "SCHED_FIFO", "priority": 5, "cpus": [0], "phases": {"p": {"sem_wait": "s"}}},
        "waker": {"cpus": [1], "run": 10, "sem_post": "s", "timer": {"ref": "unique", "period": 1000}}"#;
    let (_, log) = watch(&busy("2", CALLER, others), &[]);
    let woken = numbers(&log, &["Wake { task: TaskId(1)"], "time:");
    let runs = numbers(&log, &["next: Some(TaskId(1))"], "time:");
    assert!(runs.len() > 15, "{runs:?}");
    for (woken, runs) in woken.iter().zip(&runs) {
        assert!(runs - woken <= CALL, "woken at {woken}, runs at {runs}");
    }
}

#[test]
fn the_deadline_server_starts_on_time() {
    let pair = PAIR.replace(r#""cpus""#, r#""policy": "SCHED_FIFO", "priority": 9, "cpus""#);
    let mut options = busy("1", &pair, r#", "hog": {"run": 1000}"#);
    options.duration = Some(1000 * MS);
    let (_, log) = watch(&options, &[]);
    let runs = numbers(&log, &["next: Some(TaskId(2))"], "time:");
    let first = runs.first().copied().unwrap_or(u64::MAX);
    assert!((950 * MS..=950 * MS + CALL).contains(&first), "{first}");
}

#[test]
fn budgets_of_deadline_tasks_end_and_begin_on_time() {
    let budget = r#""policy": "SCHED_DEADLINE", "dl-runtime": 200, "dl-period": 1000"#;
    let caller = CALLER.replace(r#""cpus": [0]"#, budget);
    let hog = format!(r#", "hog": {{ {budget}, "run": 1000 }}"#);
    // The task with the budget makes the calls, or those do that run meanwhile.
    for (callers, others, number) in
        [(caller.as_str(), r#", "hog": {"run": 1000}"#, 0), (PAIR, hog.as_str(), 2)]
    {
        let (_, log) = watch(&busy("1", callers, others), &[]);
        let begins = numbers(&log, &[&format!("next: Some(TaskId({number}))")], "time:");
        let ends = numbers(&log, &[&format!("prev: Some(TaskId({number}))")], "time:");
        are_on_time(&begins, 19, "a budget");
        for (begin, end) in begins.iter().zip(&ends) {
            assert!(end - begin <= MS / 5 + CALL, "from {begin} to {end}");
        }
    }
}

#[test]
fn ticks_come_on_time() {
    let mut options = busy("1", CALLER, "");
    options.cost.tick = 100;
    let (_, log) = watch(&options, &[]);
    let times = numbers(&log, &["kind: Interrupt", "duration: 100 "], "time:");
    are_on_time(&times, 4, "a tick");
}

#[test]
fn threads_of_the_kernel_are_woken_on_time() {
    let turn = |number: u64| Turn { at: number * MS, cpu_time: 100_000 };
    let mut options = busy("1", PAIR, "");
    options.surroundings = Surroundings {
        threads: vec![Thread {
            name: "thread".into(),
            kernel: true,
            policy: Policy::Fifo { priority: 50 },
            cpus: Some(vec![0]),
            group: None,
            turns: (1..20).map(turn).collect(),
            period: None,
        }],
        ..Surroundings::default()
    };
    let (_, log) = watch(&options, &[]);
    let times = numbers(&log, &["Switch", "next: None"], "time:");
    are_on_time(&times, 19, "a thread");
}

#[test]
fn interrupts_that_take_longer_than_their_period_are_handled_in_turn() {
    // Each timer interrupt lasts until the next one is due, but the disk's and the sleeper's are not put off for ever by them.
    let sleepers = r#"
        "reader": {"cpus": [0], "run": 1, "fairground1": {"disk": 1500}},
        "sleeper": {"cpus": [0], "run": 1, "timer": {"ref": "unique", "period": 1500}},"#;
    let mut options = busy("1", sleepers, CALLER);
    options.cost.timer = MS;
    let (messages, log) = watch(&options, &[]);
    assert!(numbers(&messages, &["timer"], "by").len() >= 3);
    for task in ["TaskId(0)", "TaskId(1)"] {
        let woken = numbers(&log, &["Wake", task], "time:");
        // The first is the start.
        assert!(woken.len() >= 2, "{task} at {woken:?}");
    }
}

#[test]
fn a_task_reacts_to_another_cpu_between_its_own_calls() {
    // A reader on CPU 1 empties the pipe while the writer on CPU 0 fills it, so that it never gets full.
    let text = r#"{"tasks": {
        "writer": {"cpus": [0], "loop": 200, "phases": {"p": {"fairground1": {"pipe_write": {"pipe": "a", "bytes": 4096}}}}},
        "reader": {"cpus": [1], "loop": 200, "phases": {"p": {"fairground1": {"pipe_read": {"pipe": "a", "bytes": 4096}}}}}}}"#;
    let mut options = free("2", text);
    options.cost.system_call = CALL;
    // What schedulers tell has the times of events.
    options.uptime = 0;
    let (_, log) = watch(&options, &[]);
    assert_eq!(numbers(&log, &["Sleep { task: TaskId(0)"], "time:").len(), 0);
}

#[test]
fn time_passes_in_system_calls() {
    // A tick of a second holds more than 100,000 calls.
    let mut options = busy("1", CALLER, "");
    options.hz = 1;
    options.duration = Some(2_500 * MS);
    let (_, log) = watch(&options, &[]);
    assert_eq!(log.last().map(String::as_str), Some("end 2500000000"));
}
