//! Sections without migration: the task stays on its CPU, and schedulers see that.

mod common;
mod support;

use common::{free, scheduler};
use fairground_events::{Event, Sink, TaskId, TaskInfo};
use fairground_simulator::{Hotplug, Outcome, simulate};
use support::{History, MS};

/// A task that computes twice on CPU 0 or CPU 1, with a sleep in between, in a section without migration if `inside`; a hog of CPU 0 joins at 1 ms.
fn text(inside: bool) -> String {
    let (begin, end) = match inside {
        true => (
            r#""fairground1": { "migration": "disable" },"#,
            r#""fairground2": { "migration": "enable" },"#,
        ),
        false => ("", ""),
    };
    format!(
        r#"{{ "tasks": {{
            "task": {{ "loop": 1, {begin} "run1": 30000, "sleep": 2000, "run2": 30000, {end} "run3": 1000 }},
            "hog": {{ "cpus": [0], "delay": 1000, "run": 200000, "loop": 1 }}
        }} }}"#
    )
}

fn play(name: &str, definitions: &[&str], inside: bool) -> (History, Outcome) {
    let mut history = History::default();
    let options = free("2", &text(inside));
    let outcome = simulate(&scheduler(name, definitions), &options, vec![&mut history]);
    (history, outcome.unwrap())
}

fn cpus(history: &History) -> Vec<u32> {
    let runs = history.runs.iter();
    let runs = runs.filter(|run| run.task == "task" && run.length() > 0);
    runs.map(|run| run.cpu).collect()
}

fn counter(outcome: &Outcome, name: &str) -> i64 {
    let found = outcome.events.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn a_task_in_a_section_stays_where_it_is_although_another_cpu_is_idle() {
    let (history, outcome) = play("bare", &[], true);
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
    let seen = cpus(&history);
    assert!(seen.len() >= 4, "{seen:?}");
    // Only the part after the section may run elsewhere.
    let inside: u64 = { history.runs.iter() }
        .filter(|run| run.task == "task" && run.cpu == 0)
        .map(|run| run.length())
        .sum();
    assert!(inside >= 60 * MS, "{:?}", history.runs);
    assert!(counter(&outcome, "SCX_EV_ENQ_SKIP_MIGRATION_DISABLED") > 0);
    // The same task outside a section goes to the idle CPU.
    let (history, outcome) = play("bare", &[], false);
    assert!(cpus(&history).contains(&1), "{:?}", history.runs);
    assert_eq!(counter(&outcome, "SCX_EV_ENQ_SKIP_MIGRATION_DISABLED"), 0);
}

/// The number of CPUs that a task may use, 0 for all, each time it is told.
#[derive(Default)]
struct Masks(Vec<usize>);

impl Sink for Masks {
    fn task(&mut self, _: u64, _: TaskId, info: &TaskInfo) {
        if info.name == "task" {
            self.0.push(info.allowed.len());
        }
    }
    fn event(&mut self, _: &Event) {}
    fn finish(&mut self, _: u64) {}
}

/// Without that, a CPU that it may not use would be idle beside it.
#[test]
fn sinks_are_told_of_the_only_cpu_and_of_all_again() {
    let mut masks = Masks::default();
    let options = free("2", &text(true));
    simulate(&scheduler("bare", &[]), &options, vec![&mut masks]).unwrap();
    assert_eq!(masks.0, [0, 1, 0]);
}

#[test]
fn a_scheduler_is_told_of_the_only_cpu_and_of_all_again_but_is_not_asked_for_one() {
    let (_, outcome) = play("order", &[], true);
    let seen: Vec<&str> = outcome.messages.iter().map(String::as_str).collect();
    let told = |line: &&str| line.starts_with("set_cpumask 1001");
    let masks: Vec<usize> = (0..seen.len()).filter(|&place| told(&seen[place])).collect();
    // Once when it first loses the CPU, and once at the end of the section.
    let [narrowed, widened] = masks[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(
        [seen[narrowed - 2], seen[narrowed - 1]],
        ["stopping 1001 runnable 0", "quiescent 1001 0x20000000a"]
    );
    let asked = |line: &&str| line.starts_with("select_cpu 1001");
    assert_eq!(seen[narrowed..widened].iter().filter(|line| asked(line)).count(), 0);
    let (_, outcome) = play("order", &[], false);
    let asked = |line: &String| line.starts_with("select_cpu 1001");
    assert_eq!(outcome.messages.iter().filter(|line| asked(line)).count(), 2);
}

#[test]
fn who_inserts_into_the_queue_of_another_cpu_unchecked_is_ejected() {
    // It sends tasks in a section to CPU 1, all others to CPU 0.
    let text = r#"{ "tasks": { "task": { "loop": 1, "phases": {
        "home": { "run": 1000, "cpus": [0] },
        "section": { "cpus": [0, 1], "fairground1": { "migration": "disable" }, "run": 30000, "fairground2": { "migration": "enable" } } } } } }"#;
    let from_0 = ["ELSEWHERE", "FLAGS (SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED)"];
    let options = free("2", text);
    let outcome = simulate(&scheduler("fault", &from_0), &options, Vec::new()).unwrap();
    assert!(
        outcome.exit.message.contains(
            "SCX_DSQ_LOCAL[_ON] cannot move migration disabled task[1001] from CPU 0 to 1"
        ),
        "{:?} {}",
        outcome.exit.kind,
        outcome.exit.message
    );
    // A scheduler that does not ask for such tasks never meets them.
    let unasked = ["ELSEWHERE", "FLAGS SCX_OPS_ENQ_LAST"];
    let outcome = simulate(&scheduler("fault", &unasked), &options, Vec::new()).unwrap();
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
}

