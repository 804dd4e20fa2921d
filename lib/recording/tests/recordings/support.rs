//! Recordings made by hand.

use fairground_recording::{
    Context, Description, Ending, Entry, EntryKind, GroupDescription, Header, Recording, Roots,
    Writer,
};

pub const FUTEX: i32 = 202;
pub const NANOSLEEP: i32 = 230;
pub const POLL: i32 = 7;
pub const READ: i32 = 0;
/// Origin of the recordings.
pub const ORIGIN: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
/// The state of a task that sleeps.
const ASLEEP: u32 = 1;
/// The state of one that has ended.
const DEAD: u32 = 0x80;

/// A recording that is being made: times are nanoseconds since its beginning.
#[derive(Default)]
pub struct Script {
    entries: Vec<Entry>,
    described: Vec<(u32, Description)>,
}

impl Script {
    /// A recording of tasks 1, 2, … with these names.
    pub fn of(names: &[&str]) -> Self {
        let mut script = Self::default();
        for (task, name) in (1..).zip(names) {
            script.describe(task, name);
        }
        script
    }

    /// A recording of a task that is created at its beginning and runs.
    pub fn running(name: &str) -> Self {
        let mut script = Self::of(&[name]);
        script.born(0, 1, 50);
        script.preempt(0, 0, 1);
        script
    }

    fn add(&mut self, time: u64, kind: EntryKind) {
        self.entries.push(Entry { time: ORIGIN + time, cpu: 0, kind });
    }

    /// Describes a task: a thread of process 100.
    pub fn describe(&mut self, task: u32, name: &str) {
        self.describe_as(task, name, 0);
    }

    /// The same for a task with another policy than `SCHED_OTHER`, by its number in the kernel.
    pub fn describe_as(&mut self, task: u32, name: &str, policy: u32) {
        let description = Description {
            policy,
            process: 100,
            parent: 1,
            name: name.to_owned(),
            first_allowed: 1,
            allowed: 1,
            ..Description::default()
        };
        self.described.push((task, description.clone()));
        self.add(0, EntryKind::Task { task, description });
    }

    pub fn describe_kernel(&mut self, task: u32, name: &str) {
        let description = Description {
            process: task,
            name: name.to_owned(),
            kernel: true,
            ..Description::default()
        };
        self.add(0, EntryKind::Task { task, description });
    }

    /// A control group from this time on.
    pub fn group(&mut self, time: u64, group: GroupDescription) {
        self.add(time, EntryKind::Group(group));
    }

    /// Moves a described task to the control group with this number.
    pub fn join(&mut self, time: u64, task: u32, group: u64) {
        let described = self.described.iter_mut().find(|(one, _)| *one == task);
        let (_, description) = described.expect("it has been described");
        description.group = group;
        let description = description.clone();
        self.add(time, EntryKind::Task { task, description });
    }

    /// Describes a task that is ending, which is in no session any more.
    pub fn leave_group(&mut self, time: u64, task: u32) {
        let described = self.described.iter().find(|(one, _)| *one == task);
        let (_, description) = described.expect("it has been described");
        let description = Description { group: 0, ending: true, ..description.clone() };
        self.add(time, EntryKind::Task { task, description });
    }

    pub fn born(&mut self, time: u64, task: u32, by: u32) {
        self.add(time, EntryKind::Born { task, by });
        // As the recorder does, which describes every new task.
        if let Some((_, description)) = self.described.iter().find(|(one, _)| *one == task) {
            let description = description.clone();
            self.add(time, EntryKind::Task { task, description });
        }
    }

    fn switch(
        &mut self,
        time: u64,
        task: u32,
        next: u32,
        state: u32,
        call: (i32, u64),
        disk: bool,
    ) {
        self.add(
            time,
            EntryKind::Switch {
                task,
                next,
                state,
                preempted: false,
                disk,
                call: call.0,
                first: call.1,
                second: 0,
            },
        );
    }

    /// The CPU goes to another although the task could go on.
    pub fn preempt(&mut self, time: u64, task: u32, next: u32) {
        self.switch(time, task, next, 0, (-1, 0), false);
    }

    pub fn yields(&mut self, time: u64, task: u32, next: u32) {
        self.switch(time, task, next, 0, (24, 0), false);
    }

    pub fn sleep(&mut self, time: u64, task: u32, next: u32, call: i32, first: u64) {
        self.switch(time, task, next, ASLEEP, (call, first), false);
    }

    pub fn disk(&mut self, time: u64, task: u32, next: u32) {
        self.switch(time, task, next, 2, (READ, 3), true);
    }

    pub fn end(&mut self, time: u64, task: u32, next: u32) {
        self.switch(time, task, next, DEAD, (60, 0), false);
    }

    pub fn wake(&mut self, time: u64, task: u32, by: u32, context: Context) {
        self.add(time, EntryKind::Waking { task, by, context });
    }

    /// Task 1 is woken, by no other, while the CPU is idle.
    pub fn wakes_up(&mut self, time: u64, context: Context) {
        self.wake(time, 1, 0, context);
        self.preempt(time, 0, 1);
    }

    /// Adds entries of any CPU.
    pub fn append(&mut self, entries: &mut Vec<Entry>) {
        self.entries.append(entries);
    }

    /// The file, of a recording of this length on one CPU.
    pub fn bytes(self, length: u64, roots: Roots, lost: u64) -> Vec<u8> {
        self.bytes_on(1, length, roots, lost)
    }

    fn bytes_on(mut self, cpus: u32, length: u64, roots: Roots, lost: u64) -> Vec<u8> {
        self.entries.sort_by_key(|entry| entry.time);
        let header = Header {
            origin: ORIGIN,
            cpus,
            roots,
            recorder: 99,
            command: vec!["make".to_owned()],
            kernel: "7.3.4".to_owned(),
            scheduler: None,
            source: "a test".to_owned(),
            ..Header::default()
        };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &header).expect("memory can be written");
        let mut bytes = Vec::new();
        for entry in &self.entries {
            entry.write(&mut bytes);
        }
        writer.add(&bytes).expect("memory can be written");
        let end = ORIGIN + length;
        writer.finish(&Ending { end, lost }).expect("memory can be written");
        file
    }

    pub fn recording(self, length: u64) -> Recording {
        self.recording_on(1, length)
    }

    pub fn recording_on(self, cpus: u32, length: u64) -> Recording {
        let bytes = self.bytes_on(cpus, length, Roots::All, 0);
        Recording::parse("test.recording", bytes.as_slice()).expect("it is a recording")
    }
}
