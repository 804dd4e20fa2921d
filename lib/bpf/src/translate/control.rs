//! Jumps, calls, and how a function is stopped.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::Translation;
use crate::context::Context;
use crate::instruction::{Instruction, class, jump};
use crate::link::{Base, Operand, Operation};

impl Translation<'_, '_> {
    pub(super) fn jump(&mut self, at: usize, operation: &Operation) {
        let one = operation.instruction;
        // For reachable jumps, both targets have blocks.
        let (Some(target), decided) = (operation.target, self.linked.flow.decided[at]) else {
            return;
        };
        let next = self.blocks.get(at + 1).copied().flatten();
        if decided == Some(false) {
            if let Some(next) = next {
                self.builder.ins().jump(next, &[]);
            }
            return;
        }
        let Some(block) = self.blocks[target] else { return };
        // A jump back goes through a check of the limit.
        let is_back_edge = target <= at;
        let taken = if is_back_edge { self.builder.create_block() } else { block };
        match (decided, next) {
            (None, Some(next)) => {
                let condition = self.condition(one);
                self.builder.ins().brif(condition, taken, &[], next, &[]);
            }
            _ => {
                self.builder.ins().jump(taken, &[]);
            }
        }
        if is_back_edge {
            self.builder.switch_to_block(taken);
            self.check_limit(at, block);
        }
    }

    /// Whether a conditional jump is taken.
    fn condition(&mut self, one: Instruction) -> Value {
        if one.operation() == jump::JCOND {
            // The jump leaves the loop: it is taken when no iterations are left.
            let left = self.builder.use_var(self.may_goto);
            let zero = self.number(0);
            let unit = self.number(1);
            let exhausted = self.builder.ins().icmp(IntCC::Equal, left, zero);
            let fewer = self.builder.ins().isub(left, unit);
            let fewer = self.builder.ins().select(exhausted, left, fewer);
            self.builder.def_var(self.may_goto, fewer);
            return exhausted;
        }
        let size = if one.class() == class::JMP32 { types::I32 } else { types::I64 };
        let left = self.read(one.destination);
        let left = self.narrow(left, size);
        let right = if one.uses_register() {
            let value = self.read(one.source);
            self.narrow(value, size)
        } else if size == types::I32 {
            let immediate = i64::from(one.immediate.cast_unsigned());
            self.builder.ins().iconst(types::I32, immediate)
        } else {
            self.number(i64::from(one.immediate))
        };
        let comparison = match one.operation() {
            jump::JSET => return self.builder.ins().band(left, right),
            jump::JEQ => IntCC::Equal,
            jump::JNE => IntCC::NotEqual,
            jump::JGT => IntCC::UnsignedGreaterThan,
            jump::JGE => IntCC::UnsignedGreaterThanOrEqual,
            jump::JLT => IntCC::UnsignedLessThan,
            jump::JLE => IntCC::UnsignedLessThanOrEqual,
            jump::JSGT => IntCC::SignedGreaterThan,
            jump::JSGE => IntCC::SignedGreaterThanOrEqual,
            jump::JSLT => IntCC::SignedLessThan,
            _ => IntCC::SignedLessThanOrEqual,
        };
        self.builder.ins().icmp(comparison, left, right)
    }

    /// Takes a stack for this function from the context's.
    pub(super) fn take_stack(&mut self) {
        if self.frame.size() == 0 {
            return;
        }
        let place = offset_of!(Context, stack);
        let top = self.load_context(place);
        let size = self.number(-i64::from(self.frame.size()));
        let bottom = self.builder.ins().iadd(top, size);
        self.store_context(place, bottom);
        self.stack = Some(top);
    }

    /// Returns this function's stack to the context's.
    pub(super) fn give_back_stack(&mut self) {
        if let Some(top) = self.stack {
            self.store_context(offset_of!(Context, stack), top);
        }
    }

