//! Running a loader until it has attached its scheduler.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::time::{Duration, Instant};

use fairground_bpf::Object;
use fairground_machine::Machine;

use crate::calls::State;
use crate::error::{Error, system};
use crate::process::{self, Answer, Call, Loader};
use crate::tree::{self, Tree};
use crate::write;

/// How long a loader may take until it attaches.
const PATIENCE: Duration = Duration::from_secs(60);
/// A loader that is quiet for so long after it attached has done what it does once.
const QUIET: i32 = 300;
/// What a loader does after it attached is followed no longer than this.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Runs the loader and returns what it set, and what it printed.
pub(crate) fn run(
    program: &Path,
    command: &[String],
    tree: &Tree,
    object: &Object,
    machine: &Machine,
) -> Result<(State, String), Error> {
    let mut output = system("make a file for the loader's output", tempfile::tempfile())?;
    let started = Loader::start(program, command, &output);
    let mut loader = system(&format!("start {}", program.display()), started)?;
    let mut supervisor = Supervisor {
        state: State::new(machine.cpus.len()),
        tree,
        object,
        cpus: machine.cpus.len(),
        events: Vec::new(),
    };
    let how = system("follow the loader", supervisor.follow(&mut loader))?;
    drop(loader);
    let output = system("read the loader's output", text_of(&mut output))?;
    match how {
        None => Ok((supervisor.state, output)),
        Some(how) => Err(Error::NotAttached { how, output }),
    }
}

fn text_of(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Supervisor<'a> {
    state: State,
    tree: &'a Tree,
    object: &'a Object,
    cpus: usize,
    /// Stand-ins for ring buffers among what the loader waits for.
    events: Vec<(u32, std::os::fd::OwnedFd)>,
}

