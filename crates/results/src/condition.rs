//! Conditions on differences under which a comparison fails.

use std::str::FromStr;

use crate::difference::{Difference, STATUS};
use crate::format::{Unit, value};
use crate::summary::Judgement;
use crate::{MEASURES, Measure};

/// A condition under which a comparison with a baseline fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Something is worse.
    Worse,
    /// A measure differs by more than this.
    Beyond {
        /// Id of the measure.
        measure: String,
        /// Whether larger differences fail, rather than smaller ones.
        above: bool,
        /// How much, as a fraction of the baseline or in the measure's unit.
        limit: Limit,
    },
}

/// How much a measure may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// As a fraction of the baseline.
    Relative(f64),
    /// In the measure's unit.
    Absolute(f64),
}

impl FromStr for Condition {
    type Err = String;

    /// Parses `worse`, or `MEASURE > +10 %`, `MEASURE < -5ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == Judgement::Worse.word() {
            return Ok(Self::Worse);
        }
        let Some(at) = text.find(['>', '<']) else {
            return Err("not `worse`, nor of the form 'wakeup_p99 > +10 %'".to_owned());
        };
        let id = text[..at].trim();
        let Some(measure) = Measure::judged().find(|measure| measure.id == id) else {
            return Err(no_measure(id));
        };
        Ok(Self::Beyond {
            measure: id.to_owned(),
            above: text[at..].starts_with('>'),
            limit: limit(text[at + 1..].trim(), measure)?,
        })
    }
}

fn no_measure(id: &str) -> String {
    let ids: Vec<&str> = Measure::judged().map(|measure| measure.id).collect();
    let what = match MEASURES.iter().any(|measure| measure.id == id) {
        true => "schedulers are not judged by",
        false => "there is no measure",
    };
    format!("{what} {id:?}; there are {}", ids.join(", "))
}

fn limit(text: &str, measure: &Measure) -> Result<Limit, String> {
    let wrong = || format!("{text:?} is not a difference such as +10 %, or 5ms for times");
    let (number, unit) = amount(text).ok_or_else(wrong)?;
    match (unit, measure.unit) {
        ("%", _) => Ok(Limit::Relative(number / 100.0)),
        ("", Unit::Time) => Err(format!("{text:?} has no unit; write %, ns, us, ms or s")),
        _ => {
            let scale = measure.unit.scale(unit).ok_or_else(wrong)?;
            Ok(Limit::Absolute(number * scale))
        }
    }
}

/// A number, and the unit behind it, if any.
pub(crate) fn amount(text: &str) -> Option<(f64, &str)> {
    let end =
        text.find(|one: char| !(one.is_ascii_digit() || "+-.".contains(one))).unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

impl Condition {
    /// Why a comparison with this difference fails, in words; `None` if it does not.
    #[must_use]
    pub fn met_by(&self, difference: &Difference) -> Option<String> {
        let met = match self {
            Self::Worse => difference.judgement == Judgement::Worse,
            Self::Beyond { measure, above, limit } => {
                let beyond = |number: f64, limit: f64| match above {
                    true => number > limit,
                    false => number < limit,
                };
                *measure == difference.measure
                    && difference.is_certain()
                    && match *limit {
                        Limit::Absolute(limit) => beyond(difference.difference, limit),
                        // A value that begins at 0 grows by more than any part of it.
                        Limit::Relative(limit) => difference
                            .relative()
                            .map_or(difference.difference != 0.0, |part| beyond(part, limit)),
                    }
            }
        };
        met.then(|| sentence(difference))
    }
}

/// A difference in words.
#[must_use]
pub fn sentence(one: &Difference) -> String {
    let place = format!("{} on {}", one.workload, one.machine);
    let (scheduler, baseline) = (&one.scheduler, &one.baseline);
    if one.measure == STATUS {
        let part = |part: f64| value(Some(part), Unit::Fraction);
        return format!(
            "{place}: {} of the runs of {scheduler} are ok, {} of those of {baseline}",
            part(one.after),
            part(one.before)
        );
    }
    let unit = Measure::find(&one.measure).map_or(Unit::Plain, |measure| measure.unit);
    let number = |number: f64| value(Some(number), unit);
    // Of a baseline near 0, a percentage says nothing.
    let part = one.relative().filter(|part| part.abs() < 100.0);
    let relative = part.map(|part| format!("{:+.1} %, ", part * 100.0));
    format!(
        "{place}: {} of {scheduler} is {}, of {baseline} {} ({}95 % interval of the difference {} to {})",
        one.measure,
        number(one.after),
        number(one.before),
        relative.unwrap_or_default(),
        number(one.low),
        number(one.high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!("worse".parse(), Ok(Condition::Worse));
        let beyond = |measure: &str, above, limit| {
            Ok(Condition::Beyond { measure: measure.to_owned(), above, limit })
        };
        assert_eq!("wakeup_p99 > +10 %".parse(), beyond("wakeup_p99", true, Limit::Relative(0.1)));
        assert_eq!("throughput<-1%".parse(), beyond("throughput", false, Limit::Relative(-0.01)));
        assert_eq!(
            "longest_wait > 5ms".parse(),
            beyond("longest_wait", true, Limit::Absolute(5e6))
        );
    }

    #[test]
    fn what_is_no_condition_is_told_with_what_would_be() {
        for (text, told) in [
            ("slower", "wakeup_p99 > +10 %"),
            (
                "wakeup_p98 > 10 %",
                "there is no measure \"wakeup_p98\"; there are throughput, jain_index",
            ),
            ("migrations > 10 %", "schedulers are not judged by \"migrations\""),
            ("wakeup_p99 > 5", "has no unit"),
            ("wakeup_p99 > much", "is not a difference such as"),
            ("jain_index < -5ms", "is not a difference such as"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