#[test]
fn other_cpus_pass_it_over_in_a_shared_queue() {
    let definitions = ["FLAGS SCX_OPS_ENQ_MIGRATION_DISABLED"];
    let (history, outcome) = play("fault", &definitions, true);
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
    let inside: u64 = { history.runs.iter() }
        .filter(|run| run.task == "task" && run.cpu == 0)
        .map(|run| run.length())
        .sum();
    assert!(inside >= 60 * MS, "{:?}", history.runs);
}

#[test]
fn a_real_time_task_in_a_section_is_not_pushed_but_the_one_before_it_is() {
    let text = r#"{ "tasks": {
        "bound": { "policy": "SCHED_FIFO", "priority": 5, "loop": 1, "phases": {
            "home": { "cpus": [0], "sleep": 1000 },
            "section": { "cpus": [0, 1], "fairground1": { "migration": "disable" }, "run": 5000, "fairground2": { "migration": "enable" } } } },
        "high": { "policy": "SCHED_FIFO", "priority": 10, "loop": 1, "phases": {
            "home": { "cpus": [0], "sleep": 2000 }, "free": { "cpus": [0, 1], "run": 5000 } } },
        "other": { "policy": "SCHED_FIFO", "priority": 3, "cpus": [1], "delay": 3000, "run": 1000, "loop": 1 }
    } }"#;
    let mut history = History::default();
    simulate(&scheduler("bare", &[]), &free("2", text), vec![&mut history]).unwrap();
    let runs = |task: &str| -> Vec<(u32, u64, u64)> {
        let runs = history.runs.iter();
        let runs = runs.filter(|run| run.task == task && run.length() > 0);
        runs.map(|run| (run.cpu, run.start / 1000, run.end / 1000)).collect()
    };
    // When CPU 1 is done with the other one, it would take the bound one and may not: it takes the one that keeps it waiting.
    assert_eq!(runs("bound"), [(0, 1000, 2000), (0, 4000, 8000)]);
    assert_eq!(runs("high"), [(0, 2000, 4000), (1, 4000, 7000)]);
}

#[test]
fn a_cpu_goes_offline_when_the_section_has_ended() {
    let text = r#"{ "tasks": { "task": { "loop": 1, "phases": {
        "home": { "run": 1000, "cpus": [1] },
        "section": { "cpus": [0, 1], "fairground1": { "migration": "disable" }, "run": 5000, "fairground2": { "migration": "enable" }, "run2": 3000 } } } } }"#;
    let mut options = free("2", text);
    options.hotplug = vec![Hotplug { at: 2 * MS, cpu: 1, online: false }];
    let mut history = History::default();
    let scheduler = scheduler("order", &["CPU_HOTPLUG"]);
    let outcome = simulate(&scheduler, &options, vec![&mut history]).unwrap();
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
    let time = |cpu: u32| -> u64 {
        let runs = history.runs.iter().filter(|run| run.cpu == cpu);
        runs.map(|run| run.length()).sum()
    };
    assert_eq!([time(1), time(0)], [6 * MS, 3 * MS], "{:?}", history.runs);
}
