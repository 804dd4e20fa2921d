//! Translation of one function to Cranelift's intermediate language.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AliasRegion, AliasRegionData, Block, FuncRef, InstBuilder, MemFlagsData, SigRef, SourceLoc,
    StackSlot, StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};

use crate::constants::frame_size;
use crate::context::Context;
use crate::instruction::{
    ADDRESS_SPACE_CAST, FRAME_POINTER, Instruction, alu, atomic, class, jump, mode,
};
use crate::link::{Linked, Operand, Operation};

/// What functions of one object share.
pub(crate) struct Environment<'a> {
    /// Address of [`crate::Linker::runaway`].
    pub runaway: u64,
    /// Address of [`crate::Linker::unavailable`].
    pub unavailable: u64,
    /// Which functions of the object may end early.
    pub may_stop: &'a [bool],
    /// Names of external functions, at addresses that last as long as the code.
    pub extern_names: &'a [Box<str>],
}

/// A page of addresses that no object lies in: pointers into it are null
/// pointers, with the offset of a member added.
const NULL_PAGE: i64 = 4096;

/// How often `may_goto` may be taken in one call of a function.
const MAY_GOTO_LIMIT: i64 = 8 * 1024 * 1024;

/// What a load through a null pointer reads.
static ZERO: u64 = 0;

/// Translates a function. `callees` resolves functions of the object.
pub(crate) fn translate(
    builder: &mut FunctionBuilder<'_>,
    environment: &Environment<'_>,
    linked: &Linked,
    signature: SigRef,
    callees: &dyn Fn(usize) -> FuncRef,
) {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).to_vec();
    let context_region = builder.func.dfg.alias_regions.insert(AliasRegionData {
        user_id: 0,
        description: "context".into(),
    });
    let registers: Vec<Variable> = (0..FRAME_POINTER)
        .map(|_| builder.declare_var(types::I64))
        .collect();
    let zero = builder.ins().iconst(types::I64, 0);
    for (number, &register) in registers.iter().enumerate() {
        let value = match number {
            1..=5 => parameters[number],
            _ => zero,
        };
        builder.def_var(register, value);
    }
    let size = frame_size(&linked.operations);
    let frame = builder.create_sized_stack_slot(StackSlotData::new(
        StackSlotKind::ExplicitSlot,
        u32::from(size),
        4,
    ));
    let may_goto = builder.declare_var(types::I64);
    let limit = builder.ins().iconst(types::I64, MAY_GOTO_LIMIT);
    builder.def_var(may_goto, limit);
    let mut translation = Translation {
        builder,
        environment,
        linked,
        signature,
        callees,
        context: parameters[0],
        context_region,
        registers,
        frame,
        frame_size: size,
        may_goto,
        blocks: Vec::new(),
        stop: None,
    };
    translation.clear_frame();
    translation.create_blocks();
    translation.translate_all();
    translation.builder.seal_all_blocks();
}

struct Translation<'a, 'b> {
    builder: &'a mut FunctionBuilder<'b>,
    environment: &'a Environment<'a>,
    linked: &'a Linked,
    signature: SigRef,
    callees: &'a dyn Fn(usize) -> FuncRef,
    context: Value,
    context_region: AliasRegion,
    registers: Vec<Variable>,
    frame: StackSlot,
    frame_size: u16,
    may_goto: Variable,
    /// The block that starts at an instruction.
    blocks: Vec<Option<Block>>,
    /// The block that returns 0.
    stop: Option<Block>,
}

impl Translation<'_, '_> {
    /// Programs may read what they never wrote to their stack: let it be the
    /// same in every run.
    fn clear_frame(&mut self) {
        if self.frame_size == 0 {
            return;
        }
        let base = self.builder.ins().stack_addr(types::I64, self.frame, 0);
        let zero = self.number(0);
        let zeros = self.builder.ins().splat(types::I64X2, zero);
        for offset in (0..i32::from(self.frame_size)).step_by(16) {
            self.builder.ins().store(plain(), zeros, base, offset);
        }
    }

    fn create_blocks(&mut self) {
        let operations = &self.linked.operations;
        let mut leaders = vec![false; operations.len()];
        leaders[0] = true;
        for (at, operation) in operations.iter().enumerate() {
            let Some(target) = operation.target else {
                continue;
            };
            if self.linked.flow.reachable[at] {
                leaders[target] = true;
                if let Some(leader) = leaders.get_mut(at + 1) {
                    *leader = true;
                }
            }
        }
        self.blocks = leaders
            .iter()
            .zip(&self.linked.flow.reachable)
            .map(|(&leader, &reachable)| (leader && reachable).then(|| self.builder.create_block()))
            .collect();
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
        let flags = self.context_flags();
        let offset = offset_of!(Context, instructions) as i32;
        let old = self
            .builder
            .ins()
            .load(types::I64, flags, self.context, offset);
        let added = self.number(count);
        let new = self.builder.ins().iadd(old, added);
        self.builder.ins().store(flags, new, self.context, offset);
    }

