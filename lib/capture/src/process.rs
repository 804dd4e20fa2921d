//! The loader's process: its filter of system calls, its memory, its descriptors. Nearly all unsafe code is here.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub id: u64,
    /// The thread that makes it.
    pub thread: i32,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// An answer to a call.
pub(crate) enum Answer {
    /// The result.
    Value(i64),
    /// Failure with this error number.
    Error(i32),
    /// The kernel carries out the call.
    Continue,
    /// The result is a new descriptor of the loader, for this file.
    Descriptor(OwnedFd, bool),
    /// The same, for a file that is kept here.
    Shared(RawFd),
}

/// `AUDIT_ARCH_*` of this machine.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// The filter: calls with these numbers are reported, all others go through.
fn filter(trapped: &[i64]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let give = libc::BPF_RET | libc::BPF_K;
    let mut program = vec![
        statement(load, 4),
        libc::sock_filter { jt: 1, ..statement(jump, ARCHITECTURE) },
        statement(give, libc::SECCOMP_RET_ALLOW),
        statement(load, 0),
    ];
    for number in trapped {
        program.push(libc::sock_filter { jf: 1, ..statement(jump, *number as u32) });
        program.push(statement(give, libc::SECCOMP_RET_USER_NOTIF));
    }
    program.push(statement(give, libc::SECCOMP_RET_ALLOW));
    program
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both descriptors, which nothing else owns.
    unsafe {
        check(i64::from(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)))?;
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

/// A loader running under the filter.
pub(crate) struct Loader {
    child: Child,
    listener: OwnedFd,
    /// The thread that started it ends with this.
    _starter: mpsc::Sender<()>,
}

impl Loader {
    /// Starts `program`, whose output goes to `output`, and whose `trapped` system calls wait for an answer.
    pub(crate) fn start(
        program: &Path,
        command: &[String],
        output: &File,
        trapped: &[i64],
    ) -> io::Result<Self> {
        let (mut told, tell) = pipe()?;
        let (wait, mut go) = pipe()?;
        let filter = filter(trapped);
        let mut child = Command::new(program);
        child
            .arg0(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            // Its output is quoted in messages.
            .env("NO_COLOR", "1")
            .process_group(0);
        let (tell_number, wait_number) = (tell.as_raw_fd(), wait.as_raw_fd());
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made, with memory that was allocated before.
        unsafe {
            child.pre_exec(move || {
                let program = libc::sock_fprog {
                    len: filter.len() as u16,
                    filter: filter.as_ptr().cast_mut(),
                };
                // The loader does not outlive the process that answers its calls.
                fairground_files::end_with(parent, fairground_files::Signal::KILL)?;
                // The same addresses in every run.
                check(i64::from(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong)))?;
                check(i64::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))?;
                // Called before the filter applies: under it, the call would wait for an answer that nobody can give yet.
                let own = libc::getpid();
                let listener = check(libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                    &raw const program,
                ))?;
                let words = [own, listener as i32];
                let written = libc::write(tell_number, words.as_ptr().cast(), 8);
                let mut byte = 0_u8;
                let read = libc::read(wait_number, (&raw mut byte).cast(), 1);
                libc::close(listener as i32);
                if written != 8 || read != 1 {
                    return Err(io::Error::from_raw_os_error(libc::EPIPE));
                }
                Ok(())
            });
        }
        // The child waits during its start until its listener has been fetched. The thread that starts it stays, because the loader would
        // end with it.
        let (give, given) = mpsc::channel();
        let (starter, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = give.send(child.spawn());
            let _: Result<(), _> = ended.recv();
        });
        let mut words = [0; 8];
        let fetched = told.read_exact(&mut words).and_then(|()| {
            let [pid, number] = [&words[..4], &words[4..]]
                .map(|half| i32::from_ne_bytes([half[0], half[1], half[2], half[3]]));
            fetch(pid, number)
        });
        let fetched = fetched.and_then(|listener| {
            go.write_all(&[1])?;
            // It already reads this under its filter: either that call comes, or its end.
            if let Some(call) = next_call(&listener, -1)? {
                answer_call(&listener, &call, Answer::Continue);
            }
            Ok(listener)
        });
        drop((go, tell, wait));
        let child = given
            .recv()
            .map_err(|_| io::Error::other("the thread that starts the loader panicked"))??;
        Ok(Self { child, listener: fetched?, _starter: starter })
    }

    /// The next call within `milliseconds`, if there is one.
    pub(crate) fn next(&mut self, milliseconds: i32) -> io::Result<Option<Call>> {
        next_call(&self.listener, milliseconds)
    }

    /// Answers a call; it does not matter if its thread is gone.
    pub(crate) fn answer(&self, call: &Call, answer: Answer) {
        answer_call(&self.listener, call, answer);
    }

    /// How the loader ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // SAFETY: the group is the loader's own, which has not been waited for yet.
        unsafe {
            libc::kill(-self.pid(), libc::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// The next call within `milliseconds`, if there is one; with -1, until the last thread that could make one has ended.
fn next_call(listener: &OwnedFd, milliseconds: i32) -> io::Result<Option<Call>> {
    let mut waits = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    let ready = unsafe { libc::poll(&raw mut waits, 1, milliseconds) };
    if ready <= 0 || waits.revents & libc::POLLIN == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel wants the structure zeroed, and fills it.
    unsafe {
        let mut notification: libc::seccomp_notif = MaybeUninit::zeroed().assume_init();
        let received = libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut notification,
        );
        if received < 0 {
            let error = io::Error::last_os_error();
            // The thread was killed while it waited.
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Call {
            id: notification.id,
            thread: notification.pid as i32,
            number: i64::from(notification.data.nr),
            arguments: notification.data.args,
        }))
    }
}

