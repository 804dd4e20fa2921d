//! The HTML page.

use crate::explanations::wait;
use crate::sample_page::page;
use crate::small_machine::comparison;
use crate::small_machine::{fail, metrics, recipe};
use expect_test::expect_file;
use fairground_metrics::{Cause, Place};
use fairground_report::page::{Candidate, Finding};
use fairground_report::{Comparison, comparison_page};
use fairground_results::{Evidence, Reason, Status};
use std::collections::BTreeMap;

fn html(comparison: &Comparison) -> String {
    comparison_page(comparison, &BTreeMap::new()).html()
}

#[test]
fn the_page_needs_nothing_else() {
    for page in [html(&comparison()), page().html()] {
        assert!(page.starts_with("<!DOCTYPE html>"));
        for outside in
            ["http:", "https:", "src=", "<link", "@import", "url(http", "url(//", "fetch(", "xlink"]
        {
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
    let answer = &answer[answer.find("<main>").unwrap()..];
    // An element is on a line of its own, so that differences are short.
    expect_file!["printed/answer.html"].assert_eq(&answer.replace("><", ">\n<"));
    assert!(!rest.contains("One run of each"));
    let repeated = Comparison { runs: mixed(comparison).runs, ..Comparison::default() };
    assert!(html(&repeated).contains("3 runs of each, compared in pairs"));
}

#[test]
fn distributions_are_plotted_where_there_are_some() {
    let page = comparison_page(&comparison(), &BTreeMap::new());
    let titles = |section: usize| {
        let titles = page.sections[section].plots.iter().map(|plot| plot.title.as_str());
        titles.filter(|title| title.ends_with("percentiles")).collect::<Vec<_>>()
    };
    // Hogs have no periods.
    assert_eq!(titles(0), ["Wakeup latency, percentiles"]);
    assert_eq!(titles(1), ["Wakeup latency, percentiles", "Response time, percentiles"]);
}

/// Only the runs of the workload that is repeated: three under o1, then three under cfs.
fn mixed(mut comparison: Comparison) -> Comparison {
    comparison.runs.retain(|run| run.labels.workload == "mix-two");
    comparison
}

/// Those runs with these wakeup latencies (99 %) in microseconds, of so many wake-ups.
fn latencies(p99_us: [u64; 6], samples: u64) -> Comparison {
    let mut comparison = mixed(comparison());
    for (run, p99) in p99_us.into_iter().enumerate() {
        let distribution = metrics(&mut comparison, run).wakeup_latency.as_mut().unwrap();
        (distribution.p99_ns, distribution.samples) = (p99 * 1000, samples);
    }
    comparison
}

/// The cell of the matrix in the first row for this question.
fn answered(comparison: &Comparison, question: &str) -> Finding {
    let matrix = comparison_page(comparison, &BTreeMap::new()).answer.matrix;
    let mut questions = matrix.questions.iter();
    let column = questions.position(|one| one.contains(question)).unwrap();
    matrix.rows[0].cells[column].clone().unwrap()
}

fn names(candidates: &[Candidate]) -> Vec<&str> {
    candidates.iter().map(|one| one.scheduler.as_str()).collect()
}

#[test]
fn differences_in_pairs_decide_and_not_means_far_apart() {
    // The seeds differ by far more than the schedulers; from seed to seed cfs is 10 ms behind.
    let wide = [10_000, 110_000, 510_000, 20_000, 120_100, 520_200];
    let paired = answered(&latencies(wide, 1000), "Wakeup latency");
    assert!(paired.rest.is_empty(), "10 ms of 210 ms is less than 10 %");
    assert_eq!(names(&paired.best), ["o1", "cfs"]);
    let wide = [10_000, 30_000, 50_000, 20_000, 40_100, 60_200];
    let paired = answered(&latencies(wide, 1000), "Wakeup latency");
    assert_eq!(names(&paired.best), ["o1"]);
    assert_eq!(names(&paired.rest), ["cfs"]);
    assert_eq!(paired.rest[0].difference, "+10.1 ms");
    // The mean of 10, 10.1 and 10.2 and 4.303 (Student's quantile for two degrees of freedom) standard errors of 0.1/√3 ms.
    assert_eq!(paired.rest[0].interval, "+9.85 to +10.3 ms");
}

#[test]
fn a_difference_within_the_margin_is_none() {
    // A timer tick of 4 ms.
    let alike = latencies([4001, 4002, 4003, 7900, 7901, 7902], 1000);
    let cell = answered(&alike, "Wakeup latency");
    assert!(cell.is_same());
    assert_eq!(names(&cell.best), ["o1", "cfs"]);
    let page = html(&alike);
    assert!(page.contains("no difference that matters"));
}

#[test]
fn from_unsteady_differences_or_few_samples_nothing_follows() {
    let unsteady = [10_000, 20_000, 30_000, 12_000, 62_000, 22_000];
    let cell = answered(&latencies(unsteady, 1000), "Wakeup latency");
    assert!(cell.rest.is_empty() && !cell.is_same());
    assert_eq!(names(&cell.undecided).len(), 1);
    assert!(cell.open.ends_with("runs would tell"), "{}", cell.open);
    let apart = [10_000, 11_000, 12_000, 30_000, 31_000, 32_000];
    assert!(!answered(&latencies(apart, 167), "Wakeup latency").rest.is_empty());
    let few = answered(&latencies(apart, 166), "Wakeup latency");
    assert!(few.rest.is_empty());
    assert_eq!(few.open, "too few samples");
}

#[test]
fn the_last_is_explained_by_the_wait_that_decided() {
    let apart = latencies([10_000, 11_000, 12_000, 30_000, 31_000, 32_000], 1000);
    let labels = &apart.runs[0].labels;
    let place = Place::Queue { id: 7 };
    let reason = Reason { measure: "wakeup_p99", wait: wait(place, Cause::Lay { place }), seed: 4 };
    let found = Evidence { reasons: vec![reason], ..Evidence::default() };
    let key = (labels.workload.clone(), labels.machine.clone());
    let page = comparison_page(&apart, &BTreeMap::from([(key, found)]));
    let told = page.answer.matrix.findings().flat_map(|one| &one.why);
    let told: Vec<&String> = told.filter(|why| why.contains("late waits")).collect();
    let sentence = "Under cfs, with seed 4, late waits for 5.00\u{a0}ms from 1.00\u{a0}us on: lay in the DSQ 7 for 5.00 ms, from which CPU 1 took 2 other tasks; \
                    CPU 1, which it may use, was idle for 3.00 ms.";
    assert_eq!(told, [sentence]);
    assert!(page.html().contains("<div class=\"why\">Under cfs, with seed 4, late waits"));
}

#[test]
fn cells_have_more_colour_the_farther_the_last_is_behind() {
    let class = |p99_us| {
        let cell = answered(&latencies(p99_us, 1000), "Wakeup latency");
        (cell.margins, cell.class())
    };
    // A tick of 4 ms is more than 10 % of 10 ms.
    assert_eq!(class([10_000, 10_000, 10_000, 18_000, 18_000, 18_000]), (2.0, Some("near")));
    assert_eq!(class([10_000, 10_000, 10_000, 30_000, 30_000, 30_000]), (5.0, Some("far")));
    assert_eq!(class([10_000, 10_000, 10_000, 90_000, 90_000, 90_000]), (20.0, Some("farthest")));
    assert_eq!(class([10_000, 10_000, 10_000, 12_000, 12_000, 12_000]), (0.0, None));
}

#[test]
fn the_sentence_counts_what_the_matrix_holds() {
    let apart = [10_000, 11_000, 12_000, 30_000, 31_000, 32_000];
    let answer = comparison_page(&latencies(apart, 1000), &BTreeMap::new()).answer;
    let worse = |name: &str| {
        let rest = answer.matrix.findings().filter(|one| names(&one.rest).contains(&name));
        rest.count()
    };
    let all = answer.matrix.findings().count();
    let same = answer.matrix.findings().filter(|one| one.is_same()).count();
    let counted = format!("Of {all} answers {same} are no difference that matters");
    assert!(answer.summary[0].contains(&counted), "{:?}", answer.summary);
    assert_eq!((worse("cfs"), worse("o1")), (1, 4));
    let said = "cfs is once worse than the best by a margin that matters";
    assert!(answer.summary[0].starts_with(said), "{:?}", answer.summary);
    assert!(answer.summary[0].contains("the others are: o1 4."));
}

#[test]
fn of_one_run_nothing_is_said_but_that_it_decides_nothing() {
    let mut one = mixed(comparison());
    one.runs.retain(|run| run.labels.seed == Some(0));
    let answer = comparison_page(&one, &BTreeMap::new()).answer;
    assert!(answer.matrix.findings().all(|one| one.rest.is_empty()));
    assert!(answer.matrix.findings().any(|one| one.open == "one run"));
    assert!(!answer.summary[0].contains("worse"), "{:?}", answer.summary);
}

#[test]
fn one_workload_on_two_machines_has_two_rows_with_places_of_their_own() {
    let mut both = mixed(comparison());
    let mut other = both.clone();
    for run in &mut other.runs {
        recipe(run).machine = "8".to_owned();
    }
    both.runs.append(&mut other.runs);
    let page = comparison_page(&both, &BTreeMap::new());
    let ids: Vec<&str> = page.sections.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["mix-two on 2", "mix-two on 8"]);
    assert!(page.answer.matrix.rows.iter().map(|row| row.section.as_str()).eq(ids));
}

#[test]
fn who_failed_is_named_and_never_best() {
    let mut comparison = comparison();
    comparison.runs.truncate(4);
    let answer = |comparison: &Comparison| comparison_page(comparison, &BTreeMap::new()).answer;
    let ranked = |comparison: &Comparison| {
        let answer = answer(comparison);
        let candidates = answer.matrix.findings().flat_map(|one| {
            let decided = one.best.iter().chain(&one.rest);
            decided.chain(&one.undecided).map(|one| one.scheduler.clone())
        });
        candidates.collect::<Vec<_>>()
    };
    assert!(ranked(&comparison).iter().any(|name| name == "eevdf"));
    fail(&mut comparison.runs[2], Status::Starved, "lost", "starved a task after 1 s");
    assert!(ranked(&comparison).iter().all(|name| name != "eevdf"));
    let answer = answer(&comparison);
    assert_eq!(answer.matrix.rows[0].failed, [("eevdf".to_owned(), "starved".to_owned())]);
    assert_eq!(answer.failed, ["eevdf has no place in the answer: starved."]);
    let page = comparison_page(&comparison, &BTreeMap::new()).html();
    let told = page.find("hogs-five on 4: eevdf starved a task after 1 s").unwrap();
    let section = page.find("<section").unwrap();
    assert!(told < section);
    // The table beside the others says it as well.
    assert!(page[section..].contains("starved</small>"));
}

#[test]
fn no_interval_leaves_what_is_possible() {
    let mut comparison = mixed(comparison());
    for (run, ratio) in [0.9, 0.95, 1.0].into_iter().enumerate() {
        let throughput = metrics(&mut comparison, run).throughput.as_mut();
        throughput.unwrap().ratio = ratio;
    }
    let page = comparison_page(&comparison, &BTreeMap::new());
    let detail = &page.sections[0].tables[0].rows[0][1].detail;
    assert!(detail.contains("to 100.0"), "{detail}");
}

#[test]
fn timelines_of_the_same_time_have_the_same_scale() {
    let mut page = page();
    let mut short = page.sections[0].moments[0].clone();
    short.timeline.to_ns = 1_008_000_000;
    page.sections[0].moments.push(short);
    let page = page.html();
    assert_eq!(page.matches("&quot;span_ns&quot;:10000000").count(), 2);
    assert_eq!(page.matches("Nothing is drawn after 8.00 ms").count(), 1);
}

#[test]
fn names_cannot_break_the_page() {
    let mut comparison = comparison();
    recipe(&mut comparison.runs[0]).scheduler = "<b>\"&".to_owned();
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
    assert_eq!(page.matches("<figure").count(), 4);
    assert_eq!(page.matches("<details class=\"data\"").count(), 4);
    // The first point of both series of all three plots.
    assert_eq!(page.matches("<small>0.5 to 1.75</small>").count(), 6);
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
fn schedulers_of_folded_plots_have_colours_too() {
    let mut page = page();
    for section in &mut page.sections {
        section.folded = std::mem::take(&mut section.plots);
        for plot in &mut section.folded {
            let mut series = plot.series[0].clone();
            series.scheduler = "linux12".to_owned();
            plot.series.push(series);
        }
    }
    let page = page.html();
    let (_, plots) = page.split_once("More figures").unwrap();
    assert!(plots.contains("var(--c0)") && plots.contains("var(--c1)"));
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
