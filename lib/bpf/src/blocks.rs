//! Basic blocks: runs of instructions that control enters at the first and leaves after the last.

use crate::link::Operation;

/// For each instruction, whether a block begins there: the first, and those around the jumps of which `is_taken` says that they count.
pub(crate) fn beginnings(operations: &[Operation], is_taken: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut begins = vec![false; operations.len()];
    if let Some(first) = begins.first_mut() {
        *first = true;
    }
    for (at, operation) in operations.iter().enumerate() {
        if let Some(target) = operation.target.filter(|_| is_taken(at)) {
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