    fn context_flags(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.context_region))
    }

    fn number(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// The value of a register.
    fn read(&mut self, register: u8) -> Value {
        match self.registers.get(usize::from(register)) {
            Some(&variable) => self.builder.use_var(variable),
            None => self.frame_address(0),
        }
    }

    fn write(&mut self, register: u8, value: Value) {
        // r10 is never written: linking checks it.
        if let Some(&variable) = self.registers.get(usize::from(register)) {
            self.builder.def_var(variable, value);
        }
    }

    /// r10 plus an offset.
    fn frame_address(&mut self, offset: i16) -> Value {
        let offset = i32::from(self.frame_size) + i32::from(offset);
        self.builder
            .ins()
            .stack_addr(types::I64, self.frame, offset)
    }

    /// The address register and offset of a memory access.
    fn address(&mut self, register: u8, offset: i16) -> (Value, i32) {
        if register == FRAME_POINTER {
            (self.frame_address(offset), 0)
        } else {
            (self.read(register), i32::from(offset))
        }
    }

    /// Translates one instruction; returns whether control goes on to the next.
    fn translate_one(&mut self, at: usize, operation: &Operation) -> bool {
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
                let result = self.read(0);
                self.builder.ins().return_(&[result]);
                return false;
            }
            _ if one.is_call() => return self.call(operation),
            _ => {
                self.jump(at, operation);
                return false;
            }
        }
        true
    }

    /// The value of a 16-byte load.
    fn wide(&mut self, operation: &Operation) -> Value {
        match operation.operand {
            Some(Operand::Slot { slot, offset }) => {
                let flags = self.context_flags().with_readonly().with_can_move();
                let slots_offset = offset_of!(Context, slots) as i32;
                let slots = self
                    .builder
                    .ins()
                    .load(types::I64, flags, self.context, slots_offset);
                let constant = plain().with_readonly().with_can_move();
                let index = self.number((slot * 8) as i64);
                let place = self.builder.ins().iadd(slots, index);
                let base = self.builder.ins().load(types::I64, constant, place, 0);
                let offset = self.number(offset.cast_signed());
                self.builder.ins().iadd(base, offset)
            }
            Some(Operand::Function(function)) => {
                let function = (self.callees)(function);
                self.builder.ins().func_addr(types::I64, function)
            }
            Some(Operand::Constant(value)) => self.number(value.cast_signed()),
            _ => self.number(0),
        }
    }

    fn load(&mut self, operation: &Operation) {
        let one = operation.instruction;
        let (mut base, mut offset) = self.address(one.source, one.offset);
        if operation.kernel_load {
            let page = self.number(NULL_PAGE);
            let null = self.builder.ins().icmp(IntCC::UnsignedLessThan, base, page);
            let distance = self.number(i64::from(offset));
            let address = self.builder.ins().iadd(base, distance);
            let zero = self.number((&raw const ZERO) as i64);
            base = self.builder.ins().select(null, zero, address);
            offset = 0;
        }
        let size = access_type(one.access_size());
        let value = self.builder.ins().load(size, plain(), base, offset);
        let value = match (one.access_size(), one.mode()) {
            (8, _) => value,
            (_, mode::MEMSX) => self.builder.ins().sextend(types::I64, value),
            _ => self.builder.ins().uextend(types::I64, value),
        };
        self.write(one.destination, value);
    }

    fn store(&mut self, one: Instruction, value: Value) {
        let (base, offset) = self.address(one.destination, one.offset);
        let value = self.narrow(value, access_type(one.access_size()));
        self.builder.ins().store(plain(), value, base, offset);
    }

    fn narrow(&mut self, value: Value, to: Type) -> Value {
        if to == types::I64 {
            value
        } else {
            self.builder.ins().ireduce(to, value)
        }
    }

    fn widen(&mut self, value: Value, from: Type) -> Value {
        if from == types::I64 {
            value
        } else {
            self.builder.ins().uextend(types::I64, value)
        }
    }

    /// Atomic operations are plain ones: one thread runs a simulation.
    fn atomic(&mut self, one: Instruction) {
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

    fn arithmetic(&mut self, one: Instruction) -> Value {
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

    /// Division never traps: by zero it yields 0, and the remainder is the
    /// dividend; the one quotient that overflows wraps around.
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
            // With the divisor 1 in place of -1 the remainder is 0 already.
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
        let flags = self.context_flags().with_readonly().with_can_move();
        let base = self
            .builder
            .ins()
            .load(types::I64, flags, self.context, offset as i32);
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
        // To little-endian nothing is swapped: the model is a little-endian
        // machine. The unconditional swap is a 64-bit instruction.
        let swaps = one.class() == class::ALU64 || one.uses_register();
        let swapped = if swaps {
            self.builder.ins().bswap(narrow)
        } else {
            narrow
        };
        self.widen(swapped, size)
    }

    fn jump(&mut self, at: usize, operation: &Operation) {
        let one = operation.instruction;
        // Reachable jumps have both their ways in blocks.
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
        let Some(block) = self.blocks[target] else {
            return;
        };
        // A jump back goes through a check of the limit.
        let is_back_edge = target <= at;
        let taken = if is_back_edge {
            self.builder.create_block()
        } else {
            block
        };
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
            // The jump leaves the loop: it is taken when no turns are left.
            let left = self.builder.use_var(self.may_goto);
            let zero = self.number(0);
            let unit = self.number(1);
            let exhausted = self.builder.ins().icmp(IntCC::Equal, left, zero);
            let fewer = self.builder.ins().isub(left, unit);
            let fewer = self.builder.ins().select(exhausted, left, fewer);
            self.builder.def_var(self.may_goto, fewer);
            return exhausted;
        }
        let size = if one.class() == class::JMP32 {
            types::I32
        } else {
            types::I64
        };
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

    /// Goes on to `target` unless too many instructions have been executed.
    fn check_limit(&mut self, at: usize, target: Block) {
        let flags = self.context_flags();
        let instructions = self.builder.ins().load(
            types::I64,
            flags,
            self.context,
            offset_of!(Context, instructions) as i32,
        );
        let limit = self.load_limit();
        let exceeded = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, instructions, limit);
        let runaway = self.builder.create_block();
        self.builder.set_cold_block(runaway);
        self.builder.ins().brif(exceeded, runaway, &[], target, &[]);
        self.builder.switch_to_block(runaway);
        // A limit of 0 says that the runaway has been reported.
        let report = self.builder.create_block();
        self.builder.set_cold_block(report);
        let stop = self.stop_block();
        self.builder.ins().brif(limit, report, &[], stop, &[]);
        self.builder.switch_to_block(report);
        let place = self.number(((self.linked.function as i64) << 32) | at as i64);
        let zero = self.number(0);
        self.call_native(self.environment.runaway, [place, zero, zero, zero, zero]);
        self.stop_everything();
    }

    fn load_limit(&mut self) -> Value {
        let flags = self.context_flags();
        let offset = offset_of!(Context, instruction_limit) as i32;
        self.builder
            .ins()
            .load(types::I64, flags, self.context, offset)
    }

    /// Ends this function, and the others that run at their next loop or
    /// return from a call.
    fn stop_everything(&mut self) {
        let flags = self.context_flags();
        let zero = self.number(0);
        let offset = offset_of!(Context, instruction_limit) as i32;
        self.builder.ins().store(flags, zero, self.context, offset);
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

    fn call_native(&mut self, address: u64, arguments: [Value; 5]) -> Value {
        let callee = self.number(address.cast_signed());
        let mut all = vec![self.context];
        all.extend(arguments);
        let call = self
            .builder
            .ins()
            .call_indirect(self.signature, callee, &all);
        self.builder.inst_results(call)[0]
    }

    /// Translates a call; returns whether control goes on.
    fn call(&mut self, operation: &Operation) -> bool {
        let arguments = [1, 2, 3, 4, 5].map(|register| self.read(register));
        let (result, may_stop) = match operation.operand {
            Some(Operand::Function(function)) => {
                let callee = (self.callees)(function);
                let mut all = vec![self.context];
                all.extend(arguments);
                let call = self.builder.ins().call(callee, &all);
                let may_stop = self.environment.may_stop[function];
                (self.builder.inst_results(call)[0], may_stop)
            }
            Some(Operand::Native(address)) => {
                let result = self.call_native(address, arguments);
                (result, operation.calls_back())
            }
            Some(Operand::Unavailable(index)) => {
                let name = &self.environment.extern_names[index];
                let address = self.number(name.as_ptr() as i64);
                let length = self.number(name.len() as i64);
                let zero = self.number(0);
                let unavailable = self.environment.unavailable;
                self.call_native(unavailable, [address, length, zero, zero, zero]);
                self.stop_everything();
                return false;
            }
            // Linking has refused calls of anything else.
            _ => (self.number(0), false),
        };
        self.write(0, result);
        if may_stop {
            let limit = self.load_limit();
            let next = self.builder.create_block();
            let stop = self.stop_block();
            self.builder.ins().brif(limit, next, &[], stop, &[]);
            self.builder.switch_to_block(next);
        }
        true
    }
}

/// Accesses of the program's own: natively aligned or not, and never checked.
fn plain() -> MemFlagsData {
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
