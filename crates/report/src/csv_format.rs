//! Results as CSV.

use serde::Serialize;

use crate::Comparison;
use crate::rows::{Row, all_columns, run_row, task_rows};

/// A heading, then for each run a row of its own (with an empty column `task`) and a row per task. Columns that do not apply to a row,
/// and metrics without samples, are empty.
pub fn comparison_csv(comparison: &Comparison) -> String {
    let names: Vec<String> = all_columns().into_iter().map(|column| column.name).collect();
    let fairground = &comparison.version;
    let rows = comparison.runs.iter().flat_map(|run| {
        std::iter::once(run_row(run, fairground)).chain(task_rows(run, fairground))
    });
    csv(&names, rows)
}

/// A heading and the rows.
fn csv<N: AsRef<str>>(columns: &[N], rows: impl Iterator<Item = Row>) -> String {
    written(|writer| {
        writer.write_record(columns.iter().map(AsRef::as_ref))?;
        for row in rows {
            let field = |name: &N| {
                let value = row.get(name.as_ref());
                // A line for each row, for programs that read lines.
                value.map_or(String::new(), |value| value.to_string().replace('\n', "; "))
            };
            writer.write_record(columns.iter().map(field))?;
        }
        Ok(())
    })
}

/// A heading with the names of the fields, and a line per row; empty if there are no rows. Rows are structures of numbers and strings; a
/// field that is `None` is empty.
pub fn csv_of<T: Serialize>(rows: impl IntoIterator<Item = T>) -> String {
    written(|writer| rows.into_iter().try_for_each(|row| writer.serialize(row)))
}

/// A heading and rows of texts.
pub(crate) fn csv_of_texts<T: AsRef<[u8]>>(
    heading: Vec<String>,
    rows: impl IntoIterator<Item = Vec<T>>,
) -> String {
    written(|writer| {
        writer.write_record(heading)?;
        rows.into_iter().try_for_each(|row| writer.write_record(row))
    })
}

/// The text that `write` writes: records of the same length.
fn written(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    write(&mut writer).expect("a vector grows as needed, and all records have the same length");
    let bytes = writer.into_inner().expect("a vector takes everything that is flushed");
    String::from_utf8(bytes).expect("all fields are UTF-8")
}
