//! The calls to the scheduler about a task: its beginning and end, its weight, its CPUs.

use crate::cids;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::{EnableArgs, ExitTaskArgs, InitTaskArgs};
use crate::task::TaskRef;

impl Kernel<'_> {
    /// `ops.init_task`; the error is the number that the scheduler returned.
    pub(crate) fn init_task(&mut self, mut task: TaskRef, fork: bool) -> Result<(), i32> {
        task.seen.scx.disallow = false;
        if self.operations.has(Op::InitTask) {
            let mut args = InitTaskArgs { fork, cgroup: self.groups.cgroup_address(task.cgroup) };
            let result = self.call(Op::InitTask, &[task.address(), &raw mut args as u64]) as i32;
            let result = self.sanitize("init_task", result);
            if result != 0 {
                return Err(result);
            }
            // Of tasks that exist at load time, it would matter only to those that ask for sched_ext, which no workload can.
            if task.seen.scx.disallow && fork {
                let task = task.label();
                let message =
                    format!("ops.init_task() set task->scx.disallow for {task} during fork");
                self.fail(ExitKind::Error, message);
            }
        }
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_READY;
        task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
        Ok(())
    }

    /// `scx_enable_task`.
    pub(crate) fn enable_task(&mut self, mut task: TaskRef) {
        task.seen.scx.weight = cgroup_weight(task.seen.se.load.weight);
        if self.operations.cid_form {
            let mut args = EnableArgs { cmask_arena_addr: self.allowed_cids(task) };
            self.call(Op::Enable, &[task.address(), &raw mut args as u64]);
            self.call_set_cpumask(task);
        } else {
            self.call(Op::Enable, &[task.address()]);
        }
        self.call(Op::SetWeight, &[task.address(), u64::from(task.seen.scx.weight)]);
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_ENABLED;
    }

    /// Takes over a task from another class (`switching_to_scx`).
    pub(crate) fn switch_to_ext(&mut self, task: TaskRef) {
        self.enable_task(task);
        // In the cid form, enabling the task has already passed on its mask.
        if !self.operations.cid_form {
            self.call_set_cpumask(task);
        }
    }

    /// `scx_disable_task`.
    pub(crate) fn disable_task(&mut self, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        self.clear_direct_dispatch(task);
        self.call(Op::Disable, &[task.address()]);
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_READY;
        task.seen.scx.dsq_vtime = 0;
        task.seen.scx.slice = 0;
        task.seen.scx.reenq_cnt = 0;
        task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
    }

    /// `ops.exit_task`.
    pub(crate) fn exit_task(&mut self, mut task: TaskRef, cancelled: bool) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK == SCX_TASK_NONE {
            return;
        }
        let mut args = ExitTaskArgs { cancelled };
        self.call(Op::ExitTask, &[task.address(), &raw mut args as u64]);
        task.seen.scx.flags &= !SCX_TASK_STATE_MASK;
    }

    /// Tells the scheduler about a task's new weight (`reweight_task_scx`).
    pub(crate) fn reweight(&mut self, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        task.seen.scx.weight = cgroup_weight(task.seen.se.load.weight);
        self.call(Op::SetWeight, &[task.address(), u64::from(task.seen.scx.weight)]);
    }

    /// Tells the scheduler about a task's affinity.
    pub(crate) fn call_set_cpumask(&mut self, task: TaskRef) {
        if !self.operations.has(Op::SetCpumask) {
            return;
        }
        let mask = if self.operations.cid_form {
            self.allowed_cids(task)
        } else {
            task.seen.cpus_ptr as u64
        };
        self.call(Op::SetCpumask, &[task.address(), mask]);
    }

    /// Writes the ids of the CPUs that a task may use to the arena's memory for this (`scx_call_op_set_cpumask`); returns the address.
    fn allowed_cids(&mut self, task: TaskRef) -> u64 {
        let count = self.cpus.len();
        let to_cpu = &self.cids.to_cpu;
        let bytes = cids::mask_bytes(count, |cid| task.allowed().test(to_cpu[cid]));
        let address = self.cids.masks + (self.context.cpu * bytes.len()) as u64;
        let arena = self.memory.arena.as_mut();
        if let Some(memory) = arena.and_then(|arena| arena.memory(address, bytes.len())) {
            memory.copy_from_slice(&bytes);
        }
        address
    }
}

/// The kernel's conversion of a load weight to the cgroup scale, 1 to 10000 with 100 for nice 0.
fn cgroup_weight(weight: u64) -> u32 {
    ((weight * 100 + 512) / 1024).clamp(1, 10_000) as u32
}
