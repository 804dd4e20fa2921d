//! Results as CSV.

use crate::Comparison;
use crate::rows::{COLUMNS, Row, run_row, task_row};

impl Comparison {
    /// A heading, then for each run a row of its own (column `task` empty) and one for each task. Columns that do not apply to
    /// a row, and metrics without samples, are empty.
    pub fn csv(&self) -> String {
        let rows = self.runs.iter().flat_map(|run| {
            let tasks = run
                .metrics
                .tasks
                .iter()
                .map(move |task| task_row(run, task));
            std::iter::once(run_row(run)).chain(tasks)
        });
        csv(COLUMNS, rows)
    }
}

/// A heading and the rows.
pub(crate) fn csv(columns: &[&str], rows: impl Iterator<Item = Row>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: Vec<String>| {
        writer
            .write_record(record)
            .expect("a vector grows as needed, and all records have the same length");
    };
    write(columns.iter().map(|name| (*name).to_owned()).collect());
    for row in rows {
        let field = |name: &&str| row.get(name).map_or(String::new(), ToString::to_string);
        write(columns.iter().map(field).collect());
    }
    let bytes = writer
        .into_inner()
        .expect("a vector takes everything that is flushed");
    String::from_utf8(bytes).expect("all fields are UTF-8")
}
