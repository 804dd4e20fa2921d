//! Manifests: the description of a scheduler in `scheduler.toml`.
//!
//! ```toml
//! id = "linux24"                       # folder, file and ops.name
//! title = "Linux 2.4, the O(n) goodness scheduler"
//! year = 2001
//! lineage = "Linux"
//! source_document = "…"
//! attributes = ["shares"]              # attributes of tasks that it reads; absent if none
//! history = """…"""
//! algorithm = """…"""
//!
//! [[tunable]]
//! name = "hz"                          # a const volatile variable of the source
//! type = "u32"                         # u8 … u64, s8 … s64, bool
//! unit = "Hz"                          # ns, us, ms, s, %, a word such as ticks; may be absent
//! default = 100                        # as in the source; "20 ms" is allowed where the unit is a time
//! range = [24, 1000]                   # absent for bool and for choices
//! doc = "Timer ticks a second"
//!
//! [[tunable]]
//! name = "version"
//! type = "u32"
//! choices = ["2.4.20", "2.4.0"]        # names of the values 0, 1, …
//! default = "2.4.20"
//! doc = "Release whose rules apply"
//!
//! [[statistic]]                        # in the order of the counters in the `statistics` map
//! name = "recalculations"
//! doc = "Times the counters of all tasks were refilled"
//! ```

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::attributes;
use crate::error::Error;
use crate::tunable::{IntegerType, Tunable, Unit};

/// The contents of a scheduler's `scheduler.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Short name, also the scheduler's name in the kernel.
    pub id: String,
    /// A description of one line.
    pub title: String,
    /// Year it appeared.
    pub year: u32,
    /// Family it belongs to.
    pub lineage: String,
    /// The document it was written from.
    pub source_document: String,
    /// Task attributes that it reads, by their names in `attributes::NAMES` of the contract.
    pub attributes: Vec<String>,
    /// Where it came from, a paragraph.
    pub history: String,
    /// How it works, a paragraph.
    pub algorithm: String,
    /// The values that may be set before it is loaded.
    pub tunables: Vec<Tunable>,
    /// Its counters, in the order of the `statistics` map.
    pub statistics: Vec<Statistic>,
}

/// One counter of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistic {
    /// Name for people and programs, in snake case.
    pub name: String,
    /// The thing that it counts, in one line.
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    id: Spanned<String>,
    title: String,
    year: u32,
    lineage: String,
    source_document: String,
    #[serde(default)]
    attributes: Vec<Spanned<String>>,
    history: String,
    algorithm: String,
    #[serde(default)]
    tunable: Vec<RawTunable>,
    #[serde(default)]
    statistic: Vec<Spanned<Statistic>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTunable {
    name: Spanned<String>,
    r#type: Spanned<String>,
    #[serde(default)]
    unit: String,
    default: Spanned<RawValue>,
    range: Option<Spanned<[RawValue; 2]>>,
    #[serde(default)]
    choices: Vec<String>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawValue {
    Boolean(bool),
    Integer(i64),
    Text(String),
}

impl RawValue {
    fn text(&self) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Text(value) => value.clone(),
        }
    }
}

impl Manifest {
    /// Reads a manifest strictly; `file` is the name that errors show.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let reader = Reader { text, file };
        let raw: RawManifest = toml::from_str(text).map_err(|error| {
            reader.error(error.span().unwrap_or(0..0), error.message().to_owned())
        })?;

        if !is_identifier(raw.id.as_ref()) {
            return Err(reader.error(
                raw.id.span(),
                format!(
                    "id {:?}: an id has lower-case letters, digits and _ only, and starts with a letter",
                    raw.id.as_ref()
                ),
            ));
        }

        for attribute in &raw.attributes {
            if !attributes::NAMES.contains(&attribute.as_ref().as_str()) {
                return Err(reader.error(
                    attribute.span(),
                    format!(
                        "there is no attribute {:?}; there are {}",
                        attribute.as_ref(),
                        attributes::NAMES.join(", ")
                    ),
                ));
            }
        }

        let mut tunables: Vec<Tunable> = Vec::new();
        for raw_tunable in raw.tunable {
            let span = raw_tunable.name.span();
            let tunable = reader.tunable(raw_tunable)?;
            if tunables.iter().any(|other| other.name == tunable.name) {
                return Err(reader.error(span, format!("tunable {:?} twice", tunable.name)));
            }
            tunables.push(tunable);
        }

        let mut statistics: Vec<Statistic> = Vec::new();
        for statistic in raw.statistic {
            let span = statistic.span();
            let statistic = statistic.into_inner();
            if statistics.iter().any(|other| other.name == statistic.name) {
                return Err(reader.error(span, format!("statistic {:?} twice", statistic.name)));
            }
            statistics.push(statistic);
        }

