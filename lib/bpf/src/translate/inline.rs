//! Instructions in place of calls of the kernel's shortest functions.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::Translation;
use super::memory::plain;
use crate::context::{ArrayHead, Context};
use crate::instruction::{alu, class, mode};
use crate::link::Operand;
use crate::linker::{Inline, Native};

const E2BIG: i64 = 7;
const EINVAL: i64 = 22;

/// How many numbers an iteration may visit (`BPF_MAX_LOOPS`).
const MOST_NUMBERS: i64 = 8 * 1024 * 1024;

/// Offset of the end in a `struct bpf_iter_num`, after the current number.
const END: i32 = 4;

impl Translation<'_, '_> {
    /// The result of a function of the kernel, computed in place of the call at `at`; `None` if the call has to stay.
    pub(super) fn inline(&mut self, at: usize, native: Native) -> Option<Value> {
        let array = matches!(native.inline?, Inline::LookUp | Inline::LookUpOfCpu);
        let map = if array { Some(self.array_in(at, 1)?) } else { None };
        self.charge(native);
        Some(match native.inline? {
            Inline::Cpu => self.load_context(offset_of!(Context, cpu)),
            Inline::FirstNumber => self.first_number(),
            Inline::NextNumber => self.next_number(),
            Inline::LastNumber => {
                let (iterator, zero) = (self.read(1), self.number(0));
                self.builder.ins().store(plain(), zero, iterator, 0);
                zero
            }
            Inline::LookUp => {
                let cpu = self.load_context(offset_of!(Context, cpu));
                self.element(map?, cpu)
            }
            Inline::LookUpOfCpu => {
                let cpu = self.read(3);
                let cpu = self.narrow(cpu, types::I32);
                let cpu = self.widen(cpu, types::I32);
                let element = self.element(map?, cpu);
                let cpus = self.load_constant_context(offset_of!(Context, cpus));
                let zero = self.number(0);
                let ins = self.builder.ins();
                let exists = ins.icmp(IntCC::UnsignedLessThan, cpu, cpus);
                self.builder.ins().select(exists, element, zero)
            }
        })
    }

    /// Charges the cost of the function.
    fn charge(&mut self, native: Native) {
        if let Some(instructions) = native.instructions {
            return self.count_more(instructions.cast_signed());
        }
        let cost = self.load_constant_context(offset_of!(Context, call_cost));
        let before = self.load_context(offset_of!(Context, spent));
        let after = self.builder.ins().iadd(before, cost);
        self.store_context(offset_of!(Context, spent), after);
    }

    /// Begins an iteration from r2 to r3 with the iterator at r1. One that does not begin visits nothing.
    fn first_number(&mut self) -> Value {
        let [iterator, start, end] = [1, 2, 3].map(|register| self.read(register));
        let [start, end] = [start, end].map(|value| self.narrow(value, types::I32));
        let ins = self.builder.ins();
        let is_backward = ins.icmp(IntCC::SignedGreaterThan, start, end);
        let [from, to] = [start, end].map(|value| self.builder.ins().sextend(types::I64, value));
        let span = self.builder.ins().isub(to, from);
        let most = self.number(MOST_NUMBERS);
        let ins = self.builder.ins();
        let is_long = ins.icmp(IntCC::SignedGreaterThan, span, most);
        let fails = self.builder.ins().bor(is_backward, is_long);
        let one = self.builder.ins().iconst(types::I32, 1);
        let before = self.builder.ins().isub(start, one);
        self.keep_numbers(iterator, fails, before, end);
        let [zero, long, backward] = [0, -E2BIG, -EINVAL].map(|value| self.number(value));
        let result = self.builder.ins().select(is_long, long, zero);
        self.builder.ins().select(is_backward, backward, result)
    }

    /// The address of the next number of the iterator at r1, which is in its first field; 0 at the end.
    fn next_number(&mut self) -> Value {
        let iterator = self.read(1);
        let [current, end] = [0, END].map(|offset| {
            let ins = self.builder.ins();
            ins.load(types::I32, plain(), iterator, offset)
        });
        let one = self.builder.ins().iconst(types::I32, 1);
        let next = self.builder.ins().iadd(current, one);
        let ins = self.builder.ins();
        let is_over = ins.icmp(IntCC::SignedGreaterThanOrEqual, next, end);
        self.keep_numbers(iterator, is_over, next, end);
        let zero = self.number(0);
        self.builder.ins().select(is_over, zero, iterator)
    }

    /// Writes both numbers of an iterator, or zeros if it `ends`.
    fn keep_numbers(&mut self, iterator: Value, ends: Value, current: Value, end: Value) {
        let zero = self.builder.ins().iconst(types::I32, 0);
        for (value, offset) in [(current, 0), (end, END)] {
            let value = self.builder.ins().select(ends, zero, value);
            self.builder.ins().store(plain(), value, iterator, offset);
        }
    }

    /// The address of the element of `cpu` in the array in slot `map`, by the index that r2 points to; 0 beyond the array's end.
    fn element(&mut self, map: usize, cpu: Value) -> Value {
        let (head, key) = (self.slot(map), self.read(2));
        let [elements, count, stride, cpu_stride] = [
            offset_of!(ArrayHead, elements),
            offset_of!(ArrayHead, count),
            offset_of!(ArrayHead, stride),
            offset_of!(ArrayHead, cpu_stride),
        ]
        .map(|offset| {
            let constant = plain().with_readonly().with_can_move();
            let ins = self.builder.ins();
            ins.load(types::I64, constant, head, offset as i32)
        });
        let index = self.builder.ins().uload32(plain(), key, 0);
        let ins = self.builder.ins();
        let exists = ins.icmp(IntCC::UnsignedLessThan, index, count);
        let distance = self.builder.ins().imul(index, stride);
        let of_cpu = self.builder.ins().imul(cpu, cpu_stride);
        let element = self.builder.ins().iadd(elements, distance);
        let element = self.builder.ins().iadd(element, of_cpu);
        let zero = self.number(0);
        self.builder.ins().select(exists, element, zero)
    }

    /// The slot of the array whose address is in `register` before `at`, if the instructions before it in the same block show that.
    fn array_in(&self, at: usize, mut register: u8) -> Option<usize> {
        let mut place = at;
        while self.blocks[place].is_none() {
            place -= 1;
            let operation = &self.linked.operations[place];
            let one = operation.instruction;
            let is_atomic = one.class() == class::STX && one.mode() == mode::ATOMIC;
            if one.is_call() && register <= 5 || is_atomic {
                return None;
            }
            let writes = matches!(one.class(), class::LD | class::LDX | class::ALU | class::ALU64);
            // The second half of a wide load is no instruction.
            if !writes || one.destination != register || one.opcode == 0 {
                continue;
            }
            if one.opcode == class::ALU64 | alu::MOV | 0x08 && one.offset == 0 {
                register = one.source;
                continue;
            }
            return match operation.operand {
                Some(Operand::Slot { slot, offset: 0 }) => {
                    self.environment.arrays[slot].then_some(slot)
                }
                _ => None,
            };
        }
        None
    }
}
