//! `fairground enable`, `disable` and `status`: a scheduler in charge of this machine from boot on, as a service of systemd.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use fairground_kernel::{Error, host};

use crate::output::{self, Stop};
use crate::run::{self, Choice};

/// Where administrators put services of their own.
const UNIT: &str = "/etc/systemd/system/fairground.service";
const SERVICE: &str = "fairground.service";
/// A folder that is there if systemd runs: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// Put a scheduler in charge now and at each boot
///
/// Asks the kernel's verifier first, writes a service for systemd, and starts it. If a scheduler was enabled before, the new one takes its
/// place. A scheduler that the kernel ejects is not started again before the next boot: the kernel's own takes over, and `status` says
/// why. Needs root, systemd and a kernel with sched_ext.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground enable bfs
  sudo fairground enable cfs --set sched_latency=12ms
  fairground status
  sudo fairground disable")]
pub struct EnableArguments {
    #[command(flatten)]
    choice: Choice,
}

/// Return to the kernel's own scheduler, now and at each boot
///
/// Stops the service that `enable` wrote and removes it. Needs root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground disable")]
pub struct DisableArguments {}

/// Say which scheduler is in charge, since when, and which one is enabled
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground status")]
pub struct StatusArguments {}

pub fn enable(arguments: &EnableArguments) -> Result<ExitCode, Stop> {
    try_enable(&arguments.choice)?;
    changed()
}

pub fn disable() -> Result<ExitCode, Stop> {
    try_disable()?;
    changed()
}

/// Says how things are after a change, which is made even if that cannot be said.
fn changed() -> Result<ExitCode, Stop> {
    let _ = status().map_err(Stop::tell);
    Ok(ExitCode::SUCCESS)
}

pub fn status() -> Result<ExitCode, Stop> {
    let loaded = host::loaded_scheduler();
    let mut text = match &loaded {
        Some(name) => format!("in charge: {name}\n"),
        None => "in charge: the kernel's own scheduler\n".to_owned(),
    };
    match std::fs::read_to_string(UNIT) {
        Ok(unit) => {
            let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
            let _ = writeln!(
                text,
                "enabled:   {}",
                command.unwrap_or("by a service without a command")
            );
            let state = properties(&["ActiveState", "StateChangeTimestamp", "Result"]);
            if let Some([active, since, result]) = state.as_deref() {
                let ending = if result == "success" {
                    String::new()
                } else {
                    format!(" ({result}; journalctl -u {SERVICE} says why)")
                };
                let _ = writeln!(text, "service:   {active} since {since}{ending}");
            }
        }
        Err(_) => text.push_str("enabled:   nothing\n"),
    }
    let _ = match host::check_this_kernel() {
        Ok(()) => writeln!(text, "kernel:    can load schedulers"),
        Err(error) => writeln!(text, "kernel:    cannot load schedulers: {error}"),
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(loaded.is_none())))
}

fn try_enable(choice: &Choice) -> Result<(), Error> {
    let is_ours = Path::new(UNIT).exists() && systemctl(&["--quiet", "is-active", SERVICE]).is_ok();
    if !is_ours {
        host::check_can_load()?;
    }
    check_systemd(Path::new(SYSTEMD))?;
    run::check(choice)?;
    let program =
        std::env::current_exe().map_err(Error::system("cannot find this program's file"))?;
    let command = command(&program, choice)?;
    let clang = clang(choice, std::env::var("CLANG").ok())?;
    let before = std::fs::read(UNIT).ok();
    write_unit(unit(&choice.scheduler, &command, clang.as_deref()).as_bytes())?;
    let started = systemctl(&["daemon-reload"])
        .and_then(|()| systemctl(&["--quiet", "enable", SERVICE]))
        .and_then(|()| systemctl(&["restart", SERVICE]));
    if started.is_err()
        && let Err(error) = undo(before)
    {
        output::say!("fairground: and what was enabled before is not back: {error}");
    }
    started
}

/// Checks that there is a systemd to start services; its programs are also installed where it does not run, as in containers.
fn check_systemd(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let reason = format!(
        "systemd does not run here ({} is missing), and it starts services; `fairground run` needs none",
        folder.display()
    );
    Err(Error::Usage { reason })
}

/// After a start that failed: the scheduler that was enabled before is back, or none is.
fn undo(before: Option<Vec<u8>>) -> Result<(), Error> {
    let Some(unit) = before else { return remove() };
    write_unit(&unit)?;
    systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["restart", SERVICE]))
}

