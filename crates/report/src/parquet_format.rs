//! Comparisons as Parquet: a file with a row per run, and one with a row per task of each run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_files::Unfinished;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::Comparison;
use crate::rows::{COLUMNS, Row, Value, run_row, task_row};

impl Comparison {
    /// Writes `runs.parquet` and `tasks.parquet` into a folder, which is created if needed. The columns are those of the CSV format, with
    /// types; columns without any value are left out.
    ///
    /// # Errors
    ///
    /// The file that cannot be written, and why.
    pub fn write_parquet(&self, folder: &Path) -> Result<(), (PathBuf, io::Error)> {
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        let runs: Vec<Row> = self.runs.iter().map(run_row).collect();
        let tasks = self.runs.iter().flat_map(|run| {
            let of_run = run.metrics.iter().flat_map(|metrics| &metrics.tasks);
            of_run.map(move |task| task_row(run, task))
        });
        let tasks: Vec<Row> = tasks.collect();
        for (name, rows) in [("runs.parquet", runs), ("tasks.parquet", tasks)] {
            let path = folder.join(name);
            write(&path, &rows).map_err(|error| (path, error))?;
        }
        Ok(())
    }
}

/// A file with these rows; every field may be absent.
fn write(path: &Path, rows: &[Row]) -> io::Result<()> {
    let typed = |name: &&'static str| {
        let kind = rows.iter().find_map(|row| row.get(name))?;
        Some((*name, physical(kind)))
    };
    let columns: Vec<(&str, Physical)> = COLUMNS.iter().filter_map(typed).collect();
    let fields = columns
        .iter()
        .map(|(name, kind)| field(name, *kind).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()
        .map_err(other)?;
    let schema = Type::group_type_builder("schema")
        .with_fields(fields)
        .build()
        .map_err(other)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let file = Unfinished::create(path)?;
    let mut writer = SerializedFileWriter::new(file.file(), Arc::new(schema), Arc::new(properties))
        .map_err(other)?;
    let mut group = writer.next_row_group().map_err(other)?;
    for (name, _) in &columns {
        let mut column = group
            .next_column()
            .map_err(other)?
            .expect("the schema has a column for each name");
        let fields: Vec<Option<&Value>> = rows.iter().map(|row| row.get(name)).collect();
        fill(column.untyped(), &fields).map_err(other)?;
        column.close().map_err(other)?;
    }
    group.close().map_err(other)?;
    writer.close().map_err(other)?;
    file.finish()
}

fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

fn physical(value: &Value) -> Physical {
    match value {
        Value::Text(_) => Physical::BYTE_ARRAY,
        Value::Integer(_) => Physical::INT64,
        Value::Real(_) => Physical::DOUBLE,
    }
}

fn field(name: &str, kind: Physical) -> Result<Type, ParquetError> {
    let text = (kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
    Type::primitive_type_builder(name, kind)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(text)
        .build()
}

/// Writes a column: which fields are present, and their values.
fn fill(column: &mut ColumnWriter<'_>, fields: &[Option<&Value>]) -> Result<(), ParquetError> {
    let present: Vec<i16> = fields.iter().map(|field| field.is_some().into()).collect();
    let values = fields.iter().flatten();
    match column {
        ColumnWriter::Int64ColumnWriter(column) => {
            let numbers = values.filter_map(|value| match value {
                Value::Integer(number) => Some(*number),
                _ => None,
            });
            column.write_batch(&numbers.collect::<Vec<_>>(), Some(&present), None)?;
        }
        ColumnWriter::DoubleColumnWriter(column) => {
            let numbers = values.filter_map(|value| match value {
                Value::Real(number) => Some(*number),
                _ => None,
            });
            column.write_batch(&numbers.collect::<Vec<_>>(), Some(&present), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            let texts = values.map(|value| ByteArray::from(value.to_string().as_str()));
            column.write_batch(&texts.collect::<Vec<_>>(), Some(&present), None)?;
        }
        _ => unreachable!("there are texts, integers and reals"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;

    #[test]
    fn what_is_written_comes_back_with_its_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let mut one = Row::default();
        one.set("workload", "hogs");
        one.set("seed", 7_u64);
        let mut two = Row::default();
        two.set("workload", "video");
        two.set("throughput", 0.5);
        write(&path, &[one, two]).unwrap();
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 2);
        // In the order of the CSV columns; columns without any value are absent.
        assert_eq!(rows[0].get_string(0).unwrap(), "hogs");
        assert_eq!(rows[0].get_long(1).unwrap(), 7);
        assert!(rows[0].get_double(2).is_err(), "absent");
        assert_eq!(rows[1].get_double(2).unwrap(), 0.5);
        assert_eq!(rows[1].len(), 3);
    }
}
