//! Small drawings of numbers in the cells of a table: all on one scale, so that they can be compared by eye.

use maud::{Markup, html};

/// The scale of a column or of a whole table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    log: bool,
}

/// If numbers differ by more than this factor, their scale is logarithmic.
const WIDE: f64 = 30.0;
/// The length of a scale in differences that matter: smaller ones look small.
const MARGINS: f64 = 8.0;
/// If the smallest number is less than this part of the largest, the scale begins at 0.
const FAR: f64 = 0.6;

impl Scale {
    /// A scale for these numbers, of which those that differ by up to `margin` are alike in practice. None if there are no numbers.
    pub fn over(numbers: impl Iterator<Item = f64>, margin: f64) -> Option<Self> {
        let (least, most) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
            (one.min(low), one.max(high))
        });
        if least > most {
            return None;
        }
        if least > 0.0 && most / least > WIDE {
            return Some(Self { from: least.ln(), to: most.ln(), log: true });
        }
        let from = if least >= 0.0 && least < FAR * most { 0.0 } else { least };
        let lacking = (MARGINS * margin - (most - from)).max(0.0);
        // Numbers that are all alike are at the right end: the scale grows to where nothing is yet.
        let from = if from >= 0.0 { (from - lacking).max(0.0) } else { from - lacking };
        Some(Self { from, to: most.max(from + MARGINS * margin), log: false })
    }

    /// The place of a number, from 0 at the left end to 1.
    fn place(&self, number: f64) -> f64 {
        let number = if self.log { number.max(f64::MIN_POSITIVE).ln() } else { number };
        match self.to - self.from {
            length if length > 0.0 => ((number - self.from) / length).clamp(0.0, 1.0),
            _ => 1.0,
        }
    }

    /// A number with its interval on this scale, and the ideal if there is one.
    pub fn strip(&self, number: f64, (low, high): (f64, f64), ideal: Option<f64>) -> Strip {
        Strip {
            at: self.place(number),
            low: self.place(low),
            high: self.place(high),
            ideal: ideal.map(|ideal| self.place(ideal)),
        }
    }

    /// Whether it is logarithmic.
    pub fn is_log(&self) -> bool {
        self.log
    }
}

/// A number on a scale, from 0 at the left end to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Strip {
    at: f64,
    low: f64,
    high: f64,
    ideal: Option<f64>,
}

/// The strip as a line with a dot, a bar for the interval, and a mark for the ideal.
pub(super) fn markup(strip: &Strip) -> Markup {
    let percent = |part: f64| format!("{}%", (part * 1000.0).round() / 10.0);
    html! {
        span.strip aria-hidden="true" {
            @if strip.high > strip.low {
                i.range style=(format!("left:{};width:{}", percent(strip.low), percent(strip.high - strip.low))) {}
            }
            @if let Some(ideal) = strip.ideal { i.ideal style=(format!("left:{}", percent(ideal))) {} }
            i.dot style=(format!("left:{}", percent(strip.at))) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(numbers: &[f64], margin: f64) -> Vec<f64> {
        let scale = Scale::over(numbers.iter().copied(), margin).unwrap();
        numbers.iter().map(|one| scale.place(*one)).collect()
    }

    #[test]
    fn differences_that_do_not_matter_look_small() {
        let alike = places(&[0.9991, 0.9996], 0.01);
        assert!(alike[1] - alike[0] < 0.01, "{alike:?}");
        assert_eq!(places(&[0.92, 1.0], 0.01), [0.0, 1.0]);
    }

    #[test]
    fn scales_begin_at_0_unless_numbers_are_close_or_many_decades_apart() {
        assert_eq!(places(&[10.0, 40.0], 1.0), [0.25, 1.0]);
        assert_eq!(places(&[1.0, 10.0, 100.0], 0.1), [0.0, 0.5, 1.0]);
        assert_eq!(places(&[0.0, 100.0], 0.1), [0.0, 1.0]);
        assert_eq!(Scale::over([].into_iter(), 0.1), None);
    }
}
