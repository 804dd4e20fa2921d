//! Bar charts as inline SVG.

use crate::format::{Unit, value};
use crate::groups::Summary;
use maud::{Markup, html};

/// Width of the names on the left, of the bars and of the values on the right, in SVG units (pixels at normal size).
const NAMES: f64 = 110.0;
const BARS: f64 = 190.0;
const VALUES: f64 = 80.0;
/// Letters of a name that fit.
const NAME_LETTERS: usize = 15;
/// Height of a row.
const ROW: f64 = 22.0;

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: Option<Summary>,
    /// Where the bar should end, as a mark.
    pub(crate) target: Option<f64>,
}

/// Horizontal bars on a common scale from 0. Repeats show as a line from the smallest to the largest value.
pub(crate) fn bars(title: &str, unit: Unit, bars: &[Bar]) -> Markup {
    let largest = bars
        .iter()
        .flat_map(|bar| [bar.value.map(|value| value.max), bar.target])
        .flatten()
        .fold(0.0, f64::max);
    let scale = if largest > 0.0 { BARS / largest } else { 0.0 };
    let height = ROW * bars.len() as f64;
    let width = NAMES + BARS + VALUES;
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img" aria-label=(title) {
                @for (number, bar) in bars.iter().enumerate() {
                    (row(bar, ROW * number as f64, scale, unit))
                }
            }
        }
    }
}

fn row(bar: &Bar, top: f64, scale: f64, unit: Unit) -> Markup {
    let middle = top + ROW / 2.0;
    let text = value(bar.value.map(|value| value.median), unit);
    html! {
        text class="name" x=(NAMES - 8.0) y=(middle) { (shortened(&bar.name)) title { (bar.name) } }
        @if let Some(summary) = bar.value {
            rect class="bar" x=(NAMES) y=(top + 4.0) width=(length(summary.median, scale)) height=(ROW - 8.0) {}
            @if summary.spread() > 0.0 {
                line class="range" x1=(NAMES + length(summary.min, scale)) x2=(NAMES + length(summary.max, scale)) y1=(middle) y2=(middle) {}
            }
        }
        @if let Some(target) = bar.target {
            line class="target" x1=(NAMES + length(target, scale)) x2=(NAMES + length(target, scale)) y1=(top + 2.0) y2=(top + ROW - 2.0) {}
        }
        text class="value" x=(NAMES + BARS + 8.0) y=(middle) { (text) }
    }
}

/// The beginning of a long name; the whole of it shows when the pointer rests on it.
fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LETTERS {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(NAME_LETTERS - 1).collect();
    short.push('…');
    short
}

/// A length with one decimal, so that files do not swell.
fn length(value: f64, scale: f64) -> f64 {
    (value * scale * 10.0).round() / 10.0
}
