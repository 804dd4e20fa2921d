//! Times on the command line.

/// Longest time that is accepted: a million seconds.
const LONGEST: f64 = 1e15;

/// Parses a time with a suffix (`500ms`, `1.5s`, `20 us`), or in seconds without one, as nanoseconds; must be greater than 0.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not a time; write a number with ns, us, ms or s, such as 500ms");
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let scale = match text[end..].trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" | "" => 1e9,
        _ => return Err(wrong()),
    };
    let value = (number * scale).round();
    if (1.0..=LONGEST).contains(&value) {
        Ok(value as u64)
    } else {
        Err(format!("{text:?} is out of range: 1ns to 1000000s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_suffixes_and_are_seconds_without() {
        assert_eq!(nanoseconds("10"), Ok(10_000_000_000));
        assert_eq!(nanoseconds("1.5s"), Ok(1_500_000_000));
        assert_eq!(nanoseconds("20 us"), Ok(20_000));
        assert_eq!(nanoseconds("7ns"), Ok(7));
        for wrong in ["", "s", "1m", "-1s", "0", "1e3s", "1.2.3s", "99999999s"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
    }
}
