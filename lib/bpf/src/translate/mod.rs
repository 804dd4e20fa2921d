//! Translation of one function to Cranelift's intermediate language.

mod arithmetic;
mod control;
mod guard;
mod inline;
mod memory;

use std::mem::offset_of;

use cranelift_codegen::ir::{
    AliasRegion, AliasRegionData, Block, ExternalName, FuncRef, GlobalValueData, InstBuilder,
    MemFlagsData, SigRef, SourceLoc, Type, UserExternalNameRef, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};

use self::memory::plain;
use crate::blocks::beginnings;
use crate::context::Context;
use crate::frame::Frame;
use crate::instruction::{FRAME_POINTER, class, mode};
use crate::link::{Base, Linked, Operand, Operation};

/// The parts that functions of one object share.
pub(crate) struct Environment<'a> {
    /// Address of [`crate::Linker::runaway`].
    pub runaway: u64,
    /// Address of [`crate::Linker::unavailable`].
    pub unavailable: u64,
    /// Address of [`crate::Linker::stray`].
    pub stray: u64,
    /// Which functions of the object may end early.
    pub may_stop: &'a [bool],
    /// For each operation that needs a name that the linker lacks, or that is checked: place and length of a text on the fault.
    pub problems: &'a [(u64, usize)],
    /// Which slots have a map that is an array, also one for each CPU.
    pub arrays: &'a [bool],
    /// Where the configuration values are.
    pub kconfig: u64,
    /// The name of a [`Base`] in the function.
    pub bases: &'a dyn Fn(Base) -> UserExternalNameRef,
}

/// A place in this program from which its functions and variables are always equally far.
pub(crate) fn program() -> u64 {
    static PLACE: u8 = 0;
    &raw const PLACE as u64
}

/// How often `may_goto` may be taken in one call of a function.
const MAY_GOTO_LIMIT: i64 = 8 * 1024 * 1024;

/// Translates a function. `signatures` are those of natives with 0 to 5 arguments, `callees` resolves functions of the object.
pub(crate) fn translate(
    builder: &mut FunctionBuilder<'_>,
    environment: &Environment<'_>,
    linked: &Linked,
    signatures: [SigRef; 6],
    callees: &dyn Fn(usize) -> FuncRef,
) {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).to_vec();
    let context_region = builder
        .func
        .dfg
        .alias_regions
        .insert(AliasRegionData { user_id: 0, description: "context".into() });
    let registers: Vec<Variable> =
        (0..FRAME_POINTER).map(|_| builder.declare_var(types::I64)).collect();
    let zero = builder.ins().iconst(types::I64, 0);
    for (number, &register) in registers.iter().enumerate() {
        let value = match number {
            1..=5 => parameters[number],
            _ => zero,
        };
        builder.def_var(register, value);
    }
    let frame = Frame::of(&linked.operations, |at| linked.flow.reachable[at]);
    let count = builder.declare_var(types::I64);
    let may_goto = builder.declare_var(types::I64);
    let limit = builder.ins().iconst(types::I64, MAY_GOTO_LIMIT);
    builder.def_var(may_goto, limit);
    let mut translation = Translation {
        builder,
        environment,
        linked,
        signatures,
        callees,
        context: parameters[0],
        context_region,
        registers,
        frame,
        stack: None,
        count,
        may_goto,
        origins: Vec::new(),
        blocks: Vec::new(),
        stop: None,
    };
    translation.declare_origins();
    translation.take_count();
    translation.take_stack();
    translation.clear_frame();
    translation.create_blocks();
    translation.translate_all();
    translation.builder.seal_all_blocks();
}

struct Translation<'a, 'b> {
    builder: &'a mut FunctionBuilder<'b>,
    environment: &'a Environment<'a>,
    linked: &'a Linked,
    signatures: [SigRef; 6],
    callees: &'a dyn Fn(usize) -> FuncRef,
    context: Value,
    context_region: AliasRegion,
    registers: Vec<Variable>,
    frame: Frame,
    /// The end of the function's stack, r10, if it has one.
    stack: Option<Value>,
    /// [`Context::instructions`] between calls: blocks count in a register, not in memory.
    count: Variable,
    may_goto: Variable,
    /// The results of calls that accesses are checked against, by instruction.
    origins: Vec<(usize, Variable)>,
    /// The block that starts at an instruction.
    blocks: Vec<Option<Block>>,
    /// The block that returns 0.
    stop: Option<Block>,
}

impl Translation<'_, '_> {
    /// Programs may read stack memory that they never wrote: make it the same in every run.
    fn clear_frame(&mut self) {
        let Some(top) = self.stack else { return };
        let used = i32::from(self.frame.used);
        let zero = self.number(0);
        let zeros = self.builder.ins().splat(types::I64X2, zero);
        for offset in (-used..0).step_by(16) {
            self.builder.ins().store(plain(), zeros, top, offset);
        }
    }

    fn create_blocks(&mut self) {
        let reachable = &self.linked.flow.reachable;
        let begins = beginnings(&self.linked.operations, |at| reachable[at]);
        let leaders = begins.iter().zip(reachable).map(|(&begins, &is_there)| begins && is_there);
        self.blocks = leaders.map(|one| one.then(|| self.builder.create_block())).collect();
    }

    fn translate_all(&mut self) {
        let linked = self.linked;
        // Whether the current block still needs an end.
        let mut open = true;
        for (at, operation) in linked.operations.iter().enumerate() {
            if !linked.flow.reachable[at] {
                continue;
            }
            self.builder.set_srcloc(SourceLoc::new(at as u32));
            if let Some(block) = self.blocks[at] {
                if open {
                    self.builder.ins().jump(block, &[]);
                }
                self.builder.switch_to_block(block);
                self.count(at);
            }
            open = self.translate_one(at, operation);
        }
        if let Some(stop) = self.stop {
            self.builder.switch_to_block(stop);
            self.give_back_stack();
            let zero = self.number(0);
            self.builder.ins().return_(&[zero]);
        }
    }

