//! Dispatch queues: insertion, moves, queries. Messages are the kernel's.

use fairground_linux::Release;

use super::passed::{load, store};
use super::{error, kernel_functions, signed};
use crate::constants::*;
use crate::dispatch_queue::DsqRef;
use crate::kernel::{BufferedInsert, Kernel};
use crate::rules;
use crate::structures::{DsqIterator, InsertVtimeArgs};
use crate::task::TaskRef;

/// Bits of [`DsqIterator::overrides`].
const HAS_SLICE: u64 = 1;
const HAS_VTIME: u64 = 2;

/// The place of an iteration's queue, by its slot: that place, and the iteration's number on that queue plus 1.
fn place_of(slot: u64) -> usize {
    (slot >> 32) as usize
}

impl Kernel<'_> {
    /// The queue and number of the iteration with this slot; none if it never began. A slot that no iteration has is an error.
    fn iteration(&mut self, slot: u64) -> Option<(DsqRef, u32)> {
        let (queue, number) = (self.dsqs.at(place_of(slot)), (slot as u32).checked_sub(1));
        if slot != 0 && (number.is_none() || queue.is_none()) {
            self.refuse_passed("bpf_iter_scx_dsq");
            return None;
        }
        queue.zip(number)
    }

    #[inline(always)]
    fn vet_flags(&mut self, dsq_id: u64, flags: &mut u64) -> bool {
        const SPECIAL: u64 = SCX_ENQ_INTERNAL_MASK | SCX_ENQ_IMMED | SCX_ENQ_RESCUE;
        let is_usual = *flags & SPECIAL == 0
            && self.operations.flags & SCX_OPS_ALWAYS_ENQ_IMMED == 0
            && self.settings.release == Release::NEWEST;
        is_usual || self.vet_special_flags(dsq_id, flags)
    }

    #[cold]
    fn vet_special_flags(&mut self, dsq_id: u64, flags: &mut u64) -> bool {
        let local = dsq_id == SCX_DSQ_LOCAL || dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON;
        *flags = rules::from_program(*flags, self.settings.release);
        if *flags & SCX_ENQ_INTERNAL_MASK != 0 {
            self.fail(ExitKind::Error, format!("invalid enq_flags 0x{flags:x}"));
            return false;
        }
        if *flags & SCX_ENQ_IMMED != 0 {
            if !local {
                self.fail(
                    ExitKind::Error,
                    format!("SCX_ENQ_IMMED on a non-local DSQ 0x{dsq_id:x}"),
                );
                return false;
            }
        } else if self.operations.flags & SCX_OPS_ALWAYS_ENQ_IMMED != 0 && local {
            *flags |= SCX_ENQ_IMMED;
        }
        if *flags & SCX_ENQ_RESCUE != 0 && !local {
            self.fail(ExitKind::Error, format!("SCX_ENQ_RESCUE on a non-local DSQ 0x{dsq_id:x}"));
            return false;
        }
        true
    }

    fn insert(
        &mut self,
        task: u64,
        dsq_id: u64,
        slice: u64,
        vtime: u64,
        mut flags: u64,
        ordered: bool,
    ) -> bool {
        let Some(mut task) = self.passed_task(task) else {
            self.fail(ExitKind::Error, "called with NULL task".into());
            return false;
        };
        if task.seen.scx.flags & SCX_TASK_STATE_MASK == SCX_TASK_NONE {
            self.statistics.SCX_EV_INSERT_NOT_OWNED += 1;
            return false;
        }
        if !self.vet_flags(dsq_id, &mut flags) {
            return false;
        }
        if ordered {
            flags |= SCX_ENQ_DSQ_PRIQ;
        }
        if !rules::sets_slices_late(self.settings.release) {
            self.apply_slice(task, slice, flags);
            if ordered {
                task.seen.scx.dsq_vtime = vtime;
            }
        }
        if let Some(expected) = self.calls.direct_dispatch {
            self.calls.direct_dispatch = Some(None);
            if expected != Some(task) {
                let message = match expected {
                    None => format!("{} already direct-dispatched", task.label()),
                    Some(expected) => format!(
                        "scheduling for {} but trying to direct-dispatch {}",
                        expected.label(),
                        task.label()
                    ),
                };
                self.fail(ExitKind::Error, message);
                return true;
            }
            task.seen.scx.ddsp_slice = slice;
            task.seen.scx.ddsp_vtime = vtime;
            task.seen.scx.ddsp_dsq_id = dsq_id;
            task.seen.scx.ddsp_enq_flags = flags;
            return true;
        }
        let cpu = self.context.cpu;
        if self.cpus[cpu].buffer.len() >= self.operations.max_batch as usize {
            self.fail(ExitKind::Error, "dispatch buffer overflow".into());
            return true;
        }
        let sequence = task.seen.scx.ops_qseq;
        self.cpus[cpu].buffer.push(BufferedInsert { task, sequence, dsq_id, slice, vtime, flags });
        true
    }

    fn move_to_local_queue(&mut self, dsq_id: u64, mut flags: u64) -> bool {
        if !self.vet_flags(SCX_DSQ_LOCAL, &mut flags) {
            return false;
        }
        let cpu = self.context.cpu;
        self.flush_buffer(cpu);
        let Some(queue) = self.dsqs.by_id(dsq_id) else {
            self.fail(ExitKind::Error, format!("invalid DSQ ID 0x{dsq_id:016x}"));
            return false;
        };
        if self.consume(cpu, queue, flags) {
            self.cpus[cpu].dispatched += 1;
            return true;
        }
        false
    }

    fn move_from_iteration(
        &mut self,
        iterator: u64,
        task: u64,
        dsq_id: u64,
        mut flags: u64,
        ordered: bool,
    ) -> bool {
        let place = iterator;
        let iterator = load::<DsqIterator>(place);
        store(place, DsqIterator { overrides: 0, ..iterator });
        let Some(mut task) = self.passed_task(task) else {
            return false;
        };
        if iterator.slot == 0 || !self.vet_flags(dsq_id, &mut flags) {
            return false;
        }
        if ordered {
            flags |= SCX_ENQ_DSQ_PRIQ;
        }
        let is_source = |queue: &DsqRef| queue.place == place_of(iterator.slot);
        let Some(source) = task.dsq.filter(is_source) else { return false };
        self.charge_dsq_lock(source, 0);
        let target = self.dsq_for_dispatch(self.context.cpu, dsq_id, task.cpu());
        if iterator.overrides & HAS_VTIME != 0 {
            task.seen.scx.dsq_vtime = iterator.vtime;
        }
        if iterator.overrides & HAS_SLICE != 0 {
            self.set_slice(task, iterator.slice);
        }
        self.move_between(task, flags, target);
        true
    }

    /// The CPU whose local queue `SCX_DSQ_LOCAL` is, for functions that look at a queue.
    fn local_cpu(&self) -> usize {
        let locked = self.locked_run_queue();
        let locked = locked.filter(|_| rules::local_is_locked(self.settings.release));
        locked.unwrap_or(self.context.cpu)
    }

    fn queued(&mut self, dsq_id: u64) -> i64 {
        let queue = if dsq_id == SCX_DSQ_LOCAL {
            Some(self.cpus[self.local_cpu()].local)
        } else if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
            let cpu = self.cpu_from_scheduler((dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as i32);
            self.cpu_is_valid(cpu, "").then(|| self.cpus[cpu as usize].local)
        } else {
            self.dsqs.by_id(dsq_id)
        };
        queue.map_or(-ENOENT, |queue| i64::from(queue.len()))
    }
}

