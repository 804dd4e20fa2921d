//! Data sets: the contents of their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

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
pub struct StoredRun {
    /// Its identity: see [`Hashes::cell`](fairground_results::Hashes::cell).
    pub cell: String,
    /// The name of its status.
    pub status: String,
}

/// Calls `each` with the runs in a file of a data set, in its order.
pub fn kept(path: &Path, mut each: impl FnMut(StoredRun)) -> io::Result<()> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(other)?;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(other)?;
        let cells = texts(&*group, "cell").map_err(other)?;
        let statuses = texts(&*group, "status").map_err(other)?;
        let pairs = cells.into_iter().zip(statuses);
        pairs.for_each(|(cell, status)| each(StoredRun { cell, status }));
    }
    Ok(())
}

/// A column of texts that is nowhere absent.
fn texts(group: &dyn RowGroupReader, name: &str) -> Result<Vec<String>, ParquetError> {
    let columns = group.metadata().columns();
    let place = columns.iter().position(|column| column.column_path().parts() == [name]);
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
        return Err(ParquetError::General(format!("{name} is absent in some rows")));
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

/// A file that cannot be read, and why.
pub type Unread = (PathBuf, io::Error);

/// A file of a data set that cannot be used, and why.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Read(PathBuf, io::Error),
    /// It cannot be written.
    Write(PathBuf, io::Error),
}

impl Fault {
    fn read((path, cause): Unread) -> Self {
        Self::Read(path, cause)
    }

    fn write((path, cause): Unwritten) -> Self {
        Self::Write(path, cause)
    }
}

/// Calls `each` with each run of a file and its tasks, which the file beside it, if that is given, has in the same order.
fn rows_of(
    runs: &Path,
    tasks: Option<&Path>,
    mut each: impl FnMut(Row, Vec<Row>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let of_runs = |cause| Fault::Read(runs.to_owned(), cause);
    let of_tasks = |cause| Fault::Read(tasks.unwrap_or(runs).to_owned(), cause);
    let all = tasks.map(rows).transpose().map_err(of_tasks)?;
    let mut all = all.into_iter().flatten().peekable();
    for run in rows(runs).map_err(of_runs)? {
        let run = run.map_err(of_runs)?;
        let cell = run.text("cell");
        let mut own = Vec::new();
        while let Some(task) =
            all.next_if(|task| task.as_ref().map_or(true, |task| task.text("cell") == cell))
        {
            own.push(task.map_err(of_tasks)?);
        }
        each(run, own)?;
    }
    match all.next() {
        None => Ok(()),
        Some(task) => {
            let cell = task.map_err(of_tasks)?.text("cell");
            let message = format!("it has the tasks of {cell} in another place than the runs");
            Err(of_tasks(io::Error::new(io::ErrorKind::InvalidData, message)))
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
            if texts.is_empty() { Value::Integers(integers) } else { Value::Texts(texts) }
        }
        _ => return None,
    })
}

/// Calls `each` with the runs in a file of a data set, one after the other, with the contents of its columns, and with the tasks of the file beside it,
/// if that is given.
pub fn runs_of(runs: &Path, tasks: Option<&Path>, mut each: impl FnMut(Run)) -> Result<(), Unread> {
    let read = rows_of(runs, tasks, |run, tasks| {
        each(restored(&run, &tasks));
        Ok(())
    });
    read.map_err(|(Fault::Read(path, cause) | Fault::Write(path, cause))| (path, cause))
}

/// Files of a data set that become one.
pub struct Pack {
    into: DataFiles,
    /// Rows that are in no group yet: those of small groups wait for others.
    runs: Vec<Row>,
    tasks: Vec<Row>,
}

impl Pack {
    /// No rows yet, in files that will be at these places.
    pub fn create(runs: &Path, tasks: &Path) -> Result<Self, Unwritten> {
        Ok(Self { into: DataFiles::create(runs, tasks)?, runs: Vec::new(), tasks: Vec::new() })
    }

    /// Adds the runs of a file, with their tasks of the file beside it. Of those that are `repeated` by their identity only the ones that `is_wanted`,
    /// given the identity and a number that is the same for equal results.
    ///
    /// A file of large groups without such runs is copied as it is, which takes a hundredth of the time that reading and writing its rows does.
    pub fn add(
        &mut self,
        runs: &Path,
        tasks: &Path,
        repeated: impl Fn(&str) -> bool,
        mut is_wanted: impl FnMut(&str, u64) -> bool,
    ) -> Result<(), Fault> {
        let pair = Pair::open(runs, tasks).map_err(Fault::read)?;
        let [of_runs, of_tasks] =
            [&pair.runs, &pair.tasks].map(|file| file.metadata().file_metadata());
        let is_whole = || {
            let is_whole = pair.is_whole(&repeated);
            is_whole.map_err(|cause| Fault::Read(runs.to_owned(), cause))
        };
        if self.into.are_like(of_runs, of_tasks) && is_whole()? {
            return self.into.copy(runs, tasks).map_err(Fault::write);
        }
        rows_of(runs, Some(tasks), |run, tasks| {
            let cell = run.text("cell");
            if repeated(&cell) && !is_wanted(&cell, fingerprint(&run, &tasks)) {
                return Ok(());
            }
            self.runs.push(run);
            self.tasks.extend(tasks);
            if self.runs.len() + self.tasks.len() < GROUP {
                return Ok(());
            }
            self.write().map_err(Fault::write)
        })
    }

