//! `fairground import`: makes a recording from the file of another recorder, and a workload from a kernel's debug dump.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_recording::{
    Dump, Error, PERF, RECOGNISED_BY, counted, import_ftrace, import_perf, is_dump, is_ftrace,
};

use crate::output::{self, FAILED, Stop, UNUSABLE, fail};

/// Number of waiting tasks of a dump that are named.
const SHOWN: usize = 5;

/// Make a recording from a perf file, or a workload from a debug dump of a scheduler
///
/// Reads files of `perf sched record`, also those that went through a pipe (`-o -`). They do not say in which system calls tasks wait, which tasks yield, or which CPUs tasks
/// may use, so mutexes, disks, timers and arrivals from outside are distinguished less well than in a file of `fairground
/// record`; `fairground show` says how much this matters.
///
/// The text of ftrace (trace and trace_pipe of tracefs, `trace-cmd report`, `perf script`) with sched_switch and sched_waking becomes a recording, too.
///
/// The debug dump that the kernel writes when it unloads a sched_ext scheduler, alone, in a journal or quoted, has the tasks that ran and waited, their CPUs and
/// queues. They become an rt-app file, from which a hunt may begin.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo perf sched record -o perf.data make -j8
  fairground import perf.data -o build.recording
  fairground show build.recording
  fairground import dmesg.txt -o stall.json
  fairground check ./mine.bpf.c --hunt 10m --from stall.json -m 8")]
pub struct Arguments {
    /// A file of `perf sched record`, the text of ftrace, or a text with a debug dump
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The recording or workload to write [default: fairground.recording, or dump.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Choose this process and those it creates [default: all but the kernel's own]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let output = |usual: &str| arguments.output.clone().unwrap_or_else(|| usual.into());
    let to = arguments.output.as_ref().and_then(|path| path.canonicalize().ok());
    if to.is_some() && to == arguments.file.canonicalize().ok() {
        let file = arguments.file.display();
        return Err(fail(
            UNUSABLE,
            format_args!("-o {file}: it would replace what it is made from; give another name"),
        ));
    }
    let (first, mut opened) = begin(&arguments.file)?;
    let mut bytes = first.clone();
    if !first.starts_with(PERF) {
        // A pipe cannot be read a second time.
        let rest = fairground_files::read_rest(&mut opened);
        bytes.extend(rest.map_err(|cause| unread(&arguments.file, &cause))?);
    }
    // A thread may have any bytes in its name.
    let text = &String::from_utf8_lossy(&bytes);
    if is_dump(text) {
        return import_dump(&arguments.file, text, &output("dump.json"));
    }
    let output = output("fairground.recording");
    let imported = match is_ftrace(text) {
        true => import_ftrace(&arguments.file, text, &output, arguments.pid),
        false => import_perf(&arguments.file, (first, opened), &output, arguments.pid),
    };
    let imported = imported.map_err(|error| match error {
        Error::Write { .. } => fail(FAILED, error),
        _ if bytes.starts_with(PERF) || is_ftrace(text) => fail(UNUSABLE, error),
        _ => match fairground_files::recognised(&bytes) {
            Some(told) => fail(UNUSABLE, format_args!("{}: {told}", arguments.file.display())),
            None => fail(UNUSABLE, error),
        },
    })?;
    crate::output::say!(
        "fairground: imported {:.3} s, {} entries, in {}",
        imported.length as f64 / 1e9,
        imported.entries,
        output.display()
    );
    if imported.lost > 0 {
        crate::output::say!(
            "fairground: the recorder has lost {}; the recording has gaps there",
            counted(imported.lost, "event", "events")
        );
    }
    for note in &imported.notes {
        crate::output::say!("fairground: {note}");
    }
    crate::recording::tell_gaps(&output);
    Ok(ExitCode::SUCCESS)
}

/// Opens a file or pipe and reads its first bytes.
fn begin(path: &Path) -> Result<(Vec<u8>, File), Stop> {
    let unread = |cause| unread(path, &cause);
    let mut opened = File::open(path).map_err(unread)?;
    let mut first = Vec::new();
    (&mut opened).take(RECOGNISED_BY as u64).read_to_end(&mut first).map_err(unread)?;
    Ok((first, opened))
}

fn unread(path: &Path, cause: &std::io::Error) -> Stop {
    let (file, remedy) = (path.display(), fairground_files::remedy(cause));
    fail(UNUSABLE, format_args!("cannot read {file}: {cause}; {remedy}"))
}

/// Writes the workload of a debug dump, and describes its contents.
fn import_dump(file: &Path, text: &str, output: &Path) -> Result<ExitCode, Stop> {
    let dump = Dump::parse(text)
        .map_err(|problem| fail(UNUSABLE, format_args!("{}: {problem}", file.display())))?;
    output::write(output, dump.workload())?;
    output::say!("{}", summary(&dump));
    output::say!(
        "fairground: {} has them as hogs that start in the order in which they began to wait; what they did before is not in a dump. To begin a hunt with \
         it:\n  fairground check ./mine.bpf.c --hunt 10m --from {} -m {}",
        output.display(),
        output.display(),
        dump.cpus
    );
    Ok(ExitCode::SUCCESS)
}

/// The contents of a dump, in a few lines.
fn summary(dump: &Dump) -> String {
    let waiting = dump.tasks.iter().filter(|task| !task.runs);
    let mut text = format!(
        "fairground: {}, of which {} waited, on {}",
        counted(dump.tasks.len() as u64, "task", "tasks"),
        waiting.clone().count(),
        counted(dump.cpus as u64, "CPU", "CPUs")
    );
    if !dump.reason.is_empty() {
        text.push_str(&format!("; the kernel says: {}", dump.reason));
    }
    if dump.others > 0 {
        let others = counted(dump.others as u64, "other dump", "other dumps");
        text.push_str(&format!("; {others} in the same file: this is the first"));
    }
    if dump.left_out > 0 {
        let cpus = counted(dump.left_out as u64, "CPU", "CPUs");
        text.push_str(&format!("; {cpus} had a task of another class, which is left out"));
    }
    for task in waiting.take(SHOWN) {
        let place = match task.queue {
            Some(id) => format!("DSQ 0x{id:x}"),
            None => "no dispatch queue".to_owned(),
        };
        text.push_str(&format!(
            "\n  {} waited {} ms on CPU {}, in {place}",
            task.name, task.runnable_for, task.cpu
        ));
    }
    text
}
