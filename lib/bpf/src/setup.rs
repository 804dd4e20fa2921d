//! A loader's work on an object besides loading it.

use serde::{Deserialize, Serialize};

/// The settings, entries and program runs of a scheduler's loader, as plain data. It belongs to one object on one machine: maps and sections are
/// numbered as in [`crate::Object`], values are the bytes that end up in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Members of the table of callbacks, by name: data, or zeros for a callback that is left out.
    pub operations: Vec<(String, Vec<u8>)>,
    /// Bytes written over global variables.
    pub variables: Vec<VariablePatch>,
    /// Maps with another capacity: number and entries.
    pub map_sizes: Vec<(usize, u32)>,
    /// Entries written into maps before the scheduler is attached, in order.
    pub entries: Vec<MapEntry>,
    /// Programs that are run, in order.
    pub runs: Vec<ProgramRun>,
}

/// Bytes of a section of global variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariablePatch {
    /// Index into [`crate::Object::sections`].
    pub section: usize,
    /// Where in the section the bytes belong. A section that is too short for them grows.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapEntry {
    /// Where it was requested, for errors.
    pub place: String,
    /// Index into [`crate::Object::maps`].
    pub map: usize,
    /// The key.
    pub key: Vec<u8>,
    /// One value, or one for each CPU in a per-CPU map; none in a map of maps.
    pub values: Vec<Vec<u8>>,
    /// In a map of maps, the new map that becomes the value.
    pub inner: Option<NewMap>,
}

/// A map that becomes the value of an entry in a map of maps; in all else it is as that declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMap {
    /// Capacity in entries.
    pub max_entries: u32,
    /// Its entries from the beginning.
    pub entries: Vec<NewEntry>,
}

/// An entry of a new map: the key, and one value, or one for each CPU in a per-CPU map.
pub type NewEntry = (Vec<u8>, Vec<Vec<u8>>);

/// One run of a program, as by `BPF_PROG_TEST_RUN`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRun {
    /// Where it was requested, for errors.
    pub place: String,
    /// The program.
    pub program: String,
    /// The program's context, which the program may write to.
    pub context: Vec<u8>,
    /// Parts of the context that are copied from the context of the previous run.
    pub passed: Vec<Passed>,
    /// Bytes to write, once the program has returned, to addresses that it left in its context: the offset of the address in the context, and
    /// the bytes.
    pub writes: Vec<(usize, Vec<u8>)>,
    /// CPU that the loader runs on.
    pub cpu: usize,
    /// When it runs.
    pub time: RunTime,
    /// Whether it belongs to the previous run, and follows it immediately.
    pub follows: bool,
}

/// A part of a context that is copied from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Offset in the context of the previous run.
    pub from: usize,
    /// Offset in this run's context.
    pub to: usize,
    /// Bytes.
    pub size: usize,
}

/// When a loader runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunTime {
    /// Before the scheduler is attached.
    BeforeAttach,
    /// Once it is attached.
    AfterAttach,
    /// Repeatedly after it was attached, at intervals of this many nanoseconds.
    Every(u64),
}
