//! Arithmetic, moves and byte order.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::Translation;
use crate::context::Context;
use crate::instruction::{ADDRESS_SPACE_CAST, Instruction, alu, class};

impl Translation<'_, '_> {
    pub(super) fn arithmetic(&mut self, one: Instruction) -> Value {
        let wide = one.class() == class::ALU64;
        let size = if wide { types::I64 } else { types::I32 };
        let operation = one.operation();
        if operation == alu::END {
            return self.byte_swap(one);
        }
        let right = if one.uses_register() && operation != alu::NEG {
            let value = self.read(one.source);
            self.narrow(value, size)
        } else if wide {
            self.number(i64::from(one.immediate))
        } else {
            let immediate = i64::from(one.immediate.cast_unsigned());
            self.builder.ins().iconst(types::I32, immediate)
        };
        let value = if operation == alu::MOV {
            self.moved(one, right, size)
        } else {
            let left = self.read(one.destination);
            let left = self.narrow(left, size);
            let ins = self.builder.ins();
            match operation {
                alu::ADD => ins.iadd(left, right),
                alu::SUB => ins.isub(left, right),
                alu::MUL => ins.imul(left, right),
                alu::OR => ins.bor(left, right),
                alu::AND => ins.band(left, right),
                alu::XOR => ins.bxor(left, right),
                alu::LSH => ins.ishl(left, right),
                alu::RSH => ins.ushr(left, right),
                alu::ARSH => ins.sshr(left, right),
                alu::NEG => ins.ineg(left),
                _ => self.divide(one, left, right, size),
            }
        };
        self.widen(value, size)
    }

    /// Division never traps: division by zero yields 0, with the dividend as remainder; the one quotient that overflows wraps around.
    fn divide(&mut self, one: Instruction, left: Value, right: Value, size: Type) -> Value {
        let signed = one.offset == 1;
        let remainder = one.operation() == alu::MOD;
        let constant = (!one.uses_register()).then_some(one.immediate);
        let is_plain = match constant {
            Some(0) => return if remainder { left } else { self.zero(size) },
            Some(-1) => !signed,
            Some(_) => true,
            None => false,
        };
        if is_plain {
            return self.divide_plainly(left, right, signed, remainder);
        }
        let (zero, unit) = (self.zero(size), self.builder.ins().iconst(size, 1));
        let by_zero = self.builder.ins().icmp(IntCC::Equal, right, zero);
        let mut divisor = self.builder.ins().select(by_zero, unit, right);
        let mut by_minus_one = None;
        if signed {
            let minus_one = self.builder.ins().bnot(zero);
            let condition = self.builder.ins().icmp(IntCC::Equal, right, minus_one);
            divisor = self.builder.ins().select(condition, unit, divisor);
            by_minus_one = Some(condition);
        }
        let result = self.divide_plainly(left, divisor, signed, remainder);
        if remainder {
            // With the divisor 1 in place of -1, the remainder is already 0.
            return self.builder.ins().select(by_zero, left, result);
        }
        let result = match by_minus_one {
            Some(condition) => {
                let negated = self.builder.ins().ineg(left);
                self.builder.ins().select(condition, negated, result)
            }
            None => result,
        };
        self.builder.ins().select(by_zero, zero, result)
    }

    fn divide_plainly(
        &mut self,
        left: Value,
        right: Value,
        signed: bool,
        remainder: bool,
    ) -> Value {
        let ins = self.builder.ins();
        match (signed, remainder) {
            (false, false) => ins.udiv(left, right),
            (false, true) => ins.urem(left, right),
            (true, false) => ins.sdiv(left, right),
            (true, true) => ins.srem(left, right),
        }
    }

    fn zero(&mut self, size: Type) -> Value {
        self.builder.ins().iconst(size, 0)
    }

    fn moved(&mut self, one: Instruction, value: Value, size: Type) -> Value {
        let from = match one.offset {
            ADDRESS_SPACE_CAST => return self.cast_address_space(one, value),
            8 => types::I8,
            16 => types::I16,
            32 => types::I32,
            _ => return value,
        };
        let narrow = self.builder.ins().ireduce(from, value);
        self.builder.ins().sextend(size, narrow)
    }

    /// Casts an arena pointer between its kernel and its user form.
    fn cast_address_space(&mut self, one: Instruction, value: Value) -> Value {
        let offset = if one.immediate == 1 {
            offset_of!(Context, arena)
        } else {
            offset_of!(Context, arena_user)
        };
        let base = self.load_constant_context(offset);
        let low = self.builder.ins().ireduce(types::I32, value);
        let low = self.builder.ins().uextend(types::I64, low);
        let cast = self.builder.ins().iadd(base, low);
        // The null pointer is null in both forms.
        let zero = self.number(0);
        let null = self.builder.ins().icmp(IntCC::Equal, low, zero);
        self.builder.ins().select(null, zero, cast)
    }

    fn byte_swap(&mut self, one: Instruction) -> Value {
        let value = self.read(one.destination);
        let size = match one.immediate {
            16 => types::I16,
            32 => types::I32,
            _ => types::I64,
        };
        let narrow = self.narrow(value, size);
        // Conversion to little-endian swaps nothing, because the model is a little-endian machine. The unconditional swap is a 64-bit instruction.
        let swaps = one.class() == class::ALU64 || one.uses_register();
        let swapped = if swaps { self.builder.ins().bswap(narrow) } else { narrow };
        self.widen(swapped, size)
    }
}
