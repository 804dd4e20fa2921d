//! Comparisons as Parquet: a folder with a row per run, and one with a row per task of each run.

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
use parquet::schema::types::{Type, TypePtr};

use crate::Comparison;
use crate::rows::{Column, Kind, Row, Value, run_columns, run_row, task_columns, task_row};

/// Writes `runs/runs.parquet` and `tasks/tasks.parquet` into a folder, which is created if needed. The columns are those of the CSV format,
/// with types, and the same for all workloads, so that the files of many commands are one data set.
///
/// # Errors
///
/// The file that cannot be written, and why.
pub(crate) fn write_parquet(
    comparison: &Comparison,
    folder: &Path,
) -> Result<(), (PathBuf, io::Error)> {
    let fairground = &comparison.version;
    let runs = comparison.runs.iter();
    let runs: Vec<Row> = runs.map(|run| run_row(run, fairground)).collect();
    let tasks = comparison.runs.iter().flat_map(|run| {
        let of_run = run.metrics.iter().flat_map(|metrics| &metrics.tasks);
        of_run.map(move |task| task_row(run, task, fairground))
    });
    let tasks: Vec<Row> = tasks.collect();
    for (name, columns, rows) in [
        ("runs", run_columns(), runs),
        ("tasks", task_columns(), tasks),
    ] {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| (folder.clone(), error))?;
        let path = folder.join(format!("{name}.parquet"));
        write(&path, &columns, &rows).map_err(|error| (path, error))?;
    }
    Ok(())
}

/// A file with these rows; every field may be absent.
fn write(path: &Path, columns: &[Column], rows: &[Row]) -> io::Result<()> {
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>();
    let schema = Type::group_type_builder("schema")
        .with_fields(fields.map_err(other)?)
        .build()
        .map_err(other)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let file = Unfinished::create(path)?;
    let mut writer = SerializedFileWriter::new(file.file(), Arc::new(schema), Arc::new(properties))
        .map_err(other)?;
    let mut group = writer.next_row_group().map_err(other)?;
    for column in columns {
        let fields: Vec<Option<&Value>> = rows.iter().map(|row| row.get(&column.name)).collect();
        for leaf in leaves(column.kind, &fields) {
            let mut written = group
                .next_column()
                .map_err(other)?
                .expect("the schema has a column for each leaf");
            leaf.write(written.untyped()).map_err(other)?;
            written.close().map_err(other)?;
        }
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

/// The type of a column.
fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let optional = Repetition::OPTIONAL;
    let field = match column.kind {
        Kind::Text => primitive(&column.name, Physical::BYTE_ARRAY, optional),
        Kind::Integer => primitive(&column.name, Physical::INT64, optional),
        Kind::Real => primitive(&column.name, Physical::DOUBLE, optional),
        Kind::Texts => map(&column.name, Physical::BYTE_ARRAY),
        Kind::Integers => map(&column.name, Physical::INT64),
    };
    field.map(Arc::new)
}

fn primitive(name: &str, kind: Physical, repetition: Repetition) -> Result<Type, ParquetError> {
    let text = (kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
    Type::primitive_type_builder(name, kind)
        .with_repetition(repetition)
        .with_logical_type(text)
        .build()
}

/// A map from texts, as the format's specification lays it out.
fn map(name: &str, value: Physical) -> Result<Type, ParquetError> {
    let pair = Type::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![
            Arc::new(primitive(
                "key",
                Physical::BYTE_ARRAY,
                Repetition::REQUIRED,
            )?),
            Arc::new(primitive("value", value, Repetition::REQUIRED)?),
        ])
        .build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::Map))
        .with_fields(vec![Arc::new(pair)])
        .build()
}

/// The values of a column of primitive type, and which of them are there: levels of definition and, within maps, of repetition.
struct Leaf {
    values: Values,
    present: Vec<i16>,
    repeated: Option<Vec<i16>>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Leaf {
    fn write(&self, column: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let (present, repeated) = (Some(&*self.present), self.repeated.as_deref());
        match (column, &self.values) {
            (ColumnWriter::ByteArrayColumnWriter(column), Values::Texts(values)) => {
                column.write_batch(values, present, repeated)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), Values::Integers(values)) => {
                column.write_batch(values, present, repeated)?;
            }
            (ColumnWriter::DoubleColumnWriter(column), Values::Reals(values)) => {
                column.write_batch(values, present, repeated)?;
            }
            _ => unreachable!("the schema and the values come from the same column"),
        }
        Ok(())
    }
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text)
}

