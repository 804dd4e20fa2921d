//! CPUs that share cores, sleep and change speed: each effect by hand, to the nanosecond.

mod common;

use common::{free, run, scheduler};
use fairground_simulator::Outcome;

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
    assert_eq!(
        outcome("core:2 pu:2 smt:1.25", &both.replace("[1]", "[2]")).end,
        5_000_000
    );
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
    let tasks: Vec<String> = (0..4)
        .map(|cpu| hog(&format!("t{cpu}"), cpu, 0, 4_000))
        .collect();
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
