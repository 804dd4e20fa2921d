//! A short span of a run in full: when each task was on which CPU, and when it waited.

use fairground_events::{Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The activities of CPUs and tasks during a span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Beginning of the span.
    pub from_ns: Nanoseconds,
    /// End of the span; earlier than requested if there was too much to keep or the run ended.
    pub to_ns: Nanoseconds,
    /// The numbers of the machine's CPUs; a slice is on the CPU at an index of these.
    pub cpus: Vec<u32>,
    /// Names of the tasks that ran or waited, in order of creation.
    pub tasks: Vec<String>,
    /// Uninterrupted times of tasks on CPUs, in the order in which they ended.
    pub slices: Vec<Slice>,
    /// Waits of tasks, in the order in which they ended.
    pub waits: Vec<Wait>,
}

/// An uninterrupted time of a task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// The CPU.
    pub cpu: u32,
    /// Index of the task in [`Timeline::tasks`].
    pub task: usize,
    /// When it was switched in, or the beginning of the span.
    pub from_ns: Nanoseconds,
    /// When it was switched out, or the end of the span.
    pub to_ns: Nanoseconds,
}

/// A time that a task was runnable without running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Index of the task in [`Timeline::tasks`].
    pub task: usize,
    /// When it began to wait, or the beginning of the span.
    pub from_ns: Nanoseconds,
    /// When it stopped waiting, or the end of the span.
    pub to_ns: Nanoseconds,
}

/// A task's present activity, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting(Nanoseconds),
    Running(u32, Nanoseconds),
}

/// A task's activity until now, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Waited(Nanoseconds),
    Ran(u32, Nanoseconds),
}

/// Tracks the activity of every task, from events alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct States(BTreeMap<TaskId, State>);

