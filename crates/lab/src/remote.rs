//! A scheduler's loader alongside a simulation: the loader is followed in this process, the simulation has its own process, and a socket connects them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use fairground_bpf::{BpfCall, Demand, Loader, LoaderThread, Reply, Request, Setup};
use fairground_capture::{Captured, Followed, KernelFacts, Memory, Place};
use fairground_companion::Companion;
use fairground_machine::{Machine, Online};
use fairground_simulator::{Release, Scheduler};
use serde::{Deserialize, Serialize};

use crate::contender::Contender;
use crate::error::Error;

/// The address of memory that a simulation shares with a loader: the same in every run, after the simulation's own memory.
const BASE: usize = 0x2100_0000_0000;

/// The simulated kernel, as loaders see it.
pub(crate) struct SimulatedKernel;

impl KernelFacts for SimulatedKernel {
    fn constants(&self) -> Vec<(&'static str, u64)> {
        Scheduler::constants().collect()
    }

    fn kconfig(&self, name: &str) -> Option<u64> {
        Scheduler::kconfig(name)
    }

    fn has_function(&self, name: &str) -> bool {
        Scheduler::has_function(name)
    }
}

/// A question from a simulation.
#[derive(Serialize, Deserialize)]
enum Question {
    /// The loader's needs before it attaches.
    Prepare { reply: Reply },
    /// Which threads exist; `call_cost` is the time of a system call, in nanoseconds.
    Threads { call_cost: u64 },
    /// A thread's next step.
    Resume { thread: u32, reply: Reply, now: u64 },
    /// Nothing: its scheduler has been unloaded.
    Unloaded,
    /// Nothing: these CPUs are offline.
    Offline { cpus: Vec<usize> },
}

/// A loader that waits for a simulation.
pub(crate) struct Waiting {
    followed: Followed,
    /// The memory that it shares.
    pub memory: Vec<Memory>,
    /// CPUs that are offline.
    offline: Vec<usize>,
}

/// The scheduler of a loader, and the kernel and machine of its simulation.
pub(crate) struct Site<'a> {
    pub contender: &'a Contender,
    pub release: Release,
    pub machine: &'a Machine,
}

impl Waiting {
    /// Runs a loader until it needs a kernel, on `machine`.
    pub(crate) fn start(command: &[String], machine: &Machine) -> Result<Self, Error> {
        let unusable = |reason| Error::Capture { command: command.join(" "), reason };
        let followed = fairground_capture::follow(command, machine, &SimulatedKernel);
        let followed = followed.map_err(unusable)?;
        let memory = followed.memory().map_err(unusable)?;
        Ok(Self { followed, memory, offline: Vec::new() })
    }

    /// Whether it has attached its scheduler.
    pub(crate) fn is_attached(&self) -> bool {
        self.followed.is_attached()
    }

    /// Its actions so far.
    pub(crate) fn captured(&mut self) -> Result<Captured, fairground_capture::Error> {
        self.followed.captured()
    }

    /// Its settings so far, for a scheduler that it loads again.
    fn setup(&mut self, site: &Site) -> Result<Setup, Error> {
        let captured = self.captured().map_err(|reason| Error::Capture {
            command: site.contender.name().to_owned(),
            reason,
        })?;
        let companion = Companion::parse("the loader", &captured.companion)?;
        let online = Online::without(site.machine, &self.offline);
        site.contender.prepare_as(companion, &online, site.release).map(|prepared| prepared.setup)
    }

    /// Lets a thread continue; a demand gets the settings that belong to it.
    fn resume(
        &mut self,
        site: &Site,
        (thread, reply, now): (u32, &Reply, u64),
    ) -> Result<Request, String> {
        let mut request = self.followed.resume(thread, reply, now)?;
        if let Demand::Load { setup, .. } | Demand::Attach { setup } = &mut request.demand {
            let found = self.setup(site).map_err(|error| error.to_string())?;
            **setup = found;
        }
        if let Demand::Load { arena, .. } = &mut request.demand {
            *arena = self.followed.arena().map_err(|error| error.to_string())?;
        }
        Ok(request)
    }

