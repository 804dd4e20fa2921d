//! The records of `bpf/recorder.bpf.c`, in the layout of `bpf/recorder.h`.

/// Size of a record.
const SIZE: usize = 128;

/// The description of a tracked task in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTask {
    /// Thread number.
    pub pid: u32,
    /// Number of its policy, `SCHED_...`.
    pub policy: u32,
    /// 120 plus nice.
    pub static_prio: u32,
    /// 1 to 99 for real-time policies.
    pub rt_priority: u32,
    /// Bit mask of the CPUs 0 to 63 that it may use.
    pub first_cpus_allowed: u64,
    /// How many CPUs it may use.
    pub nr_cpus_allowed: u32,
    /// Its name in the kernel, at most 15 bytes.
    pub comm: String,
}

/// The fate of the task that leaves a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It is still runnable.
    Runnable,
    /// It sleeps.
    Sleeps,
    /// It has ended.
    Ended,
    /// It is runnable, but held back because a control group has used its quota.
    Throttled,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A CPU switched from one task to another; tasks that are not tracked are `None`.
    Switch {
        /// The task that leaves, and its fate.
        prev: Option<(RecordedTask, Leaving)>,
        /// The task that comes.
        next: Option<RecordedTask>,
    },
    /// A task was woken; it is on the CPU's run queue.
    Wake {
        /// The woken task.
        task: RecordedTask,
        /// The thread that woke it, 0 for an interrupt.
        waker: u32,
    },
    /// A task moved away from the record's CPU.
    Migration {
        /// The task.
        task: RecordedTask,
        /// The new CPU.
        to: u32,
    },
    /// A task was born.
    Fork {
        /// The new task.
        task: RecordedTask,
        /// Its parent.
        parent: u32,
    },
    /// A task that is not tracked fell asleep again. The record's time is when it was woken.
    Turn {
        /// The task.
        task: RecordedTask,
        /// Whether it is a kernel thread.
        kernel: bool,
        /// CPU time that it used in between.
        cpu_time: u64,
    },
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// The event.
    pub happening: Happening,
}

impl Record {
    /// Reads a record; `None` if the bytes are not one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SIZE {
            return None;
        }
        let number = |offset: usize| {
            u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap_or_default())
        };
        let wide = |offset: usize| {
            u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap_or_default())
        };
        let task_at = |offset: usize| {
            let comm = &bytes[offset + 32..offset + 48];
            let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
            RecordedTask {
                pid: number(offset),
                policy: number(offset + 4),
                static_prio: number(offset + 8),
                rt_priority: number(offset + 12),
                first_cpus_allowed: wide(offset + 16),
                nr_cpus_allowed: number(offset + 24),
                comm: String::from_utf8_lossy(&comm[..end]).into_owned(),
            }
        };
        let (state, other) = (number(16), number(20));
        let (task, next) = (task_at(24), task_at(72));
        let happening = match number(8) {
            1 => {
                let leaving = match state {
                    0 => Leaving::Runnable,
                    1 => Leaving::Sleeps,
                    3 => Leaving::Throttled,
                    _ => Leaving::Ended,
                };
                Happening::Switch {
                    prev: (task.pid != 0).then_some((task, leaving)),
                    next: (next.pid != 0).then_some(next),
                }
            }
            2 => Happening::Wake { task, waker: other },
            3 => Happening::Migration { task, to: other },
            4 => Happening::Fork { task, parent: other },
            5 => Happening::Turn { task, kernel: other != 0, cpu_time: wide(120) },
            _ => return None,
        };
        Some(Self { time: wide(0), cpu: number(12), happening })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read() {
        let mut bytes = vec![0_u8; SIZE];
        bytes[0..8].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&42_u32.to_ne_bytes());
        bytes[32..36].copy_from_slice(&125_u32.to_ne_bytes());
        bytes[40..48].copy_from_slice(&6_u64.to_ne_bytes());
        bytes[48..52].copy_from_slice(&2_u32.to_ne_bytes());
        bytes[56..60].copy_from_slice(b"hog\0");
        let record = Record::parse(&bytes).expect("it is a record");
        assert_eq!((record.time, record.cpu), (77, 3));
        let Happening::Switch { prev: Some((prev, leaving)), next: None } = record.happening else {
            panic!("a switch from a tracked task to another: {record:?}");
        };
        assert_eq!(leaving, Leaving::Sleeps);
        assert_eq!((prev.pid, prev.static_prio, prev.comm.as_str()), (42, 125, "hog"));
        assert_eq!((prev.first_cpus_allowed, prev.nr_cpus_allowed), (6, 2));
    }

    #[test]
    fn a_turn_is_read() {
        let mut bytes = vec![0_u8; SIZE];
        bytes[8..12].copy_from_slice(&5_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&15_u32.to_ne_bytes());
        bytes[120..128].copy_from_slice(&17_000_u64.to_ne_bytes());
        let record = Record::parse(&bytes).expect("it is a record");
        let Happening::Turn { task, kernel, cpu_time } = record.happening else {
            panic!("a turn: {record:?}");
        };
        assert_eq!((task.pid, kernel, cpu_time), (15, true, 17_000));
    }

    #[test]
    fn other_bytes_are_no_record() {
        assert_eq!(Record::parse(&[0; SIZE]), None);
        assert_eq!(Record::parse(&[1; 10]), None);
    }
}
