//! `fairground record`: records the activities of this machine's tasks.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use fairground_kernel::capture::Capture;
use fairground_kernel::guard::{Guarded, User};
use fairground_kernel::host::{self, Incumbent, Online};
use fairground_kernel::supervise::Signals;
use fairground_kernel::{Error, clock};
use fairground_recording::{Ending, Header, Roots, Writer, counted};

use crate::output::{self, Stop};
use crate::quantity::nanoseconds;

/// How often to check whether the recording is over. The end of the command raises a signal, which is noticed at once.
const LOOK: Duration = Duration::from_millis(500);

/// The parent learns of a command's end before the command's last task has left its CPU.
const LAST_SWITCH: Duration = Duration::from_millis(20);

/// Record the activities of this machine's tasks
///
/// Records which tasks run, for which things they wait and which events wake them, under any scheduler: until the command ends, the time is over,
/// or Ctrl-C. The recording is a workload: `compare`, `show` and `play` take it like an rt-app file, and `advise` says which
/// scheduler suits it. Needs root and Linux 6.12 or newer; docs/recordings.md lists the recorded events, and says how far to trust the
/// results.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground record -o build.recording -- make -j8
  sudo fairground record -d 10s -o desktop.recording
  sudo fairground record --pid 4711 -d 30s
  fairground show build.recording && fairground advise build.recording")]
pub struct Arguments {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "fairground.recording")]
    output: PathBuf,

    /// End the recording after this time, such as 500ms or 10s; a command continues, and this program waits for its end
    #[arg(short, long, value_parser = nanoseconds)]
    duration: Option<u64>,

    /// Choose this process and those it creates during the recording
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "command"])]
    pid: Option<u32>,

    /// Choose the processes of this control group and those they create
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    cgroup: Option<PathBuf>,

    /// User that the command runs as [default: the user that called sudo]
    #[arg(long, value_name = "NAME", requires = "command", conflicts_with_all = ["pid", "cgroup"])]
    user: Option<String>,

    /// Run this command, choose its processes, and return its exit code; anything it leaves running ends with it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    Ok(ExitCode::from(record(arguments)?))
}

fn record(arguments: &Arguments) -> Result<u8, Error> {
    host::check_root("recording the scheduler's actions")?;
    let mut roots = roots(arguments)?;
    let cannot_write = |source: io::Error| Error::Write { path: arguments.output.clone(), source };
    let mut signals = Signals::take()?;
    let mut command = None;
    if !arguments.command.is_empty() {
        let user = User::chosen(arguments.user.as_deref())?;
        command = Some(Guarded::prepare(&arguments.command, user.as_ref())?);
    }
    let capture = Capture::start()?;
    if let (Some(_), Some(request)) = (&command, signals.arrived()?) {
        output::say!("fairground: {} came before the command was started", request.signal);
        return Ok(request.exit_code());
    }
    // Reports an output that cannot be written before anything runs.
    let file = output::make_folders(&arguments.output)
        .and_then(|()| File::create(&arguments.output))
        .map_err(cannot_write)?;

    // Before the command, on which the scheduler may fail.
    let (incumbent, online) = (Incumbent::now(), Online::now());
    let origin = clock::monotonic();
    if let Some(command) = &mut command {
        roots = Roots::Tasks(vec![command.start()?]);
    }
    let header = header(arguments, roots, origin, incumbent.name())?;
    let mut writer = Writer::new(BufWriter::new(file), &header).map_err(cannot_write)?;

    let mut code = None;
    let begin = Instant::now();
    while code.is_none() {
        let left = arguments
            .duration
            .map(|duration| Duration::from_nanos(duration).saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        if let Some(request) = signals.wait(left.map_or(LOOK, |left| left.min(LOOK)))? {
            match &mut command {
                Some(command) => command.heed(request),
                None => break,
            }
        }
        for entries in capture.entries() {
            writer.add(&entries).map_err(cannot_write)?;
        }
        if let Some(command) = &mut command {
            code = command.poll()?;
        }
    }
    if code.is_some() {
        std::thread::sleep(LAST_SWITCH);
    }
    // Entries after the requested time are in the file, but do not count in any result.
    let latest = arguments.duration.map_or(u64::MAX, |duration| origin + duration);
    let end = clock::monotonic().min(latest);
    let changes = [incumbent.change("recording"), online.change("recording")];
    let (rest, lost) = capture.finish()?;
    for entries in rest {
        writer.add(&entries).map_err(cannot_write)?;
    }
    let lost = lost + writer.late();
    let entries = writer.finish(&Ending { end, lost }).map_err(cannot_write)?;
    tell(&arguments.output, end - origin, entries, lost);
    for change in changes.into_iter().flatten() {
        output::say!("fairground: {change}");
    }
    while let (Some(command), None) = (&mut command, code) {
        if let Some(request) = signals.wait(LOOK)? {
            command.heed(request);
        }
        code = command.poll()?;
    }
    Ok(code.unwrap_or(0))
}

/// The header of a recording that begins at `origin`.
fn header(
    arguments: &Arguments,
    roots: Roots,
    origin: u64,
    scheduler: Option<&str>,
) -> Result<Header, Error> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    Ok(Header {
        origin,
        cpus: cpus()
            .map_err(|source| Error::System { what: "cannot tell the CPUs".to_owned(), source })?,
        roots,
        recorder: std::process::id(),
        command: arguments.command.iter().map(text).collect(),
        kernel: host::release()?,
        scheduler: scheduler.map(str::to_owned),
        source: "fairground record".to_owned(),
        ..Header::default()
    })
}

fn tell(path: &Path, length: u64, entries: u64, lost: u64) {
    let size = fs::metadata(path).map_or(0, |data| data.len());
    crate::output::say!(
        "fairground: recorded {:.3} s, {entries} entries, {} kB in {}",
        length as f64 / 1e9,
        size.div_ceil(1000),
        path.display()
    );
    if lost > 0 {
        crate::output::say!(
            "fairground: {} lost: the machine was too busy for the recorder; the recording has gaps there",
            counted(lost, "entry was", "entries were")
        );
    }
    crate::recording::tell_gaps(path);
}

/// The chosen tasks, as far as they are known before the command runs.
fn roots(arguments: &Arguments) -> Result<Roots, Error> {
    if let Some(pid) = arguments.pid {
        if host::thread_is_gone(pid) {
            return Err(Error::Usage { reason: format!("--pid {pid}: there is no such process") });
        }
        return Ok(Roots::Tasks(vec![pid]));
    }
    let Some(folder) = &arguments.cgroup else { return Ok(Roots::All) };
    let mut found = Vec::new();
    collect(folder, &mut found).map_err(|error| Error::Usage {
        reason: format!(
            "--cgroup {}: {error}; control groups are folders below /sys/fs/cgroup",
            folder.display()
        ),
    })?;
    if found.is_empty() {
        return Err(Error::Usage {
            reason: format!("--cgroup {}: there is no process in it", folder.display()),
        });
    }
    Ok(Roots::Tasks(found))
}

/// Collects the process ids of a control group and the groups below it.
fn collect(folder: &Path, found: &mut Vec<u32>) -> io::Result<()> {
    let text = fs::read_to_string(folder.join("cgroup.procs"))?;
    found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// One more than the highest number of an online CPU.
fn cpus() -> io::Result<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let last = text.trim().rsplit([',', '-']).next().unwrap_or("");
    last.parse::<u32>()
        .map(|last| last + 1)
        .map_err(|_| io::Error::other(format!("`{}` is no list of CPUs", text.trim())))
}
