//! Which loads go through pointers to kernel structures.

use crate::instruction::{alu, class};
use crate::link::Operation;

/// Marks the loads from kernel structures: those with a relocated offset, and those from an address to which a relocated offset was added just
/// before.
pub(crate) fn mark_kernel_loads(operations: &mut [Operation], field_offsets: &[bool]) {
    let mut leaders = vec![false; operations.len()];
    for operation in operations.iter() {
        if let Some(target) = operation.target {
            leaders[target] = true;
        }
    }
    // Bit sets of registers that hold a relocated offset, and a sum with one.
    let (mut offsets, mut sums) = (0_u16, 0_u16);
    for (at, operation) in operations.iter_mut().enumerate() {
        if leaders[at] {
            (offsets, sums) = (0, 0);
        }
        let one = operation.instruction;
        let destination = 1_u16 << one.destination;
        let source = 1_u16 << one.source;
        match one.class() {
            class::LDX => {
                operation.kernel_load = field_offsets[at] || sums & source != 0;
                offsets &= !destination;
                sums &= !destination;
            }
            class::ALU | class::ALU64 => {
                let (was_offset, was_sum) = (offsets & destination != 0, sums & destination != 0);
                let (from_offset, from_sum) = if one.uses_register() {
                    (offsets & source != 0, sums & source != 0)
                } else {
                    (field_offsets[at], false)
                };
                let (is_offset, is_sum) = match one.operation() {
                    alu::MOV => (from_offset, from_sum),
                    alu::ADD => (false, was_offset || was_sum || from_offset || from_sum),
                    _ => (false, false),
                };
                offsets = offsets & !destination | if is_offset { destination } else { 0 };
                sums = sums & !destination | if is_sum { destination } else { 0 };
            }
            class::LD => {
                offsets &= !destination;
                sums &= !destination;
            }
            class::JMP if one.is_call() => {
                offsets &= !0x3f;
                sums &= !0x3f;
            }
            _ => {}
        }
    }
}
