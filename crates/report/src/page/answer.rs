//! The first screen: which scheduler, for which load, and why.

use super::colours::Colours;
use super::{Section, anchor};
use maud::{Markup, html};

/// The facts for a reader who reads nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Which schedulers have no place in the answer, one sentence each.
    pub failed: Vec<String>,
    /// A few sentences with the answer.
    pub summary: Vec<String>,
    /// The answer to each question under each load.
    pub matrix: Matrix,
    /// How certain it is: how many runs, and how large a difference counts.
    pub certainty: String,
    /// Failures, one sentence each.
    pub failures: Vec<String>,
}

/// Loads and machines by questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// The users' aims: throughput, short waits, ...
    pub questions: Vec<String>,
    /// The loads.
    pub rows: Vec<MatrixRow>,
}

/// A load on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatrixRow {
    /// The load, in words.
    pub load: String,
    /// The machine, in words.
    pub machine: String,
    /// Id of the [`Section`] that shows it.
    pub section: String,
    /// The schedulers that failed or starved a task, and how they ended.
    pub failed: Vec<(String, String)>,
    /// An answer for each question, if it arises and at least two schedulers can be compared.
    pub cells: Vec<Option<Finding>>,
}

/// The best scheduler for one goal under one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The user's aim.
    pub goal: String,
    /// The best, followed by those that do not differ from it by a margin that matters.
    pub best: Vec<Candidate>,
    /// Those that are worse by a margin that matters, from better to worse.
    pub rest: Vec<Candidate>,
    /// How far the last of these is from the best, in differences that matter; 0 if there are none.
    pub margins: f64,
    /// Those of which neither is certain.
    pub undecided: Vec<Candidate>,
    /// The number of runs that would decide these.
    pub open: String,
    /// The sources of the difference: in numbers, and why according to the events. One sentence each.
    pub why: Vec<String>,
}

/// A scheduler and its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Name of the scheduler.
    pub scheduler: String,
    /// The number that decides, with its unit.
    pub value: String,
    /// How far it is from the best; empty for the best.
    pub difference: String,
    /// The 95 % interval of this difference; empty if there is none.
    pub interval: String,
}

impl Matrix {
    /// All answers.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten())
    }
}

impl Finding {
    /// Whether no scheduler differs from the best by a margin that matters.
    pub fn is_same(&self) -> bool {
        self.rest.is_empty() && self.undecided.is_empty()
    }

    /// The class of its cell: the farther the last scheduler is from the best, the more colour.
    pub fn class(&self) -> Option<&'static str> {
        FAR.iter().rev().find(|(least, _)| self.margins > *least).map(|(_, class)| *class)
    }
}

/// From how many differences that matter on a cell has which class.
const FAR: [(f64, &str); 3] = [(0.0, "near"), (4.0, "far"), (16.0, "farthest")];

pub(super) fn markup(answer: &Answer, sections: &[Section], colours: &Colours) -> Markup {
    html! {
        @for sentence in &answer.failed { p.summary.bad { (sentence) } }
        @for sentence in &answer.summary { p.summary { (sentence) } }
        @if !answer.matrix.rows.is_empty() { (matrix(&answer.matrix, sections, colours)) }
        @if !answer.certainty.is_empty() { p.faint { (answer.certainty) } }
        @if !answer.failures.is_empty() {
            ul.failures {
                @for sentence in &answer.failures { li { (sentence) } }
            }
        }
    }
}

