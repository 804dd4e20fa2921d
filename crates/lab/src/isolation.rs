//! Simulations in their own processes.
//!
//! The simulator runs a scheduler as machine code that has not passed the kernel's verifier. A scheduler of the user's own may write anywhere
//! and jump anywhere. So it runs in a process with nothing but the simulation: no files but the pipes for its results, and no system calls
//! except for memory and for writing to these. A crash ends only that process.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fairground_events::{Sink, TraceReader, TraceWriter};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory;

/// The maximum that is read of a result, and of a process's crash message.
const LONGEST_RESULT: u64 = 1 << 30;
const LONGEST_WORDS: u64 = 4096;
/// Exit code of a process that could not produce its result.
const NO_RESULT: i32 = 101;
/// Exit code of a process that could not give up its rights, so that nothing ran in it.
const NOT_CONFINED: i32 = 102;

/// The descriptors that the process keeps from this one.
#[derive(Default)]
pub(crate) struct Inherited<'a> {
    /// A file that it may write to.
    pub file: Option<&'a File>,
    /// Files that it maps.
    pub memory: Vec<&'a File>,
    /// A socket on which it asks questions and gets answers.
    pub socket: Option<&'a UnixStream>,
}

/// Runs `work` in a process of its own with `kept`, and returns its result, or how the process crashed. The events of the sink that `work` gets go to `events`.
pub(crate) fn run<T: Serialize + DeserializeOwned>(
    kept: &Inherited,
    capacities: &[u32],
    events: Option<&mut dyn Sink>,
    work: impl FnOnce(Option<&mut dyn Sink>) -> T,
) -> io::Result<Result<T, String>> {
    let (result, result_writer) = pipe()?;
    let (words, words_writer) = pipe()?;
    let stream = events.is_some().then(pipe).transpose()?;
    let parent = std::process::id();
    // SAFETY: the child allocates, which the C library allows after a fork, and takes no lock of this program.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let stream = stream.map(|(_, writer)| writer);
        let code = match fairground_files::end_with(parent, fairground_files::Signal::KILL) {
            Ok(()) => isolated(kept, capacities, result_writer, words_writer, stream, work),
            Err(_) => NO_RESULT,
        };
        // SAFETY: ends the process without the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    drop((result_writer, words_writer));
    if let (Some((reader, writer)), Some(events)) = (stream, events) {
        drop(writer);
        // A stream that is cut off means a crash, which the result reports.
        if let Ok(reader) = TraceReader::new(File::from(reader)) {
            let _ = reader.play(events);
        }
    }
    let mut bytes = Vec::new();
    let read = File::from(result).take(LONGEST_RESULT).read_to_end(&mut bytes);
    let mut said = Vec::new();
    let heard = File::from(words).take(LONGEST_WORDS).read_to_end(&mut said);
    let mut status = 0;
    // SAFETY: the child is ours and no other code waits for it.
    while unsafe { libc::waitpid(child, &mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    read.and(heard)?;
    if status == 0 {
        let unreadable =
            |error: &dyn fmt::Display| format!("it left a result that cannot be read: {error}");
        // As text, like all other JSON here: each source of bytes is compiled for every type.
        let text = str::from_utf8(&bytes).map_err(|error| unreadable(&error));
        return Ok(
            text.and_then(|text| serde_json::from_str(text).map_err(|error| unreadable(&error)))
        );
    }
    let cause = cause(status, &String::from_utf8_lossy(&said));
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == NOT_CONFINED {
        return Err(io::Error::other(cause));
    }
    Ok(Err(cause))
}

/// Why a process ended, from its message and its exit status.
fn cause(status: i32, said: &str) -> String {
    let said = said.trim();
    if !said.is_empty() {
        let said = said.strip_prefix("fairground: ").unwrap_or(said);
        let printable = |one: char| if one.is_control() { ' ' } else { one };
        return said.chars().map(printable).collect();
    }
    if !libc::WIFSIGNALED(status) {
        return format!("it ended with exit code {}", libc::WEXITSTATUS(status));
    }
    match libc::WTERMSIG(status) {
        libc::SIGSYS => "it made a system call that a simulation does not need".into(),
        libc::SIGKILL => "it was killed, perhaps because memory ran out".into(),
        signal => format!("it was ended by signal {signal}"),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: there is room for both ends, and nothing else owns them.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Runs in the new process; returns its exit code.
fn isolated<T: Serialize>(
    kept: &Inherited,
    capacities: &[u32],
    result: OwnedFd,
    words: OwnedFd,
    stream: Option<OwnedFd>,
    work: impl FnOnce(Option<&mut dyn Sink>) -> T,
) -> i32 {
    let mut written = vec![result.as_raw_fd()];
    written.extend(stream.as_ref().map(|stream| stream.as_raw_fd()));
    written.extend(kept.file.map(|file| file.as_raw_fd()));
    let socket = kept.socket.map(|socket| socket.as_raw_fd());
    written.extend(socket);
    let mapped: Vec<RawFd> = kept.memory.iter().map(|file| file.as_raw_fd()).collect();
    // From here on, panics and crash reports go to the parent.
    let given_up = give_all_up(words.into_raw_fd(), &mut written, &mapped, socket);
    // A thread that is not in this process may have the lock of standard error.
    // For as long as the process lives: the hook below and what follows it write there.
    // SAFETY: the descriptor is this process's own.
    let mut words: &File = Box::leak(Box::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) }));
    if let Err(error) = given_up {
        let _ = writeln!(
            words,
            "it could not be confined to computing, and no scheduler runs without that: {error} (the kernel, the container or the tool \
             around fairground has to allow seccomp filters)"
        );
        return NOT_CONFINED;
    }
    // SAFETY: only the thread that called fork exists, and the filter allows no system call to create another.
    if let Err(error) = unsafe { memory::isolate() } {
        let _ = writeln!(
            words,
            "its memory cannot lie where it always lies, so that results would differ from run to run: {error} (`ulimit -v` may be \
             too low)"
        );
        return NOT_CONFINED;
    }
    // The default hook may print a backtrace, which needs files.
    std::panic::set_hook(Box::new(move |panic| {
        let mut words = words;
        let _ = writeln!(words, "{panic}");
    }));
    let outcome = catch_unwind(AssertUnwindSafe(|| match stream {
        Some(stream) => {
            let mut writer = TraceWriter::new(File::from(stream), capacities)?;
            let value = work(Some(&mut writer));
            // Of a run that never began there are no events, and the value says why.
            if !writer.is_open() {
                writer.close()?;
            }
            io::Result::Ok(value)
        }
        None => Ok(work(None)),
    }));
    let value = match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            let _ = writeln!(words, "its events cannot be passed on: {error}");
            return NO_RESULT;
        }
        Err(_) => return NO_RESULT,
    };
    let written = serde_json::to_vec(&value)
        .map_err(io::Error::from)
        .and_then(|bytes| File::from(result).write_all(&bytes));
    if written.is_ok() { 0 } else { NO_RESULT }
}

