//! Writing results.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use fairground_files::Unfinished;
pub use fairground_report::{columns, wrap};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Width of descriptions, in columns.
pub const WIDTH: usize = 100;

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// Everything, for programs
    Json,
    /// For spreadsheets
    Csv,
}

/// Form of a result that is no table of equal rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people
    #[value(alias = "text")]
    Table,
    /// Everything, for programs
    Json,
}

/// Form of a result that has one for documents, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentForm {
    /// For people
    Table,
    /// Everything, for programs
    Json,
    /// For spreadsheets
    Csv,
    /// For comments and documents
    Markdown,
}

/// Prints a line for people on standard error. A failed write is ignored.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = crate::output::make_visible(format!($($text)*));
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }};
}
pub(crate) use say;

/// Escapes control characters: messages quote files from elsewhere, which must not control the terminal.
pub fn make_visible(text: String) -> String {
    let is_command = |one: char| one.is_control() && one != '\n' && one != '\t';
    if !text.contains(is_command) {
        return text;
    }
    text.chars()
        .map(|one| match one {
            _ if is_command(one) => one.escape_unicode().to_string(),
            _ => one.to_string(),
        })
        .collect()
}

/// Exit code for input that cannot be used.
pub const UNUSABLE: u8 = 2;
/// Exit code for a run that failed.
pub const FAILED: u8 = 1;

/// Prints a result; a closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Stop> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(fail(FAILED, format_args!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints the result of a command that has nothing else to do.
pub fn finish(text: &str) -> Result<ExitCode, Stop> {
    print(text).map(|()| ExitCode::SUCCESS)
}

/// Whether standard output is a terminal that shows colours, and the user has nothing against them (<https://no-color.org>).
pub fn has_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let cannot = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    !refused && !cannot && std::io::stdout().is_terminal()
}

/// Lets a write beyond the maximum size of files (`ulimit -f`) fail, where the system would end this process. A signal that is handled, unlike
/// one that is ignored, is as before in the programs that this one starts.
pub fn outlive_limits() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: the handler has the signature that is demanded and does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) };
}

/// The place of a result in a file. Whether there can be a file is known before the work for the result begins.
pub struct Place<'a> {
    path: &'a Path,
    file: Unfinished,
}

impl<'a> Place<'a> {
    /// A place at `path`, with the folders on the way.
    pub fn at(path: &'a Path) -> Result<Self, Stop> {
        Self::open(path).map_err(|cause| no_place(path, cause))
    }

    fn open(path: &'a Path) -> std::io::Result<Self> {
        make_folders(path)?;
        let file = Unfinished::create(path)?;
        Ok(Self { path, file })
    }

    /// The file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Writes the result.
    pub fn write(self, bytes: impl AsRef<[u8]>) -> Result<(), Stop> {
        { self.file.file() }
            .write_all(bytes.as_ref())
            .and_then(|()| self.file.finish())
            .map_err(|cause| unwritten(self.path, cause))
    }
}

/// Makes a folder for results, and checks that there can be files in it.
pub fn make_folder(folder: &Path) -> Result<(), Stop> {
    std::fs::create_dir_all(folder)
        .and_then(|()| Unfinished::create(&folder.join("results")).map(drop))
        .map_err(|cause| no_place(folder, cause))
}

/// Writes a file, creating its folders if needed.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Stop> {
    Place::open(path).map_err(|cause| unwritten(path, cause))?.write(bytes)
}

/// Creates the parent folders of a file.
pub fn make_folders(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

/// That a file or folder cannot be written.
pub fn unwritten(path: &Path, cause: std::io::Error) -> Stop {
    fairground_lab::Error::Write { path: path.to_owned(), cause }.into()
}

/// The same before anything has run.
fn no_place(path: &Path, cause: std::io::Error) -> Stop {
    fail(UNUSABLE, fairground_lab::Error::Write { path: path.to_owned(), cause })
}

/// Why a command ends before its work is done, and its exit code.
#[must_use]
pub struct Stop {
    code: u8,
    message: String,
}

/// That a command ends with this code.
pub fn fail(code: u8, message: impl Display) -> Stop {
    Stop { code, message: message.to_string() }
}

impl Stop {
    /// Says why; returns the exit code.
    pub fn tell(self) -> ExitCode {
        crate::output::say!("fairground: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<fairground_lab::Error> for Stop {
    fn from(error: fairground_lab::Error) -> Self {
        fail(error.exit_code(), error)
    }
}

impl From<fairground_kernel::Error> for Stop {
    fn from(error: fairground_kernel::Error) -> Self {
        fail(error.exit_code(), error)
    }
}

/// A progress bar with the estimated time left; hidden if standard error is not a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar labelled `label`.
    pub fn new(label: String) -> Self {
        // Short runs show no bar: it is first drawn when the first run ends.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(label);
        Self(bar)
    }

    /// Labels it anew.
    pub fn label(&self, label: String) {
        self.0.set_message(label);
    }

    /// Reports that `done` of `total` are done.
    pub fn tell(&self, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
