//! The values of `--set`: values of tunables, and lists and ranges of them.

use fairground_lab::{Contender, Error};

use crate::schedulers::{Wanted, split};

/// Maximum number of values of a range, and of settings of a scheduler that lists and ranges give together.
const MOST: usize = 10_000;

/// Applies `--set` options, and the settings of each scheduler alone, which have precedence. A scheduler with several values becomes several
/// schedulers, one for each combination of values.
pub fn apply(
    contenders: Vec<Contender>,
    all_wanted: &[Wanted],
    settings: &[String],
) -> Result<Vec<Contender>, Error> {
    let mut entries: Vec<Entry> = { contenders.into_iter().zip(all_wanted) }
        .map(|(contender, wanted)| Entry { variants: vec![contender], wanted })
        .collect();
    let mut targets: Vec<(Option<&str>, &str)> = Vec::new();
    for setting in settings {
        let (target, _) = setting.split_once('=').unwrap_or((setting, ""));
        // With and without the name of a scheduler.
        let (of, key) = target.rsplit_once('.').map_or((None, target), |(of, key)| (Some(of), key));
        let is_same = |(other, known): &(Option<&str>, &str)| {
            *known == key && (of.is_none() || other.is_none() || *other == of)
        };
        let fresh = match !targets.iter().any(is_same) {
            true => Ok(()),
            false => Err(format!(
                "{target} is set twice; give several values as a list, {target}=A,B, or leave one out"
            )),
        };
        targets.push((of, key));
        fresh
            .and_then(|()| apply_one(&mut entries, setting))
            .map_err(|message| Error::Plan(format!("--set {setting}: {message}")))?;
    }
    for entry in &mut entries {
        for (key, value) in &entry.wanted.settings {
            vary(&mut entry.variants, key, value)
                .map_err(|message| Error::Plan(format!("{key}={value}: {message}")))?;
        }
    }
    Ok(entries.into_iter().flat_map(|one| one.variants).collect())
}

/// A scheduler that was asked for.
struct Entry<'a> {
    /// With each combination of the values so far.
    variants: Vec<Contender>,
    wanted: &'a Wanted,
}

impl Entry<'_> {
    /// Sets values, unless the scheduler has one of its own; whether it has none.
    fn set(&mut self, key: &str, values: &str) -> Result<bool, String> {
        match self.wanted.settings.iter().any(|(own, _)| own == key) {
            true => Ok(false),
            false => vary(&mut self.variants, key, values).map(|()| true),
        }
    }

    fn first(&self) -> &Contender {
        &self.variants[0]
    }
}

/// Applies a setting to the schedulers that it is for.
fn apply_one(entries: &mut [Entry], setting: &str) -> Result<(), String> {
    let (target, values) =
        setting.split_once('=').ok_or("not [ID.]NAME=VALUE, such as o1.hz=1000")?;
    // Names of schedulers and of their settings may both contain dots; the longest matching scheduler name wins.
    let dots: Vec<usize> = target.match_indices('.').map(|(at, _)| at).collect();
    for dot in dots.iter().rev() {
        let (name, key) = (&target[..*dot], &target[dot + 1..]);
        let called = entries.iter_mut().filter(|one| one.first().is_called(name));
        let are_set = called.map(|entry| entry.set(key, values)).collect::<Result<Vec<_>, _>>()?;
        if !are_set.is_empty() {
            return takes_effect(&are_set, key);
        }
    }
    let reference = entries[0].first().reference().to_owned();
    let is_one = entries.iter().all(|one| one.first().reference() == reference);
    let names: Vec<&str> = entries.iter().map(|one| one.first().name()).collect();
    let others = names.join(", ");
    let stranger = |name: &str| format!("{name} is not among the schedulers compared: {others}");
    match dots.first() {
        None if !is_one => Err(format!(
            "which scheduler? write ID.{target}=VALUE; the schedulers compared are {others}"
        )),
        Some(dot) if !is_one => Err(stranger(&target[..*dot])),
        first => {
            let are_set = entries.iter_mut().map(|entry| entry.set(target, values));
            let are_set = are_set.collect::<Result<Vec<_>, _>>();
            let are_set = are_set.map_err(|error| match first {
                Some(dot) if !["ops", "map", "global"].contains(&&target[..*dot]) => {
                    stranger(&target[..*dot])
                }
                _ => error,
            })?;
            takes_effect(&are_set, target)
        }
    }
}

