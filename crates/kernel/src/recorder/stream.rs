//! From records to the event stream: in time order, consistent, with dense task numbers.
//!
//! Records come from several CPUs and notes from user space, each in its own order. They wait here until nothing earlier can arrive. A
//! recording begins in the middle of the tasks' lives and may have gaps; if a record contradicts the known state, the missing event is
//! inserted before it, so that sinks see a consistent story.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use fairground_events::{CpuId, Event, EventKind, Policy, Sink, TaskId, TaskInfo, load_weight};
use fairground_results::{OtherThread, Turn};

use super::record::{Happening, Leaving, Record, RecordedTask};

/// Longest stay on a CPU of a task that comes only to be put aside, nanoseconds: two switches of the kernel, on a slow machine. Where a task's
/// group runs out of its runtime in that time, as much of the task's run is taken for such a stay.
const VISIT: u64 = 50_000;

/// Something that user space knows and the kernel does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub time: u64,
    /// The thread it is about.
    pub pid: u32,
    /// The fact.
    pub kind: NoteKind,
}

/// The fact that a [`Note`] states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The thread is a task of this name, asleep as far as known.
    Task {
        /// Name for people.
        name: String,
    },
    /// The weight that the task wants among others, in place of that of its nice value; see [`TaskInfo::weight`].
    Weight(u32),
    /// A job of the task was released; see [`EventKind::JobRelease`].
    JobRelease {
        /// Nominal time, `CLOCK_MONOTONIC`.
        due: u64,
        /// Nominal end of its period, `CLOCK_MONOTONIC`.
        deadline: u64,
    },
    /// A job of the task is complete; see [`EventKind::JobComplete`].
    JobComplete {
        /// Nominal end of its period, `CLOCK_MONOTONIC`.
        deadline: u64,
    },
    /// The task skipped periods; see [`EventKind::JobSkip`].
    JobSkip {
        /// Nominal beginning of the first, `CLOCK_MONOTONIC`.
        due: u64,
        /// Length of a period.
        period: u64,
        /// How many.
        count: u64,
    },
    /// The task started or stopped its watch, at the time of the note; see [`EventKind::Lap`].
    Lap {
        /// Whether it started.
        begins: bool,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Note(Note),
    Record(Record),
}

/// An item and its place in the order: time, then arrival.
#[derive(Debug)]
struct Waiting {
    time: u64,
    arrival: u64,
    item: Item,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.arrival) == (other.time, other.arrival)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.arrival).cmp(&(other.time, other.arrival))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Queued,
    Running(u32),
    Ended,
}

#[derive(Debug)]
struct Task {
    state: State,
    info: TaskInfo,
    /// Whether the name is from a note: the kernel's does not matter then.
    named: bool,
    /// The weight from a note: the nice value does not matter then.
    wanted_weight: Option<u32>,
}

/// Puts records and notes in order and turns them into events.
#[derive(Debug)]
pub struct Stream {
    /// `CLOCK_MONOTONIC` of time 0; `None` before the run begins.
    origin: Option<u64>,
    last: u64,
    arrivals: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    tasks: Vec<Task>,
    /// Living tasks by thread number.
    ids: HashMap<u32, TaskId>,
    /// The task of the run on each CPU.
    current: Vec<Option<TaskId>>,
    /// CPUs of this machine, to know when a task may use all of them.
    cpus: u32,
    /// Threads that are not tasks of the run, by number.
    others: BTreeMap<u32, OtherThread>,
    /// The last switch of each CPU that has arrived: its time, and the thread that comes.
    arrived: HashMap<u32, (u64, u32)>,
    /// Switches, by CPU and time, with which tasks come that leave again without having returned to their programs.
    visits: HashSet<(u32, u64)>,
}

