//! Programs that the kernel runs at events of its own rather than as callbacks: at tracepoints, and when functions begin and return. Only
//! events that this model has one for one are here; [`Scheduler::unattached`] names the programs attached to others.
//!
//! [`Scheduler::unattached`]: crate::Scheduler::unattached

use fairground_bpf::{Code, Entry, Object};

use crate::kernel::Kernel;
use crate::structures::{
    ExitTrace, ForkTrace, MigrateTrace, PtRegs, SwitchTrace, SyscallEntryTrace, SyscallExitTrace,
    TraceEntry, WakeupTrace,
};
use crate::task::TaskRef;

/// A kernel event that programs can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    SchedSwitch,
    SchedWaking,
    SchedWakeup,
    SchedWakeupNew,
    SchedMigrateTask,
    SchedProcessFork,
    SchedProcessExit,
    SchedStatRuntime,
    TaskNewtask,
    CgroupAttachTask,
    SysEnterFutex,
    SysExitFutex,
    BpfScxReg,
    ScxTick,
    EnqueueTaskScx,
    DequeueTaskScx,
    SelectTaskRqScx,
    TaskTickScx,
    TryToWakeUp,
    WakeUpNewTask,
    FutexWait,
    FutexWake,
}

/// A tracepoint or function: its name, a tracepoint's category, and the structures to which its arguments point. An argument without a structure is
/// a number.
struct Event {
    name: &'static str,
    category: Option<&'static str>,
    hook: Hook,
    arguments: &'static [&'static str],
}

const fn tracepoint(
    category: &'static str,
    name: &'static str,
    hook: Hook,
    arguments: &'static [&'static str],
) -> Event {
    Event { name, category: Some(category), hook, arguments }
}

const fn function(name: &'static str, hook: Hook, arguments: &'static [&'static str]) -> Event {
    Event { name, category: None, hook, arguments }
}

const TASK: &str = "task_struct";

/// Category of the system call tracepoints, which only classic programs can be attached to.
const SYSCALLS: &str = "syscalls";

static EVENTS: &[Event] = &[
    tracepoint("sched", "sched_switch", Hook::SchedSwitch, &["", TASK, TASK, ""]),
    tracepoint("sched", "sched_waking", Hook::SchedWaking, &[TASK]),
    tracepoint("sched", "sched_wakeup", Hook::SchedWakeup, &[TASK]),
    tracepoint("sched", "sched_wakeup_new", Hook::SchedWakeupNew, &[TASK]),
    tracepoint("sched", "sched_migrate_task", Hook::SchedMigrateTask, &[TASK, ""]),
    tracepoint("sched", "sched_process_fork", Hook::SchedProcessFork, &[TASK, TASK]),
    tracepoint("sched", "sched_process_exit", Hook::SchedProcessExit, &[TASK, ""]),
    tracepoint("sched", "sched_stat_runtime", Hook::SchedStatRuntime, &[TASK, ""]),
    tracepoint("task", "task_newtask", Hook::TaskNewtask, &[TASK, ""]),
    tracepoint("cgroup", "cgroup_attach_task", Hook::CgroupAttachTask, &["cgroup", "", TASK, ""]),
    tracepoint(SYSCALLS, "sys_enter_futex", Hook::SysEnterFutex, &[]),
    tracepoint(SYSCALLS, "sys_exit_futex", Hook::SysExitFutex, &[]),
    function("bpf_scx_reg", Hook::BpfScxReg, &["", ""]),
    function("scx_tick", Hook::ScxTick, &["rq"]),
    function("enqueue_task_scx", Hook::EnqueueTaskScx, &["rq", TASK, ""]),
    function("dequeue_task_scx", Hook::DequeueTaskScx, &["rq", TASK, ""]),
    function("select_task_rq_scx", Hook::SelectTaskRqScx, &[TASK, "", ""]),
    function("task_tick_scx", Hook::TaskTickScx, &["rq", TASK, ""]),
    function("try_to_wake_up", Hook::TryToWakeUp, &[TASK, "", ""]),
    function("wake_up_new_task", Hook::WakeUpNewTask, &[TASK]),
    function("__futex_wait", Hook::FutexWait, &["", "", "", "", ""]),
    function("futex_wake", Hook::FutexWake, &["", "", "", ""]),
];

/// The arguments of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The arguments in order, for a program that knows their types.
    Typed,
    /// The same, for a program that does not.
    Raw,
    /// The arguments and the function's result.
    Return,
    /// The record of a tracepoint.
    Record,
    /// The registers that hold the arguments.
    Registers,
    /// The register that holds the return value.
    ReturnRegister,
}

