//! The table for the terminal.

use crate::small_machine::{comparison, fail, metrics};
use fairground_report::Forms as _;
use fairground_report::{Comparison, Style, TaskTables};
use fairground_results::{MEASURES, Status, differences};

fn text(tasks: TaskTables) -> String {
    comparison().table(style(tasks))
}

fn style(tasks: TaskTables) -> Style {
    Style {
        tasks,
        ..Style::default()
    }
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
    metrics(&mut comparison, 0).overhead = None;
    metrics(&mut comparison, 0).wakeup_latency = None;
    let text = comparison.table(Style::default());
    // The overhead is in the second table.
    let row = text.lines().find(|line| line.starts_with("o1")).unwrap();
    assert_eq!(
        row.split_whitespace().filter(|&word| word == "-").count(),
        3,
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
    assert_eq!(Comparison::default().table(style(TaskTables::Always)), "");
}

/// A comparison in which one scheduler starved a task, and another never began.
fn failing() -> Comparison {
    let mut comparison = comparison();
    comparison.runs.truncate(4);
    fail(
        &mut comparison.runs[0],
        Status::Starved,
        "lost",
        "starved a task",
    );
    fail(
        &mut comparison.runs[3],
        Status::Invalid,
        "invalid",
        "failed",
    );
    comparison.runs[3].metrics = None;
    comparison
}

#[test]
fn what_failed_comes_first_and_has_a_status() {
    let text = failing().table(Style::default());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "o1 starved a task");
    assert_eq!(lines[3], "  fairground explain hogs.json");
    assert_eq!(lines[4], "linux24 failed");
    let row = |name: &str| {
        text.lines()
            .filter(move |line| line.starts_with(name))
            .nth(1)
    };
    assert!(row("o1").unwrap().contains(" starved "), "{text}");
    let invalid: Vec<&str> = row("linux24").unwrap().split_whitespace().collect();
    assert_eq!(invalid[1], "invalid");
    assert!(invalid[2..].iter().all(|word| *word == "-"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn what_failed_is_red_where_there_are_colours() {
    let colours = true;
    let text = failing().table(Style {
        colours,
        ..Style::default()
    });
    let red = text.lines().filter(|line| line.starts_with("\u{1b}[31m"));
    let mut names: Vec<&str> = red
        .map(|line| line[5..].split(' ').next().unwrap())
        .collect();
    names.dedup();
    // The lines above, and a row in each of two tables.
    assert_eq!(names, ["o1", "linux24", "o1", "linux24", "o1", "linux24"]);
    let plain = text.replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, failing().table(Style::default()));
}

#[test]
fn figures_of_repeats_are_of_those_that_are_ok() {
    let mut comparison = comparison();
    let all = comparison.clone().table(Style::default());
    fail(
        &mut comparison.runs[4],
        Status::Ejected,
        "SCX_EXIT_ERROR",
        "failed",
    );
    metrics(&mut comparison, 4).longest_wait_ns = Some(9_999_000_000_000);
    let text = comparison.table(Style::default());
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
    assert_eq!(reduced.table(few), whole.table(few));
    assert_eq!(reduced.markdown(), whole.markdown());
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
