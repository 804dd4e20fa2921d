//! Topological CPU ids, and the functions for schedulers that may have sub-schedulers: here the root has none, and holds all capabilities itself.

use super::passed::store;
use super::{error, kernel_functions, signed};
use crate::cids;
use crate::constants::*;
use crate::kernel::Kernel;

impl Kernel<'_> {
    /// The CPU with this id (`scx_cid_to_cpu`); an id that no CPU has is an error.
    pub(crate) fn cid_to_cpu(&mut self, cid: i32) -> Option<usize> {
        if !self.cid_is_valid(cid) || !self.cids.published {
            return None;
        }
        Some(self.cids.to_cpu[cid as usize])
    }

    fn cid_is_valid(&mut self, cid: i32) -> bool {
        let valid = (0..self.cpus.len() as i32).contains(&cid);
        if !valid {
            self.fail(ExitKind::Error, format!("invalid cid {cid}"));
        }
        valid
    }

    fn cid_of(&self, cpu: usize) -> u64 {
        if !self.cids.published {
            return error(EINVAL);
        }
        signed(self.cids.of_cpu[cpu] as i32)
    }

    /// How a CPU is passed to the scheduler: as its id to one of the cid form, as its number to one of the CPU form (`scx_cpu_arg`).
    pub(crate) fn cpu_argument(&self, cpu: usize) -> u64 {
        if self.operations.cid_form { self.cids.of_cpu[cpu] as u64 } else { cpu as u64 }
    }

    /// The CPU that the scheduler means by a number (`scx_cpu_ret`); the result still has to be checked.
    pub(crate) fn cpu_from_scheduler(&mut self, number: i32) -> i32 {
        if number < 0 || !self.operations.cid_form {
            return number;
        }
        self.cid_to_cpu(number).map_or(-(EINVAL as i32), |cpu| cpu as i32)
    }

    /// Address of the mask of online CPUs, which follows those for tasks; 0 if there is none yet.
    fn online_cids(&self) -> u64 {
        match self.cids.masks {
            0 => 0,
            first => first + (self.cpus.len() * cids::mask_size(self.cpus.len())) as u64,
        }
    }

    /// Updates the mask of online CPUs, if the scheduler has one.
    pub(crate) fn write_online_cids(&mut self) {
        let address = self.online_cids();
        if address == 0 {
            return;
        }
        let to_cpu = &self.cids.to_cpu;
        let bytes = cids::mask_bytes(self.cpus.len(), |cid| self.online.test(to_cpu[cid]));
        let memory = self.in_arena(address, bytes.len());
        if memory.len() == bytes.len() {
            memory.copy_from_slice(&bytes);
        }
    }

    fn is_for_subs(&mut self) -> bool {
        if !self.operations.cid_form {
            let message = "sub-cap kfuncs require a cid-form scheduler".into();
            self.fail(ExitKind::Error, message);
        }
        self.operations.cid_form
    }

    /// The `length` bytes to which a pointer into the arena points; empty if not all of them are allocated.
    fn in_arena(&mut self, pointer: u64, length: usize) -> &mut [u8] {
        let arena = self.memory.arena.as_mut();
        arena.and_then(|arena| arena.memory(pointer, length)).unwrap_or(&mut [])
    }

    fn numbers_in_arena(&mut self, pointer: u64, count: usize) -> Vec<i32> {
        let bytes = self.in_arena(pointer, count * 4).chunks_exact(4);
        let number = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.map(number).collect()
    }

    /// Sets or clears all ids that a mask in the arena has room for; `false` if there is no mask.
    fn fill_mask_in_arena(&mut self, pointer: u64, set: bool) -> bool {
        let count = self.cpus.len();
        let length = cids::mask_length(self.in_arena(pointer, cids::HEADER), count);
        length.is_some_and(|length| cids::fill_mask(self.in_arena(pointer, length), count, set))
    }

    fn override_cids(
        &mut self,
        cids: u64,
        cid_count: usize,
        shards: u64,
        shard_count: usize,
    ) -> Result<(), String> {
        let count = self.cpus.len();
        if cid_count != count {
            return Err(format!(
                "scx_bpf_cid_override: cpu_to_cid expected {count} entries, got {cid_count}"
            ));
        }
        if shard_count == 0 || shard_count > count {
            return Err(format!("scx_bpf_cid_override: invalid shard_start size {shard_count}"));
        }
        let cids = self.numbers_in_arena(cids, cid_count);
        let shards = self.numbers_in_arena(shards, shard_count);
        if cids.len() < cid_count || shards.len() < shard_count {
            return Err("scx_bpf_cid_override: the arrays are not in the arena".into());
        }
        self.cids.replace(&cids, &shards)
    }

    fn performance_of(&mut self, cid: i32, what: impl Fn(&Self, usize) -> u64) -> u64 {
        match self.cid_to_cpu(cid) {
            Some(cpu) => what(self, cpu),
            None => u64::from(SCX_CPUPERF_ONE),
        }
    }
}

