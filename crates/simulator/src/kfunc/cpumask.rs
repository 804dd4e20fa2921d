//! CPU masks that schedulers own (`struct bpf_cpumask`) and operations on any mask.

use std::mem::offset_of;

use super::passed::{load, mask, store};
use super::{kernel_functions, signed};
use crate::idle::distribute;
use crate::kernel::Kernel;
use crate::mask::first_common_from;
use crate::structures::{BpfCpuMask, CPU_MASK_WORDS, CpuMask};

/// The masks that a scheduler has made. They keep their address until the simulation ends.
#[derive(Default)]
pub struct Masks {
    // Boxed, since schedulers hold their addresses.
    #[allow(clippy::vec_box)]
    masks: Vec<Box<BpfCpuMask>>,
    free: Vec<usize>,
}

impl Masks {
    fn create(&mut self) -> u64 {
        if let Some(free) = self.free.pop() {
            *self.masks[free] = BpfCpuMask { cpumask: CpuMask::default(), usage: 1 };
            return &raw mut *self.masks[free] as u64;
        }
        self.masks.push(Box::new(BpfCpuMask { cpumask: CpuMask::default(), usage: 1 }));
        self.masks.last_mut().map_or(0, |mask| &raw mut **mask as u64)
    }

    fn release(&mut self, address: u64) {
        if let Some(number) = self.masks.iter().position(|mask| &raw const **mask as u64 == address)
        {
            self.masks[number].usage = self.masks[number].usage.saturating_sub(1);
            if self.masks[number].usage == 0 {
                self.free.push(number);
            }
        }
    }
}

fn combine(target: u64, a: u64, b: u64, operation: impl Fn(u64, u64) -> u64) -> u64 {
    let mut any = 0;
    for word in 0..CPU_MASK_WORDS {
        let value = operation(mask(a).bits[word], mask(b).bits[word]);
        mask(target).bits[word] = value;
        any |= value;
    }
    u64::from(any != 0)
}

fn all(a: u64, b: u64, test: impl Fn(u64, u64) -> bool) -> u64 {
    u64::from((0..CPU_MASK_WORDS).all(|word| test(mask(a).bits[word], mask(b).bits[word])))
}

fn exists(cpu: u64, cpus: usize) -> Option<usize> {
    let cpu = cpu as u32 as usize;
    (cpu < cpus).then_some(cpu)
}

/// `cpumask_any_and_distribute`: CPUs in turn, where each CPU that asks goes on after those that it has got.
fn any_and_distribute(kernel: &mut Kernel, a: u64, b: u64) -> u64 {
    let previous = &mut kernel.cpus[kernel.context.cpu].distributed;
    let found = distribute(mask(a), mask(b), previous, &kernel.topology);
    found.unwrap_or(kernel.cpus.len()) as u64
}

kernel_functions! { TABLE;
    fn bpf_cpumask_create(kernel) {
        let mask = kernel.made.masks.create();
        kernel.calls.holdings.take("the mask that bpf_cpumask_create() returned", mask)
    }

    fn bpf_cpumask_acquire(kernel, address) {
        let usage = address + offset_of!(BpfCpuMask, usage) as u64;
        store(usage, load::<i32>(usage).wrapping_add(1));
        kernel.calls.holdings.take("the reference that bpf_cpumask_acquire() returned", address)
    }

    fn bpf_cpumask_release(kernel, address) {
        kernel.calls.holdings.give_back(address);
        kernel.made.masks.release(address);
        0
    }

    fn bpf_cpumask_first(kernel, a) {
        mask(a).first().map_or(kernel.cpus.len() as u64, |cpu| cpu as u64)
    }

    fn bpf_cpumask_first_zero(kernel, a) {
        (0..kernel.cpus.len()).find(|cpu| !mask(a).test(*cpu)).unwrap_or(kernel.cpus.len()) as u64
    }

    fn bpf_cpumask_first_and(kernel, a, b) {
        first_common_from(mask(a), mask(b), 0, kernel.topology.words).unwrap_or(kernel.cpus.len()) as u64
    }

    fn bpf_cpumask_set_cpu(kernel, cpu, a) {
        if let Some(cpu) = exists(cpu, kernel.cpus.len()) { mask(a).set(cpu) }
        0
    }

    fn bpf_cpumask_clear_cpu(kernel, cpu, a) {
        if let Some(cpu) = exists(cpu, kernel.cpus.len()) { mask(a).clear(cpu) }
        0
    }

    fn bpf_cpumask_test_cpu(kernel, cpu, a) {
        u64::from(exists(cpu, kernel.cpus.len()).is_some_and(|cpu| mask(a).test(cpu)))
    }

    fn bpf_cpumask_test_and_set_cpu(kernel, cpu, a) {
        let Some(cpu) = exists(cpu, kernel.cpus.len()) else { return 0 };
        let was = mask(a).test(cpu);
        mask(a).set(cpu);
        u64::from(was)
    }

    fn bpf_cpumask_test_and_clear_cpu(kernel, cpu, a) {
        let Some(cpu) = exists(cpu, kernel.cpus.len()) else { return 0 };
        let was = mask(a).test(cpu);
        mask(a).clear(cpu);
        u64::from(was)
    }

    fn bpf_cpumask_setall(kernel, a) {
        *mask(a) = CpuMask::first_cpus(kernel.cpus.len());
        0
    }

    fn bpf_cpumask_clear(kernel, a) {
        *mask(a) = CpuMask::default();
        0
    }

    fn bpf_cpumask_and(kernel, target, a, b) { combine(target, a, b, |a, b| a & b) }

    fn bpf_cpumask_or(kernel, target, a, b) {
        combine(target, a, b, |a, b| a | b);
        0
    }

    fn bpf_cpumask_xor(kernel, target, a, b) {
        combine(target, a, b, |a, b| a ^ b);
        0
    }

    fn bpf_cpumask_equal(kernel, a, b) { all(a, b, |a, b| a == b) }
    fn bpf_cpumask_intersects(kernel, a, b) { 1 - all(a, b, |a, b| a & b == 0) }
    fn bpf_cpumask_subset(kernel, a, b) { all(a, b, |a, b| a & !b == 0) }
    fn bpf_cpumask_empty(kernel, a) { u64::from(mask(a).first().is_none()) }

    fn bpf_cpumask_full(kernel, a) {
        u64::from((0..kernel.cpus.len()).all(|cpu| mask(a).test(cpu)))
    }

    fn bpf_cpumask_copy(kernel, target, source) {
        *mask(target) = *mask(source);
        0
    }

    fn bpf_cpumask_any_distribute(kernel, a) {
        any_and_distribute(kernel, a, a)
    }

    fn bpf_cpumask_any_and_distribute(kernel, a, b) {
        any_and_distribute(kernel, a, b)
    }

    fn bpf_cpumask_weight(kernel, a) { u64::from(mask(a).weight()) }

    fn bpf_cpumask_populate(kernel, target, source, size) {
        let bytes = super::read_bytes(source, (size as usize).min(CPU_MASK_WORDS * 8));
        *mask(target) = CpuMask::default();
        for (position, byte) in bytes.iter().enumerate() {
            mask(target).bits[position / 8] |= u64::from(*byte) << (position % 8 * 8);
        }
        signed(0)
    }
}
