//! Values of the kernel's interface, Linux 7.3, and which older releases have them: `include/linux/sched/ext.h`, `kernel/sched/ext/internal.h`,
//! `kernel/sched/sched.h`. Names are the kernel's.
#![allow(missing_docs)]

pub use fairground_contract::exit::ExitKind;
use fairground_linux::{Release, Releases};

/// A constant of one of the kernel's enumerations; names are unique across them.
pub struct Enumerator {
    /// Its name.
    pub name: &'static str,
    /// The releases that have it.
    pub releases: Releases,
    /// Its value in the newest of them.
    pub value: u64,
    /// Another value that it had before a release.
    former: Option<(u64, Release)>,
}

impl Enumerator {
    /// Its value in `release`; `None` if that does not have it.
    pub fn value(&self, release: Release) -> Option<u64> {
        let value = match self.former {
            Some((former, until)) if release < until => former,
            _ => self.value,
        };
        self.releases.contains(release).then_some(value)
    }
}

/// The first of two if it is given, otherwise the second.
macro_rules! one_of {
    (, $default:expr) => {
        $default
    };
    ($given:expr, $default:expr) => {
        $given
    };
}
pub(crate) use one_of;

/// Defines constants of the kernel's enumerations, and the table of them. A constant is of all releases unless they are named (`in`). It has
/// the value of Linux 7.3, which the model computes with; older releases may have another (`before`).
macro_rules! kernel_enumerators {
    ($($name:ident: $type:ident $(in $releases:literal)? = $value:expr $(, $former:literal before $until:expr)?;)*) => {
        $(pub const $name: $type = $value;)*
        /// Every constant that the model has.
        pub static ENUMERATORS: &[Enumerator] = &[$(Enumerator {
            name: stringify!($name),
            releases: one_of!($(Releases::read($releases))?, Releases::ALL),
            value: $name as u64,
            former: one_of!($(Some(($former, $until)))?, None),
        }),*];
    };
}