    /// Answers a simulation until it ends.
    pub(crate) fn serve(&mut self, site: &Site, socket: UnixStream) -> io::Result<()> {
        let mut answers = socket.try_clone()?;
        for line in BufReader::new(socket).lines() {
            let mut answer = match serde_json::from_str(&line?)? {
                Question::Prepare { reply } => {
                    let prepared = self.followed.prepare(&reply);
                    serde_json::to_vec(&prepared.map_err(|error| error.to_string()))?
                }
                Question::Threads { call_cost } => {
                    serde_json::to_vec(&self.followed.threads(call_cost))?
                }
                Question::Resume { thread, reply, now } => {
                    serde_json::to_vec(&self.resume(site, (thread, &reply, now)))?
                }
                Question::Unloaded => serde_json::to_vec(&self.followed.unloaded())?,
                Question::Offline { cpus } => {
                    self.offline.clone_from(&cpus);
                    serde_json::to_vec(&self.followed.set_offline(cpus)?)?
                }
            };
            answer.push(b'\n');
            answers.write_all(&answer)?;
        }
        Ok(())
    }
}

/// The loader as the simulation sees it.
pub(crate) struct Remote<'a> {
    socket: BufReader<&'a UnixStream>,
    memory: &'a [Memory],
    /// The address at which the loader has its arena.
    arena: Option<u64>,
    /// Address for the next section.
    next: usize,
    call_cost: u64,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(socket: &'a UnixStream, memory: &'a [Memory], call_cost: u64) -> Self {
        let arena = memory.iter().find_map(|one| match one.place {
            Place::Arena(address) => Some(address),
            Place::Section(_) => None,
        });
        Self { socket: BufReader::new(socket), memory, arena, next: BASE, call_cost }
    }

    fn ask<T: for<'de> Deserialize<'de>>(&mut self, question: &Question) -> io::Result<T> {
        let mut bytes = serde_json::to_vec(question)?;
        bytes.push(b'\n');
        self.socket.get_mut().write_all(&bytes)?;
        let mut line = String::new();
        self.socket.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Maps a file at a free address or, with `MAP_FIXED`, over the mapping there.
///
/// # Safety
///
/// With `MAP_FIXED`, the mapping there must no longer be used.
unsafe fn map(file: &File, address: usize, length: usize, flags: i32) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, file) = (libc::MAP_SHARED | flags, file.as_raw_fd());
    // SAFETY: guaranteed by the caller.
    let memory = unsafe { libc::mmap(address as *mut _, length, protection, flags, file, 0) };
    (memory as usize == address).then_some(memory.cast())
}

impl Loader for Remote<'_> {
    fn section(&mut self, number: usize, size: usize) -> Option<*mut u8> {
        const PAGE: usize = 4096;
        let place = Place::Section(number);
        let memory = self.memory.iter().find(|one| one.place == place)?;
        let (length, address) = (size.max(1).next_multiple_of(PAGE), self.next);
        self.next += length + PAGE;
        // SAFETY: the flag replaces no other mapping.
        unsafe { map(&memory.file, address, length, libc::MAP_FIXED_NOREPLACE) }
    }

    fn arena(&self) -> Option<u64> {
        self.arena
    }

    fn map_arena(&mut self, window: *mut u8, size: usize) -> bool {
        let mut memory = self.memory.iter();
        let Some(arena) = memory.find(|one| matches!(one.place, Place::Arena(_))) else {
            return false;
        };
        // SAFETY: the arena's memory was not used before.
        unsafe { map(&arena.file, window as usize, size, libc::MAP_FIXED) }.is_some()
    }

    fn prepare(&mut self, reply: Reply) -> Result<Option<(usize, BpfCall)>, String> {
        let answer: io::Result<Result<_, String>> = self.ask(&Question::Prepare { reply });
        answer.map_err(|error| error.to_string())?
    }

    fn threads(&mut self) -> Vec<LoaderThread> {
        let call_cost = self.call_cost;
        // A loader that is gone has no threads, and no scheduler works without one.
        self.ask(&Question::Threads { call_cost }).unwrap_or_default()
    }

    fn resume(&mut self, thread: u32, reply: Reply, now: u64) -> Result<Request, String> {
        let answer: io::Result<Result<Request, String>> =
            self.ask(&Question::Resume { thread, reply, now });
        let request = answer.map_err(|error| error.to_string())??;
        if let Demand::Load { arena, .. } = request.demand {
            self.arena = arena;
        }
        Ok(request)
    }

    fn unloaded(&mut self) {
        // A loader that is gone shows that at its next step.
        let _: io::Result<()> = self.ask(&Question::Unloaded);
    }

    fn offline(&mut self, cpus: &[usize]) {
        let cpus = cpus.to_vec();
        let _: io::Result<()> = self.ask(&Question::Offline { cpus });
    }
}
