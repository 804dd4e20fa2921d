//! Comparisons as Parquet: a folder with a row per run, and one with a row per task of each run.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_files::Unfinished;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use crate::rows::{
    Column, ColumnType, Row, Value, place_of, run_columns, run_row, task_columns, task_rows,
};
use crate::{Comparison, Run};

/// Writes `runs/runs.parquet` and `tasks/tasks.parquet` into a folder, which is created if needed. The columns are those of the CSV format,
/// with types, and the same for all workloads, so that the files of many commands are one data set.
pub fn write_parquet(comparison: &Comparison, folder: &Path) -> Result<(), Unwritten> {
    let [runs, tasks] = ["runs", "tasks"].map(|name| {
        let file = format!("{name}.parquet");
        folder.join(name).join(file)
    });
    let mut files = DataFiles::create(&runs, &tasks)?;
    files.add(&comparison.runs, &comparison.version)?;
    files.finish()
}

/// About how many rows, those of tasks included, become a group. Each group has a description of each of its columns, some 10 KB, and is in memory as
/// rows until it is written.
pub const GROUP: usize = 16_000;

/// A file that cannot be written, and why.
pub type Unwritten = (PathBuf, io::Error);

/// A part of a data set that is being written: a file with a row per run, and one with a row per task of each run. They appear when they are
/// finished, that of the tasks first, so that a run that is there has its tasks.
pub struct DataFiles {
    runs: TableFile,
    tasks: TableFile,
}

impl DataFiles {
    /// Files that will be at these places; their folders are created if needed.
    pub fn create(runs: &Path, tasks: &Path) -> Result<Self, Unwritten> {
        Ok(Self {
            runs: TableFile::create(runs, run_columns())?,
            tasks: TableFile::create(tasks, task_columns())?,
        })
    }

    /// Adds runs, made by this version of fairground.
    pub fn add(&mut self, runs: &[Run], fairground: &str) -> Result<(), Unwritten> {
        let of_runs: Vec<Row> = runs.iter().map(|run| run_row(run, fairground)).collect();
        let of_tasks = runs.iter().flat_map(|run| task_rows(run, fairground));
        self.tasks.add(&of_tasks.collect::<Vec<_>>())?;
        self.runs.add(&of_runs)
    }

    /// Adds rows as they were read from other files of the data set.
    pub(crate) fn add_rows(&mut self, runs: &[Row], tasks: &[Row]) -> Result<(), Unwritten> {
        self.tasks.add(tasks)?;
        self.runs.add(runs)
    }

    /// Adds all groups of other files of the data set as they are.
    pub(crate) fn copy(&mut self, runs: &Path, tasks: &Path) -> Result<(), Unwritten> {
        self.tasks.copy(tasks)?;
        self.runs.copy(runs)
    }

    /// Whether the files have the columns of these, in the same form.
    pub(crate) fn are_like(&self, runs: &FileMetaData, tasks: &FileMetaData) -> bool {
        self.runs.is_like(runs) && self.tasks.is_like(tasks)
    }

    /// Puts the files into their places.
    pub fn finish(self) -> Result<(), Unwritten> {
        self.tasks.finish()?;
        self.runs.finish()
    }
}

fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // A row group has runs of all kinds, so nobody could leave one out by them.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    // Columns whose values are all different, but for those of the tasks of a run, or count up: to name them by their place in a list would make them
    // longer.
    for (column, encoding) in [
        ("cell", Encoding::DELTA_BYTE_ARRAY),
        ("seed", Encoding::DELTA_BINARY_PACKED),
        ("repeat", Encoding::DELTA_BINARY_PACKED),
    ] {
        let path = ColumnPath::from(column);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
    }
    builder.build()
}

/// A file with a table that is being written.
struct TableFile {
    path: PathBuf,
    columns: Vec<Column>,
    file: Unfinished,
    writer: SerializedFileWriter<File>,
}