impl Stream {
    /// A stream from a machine with this many CPUs.
    pub fn new(cpus: u32) -> Self {
        Self {
            origin: None,
            last: 0,
            arrivals: 0,
            waiting: BinaryHeap::new(),
            tasks: Vec::new(),
            ids: HashMap::new(),
            current: Vec::new(),
            cpus,
            others: BTreeMap::new(),
            arrived: HashMap::new(),
            visits: HashSet::new(),
        }
    }

    /// Makes `origin` (`CLOCK_MONOTONIC`, nanoseconds) time 0 of the events, unless time 0 is already set.
    pub fn begin(&mut self, origin: u64) {
        self.origin.get_or_insert(origin);
    }

    /// Adds a record.
    pub fn push_record(&mut self, mut record: Record) {
        self.hide_visit(&mut record);
        self.push(record.time, Item::Record(record));
    }

    /// Finds the visit that ends with a record, and takes the task out of it. The fair class picks each task of a group without runtime once,
    /// and puts it aside on its way back to its program, which has not run then: for the task it is a part of the wait.
    fn hide_visit(&mut self, record: &mut Record) {
        let Happening::Switch { prev, next } = &mut record.happening else { return };
        let comes = next.as_ref().map_or(0, |task| task.pid);
        let before = self.arrived.insert(record.cpu, (record.time, comes));
        if let (Some((task, Leaving::Throttled)), Some((since, pid))) = (&*prev, before)
            && pid == task.pid
            && record.time.saturating_sub(since) <= VISIT
        {
            self.visits.insert((record.cpu, since));
            *prev = None;
        }
    }

    /// Adds a note.
    pub fn push_note(&mut self, note: Note) {
        self.push(note.time, Item::Note(note));
    }

    fn push(&mut self, time: u64, item: Item) {
        self.arrivals += 1;
        self.waiting.push(Reverse(Waiting { time, arrival: self.arrivals, item }));
    }

    /// Hands everything up to `until` (`CLOCK_MONOTONIC`) to the sink, or nothing if the stream has not begun.
    pub fn release(&mut self, until: u64, sink: &mut dyn Sink) {
        let Some(origin) = self.origin else { return };
        while self.waiting.peek().is_some_and(|Reverse(first)| first.time <= until) {
            let Some(Reverse(first)) = self.waiting.pop() else { return };
            // An item that came too late for its place is reported at the time already reached.
            self.last = self.last.max(first.time.saturating_sub(origin));
            match first.item {
                Item::Note(note) => self.tell_note(note, sink),
                Item::Record(record) => self.tell_record(record, sink),
            }
        }
    }

    /// Hands over everything up to `end` (`CLOCK_MONOTONIC`), drops later events, and finishes the sink. Returns the activities of the threads that are
    /// not tasks of the run.
    pub fn finish(mut self, end: u64, sink: &mut dyn Sink) -> Vec<OtherThread> {
        self.release(end, sink);
        sink.finish(self.last.max(self.since(end)));
        self.others.into_values().collect()
    }

    fn since(&self, time: u64) -> u64 {
        time.saturating_sub(self.origin.unwrap_or(time))
    }

    fn emit(&self, kind: EventKind, sink: &mut dyn Sink) {
        sink.event(&Event { time: self.last, kind });
    }

    fn tell_note(&mut self, note: Note, sink: &mut dyn Sink) {
        let known = self.ids.get(&note.pid).copied();
        match (note.kind, known) {
            (NoteKind::Task { name }, None) => {
                self.add(note.pid, untold(name), true, sink);
            }
            (NoteKind::Task { name }, Some(id)) => {
                let last = self.last;
                let task = &mut self.tasks[index(id)];
                task.named = true;
                task.info.name = name;
                sink.task(last, id, &task.info);
            }
            (NoteKind::Weight(weight), Some(id)) => {
                let last = self.last;
                let task = &mut self.tasks[index(id)];
                task.wanted_weight = Some(weight);
                task.info.weight = weight;
                sink.task(last, id, &task.info);
            }
            (kind, Some(task)) => {
                let kind = self.event_of(kind, task, note.time);
                if let Some(kind) = kind {
                    self.emit(kind, sink);
                }
            }
            // The kernel has seen this task end; its last notes are of no use.
            (_, None) => {}
        }
    }

