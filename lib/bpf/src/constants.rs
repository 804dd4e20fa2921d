//! Constant values and reachability within one function.
//!
//! As in the kernel, code behind a condition that is known when the object is loaded (a missing field, a missing kernel function) is left out,
//! so that it may contain names that the kernel does not have.

use std::collections::BTreeSet;

use crate::blocks::{after, beginnings};
use crate::frame::Frame;
use crate::instruction::{FRAME_POINTER, Instruction, alu, atomic, class, jump, mode};
use crate::link::{Operand, Operation};

/// A register's constant value, if it is known.
type Value = Option<u64>;

/// The constants that are known at one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    registers: [Value; 11],
    /// Known values on the stack: offset from r10, size in bytes, value.
    stack: Vec<(i16, u8, u64)>,
}

impl State {
    fn entry() -> State {
        State { registers: [None; 11], stack: Vec::new() }
    }

    /// Keeps the constants that are the same on both paths; returns whether anything was lost.
    fn merge(&mut self, other: &State) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            if mine.is_some() && *mine != theirs {
                *mine = None;
                changed = true;
            }
        }
        let known = self.stack.len();
        self.stack.retain(|entry| other.stack.contains(entry));
        changed || self.stack.len() != known
    }

    fn stack_value(&self, offset: i16, size: u8) -> Value {
        let mut stack = self.stack.iter();
        stack.find(|entry| (entry.0, entry.1) == (offset, size)).map(|entry| entry.2)
    }

    /// Forgets the values on the stack that overlap a store.
    fn forget_stack(&mut self, offset: i16, size: u8) {
        let (start, end) = (i32::from(offset), i32::from(offset) + i32::from(size));
        self.stack.retain(|&(at, size, _)| {
            i32::from(at) >= end || i32::from(at) + i32::from(size) <= start
        });
    }

    /// Forgets values that may change through a pointer to the stack, here or in a called function.
    fn forget_shared(&mut self, from: i16) {
        self.stack.retain(|&(at, size, _)| at.saturating_add(size.into()) <= from);
    }
}

/// Which instructions are reachable, and which way conditions go.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Whether each instruction is reachable.
    pub reachable: Vec<bool>,
    /// For every conditional jump that always goes the same way, whether it is taken.
    pub decided: Vec<Option<bool>>,
}

/// Memory that is constant from the moment at which the object is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConstantMemory<'a> {
    /// Address of the configuration values.
    pub address: u64,
    /// The configuration values.
    pub bytes: &'a [u8],
    /// The contents of sections, by slot, as far as they are known to be constant.
    pub slots: &'a [Option<Vec<u8>>],
}

/// Where addresses in constant sections begin while a function is analysed. No kernel object is there, and the section's real address is not
/// known yet: it differs between simulations.
const SECTIONS: u64 = 0x7ff0 << 48;
/// Distance between the addresses of sections: more than any section has.
const SECTION: u64 = 1 << 34;

impl ConstantMemory<'_> {
    fn load(self, address: u64, size: u8) -> Value {
        let (base, bytes) = match is_section(address) {
            true => {
                let slot = (address - SECTIONS) / SECTION;
                let bytes = self.slots.get(usize::try_from(slot).ok()?)?.as_ref()?;
                (SECTIONS + slot * SECTION, &bytes[..])
            }
            false => (self.address, self.bytes),
        };
        let start = usize::try_from(address.checked_sub(base)?).ok()?;
        let bytes = bytes.get(start..start.checked_add(usize::from(size))?)?;
        Some(number(bytes))
    }

    /// The address of a place in a section, if its contents are known.
    fn place(self, slot: usize, offset: u64) -> Value {
        self.slots.get(slot)?.as_ref()?;
        (offset < SECTION).then(|| SECTIONS + slot as u64 * SECTION + offset)
    }
}

fn is_section(address: u64) -> bool {
    address >> 48 == SECTIONS >> 48
}

/// The number that these bytes, at most eight, are.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// What a call may write to of the stack of a function that has passed on addresses of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of it.
    Any,
    /// What lies above the lowest of these addresses. Compilers keep the values of registers below, and a verifier, which looks into the
    /// called function, knows that they stay.
    Upwards,
}

