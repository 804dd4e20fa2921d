//! Idle CPUs: masks, claims, choices.

use super::passed::{load, mask, store};
use super::{error, kernel_functions, signed};
use crate::constants::*;
use crate::idle::distribute;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::{CpuMask, SelectCpuAndArgs};
use crate::task::TaskRef;

/// The name in messages of the kernel's masks, which a program has to release.
const MASK: &str = "a CPU mask of the kernel";

impl Kernel<'_> {
    fn builtin_idle(&mut self) -> bool {
        if self.idle.enabled {
            return true;
        }
        self.fail(ExitKind::Error, "built-in idle tracking is disabled".into());
        false
    }

    fn global_idle(&mut self) -> bool {
        if !self.builtin_idle() {
            return false;
        }
        if self.idle.per_node {
            self.fail(ExitKind::Error, "per-node idle tracking is enabled".into());
            return false;
        }
        true
    }

    fn valid_node(&mut self, node: i32) -> Result<usize, i64> {
        if !self.idle.per_node {
            self.fail(ExitKind::Error, "per-node idle tracking is disabled".into());
            return Err(EOPNOTSUPP);
        }
        if node == -1 {
            return Err(ENOENT);
        }
        if node < 0 || node as usize >= self.topology.nodes.len() {
            self.fail(ExitKind::Error, format!("invalid node {node}"));
            return Err(EINVAL);
        }
        Ok(node as usize)
    }

    fn select_from_bpf(
        &mut self,
        task: u64,
        previous: i32,
        wake_flags: u64,
        within: Option<&CpuMask>,
        flags: u64,
    ) -> i32 {
        let Some(task) = self.passed_task(task) else {
            return -(EINVAL as i32);
        };
        if !self.cpu_is_valid(previous, "") {
            return -(EINVAL as i32);
        }
        if !self.builtin_idle() {
            return -(EBUSY as i32);
        }
        if self.calls.op == Some(Op::SelectCpu) {
            if self.calls.argument != task.address() {
                let message = "called on a task not being operated on".into();
                self.fail(ExitKind::Error, message);
                return -(EINVAL as i32);
            }
        } else if self.locked_run_queue().is_some_and(|cpu| cpu != task.cpu()) {
            let message = format!("select_cpu kfunc called cross-task on {}", task.label());
            self.fail(ExitKind::Error, message);
            return -(EINVAL as i32);
        }
        // is_bpf_migration_disabled(): the count of the current task includes this program's own.
        let current = self.executing();
        let stays = task.seen.migration_disabled > u16::from(task == current);
        if task.seen.nr_cpus_allowed == 1 || stays {
            return self.select_only_cpu(task, previous as usize, stays, within, flags);
        }
        self.select_cpu_default(task, previous, wake_flags, within, flags)
    }

    /// The only CPU that a task may use, if it is idle (`select_cpu_restricted`).
    fn select_only_cpu(
        &mut self,
        task: TaskRef,
        previous: usize,
        stays: bool,
        within: Option<&CpuMask>,
        flags: u64,
    ) -> i32 {
        let only = if stays { Some(task.cpu()) } else { task.allowed().first() };
        let fits = |cpu: &usize| {
            let group = |cpu| self.idle.group(cpu, &self.topology);
            task.allowed().test(*cpu)
                && within.is_none_or(|within| within.test(*cpu))
                && (flags & SCX_PICK_IDLE_IN_NODE == 0 || group(*cpu) == group(previous))
        };
        match only.filter(fits) {
            Some(cpu) if self.idle.test_and_clear(cpu, &self.topology) => cpu as i32,
            _ => -(EBUSY as i32),
        }
    }

    fn pick(&mut self, allowed: u64, group: usize, flags: u64, any: bool) -> u64 {
        let allowed = mask(allowed);
        let previous = &mut self.cpus[self.context.cpu].distributed;
        if self.idle.enabled
            && let Some(cpu) = self.idle.pick(allowed, group, flags, previous, &self.topology)
        {
            return signed(cpu as i32);
        }
        if !any {
            return error(EBUSY);
        }
        let within = if self.idle.per_node && flags & SCX_PICK_IDLE_IN_NODE != 0 {
            &self.topology.nodes[group]
        } else {
            &self.possible
        };
        match distribute(allowed, within, previous, &self.topology) {
            Some(cpu) => signed(cpu as i32),
            None => error(EBUSY),
        }
    }
}

