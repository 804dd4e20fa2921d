//! Acceptance lines: counted, and listed.

use super::Section;
use fairground_results::{Claim, Level, Verdict};
use maud::{Markup, html};

/// How many lines of a level hold.
struct Count {
    level: Level,
    holds: usize,
    measured: usize,
    all: usize,
}

fn counts<'a>(verdicts: impl Iterator<Item = &'a Verdict> + Clone) -> Vec<Count> {
    [Level::S, Level::D, Level::X]
        .into_iter()
        .map(|level| {
            let of_level = verdicts
                .clone()
                .filter(move |verdict| verdict.level == level);
            let failed = |verdict: &&Verdict| verdict.holds == Claim::Fails;
            let holding = |verdict: &&Verdict| verdict.holds == Claim::Holds;
            let holds = of_level.clone().filter(holding).count();
            Count {
                level,
                holds,
                measured: holds + of_level.clone().filter(failed).count(),
                all: of_level.count(),
            }
        })
        .filter(|count| count.all > 0)
        .collect()
}

fn word(level: Level) -> &'static str {
    match level {
        Level::S => "stated",
        Level::D => "derived",
        Level::X => "expected",
    }
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
                            b { (count.holds) " of " (count.measured) } " " (word(count.level)) " hold"
                        } @else {
                            (word(count.level))
                        }
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
            span.mini.fails[count.holds < count.measured] {
                (format!("{:?}", count.level)) " " (count.holds) "/" (count.measured)
            }
        }
    }
}

/// One line each; empty if there are none.
pub(super) fn list(verdicts: &[Verdict]) -> Markup {
    html! {
        @if !verdicts.is_empty() {
            ul.verdicts {
                @for verdict in verdicts { (line(verdict)) }
            }
        }
    }
}

fn line(verdict: &Verdict) -> Markup {
    let (class, mark, text) = match &verdict.holds {
        Claim::Holds => ("holds", "✓", "holds"),
        Claim::Fails => ("fails", "✗", "does not hold"),
        Claim::NotMeasured(_) => ("open", "–", "not measured"),
    };
    html! {
        li class=(class) {
            span.mark aria-hidden="true" { (mark) }
            div {
                p {
                    (verdict.claim) " "
                    span.verdict { (text) }
                    " "
                    span.level { (word(verdict.level)) " " (verdict.id) }
                }
                @if !verdict.shows.is_empty() { p.shows { (verdict.shows) } }
                @if let Claim::NotMeasured(missing) = &verdict.holds { p.shows { (missing) } }
                @if let Some(reason) = &verdict.reason { p.reason { (reason) } }
            }
        }
    }
}
