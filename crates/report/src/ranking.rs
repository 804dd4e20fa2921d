//! Rankings of schedulers over many loads, in all forms.

use fairground_results::format::ABSENT;
use fairground_results::{Absent, Dominated, Measure, NOTABLE, Noted, Ranked, Ranking};
use schemars::JsonSchema;
use serde::Serialize;

use crate::csv_of;
use crate::groups::told_one_run;
use crate::json::Document;
use crate::page::{Page, Section, Table};
use crate::table::{WIDTH, layout, pipes};
use crate::text::wrap;
use crate::{Comparison, comparison_page};

/// The ranking of a set of loads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TitledRanking {
    /// The set: `loads`, or `held-out loads`, on which nobody should have tried a scheduler before it was finished.
    pub title: String,
    /// The ranking.
    pub ranking: Ranking,
}

/// A block of a ranking: a paragraph, or a table with its heads and the number of columns of words.
enum Block {
    Text(String),
    Table(Vec<Vec<String>>, usize),
}

/// The rankings for a terminal.
pub fn rankings_text(rankings: &[TitledRanking]) -> String {
    let block = |block: Block| match block {
        Block::Text(text) => text.lines().map(|line| wrap(line, WIDTH, 0)).collect(),
        Block::Table(rows, words) => layout(&rows, words),
    };
    rankings.iter().flat_map(blocks).map(block).collect::<Vec<_>>().join("\n")
}

/// The same as Markdown.
pub fn rankings_markdown(rankings: &[TitledRanking]) -> String {
    let block = |block: Block| match block {
        Block::Text(text) => text.replace('\n', "  \n") + "\n",
        Block::Table(rows, _) => pipes(&rows),
    };
    rankings.iter().flat_map(blocks).map(block).collect::<Vec<_>>().join("\n")
}

/// The document that `fairground rank --format json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Ranking of schedulers over many loads")]
pub(crate) struct RankingDocument<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'a str,
    /// The rankings: of all loads, then of those that are held out, if there are any.
    rankings: &'a [TitledRanking],
}

impl Document for RankingDocument<'_> {
    const COMMAND: &'static str = "rank";
    const VERSION: u32 = 1;
}

/// The same as JSON; `fairground` is its version.
pub fn rankings_json(rankings: &[TitledRanking], fairground: &str) -> String {
    RankingDocument { version: RankingDocument::VERSION, fairground, rankings }.text()
}

/// A scheduler in a set of loads.
#[derive(Serialize)]
struct Line<'a> {
    set: &'a str,
    scheduler: &'a str,
    times: Option<f64>,
    questions: usize,
    at_best: usize,
    undecided: usize,
    dominated: usize,
    cells: usize,
    failed: usize,
}

/// A line for each scheduler in each set.
pub fn rankings_csv(rankings: &[TitledRanking]) -> String {
    csv_of(rankings.iter().flat_map(|set| {
        set.ranking.places.iter().map(|one| Line {
            set: &set.title,
            scheduler: &one.scheduler,
            times: one.times,
            questions: one.questions,
            at_best: one.at_best,
            undecided: one.undecided,
            dominated: one.dominated.len(),
            cells: set.ranking.cells_of(one),
            failed: one.failed.values().sum(),
        })
    }))
}

/// The rankings as a page: they come first, then the comparison behind them.
pub fn rankings_page(rankings: &[TitledRanking], comparison: &Comparison) -> Page {
    let mut page = comparison_page(comparison, &std::collections::BTreeMap::new());
    let sections = rankings.iter().enumerate().map(|(number, one)| {
        let mut section = Section {
            id: format!("ranking-{number}"),
            title: format!("Ranking: {}", one.title),
            ..Section::default()
        };
        for block in blocks(one) {
            match block {
                Block::Text(text) => section.notes.extend(text.lines().map(str::to_owned)),
                Block::Table(rows, words) => section.tables.push(Table::plain(rows, words)),
            }
        }
        section
    });
    page.sections.splice(0..0, sections.collect::<Vec<_>>());
    page
}

