//! Captures the actions of a scheduler's real loader.
//!
//! The unmodified loader runs under seccomp user notification, without privileges. Its bpf(2) calls are answered here, and so are its
//! queries about the machine and the kernel; its settings before it attached its scheduler become a companion file. Only state is taken
//! from the loader: its programs are those of the object that it carries, because libbpf passes on instructions that it has already changed
//! for a kernel.

mod attributes;
mod calls;
mod decode;
mod embedded;
mod error;
mod followed;
mod kernel_btf;
mod maps;
mod process;
mod supervisor;
mod tree;
mod trials;
mod vdso;
mod waits;
mod write;

use std::path::{Path, PathBuf};

use fairground_bpf::Object;
use fairground_machine::Machine;

use supervisor::{Left, Supervisor};

pub use calls::{Memory, Place};
pub use error::Error;
pub use followed::Followed;

/// The kernel that loaders see.
pub trait KernelFacts {
    /// Constants of its enumerations.
    fn constants(&self) -> Vec<(&'static str, u64)>;
    /// The value of a configuration option.
    fn kconfig(&self, name: &str) -> Option<u64>;
    /// Whether it has this kernel function.
    fn has_function(&self, name: &str) -> bool;
}

/// The result of a capture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// `ops.name` in the loader's object.
    pub scheduler: String,
    /// The object that the loader carries.
    pub object: Vec<u8>,
    /// The text of the companion file.
    pub companion: String,
    /// Everything that the loader printed.
    pub output: String,
}

/// Runs `command` until it has attached its scheduler on `machine` and done its one-time work after that. `object` is the scheduler's
/// object if the loader does not carry it.
pub fn capture(
    command: &[String],
    machine: &Machine,
    kernel: &dyn KernelFacts,
    object: Option<&Path>,
) -> Result<Captured, Error> {
    let mut followed = start(command, machine, kernel, object)?;
    let supervisor = &mut followed.supervisor;
    supervisor.run_until_attached(Left::None)?;
    supervisor.run_until_quiet()?;
    followed.captured()
}

/// Runs `command` until it needs a kernel: it runs one of its scheduler's programs, or attaches its scheduler on `machine`. It can then
/// continue beside a simulation.
pub fn follow(
    command: &[String],
    machine: &Machine,
    kernel: &dyn KernelFacts,
) -> Result<Followed, Error> {
    let mut followed = start(command, machine, kernel, None)?;
    let supervisor = &mut followed.supervisor;
    followed.asked = supervisor.run_until_attached(Left::FromFirstRun)?;
    supervisor.state.hand_over();
    Ok(followed)
}

/// Starts a loader; `object` as for [`capture`].
fn start(
    command: &[String],
    machine: &Machine,
    kernel: &dyn KernelFacts,
    object: Option<&Path>,
) -> Result<Followed, Error> {
    let program = command.first().map_or("", String::as_str);
    let program =
        find_program(program).ok_or_else(|| Error::NoLoader { program: program.to_owned() })?;
    let bytes = match object {
        Some(path) => embedded::read(path)?,
        None => embedded::find(&program)?,
    };
    let parsed = Object::parse(&bytes).map_err(|error| Error::Object {
        path: object.unwrap_or(&program).to_owned(),
        message: error.to_string(),
    })?;
    let btf = kernel_btf::generate(&bytes, &parsed, kernel)?;
    let tree = tree::Tree::make(machine, &btf, &parsed, kernel)?;
    let cpus = machine.cpus.len();
    Ok(Followed {
        supervisor: Supervisor::start(&program, command, tree, parsed, cpus)?,
        object: bytes,
        origin: format!("{} on machine {}", command.join(" "), machine.description),
        asked: None,
        asks: None,
        replies: Vec::new(),
    })
}

/// Finds the program by its path or in the search path, as a shell does.
fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file() && !name.is_empty())
}