impl TableFile {
    /// A file in which every field may be absent.
    fn create(path: &Path, columns: Vec<Column>) -> Result<Self, Unwritten> {
        let open = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>();
            let schema = Type::group_type_builder("schema")
                .with_fields(fields.map_err(other)?)
                .build()
                .map_err(other)?;
            let properties = properties();
            let file = Unfinished::create(path)?;
            let inner = file.file().try_clone()?;
            let writer = SerializedFileWriter::new(inner, Arc::new(schema), Arc::new(properties));
            Ok((file, writer.map_err(other)?))
        };
        let (file, writer) = open().map_err(|error| (path.to_owned(), error))?;
        Ok(Self { path: path.to_owned(), columns, file, writer })
    }

    /// Adds these rows as a group.
    fn add(&mut self, rows: &[Row]) -> Result<(), Unwritten> {
        self.try_add(rows).map_err(|error| (self.path.clone(), error))
    }

    fn try_add(&mut self, rows: &[Row]) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(other)?;
        for column in &self.columns {
            let place = place_of(&column.name);
            let fields: Vec<Option<&Value>> = rows.iter().map(|row| row.at(place)).collect();
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
        Ok(())
    }

    fn is_like(&self, other: &FileMetaData) -> bool {
        self.writer.schema_descr().columns() == other.schema_descr().columns()
    }

    /// Adds the groups of another file as they are. The columns have to be the same.
    fn copy(&mut self, from: &Path) -> Result<(), Unwritten> {
        self.try_copy(from).map_err(|error| (from.to_owned(), error))
    }

    fn try_copy(&mut self, from: &Path) -> io::Result<()> {
        let file = File::open(from)?;
        let reader = SerializedFileReader::new(file.try_clone()?).map_err(other)?;
        for group in reader.metadata().row_groups() {
            let mut copy = self.writer.next_row_group().map_err(other)?;
            for column in group.columns() {
                let whole = ColumnCloseResult {
                    bytes_written: column.compressed_size().cast_unsigned(),
                    rows_written: group.num_rows().cast_unsigned(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(&file, whole).map_err(other)?;
            }
            copy.close().map_err(other)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Unwritten> {
        let Self { path, file, writer, .. } = self;
        let finish = || {
            writer.close().map_err(other)?;
            file.finish()
        };
        finish().map_err(|error| (path, error))
    }
}

pub(crate) fn other(error: ParquetError) -> io::Error {
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
        ColumnType::Text => primitive(&column.name, Physical::BYTE_ARRAY, optional),
        ColumnType::Integer => primitive(&column.name, Physical::INT64, optional),
        ColumnType::Real => primitive(&column.name, Physical::DOUBLE, optional),
        ColumnType::Texts => map(&column.name, Physical::BYTE_ARRAY),
        ColumnType::Integers => map(&column.name, Physical::INT64),
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
            Arc::new(primitive("key", Physical::BYTE_ARRAY, Repetition::REQUIRED)?),
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
fn leaves(kind: ColumnType, fields: &[Option<&Value>]) -> Vec<Leaf> {
    let present = fields.iter().map(|field| field.is_some().into()).collect();
    let there = fields.iter().flatten();
    let values = match kind {
        ColumnType::Text => Values::Texts(there.filter_map(|value| plain_text(value)).collect()),
        ColumnType::Integer => Values::Integers(there.filter_map(|value| integer(value)).collect()),
        ColumnType::Real => Values::Reals(there.filter_map(|value| real(value)).collect()),
        ColumnType::Texts => {
            let maps = fields.iter().map(|field| match field {
                Some(Value::Texts(map)) => {
                    map.iter().map(|(key, one)| (text(key), text(one))).collect()
                }
                _ => Vec::new(),
            });
            return of_maps(maps.collect(), Values::Texts);
        }
        ColumnType::Integers => {
            let maps = fields.iter().map(|field| match field {
                Some(Value::Integers(map)) => {
                    map.iter().map(|(key, one)| (text(key), *one)).collect()
                }
                _ => Vec::new(),
            });
            return of_maps(maps.collect(), Values::Integers);
        }
    };
    vec![Leaf { values, present, repeated: None }]
}

fn plain_text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Text(one) => Some(text(one)),
        _ => None,
    }
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
        repeated.extend(map.iter().enumerate().map(|(place, _)| i16::from(place > 0)));
        if map.is_empty() {
            present.push(0);
            repeated.push(0);
        }
    }
    let (keys, values): (Vec<ByteArray>, Vec<T>) = maps.into_iter().flatten().unzip();
    let leaf = |values| Leaf { values, present: present.clone(), repeated: Some(repeated.clone()) };
    vec![leaf(Values::Texts(keys)), leaf(typed(values))]
}

#[cfg(test)]
mod tests {
    use parquet::record::{Field, Row as Read};

    use super::*;

    fn write(path: &Path, columns: &[Column], rows: &[Row]) -> Result<(), Unwritten> {
        let mut file = TableFile::create(path, columns.to_vec())?;
        file.add(rows)?;
        file.finish()
    }

    fn read(path: &Path) -> Vec<Read> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
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
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let columns =
            [column("settings", ColumnType::Texts), column("counters", ColumnType::Integers)];
        let row = |settings: &[(&str, &str)], counters: &[(&str, i64)]| {
            let mut row = Row::default();
            let settings = settings.iter().map(|(key, one)| ((*key).to_owned(), (*one).to_owned()));
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
