//! Numbers for people: three significant digits and a unit.

/// The unit of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, shown in ns, us, ms or s.
    Time,
    /// A fraction, shown in percent.
    Fraction,
    /// A number between 0 and 1, shown with four decimals.
    Index,
    /// A count, shown whole, or in thousands (k), millions (M) or billions (G).
    Count,
    /// The reciprocal of the fraction of samples above, shown as a percentile: 100 is 99 %. On a logarithmic axis it spreads out the tail.
    Percentile,
    /// A number whose unit, if any, is given elsewhere, shown with four significant digits.
    #[default]
    Plain,
}

impl Unit {
    /// Its name in documentation; empty for a number without one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Fraction => "fraction",
            Self::Index => "0 to 1",
            Self::Count => "count",
            Self::Percentile => "percentile",
            Self::Plain => "",
        }
    }

    /// By how much a number with this suffix is multiplied to have this unit; `None` if the suffix is not one of it.
    pub(crate) fn scale(self, suffix: &str) -> Option<f64> {
        match (suffix, self) {
            ("ns", Self::Time) => Some(1.0),
            ("us", Self::Time) => Some(1e3),
            ("ms", Self::Time) => Some(1e6),
            ("s", Self::Time) => Some(1e9),
            ("", Self::Time) => None,
            ("", _) => Some(1.0),
            _ => None,
        }
    }
}

/// The text for a metric without samples.
pub const ABSENT: &str = "-";

/// The value in its unit, or [`ABSENT`].
pub fn value(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else { return ABSENT.to_owned() };
    match unit {
        Unit::Time => scaled(value, &[" ns", " us", " ms", " s"], 0),
        Unit::Fraction => percent(value),
        Unit::Index => format!("{value:.4}"),
        Unit::Count => scaled(value, &["", "k", "M", "G"], 4),
        Unit::Percentile => percentile(value),
        Unit::Plain => plain(value),
    }
}

fn percentile(value: f64) -> String {
    format!("{} %", plain(100.0 - 100.0 / value))
}

/// A difference of two values; of fractions, in points.
pub fn difference(difference: f64, unit: Unit) -> String {
    let size = difference.abs();
    let text = match unit {
        Unit::Index if size < 0.000_05 => "0".to_owned(),
        Unit::Fraction if size < 0.000_05 => "0 points".to_owned(),
        Unit::Fraction if size < 0.01 => format!("{:.2} points", size * 100.0),
        Unit::Fraction => format!("{:.1} points", size * 100.0),
        _ => value(Some(size), unit),
    };
    let is_negative = difference < 0.0 && (!text.starts_with('0') || text.starts_with("0."));
    if is_negative { format!("-{text}") } else { text }
}

/// An interval as `low to high`; empty if both ends look alike. A common unit is written once.
pub fn range(low: &str, high: &str) -> String {
    if low == high {
        return String::new();
    }
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let low = match low.split_once(' ') {
        Some((number, _)) if unit(low) == unit(high) => number,
        _ => low,
    };
    format!("{low} to {high}")
}

/// A value as a tick's label: without trailing zeros, and with the digits that the steps need.
pub fn tick(value: f64, unit: Unit) -> String {
    // Ticks are round; further digits are noise.
    let number = |value: f64| trimmed(value, 7);
    let steps: &[(f64, &str)] = match unit {
        Unit::Time => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
        Unit::Count => &[(1e9, "G"), (1e6, "M"), (1e4, "k")],
        Unit::Fraction => return format!("{} %", number(value * 100.0)),
        Unit::Percentile => return percentile(value),
        Unit::Index | Unit::Plain => return number(value),
    };
    if value == 0.0 {
        return "0".to_owned();
    }
    let fitting = steps.iter().find(|(size, _)| value.abs() >= *size);
    match fitting {
        Some((1e4, name)) => format!("{}{name}", number(value / 1e3)),
        Some((size, name)) => format!("{}{name}", number(value / size)),
        None => number(value),
    }
}

/// A time in its unit, with three digits.
pub fn time(nanoseconds: u64) -> String {
    value(Some(nanoseconds as f64), Unit::Time)
}

