//! Arithmetic on facts about values.

use super::Verdict;
use super::state::State;
use super::value::{Null, Number, Pointer, Target, Value, largest};
use crate::instruction::{ADDRESS_SPACE_CAST, Instruction, alu, class};

/// The effect of an arithmetic instruction.
pub(super) fn calculate(one: Instruction, state: &mut State) -> Verdict {
    let destination = usize::from(one.destination);
    let left = state.registers[destination];
    let right = if one.operation() == alu::NEG || one.operation() == alu::END {
        Value::ZERO
    } else if one.uses_register() {
        state.registers[usize::from(one.source)]
    } else {
        Value::Number(Number::constant(i64::from(one.immediate).cast_unsigned()))
    };
    let reads_left = one.operation() != alu::MOV;
    if right == Value::Unset {
        return Verdict::refused(format!("r{} is used before it is set", one.source));
    }
    if reads_left && left == Value::Unset {
        return Verdict::refused(format!("r{destination} is used before it is set"));
    }
    let wide = one.class() == class::ALU64;
    let (value, verdict) = if !reads_left {
        (moved(one, right, wide), Verdict::Fine)
    } else {
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                (Value::Number(numbers(one, left, right)), Verdict::Fine)
            }
            (Value::Pointer(pointer), Value::Number(number)) => move_pointer(one, pointer, number),
            (Value::Number(number), Value::Pointer(pointer)) if one.operation() == alu::ADD => {
                move_pointer(one, pointer, number)
            }
            // Two pointers are never added, so the unknown value is a number.
            (Value::Pointer(pointer), Value::Any) if wide && one.operation() == alu::ADD => {
                move_pointer(one, pointer, Number::between(0, u64::MAX))
            }
            (Value::Arena, Value::Arena) => (Value::Any, Verdict::Fine),
            (Value::Arena, _) | (_, Value::Arena)
                if wide && matches!(one.operation(), alu::ADD | alu::SUB) =>
            {
                (Value::Arena, Verdict::Fine)
            }
            (Value::Any, Value::Number(number)) if wide && one.operation() == alu::AND => {
                let masked = number.value().map(|mask| Number::between(0, mask));
                (masked.map_or(Value::Any, Value::Number), Verdict::Fine)
            }
            _ => (Value::Any, Verdict::Fine),
        }
    };
    state.registers[destination] = value;
    verdict
}

fn moved(one: Instruction, value: Value, wide: bool) -> Value {
    if one.uses_register() && one.offset == ADDRESS_SPACE_CAST && wide {
        return match one.immediate {
            1 => Value::Arena,
            _ => Value::Any,
        };
    }
    match value {
        _ if wide && one.offset == 0 => value,
        Value::Number(number) if one.offset == 0 => Value::Number(narrow(number)),
        // Sign extension does not change a small number.
        Value::Number(number) if one.uses_register() && number.high < 1 << (one.offset - 1) => {
            value
        }
        Value::Number(number) => Value::Number(Number {
            is_root: false,
            ..if wide {
                Number { low: 0, high: u64::MAX, ..number }
            } else {
                Number { low: 0, high: largest(4), ..number }
            }
        }),
        _ => Value::Any,
    }
}

/// The lower half of a number.
fn narrow(number: Number) -> Number {
    if number.high <= largest(4) {
        return number;
    }
    match number.value() {
        Some(value) => Number::constant(value & largest(4)),
        None => Number { low: 0, high: largest(4), is_root: false, ..number },
    }
}

fn numbers(one: Instruction, left: Number, right: Number) -> Number {
    let wide = one.class() == class::ALU64;
    let (left, right) = if wide { (left, right) } else { (narrow(left), narrow(right)) };
    let limit = if wide { u64::MAX } else { largest(4) };
    let both = |low: Option<u64>, high: Option<u64>| match (low, high) {
        (Some(low), Some(high)) if high <= limit => (low, high),
        _ => (0, limit),
    };
    let shift = right.value().and_then(|by| u32::try_from(by).ok());
    let shift = shift.filter(|by| *by < if wide { 64 } else { 32 });
    let mut is_free = left.is_free;
    let (low, high) = match one.operation() {
        alu::ADD => {
            is_free |= right.is_free;
            // A negative constant is subtracted.
            match right.value() {
                Some(value) if value.cast_signed() < 0 && wide => {
                    let less = value.wrapping_neg();
                    both(left.low.checked_sub(less), left.high.checked_sub(less))
                }
                _ => both(left.low.checked_add(right.low), left.high.checked_add(right.high)),
            }
        }
        alu::SUB => both(left.low.checked_sub(right.high), left.high.checked_sub(right.low)),
        alu::MUL => both(left.low.checked_mul(right.low), left.high.checked_mul(right.high)),
        alu::AND => {
            is_free = false;
            (0, left.high.min(right.high))
        }
        alu::OR | alu::XOR => {
            is_free = false;
            let bits = 64 - (left.high | right.high).leading_zeros();
            (0, if bits == 0 { 0 } else { u64::MAX >> (64 - bits) })
        }
        alu::LSH => match shift {
            Some(by) if left.high.leading_zeros() >= by => {
                both(Some(left.low << by), Some(left.high << by))
            }
            _ => (0, limit),
        },
        alu::RSH => {
            is_free = left.is_free && left.high == u64::MAX;
            match shift {
                Some(by) => (left.low >> by, left.high >> by),
                None => (0, left.high),
            }
        }
        alu::DIV if one.offset == 0 => {
            is_free = false;
            match right.value() {
                Some(by) if by > 0 => (left.low / by, left.high / by),
                _ => (0, left.high),
            }
        }
        alu::MOD if one.offset == 0 => {
            is_free = false;
            match right.value() {
                Some(by) if by > 0 => (0, left.high.min(by - 1)),
                _ => (0, left.high),
            }
        }
        alu::ARSH if left.high <= i64::MAX as u64 && wide => match shift {
            Some(by) => (left.low >> by, left.high >> by),
            None => (0, left.high),
        },
        _ => (0, limit),
    };
    if one.operation() == alu::END {
        return match one.immediate {
            16 => Number::between(0, largest(2)),
            32 => Number::between(0, largest(4)),
            _ => Number::between(0, u64::MAX),
        };
    }
    Number { low, high, root: left.root.or(right.root), is_root: false, is_free }
}

fn move_pointer(one: Instruction, pointer: Pointer, number: Number) -> (Value, Verdict) {
    let subtract = match one.operation() {
        alu::ADD => false,
        alu::SUB => true,
        _ if one.class() == class::ALU => return (Value::Any, Verdict::Fine),
        _ => {
            let verdict = Verdict::refused("arithmetic on the bits of a pointer");
            return (Value::Any, verdict);
        }
    };
    if one.class() == class::ALU {
        return (Value::Any, Verdict::Fine);
    }
    if pointer.null == Null::Untested && number.value() != Some(0) {
        let verdict =
            Verdict::refused("arithmetic on a pointer that may be NULL and is not tested");
        return (Value::Pointer(pointer), verdict);
    }
    if matches!(pointer.target, Target::Map(_)) {
        return (Value::Any, Verdict::Fine);
    }
    let moved = Pointer { offset: pointer.offset.add(number, subtract), ..pointer };
    (Value::Pointer(moved), Verdict::Fine)
}
