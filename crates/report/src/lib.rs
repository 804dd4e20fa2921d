//! Comparisons of schedulers: tables for the terminal, JSON and CSV for programs, HTML for people.
//!
//! A [`Comparison`] is a list of [`Run`]s. Runs that differ only in their seed or repetition are repeats of one another: tables show the
//! median of each metric over the repeats with its spread, a [`page`] shows the mean with its 95 % interval, and JSON and CSV contain every
//! run.

use std::io;
use std::path::{Path, PathBuf};

use fairground_results::{AllEvidence, format};
use page::Page;
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
pub use csv_format::csv_of;
pub use data_set::{Fault, Kept, Pack, Unread, kept, runs_of};
pub use explanation::{diagnosis, waits_json, waits_text, why};
pub use fairground_results::Unit;
pub use fairground_results::{Comparison, Difference, Labels, Run};
pub use grouped::Groups;
pub use json::{Document, reproductions_json};
pub use parquet_format::{DataFiles, GROUP, Unwritten};
pub use ranking::{
    TitledRanking, rankings_csv, rankings_json, rankings_markdown, rankings_page, rankings_text,
};
pub use reproduction::{
    list_table, reproductions_csv, reproductions_markdown, reproductions_table,
};
pub use reproduction_page::reproductions_page;
pub use table::{FEW_TASKS, Style, TaskTables};
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

/// The forms in which a comparison can be given.
pub trait Forms {
    /// One block per workload: failures, a row per scheduler, then the shares of the tasks. Lines have at most 100 columns unless a name is
    /// longer or something failed.
    fn table(&self, style: Style) -> String;

    /// The differences from the baseline: a table for each workload, machine and scheduler, and a line for each scheduler in the end; empty if
    /// there is no baseline. Worse values are red if there are `colours`.
    fn differences_table(&self, colours: bool) -> String;

    /// All workloads and machines in one table: in how many a scheduler is better or worse than the baseline or, without one, than the best
    /// of each, after the failures; empty if there is only one. Failures are red if there are `colours`.
    fn overall_table(&self, colours: bool) -> String;

    /// Markdown: the runs that failed, and the differences from the baseline or, without one, the figures; then all workloads and machines in
    /// one table if there are several.
    fn markdown(&self) -> String;

    /// JUnit XML: a test suite for each workload on each machine, with a test for each run, which fails unless the run is ok, and one for each
    /// measure in which a scheduler is compared with the baseline, which fails if it is worse.
    fn junit(&self) -> String;

    /// All runs as indented JSON, with a trailing newline. Metrics without samples are `null`.
    fn json(&self) -> String;

    /// CSV: a heading, then for each run a row of its own (with an empty column `task`) and a row per task. Columns that do not apply to a row,
    /// and metrics without samples, are empty.
    fn csv(&self) -> String;

    /// Writes `runs/runs.parquet` and `tasks/tasks.parquet` into a folder, which is created if needed. The columns are those of the CSV form,
    /// with types, and the same for all workloads, so that the files of many commands are one data set.
    fn write_parquet(&self, folder: &Path) -> Result<(), (PathBuf, io::Error)>;

    /// A page that begins with the answer: workloads and machines by questions, with the best scheduler and how far the others are behind. Then a
    /// section per workload and machine, with the decisive reasons and the `evidence`.
    fn page(&self, evidence: &AllEvidence) -> Page;
}

impl Forms for Comparison {
    fn table(&self, style: Style) -> String {
        table::table(self, style)
    }

    fn differences_table(&self, colours: bool) -> String {
        differences::table(&self.differences, colours)
    }

    fn overall_table(&self, colours: bool) -> String {
        overall::text(self, colours)
    }

    fn markdown(&self) -> String {
        let parts = [differences::markdown(self), overall::markdown(self)];
        let parts = parts.iter().map(|part| part.trim_end());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n") + "\n"
    }

    fn junit(&self) -> String {
        junit::junit(self)
    }

    fn json(&self) -> String {
        json::comparison(self)
    }

    fn csv(&self) -> String {
        csv_format::comparison(self)
    }

    fn write_parquet(&self, folder: &Path) -> Result<(), (PathBuf, io::Error)> {
        parquet_format::write_parquet(self, folder)
    }

    fn page(&self, evidence: &AllEvidence) -> Page {
        comparison_page::page(self, evidence)
    }
}
