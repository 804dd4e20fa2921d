//! Acceptance lines: counted, and listed.

use super::{Section, folded};
use crate::reproduction::word;
use fairground_results::{Claim, Level, OnKernel, Verdict};
use maud::{Markup, html};

/// How many lines of a level hold.
struct Count {
    level: Level,
    holds: usize,
    not_shown: usize,
    measured: usize,
    all: usize,
}

fn counts<'a>(verdicts: impl Iterator<Item = &'a Verdict> + Clone) -> Vec<Count> {
    Level::ALL
        .into_iter()
        .map(|level| {
            let of_level = verdicts.clone().filter(move |verdict| verdict.level == level);
            let holding = |verdict: &&Verdict| verdict.holds == Claim::Holds;
            let not_shown = |verdict: &&Verdict| matches!(verdict.holds, Claim::NotShown(_));
            let measured = |verdict: &&Verdict| !matches!(verdict.holds, Claim::NotMeasured(_));
            Count {
                level,
                holds: of_level.clone().filter(holding).count(),
                not_shown: of_level.clone().filter(not_shown).count(),
                measured: of_level.clone().filter(measured).count(),
                all: of_level.count(),
            }
        })
        .filter(|count| count.all > 0)
        .collect()
}

/// How many lines of all sections hold, by level; empty if there are none.
pub(super) fn tally(sections: &[Section]) -> Markup {
    let counts = counts(sections.iter().flat_map(|section| &section.verdicts));
    html! {
        @if !counts.is_empty() {
            ul.tally {
                @for count in counts {
                    li {
                        @if count.measured > 0 {
                            b { (count.holds) " of " (count.measured) } " " (count.level.word()) " hold"
                        } @else {
                            (count.level.word())
                        }
                        @if count.not_shown > 0 { small { " " (count.not_shown) " not shown" } }
                        @if count.measured < count.all {
                            small { " " (count.all - count.measured) " not measured" }
                        }
                    }
                }
            }
        }
    }
}

/// The same for one section, abbreviated.
pub(super) fn short_tally(verdicts: &[Verdict]) -> Markup {
    let measured = counts(verdicts.iter()).into_iter();
    html! {
        @for count in measured.filter(|count| count.measured > 0) {
            span.mini.fails[count.holds + count.not_shown < count.measured] {
                (format!("{:?}", count.level)) " " (count.holds) "/" (count.measured)
            }
        }
    }
}

/// One line each; empty if there are none.
pub(super) fn list(verdicts: &[Verdict]) -> Markup {
    lines(verdicts, shows)
}

/// Only the lines that follow from the document, or that a kernel contradicts, are open, and of their numbers only what fits in a line.
pub(super) fn brief(verdicts: &[Verdict]) -> Markup {
    let counts = |verdict: &&Verdict| {
        matches!(verdict.level, Level::S | Level::D) || verdict.is_contradicted()
    };
    let (counted, others): (Vec<&Verdict>, Vec<&Verdict>) = verdicts.iter().partition(counts);
    html! {
        (lines(counted, brief_shows))
        @if !others.is_empty() {
            (folded("Lines that do not follow from the document", &lines(others, brief_shows)))
        }
    }
}

fn lines<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>, shows: fn(&str) -> Markup) -> Markup {
    let mut verdicts = verdicts.into_iter().peekable();
    html! {
        @if verdicts.peek().is_some() {
            ul.verdicts {
                @for verdict in verdicts { (line(verdict, shows)) }
            }
        }
    }
}

fn line(verdict: &Verdict, shows: fn(&str) -> Markup) -> Markup {
    let (class, mark) = match &verdict.holds {
        Claim::Holds => ("holds", "✓"),
        Claim::NotShown(_) => ("open", "?"),
        Claim::Fails => ("fails", "✗"),
        Claim::NotMeasured(_) => ("open", "–"),
    };
    let kernel = verdict.on_kernel.as_ref().map(on_kernel).unwrap_or_default();
    html! {
        li class=(class) {
            span.mark aria-hidden="true" { (mark) }
            div {
                p {
                    (verdict.claim) " "
                    span.verdict { (word(&verdict.holds)) }
                    " "
                    span.level { (verdict.level.word()) " " (verdict.id) }
                }
                @if verdict.is_contradicted() { (kernel) }
                (shows(&verdict.shows))
                @if !verdict.is_contradicted() { (kernel) }
                @if let Claim::NotMeasured(missing) = &verdict.holds { p.shows { (missing) } }
                @if let Some(reason) = &verdict.reason { p.reason { (reason) } }
            }
        }
    }
}

/// The verdict of a kernel.
fn on_kernel(kernel: &OnKernel) -> Markup {
    html! {
        p.shows { "On a kernel it " span.verdict { (word(&kernel.holds)) } ": " (kernel.shows) }
    }
}

/// The numbers that decide, folded if they are a table.
fn brief_shows(text: &str) -> Markup {
    match text.lines().count() {
        ..2 => shows(text),
        _ => folded("Numbers", &shows(text)),
    }
}

/// The numbers that decide: a line of text, or a small table if there are several lines, with the text before the first colon as its first
/// column.
fn shows(text: &str) -> Markup {
    let lines: Vec<&str> = text.lines().collect();
    html! {
        @match lines.as_slice() {
            [] => {}
            [line] => p.shows { (line) },
            lines => table.shows {
                @for line in lines {
                    @let (name, numbers) = line.split_once(": ").unwrap_or((line, ""));
                    tr { td { (name) } td { (numbers) } }
                }
            }
        }
    }
}
