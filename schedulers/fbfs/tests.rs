//! FBFS shows the features by which it is recognised: slices of 12 stathz ticks, deadlines in another unit, interrupts for every idle CPU.

use crate::support::{
    History, MS, Run, SECOND, assert_kernel_threads_come_first, assert_near, assert_shares,
    assert_the_displaced_move, busy_kernel_thread, hogs, run, run_with, statistic, two_hogs,
};
use fairground_simulator::CostModel;

const ID: &str = "fbfs";
/// Length of a slice in milliseconds: 12 ticks of 127 Hz.
const SLICE: f64 = 94.49;

fn milliseconds(time: u64) -> f64 {
    time as f64 / MS as f64
}

/// Runs of a task after the first second must be of this length in milliseconds.
#[track_caller]
fn assert_runs(history: &History, task: &str, seconds: u64, expected: f64) {
    let runs = history.runs_of(task, SECOND, seconds * SECOND);
    assert!(runs.len() as f64 > (seconds - 1) as f64 * 1000.0 / expected / 3.0);
    for run in runs {
        assert_near(milliseconds(run.length()), expected, 8.0, task);
    }
}

#[test]
fn two_hogs_alternate_every_twelve_ticks_of_stathz() {
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 20, &[]);
    assert_runs(&history, "first", 20, SLICE);
    assert_runs(&history, "second", 20, SLICE);
    let switches = history.runs.iter().filter(|run| run.start > SECOND).count();
    assert_near(switches as f64 / 19.0, 10.6, 0.3, "switches a second");
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 20, &[("sched_slice", "4")]);
    assert_runs(&history, "first", 20, SLICE / 3.0);
}

#[test]
fn nice_is_eight_times_weaker_than_meant() {
    for ((first, second), expected) in
        [((0, 0), 50.0), ((0, 5), 50.0), ((0, 10), 33.3), ((0, 19), 16.7), ((-20, 0), 50.0)]
    {
        let (history, _) = run(ID, "1", &two_hogs(first, second), 61, &[]);
        let share = history.percent("second", SECOND, 61 * SECOND);
        assert_near(share, expected, 1.0, &format!("{second} against {first}"));
    }
    // With both clocks alike the distances are those that were meant: those of BFS, in slices
    let settings = [("hz", "127")];
    let (history, _) = run(ID, "1", &two_hogs(0, 10), 61, &settings);
    let share = history.percent("second", SECOND, 61 * SECOND);
    assert_near(share, 8.33, 1.0, "nice 10 with one clock");
}

/// Throughput of this number of hogs on two CPUs with the costs of scheduling, in percent, and the switches in 10 s.
fn throughput(threads: u32) -> (f64, u64) {
    let json = hogs(threads);
    let (history, outcome) = run_with(ID, "2", &json, 11, &[], |options| {
        options.cost = CostModel::default_model();
    });
    let work =
        (0..threads).map(|index| history.percent(&format!("hog-{index}"), SECOND, 11 * SECOND));
    (work.sum::<f64>() / 2.0, statistic(ID, &outcome, "switches"))
}

#[test]
fn throughput_hardly_falls_with_the_number_of_threads() {
    // The report: 0.7 percent from 2 to 16 threads. Slices are long, and a scan of 14 threads is short.
    let (two, _) = throughput(2);
    let (sixteen, switches) = throughput(16);
    assert!(two > 99.0 && sixteen > two - 1.0, "{two} % and {sixteen} %");
    assert_near(switches as f64, 2.0 * 11_000.0 / SLICE, 15.0, "switches");
}

#[test]
fn one_wakeup_interrupts_every_idle_cpu_and_one_gets_the_thread() {
    for cpus in [2_u32, 8] {
        let (history, outcome) = run(
            ID,
            &cpus.to_string(),
            r#"{ "tasks": { "sleeper": { "run": 1000, "sleep": 9000, "loop": 100 } } }"#,
            2,
            &[],
        );
        let interrupts = statistic(ID, &outcome, "interrupts");
        let most = f64::from(cpus - 1);
        assert_near(interrupts as f64 / 100.0, most, 0.1 * most, "interrupts");
        // One more is the thread's end
        assert!((100..=101).contains(&statistic(ID, &outcome, "switches")));
        let runs = history.runs_of("sleeper", 0, 2 * SECOND);
        assert!(runs.iter().all(|run| run.cpu == runs[0].cpu));
    }
}