/// The columns of primitive type that a column consists of: one, or the keys and the values of a map.
fn leaves(kind: Kind, fields: &[Option<&Value>]) -> Vec<Leaf> {
    let present = fields.iter().map(|field| field.is_some().into()).collect();
    let there = fields.iter().flatten();
    let values = match kind {
        Kind::Text => Values::Texts(there.map(|value| text(&value.to_string())).collect()),
        Kind::Integer => Values::Integers(there.filter_map(|value| integer(value)).collect()),
        Kind::Real => Values::Reals(there.filter_map(|value| real(value)).collect()),
        Kind::Texts => {
            let maps = fields.iter().map(|field| match field {
                Some(Value::Texts(map)) => map
                    .iter()
                    .map(|(key, one)| (text(key), text(one)))
                    .collect(),
                _ => Vec::new(),
            });
            return of_maps(maps.collect(), Values::Texts);
        }
        Kind::Integers => {
            let maps = fields.iter().map(|field| match field {
                Some(Value::Integers(map)) => {
                    map.iter().map(|(key, one)| (text(key), *one)).collect()
                }
                _ => Vec::new(),
            });
            return of_maps(maps.collect(), Values::Integers);
        }
    };
    vec![Leaf {
        values,
        present,
        repeated: None,
    }]
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Real(number) => Some(*number),
        _ => None,
    }
}

/// Keys and values of maps. An empty map is one place where nothing is defined.
fn of_maps<T>(maps: Vec<Vec<(ByteArray, T)>>, typed: impl Fn(Vec<T>) -> Values) -> Vec<Leaf> {
    let (mut present, mut repeated) = (Vec::new(), Vec::new());
    for map in &maps {
        present.extend(map.iter().map(|_| 1));
        repeated.extend(
            map.iter()
                .enumerate()
                .map(|(place, _)| i16::from(place > 0)),
        );
        if map.is_empty() {
            present.push(0);
            repeated.push(0);
        }
    }
    let (keys, values): (Vec<ByteArray>, Vec<T>) = maps.into_iter().flatten().unzip();
    let leaf = |values| Leaf {
        values,
        present: present.clone(),
        repeated: Some(repeated.clone()),
    };
    vec![leaf(Values::Texts(keys)), leaf(typed(values))]
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, Row as Read};

    use super::*;

    fn read(path: &Path) -> Vec<Read> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn of<'a>(row: &'a Read, name: &str) -> &'a Field {
        let mut columns = row.get_column_iter();
        columns.find(|(column, _)| *column == name).unwrap().1
    }

    #[test]
    fn what_is_written_comes_back_with_its_types_and_all_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let mut one = Row::default();
        one.set("workload", "hogs");
        one.set("seed", 7_u64);
        let mut two = Row::default();
        two.set("workload", "video");
        two.set("throughput", 0.5);
        write(&path, &run_columns(), &[one, two]).unwrap();
        let rows = read(&path);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].len(), run_columns().len());
        assert_eq!(of(&rows[0], "workload"), &Field::Str("hogs".to_owned()));
        assert_eq!(of(&rows[0], "seed"), &Field::Long(7));
        assert_eq!(of(&rows[0], "throughput"), &Field::Null);
        assert_eq!(of(&rows[1], "throughput"), &Field::Double(0.5));
        // Another workload has the same columns.
        write(&path, &run_columns(), &[]).unwrap();
        assert_eq!(read(&path).len(), 0);
    }

    #[test]
    fn settings_and_counters_are_maps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("maps.parquet");
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            kind,
        };
        let columns = [
            column("settings", Kind::Texts),
            column("counters", Kind::Integers),
        ];
        let row = |settings: &[(&str, &str)], counters: &[(&str, i64)]| {
            let mut row = Row::default();
            let settings = settings
                .iter()
                .map(|(key, one)| ((*key).to_owned(), (*one).to_owned()));
            row.set("settings", Value::Texts(settings.collect()));
            let counters = counters.iter().map(|(key, one)| ((*key).to_owned(), *one));
            row.set("counters", Value::Integers(counters.collect()));
            row
        };
        let rows = [
            row(&[("hz", "100 Hz"), ("slice", "5 ms")], &[]),
            row(&[], &[("steals", 3), ("waits", -1)]),
            row(&[("hz", "250 Hz")], &[("steals", 4)]),
        ];
        write(&path, &columns, &rows).unwrap();
        let texts: Vec<String> = read(&path).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "{settings: {\"hz\" -> \"100 Hz\", \"slice\" -> \"5 ms\"}, counters: {}}",
                "{settings: {}, counters: {\"steals\" -> 3, \"waits\" -> -1}}",
                "{settings: {\"hz\" -> \"250 Hz\"}, counters: {\"steals\" -> 4}}",
            ]
        );
    }
}
