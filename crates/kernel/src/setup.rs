//! A loader's work once its scheduler is loaded: the map entries that it writes, and the programs that it runs, once or at an interval.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairground_bpf::{Map as Definition, MapEntry, Object as Parsed, ProgramRun, RunTime, Setup};
use libbpf_rs::{MapCore, MapHandle, MapType, Object};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;

/// The actions once the object is loaded.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    entries: Vec<Entry>,
    runs: Vec<ProgramRun>,
}

/// An entry of a map of this name.
#[derive(Debug)]
struct Entry {
    map: String,
    /// In a map of maps, the definition of the new map.
    inner: Option<Definition>,
    entry: MapEntry,
}

impl Steps {
    /// The actions of `setup`, which is for `parsed`, after loading.
    pub(crate) fn of(parsed: &Parsed, setup: Setup) -> Self {
        let entries = setup.entries.into_iter().map(|entry| {
            let map = &parsed.maps()[entry.map];
            Entry {
                map: map.name.clone(),
                inner: entry.inner.as_ref().and_then(|new| {
                    let mut inner = map.inner.as_deref()?.clone();
                    inner.max_entries = new.max_entries;
                    Some(inner)
                }),
                entry,
            }
        });
        Self { entries: entries.collect(), runs: setup.runs }
    }

    /// Carries out the actions before the scheduler is attached.
    pub(crate) fn before_attaching(&self, object: &Object) -> Result<(), String> {
        for entry in &self.entries {
            entry.write(object).map_err(|error| {
                let place = &entry.entry.place;
                let map = &entry.map;
                format!("{place}: an entry of map {map} cannot be written: {error}")
            })?;
        }
        self.run(object, RunTime::BeforeAttach)
    }

    /// Carries out the actions right after the scheduler has been attached.
    pub(crate) fn after_attaching(&self, object: &Object) -> Result<(), String> {
        self.run(object, RunTime::AfterAttach)
    }

    fn run(&self, object: &Object, time: RunTime) -> Result<(), String> {
        let mut before = Vec::new();
        for run in self.runs.iter().filter(|run| run.time == time) {
            Runner::new(object, run)?.run(&mut before)?;
        }
        Ok(())
    }

    /// Starts the programs that run at an interval; `None` if there are none.
    pub(crate) fn start_repeating(&self, object: &Object) -> Result<Option<Repetition>, String> {
        let mut chains: Vec<Chain> = Vec::new();
        for run in &self.runs {
            let RunTime::Every(interval) = run.time else { continue };
            let runner = Runner::new(object, run)?;
            match chains.last_mut() {
                Some(chain) if run.follows => chain.runners.push(runner),
                _ => chains.push(Chain {
                    interval: Duration::from_nanos(interval),
                    next: Instant::now() + Duration::from_nanos(interval),
                    runners: vec![runner],
                }),
            }
        }
        Ok((!chains.is_empty()).then(|| Repetition::start(chains)))
    }
}

impl Entry {
    fn write(&self, object: &Object) -> io::Result<()> {
        let map = object.maps().find(|map| map.name() == self.map.as_str());
        let map = map.ok_or_else(|| io::Error::other("libbpf knows no such map"))?;
        let key = &self.entry.key;
        if let (Some(inner), Some(entry)) = (&self.inner, &self.entry.inner) {
            let new = create(inner)?;
            for (key, values) in &entry.entries {
                write_values(&new, key, values)?;
            }
            // The kernel keeps the map while it is in the other one.
            return update(map.as_fd(), key, &new.as_fd().as_raw_fd().to_ne_bytes());
        }
        write_values(&map, key, &self.entry.values)
    }
}

/// Writes an entry, with a value for each CPU if it is a per-CPU map.
fn write_values(map: &impl MapCore, key: &[u8], values: &[Vec<u8>]) -> io::Result<()> {
    if !map.map_type().is_percpu() {
        let value = values.first().map_or(&[][..], Vec::as_slice);
        return update(map.as_fd(), key, value);
    }
    // The kernel expects a value for each possible CPU, at multiples of 8 bytes.
    let cpus = libbpf_rs::num_possible_cpus().map_err(io::Error::other)?;
    let size = (map.value_size() as usize).next_multiple_of(8);
    let mut all = vec![0; size * cpus];
    for (target, value) in all.chunks_mut(size).zip(values) {
        target[..value.len()].copy_from_slice(value);
    }
    update(map.as_fd(), key, &all)
}

fn create(definition: &Definition) -> io::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: definition.flags,
        map_extra: definition.map_extra,
        ..Default::default()
    };
    let name: Option<&str> = None;
    MapHandle::create(
        MapType::from(definition.kind),
        name,
        definition.key_size,
        definition.value_size,
        definition.max_entries,
        &options,
    )
    .map_err(io::Error::other)
}