fn try_disable() -> Result<(), Error> {
    host::check_root("changing what starts at boot")?;
    if !Path::new(UNIT).exists() {
        return Err(Error::Usage {
            reason: "nothing is enabled; `fairground status` says what is in charge".to_owned(),
        });
    }
    remove()
}

/// Stops the service and removes it, as far as that goes; an error tells the first thing that did not.
fn remove() -> Result<(), Error> {
    let stopped = systemctl(&["--quiet", "disable", "--now", SERVICE]);
    let removed =
        std::fs::remove_file(UNIT).map_err(Error::system(format!("cannot remove {UNIT}")));
    // Without this, a service that failed is listed for ever.
    let _ = systemctl(&["--quiet", "reset-failed", SERVICE]);
    let known = systemctl(&["daemon-reload"]);
    stopped.and(removed).and(known)
}

fn write_unit(contents: &[u8]) -> Result<(), Error> {
    fairground_files::write(Path::new(UNIT), contents)
        .map_err(|source| Error::Write { path: PathBuf::from(UNIT), source })
}

/// The service. The kernel's own scheduler is a machine's fallback, so nothing restarts a scheduler that failed.
fn unit(scheduler: &str, command: &str, clang: Option<&str>) -> String {
    let environment = clang.map(|clang| format!("Environment=\"CLANG={}\"\n", escaped(clang)));
    format!(
        "# Written by `fairground enable`; `fairground disable` removes it.
[Unit]
Description=CPU scheduler {} (fairground)
Documentation=man:fairground-run(1)
ConditionPathExists=/sys/kernel/sched_ext

[Service]
Type=notify
{}ExecStart={command}

[Install]
WantedBy=multi-user.target
",
        scheduler.replace('%', "%%"),
        environment.unwrap_or_default()
    )
}

/// The `given` compiler, which the service needs for a file of the user's own: it does not have this process's environment.
fn clang(choice: &Choice, given: Option<String>) -> Result<Option<String>, Error> {
    match given.filter(|clang| !clang.is_empty() && is_file(choice)) {
        Some(path) if path.contains('/') => absolute(&path).map(Some),
        name => Ok(name),
    }
}

/// Whether the scheduler is no built-in one.
fn is_file(choice: &Choice) -> bool {
    choice.scheduler.contains(['/', '.'])
}

/// A file as it is named from any folder.
fn absolute(file: &str) -> Result<String, Error> {
    let found = Path::new(file).canonicalize();
    let found = found.map_err(Error::system(format!("cannot find {file}")))?;
    Ok(found.display().to_string())
}

/// The command line of the service: files as they are named from any folder.
fn command(program: &Path, choice: &Choice) -> Result<String, Error> {
    let mut words = vec![program.display().to_string(), "run".to_owned()];
    words.push(match &choice.scheduler {
        file if is_file(choice) => {
            let (parts, table) = fairground_catalog::files_of(file, Path::new(""));
            let parts: Result<Vec<_>, _> = parts.into_iter().map(absolute).collect();
            parts?.join("+") + table
        }
        id => id.clone(),
    });
    for setting in &choice.settings {
        words.extend(["--set".to_owned(), setting.clone()]);
    }
    if let Some(companion) = &choice.companion {
        let file = if companion == "none" { companion.clone() } else { absolute(companion)? };
        words.extend(["--with".to_owned(), file]);
    }
    for folder in &choice.include {
        words.extend(["-I".to_owned(), absolute(&folder.to_string_lossy())?]);
    }
    for define in &choice.defines {
        words.extend(["-D".to_owned(), define.clone()]);
    }
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// A word as systemd reads it in `ExecStart=`.
fn quoted(word: &str) -> String {
    let escaped = escaped(word).replace('$', "$$");
    let is_plain = !escaped.is_empty()
        && escaped.chars().all(|one| one.is_ascii_alphanumeric() || "/._-+=:,%$#@".contains(one));
    if is_plain { escaped } else { format!("\"{escaped}\"") }
}

/// A text as systemd reads it between quotation marks.
fn escaped(text: &str) -> String {
    text.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"")
}

/// Asks systemd for something.
fn systemctl(arguments: &[&str]) -> Result<(), Error> {
    let called = Command::new("systemctl").args(arguments).stdin(Stdio::null()).output();
    let answer = match called {
        Ok(answer) => answer,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let reason =
                "there is no systemctl: services need systemd; `fairground run` needs none"
                    .to_owned();
            return Err(Error::Usage { reason });
        }
        Err(error) => return Err(Error::system("cannot start systemctl")(error)),
    };
    if answer.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
    let log = match arguments {
        ["restart", ..] => format!(" (`journalctl -u {SERVICE}` says why)"),
        _ => String::new(),
    };
    let request = format!("systemctl {} failed{log}", arguments.join(" "));
    Err(Error::system(request)(std::io::Error::other(told)))
}

