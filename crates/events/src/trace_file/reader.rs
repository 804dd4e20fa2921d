//! Reading trace files.

use super::{
    CALLBACK, CONDITION, CONDITIONS, CPU_ONLINE, END, ENERGY, EXIT, GLOBAL, GROUP, INSERT,
    JOB_COMPLETE, JOB_RELEASE, JOB_SKIP, LAP, LOCAL, LONGEST_NAME, MAGIC, MIGRATE, MOST_CPUS,
    OUTSIDE, OUTSIDERS, OVERHEAD, OVERHEAD_KINDS, PASS, POLICIES, QUOTA_USE, REMOVE, SLEEP, SWITCH,
    TASK, THROTTLE, USER, VERSION, WAKE,
};
use crate::{
    Callback, CgroupMode, CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, Queue, Quota,
    QuotaUse, Sink, TaskId, TaskInfo,
};
use std::fmt;
use std::io::{self, BufReader, Read};

/// Why a trace file cannot be read, and where.
#[derive(Debug)]
pub struct TraceError {
    /// Offset in the file, in bytes, at which the problem begins.
    pub offset: u64,
    /// The fault in the file, and the way out.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "byte {}: {}", self.offset, self.problem)
    }
}

impl std::error::Error for TraceError {}

/// A trace file being read.
pub struct TraceReader<R: Read> {
    input: BufReader<R>,
    checksum: crc32fast::Hasher,
    /// Bytes read so far.
    offset: u64,
    /// Where the current record or field begins.
    start: u64,
    capacities: Vec<u32>,
    tasks: u64,
    groups: u64,
    time: Nanoseconds,
    records: u64,
}

