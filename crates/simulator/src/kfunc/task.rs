//! Tasks, CPUs, time, performance levels, control groups.

use super::passed::write_bytes;
use super::{error, kernel_functions, signed};
use crate::constants::*;
use crate::holdings;
use crate::kernel::Kernel;
use crate::structures::EventStats;

impl Kernel<'_> {
    /// Requests a performance level; `false` after an error.
    pub(super) fn set_performance(&mut self, cpu: i32, level: u32) -> bool {
        if level > SCX_CPUPERF_ONE {
            let message = format!("Invalid cpuperf target {level} for CPU {cpu}");
            self.fail(ExitKind::Error, message);
            return false;
        }
        if !self.cpu_is_valid(cpu, "") {
            return false;
        }
        let cpu = cpu as usize;
        if self.locked_run_queue().is_some_and(|locked| locked != cpu) {
            self.fail(ExitKind::Error, format!("Invalid target CPU {cpu}"));
            return false;
        }
        self.cpus[cpu].performance = level;
        let lowest = &mut self.noticed.lowest_performance;
        *lowest = level.min(*lowest);
        self.update_frequency(cpu);
        true
    }
}

kernel_functions! { TABLE;
    fn scx_bpf_task_running(kernel, task) {
        u64::from(kernel.passed_task(task).is_some_and(|task| kernel.cpus[task.cpu()].current == task))
    }

    fn scx_bpf_task_cpu(kernel, task) {
        kernel.passed_task(task).map_or(error(EINVAL), |task| signed(task.cpu() as i32))
    }

    fn scx_bpf_locked_rq(kernel) {
        match kernel.locked_run_queue() {
            Some(cpu) => &raw mut kernel.cpus[cpu].rq as u64,
            None => {
                let message = "accessing rq without holding rq lock".into();
                kernel.fail(ExitKind::Error, message);
                0
            }
        }
    }

    fn scx_bpf_cpu_rq(kernel, cpu) {
        if kernel.cpu_is_valid(cpu as i32, "") { kernel.run_queue_address(cpu as u32 as usize) } else { 0 }
    }

    fn scx_bpf_cpu_curr(kernel, cpu) {
        if kernel.cpu_is_valid(cpu as i32, "") { kernel.cpus[cpu as u32 as usize].current.address() } else { 0 }
    }

    fn scx_bpf_tid_to_task(kernel, tid) {
        if kernel.operations.flags & SCX_OPS_TID_TO_TASK == 0 {
            kernel.fail(ExitKind::Error, "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK".into());
            return 0;
        }
        let task = tid.checked_sub(1).and_then(|number| kernel.tasks.workload().get(number as usize));
        task.filter(|task| task.seen.__state != TASK_DEAD).map_or(0, |task| task.address())
    }

    fn scx_bpf_now(kernel) {
        kernel.here.clock(kernel.clock.now())
    }

    fn scx_bpf_events(kernel, target, size) {
        let size = (size as usize).min(size_of::<EventStats>());
        // SAFETY: the structure consists of 64-bit numbers.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const kernel.statistics).cast(), size_of::<EventStats>()) };
        write_bytes(target, size, bytes);
        0
    }

    fn scx_bpf_cpuperf_cap(kernel, cpu) {
        if kernel.cpu_is_valid(cpu as i32, "") { kernel.cpus[cpu as u32 as usize].capacity } else { u64::from(SCX_CPUPERF_ONE) }
    }

    fn scx_bpf_cpuperf_cur(kernel, cpu) {
        if kernel.cpu_is_valid(cpu as i32, "") { kernel.frequency_capacity(cpu as u32 as usize) } else { u64::from(SCX_CPUPERF_ONE) }
    }

    fn scx_bpf_cpuperf_set(kernel, cpu, level) {
        kernel.set_performance(cpu as i32, level as u32);
        0
    }

    fn bpf_task_acquire(kernel, task) {
        if let Some(mut task) = kernel.passed_task(task) {
            task.references += 1;
        }
        kernel.calls.holdings.take("the reference that bpf_task_acquire() returned", task)
    }

    fn bpf_task_release(kernel, task) {
        kernel.calls.holdings.give_back(task);
        if let Some(mut task) = kernel.passed_task(task) {
            task.references = task.references.saturating_sub(1);
        }
        0
    }

    fn bpf_task_from_pid(kernel, pid) {
        let found = kernel.tasks.workload().iter().copied().chain(kernel.tasks.hidden()).find(|task| {
            task.seen.pid == pid as i32 && task.seen.__state != TASK_DEAD && task.seen.flags & PF_EXITING == 0
        });
        let found = found.map_or(0, |mut task| {
            task.references += 1;
            task.address()
        });
        kernel.calls.holdings.take("the reference that bpf_task_from_pid() returned", found)
    }

    fn bpf_task_from_vpid(kernel, pid) {
        let found = kernel.tasks.workload().iter().copied().find(|task| task.seen.pid == pid as i32 && task.seen.__state != TASK_DEAD);
        let found = found.map_or(0, |mut task| {
            task.references += 1;
            task.address()
        });
        kernel.calls.holdings.take("the reference that bpf_task_from_vpid() returned", found)
    }

    fn bpf_rcu_read_lock(kernel) {
        kernel.calls.holdings.take("the critical section of RCU", holdings::RCU);
        0
    }

    fn bpf_rcu_read_unlock(kernel) {
        kernel.calls.holdings.give_back(holdings::RCU);
        0
    }

    fn bpf_preempt_disable(kernel) {
        kernel.calls.holdings.take("the section without preemption", holdings::NO_PREEMPTION);
        0
    }

    fn bpf_preempt_enable(kernel) {
        kernel.calls.holdings.give_back(holdings::NO_PREEMPTION);
        0
    }

    fn bpf_local_irq_save(kernel, flags) {
        kernel.calls.holdings.take("the section without interrupts", holdings::NO_INTERRUPTS);
        0
    }

    fn bpf_local_irq_restore(kernel, flags) {
        kernel.calls.holdings.give_back(holdings::NO_INTERRUPTS);
        0
    }

    fn bpf_res_spin_lock(kernel, lock) {
        if kernel.take_spin_lock(lock) { 0 } else { error(EDEADLK) }
    }

    fn bpf_res_spin_unlock(kernel, lock) {
        kernel.let_spin_lock_go(lock);
        0
    }

    fn bpf_res_spin_lock_irqsave(kernel, lock, flags) {
        if kernel.take_spin_lock(lock) { 0 } else { error(EDEADLK) }
    }

    fn bpf_res_spin_unlock_irqrestore(kernel, lock, flags) {
        kernel.let_spin_lock_go(lock);
        0
    }

    fn bpf_cast_to_kern_ctx(kernel, context) { context }
    fn bpf_rdonly_cast(kernel, address, type_id) { kernel.read_only(address) }

    fn scx_bpf_task_cgroup(kernel, task) {
        match kernel.passed_task(task) {
            Some(task) => {
                let group = kernel.groups.cgroup_address(task.cgroup) as u64;
                kernel.calls.holdings.take("the reference that scx_bpf_task_cgroup() returned", group)
            }
            None => 0,
        }
    }

    fn bpf_cgroup_acquire(kernel, cgroup) {
        kernel.calls.holdings.take("the reference that bpf_cgroup_acquire() returned", cgroup)
    }

    fn bpf_cgroup_release(kernel, cgroup) {
        kernel.calls.holdings.give_back(cgroup);
        0
    }

    fn bpf_cgroup_from_id(kernel, id) {
        let group = kernel.groups.by_id(id);
        let group = group.map_or(0, |number| kernel.groups.cgroup_address(number) as u64);
        kernel.calls.holdings.take("the reference that bpf_cgroup_from_id() returned", group)
    }

    fn bpf_cgroup_ancestor(kernel, cgroup, level) {
        let ancestor = kernel.groups.number_of(cgroup).and_then(|number| kernel.groups.ancestor(number, level as i32));
        let ancestor = ancestor.map_or(0, |number| kernel.groups.cgroup_address(number) as u64);
        kernel.calls.holdings.take("the reference that bpf_cgroup_ancestor() returned", ancestor)
    }

    fn bpf_task_under_cgroup(kernel, task, cgroup) {
        let Some(task) = kernel.passed_task(task) else { return 0 };
        let Some(above) = kernel.groups.number_of(cgroup) else { return 0 };
        let level = kernel.groups.level(above);
        u64::from(kernel.groups.ancestor(task.cgroup, level) == Some(above))
    }

    fn bpf_map_sum_elem_count(kernel, map) {
        kernel.passed_map(map).map_or(0, |map| map.keys().len() as u64)
    }
}
