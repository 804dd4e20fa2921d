//! Running clang: C source in, BPF object out.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fairground_files::{Signal, end_with};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// The oldest clang that compiles schedulers.
const OLDEST_VERSION: u32 = 19;

/// Commands tried in this order if the environment names none.
const COMMANDS: [&str; 5] = ["clang-19", "clang", "clang-20", "clang-21", "clang-22"];

/// Maximum memory and CPU time for clang. Schedulers need a hundredth of it, but a source can take any amount, with a macro that doubles itself
/// or a header without end.
const MEMORY: u64 = 4 << 30;
const SECONDS: u64 = 120;

/// A clang that can compile to BPF.
#[derive(Clone, Debug)]
pub struct Clang {
    command: String,
    /// Its whole version.
    version: String,
}

/// A version of clang.
struct Version {
    major: u32,
    whole: String,
}

impl Clang {
    /// The clang named by the environment variable `CLANG`, otherwise the first usable one in the search path. It is looked for once.
    pub fn find() -> Result<&'static Self, Error> {
        static FOUND: OnceLock<Clang> = OnceLock::new();
        match FOUND.get() {
            Some(found) => Ok(found),
            None => {
                let found = Self::look()?;
                Ok(FOUND.get_or_init(|| found))
            }
        }
    }

    fn look() -> Result<Self, Error> {
        if let Some(command) = std::env::var("CLANG").ok().filter(|value| !value.is_empty()) {
            return match version(&command)? {
                Some(Version { major, .. }) if major < OLDEST_VERSION => {
                    Err(Error::OldClang { command, version: major })
                }
                Some(version) => Ok(Self { command, version: version.whole }),
                None => Err(Error::NoClang { tried: format!("CLANG={command}") }),
            };
        }

        let mut too_old = None;
        for command in COMMANDS {
            match version(command)? {
                Some(version) if version.major >= OLDEST_VERSION => {
                    return Ok(Self { command: command.to_owned(), version: version.whole });
                }
                Some(version) => {
                    too_old.get_or_insert((command.to_owned(), version.major));
                }
                None => {}
            }
        }
        Err(match too_old {
            Some((command, version)) => Error::OldClang { command, version },
            None => Error::NoClang { tried: COMMANDS.join(", ") },
        })
    }

    /// The properties that tell it from others: its command, its version, and the target.
    #[allow(dead_code)] // The build script includes this file and keeps no objects.
    pub fn identity(&self) -> String {
        let Self { command, version } = self;
        format!("{command} {version} {}", target_architecture())
    }

    /// Compiles `source` to the BPF object `output` and returns clang's warnings, empty if there are none.
    ///
    /// The folders `include` are searched in their order, before the system's own headers. They come with the option by which clang gets them: `-I`,
    /// or `-isystem` if it shall not warn of what is in them.
    pub fn compile(
        &self,
        source: &Path,
        (option, include): (&str, &[PathBuf]),
        extra_options: &[String],
        output: &Path,
    ) -> Result<String, Error> {
        let mut command = Command::new(&self.command);
        command
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g"])
            .arg(format!("-D__TARGET_ARCH_{}", target_architecture()))
            .args(extra_options);
        for folder in include {
            command.arg(option).arg(folder);
        }
        let architecture_headers =
            PathBuf::from(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH));
        if architecture_headers.is_dir() {
            command.arg("-idirafter").arg(architecture_headers);
        }
        // A file whose name begins with a dash is not an option.
        let source = match source.as_os_str().as_encoded_bytes().first() {
            Some(b'-') => &Path::new(".").join(source),
            _ => source,
        };
        command.arg("-c").arg(source).arg("-o").arg(output);
        let parent = std::process::id();
        // SAFETY: system calls only, which are allowed between fork and exec.
        unsafe { command.pre_exec(move || be_bounded(parent)) };

        let result = command.output().map_err(|cause| unrunnable(&self.command, cause))?;
        let mut diagnostics = String::from_utf8_lossy(&result.stderr).into_owned();
        if let Some(signal) = result.status.signal() {
            diagnostics = format!(
                "clang was ended by signal {signal}; it gets {SECONDS} s of CPU time and {} GiB of memory",
                MEMORY >> 30
            );
        }
        if result.status.success() {
            Ok(diagnostics)
        } else {
            Err(Error::DoesNotCompile {
                source_file: source.to_owned(),
                diagnostics: diagnostics.trim_end().to_owned(),
            })
        }
    }
}

/// Limits the resources of this process, and ends it with the process that started it.
fn be_bounded(parent: u32) -> io::Result<()> {
    end_with(parent, Signal::KILL)?;
    // A limit that is lower already cannot be raised.
    let limit = |resource, most| {
        let most = Some(getrlimit(resource).maximum.unwrap_or(most).min(most));
        let limit = Rlimit { current: most, maximum: most };
        setrlimit(resource, limit)
    };
    limit(Resource::As, MEMORY)?;
    limit(Resource::Cpu, SECONDS)?;
    Ok(limit(Resource::Core, 0)?)
}

/// The version of a clang command; none if there is no such command or it is not clang.
fn version(command: &str) -> Result<Option<Version>, Error> {
    let output = match Command::new(command).arg("-dumpversion").output() {
        Ok(output) => output,
        // No process can be started, whether the command is there or not.
        Err(cause) if is_shortage(&cause) => return Err(unrunnable(command, cause)),
        Err(_) => return Ok(None),
    };
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    let whole = text.trim();
    let major = whole.split('.').next().unwrap_or_default().parse().ok();
    Ok(major.map(|major| Version { major, whole: whole.to_owned() }))
}

/// Whether the system had too little of something, such as processes, files or memory.
fn is_shortage(cause: &io::Error) -> bool {
    let shortages = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(cause).is_some_and(|error| shortages.contains(&error))
}

fn unrunnable(command: &str, cause: io::Error) -> Error {
    Error::File { action: "run", path: PathBuf::from(command), cause }
}

/// The name that libbpf's tracing header gives this machine's architecture.
fn target_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        other => other,
    }
}
