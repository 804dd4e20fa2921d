//! Parameters of a file.

use crate::error::Error;
use crate::expression::Evaluator;
use crate::json::Value;
use crate::notes::Place;
use crate::object::{Field, Reader};

/// The parameter that every file has: the number of CPUs of the machine, unless the user says another one.
pub(crate) const CPUS: &str = "cpus";
/// Maximum number of CPUs.
const CPUS_MAX: f64 = 4096.0;
/// The unit in which times are, as everywhere in a file.
const TIME: &str = "us";
/// Names that expressions use for something else.
const TAKEN: [&str; 4] = [CPUS, "i", "j", "n"];

/// Something about a file that its user may choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value unless the user gives another: a number, or an expression in `%(...)`.
    pub default: String,
    /// Smallest value.
    pub from: f64,
    /// Largest value.
    pub to: f64,
    /// Its unit, such as `us` for a time in microseconds; empty for a plain number.
    pub unit: String,
    /// Its meaning, in a line.
    pub doc: String,
    place: Place,
}

/// Reads the `parameters` of a file.
pub(crate) fn read_all(field: &Field) -> Result<Vec<Parameter>, Error> {
    let object = field.object()?;
    let mut parameters = Vec::new();
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        parameters.push(read(&field)?);
    }
    Ok(parameters)
}

fn read(field: &Field) -> Result<Parameter, Error> {
    let is_name = field.key.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
        && field.key.starts_with(|one: char| one.is_ascii_alphabetic());
    if !is_name || TAKEN.contains(&field.key) || !Evaluator::knows(field.key) {
        return Err(field.key_error(format!(
                "a parameter cannot be called so; use letters, digits and _, beginning with a letter, no word of programming languages such as `use`, and none of {}",
                TAKEN.join(", ")
            ),
        ));
    }
    let object = field.object()?;
    object.check_keys(&["default", "from", "to", "unit", "doc"])?;
    let default = object.require("default", "\"default\" : 4")?;
    let default = match default.value {
        Some(Value::Number(text) | Value::String(text)) => text.clone(),
        _ => {
            return Err(default.mismatch("a number, or an expression such as \"%(2 * cpus)\""));
        }
    };
    let bound = |key: &str, example: &str| {
        let field = object.require(key, example)?;
        field.decimal("a number", f64::is_finite)
    };
    let (from, to) = (bound("from", "\"from\" : 1")?, bound("to", "\"to\" : 100")?);
    if from > to {
        return Err(object.error("`from` is above `to`; exchange them"));
    }
    let unit = object.string("unit")?.unwrap_or("").to_owned();
    let doc = object.require("doc", "\"doc\" : \"what it means\"")?;
    Ok(Parameter {
        name: field.key.to_owned(),
        default,
        from,
        to,
        unit,
        doc: doc.string()?.to_owned(),
        place: field.key_place.clone(),
    })
}

impl Parameter {
    /// Its value unless the user gives another.
    pub(crate) fn default_value(
        &self,
        reader: &Reader,
        evaluator: &mut Evaluator,
    ) -> Result<f64, Error> {
        let wrong = |message: String| reader.error(&self.place, message);
        let text = evaluator.text(&self.default).map_err(wrong)?;
        let value = text.parse().ok().filter(|value| self.allows(*value));
        value.ok_or_else(|| wrong(format!("the default is {text}; make it {}", self.expected())))
    }

    /// The value that the user has written.
    pub(crate) fn parse(&self, file: &str, text: &str) -> Result<f64, Error> {
        let value = match self.unit.as_str() {
            TIME => microseconds(text),
            _ => text.parse().ok(),
        };
        value
            .filter(|value| self.allows(*value))
            .ok_or_else(|| wrong(file, &self.name, text, &self.expected()))
    }

    fn allows(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// Its default as it is told: an expression without its marks.
    pub fn default_text(&self) -> &str {
        let expression = self.default.strip_prefix("%(");
        let expression = expression.and_then(|text| text.strip_suffix(')'));
        expression.unwrap_or(&self.default)
    }

    /// Its range in words.
    pub fn range(&self) -> String {
        let space = if self.unit.is_empty() { "" } else { " " };
        format!("{} to {}{space}{}", self.from, self.to, self.unit)
    }

    fn expected(&self) -> String {
        match self.unit.as_str() {
            TIME => format!("a time of {}, such as 5ms or 100us", self.range()),
            _ => format!("a number from {}", self.range()),
        }
    }
}

/// The number of CPUs that the user has written.
pub(crate) fn cpus(file: &str, text: &str) -> Result<f64, Error> {
    let value = text.parse().ok();
    value
        .filter(|value: &f64| value.fract() == 0.0 && (1.0..=CPUS_MAX).contains(value))
        .ok_or_else(|| wrong(file, CPUS, text, &format!("a number from 1 to {CPUS_MAX}")))
}

fn wrong(file: &str, name: &str, value: &str, expected: &str) -> Error {
    Error {
        file: file.into(),
        line: 0,
        column: 0,
        json_path: String::new(),
        message: format!("{name}={value} is not possible; write {expected}"),
    }
}

/// A time with or without its unit, in microseconds.
fn microseconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 4] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let found = UNITS.iter().find_map(|(unit, size)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number * size)
    });
    found.or_else(|| text.parse().ok())
}