    /// Adds the instructions of the block that starts here to the count.
    fn count(&mut self, start: usize) {
        let operations = &self.linked.operations;
        let mut count = 0;
        let mut at = start;
        while at < operations.len() && (at == start || self.blocks[at].is_none()) {
            count += 1;
            let one = operations[at].instruction;
            if operations[at].ends_function() || operations[at].target.is_some() {
                break;
            }
            at += if one.is_wide() { 2 } else { 1 };
        }
        self.count_more(count);
    }

    /// Adds to the count.
    fn count_more(&mut self, instructions: i64) {
        let (old, added) = (self.builder.use_var(self.count), self.number(instructions));
        let new = self.builder.ins().iadd(old, added);
        self.builder.def_var(self.count, new);
    }

    /// Goes on with the count that the context has.
    fn take_count(&mut self) {
        let count = self.load_context(offset_of!(Context, instructions));
        self.builder.def_var(self.count, count);
    }

    /// Lets others see the count.
    fn give_back_count(&mut self) {
        let count = self.builder.use_var(self.count);
        self.store_context(offset_of!(Context, instructions), count);
    }

    /// Returns r0 from the function.
    fn return_result(&mut self) {
        self.give_back_count();
        self.give_back_stack();
        let result = self.read(0);
        self.builder.ins().return_(&[result]);
    }

    fn context_flags(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.context_region))
    }

    /// The field of the context at this offset.
    fn load_context(&mut self, offset: usize) -> Value {
        self.load_context_with(self.context_flags(), offset)
    }

    /// The same for a field that does not change while code runs.
    fn load_constant_context(&mut self, offset: usize) -> Value {
        let flags = self.context_flags().with_readonly().with_can_move();
        self.load_context_with(flags, offset)
    }

    fn load_context_with(&mut self, flags: MemFlagsData, offset: usize) -> Value {
        self.builder.ins().load(types::I64, flags, self.context, offset as i32)
    }

    fn store_context(&mut self, offset: usize, value: Value) {
        let flags = self.context_flags();
        self.builder.ins().store(flags, value, self.context, offset as i32);
    }

    fn number(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// An address that is only known when the code is loaded.
    fn address_in(&mut self, base: Base, address: u64) -> Value {
        let start = match base {
            Base::Program => program(),
            Base::Kconfig => self.environment.kconfig,
            Base::Problems => 0,
        };
        // Each use has its own, so that no register keeps it from one use to the next.
        let symbol = self.builder.create_global_value(GlobalValueData::Symbol {
            name: ExternalName::user((self.environment.bases)(base)),
            offset: address.wrapping_sub(start).cast_signed().into(),
            colocated: false,
            tls: false,
        });
        self.builder.ins().symbol_value(types::I64, symbol)
    }

    /// The value of a register.
    fn read(&mut self, register: u8) -> Value {
        match self.registers.get(usize::from(register)) {
            Some(&variable) => self.builder.use_var(variable),
            None => self.stack_end(),
        }
    }

    fn write(&mut self, register: u8, value: Value) {
        // r10 is never written; linking checks that.
        if let Some(&variable) = self.registers.get(usize::from(register)) {
            self.builder.def_var(variable, value);
        }
    }

    /// r10. A function that reads it has a stack, as [`Frame`] has found out.
    fn stack_end(&mut self) -> Value {
        match self.stack {
            Some(top) => top,
            None => self.number(0),
        }
    }

    /// The address register and offset of a memory access.
    fn address(&mut self, register: u8, offset: i16) -> (Value, i32) {
        (self.read(register), i32::from(offset))
    }

    /// Translates one instruction; returns whether control continues at the next.
    fn translate_one(&mut self, at: usize, operation: &Operation) -> bool {
        let one = operation.instruction;
        if matches!(operation.operand, Some(Operand::Absent { .. })) {
            self.unavailable(at);
            if operation.ends_function() {
                return false;
            }
            // Nothing leads to the code that follows.
            let next = self.builder.create_block();
            self.builder.switch_to_block(next);
            return true;
        }
        self.guard(at, one);
        if self.may_be_null_in_arena(at) {
            self.access_arena(at, one, |this| _ = this.carry_out(at, operation));
            return true;
        }
        self.carry_out(at, operation)
    }

    /// Translates one instruction without the checks before it; returns whether control continues at the next.
    fn carry_out(&mut self, at: usize, operation: &Operation) -> bool {
        let one = operation.instruction;
        match one.class() {
            class::LD => {
                let value = self.wide(operation);
                self.write(one.destination, value);
            }
            class::LDX => self.load(operation),
            class::ST => {
                let value = self.number(i64::from(one.immediate));
                self.store(one, value);
            }
            class::STX if one.mode() == mode::ATOMIC => self.atomic(one),
            class::STX => {
                let value = self.read(one.source);
                self.store(one, value);
            }
            class::ALU | class::ALU64 => {
                let value = self.arithmetic(one);
                self.write(one.destination, value);
            }
            _ if one.is_exit() => {
                self.return_result();
                return false;
            }
            _ if one.is_call() => self.call(at, operation),
            _ => {
                self.jump(at, operation);
                return false;
            }
        }
        true
    }

    fn narrow(&mut self, value: Value, to: Type) -> Value {
        if to == types::I64 { value } else { self.builder.ins().ireduce(to, value) }
    }

    fn widen(&mut self, value: Value, from: Type) -> Value {
        if from == types::I64 { value } else { self.builder.ins().uextend(types::I64, value) }
    }
}
