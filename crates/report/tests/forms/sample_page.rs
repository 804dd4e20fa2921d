//! A page with everything that a page can have.

use fairground_metrics::{Slice, Timeline, Wait};
use fairground_report::page::{
    Answer, Axis, Candidate, Cell, Finding, Mark, Matrix, MatrixRow, Moment, Page, Plot, PlotKind,
    Point, Scale, Section, Series, Table,
};
use fairground_results::{Claim, Level, Verdict};

/// Hog b waits while hog a runs.
fn moment() -> Moment {
    Moment {
        title: "The longest wait".to_owned(),
        text: String::new(),
        timeline: Timeline {
            from_ns: 1_000_000_000,
            to_ns: 1_010_000_000,
            cpus: vec![0],
            tasks: vec!["a,\"b\"".to_owned(), "</pre>".to_owned()],
            slices: vec![Slice { cpu: 0, task: 0, from_ns: 1_000_000_000, to_ns: 1_010_000_000 }],
            waits: vec![Wait { task: 1, from_ns: 1_002_000_000, to_ns: 1_010_000_000 }],
        },
        focus: Some("</pre>".to_owned()),
        marks: vec![Mark {
            task: Some("</pre>".to_owned()),
            from_ns: 1_002_000_000,
            to_ns: 1_020_000_000,
        }],
    }
}

/// A plot of each kind.
fn plots() -> Vec<Plot> {
    let series = |name: &str, printed: bool| Series {
        name: name.to_owned(),
        scheduler: "cfs".to_owned(),
        printed,
        points: (0..3)
            .map(|number| Point {
                x: f64::from(number),
                y: f64::from(number + 1),
                low: f64::from(number) + 0.5,
                high: f64::from(number) + 1.75,
            })
            .collect(),
    };
    [PlotKind::Lines, PlotKind::Histogram, PlotKind::Dots]
        .into_iter()
        .map(|kind| Plot {
            title: format!("{kind:?}"),
            text: String::new(),
            kind,
            x: Axis::default(),
            y: Axis::default(),
            categories: match kind {
                PlotKind::Dots => ["p", "q", "r"].map(str::to_owned).into(),
                _ => Vec::new(),
            },
            series: vec![series("cfs", false), series("cfs (document)", true)],
        })
        .collect()
}

fn verdict(id: &str, holds: Claim) -> Verdict {
    Verdict {
        id: id.to_owned(),
        level: Level::S,
        claim: format!("claim {id}"),
        holds,
        shows: "1 < 2".to_owned(),
        reason: None,
        cause: None,
        on_kernel: None,
    }
}

/// A page with everything that a page can have.
pub fn page() -> Page {
    let candidate = |scheduler: &str| Candidate {
        scheduler: scheduler.to_owned(),
        value: "1.00 ms".to_owned(),
        difference: "+1.00 ms".to_owned(),
        interval: "+0.9 to +1.1 ms".to_owned(),
    };
    let finding = Finding {
        goal: "speed".to_owned(),
        best: vec![candidate("cfs"), candidate("dwrr")],
        rest: vec![candidate("o1")],
        why: vec!["Because.".to_owned()],
        ..Finding::default()
    };
    let scale = Scale::over([0.0, 2.0].into_iter(), 0.1).expect("there are numbers");
    Page {
        title: "Title".to_owned(),
        schedulers: Vec::new(),
        answer: Answer {
            summary: vec!["In short.".to_owned()],
            certainty: "Sure.".to_owned(),
            matrix: Matrix {
                questions: vec!["speed".to_owned()],
                rows: vec![MatrixRow {
                    load: "load".to_owned(),
                    section: "one & two".to_owned(),
                    cells: vec![Some(finding)],
                    ..MatrixRow::default()
                }],
            },
            ..Answer::default()
        },
        version: "1.2.3 (abc)".to_owned(),
        origins: None,
        sections: vec![Section {
            id: "one & two".to_owned(),
            title: "One & two".to_owned(),
            verdicts: vec![
                verdict("A1", Claim::Holds),
                verdict("A2", Claim::Fails),
                verdict("A3", Claim::NotMeasured("no such program".to_owned())),
            ],
            tables: vec![Table {
                caption: "Caption".to_owned(),
                heads: vec!["scheduler".to_owned(), "number".to_owned()],
                rows: vec![vec![
                    Cell::plain("cfs"),
                    Cell {
                        text: "1".to_owned(),
                        detail: "document 2".to_owned(),
                        strip: Some(scale.strip(1.0, (0.5, 1.5), Some(2.0))),
                    },
                ]],
                words: 1,
            }],
            plots: plots(),
            moments: vec![moment()],
            ..Section::default()
        }],
    }
}
