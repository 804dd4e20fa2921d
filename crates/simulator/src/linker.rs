//! What a scheduler object is compiled against: this kernel's functions, structures and constants.

use fairground_bpf::{Context, Contract, Field, Linker, Native};

use crate::constants::*;
use crate::kernel::Kernel;
use crate::kernel_symbols;
use crate::kfunc;
use crate::kfunc::contracts;
use crate::structures;

macro_rules! enumerators {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as u64)),*] };
}

/// Constants of the kernel's enumerations by name; names are unique across enumerations.
static ENUMERATORS: &[(&str, u64)] = enumerators![
    SCX_SLICE_DFL,
    SCX_SLICE_BYPASS,
    SCX_SLICE_INF,
    SCX_OPS_NAME_LEN,
    SCX_DSQ_FLAG_BUILTIN,
    SCX_DSQ_FLAG_LOCAL_ON,
    SCX_DSQ_INVALID,
    SCX_DSQ_GLOBAL,
    SCX_DSQ_LOCAL,
    SCX_DSQ_BYPASS,
    SCX_DSQ_LOCAL_ON,
    SCX_DSQ_LOCAL_CPU_MASK,
    SCX_TASK_QUEUED,
    SCX_TASK_IN_CUSTODY,
    SCX_TASK_RESET_RUNNABLE_AT,
    SCX_TASK_DEQD_FOR_SLEEP,
    SCX_TASK_IMMED,
    SCX_TASK_STATE_SHIFT,
    SCX_TASK_STATE_MASK,
    SCX_TASK_NONE,
    SCX_TASK_INIT,
    SCX_TASK_READY,
    SCX_TASK_ENABLED,
    SCX_TASK_DEAD,
    SCX_TASK_REENQ_REASON_MASK,
    SCX_TASK_REENQ_KFUNC,
    SCX_TASK_REENQ_IMMED,
    SCX_TASK_REENQ_PREEMPTED,
    SCX_TASK_REENQ_CAP,
    SCX_TASK_DSQ_ON_PRIQ,
    SCX_OPS_KEEP_BUILTIN_IDLE,
    SCX_OPS_ENQ_LAST,
    SCX_OPS_ENQ_EXITING,
    SCX_OPS_SWITCH_PARTIAL,
    SCX_OPS_ENQ_MIGRATION_DISABLED,
    SCX_OPS_ALLOW_QUEUED_WAKEUP,
    SCX_OPS_BUILTIN_IDLE_PER_NODE,
    SCX_OPS_ALWAYS_ENQ_IMMED,
    SCX_OPS_TID_TO_TASK,
    SCX_OPS_ALL_FLAGS,
    SCX_WAKE_FORK,
    SCX_WAKE_TTWU,
    SCX_WAKE_SYNC,
    SCX_ENQ_WAKEUP,
    SCX_ENQ_HEAD,
    SCX_ENQ_CPU_SELECTED,
    SCX_ENQ_PREEMPT,
    SCX_ENQ_IMMED,
    SCX_ENQ_RESCUE,
    SCX_ENQ_REENQ,
    SCX_ENQ_LAST,
    SCX_ENQ_CLEAR_OPSS,
    SCX_ENQ_DSQ_PRIQ,
    SCX_DEQ_SLEEP,
    SCX_DEQ_CORE_SCHED_EXEC,
    SCX_DEQ_SCHED_CHANGE,
    SCX_REENQ_ANY,
    SCX_CAP_ENQ_IMMED,
    SCX_CAP_BASE,
    SCX_CAP_ENQ,
    SCX_CAP_PREEMPT,
    SCX_CAP_PERF,
    SCX_CID_SHARD_SIZE_DFL,
    SCX_CID_SHARD_MAX_CPUS,
    SCX_PICK_IDLE_CORE,
    SCX_PICK_IDLE_IN_NODE,
    SCX_KICK_IDLE,
    SCX_KICK_PREEMPT,
    SCX_KICK_WAIT,
    SCX_DSQ_ITER_REV,
    SCX_DSP_DFL_MAX_BATCH,
    SCX_DSP_MAX_LOOPS,
    SCX_CPUPERF_ONE,
    SCX_EXIT_DUMP_DFL_LEN,
    SCX_EXIT_MSG_LEN,
    SCX_EFLAG_INITIALIZED,
    SCX_ECODE_RSN_HOTPLUG,
    SCX_ECODE_ACT_RESTART,
    PF_IDLE,
    PF_EXITING,
    PF_KTHREAD,
];

