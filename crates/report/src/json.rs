//! Comparisons as JSON, described by `docs/schema/compare-2.json`.

use crate::{Comparison, Difference, Run};
use serde::Serialize;

/// Version of the JSON format. It changes when a program that reads the old format could misread the new one.
const JSON_VERSION: u32 = 2;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    runs: &'a [Run],
    differences: &'a [Difference],
}

/// All runs as indented JSON, with a trailing newline. Metrics without samples are `null`.
pub(crate) fn json(comparison: &Comparison) -> String {
    let document = Document {
        version: JSON_VERSION,
        runs: &comparison.runs,
        differences: &comparison.differences,
    };
    let mut text =
        serde_json::to_string_pretty(&document).expect("all keys are texts and all numbers finite");
    text.push('\n');
    text
}
