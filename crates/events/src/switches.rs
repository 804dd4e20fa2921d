//! The switches of a run as text.

use std::io::{self, Write};

use crate::{CpuId, Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};

/// Writes a line `TIME CPU NEXT` for each switch: from this nanosecond on this CPU runs the task of this name, or is `idle`. Lines are in
/// order of time, and of CPUs at the same time, so that two texts of the same decisions are equal.
pub struct SwitchWriter<W: Write> {
    output: W,
    error: Option<io::Error>,
    names: Vec<String>,
    /// The switches of one time.
    instant: Vec<(CpuId, Option<TaskId>)>,
    time: Nanoseconds,
}

impl<W: Write> SwitchWriter<W> {
    /// Begins a text.
    pub fn new(output: W) -> Self {
        Self { output, error: None, names: Vec::new(), instant: Vec::new(), time: 0 }
    }

    /// Gives the output back.
    pub fn close(mut self) -> io::Result<W> {
        let written = self.write_instant().and_then(|()| self.output.flush());
        self.error.or(written.err()).map_or(Ok(self.output), Err)
    }

    fn write_instant(&mut self) -> io::Result<()> {
        self.instant.sort_by_key(|(cpu, _)| *cpu);
        for (cpu, next) in self.instant.drain(..) {
            let name = next.map(|task| self.names.get(task.0 as usize).map_or("", String::as_str));
            writeln!(self.output, "{} {} {}", self.time, cpu.0, name.unwrap_or("idle"))?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for SwitchWriter<W> {
    fn task(&mut self, _: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let number = task.0 as usize;
        if number >= self.names.len() {
            self.names.resize(number + 1, String::new());
        }
        self.names[number].clone_from(&info.name);
    }

    fn event(&mut self, event: &Event) {
        let EventKind::Switch { cpu, prev, next } = event.kind else { return };
        if prev == next || self.error.is_some() {
            return;
        }
        if event.time != self.time {
            self.error = self.write_instant().err();
            self.time = event.time;
        }
        self.instant.push((cpu, next));
    }

    fn finish(&mut self, _: Nanoseconds) {}
}
