//! The surroundings of a workload's tasks go through the scheduler, and results do not show them.

mod common;

use fairground_events::{Event, EventKind, Outsider, Sink, TaskId, TaskInfo};

use common::{Log, Referee, built_in, free, scheduler};
use fairground_simulator::{
    Creator, ExitKind, Options, Outcome, Surroundings, Thread, Turn, simulate,
};
use fairground_workload::Policy;

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
            begin: None,
        }),
        ..Surroundings::default()
    }
}

/// A thread that is woken every 10 ms and asks for 1 ms.
fn thread(cpu: u32, kernel: bool, policy: Policy) -> Thread {
    Thread {
        name: format!("thread{cpu}"),
        kernel,
        policy,
        cpus: Some(vec![cpu]),
        group: None,
        turns: (1..100)
            .map(|number| Turn { at: number * 10_000_000, cpu_time: 1_000_000 })
            .collect(),
        period: None,
    }
}

#[test]
fn a_thread_may_do_the_same_again_and_again() {
    let once = Turn { at: 10_000_000, cpu_time: 1_000_000 };
    let surroundings = |turns: Vec<Turn>, period| Surroundings {
        threads: vec![Thread { group: None, turns, period, ..thread(0, true, ordinary()) }],
        ..Surroundings::default()
    };
    let listed = surroundings(thread(0, true, ordinary()).turns, None);
    let repeated = surroundings(vec![once], Some(10_000_000));
    let log = |surroundings| {
        let mut options = surrounded("1", surroundings);
        options.duration = Some(950_000_000);
        let mut log = Log::default();
        let outcome = simulate(&built_in("cfs"), &options, vec![&mut log]).unwrap();
        (log.0, outcome.time_of_other_threads)
    };
    let (events, time) = log(listed);
    assert_eq!((events, time), log(repeated));
    // 94 turns of 1 ms, and perhaps part of the last.
    assert!((94_000_000..=95_000_000).contains(&time), "{time}");
    assert_eq!(log(Surroundings::default()).1, 0);
}

/// When others have which CPU.
#[derive(Default)]
struct Outsiders(Vec<(u64, u32, Option<Outsider>)>);

impl Sink for Outsiders {
    fn task(&mut self, _: u64, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, event: &Event) {
        if let EventKind::Outside { cpu, who } = event.kind {
            self.0.push((event.time, cpu.0, who));
        }
    }
    fn finish(&mut self, _: u64) {}
}

#[test]
fn sinks_see_that_others_have_a_cpu_and_of_which_kind() {
    let fifo = Policy::Fifo { priority: 50 };
    let threads = vec![thread(0, true, ordinary()), thread(1, false, fifo)];
    let mut outsiders = Outsiders::default();
    let options = surrounded("2", Surroundings { threads, ..Surroundings::default() });
    let outcome = simulate(&built_in("cfs"), &options, vec![&mut outsiders]).unwrap();
    assert_eq!(outcome.wanted_by_other_threads, 2 * 99_000_000);
    assert_eq!(outcome.done_by_other_threads, 2 * 99_000_000);
    let mut used = [0; 2];
    let mut since = [None; 2];
    for (time, cpu, who) in outsiders.0 {
        let cpu = cpu as usize;
        if let Some(begin) = since[cpu].take() {
            used[cpu] += time - begin;
        }
        since[cpu] = who.map(|_| time);
        let expected = [Outsider::Other, Outsider::RealTime][cpu];
        assert!(who.is_none_or(|who| who == expected), "CPU {cpu} has {who:?}");
    }
    // Those of real-time come before all, and a turn of 1 ms is less than what the others wait for beside a hog in 10 ms.
    assert_eq!(used, [99_000_000; 2]);
}

/// On hardware threads that share a core, half of the time is more than half of the work.
#[test]
fn what_others_did_is_never_more_than_they_wanted() {
    for machine in ["core:1 pu:2 smt:1.15", "phone"] {
        let outcome = simulate(&built_in("cfs"), &surrounded(machine, threads()), Vec::new());
        let outcome = outcome.unwrap();
        let (wanted, done) = (outcome.wanted_by_other_threads, outcome.done_by_other_threads);
        assert!(done > wanted / 2 && done <= wanted, "{machine}: {done} of {wanted}");
        assert!(done < outcome.time_of_other_threads, "{machine}: {done}");
    }
}

