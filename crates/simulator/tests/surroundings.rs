//! What there is besides the tasks of a workload: it goes through the scheduler, and results do not show it.

mod common;

use common::{Log, Referee, free, scheduler};
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
