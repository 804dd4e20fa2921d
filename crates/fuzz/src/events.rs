//! Recorded data.

use fairground_events::{Event, Nanoseconds, Sink, TaskId, TaskInfo, TraceReader, TraceWriter};
use fairground_recording::{Ending, Header, Recording, Writer, rt_app};
use fairground_workload::Workload;

use crate::check_message;

/// Recordings as files.
pub fn recording(bytes: &[u8]) {
    match Recording::parse("fuzz.recording", bytes) {
        Ok(recording) => use_recording(&recording),
        Err(error) => check_message(&error.to_string()),
    }
}

/// Entries of a recording inside a valid file, which damage to compressed chunks does not reach.
pub fn entries(bytes: &[u8]) {
    let header = Header { origin: 1, cpus: 4, ..Header::default() };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header).expect("memory can be written");
    writer.add(bytes).expect("memory can be written");
    let ending = Ending { end: 10_000_000_000, lost: 0 };
    writer.finish(&ending).expect("memory can be written");
    recording(&file);
}

fn use_recording(recording: &Recording) {
    let mut order = Order::default();
    recording.play_back(&mut order);
    match recording.load() {
        Ok(load) => match rt_app(&load.workload) {
            Ok(text) => {
                if let Err(error) = Workload::parse("fuzz.json", &text) {
                    panic!("what was written cannot be read: {error}\n{text}");
                }
            }
            Err(message) => check_message(&message),
        },
        Err(error) => check_message(&error.to_string()),
    }
}

/// Trace files: writing the events of a file and reading them again must give the same events.
pub fn trace(bytes: &[u8]) {
    let reader = match TraceReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return check_message(&error.to_string()),
    };
    let capacities = reader.capacities().to_vec();
    let mut writer = TraceWriter::new(Vec::new(), &capacities).expect("memory can be written");
    if let Err(error) = reader.play(&mut writer) {
        return check_message(&error.to_string());
    }
    let written = writer.close().expect("memory can be written");
    let log = |bytes: &[u8]| {
        let mut order = Order::default();
        let reader = TraceReader::new(bytes).expect("what was written can be read");
        reader.play(&mut order).expect("what was written can be read");
        order.log
    };
    assert_eq!(log(bytes), log(&written));
}

/// Checks the order of a stream, and stores it.
#[derive(Default)]
struct Order {
    time: Nanoseconds,
    known: u32,
    log: Vec<String>,
}

impl Order {
    fn at(&mut self, time: Nanoseconds) {
        assert!(time >= self.time, "time goes back from {} to {time}", self.time);
        self.time = time;
    }
}

impl Sink for Order {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.at(time);
        assert!(task.0 <= self.known, "task {} after {}", task.0, self.known);
        self.known = self.known.max(task.0 + 1);
        self.log.push(format!("{time} {task:?} {info:?}"));
    }

    fn event(&mut self, event: &Event) {
        self.at(event.time);
        self.log.push(format!("{event:?}"));
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.log.push(format!("end {end}"));
    }
}
