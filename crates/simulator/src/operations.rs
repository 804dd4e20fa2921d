//! The scheduler's operations table and calls into it.

use fairground_bpf::{Entry, Stack};
use fairground_events::{CpuId, EventKind};
use fairground_linux::Release;

use crate::constants::*;
use crate::holdings::Holdings;
use crate::idle::IdleState;
use crate::kernel::Kernel;
use crate::kfunc::Iterations;
use crate::maps::Retired;
use crate::task::TaskRef;

/// A callback of `struct sched_ext_ops`.
pub use fairground_events::Callback as Op;

/// The operations table of a loaded scheduler.
#[derive(Clone)]
pub struct Operations {
    /// Code of each callback, in the order of [`Op`].
    pub entries: [Option<Entry>; Op::ALL.len()],
    /// Whether it is of the cid form, in which CPUs have topological ids.
    pub cid_form: bool,
    /// `ops.name`.
    pub name: String,
    /// `ops.flags`.
    pub flags: u64,
    /// `ops.timeout_ms` with its default.
    pub timeout_ms: u64,
    /// `ops.dispatch_max_batch` with its default.
    pub max_batch: u32,
    /// `ops.exit_dump_len` with its default.
    pub exit_dump_len: usize,
    /// `ops.cid_shard_size`.
    pub cid_shard_size: u32,
    /// `ops.hotplug_seq`: how often CPUs had come or gone when the loader looked at the machine; 0 if it does not care.
    pub hotplug_seq: u64,
}

/// The calls into the scheduler's code that are running.
#[derive(Default)]
pub struct Calls {
    /// The running callback; the innermost one if they are nested.
    pub op: Option<Op>,
    /// Its first argument.
    pub argument: u64,
    /// How many calls are nested.
    pub depth: usize,
    /// The task that select_cpu or enqueue is called for; `Some(None)` once it was inserted directly.
    pub direct_dispatch: Option<Option<TaskRef>>,
    /// The task in whose context the CPU works, if that is not the current one: who it switches away from, or who loads the scheduler.
    pub context: Option<TaskRef>,
    /// The iterations in progress.
    pub iterations: Iterations,
    /// Things that running programs still have to release.
    pub holdings: Holdings,
    /// Values that the running program removed from its map or storage, and may still use.
    pub retired: Vec<Retired>,
}

impl Operations {
    /// Whether the scheduler has this callback.
    pub fn has(&self, op: Op) -> bool {
        self.entries[op as usize].is_some()
    }

    /// Whether it is to be told when it loses and regains CPUs.
    pub fn has_cpu_preempt(&self) -> bool {
        self.has(Op::CpuAcquire) || self.has(Op::CpuRelease)
    }

    /// The kernel's own record of idle CPUs, as far as the scheduler wants it, on a machine with so many nodes.
    pub fn idle_state(&self, nodes: usize) -> IdleState {
        let tracks_itself = self.has(Op::UpdateIdle) && self.flags & SCX_OPS_KEEP_BUILTIN_IDLE == 0;
        let per_node = self.flags & SCX_OPS_BUILTIN_IDLE_PER_NODE != 0;
        IdleState::new(!tracks_itself, per_node, nodes)
    }

