//! Why a recording cannot be used.

/// Why a recording cannot be used; said with the name of the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error(
        "{file}: cannot be read: {source}; {}",
        fairground_files::remedy(source)
    )]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {file}: {source}; {}", fairground_files::remedy(source))]
    Write {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no recording.
    #[error("{file}: not a recording; `fairground record` makes one")]
    Foreign {
        /// The file.
        file: String,
    },
    /// It is of another version.
    #[error(
        "{file}: a recording of version {version}, and this program reads version {}; record again, or use the program that wrote it",
        crate::VERSION
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// It ends too early.
    #[error(
        "{file}: the recording is cut off after {seconds:.3} s: its end is missing; copy the file again, or record again"
    )]
    Truncated {
        /// The file.
        file: String,
        /// What there is of it.
        seconds: f64,
    },
    /// Its bytes make no sense.
    #[error(
        "{file}: the recording is damaged at byte {place}: {what}; copy the file again, or record again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        place: u64,
        /// What is wrong.
        what: String,
    },
    /// It cannot be imported.
    #[error("{file}: cannot be imported: {what}")]
    Import {
        /// The file.
        file: String,
        /// Why.
        what: String,
    },
    /// There is nothing in it.
    #[error(
        "{file}: none of the tasks chosen ran while this was recorded; record for longer, or choose others"
    )]
    Empty {
        /// The file.
        file: String,
    },
}