    /// The event for a note, taken at `time`, about a known task.
    fn event_of(&self, kind: NoteKind, task: TaskId, time: u64) -> Option<EventKind> {
        Some(match kind {
            NoteKind::Task { .. } | NoteKind::Weight(_) => return None,
            NoteKind::JobRelease { due, deadline } => {
                EventKind::JobRelease { task, due: self.since(due), deadline: self.since(deadline) }
            }
            NoteKind::JobComplete { deadline } => {
                EventKind::JobComplete { task, deadline: self.since(deadline) }
            }
            NoteKind::JobSkip { due, period, count } => {
                EventKind::JobSkip { task, due: self.since(due), period, count }
            }
            NoteKind::Lap { begins } => EventKind::Lap { task, at: self.since(time), begins },
        })
    }

    fn tell_record(&mut self, record: Record, sink: &mut dyn Sink) {
        let cpu = record.cpu;
        match record.happening {
            Happening::Switch { prev, next } => {
                let visits = self.visits.remove(&(cpu, record.time));
                let (next, visitor) = if visits { (None, next) } else { (next, None) };
                self.switch(cpu, prev, next, sink);
                if let Some(task) = visitor {
                    let task = self.meet(&task, sink);
                    self.wake(task, cpu, None, sink);
                    let begins = true;
                    self.emit(EventKind::Throttle { task, begins }, sink);
                }
            }
            Happening::Wake { task, waker } => {
                let waker = self.ids.get(&waker).copied();
                let task = self.meet(&task, sink);
                self.wake(task, cpu, waker, sink);
            }
            Happening::Migration { task, to } => {
                let task = self.meet(&task, sink);
                if cpu != to {
                    let (from, to) = (CpuId(cpu), CpuId(to));
                    self.emit(EventKind::Migrate { task, from, to }, sink);
                }
            }
            Happening::Turn { task, kernel, cpu_time } => {
                self.add_turn(&task, kernel, record.time, cpu_time)
            }
            Happening::Fork { task, parent } => {
                let parent = self.ids.get(&parent).copied();
                let id = self.meet(&task, sink);
                self.tasks[index(id)].info.parent = parent;
                sink.task(self.last, id, &self.tasks[index(id)].info);
            }
        }
    }

    /// Adds a turn of a thread that is not a task of the run, if it was woken during the run.
    fn add_turn(&mut self, task: &RecordedTask, kernel: bool, woken: u64, cpu_time: u64) {
        let Some(at) = self.origin.and_then(|origin| woken.checked_sub(origin)) else { return };
        let mut info = untold(task.comm.clone());
        self.update(&mut info, task);
        let thread = self.others.entry(task.pid).or_default();
        thread.name = info.name;
        thread.kernel = kernel;
        thread.nice = info.nice;
        thread.rt_priority = info.rt_priority;
        thread.cpus = info.allowed.iter().map(|cpu| cpu.0).collect();
        thread.turns.push(Turn(at, cpu_time));
    }

    fn wake(&mut self, task: TaskId, cpu: u32, waker: Option<TaskId>, sink: &mut dyn Sink) {
        // Waking a task that has not fallen asleep yet is not an event.
        if self.tasks[index(task)].state == State::Asleep {
            self.tasks[index(task)].state = State::Queued;
            let cpu = CpuId(cpu);
            self.emit(EventKind::Wake { task, cpu, waker }, sink);
        }
    }