fn matrix(matrix: &Matrix, sections: &[Section], colours: &Colours) -> Markup {
    html! {
        div.scroll {
            table.matrix {
                thead {
                    tr {
                        th { "Workload" }
                        @for question in &matrix.questions { th { (question) } }
                    }
                }
                tbody {
                    @for row in &matrix.rows {
                        tr {
                            th {
                                (link(row, sections))
                                @if !row.machine.is_empty() { small { "machine " (row.machine) } }
                                @for (scheduler, status) in &row.failed {
                                    div.bad { (colours.chip(scheduler)) " " (status) }
                                }
                            }
                            @for cell in &row.cells {
                                td class=[cell.as_ref().and_then(Finding::class)] { (short(cell.as_ref(), colours)) }
                            }
                        }
                    }
                }
            }
        }
        @if matrix.findings().any(|one| one.class().is_some()) {
            p.faint {
                "Colour: the last is "
                span.key.near { "up to " (FAR[1].0) } " " span.key.far { "up to " (FAR[2].0) } " " span.key.farthest { "more" }
                " times the difference that matters from the best."
            }
        }
    }
}

fn link(row: &MatrixRow, sections: &[Section]) -> Markup {
    html! {
        @if sections.iter().any(|section| section.id == row.section) {
            a href=(format!("#{}", anchor(&row.section))) { (row.load) }
        } @else {
            (row.load)
        }
    }
}

/// An answer in a cell.
fn short(finding: Option<&Finding>, colours: &Colours) -> Markup {
    let Some(finding) = finding else {
        return html! { span.faint { (crate::format::ABSENT) } };
    };
    let first = finding.best.first();
    html! {
        @if finding.is_same() {
            span.faint { "no difference that matters" }
        } @else if finding.rest.is_empty() {
            span.faint { "undecided" small { (finding.open) } }
        } @else {
            @if finding.best.len() > NAMED {
                div { (finding.best.len()) " alike" }
            } @else {
                @for best in &finding.best { div { (colours.chip(&best.scheduler)) } }
            }
            @if let Some(first) = first { b { (first.value) } }
            small { (distances(&finding.rest, colours)) }
            @if !finding.undecided.is_empty() {
                small { (finding.undecided.len()) " undecided" }
            }
        }
    }
}

/// Maximum number of best schedulers that a cell names: if most are alike, those that are not say more.
const NAMED: usize = 3;

/// How far the others are.
fn distances(rest: &[Candidate], colours: &Colours) -> Markup {
    html! {
        @match rest {
            [] => {}
            [one] => { (colours.chip(&one.scheduler)) " " (one.difference) }
            [first, .., last] => {
                @let range = crate::format::range(&first.difference, &last.difference);
                (rest.len()) " others "
                @if range.is_empty() { (first.difference) } @else { (range) }
            }
        }
    }
}

/// The decisive reasons, answer by answer, where schedulers differ by a margin that matters, or may.
pub(super) fn decisive(findings: &[Finding], colours: &Colours) -> Markup {
    let told = |one: &&Finding| !one.is_same();
    html! {
        @if findings.iter().any(|one| told(&one)) {
            dl.decisive {
                @for finding in findings.iter().filter(told) {
                    dt { (finding.goal) }
                    dd { (long(finding, colours)) }
                }
            }
        }
    }
}

fn long(finding: &Finding, colours: &Colours) -> Markup {
    html! {
        @if let Some((first, same)) = finding.best.split_first() {
            @let leads = if finding.rest.is_empty() { "compared with " } else { "best " };
            div { (leads) (colours.chip(&first.scheduler)) " " b { (first.value) } }
            @if !same.is_empty() { div { "no difference that matters: " (listed(same, colours)) } }
        }
        @if !finding.rest.is_empty() { div { "worse: " (listed(&finding.rest, colours)) } }
        @if !finding.undecided.is_empty() {
            div.faint { "undecided (" (finding.open) "): " (listed(&finding.undecided, colours)) }
        }
        @for sentence in &finding.why { div.why { (sentence) } }
    }
}

fn listed(candidates: &[Candidate], colours: &Colours) -> Markup {
    html! {
        @for (number, candidate) in candidates.iter().enumerate() {
            @if number > 0 { ", " }
            (colours.chip(&candidate.scheduler)) " " (candidate.difference)
            @if !candidate.interval.is_empty() { small { " (" (candidate.interval) ")" } }
        }
    }
}