        Ok(Self {
            id: raw.id.into_inner(),
            title: raw.title,
            year: raw.year,
            lineage: raw.lineage,
            source_document: raw.source_document,
            attributes: raw.attributes.into_iter().map(Spanned::into_inner).collect(),
            history: raw.history.trim().to_owned(),
            algorithm: raw.algorithm.trim().to_owned(),
            tunables,
            statistics,
        })
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// The text being read, for places in errors.
struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, message: String) -> Error {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Error::Manifest { place: format!("{}:{line}:{column}", self.file), message }
    }

    fn tunable(&self, raw: RawTunable) -> Result<Tunable, Error> {
        let type_span = raw.r#type.span();
        let integer_type = IntegerType::from_name(raw.r#type.as_ref()).ok_or_else(|| {
            self.error(
                type_span.clone(),
                format!(
                    "type {:?}: a tunable is one of u8, u16, u32, u64, s8, s16, s32, s64, bool",
                    raw.r#type.as_ref()
                ),
            )
        })?;
        let mut tunable = Tunable {
            name: raw.name.as_ref().clone(),
            integer_type,
            unit: Unit::from_name(&raw.unit),
            default: 0,
            minimum: integer_type.minimum(),
            maximum: integer_type.maximum(),
            choices: raw.choices,
            doc: raw.doc,
        };

        match (&raw.range, integer_type.boolean, tunable.choices.len()) {
            (None, true, 0) => {}
            (None, false, choices) if choices > 0 => {
                tunable.minimum = 0;
                tunable.maximum = choices as i128 - 1;
            }
            (Some(range), false, 0) => {
                let [low, high] = range.as_ref();
                let limit = |value: &RawValue| {
                    tunable
                        .read_value(&value.text())
                        .map_err(|error| self.error(range.span(), error.to_string()))
                };
                let (low, high) = (limit(low)?, limit(high)?);
                if low > high {
                    return Err(self.error(range.span(), "the range is empty".to_owned()));
                }
                (tunable.minimum, tunable.maximum) = (low, high);
            }
            _ => {
                return Err(self.error(
                    raw.name.span(),
                    format!(
                        "tunable {:?}: a number has a range, a choice has choices, and a bool has neither",
                        tunable.name
                    ),
                ));
            }
        }

        tunable.default = tunable
            .read_value(&raw.default.as_ref().text())
            .map_err(|error| self.error(raw.default.span(), error.to_string()))?;
        Ok(tunable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"
id = "example"
title = "An example"
year = 1999
lineage = "none"
source_document = "this test"
history = "short"
algorithm = "simple"
"#;

    fn parse(tail: &str) -> Result<Manifest, String> {
        Manifest::parse(&format!("{HEAD}{tail}"), "scheduler.toml")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn tunables_and_statistics_are_read() {
        let manifest = parse(
            r#"
[[tunable]]
name = "slice"
type = "u64"
unit = "ns"
default = "20 ms"
range = ["1 ms", "1 s"]
doc = "How long"

[[tunable]]
name = "version"
type = "u32"
choices = ["new", "old"]
default = "old"
doc = "Which"

[[tunable]]
name = "flag"
type = "bool"
default = true
doc = "Whether"

[[statistic]]
name = "switches"
doc = "Switches"
"#,
        )
        .unwrap();
        assert_eq!(manifest.year, 1999);
        let slice = &manifest.tunables[0];
        assert_eq!(
            (slice.default, slice.minimum, slice.maximum),
            (20_000_000, 1_000_000, 1_000_000_000)
        );
        assert_eq!(manifest.tunables[1].default, 1);
        assert_eq!(manifest.tunables[2].default, 1);
        assert_eq!(manifest.statistics[0].name, "switches");
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_place() {
        let error = parse("colour = \"red\"\n").unwrap_err();
        assert!(error.starts_with("scheduler.toml:9:1: unknown field `colour`"), "{error}");
    }

    #[test]
    fn attributes_are_read_and_unknown_ones_refused() {
        let head = |attributes: &str| {
            Manifest::parse(
                &HEAD.replace("history", &format!("attributes = {attributes}\nhistory")),
                "scheduler.toml",
            )
        };
        assert_eq!(head("[\"shares\", \"hard_cap\"]").unwrap().attributes, ["shares", "hard_cap"]);
        let error = head("[\"colour\"]").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "scheduler.toml:7:15: there is no attribute \"colour\"; there are shares, "
            ),
            "{error}"
        );
    }

    #[test]
    fn a_default_outside_the_range_is_an_error_with_its_place() {
        let error = parse(
            "[[tunable]]\nname = \"hz\"\ntype = \"u32\"\nunit = \"Hz\"\ndefault = 2000\nrange = [1, 1000]\ndoc = \"d\"\n",
        )
        .unwrap_err();
        assert_eq!(
            error,
            "scheduler.toml:13:11: hz: 2000 Hz is out of range; it takes 1 to 1000 Hz"
        );
    }

    #[test]
    fn a_number_needs_a_range_and_a_known_type() {
        let error = parse("[[tunable]]\nname = \"hz\"\ntype = \"u32\"\ndefault = 1\ndoc = \"d\"\n")
            .unwrap_err();
        assert!(error.starts_with("scheduler.toml:10:8: tunable \"hz\""), "{error}");
        let error = parse("[[tunable]]\nname = \"hz\"\ntype = \"int\"\ndefault = 1\ndoc = \"d\"\n")
            .unwrap_err();
        assert!(error.starts_with("scheduler.toml:11:8: type \"int\""), "{error}");
    }

    #[test]
    fn names_are_unique() {
        let one = "[[statistic]]\nname = \"a\"\ndoc = \"d\"\n";
        let error = parse(&format!("{one}{one}")).unwrap_err();
        assert!(error.contains("statistic \"a\" twice"), "{error}");
    }

    #[test]
    fn a_missing_key_is_an_error() {
        let error = Manifest::parse("id = \"x\"\n", "scheduler.toml").unwrap_err();
        assert!(error.to_string().contains("missing field"), "{error}");
    }
}
