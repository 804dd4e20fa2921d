//! Runs a command so that it and everything it starts end when this process ends, however that happens.
//!
//! A third process, the guard, stands between this process and the command. All processes that the command leaves behind become the guard's
//! children, also those of another group or session. A socket connects the guard with this process; when it breaks because this process has ended,
//! even by SIGKILL, the guard kills them all.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fairground_files::end_with;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getgrouplist, getppid, setgid, setgroups, setuid};

use crate::Error;
use crate::supervise::{ENDING, EndRequest, PATIENCE};

/// Messages from the guard: the command runs (with this process id), it cannot be run (and why), it has ended (with this code).
const RUNS: u8 = b'r';
const FAILED: u8 = b'f';
const ENDED: u8 = b'e';
/// Message to the guard: start the command. Anything else is the number of a signal for the command.
const START: u8 = 0;

/// How often the guard tries to kill processes that the command has left, a millisecond apart. Turns are counted rather than time, because a guard that
/// does not get to run would run out of time before it has killed anything.
const KILLING: u32 = 5_000;

/// The user that a command runs as.
#[derive(Clone, Debug)]
pub struct User(nix::unistd::User);

impl User {
    /// Finds the user of this name.
    pub fn find(name: &str) -> Result<Self, Error> {
        let found = nix::unistd::User::from_name(name);
        let found = found.map_err(|error| Error::System {
            what: format!("cannot look up user {name}"),
            source: error.into(),
        })?;
        found.map(Self).ok_or_else(|| Error::Usage { reason: format!("there is no user {name}") })
    }

    /// The user that called sudo, if this process became root that way.
    pub fn who_called_sudo() -> Result<Option<Self>, Error> {
        match std::env::var("SUDO_USER") {
            Ok(name) if nix::unistd::geteuid().is_root() && name != "root" => {
                Self::find(&name).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The user that a command runs as: the one of this name, or otherwise the one that called sudo.
    pub fn chosen(name: Option<&str>) -> Result<Option<Self>, Error> {
        match name {
            Some(name) => Self::find(name).map(Some),
            None => Self::who_called_sudo(),
        }
    }

    /// Makes `command` run as this user, with the user's groups.
    fn apply(&self, command: &mut Command) -> Result<(), Error> {
        let user = self.0.clone();
        let name = std::ffi::CString::new(user.name.as_str()).map_err(|error| Error::System {
            what: format!("cannot look up user {}", user.name),
            source: error.into(),
        })?;
        let groups = getgrouplist(&name, user.gid)
            .map_err(Error::system(format!("cannot look up the groups of {}", user.name)))?;
        command
            .env("HOME", &user.dir)
            .env("SHELL", &user.shell)
            .env("USER", &user.name)
            .env("LOGNAME", &user.name);
        // SAFETY: three system calls, which are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                setgroups(&groups)?;
                setgid(user.gid)?;
                Ok(setuid(user.uid)?)
            });
        }
        Ok(())
    }
}

/// A command and its guard. When this is dropped, the command and everything it has started are killed.
#[derive(Debug)]
pub struct Guarded {
    program: String,
    line: Option<UnixStream>,
    guard: Pid,
    is_running: bool,
    /// The command's exit code, once it has ended.
    code: Option<u8>,
    /// When the command is killed if it has not ended.
    deadline: Option<Instant>,
}

