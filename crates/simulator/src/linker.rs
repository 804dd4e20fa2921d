//! The kernel against which a scheduler object is compiled: functions, structures and constants.

use fairground_bpf::{Context, Contract, Field, Linker, Native};
use fairground_linux::{MemberKind, Release, function, has_variable, helper, member};

use crate::constants::*;
use crate::kernel::Kernel;
use crate::kfunc;
use crate::kfunc::contracts;
use crate::structures;

/// The constants of the kernel's enumerations in `release`.
pub fn enumerators(release: Release) -> impl Iterator<Item = (&'static str, u64)> {
    let exits = ExitKind::ALL.into_iter();
    let exits = exits.map(|kind| (kind.name(), u64::from(kind.number())));
    let constants = ENUMERATORS.iter();
    let constants = constants.filter_map(move |one| Some((one.name, one.value(release)?)));
    constants.chain(exits)
}

/// The value of a constant of the kernel's enumerations in `release`.
pub fn enumerator(name: &str, release: Release) -> Option<u64> {
    enumerators(release).find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The variable that schedulers know as `__preempt_count`; each CPU has its own copy.
pub static PREEMPT_COUNT: u64 = 0;
/// The state of sections with interrupts disabled, which are counted in `__preempt_count`. That it exists tells schedulers where interrupts are
/// in the counter.
static LOCAL_INTERRUPT_DISABLE_STATE: u64 = 0;

/// The variable that schedulers know as the run queues; each CPU has its own.
pub static RUN_QUEUES: u64 = 0;
/// The CPU frequency policies, a pointer for each CPU: NULL, as if no driver sets frequencies.
static FREQUENCY_POLICIES: [u64; structures::MAX_CPUS] = [0; structures::MAX_CPUS];

/// Ticks per second unless a run says otherwise.
pub const DEFAULT_HZ: u64 = 250;

/// Answers an object's questions about this kernel.
#[derive(Debug)]
pub struct KernelLinker {
    /// Whether the object is a scheduler of the cid form.
    pub cid_form: bool,
    /// Ticks per second.
    pub hz: u64,
    /// The release of Linux.
    pub release: Release,
}

impl Default for KernelLinker {
    fn default() -> Self {
        KernelLinker { cid_form: false, hz: DEFAULT_HZ, release: Release::NEWEST }
    }
}

/// A text in compiled code on the fault there.
fn text(address: u64, length: u64) -> String {
    String::from_utf8_lossy(&kfunc::read_bytes(address, length as usize)).into_owned()
}

/// Defines functions that compiled code calls where it cannot go on.
macro_rules! faults {
    ($(fn $name:ident($kernel:ident $(, $argument:ident)*) $body:block)*) => { $(
        unsafe extern "C" fn $name(context: *mut Context, r1: u64, r2: u64, r3: u64, _: u64, _: u64) -> u64 {
            // SAFETY: called by compiled scheduler code only.
            let $kernel: &mut Kernel<'_> = unsafe { kfunc::kernel_of(context) };
            let [$($argument,)* ..] = [r1, r2, r3];
            $body
            0
        }
    )* };
}

faults! {
    fn runaway(kernel, place) {
        let scheduler = kernel.scheduler.clone();
        let place = scheduler.describe(place);
        kernel.fail_endless(format!("a loop does not end{place}"));
    }

    fn unavailable(kernel, problem, length, place) {
        let problem = text(problem, length);
        let scheduler = kernel.scheduler.clone();
        let mut message = format!("{problem}{}", scheduler.describe(place));
        let others = scheduler.code.needs().missing().iter().filter(|one| one.problem != problem);
        let others: Vec<String> = others.map(ToString::to_string).collect();
        if !others.is_empty() {
            message += &format!("; in code not reached so far: {}", others.join("; "));
        }
        kernel.fail(ExitKind::Error, message);
    }

    fn stray(kernel, problem, length, place) {
        let problem = text(problem, length);
        let place = kernel.scheduler.describe(place);
        kernel.fail(ExitKind::Error, format!("{problem}{place}"));
    }
}

impl Linker for KernelLinker {
    fn helper(&self, id: u32) -> Option<Native> {
        kfunc::find_helper(id)
    }

    fn kfunc(&self, name: &str) -> Option<Native> {
        kfunc::find(name, self.release)
    }

    fn call_frames(&self) -> usize {
        self.release.call_frames()
    }

    fn field(&self, structure: &str, path: &[&str]) -> Option<Field> {
        structures::resolve(structure, path, self.release)
    }

    fn type_size(&self, name: &str) -> Option<u32> {
        structures::find_in(name, self.release).map(|entry| entry.size as u32)
    }

    fn enumerator(&self, _enumeration: &str, name: &str) -> Option<u64> {
        enumerator(name, self.release)
    }

    fn kconfig(&self, name: &str) -> Option<u64> {
        match name {
            "LINUX_KERNEL_VERSION" => Some(self.release.code()),
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
        match is_function {
            true => !function(name).is_some_and(|one| one.releases.contains(self.release)),
            false => !has_variable(name),
        }
    }

    fn remedy(&self, name: &str) -> Option<String> {
        function(name)?.remedy()
    }

    fn helper_name(&self, id: u32) -> Option<&'static str> {
        helper(id).map(|one| one.name)
    }

    fn helper_contract(&self, id: u32) -> Option<(&'static str, Contract)> {
        let name = kfunc::implementation(id)?;
        Some((name, helper(id)?.contract))
    }

    fn kfunc_contract(&self, name: &str) -> Contract {
        function(name).map_or_else(Contract::default, |one| one.contract)
    }

    fn event_arguments(&self, section: &str) -> Option<Vec<&'static str>> {
        crate::tracing::arguments_of(section)
    }

    fn may_be_null(&self, callback: &str, argument: usize) -> bool {
        let member = member(callback, self.cid_form);
        member.is_some_and(|member| {
            matches!(member.kind, MemberKind::Callback { nullable, .. } if nullable == Some(argument))
        })
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
