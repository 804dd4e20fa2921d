//! Waits for signals to this process and for the command it runs, in one place.

use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use fairground_files::end_with;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
pub use nix::sys::signal::Signal;
use nix::sys::signal::{SigSet, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::Error;

/// Signals that ask a process to end.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// How long a command may take to end after it has been asked to.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRequest {
    /// The signal that arrived.
    pub signal: Signal,
    /// Whether it came from the terminal, which also sends it to the command.
    pub from_terminal: bool,
}

impl EndRequest {
    /// The exit code of a process that the signal ends, as a shell reports it.
    pub fn exit_code(self) -> u8 {
        // Signals have small numbers.
        128 + self.signal as u8
    }
}

/// The signals to this process, received as events from now on.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Takes over the signals that ask this process to end, and those for children that end. Call it before starting any thread: threads inherit it.
    pub fn take() -> Result<Self, Error> {
        let mut set = SigSet::empty();
        for signal in ENDING {
            set.add(signal);
        }
        set.add(Signal::SIGCHLD);
        set.thread_block().map_err(Error::system("cannot block signals"))?;
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(Error::system("cannot receive signals"))?;
        Ok(Self { descriptor })
    }

    /// A request to end that has already arrived.
    pub fn arrived(&mut self) -> Result<Option<EndRequest>, Error> {
        self.wait(Duration::ZERO)
    }

    /// Waits until a signal arrives or `timeout` has passed, and returns a request to end if there is one.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<EndRequest>, Error> {
        let milliseconds = u16::try_from(timeout.as_millis()).unwrap_or(u16::MAX);
        let mut descriptors = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::from(milliseconds)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(Error::system("cannot wait for signals")(error)),
        }
        while let Some(info) =
            self.descriptor.read_signal().map_err(Error::system("cannot receive signals"))?
        {
            let signal =
                i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal.filter(|signal| ENDING.contains(signal)) {
                return Ok(Some(EndRequest {
                    signal,
                    from_terminal: info.ssi_code == nix::libc::SI_KERNEL,
                }));
            }
        }
        Ok(None)
    }
}

/// A command run on behalf of the user, in its own process group, all of which gets its signals.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    /// When the command is killed if it has not ended.
    deadline: Option<Instant>,
}

impl Supervised {
    /// Starts a command. It and everything it starts get signals only from here, not from the terminal, and the command is asked to end when
    /// the calling thread ends, for any reason.
    ///
    /// # Errors
    /// It cannot be started. The exit code of the error is 2: the user named no program.
    pub fn start_group(mut command: Command) -> Result<Self, Error> {
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: three system calls, which are allowed between fork and exec. Without the mask the command would inherit the signals blocked
        // here and could not be ended by them.
        unsafe {
            command.pre_exec(move || {
                end_with(parent, fairground_files::Signal::TERM)?;
                Ok(SigSet::empty().thread_set_mask()?)
            });
        }
        let child = command.spawn().map_err(|error| Error::Object {
            name: command.get_program().to_string_lossy().into_owned(),
            reason: format!("cannot be run: {error}"),
        })?;
        Ok(Self { child, deadline: None })
    }

    /// Asks the command to end with `signal`; it is killed if it takes too long.
    pub fn end(&mut self, signal: Signal) {
        self.deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        self.signal(signal);
    }

    /// Passes on a request to end from elsewhere; the command decides how to act on it, in its own time.
    pub fn signal(&self, signal: Signal) {
        // Only the code below reaps the child, so the number still belongs to it. It may have ended meanwhile: then the signal has no receiver.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(-pid), signal);
        }
    }

    /// The command's exit code, once it has ended: its own, or 128 plus the number of the signal that killed it.
    pub fn poll(&mut self) -> Result<Option<u8>, Error> {
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            self.signal(Signal::SIGKILL);
        }
        let status = self.child.try_wait().map_err(Error::system("cannot wait for the command"))?;
        Ok(status.map(exit_code))
    }
}

/// An exit code as a shell reports it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code & 0xff).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    fn run_to_end(command: &[&str], end: Option<Signal>) -> u8 {
        let mut run = Command::new(command[0]);
        run.args(&command[1..]);
        let mut child = Supervised::start_group(run).expect("it can be started");
        if let Some(signal) = end {
            child.signal(signal);
        }
        code_of(&mut child)
    }

    fn code_of(child: &mut Supervised) -> u8 {
        loop {
            if let Some(code) = child.poll().expect("it can be waited for") {
                return code;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_exit_status_passes_through() {
        assert_eq!(run_to_end(&["sh", "-c", "exit 7"], None), 7);
        assert_eq!(run_to_end(&["sh", "-c", "kill -KILL $$"], None), 137);
        assert_eq!(run_to_end(&["sleep", "1000"], Some(Signal::SIGTERM)), 143);
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' TERM; echo ready; read -r nothing"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut group = Supervised::start_group(command).expect("it can be started");
        let output = group.child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut [0; 6]).expect("it is ready");
        group.end(Signal::SIGTERM);
        // As if its time were up.
        group.deadline = Some(Instant::now());
        assert_eq!(code_of(&mut group), 137);
    }

    #[test]
    fn a_group_ends_together() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]).stdout(Stdio::piped());
        let mut group = Supervised::start_group(command).expect("it can be started");
        let mut output = group.child.stdout.take().expect("a pipe");
        group.end(Signal::SIGTERM);
        // The pipe ends when both processes have ended.
        let mut text = String::new();
        output.read_to_string(&mut text).expect("text");
        assert_eq!(text, "");
    }

    #[test]
    fn the_command_does_not_inherit_the_blocked_signals() {
        let _signals = Signals::take().expect("signals can be taken");
        assert_eq!(run_to_end(&["sleep", "1000"], Some(Signal::SIGTERM)), 143);
    }

    #[test]
    fn a_program_that_is_none_is_unusable_input() {
        let error = Supervised::start_group(Command::new("/nonexistent/program"))
            .expect_err("there is no such program");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("/nonexistent/program"));
    }
}