/// Writes an entry. Queues and stacks have no keys.
fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let key = match key {
        [] => std::ptr::null(),
        key => key.as_ptr(),
    };
    // SAFETY: key and value outlive the call, and have the map's sizes: the companion was made for it.
    let result = unsafe {
        libbpf_sys::bpf_map_update_elem(map.as_raw_fd(), key.cast(), value.as_ptr().cast(), 0)
    };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(())
}

/// A program that is ready to be run.
#[derive(Debug)]
struct Runner {
    program: OwnedFd,
    run: ProgramRun,
}

impl Runner {
    fn new(object: &Object, run: &ProgramRun) -> Result<Self, String> {
        let mut programs = object.progs();
        let program = programs.find(|program| program.name() == run.program.as_str());
        let failed = |reason: String| format!("{}: program {}: {reason}", run.place, run.program);
        let program = program.ok_or_else(|| failed("libbpf knows no such program".to_owned()))?;
        let program = program.as_fd().try_clone_to_owned();
        Ok(Self { program: program.map_err(|error| failed(error.to_string()))?, run: run.clone() })
    }

    /// Runs the program on its CPU; `before` is the context that the previous run has left, and is replaced by this run's.
    fn run(&self, before: &mut Vec<u8>) -> Result<(), String> {
        let run = &self.run;
        let failed = |reason: String| format!("{}: program {} {reason}", run.place, run.program);
        let mut context = run.context.clone();
        for passed in &run.passed {
            if let Some(bytes) = before.get(passed.from..passed.from + passed.size) {
                context[passed.to..passed.to + passed.size].copy_from_slice(bytes);
            }
        }
        let ran = on_cpu(run.cpu, || execute(self.program.as_fd(), &mut context));
        match ran.map_err(|error| failed(format!("cannot be run: {error}")))? {
            0 => {}
            result => {
                return Err(failed(format!("returned {result}, with which its loader gives up")));
            }
        }
        for (offset, bytes) in &run.writes {
            let mut address = [0; 8];
            address.copy_from_slice(&context[*offset..*offset + 8]);
            write_to_arena(u64::from_ne_bytes(address), bytes).map_err(|error| {
                failed(format!("left no address in the arena to write to: {error}"))
            })?;
        }
        *before = context;
        Ok(())
    }
}

/// Runs a program and returns its return value.
fn execute(program: BorrowedFd<'_>, context: &mut [u8]) -> io::Result<i32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        ..Default::default()
    };
    if !context.is_empty() {
        options.ctx_in = context.as_mut_ptr().cast();
        options.ctx_size_in = u32::try_from(context.len()).map_err(io::Error::other)?;
    }
    // SAFETY: the context outlives the call, and the program may write to it within its size.
    let result =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(options.retval.cast_signed())
}

/// Runs `action` in the calling thread on this CPU.
fn on_cpu<T>(cpu: usize, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(this, &only)?;
    let done = action();
    sched_setaffinity(this, &allowed)?;
    done
}

/// Writes to memory of this process, where libbpf has mapped the arena; an invalid address is an error.
fn write_to_arena(address: u64, bytes: &[u8]) -> io::Result<()> {
    let target =
        RemoteIoVec { base: usize::try_from(address).map_err(io::Error::other)?, len: bytes.len() };
    let written = process_vm_writev(Pid::this(), &[io::IoSlice::new(bytes)], &[target])?;
    if written < bytes.len() {
        return Err(io::Error::other(format!("{written} bytes of it are there")));
    }
    Ok(())
}

/// Programs that run one after the other at an interval.
#[derive(Debug)]
struct Chain {
    interval: Duration,
    next: Instant,
    runners: Vec<Runner>,
}

impl Chain {
    fn run(&self) -> Result<(), String> {
        let mut before = Vec::new();
        let mut runners = self.runners.iter();
        runners.try_for_each(|runner| runner.run(&mut before))
    }
}

/// A thread that runs programs at intervals, until it is dropped or one of them fails.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// Closed to end the thread.
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Repetition {
    fn start(mut chains: Vec<Chain>) -> Self {
        let (going_on, ended) = channel::<()>();
        let failure = Arc::new(Mutex::new(None));
        let told = failure.clone();
        let thread = std::thread::spawn(move || {
            while let Some(chain) = chains.iter_mut().min_by_key(|chain| chain.next) {
                let wait = chain.next.saturating_duration_since(Instant::now());
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if let Err(reason) = chain.run() {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                    return;
                }
                // Missed runs are not made up for.
                chain.next = (chain.next + chain.interval).max(Instant::now());
            }
        });
        Self { going_on: Some(going_on), thread: Some(thread), failure }
    }

    /// Why it has ended by itself.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Repetition {
    fn drop(&mut self) {
        self.going_on = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been reported.
            let _ = thread.join();
        }
    }
}
