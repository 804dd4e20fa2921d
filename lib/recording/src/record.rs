//! The entries of a recording, in the layout of `crates/kernel/bpf/recording.h`, little-endian.

use serde::{Deserialize, Serialize};

/// Size of a task description in version 1, which has no control groups.
const DESCRIPTION_1: usize = 64;
/// Size of a task description.
const DESCRIPTION: usize = 72;
/// Size of the description of a control group, and where its name begins.
const GROUP: usize = 192;
const GROUP_NAME: usize = 64;
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
    /// Number of its control group; 0 for the root.
    pub group: u64,
    /// Whether it is ending: the kernel has taken it out of its session then.
    pub ending: bool,
}

/// The description of a control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its number, which is not 0.
    pub number: u64,
    /// Number of the group above it; 0 for the root.
    pub parent: u64,
    /// The name of its folder; a session has none.
    pub name: String,
    /// Whether it is a session, which the kernel treats like a group (autogroup).
    pub session: bool,
    /// Whether it gets only the time that others leave (`cpu.idle`).
    pub idle: bool,
    /// Its part relative to its siblings; that of a new group is 1024.
    pub shares: u32,
    /// CPU time per period, nanoseconds; `None` for any.
    pub quota: Option<u64>,
    /// Length of a period, nanoseconds.
    pub period: u64,
    /// How much of unused quota may be used later, nanoseconds.
    pub burst: u64,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
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
    /// The description of a control group from now on.
    Group(GroupDescription),
}

impl EntryKind {
    /// Whether the task that leaves the CPU has ended.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, EntryKind::Switch { state, .. } if state & ENDED != 0)
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
    pub kind: EntryKind,
}

/// Why bytes are not an entry.
pub(crate) type Wrong = &'static str;

impl Entry {
    /// Size of the entry that begins with these bytes.
    pub(crate) fn size(bytes: &[u8]) -> Result<usize, Wrong> {
        let size = match bytes.get(18) {
            Some(1..=3) => USUAL,
            Some(4) => DESCRIPTION_1,
            Some(5) => DESCRIPTION,
            Some(6) => GROUP,
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
            1 => EntryKind::Switch {
                task,
                next: other,
                state: number(bytes, 36),
                preempted: flags & 1 != 0,
                disk: flags & 2 != 0,
                call: number(bytes, 20) as i32,
                first: wide(bytes, 24),
                second: number(bytes, 32),
            },
            2 => EntryKind::Waking {
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
            3 => EntryKind::Born { task, by: other },
            6 => EntryKind::Group(group(bytes)?),
            described => EntryKind::Task {
                task,
                description: Description {
                    process: number(bytes, 40),
                    parent: other,
                    name: name(&bytes[48..64]),
                    kernel: flags & 1 != 0,
                    policy: number(bytes, 20),
                    nice: (number(bytes, 32) as i32).saturating_sub(120).clamp(-20, 19),
                    rt_priority: number(bytes, 44).min(99),
                    first_allowed: wide(bytes, 24),
                    allowed: number(bytes, 36),
                    group: if described == 4 { 0 } else { wide(bytes, 64) },
                    ending: flags & 2 != 0,
                },
            },
        };
        let entry =
            Self { time: wide(bytes, 0), cpu: u16::from_le_bytes([bytes[16], bytes[17]]), kind };
        Ok((entry, size))
    }

    /// Appends the entry as bytes.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut bytes = [0_u8; GROUP];
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
            EntryKind::Switch { task, next, state, preempted, disk, call, first, second } => {
                let flags = u8::from(*preempted) | u8::from(*disk) << 1;
                pair(1, flags, *task, *next);
                put(20, &call.to_le_bytes());
                put(24, &first.to_le_bytes());
                put(32, &second.to_le_bytes());
                put(36, &state.to_le_bytes());
            }
            EntryKind::Waking { task, by, context } => pair(2, *context as u8, *task, *by),
            EntryKind::Born { task, by } => pair(3, 0, *task, *by),
            EntryKind::Task { task, description } => {
                size = DESCRIPTION;
                let flags = u8::from(description.kernel) | u8::from(description.ending) << 1;
                pair(5, flags, *task, description.parent);
                put(20, &description.policy.to_le_bytes());
                put(24, &description.first_allowed.to_le_bytes());
                put(32, &(120 + description.nice).to_le_bytes());
                put(36, &description.allowed.to_le_bytes());
                put(40, &description.process.to_le_bytes());
                put(44, &description.rt_priority.to_le_bytes());
                let name = description.name.as_bytes();
                put(48, &name[..name.len().min(15)]);
                put(64, &description.group.to_le_bytes());
            }
            EntryKind::Group(group) => {
                size = GROUP;
                let flags = u8::from(group.idle) | u8::from(group.session) << 1;
                pair(6, flags, 0, 0);
                put(20, &group.shares.to_le_bytes());
                let numbers = [
                    group.number,
                    group.parent,
                    group.quota.unwrap_or(u64::MAX),
                    group.period,
                    group.burst,
                ];
                for (place, number) in numbers.iter().enumerate() {
                    put(24 + 8 * place, &number.to_le_bytes());
                }
                let name = group.name.as_bytes();
                put(GROUP_NAME, &name[..name.len().min(GROUP - GROUP_NAME - 1)]);
            }
        }
        to.extend_from_slice(&bytes[..size]);
    }
}

/// The name in a field that ends with zeros. A thread may call itself anything; a name in a workload can be shown.
fn name(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).replace(char::is_control, "?")
}

/// The description of a control group in an entry of that kind.
fn group(bytes: &[u8]) -> Result<GroupDescription, Wrong> {
    let [id, parent, quota, period, burst] = [24, 32, 40, 48, 56].map(|place| wide(bytes, place));
    if id == 0 {
        return Err("a control group without a number");
    }
    Ok(GroupDescription {
        number: id,
        parent,
        name: name(&bytes[GROUP_NAME..GROUP]).replace('/', "?"),
        session: bytes[19] & 2 != 0,
        idle: bytes[19] & 1 != 0,
        shares: number(bytes, 20),
        quota: (quota != u64::MAX).then_some(quota),
        period,
        burst,
    })
}

fn number(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap_or_default())
}

fn wide(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap_or_default())
}
