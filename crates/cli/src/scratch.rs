//! The folder for what the command needs for a while. Nothing of it is left, whatever ends the command.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// What the janitor does: it waits for the end of its input, which comes with the end of this process. A compiler that ends with this process
/// may still make a file when the folder is removed for the first time.
const JANITOR: &str = r#"read -r nothing; for turn in 1 2 3; do rm -rf -- "$0"; done"#;

/// The folder in which all temporary files of this process lie.
#[derive(Debug)]
pub struct Scratch {
    folder: Option<TempDir>,
    janitor: Option<Child>,
}

impl Scratch {
    /// Makes the folder, and starts a process that removes it should this one have no time to. If there can be no folder, what
    /// needs one says so.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("fairground-").tempdir();
        let folder = folder
            .ok()
            .filter(|folder| tempfile::env::override_temp_dir(folder.path()).is_ok());
        let janitor = folder.as_ref().and_then(|folder| {
            let mut janitor = Command::new("/bin/sh");
            janitor.args(["-c", JANITOR]).arg(folder.path());
            janitor.stdin(Stdio::piped());
            janitor.stdout(Stdio::null()).stderr(Stdio::null());
            // The terminal's signals are not for it.
            janitor.process_group(0).spawn().ok()
        });
        Self { folder, janitor }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.folder.take());
        if let Some(mut janitor) = self.janitor.take() {
            // This closes its input first.
            let _ = janitor.wait();
        }
    }
}
