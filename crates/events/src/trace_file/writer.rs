//! Writing trace files.

use super::{
    CALLBACK, CONDITION, CONDITIONS, CPU_ONLINE, END, ENERGY, EXIT, GLOBAL, GROUP, INSERT,
    JOB_COMPLETE, JOB_RELEASE, JOB_SKIP, LAP, LOCAL, LONGEST_NAME, MAGIC, MIGRATE, MOST_CPUS,
    OUTSIDE, OUTSIDERS, OVERHEAD, OVERHEAD_KINDS, PASS, POLICIES, QUOTA_USE, REMOVE, SLEEP, SWITCH,
    TASK, THROTTLE, USER, VERSION, WAKE,
};
use crate::{
    CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, Queue, Sink, TaskId, TaskInfo,
};
use std::io::{self, Write};

/// Bytes to collect before writing them out.
const BUFFER: usize = 1 << 16;

/// A sink that stores the stream in a trace file.
///
/// Sinks cannot fail, so after the first error nothing more is written, and [`TraceWriter::close`] returns the error.
pub struct TraceWriter<W: Write> {
    output: W,
    buffer: Vec<u8>,
    checksum: crc32fast::Hasher,
    error: Option<io::Error>,
    cpus: u64,
    tasks: u64,
    groups: u64,
    time: Nanoseconds,
    records: u64,
    finished: bool,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace file for a machine whose CPUs have these capacities.
    pub fn new(output: W, capacities: &[u32]) -> io::Result<Self> {
        let cpus = capacities.len() as u64;
        if cpus > MOST_CPUS {
            return Err(invalid(format!("a trace file can have {MOST_CPUS} CPUs, not {cpus}")));
        }
        let mut writer = Self {
            output,
            buffer: Vec::with_capacity(BUFFER + 1024),
            checksum: crc32fast::Hasher::new(),
            error: None,
            cpus,
            tasks: 0,
            groups: 0,
            time: 0,
            records: 0,
            finished: false,
        };
        writer.buffer.extend_from_slice(MAGIC);
        writer.number(VERSION);
        writer.number(cpus);
        for &capacity in capacities {
            writer.number(capacity.into());
        }
        writer.write_out()?;
        Ok(writer)
    }

    /// Whether nothing is wrong but that [`Sink::finish`] has not been called.
    pub fn is_open(&self) -> bool {
        self.error.is_none() && !self.finished
    }

