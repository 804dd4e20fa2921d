//! `fairground list`: the schedulers.

use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Manifest;
use fairground_report::{Document, csv_of};
use schemars::JsonSchema;
use serde::Serialize;

use crate::VERSION;
use crate::loads;
use crate::output::{self, Format, Stop, WIDTH, wrap};

/// List the schedulers and loads that come with fairground
///
/// One entry for each scheduler: id, year, title, lineage and the document that it was written from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground list
  fairground list --loads
  fairground list --format json")]
pub struct Arguments {
    /// List the loads with names instead, with their parameters
    #[arg(long)]
    loads: bool,

    /// Form of the list
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    output::finish(&match arguments.loads {
        true => loads(arguments.format),
        false => schedulers(arguments.format),
    })
}

fn loads(format: Format) -> String {
    let loads = loads::all().map(|(name, template)| Load {
        name,
        doc: template.doc().unwrap_or("").to_owned(),
        parameters: template.parameters().iter().map(Parameter::new).collect(),
    });
    let loads: Vec<Load> = loads.collect();
    match format {
        Format::Table => loads_table(&loads),
        Format::Json => ListedLoads::of(loads).text(),
        Format::Csv => {
            let rows = { loads.iter() }.map(|load| LoadRow {
                name: load.name,
                doc: &load.doc,
                parameters: load.parameters_text(),
            });
            csv_of(rows)
        }
    }
}

/// The document that `fairground list --loads --format json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Loads")]
pub struct ListedLoads {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// The loads.
    loads: Vec<Load>,
}

impl Document for ListedLoads {
    const COMMAND: &'static str = "list-loads";
    const VERSION: u32 = 1;
}

impl ListedLoads {
    fn of(loads: Vec<Load>) -> Self {
        Self { version: Self::VERSION, fairground: VERSION, loads }
    }
}

/// A load in the list.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    /// Its name.
    name: &'static str,
    /// Its description.
    doc: String,
    /// The parameters that may be set behind the name.
    parameters: Vec<Parameter>,
}

impl Load {
    /// The parameters with their defaults, as they are written behind the name.
    fn parameters_text(&self) -> String {
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|one| format!("{}={}", one.name, one.default));
        parameters.collect::<Vec<_>>().join(",")
    }
}

/// A parameter of a load.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameter {
    /// Its name.
    name: String,
    /// Its value if it is not set, as it is written.
    default: String,
    /// Its smallest value.
    from: f64,
    /// Its largest value.
    to: f64,
    /// Its unit; empty for a plain number.
    unit: String,
    /// Its description.
    doc: String,
}

impl Parameter {
    fn new(parameter: &fairground_workload::Parameter) -> Self {
        Self {
            name: parameter.name.clone(),
            default: parameter.default_text().to_owned(),
            from: parameter.from,
            to: parameter.to,
            unit: parameter.unit.clone(),
            doc: parameter.doc.clone(),
        }
    }
}

/// A load in a row of CSV.
#[derive(Serialize)]
struct LoadRow<'a> {
    name: &'a str,
    doc: &'a str,
    parameters: String,
}

fn loads_table(loads: &[Load]) -> String {
    let widest = loads.iter().map(|load| load.name.len()).max();
    let width = widest.unwrap_or(0).max("name".len());
    let mut text = format!("{:width$}  what it is; parameters with their defaults\n", "name");
    for load in loads {
        text.push_str(&format!("{:width$}  ", load.name));
        text.push_str(wrap(&load.doc, WIDTH, width + 2).trim_start());
        let parameters = load.parameters_text().replace(',', ", ");
        text.push_str(&wrap(&parameters, WIDTH, width + 2));
    }
    text
}

fn schedulers(format: Format) -> String {
    let entries: Vec<Entry<'_>> =
        fairground_catalog::all().iter().map(|scheduler| Entry::new(&scheduler.manifest)).collect();
    match format {
        Format::Table => table(&entries),
        Format::Json => Listed::of(entries).text(),
        Format::Csv => csv_of(&entries),
    }
}

/// The document that `fairground list --format json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Schedulers")]
pub struct Listed<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// The schedulers, by year.
    schedulers: Vec<Entry<'a>>,
}

impl Document for Listed<'_> {
    const COMMAND: &'static str = "list";
    const VERSION: u32 = 1;
}

impl<'a> Listed<'a> {
    fn of(schedulers: Vec<Entry<'a>>) -> Self {
        Self { version: Self::VERSION, fairground: VERSION, schedulers }
    }
}

/// A scheduler in the list.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    /// Its id.
    id: &'a str,
    /// Year it appeared.
    year: u32,
    /// Its description.
    title: &'a str,
    /// Family it belongs to.
    lineage: &'a str,
    /// The document it was written from.
    source_document: &'a str,
}

impl<'a> Entry<'a> {
    fn new(manifest: &'a Manifest) -> Self {
        Self {
            id: &manifest.id,
            year: manifest.year,
            title: &manifest.title,
            lineage: &manifest.lineage,
            source_document: &manifest.source_document,
        }
    }
}

fn table(entries: &[Entry<'_>]) -> String {
    let widest = entries.iter().map(|entry| entry.id.len()).max();
    let width = widest.unwrap_or(0).max("id".len());
    let mut text = format!("{:width$}  year  title; lineage; source document\n", "id");
    let indent = width + 8;
    for entry in entries {
        text.push_str(&format!("{:width$}  {}  ", entry.id, entry.year));
        text.push_str(wrap(entry.title, WIDTH, indent).trim_start());
        text.push_str(&wrap(entry.lineage, WIDTH, indent));
        text.push_str(&wrap(entry.source_document, WIDTH, indent));
    }
    text
}