/// Propagates constants through a function.
pub(crate) fn analyse(operations: &[Operation], memory: ConstantMemory<'_>, reach: Reach) -> Flow {
    let frame = Frame::of(operations, |_| true);
    let shared_from = match reach {
        Reach::Any if frame.is_shared() => i16::MIN,
        _ => frame.shared_from,
    };
    let begins = beginnings(operations, |_| true);
    let mut states: Vec<Option<State>> = vec![None; operations.len()];
    let mut flow =
        Flow { reachable: vec![false; operations.len()], decided: vec![None; operations.len()] };
    states[0] = Some(State::entry());
    let mut work = BTreeSet::from([0]);
    while let Some(start) = work.pop_first() {
        let Some(mut state) = states[start].clone() else { continue };
        let mut arrive = |at: usize, state: State| {
            let changed = match states.get_mut(at) {
                Some(Some(known)) => known.merge(&state),
                Some(unknown) => {
                    *unknown = Some(state);
                    true
                }
                None => false,
            };
            if changed {
                work.insert(at);
            }
        };
        let mut at = start;
        loop {
            flow.reachable[at] = true;
            let operation = &operations[at];
            let next = after(operation, at);
            if let Some(target) = operation.target {
                let verdict = branch(operation.instruction, &state);
                flow.decided[at] = verdict;
                if verdict != Some(false) {
                    arrive(target, after_branch(operation.instruction, &state, true));
                }
                if verdict != Some(true) {
                    arrive(next, after_branch(operation.instruction, &state, false));
                }
                break;
            }
            if operation.ends_function() {
                break;
            }
            step(operation, &mut state, shared_from, memory);
            if begins.get(next) != Some(&false) {
                arrive(next, state);
                break;
            }
            at = next;
        }
    }
    flow
}

/// The effect of an instruction that is not a jump.
fn step(operation: &Operation, state: &mut State, shared_from: i16, memory: ConstantMemory<'_>) {
    let one = operation.instruction;
    let destination = usize::from(one.destination);
    let on_stack = |register: u8| register == FRAME_POINTER;
    match one.class() {
        class::ALU | class::ALU64 => {
            let operand = if one.uses_register() {
                state.registers[usize::from(one.source)]
            } else {
                Some(i64::from(one.immediate).cast_unsigned())
            };
            state.registers[destination] = evaluate(one, state.registers[destination], operand);
        }
        class::LD => {
            state.registers[destination] = match operation.operand {
                Some(Operand::Constant(value) | Operand::Address { address: value, .. }) => {
                    Some(value)
                }
                Some(Operand::Slot { slot, offset }) => memory.place(slot, offset),
                _ => None,
            };
        }
        class::LDX => {
            let value = if one.mode() != mode::MEM {
                None
            } else if on_stack(one.source) {
                state.stack_value(one.offset, one.access_size())
            } else {
                state.registers[usize::from(one.source)].and_then(|base| {
                    let address = base.wrapping_add_signed(i64::from(one.offset));
                    memory.load(address, one.access_size())
                })
            };
            state.registers[destination] = value;
        }
        class::ST | class::STX => {
            if on_stack(one.destination) {
                state.forget_stack(one.offset, one.access_size());
                let value = match (one.class(), one.mode()) {
                    (class::ST, _) => Some(i64::from(one.immediate).cast_unsigned()),
                    (_, mode::MEM) => state.registers[usize::from(one.source)],
                    _ => None,
                };
                let size = one.access_size();
                // The address of a section has no low half that is known.
                if let Some(value) = value
                    && (size == 8 || !is_section(value))
                {
                    state.stack.push((
                        one.offset,
                        size,
                        number(&value.to_le_bytes()[..usize::from(size)]),
                    ));
                    state.stack.sort_unstable();
                }
            } else {
                state.forget_shared(shared_from);
            }
            if one.class() == class::STX && one.mode() == mode::ATOMIC {
                forget_atomic(one, state);
            }
        }
        _ if one.is_call() => {
            for register in &mut state.registers[..6] {
                *register = None;
            }
            state.forget_shared(shared_from);
        }
        _ => {}
    }
}

