//! `fairground list`: the schedulers.

use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Manifest;
use fairground_report::csv_of;
use serde::Serialize;
use serde_json::json;

use crate::output::{self, Format, wrap};

/// Width of the output, in columns.
const WIDTH: usize = 100;

/// List the schedulers that come with fairground
///
/// One entry for each scheduler: id, year, title, lineage and the document that it was written from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground list
  fairground list --format json")]
pub struct Arguments {
    /// Form of the list
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    let entries: Vec<Entry<'_>> = fairground_catalog::all()
        .iter()
        .map(|scheduler| Entry::new(&scheduler.manifest))
        .collect();
    let text = match arguments.format {
        Format::Table => table(&entries),
        Format::Json => format!("{:#}\n", json!({ "version": 1, "schedulers": entries })),
        Format::Csv => csv_of(&entries),
    };
    output::print(&text).err().unwrap_or(ExitCode::SUCCESS)
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
