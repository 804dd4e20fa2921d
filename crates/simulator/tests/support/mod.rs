//! The parts that the tests of schedulers share: a workload as JSON text, run in the simulator, and which task ran when.

#![allow(dead_code)] // every test program uses some of it

pub mod early_linux;
pub mod overhead;

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fairground_events::{CpuId, Event, EventKind, Nanoseconds, QuotaUse, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, Options, Outcome, Scheduler, Thread, Turn, simulate};
use fairground_workload::{Policy, Workload};

/// One millisecond.
pub const MS: Nanoseconds = 1_000_000;
/// One second.
pub const SECOND: Nanoseconds = 1000 * MS;

/// A task had a CPU for itself, without a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The task's name.
    pub task: String,
    /// Where.
    pub cpu: u32,
    /// From when.
    pub start: Nanoseconds,
    /// Until when.
    pub end: Nanoseconds,
}

impl Run {
    /// How long.
    pub fn length(&self) -> Nanoseconds {
        self.end - self.start
    }

    /// The same in milliseconds.
    pub fn milliseconds(&self) -> f64 {
        self.length() as f64 / MS as f64
    }
}

/// The history of a run.
#[derive(Debug, Default)]
pub struct History {
    names: Vec<(TaskId, String)>,
    running: Vec<(CpuId, TaskId, Nanoseconds)>,
    /// All runs that have ended, in the order of their ends.
    pub runs: Vec<Run>,
    /// Moves between CPUs: when, and which task.
    pub migrations: Vec<(Nanoseconds, String)>,
    /// Wake-ups: when, and which task.
    pub wakes: Vec<(Nanoseconds, String)>,
    /// The use of quotas, in the order of the groups that have one.
    pub quotas: Vec<QuotaUse>,
    /// Passes through the scheduler: when, and which CPU.
    pub passes: Vec<(Nanoseconds, u32)>,
    /// What all CPUs have consumed, in nanojoules, at the end.
    pub energy: u64,
}

impl History {
    fn name(&self, task: TaskId) -> String {
        let named = self.names.iter().find(|(id, _)| *id == task);
        named.map_or_else(|| format!("{task:?}"), |(_, name)| name.clone())
    }

    fn leave(&mut self, cpu: CpuId, now: Nanoseconds) {
        while let Some(index) = self.running.iter().position(|(c, ..)| *c == cpu) {
            let (_, task, start) = self.running.remove(index);
            let task = self.name(task);
            self.runs.push(Run { task, cpu: cpu.0, start, end: now });
        }
    }

