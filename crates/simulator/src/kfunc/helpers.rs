//! BPF helpers by number (`enum bpf_func_id`).

use fairground_bpf::Native;
use fairground_linux::helper;

use super::output::{format, format_at};
use super::passed::{
    PAGE, is_memory, load, read_bytes, read_string, replace, store, string_bytes, write_bytes,
    write_string,
};
use super::{Row, error, kernel_functions, signed};
use crate::constants::*;
use crate::cost::Lock;
use crate::kernel::Kernel;
use crate::maps::{Store, words};
use crate::program::call_of;
use crate::task::TaskRef;

/// Maximum number of iterations of `bpf_loop`.
const MAX_LOOPS: u64 = 8 * 1024 * 1024;
const BPF_LOCAL_STORAGE_GET_F_CREATE: u64 = 1;
const BPF_F_TIMER_ABS: u64 = 1;

fn result(outcome: Result<(), i64>) -> u64 {
    match outcome {
        Ok(()) => 0,
        Err(number) => error(number),
    }
}

/// A value of `size` bytes, a copy of the one at `initial`; zeroed if that is 0.
fn new_value(size: usize, initial: u64) -> Box<[u64]> {
    let mut value = vec![0u64; words(size)].into_boxed_slice();
    write_bytes(value.as_mut_ptr() as u64, size, &read_bytes(initial, size));
    value
}

/// Size that the verifier accepts of no buffer (`BPF_MAX_VAR_SIZ`).
const LARGEST_BUFFER: u32 = 1 << 29;
impl Kernel<'_> {
    #[cold]
    fn task_storage(&mut self, map: u64, task: u64, initial: u64, flags: u64) -> u64 {
        let (Some(mut task), Some(map)) = (self.passed_task(task), self.passed_map(map)) else {
            return 0;
        };
        let (number, size) = (map.number, map.value_size);
        match task.storage.get_mut(number) {
            Some(Some(value)) => value.as_mut_ptr() as u64,
            _ if flags & BPF_LOCAL_STORAGE_GET_F_CREATE == 0 => 0,
            _ => self.create_task_storage(number, size, task, initial),
        }
    }

    /// The address of the value that the task at `task` has in the object's map at `map`: what is asked for again and again.
    #[inline]
    fn known_task_storage(&self, map: u64, task: u64) -> Option<u64> {
        let map = &self.memory.maps.own()[self.memory.maps.find_own(map)?];
        let mut task = self.task_at(task)?;
        let value = task.storage.get_mut(map.number)?.as_mut()?;
        Some(value.as_mut_ptr() as u64)
    }

    /// Creates a value for `task` in a task storage map, a copy of the one at address `initial` or zeroed. Returns its address.
    #[inline(never)]
    fn create_task_storage(
        &mut self,
        map: usize,
        size: usize,
        mut task: TaskRef,
        initial: u64,
    ) -> u64 {
        task.storage.resize_with(self.memory.maps.own().len(), || None);
        let value = task.storage[map].insert(new_value(size, initial));
        value.as_mut_ptr() as u64
    }

    fn cgroup_storage(&mut self, map: u64, cgroup: u64, initial: u64, flags: u64) -> u64 {
        let Some(number) = self.groups.number_of(cgroup) else {
            return 0;
        };
        let count = self.groups.count();
        let Some(map) = self.passed_map(map) else {
            return 0;
        };
        let value_size = map.value_size;
        let Store::Cgroup(values) = &mut map.store else {
            return 0;
        };
        values.resize_with(count.max(values.len()), || None);
        if values[number].is_none() && flags & BPF_LOCAL_STORAGE_GET_F_CREATE != 0 {
            values[number] = Some(new_value(value_size, initial));
        }
        values[number].as_mut().map_or(0, |value| value.as_mut_ptr() as u64)
    }

    fn read_kernel(&mut self, target: u64, size: u64, source: u64) -> u64 {
        let Some(size) = self.size_of_buffer(size) else {
            return error(E2BIG);
        };
        if self.readable(source, size) < size {
            write_bytes(target, size, &[]);
            return error(EFAULT);
        }
        write_bytes(target, size, &read_bytes(source, size));
        0
    }

    fn read_kernel_string(&mut self, target: u64, size: u64, source: u64) -> u64 {
        let Some(size) = self.size_of_buffer(size) else {
            return error(E2BIG);
        };
        let readable = self.readable(source, size);
        let text = string_bytes(source, readable).unwrap_or_default();
        if readable < size && text.len() == readable {
            write_bytes(target, size, &[]);
            return error(EFAULT);
        }
        write_string(target, size, &String::from_utf8_lossy(&text))
    }

    /// The size of a program's buffer; one that the verifier would not accept is an error of the scheduler.
    fn size_of_buffer(&mut self, size: u64) -> Option<usize> {
        let size = size as u32;
        if size >= LARGEST_BUFFER {
            let message =
                format!("a buffer of {size} bytes: its size may be negative or is not bounded");
            self.fail(ExitKind::Error, message);
            return None;
        }
        Some(size as usize)
    }

    /// The memory that a program reads through a pointer made of a number that need not be an address. A kernel's loads through such
    /// pointers yield 0 where there is no memory (`BPF_PROBE_MEM`).
    pub(super) fn read_only(&mut self, address: u64) -> u64 {
        match self.readable(address, 1) {
            0 if address != 0 => self.memory.zeros(),
            _ => address,
        }
    }

    /// How many of the `length` bytes at any address are memory, which the kernel reads without faults (`copy_from_kernel_nofault`).
    fn readable(&mut self, address: u64, length: usize) -> usize {
        let mut count = 0;
        while count < length {
            let Some(at) = address.checked_add(count as u64) else {
                break;
            };
            let page = at & !(PAGE - 1);
            if !self.made.probed.contains(&page) {
                if !is_memory(page) {
                    break;
                }
                self.made.probed.insert(page);
            }
            count = (page + PAGE - address) as usize;
        }
        count.min(length)
    }

    /// The spin lock at `address`, which holds its index in the kernel's table plus 1. `None` if something else is there, which is an error.
    #[inline]
    fn spin_lock(&mut self, address: u64) -> Option<usize> {
        let place = (load::<u32>(address) as usize).wrapping_sub(1);
        if place < self.made.spin_locks.len() { Some(place) } else { self.new_spin_lock(address) }
    }

    #[cold]
    fn new_spin_lock(&mut self, address: u64) -> Option<usize> {
        if load::<u32>(address) != 0 {
            self.refuse_passed("bpf_spin_lock");
            return None;
        }
        self.made.spin_locks.push(Lock::default());
        store(address, self.made.spin_locks.len() as u32);
        Some(self.made.spin_locks.len() - 1)
    }

    /// Takes the spin lock at `address`; `false` if the program already holds it.
    #[inline]
    pub(super) fn take_spin_lock(&mut self, address: u64) -> bool {
        if self.calls.holdings.holds(address) {
            return false;
        }
        self.calls.holdings.take("a spin lock", address);
        if let Some(lock) = self.spin_lock(address) {
            self.made.spin_locks[lock] = self.charge_lock(self.made.spin_locks[lock], 0);
        }
        true
    }

    /// Sets up the structure at `address`, in a value of `map`, as a timer or work.
    pub(super) fn init_timer(&mut self, address: u64, map: u64) -> u64 {
        let cpu = self.context.cpu;
        let Some(place) = self.passed_map(map) else {
            return error(EINVAL);
        };
        let Some(key) = place.key_of_value(address) else {
            return error(EINVAL);
        };
        let value = place.lookup(key.as_ptr() as u64, cpu);
        if self.timers.init(address, map, key, value) { 0 } else { error(EBUSY) }
    }

    /// Releases a spin lock; `false` if the program does not hold it.
    #[inline]
    pub(super) fn let_spin_lock_go(&mut self, address: u64) -> bool {
        if !self.calls.holdings.give_back(address) {
            return false;
        }
        self.charge_instructions();
        if let Some(lock) = self.spin_lock(address) {
            self.made.spin_locks[lock].free_at = self.local_time();
        }
        true
    }
}