/// A time in seconds with all significant digits.
pub fn seconds(nanoseconds: u64) -> String {
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// A number with at least four significant digits and no trailing zeros.
fn plain(value: f64) -> String {
    trimmed(value, 4)
}

/// A number with at least this many significant digits and no trailing zeros.
fn trimmed(value: f64, digits: i32) -> String {
    let size = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(digits - 1 - size).unwrap_or(0).min(9);
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Shortens a name that is longer than `most` letters.
pub fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    // Names of a kind often differ at the end.
    let letters: Vec<char> = name.chars().collect();
    let behind = most.saturating_sub(1) / 3;
    let before = most.saturating_sub(1) - behind;
    let (head, tail) = (&letters[..before], &letters[letters.len() - behind..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

/// A fraction in percent, with one decimal, or two near 0 and just below 100, where they matter.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if (0.0..0.005).contains(&percent) {
        "<0.01 %".to_owned()
    } else if percent.abs() < 0.995 || (99.9..99.995).contains(&percent) {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A number in the largest unit in which it is at least 1; each unit is a thousand times the one before. Whole numbers of up to
/// `whole_digits` digits stay as they are.
fn scaled(value: f64, units: &[&str], whole_digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 10_f64.powi(whole_digits as i32) {
        return format!("{value:.0}{}", units[0]);
    }
    let mut value = value;
    let mut step = 0;
    // 999.5 would be rounded to 1000, so it belongs to the next unit.
    while value.abs() >= 999.5 && step + 1 < units.len() {
        value /= 1000.0;
        step += 1;
    }
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ if step == 0 && value.fract() == 0.0 => 0,
        _ => 2,
    };
    format!("{value:.decimals$}{}", units[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (0.0, "0"),
            (7.0, "7 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 us"),
            (1500.0, "1.50 us"),
            (12_345.0, "12.3 us"),
            (999_600.0, "1.00 ms"),
            (123_456_789.0, "123 ms"),
            (9_999_000_000.0, "10.0 s"),
            (5e12, "5000 s"),
        ];
        for (nanoseconds, expected) in cases {
            assert_eq!(value(Some(nanoseconds), Unit::Time), expected);
        }
    }

    #[test]
    fn seconds_have_the_digits_that_matter() {
        assert_eq!(seconds(0), "0 s");
        assert_eq!(seconds(1_500_000_000), "1.5 s");
        assert_eq!(seconds(30_000_000_001), "30.000000001 s");
    }

    #[test]
    fn counts_are_whole_while_short() {
        let cases = [
            (0.0, "0"),
            (42.0, "42"),
            (9999.0, "9999"),
            (10_000.0, "10.0k"),
            (1_234_567.0, "1.23M"),
            (2.5, "2.50"),
        ];
        for (count, expected) in cases {
            assert_eq!(value(Some(count), Unit::Count), expected);
        }
    }

    #[test]
    fn fractions_are_percent() {
        assert_eq!(value(Some(0.0), Unit::Fraction), "0 %");
        assert_eq!(value(Some(0.00001), Unit::Fraction), "<0.01 %");
        assert_eq!(value(Some(0.00123), Unit::Fraction), "0.12 %");
        assert_eq!(value(Some(0.5), Unit::Fraction), "50.0 %");
        assert_eq!(value(Some(-0.05), Unit::Fraction), "-5.0 %");
        assert_eq!(value(Some(0.99987), Unit::Fraction), "99.99 %");
        assert_eq!(value(Some(1.0), Unit::Fraction), "100.0 %");
        assert_eq!(value(Some(0.99876), Unit::Index), "0.9988");
    }

    #[test]
    fn plain_numbers_have_four_digits() {
        let cases = [
            (0.0, "0"),
            (12.0, "12"),
            (1.23456, "1.235"),
            (31081.4, "31081"),
            (0.00123, "0.00123"),
            (-39.25, "-39.25"),
        ];
        for (number, expected) in cases {
            assert_eq!(value(Some(number), Unit::Plain), expected);
        }
    }

    #[test]
    fn ticks_have_the_digits_that_steps_need() {
        let cases = [
            (10e6, Unit::Time, "10 ms"),
            (2.5e9, Unit::Time, "2.5 s"),
            (0.0, Unit::Time, "0"),
            (0.2, Unit::Fraction, "20 %"),
            (0.00025, Unit::Fraction, "0.025 %"),
            (1500.0, Unit::Count, "1500"),
            (20_000.0, Unit::Count, "20k"),
            (100.0, Unit::Plain, "100"),
            (0.99985, Unit::Index, "0.99985"),
            (0.1 + 0.2, Unit::Plain, "0.3"),
            (1.0, Unit::Percentile, "0 %"),
            (2.0, Unit::Percentile, "50 %"),
            (1000.0, Unit::Percentile, "99.9 %"),
        ];
        for (number, unit, expected) in cases {
            assert_eq!(tick(number, unit), expected);
        }
    }

    #[test]
    fn a_range_names_its_unit_once() {
        assert_eq!(range("8.52 ms", "13.5 ms"), "8.52 to 13.5 ms");
        assert_eq!(range("850 us", "1.35 ms"), "850 us to 1.35 ms");
        assert_eq!(range("0.91", "0.92"), "0.91 to 0.92");
        assert_eq!(range("0 %", "0 %"), "");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("hog-1", 5), "hog-1");
        assert_eq!(shortened("hog-10", 5), "hog…0");
        assert_eq!(shortened("encoder-thread-12", 16), "encoder-th…ad-12");
    }

    #[test]
    fn absent_is_not_zero() {
        assert_eq!(value(None, Unit::Time), "-");
        assert_eq!(value(None, Unit::Count), "-");
    }
}