    /// The runs of the task with this name that lie between two times; one that ends at `to` may have been cut off there.
    pub fn runs_of(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> Vec<&Run> {
        self.runs
            .iter()
            .filter(|run| run.task == task && run.start >= from && run.end < to)
            .collect()
    }

    /// CPU time of a task between two times.
    pub fn cpu_time(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> Nanoseconds {
        self.runs
            .iter()
            .filter(|run| run.task == task)
            .map(|run| run.end.min(to).saturating_sub(run.start.max(from)))
            .sum()
    }

    /// The part of one CPU that a task got between two times, in percent.
    pub fn percent(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> f64 {
        100.0 * self.cpu_time(task, from, to) as f64 / (to - from) as f64
    }

    /// The same of each of so many hogs, the tasks hog-0 and so on.
    pub fn percents(&self, hogs: usize, from: Nanoseconds, to: Nanoseconds) -> Vec<f64> {
        (0..hogs).map(|hog| self.percent(&format!("hog-{hog}"), from, to)).collect()
    }

    /// Times from the wake-ups of a task between two times to its next runs, ascending.
    pub fn latencies(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> Vec<Nanoseconds> {
        let runs: Vec<&Run> = self.runs.iter().filter(|run| run.task == task).collect();
        let wakes = self.wakes.iter();
        let wakes = wakes.filter(|(at, name)| name == task && (from..to).contains(at));
        let latency = |(at, _): &(Nanoseconds, String)| {
            let next = runs.iter().find(|run| run.end > *at)?;
            Some(next.start.saturating_sub(*at))
        };
        let mut latencies: Vec<Nanoseconds> = wakes.filter_map(latency).collect();
        latencies.sort_unstable();
        latencies
    }

    /// The runs of a task between two times, where those with nothing between them count as one: the task kept the CPU.
    pub fn bursts(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> Vec<(u64, u64)> {
        let mut bursts: Vec<(u64, u64)> = Vec::new();
        for run in self.runs_of(task, from, to) {
            match bursts.last_mut() {
                Some(last) if last.1 == run.start => last.1 = run.end,
                _ => bursts.push((run.start, run.end)),
            }
        }
        bursts
    }

    /// The first run of a task whose name begins with `child`.
    #[track_caller]
    pub fn child(&self) -> &Run {
        self.runs.iter().find(|run| run.task.starts_with("child")).unwrap()
    }

    /// Longest time between two runs of a task that lie between two times; all of it if there are no two.
    pub fn longest_wait(&self, task: &str, from: Nanoseconds, to: Nanoseconds) -> Nanoseconds {
        gaps(&self.runs_of(task, from, to)).max().unwrap_or(to - from)
    }
}

impl Sink for History {
    fn task(&mut self, _time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        if !self.names.iter().any(|(id, _)| *id == task) {
            self.names.push((task, info.name.clone()));
        }
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { cpu, next, .. } => {
                self.leave(cpu, event.time);
                if let Some(next) = next {
                    self.running.push((cpu, next, event.time));
                }
            }
            EventKind::Migrate { task, .. } => {
                let name = self.name(task);
                self.migrations.push((event.time, name));
            }
            EventKind::Wake { task, .. } => {
                let name = self.name(task);
                self.wakes.push((event.time, name));
            }
            EventKind::QuotaUse { used, .. } => self.quotas.push(used),
            EventKind::Energy { nanojoules, .. } => self.energy += nanojoules,
            EventKind::Pass { cpu, .. } => self.passes.push((event.time, cpu.0)),
            _ => {}
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        while let Some((cpu, ..)) = self.running.first().copied() {
            self.leave(cpu, end);
        }
    }
}

/// Names a folder like `schedulers/`: the schedulers that are in it are compiled from there, all others are those that were built in.
pub const SCHEDULERS: &str = "FAIRGROUND_SCHEDULERS";

type Found = (&'static str, &'static fairground_catalog::Scheduler, Arc<Scheduler>);

/// The scheduler `id` with its manifest, and loaded: the built-in one, or that of the folder that [`SCHEDULERS`] names.
pub fn find(id: &str) -> (&'static fairground_catalog::Scheduler, Arc<Scheduler>) {
    static FOUND: Mutex<Vec<Found>> = Mutex::new(Vec::new());
    let mut found = FOUND.lock().unwrap_or_else(|error| error.into_inner());
    if let Some((_, scheduler, loaded)) = found.iter().find(|(known, ..)| *known == id) {
        return (scheduler, loaded.clone());
    }
    let folder = std::env::var_os(SCHEDULERS).map(|folder| Path::new(&folder).join(id));
    let scheduler = match folder.filter(|folder| folder.is_dir()) {
        None => fairground_catalog::find(id).unwrap(),
        Some(folder) => {
            let source = folder.join(format!("{id}.bpf.c"));
            let opened = fairground_catalog::open(&source.to_string_lossy(), &Default::default());
            &*Box::leak(Box::new(opened.unwrap_or_else(|error| panic!("{error}"))))
        }
    };
    let loaded = Arc::new(Scheduler::load(&scheduler.object).unwrap());
    found.push((scheduler.id(), scheduler, loaded.clone()));
    (scheduler, loaded)
}

/// Runs the workload `json` under a scheduler on `machine` for `seconds` of virtual time. Scheduling costs nothing,
/// and the kernel ticks a thousand times a second. `settings` are tunables with their values as people write them.
/// The run must end without a complaint.
pub fn run(
    id: &str,
    machine: &str,
    json: &str,
    seconds: u64,
    settings: &[(&str, &str)],
) -> (History, Outcome) {
    run_with(id, machine, json, seconds, settings, |_| {})
}

/// A run on one CPU with the usual costs, and a tick of 4 ms.
pub fn run_with_costs(id: &str, json: &str, seconds: u64) -> Outcome {
    let costs = |options: &mut Options| {
        options.hz = 250;
        options.cost = CostModel::default_model();
    };
    run_with(id, "1", json, seconds, &[], costs).1
}

/// Such a run of two tasks that wake one another all the time, through pipes.
pub fn ping_pong(id: &str, seconds: u64) -> Outcome {
    let json = r#"{ "tasks": {
        "one": { "loop": -1, "run": 10, "fairground1": { "pipe_write": { "pipe": "a", "bytes": 1 } },
            "fairground2": { "pipe_read": { "pipe": "b", "bytes": 1 } } },
        "other": { "loop": -1, "fairground1": { "pipe_read": { "pipe": "a", "bytes": 1 } }, "run": 10,
            "fairground2": { "pipe_write": { "pipe": "b", "bytes": 1 } } } } }"#;
    let outcome = run_with_costs(id, json, seconds);
    assert!(outcome.context_switches > 50_000, "{}", outcome.context_switches);
    outcome
}

/// [`run`] with other options: `change` has the last word.
pub fn run_with(
    id: &str,
    machine: &str,
    json: &str,
    seconds: u64,
    settings: &[(&str, &str)],
    change: impl FnOnce(&mut Options),
) -> (History, Outcome) {
    let (scheduler, loaded) = find(id);
    let workload = Arc::new(Workload::parse("test.json", json).unwrap());
    let mut options = Options::new(Machine::parse(machine).unwrap(), workload);
    options.duration = Some(seconds * SECOND);
    options.cost = CostModel::zero();
    options.hz = 1000;
    for (name, text) in settings {
        let tunable = scheduler.tunable(name).unwrap();
        let bytes = tunable.encode(tunable.parse_value(text).unwrap());
        options.variables.push(((*name).to_owned(), bytes));
    }
    change(&mut options);
    let mut history = History::default();
    let outcome = simulate(&loaded, &options, vec![&mut history]).unwrap();
    assert!(
        !outcome.exit.kind.is_error(),
        "{id} ended with {:?}: {}",
        outcome.exit.kind,
        outcome.exit.message
    );
    assert_eq!(outcome.failure, None);
    (history, outcome)
}

/// As many tasks of nice 0 that never sleep, named hog-0 and so on.
pub fn hogs(number: impl Display) -> String {
    format!(r#"{{ "tasks": {{ "hog": {{ "instance": {number}, "run": 1000 }} }} }}"#)
}

/// The same on these CPUs.
pub fn hogs_on(number: usize, cpus: &str) -> String {
    format!(
        r#"{{ "tasks": {{ "hog": {{ "instance": {number}, "cpus": {cpus}, "run": 1000 }} }} }}"#
    )
}

/// Two tasks that never sleep, with these nice values.
pub fn two_hogs(first: i32, second: i32) -> String {
    format!(
        r#"{{ "tasks": {{ "first": {{ "priority": {first}, "run": 1000 }}, "second": {{ "priority": {second}, "run": 1000 }} }} }}"#
    )
}

/// The lengths of runs in whole milliseconds.
pub fn lengths(runs: &[&Run]) -> Vec<u64> {
    runs.iter().map(|run| run.length() / MS).collect()
}

/// The times between runs.
pub fn gaps(runs: &[&Run]) -> impl Iterator<Item = Nanoseconds> {
    runs.windows(2).map(|pair| pair[1].start - pair[0].end)
}

/// Their arithmetic mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Tasks of all kinds share four CPUs; those that are pinned stay, and each runs.
#[track_caller]
pub fn assert_affinity_and_no_starvation(id: &str, settings: &[(&str, &str)]) {
    let json = r#"{ "tasks": {
        "pinned": { "instance": 6, "cpus": [3], "run": 1000 },
        "batch": { "instance": 2, "policy": "SCHED_BATCH", "run": 1000 },
        "idle": { "instance": 2, "policy": "SCHED_IDLE", "run": 1000 },
        "waker": { "instance": 4, "run": 300, "sleep": 700 },
        "free": { "instance": 5, "run": 1000 } } }"#;
    let (history, _) = run(id, "4", json, 40, settings);
    for run in history.runs.iter().filter(|run| run.task.starts_with("pinned")) {
        assert_eq!(run.cpu, 3, "{run:?}");
    }
    for (name, count) in [("pinned", 6), ("batch", 2), ("idle", 2), ("waker", 4), ("free", 5)] {
        for name in (0..count).map(|index| format!("{name}-{index}")) {
            assert!(history.cpu_time(&name, 20 * SECOND, 40 * SECOND) > 100 * MS, "{name}");
        }
    }
}

/// Sleepers with several sets of CPUs stay on them, and run.
#[track_caller]
pub fn assert_tasks_stay_where_they_may_run(id: &str) -> Outcome {
    let json = r#"{ "tasks": {
        "zero": { "instance": 3, "cpus": [0], "run": 3000, "sleep": 500 },
        "one": { "instance": 2, "cpus": [1], "run": 3000, "sleep": 500 },
        "both": { "instance": 3, "cpus": [0, 1], "run": 700, "sleep": 300 },
        "free": { "instance": 6, "run": 2000, "sleep": 1000 } } }"#;
    let (history, outcome) = run(id, "4", json, 10, &[]);
    for run in &history.runs {
        let allowed = match run.task.split('-').next() {
            Some("zero") => run.cpu == 0,
            Some("one") => run.cpu == 1,
            Some("both") => run.cpu <= 1,
            _ => true,
        };
        assert!(allowed, "{run:?}");
    }
    for name in ["zero-0", "zero-2", "one-1", "both-0", "free-5"] {
        assert!(history.cpu_time(name, 5 * SECOND, 10 * SECOND) > SECOND / 4, "{name}");
    }
    outcome
}

