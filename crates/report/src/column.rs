//! Numbers below each other: one unit and one precision for all, so that they can be compared by eye.

use crate::format::{ABSENT, Unit, value};

/// How the numbers of a column are written.
pub(crate) struct Column {
    unit: Unit,
    /// The divisor of numbers, how many decimals they get, and the unit behind them; `None` if each gets its own unit.
    form: Option<(f64, usize, &'static str)>,
}

/// Times that differ by more than this factor get a unit each: in one unit the shortest would be zeros.
const WIDE: f64 = 1000.0;
/// Significant digits of the smallest number.
const DIGITS: i32 = 2;
/// Maximum number of decimals.
const MOST_DECIMALS: i32 = 3;
/// Counts from here on are written in thousands or millions, each for itself.
const LARGE: f64 = 1e7;

impl Column {
    /// For a column with these numbers.
    pub(crate) fn of(unit: Unit, numbers: impl Iterator<Item = f64>) -> Self {
        let sizes: Vec<f64> = numbers.map(f64::abs).filter(|size| *size > 0.0).collect();
        let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
        let most = sizes.iter().copied().fold(0.0, f64::max);
        let form = match unit {
            _ if sizes.is_empty() => None,
            Unit::Time if most / least < WIDE => {
                let (size, name) = match (least * most).sqrt() {
                    middle if middle < 1e3 => (1.0, " ns"),
                    middle if middle < 1e6 => (1e3, " us"),
                    middle if middle < 1e9 => (1e6, " ms"),
                    _ => (1e9, " s"),
                };
                Some((size, decimals(least / size), name))
            }
            // Hundredths matter near 0 and just below 1.
            Unit::Fraction => {
                let near = |size: &f64| *size < 0.00995 || (0.999..1.0).contains(size);
                let decimals = if sizes.iter().any(near) { 2 } else { 1 };
                Some((0.01, decimals, " %"))
            }
            Unit::Count if (100.0..LARGE).contains(&most) => Some((1.0, 0, "")),
            Unit::Count if most < LARGE => {
                let whole = sizes.iter().all(|size| size.fract() == 0.0);
                Some((1.0, if whole { 0 } else { 1 }, ""))
            }
            _ => None,
        };
        Self { unit, form }
    }

    /// A number of the column.
    pub(crate) fn text(&self, number: Option<f64>) -> String {
        match (number, self.form) {
            (None, _) => ABSENT.to_owned(),
            (Some(number), Some((size, decimals, name))) if number != 0.0 => {
                let step = 10_f64.powi(-(decimals as i32));
                match (number / size).abs() < step / 2.0 {
                    true => format!("<{step:.decimals$}{name}"),
                    false => format!("{:.decimals$}{name}", number / size),
                }
            }
            (Some(_), Some((.., name))) => format!("0{name}"),
            (number, None) => value(number, self.unit),
        }
    }
}

/// The decimals that the smallest number needs.
fn decimals(least: f64) -> usize {
    let size = least.log10().floor() as i32;
    usize::try_from((DIGITS - 1 - size).clamp(0, MOST_DECIMALS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(unit: Unit, numbers: &[f64]) -> Vec<String> {
        let column = Column::of(unit, numbers.iter().copied());
        numbers.iter().map(|one| column.text(Some(*one))).collect()
    }

    #[test]
    fn numbers_of_a_column_have_one_unit_and_one_precision() {
        let times = column(Unit::Time, &[850e3, 1.35e6, 60e6]);
        assert_eq!(times, ["0.85 ms", "1.35 ms", "60.00 ms"]);
        let times = column(Unit::Time, &[4.2e6, 12e6, 2.98e9]);
        assert_eq!(times, ["4.2 ms", "12.0 ms", "2980.0 ms"]);
        let shares = column(Unit::Fraction, &[0.999, 0.9991, 0.5]);
        assert_eq!(shares, ["99.90 %", "99.91 %", "50.00 %"]);
        let shares = column(Unit::Fraction, &[0.000_01, 0.174, 0.0]);
        assert_eq!(shares, ["<0.01 %", "17.40 %", "0 %"]);
        let counts = column(Unit::Count, &[4197.0, 3220.4, 10_000.0, 5.8]);
        assert_eq!(counts, ["4197", "3220", "10000", "6"]);
        assert_eq!(column(Unit::Count, &[5.8, 12.0]), ["5.8", "12.0"]);
        assert_eq!(column(Unit::Count, &[5.0, 0.0]), ["5", "0"]);
    }

    #[test]
    fn times_too_far_apart_for_one_unit_have_their_own() {
        let times = column(Unit::Time, &[4590.0, 60e6]);
        assert_eq!(times, ["4.59 us", "60.0 ms"]);
        assert_eq!(Column::of(Unit::Time, [].into_iter()).text(None), ABSENT);
    }
}
