//! Checks of accesses about which too little was known when the object was loaded.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::Translation;
use super::memory::{NULL_PAGE, plain};
use crate::check::{Guard, Origin};
use crate::context::Context;
use crate::instruction::{Instruction, atomic, class, mode};

impl Translation<'_, '_> {
    /// Prepares to keep the results of calls that accesses are checked against.
    pub(super) fn declare_origins(&mut self) {
        let linked = self.linked;
        for check in linked.checks.iter().flatten() {
            let Guard::Within { origin: Origin::Call(at), .. } = check.guard else { continue };
            if self.origin(at).is_none() {
                let variable = self.builder.declare_var(types::I64);
                let zero = self.number(0);
                self.builder.def_var(variable, zero);
                self.origins.push((at, variable));
            }
        }
    }

    fn origin(&self, at: usize) -> Option<cranelift_frontend::Variable> {
        self.origins.iter().find(|origin| origin.0 == at).map(|origin| origin.1)
    }

    /// Keeps the result of a call.
    pub(super) fn keep_origin(&mut self, at: usize, result: Value) {
        if let Some(variable) = self.origin(at) {
            self.builder.def_var(variable, result);
        }
    }

    /// Ends the program with an error if an access is out of place.
    pub(super) fn guard(&mut self, at: usize, one: Instruction) {
        let Some(check) = &self.linked.checks[at] else { return };
        let loads = one.class() == class::LDX
            || one.mode() == mode::ATOMIC && one.immediate == atomic::LOAD_ACQUIRE;
        let register = if loads { one.source } else { one.destination };
        let (base, offset) = self.address(register, one.offset);
        let strays = match check.guard {
            // Done with the access itself.
            Guard::Arena => return,
            Guard::NotNull => {
                let page = self.number(NULL_PAGE);
                self.builder.ins().icmp(IntCC::UnsignedLessThan, base, page)
            }
            Guard::Within { origin, start, last } => {
                let (begin, room) = self.bounds(origin, one, start, last);
                let distance = self.builder.ins().isub(base, begin);
                let moved = self.number(i64::from(offset) - start);
                let distance = self.builder.ins().iadd(distance, moved);
                self.builder.ins().icmp(IntCC::UnsignedGreaterThan, distance, room)
            }
        };
        let report = self.builder.create_block();
        self.builder.set_cold_block(report);
        let next = self.builder.create_block();
        self.builder.ins().brif(strays, report, &[], next, &[]);
        self.builder.switch_to_block(report);
        self.report(self.environment.stray, at);
        self.builder.switch_to_block(next);
    }

    /// Whether an access needs to be kept from a null pointer into the arena.
    pub(super) fn may_be_null_in_arena(&self, at: usize) -> bool {
        let check = self.linked.checks[at].as_ref();
        check.is_some_and(|check| check.guard == Guard::Arena)
    }

    /// Carries out an access through a pointer into the arena. As in a kernel, where the instruction faults and is skipped, one through a null
    /// pointer does nothing, and loads 0. The offset of a null pointer is below the size of an arena, and the arena lies above.
    pub(super) fn access_arena(
        &mut self,
        at: usize,
        one: Instruction,
        access: impl FnOnce(&mut Self),
    ) {
        let loads = one.class() == class::LDX
            || one.mode() == mode::ATOMIC && one.immediate == atomic::LOAD_ACQUIRE;
        let register = if loads { one.source } else { one.destination };
        let base = self.read(register);
        let limit = self.number(1 << 32);
        let is_null = self.builder.ins().icmp(IntCC::UnsignedLessThan, base, limit);
        let null = self.builder.create_block();
        self.builder.set_cold_block(null);
        let (there, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(is_null, null, &[], there, &[]);
        self.builder.switch_to_block(null);
        let count = self.load_context(offset_of!(Context, null_accesses));
        let one_more = self.number(1);
        let count = self.builder.ins().iadd(count, one_more);
        self.store_context(offset_of!(Context, null_accesses), count);
        let place = self.place(at);
        self.store_context(offset_of!(Context, null_access_place), place);
        if loads {
            let zero = self.number(0);
            self.write(one.destination, zero);
        }
        self.builder.ins().jump(next, &[]);
        self.builder.switch_to_block(there);
        access(self);
        self.builder.ins().jump(next, &[]);
        self.builder.switch_to_block(next);
    }

    /// Where an object begins, and how far from `start` an access to it may begin.
    fn bounds(
        &mut self,
        origin: Origin,
        one: Instruction,
        start: i64,
        last: i64,
    ) -> (Value, Value) {
        match origin {
            Origin::Slot(slot) => {
                let begin = self.slot(slot);
                let sizes = self.load_constant_context(offset_of!(Context, slot_sizes));
                let constant = plain().with_readonly().with_can_move();
                let place = i32::try_from(slot * 8).unwrap_or(0);
                let size = self.builder.ins().load(types::I64, constant, sizes, place);
                let less = self.number(-i64::from(one.access_size()));
                (begin, self.builder.ins().iadd(size, less))
            }
            Origin::Stack => (self.stack_end(), self.number(last - start)),
            Origin::Call(at) => {
                let begin = match self.origin(at) {
                    Some(variable) => self.builder.use_var(variable),
                    None => self.number(0),
                };
                (begin, self.number(last - start))
            }
        }
    }
}