/// One of two tasks that were placed on neighbouring CPUs of a machine is pushed to the idle pair, and neither loses anything.
#[track_caller]
pub fn assert_a_busy_neighbour_moves(id: &str, machine: &str, settings: &[(&str, &str)]) {
    let task = |cpu: u32| {
        format!(
            r#"{{ "phases": {{ "placed": {{ "loop": 1, "cpus": [{cpu}], "run": 50000 }},
                "free": {{ "loop": -1, "cpus": [0, 1, 2, 3], "run": 100000 }} }} }}"#
        )
    };
    let json = format!(r#"{{ "tasks": {{ "first": {}, "second": {} }} }}"#, task(0), task(1));
    let (history, outcome) = run(id, machine, &json, 5, settings);
    assert_eq!(statistic(id, &outcome, "pushed_active"), 1);
    let cores =
        ["first", "second"].map(|name| history.runs_of(name, 0, u64::MAX).last().unwrap().cpu / 2);
    assert_ne!(cores[0], cores[1]);
    for name in ["first", "second"] {
        assert_near(history.percent(name, SECOND, 5 * SECOND), 100.0, 0.1, name);
    }
}

/// Eight hogs that were placed on one CPU share four.
#[track_caller]
pub fn assert_released_tasks_spread(id: &str) {
    let json = r#"{ "tasks": { "hog": { "instance": 8, "phases": {
        "placed": { "loop": 1, "cpus": [0], "run": 10000 },
        "free": { "loop": -1, "cpus": [0, 1, 2, 3], "run": 100000 } } } } }"#;
    let (history, outcome) = run(id, "4", json, 10, &[("hz", "1000")]);
    let all = history.percents(8, SECOND, 10 * SECOND).iter().sum();
    assert_near(all, 400.0, 0.1, "use of 4 CPUs");
    assert_shares(&history, 8, 2 * SECOND, 10 * SECOND, 50.0, 3.0);
    assert!(statistic(id, &outcome, "pulled_idle") >= 1);
}

