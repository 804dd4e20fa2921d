//! Reading companion files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use crate::builtin;
use crate::error::Error;

/// Values by name, with their places in the file.
pub(crate) type Values = BTreeMap<Spanned<String>, Spanned<Value>>;

/// A companion file as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// `ops.name` of the scheduler that it is for.
    pub scheduler: String,
    /// The source, and the loader with its options, that it was made from.
    #[serde(default)]
    pub from: String,
    /// Actions of the loader that are missing here.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Named values, for use in later ones and in all other expressions.
    #[serde(default)]
    pub option: Values,
    /// Programs that the loader loads although their section begins with `?`, or does not load although it does not.
    #[serde(default)]
    pub load: BTreeMap<Spanned<String>, bool>,
    /// Members of the table of callbacks.
    #[serde(default)]
    pub ops: Values,
    /// Global variables.
    #[serde(default)]
    pub global: Values,
    /// Maps by name.
    #[serde(default)]
    pub map: BTreeMap<String, MapChange>,
    /// Entries of maps.
    #[serde(default)]
    pub entry: Vec<MapEntry>,
    /// Programs that the loader runs.
    #[serde(default)]
    pub run: Vec<Run>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapChange {
    /// Its capacity.
    pub max_entries: Spanned<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapEntry {
    /// The map.
    pub map: Spanned<String>,
    /// A list with one entry for each of its elements, `it`.
    pub each: Option<Spanned<Value>>,
    /// Whether there is an entry at all.
    #[serde(rename = "if")]
    pub condition: Option<Spanned<Value>>,
    /// The key.
    pub key: Spanned<Value>,
    /// The value; in a per-CPU map it may use `cpu`. Entries of a map of maps have none: theirs is a new map.
    pub value: Option<Spanned<Value>>,
    /// Capacity of the new map in a map of maps, if not the declared one.
    pub max_entries: Option<Spanned<Value>>,
    /// The contents of the new map.
    #[serde(default)]
    pub inside: Vec<InnerEntry>,
}

/// An entry of a map inside another map.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InnerEntry {
    /// As for entries.
    pub key: Spanned<Value>,
    /// As for entries.
    pub value: Spanned<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// The program.
    pub program: Spanned<String>,
    /// As for entries.
    pub each: Option<Spanned<Value>>,
    /// As for entries.
    #[serde(rename = "if")]
    pub condition: Option<Spanned<Value>>,
    /// Before or after attaching.
    #[serde(default)]
    pub when: When,
    /// Nanoseconds from one run to the next, after attaching.
    pub every: Option<Spanned<Value>>,
    /// CPU that the loader runs on.
    pub cpu: Option<Spanned<Value>>,
    /// Members of the context.
    #[serde(default)]
    pub context: Values,
    /// Values written to addresses that the program left in its context: 64-bit words by member.
    #[serde(default)]
    pub write: Values,
    /// Runs that follow this one for the same element.
    #[serde(default)]
    pub then: Vec<Then>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Then {
    /// The program.
    pub program: Spanned<String>,
    /// Members of the context.
    #[serde(default)]
    pub context: Values,
    /// Members of the context that are taken from the context of the previous run.
    #[serde(default)]
    pub pass: Vec<Spanned<String>>,
    /// As for runs.
    #[serde(default)]
    pub write: Values,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum When {
    #[default]
    BeforeAttach,
    AfterAttach,
}

/// The actions of a scheduler's loader, for any machine.
#[derive(Clone, Debug, Default)]
pub struct Companion {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) file: File,
    pub(crate) built_in: bool,
}

impl Companion {
    /// Reads a companion file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fairground_files::read_text(path)
            .map_err(|cause| Error::File { path: path.to_owned(), cause })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a companion file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let file = toml::from_str(text).map_err(|error| Error::Wrong {
            place: match error.span() {
                Some(span) => place(name, text, span.start),
                None => name.to_owned(),
            },
            message: error.message().to_owned(),
        })?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), file, built_in: false })
    }

    /// A companion that sets nothing, for a scheduler without one.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The companions that come with fairground for releases of the scheduler that calls itself `scheduler`, the newest first.
    pub(crate) fn built_in(scheduler: &str) -> impl Iterator<Item = Result<Self, Error>> {
        builtin::find(scheduler).map(|(name, text)| {
            Self::parse(name, text).map(|companion| Self { built_in: true, ..companion })
        })
    }

    /// Name of the file; empty for a companion that sets nothing.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The programs that it loads or runs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let runs = self.file.run.iter().flat_map(|run| {
            let then = run.then.iter().map(|then| then.program.get_ref().as_str());
            then.chain([run.program.get_ref().as_str()])
        });
        let loads = self.file.load.iter().filter(|(_, load)| **load);
        runs.chain(loads.map(|(program, _)| program.get_ref().as_str()))
    }

    /// Actions of the loader that the companion leaves out.
    pub fn missing(&self) -> &[String] {
        &self.file.missing
    }

    /// The loader's options with their defaults, as they are written.
    pub fn options(&self) -> impl Iterator<Item = (&str, String)> {
        let options = self.file.option.iter();
        options.map(|(name, value)| (name.get_ref().as_str(), value.get_ref().to_string()))
    }

    /// Whether the loader chooses the same programs as that of another companion.
    pub fn chooses_as(&self, other: &Self) -> bool {
        let choices = |one: &Self| -> BTreeMap<String, bool> {
            let load = one.file.load.iter();
            load.map(|(program, load)| (program.get_ref().clone(), *load)).collect()
        };
        choices(self) == choices(other)
    }

    /// `ops.name` of the scheduler that it is for.
    pub fn scheduler(&self) -> &str {
        &self.file.scheduler
    }

    /// The source, and the loader with its options, that it was made from; empty if it does not say.
    pub fn from(&self) -> &str {
        &self.file.from
    }

    /// Whether it has an option of this name.
    pub fn has_option(&self, name: &str) -> bool {
        let name = name.strip_prefix("option.").unwrap_or(name);
        self.file.option.keys().any(|key| key.get_ref() == name)
    }

    /// `FILE:LINE` of something in the file.
    pub(crate) fn place<T>(&self, what: &Spanned<T>) -> String {
        place(&self.name, &self.text, what.span().start)
    }
}

fn place(name: &str, text: &str, offset: usize) -> String {
    let line = text[..offset.min(text.len())].matches('\n').count() + 1;
    format!("{name}:{line}")
}
