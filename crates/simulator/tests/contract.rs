//! The contract of sched_ext: which callbacks are called when, with which flags, the kernel's defaults and its refusals.

mod common;
#[path = "support/overhead.rs"]
mod overhead;

use common::{Log, Referee, free, load, referee, run, scheduler};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, ExitKind, Hotplug, Options, Outcome, simulate};

/// A change of CPU `cpu` at a time.
fn change(at: u64, cpu: usize, online: bool) -> Hotplug {
    Hotplug { at, cpu, online }
}

const TWO_HOGS: &str =
    r#"{"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000000}}, "global": {"duration": 1}}"#;
const SLEEPER: &str =
    r#"{"tasks": {"t": {"loop": 2, "phases": {"p": {"loop": 1, "run": 6000, "sleep": 3000}}}}}"#;

#[test]
fn the_life_of_a_task_on_one_cpu() {
    let outcome = run(&scheduler("order", &[]), &free("1", SLEEPER));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    let expected = [
        "init",
        "init_task 1000 fork 0",
        "enable 1000",
        "set_weight 1000 100",
        "update_idle 0 1",
        "init_task 1001 fork 1",
        "enable 1001",
        "set_weight 1001 100",
        // One allowed CPU: select_cpu is not called. ENQUEUE_INITIAL is 0x80000, ENQUEUE_NOCLOCK 0x8.
        "runnable 1001 0x80008",
        "enqueue 1001 0x80008",
        "dispatch cpu 0 prev 0",
        "dequeue 1001 0x0",
        "update_idle 0 0",
        "running 1001 cpu 0",
        "tick 1001",
        // The first sleep, at 6 ms: stopping comes from the dequeue, before quiescent.
        "stopping 1001 runnable 0",
        "quiescent 1001 0x9",
        "dispatch cpu 0 prev 1001",
        "update_idle 0 1",
        "runnable 1001 0x9",
        "enqueue 1001 0x9",
        "dispatch cpu 0 prev 0",
        "dequeue 1001 0x0",
        "update_idle 0 0",
        "running 1001 cpu 0",
    ];
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    assert_eq!(&seen[..expected.len()], expected);
    let end = &seen[seen.len() - 5..];
    assert!(
        end.contains(&"disable 1001") && end.contains(&"exit_task 1001 cancelled 0"),
        "{end:?}"
    );
    assert!(seen.contains(&"disable 1000") && seen.contains(&"exit_task 1000 cancelled 0"));
}

#[test]
fn select_cpu_comes_with_the_kernels_flags() {
    let outcome = run(&scheduler("order", &[]), &free("2", SLEEPER));
    let seen = &outcome.messages;
    assert!(seen.contains(&"select_cpu 1001 prev 0 flags 0x4".to_string()), "{seen:?}");
    assert!(seen.contains(&"select_cpu 1001 prev 0 flags 0x8".to_string()), "{seen:?}");
    // ENQUEUE_RQ_SELECTED comes with ENQUEUE_WAKEUP, and not with ENQUEUE_INITIAL.
    assert!(seen.contains(&"enqueue 1001 0x80008".to_string()), "{seen:?}");
    assert!(seen.contains(&"enqueue 1001 0x100009".to_string()), "{seen:?}");
}

/// The lines that the programs of `traces` print about a task that waits for a mutex, and about its owner.
fn traces() -> Vec<String> {
    let workload = r#"{"tasks": {
        "owner": {"loop": 1, "lock": "m", "run": 9000, "unlock": "m", "run1": 1000},
        "waiter": {"loop": 1, "run": 1000, "lock": "m", "unlock": "m"}}}"#;
    let mut options = free("2", workload);
    options.hz = 250;
    run(&scheduler("traces", &[]), &options).messages
}

fn follows(seen: &[String], expected: &[&str]) {
    let mut rest = seen.iter();
    for line in expected {
        assert!(rest.any(|seen| seen == line), "{line} is missing in {seen:#?}");
    }
}

#[test]
fn programs_run_at_the_events_of_the_kernel() {
    let seen = traces();
    follows(
        &seen,
        &[
            // The program itself switches migration off for the task that it interrupts.
            "registered, 1",
            "fork of 1001 by 1000",
            "wakeup_new 1001",
            "fork of 1002 by 1000",
            // While a task is picked and switched to, the CPU still works for the one before.
            "running 1001 in 0",
            "switch from 0 to 1001 state 0 in 0",
            "record from swapper 0 to owner 1001",
            // The waiter goes to sleep, and its owner wakes it.
            "switch from 1002 to 0 state 1 in 1002",
            "tick of CPU 0",
            "try_to_wake_up 1002 state 3 flags 0x8",
            "waking 1002 state 0x1",
            "wakeup 1002 state 0x0",
            "try_to_wake_up returns 1",
            "futex 202 returns 1 to 1001",
            "futex_wait of 2 returns 0",
            "futex 202 returns 0 to 1002",
            "exit 1002 last 0",
            "exit 1001 last 0",
        ],
    );
    assert!(!seen.contains(&"never".to_string()));
    let moves = r#"{"tasks": {"t": {"loop": 1, "phases": {
        "here": {"loop": 1, "cpus": [0], "run": 1000}, "there": {"loop": 1, "cpus": [1], "run": 1000}}}}}"#;
    let outcome = run(&scheduler("traces", &[]), &free("2", moves));
    // The idle task stands in for the stopper, which moves it.
    follows(
        &outcome.messages,
        &["switch from 1001 to 0 state 0 in 1001", "migrate 1001 from 0 to 1"],
    );
}

#[test]
fn programs_without_an_event_here_are_named() {
    assert_eq!(scheduler("traces", &[]).unattached(), ["tp_btf/cgroup_mkdir"]);
}

#[test]
fn programs_at_events_cost_their_time() {
    let mut options = free("1", SLEEPER);
    options.cost = CostModel::zero();
    options.cost.callback = 1_000;
    let (_, without) = referee(&scheduler("bare", &[]), &options);
    let (_, with) = referee(&scheduler("traces", &[]), &options);
    assert!(
        with.overhead >= without.overhead + 10_000,
        "{} without, {} with",
        without.overhead,
        with.overhead
    );
}

#[test]
fn a_timer_wakes_from_its_interrupt_and_a_task_does_not() {
    let workload = r#"{"tasks": {
        "sleeper": {"loop": 1, "run": 1000, "sleep": 3000},
        "waiter": {"loop": 1, "suspend": "waiter"},
        "waker": {"loop": 1, "run": 9000, "resume": "waiter"}}}"#;
    let outcome = run(&scheduler("interrupt", &[]), &free("2", workload));
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    for expected in ["sleeper woken in 1", "waiter woken in 0", "timer in 2"] {
        assert!(seen.contains(&expected), "{seen:?}");
    }
    assert!(!seen.contains(&"sleeper woken in 0"), "{seen:?}");
}

#[test]
fn sleeps_end_after_their_slack_or_with_an_earlier_interrupt_of_a_timer_within_it() {
    let text = r#"{"tasks": {
        "first": {"loop": 1, "sleep": 3000},
        "second": {"loop": 1, "sleep": 3040},
        "later": {"loop": 1, "sleep": 3060},
        "before_a_tick": {"loop": 1, "sleep": 7970},
        "hog": {"loop": -1, "run": 1000}
    }, "global": {"duration": 1}}"#;
    let mut options = free("1", text);
    options.hz = 250;
    options.cost.timer_slack = 50_000;
    let mut log = Log::default();
    simulate(&scheduler("bare", &[]), &options, vec![&mut log]).unwrap();
    let woken = |task: u32| {
        let wake = format!("Wake {{ task: TaskId({task})");
        let place = log.0.iter().rposition(|line| line.contains(&wake)).unwrap();
        let (_, time) = log.0[place].split_once("time: ").unwrap();
        let time: u64 = time.split_once(',').unwrap().0.parse().unwrap();
        (time, place)
    };
    // One interrupt ends both sleeps, that with the earlier end first.
    let (first, place) = woken(0);
    assert_eq!(first, 3_050_000);
    assert_eq!(woken(1), (first, place + 1));
    assert_eq!(woken(2).0, 3_110_000);
    // The timer tick is such an interrupt.
    assert_eq!(woken(3).0, 8_000_000);
}

#[test]
fn interrupts_that_cost_nothing_take_nothing() {
    // The sleeps of the others end while one runs.
    let text = r#"{"tasks": {"t": {"instance": 3, "loop": 20, "phases": {"p": {
        "run": 5300, "sleep": 1000, "run1": 2100, "sleep1": 700}}}}}"#;
    let outcome = run(&scheduler("bare", &[]), &free("1", text));
    for task in &outcome.tasks {
        assert_eq!(task.cpu_time, 20 * 7_400_000, "{}", task.name);
    }
}