    fn write(&mut self) -> Result<(), Unwritten> {
        self.into.add_rows(&self.runs, &self.tasks)?;
        self.runs.clear();
        self.tasks.clear();
        Ok(())
    }

    /// Puts the files into their places.
    pub fn finish(mut self) -> Result<(), Unwritten> {
        if !self.runs.is_empty() {
            self.write()?;
        }
        self.into.finish()
    }
}

/// A number that is the same for equal results.
fn fingerprint(run: &Row, tasks: &[Row]) -> u64 {
    let rows = std::iter::once(run).chain(tasks);
    let mut hasher = DefaultHasher::new();
    rows.map(Row::fingerprint).for_each(|one| one.hash(&mut hasher));
    hasher.finish()
}

/// A file of runs, and the one beside it with their tasks.
struct Pair {
    runs: SerializedFileReader<File>,
    tasks: SerializedFileReader<File>,
}

impl Pair {
    fn open(runs: &Path, tasks: &Path) -> Result<Self, Unread> {
        let open = |path: &Path| {
            let file = File::open(path);
            let reader = file.and_then(|file| SerializedFileReader::new(file).map_err(other));
            reader.map_err(|cause| (path.to_owned(), cause))
        };
        Ok(Self { runs: open(runs)?, tasks: open(tasks)? })
    }

    /// Whether its groups are large on average, the tasks of each are in the group beside it, and none of their runs is `repeated`.
    fn is_whole(&self, repeated: impl Fn(&str) -> bool) -> io::Result<bool> {
        let groups = self.runs.num_row_groups();
        let [runs, tasks] =
            [&self.runs, &self.tasks].map(|file| file.metadata().file_metadata().num_rows());
        let rows = usize::try_from(runs + tasks).unwrap_or(0);
        if groups != self.tasks.num_row_groups() || rows < groups * GROUP / 2 {
            return Ok(false);
        }
        for number in 0..groups {
            let cells = |file: &SerializedFileReader<File>| {
                let group = file.get_row_group(number).map_err(other)?;
                texts(&*group, "cell").map_err(other)
            };
            let (of_runs, of_tasks) = (cells(&self.runs)?, cells(&self.tasks)?);
            let mut tasks = of_tasks.iter().peekable();
            for cell in &of_runs {
                while tasks.next_if_eq(&cell).is_some() {}
            }
            if tasks.next().is_some() || of_runs.iter().any(|cell| repeated(cell)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files with runs of these cells, each with a task, in groups of this size.
    fn write(folder: &Path, name: &str, cells: &[usize], group: usize) -> [PathBuf; 2] {
        let places = ["runs", "tasks"].map(|table| folder.join(table).join(name));
        let mut files = DataFiles::create(&places[0], &places[1]).unwrap();
        for cells in cells.chunks(group) {
            let row = |cell: &usize| {
                let mut row = Row::default();
                row.set("cell", format!("{cell:032x}").as_str());
                row.set("seed", *cell as u64);
                row
            };
            let runs: Vec<Row> = cells.iter().map(row).collect();
            let tasks: Vec<Row> = cells.iter().map(row).collect();
            files.add_rows(&runs, &tasks).unwrap();
        }
        files.finish().unwrap();
        places
    }

    /// The seeds in a file, by group.
    fn seeds(path: &Path) -> Vec<Vec<u64>> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let sizes = reader.metadata().row_groups().iter();
        let mut all = rows(path).unwrap().map(|row| {
            let row = row.unwrap();
            assert_eq!(row.text("cell"), format!("{:032x}", row.count("seed")));
            row.count("seed")
        });
        sizes.map(|group| all.by_ref().take(group.num_rows() as usize).collect()).collect()
    }

    #[test]
    fn large_groups_are_copied_small_ones_joined_and_repeated_runs_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let half = GROUP / 2;
        let cells = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
        let large = write(folder.path(), "large", &cells(0..2 * half), half);
        let small = write(folder.path(), "small", &cells(90_000..90_003), 1);
        let again = write(folder.path(), "again", &[90_003, 90_000, 90_004], 3);
        let into = ["runs", "tasks"].map(|table| folder.path().join(table).join("into"));
        let mut pack = Pack::create(&into[0], &into[1]).unwrap();
        let is_repeated = |cell: &str| cell.ends_with(&format!("{:x}", 90_000));
        let mut asked = Vec::new();
        for [runs, tasks] in [&small, &large, &again] {
            pack.add(runs, tasks, is_repeated, |_, result| {
                asked.push(result);
                asked.len() == 1
            })
            .unwrap();
        }
        pack.finish().unwrap();
        assert!(asked.len() == 2 && asked[0] == asked[1]);
        let numbers =
            |range: std::ops::Range<usize>| range.map(|one| one as u64).collect::<Vec<_>>();
        let joined = vec![90_000, 90_001, 90_002, 90_003, 90_004];
        let expected = [numbers(0..half), numbers(half..2 * half), joined];
        for path in &into {
            assert_eq!(seeds(path), expected);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [runs, tasks] = write(folder.path(), "one", &[1, 2], 2);
        let into = ["a", "b"].map(|name| folder.path().join(name));
        let mut pack = Pack::create(&into[0], &into[1]).unwrap();
        std::fs::write(&tasks, "no Parquet").unwrap();
        let fault = pack.add(&runs, &tasks, |_| false, |_, _| true);
        assert!(matches!(fault, Err(Fault::Read(path, _)) if path == tasks));
        assert_eq!(runs_of(&runs, Some(&tasks), |_| ()).unwrap_err().0, tasks);
        runs_of(&runs, None, |_| ()).unwrap();
    }
}
