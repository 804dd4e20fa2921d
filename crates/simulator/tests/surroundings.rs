//! What there is besides the tasks of a workload: it goes through the scheduler, and results do not show it.

mod common;

use common::{Log, Referee, built_in, free, scheduler};
use fairground_simulator::{
    Creator, ExitKind, Housekeeping, Options, Outcome, Surroundings, simulate,
};

const TWO_HOGS: &str = r#"{"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000000}}}"#;
const SECOND: u64 = 1_000_000_000;

fn surrounded(machine: &str, surroundings: Surroundings) -> Options {
    let mut options = free(machine, TWO_HOGS);
    options.duration = Some(SECOND);
    options.surroundings = surroundings;
    options
}

fn creator() -> Surroundings {
    Surroundings {
        creator: Some(Creator {
            age: 300_000_000,
            cpu_time: 200_000_000,
            waits: 4,
            preparation: 100_000,
        }),
        housekeeping: None,
    }
}

fn housekeeping() -> Surroundings {
    Surroundings {
        creator: None,
        housekeeping: Some(Housekeeping {
            pause: 9_000_000,
            turn: 1_000_000,
        }),
    }
}

/// Places of the lines that begin like this.
fn places(outcome: &Outcome, beginning: &str) -> Vec<usize> {
    let lines = outcome.messages.iter().enumerate();
    lines
        .filter(|(_, line)| line.starts_with(beginning))
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn the_run_begins_when_all_tasks_are_let_go() {
    for machine in ["1", "2"] {
        let mut referee = Referee::default();
        let mut log = Log::default();
        let options = surrounded(machine, creator());
        let outcome = simulate(
            &scheduler("bare", &[]),
            &options,
            vec![&mut referee, &mut log],
        );
        let outcome = outcome.expect("it loads");
        assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
        assert_eq!(outcome.end, SECOND);
        // What was before is not in the result: all the time is there for the two.
        let cpus: u64 = machine.parse().expect("a number");
        assert_eq!(referee.ran.iter().sum::<u64>(), cpus * SECOND);
        let wakes: Vec<&String> = log.0.iter().filter(|line| line.contains("Wake")).collect();
        assert_eq!(wakes.len(), 2);
        assert!(wakes.iter().all(|line| line.contains("time: 0,")));
    }
}

#[test]
fn the_creator_has_run_and_slept_and_is_in_nobodys_way() {
    let outcome = simulate(
        &scheduler("order", &[]),
        &surrounded("1", creator()),
        Vec::new(),
    )
    .expect("it loads");
    let create = places(&outcome, "init_task 1001 fork 1")[0];
    let sleeps = places(&outcome, "quiescent 1000");
    assert_eq!(sleeps.iter().filter(|place| **place < create).count(), 4);
    // It becomes a real-time task once the second is prepared, and the two run without it from then on.
    let free = places(&outcome, "disable 1000")[0];
    assert!(free > places(&outcome, "quiescent 1002")[0]);
    assert!(
        places(&outcome, "running 1000")
            .iter()
            .all(|run| *run < free)
    );
    assert!(
        places(&outcome, "running 1002")
            .iter()
            .any(|run| *run > free)
    );
}

#[test]
fn threads_of_the_kernel_take_their_time_on_every_cpu() {
    let mut referee = Referee::default();
    let order = scheduler("order", &[]);
    let options = surrounded("2", housekeeping());
    let outcome = simulate(&order, &options, vec![&mut referee]).expect("it loads");
    assert!(places(&outcome, "running 10 cpu 0").len() > 10);
    assert!(places(&outcome, "running 11 cpu 1").len() > 10);
    assert!(places(&outcome, "running 10 cpu 1").is_empty());
    // They ask for up to a tenth of each CPU, less where they wait for a hog's slice to end.
    let left: u64 = referee.ran.iter().sum();
    assert!(
        (18 * SECOND / 10..2 * SECOND - SECOND / 20).contains(&left),
        "{left}"
    );
    assert_eq!(outcome.tasks.len(), 2, "they are no result");
}

#[test]
fn threads_of_the_kernel_are_woken_from_soft_interrupts() {
    let options = surrounded("1", housekeeping());
    let outcome = simulate(&scheduler("interrupt", &[]), &options, Vec::new()).expect("it loads");
    assert!(!places(&outcome, "kworker/0:0 woken in 2").is_empty());
    assert!(places(&outcome, "kworker/0:0 woken in 1").is_empty());
}

#[test]
fn what_the_creator_did_is_inherited() {
    // ULE takes threads for interactive whose creator has slept a lot, and for batch threads if it has used the CPU.
    let light = |age, cpu_time| {
        let mut options = free(
            "1",
            r#"{"tasks": {
                "hog": {"loop": -1, "run": 1000000},
                "light": {"loop": -1, "run": 2000, "sleep": 2000}}}"#,
        );
        options.duration = Some(SECOND / 2);
        options.surroundings.creator = Some(Creator {
            age,
            cpu_time,
            waits: 10,
            preparation: 100_000,
        });
        let mut referee = Referee::default();
        simulate(&built_in("ule"), &options, vec![&mut referee]).expect("it loads");
        referee.ran[1]
    };
    let (sleepy, busy) = (
        light(3 * SECOND, SECOND / 10),
        light(2 * SECOND, 19 * SECOND / 10),
    );
    assert!(sleepy > 2 * busy, "{sleepy} ns and {busy} ns");
}

#[test]
fn the_same_surroundings_give_the_same_events() {
    let log = || {
        let mut log = Log::default();
        let surroundings = Surroundings {
            creator: creator().creator,
            housekeeping: housekeeping().housekeeping,
        };
        let options = surrounded("2", surroundings);
        simulate(&scheduler("bare", &[]), &options, vec![&mut log]).expect("it loads");
        log.0
    };
    assert_eq!(log(), log());
}
