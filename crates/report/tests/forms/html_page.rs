//! The HTML page.

use crate::sample_page::page;
use crate::small_machine::comparison;
use crate::small_machine::{fail, metrics};
use fairground_report::Comparison;
use fairground_report::Forms as _;
use fairground_results::Status;
use std::collections::BTreeMap;

fn html(comparison: &Comparison) -> String {
    comparison.page(&BTreeMap::new()).html()
}

#[test]
fn the_page_needs_nothing_else() {
    for page in [html(&comparison()), page().html()] {
        assert!(page.starts_with("<!DOCTYPE html>"));
        for outside in [
            "http:", "https:", "src=", "<link", "@import", "url(http", "url(//", "fetch(", "xlink",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        let local = page.matches("url(#clip-").count();
        assert_eq!(page.matches("url(").count(), local);
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn every_workload_scheduler_and_task_is_on_it() {
    let page = html(&comparison());
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
    assert_eq!(page.matches("<section").count(), 3);
}

#[test]
fn it_begins_with_the_answer_and_says_how_sure_it_is() {
    let comparison = comparison();
    let page = html(&comparison);
    let (answer, rest) = page.split_once("<section").unwrap();
    assert!(answer.contains("Deadlines (missed periods)"));
    assert!(answer.contains("One run of each"));
    assert!(!rest.contains("One run of each"));
    let repeated = Comparison {
        differences: Vec::new(),
        runs: comparison
            .runs
            .into_iter()
            .filter(|run| run.labels.workload == "mix-two")
            .collect(),
    };
    assert!(html(&repeated).contains("Means of 3 runs of each"));
}

#[test]
fn distributions_are_plotted_where_there_are_some() {
    let page = comparison().page(&BTreeMap::new());
    let titles = |section: usize| {
        let plots = page.sections[section].plots.iter();
        let titles = plots.map(|plot| plot.title.as_str());
        titles
            .filter(|title| title.ends_with("percentiles"))
            .collect::<Vec<_>>()
    };
    // Hogs have no periods.
    assert_eq!(titles(0), ["Wakeup latency, percentiles"]);
    assert_eq!(
        titles(1),
        ["Wakeup latency, percentiles", "Response time, percentiles"]
    );
}

#[test]
fn who_cannot_be_told_from_the_best_is_as_good() {
    let mut comparison = comparison();
    comparison
        .runs
        .retain(|run| run.labels.workload == "mix-two");
    let mut latency = |run: usize, p99_ns: u64| {
        let distribution = metrics(&mut comparison, run).wakeup_latency.as_mut();
        distribution.unwrap().p99_ns = p99_ns;
    };
    for (run, p99_ms) in [10, 20, 30, 12, 22, 32].into_iter().enumerate() {
        latency(run, p99_ms * 1_000_000);
    }
    let waits = |comparison: &Comparison| {
        let findings = comparison.page(&BTreeMap::new()).answer.findings;
        let mut waits = findings
            .into_iter()
            .filter(|finding| finding.goal.contains("wakeup latency"));
        waits.next().unwrap()
    };
    let alike = waits(&comparison);
    assert!(alike.best.is_empty());
    assert_eq!(alike.rest.len(), 2);
    let mut latency = |run: usize, p99_ns: u64| {
        let distribution = metrics(&mut comparison, run).wakeup_latency.as_mut();
        let distribution = distribution.unwrap();
        (distribution.p99_ns, distribution.samples) = (p99_ns, 1000);
    };
    for (run, p99_ms) in [10, 11, 12, 30, 31, 32].into_iter().enumerate() {
        latency(run, p99_ms * 1_000_000);
    }
    let apart = waits(&comparison);
    assert_eq!(apart.best[0].scheduler, "o1");
    assert_eq!(apart.best[0].value, "11.0 ms");
    // The mean of 10, 11 and 12 and 4.303 (Student's quantile for two degrees of freedom) standard errors of 1/√3 ms.
    assert_eq!(apart.best[0].interval, "8.52 to 13.5 ms");
    assert_eq!(apart.rest.len(), 1);
    assert!(apart.why.contains("Under cfs"));
    // A timer tick is no difference that matters, and few samples show none.
    let mut few = comparison.clone();
    metrics(&mut few, 5)
        .wakeup_latency
        .as_mut()
        .unwrap()
        .samples = 499;
    assert!(waits(&few).best.is_empty());
    for (run, p99_us) in [20, 21, 22, 3900, 3901, 3902].into_iter().enumerate() {
        let distribution = metrics(&mut comparison, run).wakeup_latency.as_mut();
        distribution.unwrap().p99_ns = p99_us * 1000;
    }
    assert!(waits(&comparison).best.is_empty());
}

#[test]
fn who_failed_has_no_place_in_the_answer() {
    let mut comparison = comparison();
    comparison.runs.truncate(4);
    let best = |comparison: &Comparison| {
        let findings = comparison.page(&BTreeMap::new()).answer.findings;
        let candidates = findings
            .into_iter()
            .flat_map(|finding| finding.best.into_iter().chain(finding.rest));
        candidates.map(|one| one.scheduler).collect::<Vec<_>>()
    };
    assert!(best(&comparison).iter().any(|name| name == "eevdf"));
    fail(
        &mut comparison.runs[2],
        Status::Starved,
        "lost",
        "starved a task after 1 s",
    );
    assert!(best(&comparison).iter().all(|name| name != "eevdf"));
    let page = comparison.page(&BTreeMap::new()).html();
    let told = page
        .find("hogs-five on 4: eevdf starved a task after 1 s")
        .unwrap();
    let section = page.find("<section").unwrap();
    assert!(told < section);
    // The table beside the others says it as well.
    assert!(
        page[section..].contains("starved</small>"),
        "{}",
        &page[section..section + 3000]
    );
}

#[test]
fn names_cannot_break_the_page() {
    let mut comparison = comparison();
    comparison.runs[0].labels.scheduler = "<b>\"&".to_owned();
    metrics(&mut comparison, 0).tasks[0].name = "</svg>".to_owned();
    let comparison = html(&comparison);
    assert!(!comparison.contains("<b>\""));
    assert!(comparison.contains("&lt;b&gt;&quot;&amp;"));
    let page = page().html();
    for page in [&comparison, &page] {
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("<pre").count(), page.matches("</pre>").count());
    }
    assert!(page.contains("href=\"#s-one---two\"") && page.contains("id=\"s-one---two\""));
}

#[test]
fn the_same_page_is_the_same_bytes() {
    assert_eq!(page().html(), page().html());
    assert_eq!(html(&comparison()), html(&comparison()));
}

#[test]
fn verdicts_are_counted_and_listed() {
    let page = page().html();
    assert!(page.contains("<b>1 of 2</b> stated hold"));
    assert!(page.contains("1 not measured"));
    assert!(page.contains("no such program"));
    assert!(page.contains("does not hold"));
}

#[test]
fn every_plot_has_its_data_beside_it() {
    let page = page().html();
    assert_eq!(page.matches("<figure").count(), 5);
    assert_eq!(page.matches("<details class=\"data\"").count(), 5);
    // The first point of both series of all four plots.
    assert_eq!(page.matches("<small>0.5 to 1.75</small>").count(), 8);
    assert!(page.contains("wait,2000000,10000000,&lt;/pre&gt;"));
    assert!(page.contains("0,0,10000000,&quot;a,&quot;&quot;b&quot;&quot;&quot;"));
}

#[test]
fn a_scheduler_has_one_colour_all_over_the_page() {
    let page = page().html();
    // Only cfs is plotted; it comes first, dwrr and o1 are in the answer alone.
    assert!(page.contains("--c:var(--c0)\">cfs"));
    assert!(page.contains("--c:var(--c1)\">dwrr"));
    assert!(page.contains("--c:var(--c2)\">o1"));
    let (_, plots) = page.split_once("<section").unwrap();
    assert!(plots.contains("var(--c0)") && !plots.contains("var(--c1)"));
}

#[test]
fn many_tasks_do_not_swell_the_page() {
    let mut comparison = comparison();
    let run = comparison.runs.pop().unwrap();
    let task = run.metrics.as_ref().unwrap().tasks[0].clone();
    comparison.runs = vec![run];
    metrics(&mut comparison, 0).tasks = (0..20_000)
        .map(|number| {
            let mut task = task.clone();
            task.name = format!("task-{number}");
            task
        })
        .collect();
    let page = html(&comparison);
    assert!(page.contains("The first 600 of 20000 tasks"));
    assert!(page.len() < 1_000_000);
}