    /// Checks the table, which has the callbacks that `has` tells, as the kernel does (`scx_validate_ops`); the error is the kernel's message.
    pub fn validate(&self, has: impl Fn(Op) -> bool, release: Release) -> Result<(), String> {
        let known = ENUMERATORS
            .iter()
            .filter(|one| one.name.starts_with("SCX_OPS_"))
            .filter(|one| one.name != "SCX_OPS_NAME_LEN");
        let allowed = known.clone().filter_map(|one| one.value(release));
        let unknown = self.flags & !allowed.fold(0, |flags, one| flags | one);
        if unknown != 0 {
            // A kernel says no more than the number.
            let others = known.filter(|one| one.value(release).is_none());
            let named =
                others.filter_map(|one| Some((one.name, one.value & unknown, one.releases.way()?)));
            let named: Vec<String> = { named.filter(|(_, flag, _)| *flag != 0) }
                .map(|(name, _, way)| {
                    format!("this kernel has no {name}, which can be left out ({way})")
                })
                .collect();
            let colon = if named.is_empty() { "" } else { ": " };
            return Err(format!("invalid ops.flags 0x{:x}{colon}{}", self.flags, named.join("; ")));
        }
        if self.flags & SCX_OPS_ENQ_LAST != 0 && !has(Op::Enqueue) {
            return Err("SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented".into());
        }
        let tracks_itself = has(Op::UpdateIdle) && self.flags & SCX_OPS_KEEP_BUILTIN_IDLE == 0;
        if self.flags & SCX_OPS_BUILTIN_IDLE_PER_NODE != 0 && tracks_itself {
            return Err("SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled".into());
        }
        if self.timeout_ms > SCX_WATCHDOG_MAX_TIMEOUT_MS {
            return Err(format!(
                "ops.timeout_ms {} is over {SCX_WATCHDOG_MAX_TIMEOUT_MS}",
                self.timeout_ms
            ));
        }
        if self.max_batch > i32::MAX as u32 {
            return Err(format!("ops.dispatch_max_batch {} is over {}", self.max_batch, i32::MAX));
        }
        Ok(())
    }
}