impl Supervisor<'_> {
    /// Answers until the loader has attached and is quiet; the result is how it ended if it did before.
    fn follow(&mut self, loader: &mut Loader) -> io::Result<Option<String>> {
        let begin = Instant::now();
        let mut attached: Option<Instant> = None;
        loop {
            if let Some(call) = loader.next(QUIET)? {
                let answer = self.answer(&call).unwrap_or_else(|error| {
                    Answer::Error(error.raw_os_error().unwrap_or(libc::EFAULT))
                });
                loader.answer(&call, answer);
                if attached.is_none() && self.state.table().is_some() {
                    attached = Some(Instant::now());
                    self.tree.enable(&write::scheduler_name(self.object));
                }
                if attached.is_some_and(|since| since.elapsed() > AFTERWARDS) {
                    return Ok(None);
                }
                continue;
            }
            if attached.is_some() {
                return Ok(None);
            }
            if let Some(status) = loader.ended()? {
                return Ok(Some(format!("it ended with {status}")));
            }
            if begin.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Ok(Some(format!(
                    "it went on for {seconds} s without attaching one"
                )));
            }
        }
    }

    fn answer(&mut self, call: &Call) -> io::Result<Answer> {
        let thread = call.thread;
        let [first, second, third, fourth, ..] = call.arguments;
        match call.number {
            libc::SYS_bpf => self.state.bpf(thread, &call.arguments, self.object),
            // Counters of the processor, of which there are none.
            libc::SYS_perf_event_open => Ok(Answer::Error(libc::ENOENT)),
            libc::SYS_uname => {
                process::write(thread, first, &process::names(tree::RELEASE)?)?;
                Ok(Answer::Value(0))
            }
            libc::SYS_sched_getaffinity => {
                let mut bytes = vec![0_u8; self.cpus.div_ceil(64) * 8];
                for cpu in 0..self.cpus {
                    bytes[cpu / 8] |= 1 << (cpu % 8);
                }
                bytes.truncate(second as usize);
                process::write(thread, third, &bytes)?;
                Ok(Answer::Value(bytes.len() as i64))
            }
            libc::SYS_sched_setaffinity => {
                let bytes = process::read(thread, third, (second as usize).min(1024))?;
                let mut cpus =
                    (0..bytes.len() * 8).filter(|cpu| bytes[cpu / 8] >> (cpu % 8) & 1 == 1);
                self.state.cpu = cpus.next().filter(|cpu| *cpu < self.cpus).unwrap_or(0);
                Ok(Answer::Value(0))
            }
            libc::SYS_epoll_ctl => self.wait_for(call),
            // What a loader asks or tells others depends on them, and is none of the scheduler's business.
            libc::SYS_connect => Ok(Answer::Error(libc::ECONNREFUSED)),
            libc::SYS_bind => Ok(Answer::Error(libc::EACCES)),
            libc::SYS_openat => self.open(thread, second, third),
            libc::SYS_newfstatat => self.status(thread, second, third),
            libc::SYS_statx => {
                let Some(path) = self.redirected(thread, second)? else {
                    return Ok(Answer::Continue);
                };
                let bytes = process::extended_status(&path, third as i32, fourth as u32)?;
                process::write(thread, call.arguments[4], &bytes)?;
                Ok(Answer::Value(0))
            }
            libc::SYS_faccessat | libc::SYS_faccessat2 => self.access(thread, second),
            libc::SYS_readlinkat => self.refuse_links(thread, second),
            libc::SYS_mkdirat => self.make_folder(thread, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(thread, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat | libc::SYS_lstat => self.status(thread, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_access => self.access(thread, first),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_readlink => self.refuse_links(thread, first),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_folder(thread, first),
            _ => Ok(Answer::Continue),
        }
    }

    fn redirected(&self, thread: i32, path: u64) -> io::Result<Option<std::path::PathBuf>> {
        if path == 0 {
            return Ok(None);
        }
        Ok(self.tree.redirect(&process::read_text(thread, path)?))
    }

    fn open(&self, thread: i32, path: u64, flags: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else {
            return Ok(Answer::Continue);
        };
        let flags = flags as i32;
        let file = process::open(&path, flags)?;
        Ok(Answer::Descriptor(file, flags & libc::O_CLOEXEC != 0))
    }

    fn status(&self, thread: i32, path: u64, target: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else {
            return Ok(Answer::Continue);
        };
        process::write(thread, target, &process::status(&path)?)?;
        Ok(Answer::Value(0))
    }

    fn access(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else {
            return Ok(Answer::Continue);
        };
        Ok(match path.exists() {
            true => Answer::Value(0),
            false => Answer::Error(libc::ENOENT),
        })
    }

    /// There are no links among the machine's files.
    fn refuse_links(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else {
            return Ok(Answer::Continue);
        };
        Ok(Answer::Error(match path.exists() {
            true => libc::EINVAL,
            false => libc::ENOENT,
        }))
    }

    /// A loader that runs as root leaves nothing behind in /run.
    fn make_folder(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let path = process::read_text(thread, path)?;
        let is_shared = path.starts_with("/run/") || path.starts_with("/var/run/");
        Ok(match is_shared || self.tree.redirect(&path).is_some() {
            true => Answer::Error(libc::EACCES),
            false => Answer::Continue,
        })
    }

    /// Maps are files in memory, which cannot be waited for: an event that never comes stands in for a ring buffer.
    fn wait_for(&mut self, call: &Call) -> io::Result<Answer> {
        let [set, operation, file, event, ..] = call.arguments;
        let Some(number) = self.state.number_of(call.thread, file as u32) else {
            return Ok(Answer::Continue);
        };
        if !self.events.iter().any(|(known, _)| *known == number) {
            self.events.push((number, process::event()?));
        }
        let stand_in = self.events.iter().find(|(known, _)| *known == number);
        let Some((_, stand_in)) = stand_in else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let set = process::fetch(process_of(call.thread), set as i32)?;
        let event = match event {
            0 => Vec::new(),
            address => process::read(call.thread, address, size_of::<libc::epoll_event>())?,
        };
        process::epoll_control(&set, operation as i32, stand_in, &event)?;
        Ok(Answer::Value(0))
    }
}

/// The process of a thread.
fn process_of(thread: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(thread)
}