impl Form {
    fn is_of_a_return(self) -> bool {
        matches!(self, Form::Return | Form::ReturnRegister)
    }
}

/// Hooks whose record a classic program can read.
fn has_record(hook: Hook) -> bool {
    !matches!(hook, Hook::SchedStatRuntime | Hook::TaskNewtask | Hook::CgroupAttachTask)
}

/// The event to which a program of this section is attached; `None` if this kernel has no such event.
fn attach_point(section: &str) -> Option<(&'static Event, Form)> {
    let (kind, target) = section.split_once('/')?;
    let kind = kind.split('.').next()?;
    let function = |form| {
        let event = EVENTS.iter().find(|event| event.category.is_none() && event.name == target);
        Some((event?, form))
    };
    match kind {
        "tp_btf" | "raw_tp" | "raw_tracepoint" => {
            let form = if kind == "tp_btf" { Form::Typed } else { Form::Raw };
            let is_it = |event: &&Event| {
                event.name == target && event.category.is_some_and(|category| category != SYSCALLS)
            };
            Some((EVENTS.iter().find(is_it)?, form))
        }
        "tp" | "tracepoint" => {
            let (category, name) = target.split_once('/')?;
            let is_it = |event: &&Event| {
                event.category == Some(category) && event.name == name && has_record(event.hook)
            };
            Some((EVENTS.iter().find(is_it)?, Form::Record))
        }
        "fentry" => function(Form::Typed),
        "fexit" => function(Form::Return),
        "kprobe" => function(Form::Registers),
        "kretprobe" => function(Form::ReturnRegister),
        _ => None,
    }
}

/// Whether a program of this section is attached to an event, rather than being a callback or run by the loader.
fn is_of_an_event(section: &str) -> bool {
    let kind = section.split(['/', '.']).next().unwrap_or_default();
    !matches!(kind, "struct_ops" | "syscall")
}

/// Sections of programs that a kernel would attach to events that this one does not have.
pub(crate) fn unattached(object: &Object) -> Vec<&str> {
    let programs = object.programs().iter();
    programs
        .filter(|program| program.autoload && is_of_an_event(&program.section))
        .map(|program| program.section.as_str())
        .filter(|section| attach_point(section).is_none())
        .collect()
}

/// The structures to which the arguments of a program of this section point, by name; "" for numbers, and nothing if the context holds
/// something else. `None` if this kernel has no such event.
pub(crate) fn arguments_of(section: &str) -> Option<Vec<&'static str>> {
    let (event, form) = attach_point(section)?;
    Some(match form {
        Form::Typed => event.arguments.to_vec(),
        Form::Return => event.arguments.iter().copied().chain([""]).collect(),
        Form::Raw => vec![""; event.arguments.len()],
        Form::Record | Form::Registers | Form::ReturnRegister => Vec::new(),
    })
}

/// A program attached to an event.
struct Attached {
    hook: Hook,
    form: Form,
    entry: Entry,
    /// Whether it is running: events that it causes itself do not run it again.
    is_running: bool,
}

/// The programs of a scheduler that are attached to events.
#[derive(Default)]
pub struct Tracing {
    /// The hooks that have programs, by number.
    wanted: u32,
    programs: Vec<Attached>,
}

impl Tracing {
    /// The programs of `object`, attached to their events.
    pub fn new(object: &Object, code: &Code) -> Tracing {
        let mut tracing = Tracing::default();
        for program in object.programs().iter().filter(|program| program.autoload) {
            let Some((event, form)) = attach_point(&program.section) else {
                continue;
            };
            if let Some(entry) = code.entry(&program.name) {
                tracing.wanted |= 1 << event.hook as u32;
                tracing.programs.push(Attached {
                    hook: event.hook,
                    form,
                    entry,
                    is_running: false,
                });
            }
        }
        tracing
    }

