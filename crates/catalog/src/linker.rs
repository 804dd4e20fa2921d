//! libbpf's static linker. libbpf-rs has it, too, but its current version panics when libbpf refuses a file.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use crate::error::Error;

/// Links BPF objects into one.
pub struct Linker(NonNull<libbpf_sys::bpf_linker>);

impl Linker {
    /// Links into the file `output`.
    pub fn new(output: &Path) -> Result<Self, Error> {
        let path = c_path(output)?;
        // SAFETY: the path is a C string; without options libbpf uses its defaults.
        let linker = unsafe { libbpf_sys::bpf_linker__new(path.as_ptr(), null_mut()) };
        let failed = || failure(std::io::Error::last_os_error(), output);
        NonNull::new(linker).map(Self).ok_or_else(failed)
    }

    /// Adds an object.
    pub fn add_file(&mut self, object: &Path) -> Result<(), Error> {
        let path = c_path(object)?;
        // SAFETY: the linker is alive, and the path is a C string.
        let result =
            unsafe { libbpf_sys::bpf_linker__add_file(self.0.as_ptr(), path.as_ptr(), null_mut()) };
        check(result, object)
    }

    /// Writes the linked object.
    pub fn link(self) -> Result<(), Error> {
        // SAFETY: the linker lives until it is dropped, after this.
        let result = unsafe { libbpf_sys::bpf_linker__finalize(self.0.as_ptr()) };
        check(result, Path::new("the linked object"))
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: nothing else uses it.
        unsafe { libbpf_sys::bpf_linker__free(self.0.as_ptr()) };
    }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| failure("its path has a zero byte", path))
}

/// libbpf returns 0 or a negative error number; it has already printed a message.
fn check(result: i32, path: &Path) -> Result<(), Error> {
    match result {
        0 => Ok(()),
        error => Err(failure(std::io::Error::from_raw_os_error(error.saturating_abs()), path)),
    }
}

fn failure(cause: impl std::fmt::Display, path: &Path) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str());
    Error::Link { message: format!("{}: {cause}", name.to_string_lossy()) }
}
