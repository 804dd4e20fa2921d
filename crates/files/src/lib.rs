//! Reads files made by others, whole but up to a limit, writes files that are complete when they appear, suggests what to do if files cannot be
//! read or written, and ends processes with their parents.

mod kind;
mod unfinished;

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{getppid, set_parent_process_death_signal};

pub use kind::recognised;
pub use rustix::process::Signal;
pub use unfinished::{Unfinished, write};

/// The maximum size of a file, far more than any useful file has. Devices and pipes may be endless.
pub const MOST: u64 = 512 << 20;

/// The bytes of a file, or of a pipe such as the shell's `<(command)`.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_at_most(path, MOST)
}

/// Reads a file that contains text.
pub fn read_text(path: &Path) -> Result<String> {
    let not_text = |_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path)?).map_err(not_text)
}

/// Reads the rest of an open file or pipe.
pub fn read_rest(source: impl Read) -> Result<Vec<u8>> {
    rest_at_most(source, MOST)
}

/// A field of the kernel's line about a process or thread, from the state onwards, which is field 3: proc_pid_stat(5) counts from 1.
pub fn stat_field(line: &str, number: usize) -> Option<&str> {
    // The name before the state may contain anything.
    let (_, fields) = line.rsplit_once(") ")?;
    fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

/// The remedy if a file cannot be read or written, for the end of a message.
pub fn remedy(cause: &Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::MFILE) => return "raise the limit of `ulimit -n`",
        Some(Errno::AGAIN) => return "let fewer tasks run, or raise the limit of `ulimit -u`",
        _ => {}
    }
    match cause.kind() {
        ErrorKind::IsADirectory => "name a file, not a folder",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => "name a folder, not a file",
        ErrorKind::FileTooLarge if cause.raw_os_error().is_some() => {
            "raise the limit of `ulimit -f`, or make room there"
        }
        ErrorKind::FileTooLarge => "name a smaller file",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there or name another place"
        }
        ErrorKind::ReadOnlyFilesystem => "name another place",
        ErrorKind::NotFound => "check the name",
        ErrorKind::PermissionDenied => "check the permissions",
        _ => "check the name and the permissions",
    }
}

/// Sends this process `signal` when the thread that started it ends. `parent` is that thread's process, which may have ended by now. Makes only
/// system calls, so it may be used between fork and exec.
pub fn end_with(parent: u32, signal: Signal) -> Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    match getppid() {
        Some(now) if now.as_raw_nonzero().get().cast_unsigned() == parent => Ok(()),
        _ => Err(rustix::io::Errno::SRCH.into()),
    }
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    rest_at_most(File::open(path)?, most)
}

fn rest_at_most(source: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is larger than {} MiB", most >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_not_read_to_its_end() {
        let error = read_at_most(Path::new("/dev/zero"), 1 << 20).expect_err("it has no end");
        assert_eq!(error.to_string(), "it is larger than 1 MiB");
    }

    #[test]
    fn the_systems_limit_is_told_from_ours() {
        const EFBIG: i32 = 27;
        assert!(remedy(&Error::from_raw_os_error(EFBIG)).contains("ulimit -f"));
        let ours = read_at_most(Path::new("/dev/zero"), 1).expect_err("it has no end");
        assert_eq!(remedy(&ours), "name a smaller file");
    }

    #[test]
    fn a_file_of_the_largest_size_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("text");
        std::fs::write(&path, "four").expect("a file");
        assert_eq!(read_at_most(&path, 4).expect("it fits"), b"four");
        assert!(read_at_most(&path, 3).is_err());
        assert_eq!(read_text(&path).expect("it is text"), "four");
        std::fs::write(&path, b"\xff").expect("a file");
        let error = read_text(&path).expect_err("it is none");
        assert_eq!(error.to_string(), "it is not UTF-8 text");
    }

    #[test]
    fn a_process_whose_parent_has_ended_does_not_begin() {
        let parent = std::os::unix::process::parent_id();
        assert!(end_with(parent, Signal::KILL).is_ok());
        assert!(end_with(std::process::id(), Signal::KILL).is_err());
    }

    #[test]
    fn a_process_with_any_name_says_what_it_does() {
        let line =
            "7 (a) S 1 (b) R 1 7 7 0 -1 4194304 92 0 0 0 250 50 0 0 20 0 1 0 4243 2695168 371";
        let told = [(3, "R"), (4, "1"), (14, "250"), (15, "50"), (22, "4243")];
        for (number, field) in told {
            assert_eq!(stat_field(line, number), Some(field));
        }
        assert_eq!(stat_field(line, 99), None);
        assert_eq!(stat_field("", 3), None);
    }
}
