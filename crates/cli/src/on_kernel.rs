//! Runs experiments on this kernel.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fairground_catalog::Build;
use fairground_kernel::supervise::{Signals, Supervised};
use fairground_kernel::{Error, host};
use fairground_lab::{KernelLoad, KernelMachine, KernelOutput, KernelRun};
use tempfile::TempDir;

/// How often to check whether a run has ended. Its end raises a signal, so this only matters for a run that ignores a request to end; more
/// frequent checks would take CPU time from the measured tasks.
const LOOK: Duration = Duration::from_secs(60);
/// The same after such a request.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// Makes runs on this kernel by starting `fairground run`, which unloads its scheduler in all events.
pub struct Runner {
    /// How the user's own sources are compiled.
    build: Build,
    machine: KernelMachine,
    signals: Signals,
    fairground: PathBuf,
    folder: TempDir,
}

impl Runner {
    pub fn new(build: Build) -> Result<Self, Error> {
        host::check_can_load()?;
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::System { what, source }
        };
        Ok(Self {
            build,
            machine: KernelMachine { description: host::description()?, cpus: host::online_cpus() },
            signals: Signals::take()?,
            fairground: env::current_exe().map_err(failed("cannot find this program"))?,
            folder: TempDir::new().map_err(failed("cannot create a folder for results"))?,
        })
    }

    /// This machine.
    pub fn machine(&self) -> &KernelMachine {
        &self.machine
    }

    /// Makes a run and returns its output, or why it failed.
    pub fn run(&mut self, run: &KernelRun) -> Result<KernelOutput, fairground_lab::Error> {
        let system = |error: std::io::Error| fairground_lab::Error::System(error.to_string());
        let (output, errors) =
            (self.folder.path().join("output"), self.folder.path().join("errors"));
        let mut command = self.command(run).map_err(system)?;
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output).map_err(system)?)
            .stderr(File::create(&errors).map_err(system)?);
        let code = wait(command, &mut self.signals)
            .map_err(|error| fairground_lab::Error::System(error.to_string()))?;
        let text = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match code {
            Ok(0) => Ok(Ok(text(&output))),
            Ok(code) => Ok(Err(reason(&text(&errors), code))),
            Err(signal) => Err(fairground_lab::Error::Stopped(signal)),
        }
    }

    /// The command of a run.
    fn command(&self, run: &KernelRun) -> std::io::Result<Command> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(scheduler) = &run.scheduler {
            // Commands run in a folder of their own, so a relative path would not work there.
            let scheduler = match fs::canonicalize(scheduler) {
                Ok(path) if scheduler.contains('/') => path.into(),
                _ => scheduler.into(),
            };
            words.extend([self.fairground.clone().into(), "run".into(), scheduler]);
            for setting in &run.settings {
                words.extend(["--set".into(), setting.into()]);
            }
            for folder in &self.build.include {
                words.extend(["-I".into(), fs::canonicalize(folder)?.into()]);
            }
            for define in &self.build.defines {
                words.extend(["-D".into(), define.into()]);
            }
            let dump = self.folder.path().join("dump");
            words.extend(["--dump".into(), dump.into()]);
            // The player needs root, not the user that called sudo.
            words.extend(["--user".into(), "root".into(), "--".into()]);
        }
        let mut variables: &[(&str, String)] = &[];
        match &run.load {
            KernelLoad::Play { name, workload, duration, seed, metrics } => {
                let file = self.folder.path().join(format!("{name}.json"));
                fs::write(&file, workload)?;
                words.extend([self.fairground.clone().into(), "play".into(), file.into()]);
                words.extend(["--format".into(), "json".into()]);
                words.extend(["--seed".into(), seed.to_string().into()]);
                words.extend(["--window".into(), format!("{}ns", metrics.window).into()]);
                if let Some(duration) = duration {
                    words.extend(["--duration".into(), format!("{duration}ns").into()]);
                }
                if metrics.records {
                    words.push("--records".into());
                }
            }
            KernelLoad::Command { script, variables: of_script } => {
                words.extend(["sh".into(), "-c".into(), script.into()]);
                variables = of_script;
            }
        }
        let mut command = Command::new(words.remove(0));
        command
            .args(words)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path());
        Ok(command)
    }
}

/// Runs a command to its end: its exit code, or the name of the signal with which the user interrupted it. It ends with this process.
pub fn wait(command: Command, signals: &mut Signals) -> Result<Result<u8, String>, Error> {
    let mut command = Supervised::start_group(command)?;
    let mut stopped = None;
    loop {
        let look = if stopped.is_some() { LAST_LOOK } else { LOOK };
        if let Some(request) = signals.wait(look)? {
            command.end(request.signal);
            stopped = Some(request.signal.to_string());
        }
        if let Some(code) = command.poll()? {
            return Ok(stopped.map_or(Ok(code), Err));
        }
    }
}

/// Why a command failed: its message, without the prefix with this program's name.
fn reason(said: &str, code: u8) -> String {
    let lines: Vec<&str> =
        said.lines().map(|line| line.strip_prefix("fairground: ").unwrap_or(line)).collect();
    match lines.join("\n").trim() {
        "" => format!("exit status {code}"),
        said => said.to_owned(),
    }
}

/// Whether a program of this name is installed.
pub fn is_program(name: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| {
        fs::metadata(folder.join(name))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_what_was_said() {
        assert_eq!(reason("fairground: no\nway\n", 2), "no\nway");
        assert_eq!(reason("", 7), "exit status 7");
    }

    #[test]
    fn programs_are_found() {
        assert!(is_program("sh"));
        assert!(!is_program("no-such-program"));
    }
}