    fn switch(
        &mut self,
        cpu: u32,
        prev: Option<(RecordedTask, Leaving)>,
        next: Option<RecordedTask>,
        sink: &mut dyn Sink,
    ) {
        let prev = prev.map(|(task, leaving)| (self.meet(&task, sink), leaving));
        let next = next.map(|task| self.meet(&task, sink));
        let place = cpu as usize;
        if self.current.len() <= place {
            self.current.resize(place + 1, None);
        }

        // Gaps: the task known to be here is not in the record, or the one that comes is known to be elsewhere.
        let gone =
            self.current[place].filter(|task| prev.is_none_or(|(leaving, _)| leaving != *task));
        if let Some(task) = gone {
            self.leave(task, sink);
        }
        if let Some(task) = next {
            if matches!(self.tasks[index(task)].state, State::Running(_)) {
                self.leave(task, sink);
            }
            self.wake(task, cpu, None, sink);
        }

        let mut from = None;
        if let Some((task, leaving)) = prev {
            if self.tasks[index(task)].state == State::Running(cpu) {
                from = Some(task);
            } else {
                // It was running before the recording began, or a gap hides its arrival.
                if matches!(self.tasks[index(task)].state, State::Running(_)) {
                    self.leave(task, sink);
                }
                self.wake(task, cpu, None, sink);
            }
            self.tasks[index(task)].state = match leaving {
                Leaving::Runnable => State::Queued,
                // Until it runs: the kernel does not tell when the group has runtime again.
                Leaving::Throttled => {
                    let begins = true;
                    self.emit(EventKind::Throttle { task, begins }, sink);
                    State::Queued
                }
                Leaving::Sleeps => {
                    self.emit(EventKind::Sleep { task }, sink);
                    State::Asleep
                }
                Leaving::Ended => {
                    self.emit(EventKind::Exit { task }, sink);
                    self.ids.retain(|_, id| *id != task);
                    State::Ended
                }
            };
        }
        if let Some(task) = next {
            self.tasks[index(task)].state = State::Running(cpu);
        }
        self.current[place] = next;
        if from.is_some() || next.is_some() {
            let (cpu, prev) = (CpuId(cpu), from);
            self.emit(EventKind::Switch { cpu, prev, next }, sink);
        }
    }

    /// Reports that a task left its CPU, still runnable, where there is no record of that.
    fn leave(&mut self, task: TaskId, sink: &mut dyn Sink) {
        if let State::Running(cpu) = self.tasks[index(task)].state {
            self.current[cpu as usize] = None;
            self.tasks[index(task)].state = State::Queued;
            let kind = EventKind::Switch { cpu: CpuId(cpu), prev: Some(task), next: None };
            self.emit(kind, sink);
        }
    }

    /// The task of a record; reported to the sink if it is new or has changed.
    fn meet(&mut self, recorded: &RecordedTask, sink: &mut dyn Sink) -> TaskId {
        let Some(id) = self.ids.get(&recorded.pid).copied() else {
            let mut info = untold(recorded.comm.clone());
            self.update(&mut info, recorded);
            return self.add(recorded.pid, info, false, sink);
        };
        let mut info = self.tasks[index(id)].info.clone();
        if !self.tasks[index(id)].named {
            info.name.clone_from(&recorded.comm);
        }
        self.update(&mut info, recorded);
        if let Some(weight) = self.tasks[index(id)].wanted_weight {
            info.weight = weight;
        }
        if info != self.tasks[index(id)].info {
            sink.task(self.last, id, &info);
            self.tasks[index(id)].info = info;
        }
        id
    }

    fn update(&self, info: &mut TaskInfo, recorded: &RecordedTask) {
        info.policy = Policy::from_number(recorded.policy);
        info.nice = i32::try_from(recorded.static_prio).map_or(0, |priority| priority - 120);
        info.rt_priority = recorded.rt_priority;
        info.weight = load_weight(info.policy, info.nice);
        // The record holds the first 64 CPUs. A task that may use any others is assumed to be free to use all.
        let inside = recorded.first_cpus_allowed.count_ones() == recorded.nr_cpus_allowed;
        info.allowed = if recorded.nr_cpus_allowed >= self.cpus || !inside {
            Vec::new()
        } else {
            (0..64).filter(|cpu| recorded.first_cpus_allowed >> cpu & 1 == 1).map(CpuId).collect()
        };
    }