impl States {
    /// Takes an event; calls `ended` for each stretch that it ends.
    pub(crate) fn take(&mut self, event: &Event, mut ended: impl FnMut(TaskId, Stretch)) {
        let now = event.time;
        match event.kind {
            EventKind::Wake { task, .. } => self.enter(task, State::Waiting(now), &mut ended),
            EventKind::Sleep { task } | EventKind::Exit { task } => {
                self.enter(task, State::Asleep, &mut ended);
            }
            EventKind::Switch { prev, next, .. } if prev == next => {}
            EventKind::Switch { cpu, prev, next } => {
                if let Some(task) = prev {
                    // A task that went to sleep or ended has left already.
                    if matches!(self.0.get(&task), Some(State::Running(..))) {
                        self.enter(task, State::Waiting(now), &mut ended);
                    }
                }
                if let Some(task) = next {
                    self.enter(task, State::Running(cpu.0, now), &mut ended);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, task: TaskId, state: State, ended: &mut impl FnMut(TaskId, Stretch)) {
        if let Some(stretch) = self.0.insert(task, state).and_then(stretch) {
            ended(task, stretch);
        }
    }

    /// Since when a task has been waiting, if it is.
    pub(crate) fn waits_since(&self, task: TaskId) -> Option<Nanoseconds> {
        match self.0.get(&task) {
            Some(State::Waiting(since)) => Some(*since),
            _ => None,
        }
    }

    /// The present activity of every task that is not asleep.
    pub(crate) fn last(&self) -> impl Iterator<Item = (TaskId, Stretch)> + '_ {
        self.0.iter().filter_map(|(&task, &state)| Some((task, stretch(state)?)))
    }
}

fn stretch(state: State) -> Option<Stretch> {
    match state {
        State::Asleep => None,
        State::Waiting(since) => Some(Stretch::Waited(since)),
        State::Running(cpu, since) => Some(Stretch::Ran(cpu, since)),
    }
}

/// Keeps one span of the stream as a [`Timeline`] and forgets the rest. Simulations are deterministic, so one can be run again
/// to record the moment that turned out to matter.
#[derive(Clone, Debug)]
pub struct TimelineRecorder {
    cpus: u32,
    from: Nanoseconds,
    to: Nanoseconds,
    most: usize,
    names: BTreeMap<TaskId, String>,
    states: States,
    slices: Vec<(TaskId, u32, Nanoseconds, Nanoseconds)>,
    waits: Vec<(TaskId, Nanoseconds, Nanoseconds)>,
    closed: bool,
}

impl TimelineRecorder {
    /// Keeps the activities of `cpus` CPUs from `from` to `to`. The span ends early once it has `most` slices.
    #[must_use]
    pub fn new(cpus: u32, from: Nanoseconds, to: Nanoseconds, most: usize) -> Self {
        Self {
            cpus,
            from,
            to,
            most,
            names: BTreeMap::new(),
            states: States::default(),
            slices: Vec::new(),
            waits: Vec::new(),
            closed: false,
        }
    }

    /// The span; an empty one if the run ended before it began.
    #[must_use]
    pub fn timeline(self) -> Timeline {
        let mut seen: Vec<TaskId> = self.slices.iter().map(|slice| slice.0).collect();
        seen.extend(self.waits.iter().map(|wait| wait.0));
        seen.sort_unstable();
        seen.dedup();
        let place = |task: TaskId| seen.binary_search(&task).unwrap_or_default();
        let name = |task: &TaskId| match self.names.get(task) {
            Some(name) => name.clone(),
            None => format!("task {}", task.0),
        };
        Timeline {
            from_ns: self.from,
            to_ns: self.to,
            cpus: (0..self.cpus).collect(),
            tasks: seen.iter().map(name).collect(),
            slices: self
                .slices
                .iter()
                .map(|&(task, cpu, from_ns, to_ns)| Slice {
                    cpu,
                    task: place(task),
                    from_ns,
                    to_ns,
                })
                .collect(),
            waits: self
                .waits
                .iter()
                .map(|&(task, from_ns, to_ns)| Wait { task: place(task), from_ns, to_ns })
                .collect(),
        }
    }

    /// Ends the span at `now`, together with everything still going on.
    fn close(&mut self, now: Nanoseconds) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.to = self.to.min(now).max(self.from);
        let last: Vec<(TaskId, Stretch)> = self.states.last().collect();
        for (task, stretch) in last {
            self.keep(task, stretch, self.to);
        }
    }

    /// Keeps the part of a stretch that lies in the span.
    fn keep(&mut self, task: TaskId, stretch: Stretch, end: Nanoseconds) {
        let within = |since: Nanoseconds| (since.max(self.from), end.min(self.to));
        match stretch {
            Stretch::Ran(cpu, since) => {
                let (from, to) = within(since);
                if from < to {
                    self.slices.push((task, cpu, from, to));
                }
            }
            Stretch::Waited(since) => {
                let (from, to) = within(since);
                if from < to {
                    self.waits.push((task, from, to));
                }
            }
        }
    }
}

impl Sink for TimelineRecorder {
    fn task(&mut self, _time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.names.insert(task, info.name.clone());
    }

    fn event(&mut self, event: &Event) {
        if self.closed {
            return;
        }
        if event.time >= self.to {
            self.close(event.time);
            return;
        }
        let mut ended = Vec::new();
        self.states.take(event, |task, stretch| ended.push((task, stretch)));
        for (task, stretch) in ended {
            self.keep(task, stretch, event.time);
        }
        if self.slices.len() >= self.most {
            self.close(event.time);
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.close(end);
    }
}

/// A time that a task was runnable without running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongestWait {
    /// Name of the task.
    pub task: String,
    /// When it began to wait.
    pub from_ns: Nanoseconds,
    /// When the wait ended, or the run.
    pub to_ns: Nanoseconds,
}

/// Finds the longest waits of a run. Of equally long ones, those that ended first are preferred.
#[derive(Clone, Debug)]
pub struct LongestWaitFinder {
    most: usize,
    at_least: Nanoseconds,
    only: Option<String>,
    names: BTreeMap<TaskId, String>,
    states: States,
    longest: Vec<(TaskId, Nanoseconds, Nanoseconds)>,
}

/// Whether a task is called `of`, or is an instance of the task called so: `hog-3` of `hog`, or in a replay `cc1#12-0` of `cc1#12` and of `cc1`.
#[must_use]
pub fn is_instance_of(name: &str, of: &str) -> bool {
    let without = |mark| {
        let (own, digits) = name.rsplit_once(mark)?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(own)
    };
    name == of || ['-', '#'].into_iter().filter_map(without).any(|own| is_instance_of(own, of))
}

impl LongestWaitFinder {
    /// Will find the `most` longest waits that last at least `at_least` nanoseconds.
    #[must_use]
    pub fn new(most: usize, at_least: Nanoseconds) -> Self {
        Self {
            most,
            at_least: at_least.max(1),
            only: None,
            names: BTreeMap::new(),
            states: States::default(),
            longest: Vec::new(),
        }
    }