#[test]
fn a_thread_that_wakes_another_interrupts_every_idle_cpu() {
    let json = r#"{ "tasks": {
        "waker": { "run0": 5000, "sem_post": "go", "run1": 5000 },
        "woken": { "sem_wait": "go", "run": 1000 } } }"#;
    let (_, outcome) = run(ID, "4", json, 1, &[]);
    assert_near(statistic(ID, &outcome, "interrupts") as f64, 300.0, 15.0, "interrupts");
}

#[test]
fn idle_neighbours_are_asked_first() {
    // A thread whose last CPU is busy with an equal thread of earlier deadline: the sibling takes it. It waits for a lock, so it has
    // no kernel priority, and its waker runs on, so that the waker's CPU does not take it
    let json = r#"{ "tasks": {
        "woken": { "phases": {
            "first": { "loop": 1, "run": 1000 },
            "then": { "loop": -1, "sem_wait": "go", "run": 1000 } } },
        "hog": { "cpus": [0], "delay": 5000, "run": 1000, "policy": "SCHED_OTHER" },
        "waker": { "cpus": [6], "sleep": 49000, "sem_post": "go", "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "core:4 pu:2", json, 1, &[]);
    let runs = history.runs_of("woken", 0, SECOND);
    assert_eq!((runs[0].cpu, runs[1].cpu), (0, 1));
    assert!(statistic(ID, &outcome, "interrupts") > 0);
}

#[test]
fn the_refill_at_wakeup_starves_hogs() {
    let json = r#"{ "tasks": {
        "sleeper": { "run": 80000, "sleep": 1000 },
        "hog": { "run": 1000 } } }"#;
    let share = |id: &str| {
        let (history, _) = run(id, "1", json, 20, &[]);
        history.percent("sleeper", 2 * SECOND, 20 * SECOND)
    };
    assert_near(share(ID), 98.8, 1.0, "sleeper");
    assert_near(share("bfs"), 50.0, 3.0, "sleeper under BFS");
}

#[test]
fn a_fork_halves_the_slice_and_both_get_the_same_half() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "sleeping": { "sleep": 501000, "loop": 1 },
            "forking": { "run": 1000, "fork": "child", "loop": 1 },
            "running": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 3, &[]);
    let child = history.child().task.clone();
    let parents = history.runs_of("parent", 400 * MS, 3 * SECOND);
    let children = history.runs_of(&child, 400 * MS, 3 * SECOND);
    // Six ticks for each, then twelve
    assert_near(milliseconds(parents[0].length()), SLICE / 2.0, 8.0, "parent");
    assert_near(milliseconds(children[0].length()), SLICE / 2.0, 8.0, "child");
    assert_near(milliseconds(parents[1].length()), SLICE, 8.0, "parent's next");
    assert_near(milliseconds(children[1].length()), SLICE, 8.0, "child's next");
}

#[test]
fn real_time_threads_of_equal_priority_take_turns() {
    for attributes in [r#""realtime": "global", "realtime_priority": 50"#, r#""isochronous": true"#]
    {
        let json = format!(
            r#"{{ "tasks": {{
                "first": {{ "run": 1000, "fairground": {{ {attributes} }} }},
                "second": {{ "run": 1000, "fairground": {{ {attributes} }} }},
                "hog": {{ "priority": -20, "run": 1000 }} }} }}"#
        );
        let (history, _) = run(ID, "1", &json, 10, &[]);
        for task in ["first", "second"] {
            // Once a second the clock's thread displaces one of them, which has the rest of its slice later
            let runs = history.runs_of(task, SECOND, 10 * SECOND);
            let whole =
                runs.iter().filter(|run| (milliseconds(run.length()) - SLICE).abs() < 8.0).count();
            assert!(4 * whole > 3 * runs.len(), "{task}: {whole} of {}", runs.len());
            assert_near(history.percent(task, SECOND, 10 * SECOND), 50.0, 2.0, task);
        }
        assert_near(history.percent("hog", SECOND, 10 * SECOND), 0.0, 0.0, "hog");
    }
}

#[test]
fn a_preempted_thread_goes_to_the_end_of_its_list() {
    let json = r#"{ "tasks": {
        "urgent": { "run": 1000, "sleep": 29000, "fairground": { "realtime": "local", "realtime_priority": 60 } },
        "equal": { "instance": 2, "run": 1000, "fairground": { "realtime": "local", "realtime_priority": 40 } } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let mut runs: Vec<&Run> = history.runs.iter().collect();
    runs.sort_by_key(|run| run.start);
    let around = runs.windows(3).filter(|three| three[1].task == "urgent");
    let (mut all, mut others) = (0, 0);
    for three in around.filter(|three| three[0].start > SECOND) {
        all += 1;
        others += u32::from(three[0].task != three[2].task);
    }
    assert!(all > 290, "{all}");
    assert_eq!(others, all);
}

