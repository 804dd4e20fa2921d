//! CSV.

use crate::small_machine::{comparison, fail, metrics, recipe};
use expect_test::expect_file;
use fairground_report::comparison_csv;
use fairground_results::Status;
use std::collections::BTreeMap;

fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap()
}

#[test]
fn columns_have_these_names() {
    let text = comparison_csv(&comparison());
    let heading = text.lines().next().unwrap();
    expect_file!["printed/columns.txt"].assert_eq(&heading.replace(',', "\n"));
}

#[test]
fn a_row_per_run_and_per_task() {
    let comparison = comparison();
    let rows = rows(&comparison_csv(&comparison));
    let runs: Vec<_> = rows.iter().filter(|row| row["task"].is_empty()).collect();
    assert_eq!(runs.len(), comparison.runs.len());
    let tasks: usize =
        comparison.runs.iter().map(|run| run.metrics.as_ref().unwrap().tasks.len()).sum();
    assert_eq!(rows.len(), runs.len() + tasks);
}

#[test]
fn fields_are_under_their_headings() {
    let comparison = comparison();
    let rows = rows(&comparison_csv(&comparison));
    let metrics = comparison.runs[0].metrics.as_ref().unwrap();
    let run = &rows[0];
    assert_eq!(run["scheduler"], "o1");
    assert_eq!(run["seed"], "0");
    assert_eq!(run["context_switches"], metrics.context_switches.to_string());
    assert_eq!(run["jain_index"], metrics.fairness.unwrap().jain_index.to_string());
    assert_eq!(run["overhead_total_ns"], metrics.overhead.unwrap().total_ns.to_string());
    assert_eq!(run["share"], "");
    let task = &rows[1];
    assert_eq!(task["task"], "hog-0");
    assert_eq!(task["share"], metrics.tasks[0].share.unwrap().actual.to_string());
    assert_eq!(task["busy_ns"], metrics.tasks[0].cpu_time_ns.to_string());
    assert_eq!(task["jain_index"], "");
}

#[test]
fn absent_is_empty_and_names_are_quoted() {
    let mut comparison = comparison();
    comparison.runs.truncate(1);
    metrics(&mut comparison, 0).overhead = None;
    recipe(&mut comparison.runs[0]).workload = "a \"strange\", name".to_owned();
    let rows = rows(&comparison_csv(&comparison));
    assert_eq!(rows[0]["overhead_total_ns"], "");
    assert_eq!(rows[0]["workload"], "a \"strange\", name");
}

#[test]
fn a_run_that_failed_says_so_in_columns_of_their_own() {
    let mut comparison = comparison();
    comparison.runs.truncate(2);
    fail(&mut comparison.runs[0], Status::Ejected, "SCX_EXIT_ERROR", "failed after 3 s");
    fail(&mut comparison.runs[1], Status::Invalid, "invalid", "does not compile");
    comparison.runs[1].metrics = None;
    let rows = rows(&comparison_csv(&comparison));
    assert_eq!(rows[0]["status"], "ejected");
    assert_eq!(rows[0]["kind"], "SCX_EXIT_ERROR");
    assert_eq!(rows[0]["message"], "failed after 3 s");
    assert_eq!(rows[0]["failed_at_ns"], "7000000");
    // A run that never began has a row of its own, without figures.
    let last = rows.last().unwrap();
    assert_eq!((last["status"].as_str(), last["task"].as_str()), ("invalid", ""));
    assert_eq!(last["context_switches"], "");
}