    /// Limits the search to tasks of this name, with or without the number of an instance.
    #[must_use]
    pub fn only(mut self, task: Option<String>) -> Self {
        self.only = task;
        self
    }

    /// The longest waits, longest first.
    #[must_use]
    pub fn result(&self) -> Vec<LongestWait> {
        let named = |&(task, from_ns, to_ns): &(TaskId, Nanoseconds, Nanoseconds)| LongestWait {
            task: self.names.get(&task).cloned().unwrap_or_default(),
            from_ns,
            to_ns,
        };
        self.longest.iter().map(named).collect()
    }

    /// Whether a task of the requested name has appeared.
    #[must_use]
    pub fn has_seen_it(&self) -> bool {
        self.names.values().any(|name| self.is_wanted(name))
    }

    /// A task that is called exactly so is the one that is meant.
    fn is_wanted(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| match self.names.values().any(|one| one == only) {
            true => name == only,
            false => is_instance_of(name, only),
        })
    }

    fn keep(&mut self, task: TaskId, from: Nanoseconds, to: Nanoseconds) {
        let length = to - from;
        if length < self.at_least {
            return;
        }
        if self.only.is_some() && !self.names.get(&task).is_some_and(|name| self.is_wanted(name)) {
            return;
        }
        let place = self.longest.partition_point(|(_, from, to)| to - from >= length);
        if place < self.most {
            self.longest.truncate(self.most - 1);
            self.longest.insert(place, (task, from, to));
        }
    }
}

impl Sink for LongestWaitFinder {
    fn task(&mut self, _time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.names.insert(task, info.name.clone());
    }

