//! Single values in files that ask for runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A single value.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// As it would be written behind `--set`.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(value) => value.fmt(formatter),
            Self::Whole(value) => value.fmt(formatter),
            Self::Number(value) => value.fmt(formatter),
            Self::Text(value) => value.fmt(formatter),
        }
    }
}
