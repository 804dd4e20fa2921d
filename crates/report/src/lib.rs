//! Comparisons of schedulers: tables for the terminal, JSON and CSV for programs, HTML for people.
//!
//! A [`Comparison`] is a list of [`Run`]s. Runs that differ only in their seed or repetition are repeats of one another: tables show the
//! median of each metric over the repeats with its spread, a [`page`] shows the mean with its 95 % interval, and JSON and CSV contain every
//! run.

use fairground_results::format;
use schemars::Schema;

mod advice;
mod answer;
mod checkup;
mod column;
mod comparison_page;
mod csv_format;
mod data_set;
mod differences;
mod explanation;
mod grouped;
mod groups;
mod json;
mod junit;
mod overall;
pub mod page;
mod parquet_format;
mod ranking;
mod reproduction;
mod reproduction_page;
mod restore;
mod rows;
mod table;
mod text;

pub use advice::{advice_json, advice_page, advice_text, confirmation_text};
pub use checkup::{checkup_csv, checkup_json, checkup_markdown, checkup_text};
pub use comparison_page::comparison_page;
pub use csv_format::{comparison_csv, csv_of};
pub use data_set::{Fault, Pack, StoredRun, Unread, kept, runs_of};
pub use differences::differences_table;
pub use explanation::{diagnosis, waits_json, waits_text, why};
pub use fairground_results::Unit;
pub use fairground_results::{Comparison, Difference, Labels, Run};
pub use grouped::Groups;
pub use json::{Document, comparison_json, reproductions_json};
pub use junit::comparison_junit;
pub use overall::overall_table;
pub use parquet_format::{DataFiles, GROUP, Unwritten, write_parquet};
pub use ranking::{
    TitledRanking, absence, rankings_csv, rankings_json, rankings_markdown, rankings_page,
    rankings_text,
};
pub use reproduction::{
    list_table, reproductions_csv, reproductions_markdown, reproductions_table,
};
pub use reproduction_page::reproductions_page;
pub use table::{FEW_TASKS, Style, TaskTables, comparison_table};
pub use text::{columns, wrap};

/// The schemas of all documents here.
pub fn schemas() -> Vec<(String, Schema)> {
    vec![
        json::ComparisonDocument::schema(),
        explanation::WaitsDocument::schema(),
        json::ReproductionsDocument::schema(),
        advice::AdviceDocument::schema(),
        ranking::RankingDocument::schema(),
    ]
}

/// A comparison as Markdown: the runs that failed, and the differences from the baseline or, without one, the figures; then all workloads and
/// machines in one table if there are several.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let parts = [differences::markdown(comparison), overall::markdown(comparison)];
    let parts = parts.iter().map(|part| part.trim_end());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n") + "\n"
}