fn forget_atomic(one: Instruction, state: &mut State) {
    match one.immediate {
        atomic::CMPXCHG => state.registers[0] = None,
        atomic::LOAD_ACQUIRE => state.registers[usize::from(one.destination)] = None,
        other if other & atomic::FETCH != 0 => {
            state.registers[usize::from(one.source)] = None;
        }
        _ => {}
    }
}

/// The result of an arithmetic instruction with known operands.
fn evaluate(one: Instruction, left: Value, right: Value) -> Value {
    let wide = one.class() == class::ALU64;
    let operation = one.operation();
    if operation == alu::MOV {
        let value = right?;
        // Sign extension and casts are not worth following.
        return match (one.uses_register() && one.offset != 0, wide) {
            (true, _) => None,
            (false, true) => Some(value),
            (false, false) if is_section(value) => None,
            (false, false) => Some(value & 0xffff_ffff),
        };
    }
    let (left, right) = (left?, right);
    let by_number = right.is_some_and(|right| !is_section(right));
    let moves = operation == alu::ADD || operation == alu::SUB && by_number;
    if (is_section(left) || right.is_some_and(is_section)) && !(wide && moves) {
        // Only a place in the same section has a meaning.
        return None;
    }
    if operation == alu::NEG {
        let value = left.wrapping_neg();
        return Some(if wide { value } else { value & 0xffff_ffff });
    }
    let right = right?;
    let bits: u32 = if wide { 64 } else { 32 };
    let shift = (right & u64::from(bits - 1)) as u32;
    let narrow = if wide { left } else { left & 0xffff_ffff };
    let value = match operation {
        alu::ADD => left.wrapping_add(right),
        alu::SUB => left.wrapping_sub(right),
        alu::MUL => left.wrapping_mul(right),
        alu::OR => left | right,
        alu::AND => left & right,
        alu::XOR => left ^ right,
        alu::LSH => narrow.wrapping_shl(shift),
        alu::RSH => narrow.wrapping_shr(shift),
        alu::ARSH if wide => (left.cast_signed() >> shift).cast_unsigned(),
        alu::ARSH => ((left as u32).cast_signed() >> shift).cast_unsigned().into(),
        _ => return None,
    };
    Some(if wide { value } else { value & 0xffff_ffff })
}

/// Which way a jump goes, if that is known.
fn branch(one: Instruction, state: &State) -> Option<bool> {
    match one.operation() {
        jump::JA => return Some(true),
        jump::JCOND => return None,
        _ => {}
    }
    let left = state.registers[usize::from(one.destination)]?;
    let right = if one.uses_register() {
        state.registers[usize::from(one.source)]?
    } else {
        i64::from(one.immediate).cast_unsigned()
    };
    if is_section(left) || is_section(right) {
        // These are not the addresses that there will be, except that none of them is 0.
        let is_null = left == 0 || right == 0;
        return match one.operation() {
            jump::JEQ if is_null && one.class() == class::JMP => Some(false),
            jump::JNE if is_null && one.class() == class::JMP => Some(true),
            _ => None,
        };
    }
    let (left, right, signed_left, signed_right) = if one.class() == class::JMP32 {
        let (left, right) = (left as u32, right as u32);
        (
            u64::from(left),
            u64::from(right),
            i64::from(left.cast_signed()),
            i64::from(right.cast_signed()),
        )
    } else {
        (left, right, left.cast_signed(), right.cast_signed())
    };
    Some(match one.operation() {
        jump::JEQ => left == right,
        jump::JNE => left != right,
        jump::JGT => left > right,
        jump::JGE => left >= right,
        jump::JLT => left < right,
        jump::JLE => left <= right,
        jump::JSET => left & right != 0,
        jump::JSGT => signed_left > signed_right,
        jump::JSGE => signed_left >= signed_right,
        jump::JSLT => signed_left < signed_right,
        jump::JSLE => signed_left <= signed_right,
        _ => return None,
    })
}

/// The constants on one path out of a jump: equality reveals a value.
fn after_branch(one: Instruction, state: &State, taken: bool) -> State {
    let mut state = state.clone();
    let equal = match one.operation() {
        jump::JEQ => taken,
        jump::JNE => !taken,
        _ => false,
    };
    if equal && one.class() == class::JMP && !one.uses_register() {
        state.registers[usize::from(one.destination)] =
            Some(i64::from(one.immediate).cast_unsigned());
    }
    state
}
