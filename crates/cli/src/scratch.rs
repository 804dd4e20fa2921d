//! The folder for the command's temporary files. It is removed however the command ends.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The janitor's script: waits for the end of its input, which comes when this process ends. A compiler that ends at the same time may still
/// create a file during the first removal.
const JANITOR: &str = r#"read -r nothing; for turn in 1 2 3; do rm -rf -- "$0"; done"#;

/// The folder that holds all temporary files of this process.
#[derive(Debug)]
pub struct Scratch {
    folder: Option<TempDir>,
    janitor: Option<Child>,
}

impl Scratch {
    /// Creates the folder, and starts a process that removes it if this one cannot. If the folder cannot be created, its users report that.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("fairground-").tempdir();
        let folder =
            folder.ok().filter(|folder| tempfile::env::override_temp_dir(folder.path()).is_ok());
        let janitor = folder.as_ref().and_then(|folder| {
            let mut janitor = Command::new("/bin/sh");
            janitor.args(["-c", JANITOR]).arg(folder.path());
            janitor.stdin(Stdio::piped());
            janitor.stdout(Stdio::null()).stderr(Stdio::null());
            // The terminal's signals must not reach the janitor.
            janitor.process_group(0).spawn().ok()
        });
        Self { folder, janitor }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.folder.take());
        if let Some(mut janitor) = self.janitor.take() {
            // This closes the janitor's input first.
            let _ = janitor.wait();
        }
    }
}
