//! Basic blocks: runs of instructions that control enters at the first and leaves after the last.

use crate::link::Operation;

/// For each instruction, whether a block begins there.
pub(crate) fn beginnings(operations: &[Operation]) -> Vec<bool> {
    let mut begins = vec![false; operations.len()];
    if let Some(first) = begins.first_mut() {
        *first = true;
    }
    for (at, operation) in operations.iter().enumerate() {
        if let Some(target) = operation.target {
            begins[target] = true;
            if let Some(next) = begins.get_mut(at + 1) {
                *next = true;
            }
        }
    }
    begins
}

/// The instruction that follows in the text.
pub(crate) fn after(operation: &Operation, at: usize) -> usize {
    at + if operation.instruction.is_wide() { 2 } else { 1 }
}
