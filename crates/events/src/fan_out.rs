//! One stream for several consumers.

use crate::{Event, GroupId, GroupInfo, Nanoseconds, Sink, TaskId, TaskInfo};

/// Forwards every call to several sinks, in order.
#[derive(Default)]
pub struct FanOut<'a> {
    sinks: Vec<&'a mut dyn Sink>,
}

impl<'a> FanOut<'a> {
    /// Creates one without sinks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink.
    pub fn add(&mut self, sink: &'a mut dyn Sink) {
        self.sinks.push(sink);
    }
}

impl Sink for FanOut<'_> {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        for sink in &mut self.sinks {
            sink.task(time, task, info);
        }
    }

    fn group(&mut self, time: Nanoseconds, group: GroupId, info: &GroupInfo) {
        for sink in &mut self.sinks {
            sink.group(time, group, info);
        }
    }

    fn event(&mut self, event: &Event) {
        for sink in &mut self.sinks {
            sink.event(event);
        }
    }

    fn events(&mut self, events: &[Event]) {
        for sink in &mut self.sinks {
            sink.events(events);
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        for sink in &mut self.sinks {
            sink.finish(end);
        }
    }
}
