//! Times on the command line.

use fairground_results::{CpuChange, Patience};

/// Longest time that is accepted: a million seconds.
const LONGEST: f64 = 1e15;

/// Shortest window, in nanoseconds: less than any scheduler's slice.
const SHORTEST_WINDOW: u64 = 1_000_000;

/// Number of nanoseconds of a unit of time.
pub fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// Parses a time with its unit (`500ms`, `1.5s`, `20 us`, `2m`) as nanoseconds; must be greater than 0.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("{text:?} is not a time; write a number with ns, us, ms, s, m or h, such as 500ms")
    };
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = text[end..].trim();
    if unit.is_empty() {
        return Err(format!(
            "{text} of what? write {text}s for seconds, or ns, us, ms, m or h behind the number"
        ));
    }
    let value = (number * scale(unit).ok_or_else(wrong)?).round();
    if (1.0..=LONGEST).contains(&value) {
        Ok(value as u64)
    } else {
        Err(format!("{text:?} is out of range: 1ns to 1000000s"))
    }
}

/// Parses the length of windows. Each is worked out by itself, so shorter ones would have a run take hours.
pub fn window(text: &str) -> Result<u64, String> {
    match nanoseconds(text)? {
        ..SHORTEST_WINDOW => Err(format!("{text:?} is out of range: 1ms to 1000000s")),
        window => Ok(window),
    }
}

/// Parses when a CPU goes offline or comes online.
pub fn cpu_change(text: &str) -> Result<CpuChange, String> {
    let wrong = || "not CPU:on@TIME or CPU:off@TIME, such as 2:off@3s".to_owned();
    let (cpu, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (state, time) = rest.split_once('@').ok_or_else(wrong)?;
    Ok(CpuChange {
        cpu: cpu.parse().map_err(|_| wrong())?,
        online: match state {
            "on" => true,
            "off" => false,
            _ => return Err(wrong()),
        },
        at_ns: nanoseconds(time)?,
    })
}

/// Parses how long a task may wait: a time, or off.
pub fn patience(text: &str) -> Result<Patience, String> {
    match text {
        "off" => Ok(Patience::Off),
        _ => nanoseconds(text).map(Patience::Wait),
    }
}

/// The same, and the usual one if none is given.
pub fn patience_or_usual(text: Option<&str>) -> Result<Patience, String> {
    text.map_or_else(|| Ok(Patience::default()), patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_longer_than_slices() {
        assert_eq!(window("1ms"), Ok(1_000_000));
        assert_eq!(window("999us"), Err("\"999us\" is out of range: 1ms to 1000000s".to_owned()));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(nanoseconds("10s"), Ok(10_000_000_000));
        assert_eq!(nanoseconds("1.5s"), Ok(1_500_000_000));
        assert_eq!(nanoseconds("20 us"), Ok(20_000));
        assert_eq!(nanoseconds("7ns"), Ok(7));
        assert_eq!(nanoseconds("1m"), Ok(60_000_000_000));
        assert_eq!(nanoseconds("0.5h"), Ok(1_800_000_000_000));
        for wrong in ["", "s", "10", "1d", "-1s", "0s", "1e3s", "1.2.3s", "99999999s"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
        let refused = nanoseconds("10").unwrap_err();
        assert!(refused.contains("write 10s for seconds"), "{refused}");
    }
}