    /// Completes the file and gives the output back.
    ///
    /// # Errors
    ///
    /// The first error in writing or in the stream: [`Sink::finish`] was not called, or an event violates the format (a task that was
    /// never described, a CPU that the machine does not have, time running backwards).
    pub fn close(mut self) -> io::Result<W> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.finished {
            return Err(invalid("the event stream was not finished".into()));
        }
        self.output.flush()?;
        Ok(self.output)
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.buffer.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.buffer.push(number as u8);
    }

    fn signed(&mut self, number: i128) {
        // The difference of two times takes 65 bits. The format has 64, enough for any run of less than 292 years.
        let zigzag = if number >= 0 { 2 * number } else { -2 * number - 1 };
        match u64::try_from(zigzag) {
            Ok(zigzag) => self.number(zigzag),
            Err(_) => self.fail(format!("{number} ns is too far from the event's time")),
        }
    }

    /// Writes a time as its difference from the time of the record.
    fn near_time(&mut self, near: Nanoseconds, time: Nanoseconds) {
        self.signed(i128::from(near) - i128::from(time));
    }

    fn fail(&mut self, problem: String) {
        self.error.get_or_insert_with(|| invalid(problem));
    }

    fn task_number(&mut self, task: TaskId) {
        if u64::from(task.0) >= self.tasks {
            self.fail(format!("task {} was never described", task.0));
        }
        self.number(task.0.into());
    }

    fn optional_task(&mut self, task: Option<TaskId>) {
        match task {
            None => self.number(0),
            Some(task) if u64::from(task.0) >= self.tasks => {
                self.fail(format!("task {} was never described", task.0));
            }
            Some(task) => self.number(u64::from(task.0) + 1),
        }
    }

    fn known_group(&mut self, group: GroupId) {
        if u64::from(group.0) >= self.groups {
            self.fail(format!("control group {} was never described", group.0));
        }
    }

    fn optional_group(&mut self, group: Option<GroupId>) {
        if let Some(group) = group {
            self.known_group(group);
        }
        self.number(group.map_or(0, |group| u64::from(group.0) + 1));
    }

    /// Writes a name or a path.
    fn text(&mut self, text: &str) {
        if text.len() as u64 > LONGEST_NAME {
            self.fail(format!("a name has at most {LONGEST_NAME} bytes"));
        }
        self.number(text.len() as u64);
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn cpu_number(&mut self, cpu: CpuId) {
        if u64::from(cpu.0) >= self.cpus {
            self.fail(format!("the machine has no CPU {}", cpu.0));
        }
        self.number(cpu.0.into());
    }

    fn queue(&mut self, queue: Queue) {
        match queue {
            Queue::Local(cpu) => {
                self.number(LOCAL);
                self.cpu_number(cpu);
            }
            Queue::Global(node) => {
                self.number(GLOBAL);
                self.number(node.into());
            }
            Queue::User(id) => {
                self.number(USER);
                self.number(id);
            }
        }
    }

    fn begin(&mut self, kind: u8, time: Nanoseconds) {
        let Some(since) = time.checked_sub(self.time) else {
            self.fail(format!("time goes back from {} ns to {time} ns", self.time));
            return;
        };
        self.time = time;
        self.buffer.push(kind);
        self.number(since);
    }

    fn end_record(&mut self) {
        self.records += 1;
        if self.buffer.len() >= BUFFER {
            if let Err(error) = self.write_out() {
                self.error.get_or_insert(error);
            }
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.error.is_none() {
            self.checksum.update(&self.buffer);
            self.output.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Appends the end record and the checksum.
    fn write_end(&mut self, end: Nanoseconds) -> io::Result<()> {
        self.begin(END, end);
        self.number(self.records);
        self.write_out()?;
        if self.error.is_none() {
            let checksum = self.checksum.clone().finalize();
            self.output.write_all(&checksum.to_le_bytes())?;
        }
        Ok(())
    }

    /// Writes an event about a quota.
    fn quota(&mut self, event: &Event) {
        let time = event.time;
        match event.kind {
            EventKind::Throttle { task, begins } => {
                self.begin(THROTTLE, time);
                self.task_number(task);
                self.number(begins.into());
            }
            EventKind::QuotaUse { group, used } => {
                self.begin(QUOTA_USE, time);
                self.known_group(group);
                self.number(group.0.into());
                self.number(used.periods);
                self.number(used.throttled_periods);
                self.number(used.throttled);
            }
            _ => {}
        }
    }

    /// Writes an event that only streams with details have.
    fn detail(&mut self, event: &Event) {
        let time = event.time;
        match event.kind {
            EventKind::Callback { cpu, callback, task, chosen, duration } => {
                self.begin(CALLBACK, time);
                self.cpu_number(cpu);
                self.number(callback as u64);
                self.optional_task(task);
                match chosen {
                    Some(CpuId(cpu)) if u64::from(cpu) < self.cpus => {
                        self.number(u64::from(cpu) + 1);
                    }
                    Some(CpuId(cpu)) => self.fail(format!("the machine has no CPU {cpu}")),
                    None => self.number(0),
                }
                self.number(duration);
            }
            EventKind::Insert { task, queue, slice, vtime } => {
                self.begin(INSERT, time);
                self.optional_task(Some(task).filter(|task| *task != TaskId::OUTSIDER));
                self.queue(queue);
                self.number(slice);
                self.number(vtime.is_some().into());
                if let Some(vtime) = vtime {
                    self.number(vtime);
                }
            }
            EventKind::Remove { task, queue } => {
                self.begin(REMOVE, time);
                self.optional_task(Some(task).filter(|task| *task != TaskId::OUTSIDER));
                self.queue(queue);
            }
            EventKind::Condition { task, condition, begins } => {
                self.begin(CONDITION, time);
                self.task_number(task);
                self.number(place(&CONDITIONS, &condition));
                self.number(begins.into());
            }
            _ => {}
        }
    }
}

impl<W: Write> Sink for TraceWriter<W> {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        if self.error.is_some() {
            return;
        }
        if u64::from(task.0) > self.tasks {
            self.fail(format!("task {} appears before task {}", task.0, self.tasks));
        }
        self.tasks = self.tasks.max(u64::from(task.0) + 1);
        self.begin(TASK, time);
        self.number(task.0.into());
        self.text(&info.name);
        self.number(place(&POLICIES, &info.policy));
        self.signed(info.nice.into());
        self.number(info.rt_priority.into());
        self.number(info.weight.into());
        self.number(info.allowed.len() as u64);
        for &cpu in &info.allowed {
            self.cpu_number(cpu);
        }
        self.optional_task(info.parent);
        self.number(info.daemon.into());
        self.optional_group(info.group);
        self.end_record();
    }

    fn group(&mut self, time: Nanoseconds, group: GroupId, info: &GroupInfo) {
        if self.error.is_some() {
            return;
        }
        let number = u64::from(group.0);
        if number > self.groups {
            self.fail(format!(
                "control group {number} appears before control group {}",
                self.groups
            ));
        }
        self.groups = self.groups.max(number + 1);
        self.begin(GROUP, time);
        self.number(number);
        self.text(&info.path);
        self.optional_group(info.parent);
        self.number(info.shares.into());
        self.number(info.mode as u64);
        self.number(info.quota.is_some().into());
        if let Some(quota) = info.quota {
            self.number(quota.runtime);
            self.number(quota.period);
            self.number(quota.burst);
        }
        self.end_record();
    }

    fn event(&mut self, event: &Event) {
        if self.error.is_some() {
            return;
        }
        let time = event.time;
        match event.kind {
            EventKind::Wake { task, cpu, waker } => {
                self.begin(WAKE, time);
                self.task_number(task);
                self.cpu_number(cpu);
                self.optional_task(waker);
            }
            EventKind::Sleep { task } => {
                self.begin(SLEEP, time);
                self.task_number(task);
            }
            EventKind::Switch { cpu, prev, next } => {
                self.begin(SWITCH, time);
                self.cpu_number(cpu);
                self.optional_task(prev);
                self.optional_task(next);
            }
            EventKind::Migrate { task, from, to } => {
                self.begin(MIGRATE, time);
                self.task_number(task);
                self.cpu_number(from);
                self.cpu_number(to);
            }
            EventKind::Exit { task } => {
                self.begin(EXIT, time);
                self.task_number(task);
            }
            EventKind::JobRelease { task, due, deadline } => {
                self.begin(JOB_RELEASE, time);
                self.task_number(task);
                self.near_time(due, time);
                self.near_time(deadline, time);
            }
            EventKind::JobComplete { task, deadline } => {
                self.begin(JOB_COMPLETE, time);
                self.task_number(task);
                self.near_time(deadline, time);
            }
            EventKind::JobSkip { task, due, period, count } => {
                self.begin(JOB_SKIP, time);
                self.task_number(task);
                self.near_time(due, time);
                self.number(period);
                self.number(count);
            }
            EventKind::Lap { task, at, begins } => {
                self.begin(LAP, time);
                self.task_number(task);
                self.near_time(at, time);
                self.number(begins.into());
            }
            EventKind::Overhead { cpu, kind, duration } => {
                self.begin(OVERHEAD, time);
                self.cpu_number(cpu);
                self.number(place(&OVERHEAD_KINDS, &kind));
                self.number(duration);
            }
            EventKind::Pass { cpu, duration } => {
                self.begin(PASS, time);
                self.cpu_number(cpu);
                self.number(duration);
            }
            EventKind::CpuOnline { cpu, online } => {
                self.begin(CPU_ONLINE, time);
                self.cpu_number(cpu);
                self.number(online.into());
            }
            EventKind::Outside { cpu, who } => {
                self.begin(OUTSIDE, time);
                self.cpu_number(cpu);
                self.number(place(&OUTSIDERS, &who));
            }
            EventKind::Throttle { .. } | EventKind::QuotaUse { .. } => self.quota(event),
            EventKind::Energy { cpu, nanojoules } => {
                self.begin(ENERGY, time);
                self.cpu_number(cpu);
                self.number(nanojoules);
            }
            EventKind::Callback { .. }
            | EventKind::Insert { .. }
            | EventKind::Remove { .. }
            | EventKind::Condition { .. } => self.detail(event),
        }
        self.end_record();
    }

    fn finish(&mut self, end: Nanoseconds) {
        if self.error.is_some() || self.finished {
            return;
        }
        self.finished = true;
        if let Err(error) = self.write_end(end) {
            self.error.get_or_insert(error);
        }
    }
}

/// The number of a value in its table.
fn place<T: PartialEq>(table: &[T], value: &T) -> u64 {
    table.iter().position(|entry| entry == value).expect("the table has every value") as u64
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}
