//! The error of a workload that cannot be used.

use std::fmt;

/// Why a workload cannot be used, and where.
///
/// It is displayed as `file:line:column: json.path: message`; the message ends with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as named by the caller.
    pub file: String,
    /// Line from 1; 0 if the error is about the file as a whole.
    pub line: u32,
    /// Column in characters from 1; 0 if the error is about the file as a whole.
    pub column: u32,
    /// Path of keys to the place, such as `tasks.thread0.phases.p1.run`; empty at the top.
    pub json_path: String,
    /// The fault and the remedy.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.json_path.is_empty() {
            write!(f, ": {}", self.json_path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}
