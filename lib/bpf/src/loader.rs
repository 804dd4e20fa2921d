//! A loader that runs beside a simulation: the demands of its threads on the kernel, and the replies.

use serde::{Deserialize, Serialize};

use crate::setup::{NewMap, Setup};

/// Process id of a loader in a simulation. Its further threads have the numbers after it.
pub const LOADER_PID: i32 = 500;

/// The state of a loader's thread once its scheduler has been attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderThread {
    /// Its name.
    pub name: String,
    /// How it is scheduled.
    pub attributes: ThreadAttributes,
    /// The event for which it waits; `None` if it continues as soon as the kernel lets it.
    pub wait: Option<Wait>,
}

/// How a thread is scheduled, as system calls set it.
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
    /// When it ends at the latest, in nanoseconds on the kernel's clock.
    pub until: Option<u64>,
}

/// A thread's activity since it was told to continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of system calls that it has made, including the current one.
    pub calls: u64,
    /// Threads whose wait it has ended.
    pub woken: Vec<u32>,
    /// Its demand now.
    pub demand: Demand,
}

/// A call of bpf(2) about the scheduler's object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BpfCall {
    /// An operation on a map, by its number in the object.
    Map {
        /// Number of the map.
        map: usize,
        /// The operation.
        operation: MapOperation,
    },
    /// A run of one of the scheduler's programs.
    Run {
        /// The program.
        program: String,
        /// Its context, which is returned as the program leaves it.
        context: Vec<u8>,
    },
}

/// A thread's demand on the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Demand {
    /// A call of bpf(2).
    Bpf(BpfCall),
    /// Nothing: it has only used time.
    Time,
    /// To give up its CPU.
    Yield,
    /// To wait.
    Wait(Wait),
    /// To create a thread, which gets the next number. The result of the reply is not below 0 if the thread now exists.
    Spawn {
        /// The thread's name.
        name: String,
    },
    /// To be scheduled differently from now on.
    Attributes(ThreadAttributes),
    /// To load the scheduler again. Nothing is left of the one before it.
    Load {
        /// The loader's settings and entries so far.
        setup: Box<Setup>,
        /// The address at which it has its arena now, if it has one.
        arena: Option<u64>,
    },
    /// To attach the scheduler that was loaded again.
    Attach {
        /// The loader's settings, now with the table of callbacks.
        setup: Box<Setup>,
    },
    /// To end.
    Exit,
    /// To end with the whole loader, for this reason.
    End {
        /// How the loader ended.
        how: String,
    },
}

/// An operation on a map, as in bpf(2). A value of a per-CPU map consists of those of all CPUs, each rounded up to 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapOperation {
    /// The value for a key.
    LookUp(Vec<u8>),
    /// The value for a key, which is removed from the map.
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
    /// To remove a key.
    Delete(Vec<u8>),
    /// The key after this one, or the first.
    NextKey(Option<Vec<u8>>),
}

/// The reply to a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The result: the return value of a program, otherwise 0 or a negative error number.
    pub result: i64,
    /// The value, the key or the context that was asked for.
    pub bytes: Vec<u8>,
}

/// The loader of a scheduler, whose threads continue as tasks of the simulation. Between two system calls a thread runs for real, alone and in
/// no virtual time; its demand is met when its CPU time has passed in the simulation.
pub trait Loader {
    /// Memory shared by the loader and the kernel, for at least `size` bytes of the object's section with this number.
    fn section(&mut self, number: usize, size: usize) -> Option<*mut u8>;

    /// The address at which the loader has its arena, if it has one.
    fn arena(&self) -> Option<u64>;

    /// Maps the memory of the loader's arena over the `size` bytes at `window`; `false` if that is not possible.
    fn map_arena(&mut self, window: *mut u8, size: usize) -> bool;

    /// Lets the loader continue until it attaches the scheduler, with the reply to its last call. Returns the next call that needs a reply, and
    /// the CPU on which it is made, or nothing once the scheduler is attached.
    fn prepare(&mut self, reply: Reply) -> Result<Option<(usize, BpfCall)>, String>;

    /// The loader's threads, once it has attached the scheduler; the first is the one that did so.
    fn threads(&mut self) -> Vec<LoaderThread>;

    /// Tells the loader that its scheduler has been unloaded and asks to be loaded again.
    fn unloaded(&mut self);

    /// Tells the loader which CPUs are offline now.
    fn offline(&mut self, cpus: &[usize]);

    /// Lets `thread` continue at `now`, in nanoseconds on the kernel's clock, with the reply to its demand.
    fn resume(&mut self, thread: u32, reply: Reply, now: u64) -> Result<Request, String>;
}
