//! The effect of calls.

use super::access::Access;
use super::state::{Held, State};
use super::value::{Null, Number, Offset, Pointer, Root, Target, Value};
use super::{Facts, Verdict};
use crate::btf::{Member, TypeId, TypeKind};
use crate::contract::{Argument, CallResult, Contract, Effect, Region};
use crate::link::{Linked, Operand, Operation};
use crate::linker::Linker;
use crate::maps::kind;
use crate::object::{ExternKind, Object, Reference};

/// A helper or kernel function that is called: its name, and its declaration if the object has one.
pub(super) struct Callee<'a> {
    name: &'a str,
    contract: Contract,
    returns: TypeId,
    parameters: &'a [(String, TypeId)],
}

impl Callee<'_> {
    /// Whether it acquires or releases something.
    pub(super) fn has_effect(&self) -> bool {
        self.contract.effect != Effect::None
    }
}

/// The helpers and kernel functions that a function calls, by instruction.
pub(super) fn callees<'a>(
    object: &'a Object,
    linker: &dyn Linker,
    linked: &Linked,
) -> Vec<Option<Callee<'a>>> {
    let function = &object.functions()[linked.function];
    let operations = linked.operations.iter().enumerate();
    operations
        .map(|(at, operation)| {
            let is_call = operation.instruction.is_call();
            match (is_call, function.reference(at)) {
                (true, Some(Reference::Extern { index, .. })) => {
                    kernel_function(object, linker, index)
                }
                (true, None) => helper(linker, operation.instruction.immediate.cast_unsigned()),
                _ => None,
            }
        })
        .collect()
}

fn kernel_function<'a>(
    object: &'a Object,
    linker: &dyn Linker,
    index: usize,
) -> Option<Callee<'a>> {
    let external = &object.externs()[index];
    let ExternKind::Function { type_id } = external.kind else { return None };
    let TypeKind::Function { prototype, .. } = object.btf().get(type_id).kind else { return None };
    let TypeKind::Prototype { returns, parameters } = &object.btf().get(prototype).kind else {
        return None;
    };
    let name = external.essential_name();
    Some(Callee { name, contract: linker.kfunc_contract(name), returns: *returns, parameters })
}

fn helper(linker: &dyn Linker, number: u32) -> Option<Callee<'static>> {
    let (name, contract) = linker.helper_contract(number)?;
    Some(Callee { name, contract, returns: 0, parameters: &[] })
}