/// Whether a setting was for any of the schedulers that it names.
fn takes_effect(are_set: &[bool], key: &str) -> Result<(), String> {
    match are_set.contains(&true) {
        true => Ok(()),
        false => Err(format!("{key} has a value in braces, which has precedence; change it there")),
    }
}

/// Makes of each variant one for each of the values that a text stands for.
fn vary(variants: &mut Vec<Contender>, key: &str, text: &str) -> Result<(), String> {
    vary_by(variants, key, &values(text)?)
}

/// Makes of each variant one for each of the values.
pub fn vary_by(variants: &mut Vec<Contender>, key: &str, values: &[String]) -> Result<(), String> {
    if variants.len() * values.len() > MOST {
        return Err(format!("these are more than {MOST} settings of {}", variants[0].name()));
    }
    let mut more = Vec::new();
    for variant in variants.iter() {
        for value in values {
            let mut one = variant.clone();
            one.set(key, value).map_err(|error| error.to_string())?;
            more.push(one);
        }
    }
    *variants = more;
    Ok(())
}

/// The values that a text stands for: those between commas, and those of ranges: `1ms..8ms:x2` is 1, 2, 4 and 8 ms, `1ms..4ms:+1ms` 1, 2, 3
/// and 4 ms.
pub fn values(text: &str) -> Result<Vec<String>, String> {
    let mut values = Vec::new();
    for part in split(text) {
        match part.split_once("..").and_then(|(from, rest)| {
            let (to, step) = rest.split_once(':').unwrap_or((rest, ""));
            Some((Number::parse(from)?, Number::parse(to)?, step))
        }) {
            Some((from, to, step)) => values.extend(range(part, from, to, step)?),
            None => values.push(part.to_owned()),
        }
    }
    Ok(values)
}

/// A number with its unit: times in nanoseconds, other units as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number<'a> {
    value: f64,
    unit: &'a str,
}

impl<'a> Number<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let is_digit = |one: char| one.is_ascii_digit() || one == '.';
        let end = text.find(|one| !is_digit(one)).unwrap_or(text.len());
        let value: f64 = text[..end].parse().ok()?;
        let unit = text[end..].trim();
        Some(match crate::quantity::scale(unit) {
            Some(scale) => Self { value: value * scale, unit: "ns" },
            None => Self { value, unit },
        })
    }

    /// The number as a text, rounded to a thousandth of a millionth; times to nanoseconds.
    fn text(self) -> String {
        match self.unit {
            "ns" => format!("{:.0}ns", self.value),
            unit => {
                let digits = format!("{:.9}", self.value);
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                format!("{digits}{unit}")
            }
        }
    }
}

/// So many values from one number to another, at equal distances or with equal ratios.
pub fn steps(from: &str, to: &str, steps: u32, is_log: bool) -> Result<Vec<String>, String> {
    let number = |text| Number::parse(text).ok_or_else(|| format!("{text} is not a number"));
    let (first, last) = (number(from)?, number(to)?);
    if first.unit != last.unit {
        return Err(format!("{from} and {to} need the same unit"));
    }
    if !(2..=MOST as u32).contains(&steps) {
        return Err(format!("steps are from 2 to {MOST}, and these are {steps}"));
    }
    if is_log && (first.value <= 0.0 || last.value <= 0.0) {
        return Err(format!("steps with equal ratios cannot begin or end at 0: {from}, {to}"));
    }
    let at = |step: u32| {
        let part = f64::from(step) / f64::from(steps - 1);
        let value = match is_log {
            true => first.value * (last.value / first.value).powf(part),
            false => first.value + (last.value - first.value) * part,
        };
        Number { value, unit: first.unit }
    };
    Ok((0..steps).map(|step| at(step).text()).collect())
}