impl Guarded {
    /// Prepares to start a command, a program and its arguments, which inherits the terminal. `user` runs it; `None` for the user of this
    /// process. Must be called before there are other threads.
    pub fn prepare(command: &[OsString], user: Option<&User>) -> Result<Self, Error> {
        let (program, arguments) = command.split_first().ok_or_else(|| Error::Object {
            name: "command".to_owned(),
            reason: "nothing to run after `--`".to_owned(),
        })?;
        let path = find_program(program)?;
        let mut command = Command::new(path);
        command.arg0(program).args(arguments);
        if let Some(user) = user {
            user.apply(&mut command)?;
        }
        let (line, other) =
            UnixStream::pair().map_err(Error::system("cannot join a process with its guard"))?;
        // SAFETY: the caller makes sure that there is only one thread.
        match unsafe { fork() }.map_err(Error::system("cannot start a guard"))? {
            ForkResult::Parent { child } => Ok(Self {
                program: program.to_string_lossy().into_owned(),
                line: Some(line),
                guard: child,
                is_running: false,
                code: None,
                deadline: None,
            }),
            ForkResult::Child => {
                drop(line);
                guard(other, command);
                // SAFETY: ends this process without the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Starts the command; returns its process number.
    pub fn start(&mut self) -> Result<u32, Error> {
        let mut answer = Vec::new();
        if let Some(line) = &mut self.line {
            let mut kind = [FAILED];
            let heard = line.write_all(&[START]).and_then(|()| line.read_exact(&mut kind));
            let mut number = [0; 4];
            if heard.is_ok() && kind == [RUNS] && line.read_exact(&mut number).is_ok() {
                self.is_running = true;
                line.set_nonblocking(true).map_err(Error::system("cannot watch the command"))?;
                return Ok(u32::from_ne_bytes(number));
            }
            let _ = line.read_to_end(&mut answer);
        }
        Err(Error::Object {
            name: self.program.clone(),
            reason: format!("cannot be run: {}", String::from_utf8_lossy(&answer)),
        })
    }

    /// Whether the command has been started and, as far as known, has not ended.
    pub fn is_running(&self) -> bool {
        self.is_running && self.code.is_none()
    }

    /// Asks the command to end with `signal`; it is killed if it takes too long.
    pub fn end(&mut self, signal: Signal) {
        self.deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        self.signal(signal);
    }

    /// Passes on a request to end this process, unless it came from the terminal: that has sent it to the command as well, which decides how to act on
    /// it.
    pub fn heed(&mut self, request: EndRequest) {
        if !request.from_terminal {
            self.end(request.signal);
        }
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(line) = &mut self.line {
            // Signals have small numbers. If the guard is gone, the signal has no receiver.
            let _ = line.write_all(&[signal as u8]);
        }
    }

    /// The command's exit code, once it has ended: its own, or 128 plus the number of the signal that killed it.
    pub fn poll(&mut self) -> Result<Option<u8>, Error> {
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            self.signal(Signal::SIGKILL);
        }
        let (None, Some(line)) = (self.code, &mut self.line) else { return Ok(self.code) };
        let mut message = [0; 2];
        match line.read(&mut message) {
            Ok(2) if message[0] == ENDED => self.code = Some(message[1]),
            // The guard was killed, and with it the command.
            Ok(_) => self.code = Some(128 + Signal::SIGKILL as u8),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(Error::system("cannot watch the command")(error)),
        }
        Ok(self.code)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.line.take());
        // The guard ends soon, after it has killed the remaining processes.
        while waitpid(self.guard, None) == Err(nix::errno::Errno::EINTR) {}
    }
}

/// The path of a program, as the shell would find it.
fn find_program(program: &OsStr) -> Result<PathBuf, Error> {
    let is_program = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = if program.as_encoded_bytes().contains(&b'/') {
        Some(PathBuf::from(program)).filter(|path| is_program(path))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .map(|folder| folder.join(program))
            .find(|path| is_program(path))
    };
    found.ok_or_else(|| Error::Object {
        name: program.to_string_lossy().into_owned(),
        reason: "cannot be run: there is no such program".to_owned(),
    })
}

/// Runs in the guard until there is nothing left to guard.
fn guard(mut line: UnixStream, mut command: Command) {
    let mut blocked = SigSet::empty();
    for signal in ENDING {
        blocked.add(signal);
    }
    blocked.add(Signal::SIGCHLD);
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    // The terminal's signals are for the command only.
    let ready = blocked
        .thread_block()
        .and_then(|()| set_child_subreaper(true))
        .and_then(|()| SignalFd::with_flags(&children, flags));
    let mut order = [0];
    let (Ok(signals), Ok(1)) = (ready, line.read(&mut order)) else { return };
    let own = std::process::id();
    // SAFETY: three system calls, which are allowed between fork and exec. The command must not inherit the signals blocked here. The command
    // is killed when this process ends; a change of user, which comes before, would undo this.
    unsafe {
        command.pre_exec(move || {
            end_with(own, fairground_files::Signal::KILL)?;
            Ok(SigSet::empty().thread_set_mask()?)
        });
    }
    let child = match command.spawn() {
        Ok(child) => {
            let _ = line.write_all(&[RUNS]);
            let _ = line.write_all(&child.id().to_ne_bytes());
            Pid::from_raw(child.id().cast_signed())
        }
        Err(error) => {
            let _ = line.write_all(&[FAILED]);
            let _ = line.write_all(error.to_string().as_bytes());
            return;
        }
    };
    drop(command);
    close_files(&line, &signals);
    let mut lives = true;
    loop {
        let mut files = [
            PollFd::new(line.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut files, PollTimeout::NONE);
        let told = files[0].any().unwrap_or(true);
        while let Ok(Some(_)) = signals.read_signal() {}
        let ended = reap(child);
        if let Some(code) = ended {
            lives = false;
            let _ = line.write_all(&[ENDED, code]);
            // The parent waits for signals; this one says that a child has ended.
            let _ = kill(getppid(), Signal::SIGCHLD);
        }
        if told {
            match line.read(&mut order) {
                Ok(1) => {
                    let signal = Signal::try_from(i32::from(order[0]));
                    if let (Ok(signal), true) = (signal, lives) {
                        let _ = kill(child, signal);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    }
    for _ in 0..KILLING {
        if !has_children() {
            break;
        }
        for process in descendants() {
            let _ = kill(process, Signal::SIGKILL);
        }
        reap(child);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Closes the files that the guard does not need, so that it keeps none of them open.
fn close_files(line: &UnixStream, signals: &SignalFd) {
    let mut kept = [line.as_raw_fd(), signals.as_fd().as_raw_fd()];
    kept.sort_unstable();
    let mut from = 3;
    for one in kept.into_iter().chain([i32::MAX]) {
        if from < one {
            // SAFETY: nothing in this process uses these files.
            unsafe { libc::syscall(libc::SYS_close_range, from, one - 1, 0) };
        }
        from = one.saturating_add(1);
    }
}

/// Reaps children that have ended; returns the command's exit code if it is among them.
fn reap(command: Pid) -> Option<u8> {
    let mut code = None;
    loop {
        let (process, value) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(process, value)) => (process, value),
            Ok(WaitStatus::Signaled(process, signal, _)) => (process, 128 + signal as i32),
            Ok(WaitStatus::StillAlive) | Err(_) => return code,
            Ok(_) => continue,
        };
        if process == command {
            code = Some(u8::try_from(value & 0xff).unwrap_or(u8::MAX));
        }
    }
}

fn has_children() -> bool {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
    nix::sys::wait::waitid(nix::sys::wait::Id::All, flags).is_ok()
}

/// All descendants of this process, parents first.
fn descendants() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pairs: Vec<(i32, i32)> = entries
        .filter_map(|entry| {
            let process: i32 = entry.file_name().to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = fairground_files::stat_field(&text, 4)?;
            Some((process, parent.parse().ok()?))
        })
        .collect();
    let mut found = vec![std::process::id().cast_signed()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(one, _)| *one));
        next += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Guarded {
        let command = ["sh", "-c", script].map(OsString::from);
        let mut guarded = Guarded::prepare(&command, None).expect("it can be run");
        guarded.start().expect("it can be started");
        guarded
    }

    fn run_to_end(script: &str, end: Option<Signal>) -> u8 {
        let mut guarded = start(script);
        if let Some(signal) = end {
            guarded.signal(signal);
        }
        loop {
            if let Some(code) = guarded.poll().expect("it can be heard") {
                return code;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the file contains this many process ids, and returns them.
    fn processes(file: &Path, count: usize) -> Vec<String> {
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let found: Vec<String> = text.lines().map(str::to_owned).collect();
            if found.len() == count {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn lives(process: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        fairground_files::stat_field(&stat, 3).is_some_and(|state| state != "Z")
    }

    #[test]
    fn the_exit_status_passes_through() {
        assert_eq!(run_to_end("exit 7", None), 7);
        assert_eq!(run_to_end("kill -KILL $$", None), 137);
        assert_eq!(run_to_end("exec sleep 1000", Some(Signal::SIGTERM)), 143);
    }

    #[test]
    fn the_number_of_the_command_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("processes");
        let script = format!("echo $$ > {}; exec sleep 1000", file.display());
        let command = ["sh", "-c", &script].map(OsString::from);
        let mut guarded = Guarded::prepare(&command, None).expect("it can be run");
        let number = guarded.start().expect("it can be started");
        assert_eq!(processes(&file, 1), [number.to_string()]);
    }

    #[test]
    fn all_that_it_started_ends_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("processes");
        let name = file.display();
        let script = format!(
            "echo $$ >> {name}; sleep 1000 & echo $! >> {name}; setsid sh -c 'echo $$ >> {name}; exec sleep 1000' & wait"
        );
        let guarded = start(&script);
        let all = processes(&file, 3);
        assert!(all.iter().all(|process| lives(process)));
        drop(guarded);
        assert!(!all.iter().any(|process| lives(process)), "{all:?}");
    }

    #[test]
    fn what_the_terminal_has_sent_is_not_sent_again() {
        let mut guarded = start("exec sleep 1000");
        let request = |from_terminal| EndRequest { signal: Signal::SIGINT, from_terminal };
        guarded.heed(request(true));
        assert_eq!(guarded.deadline, None, "it has all the time that it wants");
        guarded.heed(request(false));
        assert!(guarded.deadline.is_some());
        let code = loop {
            match guarded.poll().expect("it can be heard") {
                Some(code) => break code,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(code, request(false).exit_code());
    }

    #[test]
    fn what_kills_the_guard_kills_the_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("processes");
        let mut guarded = start(&format!("echo $$ > {}; exec sleep 1000", file.display()));
        let command = processes(&file, 1);
        kill(guarded.guard, Signal::SIGKILL).expect("it is there");
        while lives(&command[0]) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(guarded.poll().expect("it was heard"), Some(137));
    }

    #[test]
    fn a_program_that_is_none_is_unusable_input() {
        for program in ["/nonexistent/program", "no-such-program", "/etc"] {
            let error = Guarded::prepare(&[program.into()], None).expect_err("no such program");
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(program));
        }
    }

    #[test]
    fn users_have_names() {
        let error = User::find("no such user").expect_err("there is none");
        assert_eq!(error.exit_code(), 2);
        assert!(User::find("root").is_ok());
    }
}
