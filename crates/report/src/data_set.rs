//! Data sets: the contents of their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use crate::Run;
use crate::parquet_format::{DataFiles, GROUP, Unwritten, other};
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

/// The rows of a file, which are read as they are asked for.
fn rows(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Row>>> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(other)?;
    let read = RowIter::from_file_into(Box::new(reader));
    Ok(read.map(|read| {
        let mut row = Row::default();
        for (name, field) in read.map_err(other)?.get_column_iter() {
            if is_column(name) {
                row.set_some(name, value(field));
            }
        }
        Ok(row)
    }))
}

/// Calls `each` with each run of a file and its tasks, which the file beside it, if that is given, has in the same order.
fn rows_of(
    runs: &Path,
    tasks: Option<&Path>,
    mut each: impl FnMut(Row, Vec<Row>) -> io::Result<()>,
) -> io::Result<()> {
    let all = tasks.map(rows).transpose()?;
    let mut all = all.into_iter().flatten().peekable();
    for run in rows(runs)? {
        let run = run?;
        let cell = run.text("cell");
        let mut own = Vec::new();
        while let Some(task) =
            all.next_if(|task| task.as_ref().map_or(true, |task| task.text("cell") == cell))
        {
            own.push(task?);
        }
        each(run, own)?;
    }
    match all.next() {
        None => Ok(()),
        Some(task) => {
            let cell = task?.text("cell");
            let message = format!("the file of the tasks has those of {cell} in another place");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
    }
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

/// Calls `each` with the runs in a file of a data set, one after the other, with the contents of its columns, and with the tasks of the file beside it,
/// if that is given.
///
/// # Errors
///
/// If one of them cannot be read, or they do not belong together.
pub fn runs_of(runs: &Path, tasks: Option<&Path>, mut each: impl FnMut(Run)) -> io::Result<()> {
    rows_of(runs, tasks, |run, tasks| {
        each(restored(&run, &tasks));
        Ok(())
    })
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
    let (mut of_runs, mut of_tasks) = (Vec::new(), Vec::new());
    let mut unwritten = None;
    let read = rows_of(runs, Some(tasks), |run, tasks| {
        if !is_wanted(&run.text("cell"), run.fingerprint()) {
            return Ok(());
        }
        of_runs.push(run);
        of_tasks.extend(tasks);
        if of_runs.len() + of_tasks.len() >= GROUP {
            into.add_rows(&of_runs, &of_tasks).map_err(|failure| {
                unwritten = Some(failure);
                io::ErrorKind::Other
            })?;
            of_runs.clear();
            of_tasks.clear();
        }
        Ok(())
    });
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    read.map_err(|error| (runs.to_owned(), error))?;
    match of_runs.is_empty() {
        true => Ok(()),
        false => into.add_rows(&of_runs, &of_tasks),
    }
}