#[test]
fn who_runs_a_program_cannot_migrate_meanwhile() {
    // A task that is put back calls the scheduler itself; one that wakes up is called for by others.
    let workload = r#"{"tasks": {
        "hog": {"instance": 2, "loop": -1, "run": 1000},
        "sleeper": {"loop": -1, "run": 1000, "sleep": 3000}}}"#;
    let mut options = free("1", workload);
    options.duration = Some(1_000_000_000);
    let outcome = run(&scheduler("migration", &[]), &options);
    let mut seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["current: 1 levels, own 0", "other: 0 levels, own 0"]);
}

#[test]
fn a_slice_ends_at_the_first_tick_after_it() {
    let (_, referee) = referee(&scheduler("fault", &[]), &free("1", TWO_HOGS));
    // 5 ms slices, ticks every 4 ms: runs of 8 ms.
    assert!(referee.runs.len() > 100);
    for (_, from, to) in &referee.runs {
        assert_eq!(to - from, 8_000_000);
    }
}

#[test]
fn without_callbacks_the_kernels_defaults_schedule() {
    let (outcome, referee) = referee(
        &scheduler("bare", &[]),
        &free(
            "2",
            r#"{"tasks": {"hog": {"instance": 4, "loop": -1, "run": 1000000}}, "global": {"duration": 10}}"#,
        ),
    );
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    let refills = outcome.events.iter().find(|(name, _)| *name == "SCX_EV_REFILL_SLICE_DFL");
    assert!(refills.is_some_and(|(_, count)| *count > 100), "{:?}", outcome.events);
    // The global queue is a FIFO with slices of 20 ms: equal shares, each within a few slices of a half of a CPU.
    for ran in &referee.ran {
        assert!(ran.abs_diff(5_000_000_000) < 100_000_000, "{:?}", referee.ran);
    }
}

#[test]
fn a_task_goes_on_alone_and_enq_last_takes_that_away() {
    let one = r#"{"tasks": {"hog": {"loop": -1, "run": 1000000}}, "global": {"duration": 1}}"#;
    let outcome = run(&scheduler("fault", &[]), &free("1", one));
    let kept = outcome.events.iter().find(|(name, _)| *name == "SCX_EV_DISPATCH_KEEP_LAST");
    assert!(kept.is_some_and(|(_, count)| *count > 40), "{:?}", outcome.events);
    let outcome = run(&scheduler("fault", &["FLAGS SCX_OPS_ENQ_LAST"]), &free("1", one));
    assert!(outcome.events.iter().all(|(name, _)| *name != "SCX_EV_DISPATCH_KEEP_LAST"));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
}

#[test]
fn errors_unload_the_scheduler_with_the_kernels_words() {
    for (definition, kind, message) in [
        ("BOGUS_DSQ", ExitKind::Error, "non-existent DSQ 0xdeadbeef"),
        ("VTIME_LOCAL", ExitKind::Error, "cannot use vtime ordering for built-in DSQs"),
        ("MOVE_FROM_NOWHERE", ExitKind::Error, "invalid DSQ ID 0x0000000000000063"),
        ("SELECT_INVALID_CPU", ExitKind::Error, "invalid CPU 4000 from ops.select_cpu()"),
        ("SELECT_INSERTS_TWICE", ExitKind::Error, "hog-0[1001] already direct-dispatched"),
        ("LOCAL_ON 77", ExitKind::Error, "invalid CPU 77 in SCX_DSQ_LOCAL_ON dispatch verdict"),
        ("ERROR_ON_ENQUEUE", ExitKind::ErrorBpf, "no more of 1001"),
        ("INIT_FAILS", ExitKind::Error, "ops.init() failed (-12)"),
    ] {
        let outcome = run(&scheduler("fault", &[definition]), &free("2", TWO_HOGS));
        assert_eq!(outcome.exit.kind, kind, "{definition}");
        assert_eq!(outcome.exit.message, message, "{definition}");
    }
}

#[test]
fn local_on_a_cpu_that_is_not_allowed_is_an_error() {
    let pinned =
        r#"{"tasks": {"hog": {"loop": -1, "run": 1000, "cpus": [0]}}, "global": {"duration": 1}}"#;
    let outcome = run(&scheduler("fault", &["LOCAL_ON 1"]), &free("2", pinned));
    assert_eq!(outcome.exit.kind, ExitKind::Error);
    assert_eq!(outcome.exit.message, "SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for hog[1001]");
}

#[test]
fn the_watchdog_names_the_task_that_was_lost() {
    let mut options = free("1", TWO_HOGS);
    options.duration = Some(60_000_000_000);
    let outcome = run(&scheduler("fault", &["LOSE 1002"]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::ErrorStall);
    assert!(
        outcome.exit.message.starts_with("hog-1[1002] failed to run for "),
        "{}",
        outcome.exit.message
    );
    assert!(outcome.exit.time > 5_000_000_000 && outcome.exit.time < 9_000_000_000);
    assert!(outcome.exit.dump.contains("hog-1[1002]"), "{}", outcome.exit.dump);
    assert_eq!(outcome.exit.reason, "runnable task stall");
}

#[test]
fn a_dump_has_the_kernels_lines_and_what_lies_in_queues() {
    let text = r#"{"tasks": {"hog": {"instance": 3, "run": 20000}}}"#;
    let mut options = free("2", text);
    options.duration = Some(60_000_000_000);
    let dump = run(&scheduler("fault", &["LOSE 1002"]), &options).exit.dump;
    let heading = "fault: root\nwatchdog triggered exit kind 1026 on CPU ";
    assert!(dump.starts_with(heading), "{dump}");
    let mut rest = dump.as_str();
    for part in [
        ":\n  runnable task stall (hog-1[1002] failed to run for ",
        "\n\nBacktrace:\n\nCPU states\n----------\n\nCPU ",
        ": nr_run=",
        " flags=0x1 cpu_rel=0 ops_qseq=",
        " class=ext_sched_class\n",
        "\n *R hog-",
        "\n  R hog-1[1002] *root -",
        "ms\n      scx_state/flags=4/0x",
        " dsq_flags=0x0 ops_state/qseq=2/",
        "\n      sticky/holding_cpu=-1/-1 dsq_id=(n/a)\n      dsq_vtime=0 slice=",
        " weight=100\n      cpus=3 no_mig=0\n",
        "\n\nEvent counters\n--------------\n",
        "             SCX_EV_SELECT_CPU_FALLBACK: ",
    ] {
        let found = rest.split_once(part);
        (_, rest) = found.unwrap_or_else(|| panic!("no {part:?} in its place in\n{dump}"));
    }
}

#[test]
fn a_dump_comes_from_the_callback_that_failed_and_shows_queues_in_their_order() {
    let text = r#"{"tasks": {"hog": {"instance": 4, "run": 20000}}}"#;
    let mut options = free("1", text);
    options.duration = Some(1_000_000_000);
    let dump = run(&scheduler("dumps", &[]), &options).exit.dump;
    for part in [
        "] triggered exit kind 1025 on CPU 0:\n  scx_bpf_error (enough)\n",
        "\nBacktrace:\n  bpf__sched_ext_ops_tick\n\nall in all\n\nCPU states\n",
        "\n\n  CPU 0 is busy\n\n *R hog-",
        "no_mig=0\n\n    it is 1001\n",
        "\nDispatch queues\n---------------\nDSQ 0x5: nr=3\n  hog-2[1003] dsq_vtime=8997 slice=",
        "\n  hog-1[1002] dsq_vtime=8998 slice=",
    ] {
        assert!(dump.contains(part), "no {part:?} in\n{dump}");
    }
    let cut = run(&scheduler("dumps", &["DUMP_LENGTH 300"]), &options);
    assert_eq!(cut.exit.dump.len(), 299);
    assert!(cut.exit.dump.ends_with("\n\n~~~~ TRUNCATED ~~~~\n"));
}

#[test]
fn a_task_that_is_moved_to_another_cpu_goes_to_the_end_of_its_list() {
    let text = r#"{"tasks": {"hog": {"instance": 4, "run": 20000}}}"#;
    let mut options = free("2", text);
    options.duration = Some(1_000_000_000);
    let dump = run(&scheduler("dumps", &["GATHER 4"]), &options).exit.dump;
    let said = dump.lines().filter_map(|line| line.trim().strip_prefix("it is "));
    let order: Vec<&str> = said.collect();
    // 1004 runs. 1002 was on this CPU's list before the others were moved, in the order of the queue.
    assert_eq!(order, ["1004", "1002", "1003", "1001"], "{dump}");
}

#[test]
fn the_watchdog_counts_from_the_fork_of_a_task() {
    // Every 0.2 s two jobs of a make are forked, of which some always wait for the first time when the watchdog looks.
    let text = r#"{"tasks": {
        "make": {"loop": 1, "phases": {"slots": {"loop": 16, "sem_post": "slot"},
            "jobs": {"loop": 1000, "sem_wait": "slot", "run": 1000, "fork": "job"}}},
        "job": {"instance": 0, "loop": 1, "phases": {"all": {"run": 200000, "sem_post": "slot"}}}},
        "global": {"duration": 62}}"#;
    let outcome = run(&scheduler("bare", &[]), &free("2", text));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{:?}", outcome.exit);
}

