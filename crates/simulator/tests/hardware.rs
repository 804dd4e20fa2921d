//! CPUs that share cores, sleep and change speed: each effect by hand, to the nanosecond.

mod common;

use common::{free, referee, run, scheduler, workload};
use fairground_events::{Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, Options, Outcome, simulate};

/// A run without costs under the kernel's defaults.
fn outcome(machine: &str, tasks: &str) -> Outcome {
    let text = format!(r#"{{"tasks": {{{tasks}}}}}"#);
    run(&scheduler("shortfalls", &[]), &free(machine, &text))
}

fn cpu_times(outcome: &Outcome) -> Vec<u64> {
    outcome.tasks.iter().map(|task| task.cpu_time).collect()
}

/// A task that computes for so many microseconds from a time on, on one CPU.
fn hog(name: &str, cpu: u32, delay: u32, run: u32) -> String {
    format!(r#""{name}": {{"loop": 1, "cpus": [{cpu}], "delay": {delay}, "run": {run}}}"#)
}

#[test]
fn two_siblings_do_the_factor_together() {
    let both = [hog("a", 0, 0, 5_000), hog("b", 1, 0, 5_000)].join(",");
    assert_eq!(outcome("core:1 pu:2", &both).end, 5_000_000);
    // 10 ms of work at 1.25 of one CPU's speed.
    let shared = outcome("core:1 pu:2 smt:1.25", &both);
    assert_eq!(shared.end, 8_000_000);
    assert_eq!(shared.shortfalls, []);
    // The kernel's account is in time.
    assert_eq!(cpu_times(&shared), [8_000_000, 8_000_000]);
    // On two cores, and one after the other, they do not share.
    assert_eq!(outcome("core:2 pu:2 smt:1.25", &both.replace("[1]", "[2]")).end, 5_000_000);
    let after = [hog("a", 0, 0, 5_000), hog("b", 1, 5_000, 5_000)].join(",");
    assert_eq!(outcome("core:1 pu:2 smt:1.25", &after).end, 10_000_000);
}

#[test]
fn a_sibling_counts_while_it_is_busy() {
    // Alone for 2 ms, with the other for 6 ms at half of 1.2, and alone again for the remaining 10 - 2 - 3.6 ms.
    let tasks = [hog("long", 0, 0, 10_000), hog("short", 1, 2_000, 3_600)].join(",");
    let outcome = outcome("core:1 pu:2 smt:1.2", &tasks);
    assert_eq!(cpu_times(&outcome), [12_400_000, 6_000_000]);
    assert_eq!(outcome.end, 12_400_000);
}

#[test]
fn more_siblings_have_factors_of_their_own() {
    let tasks: Vec<String> = (0..4).map(|cpu| hog(&format!("t{cpu}"), cpu, 0, 4_000)).collect();
    let machine = "core:1 pu:4 smt:1.5,1.8,2";
    assert_eq!(outcome(machine, &tasks[..2].join(",")).end, 5_333_334);
    // At the same speed, three need 3/1.8 of 4 ms.
    assert_eq!(outcome(machine, &tasks[..3].join(",")).end, 6_666_667);
    assert_eq!(outcome(machine, &tasks.join(",")).end, 8_000_000);
}

#[test]
fn a_slow_cpu_shares_its_core_as_well() {
    let both = [hog("a", 0, 0, 1_000), hog("b", 1, 0, 1_000)].join(",");
    let machine = "core:2 pu:2 capacity:2x512,2x1024 smt:1.25";
    assert_eq!(outcome(machine, &both).end, 3_200_000);
}

/// A machine of one node with these idle states, clocks and so on, each table with an origin.
fn machine(topology: &str, tables: &str) -> Machine {
    let text = format!("[topology]\ndescription = \"{topology}\"\norigin = \"a test\"\n{tables}");
    Machine::parse_toml("test.toml", &text).unwrap()
}

/// The idle states of a server.
const SLEEPS: &str = r#"
[[idle]]
origin = "a test"
states = [
    { name = "C1", exit_us = 1, residency_us = 1 },
    { name = "C6", exit_us = 170, residency_us = 600 },
]
"#;

/// Two tasks that take turns, each with 100 ms of work and this footprint.
fn turns(machine: Machine, footprint: u64, cpus: &str) -> Outcome {
    let task = |name: &str| {
        format!(
            r#""{name}": {{"loop": 1, "cpus": [{cpus}], "run": 100000, "fairground": {{"footprint": {footprint}}}}}"#
        )
    };
    on(machine, &[], &[task("a"), task("b")].join(","))
}

const CACHE: &str = "[cache]\nkib = 64\nline_ns = 100\norigin = \"a test\"\n";

#[test]
fn tasks_displace_one_another_from_a_cache() {
    // Both fit: each fetches its 512 lines once.
    let fitting = turns(machine("1", CACHE), 32 << 10, "0");
    assert_eq!(fitting.end, 200_000_000 + 2 * 51_200);
    // Together they are twice as large as the cache, so each turn, of which there are many, begins with all 1024 lines.
    let displacing = turns(machine("1", CACHE), 64 << 10, "0");
    let fetches = (displacing.end - 200_000_000) / 102_400;
    assert_eq!(displacing.end, 200_000_000 + fetches * 102_400);
    assert!(fetches >= 8, "{fetches}");
    assert!(displacing.context_switches.abs_diff(fetches) <= 1, "{fetches}");
    // No more than the cache holds.
    let larger = turns(machine("1", CACHE), 1 << 30, "0");
    assert_eq!(larger.end, displacing.end);
    // On two CPUs of one cache they run side by side, and each fetches once.
    let beside = turns(machine("l3:1 core:2", CACHE), 32 << 10, "0, 1");
    assert_eq!(beside.end, 100_000_000 + 51_200);
}

#[test]
fn footprints_need_a_cache() {
    let without = turns(machine("1", ""), 64 << 10, "0");
    assert_eq!(without.end, 200_000_000);
    assert_eq!(without.shortfalls, [fairground_simulator::Shortfall::Footprints]);
    let known = turns(machine("1", CACHE), 64 << 10, "0");
    assert_eq!(known.shortfalls, []);
}

/// A run of tasks on a machine, without costs unless there is a cost of leaving idleness, under a scheduler that asks for a level if it is defined.
fn on(machine: Machine, definitions: &[&str], tasks: &str) -> Outcome {
    let text = format!(r#"{{"tasks": {{{tasks}}}}}"#);
    let options = Options { cost: CostModel::zero(), ..Options::new(machine, workload(&text)) };
    run(&scheduler("shortfalls", definitions), &options)
}

/// A task that sleeps until each multiple of a period, in microseconds, and then computes.
fn periodic(period: u32, run: u32) -> String {
    let timer = format!(r#""timer": {{"ref": "t", "period": {period}}}"#);
    format!(r#""periodic": {{"loop": -1, "run": {run}, {timer}}}"#)
}

#[test]
fn a_wake_up_from_a_deep_state_takes_its_exit_latency() {
    // After 10 ms in C6. The first run begins where the task was made, on a CPU that is awake.
    let task = r#""sleeper": {"loop": 1, "run": 1000, "sleep": 10000, "run2": 500}"#;
    let awake = on(machine("1", ""), &[], task);
    assert_eq!(awake.end, 11_500_000);
    let asleep = on(machine("1", SLEEPS), &[], task);
    assert_eq!(asleep.end, 11_500_000 + 170_000);
    // 300 us are too short for C6.
    let task = task.replace("10000", "300");
    assert_eq!(on(machine("1", ""), &[], &task).end, 1_800_000);
    assert_eq!(on(machine("1", SLEEPS), &[], &task).end, 1_800_000 + 1_000);
}

#[test]
fn the_exit_latency_takes_the_place_of_the_cost_of_leaving_idleness() {
    let end = |tables: &str| {
        let text =
            r#"{"tasks": {"sleeper": {"loop": 1, "run": 1000, "sleep": 10000, "run2": 500}}}"#;
        let mut options = Options {
            cost: CostModel::zero(),
            ..Options::new(machine("1", tables), workload(text))
        };
        options.cost.idle_exit = 2_000;
        run(&scheduler("shortfalls", &[]), &options).end
    };
    assert_eq!(end(""), 11_500_000 + 2_000);
    assert_eq!(end(SLEEPS), 11_500_000 + 170_000);
}

#[test]
fn a_cpu_that_is_woken_often_stays_out_of_deep_states() {
    // Another task wakes it every 200 us, which no timer foretells; after eight idle times the governor knows.
    let text = r#"{"tasks": {
        "waker": {"loop": 100, "cpus": [0], "run": 200, "resume": "wakee"},
        "wakee": {"loop": 100, "cpus": [1], "suspend": "wakee", "run": 10}
    }}"#;
    let options =
        Options { cost: CostModel::zero(), ..Options::new(machine("2", SLEEPS), workload(text)) };
    let (_, referee) = referee(&scheduler("shortfalls", &[]), &options);
    let (deep, shallow) = (170_000, 1_000);
    assert!((50 * shallow..20 * deep).contains(&referee.overhead), "{}", referee.overhead);
}

/// Two frequencies, the lower of which is a quarter.
const CLOCK: &str = r#"
[[clock]]
rate_limit_us = 1000
origin = "a test"
steps = [{ khz = 500000, mw = 100 }, { khz = 1000000, mw = 400 }, { khz = 2000000, mw = 2000 }]
"#;

#[test]
fn work_takes_longer_at_a_lower_frequency() {
    let hog = r#""hog": {"loop": 1, "run": 4000}"#;
    assert_eq!(on(machine("1", CLOCK), &[], hog).end, 4_000_000);
    // 410 and a quarter of it, in whole numbers, are half of 1024.
    let slow = on(machine("1", CLOCK), &["LEVEL 410"], hog);
    assert_eq!(slow.end, 8_000_000);
    assert_eq!(slow.shortfalls, []);
    assert_eq!(on(machine("1", CLOCK), &["LEVEL 411"], hog).end, 4_000_000);
    assert_eq!(on(machine("1", CLOCK), &["LEVEL 205"], hog).end, 16_000_000);
    assert_eq!(cpu_times(&slow), [8_000_000]);
}

#[test]
fn a_call_within_the_rate_limit_is_lost() {
    // A task that is named fast asks for all, the other for half. The second call comes 0.5 ms after the first.
    let tasks = |first: u32| {
        format!(
            r#""slow": {{"loop": 1, "cpus": [0], "run": {first}}}, "fast": {{"loop": 1, "cpus": [0], "delay": 10, "run": 4000}}"#
        )
    };
    let end = |first| on(machine("1", CLOCK), &["LEVEL 410", "FAST"], &tasks(first)).end;
    assert_eq!(end(250), 500_000 + 8_000_000);
    assert_eq!(end(500), 1_000_000 + 4_000_000);
}

#[test]
fn cpus_with_one_clock_have_the_highest_frequency_that_one_needs() {
    let both = [hog("slow", 0, 0, 4_000), hog("fast", 1, 0, 4_000)].join(",");
    let definitions = ["LEVEL 410", "FAST"];
    let ends = |tables: &str| cpu_times(&on(machine("2", tables), &definitions, &both));
    assert_eq!(ends(CLOCK), [4_000_000, 4_000_000]);
    let each = CLOCK.replace("[[clock]]", "[[clock]]\neach = true");
    assert_eq!(ends(&each), [8_000_000, 4_000_000]);
}

#[test]
fn a_real_time_task_gets_all_of_its_cpu() {
    let hog = r#""hog": {"loop": 1, "run": 4000}"#;
    let fifo =
        r#""fifo": {"loop": 1, "policy": "SCHED_FIFO", "priority": 1, "delay": 2000, "run": 1000}"#;
    // 2 ms at half speed, 1 ms of the other at full speed; then the low level counts again, since the rate limit is over.
    let outcome = on(machine("1", CLOCK), &["LEVEL 410"], &[hog, fifo].join(","));
    assert_eq!(outcome.end, 2_000_000 + 1_000_000 + 6_000_000);
}

/// Adds up the energy of CPUs.
#[derive(Default)]
struct Energy(Vec<u64>);

impl Sink for Energy {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, event: &Event) {
        if let EventKind::Energy { nanojoules, .. } = event.kind {
            self.0.push(nanojoules);
        }
    }
    fn finish(&mut self, _: Nanoseconds) {}
}

fn energy(machine: Machine, definitions: &[&str], tasks: &str) -> Vec<u64> {
    let text = format!(r#"{{"global": {{"duration": 1}}, "tasks": {{{tasks}}}}}"#);
    let options = Options { cost: CostModel::zero(), ..Options::new(machine, workload(&text)) };
    let mut energy = Energy::default();
    simulate(&scheduler("shortfalls", definitions), &options, vec![&mut energy]).unwrap();
    energy.0
}

#[test]
fn the_energy_of_a_periodic_task_is_that_of_its_work() {
    let sleeps = SLEEPS.replace("residency_us = 600", "residency_us = 600, mw = 10");
    let near = |energy: &[u64], joules: f64| {
        let found = energy.iter().sum::<u64>() as f64 / 1e9;
        assert!((found - joules).abs() < 0.001 * joules, "{found} J, not {joules} J");
    };
    // For one second, 3 of every 10 ms at 2 W.
    let task = periodic(10_000, 3_000);
    assert_eq!(energy(machine("1", ""), &[], &task), [0; 0]);
    near(&energy(machine("1", CLOCK), &[], &task), 0.3 * 2.0);
    // At half the frequency it takes 6 ms at 0.4 W.
    near(&energy(machine("1", CLOCK), &["LEVEL 410"], &task), 0.6 * 0.4);
    // With idle states, the CPU is awake for 170 us more and consumes 10 mW in C6.
    let both = format!("{sleeps}{CLOCK}");
    near(&energy(machine("1", &both), &[], &task), 0.317 * 2.0 + 0.683 * 0.01);
    // A second CPU with the same clock is asleep all the time.
    let two =
        energy(machine("2", &both), &[], &task.replace("\"loop\"", "\"cpus\": [0], \"loop\""));
    near(&two[1..], 0.01);
}
