//! The entries of a recording, in the layout of `crates/kernel/bpf/recording.h`, little-endian.

use serde::{Deserialize, Serialize};

/// Size of a task description.
const DESCRIPTION: usize = 64;
/// Size of all other entries.
const USUAL: usize = 40;
/// State bits of a task that has ended: `TASK_DEAD`, `EXIT_DEAD` and `EXIT_ZOMBIE`.
const ENDED: u32 = 0xb0;

/// The context of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Context {
    /// A task.
    Task,
    /// A soft interrupt, such as that of the network.
    SoftInterrupt,
    /// An interrupt of a device.
    Device,
    /// A timer.
    Timer,
}

/// The description of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Number of its process.
    pub process: u32,
    /// Number of its parent's process.
    pub parent: u32,
    /// Its name in the kernel.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Number of its policy, `SCHED_...`.
    pub policy: u32,
    /// -20 to 19.
    pub nice: i32,
    /// 1 to 99 for real-time policies.
    pub rt_priority: u32,
    /// Bit mask of the CPUs 0 to 63 that it may use.
    pub first_allowed: u64,
    /// How many CPUs it may use.
    pub allowed: u32,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A CPU switched from `task` to `next`; 0 is no task.
    Switch {
        /// The task that leaves the CPU.
        task: u32,
        /// The task that gets it.
        next: u32,
        /// State of the leaving task in the kernel.
        state: u32,
        /// Whether it was preempted.
        preempted: bool,
        /// Whether it waits for a disk.
        disk: bool,
        /// Number of its system call; negative if it is in none.
        call: i32,
        /// First argument of the call.
        first: u64,
        /// Second argument, as far as it matters.
        second: u32,
    },
    /// A task is about to be woken.
    Waking {
        /// The task.
        task: u32,
        /// The thread that was running on the CPU.
        by: u32,
        /// The context.
        context: Context,
    },
    /// A task was created.
    Born {
        /// The task.
        task: u32,
        /// The task that created it.
        by: u32,
    },
    /// The description of a task from now on.
    Task {
        /// The task.
        task: u32,
        /// Its description.
        description: Description,
    },
}

impl Kind {
    /// Whether the task that leaves the CPU has ended.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Kind::Switch { state, .. } if state & ENDED != 0)
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub time: u64,
    /// The CPU.
    pub cpu: u16,
    /// The event.
    pub kind: Kind,
}

/// Why bytes are not an entry.
pub(crate) type Wrong = &'static str;

impl Entry {
    /// Size of the entry that begins with these bytes.
    pub(crate) fn size(bytes: &[u8]) -> Result<usize, Wrong> {
        let size = match bytes.get(18) {
            Some(1..=3) => USUAL,
            Some(4) => DESCRIPTION,
            Some(_) => return Err("an entry of unknown kind"),
            None => return Err("a truncated entry"),
        };
        if bytes.len() < size {
            return Err("a truncated entry");
        }
        Ok(size)
    }

    /// Time of the entry that begins with these bytes.
    pub(crate) fn time(bytes: &[u8]) -> u64 {
        wide(bytes, 0)
    }

    /// Reads the first entry of `bytes`; also returns its size.
    ///
    /// # Errors
    ///
    /// If no entry has these bytes; the error says why.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Wrong> {
        let size = Self::size(bytes)?;
        let (task, other, flags) = (number(bytes, 8), number(bytes, 12), bytes[19]);
        let kind = match bytes[18] {
            1 => Kind::Switch {
                task,
                next: other,
                state: number(bytes, 36),
                preempted: flags & 1 != 0,
                disk: flags & 2 != 0,
                call: number(bytes, 20) as i32,
                first: wide(bytes, 24),
                second: number(bytes, 32),
            },
            2 => Kind::Waking {
                task,
                by: other,
                context: match flags {
                    0 => Context::Task,
                    1 => Context::SoftInterrupt,
                    2 => Context::Device,
                    3 => Context::Timer,
                    _ => return Err("a wake-up from an unknown context"),
                },
            },
            3 => Kind::Born { task, by: other },
            _ => {
                let name = &bytes[48..64];
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(16);
                Kind::Task {
                    task,
                    description: Description {
                        process: number(bytes, 40),
                        parent: other,
                        // A thread may call itself anything; a name in a workload can be shown.
                        name: String::from_utf8_lossy(&name[..end]).replace(char::is_control, "?"),
                        kernel: flags & 1 != 0,
                        policy: number(bytes, 20),
                        nice: (number(bytes, 32) as i32)
                            .saturating_sub(120)
                            .clamp(-20, 19),
                        rt_priority: number(bytes, 44).min(99),
                        first_allowed: wide(bytes, 24),
                        allowed: number(bytes, 36),
                    },
                }
            }
        };
        let entry = Self {
            time: wide(bytes, 0),
            cpu: u16::from_le_bytes([bytes[16], bytes[17]]),
            kind,
        };
        Ok((entry, size))
    }

    /// Appends the entry as bytes.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut bytes = [0_u8; DESCRIPTION];
        let mut put = |place: usize, value: &[u8]| {
            bytes[place..place + value.len()].copy_from_slice(value);
        };
        put(0, &self.time.to_le_bytes());
        put(16, &self.cpu.to_le_bytes());
        let mut pair = |kind: u8, flags: u8, task: u32, other: u32| {
            put(8, &task.to_le_bytes());
            put(12, &other.to_le_bytes());
            put(18, &[kind, flags]);
            put(20, &(-1_i32).to_le_bytes());
        };
        let mut size = USUAL;
        match &self.kind {
            Kind::Switch {
                task,
                next,
                state,
                preempted,
                disk,
                call,
                first,
                second,
            } => {
                let flags = u8::from(*preempted) | u8::from(*disk) << 1;
                pair(1, flags, *task, *next);
                put(20, &call.to_le_bytes());
                put(24, &first.to_le_bytes());
                put(32, &second.to_le_bytes());
                put(36, &state.to_le_bytes());
            }
            Kind::Waking { task, by, context } => pair(2, *context as u8, *task, *by),
            Kind::Born { task, by } => pair(3, 0, *task, *by),
            Kind::Task { task, description } => {
                size = DESCRIPTION;
                pair(4, u8::from(description.kernel), *task, description.parent);
                put(20, &description.policy.to_le_bytes());
                put(24, &description.first_allowed.to_le_bytes());
                put(32, &(120 + description.nice).to_le_bytes());
                put(36, &description.allowed.to_le_bytes());
                put(40, &description.process.to_le_bytes());
                put(44, &description.rt_priority.to_le_bytes());
                let name = description.name.as_bytes();
                put(48, &name[..name.len().min(15)]);
            }
        }
        to.extend_from_slice(&bytes[..size]);
    }
}

fn number(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap_or_default())
}

fn wide(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap_or_default())
}