#[test]
fn missing_functions_are_named_all_of_them() {
    let message = match load("fault", &["UNKNOWN_KFUNC"]) {
        Ok(_) => panic!("it is loaded"),
        Err(error) => error.to_string(),
    };
    for part in [
        "a kernel would not load this object",
        "the kernel has no function scx_bpf_teleport, needed in fault_dispatch at ",
        "the kernel has no function scx_bpf_levitate, needed in ",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_preempting_insertion_takes_the_cpu_at_once() {
    let text = r#"{"tasks": {
        "hog": {"loop": -1, "run": 1000000},
        "urgent": {"priority": -5, "loop": -1, "run": 100, "sleep": 10050}
    }, "global": {"duration": 1}}"#;
    let (_, referee) = referee(&scheduler("fault", &["PREEMPT"]), &free("1", text));
    let urgent: Vec<_> = referee.runs.iter().filter(|(task, _, _)| *task == 1).collect();
    assert!(urgent.len() > 90, "{}", urgent.len());
    for (_, from, to) in urgent {
        assert_eq!(to - from, 100_000);
    }
}

#[test]
fn real_time_tasks_take_cpus_away_and_give_them_back() {
    let text = r#"{"tasks": {
        "hog": {"loop": -1, "run": 1000000},
        "rt": {"policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 2000, "sleep": 8000}
    }, "global": {"duration": 1}}"#;
    let (outcome, referee) = referee(&scheduler("order", &[]), &free("1", text));
    assert!(referee.ran[1] > 195_000_000 && referee.ran[1] < 205_000_000, "{:?}", referee.ran);
    let released = outcome.messages.iter().filter(|m| *m == "cpu_release 0 reason 0").count();
    let acquired = outcome.messages.iter().filter(|m| *m == "cpu_acquire 0").count();
    assert!(released >= 95 && acquired >= 95, "{released} {acquired}");
}

#[test]
fn beside_a_real_time_hog_tasks_of_sched_ext_have_a_twentieth() {
    let text = r#"{"tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 1000000},
        "hog": {"instance": 2, "loop": -1, "run": 1000000}
    }, "global": {"duration": 20}}"#;
    let (_, referee) = referee(&scheduler("order", &[]), &free("1", text));
    let part = referee.ran[1] + referee.ran[2];
    assert!((950_000_000..1_100_000_000).contains(&part), "{part}");
    // The first part comes as late as the deadline allows, the others once a second.
    let first = referee.runs.iter().find(|(task, ..)| *task != 0).unwrap();
    assert!((949_000_000..951_000_000).contains(&first.1), "{first:?}");
    let longest = referee.runs.iter().map(|(_, from, to)| to - from).max();
    assert!(longest <= Some(1_000_000_000), "{longest:?}");
}

/// What `afar` says that begins with these words.
fn told_by_afar<'a>(outcome: &'a Outcome, words: &str) -> Vec<&'a str> {
    outcome.messages.iter().filter_map(|line| line.strip_prefix(words)).collect()
}

#[test]
fn who_was_taken_by_another_cpu_has_a_twentieth_there_as_well() {
    let text = r#"{"tasks": {
        "bound": {"cpus": [0], "loop": -1, "run": 20000},
        "hog": {"loop": -1, "run": 20000},
        "rt": {"cpus": [1], "policy": "SCHED_FIFO", "priority": 10, "delay": 500000, "loop": -1, "run": 20000}
    }, "global": {"duration": 8}}"#;
    let (outcome, referee) = referee(&scheduler("afar", &[]), &free("2", text));
    assert!(referee.ran[1] > 800_000_000, "{:?}", referee.ran);
    assert_eq!(told_by_afar(&outcome, "released for ")[..2], ["0", "0"]);
}

#[test]
fn the_fair_class_takes_a_cpu_for_no_known_reason() {
    let text = r#"{"tasks": {
        "hog": {"policy": "SCHED_EXT", "cpus": [0], "loop": -1, "run": 20000},
        "fair": {"cpus": [0], "loop": -1, "run": 1000, "sleep": 9000}
    }, "global": {"duration": 1}}"#;
    let outcome = run(&scheduler("afar", &["PARTIAL"]), &free("1", text));
    assert_eq!(told_by_afar(&outcome, "released for ")[..2], ["3", "3"]);
}

#[test]
fn who_asks_for_any_cpu_is_told_all_in_turn() {
    let text = r#"{"tasks": {"hog": {"instance": 5, "loop": -1, "run": 20000}}, "global": {"duration": 1}}"#;
    let outcome = run(&scheduler("afar", &[]), &free("4", text));
    // The loader begins on CPU 0, and starts the tasks there.
    assert_eq!(told_by_afar(&outcome, "in turn: ")[..5], ["1", "2", "3", "0", "1"]);
}

#[test]
fn to_reenqueue_a_local_queue_reschedules_no_cpu() {
    let text = r#"{"tasks": {"hog": {"instance": 2, "cpus": [0], "loop": -1, "run": 20000}}, "global": {"duration": 1}}"#;
    let passes = |words: &[&str]| {
        let outcome = run(&scheduler("afar", words), &free("2", text));
        told_by_afar(&outcome, "CPU 1 dispatches").len()
    };
    assert_eq!(passes(&["REENQUEUE"]), passes(&[]));
    // Where another CPU has tasks that wait, it is done.
    let text = text.replace("[0]", "[1]").replace(
        "{\"tasks\": {",
        "{\"tasks\": {\"ticks\": {\"cpus\": [0], \"loop\": -1, \"run\": 20000}, ",
    );
    let outcome = run(&scheduler("afar", &["REENQUEUE"]), &free("2", &text));
    assert!(told_by_afar(&outcome, "queued again on 1").len() > 100, "{:?}", outcome.messages);
}

#[test]
fn before_linux_7_3_an_insertion_sets_the_slice_at_once_and_local_is_where_one_is() {
    let text = r#"{"tasks": {
        "hog": {"instance": 2, "cpus": [0], "loop": -1, "run": 20000},
        "waker": {"cpus": [0], "loop": -1, "run": 1000, "resume": "other", "sleep": 9000},
        "other": {"cpus": [1], "loop": -1, "suspend": "other", "run": 1000}
    }, "global": {"duration": 1}}"#;
    let told = |major, minor| {
        let mut options = free("2", text);
        options.release = fairground_simulator::Release::new(major, minor);
        let scheduler = scheduler("afar", &[]).for_kernel(&options).unwrap();
        let outcome = run(&scheduler, &options);
        let slice = told_by_afar(&outcome, "slice: ")[1].to_owned();
        (slice, told_by_afar(&outcome, "local: ").last().unwrap().to_string())
    };
    // The waker's CPU has two tasks that wait, and that of the task none.
    assert_eq!(told(6, 18), ("5000000".to_owned(), "2, there: 0".to_owned()));
    assert_eq!(told(7, 3), ("20000000".to_owned(), "0, there: 0".to_owned()));
}

#[test]
fn before_linux_7_0_a_real_time_hog_leaves_nothing() {
    let text = r#"{"tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 1000000},
        "hog": {"loop": -1, "run": 1000000}
    }, "global": {"duration": 20}}"#;
    let parts = [(6, 19), (7, 0)].map(|(major, minor)| {
        let mut options = free("1", text);
        options.release = fairground_simulator::Release::new(major, minor);
        let scheduler = scheduler("order", &[]).for_kernel(&options).unwrap();
        referee(&scheduler, &options).1.ran[1]
    });
    assert_eq!(parts[0], 0);
    assert!(parts[1] > 950_000_000, "{parts:?}");
}