/// Constants whose names differ from those of [`crate::constants`].
static MORE_ENUMERATORS: &[(&str, u64)] = &[
    ("SCX_CPU_PREEMPT_RT", 0),
    ("SCX_CPU_PREEMPT_DL", 1),
    ("SCX_CPU_PREEMPT_STOP", 2),
    ("SCX_CPU_PREEMPT_UNKNOWN", 3),
    ("SCX_RQ_ONLINE", 1),
    ("SCX_RQ_CAN_STOP_TICK", 2),
    ("SCX_OPSS_NONE", 0),
    ("SCX_OPSS_QUEUEING", 1),
    ("SCX_OPSS_QUEUED", 2),
    ("SCX_OPSS_DISPATCHING", 3),
    ("SCX_TG_ONLINE", 1),
    ("SCX_TG_INITED", 2),
];

/// The constants of the kernel's enumerations.
pub fn enumerators() -> impl Iterator<Item = (&'static str, u64)> {
    let exits = ExitKind::ALL.into_iter();
    let exits = exits.map(|kind| (kind.name(), u64::from(kind.number())));
    ENUMERATORS
        .iter()
        .chain(MORE_ENUMERATORS)
        .copied()
        .chain(exits)
}

/// The value of a constant of the kernel's enumerations.
pub fn enumerator(name: &str) -> Option<u64> {
    enumerators()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// What schedulers refer to as `__preempt_count`; each CPU has its own copy.
pub static PREEMPT_COUNT: u64 = 0;
/// The state of sections with interrupts disabled, which are counted in `__preempt_count`. That it exists tells schedulers where interrupts are
/// in the counter.
static LOCAL_INTERRUPT_DISABLE_STATE: u64 = 0;

/// What schedulers refer to as the run queues; each CPU has its own.
pub static RUN_QUEUES: u64 = 0;
/// The CPU frequency policies, a pointer for each CPU: NULL, as if no driver sets frequencies.
static FREQUENCY_POLICIES: [u64; structures::MAX_CPUS] = [0; structures::MAX_CPUS];

/// Ticks per second unless a run says otherwise.
pub const DEFAULT_HZ: u64 = 250;

/// Answers what objects ask about this kernel.
pub struct KernelLinker {
    /// Whether the object is a scheduler of the cid form.
    pub cid_form: bool,
    /// Ticks per second.
    pub hz: u64,
}

impl Default for KernelLinker {
    fn default() -> Self {
        KernelLinker {
            cid_form: false,
            hz: DEFAULT_HZ,
        }
    }
}

/// Version that `LINUX_KERNEL_VERSION` reports: the kernel this model follows, 7.3.
const KERNEL_VERSION: u64 = (7 << 16) | (3 << 8);

unsafe extern "C" fn runaway(
    context: *mut Context,
    place: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: called by compiled scheduler code only.
    let kernel = unsafe { kfunc::kernel_of(context) };
    let scheduler = kernel.scheduler.clone();
    let place = scheduler.describe(place);
    kernel.fail(ExitKind::Error, format!("a loop does not end{place}"));
    0
}

/// A text in compiled code that says what is wrong there.
fn text(address: u64, length: u64) -> String {
    String::from_utf8_lossy(&kfunc::read_bytes(address, length as usize)).into_owned()
}

unsafe extern "C" fn unavailable(
    context: *mut Context,
    problem: u64,
    length: u64,
    place: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: called by compiled scheduler code only.
    let kernel: &mut Kernel<'_> = unsafe { kfunc::kernel_of(context) };
    let problem = text(problem, length);
    let scheduler = kernel.scheduler.clone();
    let mut message = format!("{problem}{}", scheduler.describe(place));
    let others: Vec<String> = scheduler
        .code
        .missing()
        .iter()
        .filter(|one| one.problem != problem)
        .map(ToString::to_string)
        .collect();
    if !others.is_empty() {
        message += &format!("; in code not reached so far: {}", others.join("; "));
    }
    kernel.fail(ExitKind::Error, message);
    0
}

unsafe extern "C" fn stray(
    context: *mut Context,
    problem: u64,
    length: u64,
    place: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: called by compiled scheduler code only.
    let kernel: &mut Kernel<'_> = unsafe { kfunc::kernel_of(context) };
    let problem = text(problem, length);
    let place = kernel.scheduler.describe(place);
    kernel.fail(ExitKind::Error, format!("{problem}{place}"));
    0
}

impl Linker for KernelLinker {
    fn helper(&self, id: u32) -> Option<Native> {
        kfunc::find_helper(id)
    }

    fn kfunc(&self, name: &str) -> Option<Native> {
        kfunc::find(name)
    }

    fn field(&self, structure: &str, path: &[&str]) -> Option<Field> {
        structures::resolve(structure, path)
    }

    fn type_size(&self, name: &str) -> Option<u32> {
        structures::find(name).map(|entry| entry.size as u32)
    }

    fn enumerator(&self, _enumeration: &str, name: &str) -> Option<u64> {
        enumerator(name)
    }

    fn kconfig(&self, name: &str) -> Option<u64> {
        match name {
            "LINUX_KERNEL_VERSION" => Some(KERNEL_VERSION),
            "CONFIG_HZ" => Some(self.hz),
            "CONFIG_SMP"
            | "CONFIG_NUMA"
            | "CONFIG_SCHED_SMT"
            | "CONFIG_SCHED_MC"
            | "CONFIG_SCHED_CLASS_EXT"
            | "CONFIG_EXT_GROUP_SCHED"
            | "CONFIG_CGROUPS"
            | "CONFIG_FAIR_GROUP_SCHED"
            | "CONFIG_NO_HZ_IDLE"
            | "CONFIG_PREEMPT_RCU" => Some(1),
            "CONFIG_NR_CPUS" => Some(structures::MAX_CPUS as u64),
            _ => None,
        }
    }

    fn variable(&self, name: &str) -> Option<*const u8> {
        match name {
            "__preempt_count" => Some((&raw const PREEMPT_COUNT).cast()),
            "local_interrupt_disable_state" => {
                Some((&raw const LOCAL_INTERRUPT_DISABLE_STATE).cast())
            }
            "runqueues" => Some((&raw const RUN_QUEUES).cast()),
            "cpufreq_cpu_data" => Some((&raw const FREQUENCY_POLICIES).cast()),
            _ => None,
        }
    }

    fn runaway(&self) -> *const u8 {
        runaway as *const u8
    }

    fn unavailable(&self) -> *const u8 {
        unavailable as *const u8
    }

    fn stray(&self) -> *const u8 {
        stray as *const u8
    }

    fn lacks(&self, name: &str, is_function: bool) -> bool {
        !kernel_symbols::has(name, is_function)
    }

    fn helper_name(&self, id: u32) -> Option<&'static str> {
        kfunc::helper_name(id)
    }

    fn helper_contract(&self, id: u32) -> Option<(&'static str, Contract)> {
        let name = kfunc::implementation(id)?;
        Some((name, contracts::of_helper(id, name)))
    }

    fn kfunc_contract(&self, name: &str) -> Contract {
        contracts::of_function(name)
    }

    fn event_arguments(&self, section: &str) -> Option<Vec<&'static str>> {
        crate::tracing::arguments_of(section)
    }

    fn may_be_null(&self, callback: &str, argument: usize) -> bool {
        contracts::may_be_null(callback, argument)
    }

    fn may_write(&self, structure: &str, offset: i64, size: u64) -> bool {
        contracts::may_write(structure, offset, size, self.cid_form)
    }

    fn is_object(&self, structure: &str) -> bool {
        contracts::is_object(structure)
    }

    fn begins_with(&self, structure: &str, first: &str) -> bool {
        contracts::begins_with(structure, first)
    }
}
