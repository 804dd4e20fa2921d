//! The HTML page.

use crate::small_machine::comparison;

#[test]
fn the_page_needs_nothing_else() {
    let page = comparison().html();
    assert!(page.starts_with("<!DOCTYPE html>"));
    for outside in [
        "http:", "https:", "//", "src=", "<script", "<link", "@import", "url(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn every_workload_scheduler_and_task_is_on_it() {
    let page = comparison().html();
    for name in [
        "hogs-five",
        "mix-two",
        "crowd",
        "linux24",
        "eevdf",
        "beat-1",
        "hog-39",
        "sched_latency=20ms",
    ] {
        assert!(page.contains(name), "{name}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert_eq!(page.matches("<section>").count(), 3);
}

#[test]
fn names_cannot_break_the_page() {
    let mut comparison = comparison();
    comparison.runs[0].labels.scheduler = "<b>\"&".to_owned();
    comparison.runs[0].metrics.tasks[0].name = "</svg>".to_owned();
    let page = comparison.html();
    assert!(!page.contains("<b>"));
    assert!(page.contains("&lt;b&gt;&quot;&amp;"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn many_tasks_do_not_swell_the_page() {
    let mut comparison = comparison();
    let run = comparison.runs.pop().unwrap();
    let task = run.metrics.tasks[0].clone();
    comparison.runs = vec![run];
    comparison.runs[0].metrics.tasks = (0..20_000)
        .map(|number| {
            let mut task = task.clone();
            task.name = format!("task-{number}");
            task
        })
        .collect();
    let page = comparison.html();
    assert!(page.contains("The first 500 of 20000 tasks"));
    assert!(page.len() < 1_000_000);
}