#[test]
fn before_linux_7_1_only_tasks_that_wait_for_the_scheduler_are_taken_from_it() {
    let dequeued = |major, minor| {
        let mut options = free("1", SLEEPER);
        options.release = fairground_simulator::Release::new(major, minor);
        let scheduler = scheduler("order", &[]).for_kernel(&options).unwrap();
        let messages = run(&scheduler, &options).messages;
        messages.iter().filter(|one| one.starts_with("dequeue")).count()
    };
    assert!(dequeued(7, 1) > dequeued(7, 0));
}

#[test]
fn a_real_time_task_that_leaves_enough_time_is_not_interrupted() {
    let text = r#"{"tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 1500000, "timer": {"ref": "t", "period": 1600000}},
        "hog": {"loop": -1, "run": 1000000}
    }, "global": {"duration": 16}}"#;
    let (_, busy) = referee(&scheduler("order", &[]), &free("1", text));
    let interrupted = |referee: &common::Referee, length: u64| {
        let runs = referee.runs.iter().filter(|(task, ..)| *task == 0);
        runs.filter(|(_, from, to)| to - from < length).count()
    };
    assert!(interrupted(&busy, 1_500_000_000) > 0, "{:?}", busy.runs);
    let text = text.replace("1500000", "500000").replace("1600000", "600000");
    let (_, calm) = referee(&scheduler("order", &[]), &free("1", &text));
    assert_eq!(interrupted(&calm, 500_000_000), 0, "{:?}", calm.runs);
}

#[test]
fn changes_of_nice_and_affinity_reach_the_scheduler() {
    let text = r#"{"tasks": {"t": {"loop": 1, "phases": {
        "a": {"run": 1000},
        "b": {"run": 1000, "policy": "SCHED_OTHER", "priority": 5},
        "c": {"run": 1000, "cpus": [1]}
    }}}}"#;
    let (outcome, _) = referee(&scheduler("order", &[]), &free("2", text));
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    let weight = seen.iter().position(|m| *m == "set_weight 1001 33").expect("no set_weight");
    // A running task is taken off and put back around the change: DEQUEUE_SAVE, MOVE, NOCLOCK and SCX_DEQ_SCHED_CHANGE, and
    // ENQUEUE_HEAD since it is worth less than before.
    assert_eq!(
        seen[weight - 2..weight + 3],
        [
            "stopping 1001 runnable 0",
            "quiescent 1001 0x20000000e",
            "set_weight 1001 33",
            "runnable 1001 0x1000e",
            "running 1001 cpu 0",
        ]
    );
    let mask = seen.iter().position(|m| *m == "set_cpumask 1001 first 1").expect("no set_cpumask");
    // No DEQUEUE_MOVE.
    assert_eq!(
        [seen[mask - 1], seen[mask + 1]],
        ["quiescent 1001 0x20000000a", "runnable 1001 0xa"]
    );
    assert!(seen[mask..].contains(&"running 1001 cpu 1"), "{:?}", &seen[mask..]);
    // The CPU that the task was pushed off goes idle after the stopper, and says so; it was not idle before.
    let moved = &seen[mask..];
    assert!(moved.contains(&"update_idle 0 1"), "{moved:?}");
    assert!(!moved.contains(&"update_idle 0 0"), "{moved:?}");
}

#[test]
fn a_running_task_leaves_sched_ext_for_a_real_time_policy_and_comes_back() {
    let text = r#"{"tasks": {"t": {"loop": 1, "phases": {
        "a": {"run": 1000},
        "b": {"run": 1000, "policy": "SCHED_FIFO", "priority": 10},
        "c": {"run": 1000, "policy": "SCHED_OTHER", "priority": 5}
    }}}}"#;
    let (outcome, _) = referee(&scheduler("order", &[]), &free("1", text));
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    let change = seen.iter().position(|line| line.starts_with("quiescent"));
    let change = change.expect("nothing changed");
    // DEQUEUE_CLASS is 0x40. The scheduler hears nothing of the task while it is a real-time task.
    assert_eq!(
        seen[change - 1..change + 7],
        [
            "stopping 1001 runnable 0",
            "quiescent 1001 0x20000004e",
            "disable 1001",
            "enable 1001",
            "set_weight 1001 33",
            "set_cpumask 1001 first 0",
            "runnable 1001 0x1004e",
            "running 1001 cpu 0",
        ]
    );
}

#[test]
fn a_running_task_that_asks_for_a_lower_real_time_priority_gives_way_at_once() {
    let text = r#"{"tasks": {
        "falls": {"loop": 1, "policy": "SCHED_FIFO", "priority": 50, "phases": {
            "high": {"run": 10000}, "low": {"policy": "SCHED_FIFO", "priority": 10, "run": 10000}}},
        "waits": {"loop": 1, "policy": "SCHED_FIFO", "priority": 20, "run": 5000}}}"#;
    let (_, referee) = referee(&scheduler("bare", &[]), &free("1", text));
    let ms = 1_000_000;
    assert_eq!(referee.runs, [(0, 0, 10 * ms), (1, 10 * ms, 15 * ms), (0, 15 * ms, 25 * ms)]);
}

#[test]
fn a_change_of_cpus_that_changes_nothing_or_leaves_none_is_not_told() {
    let text = r#"{"tasks": {"t": {"loop": 1, "phases": {
        "a": {"run": 1000}, "b": {"cpus": [0, 1], "run": 1000}, "c": {"cpus": [1], "run": 1000}}}}}"#;
    let mut options = free("2", text);
    options.hotplug = vec![change(0, 1, false)];
    let (outcome, referee) = referee(&scheduler("order", &["CPU_HOTPLUG"]), &options);
    let changes = { outcome.messages.iter() }.filter(|line| line.starts_with("set_cpumask"));
    assert_eq!(changes.count(), 0, "{:?}", outcome.messages);
    assert!(outcome.messages.contains(&"t keeps its CPUs: none of [1] is online".to_owned()));
    assert_eq!(referee.ran, [3_000_000]);
}

#[test]
fn tasks_that_may_no_longer_stay_are_spread_over_the_cpus_that_they_may_use() {
    let text = r#"{"tasks": {"t": {"instance": 2, "loop": 1, "phases": {
        "a": {"cpus": [0], "run": 1000}, "b": {"cpus": [2, 3], "run": 5000}}}}}"#;
    let (_, referee) = referee(&scheduler("bare", &[]), &free("4", text));
    // At the same time, where both would have waited for one CPU.
    let last: Vec<u64> = referee.runs.iter().map(|run| run.2).collect();
    assert_eq!(last.iter().max(), Some(&7_000_000), "{:?}", referee.runs);
}

