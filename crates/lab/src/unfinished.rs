//! Files that only appear once they are complete, however the command ends.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that is being written. It has no name until [`finish`](Self::finish), and vanishes without it.
pub(crate) struct Unfinished {
    file: File,
    path: PathBuf,
    /// Whether the file already has its name, because the file system has no unnamed files.
    is_named: bool,
}

impl Unfinished {
    /// A file that will be at `path` once it is finished.
    pub fn create(path: &Path) -> io::Result<Self> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut unnamed = File::options();
        unnamed.write(true).custom_flags(libc::O_TMPFILE);
        let (file, is_named) = match unnamed.open(folder) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                (File::create(path)?, true)
            }
            opened => (opened?, false),
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            is_named,
        })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, replacing any previous file.
    pub fn finish(mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_named) {
            return Ok(());
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let open = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let name = CString::new(self.path.as_os_str().as_bytes())?;
        // SAFETY: both strings are zero-terminated.
        let linked = unsafe {
            let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
            libc::linkat(here, open.as_ptr(), here, name.as_ptr(), follow)
        };
        match linked {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_named {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_finished_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        let count = || {
            std::fs::read_dir(folder.path())
                .expect("it can be read")
                .count()
        };
        drop(Unfinished::create(&path).expect("it can be written"));
        assert_eq!(count(), 0);
        for text in ["first", "second"] {
            let unfinished = Unfinished::create(&path).expect("it can be written");
            unfinished
                .file()
                .write_all(text.as_bytes())
                .expect("it can");
            unfinished.finish().expect("it has a name");
            assert_eq!(std::fs::read_to_string(&path).expect("a text"), text);
            assert_eq!(count(), 1);
        }
    }
}
