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
}

impl Frame {
    /// Examines all instructions of a function.
    pub(crate) fn of(operations: &[Operation]) -> Frame {
        let mut shared_from = 0;
        let mut lowest = 0;
        for (at, operation) in operations.iter().enumerate() {
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
                shared_from = shared_from.min(distance.unwrap_or(i16::MIN)).min(-1);
            }
        }
        lowest = lowest.min(shared_from);
        Frame { shared_from, used: lowest.unsigned_abs().min(Stack::LIMIT).next_multiple_of(16) }
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
