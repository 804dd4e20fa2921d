//! Random schedulers under random workloads, checked event by event against a second implementation of the core's rules.
//!
//! A case is a list of numbers, one for each choice; missing numbers are 0. `FAIRGROUND_CASE=3,0,17` runs one case.
//! `FAIRGROUND_CASES`, `FAIRGROUND_SEED` and `FAIRGROUND_MILLISECONDS` set how many cases to run, which, and how long each is.
//!
//! For billions of events, build with `--release` and keep the C library from returning each run's log to the kernel, which costs
//! three times as much as the simulation: `MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=2147483648`.

mod common;
mod reference;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use common::random_task::{Changes, RandomTask, json};
use common::{Referee, free, scheduler, workload};
use fairground_events::{Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{
    CostModel, CostValue, ExitKind, Hotplug, Options, Outcome, Scheduler, simulate,
};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use reference::trace::{Kind, Record, records};
use reference::{Attributes, Reference, World};

/// The features by which schedulers differ.
struct Variant {
    definitions: &'static [&'static str],
    enq_last: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        definitions: &[
            "SELECT_CPU",
            "ENQUEUE",
            "DISPATCH",
            "UPDATE_IDLE",
            "OPS_FLAGS SCX_OPS_KEEP_BUILTIN_IDLE",
        ],
        enq_last: false,
    },
    Variant {
        definitions: &[
            "SELECT_CPU",
            "ENQUEUE",
            "DISPATCH",
            "UPDATE_IDLE",
            "OPS_FLAGS (SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST)",
        ],
        enq_last: true,
    },
    Variant { definitions: &["ENQUEUE", "DISPATCH", "OPS_FLAGS 0"], enq_last: false },
    Variant { definitions: &["SELECT_CPU", "DISPATCH", "OPS_FLAGS 0"], enq_last: false },
    Variant {
        definitions: &["UPDATE_IDLE", "OPS_FLAGS SCX_OPS_KEEP_BUILTIN_IDLE"],
        enq_last: false,
    },
];

const MACHINES: [&str; 7] =
    ["1", "2", "3", "numa:2 core:2", "l3:2 core:2 pu:2", "core:2 pu:2", "8"];

impl Variant {
    fn has(&self, what: &str) -> bool {
        self.definitions.contains(&what)
    }
}

/// The variants, each compiled without and with a program that traces which CPUs real-time tasks take.
fn schedulers() -> Vec<[Arc<Scheduler>; 2]> {
    let all = VARIANTS.iter().map(|variant| variant.definitions);
    all.map(|plain| {
        let learns = [plain, &["SWITCHES"]].concat();
        [scheduler("random", plain), scheduler("random", &learns)]
    })
    .collect()
}

/// The numbers of a case that have not been used yet.
struct Choices(VecDeque<u32>);

impl Choices {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.pop_front().unwrap_or(0) % bound
    }

    /// One time in `times`.
    fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == times - 1
    }
}

/// A run to make.
struct Case {
    variant: usize,
    real_time: bool,
    options: Options,
    exact: bool,
    /// Whether the reference can follow the run. The referee always watches.
    followed: bool,
}