    fn add(&mut self, pid: u32, info: TaskInfo, named: bool, sink: &mut dyn Sink) -> TaskId {
        let id = TaskId(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX));
        sink.task(self.last, id, &info);
        self.tasks.push(Task { state: State::Asleep, info, named, wanted_weight: None });
        self.ids.insert(pid, id);
        id
    }
}

/// A task of which only the name is known.
fn untold(name: String) -> TaskInfo {
    TaskInfo::named(name)
}

fn index(task: TaskId) -> usize {
    task.0 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down each call in one line.
    #[derive(Default)]
    struct Notebook(Vec<String>);

    impl Sink for Notebook {
        fn task(&mut self, time: u64, task: TaskId, info: &TaskInfo) {
            self.0.push(format!(
                "{time} task {} {} nice {} cpus {}",
                task.0,
                info.name,
                info.nice,
                info.allowed.len()
            ));
        }

        fn event(&mut self, event: &Event) {
            let name =
                |task: Option<TaskId>| task.map_or("-".to_owned(), |task| task.0.to_string());
            let text = match event.kind {
                EventKind::Wake { task, cpu, waker } => {
                    format!("wake {} cpu {} by {}", task.0, cpu.0, name(waker))
                }
                EventKind::Sleep { task } => format!("sleep {}", task.0),
                EventKind::Exit { task } => format!("exit {}", task.0),
                EventKind::Switch { cpu, prev, next } => {
                    format!("cpu {}: {} to {}", cpu.0, name(prev), name(next))
                }
                EventKind::Migrate { task, from, to } => {
                    format!("{} moves from {} to {}", task.0, from.0, to.0)
                }
                EventKind::JobRelease { task, due, .. } => {
                    format!("{} released, due {due}", task.0)
                }
                EventKind::JobComplete { task, deadline } => {
                    format!("{} complete, deadline {deadline}", task.0)
                }
                other => format!("{other:?}"),
            };
            self.0.push(format!("{} {text}", event.time));
        }

        fn finish(&mut self, end: u64) {
            self.0.push(format!("{end} end"));
        }
    }

    fn task(pid: u32) -> RecordedTask {
        RecordedTask {
            pid,
            policy: 0,
            static_prio: 120,
            rt_priority: 0,
            first_cpus_allowed: 3,
            nr_cpus_allowed: 2,
            comm: format!("thread{pid}"),
        }
    }

    fn record(time: u64, cpu: u32, happening: Happening) -> Record {
        Record { time, cpu, happening }
    }

    fn switch(prev: Option<(u32, Leaving)>, next: Option<u32>) -> Happening {
        Happening::Switch {
            prev: prev.map(|(pid, leaving)| (task(pid), leaving)),
            next: next.map(task),
        }
    }

    fn told(records: Vec<Record>) -> Vec<String> {
        told_until(2000, records)
    }

    fn told_until(end: u64, records: Vec<Record>) -> Vec<String> {
        let mut stream = Stream::new(2);
        stream.begin(1000);
        let mut notebook = Notebook::default();
        for record in records {
            stream.push_record(record);
        }
        stream.finish(end, &mut notebook);
        notebook.0
    }

    #[test]
    fn the_life_of_a_task() {
        let mut stream = Stream::new(2);
        stream.begin(1000);
        let mut notebook = Notebook::default();
        stream.push_note(Note {
            time: 1000,
            pid: 7,
            kind: NoteKind::Task { name: "hog".to_owned() },
        });
        // Out of order, as CPUs deliver them.
        stream.push_record(record(1030, 0, switch(None, Some(7))));
        stream.push_record(record(1020, 0, Happening::Wake { task: task(7), waker: 0 }));
        stream.push_note(Note {
            time: 1035,
            pid: 7,
            kind: NoteKind::JobRelease { due: 1019, deadline: 1030 },
        });
        stream.push_record(record(1050, 0, switch(Some((7, Leaving::Ended)), None)));
        stream.release(1025, &mut notebook);
        assert_eq!(notebook.0, ["0 task 0 hog nice 0 cpus 0", "20 wake 0 cpu 0 by -"]);
        stream.finish(1100, &mut notebook);
        assert_eq!(
            notebook.0[2..],
            [
                "30 cpu 0: - to 0",
                "35 0 released, due 19",
                "50 exit 0",
                "50 cpu 0: 0 to -",
                "100 end"
            ]
        );
    }

    #[test]
    fn a_task_that_leaves_because_of_a_quota_is_throttled() {
        let told = told_until(
            2000 + 2 * VISIT,
            vec![
                record(1010, 0, switch(None, Some(7))),
                record(1011 + VISIT, 0, switch(Some((7, Leaving::Throttled)), None)),
                record(1080 + VISIT, 0, switch(None, Some(7))),
            ],
        );
        let expected = [
            "50011 Throttle { task: TaskId(0), begins: true }",
            "50011 cpu 0: 0 to -",
            "50080 cpu 0: - to 0",
        ];
        let from = told.iter().position(|line| line.starts_with("50011 ")).unwrap();
        assert_eq!(told[from..from + 3], expected);
    }

    #[test]
    fn a_visit_before_a_throttled_wait_is_part_of_it() {
        let wake = |time, pid| {
            let task = task(pid);
            record(time, 0, Happening::Wake { task, waker: 0 })
        };
        let told = told(vec![
            record(1005, 0, switch(None, Some(8))),
            wake(1010, 7),
            record(1020, 0, switch(Some((8, Leaving::Runnable)), Some(7))),
            record(1030, 0, switch(Some((7, Leaving::Throttled)), Some(8))),
            record(1080, 0, switch(Some((8, Leaving::Runnable)), Some(7))),
        ]);
        let from = told.iter().position(|line| line.starts_with("10 wake")).unwrap();
        let told: Vec<&str> = told[from + 1..].iter().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "20 cpu 0: 0 to -",
                "20 Throttle { task: TaskId(1), begins: true }",
                "30 cpu 0: - to 0",
                "80 cpu 0: 0 to 1",
                "1000 end"
            ]
        );
    }

    #[test]
    fn a_weight_that_was_noted_stands_above_the_nice_value() {
        struct Weight(u32);
        impl Sink for Weight {
            fn task(&mut self, _: u64, _: TaskId, info: &TaskInfo) {
                self.0 = info.weight;
            }
            fn event(&mut self, _: &Event) {}
            fn finish(&mut self, _: u64) {}
        }
        let mut stream = Stream::new(1);
        stream.begin(1000);
        let name = "shares".to_owned();
        for kind in [NoteKind::Task { name }, NoteKind::Weight(3072)] {
            stream.push_note(Note { time: 1000, pid: 7, kind });
        }
        stream.push_record(record(1030, 0, switch(None, Some(7))));
        let mut weight = Weight(0);
        stream.finish(1040, &mut weight);
        assert_eq!(weight.0, 3072);
    }

    #[test]
    fn what_threads_note_counts_from_the_start_of_the_run() {
        let mut stream = Stream::new(1);
        stream.begin(1000);
        let mut notebook = Notebook::default();
        let name = "player".to_owned();
        let kinds = [
            NoteKind::Task { name },
            NoteKind::JobSkip { due: 1010, period: 5, count: 3 },
            NoteKind::Lap { begins: true },
            NoteKind::JobComplete { deadline: 1040 },
        ];
        for (kind, time) in kinds.into_iter().zip(1020..) {
            let pid = 7;
            stream.push_note(Note { time, pid, kind });
        }
        stream.release(1100, &mut notebook);
        assert_eq!(
            notebook.0[1..],
            [
                "21 JobSkip { task: TaskId(0), due: 10, period: 5, count: 3 }",
                "22 Lap { task: TaskId(0), at: 22, begins: true }",
                "23 0 complete, deadline 40"
            ]
        );
    }

    #[test]
    fn a_recording_that_begins_in_the_middle() {
        // The first record of task 7 is its preemption by task 8, whose wake-up was not seen.
        let lines = told(vec![record(1010, 1, switch(Some((7, Leaving::Runnable)), Some(8)))]);
        assert_eq!(
            lines,
            [
                "10 task 0 thread7 nice 0 cpus 0",
                "10 task 1 thread8 nice 0 cpus 0",
                "10 wake 1 cpu 1 by -",
                "10 wake 0 cpu 1 by -",
                "10 cpu 1: - to 1",
                "1000 end"
            ]
        );
    }

    #[test]
    fn a_gap_is_bridged() {
        // Between the records, task 7 moved from CPU 0 to CPU 1 without being seen.
        let lines = told(vec![
            record(1010, 0, switch(None, Some(7))),
            record(1020, 1, switch(None, Some(7))),
            record(1030, 0, switch(None, Some(8))),
        ]);
        assert_eq!(
            lines[2..],
            [
                "10 cpu 0: - to 0",
                "20 cpu 0: 0 to -",
                "20 cpu 1: - to 0",
                "30 task 1 thread8 nice 0 cpus 0",
                "30 wake 1 cpu 0 by -",
                "30 cpu 0: - to 1",
                "1000 end"
            ]
        );
    }

    #[test]
    fn a_wake_up_before_the_sleep_is_silent() {
        let lines = told(vec![
            record(1010, 0, switch(None, Some(7))),
            record(1011, 0, Happening::Wake { task: task(7), waker: 0 }),
            record(1012, 0, switch(Some((7, Leaving::Sleeps)), None)),
            record(1013, 1, Happening::Wake { task: task(7), waker: 7 }),
        ]);
        assert_eq!(
            lines[3..],
            ["12 sleep 0", "12 cpu 0: 0 to -", "13 wake 0 cpu 1 by 0", "1000 end"]
        );
    }

    #[test]
    fn attributes_that_change_are_told() {
        let mut nicer = task(7);
        nicer.static_prio = 125;
        nicer.first_cpus_allowed = 2;
        nicer.nr_cpus_allowed = 1;
        let lines = told(vec![
            record(1010, 0, Happening::Wake { task: task(7), waker: 0 }),
            record(1020, 0, Happening::Migration { task: nicer, to: 1 }),
        ]);
        assert_eq!(
            lines[2..],
            ["20 task 0 thread7 nice 5 cpus 1", "20 0 moves from 0 to 1", "1000 end"]
        );
    }

    #[test]
    fn what_comes_after_the_end_is_dropped() {
        let lines = told(vec![record(2001, 0, switch(None, Some(7)))]);
        assert_eq!(lines, ["1000 end"]);
    }

    #[test]
    fn turns_of_others_count_from_the_start() {
        let turn = |time, cpu_time| {
            let task = RecordedTask { policy: 1, rt_priority: 99, ..task(7) };
            record(time, 0, Happening::Turn { task, kernel: false, cpu_time })
        };
        let mut stream = Stream::new(2);
        for one in [turn(90, 5), turn(130, 6), turn(110, 7), turn(210, 8)] {
            stream.push_record(one);
        }
        stream.begin(100);
        let mut book = Notebook::default();
        let others = stream.finish(200, &mut book);
        assert_eq!(book.0, ["100 end"], "they are no task of the run");
        let expected = OtherThread {
            name: "thread7".to_owned(),
            rt_priority: 99,
            turns: vec![Turn(10, 7), Turn(30, 6)],
            ..OtherThread::default()
        };
        assert_eq!(others, [expected]);
    }
}
