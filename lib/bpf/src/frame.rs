//! How a function uses its stack.

use crate::context::Stack;
use crate::instruction::{FRAME_POINTER, alu, class};
use crate::link::Operation;

/// How a function uses its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The lowest address in the stack, relative to r10, that is used for anything but loads and stores; 0 if there is none.
    pub shared_from: i16,
    /// How many bytes below r10 the known uses reach; a multiple of 16.
    pub used: u16,
    /// How many bytes below r10 the addresses reach that the code names; a multiple of 16.
    pub named: u16,
}

impl Frame {
    /// Examines those instructions of a function that may run.
    pub(crate) fn of(operations: &[Operation], may_run: impl Fn(usize) -> bool) -> Frame {
        let mut shared_from = 0;
        let mut lowest = 0;
        let mut named = 0;
        for (at, operation) in operations.iter().enumerate().filter(|&(at, _)| may_run(at)) {
            let one = operation.instruction;
            let reads = one.source == FRAME_POINTER;
            if one.accesses_memory() {
                let stores_address = reads && one.class() == class::STX;
                if stores_address {
                    shared_from = i16::MIN;
                }
                let accesses = one.class() == class::LDX && reads
                    || one.class() != class::LDX && one.destination == FRAME_POINTER;
                // A load with acquire semantics is encoded with its address in the source, so a store of r10 may be one.
                if accesses || stores_address {
                    lowest = lowest.min(one.offset);
                }
            } else if reads && one.uses_register() {
                // Compilers copy r10 and subtract in the next instruction.
                let next = operations.get(at + 1).map(|next| next.instruction);
                let distance = next
                    .filter(|_| one.opcode == class::ALU64 | alu::MOV | 0x08)
                    .filter(|next| next.opcode == class::ALU64 | alu::ADD)
                    .filter(|next| next.destination == one.destination)
                    .and_then(|next| i16::try_from(next.immediate).ok());
                named = named.min(distance.unwrap_or(0));
                shared_from = shared_from.min(distance.unwrap_or(i16::MIN)).min(-1);
            }
        }
        named = named.min(lowest);
        lowest = lowest.min(shared_from);
        let rounded = |lowest: i16| lowest.unsigned_abs().min(Stack::LIMIT).next_multiple_of(16);
        Frame { shared_from, used: rounded(lowest), named: rounded(named) }
    }

    /// Whether the function uses addresses in its stack for anything but loads and stores.
    pub(crate) fn is_shared(self) -> bool {
        self.shared_from < 0
    }

    /// Bytes to reserve. From a shared address code may go up and down, so the stack then has its full size.
    pub(crate) fn size(self) -> u16 {
        if self.is_shared() { Stack::LIMIT } else { self.used }
    }
}
