//! Files that only appear once they are complete, however the command ends.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Result, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use rustix::io::Errno;

/// A file that is being written. Until [`finish`](Self::finish) there is the file that was there before, or none.
pub struct Unfinished {
    file: File,
    path: PathBuf,
    /// The name that it has before it is finished. A file without a name vanishes however the command ends, but not all file systems have such
    /// files. `None` for a pipe or a device, which is written as it is.
    temporary: Option<PathBuf>,
}

impl Unfinished {
    /// A file that will be at `path` once it is finished.
    pub fn create(path: &Path) -> Result<Self> {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Errno::ISDIR.into());
        }
        // A link stays, and a file that is protected is not replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = match File::options().write(true).open(&path) {
            Ok(file) => {
                let before = file.metadata()?;
                if !before.is_file() {
                    return Ok(Self { file, path, temporary: None });
                }
                Some(before)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let folder = match path.parent() {
            Some(folder) if folder != OsStr::new("") => folder,
            _ => Path::new("."),
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".fairground-{}-{count}", std::process::id()));
        // A process with the same number may have been killed.
        let _ = fs::remove_file(&temporary);
        let mut unnamed = File::options();
        unnamed.write(true);
        unnamed.custom_flags(OFlags::TMPFILE.bits().cast_signed());
        let file = match unnamed.open(folder) {
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::OPNOTSUPP | Errno::ISDIR)
                ) =>
            {
                File::create_new(&temporary)?
            }
            opened => opened?,
        };
        if let Some(before) = before {
            // Only root can leave it to its owner.
            let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
            file.set_permissions(before.permissions())?;
        }
        Ok(Self { file, path, temporary: Some(temporary) })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match linkat(CWD, open, CWD, temporary, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) | Err(Errno::EXIST) => fs::rename(temporary, &self.path),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It rarely has this name.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a file, which is complete or stays as it was.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = Unfinished::create(path)?;
    file.file().write_all(bytes)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_finished_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        let count = || fs::read_dir(folder.path()).expect("it can be read").count();
        drop(Unfinished::create(&path).expect("it can be written"));
        assert_eq!(count(), 0);
        for text in ["first", "second"] {
            write(&path, text.as_bytes()).expect("it can be written");
            drop(Unfinished::create(&path).expect("it can be written"));
            assert_eq!(fs::read_to_string(&path).expect("a text"), text);
            assert_eq!(count(), 1);
        }
    }

    #[test]
    fn a_private_file_stays_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        fs::write(&path, "before").expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        write(&path, b"after").expect("it can be written");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("result"), folder.path().join("link"));
        fs::write(&path, "before").expect("it can be written");
        for target in [&*path, Path::new("/dev/null")] {
            std::os::unix::fs::symlink(target, &link).expect("a link");
            write(&link, b"after").expect("it can be written");
            assert_eq!(fs::read_link(&link).expect("still a link"), target);
            fs::remove_file(&link).expect("it can be removed");
        }
        assert_eq!(fs::read_to_string(&path).expect("a text"), "after");
        assert!(!Path::new("/dev/null").is_file());
        let named = write(&folder.path().join("new/"), b"").expect_err("a folder");
        assert_eq!(named.kind(), ErrorKind::IsADirectory);
        let full = write(Path::new("/dev/full"), b"much").expect_err("there is no room");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}