kernel_enumerators! {
    SCX_SLICE_DFL: u64 = 20_000_000;
    SCX_SLICE_BYPASS: u64 in "6.19.." = 5_000_000;
    SCX_SLICE_INF: u64 = u64::MAX;
    SCX_OPS_NAME_LEN: u64 = 128;

    SCX_DSQ_FLAG_BUILTIN: u64 = 1 << 63;
    SCX_DSQ_FLAG_LOCAL_ON: u64 = 1 << 62;
    SCX_DSQ_INVALID: u64 = SCX_DSQ_FLAG_BUILTIN;
    SCX_DSQ_GLOBAL: u64 = SCX_DSQ_FLAG_BUILTIN | 1;
    SCX_DSQ_LOCAL: u64 = SCX_DSQ_FLAG_BUILTIN | 2;
    SCX_DSQ_BYPASS: u64 in "6.19.." = SCX_DSQ_FLAG_BUILTIN | 3;
    SCX_DSQ_LOCAL_ON: u64 = SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON;
    SCX_DSQ_LOCAL_CPU_MASK: u64 = 0xffff_ffff;

    SCX_TASK_QUEUED: u32 = 1 << 0;
    SCX_TASK_IN_CUSTODY: u32 in "7.1.." = 1 << 1;
    SCX_TASK_RESET_RUNNABLE_AT: u32 = 1 << 2;
    SCX_TASK_DEQD_FOR_SLEEP: u32 = 1 << 3;
    SCX_TASK_IMMED: u32 in "7.1.." = 1 << 5;
    SCX_TASK_STATE_SHIFT: u32 = 8;
    SCX_TASK_STATE_MASK: u32 = 7 << SCX_TASK_STATE_SHIFT;
    SCX_TASK_NONE: u32 = 0;
    SCX_TASK_INIT: u32 = 2 << SCX_TASK_STATE_SHIFT;
    SCX_TASK_READY: u32 = 3 << SCX_TASK_STATE_SHIFT;
    SCX_TASK_ENABLED: u32 = 4 << SCX_TASK_STATE_SHIFT;
    SCX_TASK_DEAD: u32 in "7.2.." = 5 << SCX_TASK_STATE_SHIFT;
    SCX_TASK_REENQ_REASON_MASK: u32 in "7.1.." = 7 << 12;
    SCX_TASK_REENQ_KFUNC: u32 in "7.1.." = 1 << 12;
    SCX_TASK_REENQ_IMMED: u32 in "7.1.." = 2 << 12;
    SCX_TASK_REENQ_PREEMPTED: u32 in "7.1.." = 3 << 12;
    SCX_TASK_REENQ_CAP: u32 in "7.3.." = 4 << 12;
    SCX_TASK_DSQ_ON_PRIQ: u32 = 1;

    SCX_OPS_KEEP_BUILTIN_IDLE: u64 = 1 << 0;
    SCX_OPS_ENQ_LAST: u64 = 1 << 1;
    SCX_OPS_ENQ_EXITING: u64 = 1 << 2;
    SCX_OPS_SWITCH_PARTIAL: u64 = 1 << 3;
    SCX_OPS_ENQ_MIGRATION_DISABLED: u64 in "6.15.." = 1 << 4;
    SCX_OPS_ALLOW_QUEUED_WAKEUP: u64 in "6.15.." = 1 << 5;
    SCX_OPS_BUILTIN_IDLE_PER_NODE: u64 in "6.15.." = 1 << 6;
    SCX_OPS_ALWAYS_ENQ_IMMED: u64 in "7.1.." = 1 << 7;
    SCX_OPS_TID_TO_TASK: u64 in "7.2.." = 1 << 8;
    SCX_OPS_HAS_CGROUP_WEIGHT: u64 in "..7.2" = 1 << 16;

    SCX_WAKE_FORK: u64 = 0x04;
    SCX_WAKE_TTWU: u64 = 0x08;
    SCX_WAKE_SYNC: u64 = 0x10;

    SCX_ENQ_WAKEUP: u64 = 0x0001;
    SCX_ENQ_HEAD: u64 = 0x0001_0000, 0x10 before Release::new(6, 19);
    SCX_ENQ_CPU_SELECTED: u64 in "6.13.." = 0x0010_0000, 0x400 before Release::new(6, 19);
    SCX_ENQ_PREEMPT: u64 = 1 << 32;
    SCX_ENQ_IMMED: u64 in "7.1.." = 1 << 33;
    SCX_ENQ_RESCUE: u64 in "7.3.." = 1 << 34;
    SCX_ENQ_REENQ: u64 = 1 << 40;
    SCX_ENQ_LAST: u64 = 1 << 41;
    SCX_ENQ_CLEAR_OPSS: u64 = 1 << 56;
    SCX_ENQ_DSQ_PRIQ: u64 = 1 << 57;

    SCX_DEQ_SLEEP: u64 = 0x0001;
    SCX_DEQ_CORE_SCHED_EXEC: u64 = 1 << 32;
    SCX_DEQ_SCHED_CHANGE: u64 in "7.1.." = 1 << 33;

    SCX_REENQ_ANY: u64 in "7.1.." = 1;
    SCX_CAP_ENQ_IMMED: u64 in "7.3.." = 1;
    SCX_CAP_BASE: u64 in "7.3.." = SCX_CAP_ENQ_IMMED;
    SCX_CAP_ENQ: u64 in "7.3.." = 1 << 1;
    SCX_CAP_PREEMPT: u64 in "7.3.." = 1 << 2;
    SCX_CAP_PERF: u64 in "7.3.." = 1 << 3;
    SCX_CID_SHARD_SIZE_DFL: u32 in "7.3.." = 24;
    SCX_CID_SHARD_MAX_CPUS: u32 in "7.3.." = 512;
    SCX_PICK_IDLE_CORE: u64 = 1 << 0;
    SCX_PICK_IDLE_IN_NODE: u64 in "6.15.." = 1 << 1;
    SCX_KICK_IDLE: u64 = 1 << 0;
    SCX_KICK_PREEMPT: u64 = 1 << 1;
    SCX_KICK_WAIT: u64 = 1 << 2;
    SCX_DSQ_ITER_REV: u64 = 1 << 16;

    SCX_DSP_DFL_MAX_BATCH: u32 = 32;
    SCX_DSP_MAX_LOOPS: u32 = 32;
    SCX_CPUPERF_ONE: u32 = 1024;
    SCX_EXIT_MSG_LEN: usize = 1024;
    SCX_EXIT_DUMP_DFL_LEN: usize = 32768;

    SCX_EFLAG_INITIALIZED: u64 in "6.18.." = 1, 0 before Release::new(6, 19);
    SCX_ECODE_RSN_HOTPLUG: u64 = 1 << 32;
    SCX_ECODE_ACT_RESTART: u64 = 1 << 48;

    PF_IDLE: u32 = 0x0000_0002;
    PF_EXITING: u32 = 0x0000_0004;
    PF_KTHREAD: u32 = 0x0020_0000;

    SCX_CPU_PREEMPT_RT: u64 = 0;
    SCX_CPU_PREEMPT_DL: u64 = 1;
    SCX_CPU_PREEMPT_STOP: u64 = 2;
    SCX_CPU_PREEMPT_UNKNOWN: u64 = 3;
    SCX_RQ_ONLINE: u64 = 1;
    SCX_RQ_CAN_STOP_TICK: u64 = 2;
    SCX_OPSS_NONE: u64 = 0;
    SCX_OPSS_QUEUEING: u64 = 1;
    SCX_OPSS_QUEUED: u64 = 2;
    SCX_OPSS_DISPATCHING: u64 = 3;
    SCX_TG_ONLINE: u64 = 1;
    SCX_TG_INITED: u64 = 2;
}

