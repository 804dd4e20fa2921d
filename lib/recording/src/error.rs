//! Why a recording cannot be used.

/// Why a recording cannot be used. Each message names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}; {}", fairground_files::remedy(source))]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {file}: {source}; {}", fairground_files::remedy(source))]
    Write {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error("{file}: not a recording; `fairground record` makes one")]
    Foreign {
        /// The file.
        file: String,
    },
    /// The format version is not the one that this program reads.
    #[error(
        "{file}: a recording of format version {version}, but this program reads versions up to {}; record again, or use the program that wrote it",
        crate::VERSION
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// The file is cut off.
    #[error(
        "{file}: the recording is cut off after {seconds:.3} s; copy the file again, or record again"
    )]
    Truncated {
        /// The file.
        file: String,
        /// How much of it there is, in seconds.
        seconds: f64,
    },
    /// The contents are invalid.
    #[error(
        "{file}: the recording is damaged at byte {place}: {what}; copy the file again, or record again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where, in bytes from the beginning.
        place: u64,
        /// The fault.
        what: String,
    },
    /// The file cannot be imported.
    #[error("{file}: cannot be imported: {what}")]
    Import {
        /// The file.
        file: String,
        /// Why.
        what: String,
    },
    /// No chosen task ran.
    #[error(
        "{file}: none of the chosen tasks ran during the recording; record for longer, or choose others"
    )]
    Empty {
        /// The file.
        file: String,
    },
}
