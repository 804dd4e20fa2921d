//! Reproductions as a page.

use expect_test::expect_file;
use fairground_report::page::PlotKind;
use fairground_report::{reproductions_markdown, reproductions_page, reproductions_table};
use fairground_results::{
    Claim, Figure, Fit, Headline, Interval, Level, OnKernel, PrintedTable, Reproduction, Verdict,
    Where,
};
use std::collections::BTreeMap;

fn figure(points: usize, document: bool) -> Figure {
    let number = |point: usize, column: usize| (point + 1) as f64 * (column + 1) as f64;
    let table = |of: &dyn Fn(usize, usize) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        (0..points).map(|point| (0..2).map(|column| of(point, column)).collect()).collect()
    };
    let here = table(&|point, column| Some(number(point, column)));
    Figure {
        measure: "time".to_owned(),
        label: "Table 1".to_owned(),
        title: "Execution time".to_owned(),
        unit: "s".to_owned(),
        decimals: 2,
        here: here
            .into_iter()
            .map(|row| {
                let spread = |mean: f64| Interval::of(&[mean - 0.1, mean + 0.1].repeat(10));
                row.into_iter().map(|mean| spread(mean?)).collect()
            })
            .collect(),
        document: table(&|point, column| document.then(|| number(point, column) * 1.5)),
    }
}

/// The kernel's verdict on the only line.
fn on_kernel(reproduction: &mut Reproduction, holds: Claim) {
    reproduction.kernel = Some("two CPUs, 3 runs".to_owned());
    reproduction.verdicts[0].on_kernel = Some(OnKernel { holds, shows: "1.50 > 1.40".to_owned() });
}

#[test]
fn a_kernels_verdict_stands_beside_the_simulators_and_first_if_it_contradicts_that() {
    let mut agrees = reproduction("agrees", &[""], Claim::Holds);
    on_kernel(&mut agrees, Claim::Holds);
    let mut differs = reproduction("differs", &[""], Claim::Holds);
    on_kernel(&mut differs, Claim::Fails);
    let mut open = reproduction("open", &[""], Claim::Holds);
    on_kernel(&mut open, Claim::NotShown(3));
    let place = |text: &str, part: &str| {
        text.find(part).unwrap_or_else(|| panic!("{part:?} is missing in\n{text}"))
    };
    for (one, first) in [(&agrees, false), (&differs, true), (&open, false)] {
        let text = reproductions_table(&[one], true);
        let (kernel, simulator) = (place(&text, "1.50 > 1.40"), place(&text, "2.00 > 1.00"));
        assert_eq!(kernel < simulator, first, "{text}");
    }
    let all = [&agrees, &differs, &open];
    let text = reproductions_markdown(&all, &[]);
    assert!(
        text.ends_with(
            "3 of the lines were also judged by runs on a real kernel, which contradict the simulator in A1 of differs.\n"
        ),
        "{text}"
    );
}

fn reproduction(id: &str, points: &[&str], holds: Claim) -> Reproduction {
    Reproduction {
        id: id.to_owned(),
        title: format!("Experiment {id}"),
        document: "A document".to_owned(),
        section: "its table 1".to_owned(),
        kind: fairground_results::Subject::Results,
        world: Where::Simulator,
        machine: "four CPUs at 1 GHz".to_owned(),
        repeats: 20,
        columns: vec!["cfs".to_owned(), "dwrr".to_owned()],
        points: points.iter().map(|point| (*point).to_owned()).collect(),
        axis: "threads".to_owned(),
        figures: vec![figure(points.len(), true)],
        verdicts: vec![Verdict {
            id: "A1".to_owned(),
            level: Level::S,
            claim: "dwrr takes longer".to_owned(),
            holds,
            shows: "2.00 > 1.00".to_owned(),
            reason: None,
            cause: None,
            on_kernel: None,
        }],
        headline: Some(Headline {
            says: "dwrr takes longer".to_owned(),
            document: "1.5, 3".to_owned(),
            here: "1.0 | 2.0".to_owned(),
            lines: vec!["A1".to_owned()],
        }),
        fits: vec![Fit {
            name: "switch".to_owned(),
            value: 3.5,
            unit: "us".to_owned(),
            to: "cfs at 1 thread".to_owned(),
        }],
        printed: vec![PrintedTable {
            name: "Table 1".to_owned(),
            heads: vec!["threads".to_owned(), "cfs".to_owned()],
            rows: vec![vec!["1".to_owned(), "1.50".to_owned()]],
        }],
        notes: vec!["A note.".to_owned()],
        kernel: None,
    }
}

fn page_of(reproductions: &[Reproduction]) -> fairground_report::page::Page {
    let list: Vec<&Reproduction> = reproductions.iter().collect();
    reproductions_page(&list, &BTreeMap::new(), &BTreeMap::new())
}

#[test]
fn a_document_has_one_table_at_the_top_whatever_the_order_of_its_experiments() {
    let mut all = ["one", "two", "three"].map(|id| reproduction(id, &["1"], Claim::Holds));
    for (one, document) in all.iter_mut().zip(["First", "Second", "First"]) {
        document.clone_into(&mut one.document);
    }
    all[1].world = Where::Kernel;
    let html = page_of(&all).html();
    let (top, _) = html.split_once("<section").unwrap();
    for document in ["First", "Second"] {
        assert_eq!(top.matches(&format!("<h3>{document}</h3>")).count(), 1);
    }
    let world = format!("On a real kernel ran: {}; all others in the simulator.", all[1].title);
    assert!(top.contains(&world), "{top}");
}

