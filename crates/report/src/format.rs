//! Numbers as people read them: three significant digits and a unit.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds, shown in ns, us, ms or s.
    Time,
    /// A fraction, shown in percent.
    Fraction,
    /// A number between 0 and 1, shown with four decimals.
    Index,
    /// A count, shown whole, or in thousands (k), millions (M) or milliards (G).
    Count,
}

/// What stands for a metric without samples.
pub(crate) const ABSENT: &str = "-";

/// The value in its unit, or [`ABSENT`].
pub(crate) fn value(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else {
        return ABSENT.to_owned();
    };
    match unit {
        Unit::Time => scaled(value, &[" ns", " us", " ms", " s"], 0),
        Unit::Fraction => percent(value),
        Unit::Index => format!("{value:.4}"),
        Unit::Count => scaled(value, &["", "k", "M", "G"], 4),
    }
}

/// A fraction in percent, with one decimal, or two near 0 and just below 100, where they matter.
pub(crate) fn percent(fraction: f64) -> String {
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

/// A number in the largest of the units, each a thousand times the one before, in which it is at least 1. Whole numbers
/// of up to `whole_digits` digits stay as they are.
fn scaled(value: f64, units: &[&str], whole_digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 10_f64.powi(whole_digits as i32) {
        return format!("{value:.0}{}", units[0]);
    }
    let mut value = value;
    let mut step = 0;
    // 999.5 would round to 1000, so it belongs to the next unit.
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
    fn absent_is_not_zero() {
        assert_eq!(value(None, Unit::Time), "-");
        assert_eq!(value(None, Unit::Count), "-");
    }
}