/// Answers a call; it does not matter if its thread is gone.
fn answer_call(listener: &OwnedFd, call: &Call, answer: Answer) {
    let (value, error, flags) = match answer {
        Answer::Value(value) => (value, 0, 0),
        Answer::Error(number) => (0, -number, 0),
        Answer::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Answer::Descriptor(file, close_on_exec) => {
            return give(listener, call, file.as_raw_fd(), close_on_exec);
        }
        Answer::Shared(file) => return give(listener, call, file, true),
    };
    let mut response = libc::seccomp_notif_resp { id: call.id, val: value, error, flags };
    // SAFETY: a valid structure.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response);
    }
}

fn give(listener: &OwnedFd, call: &Call, file: RawFd, close_on_exec: bool) {
    let mut addition = libc::seccomp_notif_addfd {
        id: call.id,
        flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
        srcfd: file as u32,
        newfd: 0,
        newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    // SAFETY: a valid structure.
    let given = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut addition)
    };
    if given < 0 {
        answer_call(listener, call, Answer::Error(libc::EMFILE));
    }
}

/// Fetches a descriptor of one of our processes.
pub(crate) fn fetch(pid: i32, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: both calls return descriptors that nothing else owns.
    unsafe {
        let process = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        let process = OwnedFd::from_raw_fd(process as i32);
        let file = check(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0))?;
        Ok(OwnedFd::from_raw_fd(file as i32))
    }
}

/// Reads memory of a thread.
pub(crate) fn read(thread: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; length];
    if length == 0 {
        return Ok(bytes);
    }
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the vector is at least as long as the data to read.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0) };
    let read = check(read as i64)? as usize;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads a 32-bit number from the memory of a thread.
pub(crate) fn read_word(thread: i32, address: u64) -> io::Result<u32> {
    let bytes = read(thread, address, 4)?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Reads a zero-terminated text from the memory of a thread.
pub(crate) fn read_text(thread: i32, address: u64) -> io::Result<String> {
    const PAGE: u64 = 4096;
    let mut bytes: Vec<u8> = Vec::new();
    // Page by page: the page after the text may be missing.
    while bytes.len() < PAGE as usize {
        let at = address + bytes.len() as u64;
        let part = read(thread, at, (PAGE - at % PAGE) as usize)?;
        let end = part.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() || part.is_empty() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes to the memory of a thread.
pub(crate) fn write(thread: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: only reads the slice.
    check(unsafe { libc::process_vm_writev(thread, &raw const here, 1, &raw const there, 1, 0) }
        as i64)?;
    Ok(())
}

/// The lowest address at which a process has mapped the memfd of this name.
pub(crate) fn address_of(process: i32, name: &str) -> io::Result<Option<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let end = format!(" /memfd:{name} (deleted)");
    let line = maps.lines().find(|line| line.ends_with(&end));
    let start = line.and_then(|line| line.split_once('-'));
    Ok(start.and_then(|(start, _)| u64::from_str_radix(start, 16).ok()))
}

/// A memfd of `size` bytes.
pub(crate) fn memory(name: &str, size: u64) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the descriptor is new.
    let file = unsafe {
        let number = check(i64::from(libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC)))?;
        File::from_raw_fd(number as i32)
    };
    file.set_len(size)?;
    Ok(file)
}

/// Makes a memfd as empty as it was when it was made; whoever has mapped it keeps it.
pub(crate) fn clear(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len() as libc::off_t;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    if length > 0 {
        // SAFETY: changes the content of our own file only.
        check(unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, length) }.into())?;
    }
    Ok(())
}

/// An eventfd that never fires.
pub(crate) fn event() -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is new.
    unsafe {
        let number = check(i64::from(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)))?;
        Ok(OwnedFd::from_raw_fd(number as i32))
    }
}

/// `epoll_ctl` on our own descriptors.
pub(crate) fn epoll_control(
    set: &OwnedFd,
    operation: i32,
    file: &OwnedFd,
    event: &[u8],
) -> io::Result<()> {
    let mut structure = MaybeUninit::<libc::epoll_event>::zeroed();
    let length = event.len().min(size_of::<libc::epoll_event>());
    // SAFETY: the structure is as long as the copied data, and any bytes are valid in it.
    unsafe {
        std::ptr::copy_nonoverlapping(event.as_ptr(), structure.as_mut_ptr().cast(), length);
        check(i64::from(libc::epoll_ctl(
            set.as_raw_fd(),
            operation,
            file.as_raw_fd(),
            structure.as_mut_ptr(),
        )))?;
    }
    Ok(())
}