#[test]
fn static_priorities_go_before_each_other_and_before_user_threads() {
    let json = r#"{ "tasks": {
        "better": { "run": 5000, "sleep": 5000, "fairground": { "realtime": "local", "realtime_priority": 60 } },
        "worse": { "run": 1000, "fairground": { "realtime": "local", "realtime_priority": 40 } },
        "hog": { "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    for (task, expected) in [("better", 50.0), ("worse", 50.0), ("hog", 0.0)] {
        let share = history.percent(task, SECOND, 10 * SECOND);
        assert_near(share, expected, 0.5, task);
    }
}

#[test]
fn idle_threads_run_when_all_else_is_empty_and_after_fifteen_seconds() {
    let json = r#"{ "tasks": {
        "idle": { "policy": "SCHED_IDLE", "run": 1000 },
        "hog": { "priority": 19, "run": 1000, "delay": 500000 } } }"#;
    let (history, _) = run(ID, "1", json, 14, &[]);
    assert_near(history.percent("idle", 0, 490 * MS), 100.0, 0.1, "alone");
    assert_near(history.percent("idle", 510 * MS, 14 * SECOND), 0.0, 0.0, "beside");
    let (history, outcome) = run(ID, "1", json, 60, &[]);
    assert!(statistic(ID, &outcome, "rescues") >= 3);
    assert!(history.percent("idle", SECOND, 60 * SECOND) < 1.0);
}

#[test]
fn a_sleep_with_a_kernel_priority_goes_ahead_of_deadlines() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 4, "priority": -20, "run": 1000 },
        "sleeper": { "priority": 19, "run": 20000, "sleep": 200000 } } }"#;
    // nanosleep() passes PWAIT, so it runs at once, 20 ms of every 220; back in user mode nobody asks whether it should.
    let (history, _) = run(ID, "1", json, 30, &[]);
    let runs = history.runs_of("sleeper", SECOND, 30 * SECOND);
    assert_near(runs.len() as f64, 29_000.0 / 220.0, 3.0, "activations");
    let cut_short = runs.iter().filter(|run| run.length() < 20 * MS).count();
    assert_eq!(cut_short, 0);
}

#[test]
fn a_yielder_with_the_earliest_deadline_goes_on() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "yielder": { "run": 100, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 10, &[]);
    assert!(statistic(ID, &outcome, "yields") > 40_000);
    assert_near(history.percent("yielder", SECOND, 10 * SECOND), 50.0, 3.0, "yielder");
    assert_near(
        history.runs_of("hog", SECOND, 10 * SECOND).len() as f64 / 9.0,
        5.3,
        0.5,
        "the hog's turns a second",
    );
}

#[test]
fn five_hogs_on_four_cpus_get_four_fifths_each() {
    let json = &hogs(5);
    let (history, _) = run(ID, "4", json, 20, &[]);
    assert_shares(&history, 5, SECOND, 20 * SECOND, 80.0, 2.0);
}

#[test]
fn a_scan_is_as_long_as_the_list() {
    let steps = |threads: u32| {
        let json = hogs(threads);
        let (_, outcome) = run(ID, "1", &json, 20, &[]);
        statistic(ID, &outcome, "list_steps") as f64 / statistic(ID, &outcome, "choices") as f64
    };
    assert_near(steps(10), 9.0, 0.5, "10 threads");
    assert_near(steps(100), 99.0, 3.0, "100 threads");
}

