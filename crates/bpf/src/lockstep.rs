//! A loader that goes on beside a simulation: what its threads ask of the kernel, and what they are told.

use serde::{Deserialize, Serialize};

use crate::setup::NewMap;

/// Process id of a loader in a simulation. Its further threads have the numbers behind it.
pub const LOADER_PID: i32 = 500;

/// How a thread of a loader is when its scheduler has been attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderThread {
    /// Its name.
    pub name: String,
    /// What it is scheduled by.
    pub attributes: ThreadAttributes,
    /// What it waits for; it is the kernel's turn to let the others go on.
    pub wait: Option<Wait>,
}

/// What a thread is scheduled by, as system calls give it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadAttributes {
    /// `SCHED_*`.
    pub policy: u32,
    /// Real-time priority.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
    /// CPUs that it may use; `None`: all.
    pub cpus: Option<Vec<u32>>,
}

/// A wait of a thread: for another thread of the loader, for a time, or for whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When it ends at the latest, nanoseconds of the kernel's clock.
    pub until: Option<u64>,
}

/// What a thread has come to since it was told to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// System calls that it has made, the one that it is in included.
    pub calls: u64,
    /// Threads whose wait it has ended.
    pub woken: Vec<u32>,
    /// What it needs now.
    pub demand: Demand,
}

/// A call of bpf(2) about the scheduler's object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BpfCall {
    /// Something of a map, by its number in the object.
    Map {
        /// Number of the map.
        map: usize,
        /// What.
        operation: MapOperation,
    },
    /// A run of one of the scheduler's programs.
    Run {
        /// The program.
        program: String,
        /// Its context, which comes back as the program leaves it.
        context: Vec<u8>,
    },
}

/// What a thread needs of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Demand {
    /// A call of bpf(2) carried out.
    Bpf(BpfCall),
    /// Nothing: it has only used time.
    Time,
    /// To give up its CPU.
    Yield,
    /// To wait.
    Wait(Wait),
    /// To make a thread, whose number is the next. The reply's result is what it gets for it: not below 0 if there is one now.
    Spawn {
        /// The thread's name.
        name: String,
    },
    /// To be scheduled by something else from now on.
    Attributes(ThreadAttributes),
    /// To end.
    Exit,
    /// To end with the whole loader, for this reason.
    End {
        /// How the loader ended.
        how: String,
    },
}

/// An operation on a map, as bpf(2) has them. A value of a map with values for each CPU is those of all CPUs, each rounded up to 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapOperation {
    /// The value for a key.
    LookUp(Vec<u8>),
    /// The value for a key, which leaves the map.
    Take(Vec<u8>),
    /// To set the value for a key.
    Update {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// `BPF_ANY`, `BPF_NOEXIST` or `BPF_EXIST`.
        flags: u64,
    },
    /// To put a new map under a key of a map of maps.
    Insert {
        /// The key.
        key: Vec<u8>,
        /// The map.
        map: NewMap,
    },
    /// To take a key out.
    Delete(Vec<u8>),
    /// The key behind this one, or the first.
    NextKey(Option<Vec<u8>>),
}

/// What a thread is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The result: of a program what it returned, otherwise 0 or an error number, negative.
    pub result: i64,
    /// The value, the key or the context that was asked for.
    pub bytes: Vec<u8>,
}

/// The loader of a scheduler, whose threads go on as tasks of the simulation. Between two system calls a thread runs for real, in no virtual
/// time and alone; what it asks for then happens when its CPU time has passed in the simulation.
pub trait Loader {
    /// Memory that is the loader's and the kernel's, for at least `size` bytes of the section of the object with this number.
    fn section(&mut self, number: usize, size: usize) -> Option<*mut u8>;

    /// Puts the memory of the loader's arena in place of `size` bytes at `window`; the result is the address at which the loader has it.
    fn arena(&mut self, window: *mut u8, size: usize) -> Option<u64>;

    /// Lets the loader go on until it attaches the scheduler, with the reply to its last call; the result is the next call that it needs
    /// a reply to and the CPU on which it makes that, or nothing once it has attached the scheduler.
    ///
    /// # Errors
    ///
    /// Why it does not attach one.
    fn prepare(&mut self, reply: Reply) -> Result<Option<(usize, BpfCall)>, String>;

    /// The loader's threads, once it has attached the scheduler; the first is the one that did.
    fn threads(&mut self) -> Vec<LoaderThread>;

    /// Lets `thread` go on from `now` on, in nanoseconds of the kernel's clock, with the reply to what it asked for.
    ///
    /// # Errors
    ///
    /// Why it cannot be followed.
    fn resume(&mut self, thread: u32, reply: Reply, now: u64) -> Result<Request, String>;
}
