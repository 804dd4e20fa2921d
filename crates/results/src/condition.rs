//! Conditions on differences under which a comparison fails.

use std::str::FromStr;

use crate::difference::{Difference, STATUS, compared, judged, pairs, status, titled, whole};
use crate::format::{Unit, difference, value};
use crate::measure::MAKESPAN;
use crate::summary::Judgement;
use crate::{Labels, Lack, MEASURES, Measure, Quantity, Run};

/// A condition under which a comparison with a baseline fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Something is worse.
    Worse,
    /// Another condition, or a requirement, is undecided.
    Undecided,
    /// A quantity differs by more than this; where the loads have an amount of work, what stands in for it.
    Beyond {
        /// The condition, as it was written.
        text: String,
        /// What differs.
        quantity: Quantity,
        /// Whether larger differences fail, rather than smaller ones.
        above: bool,
        /// How much, as a fraction of the baseline or in the measure's unit.
        limit: Limit,
    },
}

/// What a condition, or a requirement on runs, says of a scheduler under the same conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The condition or requirement, as it was written.
    pub text: String,
    /// Name of the workload.
    pub workload: String,
    /// Description of the machine.
    pub machine: String,
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// The outcome.
    pub outcome: GateOutcome,
}

impl Gate {
    /// That of a scheduler and conditions with these labels.
    pub fn new(text: &str, labels: &Labels, outcome: GateOutcome) -> Self {
        Self {
            text: text.to_owned(),
            workload: labels.workload.clone(),
            machine: labels.machine.clone(),
            scheduler: titled(labels),
            outcome,
        }
    }

    /// Whether the other one says the same of the same scheduler under the same conditions.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.text, &self.workload, &self.machine, &self.scheduler)
            == (&other.text, &other.workload, &other.machine, &other.scheduler)
    }
}

/// The outcome of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// It lets the scheduler pass.
    Passed,
    /// It could not be judged.
    Undecided {
        /// Why.
        why: String,
        /// Whether more runs could decide it.
        is_open: bool,
    },
    /// It does not, and why.
    Failed(String),
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

    /// Parses `worse`, `undecided`, or `MEASURE > +10 %`, `MEASURE < -5ms`, with `of TASK` behind the measure of a task.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == Judgement::Worse.word() {
            return Ok(Self::Worse);
        }
        if text == Judgement::Undecided.word() {
            return Ok(Self::Undecided);
        }
        let Some(at) = text.find(['>', '<']) else {
            return Err("not `worse`, nor of the form 'wakeup_p99 > +10 %'".to_owned());
        };
        let quantity: Quantity = text[..at].parse()?;
        if quantity.measure().better.is_none() {
            let known: Vec<&str> = { MEASURES.iter().filter(|one| one.better.is_some()) }
                .map(|measure| measure.id)
                .collect();
            let known = known.join(", ");
            return Err(format!("schedulers are not judged by \"{quantity}\"; there are {known}"));
        }
        Ok(Self::Beyond {
            text: text.to_owned(),
            above: text[at..].starts_with('>'),
            limit: limit(text[at + 1..].trim(), quantity.measure())?,
            quantity,
        })
    }
}