#[test]
fn hotplug_moves_tasks_or_restarts_the_scheduler() {
    let mut options = free(
        "2",
        r#"{"tasks": {"hog": {"instance": 3, "loop": -1, "run": 1000}}, "global": {"duration": 2}}"#,
    );
    options.hotplug = vec![change(500_000_000, 1, false), change(1_500_000_000, 1, true)];
    let (outcome, referee) = referee(&scheduler("fault", &["CPU_HOTPLUG"]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    let total: u64 = referee.ran.iter().sum();
    // This scheduler wakes no idle CPU: CPU 1 finds work only when it comes online and reschedules, at 1.5 s.
    assert_eq!(total, 2_500_000_000);
    let outcome = run(&scheduler("fault", &[]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::UnregisteredKernel);
    assert_eq!(outcome.exit.message, "cpu 1 going offline, exiting scheduler");
    assert_eq!(outcome.exit.code, (1 << 32) | (1 << 48));
}

#[test]
fn the_cpus_that_are_offline_follow_from_the_changes() {
    let mut options = free("4", r#"{"tasks": {"t": {"run": 1000}}}"#);
    assert_eq!(options.offline(), [[0; 0]]);
    options.hotplug = vec![
        change(9, 3, true),
        change(0, 3, false),
        change(0, 1, false),
        change(5, 0, false),
        change(6, 2, false),
    ];
    // The last CPU stays online.
    assert_eq!(options.offline(), [vec![1, 3], vec![0, 1, 3], vec![0, 1]]);
}

#[test]
fn a_loader_that_gives_up_when_it_loads_again_ends_the_run() {
    let mut options =
        free("2", r#"{"tasks": {"t": {"loop": -1, "run": 1000}}, "global": {"duration": 2}}"#);
    options.hotplug = vec![change(1_000_000_000, 1, false)];
    options.restart_after = Some(200_000_000);
    options.later_setups = vec![(vec![1], Err("no pair of CPUs".into()))];
    let outcome = run(&scheduler("fault", &[]), &options);
    assert_eq!(outcome.failure.as_deref(), Some("no pair of CPUs"));
}

#[test]
fn a_scheduler_that_asks_for_it_is_loaded_again() {
    let mut options = free(
        "2",
        r#"{"tasks": {
            "hog": {"instance": 3, "loop": -1, "run": 1000},
            "sleeper": {"loop": -1, "run": 1000, "sleep": 9000}}, "global": {"duration": 4}}"#,
    );
    options.hotplug = vec![change(1_000_000_000, 1, false), change(2_000_000_000, 1, true)];
    options.restart_after = Some(200_000_000);
    let (outcome, referee) = referee(&scheduler("fault", &[]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    let restarts: Vec<_> =
        { outcome.restarts.iter() }.map(|one| (one.at, one.message.as_str())).collect();
    assert_eq!(
        restarts,
        [
            (1_000_000_000, "cpu 1 going offline, exiting scheduler"),
            (2_000_000_000, "cpu 1 going online, exiting scheduler"),
        ]
    );
    assert!(outcome.tasks.iter().all(|task| !task.is_fair));
    // One CPU at least is busy all the time, and no task is forgotten.
    assert!(referee.ran.iter().sum::<u64>() >= 4_000_000_000);
    assert!({ referee.runs.iter() }.any(|run| run.2 > 3_900_000_000));
    let again = run(&scheduler("fault", &[]), &options);
    assert_eq!(again.context_switches, outcome.context_switches);
    options.duration = Some(2_100_000_000);
    let ends_between = run(&scheduler("fault", &[]), &options);
    assert_eq!(ends_between.restarts.len(), 2);
    assert!(ends_between.tasks.iter().all(|task| !task.is_fair));
}

/// Whoever is not loaded is not told, and does not ask for anything.
#[test]
fn cpus_that_change_while_a_scheduler_is_loaded_again_load_it_once() {
    let mut options = free(
        "4",
        r#"{"tasks": {"hog": {"instance": 5, "loop": -1, "run": 1000}}, "global": {"duration": 2}}"#,
    );
    options.hotplug = vec![
        change(1_000_000_000, 1, false),
        change(1_100_000_000, 2, false),
        change(1_150_000_000, 1, true),
    ];
    options.restart_after = Some(200_000_000);
    let outcome = run(&scheduler("fault", &[]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    assert_eq!(outcome.restarts.len(), 1, "{:?}", outcome.restarts);
    assert_eq!(outcome.restarts[0].pause, Some(200_000_000));
}

#[test]
fn the_class_between_two_loads_leaves_no_cpu_idle_beside_a_waiting_task() {
    let mut options = free(
        "3",
        r#"{"tasks": {"hog": {"instance": 2, "cpus": [2], "loop": -1, "run": 1000}}, "global": {"duration": 2}}"#,
    );
    options.duration = Some(1_100_000_000);
    options.hotplug = vec![change(600_000_000, 2, false)];
    options.restart_after = Some(500_000_000);
    let (_, referee) = referee(&scheduler("fault", &[]), &options);
    // One CPU for 0.6 s, then two of those that are left for 0.5 s.
    assert!(referee.ran.iter().sum::<u64>() >= 1_590_000_000);
}

#[test]
fn a_task_whose_only_cpu_goes_offline_may_use_all() {
    let text = r#"{"tasks": {
        "hog": {"loop": -1, "run": 1000, "cpus": [1]},
        "sleeper": {"loop": -1, "run": 100, "sleep": 5000, "cpus": [1]}}}"#;
    let mut options = free("2", text);
    options.hotplug = vec![change(500_000_000, 1, false)];
    options.duration = Some(1_000_000_000);
    // The referee knows from the event stream where they may run.
    let (outcome, referee) = referee(&scheduler("order", &["CPU_HOTPLUG"]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    assert!(referee.ran.iter().sum::<u64>() > 900_000_000);
    let told = |pid: u32| format!("set_cpumask {pid} first 0");
    for pid in [1001, 1002] {
        assert!(outcome.messages.contains(&told(pid)), "{pid}");
    }
}

#[test]
fn capacities_slow_the_work_down() {
    let text = r#"{"tasks": {"t": {"loop": 1, "phases": {"p": {"run": 100000, "cpus": [1]}}}}}"#;
    let options = free("2 capacity:1024,512", text);
    let outcome = run(&scheduler("bare", &[]), &options);
    assert_eq!(outcome.tasks[0].cpu_time, 200_000_000);
}

#[test]
fn deadlocks_and_endless_programs_are_named() {
    let deadlock = r#"{"tasks": {
        "a": {"loop": 1, "phases": {"p": {"lock": "m", "run": 1000, "lock1": "n", "unlock": "n", "unlock1": "m"}}},
        "b": {"loop": 1, "phases": {"p": {"lock": "n", "run": 1000, "lock1": "m", "unlock": "m", "unlock1": "n"}}}
    }}"#;
    let outcome = run(&scheduler("bare", &[]), &free("2", deadlock));
    let failure = outcome.failure.expect("no failure");
    assert!(failure.contains("a waits for mutex n, held by b"), "{failure}");
    assert!(failure.contains("b waits for mutex m, held by a"), "{failure}");
}

#[test]
fn an_unlocker_wakes_nobody_else_before_the_woken_waiter_has_run() {
    // The slice of 20 ms of the first ends while it holds the mutex, and the others come to wait for it.
    let text = r#"{"tasks": {
        "busy": {"loop": -1, "lock": "m", "run": 3000, "unlock": "m"},
        "first": {"loop": 1, "phases": {"p": {"lock": "m", "run": 1000, "unlock": "m"}}},
        "second": {"loop": 1, "phases": {"p": {"lock": "m", "run": 1000, "unlock": "m"}}}
    }, "global": {"duration": 1}}"#;
    let mut log = Log::default();
    simulate(&scheduler("bare", &[]), &free("1", text), vec![&mut log]).unwrap();
    let place = |what: &str, from: usize| {
        let found = log.0[from..].iter().position(|line| line.contains(what));
        from + found.unwrap_or_else(|| panic!("no {what} in {:#?}", &log.0))
    };
    let waits = place("Sleep { task: TaskId(2) }", 0);
    let first = place("Wake { task: TaskId(1)", waits);
    let second = place("Wake { task: TaskId(2)", waits);
    assert!(first < second, "who waits longest is woken first");
    let runs = place("next: Some(TaskId(1))", first);
    assert!(runs < second, "{:#?}", &log.0[waits..=second]);
}

#[test]
fn the_same_inputs_give_the_same_events() {
    let text = r#"{"tasks": {
        "p": {"instance": 5, "loop": -1, "run": 700, "timer": {"ref": "unique", "period": 5000},
            "fairground": {"vary": {"run": {"uniform": [0.9, 1.1]}}}},
        "hog": {"instance": 4, "loop": -1, "run": 30000}
    }, "global": {"duration": 1}}"#;
    let scheduler = scheduler("order", &[]);
    let log = |seed| {
        let mut options = free("4", text);
        options.cost = CostModel::default_model();
        options.seed = seed;
        let mut log = Log::default();
        simulate(&scheduler, &options, vec![&mut log]).unwrap();
        log.0
    };
    let first = log(1);
    assert!(first.len() > 2000);
    let second = std::thread::spawn({
        let scheduler = scheduler.clone();
        move || {
            let mut options = free("4", text);
            options.cost = CostModel::default_model();
            options.seed = 1;
            let mut log = Log::default();
            simulate(&scheduler, &options, vec![&mut log]).unwrap();
            log.0
        }
    });
    assert_eq!(first, second.join().unwrap());
    assert_ne!(first, log(2), "the seed makes no difference");
}

#[test]
fn many_cpus_are_a_machine_like_any_other() {
    let mut options = free(
        "512",
        r#"{"tasks": {"hog": {"instance": 600, "loop": -1, "run": 1000000}}, "global": {"duration": 1}}"#,
    );
    options.machine = Machine::parse("numa:4 core:64 pu:2").unwrap().into();
    let (outcome, referee) = referee(&scheduler("bare", &[]), &options);
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    let total: u64 = referee.ran.iter().sum();
    assert_eq!(total, 512_000_000_000);
}

#[test]
fn a_loop_costs_its_instructions_once() {
    let options = Options::new(Machine::parse("1").unwrap(), common::workload(TWO_HOGS));
    let cost = |rounds: u64| {
        let looping = scheduler("loop", &[&format!("ROUNDS {rounds}")]);
        let mut cost = overhead::Cost::default();
        let outcome = simulate(&looping, &options, vec![&mut cost]).unwrap();
        (cost.scheduling as f64, outcome.context_switches as f64)
    };
    let (short, long) = (cost(1000), cost(2000));
    assert!(short.1 > 10.0, "{short:?}");
    let round = (long.0 / long.1 - short.0 / short.1) / 1000.0;
    // Six or so instructions of its own and six of the loop that replaces the call, of 0.35 ns each.
    assert!(round > 3.0 && round < 6.0, "{round} ns a round");
}

/// Without NUMA balancing, utilization clamps and `kernel.sched_schedstats` a kernel leaves these fields at such values.
#[test]
fn fields_that_nothing_changes_have_a_kernels_values() {
    let text = r#"{"tasks": {"a": {"loop": 1, "run": 1, "fairground": {"process": "p"}}, "b": {"loop": 1, "run": 1, "fairground": {"process": "p"}}}}"#;
    let outcome = run(&scheduler("fields", &[]), &free("1", text));
    let said: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    for line in [
        "a: clamps 0 1024 in 4",
        "a: signal 17 owner 0",
        "b: signal -1 owner -1",
        "a: numa 0 wakeups 0",
    ] {
        assert!(said.contains(&line), "no {line:?} in {said:#?}");
    }
}

#[test]
fn a_scheduler_is_loaded_by_a_process_of_a_kernel_that_has_been_up_for_a_while() {
    let hogs = r#"{"tasks": {"h": {"instance": 8, "run": 1000}}}"#;
    let mut options = free("4", hogs);
    options.cost = CostModel::default_model();
    options.duration = Some(50_000_000);
    options.restart_after = Some(1_000_000);
    options.hotplug = vec![change(10_000_000, 3, false), change(20_500_000, 3, true)];
    let outcome = run(&scheduler("loading", &[]), &options);
    assert_eq!(outcome.restarts.len(), 2);
    // Three times the same, and no clock that goes back between the turns before and after.
    let of_one = ["process 1, known 1", "up for hours: 1"];
    assert_eq!(outcome.messages, of_one.repeat(3));
}

#[test]
fn kernel_functions_belong_to_their_callbacks() {
    for (definition, function, callback) in [
        ("INSERT_IN_RUNNING", "scx_bpf_dsq_insert", "running"),
        ("MOVE_IN_ENQUEUE", "scx_bpf_dsq_move_to_local", "enqueue"),
    ] {
        let message = match load("places", &[definition]) {
            Ok(_) => panic!("{definition} is accepted"),
            Err(error) => error.to_string(),
        };
        let start = format!("calling kernel function {function}");
        assert!(message.starts_with(&start), "{message}");
        let callback = format!("is not allowed in ops.{callback}(), at ");
        assert!(message.contains(&callback), "{message}");
    }
}

#[test]
fn the_locked_run_queue_is_the_one_that_the_task_goes_to() {
    let text = r#"{"tasks": {"t": {"instance": 4, "loop": 20, "phases": {"p": {"run": 900, "sleep": 500}}}}}"#;
    let outcome = run(&scheduler("places", &[]), &free("4", text));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{:?}", outcome.exit);
    assert!(outcome.messages.iter().any(|line| line == "another CPU's"));
    assert!(outcome.messages.iter().all(|line| line == "another CPU's" || line == "its own"));
    let wrong = run(&scheduler("places", &["LOCKED_IN_SELECT"]), &free("4", text));
    let message = "accessing rq without holding rq lock";
    assert_eq!(wrong.exit.message, message);
    let wrong = run(&scheduler("places", &["SPEED_OF_OTHERS"]), &free("4", text));
    assert!(wrong.exit.message.starts_with("Invalid target CPU "), "{}", wrong.exit.message);
    let wrong = run(&scheduler("places", &["SELECT_FOR_OTHERS"]), &free("4", text));
    let message = "called on a task not being operated on";
    assert_eq!(wrong.exit.message, message);
}

#[test]
fn what_is_missing_ends_the_run_when_it_is_reached() {
    let unreached = run(&scheduler("missing", &["REACH 0"]), &free("1", SLEEPER));
    assert_eq!(unreached.exit.kind, ExitKind::Unregistered);
    let reached = run(&scheduler("missing", &["REACH 1"]), &free("1", SLEEPER));
    let message = &reached.exit.message;
    let start = "this kernel model has no kernel function bpf_get_task_exe_file in ";
    assert!(message.starts_with(start), "{message}");
    assert!(
        message.contains("in code not reached so far: struct task_struct has no field"),
        "{message}"
    );
}

#[test]
fn threads_groups_and_bits_can_be_walked() {
    let text = r#"{"tasks": {
        "a": {"loop": 2, "run": 1000, "taskgroup": "/x/y"},
        "b": {"loop": 2, "run": 1000, "taskgroup": "/x"}
    }}"#;
    let outcome = run(&scheduler("walks", &[]), &free("1", text));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{:?}", outcome.exit);
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    assert_eq!(seen[..3], ["pre 0 1 2", "post 2 1 0", "bits 1 64 130"]);
    // The threads of the process that creates them: itself and the two.
    assert!(seen.contains(&"3 threads, 3 counted"), "{seen:?}");
    assert!(seen.contains(&"folder 3 in 2"), "{seen:?}");
    assert!(seen.contains(&"preferred node -1"), "{seen:?}");
    assert!(seen.contains(&"preemptible RCU 1, root 0, namespace 0, number 1"), "{seen:?}");
}