impl Facts<'_> {
    pub(super) fn call(&self, at: usize, operation: &Operation, state: &mut State) -> Verdict {
        if let Some(Operand::Function(function)) = operation.operand {
            return self.call_own(function, state);
        }
        let Some(callee) = &self.callees[at] else {
            state.registers[..6].fill(Value::Any);
            state.forget_stack(i64::MIN, i64::MAX);
            return Verdict::Fine;
        };
        let verdict = self.check_place(at, callee, state);
        let verdict = verdict.or_else(|| self.check_arguments(callee, state));
        let verdict = verdict.or_else(|| self.apply(at, callee, state));
        self.forget_written(callee, state);
        let result = self.result(at, callee, state);
        state.registers[1..6].fill(Value::Unset);
        state.registers[0] = result;
        verdict
    }

    fn call_own(&self, function: usize, state: &mut State) -> Verdict {
        let arguments: Vec<Value> = state.registers[1..6].to_vec();
        if arguments
            .iter()
            .any(|one| one.pointer().is_some_and(|pointer| pointer.target == Target::Stack))
        {
            state.forget_stack(i64::MIN, i64::MAX);
        }
        if self.summaries[function].takes_or_gives {
            state.holding = None;
        }
        state.registers[1..6].fill(Value::Unset);
        state.registers[0] = self.summaries[function].result;
        Verdict::Fine
    }

    /// Whether the function may be called at this point of the program.
    fn check_place(&self, at: usize, callee: &Callee<'_>, state: &State) -> Verdict {
        let name = callee.name;
        let within = |region| state.holds(Held::Region(region, at)) == Some(true);
        if within(Region::SpinLock) && !callee.contract.in_spin_lock {
            return Verdict::refused(format!("{name}() is called while a spin lock is held"));
        }
        if !callee.contract.sleeps {
            return Verdict::Fine;
        }
        if self.may_sleep == Some(false) {
            return Verdict::refused(format!(
                "{name}() may sleep, and the program may not: it is not in a section .s"
            ));
        }
        for region in [Region::Rcu, Region::NoPreemption, Region::NoInterrupts] {
            if within(region) {
                return Verdict::refused(format!("{name}() may sleep within {}", region.name()));
            }
        }
        Verdict::Fine
    }

    fn check_arguments(&self, callee: &Callee<'_>, state: &State) -> Verdict {
        let mut verdict = Verdict::Fine;
        for (number, &argument) in callee.contract.arguments.iter().enumerate() {
            verdict = verdict.or_else(|| self.check_argument(callee, state, number, argument));
        }
        verdict
    }

    fn check_argument(
        &self,
        callee: &Callee<'_>,
        state: &State,
        number: usize,
        argument: Argument,
    ) -> Verdict {
        let value = state.registers[number + 1];
        let declared = callee.parameters.get(number).map(|parameter| parameter.1);
        let expects = match argument {
            Argument::Any => return Verdict::Fine,
            Argument::Declared => match declared {
                None => return Verdict::Fine,
                Some(type_id) => self.structure_behind(type_id),
            },
            _ => None,
        };
        let place = || format!("argument {} of {}()", number + 1, callee.name);
        if value == Value::Unset {
            return Verdict::refused(format!("{} is not set", place()));
        }
        if argument == Argument::Declared && expects.is_none() {
            return Verdict::Fine;
        }
        match (argument, value) {
            (_, Value::Any) => return Verdict::Fine,
            (Argument::Value | Argument::Sized, value) if value.is_null() => return Verdict::Fine,
            (_, value) if value.is_untested() => {
                return Verdict::refused(format!("{} may be NULL, which is not tested", place()));
            }
            (_, Value::Number(_)) => {
                return Verdict::refused(format!("{} is a number, and not a pointer", place()));
            }
            _ => {}
        }
        let Value::Pointer(pointer) = value else { return Verdict::Fine };
        let sized = |size: u64, writes: bool| {
            let access = Access { offset: 0, size, writes };
            match self.through(pointer, access) {
                Verdict::Refused { problem, .. } => {
                    Verdict::refused(format!("{}: {problem}", place()))
                }
                // Accesses of a function cannot be checked where it is called.
                _ => Verdict::Fine,
            }
        };
        let map = self.map_of(state);
        match argument {
            Argument::Map if !matches!(pointer.target, Target::Map(_)) => {
                Verdict::refused(format!("{} is not a map", place()))
            }
            Argument::Key => map.map_or(Verdict::Fine, |map| sized(u64::from(map.key_size), false)),
            Argument::Value => {
                map.map_or(Verdict::Fine, |map| sized(u64::from(map.value_size), false))
            }
            Argument::Room => {
                map.map_or(Verdict::Fine, |map| sized(u64::from(map.value_size), true))
            }
            Argument::Sized => match state.registers.get(number + 2) {
                Some(Value::Number(size)) if size.is_free && size.high >= u64::from(u32::MAX) => {
                    Verdict::refused(format!("nothing bounds the size of {}", place()))
                }
                Some(Value::Number(size)) => sized(size.low, false),
                _ => Verdict::Fine,
            },
            Argument::Place
                if !matches!(
                    pointer.target,
                    Target::MapValue(_) | Target::Section(_) | Target::Object
                ) =>
            {
                Verdict::refused(format!("{} is not in a map or a global variable", place()))
            }
            Argument::Declared => match (pointer.target, expects) {
                (Target::Kernel(have), Some(want)) if pointer.offset == Offset::ZERO => {
                    self.check_types(&place, have, want)
                }
                (Target::Stack | Target::MapValue(_) | Target::Section(_), Some(want))
                    if self.is_kernel_object(want) && self.has_pointers(want, 4) =>
                {
                    let name = self.structure(want).unwrap_or_default();
                    Verdict::refused(format!(
                        "{} is {}, and not a struct {name} of the kernel",
                        place(),
                        self.name(pointer.target)
                    ))
                }
                _ => Verdict::Fine,
            },
            _ => Verdict::Fine,
        }
    }

    /// Types of kernel objects must match, except that a structure will do for its first member.
    fn check_types(&self, place: &dyn Fn() -> String, have: TypeId, want: TypeId) -> Verdict {
        let (Some(mine), Some(wanted)) = (self.structure(have), self.structure(want)) else {
            return Verdict::Fine;
        };
        if !self.is_kernel_object(have) || !self.is_kernel_object(want) {
            return Verdict::Fine;
        }
        if mine == wanted || self.linker.begins_with(mine, wanted) {
            return Verdict::Fine;
        }
        Verdict::refused(format!("{} is a struct {mine}, and not a struct {wanted}", place()))
    }

    fn is_kernel_object(&self, type_id: TypeId) -> bool {
        self.structure(type_id).is_some_and(|name| self.linker.is_object(name))
    }

    /// Whether a structure contains pointers. One without is plain memory to functions that take it.
    fn has_pointers(&self, type_id: TypeId, depth: usize) -> bool {
        let btf = self.object.btf();
        match btf.resolved(type_id) {
            TypeKind::Pointer(_) => true,
            TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } => {
                let inside = |member: &Member| self.has_pointers(member.type_id, depth - 1);
                depth > 0 && members.iter().any(inside)
            }
            TypeKind::Array { element, .. } => depth > 0 && self.has_pointers(*element, depth - 1),
            _ => false,
        }
    }

    /// The map that is passed as the first argument.
    fn map_of(&self, state: &State) -> Option<&crate::maps::Map> {
        match state.registers[1] {
            Value::Pointer(Pointer { target: Target::Map(map), .. }) => self.object.maps().get(map),
            _ => None,
        }
    }

    /// Adds the call's acquisitions and releases to the state.
    fn apply(&self, at: usize, callee: &Callee<'_>, state: &mut State) -> Verdict {
        let name = callee.name;
        let iterator = || match state.registers[1] {
            Value::Pointer(pointer)
                if pointer.target == Target::Stack && pointer.offset.low == pointer.offset.high =>
            {
                Some(Held::Iterator(pointer.offset.low, at))
            }
            _ => None,
        };
        match callee.contract.effect {
            Effect::None => Verdict::Fine,
            Effect::Acquire => {
                state.take(Held::Reference(at));
                Verdict::Fine
            }
            Effect::Release(argument) => self.release(name, argument, state),
            Effect::Keep(argument) => {
                self.keep(argument, state);
                Verdict::Fine
            }
            Effect::Exchange => {
                self.keep(1, state);
                state.take(Held::Reference(at));
                Verdict::Fine
            }
            Effect::Enter(region) => {
                if region == Region::SpinLock && state.holds(Held::Region(region, at)) == Some(true)
                {
                    return Verdict::refused("a second spin lock is taken while one is held");
                }
                state.take(Held::Region(region, at));
                Verdict::Fine
            }
            Effect::Leave(region) => match state.give_back(Held::Region(region, at)) {
                Some(false) => Verdict::refused(format!(
                    "{name}() leaves {}, which the program is not in",
                    region.name()
                )),
                _ => Verdict::Fine,
            },
            Effect::Iterate => {
                match iterator() {
                    Some(iterator) => state.take(iterator),
                    None => state.holding = None,
                }
                Verdict::Fine
            }
            Effect::Next => match iterator().and_then(|iterator| state.holds(iterator)) {
                Some(false) => {
                    Verdict::refused(format!("{name}() uses an iterator that was not begun"))
                }
                _ => Verdict::Fine,
            },
            Effect::EndIteration => match iterator() {
                None => {
                    state.holding = None;
                    Verdict::Fine
                }
                Some(iterator) => match state.give_back(iterator) {
                    Some(false) => {
                        Verdict::refused(format!("{name}() ends an iterator that was not begun"))
                    }
                    _ => Verdict::Fine,
                },
            },
        }
    }

    fn release(&self, name: &str, argument: usize, state: &mut State) -> Verdict {
        let Value::Pointer(pointer) = state.registers[argument + 1] else {
            // It is unknown which thing was released.
            state.holding = None;
            return Verdict::Fine;
        };
        let Some(origin) = pointer.origin else {
            state.holding = None;
            return Verdict::Fine;
        };
        match state.give_back(Held::Reference(origin)) {
            Some(false) => Verdict::refused(format!(
                "{name}() releases a reference that the program does not hold"
            )),
            known => {
                if known.is_some() {
                    // To the verifier, a released pointer is just a number.
                    let gone = Number::fresh(8, Root::Instruction(origin));
                    state.forget_reference(origin, Value::Number(gone));
                }
                Verdict::Fine
            }
        }
    }

    /// The kernel takes over the reference in an argument.
    fn keep(&self, argument: usize, state: &mut State) {
        match state.registers[argument + 1] {
            Value::Pointer(Pointer { origin: Some(origin), .. }) => {
                state.give_back(Held::Reference(origin));
                state.forget_reference(origin, Value::Any);
            }
            value if value.is_null() => {}
            _ => state.holding = None,
        }
    }

    /// Forgets the part of the stack that the callee may write to.
    fn forget_written(&self, callee: &Callee<'_>, state: &mut State) {
        for number in 0..5 {
            let Some(pointer) = state.registers[number + 1].pointer() else { continue };
            if pointer.target != Target::Stack {
                continue;
            }
            let declared = callee.parameters.get(number).map(|parameter| parameter.1);
            let size = match callee.contract.arguments[number] {
                Argument::Key => continue,
                Argument::Value => continue,
                Argument::Room => self.map_of(state).map(|map| i64::from(map.value_size)),
                Argument::Sized => match state.registers.get(number + 2) {
                    Some(Value::Number(size)) => i64::try_from(size.high).ok(),
                    _ => None,
                },
                _ => declared
                    .and_then(|type_id| self.pointee(type_id))
                    .and_then(|type_id| self.object.btf().size_of(type_id))
                    .and_then(|size| i64::try_from(size).ok()),
            };
            let high = size.map_or(i64::MAX, |size| pointer.offset.high.saturating_add(size));
            state.forget_stack(pointer.offset.low, high);
        }
    }

    /// Whether the key, the second argument, is a constant on the stack that names an element of an array: the verifier requires no NULL test
    /// of such a look-up (`can_elide_value_nullness()`).
    fn is_in_array(&self, map: usize, state: &State) -> bool {
        let map = &self.object.maps()[map];
        let is_array = matches!(map.kind, kind::ARRAY | kind::PERCPU_ARRAY);
        let key = match state.registers[2] {
            Value::Pointer(key)
                if key.target == Target::Stack && key.offset.low == key.offset.high =>
            {
                state.word(key.offset.low)
            }
            _ => None,
        };
        is_array && key.is_some_and(|key| key < map.max_entries)
    }

    fn result(&self, at: usize, callee: &Callee<'_>, state: &State) -> Value {
        let made = |target, null| {
            Value::Pointer(Pointer { null, origin: Some(at), ..Pointer::to(target) })
        };
        let number = Value::Number(Number::fresh(8, Root::Instruction(at)));
        match callee.contract.result {
            CallResult::Any => Value::Any,
            CallResult::Number => number,
            CallResult::MapValue => match state.registers[1] {
                Value::Pointer(Pointer { target: Target::Map(map), .. })
                    if self.object.maps()[map].inner.is_none() =>
                {
                    let null =
                        if callee.name == "bpf_map_lookup_elem" && self.is_in_array(map, state) {
                            Null::No
                        } else {
                            Null::Untested
                        };
                    made(Target::MapValue(map), null)
                }
                _ => Value::Any,
            },
            CallResult::Object => made(Target::Object, Null::Untested),
            CallResult::Memory => match state.registers[2].constant() {
                Some(size) => made(Target::Memory(size), Null::Untested),
                None => Value::Any,
            },
            outcome @ (CallResult::Declared | CallResult::OrNull) => {
                let null = match outcome {
                    CallResult::OrNull => Null::Untested,
                    _ => Null::No,
                };
                match self.object.btf().resolved(callee.returns) {
                    TypeKind::Pointer(target) => match self.object.btf().resolved(*target) {
                        TypeKind::Structure { .. } | TypeKind::Union { .. } => {
                            made(Target::Kernel(self.object.btf().resolve(*target)), null)
                        }
                        TypeKind::Integer { size, .. } if null == Null::Untested => {
                            made(Target::Memory(u64::from(*size)), null)
                        }
                        _ if callee.contract.effect == Effect::Acquire
                            || null == Null::Untested =>
                        {
                            made(Target::Object, null)
                        }
                        _ => Value::Any,
                    },
                    TypeKind::Void => Value::Unset,
                    // The bits above those of the result are undefined.
                    _ => number,
                }
            }
        }
    }
}