pub(crate) fn limit(text: &str, measure: &Measure) -> Result<Limit, String> {
    let wrong =
        || format!("{text:?} is not a difference such as +10 %, 2 points, or 5ms for times");
    let (number, unit) = amount(text).ok_or_else(wrong)?;
    match (unit, measure.unit) {
        ("%", _) => Ok(Limit::Relative(number / 100.0)),
        ("points" | "point", Unit::Fraction) => Ok(Limit::Absolute(number / 100.0)),
        ("", Unit::Fraction) if number.abs() > 1.0 => Err(format!(
            "{text:?} is more than the whole; write '{text} points', or '{text} %' of the baseline's value"
        )),
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
    /// What it says of each scheduler beside the baseline, with these differences of theirs.
    pub fn gates(&self, runs: &[Run], baseline: &str, differences: &[Difference]) -> Vec<Gate> {
        match self {
            Self::Undecided => Vec::new(),
            Self::Worse => differences.iter().map(worse).collect(),
            Self::Beyond { text, quantity, above, limit } => compared(runs, baseline)
                .into_iter()
                .map(|(base, group)| {
                    let pairs = whole(pairs(&base, &group));
                    let title = |of: &[&Run]| titled(&of[0].labels);
                    let are_bad = |of: &[&Run]| !of.iter().any(|run| run.is_ok());
                    let nothing = || match pairs.first() {
                        None if are_bad(&base) => format!("no run of {} is ok", title(&base)),
                        None => format!("no run of {} is ok", title(&group)),
                        Some(_) => Lack::Value.words(),
                    };
                    let unended = status(&pairs).filter(|one| {
                        let is_end = quantity.measure().id == MAKESPAN && *above;
                        is_end && one.judgement == Judgement::Worse
                    });
                    let outcome = match (unended, judged(&pairs, quantity)) {
                        (Some(unended), _) => GateOutcome::Failed(sentence(&unended)),
                        (None, Some(difference)) => beyond(&difference, *above, *limit),
                        (None, None) => GateOutcome::Undecided { why: nothing(), is_open: false },
                    };
                    Gate::new(text, &group[0].labels, outcome)
                })
                .collect(),
        }
    }
}

fn worse(one: &Difference) -> Gate {
    Gate {
        text: Judgement::Worse.word().to_owned(),
        workload: one.workload.clone(),
        machine: one.machine.clone(),
        scheduler: one.scheduler.clone(),
        outcome: match one.judgement {
            Judgement::Worse => GateOutcome::Failed(sentence(one)),
            Judgement::Undecided => GateOutcome::Undecided {
                why: format!("{}, {}", one.measure, one.doubt()),
                is_open: one.is_open(),
            },
            Judgement::Better | Judgement::Same => GateOutcome::Passed,
        },
    }
}

/// Whether a difference is beyond a limit: surely not if its whole interval is within, and surely if its mean is beyond and it is no chance.
fn beyond(one: &Difference, above: bool, limit: Limit) -> GateOutcome {
    let limit = match limit {
        Limit::Absolute(limit) => limit,
        // A value that begins at 0 grows by more than any part of it.
        Limit::Relative(part) => part * one.before.unwrap_or(0.0).abs(),
    };
    let is_beyond = |number: f64| if above { number > limit } else { number < limit };
    let farthest = if above { one.high } else { one.low };
    match () {
        () if one.is_certain() && is_beyond(one.difference) => GateOutcome::Failed(sentence(one)),
        () if one.halves > 0 => GateOutcome::Undecided { why: one.doubt(), is_open: false },
        () if one.difference == 0.0 && one.low == one.high && !is_beyond(0.0) => {
            GateOutcome::Passed
        }
        () if one.pairs > 1 && !one.too_few_samples && !is_beyond(farthest) => GateOutcome::Passed,
        () => GateOutcome::Undecided {
            why: match one.too_few_samples || one.pairs < 2 {
                true => one.doubt(),
                false => format!("more runs could show either: {}", sentence(one)),
            },
            is_open: !one.one_run,
        },
    }
}

/// A difference in words.
pub fn sentence(one: &Difference) -> String {
    let place = format!("{} on {}", one.workload, one.machine);
    let (scheduler, baseline) = (&one.scheduler, &one.baseline);
    if one.measure == STATUS {
        let part = |part: Option<f64>| value(part, Unit::Fraction);
        return format!(
            "{place}: {} of the runs of {scheduler} end well, {} of those of {baseline}",
            part(one.after),
            part(one.before)
        );
    }
    let quantity: Option<Quantity> = one.measure.parse().ok();
    let unit = quantity.map_or(Unit::Plain, |quantity| quantity.measure().unit);
    let number = |number: Option<f64>| value(number, unit);
    let (low, high) = (difference(one.low, unit), difference(one.high, unit));
    // Of a baseline near 0, a percentage says nothing.
    let part = one.relative().filter(|part| part.abs() < 100.0);
    let relative = part.map(|part| format!("{:+.1} %, ", part * 100.0));
    format!(
        "{place}: {} of {scheduler} is {}, of {baseline} {} ({}95 % interval of the difference {low} to {high})",
        one.measure,
        number(one.after),
        number(one.before),
        relative.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!("worse".parse(), Ok(Condition::Worse));
        assert_eq!("undecided".parse(), Ok(Condition::Undecided));
        let is = |text: &str, of: &str, above, limit| {
            let (text, quantity) = (text.to_owned(), of.parse().unwrap());
            let expected = Condition::Beyond { text: text.clone(), quantity, above, limit };
            assert_eq!(text.parse(), Ok(expected));
        };
        is("wakeup_p99 > +10 %", "wakeup_p99", true, Limit::Relative(0.1));
        is("throughput<-1%", "throughput", false, Limit::Relative(-0.01));
        is("missed_periods > 2 points", "missed_periods", true, Limit::Absolute(0.02));
        is("longest_wait of hog > 5ms", "longest_wait of hog", true, Limit::Absolute(5e6));
    }

    #[test]
    fn what_is_no_condition_is_told_with_what_would_be() {
        for (text, told) in [
            ("slower", "wakeup_p99 > +10 %"),
            ("wakeup_p98 > 10 %", "there is no measure \"wakeup_p98\"; there are throughput"),
            ("migrations > 10 %", "schedulers are not judged by \"migrations\""),
            ("wakeup_p99 > 5", "has no unit"),
            ("wakeup_p99 > much", "is not a difference such as"),
            ("missed_periods > 5", "write '5 points', or '5 %' of the baseline's value"),
            ("wakeup_p99 > 5 points", "is not a difference such as"),
            ("jain_index < -5ms", "is not a difference such as"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
