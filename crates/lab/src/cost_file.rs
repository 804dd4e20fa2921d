//! Cost models in files.

use std::path::Path;

use fairground_simulator::{CostModel, CostValue};

use crate::error::Error;

/// Reads the cost model that a user names: `default`, `zero`, or a TOML file as described in `docs/cost-model.md`.
///
/// # Errors
///
/// If the file cannot be read, is not TOML, or has no fields or unknown ones; the error names line and column.
pub fn read_cost_model(name: &str) -> Result<CostModel, Error> {
    match name {
        "default" => return Ok(CostModel::default_model()),
        "zero" => return Ok(CostModel::zero()),
        _ => {}
    }
    let text = fairground_files::read_text(Path::new(name)).map_err(|cause| Error::CostModel {
        place: name.to_owned(),
        message: format!(
            "cannot be read: {cause}; a cost model is default, zero or the name of a TOML file"
        ),
    })?;
    if text.parse::<toml::Table>().is_ok_and(|costs| costs.is_empty()) {
        return Err(Error::CostModel {
            place: name.to_owned(),
            message: "there is no cost in it; write one, such as tick = 2000".to_owned(),
        });
    }
    parse(name, &text)
}

fn parse(name: &str, text: &str) -> Result<CostModel, Error> {
    CostModel::parse(name, text).map_err(|error| Error::CostModel {
        place: match error.place {
            Some((line, column)) => format!("{name}:{line}:{column}"),
            None => name.to_owned(),
        },
        message: error.message,
    })
}

/// The cost model with the fields of `table`; `name` is shown in results and errors.
pub(crate) fn from_table(name: &str, table: &toml::Table) -> Result<CostModel, Error> {
    parse(name, &table.to_string())
}

/// A measured cost: its name, one number or four by distance, and how it was measured.
pub type Measured<'a> = (&'a str, &'a [Option<u64>], &'a str);

/// The costs of a model, as for [`read_cost_model`]: name, value (four by distance), and where it comes from.
pub fn costs_of(reference: &str) -> Result<Vec<Vec<String>>, Error> {
    let model = read_cost_model(reference)?;
    let row = |(cost, value): (&str, CostValue)| {
        let value = match value {
            CostValue::One(value) => value.to_string(),
            CostValue::ByDistance(values) => values.map(|value| value.to_string()).join(", "),
        };
        let origin = model.origins.get(cost).cloned().unwrap_or_default();
        vec![cost.to_owned(), value, origin]
    };
    Ok(model.values().into_iter().map(row).collect())
}

/// The text of a cost file with the measured costs, and the defaults for the rest. `head` becomes a comment.
pub fn cost_file(head: &str, measured: &[Measured<'_>]) -> String {
    let mut model = CostModel::default_model();
    for (name, values, origin) in measured {
        model.take_over(name, values, origin);
    }
    let head: String = head.lines().map(|line| format!("# {line}\n")).collect();
    format!("{head}\n{}", model.to_toml())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_file_and_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("my.toml");
        std::fs::write(&path, "tick = 7\nticks = 8\n").expect("a file");
        let name = path.to_str().expect("a name");
        let message = read_cost_model(name).unwrap_err().to_string();
        assert!(message.contains("my.toml:2:1: unknown field `ticks`"), "{message}");
    }

    #[test]
    fn a_file_of_measurements_is_a_cost_model() {
        let text = cost_file("made\nby hand", &[("tick", &[Some(77)], "a stopwatch")]);
        assert!(text.starts_with("# made\n# by hand\n\n"), "{text}");
        let model = CostModel::parse("my.toml", &text).unwrap();
        assert_eq!(model.tick, 77);
        assert_eq!(model.origins["tick"], "a stopwatch");
        assert_eq!(model.origins["lock"], CostModel::default_model().origins["lock"]);
    }

    #[test]
    fn the_documentation_has_every_cost_in_its_tables() {
        let manual = include_str!("../../../docs/cost-model.md");
        for name in CostModel::NAMES {
            assert!(manual.contains(&format!("| `{name}` |")), "docs/cost-model.md lacks {name}");
        }
    }
}
