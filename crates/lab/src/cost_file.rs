//! Cost models in files.
//!
//! A file is TOML with the fields of [`CostModel`]; a field that is absent keeps its value from the default model. What each
//! field means is in `docs/cost-model.md`.

use std::path::Path;

use fairground_simulator::CostModel;
use serde::Deserialize;

use crate::error::Error;

/// Largest cost in nanoseconds: one second. More is a slip of the unit, and sums of such costs could overflow.
const LARGEST: u64 = 1_000_000_000;

/// One cost in nanoseconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct Cost(u64);

impl TryFrom<u64> for Cost {
    type Error = String;

    fn try_from(value: u64) -> Result<Self, String> {
        if value <= LARGEST {
            Ok(Self(value))
        } else {
            Err(format!("{value} is out of range: 0 to {LARGEST} (ns)"))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostFile {
    callback: Option<Cost>,
    kfunc: Option<Cost>,
    kilo_instructions: Option<Cost>,
    lock: Option<Cost>,
    lock_transfer: Option<[Cost; 4]>,
    context_switch: Option<Cost>,
    idle_exit: Option<Cost>,
    interrupt: Option<Cost>,
    tick: Option<Cost>,
    timer: Option<Cost>,
    timer_slack: Option<Cost>,
    system_call: Option<Cost>,
    migration: Option<[Cost; 4]>,
}

/// The cost model that a user names: `default`, `zero`, or a file.
///
/// # Errors
///
/// If the file cannot be read, is not TOML, or has a field that no cost model has; the error names line and column.
pub fn read_cost_model(name: &str) -> Result<CostModel, Error> {
    match name {
        "default" => return Ok(CostModel::default_model()),
        "zero" => return Ok(CostModel::zero()),
        _ => {}
    }
    let text = std::fs::read_to_string(Path::new(name)).map_err(|cause| Error::CostModel {
        place: name.to_owned(),
        message: format!(
            "cannot be read: {cause}; a cost model is default, zero or the name of a TOML file"
        ),
    })?;
    parse(name, &text)
}

fn parse(name: &str, text: &str) -> Result<CostModel, Error> {
    let file: CostFile = toml::from_str(text).map_err(|error| Error::CostModel {
        place: match error.span() {
            Some(span) => place(name, text, span.start),
            None => name.to_owned(),
        },
        message: error.message().to_owned(),
    })?;
    let base = CostModel::default_model();
    let one = |given: Option<Cost>, default: u64| given.map_or(default, |cost| cost.0);
    let four = |given: Option<[Cost; 4]>, default: [u64; 4]| {
        given.map_or(default, |costs| costs.map(|cost| cost.0))
    };
    Ok(CostModel {
        name: name.to_owned(),
        callback: one(file.callback, base.callback),
        kfunc: one(file.kfunc, base.kfunc),
        kilo_instructions: one(file.kilo_instructions, base.kilo_instructions),
        lock: one(file.lock, base.lock),
        lock_transfer: four(file.lock_transfer, base.lock_transfer),
        context_switch: one(file.context_switch, base.context_switch),
        idle_exit: one(file.idle_exit, base.idle_exit),
        interrupt: one(file.interrupt, base.interrupt),
        tick: one(file.tick, base.tick),
        timer: one(file.timer, base.timer),
        timer_slack: one(file.timer_slack, base.timer_slack),
        system_call: one(file.system_call, base.system_call),
        migration: four(file.migration, base.migration),
    })
}

/// `file:line:column` of a byte offset.
fn place(file: &str, text: &str, offset: usize) -> String {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{file}:{line}:{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_keep_their_defaults() {
        let model = parse("my.toml", "tick = 7\nmigration = [1, 2, 3, 4]\n").unwrap();
        let expected = CostModel {
            name: "my.toml".into(),
            tick: 7,
            migration: [1, 2, 3, 4],
            ..CostModel::default_model()
        };
        assert_eq!(model, expected);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            (
                "tick = 7\nticks = 8\n",
                "my.toml:2:1: unknown field `ticks`",
            ),
            (
                "\ntick = 2000000000\n",
                "my.toml:2:8: 2000000000 is out of range",
            ),
            ("tick = -1\n", "my.toml:1:8: invalid value: integer `-1`"),
            ("migration = [1, 2]\n", "my.toml:1:13: invalid length 2"),
            ("tick = \n", "my.toml:1:"),
        ] {
            let message = parse("my.toml", text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn the_fields_of_the_documentation_are_those_of_the_file() {
        let manual = include_str!("../../../docs/cost-model.md");
        let start = manual.find("```toml\n").unwrap() + "```toml\n".len();
        let example = &manual[start..start + manual[start..].find("```").unwrap()];
        let model = parse("default", example).unwrap();
        assert_eq!(model, CostModel::default_model());
        assert_eq!(
            example.lines().filter(|line| line.contains('=')).count(),
            13,
            "the example in docs/cost-model.md shows every field"
        );
    }
}