impl Case {
    fn from(numbers: &[u32]) -> Case {
        let mut choices = Choices(numbers.iter().copied().collect());
        let variant = choices.below(VARIANTS.len() as u32) as usize;
        let machine =
            Machine::parse(MACHINES[choices.below(MACHINES.len() as u32) as usize]).unwrap();
        let cpus = machine.cpus.len() as u32;
        let mut options = free("1", r#"{"tasks": {"t": {"loop": 1, "run": 1}}}"#);
        options.machine = machine.into();
        // What the scheduler tells has the times of events.
        options.uptime = 0;
        options.hz = [1000, 250, 100][choices.below(3) as usize];
        options.duration = Some(number("FAIRGROUND_MILLISECONDS", 200) * 1_000_000);
        let exact = !choices.one_in(4);
        if !exact {
            options.cost = CostModel::default_model();
        }
        options.seed = u64::from(choices.below(1000));
        let encode = |name: &str, value: u32| (name.to_owned(), value.to_ne_bytes().to_vec());
        let seed = u64::from(choices.below(1 << 30)) + 1;
        let seed = seed.to_ne_bytes().to_vec();
        options.variables.push(("seed".to_owned(), seed));
        for name in ["direct", "keep", "refuse", "preempt", "head", "kick", "remote", "cut"] {
            if choices.one_in(2) {
                options.variables.push(encode(name, choices.below(90)));
            }
        }
        if exact && choices.one_in(4) {
            options.variables.push(encode("hurry", choices.below(100)));
        }
        if choices.one_in(4) && cpus > 1 {
            for _ in 0..=choices.below(4) {
                let (cpu, at) =
                    (choices.below(cpus) as usize, u64::from(choices.below(150)) * 1_000_000);
                let change = |at, online| Hotplug { at, cpu, online };
                let back = at + u64::from(choices.below(40)) * 1_000_000;
                options.hotplug.extend([change(at, false), change(back, true)]);
            }
            options.hotplug.sort();
        }
        let count = 1 + choices.below(6);
        let mut tasks: Vec<RandomTask> = (0..count).map(|_| random_task(&mut choices)).collect();
        if !exact && choices.one_in(2) {
            options.cost = random_costs(&mut choices);
        }
        if choices.one_in(2) {
            // Without ops.enqueue() nothing says to which of several CPUs a task was taken.
            let cpus = if VARIANTS[variant].has("ENQUEUE") { 3 } else { 1 };
            tasks.iter_mut().for_each(|task| make_strange(task, &mut choices, cpus));
        }
        for task in &mut tasks {
            task.forks = task.changes.is_none() && choices.one_in(6);
        }
        let real_time = tasks.iter().any(|task| {
            let changes = task.changes.as_ref();
            task.real_time.is_some() || changes.is_some_and(|changes| changes.real_time.is_some())
        });
        options.workload = workload(&json(&tasks, cpus));
        Case {
            variant,
            real_time,
            exact,
            // The server that lets ordinary tasks run beside real-time tasks comes after 950 ms.
            followed: !(real_time && options.duration > Some(900_000_000)),
            options,
        }
    }

    fn world(&self, attributes: Vec<VecDeque<Attributes>>) -> World {
        let variant = &VARIANTS[self.variant];
        World {
            nodes: self.options.machine.cpus.iter().map(|cpu| cpu.node as usize).collect(),
            attributes,
            hotplug: { self.options.hotplug.iter() }
                .map(|change| (change.at, change.cpu, change.online))
                .collect(),
            has_select_cpu: variant.has("SELECT_CPU"),
            has_enqueue: variant.has("ENQUEUE"),
            has_dispatch: variant.has("DISPATCH"),
            has_update_idle: variant.has("UPDATE_IDLE"),
            has_enq_last: variant.enq_last,
            tick: 1_000_000_000 / self.options.hz,
            duration: self.options.duration.expect("cases have one"),
            exact: self.exact,
        }
    }
}

fn random_task(choices: &mut Choices) -> RandomTask {
    RandomTask {
        instances: 1 + choices.below(4),
        nice: choices.below(40) as i32 - 20,
        run: 50 + choices.below(20_000),
        sleep: choices.below(2) * (50 + choices.below(5_000)),
        period: choices.below(2) * (1000 + choices.below(10_000)),
        pinned: choices.one_in(4).then(|| choices.below(8)),
        yields: choices.one_in(5),
        locks: choices.one_in(5),
        real_time: None,
        changes: None,
        forks: false,
    }
}

/// Makes a task a real-time task, has it change its attributes and which CPUs it may use, up to this many, or both.
fn make_strange(task: &mut RandomTask, choices: &mut Choices, cpus: u32) {
    let priority = |choices: &mut Choices| choices.one_in(3).then(|| 1 + choices.below(99));
    task.real_time = priority(choices);
    if task.real_time.is_some() {
        task.sleep = task.sleep.max(100);
    }
    if choices.one_in(2) {
        let real_time = priority(choices);
        task.changes = Some(Changes {
            nice: choices.below(40) as i32 - 20,
            real_time,
            cpus: (0..choices.below(cpus + 1)).map(|_| choices.below(8)).collect(),
        });
    }
}

/// Costs of any size up to some microseconds.
fn random_costs(choices: &mut Choices) -> CostModel {
    let mut number = || {
        let most = [1, 100, 10_000][choices.below(3) as usize];
        choices.below(most)
    };
    let mut text = String::new();
    for (name, value) in CostModel::default_model().values() {
        text += &match value {
            CostValue::One(_) => format!("{name} = {}\n", number()),
            CostValue::ByDistance(_) => {
                let four = [(); 4].map(|()| number());
                format!("{name} = {four:?}\n")
            }
        };
    }
    CostModel::parse("random", &text).expect("these are costs")
}

/// The part of the event stream that the reference is compared with.
#[derive(Default)]
struct Stream {
    /// The attributes of each task, at first and after each change.
    attributes: Vec<VecDeque<Attributes>>,
    switches: Vec<Vec<(Nanoseconds, Option<u32>)>>,
    /// Of tasks that sched_ext runs.
    wakes: Vec<(u32, Nanoseconds)>,
    real_time: HashSet<u32>,
    referee: Referee,
    events: u64,
}

impl Sink for Stream {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.referee.task(time, task, info);
        // Those that are born at about the same time on several CPUs come in the order of time.
        let known = self.attributes.len().max(task.0 as usize + 1);
        self.attributes.resize(known, VecDeque::new());
        if info.rt_priority > 0 {
            self.real_time.insert(task.0);
        } else {
            self.real_time.remove(&task.0);
        }
        let weight = (u64::from(info.weight) * 100 + 512) / 1024;
        self.attributes[task.0 as usize].push_back(Attributes {
            allowed: info.allowed.iter().map(|cpu| cpu.0 as usize).collect(),
            priority: match info.rt_priority {
                0 => 120 + info.nice,
                priority => 99 - priority as i32,
            },
            weight: weight.clamp(1, 10_000),
        });
    }