#[test]
fn any_cpu_of_a_node_is_one_of_that_node() {
    let text = r#"{"tasks": {"t": {"instance": 9, "loop": 20, "run": 1000, "sleep": 500}}}"#;
    let outcome = run(&scheduler("nodes", &[]), &free("numa:2 core:2", text));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{:?}", outcome.exit);
    assert!(!outcome.messages.is_empty());
    assert!(outcome.messages.iter().all(|line| line == "node 1"), "{:?}", outcome.messages);
}

#[test]
fn groups_go_before_tasks() {
    let outcome = run(&scheduler("walks", &["AT_THE_END"]), &free("1", SLEEPER));
    let seen = &outcome.messages;
    let group = seen.iter().position(|line| line == "group").unwrap();
    let task = seen.iter().rposition(|line| line == "task").unwrap();
    assert!(group < task, "{seen:?}");
}

#[test]
fn a_queue_is_reenqueued_at_once() {
    let outcome = run(&scheduler("reenqueue", &[]), &free("1", TWO_HOGS));
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    // The task that runs has an endless slice: nothing else goes through the scheduler.
    assert_eq!(seen[..2], ["tick", "reenqueued"]);
}

#[test]
fn the_global_queue_cannot_be_reenqueued() {
    let outcome = run(&scheduler("reenqueue", &["GLOBAL"]), &free("1", TWO_HOGS));
    assert_eq!(outcome.exit.message, "DSQ 0x8000000000000001 not allowed for reenq");
}

#[test]
fn only_at_the_load_a_task_can_be_kept_out() {
    let refused = run(&scheduler("reenqueue", &["DISALLOW 1"]), &free("1", TWO_HOGS));
    let message = "ops.init_task() set task->scx.disallow for hog-0[1001] during fork";
    assert_eq!(refused.exit.message, message);
    let loaded = run(&scheduler("reenqueue", &["DISALLOW 0"]), &free("1", TWO_HOGS));
    assert_eq!(loaded.exit.kind, ExitKind::Unregistered);
}

const FORKING: &str = r#"{"tasks": {
    "parent": {"loop": 4, "run": 1000, "fork": "child"},
    "child": {"instance": 0, "fairground": {"process": "other"}, "loop": 1, "run": 1000}}}"#;

#[test]
fn a_fork_that_the_scheduler_refuses_fails_and_the_parent_goes_on() {
    let (mut log, mut referee) = (Log::default(), Referee::default());
    let scheduler = scheduler("refusing", &["REFUSE -ENOMEM"]);
    let options = free("1", FORKING);
    let outcome = simulate(&scheduler, &options, vec![&mut log, &mut referee]).unwrap();
    assert_eq!((outcome.exit.kind, outcome.failure), (ExitKind::Unregistered, None));
    assert_eq!(outcome.refused_forks.into_iter().collect::<Vec<_>>(), [(-12, 2)]);
    let names: Vec<&str> = outcome.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["parent", "child-1", "child-3"]);
    assert_eq!(outcome.tasks[0].cpu_time, 4_000_000);
    // Nobody hears of the children that are not there, and the scheduler not of their end.
    assert!(!log.0.iter().any(|line| line.contains("child-0")));
    let seen = |what: &str| -> Vec<&str> {
        outcome.messages.iter().filter_map(|line| line.strip_prefix(what)).collect()
    };
    assert_eq!(seen("init ")[1..], ["1001 1", "1002 1", "1003 1", "1004 1", "1005 1"]);
    let ended = seen("exit ");
    assert!(!ended.contains(&"1002") && !ended.contains(&"1004"), "{ended:?}");
    assert!(ended.contains(&"1003") && ended.contains(&"1005"), "{ended:?}");
}

