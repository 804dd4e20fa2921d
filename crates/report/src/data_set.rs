//! Data sets: the contents of their files.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::record::Field;

use crate::Run;
use crate::parquet_format::{DataFiles, Unwritten, other};
use crate::restore::restored;
use crate::rows::{Row, Value, is_column};

/// A run of a data set: which one, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its identity: see [`Hashes::cell`](fairground_results::Hashes::cell).
    pub cell: String,
    /// The name of its status.
    pub status: String,
}

/// The runs in a file of a data set, in its order.
///
/// # Errors
///
/// If it cannot be read.
pub fn kept(path: &Path) -> io::Result<Vec<Kept>> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(other)?;
    let mut all = Vec::new();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(other)?;
        let cells = texts(&*group, "cell").map_err(other)?;
        let statuses = texts(&*group, "status").map_err(other)?;
        let pairs = cells.into_iter().zip(statuses);
        all.extend(pairs.map(|(cell, status)| Kept { cell, status }));
    }
    Ok(all)
}

/// A column of texts that is nowhere absent.
fn texts(group: &dyn RowGroupReader, name: &str) -> Result<Vec<String>, ParquetError> {
    let columns = group.metadata().columns();
    let place = columns
        .iter()
        .position(|column| column.column_path().parts() == [name]);
    let lacks = || ParquetError::General(format!("there is no column {name}"));
    let mut reader = get_typed_column_reader::<ByteArrayType>(
        group.get_column_reader(place.ok_or_else(lacks)?)?,
    );
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
    let (mut levels, mut values): (Vec<i16>, Vec<ByteArray>) = (Vec::new(), Vec::new());
    while levels.len() < rows {
        let (read, ..) =
            reader.read_records(rows - levels.len(), Some(&mut levels), None, &mut values)?;
        if read == 0 {
            break;
        }
    }
    if values.len() < rows {
        return Err(ParquetError::General(format!(
            "{name} is absent in some rows"
        )));
    }
    let text = |value: &ByteArray| Ok(value.as_utf8()?.to_owned());
    values.iter().map(text).collect()
}

/// The rows of a file.
fn rows(path: &Path) -> io::Result<Vec<Row>> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(other)?;
    let mut all = Vec::new();
    for read in reader.get_row_iter(None).map_err(other)? {
        let read = read.map_err(other)?;
        let mut row = Row::default();
        for (name, field) in read.get_column_iter() {
            if is_column(name) {
                row.set_some(name, value(field));
            }
        }
        all.push(row);
    }
    Ok(all)
}

fn value(field: &Field) -> Option<Value> {
    Some(match field {
        Field::Str(text) => Value::Text(text.clone()),
        Field::Long(number) => Value::Integer(*number),
        Field::Double(number) => Value::Real(*number),
        Field::MapInternal(map) => {
            let mut texts = BTreeMap::new();
            let mut integers = BTreeMap::new();
            for (key, one) in map.entries() {
                match (key, one) {
                    (Field::Str(key), Field::Str(text)) => {
                        texts.insert(key.clone(), text.clone());
                    }
                    (Field::Str(key), Field::Long(number)) => {
                        integers.insert(key.clone(), *number);
                    }
                    _ => {}
                }
            }
            match texts.is_empty() {
                true => Value::Integers(integers),
                false => Value::Texts(texts),
            }
        }
        _ => return None,
    })
}

/// The runs in a file of a data set, with the contents of its columns, and with the tasks of the file beside it, if that is given.
///
/// # Errors
///
/// If one of them cannot be read.
pub fn runs_of(runs: &Path, tasks: Option<&Path>) -> io::Result<Vec<Run>> {
    let mut of_runs: HashMap<String, Vec<Row>> = HashMap::new();
    for task in tasks.map(rows).transpose()?.unwrap_or_default() {
        of_runs.entry(task.text("cell")).or_default().push(task);
    }
    let runs = rows(runs)?.into_iter();
    let with_tasks = runs.map(|run| {
        let tasks = of_runs.remove(&run.text("cell")).unwrap_or_default();
        restored(&run, &tasks)
    });
    Ok(with_tasks.collect())
}

/// Adds to `into` those runs of a file, with their tasks of the file beside it, that `is_wanted` for the run's identity and a number that is the same
/// for equal rows.
///
/// # Errors
///
/// The file that cannot be read or written, and why.
pub fn pack(
    into: &mut DataFiles,
    runs: &Path,
    tasks: &Path,
    mut is_wanted: impl FnMut(&str, u64) -> bool,
) -> Result<(), Unwritten> {
    let read = |path: &Path| rows(path).map_err(|error| (path.to_owned(), error));
    let mut wanted = std::collections::HashSet::new();
    let mut of_runs = read(runs)?;
    of_runs.retain(|row| {
        let cell = row.text("cell");
        let is_wanted = is_wanted(&cell, row.fingerprint());
        if is_wanted {
            wanted.insert(cell);
        }
        is_wanted
    });
    let mut of_tasks = read(tasks)?;
    of_tasks.retain(|row| wanted.contains(&row.text("cell")));
    into.add_rows(&of_runs, &of_tasks)
}
