//! `SCHED_DEADLINE`: bandwidth, the order of deadlines, wake-ups, which CPU a task gets, and which tasks may exist. The expected
//! times are those that `deadline.c` of Linux 7.3 gives when scheduling costs nothing.

mod common;
mod support;

use common::{free, scheduler};
use fairground_simulator::{Hotplug, Outcome, simulate};
use support::{History, MS, SECOND};

const US: u64 = 1000;

/// The history of a workload's tasks on `machine`, under the kernel's defaults, with changes of the CPUs.
fn attempt(machine: &str, tasks: &str, hotplug: &[(u64, usize, bool)]) -> (History, Outcome) {
    attempt_for(2, machine, tasks, hotplug)
}

/// The same for so many seconds.
fn attempt_for(
    seconds: u64,
    machine: &str,
    tasks: &str,
    hotplug: &[(u64, usize, bool)],
) -> (History, Outcome) {
    let text = format!(r#"{{ "tasks": {{ {tasks} }}, "global": {{ "duration": {seconds} }} }}"#);
    let mut history = History::default();
    let mut options = free(machine, &text);
    options.hotplug =
        { hotplug.iter() }.map(|&(at, cpu, online)| Hotplug { at, cpu, online }).collect();
    let scheduler = scheduler("order", &["CPU_HOTPLUG"]);
    let outcome = simulate(&scheduler, &options, vec![&mut history]).unwrap();
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
    (history, outcome)
}

fn play(machine: &str, tasks: &[&str]) -> History {
    let (history, outcome) = attempt(machine, &tasks.join(", "), &[]);
    assert_eq!(outcome.failure, None);
    history
}

/// Why the workload could not go on.
fn failure(machine: &str, tasks: &str) -> String {
    let (_, outcome) = attempt(machine, tasks, &[]);
    outcome.failure.expect("the workload goes on")
}

/// The runs of a task, without those that took no time: CPU, start and end in microseconds.
fn runs(history: &History, task: &str) -> Vec<(u32, u64, u64)> {
    let runs = history.runs.iter();
    let runs = runs.filter(|run| run.task == task && run.length() > 0);
    runs.map(|run| (run.cpu, run.start / US, run.end / US)).collect()
}

/// A deadline task with a runtime and a period in milliseconds, and its other attributes.
fn deadline(name: &str, runtime: u64, period: u64, rest: &str) -> String {
    format!(
        r#""{name}": {{ "policy": "SCHED_DEADLINE", "dl-runtime": {}, "dl-period": {}, {rest} }}"#,
        runtime * 1000,
        period * 1000
    )
}

const HOG: &str = r#""hog": { "run": 1000000 }"#;
const FIFO_HOG: &str = r#""fifo": { "policy": "SCHED_FIFO", "priority": 99, "run": 1000000 }"#;

#[test]
fn who_never_stops_gets_the_runtime_at_the_beginning_of_each_period() {
    for other in [HOG, FIFO_HOG] {
        let task = deadline("task", 3, 10, r#""run": 1000000"#);
        let history = play("1", &[other, &task]);
        let runs = runs(&history, "task");
        assert_eq!(runs.len(), 200, "{other}");
        for (number, run) in runs.into_iter().enumerate() {
            let start = number as u64 * 10_000;
            assert_eq!(run, (0, start, start + 3000), "{other}");
        }
    }
}

#[test]
fn the_earliest_deadline_runs_first() {
    let early = deadline("early", 2, 8, r#""delay": 1000, "run": 2000, "loop": 1"#);
    let late = deadline("late", 4, 20, r#""run": 4000, "loop": 1"#);
    let history = play("1", &[&late, &early]);
    assert_eq!(runs(&history, "early"), [(0, 1000, 3000)]);
    assert_eq!(runs(&history, "late"), [(0, 0, 1000), (0, 3000, 6000)]);
    let later = deadline("later", 2, 40, r#""delay": 1000, "run": 2000, "loop": 1"#);
    let history = play("1", &[&late, &later]);
    assert_eq!(runs(&history, "later"), [(0, 4000, 6000)]);
}

#[test]
fn who_yields_gives_up_the_rest_of_the_period() {
    let task = deadline("task", 5, 10, r#""run": 1000, "yield": """#);
    let history = play("1", &[HOG, &task]);
    for (number, run) in runs(&history, "task").into_iter().enumerate() {
        let start = number as u64 * 10_000;
        assert_eq!(run, (0, start, start + 1000));
    }
}

#[test]
fn a_wake_up_goes_on_with_the_period_only_within_the_bandwidth() {
    let sleeper = |work: u64, until: u64| {
        let phases = format!(
            r#""loop": 1, "phases": {{ "a": {{ "run": {}, "sleep": {} }}, "b": {{ "run": 6000 }} }}"#,
            work * 1000,
            (until - work) * 1000
        );
        let history = play("1", &[&deadline("task", 4, 10, &phases)]);
        runs(&history, "task").split_off(1)
    };
    // 3 of 4 ms are left for 2 of 10 ms: a new period begins.
    assert_eq!(sleeper(1, 8), [(0, 8000, 12_000), (0, 18_000, 20_000)]);
    // 1 ms is left for 6 ms.
    assert_eq!(sleeper(3, 4), [(0, 4000, 5000), (0, 10_000, 14_000), (0, 20_000, 21_000)]);
}

#[test]
fn a_deadline_before_the_end_of_the_period_gives_no_more_than_the_bandwidth() {
    let sleeper = |work: u64, until: u64| {
        let phases = format!(
            r#""dl-deadline": 4000, "loop": 1, "phases": {{ "a": {{ "run": {work}, "sleep": {} }}, "b": {{ "run": 2000 }} }}"#,
            until - work
        );
        let history = play("1", &[&deadline("task", 2, 10, &phases)]);
        runs(&history, "task").split_off(1)
    };
    // After the deadline: the next period has to begin first.
    assert_eq!(sleeper(1000, 6000), [(0, 10_000, 12_000)]);
    // Before it, with 1.5 ms left for 1 ms, of which the task may have a half.
    let seen = sleeper(500, 3000);
    assert_eq!(seen[0].1, 3000);
    assert!((3498..=3500).contains(&seen[0].2), "{seen:?}");
    assert_eq!(seen[1].1, 10_000);
}

#[test]
fn of_three_on_two_cpus_the_earliest_two_run_and_the_third_is_pulled() {
    let tasks = [
        deadline("a", 4, 20, r#""run": 3000, "loop": 1"#),
        deadline("b", 4, 30, r#""run": 1000, "loop": 1"#),
        deadline("c", 4, 40, r#""run": 4000, "loop": 1"#),
    ];
    let history = play("2", &[&tasks[0], &tasks[1], &tasks[2]]);
    assert_eq!(runs(&history, "a"), [(0, 0, 3000)]);
    assert_eq!(runs(&history, "b"), [(1, 0, 1000)]);
    assert_eq!(runs(&history, "c"), [(1, 1000, 5000)]);
    // One that wakes preempts the latest deadline, if that is not where it slept.
    let tasks = [
        deadline("a", 4, 20, r#""run": 4000, "loop": 1"#),
        deadline("b", 9, 50, r#""run": 9000, "loop": 1"#),
        deadline("c", 4, 30, r#""delay": 2000, "run": 4000, "loop": 1"#),
    ];
    let history = play("2", &[&tasks[0], &tasks[1], &tasks[2]]);
    assert_eq!(runs(&history, "c"), [(1, 2000, 6000)]);
    assert_eq!(runs(&history, "a"), [(0, 0, 4000)]);
}

#[test]
fn a_real_time_task_that_wakes_behind_a_deadline_task_is_pushed() {
    let task = deadline("task", 9, 20, r#""delay": 1000, "run": 9000, "loop": 1"#);
    let fifo = r#""fifo": { "policy": "SCHED_FIFO", "priority": 99, "delay": 3000, "run": 1000, "loop": 1 }"#;
    let history = play("2", &[fifo, &task]);
    assert_eq!(runs(&history, "task"), [(0, 1000, 10_000)]);
    assert_eq!(runs(&history, "fifo"), [(1, 3000, 4000)]);
}

#[test]
fn the_deadline_server_has_its_part_beside_deadline_and_real_time_tasks() {
    let task = deadline("task", 90, 100, r#""run": 1000000"#);
    let text = [HOG, FIFO_HOG, &task].join(", ");
    let (history, _) = attempt_for(10, "1", &text, &[]);
    // Each period of the server begins when its runtime is used up, which the deadline task delays.
    let share = history.percent("hog", 0, 10 * SECOND);
    assert!((4.3..=5.1).contains(&share), "{share}");
    let share = history.percent("task", 0, 10 * SECOND);
    assert!((89.0..=90.1).contains(&share), "{share}");
}

#[test]
fn tasks_are_admitted_up_to_the_bandwidth_of_all_cpus_less_that_of_the_servers() {
    let forever = r#""run": 1000000"#;
    play("1", &[&deadline("task", 94, 100, forever)]);
    let two = [deadline("one", 60, 100, forever), deadline("two", 60, 100, forever)];
    play("2", &[&two[0], &two[1]]);
    let said = failure("1", &two.join(", "));
    let parts =
        ["two may not be", "EBUSY", "needs 60.0 %", "others of its kind 60.0 %", "have 95.0 %"];
    for part in parts {
        assert!(said.contains(part), "{said}");
    }
    let said = failure("1", &deadline("task", 96, 100, forever));
    assert!(said.contains("EBUSY"), "{said}");
    // Those that have ended no longer count, and a later phase counts when it begins.
    let phases = r#""loop": 1, "phases": {
        "a": { "sleep": 5000 },
        "b": { "policy": "SCHED_DEADLINE", "dl-runtime": 60000, "dl-period": 100000, "run": 1000 } }"#;
    let later = format!(r#""later": {{ {phases} }}"#);
    play("1", &[&deadline("task", 60, 100, r#""run": 1000, "loop": 1"#), &later]);
    let said = failure("1", &format!("{}, {later}", two[0]));
    assert!(said.contains("later may not be"), "{said}");
}

#[test]
fn tasks_have_to_be_allowed_on_all_cpus() {
    let said = failure("2", &deadline("task", 3, 10, r#""cpus": [0], "run": 1000"#));
    assert!(said.contains("EPERM"), "{said}");
    let phases =
        r#""loop": 1, "phases": { "a": { "run": 1000 }, "b": { "cpus": [0], "run": 1000 } }"#;
    let said = failure("2", &deadline("task", 3, 10, phases));
    assert!(said.contains("EBUSY"), "{said}");
}

#[test]
fn deadline_tasks_do_not_fork() {
    let child = r#""child": { "instance": 0, "run": 1000, "loop": 1 }"#;
    let task = deadline("task", 3, 10, r#""run": 1000, "fork": "child""#);
    let said = failure("1", &format!("{task}, {child}"));
    assert!(said.contains("EAGAIN"), "{said}");
}

#[test]
fn a_cpu_that_deadline_tasks_need_stays_online() {
    let tasks = [
        deadline("one", 60, 100, r#""run": 1000000"#),
        deadline("two", 30, 100, r#""run": 1000000"#),
        deadline("three", 30, 100, r#""run": 1000000"#),
    ];
    let plan = [(500 * MS, 1, false)];
    let (history, outcome) = attempt("2", &tasks.join(", "), &plan);
    let refused = |message: &String| message.contains("stays online (EBUSY)");
    assert!(outcome.messages.iter().any(refused));
    assert!(history.runs.iter().any(|run| run.cpu == 1 && run.start > 600 * MS));
    // Without the third they fit on one CPU, and move there.
    let (history, _) = attempt("2", &tasks[..2].join(", "), &plan);
    for (task, share) in [("one", 60.0), ("two", 30.0)] {
        let seen = history.percent(task, 600 * MS, 1900 * MS);
        assert!((seen - share).abs() < 2.0, "{task}: {seen} %");
    }
    let mut late = history.runs.iter().filter(|run| run.start > 600 * MS);
    assert!(late.all(|run| run.cpu == 0));
}

#[test]
fn under_a_scheduler_that_switches_partially_both_classes_have_a_server() {
    let text = r#"{ "tasks": {
        "fifo": { "policy": "SCHED_FIFO", "priority": 10, "run": 1000000 },
        "fair": { "instance": 2, "run": 1000000 },
        "ext": { "policy": "SCHED_EXT", "run": 1000000 } },
        "global": { "duration": 10 } }"#;
    let partial = scheduler("fault", &["FLAGS SCX_OPS_SWITCH_PARTIAL"]);
    let mut history = History::default();
    simulate(&partial, &free("1", text), vec![&mut history]).unwrap();
    let share = |task: &str| history.percent(task, 0, 10 * SECOND);
    let fair = share("fair-0") + share("fair-1");
    assert!((4.5..=5.5).contains(&fair), "{fair}");
    assert!((4.5..=5.5).contains(&share("ext")), "{}", share("ext"));
    // Together they leave 90 % to deadline tasks.
    let task = deadline("task", 91, 100, r#""run": 1000"#);
    let text = format!(r#"{{ "tasks": {{ {task} }}, "global": {{ "duration": 1 }} }}"#);
    let outcome = simulate(&partial, &free("1", &text), Vec::new()).unwrap();
    let failure = outcome.failure.expect("it is not admitted");
    assert!(failure.contains("90.0 %"), "{failure}");
}
