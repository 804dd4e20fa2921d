//! What sinks are told, and when.
//!
//! Reports arrive a little out of order, since events of other CPUs may still precede what a CPU does late in its work. They are put in order
//! and handed over in batches: engine and sinks would drive each other's code out of the processor's instruction cache at every event.

use fairground_events::{Event, Nanoseconds, Sink, TaskId, TaskInfo};

/// Number of reports that are kept before sinks get them.
const BATCH: usize = 128;

/// What sinks are told.
#[derive(Clone)]
enum Report {
    /// Something happened.
    Event(Event),
    /// A task appeared or changed.
    Task(Nanoseconds, TaskId, Box<TaskInfo>),
}

impl Report {
    fn time(&self) -> Nanoseconds {
        match self {
            Self::Event(event) => event.time,
            Self::Task(time, ..) => *time,
        }
    }

    fn tell(&self, sink: &mut dyn Sink) {
        match self {
            Self::Event(event) => sink.event(event),
            Self::Task(time, task, info) => sink.task(*time, *task, info),
        }
    }
}

/// The sinks of a run, and what they have not been told yet.
pub struct Reports<'a> {
    sinks: Vec<&'a mut dyn Sink>,
    /// Whether they are told anything.
    open: bool,
    /// In the order of arrival.
    kept: Vec<Report>,
    /// How many make it worth the while to tell the sinks.
    enough: usize,
    /// Times and places in `kept`, by time; among equal times the first to arrive goes first. Empty but while sinks are told.
    order: Vec<(Nanoseconds, usize)>,
    /// Empty; kept to save allocations.
    spare: Vec<Report>,
}

impl<'a> Reports<'a> {
    /// Sinks that are told nothing before [`Self::open`].
    pub fn new(sinks: Vec<&'a mut dyn Sink>) -> Self {
        Self {
            sinks,
            open: false,
            kept: Vec::new(),
            enough: BATCH,
            order: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Begins to tell the sinks, if there are any.
    pub fn open(&mut self) {
        self.open = !self.sinks.is_empty();
    }

    /// Whether sinks are told anything.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Something happens at the time of the event, now or later.
    #[inline]
    pub fn add_event(&mut self, event: Event) {
        self.kept.push(Report::Event(event));
    }

    /// A task appears or changes at `time`, now or later.
    pub fn add_task(&mut self, time: Nanoseconds, task: TaskId, info: TaskInfo) {
        self.kept.push(Report::Task(time, task, Box::new(info)));
    }

    /// The time of the latest report that the sinks have not been told.
    pub fn latest(&self) -> Option<Nanoseconds> {
        self.kept.iter().map(Report::time).max()
    }

    /// Whether there is enough to tell.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.kept.len() >= self.enough
    }

    /// Tells the sinks what has happened until `now`; nothing earlier may be added later.
    #[inline(never)]
    pub fn release(&mut self, now: Nanoseconds) {
        for (place, report) in self.kept.iter().enumerate() {
            insert(&mut self.order, (report.time(), place));
        }
        let past = self.order.partition_point(|(time, _)| *time <= now);
        let (past, future) = self.order.split_at(past);
        for sink in &mut self.sinks {
            for &(_, place) in past {
                self.kept[place].tell(*sink);
            }
        }
        let future = future.iter().map(|&(_, place)| self.kept[place].clone());
        self.spare.extend(future);
        std::mem::swap(&mut self.kept, &mut self.spare);
        self.spare.clear();
        self.order.clear();
        self.enough = self.kept.len() + BATCH;
    }

    /// Tells the sinks what has happened until `end`, and that this is all.
    pub fn finish(&mut self, end: Nanoseconds) {
        self.release(end);
        self.open = false;
        for sink in std::mem::take(&mut self.sinks) {
            sink.finish(end);
        }
    }
}

/// Inserts behind all that are not later: near the end, as nearly everything comes in order.
fn insert(order: &mut Vec<(Nanoseconds, usize)>, key: (Nanoseconds, usize)) {
    let mut at = order.len();
    order.push(key);
    while at > 0 && order[at - 1].0 > key.0 {
        order[at] = order[at - 1];
        at -= 1;
    }
    order[at] = key;
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::{EventKind, Policy};

    /// Notes times and tasks.
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
        Event {
            time,
            kind: EventKind::Sleep { task },
        }
    }

    #[test]
    fn sinks_hear_of_what_has_happened_in_order_of_time_and_then_of_arrival() {
        let mut notes = Notes::default();
        let mut reports = Reports::new(vec![&mut notes]);
        reports.open();
        for (time, task) in [(5, 0), (9, 1), (5, 2), (7, 3), (12, 4)] {
            reports.add_event(sleep(time, task));
        }
        let info = TaskInfo {
            name: String::new(),
            policy: Policy::Normal,
            nice: 0,
            rt_priority: 0,
            weight: 1024,
            allowed: Vec::new(),
            parent: None,
        };
        reports.add_task(7, TaskId(5), info);
        reports.release(8);
        assert_eq!(reports.latest(), Some(12));
        reports.add_event(sleep(9, 6));
        reports.add_event(sleep(8, 7));
        reports.finish(10);
        let told = [
            (5, 0),
            (5, 2),
            (7, 3),
            (7, 5),
            (8, 7),
            (9, 1),
            (9, 6),
            (10, u32::MAX),
        ];
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