/// What a ranking says: failures, the places, who beats whom at no price, and each measure.
fn blocks(one: &TitledRanking) -> Vec<Block> {
    let ranking = &one.ranking;
    let mut blocks = vec![Block::Text(title(one))];
    if !ranking.absent.is_empty() {
        let told: Vec<String> = ranking.absent.iter().map(absence).collect();
        blocks.push(Block::Text(told.join("\n")));
    }
    let failed: Vec<String> =
        ranking.places.iter().filter_map(|place| failure(place, ranking.cells)).collect();
    if !failed.is_empty() {
        blocks.push(Block::Text(failed.join("\n")));
    }
    blocks.push(Block::Table(places(ranking), 1));
    let free: Vec<&str> = ranking.undominated().collect();
    let mut remarks = vec![match free.as_slice() {
        [] => "Each is beaten at no price somewhere, or failed.".to_owned(),
        free => format!("Beaten at no price nowhere: {}.", free.join(", ")),
    }];
    remarks.push(format!(
        "A cell is a workload on a machine, a question a measure of a cell. Times the best: geometric mean over the questions of how many times worse a scheduler is than the best, 1 where it is not known to be worse. \
         Beaten at no price: another one is more than {NOTABLE} times better in a measure of the cell, and in none that much worse."
    ));
    if let Some(noise) = &ranking.noise {
        remarks.push(format!("Runs of a scheduler differ by noise {noise}."));
    }
    if !ranking.margins.is_empty() {
        remarks.push(format!("With margins of your own: {}.", ranking.margins.join(", ")));
    }
    if ranking.single_runs {
        remarks
            .push("One run of each: differences may be chance. --repeat 5 tells which are.".into());
    }
    remarks.extend(told_one_run(ranking.one_run, ranking.cells));
    blocks.push(Block::Text(remarks.join("\n")));
    let beaten: Vec<Vec<String>> = ranking.places.iter().flat_map(beaten).collect();
    if !beaten.is_empty() {
        let heads = ["beaten", "in", "by", "measure", "times better"].map(str::to_owned).to_vec();
        blocks.push(Block::Table([vec![heads], beaten].concat(), 4));
    }
    if ranking.questions > 0 {
        blocks.push(Block::Table(by_measure(ranking), 1));
    }
    let notes: Vec<String> = ranking.notes.iter().map(note).collect();
    if !notes.is_empty() {
        blocks.push(Block::Text(notes.join("\n")));
    }
    blocks
}

fn title(one: &TitledRanking) -> String {
    let Ranking { cells, questions, alike, .. } = &one.ranking;
    let some =
        |count: &usize, what: &str| format!("{count} {what}{}", if *count == 1 { "" } else { "s" });
    format!(
        "{}: {}, {}; in {alike} more none is known to be worse",
        one.title,
        some(cells, "cell"),
        some(questions, "question")
    )
}

/// How often and how a scheduler failed; `None` if it never did.
fn failure(place: &Ranked, cells: usize) -> Option<String> {
    let first = place.first_failed.as_ref()?;
    let ways = place.failed.iter().map(|(status, count)| format!("{status} in {count}"));
    Some(format!(
        "{}: {} of {cells} cells, which do not count for it; first {} on {}",
        place.scheduler,
        ways.collect::<Vec<_>>().join(", "),
        first.workload,
        first.machine
    ))
}

/// That a scheduler lacks cells.
pub fn absence(one: &Absent) -> String {
    let Absent { scheduler, cells, first } = one;
    let left = if *cells == 1 { "cell, which is" } else { "cells, which are" };
    format!(
        "{scheduler} has no run in {cells} {left} left out; first {} on {}",
        first.workload, first.machine
    )
}

fn note(one: &Noted) -> String {
    match one.loads {
        1 => format!("Note: {}", one.note),
        loads => format!("Note on {loads} loads: {}", one.note),
    }
}

fn title_of(id: &str) -> String {
    Measure::find(id).map_or_else(|| id.to_owned(), |measure| measure.title().to_owned())
}

fn times(times: Option<f64>) -> String {
    times.map_or(ABSENT.to_owned(), |times| format!("{times:.2}"))
}

fn places(ranking: &Ranking) -> Vec<Vec<String>> {
    let heads =
        ["scheduler", "times the best", "at the best", "beaten at no price in", "undecided"];
    let row = |one: &Ranked| {
        let part = match one.questions {
            0 => ABSENT.to_owned(),
            all => format!("{:.0} %", 100.0 * one.at_best as f64 / all as f64),
        };
        vec![
            one.scheduler.clone(),
            times(one.times),
            part,
            match ranking.cells_of(one) {
                0 => ABSENT.to_owned(),
                cells => format!("{} of {cells}", one.dominated.len()),
            },
            one.undecided.to_string(),
        ]
    };
    let rows = ranking.places.iter().map(row);
    [heads.map(str::to_owned).to_vec()].into_iter().chain(rows).collect()
}

fn beaten(place: &Ranked) -> Vec<Vec<String>> {
    let row = |one: &Dominated| {
        vec![
            place.scheduler.clone(),
            format!("{} on {}", one.cell.workload, one.cell.machine),
            one.by.clone(),
            title_of(one.measure),
            format!("{:.1}", one.times),
        ]
    };
    place.dominated.iter().map(row).collect()
}

/// A row for each measure, a column for each scheduler.
fn by_measure(ranking: &Ranking) -> Vec<Vec<String>> {
    let names = ranking.places.iter().map(|one| one.scheduler.clone());
    let heads = ["times the best".to_owned()].into_iter().chain(names).collect();
    let row = |(number, id): (usize, &&str)| {
        let name = title_of(id);
        let numbers = ranking.places.iter().map(|one| times(one.by_measure[number]));
        [name].into_iter().chain(numbers).collect()
    };
    let rows = ranking.measures.iter().enumerate().map(row);
    [heads].into_iter().chain(rows).collect()
}
