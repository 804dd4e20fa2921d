//! Schedulers whose loaders this host can run: a loader's settings on a machine, and its scheduler as one that takes part in an experiment.

use std::path::Path;
use std::sync::Arc;

use fairground_capture::Captured;
use fairground_catalog::Build;
use fairground_companion::Companion;
use fairground_machine::Machine;
use fairground_simulator::Options;

use crate::cell::Cell;
use crate::contender::Contender;
use crate::error::Error;
use crate::remote::{SimulatedKernel, Waiting};

/// The prefix of a reference that names a scheduler's loader.
pub const LOADER: &str = "exec:";

/// Runs a loader until it has attached its scheduler on `machine`. `object` is the scheduler's object if the loader does not contain it.
pub fn capture_loader(
    command: &[String],
    machine: &Machine,
    object: Option<&Path>,
) -> Result<Captured, Error> {
    fairground_capture::capture(command, machine, &SimulatedKernel, object)
        .map_err(|reason| Error::Capture { command: command.join(" "), reason })
}

impl Contender {
    /// Opens the scheduler that a command of the form `exec:LOADER ARGUMENTS` attaches on `machine`, with the loader's settings there. Each
    /// run starts the loader again and keeps it running alongside.
    pub fn capture(reference: &str, machine: &Machine) -> Result<Self, Error> {
        let command = reference.strip_prefix(LOADER).unwrap_or(reference);
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let unread = |reason| Error::Capture { command: command.to_owned(), reason };
        let mut loader = Waiting::start(&words, machine)?;
        let captured = loader.captured().map_err(unread)?;
        let unwritten = |cause| Error::Write { path: std::env::temp_dir(), cause };
        let folder = tempfile::tempdir().map_err(unwritten)?;
        let path = folder.path().join(format!("{}.bpf.o", captured.scheduler));
        std::fs::write(&path, &captured.object).map_err(unwritten)?;
        let mut contender = Self::open(&path.display().to_string(), &Build::default())?;
        contender.set_loader(reference, words);
        let origin = format!("{command}, captured");
        contender.set_companion(Companion::parse(&origin, &captured.companion)?)?;
        if !loader.is_attached() && contender.scheduler().is_ok() {
            // The loader's actions until then depend on the results of programs that it runs.
            let options = Options::new(machine.clone(), Arc::default());
            Cell::new(contender.clone(), options).attach(&mut loader)?;
            let captured = loader.captured().map_err(unread)?;
            contender.set_companion(Companion::parse(&origin, &captured.companion)?)?;
        }
        Ok(contender)
    }
}
