//! `fairground list`: the schedulers.

use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Manifest;
use fairground_report::csv_of;
use serde::Serialize;
use serde_json::json;

use crate::loads;
use crate::output::{self, Format, wrap};

/// Width of the output, in columns.
const WIDTH: usize = 100;

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

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    let text = match arguments.loads {
        true => loads(arguments.format),
        false => schedulers(arguments.format),
    };
    output::print(&text).err().unwrap_or(ExitCode::SUCCESS)
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
        Format::Json => format!("{:#}\n", json!({ "version": 1, "loads": loads })),
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

/// What is listed for a load.
#[derive(Serialize)]
struct Load {
    name: &'static str,
    doc: String,
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
#[derive(Serialize)]
struct Parameter {
    name: String,
    default: String,
    from: f64,
    to: f64,
    unit: String,
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
    let mut text = format!(
        "{:width$}  what it is; parameters with their defaults\n",
        "name"
    );
    for load in loads {
        text.push_str(&format!("{:width$}  ", load.name));
        text.push_str(wrap(&load.doc, WIDTH, width + 2).trim_start());
        let parameters = load.parameters_text().replace(',', ", ");
        text.push_str(&wrap(&parameters, WIDTH, width + 2));
    }
    text
}

fn schedulers(format: Format) -> String {
    let entries: Vec<Entry<'_>> = fairground_catalog::all()
        .iter()
        .map(|scheduler| Entry::new(&scheduler.manifest))
        .collect();
    match format {
        Format::Table => table(&entries),
        Format::Json => format!("{:#}\n", json!({ "version": 1, "schedulers": entries })),
        Format::Csv => csv_of(&entries),
    }
}

/// What is listed for a scheduler.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    year: u32,
    title: &'a str,
    lineage: &'a str,
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