/// Two CPUs lose nothing from `from` milliseconds on, where four of six tasks end one after the other.
#[track_caller]
pub fn assert_nothing_is_lost(id: &str, from: u64, settings: &[(&str, &str)]) {
    let json = r#"{ "tasks": {
        "short": { "instance": 4, "run": 333000, "loop": 1 },
        "hog": { "instance": 2, "run": 1000 } } }"#;
    let (history, _) = run(id, "2", json, 4, settings);
    let used = |run: &Run| run.end - run.start.clamp(from * MS, run.end.max(from * MS));
    let lost = 2 * (4 * SECOND - from * MS) - history.runs.iter().map(used).sum::<u64>();
    assert!(lost < 10 * MS, "{lost} ns lost");
}

/// A hog that a real-time task displaces goes on at the idle CPU beside it, within `delay` milliseconds.
#[track_caller]
pub fn assert_the_displaced_move(id: &str, delay: u64) {
    let json = r#"{ "tasks": {
        "fifo": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "phases": {
            "rest": { "sleep": 1005000, "loop": 1 },
            "work": { "run": 1000, "loop": -1 } } },
        "hog": { "phases": {
            "home": { "cpus": [0], "run": 1, "loop": 1 },
            "work": { "cpus": [0, 1], "run": 1000, "loop": -1 } } } } }"#;
    let (history, _) = run(id, "2", json, 50, &[]);
    let lost = 50 * SECOND - history.cpu_time("hog", 0, 50 * SECOND);
    assert!(lost <= (delay + 1) * MS, "{id}: {} ms lost", lost / MS);
}

