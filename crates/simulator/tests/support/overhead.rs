//! The costs of scheduling in a run.

use fairground_events::{Event, EventKind, Nanoseconds, OverheadKind, Sink, TaskId, TaskInfo};

/// Adds up the costs of scheduling, apart from ticks.
#[derive(Default)]
pub struct Cost {
    /// The sum.
    pub scheduling: Nanoseconds,
}

impl Sink for Cost {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, event: &Event) {
        if let EventKind::Overhead { kind: OverheadKind::Scheduling, duration, .. } = event.kind {
            self.scheduling += duration;
        }
    }
    fn finish(&mut self, _: Nanoseconds) {}
}