fn range(text: &str, from: Number, to: Number, step: &str) -> Result<Vec<String>, String> {
    if from.unit != to.unit {
        return Err(format!("{text}: its two numbers need the same unit"));
    }
    let how = || format!("{text} needs a step, such as {text}:x2 or {text}:+1ms");
    let next: Box<dyn Fn(f64) -> f64> = if let Some(factor) = step.strip_prefix('x') {
        let factor: f64 = factor.parse().map_err(|_| how())?;
        Box::new(move |value| value * factor)
    } else {
        let step = step.strip_prefix('+').and_then(Number::parse);
        let step = step.filter(|step| step.unit == from.unit).ok_or_else(how)?;
        Box::new(move |value| value + step.value)
    };
    if from.unit != to.unit {
        return Err(format!("{text}: both ends need the same unit"));
    }
    let mut values = Vec::new();
    let mut value = from.value;
    // A sum of decimal fractions is not exact.
    while value <= to.value * (1.0 + 1e-9) {
        let unit = from.unit;
        values.push(Number { value, unit }.text());
        let following = next(value);
        if following <= value || values.len() >= MOST {
            return Err(format!("{text} does not end within {MOST} values"));
        }
        value = following;
    }
    if values.is_empty() {
        return Err(format!("{text} is empty; the smaller number comes first"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_many_values() {
        for (text, expected) in [
            ("6ms", vec!["6ms"]),
            ("6ms,12ms", vec!["6ms", "12ms"]),
            ("1ms..8ms:x2", vec!["1000000ns", "2000000ns", "4000000ns", "8000000ns"]),
            ("0.5ms..1.5ms:+500us", vec!["500000ns", "1000000ns", "1500000ns"]),
            ("100..300:+100,1000", vec!["100", "200", "300", "1000"]),
            ("0.1..0.3:+0.1", vec!["0.1", "0.2", "0.3"]),
            ("10%..40%:x2", vec!["10%", "20%", "40%"]),
            ("1ms..5ms:x2", vec!["1000000ns", "2000000ns", "4000000ns"]),
            ("min(1, 2)", vec!["min(1, 2)"]),
        ] {
            assert_eq!(values(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn steps_are_equal() {
        let linear = steps("1ms", "2ms", 3, false).unwrap();
        assert_eq!(linear, ["1000000ns", "1500000ns", "2000000ns"]);
        assert_eq!(steps("1", "100", 3, true).unwrap(), ["1", "10", "100"]);
        for (wrong, message) in [
            (steps("1ms", "2", 3, false), "the same unit"),
            (steps("1", "2", 1, false), "from 2 to"),
            (steps("0", "2", 4, true), "cannot begin or end at 0"),
            (steps("few", "2", 4, true), "few is not a number"),
        ] {
            let refused = wrong.unwrap_err();
            assert!(refused.contains(message), "{refused}");
        }
    }

    #[test]
    fn ranges_that_do_not_end_are_refused() {
        for (text, message) in [
            ("1ms..8ms", "needs a step, such as 1ms..8ms:x2"),
            ("1ms..8ms:2", "needs a step"),
            ("1ms..8ms:+2", "needs a step"),
            ("1ms..8:x2", "the same unit"),
            ("8ms..1ms:x2", "the smaller number comes first"),
            ("1ms..8ms:x1", "does not end within"),
            ("0..8:x2", "does not end within"),
            ("1ns..10s:+1ns", "does not end within"),
        ] {
            let refused = values(text).unwrap_err();
            assert!(refused.contains(message), "{text}: {refused}");
        }
    }
}