/// A task that had a CPU to itself for a second, and then may only use that of three hogs, waits for at most `most` milliseconds there: it takes no
/// debt along for time that nobody else wanted.
#[track_caller]
pub fn assert_time_alone_is_no_debt_elsewhere(id: &str, most: u64) {
    let json = r#"{ "tasks": {
        "hog": { "instance": 3, "cpus": [0], "run": 1000 },
        "moved": { "phases": {
            "alone": { "cpus": [1], "run": 1000, "loop": 1000 },
            "bound": { "cpus": [0], "run": 1000, "loop": -1 } } } } }"#;
    let (history, _) = run(id, "2", json, 5, &[]);
    let wait = history.longest_wait("moved", 0, 5 * SECOND);
    assert!(wait <= most * MS, "{id}: {} ms", wait / MS);
    let share = history.percent("moved", 2 * SECOND, 5 * SECOND);
    assert_near(share, 25.0, 1.0, id);
}

/// The outcome of a run until `end`, otherwise as [`run`]. Runs of different lengths are the same as far as they go, so
/// their counters tell the events between their ends.
pub fn outcome_at(
    id: &str,
    machine: &str,
    json: &str,
    end: Nanoseconds,
    settings: &[(&str, &str)],
) -> Outcome {
    let until_end = |options: &mut Options| options.duration = Some(end);
    run_with(id, machine, json, 0, settings, until_end).1
}

/// The counter `name` of a scheduler's statistics.
pub fn statistic(id: &str, outcome: &Outcome, name: &str) -> u64 {
    let statistics = &find(id).0.manifest.statistics;
    let index = statistics.iter().position(|s| s.name == name).unwrap();
    outcome.statistics[index]
}

/// The data in a scheduler's task storage `map` for a task at the end.
#[track_caller]
pub fn outcome_storage<'o>(outcome: &'o Outcome, task: &str, map: &str) -> &'o [u8] {
    let found = outcome.tasks.iter().find(|one| one.name == task).unwrap();
    let (_, bytes) = found.storage.iter().find(|(name, _)| name == map).unwrap();
    bytes
}

/// Asserts that `value` differs from `expected` by at most `tolerance`.
#[track_caller]
pub fn assert_near(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{what}: {value:.2}, expected {expected} ± {tolerance}"
    );
}

/// Asserts that each of so many hogs got this part of a CPU between two times, in percent.
#[track_caller]
pub fn assert_shares(
    history: &History,
    hogs: usize,
    from: Nanoseconds,
    to: Nanoseconds,
    expected: f64,
    tolerance: f64,
) {
    for (hog, share) in history.percents(hogs, from, to).into_iter().enumerate() {
        assert_near(share, expected, tolerance, &format!("hog {hog} of {hogs}"));
    }
}

