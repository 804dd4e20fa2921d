//! Answers to calls that query the machine or the kernel.

use std::io;

use super::Supervisor;
use crate::process::{self, Answer, Call};
use crate::tree;

/// The system calls that are answered here.
pub(super) const CALLS: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_uname,
    libc::SYS_epoll_ctl,
    libc::SYS_connect,
    libc::SYS_bind,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

impl Supervisor {
    /// Answers a call that queries the machine or the kernel; all others go through.
    pub(crate) fn answer(&mut self, call: &Call) -> io::Result<Answer> {
        let thread = call.thread;
        let [first, second, third, fourth, ..] = call.arguments;
        match call.number {
            libc::SYS_bpf => self.state.bpf(thread, &call.arguments, &self.object),
            // Performance counters, of which there are none.
            libc::SYS_perf_event_open => Ok(Answer::Error(libc::ENOENT)),
            libc::SYS_uname => {
                process::write(thread, first, &process::names(tree::RELEASE)?)?;
                Ok(Answer::Value(0))
            }
            libc::SYS_epoll_ctl => self.wait_for(call),
            // Dialogues of a loader with other programs depend on them, and do not concern the scheduler.
            libc::SYS_connect => Ok(Answer::Error(libc::ECONNREFUSED)),
            // A loader that serves statistics continues, but nobody can reach it.
            libc::SYS_bind => match process::bind_unseen(self.loader.pid(), first as i32) {
                Ok(()) => Ok(Answer::Value(0)),
                Err(_) => Ok(Answer::Error(libc::EACCES)),
            },
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
            libc::SYS_unlinkat => self.remove(thread, second),
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
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(thread, first),
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
        let Some(path) = self.redirected(thread, path)? else { return Ok(Answer::Continue) };
        let flags = flags as i32;
        let file = process::open(&path, flags)?;
        Ok(Answer::Descriptor(file, flags & libc::O_CLOEXEC != 0))
    }

    fn status(&self, thread: i32, path: u64, target: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else { return Ok(Answer::Continue) };
        process::write(thread, target, &process::status(&path)?)?;
        Ok(Answer::Value(0))
    }

    fn access(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else { return Ok(Answer::Continue) };
        Ok(if path.exists() { Answer::Value(0) } else { Answer::Error(libc::ENOENT) })
    }

    /// The machine's files include no links.
    fn refuse_links(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let Some(path) = self.redirected(thread, path)? else { return Ok(Answer::Continue) };
        Ok(Answer::Error(if path.exists() { libc::EINVAL } else { libc::ENOENT }))
    }

    /// Pretends to create a folder in /run, so that a loader that runs as root leaves nothing behind there.
    fn make_folder(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let path = process::read_text(thread, path)?;
        Ok(if is_shared(&path) {
            Answer::Value(0)
        } else if self.tree.redirect(&path).is_some() {
            Answer::Error(libc::EACCES)
        } else {
            Answer::Continue
        })
    }

    /// Pretends that there is nothing to remove in /run.
    fn remove(&self, thread: i32, path: u64) -> io::Result<Answer> {
        let path = process::read_text(thread, path)?;
        Ok(if is_shared(&path) { Answer::Error(libc::ENOENT) } else { Answer::Continue })
    }

    /// Maps are memfds, which cannot be polled: an eventfd that never fires stands in for a ring buffer.
    fn wait_for(&mut self, call: &Call) -> io::Result<Answer> {
        let [set, operation, file, event, ..] = call.arguments;
        let Some(number) = self.state.number_of(call.thread, file as u32) else {
            return Ok(Answer::Continue);
        };
        if !self.events.iter().any(|(known, _)| *known == number) {
            self.events.push((number, process::event()?));
        }
        let stand_in = self.events.iter().find(|(known, _)| *known == number);
        let Some((_, stand_in)) = stand_in else { return Ok(Answer::Error(libc::EBADF)) };
        let set = process::fetch(process_of(call.thread), set as i32)?;
        let event = match event {
            0 => Vec::new(),
            address => process::read(call.thread, address, size_of::<libc::epoll_event>())?,
        };
        process::epoll_control(&set, operation as i32, stand_in, &event)?;
        Ok(Answer::Value(0))
    }
}

/// Whether other programs look for sockets there.
fn is_shared(path: &str) -> bool {
    path.starts_with("/run/") || path.starts_with("/var/run/")
}

/// The process of a thread.
fn process_of(thread: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}
