//! A colour for each scheduler, the same throughout the page.

use super::Page;
use crate::text::each_once;
use maud::{Markup, html};

/// Number of colours that `style.css` defines as `--c0`, `--c1`, ...; after that they repeat.
const COLOURS: usize = 16;

/// Which scheduler has which colour.
pub(super) struct Colours(Vec<String>);

impl Colours {
    /// Assigns colours in the order of the page's schedulers, then in the order in which others appear in plots, then in the answer.
    pub(super) fn of(page: &Page) -> Self {
        let plots =
            page.sections.iter().flat_map(|section| section.plots.iter().chain(&section.folded));
        let series = plots.flat_map(|plot| &plot.series);
        let findings = page.answer.matrix.findings();
        let candidates = findings.flat_map(|finding| {
            let decided = finding.best.iter().chain(&finding.rest);
            decided.chain(&finding.undecided)
        });
        let all = series
            .map(|series| &series.scheduler)
            .chain(candidates.map(|candidate| &candidate.scheduler));
        Self(each_once(page.schedulers.iter().chain(all)).into_iter().cloned().collect())
    }

    fn index(&self, scheduler: &str) -> Option<usize> {
        let place = self.0.iter().position(|name| name == scheduler)?;
        Some(place % COLOURS)
    }

    /// Whether this is the name of a scheduler.
    pub(super) fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// The colour as CSS; the colour of text if it is not a scheduler.
    pub(super) fn css(&self, scheduler: &str) -> String {
        match self.index(scheduler) {
            Some(index) => format!("var(--c{index})"),
            None => "var(--text)".to_owned(),
        }
    }

    /// A scheduler's name after a spot of its colour; a plain name if it is not a scheduler.
    pub(super) fn chip(&self, scheduler: &str) -> Markup {
        html! {
            @if self.has(scheduler) {
                span.chip style=(format!("--c:{}", self.css(scheduler))) { (scheduler) }
            } @else {
                (scheduler)
            }
        }
    }
}