#[test]
fn an_error_that_is_none_ejects_the_scheduler_at_a_fork() {
    for error in ["1", "-4096"] {
        let outcome =
            run(&scheduler("refusing", &[&format!("REFUSE {error}")]), &free("1", FORKING));
        let message = format!("ops.init_task() returned an invalid errno {error}");
        assert_eq!(outcome.exit.message, message);
    }
}

#[test]
fn without_its_first_tasks_a_workload_does_not_begin() {
    let outcome = run(&scheduler("refusing", &["REFUSE_FIRST 1"]), &free("1", FORKING));
    let message = "the workload cannot begin without parent[1001], which the scheduler refused: ops.init_task() returned -12";
    assert_eq!(outcome.failure.as_deref(), Some(message));
    let outcome = run(&scheduler("refusing", &["REFUSE_FIRST 0"]), &free("1", FORKING));
    let message = "ops.init_task() failed (-12) for test[1000]";
    assert_eq!(outcome.exit.message, message);
}

#[test]
fn values_live_until_the_program_that_deleted_them_ends() {
    let once = r#"{"tasks": {"t": {"loop": 1, "run": 1000}}}"#;
    for (definitions, left) in [
        (&["DELETE"][..], ["1: 0", "2: 22", "3: 33"]),
        (&["DELETE", "REPLACE"], ["1: 12", "2: 22", "3: 0"]),
        (&["REPLACE"], ["1: 12", "2: 22", "3: 0"]),
        (&["TYPE BPF_MAP_TYPE_LRU_HASH"], ["1: 0", "2: 22", "3: 33"]),
    ] {
        let outcome = run(&scheduler("memory", definitions), &free("1", once));
        assert_eq!(outcome.exit.message, "", "{definitions:?}");
        let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
        assert_eq!(seen[..4], [&["11"][..], &left].concat(), "{definitions:?}");
    }
}

#[test]
fn timers_go_with_their_element() {
    let outcome = run(&scheduler("timers", &[]), &free("1", SLEEPER));
    assert_eq!(outcome.messages, ["1: 10", "again: -22", "3: 30", "again: -22"]);
}

#[test]
fn a_scheduler_that_lets_no_time_pass_is_ejected() {
    let outcome = run(&scheduler("timers", &["AGAIN"]), &free("1", SLEEPER));
    let exit = &outcome.exit;
    assert_eq!(exit.kind, ExitKind::Error);
    assert!(exit.message.starts_with("no time passes: "), "{exit:?}");
    assert!(exit.endless);
    // Its output is not kept without bound.
    assert_eq!(outcome.messages.len(), 100_001);
    let last = outcome.messages.last().unwrap();
    assert!(last.ends_with(" more lines were not kept"), "{last}");
}

#[test]
fn what_a_callback_calls_counts_towards_its_budget() {
    let outcome = run(&scheduler("fault", &["LOOPS_IN_LOOPS"]), &free("2", TWO_HOGS));
    assert_eq!(outcome.exit.kind, ExitKind::Error);
    let message =
        "a callback does not end: a function that it calls goes on and on in innermost at ";
    let said = outcome.exit.message;
    assert!(said.starts_with(message), "{said}");
}

#[test]
fn maps_have_a_largest_size() {
    for (kind, size) in [
        ("BPF_MAP_TYPE_ARRAY", "MAP_SIZE 0xffffffff"),
        ("BPF_MAP_TYPE_PERCPU_ARRAY", "MAP_SIZE 0xffffffff"),
        ("BPF_MAP_TYPE_HASH", "MAP_SIZE 0xffffffff"),
        ("BPF_MAP_TYPE_RINGBUF", "MAP_SIZE 0x80000000"),
    ] {
        let size = [&format!("MAP_TYPE {kind}"), size];
        let refused = simulate(&scheduler("fault", &size), &free("2", TWO_HOGS), Vec::new());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("map huge is larger than"), "{message}");
    }
}

#[test]
fn what_functions_rely_on_is_looked_up_when_a_scheduler_passes_it() {
    for (call, what) in [
        ("scx_bpf_task_cpu(nowhere)", "task_struct"),
        ("scx_bpf_task_running(inside + 8)", "task_struct"),
        ("scx_bpf_dsq_insert(nowhere, 0, 0, 0)", "task_struct"),
        ("bpf_map_lookup_elem(nowhere, &key)", "map"),
        ("bpf_map_delete_elem(inside, &key)", "map"),
        ("bpf_loop(1, nowhere, NULL, 0)", "function"),
        ("bpf_for_each_map_elem(&values, inside, NULL, 0)", "function"),
        (
            "bpf_spin_lock((void *)&value->word); bpf_spin_unlock((void *)&value->word)",
            "bpf_spin_lock",
        ),
        ("bpf_list_front(&garbage)", "bpf_list_head"),
        ("bpf_rbtree_first(&garbage)", "bpf_rb_root"),
    ] {
        let call_it = format!("CALL {call}");
        let outcome = run(&scheduler("arguments", &[&call_it]), &free("1", TWO_HOGS));
        let message = format!("there is no {what} where one was passed");
        assert_eq!(outcome.exit.kind, ExitKind::Error, "{call}");
        assert_eq!(outcome.exit.message, message, "{call}");
    }
}

#[test]
fn memory_that_a_kernel_cannot_read_is_an_error_number() {
    for address in ["NULL", "(void *)(0xdeadULL << 48 | p->se.sum_exec_runtime)"] {
        let call =
            format!("CALL bpf_printk(\"%d\", (int)bpf_probe_read_kernel(&buffer, 8, {address}))");
        let outcome = run(&scheduler("arguments", &[&call]), &free("1", TWO_HOGS));
        assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{address}");
        assert_eq!(outcome.messages[0], "-14", "{address}");
    }
}

#[test]
fn no_cpu_has_a_policy_of_its_frequency() {
    let outcome = run(&scheduler("frequencies", &[]), &free("64", TWO_HOGS));
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered, "{}", outcome.exit.message);
}

/// Two nodes with two caches of two cores: cid for cid the lines of the test's scheduler about it.
const CIDS_MACHINE: &str = "numa:2 l3:2 core:1 pu:2";

#[test]
fn cpus_have_topological_ids() {
    let outcome = run(&scheduler("cids", &[]), &free(CIDS_MACHINE, SLEEPER));
    let seen = &outcome.messages;
    let says = |line: &str| assert!(seen.iter().any(|one| one == line), "{line}: {seen:#?}");
    says("8 cids, 8 online");
    says("cid 3 cpu 3 core 2/1");
    says("llc 2/1 node 0/0 shard 2/1");
    says("cid 6 cpu 6 core 6/3");
    says("llc 6/3 node 4/1 shard 6/3");
    // The root scheduler has every capability, and nobody below it.
    says("caps 0 bits ff");
    says("none below: -19");
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
}

#[test]
fn callbacks_of_the_cid_form_know_cpus_by_their_ids() {
    let workload = r#"{"tasks": {"t": {"cpus": [0, 1], "loop": 2, "run": 6000, "sleep": 3000}}}"#;
    let anywhere = free(CIDS_MACHINE, SLEEPER);
    let outcome = run(&scheduler("cids", &["REVERSE"]), &anywhere);
    let seen = &outcome.messages;
    let says = |line: &str| assert!(seen.iter().any(|one| one == line), "{line}: {seen:#?}");
    says("cid 0 cpu 7 core -1/-1");
    says("llc -1/-1 node -1/-1 shard 6/1");
    says("select_cid 1001 prev 7");
    says("enqueue 1001 on 7");
    says("running on 7, cpu 0");
    // While ops.running() is called, the task before is still the CPU's current one.
    says("current 0");
    says("level 512");
    says("update_idle 7 0");
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);

    // A task's allowed cids come with ops.enable(), and again before its weight.
    let outcome = run(&scheduler("cids", &["REVERSE"]), &free(CIDS_MACHINE, workload));
    let seen = &outcome.messages;
    let first = seen.iter().position(|one| one.starts_with("enable 1001")).unwrap();
    let expected = ["enable 1001: 2 words, c0", "set_cmask 1001: 2 words, c0", "set_weight 1001"];
    assert_eq!(seen[first..first + 3], expected, "{seen:#?}");
}

