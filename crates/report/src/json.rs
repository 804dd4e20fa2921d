//! Results as JSON. Each form has a version and a schema, which is made from the types here and in `results`: `docs/schema/COMMAND-VERSION.json`.

use fairground_results::{Overall, Reproduction};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use crate::{Comparison, Difference, Run};

/// A form of a command's result for programs.
pub trait Document: Serialize + JsonSchema {
    /// The command.
    const COMMAND: &'static str;
    /// Version of the form. It changes when a program that reads the old form could misread the new one.
    const VERSION: u32;

    /// The document as indented text, with a trailing newline.
    fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("all keys are texts and all numbers finite") + "\n"
    }

    /// The name of the file with its schema, and the schema.
    fn schema() -> (String, Schema)
    where
        Self: Sized,
    {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.transforms.push(Box::new(RecursiveTransform(adapt)));
        let schema = settings.into_generator().into_root_schema_for::<Self>();
        (format!("{}-{}.json", Self::COMMAND, Self::VERSION), schema)
    }
}

/// Lets a schema speak of JSON.
fn adapt(schema: &mut Schema) {
    // Formats such as uint64 are not part of the standard.
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("`None`", "null");
    }
}

/// The document that `fairground compare --format json` prints. Times are in nanoseconds. Work is CPU time times the capacity of the CPU, 1024 being
/// 1. A metric without samples is null, never 0. The definitions are in docs/metrics.md.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Comparison of schedulers")]
pub(crate) struct ComparisonDocument<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'a str,
    /// All runs, repeats included, in the order in which they were asked for.
    runs: &'a [Run],
    /// How far schedulers are from the baseline; empty if there is none.
    differences: &'a [Difference],
    /// All workloads and machines at once.
    overall: Overall,
}

impl Document for ComparisonDocument<'_> {
    const COMMAND: &'static str = "compare";
    const VERSION: u32 = 2;
}

/// All runs as indented JSON, with a trailing newline. Metrics without samples are `null`.
pub fn comparison_json(comparison: &Comparison) -> String {
    let document = ComparisonDocument {
        version: ComparisonDocument::VERSION,
        fairground: &comparison.version,
        runs: &comparison.runs,
        differences: &comparison.differences,
        overall: Overall::of(comparison),
    };
    document.text()
}

/// The document that `fairground reproduce --format json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Reproduced experiments")]
pub(crate) struct ReproductionsDocument<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'a str,
    /// The experiments, in the order in which they were asked for.
    experiments: &'a [&'a Reproduction],
}

impl Document for ReproductionsDocument<'_> {
    const COMMAND: &'static str = "reproduce";
    const VERSION: u32 = 1;
}

/// The reproductions as JSON; `fairground` is its version.
pub fn reproductions_json(reproductions: &[&Reproduction], fairground: &str) -> String {
    let document = ReproductionsDocument {
        version: ReproductionsDocument::VERSION,
        fairground,
        experiments: reproductions,
    };
    document.text()
}