#[test]
fn who_waited_for_a_pipe_runs_in_turn_and_who_waited_for_a_lock_by_deadline() {
    // The later one to be woken has the earlier deadline: it has never used a slice up.
    let in_turn = |wake: [&str; 2], wait: [&str; 2]| {
        let json = format!(
            r#"{{ "tasks": {{
            "waker": {{ "fairground": {{ "realtime": "global", "realtime_priority": 50 }}, "delay": 400000,
                "run0": 1000, {}, {}, "run1": 5000, "timer": {{ "ref": "t", "period": 100000 }} }},
            "early": {{ {}, "run": 500 }},
            "late": {{ "phases": {{
                "first": {{ "loop": 1, "run": 200000 }},
                "then": {{ "loop": -1, {}, "run": 500 }} }} }} }} }}"#,
            wake[1], wake[0], wait[0], wait[1]
        );
        let (history, _) = run(ID, "1", &json, 10, &[]);
        let early = history.runs_of("early", SECOND, 9 * SECOND);
        let late = history.runs_of("late", SECOND, 9 * SECOND);
        assert!(early.len() > 70 && late.len() > 70);
        let turns = early.iter().zip(&late);
        turns.filter(|(e, l)| l.start < e.start).count()
    };
    let through_pipes = in_turn(
        [
            r#""fairground0": { "pipe_write": { "pipe": "early", "bytes": 1 } }"#,
            r#""fairground1": { "pipe_write": { "pipe": "late", "bytes": 1 } }"#,
        ],
        [
            r#""fairground0": { "pipe_read": { "pipe": "early", "bytes": 1 } }"#,
            r#""fairground0": { "pipe_read": { "pipe": "late", "bytes": 1 } }"#,
        ],
    );
    assert!(through_pipes > 70, "{through_pipes}");
    let by_semaphores = in_turn(
        [r#""sem_post0": "early""#, r#""sem_post1": "late""#],
        [r#""sem_wait": "early""#, r#""sem_wait": "late""#],
    );
    assert_eq!(by_semaphores, 0);
}

#[test]
fn idle_cpus_of_the_own_core_are_told_before_others() {
    let json = r#"{ "tasks": {
        "parent": { "cpus": [0], "fairground": { "realtime": "global", "realtime_priority": 50 },
            "run": 1000, "fork": "child", "run1": 20000 },
        "child": { "instance": 0, "loop": 1, "run": 500 } } }"#;
    let (_, outcome) = run(ID, "core:2 pu:2", json, 1, &[]);
    let (forks, told) = (statistic(ID, &outcome, "forks"), statistic(ID, &outcome, "interrupts"));
    assert!(forks > 40 && told < forks + 10, "{told} for {forks}");
}

#[test]
fn where_no_cpu_idles_the_worst_thread_makes_way() {
    let json = r#"{ "tasks": {
        "parent": { "cpus": [0], "fairground": { "realtime": "global", "realtime_priority": 50 }, "delay": 40000,
            "loop": 1, "run": 5000, "fork": "child", "run1": 100000 },
        "idle": { "cpus": [1], "policy": "SCHED_IDLE", "run": 1000 },
        "child": { "instance": 0, "loop": 1, "run": 500 } } }"#;
    let (history, _) = run(ID, "2", json, 1, &[]);
    let child = history.child();
    assert!(child.start < 50 * MS, "{child:?}");
}

#[test]
fn of_two_threads_at_once_one_goes_to_another_core() {
    // Both are announced to the only idle CPU of their core, which passes it on.
    let json = r#"{ "tasks": {
        "parent": { "cpus": [0], "fairground": { "realtime": "global", "realtime_priority": 50 },
            "loop": 1, "run": 20000, "fork0": "child", "fork1": "child", "run1": 100000 },
        "child": { "instance": 0, "loop": 1, "run": 50000 } } }"#;
    let (history, _) = run(ID, "core:2 pu:2", json, 1, &[]);
    let children: Vec<_> =
        history.runs.iter().filter(|run| run.task.starts_with("child")).collect();
    assert_eq!(children.len(), 2, "{children:?}");
    assert_eq!(children[0].start / MS, children[1].start / MS);
}

#[test]
fn a_kernel_thread_goes_before_an_earlier_deadline() {
    // It wakes up in the middle of the user thread's run. That one never uses up a slice, so it keeps its first deadline.
    let json = r#"{ "tasks": {
        "user": { "delay": 9500, "timer": { "ref": "t", "period": 10000, "mode": "absolute" }, "run": 1000 } } }"#;
    let mut thread = busy_kernel_thread();
    thread.turns[0].cpu_time = 100 * MS;
    let (history, _) = run_with(ID, "1", json, 3, &[], |options| {
        options.surroundings.threads = vec![thread];
    });
    let runs = history.runs_of("user", 2 * SECOND, 3 * SECOND);
    let until = runs.iter().filter(|run| run.end % (10 * MS) == 0).count();
    assert!(until > 90 && runs.len() > 190, "{until} of {}", runs.len());
}

shows! {
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 0);
    kernel_threads_come_first: assert_kernel_threads_come_first(ID);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
}