    /// Whether any program is attached to `hook`.
    #[inline]
    pub(crate) fn wants(&self, hook: Hook) -> bool {
        self.wanted & 1 << hook as u32 != 0
    }
}

/// The context of a program: at most the registers of a CPU.
type Words = [u64; size_of::<PtRegs>() / 8];

/// Writes the record of a tracepoint, followed by the texts whose positions it contains.
fn write_record<T: Copy>(context: &mut Words, record: T, texts: &[&[u8]]) {
    assert!(size_of::<T>() <= size_of::<Words>());
    // SAFETY: the context is at least as long as the record, and any bytes are valid words.
    unsafe { context.as_mut_ptr().cast::<T>().write_unaligned(record) };
    let mut place = size_of::<T>();
    for text in texts {
        for byte in *text {
            let word = &mut context[place / 8];
            *word |= u64::from(*byte) << (place % 8 * 8);
            place += 1;
        }
    }
}

/// The name of a task, including the terminating zero byte.
fn name_of(task: &TaskRef) -> &[u8] {
    let end = task.seen.comm.iter().position(|byte| *byte == 0);
    &task.seen.comm[..end.map_or(16, |end| end + 1)]
}

/// Position and length of a text in a record (`__data_loc`).
fn location(place: usize, text: &[u8]) -> u32 {
    (text.len() as u32) << 16 | place as u32
}

impl Kernel<'_> {
    /// The task in whose context this CPU works: during a switch, still the previous one.
    pub(crate) fn executing(&self) -> TaskRef {
        self.calls.context.unwrap_or(self.here.current)
    }

    /// Does what a kernel does for the loader of a scheduler, whose process is there and sleeps in the root group.
    pub(crate) fn as_loader<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.calls.context = Some(self.tasks.creator());
        let result = work(self);
        self.calls.context = None;
        result
    }

    /// Runs the programs attached to something that has just happened, or to a function that begins.
    #[inline]
    pub(crate) fn trace(&mut self, hook: Hook, arguments: &[u64]) {
        if self.tracing.wants(hook) {
            self.run_traced(hook, arguments, None);
        }
    }

    /// Runs the programs attached to a function that returns.
    #[inline]
    pub(crate) fn trace_return(&mut self, hook: Hook, arguments: &[u64], result: u64) {
        if self.tracing.wants(hook) {
            self.run_traced(hook, arguments, Some(result));
        }
    }

    #[cold]
    #[inline(never)]
    fn run_traced(&mut self, hook: Hook, arguments: &[u64], result: Option<u64>) {
        for number in 0..self.tracing.programs.len() {
            let program = &self.tracing.programs[number];
            if program.hook != hook
                || program.form.is_of_a_return() != result.is_some()
                || program.is_running
            {
                continue;
            }
            let (form, entry) = (program.form, program.entry);
            let mut context = self.context_of(form, hook, arguments, result.unwrap_or(0));
            self.tracing.programs[number].is_running = true;
            self.run_program(entry, [context.as_mut_ptr() as u64, 0, 0, 0, 0]);
            self.tracing.programs[number].is_running = false;
        }
    }

    fn context_of(&self, form: Form, hook: Hook, arguments: &[u64], result: u64) -> Words {
        let mut context: Words = [0; _];
        match form {
            Form::Typed | Form::Raw => context[..arguments.len()].copy_from_slice(arguments),
            Form::Return => {
                context[..arguments.len()].copy_from_slice(arguments);
                context[arguments.len()] = result;
            }
            Form::Record => self.write_record_of(hook, arguments, &mut context),
            Form::Registers | Form::ReturnRegister => {
                let argument = |number: usize| arguments.get(number).copied().unwrap_or(0);
                let registers = PtRegs {
                    di: argument(0),
                    si: argument(1),
                    dx: argument(2),
                    cx: argument(3),
                    r8: argument(4),
                    r9: argument(5),
                    ax: result,
                    ..PtRegs::default()
                };
                write_record(&mut context, registers, &[]);
            }
        }
        context
    }

    /// The record of a tracepoint, as `TP_fast_assign()` fills it in.
    fn write_record_of(&self, hook: Hook, arguments: &[u64], context: &mut Words) {
        let ent =
            TraceEntry { type_: 0, flags: 0, preempt_count: 0, pid: self.executing().seen.pid };
        let number = |place: usize| arguments.get(place).copied().unwrap_or(0);
        let task = |place: usize| self.tasks.at(number(place));
        match (hook, task(0), task(1)) {
            (Hook::SchedSwitch, _, Some(prev)) => {
                let Some(next) = task(2) else { return };
                let record = SwitchTrace {
                    ent,
                    prev_comm: prev.seen.comm,
                    prev_pid: prev.seen.pid,
                    prev_prio: prev.seen.prio,
                    prev_state: number(3) as i64,
                    next_comm: next.seen.comm,
                    next_pid: next.seen.pid,
                    next_prio: next.seen.prio,
                };
                write_record(context, record, &[]);
            }
            (Hook::SchedWaking | Hook::SchedWakeup | Hook::SchedWakeupNew, Some(woken), _) => {
                let record = WakeupTrace {
                    ent,
                    comm: woken.seen.comm,
                    pid: woken.seen.pid,
                    prio: woken.seen.prio,
                    target_cpu: woken.cpu() as i32,
                };
                write_record(context, record, &[]);
            }
            (Hook::SchedMigrateTask, Some(moved), _) => {
                let name = name_of(&moved);
                let record = MigrateTrace {
                    ent,
                    __data_loc_comm: location(size_of::<MigrateTrace>(), name),
                    pid: moved.seen.pid,
                    prio: moved.seen.prio,
                    orig_cpu: moved.cpu() as i32,
                    dest_cpu: number(1) as i32,
                };
                write_record(context, record, &[name]);
            }
            (Hook::SchedProcessFork, Some(parent), Some(child)) => {
                let (first, second) = (name_of(&parent), name_of(&child));
                let begin = size_of::<ForkTrace>();
                let record = ForkTrace {
                    ent,
                    __data_loc_parent_comm: location(begin, first),
                    parent_pid: parent.seen.pid,
                    __data_loc_child_comm: location(begin + first.len(), second),
                    child_pid: child.seen.pid,
                };
                write_record(context, record, &[first, second]);
            }
            (Hook::SchedProcessExit, Some(dead), _) => {
                let record = ExitTrace {
                    ent,
                    comm: dead.seen.comm,
                    pid: dead.seen.pid,
                    prio: dead.seen.prio,
                    group_dead: number(1) != 0,
                };
                write_record(context, record, &[]);
            }
            (Hook::SysEnterFutex, ..) => {
                let mut args = [0; 6];
                args[..arguments.len()].copy_from_slice(arguments);
                write_record(context, SyscallEntryTrace { ent, id: FUTEX, args }, &[]);
            }
            (Hook::SysExitFutex, ..) => {
                let ret = number(0) as i64;
                write_record(context, SyscallExitTrace { ent, id: FUTEX, ret }, &[]);
            }
            _ => {}
        }
    }
}