kernel_functions! { TABLE;
    fn scx_bpf_select_cpu_dfl(kernel, task, previous, wake_flags, is_idle) {
        let cpu = kernel.select_from_bpf(task, previous as i32, wake_flags, None, 0);
        store(is_idle, u8::from(cpu >= 0));
        if cpu >= 0 { signed(cpu) } else { signed(previous as i32) }
    }

    fn scx_bpf_select_cpu_and(kernel, task, previous, wake_flags, within, flags) {
        signed(kernel.select_from_bpf(task, previous as i32, wake_flags, Some(&*mask(within)), flags))
    }

    fn __scx_bpf_select_cpu_and(kernel, task, within, arguments) {
        let arguments = load::<SelectCpuAndArgs>(arguments);
        let within = Some(&*mask(within));
        signed(kernel.select_from_bpf(task, arguments.prev_cpu, arguments.wake_flags, within, arguments.flags))
    }

    fn scx_bpf_get_idle_cpumask(kernel) {
        kernel.global_idle();
        let mask = kernel.idle.machine_mask(false) as *const CpuMask as u64;
        kernel.calls.holdings.take(MASK, mask)
    }

    fn scx_bpf_get_idle_smtmask(kernel) {
        kernel.global_idle();
        let smt = kernel.topology.smt;
        let mask = kernel.idle.machine_mask(smt) as *const CpuMask as u64;
        kernel.calls.holdings.take(MASK, mask)
    }

    fn scx_bpf_get_idle_cpumask_node(kernel, node) {
        let mask = match kernel.valid_node(node as i32) {
            Ok(node) => &raw const *kernel.idle.masks[node].cpu as u64,
            Err(_) => kernel.idle.machine_mask(false) as *const CpuMask as u64,
        };
        kernel.calls.holdings.take(MASK, mask)
    }

    fn scx_bpf_get_idle_smtmask_node(kernel, node) {
        let mask = match kernel.valid_node(node as i32) {
            Ok(node) if kernel.topology.smt => &raw const *kernel.idle.masks[node].smt as u64,
            Ok(node) => &raw const *kernel.idle.masks[node].cpu as u64,
            Err(_) => kernel.idle.machine_mask(true) as *const CpuMask as u64,
        };
        kernel.calls.holdings.take(MASK, mask)
    }

    fn scx_bpf_put_idle_cpumask(kernel, mask) {
        kernel.calls.holdings.give_back(mask);
        0
    }

    fn scx_bpf_test_and_clear_cpu_idle(kernel, cpu) {
        if !kernel.builtin_idle() || !kernel.cpu_is_valid(cpu as i32, "") {
            return 0;
        }
        u64::from(kernel.idle.test_and_clear(cpu as u32 as usize, &kernel.topology))
    }

    fn scx_bpf_pick_idle_cpu(kernel, allowed, flags) {
        if !kernel.global_idle() { error(EBUSY) } else { kernel.pick(allowed, 0, flags, false) }
    }

    fn scx_bpf_pick_idle_cpu_node(kernel, allowed, node, flags) {
        match kernel.valid_node(node as i32) {
            Ok(node) => kernel.pick(allowed, node, flags, false),
            Err(number) => error(number),
        }
    }

    fn scx_bpf_pick_any_cpu(kernel, allowed, flags) {
        if kernel.idle.per_node {
            kernel.global_idle();
            return error(EBUSY);
        }
        kernel.pick(allowed, 0, flags, true)
    }

    fn scx_bpf_pick_any_cpu_node(kernel, allowed, node, flags) {
        match kernel.valid_node(node as i32) {
            Ok(node) => kernel.pick(allowed, node, flags, true),
            Err(number) => error(number),
        }
    }

    fn scx_bpf_cpu_node(kernel, cpu) {
        if !kernel.cpu_is_valid(cpu as i32, "") { signed(-1) } else { signed(kernel.topology.node_of[cpu as u32 as usize] as i32) }
    }

    fn scx_bpf_get_possible_cpumask(kernel) {
        kernel.calls.holdings.take(MASK, &raw const kernel.possible as u64)
    }

    fn scx_bpf_get_online_cpumask(kernel) {
        kernel.calls.holdings.take(MASK, &raw const kernel.online as u64)
    }

    fn scx_bpf_put_cpumask(kernel, mask) {
        kernel.calls.holdings.give_back(mask);
        0
    }
}
