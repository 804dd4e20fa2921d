//! Loads, stores and atomic operations, and the addresses of maps and sections.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::Translation;
use crate::context::Context;
use crate::instruction::{Instruction, atomic, mode};
use crate::link::{Operand, Operation};

/// A page of addresses that contains no objects: pointers into it are null pointers with the offset of a member added.
pub(super) const NULL_PAGE: i64 = 4096;

impl Translation<'_, '_> {
    /// The value of a 16-byte load.
    pub(super) fn wide(&mut self, operation: &Operation) -> Value {
        match operation.operand {
            Some(Operand::Slot { slot, offset }) => {
                let base = self.slot(slot);
                let offset = self.number(offset.cast_signed());
                self.builder.ins().iadd(base, offset)
            }
            Some(Operand::Function(function)) => {
                let function = (self.callees)(function);
                self.builder.ins().func_addr(types::I64, function)
            }
            Some(Operand::Constant(value)) => self.number(value.cast_signed()),
            Some(Operand::Address { within, address }) => self.address_in(within, address),
            _ => self.number(0),
        }
    }

    /// The address in a slot.
    pub(super) fn slot(&mut self, slot: usize) -> Value {
        let slots = self.load_constant_context(offset_of!(Context, slots));
        let constant = plain().with_readonly().with_can_move();
        let index = self.number((slot * 8) as i64);
        let place = self.builder.ins().iadd(slots, index);
        self.builder.ins().load(types::I64, constant, place, 0)
    }

    pub(super) fn load(&mut self, operation: &Operation) {
        let one = operation.instruction;
        let (mut base, mut offset) = self.address(one.source, one.offset);
        if operation.kernel_load {
            // The choice depends only on the pointer, so that all loads through it share the choice. Only an offset outside the page of zeros
            // is added first.
            if !(0..NULL_PAGE as i32).contains(&offset) {
                let distance = self.number(i64::from(offset));
                base = self.builder.ins().iadd(base, distance);
                offset = 0;
            }
            let page = self.number(NULL_PAGE);
            let null = self.builder.ins().icmp(IntCC::UnsignedLessThan, base, page);
            let zeros = self.load_constant_context(offset_of!(Context, null_page));
            base = self.builder.ins().select(null, zeros, base);
        }
        let ins = self.builder.ins();
        let value = match (one.access_size(), one.mode()) {
            (1, mode::MEMSX) => ins.sload8(types::I64, plain(), base, offset),
            (2, mode::MEMSX) => ins.sload16(types::I64, plain(), base, offset),
            (4, mode::MEMSX) => ins.sload32(plain(), base, offset),
            (1, _) => ins.uload8(types::I64, plain(), base, offset),
            (2, _) => ins.uload16(types::I64, plain(), base, offset),
            (4, _) => ins.uload32(plain(), base, offset),
            _ => ins.load(types::I64, plain(), base, offset),
        };
        self.write(one.destination, value);
    }

    pub(super) fn store(&mut self, one: Instruction, value: Value) {
        let (base, offset) = self.address(one.destination, one.offset);
        let value = self.narrow(value, access_type(one.access_size()));
        self.builder.ins().store(plain(), value, base, offset);
    }

    /// Atomic operations are plain ones: one thread runs a simulation.
    pub(super) fn atomic(&mut self, one: Instruction) {
        let size = access_type(one.access_size());
        if one.immediate == atomic::LOAD_ACQUIRE {
            let (base, offset) = self.address(one.source, one.offset);
            let value = self.builder.ins().load(size, plain(), base, offset);
            let value = self.widen(value, size);
            self.write(one.destination, value);
            return;
        }
        let operand = self.read(one.source);
        let operand = self.narrow(operand, size);
        let (base, offset) = self.address(one.destination, one.offset);
        if one.immediate == atomic::STORE_RELEASE {
            self.builder.ins().store(plain(), operand, base, offset);
            return;
        }
        let old = self.builder.ins().load(size, plain(), base, offset);
        let new = match one.immediate & !atomic::FETCH {
            atomic::ADD => self.builder.ins().iadd(old, operand),
            atomic::OR => self.builder.ins().bor(old, operand),
            atomic::AND => self.builder.ins().band(old, operand),
            atomic::XOR => self.builder.ins().bxor(old, operand),
            _ if one.immediate == atomic::XCHG => operand,
            _ => {
                let expected = self.read(0);
                let expected = self.narrow(expected, size);
                let equal = self.builder.ins().icmp(IntCC::Equal, old, expected);
                self.builder.ins().select(equal, operand, old)
            }
        };
        self.builder.ins().store(plain(), new, base, offset);
        let old = self.widen(old, size);
        if one.immediate == atomic::CMPXCHG {
            self.write(0, old);
        } else if one.immediate & atomic::FETCH != 0 {
            self.write(one.source, old);
        }
    }
}

/// The program's own accesses: aligned or not, and never trapping.
pub(super) fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

fn access_type(size: u8) -> Type {
    match size {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}