kernel_functions! { TABLE;
    fn scx_bpf_create_dsq(kernel, dsq_id, node) {
        let node = node as i32;
        if node >= kernel.topology.nodes.len() as i32 || node < -1 || dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
            return error(EINVAL);
        }
        if kernel.dsqs.create(dsq_id) { 0 } else { error(EEXIST) }
    }

    fn scx_bpf_destroy_dsq(kernel, dsq_id) {
        if let Some(queue) = kernel.dsqs.by_id(dsq_id) {
            if !queue.is_empty() {
                let message = format!("attempting to destroy in-use dsq 0x{dsq_id:016x} (nr={})", queue.len());
                kernel.fail(ExitKind::Error, message);
            } else {
                kernel.dsqs.destroy(queue);
            }
        }
        0
    }

    fn scx_bpf_dsq_insert(kernel, task, dsq_id, slice, flags) {
        u64::from(kernel.insert(task, dsq_id, slice, 0, flags, false))
    }

    fn scx_bpf_dsq_insert___v2(kernel, task, dsq_id, slice, flags) {
        u64::from(kernel.insert(task, dsq_id, slice, 0, flags, false))
    }

    fn scx_bpf_dsq_insert_vtime(kernel, task, dsq_id, slice, vtime, flags) {
        u64::from(kernel.insert(task, dsq_id, slice, vtime, flags, true))
    }

    fn __scx_bpf_dsq_insert_vtime(kernel, task, arguments) {
        let arguments = load::<InsertVtimeArgs>(arguments);
        u64::from(kernel.insert(task, arguments.dsq_id, arguments.slice, arguments.vtime, arguments.enq_flags, true))
    }

    fn scx_bpf_dsq_move_to_local(kernel, dsq_id) {
        u64::from(kernel.move_to_local_queue(dsq_id, 0))
    }

    fn scx_bpf_dsq_move_to_local___v2(kernel, dsq_id, flags) {
        u64::from(kernel.move_to_local_queue(dsq_id, flags))
    }

    fn scx_bpf_dispatch_nr_slots(kernel) {
        u64::from(kernel.operations.max_batch) - kernel.cpus[kernel.context.cpu].buffer.len() as u64
    }

    fn scx_bpf_dispatch_cancel(kernel) {
        let cpu = kernel.context.cpu;
        if kernel.cpus[cpu].buffer.pop().is_none() {
            kernel.fail(ExitKind::Error, "dispatch buffer underflow".into());
        }
        0
    }

    fn scx_bpf_dsq_move_set_slice(kernel, iterator, slice) {
        let before = load::<DsqIterator>(iterator);
        store(iterator, DsqIterator { slice, overrides: before.overrides | HAS_SLICE, ..before });
        0
    }

    fn scx_bpf_dsq_move_set_vtime(kernel, iterator, vtime) {
        let before = load::<DsqIterator>(iterator);
        store(iterator, DsqIterator { vtime, overrides: before.overrides | HAS_VTIME, ..before });
        0
    }

    fn scx_bpf_dsq_move(kernel, iterator, task, dsq_id, flags) {
        u64::from(kernel.move_from_iteration(iterator, task, dsq_id, flags, false))
    }

    fn scx_bpf_dsq_move_vtime(kernel, iterator, task, dsq_id, flags) {
        u64::from(kernel.move_from_iteration(iterator, task, dsq_id, flags, true))
    }

    fn scx_bpf_reenqueue_local(kernel) {
        let cpu = kernel.context.cpu;
        u64::from(kernel.reenqueue_local(cpu, SCX_REENQ_ANY))
    }

    fn scx_bpf_reenqueue_local___v2(kernel) {
        let cpu = kernel.local_cpu();
        kernel.schedule_local_reenqueue(cpu, SCX_REENQ_ANY);
        0
    }

    fn scx_bpf_dsq_reenq(kernel, dsq_id, flags) {
        if flags & !SCX_REENQ_ANY != 0 {
            kernel.fail(ExitKind::Error, format!("invalid SCX_REENQ flags 0x{flags:x}"));
            return 0;
        }
        let cpu = kernel.local_cpu();
        let queue = kernel.dsq_for_dispatch(cpu, dsq_id, cpu);
        let id = queue.id();
        match queue.local_to {
            Some(cpu) => kernel.schedule_local_reenqueue(cpu, SCX_REENQ_ANY),
            None if id & SCX_DSQ_FLAG_BUILTIN != 0 => {
                kernel.fail(ExitKind::Error, format!("DSQ 0x{id:x} not allowed for reenq"));
            }
            None => kernel.schedule_user_reenqueue(queue, SCX_REENQ_ANY),
        }
        0
    }

    fn scx_bpf_dsq_nr_queued(kernel, dsq_id) {
        kernel.queued(dsq_id) as u64
    }

    fn scx_bpf_dsq_peek(kernel, dsq_id) {
        if dsq_id & SCX_DSQ_FLAG_BUILTIN != 0 {
            kernel.fail(ExitKind::Error, format!("peek disallowed on builtin DSQ 0x{dsq_id:x}"));
            return 0;
        }
        match kernel.dsqs.by_id(dsq_id) {
            Some(queue) => queue.first().map_or(0, TaskRef::address),
            None => {
                kernel.fail(ExitKind::Error, format!("peek on non-existent DSQ 0x{dsq_id:x}"));
                0
            }
        }
    }

    fn bpf_iter_scx_dsq_new(kernel, iterator, dsq_id, flags) {
        let before = DsqIterator { slot: 0, overrides: 0, ..load(iterator) };
        store(iterator, before);
        if flags & !SCX_DSQ_ITER_REV != 0 {
            return error(EINVAL);
        }
        let Some(mut queue) = kernel.dsqs.by_id(dsq_id) else { return error(ENOENT) };
        let number = queue.start_iteration(flags & SCX_DSQ_ITER_REV != 0);
        store(iterator, DsqIterator { slot: ((queue.place as u64) << 32) | (u64::from(number) + 1), ..before });
        0
    }

    fn bpf_iter_scx_dsq_next(kernel, iterator) {
        let slot = load::<DsqIterator>(iterator).slot;
        let Some((mut queue, number)) = kernel.iteration(slot) else { return 0 };
        let (task, visited) = queue.next_of_iteration(number);
        kernel.charge_dsq_lock(queue, visited);
        task.map_or(0, TaskRef::address)
    }

    fn bpf_iter_scx_dsq_destroy(kernel, iterator) {
        let before = load::<DsqIterator>(iterator);
        if let Some((mut queue, number)) = kernel.iteration(before.slot) {
            queue.end_iteration(number);
            store(iterator, DsqIterator { slot: 0, ..before });
        }
        0
    }

    fn scx_bpf_kick_cpu(kernel, cpu, flags) {
        if kernel.cpu_is_valid(cpu as i32, "") {
            kernel.kick(cpu as u32 as usize, flags);
        }
        0
    }

    fn scx_bpf_task_set_slice(kernel, task, slice) {
        match kernel.passed_task(task) {
            Some(task) if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_NONE => {
                kernel.set_slice_for_scheduler(task, slice);
                1
            }
            _ => 0,
        }
    }

    fn scx_bpf_task_set_dsq_vtime(kernel, task, vtime) {
        match kernel.passed_task(task) {
            Some(mut task) if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_NONE => {
                task.seen.scx.dsq_vtime = vtime;
                1
            }
            _ => 0,
        }
    }

    fn scx_bpf_nr_cpu_ids(kernel) {
        signed(kernel.cpus.len() as i32)
    }

    fn scx_bpf_nr_node_ids(kernel) {
        signed(kernel.topology.nodes.len() as i32)
    }
}