    fn event(&mut self, event: &Event) {
        let mut ended = Vec::new();
        self.states.take(event, |task, stretch| {
            if let Stretch::Waited(since) = stretch {
                ended.push((task, since));
            }
        });
        for (task, since) in ended {
            self.keep(task, since, event.time);
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        let last: Vec<_> = self.states.last().collect();
        for (task, stretch) in last {
            if let Stretch::Waited(since) = stretch {
                self.keep(task, since, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::CpuId;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    fn wake(task: TaskId) -> EventKind {
        EventKind::Wake { task, cpu: CpuId(0), waker: None }
    }

    fn switch(prev: Option<TaskId>, next: Option<TaskId>) -> EventKind {
        EventKind::Switch { cpu: CpuId(0), prev, next }
    }

    /// Two tasks on one CPU: a runs from 0, b from 30, a from 70; a goes to sleep at 80, and b runs again.
    fn play(sink: &mut dyn Sink) {
        for (task, name) in [(A, "a"), (B, "b")] {
            let info = TaskInfo::named(name);
            sink.task(0, task, &info);
        }
        for (time, kind) in [
            (0, wake(A)),
            (0, switch(None, Some(A))),
            (10, wake(B)),
            (30, switch(Some(A), Some(B))),
            (70, switch(Some(B), Some(A))),
            (80, EventKind::Sleep { task: A }),
            (80, switch(Some(A), Some(B))),
        ] {
            sink.event(&Event { time, kind });
        }
        sink.finish(100);
    }

    fn record(from: u64, to: u64, most: usize) -> Timeline {
        let mut recorder = TimelineRecorder::new(1, from, to, most);
        play(&mut recorder);
        recorder.timeline()
    }

    fn slices(timeline: &Timeline) -> Vec<(&str, u64, u64)> {
        let of = |slice: &Slice| (slice.task, slice.from_ns, slice.to_ns);
        let named = |(task, from, to): (usize, u64, u64)| (timeline.tasks[task].as_str(), from, to);
        timeline.slices.iter().map(of).map(named).collect()
    }

    fn waits(timeline: &Timeline) -> Vec<(&str, u64, u64)> {
        let of = |wait: &Wait| (timeline.tasks[wait.task].as_str(), wait.from_ns, wait.to_ns);
        timeline.waits.iter().map(of).collect()
    }

    #[test]
    fn instances_are_told_by_numbers() {
        for of in ["cc1", "cc1#12", "cc1#12-0"] {
            assert!(is_instance_of("cc1#12-0", of), "{of}");
        }
        for (name, of) in [("hog-", "hog"), ("hog-a", "hog"), ("hog2", "hog"), ("hog", "hog-2")] {
            assert!(!is_instance_of(name, of), "{name} of {of}");
        }
    }

    #[test]
    fn a_run_is_kept_in_full() {
        let timeline = record(0, 100, 1000);
        assert_eq!(slices(&timeline), [("a", 0, 30), ("b", 30, 70), ("a", 70, 80), ("b", 80, 100)]);
        assert_eq!(waits(&timeline), [("b", 10, 30), ("a", 30, 70), ("b", 70, 80)]);
    }

    #[test]
    fn a_span_is_cut_at_its_ends() {
        let timeline = record(20, 50, 1000);
        assert_eq!(slices(&timeline), [("a", 20, 30), ("b", 30, 50)]);
        assert_eq!(waits(&timeline), [("b", 20, 30), ("a", 30, 50)]);
        assert_eq!((timeline.from_ns, timeline.to_ns), (20, 50));
    }

    #[test]
    fn tasks_that_neither_run_nor_wait_are_left_out() {
        let timeline = record(85, 95, 1000);
        assert_eq!(timeline.tasks, ["b"]);
        assert_eq!(slices(&timeline), [("b", 85, 95)]);
    }

    #[test]
    fn a_span_ends_with_the_run_and_where_there_is_too_much_to_keep() {
        assert_eq!(record(50, 500, 1000).to_ns, 100);
        let timeline = record(0, 100, 2);
        assert_eq!(timeline.to_ns, 70);
        assert_eq!(slices(&timeline), [("a", 0, 30), ("b", 30, 70)]);
        let after = record(300, 400, 1000);
        assert_eq!((after.from_ns, after.to_ns), (300, 300));
        assert!(after.slices.is_empty());
    }

    #[test]
    fn the_longest_wait_is_found() {
        let found = |finder: LongestWaitFinder| {
            let mut finder = finder;
            play(&mut finder);
            let waits = finder.result().into_iter();
            let told = waits.map(|wait| (wait.task, wait.from_ns, wait.to_ns));
            told.collect::<Vec<_>>()
        };
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let all = [(a.clone(), 30, 70), (b.clone(), 10, 30), (b.clone(), 70, 80)];
        assert_eq!(found(LongestWaitFinder::new(9, 0)), all);
        assert_eq!(found(LongestWaitFinder::new(2, 0)), all[..2]);
        assert_eq!(found(LongestWaitFinder::new(9, 20)), all[..2]);
        assert_eq!(found(LongestWaitFinder::new(9, 0).only(Some(b))), all[1..]);
        assert_eq!(found(LongestWaitFinder::new(9, 41)), []);
        assert_eq!(LongestWaitFinder::new(1, 0).result(), []);
    }

    #[test]
    fn a_wait_that_never_ends_lasts_until_the_end_of_the_run() {
        let mut finder = LongestWaitFinder::new(1, 0);
        finder.event(&Event { time: 5, kind: wake(A) });
        finder.finish(100);
        let wait = &finder.result()[0];
        assert_eq!((wait.from_ns, wait.to_ns), (5, 100));
    }
}
