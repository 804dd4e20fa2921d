//! Comparisons of schedulers: tables for the terminal, JSON and CSV for programs, HTML for people.
//!
//! A [`Comparison`] is a list of [`Run`]s. Runs that differ only in their seed or repetition are repeats of one another: tables show the
//! median of each metric over the repeats with its spread, a [`page`] shows the mean with its 95 % interval, and JSON and CSV contain every
//! run.

use fairground_results::format;

mod answer;
mod comparison_page;
mod csv_format;
mod differences;
mod explanation;
mod groups;
mod json;
mod junit;
pub mod page;
mod parquet_format;
mod reproduction;
mod reproduction_page;
mod rows;
mod table;

pub use csv_format::csv_of;
pub use explanation::{waits_json, waits_text, why};
pub use fairground_results::Unit;
pub use fairground_results::{Difference, Labels, Run};
pub use reproduction::{
    list_table, reproductions_csv, reproductions_json, reproductions_markdown, reproductions_table,
};
pub use reproduction_page::reproductions_page;
pub use table::{Style, TaskTables};

/// Runs to compare, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The runs.
    pub runs: Vec<Run>,
    /// How far schedulers are from the baseline, if there is one.
    pub differences: Vec<Difference>,
}
