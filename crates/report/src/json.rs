//! Comparisons as JSON, described by `docs/schema/compare-1.json`.

use crate::{Comparison, Run};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the JSON form. It changes when a program that reads the old form could misread the new one.
pub const JSON_VERSION: u32 = 1;

/// Why a text is not a comparison.
#[derive(Debug)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    runs: &'a [Run],
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedDocument {
    #[serde(rename = "version")]
    _version: u32,
    runs: Vec<Run>,
}

impl Comparison {
    /// All runs as JSON, indented, with a line feed at the end. Metrics without samples are `null`.
    pub fn json(&self) -> String {
        let document = Document {
            version: JSON_VERSION,
            runs: &self.runs,
        };
        let mut text = serde_json::to_string_pretty(&document)
            .expect("all keys are texts and all numbers finite");
        text.push('\n');
        text
    }

    /// Reads what [`Comparison::json`] wrote.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, not of this version, or not of this form; the message has line and column.
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        let invalid = |error: serde_json::Error| {
            ParseError(format!("not a comparison written by fairground: {error}"))
        };
        let VersionOnly { version } = serde_json::from_str(text).map_err(invalid)?;
        if version != JSON_VERSION {
            return Err(ParseError(format!(
                "the comparison has version {version} and this program reads version {JSON_VERSION}; run it again"
            )));
        }
        let document: OwnedDocument = serde_json::from_str(text).map_err(invalid)?;
        Ok(Self {
            runs: document.runs,
        })
    }
}