/// Number of the system call (`__NR_futex`).
const FUTEX: i64 = 202;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lead_to_events() {
        let place = |section| attach_point(section).map(|(event, form)| (event.hook, form));
        let expected = [
            ("tp_btf/sched_switch", Hook::SchedSwitch, Form::Typed),
            ("raw_tracepoint.w/sched_waking", Hook::SchedWaking, Form::Raw),
            ("tracepoint/sched/sched_wakeup", Hook::SchedWakeup, Form::Record),
            ("tp/syscalls/sys_exit_futex", Hook::SysExitFutex, Form::Record),
            ("fentry.s/bpf_scx_reg", Hook::BpfScxReg, Form::Typed),
            ("fexit/__futex_wait", Hook::FutexWait, Form::Return),
            ("kprobe/futex_wake", Hook::FutexWake, Form::Registers),
            ("kretprobe/try_to_wake_up", Hook::TryToWakeUp, Form::ReturnRegister),
        ];
        for (section, hook, form) in expected {
            assert_eq!(place(section), Some((hook, form)), "{section}");
        }
        for section in [
            "tp_btf/sys_enter_futex",
            "tp_btf/cgroup_mkdir",
            "tracepoint/task/task_newtask",
            "tracepoint/irq/sched_switch",
            "fentry/sched_switch",
            "tp_btf/bpf_scx_reg",
            "iter/task",
            "perf_event",
            "struct_ops/enqueue",
        ] {
            assert_eq!(place(section), None, "{section}");
        }
    }
}