kernel_functions! { TABLE;
    fn scx_bpf_cid_override(kernel, cids, cid_count, shards, shard_count) {
        let outcome = kernel.override_cids(cids, cid_count as u32 as usize, shards, shard_count as u32 as usize);
        if let Err(message) = outcome {
            kernel.fail(ExitKind::Error, message);
        }
        0
    }

    fn scx_bpf_cid_to_cpu(kernel, cid) {
        kernel.cid_to_cpu(cid as i32).map_or(error(EINVAL), |cpu| signed(cpu as i32))
    }

    fn scx_bpf_cpu_to_cid(kernel, cpu) {
        if kernel.cpu_is_valid(cpu as i32, "") { kernel.cid_of(cpu as u32 as usize) } else { error(EINVAL) }
    }

    fn scx_bpf_cid_topo(kernel, cid, target) {
        let topology = match kernel.cid_to_cpu(cid as i32) {
            Some(_) => kernel.cids.topology[cid as u32 as usize],
            None => cids::NO_TOPOLOGY,
        };
        store(target, topology);
        0
    }

    fn scx_bpf_task_cid(kernel, task) {
        kernel.passed_task(task).map_or(error(EINVAL), |task| kernel.cid_of(task.cpu()))
    }

    fn scx_bpf_this_cid(kernel) {
        kernel.cid_of(kernel.context.cpu)
    }

    fn scx_bpf_cid_curr(kernel, cid) {
        kernel.cid_to_cpu(cid as i32).map_or(0, |cpu| kernel.cpus[cpu].current.address())
    }

    fn scx_bpf_nr_cids(kernel) {
        signed(kernel.cpus.len() as i32)
    }

    fn scx_bpf_nr_online_cids(kernel) {
        u64::from(kernel.online.weight())
    }

    fn scx_bpf_online_cmask(kernel) { kernel.online_cids() }

    fn scx_bpf_kick_cid(kernel, cid, flags) {
        if let Some(cpu) = kernel.cid_to_cpu(cid as i32) {
            kernel.kick(cpu, flags);
        }
        0
    }

    fn scx_bpf_cidperf_cap(kernel, cid) {
        kernel.performance_of(cid as i32, |kernel, cpu| kernel.cpus[cpu].capacity)
    }

    fn scx_bpf_cidperf_cur(kernel, cid) {
        kernel.performance_of(cid as i32, |kernel, cpu| kernel.frequency_capacity(cpu))
    }

    fn scx_bpf_cidperf_set(kernel, cid, level) {
        match kernel.cid_to_cpu(cid as i32) {
            Some(cpu) if kernel.set_performance(cpu as i32, level as u32) => 0,
            _ => error(EINVAL),
        }
    }

    fn scx_bpf_sub_dispatch(kernel, group) { 0 }

    fn scx_bpf_sub_grant(kernel, group, capabilities, mask, denied) {
        if kernel.is_for_subs() { error(ENODEV) } else { error(EOPNOTSUPP) }
    }

    fn scx_bpf_sub_revoke(kernel, group, capabilities, mask) {
        kernel.is_for_subs();
        0
    }

    fn scx_bpf_sub_kill_bstr(kernel, group, text, data, size) {
        if kernel.is_for_subs() { error(ENODEV) } else { error(EOPNOTSUPP) }
    }

    fn scx_bpf_sub_caps(kernel, group, capabilities, target) {
        if !kernel.is_for_subs() {
            return error(EOPNOTSUPP);
        }
        if capabilities & !SCX_CAP_ALL != 0 {
            kernel.fail(ExitKind::Error, format!("invalid caps 0x{capabilities:x}"));
            return error(EINVAL);
        }
        if group != 0 {
            return error(ENODEV);
        }
        if !kernel.cids.published {
            let message = "scx_bpf_sub_caps() called before caps storage is initialized".into();
            kernel.fail(ExitKind::Error, message);
            return error(ENODEV);
        }
        if !kernel.fill_mask_in_arena(target, capabilities != 0) {
            kernel.fail(ExitKind::Error, format!("invalid out (-{EINVAL})"));
            return error(EINVAL);
        }
        0
    }
}