impl<R: Read> TraceReader<R> {
    /// Reads the beginning of a trace file.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut reader = Self {
            input: BufReader::new(input),
            checksum: crc32fast::Hasher::new(),
            offset: 0,
            start: 0,
            capacities: Vec::new(),
            tasks: 0,
            groups: 0,
            time: 0,
            records: 0,
        };
        let mut magic = [0; MAGIC.len()];
        let whole = reader.bytes(&mut magic);
        if whole.is_err() || magic != *MAGIC {
            return Err(TraceError {
                offset: 0,
                problem: "not a fairground trace file: it does not begin with \"fgtrace\"".into(),
            });
        }
        let version = reader.number()?;
        if version != VERSION {
            return Err(reader.error(format!(
                "the trace file has version {version} and this program reads version {VERSION}; record it again"
            )));
        }
        let cpus = reader.number()?;
        if cpus == 0 || cpus > MOST_CPUS {
            return Err(reader.damaged(format!("a machine of {cpus} CPUs")));
        }
        for _ in 0..cpus {
            let capacity = reader.small("a capacity")?;
            reader.capacities.push(capacity);
        }
        Ok(reader)
    }

    /// Capacity of each CPU of the machine.
    pub fn capacities(&self) -> &[u32] {
        &self.capacities
    }

    /// Sends the whole stream to `sink`. On an error, `sink` has seen the part before the damage, or everything if only the checksum is
    /// wrong: discard its results.
    pub fn play(mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        loop {
            self.start = self.offset;
            let kind = self.byte()?;
            let since = self.number()?;
            self.time = self
                .time
                .checked_add(since)
                .ok_or_else(|| self.damaged(format!("{since} ns after {} ns", self.time)))?;
            match kind {
                END => return self.end(sink),
                TASK => {
                    let (task, info) = self.task_record()?;
                    sink.task(self.time, task, &info);
                }
                GROUP => {
                    let (group, info) = self.group_record()?;
                    sink.group(self.time, group, &info);
                }
                _ => {
                    let kind = self.event_record(kind)?;
                    sink.event(&Event { time: self.time, kind });
                }
            }
            self.records += 1;
        }
    }

    fn end(mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let records = self.number()?;
        if records != self.records {
            return Err(
                self.damaged(format!("{} records, but the end says {records}", self.records))
            );
        }
        self.start = self.offset;
        let expected = self.checksum.clone().finalize();
        let mut found = [0; 4];
        self.bytes(&mut found)?;
        if found != expected.to_le_bytes() {
            return Err(self.damaged("the checksum does not fit the content".into()));
        }
        self.start = self.offset;
        let mut more = [0];
        match self.input.read(&mut more) {
            Ok(0) => {}
            Ok(_) => return Err(self.damaged("more bytes after the end".into())),
            Err(error) => return Err(self.error(format!("reading failed: {error}"))),
        }
        sink.finish(self.time);
        Ok(())
    }

    fn task_record(&mut self) -> Result<(TaskId, TaskInfo), TraceError> {
        let task = self.small("a task")?;
        if u64::from(task) > self.tasks {
            return Err(self.damaged(format!("task {task} before task {}", self.tasks)));
        }
        self.tasks = self.tasks.max(u64::from(task) + 1);
        let name = self.text()?;
        let policy = self.entry(&POLICIES, "policy")?;
        let zigzag = self.number()?;
        let nice = i32::try_from(signed(zigzag))
            .map_err(|_| self.damaged("a nice value out of range".into()))?;
        let rt_priority = self.small("a real-time priority")?;
        let weight = self.small("a weight")?;
        let count = self.number()?;
        if count > self.capacities.len() as u64 {
            return Err(self.damaged(format!("{count} allowed CPUs")));
        }
        let allowed = (0..count).map(|_| self.cpu()).collect::<Result<Vec<CpuId>, TraceError>>()?;
        Ok((
            TaskId(task),
            TaskInfo {
                name,
                policy,
                nice,
                rt_priority,
                weight,
                allowed,
                parent: self.optional_task()?,
                daemon: self.entry(&[false, true], "mark of a daemon")?,
                group: self.optional_group()?,
            },
        ))
    }

    fn group_record(&mut self) -> Result<(GroupId, GroupInfo), TraceError> {
        let group = self.small("a control group")?;
        if u64::from(group) > self.groups {
            let problem = format!("control group {group} before control group {}", self.groups);
            return Err(self.damaged(problem));
        }
        let info = GroupInfo {
            path: self.text()?,
            parent: self.optional_group()?,
            shares: self.small("shares")?,
            mode: self.entry(&CgroupMode::ALL, "mode")?,
            quota: match self.entry(&[false, true], "mark of a quota")? {
                true => Some(self.quota()?),
                false => None,
            },
        };
        self.groups = self.groups.max(u64::from(group) + 1);
        Ok((GroupId(group), info))
    }

    fn quota(&mut self) -> Result<Quota, TraceError> {
        let quota =
            Quota { runtime: self.number()?, period: self.number()?, burst: self.number()? };
        match quota.period {
            0 => Err(self.damaged("a quota with a period of 0 ns".into())),
            _ => Ok(quota),
        }
    }

    fn optional_group(&mut self) -> Result<Option<GroupId>, TraceError> {
        let number = self.number()?;
        if number > self.groups {
            return Err(
                self.damaged(format!("control group {} that was never described", number - 1))
            );
        }
        Ok(number.checked_sub(1).map(|group| GroupId(group as u32)))
    }

    fn group(&mut self) -> Result<GroupId, TraceError> {
        let number = self.number()?;
        if number >= self.groups {
            let problem = format!("control group {number} that was never described");
            return Err(self.damaged(problem));
        }
        Ok(GroupId(number as u32))
    }

    /// A name or a path.
    fn text(&mut self) -> Result<String, TraceError> {
        let length = self.number()?;
        if length > LONGEST_NAME {
            return Err(self.damaged(format!("a name of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        self.bytes(&mut text)?;
        String::from_utf8(text).map_err(|_| self.damaged("a name that is not UTF-8".into()))
    }

    fn event_record(&mut self, kind: u8) -> Result<EventKind, TraceError> {
        Ok(match kind {
            WAKE => EventKind::Wake {
                task: self.task()?,
                cpu: self.cpu()?,
                waker: self.optional_task()?,
            },
            SLEEP => EventKind::Sleep { task: self.task()? },
            SWITCH => EventKind::Switch {
                cpu: self.cpu()?,
                prev: self.optional_task()?,
                next: self.optional_task()?,
            },
            MIGRATE => {
                EventKind::Migrate { task: self.task()?, from: self.cpu()?, to: self.cpu()? }
            }
            EXIT => EventKind::Exit { task: self.task()? },
            JOB_RELEASE => EventKind::JobRelease {
                task: self.task()?,
                due: self.near_time()?,
                deadline: self.near_time()?,
            },
            JOB_COMPLETE => {
                EventKind::JobComplete { task: self.task()?, deadline: self.near_time()? }
            }
            JOB_SKIP => EventKind::JobSkip {
                task: self.task()?,
                due: self.near_time()?,
                period: self.number()?,
                count: self.number()?,
            },
            LAP => EventKind::Lap {
                task: self.task()?,
                at: self.near_time()?,
                begins: self.entry(&[false, true], "end of a lap")?,
            },
            OVERHEAD => EventKind::Overhead {
                cpu: self.cpu()?,
                kind: self.entry(&OVERHEAD_KINDS, "kind of overhead")?,
                duration: self.number()?,
            },
            CPU_ONLINE => EventKind::CpuOnline {
                cpu: self.cpu()?,
                online: self.entry(&[false, true], "state of a CPU")?,
            },
            PASS => EventKind::Pass { cpu: self.cpu()?, duration: self.number()? },
            OUTSIDE => EventKind::Outside {
                cpu: self.cpu()?,
                who: self.entry(&OUTSIDERS, "kind of thread outside the run")?,
            },
            THROTTLE => EventKind::Throttle {
                task: self.task()?,
                begins: self.entry(&[false, true], "turn of a throttled task")?,
            },
            QUOTA_USE => EventKind::QuotaUse {
                group: self.group()?,
                used: QuotaUse {
                    periods: self.number()?,
                    throttled_periods: self.number()?,
                    throttled: self.number()?,
                },
            },
            ENERGY => EventKind::Energy { cpu: self.cpu()?, nanojoules: self.number()? },
            CALLBACK => EventKind::Callback {
                cpu: self.cpu()?,
                callback: self.entry(Callback::ALL, "callback")?,
                task: self.optional_task()?,
                chosen: match self.number()? {
                    0 => None,
                    plus_one => Some(self.known_cpu(plus_one - 1)?),
                },
                duration: self.number()?,
            },
            INSERT => EventKind::Insert {
                task: self.optional_task()?.unwrap_or(TaskId::OUTSIDER),
                queue: self.queue()?,
                slice: self.number()?,
                vtime: match self.entry(&[false, true], "order of a queue")? {
                    true => Some(self.number()?),
                    false => None,
                },
            },
            REMOVE => EventKind::Remove {
                task: self.optional_task()?.unwrap_or(TaskId::OUTSIDER),
                queue: self.queue()?,
            },
            CONDITION => EventKind::Condition {
                task: self.task()?,
                condition: self.entry(&CONDITIONS, "condition of a task")?,
                begins: self.entry(&[false, true], "turn of a condition")?,
            },
            _ => return Err(self.damaged(format!("no record has kind {kind}"))),
        })
    }

    fn task(&mut self) -> Result<TaskId, TraceError> {
        let task = self.number()?;
        self.known_task(task)
    }

    fn optional_task(&mut self) -> Result<Option<TaskId>, TraceError> {
        match self.number()? {
            0 => Ok(None),
            plus_one => self.known_task(plus_one - 1).map(Some),
        }
    }

    fn known_task(&self, task: u64) -> Result<TaskId, TraceError> {
        if task >= self.tasks {
            return Err(self.damaged(format!("task {task} was not described before")));
        }
        Ok(TaskId(task as u32))
    }

    fn queue(&mut self) -> Result<Queue, TraceError> {
        Ok(match self.number()? {
            LOCAL => Queue::Local(self.cpu()?),
            GLOBAL => Queue::Global(self.node()?),
            USER => Queue::User(self.number()?),
            other => return Err(self.damaged(format!("no queue has kind {other}"))),
        })
    }

    fn node(&mut self) -> Result<u32, TraceError> {
        let node = self.number()?;
        u32::try_from(node).map_err(|_| self.damaged(format!("no machine has a node {node}")))
    }

    fn cpu(&mut self) -> Result<CpuId, TraceError> {
        let cpu = self.number()?;
        self.known_cpu(cpu)
    }

    fn known_cpu(&self, cpu: u64) -> Result<CpuId, TraceError> {
        if cpu >= self.capacities.len() as u64 {
            return Err(
                self.damaged(format!("CPU {cpu} of a machine of {}", self.capacities.len()))
            );
        }
        Ok(CpuId(cpu as u32))
    }

    /// A time stored as its difference from the time of the record.
    fn near_time(&mut self) -> Result<Nanoseconds, TraceError> {
        let difference = signed(self.number()?);
        self.time
            .checked_add_signed(difference)
            .ok_or_else(|| self.damaged(format!("{difference} ns from {} ns", self.time)))
    }

    fn entry<T: Copy>(&mut self, table: &[T], what: &str) -> Result<T, TraceError> {
        let number = self.number()?;
        usize::try_from(number)
            .ok()
            .and_then(|place| table.get(place).copied())
            .ok_or_else(|| self.damaged(format!("no {what} has number {number}")))
    }

    fn small(&mut self, what: &str) -> Result<u32, TraceError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.damaged(format!("{what} of {number}")))
    }

    fn number(&mut self) -> Result<u64, TraceError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(self.damaged("a number longer than it needs to be".into()));
                }
                return Ok(number);
            }
        }
        Err(self.damaged("a number of more than 64 bits".into()))
    }

    fn byte(&mut self) -> Result<u8, TraceError> {
        let mut byte = [0];
        self.bytes(&mut byte)?;
        Ok(byte[0])
    }

    fn bytes(&mut self, buffer: &mut [u8]) -> Result<(), TraceError> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.error(
                "the trace file is cut off here; the program that wrote it did not finish: record it again"
                    .into(),
            ),
            _ => self.error(format!("reading failed: {error}")),
        })?;
        self.checksum.update(buffer);
        self.offset += buffer.len() as u64;
        Ok(())
    }

    fn error(&self, problem: String) -> TraceError {
        TraceError { offset: self.start, problem }
    }

    fn damaged(&self, problem: String) -> TraceError {
        self.error(format!("the trace file is damaged: {problem}; record it again"))
    }
}

fn signed(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}
