//! The first screen: which scheduler, for which load, and why.

use super::colours::Colours;
use super::{Section, anchor};
use fairground_results::{Better, Interval};
use maud::{Markup, html};

/// What a reader should know who reads nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// What went wrong, one sentence each.
    pub failures: Vec<String>,
    /// A few sentences with the answer.
    pub summary: Vec<String>,
    /// How certain it is: how many runs, and what counts as a difference.
    pub certainty: String,
    /// The decisive numbers, by load.
    pub findings: Vec<Finding>,
}

/// The best scheduler for one goal under one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The load, in words.
    pub load: String,
    /// Id of the [`Section`] that shows it.
    pub section: String,
    /// What is wanted: throughput, a short wait, ...
    pub goal: String,
    /// The best, followed by those that cannot be told apart from it; empty if none stands out from the rest.
    pub best: Vec<Candidate>,
    /// All others, from better to worse.
    pub rest: Vec<Candidate>,
    /// What makes the difference.
    pub why: String,
}

/// A scheduler and its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Name of the scheduler.
    pub scheduler: String,
    /// The number that decides, with its unit.
    pub value: String,
    /// Its 95 % interval; empty if there is none.
    pub interval: String,
}

impl Finding {
    /// Ranks schedulers by the means of their numbers, which `show` formats. A difference counts if the intervals do not overlap, the
    /// formatted means differ, and they are farther apart than the `margin` around the best. Load, section, goal and reason are left to the caller.
    pub fn ranked(
        numbers: &[(String, Interval)],
        better: Better,
        margin: impl Fn(f64) -> f64,
        show: impl Fn(f64) -> String,
    ) -> Self {
        let mut ranked: Vec<&(String, Interval)> = numbers.iter().collect();
        ranked.sort_by(|a, b| match better {
            Better::Higher => b.1.mean.total_cmp(&a.1.mean),
            Better::Lower => a.1.mean.total_cmp(&b.1.mean),
        });
        let is_worse = |first: &Interval, other: &Interval| {
            (first.is_below(other) || other.is_below(first))
                && show(first.mean) != show(other.mean)
                && (first.mean - other.mean).abs() > margin(first.mean)
        };
        let candidate = |(scheduler, interval): &(String, Interval)| {
            let (low, high) = (show(interval.low), show(interval.high));
            Candidate {
                scheduler: scheduler.clone(),
                value: show(interval.mean),
                interval: crate::format::range(&low, &high),
            }
        };
        let mut finding = Self::default();
        let mut apart = false;
        for one in &ranked {
            let worse = is_worse(&ranked[0].1, &one.1);
            apart |= worse;
            let place = if worse {
                &mut finding.rest
            } else {
                &mut finding.best
            };
            place.push(candidate(one));
        }
        if !apart {
            finding.rest = std::mem::take(&mut finding.best);
        }
        finding
    }
}

pub(super) fn markup(answer: &Answer, sections: &[Section], colours: &Colours) -> Markup {
    html! {
        @if !answer.failures.is_empty() {
            ul.failures {
                @for sentence in &answer.failures { li { (sentence) } }
            }
        }
        @for sentence in &answer.summary { p.summary { (sentence) } }
        @if !answer.findings.is_empty() {
            div.findings {
                @for load in answer.findings.chunk_by(|a, b| a.load == b.load) {
                    h2.load { (link(&load[0], sections)) }
                    div.cards {
                        @for finding in load { (card(finding, colours)) }
                    }
                }
            }
        }
        @if !answer.certainty.is_empty() { p.faint { (answer.certainty) } }
    }
}

fn link(finding: &Finding, sections: &[Section]) -> Markup {
    html! {
        @if sections.iter().any(|section| section.id == finding.section) {
            a href=(format!("#{}", anchor(&finding.section))) { (finding.load) }
        } @else {
            (finding.load)
        }
    }
}

fn card(finding: &Finding, colours: &Colours) -> Markup {
    html! {
        div.card {
            h3 { (finding.goal) }
            @if let Some((best, equals)) = finding.best.split_first() {
                p.best { (colours.chip(&best.scheduler)) " " (value(best)) }
                @if !equals.is_empty() {
                    p.others { "as good: " (listed(equals, colours, true)) }
                }
                @if !finding.rest.is_empty() {
                    p.others { "then " (shortened(&finding.rest, colours)) }
                }
            } @else {
                p.best.none { "no difference" }
                p.others { (listed(&finding.rest, colours, true)) }
            }
            @if !finding.why.is_empty() { p.why { (finding.why) } }
        }
    }
}

fn value(candidate: &Candidate) -> Markup {
    html! {
        b { (candidate.value) }
        @if !candidate.interval.is_empty() { " " small { (candidate.interval) } }
    }
}

/// The next best ones and the last.
fn shortened(candidates: &[Candidate], colours: &Colours) -> Markup {
    const NEXT: usize = 3;
    html! {
        @if candidates.len() <= NEXT + 2 {
            (listed(candidates, colours, false))
        } @else {
            (listed(&candidates[..NEXT], colours, false))
            ", … "
            (listed(&candidates[candidates.len() - 1..], colours, false))
        }
    }
}

/// A list of candidates, with their intervals if these are why they cannot be told apart.
fn listed(candidates: &[Candidate], colours: &Colours, intervals: bool) -> Markup {
    html! {
        @for (number, candidate) in candidates.iter().enumerate() {
            @if number > 0 { ", " }
            span.pair {
                (colours.chip(&candidate.scheduler)) " " (candidate.value)
                @if intervals && !candidate.interval.is_empty() { " (" (candidate.interval) ")" }
            }
        }
    }
}