fn ordinary() -> Policy {
    Policy::Other { nice: 0, slice: None }
}

fn threads() -> Surroundings {
    Surroundings {
        creator: None,
        threads: vec![thread(0, true, ordinary()), thread(1, false, ordinary())],
        tick_offset: 0,
    }
}

/// Places of the lines that begin like this.
fn places(outcome: &Outcome, beginning: &str) -> Vec<usize> {
    let lines = outcome.messages.iter().enumerate();
    lines.filter(|(_, line)| line.starts_with(beginning)).map(|(place, _)| place).collect()
}

#[test]
fn the_run_begins_when_all_tasks_are_let_go() {
    for machine in ["1", "2"] {
        let mut referee = Referee::default();
        let mut log = Log::default();
        let options = surrounded(machine, creator());
        let outcome = simulate(&scheduler("bare", &[]), &options, vec![&mut referee, &mut log]);
        let outcome = outcome.expect("it loads");
        assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
        assert_eq!(outcome.end, SECOND);
        // The time before is not in the result: all the time is there for the two.
        let cpus: u64 = machine.parse().expect("a number");
        assert_eq!(referee.ran.iter().sum::<u64>(), cpus * SECOND);
        let wakes: Vec<&String> = log.0.iter().filter(|line| line.contains("Wake")).collect();
        assert_eq!(wakes.len(), 2);
        assert!(wakes.iter().all(|line| line.contains("time: 0,")));
    }
}

#[test]
fn the_creator_has_run_and_slept_and_is_in_nobodys_way() {
    let outcome = simulate(&scheduler("order", &[]), &surrounded("1", creator()), Vec::new())
        .expect("it loads");
    let create = places(&outcome, "init_task 1001 fork 1")[0];
    let sleeps = places(&outcome, "quiescent 1000");
    assert_eq!(sleeps.iter().filter(|place| **place < create).count(), 4);
    // It becomes a real-time task once the second is prepared, and the two run without it from then on.
    let free = places(&outcome, "disable 1000")[0];
    assert!(free > places(&outcome, "quiescent 1002")[0]);
    assert!(places(&outcome, "running 1000").iter().all(|run| *run < free));
    assert!(places(&outcome, "running 1002").iter().any(|run| *run > free));
}

#[test]
fn a_thread_has_the_policy_of_its_creator_until_it_has_run() {
    let mut options = surrounded("1", creator());
    let light = r#"{"tasks": {"light": {"priority": 10, "loop": -1, "run": 1000}}}"#;
    options.workload = free("1", light).workload;
    let outcome = simulate(&scheduler("order", &[]), &options, Vec::new()).expect("it loads");
    let (born, asks) =
        (places(&outcome, "set_weight 1001 100")[0], places(&outcome, "set_weight 1001 11")[0]);
    // A change of weight takes a task that runs from its queue and puts it back.
    let runs = places(&outcome, "running 1001");
    assert!(born < runs[0] && runs[0] < asks && asks < runs[1]);
}

#[test]
fn other_threads_take_their_turns() {
    let mut referee = Referee::default();
    let order = scheduler("order", &[]);
    let options = surrounded("2", threads());
    let outcome = simulate(&order, &options, vec![&mut referee]).expect("it loads");
    assert_eq!(places(&outcome, "quiescent 2000000").len(), 99);
    assert_eq!(places(&outcome, "quiescent 2000001").len(), 99);
    assert!(places(&outcome, "running 2000000 cpu 1").is_empty());
    // They take a tenth of each CPU.
    let left: u64 = referee.ran.iter().sum();
    assert!((17 * SECOND / 10..19 * SECOND / 10).contains(&left), "{left}");
    assert_eq!(outcome.tasks.len(), 2, "they are no result");
}

#[test]
fn threads_of_real_time_are_above_the_scheduler_and_come_when_they_came() {
    let mut log = Log::default();
    let surroundings = Surroundings {
        creator: creator().creator,
        threads: vec![thread(0, false, Policy::Fifo { priority: 99 })],
        tick_offset: 0,
    };
    let options = surrounded("1", surroundings);
    let outcome = simulate(&scheduler("order", &[]), &options, vec![&mut log]).expect("it loads");
    assert!(places(&outcome, "running 2000000").is_empty());
    for number in 1..100 {
        let leaves = format!("time: {},", number * 10_000_000);
        let returns = format!("time: {},", number * 10_000_000 + 1_000_000);
        let switches =
            |time: &str| log.0.iter().any(|line| line.contains(time) && line.contains("Switch"));
        assert!(switches(&leaves) && switches(&returns), "turn {number}");
    }
}