    /// Continues at `target` unless too many instructions have been executed.
    fn check_limit(&mut self, at: usize, target: Block) {
        let instructions = self.builder.use_var(self.count);
        let limit = self.load_limit();
        let exceeded = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, instructions, limit);
        let runaway = self.builder.create_block();
        self.builder.set_cold_block(runaway);
        self.builder.ins().brif(exceeded, runaway, &[], target, &[]);
        self.builder.switch_to_block(runaway);
        self.give_back_count();
        // A limit of 0 means that the runaway has been reported.
        let report = self.builder.create_block();
        self.builder.set_cold_block(report);
        let stop = self.stop_block();
        self.builder.ins().brif(limit, report, &[], stop, &[]);
        self.builder.switch_to_block(report);
        let place = self.place(at);
        self.call_native(self.environment.runaway, &[place]);
        self.stop_everything();
    }

    fn load_limit(&mut self) -> Value {
        self.load_context(offset_of!(Context, instruction_limit))
    }

    /// Ends this function; the others that are running end at their next loop or return from a call.
    fn stop_everything(&mut self) {
        let zero = self.number(0);
        self.store_context(offset_of!(Context, instruction_limit), zero);
        let stop = self.stop_block();
        self.builder.ins().jump(stop, &[]);
    }

    fn stop_block(&mut self) -> Block {
        *self.stop.get_or_insert_with(|| {
            let block = self.builder.create_block();
            self.builder.set_cold_block(block);
            block
        })
    }

    fn call_native(&mut self, address: u64, arguments: &[Value]) -> Value {
        let callee = self.address_in(Base::Program, address);
        let mut all = vec![self.context];
        all.extend(arguments);
        let signature = self.signatures[arguments.len()];
        self.give_back_count();
        let call = self.builder.ins().call_indirect(signature, callee, &all);
        self.take_count();
        self.builder.inst_results(call)[0]
    }

    /// Reports the missing name and its place, and ends the program.
    pub(super) fn unavailable(&mut self, at: usize) {
        self.report(self.environment.unavailable, at);
    }

    /// Reports to `receiver` the fault and its place, and ends the program.
    pub(super) fn report(&mut self, receiver: u64, at: usize) {
        let (address, length) = self.environment.problems[at];
        let address = self.address_in(Base::Problems, address);
        let length = self.number(length as i64);
        let place = self.place(at);
        self.call_native(receiver, &[address, length, place]);
        self.stop_everything();
    }

    /// The token for the place of an instruction.
    pub(super) fn place(&mut self, at: usize) -> Value {
        self.number(((self.linked.function as i64) << 32) | at as i64)
    }

    /// Translates a call.
    pub(super) fn call(&mut self, at: usize, operation: &Operation) {
        let (result, may_stop) = match operation.operand {
            Some(Operand::Function(function)) => {
                let callee = (self.callees)(function);
                let mut all = vec![self.context];
                all.extend([1, 2, 3, 4, 5].map(|register| self.read(register)));
                self.give_back_count();
                let call = self.builder.ins().call(callee, &all);
                self.take_count();
                let may_stop = self.environment.may_stop[function];
                (self.builder.inst_results(call)[0], may_stop)
            }
            Some(Operand::Native(native)) => {
                let result = self.inline(at, native);
                let result = result.unwrap_or_else(|| {
                    let registers = 1..=native.arguments as u8;
                    let arguments: Vec<Value> = registers.map(|one| self.read(one)).collect();
                    self.call_native(native.address as u64, &arguments)
                });
                (result, operation.calls_back())
            }
            // Linking has refused all other calls.
            _ => (self.number(0), false),
        };
        self.write(0, result);
        self.keep_origin(at, result);
        // A call clobbers its argument registers: nothing need preserve them.
        let zero = self.number(0);
        for register in 1..=5 {
            self.write(register, zero);
        }
        if may_stop {
            let limit = self.load_limit();
            let next = self.builder.create_block();
            let stop = self.stop_block();
            self.builder.ins().brif(limit, next, &[], stop, &[]);
            self.builder.switch_to_block(next);
        }
    }
}
