//! Boards: sets of loads on machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fairground_results::OwnMargin;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::quantity::nanoseconds;

/// The names of the boards in this program, with their files.
const BOARDS: [(&str, &str); 2] = [
    ("desktop", include_str!("../../../boards/desktop.toml")),
    ("server", include_str!("../../../boards/server.toml")),
];

/// A board with a name begins with this.
const PREFIX: &str = "board:";

/// A set of loads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// For whom they stand.
    #[serde(rename = "about")]
    _about: String,
    /// The loads.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// Margins in place of those of measures.
    #[serde(default, deserialize_with = "margins")]
    pub margins: Vec<OwnMargin>,
}

/// A table of measures with a margin each, such as `wakeup_p99 = "2ms"`.
fn margins<'de, D: Deserializer<'de>>(table: D) -> Result<Vec<OwnMargin>, D::Error> {
    let table = BTreeMap::<String, String>::deserialize(table)?;
    let margins = table.iter().map(|(measure, value)| format!("{measure}={value}").parse());
    margins.collect::<Result<_, String>>().map_err(D::Error::custom)
}

/// A load of a board.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Load {
    /// A file or the name of a load, with values of its parameters.
    pub workload: PathBuf,
    /// Descriptions of machines.
    pub machines: Vec<String>,
    /// Length of the run; `None` for the load's own.
    duration: Option<String>,
    /// Whether it is for the last look at a scheduler only.
    #[serde(default)]
    pub held_out: bool,
}

impl Load {
    /// Length of the run in nanoseconds, if the board says it.
    pub fn duration(&self) -> Result<Option<u64>, String> {
        let read = |text: &String| {
            nanoseconds(text)
                .map_err(|error| format!("duration of {}: {error}", self.workload.display()))
        };
        self.duration.as_ref().map(read).transpose()
    }
}

impl Board {
    /// The board that a word of the user means; `None` if it means a load. Files that the board names lie beside its own.
    ///
    /// # Errors
    ///
    /// A message with the place of the mistake, or with the names that there are.
    pub fn find(word: &Path) -> Option<Result<Self, String>> {
        let text = word.to_str()?;
        if let Some(name) = text.strip_prefix(PREFIX) {
            let found = BOARDS.iter().find(|(known, _)| *known == name);
            let names = BOARDS.map(|(name, _)| format!("{PREFIX}{name}")).join(", ");
            let found = found.ok_or_else(|| {
                format!("there is no {text}; there are {names}, and files that end with .toml")
            });
            return Some(found.and_then(|(_, file)| Self::parse(text, file)));
        }
        let is_file = word.extension().is_some_and(|ending| ending == "toml");
        is_file.then(|| {
            let read = fairground_files::read_text(word);
            let read = read.map_err(|cause| {
                format!("cannot read {text}: {cause}; {}", fairground_files::remedy(&cause))
            });
            let mut board = Self::parse(text, &read?)?;
            let folder = word.parent().unwrap_or(Path::new(""));
            for load in &mut board.loads {
                let beside = |name: &Path| Some(folder.join(name)).filter(|path| path.is_file());
                if let Some(path) = beside(&load.workload) {
                    load.workload = path;
                }
                for machine in &mut load.machines {
                    if let Some(path) = beside(Path::new(machine)) {
                        *machine = path.display().to_string();
                    }
                }
            }
            Ok(board)
        })
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let board: Self = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        match board.loads.iter().find(|load| load.machines.is_empty()) {
            Some(load) => {
                Err(format!("{name}: {} has no machines; name one", load.workload.display()))
            }
            None => Ok(board),
        }
    }
}