/// Properties of the service, in the order of `names`; nothing if systemd does not answer.
fn properties(names: &[&str]) -> Option<Vec<String>> {
    let wanted = format!("--property={}", names.join(","));
    let answer = Command::new("systemctl")
        .args(["show", &wanted, SERVICE])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let value = |name: &&str| {
        text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix('=')).map(str::to_owned)
    };
    names.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(scheduler: &str, settings: &[&str]) -> Choice {
        Choice {
            scheduler: scheduler.to_owned(),
            settings: settings.iter().map(|&one| one.to_owned()).collect(),
            companion: None,
            include: Vec::new(),
            defines: Vec::new(),
        }
    }

    #[test]
    fn the_command_line_is_what_the_user_chose() {
        let chosen = choice("bfs", &["rr_interval=6ms", "bfs.name=a b"]);
        let text = command(Path::new("/usr/bin/fairground"), &chosen).unwrap();
        assert_eq!(
            text,
            "/usr/bin/fairground run bfs --set rr_interval=6ms --set \"bfs.name=a b\""
        );
    }

    #[test]
    fn files_are_named_from_the_root() {
        let chosen = choice("./Cargo.toml", &[]);
        let text = command(Path::new("/f"), &chosen).unwrap();
        let file = Path::new("Cargo.toml").canonicalize().unwrap();
        assert_eq!(text, format!("/f run {}", quoted(&file.display().to_string())));
        assert!(command(Path::new("/f"), &choice("./no-such.bpf.c", &[])).is_err());
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("c++");
        std::fs::create_dir(&home).unwrap();
        let file = home.join("mine.bpf.c").display().to_string();
        std::fs::write(&file, "").unwrap();
        let text = command(Path::new("/f"), &choice(&format!("{file}+{file}#two"), &[])).unwrap();
        assert_eq!(text, format!("/f run {file}+{file}#two"));
    }

    #[test]
    fn the_service_has_the_compiler_for_a_file() {
        let own = choice("./mine.bpf.c", &[]);
        let given = |clang: &str| Some(clang.to_owned());
        assert_eq!(clang(&own, given("clang-20")).unwrap(), given("clang-20"));
        assert_eq!(clang(&own, given("src/../Cargo.toml")).unwrap(), {
            let file = Path::new("Cargo.toml").canonicalize().unwrap();
            given(file.to_str().unwrap())
        });
        assert!(clang(&own, given("./no-such-clang")).is_err());
        assert_eq!(clang(&own, given("")).unwrap(), None);
        assert_eq!(clang(&choice("bfs", &[]), given("./no-such-clang")).unwrap(), None);
        let text = unit("mine", "/f run ./mine.bpf.c", Some("/opt/100% $1/clang"));
        assert!(text.contains("\nEnvironment=\"CLANG=/opt/100%% $1/clang\"\nExecStart="), "{text}");
        assert!(!unit("bfs", "/f run bfs", None).contains("Environment"));
    }

    #[test]
    fn services_need_a_systemd_that_runs() {
        assert!(check_systemd(Path::new("/")).is_ok());
        let error = check_systemd(Path::new("/no/systemd")).unwrap_err();
        assert!(error.to_string().contains("(/no/systemd is missing)"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn systemd_reads_words_as_they_were() {
        assert_eq!(quoted("100%"), "100%%");
        assert_eq!(quoted("$HOME"), "$$HOME");
        assert_eq!(quoted("a\"b c\\"), "\"a\\\"b c\\\\\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn the_service_is_one_that_systemd_can_read() {
        if Command::new("systemd-analyze").arg("--version").output().is_err() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(SERVICE);
        std::fs::write(
            &file,
            unit("bfs", "/bin/true run bfs --set \"a=b c\"", Some("/opt/a \"b\" 100%")),
        )
        .unwrap();
        let told = Command::new("systemd-analyze")
            .arg("verify")
            .arg("--man=no")
            .arg(&file)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let about_it: Vec<_> =
            told.lines().filter(|line| line.contains("fairground.service")).collect();
        assert!(about_it.is_empty(), "{about_it:?}");
    }
}