#[test]
fn threads_of_the_kernel_are_woken_from_soft_interrupts() {
    let woken = |kernel| {
        let mut options = surrounded("1", threads());
        options.surroundings.threads = vec![thread(0, kernel, ordinary())];
        let outcome = simulate(&scheduler("interrupt", &[]), &options, Vec::new());
        let outcome = outcome.expect("it loads");
        ["thread0 woken in 1", "thread0 woken in 2"]
            .map(|beginning| !places(&outcome, beginning).is_empty())
    };
    assert_eq!(woken(true), [false, true]);
    assert_eq!(woken(false), [true, false]);
}

#[test]
fn the_run_begins_when_it_is_told_to() {
    for (begin, tick_offset, first_tick) in [
        (20_000, 0, 3_980_000),
        (1_234_567, 0, 2_765_433),
        (987_000_000, 1_500_000, 2_500_000),
        (987_000_000, 3_200_000, 200_000),
    ] {
        let mut log = Log::default();
        let mut surroundings = creator();
        surroundings.tick_offset = tick_offset;
        if let Some(creator) = &mut surroundings.creator {
            creator.begin = Some(begin);
        }
        let mut options = surrounded("1", surroundings);
        options.hz = 250;
        options.cost.tick = 1_000;
        simulate(&scheduler("bare", &[]), &options, vec![&mut log]).expect("it loads");
        // Ticks are the only interrupts that cost something.
        let first = log.0.iter().find(|line| line.contains("Interrupt"));
        let first = first.expect("there are ticks");
        let expected = format!("time: {first_tick},");
        assert!(first.contains(&expected), "{first} and not {expected}");
    }
}

/// CPU time that a light task gets beside a hog under ULE, which takes threads for interactive whose creator has slept a lot,
/// and for batch threads if it has used the CPU.
fn light_task_of(creator: Creator, timer_slack: u64) -> u64 {
    let mut options = free(
        "1",
        r#"{"tasks": {
            "hog": {"loop": -1, "run": 1000000},
            "light": {"loop": -1, "run": 2000, "sleep": 2000}}}"#,
    );
    options.duration = Some(SECOND / 2);
    options.surroundings.creator = Some(creator);
    options.cost.timer_slack = timer_slack;
    let mut referee = Referee::default();
    simulate(&built_in("ule"), &options, vec![&mut referee]).expect("it loads");
    referee.ran[1]
}

const SLEEPY: Creator = Creator {
    age: 3 * SECOND,
    cpu_time: SECOND / 10,
    waits: 10,
    preparation: 100_000,
    begin: None,
};

#[test]
fn what_the_creator_did_is_inherited() {
    let busy = Creator { age: 2 * SECOND, cpu_time: 19 * SECOND / 10, ..SLEEPY };
    let (sleepy, busy) = (light_task_of(SLEEPY, 0), light_task_of(busy, 0));
    assert!(sleepy > 2 * busy, "{sleepy} ns and {busy} ns");
}

#[test]
fn late_timers_do_not_make_the_creator_wait_for_another_second() {
    let busy = Creator {
        age: SECOND / 2,
        cpu_time: 2 * SECOND / 5,
        waits: 200,
        begin: Some(123_000_000),
        ..SLEEPY
    };
    let (sleepy, busy) = (light_task_of(SLEEPY, 50_000), light_task_of(busy, 50_000));
    assert!(sleepy > 2 * busy, "{sleepy} ns and {busy} ns");
}

#[test]
fn the_same_surroundings_give_the_same_events() {
    let log = || {
        let mut log = Log::default();
        let surroundings = Surroundings { creator: creator().creator, ..threads() };
        let options = surrounded("2", surroundings);
        simulate(&scheduler("bare", &[]), &options, vec![&mut log]).expect("it loads");
        log.0
    };
    assert_eq!(log(), log());
}