    fn event(&mut self, event: &Event) {
        self.events += 1;
        self.referee.event(event);
        match event.kind {
            EventKind::Switch { cpu, next, .. } => {
                let cpu = cpu.0 as usize;
                if self.switches.len() <= cpu {
                    self.switches.resize(cpu + 1, Vec::new());
                }
                self.switches[cpu].push((event.time, next.map(|task| task.0)));
            }
            EventKind::Wake { task, .. } if !self.real_time.contains(&task.0) => {
                self.wakes.push((task.0, event.time));
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.referee.finish(end);
    }
}

/// Runs a case and returns the number of events and records, or the rule that was broken.
fn try_case(case: &Case, schedulers: &[[Arc<Scheduler>; 2]]) -> Result<(u64, u64), String> {
    let mut stream = Stream::default();
    let scheduler = &schedulers[case.variant][usize::from(case.real_time)];
    let outcome = simulate(scheduler, &case.options, vec![&mut stream]);
    let outcome = outcome.map_err(|error| format!("{error}"))?;
    if outcome.exit.kind != ExitKind::Unregistered || outcome.failure.is_some() {
        return Err(format!(
            "{} {} {:?}",
            outcome.exit.reason, outcome.exit.message, outcome.failure
        ));
    }
    let (records, whole) = records(&outcome.statistics);
    if !case.followed {
        return Ok((outcome.engine_events, records.len() as u64));
    }
    let mut reference = Reference::new(case.world(stream.attributes.clone()));
    reference.follow(&records, whole)?;
    // The reference stops at a change that the run ended too early to report.
    if whole && reference.untold.is_none() {
        compare(&reference, &stream, &outcome, case)?;
    }
    Ok((outcome.engine_events, records.len() as u64))
}

/// Compares switches and wake-ups in the event stream with those that the reference derived from the callbacks.
fn compare(
    reference: &Reference,
    stream: &Stream,
    outcome: &Outcome,
    case: &Case,
) -> Result<(), String> {
    let first = outcome.tasks.first().map_or(0, |task| task.id.0);
    let number = |pid: u32| pid - FIRST_PID + first;
    for (cpu, due) in reference.switches.iter().enumerate() {
        let none = Vec::new();
        let seen = stream.switches.get(cpu).unwrap_or(&none);
        let time = |time: u64| if case.exact { time } else { 0 };
        let due = due.iter().map(|(at, pid)| (time(*at), pid.map(number)));
        let seen = seen.iter().map(|(at, task)| (time(*at), *task));
        if let Some((number, (due, seen))) =
            due.zip(seen).enumerate().find(|(_, (due, seen))| due != seen)
        {
            return Err(format!("switch {number} of CPU {cpu} is {seen:?}, where {due:?} is due"));
        }
    }
    let mut due: Vec<u32> = reference.wakes.iter().map(|(pid, _)| number(*pid)).collect();
    let mut seen: Vec<u32> = stream.wakes.iter().map(|(task, _)| *task).collect();
    due.sort_unstable();
    seen.sort_unstable();
    // Events that a CPU causes late in its last event lie after the end of the run and are not reported.
    if !case.exact && seen.len() < due.len() && due.len() <= seen.len() + reference.switches.len() {
        return Ok(());
    }
    if due != seen {
        return Err(format!("{} wake-ups are told of {}", seen.len(), due.len()));
    }
    Ok(())
}

/// Cases that once broke a rule, each with the rule.
const BROKEN_ONCE: [(&str, &str); 2] = [
    (
        "a task that one CPU has moved to another began there before it had left a third",
        "26160425,2154135184,2642039632,2717253115,0,3766853953,2398996674,3586224428,2913947918,241248655,76284504,3741824406,2582134442,3636670448,545342594,167946141,1944088786,3256210846,86860254,3693312622,148246014,1679617402,1364285072,304047891,1414079600,2001435172,3274009528,813650678,662525050,1706816260,475148167,1183012538,3313078474,3464670956,284326594,101107387,739073543,361933067,938986787,901576928,1000063020,3719501611,2030640128,3506132312,3739577910,4215738771,1288878547,2764968965,1772394767,601905868,1859577785,2520044146,3847704202,1780334213,348974070,1752372903,911633487,4233610737,1006755442,3191795234,3475576785,609962772,3578568373,3459625326,581575928",
    ),
    (
        "a task of a CPU that went offline began elsewhere before it had left it",
        "3465915587,3797897937,1822970877,980546023,242957344,4025758383,3377710819,1263380413,179663619,2596381048,1047595611,3249080309,1991347761,1338528489,3002435003,1691592419,1717132338,1095452943,1943318670,1573121295,4055554376,4269770287,3155493319,3980217885,4147520332,2718007921,2763423224,1521725588,1451237471,2397053206,2297252995,3502419327,1741430347,3677917364,62110881,1922782984,1879412025,2650955499,2105324313,2758822170,574479527,1884831871,3618503174,896801392,4251882858,1298207973,3345524667,3851688497,2162492091,3376150333,436560462,4105391013,4161319574,2188507816,995005516,1333067349,2547109554,550809184,2983455025,244638321,2987153797",
    ),
];

/// Number of the first task that is created.
const FIRST_PID: u32 = 1001;

fn numbers(text: &str) -> Vec<u32> {
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// The reference's verdict on a task that changes at 195 ms of 200 ms without an event for the change, and gets a tick at `then`.
fn change_untold(exact: bool, then: u64) -> Result<(), String> {
    let world = World {
        nodes: vec![0],
        attributes: Vec::new(),
        hotplug: Vec::new(),
        has_select_cpu: false,
        has_enqueue: false,
        has_dispatch: false,
        has_update_idle: false,
        has_enq_last: false,
        tick: 1_000_000,
        duration: 200_000_000,
        exact,
    };
    let record =
        |kind, time, a| Record { kind, cpu: 0, pid: FIRST_PID, time, a, b: 0, c: 20_000_000, d: 0 };
    let (begin, change) = (195_000_000, 2 | 8 | 1 << 33);
    let records = [
        record(Kind::InitTask, begin, 1),
        record(Kind::Enable, begin, 0),
        record(Kind::SetWeight, begin, 100),
        record(Kind::Runnable, begin, 1 | 8),
        record(Kind::Running, begin, 0),
        record(Kind::Stopping, begin, 0),
        record(Kind::Quiescent, begin, change),
        record(Kind::Runnable, begin, 2),
        record(Kind::Running, begin, 0),
        record(Kind::TickBegin, then, 0),
    ];
    Reference::new(world).follow(&records, true)
}

#[test]
fn only_the_last_work_of_a_run_may_change_a_task_without_telling_of_it() {
    assert_eq!(change_untold(false, 200_000_001), Ok(()));
    let broken = change_untold(false, 199_000_000).unwrap_err();
    assert!(broken.contains("nothing tells of it, and"), "{broken}");
    let broken = change_untold(true, 200_000_001).unwrap_err();
    assert!(broken.contains("changes, and nothing"), "{broken}");
}

#[test]
fn what_was_broken_once_holds() {
    let schedulers = schedulers();
    for (what, case) in BROKEN_ONCE {
        let tried = try_case(&Case::from(&numbers(case)), &schedulers);
        tried.unwrap_or_else(|broken| panic!("{what}: {broken}"));
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_schedulers_keep_the_rules() {
    let schedulers = schedulers();
    if let Ok(text) = std::env::var("FAIRGROUND_CASE") {
        let tried = try_case(&Case::from(&numbers(&text)), &schedulers);
        return tried.map(|_| ()).unwrap_or_else(|broken| panic!("{broken}"));
    }
    let mut runner = TestRunner::new(ProptestConfig {
        cases: number("FAIRGROUND_CASES", 400) as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("FAIRGROUND_SEED", 1)),
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    });
    let total = std::cell::Cell::new((0, 0));
    let outcome = runner.run(&prop::collection::vec(any::<u32>(), 20..120), |numbers| {
        let (events, records) =
            try_case(&Case::from(&numbers), &schedulers).map_err(TestCaseError::fail)?;
        total.set((total.get().0 + events, total.get().1 + records));
        Ok(())
    });
    if let Err(TestError::Fail(reason, numbers)) = outcome {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        panic!(
            "{reason}\nagain: FAIRGROUND_CASE={} cargo test -p fairground-simulator --test random",
            numbers.join(",")
        );
    }
    let (events, records) = total.get();
    println!("{events} events of the engine, {records} callbacks and calls");
    assert!(records > 0);
}