#[test]
fn the_documents_numbers_stand_beside_ours() {
    let page = page_of(&[reproduction("one", &["make", "tar", "dbench"], Claim::Holds)]);
    let cell = &page.sections[0].tables[0].rows[1][2];
    assert_eq!(cell.text, "4.00");
    assert!(cell.detail.ends_with("\ndocument 6.00"), "{}", cell.detail);
    let html = page.html();
    for text in ["Fitted values", "3.5 us", "The document prints: Table 1", "A note."] {
        assert!(html.contains(text), "{text}");
    }
}

/// The part of a page that is visible before a click.
fn open_part(html: &str) -> String {
    let mut open = String::new();
    let mut depth = 0;
    for (number, part) in html.split('<').enumerate() {
        if part.starts_with("details") {
            depth += 1;
        }
        if depth == 0 && number > 0 {
            open.push('<');
            open.push_str(part);
        }
        if part.starts_with("/details") {
            depth -= 1;
            open.push_str(part.split_once('>').expect("a tag ends").1);
        }
    }
    open
}

#[test]
fn only_answers_figures_and_what_follows_from_the_document_are_open() {
    let mut one = reproduction("one", &["1", "2", "4"], Claim::Holds);
    one.verdicts[0].shows = "1: 0.51\n2: 0.52".to_owned();
    one.verdicts.push(Verdict {
        level: Level::X,
        claim: "an expected claim".to_owned(),
        ..one.verdicts[0].clone()
    });
    let mut other = figure(3, false);
    other.title = "A secondary measure".to_owned();
    other.label.clear();
    one.figures.push(other);
    let html = page_of(&[one.clone()]).html();
    let open = open_part(&html);
    for text in ["Experiment one", "dwrr takes longer", "Table 1: Execution time"] {
        assert!(open.contains(text), "{text} is not open");
    }
    for text in [
        "0.52",
        "an expected claim",
        "A secondary measure",
        "cfs at 1 thread",
        "The document prints: Table 1",
        "A note.",
    ] {
        assert!(html.contains(text), "{text} is missing");
        assert!(!open.contains(text), "{text} is open");
    }
    // A curve is drawn, and names are listed: each figure is open once.
    let mut forms = |points: &[&str]| {
        one.points = points.iter().map(|point| (*point).to_owned()).collect();
        let section = &page_of(&[one.clone()]).sections[0];
        (section.plots.len(), section.tables.len())
    };
    assert_eq!(forms(&["1", "2", "4"]), (1, 0));
    assert_eq!(forms(&["make", "tar", "dbench"]), (0, 1));
}

#[test]
fn a_number_of_fewer_runs_says_so() {
    let mut one = reproduction("one", &["1", "2"], Claim::Holds);
    assert!(
        reproductions_markdown(&[&one], &[])
            .starts_with("From 20 runs of each scheduler at each point: ")
    );
    assert!(!page_of(std::slice::from_ref(&one)).answer.certainty.contains("(fewer"));
    one.figures[0].here[1][1] = Interval::of(&[4.0]);
    let markdown = reproductions_markdown(&[&one], &[]);
    let start = "From 20 runs of each scheduler at each point, fewer of some: ";
    assert!(markdown.starts_with(start), "{markdown}");
    let page = page_of(&[one]);
    assert!(page.answer.certainty.contains("(fewer where the table says so)"));
    let rows = &page.sections[0].tables[0].rows;
    assert_eq!(rows[1][2].detail, "1 run\ndocument 6.00");
    assert!(!rows[1][1].detail.contains("run"), "{}", rows[1][1].detail);
}

#[test]
fn numbers_are_joined_by_lines_and_names_are_rows() {
    let kind = |points: &[&str]| {
        let page = page_of(&[reproduction("one", points, Claim::Holds)]);
        let section = &page.sections[0];
        let plot = section.plots.first().unwrap_or_else(|| &section.folded[0]);
        (plot.kind, plot.categories.len(), plot.series.len())
    };
    assert_eq!(kind(&["1", "2", "4"]), (PlotKind::Lines, 3, 4));
    assert_eq!(kind(&["make", "tar", "dbench"]), (PlotKind::Dots, 3, 4));
    assert_eq!(kind(&[""]), (PlotKind::Dots, 0, 4));
}

#[test]
fn the_answer_names_what_was_not_reproduced() {
    let open = Claim::NotMeasured("no such program".to_owned());
    let page = page_of(&[
        reproduction("one", &[""], Claim::Holds),
        reproduction("two", &[""], Claim::Fails),
        reproduction("three", &[""], open),
    ]);
    assert_eq!(
        page.answer.summary,
        [
            "Of 0 rules and mechanisms that the documents state, 0 hold; of 3 results that they report from machines, 1 hold; of 0 lines that follow from their numbers, 0; of 0 that the algorithms let expect, 0.",
            "What the documents state holds in 1 of 2 experiments. It does not in: Experiment two."
        ]
    );
    assert!(page.answer.certainty.contains("20 runs"));
}

#[test]
fn markdown_has_a_table_for_each_document_and_counts_what_holds() {
    let mut other = reproduction("three", &[""], Claim::NotShown(20));
    other.document = "Another".to_owned();
    other.verdicts[0].level = Level::S;
    let mut failed = reproduction("two", &[""], Claim::Fails);
    failed.kind = fairground_results::Subject::Rules;
    failed.verdicts[0].cause = Some("clock of the board".to_owned());
    let mut forced = reproduction("four", &[""], Claim::Holds);
    forced.verdicts[0].level = Level::C;
    let all = [reproduction("one", &[""], Claim::Holds), failed, other, forced];
    let list: Vec<&Reproduction> = all.iter().collect();
    let text = reproductions_markdown(&list, &["one".to_owned()]);
    expect_file!["printed/reproductions.md"].assert_eq(&text);
    expect_file!["printed/reproductions.txt"].assert_eq(&reproductions_table(&list, true));
}
