//! The facts after each outcome of a conditional jump.

use super::state::State;
use super::value::{Null, Number, Root, Value, largest};
use crate::instruction::{Instruction, class, jump};

/// The state if the jump is taken, or if it is not; `None` if that cannot happen.
pub(super) fn after(one: Instruction, mut state: State, taken: bool) -> Option<State> {
    let operation = one.operation();
    if matches!(operation, jump::JA | jump::JCOND) {
        return (taken || operation == jump::JCOND).then_some(state);
    }
    let left = usize::from(one.destination);
    let right = if one.uses_register() {
        state.registers[usize::from(one.source)]
    } else {
        Value::Number(Number::constant(i64::from(one.immediate).cast_unsigned()))
    };
    let narrow = one.class() == class::JMP32;
    state.is_doubtful |= is_doubtful(state.registers[left]) || is_doubtful(right);
    match (state.registers[left], right) {
        (Value::Pointer(pointer), null) if null.is_null() && !narrow => {
            let equal = match operation {
                jump::JEQ => taken,
                jump::JNE => !taken,
                _ => return Some(state),
            };
            // A pointer into an object is not NULL even if the object, which was not tested, is.
            if pointer.offset.low != 0 && pointer.null != Null::No {
                return Some(state);
            }
            return state.tell_null(left, equal).then_some(state);
        }
        (null, Value::Pointer(_)) if null.is_null() && !narrow && one.uses_register() => {
            let equal = match operation {
                jump::JEQ => taken,
                jump::JNE => !taken,
                _ => return Some(state),
            };
            return state.tell_null(usize::from(one.source), equal).then_some(state);
        }
        (Value::Number(a), Value::Number(b)) => {
            if narrow && (a.high > largest(4) || b.high > largest(4)) {
                // The upper halves are not compared; all that is known is that there was a test.
                state.bound(left, a.low, a.high);
                if one.uses_register() {
                    state.bound(usize::from(one.source), b.low, b.high);
                }
                return Some(state);
            }
            return compare(one, state, a, b, taken);
        }
        // The bound is not known, but there is one.
        (Value::Number(a), _) => state.bound(left, a.low, a.high),
        (_, Value::Number(b)) if one.uses_register() => {
            state.bound(usize::from(one.source), b.low, b.high);
        }
        _ => {}
    }
    Some(state)
}

/// Whether the verifier may know a value that is unknown here.
fn is_doubtful(value: Value) -> bool {
    match value {
        Value::Any | Value::Arena => true,
        Value::Number(number) => matches!(number.root, Some(Root::Cell { .. })),
        _ => false,
    }
}

fn compare(one: Instruction, mut state: State, a: Number, b: Number, taken: bool) -> Option<State> {
    let (first, second) = ((a.low, a.high), (b.low, b.high));
    let largest_positive =
        if one.class() == class::JMP32 { i32::MAX as u64 } else { i64::MAX.cast_unsigned() };
    let (first, second) = match one.operation() {
        jump::JEQ if taken => equal(first, second)?,
        jump::JNE if !taken => equal(first, second)?,
        jump::JEQ => differ(first, second)?,
        jump::JNE => differ(first, second)?,
        jump::JLT => ordered(first, second, taken, true)?,
        jump::JLE => ordered(first, second, taken, false)?,
        jump::JGT => swap(ordered(second, first, taken, true)?),
        jump::JGE => swap(ordered(second, first, taken, false)?),
        signed => {
            let is_negative = |(low, _): (u64, u64)| low > largest_positive;
            let is_positive = |(_, high): (u64, u64)| high <= largest_positive;
            let less = matches!(signed, jump::JSLT | jump::JSLE);
            let strict = matches!(signed, jump::JSLT | jump::JSGT);
            let arrange = |first, second| {
                if less {
                    ordered(first, second, taken, strict)
                } else {
                    ordered(second, first, taken, strict).map(swap)
                }
            };
            if signed == jump::JSET {
                (first, second)
            } else if is_positive(first) && is_positive(second)
                || is_negative(first) && is_negative(second)
            {
                arrange(first, second)?
            } else if is_positive(second) && less != taken && second.0 <= largest_positive {
                // At least a number that is not negative, and so not negative itself.
                let least = second.0 + u64::from(!strict && less || strict && !less);
                ((first.0.max(least), first.1.min(largest_positive)), second)
            } else {
                (first, second)
            }
        }
    };
    state.bound(usize::from(one.destination), first.0, first.1);
    if one.uses_register() {
        state.bound(usize::from(one.source), second.0, second.1);
    }
    Some(state)
}

type Bounds = (u64, u64);

fn swap((first, second): (Bounds, Bounds)) -> (Bounds, Bounds) {
    (second, first)
}

fn equal(first: Bounds, second: Bounds) -> Option<(Bounds, Bounds)> {
    let both = (first.0.max(second.0), first.1.min(second.1));
    (both.0 <= both.1).then_some((both, both))
}

fn differ(first: Bounds, second: Bounds) -> Option<(Bounds, Bounds)> {
    let without = |(low, high): Bounds, other: Bounds| {
        if other.0 != other.1 {
            Some((low, high))
        } else if low == high {
            (low != other.0).then_some((low, high))
        } else if low == other.0 {
            Some((low + 1, high))
        } else if high == other.0 {
            Some((low, high - 1))
        } else {
            Some((low, high))
        }
    };
    Some((without(first, second)?, without(second, first)?))
}

/// The bounds that follow from `first < second` or `first <= second`, or from its not holding.
fn ordered(first: Bounds, second: Bounds, holds: bool, strict: bool) -> Option<(Bounds, Bounds)> {
    if !holds {
        return ordered(second, first, true, !strict).map(swap);
    }
    let by = u64::from(strict);
    let first = (first.0, first.1.min(second.1.checked_sub(by)?));
    let second = (second.0.max(first.0.checked_add(by)?), second.1);
    (first.0 <= first.1 && second.0 <= second.1).then_some((first, second))
}
