//! The table for the terminal.

use crate::small_machine::{comparison, fail, metrics};
use expect_test::expect_file;
use fairground_report::{Comparison, Style, TaskTables, comparison_markdown, comparison_table};
use fairground_results::{MEASURES, Status, differences};

fn text(tasks: TaskTables) -> String {
    comparison_table(&comparison(), style(tasks))
}

fn style(tasks: TaskTables) -> Style {
    Style { tasks, ..Style::default() }
}

#[test]
fn lines_fit_a_terminal_and_end_clean() {
    for line in text(TaskTables::Always).lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn a_block_for_each_workload_has_rows_spreads_shares_and_notes() {
    expect_file!["printed/comparison.txt"].assert_eq(&text(TaskTables::WhenFew));
}

#[test]
fn markdown_has_the_same_figures_and_a_summary() {
    expect_file!["printed/comparison.md"].assert_eq(&comparison_markdown(&comparison()));
}

#[test]
fn shares_of_many_tasks_are_shown_on_demand() {
    assert!(!text(TaskTables::WhenFew).contains("hog-39"));
    assert!(text(TaskTables::Always).contains("hog-39"));
}

#[test]
fn an_absent_metric_is_a_dash() {
    let mut comparison = comparison();
    comparison.runs.truncate(1);
    metrics(&mut comparison, 0).overhead = None;
    metrics(&mut comparison, 0).wakeup_latency = None;
    let text = comparison_table(&comparison, Style::default());
    // The overhead is in the second table.
    let row = text.lines().find(|line| line.starts_with("o1")).unwrap();
    assert_eq!(row.split_whitespace().filter(|&word| word == "-").count(), 3, "{row}");
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(comparison_table(&Comparison::default(), style(TaskTables::Always)), "");
}

/// A comparison in which one scheduler starved a task, and another never began.
fn failing() -> Comparison {
    let mut comparison = comparison();
    comparison.runs.truncate(4);
    fail(&mut comparison.runs[0], Status::Starved, "lost", "starved a task");
    fail(&mut comparison.runs[3], Status::Invalid, "invalid", "failed");
    comparison.runs[3].metrics = None;
    comparison
}

#[test]
fn failures_come_first_and_have_a_status() {
    expect_file!["printed/failures.txt"].assert_eq(&comparison_table(&failing(), Style::default()));
}

#[test]
fn what_failed_is_red_where_there_are_colours() {
    let colours = true;
    let text = comparison_table(&failing(), Style { colours, ..Style::default() });
    let red = text.lines().filter(|line| line.starts_with("\u{1b}[31m"));
    let mut names: Vec<&str> = red.map(|line| line[5..].split(' ').next().unwrap()).collect();
    names.dedup();
    // The lines above, and a row in each of two tables.
    assert_eq!(names, ["o1", "linux24", "o1", "linux24", "o1", "linux24"]);
    let plain = text.replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, comparison_table(&failing(), Style::default()));
}

#[test]
fn figures_of_repeats_are_of_those_that_are_ok() {
    let mut comparison = comparison();
    let all = comparison_table(&comparison, Style::default());
    fail(&mut comparison.runs[4], Status::Ejected, "SCX_EXIT_ERROR", "failed");
    metrics(&mut comparison, 4).longest_wait_ns = Some(9_999_000_000_000);
    let text = comparison_table(&comparison, Style::default());
    assert!(text.contains(" ejected 1 of 3 "), "{text}");
    assert!(!text.contains("9999 s"), "{text}");
    assert!(!all.contains("status"));
}

#[test]
fn what_is_kept_of_runs_gives_the_same_tables() {
    let whole = comparison();
    let mut reduced = whole.clone();
    for run in &mut reduced.runs {
        let few = run.tasks().len() <= fairground_report::FEW_TASKS;
        run.reduce(few);
    }
    let few = style(TaskTables::WhenFew);
    assert_eq!(comparison_table(&reduced, few), comparison_table(&whole, few));
    assert_eq!(comparison_markdown(&reduced), comparison_markdown(&whole));
    let differences = |comparison: &Comparison| differences(&comparison.runs, "cfs");
    assert_eq!(differences(&reduced), differences(&whole));
    for (reduced, whole) in reduced.runs.iter().zip(&whole.runs) {
        let (reduced, whole) = (reduced.metrics.as_ref(), whole.metrics.as_ref());
        for measure in MEASURES.iter() {
            let found = measure.run(reduced.unwrap());
            assert_eq!(found, measure.run(whole.unwrap()), "{}", measure.id);
        }
        assert!(reduced.unwrap().tasks.len() <= 2);
    }
}