#[test]
fn ids_that_no_cpu_has_are_errors() {
    for (definition, expected) in
        [("BEYOND", "invalid cid 8"), ("TWICE", "cid 5 assigned to multiple cpus")]
    {
        let scheduler = scheduler("cids", &["REVERSE", definition]);
        let exit = run(&scheduler, &free(CIDS_MACHINE, SLEEPER)).exit;
        assert_eq!((exit.kind, exit.message.as_str()), (ExitKind::Error, expected));
    }
}

#[test]
fn the_cid_form_has_functions_of_its_own() {
    for (definition, expected) in [
        ("CPU_FORM", "calling kernel function scx_bpf_task_cpu is not allowed in ops.enqueue()"),
        ("WRITES", "cannot be written"),
        ("SUB", "sub-schedulers are not simulated"),
    ] {
        let error = load("cids", &[definition]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

const WAKER: &str = r#"{"tasks": {
    "sleeper": {"loop": 1, "run": 1000, "suspend": "s", "run1": 1000},
    "waker": {"loop": 1, "cpus": [0], "run": 5000, "resume": "s"}}}"#;

#[test]
fn wake_ups_are_handed_to_the_cpu_if_the_scheduler_allows_it() {
    let woken = |definitions: &[&str]| {
        let outcome = run(&scheduler("wakes", definitions), &free("2", WAKER));
        let lines = outcome.messages.into_iter();
        let lines = lines.filter(|line| line.contains("enqueue 1001") || line.contains("for 1001"));
        lines.skip(2).collect::<Vec<_>>()
    };
    assert_eq!(
        woken(&[]),
        ["select_cpu for 1001 on 0, slice kept", "enqueue 1001 on 0 flags 0x100009"]
    );
    // The waker still chooses the CPU. That takes the task in, and is not told that one was chosen.
    assert_eq!(
        woken(&["FLAGS SCX_OPS_ALLOW_QUEUED_WAKEUP"]),
        ["select_cpu for 1001 on 0, slice kept", "enqueue 1001 on 1 flags 0x9"]
    );
}

#[test]
fn a_slice_that_is_set_from_outside_is_seen_when_the_task_runs() {
    let outcome = run(&scheduler("wakes", &[]), &free("2", WAKER));
    follows(
        &outcome.messages,
        &["select_cpu for 1001 on 0, slice kept", "1001 stops with slice 234567"],
    );
}

#[test]
fn the_kernels_library_is_there() {
    let text = r#"{"tasks": {"t": {"instance": 2, "loop": 1, "run": 1000}}}"#;
    let seen = run(&scheduler("library", &[]), &free("1", text)).messages;
    follows(
        &seen,
        &["tree 1 2 3", "list empty 1 first 1 taken 1", "at 7, 0", "250 ticks a second", "work"],
    );
    // The process that creates the tasks, with two threads; the second task leaves out those before it.
    for line in ["1 processes, 3 threads, 2 from here on", "1 processes, 2 threads, 1 from here on"]
    {
        assert!(seen.contains(&line.to_string()), "{line}: {seen:#?}");
    }
}

#[test]
fn the_kernel_says_how_many_ticks_a_run_has() {
    let mut options = free("1", SLEEPER);
    options.hz = 1000;
    let library = scheduler("library", &[]).for_kernel(&options).unwrap();
    let seen = run(&library, &free("1", SLEEPER)).messages;
    assert!(seen.contains(&"1000 ticks a second".to_string()), "{seen:#?}");
    let bare = scheduler("bare", &[]);
    let other = bare.for_kernel(&options).unwrap();
    assert!(std::sync::Arc::ptr_eq(&bare, &other), "nothing depends on it");
}

#[test]
fn who_kicks_and_waits_spends_the_time_until_the_other_cpu_is_there() {
    let overhead = |definitions: &[&str]| {
        let mut options = free("2", TWO_HOGS);
        options.cost.interrupt = 10_000;
        referee(&scheduler("kick_waits", definitions), &options).1.overhead
    };
    // A tick every 4 ms for a second.
    let waited = overhead(&["WAIT SCX_KICK_WAIT"]) - overhead(&[]);
    assert!((240 * 10_000..=260 * 10_000).contains(&waited), "{waited}");
}

/// All callbacks where CPU 1 goes offline at `time` with this many hogs that may run nowhere else, and the place of `cpu_offline` among them.
fn callbacks_of_cpu_1_going_offline(hogs: u32, time: u64) -> (Vec<String>, usize) {
    let text = format!(
        r#"{{"tasks": {{"hog": {{"instance": {hogs}, "cpus": [1], "loop": -1, "run": 1000}}}}, "global": {{"duration": 1}}}}"#
    );
    let mut options = free("2", &text);
    options.hotplug = vec![change(time, 1, false)];
    let seen = run(&scheduler("order", &["CPU_HOTPLUG"]), &options).messages;
    let gone = seen.iter().position(|line| line == "cpu_offline 1");
    (seen, gone.unwrap())
}

#[test]
fn a_cpu_that_goes_offline_takes_its_tasks_in_before_the_scheduler_hears_of_it() {
    let (seen, gone) = callbacks_of_cpu_1_going_offline(2, 500_000_000);
    let before = &seen[..gone];
    let last = |what: &str| before.iter().rposition(|line| line.starts_with(what));
    // DEQUEUE_SAVE, MOVE, NOCLOCK and SCX_DEQ_SCHED_CHANGE; the task is put back on the local queue, past ops.enqueue().
    let quiescent = before.iter().rposition(|line| line.ends_with(" 0x20000000e"));
    let quiescent = quiescent.expect("no waiting task was taken off");
    assert!(last("runnable") > Some(quiescent));
    // ENQUEUE_MIGRATED where they go on.
    let moved = seen[gone..].iter().find(|line| line.starts_with("enqueue"));
    assert!(moved.is_some_and(|line| line.ends_with(" 0x40000")), "{moved:?}");
}

#[test]
fn the_tasks_of_a_cpu_that_goes_offline_leave_it_in_the_order_in_which_it_would_run_them() {
    // The first runs, and the third has begun to wait after the second.
    let (seen, gone) = callbacks_of_cpu_1_going_offline(3, 506_000_000);
    // The list of those that wait is gone through from its end.
    let requeued = [1003, 1002].map(|pid| {
        [
            format!("dequeue {pid} 0x20000000e"),
            format!("quiescent {pid} 0x20000000e"),
            format!("runnable {pid} 0xe"),
        ]
    });
    let requeued = requeued.concat();
    assert_eq!(seen[gone - requeued.len()..gone], requeued);
    // Each waits on the CPU's queue when it is allowed to run elsewhere, and is taken off and put back for that.
    let pushed = [1001, 1003, 1002].map(|pid| {
        [
            format!("quiescent {pid} 0x20000000a"),
            format!("set_cpumask {pid} first 0"),
            format!("runnable {pid} 0xa"),
            format!("enqueue {pid} 0x40000"),
        ]
    });
    let pushed = pushed.concat();
    let after = seen[gone..].iter().filter(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[0], "quiescent" | "set_cpumask" | "runnable" | "enqueue")
    });
    let after: Vec<&String> = after.take(pushed.len()).collect();
    assert_eq!(after, pushed.iter().collect::<Vec<_>>());
}

#[test]
fn a_cpu_can_be_offline_from_the_beginning() {
    let mut options = free("2", TWO_HOGS);
    options.hotplug = vec![change(0, 1, false)];
    let (outcome, referee) = referee(&scheduler("bare", &[]), &options);
    // Nobody is told, and the one CPU is shared.
    assert_eq!(outcome.exit.kind, ExitKind::Unregistered);
    assert_eq!(referee.ran.iter().sum::<u64>(), 1_000_000_000);
}

#[test]
fn the_last_cpu_stays_online() {
    let mut options = free("2", TWO_HOGS);
    options.hotplug = vec![change(0, 0, false), change(0, 1, false)];
    let mut log = Log::default();
    simulate(&scheduler("bare", &[]), &options, vec![&mut log]).unwrap();
    let mut switches = log.0.iter().filter(|line| line.contains("Switch {"));
    assert!(switches.all(|line| line.contains("CpuId(1)")));
}

#[test]
fn instructions_do_the_same_as_the_calls_that_they_replace() {
    let outcome = run(&scheduler("replaced", &["CPUS 4"]), &free("4", TWO_HOGS));
    let exit = &outcome.exit;
    assert_eq!(exit.kind, ExitKind::Unregistered, "{exit:?}");
}