/// The bytes of `stat` or `statx` of a file, or of `uname`, as the kernel returns them.
pub(crate) fn status(path: &Path) -> io::Result<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut bytes = vec![0_u8; size_of::<libc::stat>()];
    // SAFETY: the vector is as long as the structure.
    check(i64::from(unsafe { libc::stat(path.as_ptr(), bytes.as_mut_ptr().cast()) }))?;
    Ok(bytes)
}

/// See [`status`].
pub(crate) fn extended_status(path: &Path, flags: i32, mask: u32) -> io::Result<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut bytes = vec![0_u8; size_of::<libc::statx>()];
    // SAFETY: the vector is as long as the structure.
    let result = unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, bytes.as_mut_ptr().cast())
    };
    check(i64::from(result))?;
    Ok(bytes)
}

/// See [`status`].
pub(crate) fn names(release: &str) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; size_of::<libc::utsname>()];
    // SAFETY: the vector is as long as the structure.
    check(i64::from(unsafe { libc::uname(bytes.as_mut_ptr().cast()) }))?;
    const FIELD: usize = 65;
    let target = &mut bytes[2 * FIELD..3 * FIELD];
    target.fill(0);
    target[..release.len()].copy_from_slice(release.as_bytes());
    Ok(bytes)
}

/// Opens a file with the flags of the loader, but never creates one.
pub(crate) fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL) | libc::O_CLOEXEC;
    // SAFETY: the descriptor is new.
    unsafe {
        let number = check(i64::from(libc::open(path.as_ptr(), flags)))?;
        Ok(OwnedFd::from_raw_fd(number as i32))
    }
}

/// Whether any of these descriptors of `process` has one of the events listed with it.
pub(crate) fn is_ready(process: i32, files: &[(i32, i16)]) -> bool {
    let fetched =
        files.iter().filter_map(|(file, events)| Some((fetch(process, *file).ok()?, *events)));
    let fetched: Vec<(OwnedFd, i16)> = fetched.collect();
    let mut waits: Vec<libc::pollfd> = fetched
        .iter()
        .map(|(file, events)| libc::pollfd { fd: file.as_raw_fd(), events: *events, revents: 0 })
        .collect();
    // SAFETY: the vector is as long as stated.
    unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, 0) > 0 }
}

/// Whether a read of this descriptor returns at once, with data or without.
pub(crate) fn never_waits(process: i32, file: i32) -> bool {
    let Ok(file) = fetch(process, file) else { return true };
    // SAFETY: asks for the flags of our own descriptor.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags < 0 || flags & libc::O_NONBLOCK != 0
}

/// Overwrites code of `process`, whose memory is `memory`. Some kernels allow this only to a tracer; returns whether that was needed, which
/// interrupts the call that the process is in.
pub(crate) fn write_code(
    memory: &File,
    process: i32,
    address: u64,
    code: &[u8],
) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    if memory.write_all_at(code, address).is_ok() {
        return Ok(false);
    }
    let trace = |request: u32| {
        // SAFETY: the request reads and writes none of our memory.
        check(unsafe { libc::ptrace(request, process, 0, 0) })
    };
    trace(libc::PTRACE_SEIZE)?;
    let written = memory.write_all_at(code, address);
    // Only a stopped process can be detached; its call begins again.
    trace(libc::PTRACE_INTERRUPT)?;
    let mut status = 0;
    // SAFETY: the process is our child, and nothing else waits for its stop.
    check(unsafe { libc::waitpid(process, &raw mut status, libc::__WALL) }.into())?;
    trace(libc::PTRACE_DETACH)?;
    written.map(|()| true)
}

/// Binds a socket of `process` to an address that nobody else knows, instead of the one that it asks for; only local sockets have such
/// addresses.
pub(crate) fn bind_unseen(process: i32, socket: i32) -> io::Result<()> {
    let socket = fetch(process, socket)?;
    let family = libc::AF_UNIX as libc::sa_family_t;
    // SAFETY: an address that consists of a family alone, as long as stated.
    check(i64::from(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const family).cast(),
            size_of_val(&family) as libc::socklen_t,
        )
    }))
    .map(|_| ())
}

/// Sends a signal to a thread of `process`, or to all of it.
pub(crate) fn signal(process: i32, thread: Option<i32>, signal: i32) -> io::Result<()> {
    // SAFETY: sends a signal to one of our processes.
    let sent = unsafe {
        match thread {
            Some(thread) => libc::syscall(libc::SYS_tgkill, process, thread, signal),
            None => i64::from(libc::kill(process, signal)),
        }
    };
    check(sent).map(|_| ())
}
