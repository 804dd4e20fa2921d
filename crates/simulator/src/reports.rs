//! The events that sinks receive, and when.
//!
//! Reports arrive slightly out of order, since events of other CPUs may still precede those that a CPU causes late in its work. They are sorted and
//! delivered in batches: event by event, engine and sinks would keep evicting each other's code from the instruction cache.

use fairground_events::{Event, GroupId, GroupInfo, Nanoseconds, Sink, TaskId, TaskInfo};

/// Number of events to collect before delivery.
const BATCH: usize = 128;

/// A task or group that appeared or changed.
enum Subject {
    Task(TaskId, TaskInfo),
    Group(GroupId, GroupInfo),
}

/// A task or a control group appeared or changed.
struct Description {
    time: Nanoseconds,
    subject: Subject,
    /// How many of the pending events come before it.
    place: usize,
}

/// The sinks of a run, and the reports that they have not received yet.
#[derive(Default)]
pub struct Reports<'a> {
    sinks: Vec<&'a mut dyn Sink>,
    /// Whether the sinks receive anything.
    open: bool,
    /// Pending events, by time and then by arrival.
    events: Vec<Event>,
    /// In the same order. There are few, and keeping them apart lets the events be passed on as slices.
    descriptions: Vec<Description>,
    /// No pending report is later than this.
    latest: Nanoseconds,
    /// Number of pending events at which delivery is worthwhile.
    enough: usize,
}

impl<'a> Reports<'a> {
    /// Reports to these sinks, which receive nothing before [`Self::open`].
    pub fn new(sinks: Vec<&'a mut dyn Sink>) -> Self {
        Self { sinks, events: Vec::with_capacity(2 * BATCH), enough: BATCH, ..Self::default() }
    }

    /// Begins to report, if there are any sinks.
    pub fn open(&mut self) {
        self.open = !self.sinks.is_empty();
    }

    /// Whether the sinks receive anything.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Adds an event, which happens now or later. Inlined, so that the event is written where it stays: to read it back at once, in
    /// order to move it, would wait for the writes.
    #[inline(always)]
    pub fn add_event(&mut self, event: Event) {
        if event.time < self.latest {
            let place = self.place_before_later(event.time);
            self.events.insert(place, event);
        } else {
            self.latest = event.time;
            self.events.push(event);
        }
    }

    /// Where to insert an event that happens at `time`, before all later reports. That is not far from the end, because nearly everything
    /// arrives in order.
    #[inline(never)]
    fn place_before_later(&mut self, time: Nanoseconds) -> usize {
        for description in self.descriptions.iter_mut().rev() {
            if description.time <= time {
                break;
            }
            description.place += 1;
        }
        let later = self.events.iter().rev().take_while(|event| event.time > time);
        self.events.len() - later.count()
    }

    /// Adds a task that appears or changes at `time`, now or later.
    pub fn add_task(&mut self, time: Nanoseconds, task: TaskId, info: TaskInfo) {
        self.describe(time, Subject::Task(task, info));
    }

    /// Adds a control group that appears or changes at `time`, now or later.
    pub fn add_group(&mut self, time: Nanoseconds, group: GroupId, info: GroupInfo) {
        self.describe(time, Subject::Group(group, info));
    }

    fn describe(&mut self, time: Nanoseconds, subject: Subject) {
        let description = Description {
            time,
            subject,
            place: self.events.partition_point(|event| event.time <= time),
        };
        let others = &self.descriptions;
        let at = others.partition_point(|other| other.time <= time);
        self.descriptions.insert(at, description);
        self.latest = self.latest.max(time);
    }

    /// The time of the latest pending report.
    pub fn latest(&self) -> Option<Nanoseconds> {
        let event = self.events.last().map(|event| event.time);
        let description = self.descriptions.last();
        event.max(description.map(|description| description.time))
    }

    /// Whether there are enough events to deliver.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.events.len() >= self.enough
    }

    /// Delivers all reports up to `now`; nothing earlier may be added later.
    #[inline(never)]
    pub fn release(&mut self, now: Nanoseconds) {
        let events = self.events.partition_point(|event| event.time <= now);
        let all = &self.descriptions;
        let descriptions = all.partition_point(|description| description.time <= now);
        for sink in &mut self.sinks {
            let mut told = 0;
            for description in &self.descriptions[..descriptions] {
                sink.events(&self.events[told..description.place]);
                match &description.subject {
                    Subject::Task(task, info) => sink.task(description.time, *task, info),
                    Subject::Group(group, info) => sink.group(description.time, *group, info),
                }
                told = description.place;
            }
            sink.events(&self.events[told..events]);
        }
        self.events.drain(..events);
        self.descriptions.drain(..descriptions);
        for description in &mut self.descriptions {
            description.place -= events;
        }
        self.enough = self.events.len() + BATCH;
    }

    /// Delivers all reports up to `end` and finishes the sinks.
    pub fn finish(&mut self, end: Nanoseconds) {
        self.release(end);
        self.open = false;
        for sink in std::mem::take(&mut self.sinks) {
            sink.finish(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::EventKind;

    /// Records times and tasks.
    #[derive(Default)]
    struct Notes(Vec<(Nanoseconds, u32)>);

    impl Sink for Notes {
        fn task(&mut self, time: Nanoseconds, task: TaskId, _: &TaskInfo) {
            self.0.push((time, task.0));
        }
        fn event(&mut self, event: &Event) {
            if let EventKind::Sleep { task } = event.kind {
                self.0.push((event.time, task.0));
            }
        }
        fn finish(&mut self, end: Nanoseconds) {
            self.0.push((end, u32::MAX));
        }
    }

    fn sleep(time: Nanoseconds, task: u32) -> Event {
        let task = TaskId(task);
        Event { time, kind: EventKind::Sleep { task } }
    }

    #[test]
    fn sinks_hear_of_what_has_happened_in_order_of_time_and_then_of_arrival() {
        let mut notes = Notes::default();
        let mut reports = Reports::new(vec![&mut notes]);
        reports.open();
        for (time, task) in [(5, 0), (9, 1), (5, 2), (7, 3), (12, 4)] {
            reports.add_event(sleep(time, task));
        }
        let info = TaskInfo::named("");
        reports.add_task(7, TaskId(5), info.clone());
        reports.add_task(9, TaskId(8), info);
        reports.release(8);
        assert_eq!(reports.latest(), Some(12));
        reports.add_event(sleep(9, 6));
        reports.add_event(sleep(8, 7));
        reports.finish(10);
        let told = [(5, 0), (5, 2), (7, 3), (7, 5), (8, 7), (9, 1), (9, 8), (9, 6), (10, u32::MAX)];
        assert_eq!(notes.0, told);
    }

    #[test]
    fn many_reports_are_told_at_once() {
        let mut notes = Notes::default();
        let mut reports = Reports::new(vec![&mut notes]);
        reports.open();
        for time in 0..BATCH as u64 {
            assert!(!reports.are_many());
            reports.add_event(sleep(time, 0));
        }
        assert!(reports.are_many());
        reports.release(9);
        assert!(!reports.are_many(), "the rest is still to come");
        drop(reports);
        assert_eq!(notes.0.len(), 10);
    }
}