/// Asserts of a run of 5 s that `sleeper` nearly always runs on CPU 1, where `waker` wakes it, and that `waker` nearly always
/// runs its millisecond to the end nevertheless.
#[track_caller]
pub fn assert_wakes_behind_itself(history: &History) {
    let woken = history.runs_of("sleeper", SECOND, 5 * SECOND);
    assert!(woken.len() > 300, "{} runs", woken.len());
    let there = woken.iter().filter(|run| run.cpu == 1).count();
    assert!(there * 10 > woken.len() * 9, "{there} of {}", woken.len());
    let waker = history.runs_of("waker", SECOND, 5 * SECOND);
    let whole = waker.iter().filter(|run| run.length() >= MS).count();
    assert!(whole * 10 > waker.len() * 9, "{whole} of {}", waker.len());
}

/// Asserts that a task that wakes a better one by a pipe, and goes on for half a millisecond, is not interrupted; with a semaphore it is.
/// Neither has another CPU; the kernel does not tell a scheduler of synchronous wake-ups where there is only one.
#[track_caller]
pub fn assert_synchronous_waker_finishes(id: &str) {
    let whole = |wait: &str, wake: &str| {
        let json = format!(
            r#"{{ "tasks": {{
                "fifo": {{ "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "run": 1000 }},
                "sleeper": {{ "priority": -5, {wait}, "run": 100 }},
                "waker": {{ "cpus": [1], "priority": 5, "sleep": 9000, "run0": 500, {wake}, "run1": 500 }} }} }}"#
        );
        let (history, _) = run(id, "2", &json, 5, &[]);
        let runs = history.runs_of("waker", SECOND, 5 * SECOND);
        let whole = runs.iter().filter(|run| run.length() >= MS).count();
        100.0 * whole as f64 / runs.len() as f64
    };
    let pipe = whole(
        r#""fairground1": { "pipe_read": { "pipe": "p", "bytes": 4 } }"#,
        r#""fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } }"#,
    );
    assert!(pipe > 90.0, "{pipe} % of the waker's runs are whole");
    let semaphore = whole(r#""sem_wait": "s""#, r#""sem_post": "s""#);
    assert!(semaphore < 50.0, "{semaphore} % are whole with a semaphore");
}

/// Asserts that a task of policy idle gets next to nothing beside the nicest task that always runs, under the scheduler `id`.
#[track_caller]
pub fn assert_idle_gets_leftovers(id: &str) {
    let json = r#"{ "tasks": {
        "idle": { "policy": "SCHED_IDLE", "run": 1000 },
        "hog": { "priority": 19, "run": 1000 } } }"#;
    let (history, _) = run(id, "1", json, 10, &[]);
    let share = history.percent("idle", SECOND, 10 * SECOND);
    assert!(share < 1.0, "{share}");
}

/// A kernel thread, bound to no CPU, that wants one for 8 of every 10 ms.
pub fn busy_kernel_thread() -> Thread {
    let turn = |number: u64| Turn { at: number * 10 * MS, cpu_time: 8 * MS };
    Thread {
        name: "kernel".to_owned(),
        kernel: true,
        policy: Policy::Other { nice: 0, slice: None },
        cpus: None,
        group: None,
        turns: (1..1000).map(turn).collect(),
        period: None,
    }
}

/// Asserts that a kernel thread gets all that it wants beside three hogs of nice -20 for each CPU, whether there is one CPU or it can choose.
#[track_caller]
pub fn assert_kernel_threads_come_first(id: &str) {
    for cpus in 1..=2_u32 {
        let hogs = 3 * cpus;
        let json = format!(
            r#"{{ "tasks": {{ "hog": {{ "instance": {hogs}, "priority": -20, "run": 1000 }} }} }}"#
        );
        let (history, _) = run_with(id, &cpus.to_string(), &json, 5, &[], |options| {
            options.surroundings.threads = vec![busy_kernel_thread()];
        });
        let ran: Nanoseconds = history.runs.iter().map(Run::length).sum();
        let percent = ran as f64 / (5 * SECOND / 100) as f64;
        let left = f64::from(cpus) * 100.0 - 80.0;
        assert_near(percent, left, 1.0, &format!("hogs on {cpus} CPUs"));
    }
}