/// Gives up everything except memory, including that of the files `mapped`, writing to `written` and, as standard error, to `words`, and reading from `socket`.
fn give_all_up(
    words: RawFd,
    written: &mut Vec<RawFd>,
    mapped: &[RawFd],
    socket: Option<RawFd>,
) -> io::Result<()> {
    let check = |result: i64| match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls; nothing in this process uses the descriptors that they close.
    unsafe {
        check(libc::setrlimit(libc::RLIMIT_CORE, &no_core).into())?;
        check(libc::dup2(nothing.as_raw_fd(), 0).into())?;
        check(libc::dup2(nothing.as_raw_fd(), 1).into())?;
        check(libc::dup2(words, 2).into())?;
        let mut kept = [written.as_slice(), mapped].concat();
        kept.sort_unstable();
        let mut from = 3;
        for &one in kept.iter().chain([&RawFd::MAX]) {
            if from < one {
                check(libc::syscall(libc::SYS_close_range, from, one - 1, 0))?;
            }
            from = one.saturating_add(1);
        }
    }
    std::mem::forget(nothing);
    written.push(2);
    let filter = filter(written, socket).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// The system calls that a simulation needs; any other ends the process.
fn filter(
    written: &[RawFd],
    socket: Option<RawFd>,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let only = |argument, compare, value| {
        Rule::new(vec![Condition::new(argument, Length::Dword, compare, value)?])
    };
    let mut rules: BTreeMap<i64, Vec<Rule>> = [
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_close,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_gettid,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_yield,
        libc::SYS_setitimer,
        libc::SYS_sigaltstack,
    ]
    .into_iter()
    .map(|call| (call, Vec::new()))
    .collect();
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_alarm, Vec::new());
    let executable = Compare::MaskedEq(libc::PROT_EXEC as u64);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![only(2, executable.clone(), 0)?]);
    }
    // Before it closes a file, the standard library asks whether it is open.
    let asks = only(1, Compare::Eq, libc::F_GETFD as u64)?;
    rules.insert(libc::SYS_fcntl, vec![asks]);
    let writes: Result<Vec<Rule>, _> =
        written.iter().map(|file| only(0, Compare::Eq, *file as u64)).collect();
    let writes = writes?;
    rules.insert(libc::SYS_write, writes.clone());
    rules.insert(libc::SYS_writev, writes);
    if let Some(socket) = socket {
        let socket = vec![only(0, Compare::Eq, socket as u64)?];
        // The standard library reads from and writes to sockets with these.
        for call in [libc::SYS_read, libc::SYS_recvfrom, libc::SYS_sendto] {
            rules.insert(call, socket.clone());
        }
    }
    // Lets the process end itself by a signal, as `abort` does, but no other process.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![only(0, Compare::Eq, own)?]);
    SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run_alone(work: impl FnOnce() -> u64) -> Result<u64, String> {
        run(&Inherited::default(), &[], None, |_| work()).expect("a process")
    }

    #[test]
    fn results_come_back_and_crashes_do_not_spread() {
        assert_eq!(run_alone(|| 7), Ok(7));
        // SAFETY: this is not safe; the process ends by it.
        let crashed =
            run_alone(|| unsafe { std::ptr::without_provenance::<u64>(2048).read_volatile() });
        assert_eq!(crashed, Err("it was ended by signal 11".into()));
        let panicked = run_alone(|| panic!("no \x1b[31m way")).unwrap_err();
        assert!(panicked.contains("no  [31m way"), "{panicked}");
        // SAFETY: the C library's abort can be called anywhere.
        let aborted = run_alone(|| unsafe { libc::abort() });
        assert_eq!(aborted, Err("it was ended by signal 6".into()));
    }

    /// Another thread may be printing while this one forks.
    #[test]
    fn a_panic_is_told_whoever_has_the_lock_of_standard_error() {
        let printing = io::stderr().lock();
        let (told, panicked) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(run_alone(|| panic!("no way"))));
        let panicked = panicked.recv_timeout(Duration::from_secs(300));
        drop(printing);
        let panicked = panicked.expect("it does not hang").unwrap_err();
        assert!(panicked.contains("no way"), "{panicked}");
    }

    #[test]
    fn nothing_else_can_be_reached() {
        let denied = Err("it made a system call that a simulation does not need".into());
        assert_eq!(run_alone(|| std::fs::read("/etc/hostname").is_ok().into()), denied);
        let thread = || std::thread::Builder::new().spawn(|| ()).is_ok().into();
        assert_eq!(run_alone(thread), denied);
        // SAFETY: signal 0 does nothing; whether it may be sent is the question.
        assert_eq!(run_alone(|| unsafe { libc::kill(1, 0) } as u64), denied);
        assert_eq!(run_alone(|| print_to_stdout().into()), denied);
    }

    /// As in a container whose runtime does not know the system call.
    #[test]
    fn nothing_runs_where_the_system_has_no_filters() {
        let no_filters = SeccompFilter::new(
            [(libc::SYS_seccomp, Vec::new())].into(),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS as u32),
            std::env::consts::ARCH.try_into().expect("a known processor"),
        );
        let no_filters: BpfProgram =
            no_filters.and_then(TryInto::try_into).expect("a well-formed filter");
        // The filter is this thread's alone.
        let refused = std::thread::spawn(move || {
            seccompiler::apply_filter(&no_filters).expect("filters are allowed here");
            run(&Inherited::default(), &[], None, |_| 7).map_err(|error| error.to_string())
        });
        let refused = refused.join().expect("it ends").unwrap_err();
        assert!(refused.contains("allow seccomp filters"), "{refused}");
    }

    fn print_to_stdout() -> bool {
        // SAFETY: there is one byte to write.
        unsafe { libc::write(libc::STDOUT_FILENO, c"x".as_ptr().cast(), 1) == 1 }
    }
}