pub const SCX_ENQ_INITIAL: u64 = 0x0008_0000;
pub const SCX_ENQ_INTERNAL_MASK: u64 = 0xff << 56;
pub const SCX_ENQ_GDSQ_FALLBACK: u64 = 1 << 59;
pub const SCX_ENQ_APPLY_SLICE: u64 = 1 << 61;
pub const SCX_ENQ_SLICE_DFL: u64 = 1 << 62;
pub const ENQUEUE_RESTORE: u64 = 0x0002;
pub const ENQUEUE_MOVE: u64 = 0x0004;
pub const ENQUEUE_NOCLOCK: u64 = 0x0008;
pub const ENQUEUE_HEAD: u64 = 0x0001_0000;
pub const ENQUEUE_MIGRATED: u64 = 0x0004_0000;

pub const DEQUEUE_SAVE: u64 = 0x0002;
pub const DEQUEUE_MOVE: u64 = 0x0004;
pub const DEQUEUE_NOCLOCK: u64 = 0x0008;
pub const DEQUEUE_CLASS: u64 = 0x0040;

pub const SCX_CAP_ALL: u64 = (1 << 4) - 1;

pub const SCX_REENQ_MAX_REPEAT: u32 = 256;
pub const SCX_WATCHDOG_MAX_TIMEOUT_MS: u64 = 30_000;

pub const SOFTIRQ_OFFSET: u64 = 0x0000_0100;
/// Above the eight bits that count sections with interrupts disabled.
pub const HARDIRQ_OFFSET: u64 = 0x0100_0000;

pub const TASK_RUNNING: u32 = 0;
pub const TASK_INTERRUPTIBLE: u32 = 1;
pub const TASK_UNINTERRUPTIBLE: u32 = 2;
pub const TASK_NORMAL: u32 = TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE;
/// `on_rq` of a task that is on a run queue, and of one that moves to another.
pub const TASK_ON_RQ_QUEUED: u32 = 1;
pub const TASK_ON_RQ_MIGRATING: u32 = 2;
/// `in_iowait` of `struct task_struct`, the bit after another one.
pub const IN_IOWAIT: u8 = 1 << 1;
pub const TASK_DEAD: u32 = 0x80;
pub const TASK_WAKING: u32 = 0x200;
pub const TASK_NEW: u32 = 0x800;

pub const SIGCHLD: i32 = 17;

pub const SCHED_NORMAL: u32 = 0;
pub const SCHED_FIFO: u32 = 1;
pub const SCHED_RR: u32 = 2;
pub const SCHED_BATCH: u32 = 3;
pub const SCHED_IDLE: u32 = 5;
pub const SCHED_DEADLINE: u32 = 6;
pub const SCHED_EXT: u32 = 7;

pub const EPERM: i64 = 1;
pub const ENOENT: i64 = 2;
pub const E2BIG: i64 = 7;
pub const ENOMEM: i64 = 12;
pub const EBUSY: i64 = 16;
pub const EEXIST: i64 = 17;
pub const ENODEV: i64 = 19;
pub const EFAULT: i64 = 14;
pub const EINVAL: i64 = 22;
pub const ENOSPC: i64 = 28;
pub const ERANGE: i64 = 34;
pub const EDEADLK: i64 = 35;
pub const EPROTO: i32 = 71;
/// The largest error number.
pub const MAX_ERRNO: i32 = 4095;
pub const EOPNOTSUPP: i64 = 95;

/// The kernel's text for an exit kind (`scx_exit_reason`).
pub fn exit_reason(kind: ExitKind) -> &'static str {
    match kind {
        ExitKind::None | ExitKind::Done => "<UNKNOWN>",
        ExitKind::Unregistered => "unregistered from user space",
        ExitKind::UnregisteredBpf => "unregistered from BPF",
        ExitKind::UnregisteredKernel => "unregistered from the main kernel",
        ExitKind::SysRq => "disabled by sysrq-S",
        ExitKind::Parent => "parent exiting",
        ExitKind::ParentKilled => "killed by parent scheduler",
        ExitKind::Error => "runtime error",
        ExitKind::ErrorBpf => "scx_bpf_error",
        ExitKind::ErrorStall => "runnable task stall",
        ExitKind::ErrorReenqueue => "reenqueue limit",
        ExitKind::ErrorRescue => "rescue bandwidth overload",
    }
}
