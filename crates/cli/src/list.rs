//! `fairground list`: the schedulers.

use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Manifest;
use serde_json::json;

use crate::output::{self, Format, wrap};

/// Columns of a terminal.
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
    let manifests: Vec<&Manifest> = fairground_catalog::all()
        .iter()
        .map(|scheduler| &scheduler.manifest)
        .collect();
    let text = match arguments.format {
        Format::Table => table(&manifests),
        Format::Json => json(&manifests),
        Format::Csv => csv(&manifests),
    };
    output::print(&text).err().unwrap_or(ExitCode::SUCCESS)
}

fn table(manifests: &[&Manifest]) -> String {
    let widest = manifests.iter().map(|manifest| manifest.id.len()).max();
    let width = widest.unwrap_or(0).max("id".len());
    let mut text = format!("{:width$}  year  title; lineage; source document\n", "id");
    let indent = width + 8;
    for manifest in manifests {
        text.push_str(&format!("{:width$}  {}  ", manifest.id, manifest.year));
        text.push_str(wrap(&manifest.title, WIDTH, indent).trim_start());
        text.push_str(&wrap(&manifest.lineage, WIDTH, indent));
        text.push_str(&wrap(&manifest.source_document, WIDTH, indent));
    }
    text
}

fn json(manifests: &[&Manifest]) -> String {
    let entries: Vec<_> = manifests
        .iter()
        .map(|manifest| {
            json!({
                "id": manifest.id,
                "year": manifest.year,
                "title": manifest.title,
                "lineage": manifest.lineage,
                "source_document": manifest.source_document,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "version": 1, "schedulers": entries }))
}

fn csv(manifests: &[&Manifest]) -> String {
    let mut text = String::from("id,year,title,lineage,source_document\n");
    for manifest in manifests {
        let fields = [
            &manifest.id,
            &manifest.year.to_string(),
            &manifest.title,
            &manifest.lineage,
            &manifest.source_document,
        ];
        let quoted = fields.map(|field| format!("\"{}\"", field.replace('"', "\"\"")));
        text.push_str(&quoted.join(","));
        text.push('\n');
    }
    text
}
