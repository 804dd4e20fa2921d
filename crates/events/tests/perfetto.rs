//! Perfetto traces, parsed with the schema that Perfetto publishes (Python package `perfetto`).
//!
//! The Python environment is the one that the project's install script makes. Without it the test is skipped and says so;
//! with `CI=true` in the environment that is an error.

use fairground_events::{
    CpuId, Event, EventKind, OverheadKind, PerfettoWriter, Sink, TaskId, TaskInfo,
};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let environment = std::env::var_os("FAIRGROUND_VENV")
        .map_or_else(|| root.join("target/testbench/venv"), PathBuf::from);
    let python = environment.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{} does not exist; run scripts/install",
        python.display()
    );
    eprintln!("skipped: {} does not exist; run scripts/install", python.display());
    None
}

fn task_info(name: &str, nice: i32) -> TaskInfo {
    TaskInfo { nice, ..TaskInfo::named(name) }
}

/// A run of a few milliseconds with everything in it that a trace can show.
fn write_run(output: &mut dyn Sink) {
    let (hog, beat) = (TaskId(0), TaskId(1));
    let (first, second) = (CpuId(0), CpuId(1));
    output_event(output, 0, EventKind::CpuOnline { cpu: second, online: true });
    output.task(0, hog, &task_info("hog", 0));
    output.task(0, beat, &task_info("beat", -5));
    let mut at = |time: u64, kind: EventKind| output_event(output, time, kind);
    let wake = |task, waker| EventKind::Wake { task, cpu: first, waker };
    let switch = |cpu, prev, next| EventKind::Switch { cpu, prev, next };
    at(0, wake(hog, None));
    at(10, switch(first, None, Some(hog)));
    for job in 0..1000_u64 {
        let due = 1000 * job + 100;
        // Every tenth job is late and ends after the next one is due.
        let end = if job % 10 == 9 { due + 1050 } else { due + 400 };
        let start = due.max(if job % 10 == 0 && job > 0 { due + 60 } else { 0 });
        at(start, wake(beat, Some(hog)));
        at(start, EventKind::JobRelease { task: beat, due, deadline: due + 1000 });
        at(
            start + 5,
            EventKind::Overhead { cpu: first, kind: OverheadKind::Scheduling, duration: 5 },
        );
        at(start + 5, switch(first, Some(hog), Some(beat)));
        let lap = |at, begins| EventKind::Lap { task: beat, at, begins };
        at(start + 5, lap(start + 6, true));
        if job == 500 {
            at(start + 6, EventKind::Migrate { task: hog, from: first, to: second });
            at(start + 6, switch(second, None, Some(hog)));
            at(start + 9, switch(second, Some(hog), None));
        }
        at(end, lap(end, false));
        at(end, EventKind::JobComplete { task: beat, deadline: due + 1000 });
        at(end, EventKind::Sleep { task: beat });
        at(end, switch(first, Some(beat), Some(hog)));
    }
    at(2_000_000, EventKind::Exit { task: beat });
    output.finish(2_000_000);
}

fn output_event(output: &mut dyn Sink, time: u64, kind: EventKind) {
    output.event(&Event { time, kind });
}

#[test]
fn a_trace_fits_the_published_schema() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let mut writer = PerfettoWriter::new(
        std::io::BufWriter::new(std::fs::File::create(&path).unwrap()),
        "beat and hog",
        2,
    );
    write_run(&mut writer);
    writer.close().unwrap();

    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto/check.py");
    let output = Command::new(python).arg(check).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = concat!(
        r#"{"kinds": {"sched_migrate_task": 1, "sched_switch": 2004, "sched_waking": 1001}, "#,
        r#""processes": {"1000": "beat and hog"}, "#,
        r#""slices": {"CPU 0: scheduling": 1000, "CPU 1: online": 1, "beat: job": 900, "beat: late job": 100, "laps: lap": 1000}, "#,
        // From idle, sleeping, preempted.
        r#""states": {"0": 2, "1": 1000, "256": 1002}, "#,
        r#""threads": ["beat", "hog"]}"#,
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
}

/// Counts bytes instead of keeping them.
#[derive(Clone, Default)]
struct Counter(Rc<Cell<u64>>);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.set(self.0.get() + bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn packets_go_out_while_the_run_goes_on() {
    let counter = Counter::default();
    let mut writer = PerfettoWriter::new(counter.clone(), "switches", 1);
    writer.task(0, TaskId(0), &task_info("hog", 0));
    for time in 0..10_000_u64 {
        let (prev, next) =
            if time % 2 == 0 { (None, Some(TaskId(0))) } else { (Some(TaskId(0)), None) };
        output_event(&mut writer, time, EventKind::Switch { cpu: CpuId(0), prev, next });
    }
    let running = counter.0.get();
    writer.finish(10_000);
    let complete = counter.0.get();
    assert!(complete - running < complete / 20, "{running} of {complete}");
}

/// Refuses every byte.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is full"))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_writing_come_out_in_the_end() {
    let mut writer = PerfettoWriter::new(Full, "nothing", 1);
    writer.finish(10);
    let error = writer.close().err().unwrap();
    assert_eq!(error.to_string(), "the disk is full");
}