kernel_functions! { TABLE;
    // These are the instructions for an array.
    fn bpf_map_lookup_elem(kernel, address, key) costing 7 inline LookUp {
        let cpu = kernel.context.cpu;
        let found = kernel.passed_map(address).map(|map| (map.lookup(key, cpu), map.is_array()));
        let (value, is_array) = found.unwrap_or_default();
        if !is_array {
            kernel.call_after_all(7);
        }
        value
    }

    fn bpf_map_update_elem(kernel, address, key, value, flags) {
        let cpu = kernel.context.cpu;
        let Some(map) = kernel.passed_map(address) else { return error(EINVAL) };
        let outcome = map.update(key, value, flags, cpu);
        result(outcome.map(|retired| kernel.retire(retired)))
    }

    fn bpf_map_delete_elem(kernel, address, key) {
        let Some(map) = kernel.passed_map(address) else { return error(EINVAL) };
        let outcome = map.delete(key);
        result(outcome.map(|retired| kernel.retire(Some(retired))))
    }

    fn bpf_map_lookup_percpu_elem(kernel, address, key, cpu) inline LookUpOfCpu {
        let cpu = cpu as u32 as usize;
        if cpu >= kernel.cpus.len() { 0 } else { kernel.passed_map(address).map_or(0, |map| map.lookup(key, cpu)) }
    }

    fn bpf_map_push_elem(kernel, address, value, flags) {
        result(kernel.passed_map(address).map_or(Err(EINVAL), |map| map.push(value, flags)))
    }

    fn bpf_map_pop_elem(kernel, address, target) {
        result(kernel.passed_map(address).map_or(Err(EINVAL), |map| map.pop(target, true)))
    }

    fn bpf_map_peek_elem(kernel, address, target) {
        result(kernel.passed_map(address).map_or(Err(EINVAL), |map| map.pop(target, false)))
    }

    fn bpf_for_each_map_elem(kernel, address, function, context, flags) {
        let (cpu, mut visited) = (kernel.context.cpu, 0);
        let Some(callback) = kernel.passed_function(function) else { return error(EINVAL) };
        let Some(map) = kernel.passed_map(address) else { return error(EINVAL) };
        for key in map.keys() {
            let value = kernel.passed_map(address).map_or(0, |map| map.lookup(key.as_ptr() as u64, cpu));
            if value == 0 {
                continue;
            }
            visited += 1;
            let result = kernel.call_function(callback, [address, key.as_ptr() as u64, value, context, 0]);
            if result != 0 || kernel.is_stopped() {
                break;
            }
        }
        visited
    }

    fn bpf_ktime_get_ns(kernel) { kernel.local_time() }

    fn bpf_jiffies64(kernel) costing 3 {
        kernel.jiffies()
    }

    fn bpf_get_prandom_u32(kernel) { kernel.random_below(1 << 32) }

    fn bpf_get_smp_processor_id(kernel) costing 3 inline Cpu {
        kernel.context.cpu as u64
    }

    fn bpf_get_numa_node_id(kernel) { kernel.topology.node_of[kernel.context.cpu] as u64 }

    fn bpf_get_current_task(kernel) costing 3 {
        kernel.executing().address()
    }

    fn bpf_get_current_pid_tgid(kernel) {
        let current = kernel.executing();
        (current.seen.tgid as u64) << 32 | u64::from(current.seen.pid as u32)
    }

    fn bpf_get_current_comm(kernel, target, size) {
        let current = kernel.executing();
        write_bytes(target, size as u32 as usize, &current.seen.comm);
        0
    }

    fn bpf_probe_read_kernel(kernel, target, size, source) { kernel.read_kernel(target, size, source) }
    fn bpf_probe_read_kernel_str(kernel, target, size, source) { kernel.read_kernel_string(target, size, source) }

    // The cost of a lock covers both taking and releasing it.
    fn bpf_spin_lock(kernel, lock) costing 0 {
        if !kernel.take_spin_lock(lock) {
            kernel.fail(ExitKind::Error, "bpf_spin_lock() takes a lock that the program holds".into());
        }
        0
    }

    fn bpf_spin_unlock(kernel, lock) costing 0 {
        if !kernel.let_spin_lock_go(lock) {
            kernel.fail(ExitKind::Error, "bpf_spin_unlock() releases a lock that the program does not hold".into());
        }
        0
    }

    fn bpf_ringbuf_output(kernel, address, data, size, flags) {
        if let Some(Store::Records { submitted, .. }) = kernel.passed_map(address).map(|map| &mut map.store) {
            *submitted += 1;
        }
        0
    }

    fn bpf_ringbuf_reserve(kernel, address, size, flags) {
        match kernel.reserve_record(address, size) {
            0 => 0,
            place => kernel.calls.holdings.take("the record that bpf_ringbuf_reserve() returned", place),
        }
    }

    fn bpf_ringbuf_submit(kernel, record, flags) {
        kernel.calls.holdings.give_back(record);
        kernel.end_record(record, true);
        0
    }

    fn bpf_ringbuf_discard(kernel, record, flags) {
        kernel.calls.holdings.give_back(record);
        kernel.end_record(record, false);
        0
    }

    fn bpf_ringbuf_query(kernel, address, flags) {
        // Records are read at once, so all numbers but the size of the buffer are zero.
        if flags == 1 { kernel.passed_map(address).map_or(0, |map| map.max_entries as u64) } else { 0 }
    }

    fn bpf_user_ringbuf_drain(kernel, address, function, context, flags) { 0 }

    // This machine has no performance counters, and no map holds any.
    fn bpf_perf_event_read(kernel, address, flags) { error(ENOENT) }
    fn bpf_perf_event_output(kernel, context, address, flags, data, size) { error(ENOENT) }

    fn bpf_perf_event_read_value(kernel, address, flags, target, size) {
        write_bytes(target, size as u32 as usize, &[]);
        error(ENOENT)
    }

    fn bpf_task_storage_get(kernel, address, task, initial, flags) {
        match kernel.known_task_storage(address, task) {
            Some(value) => value,
            None => kernel.task_storage(address, task, initial, flags),
        }
    }

    fn bpf_task_storage_delete(kernel, address, task) {
        let Some(mut task) = kernel.passed_task(task) else { return error(EINVAL) };
        let Some(map) = kernel.passed_map(address) else { return error(EINVAL) };
        let value = task.storage.get_mut(map.number).and_then(Option::take);
        result(value.map(|value| kernel.retire(Some(value))).ok_or(ENOENT))
    }

    fn bpf_task_pt_regs(kernel, task) {
        let Some(mut task) = kernel.passed_task(task) else { return 0 };
        task.registers.orig_ax = call_of(task.execution.waiting, &kernel.programs.workload.choices);
        &raw const task.registers as u64
    }

    fn bpf_cgrp_storage_get(kernel, address, cgroup, initial, flags) {
        kernel.cgroup_storage(address, cgroup, initial, flags)
    }

    fn bpf_cgrp_storage_delete(kernel, address, cgroup) {
        let number = kernel.groups.number_of(cgroup);
        let Some(Store::Cgroup(values)) = kernel.passed_map(address).map(|map| &mut map.store) else { return error(EINVAL) };
        let value = number.and_then(|number| values.get_mut(number)?.take());
        result(value.map(|value| kernel.retire(Some(value))).ok_or(ENOENT))
    }

    fn bpf_snprintf(kernel, target, size, text, data, length) {
        let Some(text) = format_at(text, data, length) else {
            return error(EINVAL);
        };
        let size = size as u32 as usize;
        if size > 0 {
            write_string(target, size, &text);
        }
        text.len() as u64 + 1
    }

    fn bpf_trace_printk(kernel, text, size, first, second, third) {
        let line = format(&read_string(text, size as u32 as usize), &[first, second, third]);
        kernel.say(line);
        0
    }

    fn bpf_trace_vprintk(kernel, text, size, data, length) {
        let Some(line) = format_at(text, data, length) else {
            return error(EINVAL);
        };
        kernel.say(line);
        0
    }

    fn bpf_strncmp(kernel, text, size, other) {
        let (text, other) = (read_string(text, size as u32 as usize), read_string(other, size as u32 as usize));
        signed(text.cmp(&other) as i32)
    }

    fn bpf_loop(kernel, rounds, function, context, flags) {
        let rounds = u64::from(rounds as u32);
        if rounds > MAX_LOOPS {
            return error(E2BIG);
        }
        let Some(callback) = kernel.passed_function(function) else { return error(EINVAL) };
        kernel.inline_call(11);
        for round in 0..rounds {
            kernel.context.instructions += 6;
            if kernel.call_function(callback, [round, context, 0, 0, 0]) != 0 || kernel.is_stopped() {
                return round + 1;
            }
        }
        rounds
    }

    fn bpf_timer_init(kernel, timer, address, flags) { kernel.init_timer(timer, address) }

    fn bpf_timer_set_callback(kernel, timer, function) {
        let Some(callback) = kernel.passed_function(function) else { return error(EINVAL) };
        if kernel.timers.set_callback(timer, callback) { 0 } else { error(EINVAL) }
    }

    fn bpf_timer_start(kernel, timer, duration, flags) {
        let time = if flags & BPF_F_TIMER_ABS != 0 { duration } else { kernel.local_time().saturating_add(duration) };
        if kernel.start_bpf_timer(timer, time) { 0 } else { error(EINVAL) }
    }

    fn bpf_timer_cancel(kernel, timer) {
        kernel.timers.cancel(timer).map_or(error(EINVAL), u64::from)
    }

    fn bpf_kptr_xchg(kernel, place, value) costing 2 {
        let before = replace::<u64>(place, value);
        kernel.calls.holdings.give_back(value);
        if !kernel.is_object(before) {
            kernel.calls.holdings.take("the pointer that bpf_kptr_xchg() returned", before);
        }
        before
    }

    fn bpf_per_cpu_ptr(kernel, variable, cpu) {
        if cpu as u32 as usize >= kernel.cpus.len() { 0 } else { kernel.per_cpu_variable(variable, cpu as u32 as usize) }
    }

    fn bpf_this_cpu_ptr(kernel, variable) { kernel.per_cpu_variable(variable, kernel.context.cpu) }
}

/// The row of the function that implements the helper with this number.
fn row(number: u32) -> Option<&'static Row> {
    let helper = helper(number)?;
    let name = helper.alike.unwrap_or(helper.name);
    let tables = [TABLE, super::current::HELPERS, super::dynptr::HELPERS];
    tables.into_iter().flatten().find(|(known, ..)| *known == name)
}

/// The name of the function that implements the helper with this number.
pub(super) fn implementation(number: u32) -> Option<&'static str> {
    row(number).map(|row| row.0)
}

/// The code of the helper with this number.
pub(super) fn find(number: u32) -> Option<Native> {
    row(number).map(super::native)
}
