//! The table for the terminal.

use crate::small_machine::comparison;
use fairground_report::{Comparison, TaskTables};

fn text(tasks: TaskTables) -> String {
    comparison().table(tasks)
}

#[test]
fn lines_fit_a_terminal_and_end_clean() {
    for line in text(TaskTables::Always).lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn every_workload_has_a_block_with_a_row_per_scheduler() {
    let text = text(TaskTables::WhenFew);
    let blocks: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("cost model default"))
        .collect();
    assert_eq!(
        blocks,
        [
            "hogs-five (machine 4, 10.0 s, cost model default, seed 0)",
            "mix-two (machine 2, 10.0 s, cost model default, seeds 0 to 2, median of 3 runs)",
            "crowd (machine 2, 10.0 s, cost model default, seed 0)",
        ]
    );
    let hogs = text.split("mix-two").next().unwrap();
    let rows: Vec<&str> = hogs
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| ["o1", "cfs", "eevdf", "linux24"].contains(word))
        .collect();
    // Once in the table of service, once in that of cost.
    assert_eq!(
        rows,
        [
            "o1", "cfs", "eevdf", "linux24", "o1", "cfs", "eevdf", "linux24"
        ]
    );
    assert!(hogs.contains("\n sched_latency=20ms"), "{hogs}");
}

#[test]
fn headings_and_numbers_are_aligned_to_the_right() {
    let text = text(TaskTables::WhenFew);
    let lines: Vec<&str> = text.lines().collect();
    let heading = lines
        .iter()
        .position(|line| line.starts_with("scheduler"))
        .unwrap();
    let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
    // Throughput is the first column: its heading and its percent sign end in the same column.
    assert_eq!(end(lines[heading], "put"), end(lines[heading + 1], "%"));
}

#[test]
fn repeats_show_their_spread() {
    let text = text(TaskTables::WhenFew);
    let (hogs, rest) = text.split_once("mix-two").unwrap();
    let spreads = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with(" spread"))
            .count()
    };
    assert_eq!(spreads(hogs), 0);
    // Two schedulers in two tables.
    assert_eq!(spreads(rest), 4);
}

#[test]
fn periods_are_shown_only_where_there_are_any() {
    let text = text(TaskTables::WhenFew);
    let (hogs, mix) = text.split_once("mix-two").unwrap();
    assert!(!hogs.contains("response"));
    assert!(mix.contains("response"));
}

#[test]
fn shares_of_many_tasks_are_shown_on_demand() {
    assert!(!text(TaskTables::WhenFew).contains("hog-39"));
    assert!(text(TaskTables::Always).contains("hog-39"));
    // 1/4 of the work of four CPUs for the hog that shares with none, the ideal is a fifth.
    let text = text(TaskTables::WhenFew);
    let row = text.lines().find(|line| line.starts_with("hog-1")).unwrap();
    assert!(row.contains("25.0 % (20.0 %)"), "{row}");
}

#[test]
fn notes_are_told_once() {
    let text = text(TaskTables::WhenFew);
    assert_eq!(
        text.matches("Note: memory traffic is played as computing")
            .count(),
        1
    );
}

#[test]
fn an_absent_metric_is_a_dash() {
    let mut comparison = comparison();
    comparison.runs.truncate(1);
    comparison.runs[0].metrics.overhead = None;
    comparison.runs[0].metrics.wakeup_latency = None;
    let text = comparison.table(TaskTables::WhenFew);
    let row = text.lines().find(|line| line.starts_with("o1")).unwrap();
    assert_eq!(
        row.split_whitespace().filter(|&word| word == "-").count(),
        4,
        "{row}"
    );
}

#[test]
fn measures_that_do_not_fit_get_a_table_of_their_own() {
    let text = text(TaskTables::WhenFew);
    let mix = text
        .split("mix-two")
        .nth(1)
        .unwrap()
        .split("Shares")
        .next()
        .unwrap();
    for heading in ["wakeup", "missed", "switches", "over-", "wasted"] {
        assert!(mix.contains(heading), "{heading}");
    }
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(Comparison::default().table(TaskTables::Always), "");
}