impl Kernel<'_> {
    /// Calls `op` if the scheduler has it; returns 0 if not.
    #[inline(always)]
    pub(crate) fn call(&mut self, op: Op, arguments: &[u64]) -> u64 {
        match self.operations.entries[op as usize] {
            Some(entry) => {
                let first = arguments.first().copied().unwrap_or(0);
                self.call_entry(op, entry, first, arguments.as_ptr() as u64)
            }
            None => 0,
        }
    }

    #[inline(never)]
    fn call_entry(&mut self, op: Op, entry: Entry, first: u64, arguments: u64) -> u64 {
        let outer = (self.calls.op, self.calls.argument);
        (self.calls.op, self.calls.argument) = (Some(op), first);
        let begin = if self.settings.details { self.local_time() } else { 0 };
        let result = self.run_program(entry, [arguments, 0, 0, 0, 0]);
        if self.settings.details {
            self.emit_callback(op, result, begin);
        }
        (self.calls.op, self.calls.argument) = outer;
        result
    }

    /// Tells the sinks about the callback that has just returned `result` and began at `begin`.
    #[cold]
    fn emit_callback(&mut self, callback: Op, result: u64, begin: u64) {
        let task = callback.is_of_a_task().then_some(self.calls.argument);
        let task = task.and_then(|task| self.tasks.at(task)).map(|task| task.id);
        let chosen = self.cpu_from_scheduler(result as i32);
        let chosen = usize::try_from(chosen)
            .ok()
            .filter(|cpu| callback == Op::SelectCpu && *cpu < self.cpus.len());
        self.emit(EventKind::Callback {
            cpu: CpuId(self.context.cpu as u32),
            callback,
            task,
            chosen: chosen.map(|cpu| CpuId(cpu as u32)),
            duration: self.local_time() - begin,
        });
    }

    /// The run queue whose lock is held during the running callback (`scx_locked_rq`).
    pub(crate) fn locked_run_queue(&self) -> Option<usize> {
        match self.calls.op? {
            Op::Enqueue
            | Op::Dequeue
            | Op::Tick
            | Op::Runnable
            | Op::Running
            | Op::Stopping
            | Op::Quiescent
            | Op::Yield
            | Op::CoreSchedBefore
            | Op::SetWeight
            | Op::SetCpumask
            | Op::Enable
            | Op::Disable => self.task_at(self.calls.argument).map(TaskRef::cpu),
            Op::Dispatch | Op::UpdateIdle | Op::CpuAcquire | Op::CpuRelease => {
                let number = self.calls.argument as i32 as usize;
                Some(if self.operations.cid_form { self.cids.to_cpu[number] } else { number })
            }
            _ => None,
        }
    }

    /// Runs a program of the scheduler from beginning to end. Meanwhile the current task of the CPU cannot migrate, and shows it
    /// (`__bpf_prog_enter`).
    #[inline(always)]
    pub(crate) fn run_program(&mut self, entry: Entry, registers: [u64; 5]) -> u64 {
        let mut current = self.executing();
        current.seen.migration_disabled += 1;
        let held = self.calls.holdings.count();
        let result = self.call_function(entry, registers);
        if self.calls.holdings.count() > held {
            self.report_leak(entry, held);
        }
        current.seen.migration_disabled -= 1;
        self.charge_instructions();
        self.context.spent += self.settings.cost.callback;
        result
    }

    /// Reports a program that holds more at its end than at its beginning.
    #[cold]
    fn report_leak(&mut self, entry: Entry, before: usize) {
        let leaked = self.calls.holdings.leaked(before);
        // A program that was stopped is not to blame.
        if self.is_stopped() {
            return;
        }
        let place = self.scheduler.locate(entry as usize);
        let place = place.map_or_else(String::new, |place| format!(" {place}"));
        let what = leaked.unwrap_or("something");
        let message = format!("the program{place} ends without releasing {what}");
        self.fail(ExitKind::Error, message);
    }

    /// Where in the source a function begins, after ` in `; empty if that is not known.
    fn place_of(&self, entry: Entry) -> String {
        let place = self.scheduler.locate(entry as usize);
        place.map_or_else(String::new, |place| format!(" in {place}"))
    }

    /// Whether the running code was stopped; its caller must not continue.
    pub(crate) fn is_stopped(&self) -> bool {
        self.context.instruction_limit == 0
    }

    /// Stops the running code: `entry` would be called too deeply.
    #[cold]
    fn refuse_call(&mut self, entry: Entry) {
        let place = self.place_of(entry);
        let message = format!("callbacks call each other too deeply{place}");
        self.fail(ExitKind::Error, message);
        self.context.instruction_limit = 0;
    }

    /// Stops the running code: `entry`, a function that a callback has called, went on for too long.
    #[cold]
    fn stop_endless(&mut self, entry: Entry) {
        let place = self.place_of(entry);
        self.fail_endless(format!(
            "a callback does not end: a function that it calls goes on and on{place}"
        ));
        self.context.instruction_limit = 0;
    }

    /// Calls any function of the scheduler with its five registers. The cost is charged to the program that it is part of.
    #[inline(always)]
    pub(crate) fn call_function(&mut self, entry: Entry, registers: [u64; 5]) -> u64 {
        let depth = self.calls.depth;
        if depth == Stack::NESTED_CALLS {
            self.refuse_call(entry);
            return 0;
        }
        // A function that a callback calls, directly or through helpers, counts towards its own budget.
        if depth == 0 {
            self.context.instruction_limit = self.context.instructions + INSTRUCTION_LIMIT;
        }
        self.calls.depth = depth + 1;
        let kernel: *mut Self = self;
        // SAFETY: the context belongs to this kernel, and the code was compiled for its layout. The pointer to the kernel was just made from
        // this exclusive reference, and nothing uses the reference until the call returns.
        let result = unsafe {
            let context = &raw mut (*kernel).context;
            (*context).kernel = kernel.cast();
            let [r1, r2, r3, r4, r5] = registers;
            entry(context, r1, r2, r3, r4, r5)
        };
        self.calls.depth = depth;
        if depth > 0 {
            // Loops check the budget themselves. Those of helpers do not, but their iterations are calls.
            if !self.is_stopped() && self.context.instructions > self.context.instruction_limit {
                self.stop_endless(entry);
            }
        } else if !self.calls.retired.is_empty() {
            self.forget_retired();
        }
        result
    }

    #[inline(never)]
    fn forget_retired(&mut self) {
        self.calls.retired.clear();
    }
}

/// Number of instructions, including those of all that it calls, after which a callback counts as one that does not end. The verifier's own
/// limit on a loaded program is of this order.
const INSTRUCTION_LIMIT: u64 = 1 << 32;
