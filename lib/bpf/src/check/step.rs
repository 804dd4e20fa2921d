//! The effect of instructions other than calls and jumps.

use super::access::Access;
use super::arithmetic::calculate;
use super::state::State;
use super::value::{Null, Number, Pointer, Root, Target, Value, largest};
use super::{Facts, Verdict};
use crate::constants::number;
use crate::instruction::{Instruction, atomic, class, mode};
use crate::link::{Operand, Operation};
use crate::object::Slot;

impl Facts<'_> {
    /// Carries out an instruction on the state, and judges whether it is allowed.
    pub(super) fn step(&self, at: usize, operation: &Operation, state: &mut State) -> Verdict {
        let one = operation.instruction;
        if one.class() == class::LDX || one.is_call() {
            // Only these make values that others are told apart from by their origin.
            state.renew(at);
        }
        match one.class() {
            _ if matches!(operation.operand, Some(Operand::Absent { .. })) => {
                state.registers[usize::from(one.destination)] = Value::Any;
                if one.is_call() {
                    state.registers[..6].fill(Value::Any);
                }
                Verdict::Fine
            }
            class::ALU | class::ALU64 => calculate(one, state),
            class::LD => {
                state.registers[usize::from(one.destination)] = self.wide(operation);
                Verdict::Fine
            }
            class::LDX => self.load(at, operation, state),
            class::ST | class::STX => self.store(one, state),
            _ if one.is_call() => self.call(at, operation, state),
            _ => Verdict::Fine,
        }
    }

    fn wide(&self, operation: &Operation) -> Value {
        match operation.operand {
            Some(Operand::Slot { slot, offset }) => match self.slots[slot] {
                Slot::Map(map) if offset == 0 => Value::Pointer(Pointer::to(Target::Map(map))),
                Slot::Section(section)
                    if !self.object.sections()[section].name.starts_with(".addr_space") =>
                {
                    let mut pointer = Pointer::to(Target::Section(slot));
                    pointer.offset = pointer.offset.add(Number::constant(offset), false);
                    Value::Pointer(pointer)
                }
                _ => Value::Any,
            },
            // Numbers and kernel addresses cannot be told apart here.
            _ => Value::Any,
        }
    }

    fn load(&self, at: usize, operation: &Operation, state: &mut State) -> Verdict {
        let one = operation.instruction;
        let (offset, size) = (i64::from(one.offset), one.access_size());
        let access = Access { offset, size: u64::from(size), writes: false };
        let verdict = self.access(state, one.source, access);
        let source = state.registers[usize::from(one.source)];
        // The object exists, or the program has ended.
        if !matches!(verdict, Verdict::Fine) {
            self.reached(state, one.source);
        }
        let value = match source {
            Value::Pointer(pointer) => self.loaded(at, operation, pointer, state),
            _ if size == 8 => Value::Any,
            _ => unknown(at, one),
        };
        state.registers[usize::from(one.destination)] = value;
        verdict
    }

    /// After an access, a pointer no longer counts as one that may be NULL: only the first such access is reported.
    fn reached(&self, state: &mut State, register: u8) {
        if let Value::Pointer(pointer) = &mut state.registers[usize::from(register)]
            && pointer.null == Null::Untested
        {
            pointer.null = Null::Unsure;
        }
    }

    fn loaded(&self, at: usize, operation: &Operation, pointer: Pointer, state: &State) -> Value {
        let one = operation.instruction;
        let size = one.access_size();
        let is_fixed = pointer.offset.low == pointer.offset.high;
        let offset = pointer.offset.low.saturating_add(i64::from(one.offset));
        match pointer.target {
            Target::Stack if is_fixed && size == 8 => state.slot(offset),
            // Parts of slots are not tracked, but the verifier may know them.
            Target::Stack => Value::Any,
            Target::Arguments(_) if is_fixed && size == 8 && offset % 8 == 0 => {
                let argument = usize::try_from(offset / 8).ok();
                let known = argument.and_then(|argument| self.arguments.get(argument));
                known.copied().unwrap_or(Value::Any)
            }
            Target::Section(slot)
                if is_fixed && self.is_constant(slot) && one.mode() == mode::MEM =>
            {
                if let Some(value) = self.contents(slot, offset, size) {
                    return Value::Number(Number::constant(value));
                }
                let root = Root::Cell { slot, offset: offset.unsigned_abs(), size };
                state.cell(root, size)
            }
            Target::MapValue(_) | Target::Section(_) if size == 8 => {
                if !is_fixed {
                    return Value::Any;
                }
                match self.kernel_pointer(pointer, i64::from(one.offset)) {
                    Some(type_id) => Value::Pointer(Pointer {
                        null: Null::Untested,
                        origin: Some(at),
                        ..Pointer::to(Target::Kernel(type_id))
                    }),
                    // Other special fields hold data of the kernel.
                    None if self.is_special(pointer, offset) => Value::Any,
                    None => unknown(at, one),
                }
            }
            Target::Kernel(_)
            | Target::Object
            | Target::Map(_)
            | Target::Memory(_)
            | Target::Arguments(_)
                if size == 8 =>
            {
                Value::Any
            }
            _ => unknown(at, one),
        }
    }

    /// The number that a constant section has at an offset, if its contents are known.
    fn contents(&self, slot: usize, offset: i64, size: u8) -> Option<u64> {
        let bytes = self.read_only.get(slot)?.as_ref()?;
        let start = usize::try_from(offset).ok()?;
        let bytes = bytes.get(start..start.checked_add(usize::from(size))?)?;
        Some(number(bytes))
    }

    fn is_special(&self, pointer: Pointer, offset: i64) -> bool {
        self.special_fields(pointer.target).iter().any(|field| {
            let start = field.offset.cast_signed();
            (start..start.saturating_add_unsigned(field.size)).contains(&offset)
        })
    }

    fn store(&self, one: Instruction, state: &mut State) -> Verdict {
        let (offset, size) = (i64::from(one.offset), one.access_size());
        let is_atomic = one.class() == class::STX && one.mode() == mode::ATOMIC;
        let only_loads = is_atomic && one.immediate == atomic::LOAD_ACQUIRE;
        let (base, value) = if only_loads {
            (one.source, Value::Any)
        } else if one.class() == class::ST {
            let number = i64::from(one.immediate).cast_unsigned();
            (one.destination, Value::Number(Number::constant(number)))
        } else {
            (one.destination, state.registers[usize::from(one.source)])
        };
        if value == Value::Unset {
            return Verdict::refused(format!("r{} is used before it is set", one.source));
        }
        let access = Access { offset, size: u64::from(size), writes: !only_loads };
        let verdict = self.access(state, base, access);
        if let Value::Pointer(pointer) = state.registers[usize::from(base)]
            && pointer.target == Target::Stack
        {
            let low = pointer.offset.low.saturating_add(offset);
            let high = pointer.offset.high.saturating_add(offset);
            match size {
                8 if low == high && !is_atomic => state.set_slot(low, value),
                4 if low == high && !is_atomic => state.set_word(low, value),
                _ => state.forget_stack(low, high.saturating_add(i64::from(size))),
            }
        }
        if !matches!(verdict, Verdict::Fine) {
            self.reached(state, base);
        }
        if is_atomic {
            let result = match one.immediate {
                atomic::CMPXCHG => Some(0),
                atomic::LOAD_ACQUIRE => Some(one.destination),
                other if other & atomic::FETCH != 0 => Some(one.source),
                _ => None,
            };
            if let Some(register) = result {
                state.registers[usize::from(register)] = Value::Any;
            }
        }
        verdict
    }
}

/// A loaded number: nothing is known about it but its size.
fn unknown(at: usize, one: Instruction) -> Value {
    let root = Root::Instruction(at);
    if one.mode() == mode::MEMSX {
        return Value::Number(Number { high: u64::MAX, ..Number::fresh(one.access_size(), root) });
    }
    let number = Number::fresh(one.access_size(), root);
    debug_assert!(number.high == largest(one.access_size()));
    Value::Number(number)
}
