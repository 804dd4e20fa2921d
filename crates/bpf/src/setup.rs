//! What a loader does to an object besides loading it.

use serde::{Deserialize, Serialize};

/// What a scheduler's loader sets, fills in and runs, as plain data. It belongs to one object on one machine: maps and sections are
/// numbered as in [`crate::Object`], values are the bytes that end up in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Programs other than callbacks that are loaded or not, whatever their section says.
    pub programs: Vec<(String, bool)>,
    /// Members of the table of callbacks, by name: data, or zeros for a callback that is left out.
    pub operations: Vec<(String, Vec<u8>)>,
    /// Bytes written over global variables.
    pub variables: Vec<VariablePatch>,
    /// Maps that get another capacity: number and entries.
    pub map_sizes: Vec<(usize, u32)>,
    /// Entries written into maps before the scheduler is attached, in order.
    pub entries: Vec<MapEntry>,
    /// Programs that are run, in order.
    pub runs: Vec<ProgramRun>,
}

/// Bytes of a section of global variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePatch {
    /// Index into [`crate::Object::sections`].
    pub section: usize,
    /// Where the bytes lie in the section. A section that ends before they do grows.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Where it is asked for, for errors.
    pub place: String,
    /// Index into [`crate::Object::maps`].
    pub map: usize,
    /// The key.
    pub key: Vec<u8>,
    /// One value, or one for each CPU if the map has such; none in a map of maps.
    pub values: Vec<Vec<u8>>,
    /// In a map of maps, the new map that becomes the value.
    pub inner: Option<NewMap>,
}

/// A map that becomes the value of an entry in a map of maps; it is what that declares, but for this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMap {
    /// Entries that it has room for.
    pub max_entries: u32,
    /// What is in it from the beginning.
    pub entries: Vec<NewEntry>,
}

/// An entry of a new map: the key, and one value, or one for each CPU if the map has such.
pub type NewEntry = (Vec<u8>, Vec<Vec<u8>>);

/// One run of a program, as `BPF_PROG_TEST_RUN` does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// Where it is asked for, for errors.
    pub place: String,
    /// The program.
    pub program: String,
    /// The program's context; it may write into it.
    pub context: Vec<u8>,
    /// Parts of the context that are taken from what the run before this one left in its own.
    pub passed: Vec<Passed>,
    /// What is written, once the program has returned, to addresses that it left in its context: the address' offset in the context,
    /// and the bytes.
    pub writes: Vec<(usize, Vec<u8>)>,
    /// CPU that the loader runs on.
    pub cpu: usize,
    /// When it runs.
    pub time: RunTime,
    /// Whether it belongs to the run before it, and runs right after that.
    pub follows: bool,
}

/// A part of a context, taken from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Offset in the context of the run before.
    pub from: usize,
    /// Offset in this run's context.
    pub to: usize,
    /// Bytes.
    pub size: usize,
}

/// When a loader runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunTime {
    /// Before the scheduler is attached.
    BeforeAttach,
    /// Once it is attached.
    AfterAttach,
    /// Again and again after it was attached, with this many nanoseconds between.
    Every(u64),
}
