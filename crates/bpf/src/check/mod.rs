//! What a kernel's verifier would refuse, as far as can be seen without running the program.
//!
//! An abstract interpretation follows what registers and stack hold through each function: numbers with bounds, and pointers with the object
//! that they point into, an offset, and whether they may be NULL. Paths on which a program holds different references, locks and iterators are
//! followed separately. Where paths join, differences are forgotten. So this knows less than the verifier, which follows every path to its end:
//! what is forbidden on all paths known to lead to an instruction is refused, what is allowed on all of them is left alone, and in between a
//! [`Guard`] is checked when the program runs.

mod access;
mod arithmetic;
mod branch;
mod call;
mod state;
mod step;
mod value;

use std::collections::VecDeque;

use self::state::{Held, Holding, State};
use self::value::{Null, Number, Offset, Pointer, Root, Target, Value};
use crate::btf::{Kind, TypeId};
use crate::contract::Effect;
use crate::error::{Error, refused};
use crate::link::{Linked, Operand};
use crate::linker::Linker;
use crate::object::{
    ExternKind, Function, Object, Reference, Section, Slot, StructOpsValue, without_flavor,
};
use crate::special::SpecialField;

/// What is checked at run time before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The pointer is not NULL.
    NotNull,
    /// The address lies in an object: at least `start` and at most `last` bytes from its beginning.
    Within {
        origin: Origin,
        start: i64,
        last: i64,
    },
}

/// A guard, and what is wrong if it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub guard: Guard,
    pub problem: String,
}

/// Where an object begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At the address in a slot. The slot also has the size, which may have grown since.
    Slot(usize),
    /// At the end of the function's stack.
    Stack,
    /// At the address that the call at this instruction returned most recently.
    Call(usize),
}

/// The verdict on an instruction, given one state before it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// It depends on unknown values.
    Guarded(Option<Guard>),
    Refused {
        problem: String,
        guard: Option<Guard>,
    },
}

impl Verdict {
    fn refused(problem: impl Into<String>) -> Verdict {
        Verdict::Refused {
            problem: problem.into(),
            guard: None,
        }
    }

    fn or_else(self, other: impl FnOnce() -> Verdict) -> Verdict {
        match self {
            Verdict::Fine => other(),
            _ => self,
        }
    }
}

/// What callers know about a function of the object.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// The arguments of all calls, joined.
    arguments: Option<[Value; 5]>,
    result: Value,
    /// Whether it, or what it calls, acquires or releases references, locks and the like.
    takes_or_gives: bool,
}

/// What is known while a function is checked.
struct Facts<'a> {
    object: &'a Object,
    linker: &'a dyn Linker,
    function: &'a Function,
    slots: &'a [Slot],
    special: &'a Specials,
    summaries: &'a [Summary],
    /// The callback's arguments.
    arguments: Vec<Value>,
    /// Whether the program may sleep, if that is known.
    may_sleep: Option<bool>,
}

/// The fields of map values and sections that the kernel manages.
struct Specials {
    maps: Vec<Vec<SpecialField>>,
    sections: Vec<Vec<SpecialField>>,
}

/// Maximum number of paths to an instruction that are followed separately.
const WAYS: usize = 24;
/// After this many joins, bounds that still change are given up.
const PATIENCE: u32 = 6;

/// Checks all functions. Returns an error for the first thing that a kernel would refuse, or the checks of each function's instructions.
pub(crate) fn check(
    object: &Object,
    linker: &dyn Linker,
    functions: &[Linked],
) -> Result<Vec<Vec<Option<Check>>>, Error> {
    let slots = object.slots();
    let special = Specials::of(object);
    let mut summaries = vec![
        Summary {
            arguments: None,
            result: Value::Any,
            takes_or_gives: true,
        };
        object.functions().len()
    ];
    find_effects(object, linker, functions, &mut summaries);
    let order = callers_first(functions);
    // What functions return mostly depends on their own code alone.
    for &place in order.iter().rev() {
        let facts = Facts::new(
            object,
            linker,
            &functions[place],
            &slots,
            &special,
            &summaries,
        );
        let result = facts.follow(&functions[place], [Value::Any; 5]).result();
        summaries[functions[place].function].result = result;
    }
    let mut checks = vec![Vec::new(); functions.len()];
    for &place in &order {
        let one = &functions[place];
        let facts = Facts::new(object, linker, one, &slots, &special, &summaries);
        let arguments = facts.entry(one.function);
        let ways = facts.follow(one, arguments);
        checks[place] = facts.judge(one, &ways)?;
        let calls = facts.calls(one, &ways);
        for (callee, arguments) in calls {
            let known = &mut summaries[callee].arguments;
            *known = Some(match known {
                None => arguments,
                Some(known) => std::array::from_fn(|at| known[at].join(arguments[at], false)),
            });
        }
    }
    Ok(checks)
}

/// The states before each instruction.
struct Ways {
    before: Vec<Vec<State>>,
    /// What exits return.
    results: Vec<Value>,
}

impl Ways {
    fn result(&self) -> Value {
        let mut results = self.results.iter().copied();
        let first = results.next().unwrap_or(Value::Any);
        let all = results.fold(first, |all, one| all.join(one, false));
        match all {
            // Addresses in a stack that is gone, and the origins of other values, mean nothing to the caller.
            Value::Pointer(pointer) if pointer.target == Target::Stack => Value::Any,
            Value::Unset => Value::Any,
            other => other.elsewhere(),
        }
    }
}

impl<'a> Facts<'a> {
    fn new(
        object: &'a Object,
        linker: &'a dyn Linker,
        linked: &Linked,
        slots: &'a [Slot],
        special: &'a Specials,
        summaries: &'a [Summary],
    ) -> Facts<'a> {
        let function = &object.functions()[linked.function];
        let mut facts = Facts {
            object,
            linker,
            function,
            slots,
            special,
            summaries,
            arguments: Vec::new(),
            may_sleep: None,
        };
        let program = object
            .programs()
            .iter()
            .find(|program| program.function == linked.function);
        let Some(program) = program else {
            return facts;
        };
        if program.is_callback() {
            facts.may_sleep = Some(program.section.starts_with("struct_ops.s"));
            facts.arguments = facts.callback_arguments(&program.name);
        } else if let Some(arguments) = linker.event_arguments(&program.section) {
            let kind = program.section.split('/').next();
            facts.may_sleep = Some(kind.is_some_and(|kind| kind.ends_with(".s")));
            facts.arguments = facts.event_arguments(&arguments);
        }
        facts
    }

    /// The arguments of a program attached to an event, by the names of the structures that they point to.
    fn event_arguments(&self, structures: &[&str]) -> Vec<Value> {
        let argument = |(number, name): (usize, &&str)| match *name {
            "" => Value::Number(Number::fresh(8, Root::Instruction(usize::MAX - number))),
            name => match self.object.btf().find(name) {
                Some(structure) => Value::Pointer(Pointer {
                    origin: Some(usize::MAX - number),
                    ..Pointer::to(Target::Kernel(structure))
                }),
                None => Value::Any,
            },
        };
        structures.iter().enumerate().map(argument).collect()
    }

    /// The arguments of a program that tables of callbacks refer to.
    fn callback_arguments(&self, program: &str) -> Vec<Value> {
        let members = self
            .object
            .struct_ops()
            .iter()
            .flat_map(|table| &table.members);
        let named = StructOpsValue::Program(program.to_owned());
        let btf = self.object.btf();
        let Some(member) = members.into_iter().find(|member| member.value == named) else {
            return Vec::new();
        };
        let Kind::Pointer(prototype) = *btf.resolved(member.type_id) else {
            return Vec::new();
        };
        let Kind::Prototype { parameters, .. } = btf.resolved(prototype) else {
            return Vec::new();
        };
        let argument = |(number, &(_, type_id)): (usize, &(String, TypeId))| {
            let Some(target) = self.structure_behind(type_id) else {
                return match btf.resolved(type_id) {
                    Kind::Pointer(_) => Value::Any,
                    _ => Value::Number(Number::fresh(8, Root::Instruction(usize::MAX - number))),
                };
            };
            let null = if self.linker.may_be_null(&member.name, number) {
                Null::Untested
            } else {
                Null::No
            };
            Value::Pointer(Pointer {
                target: Target::Kernel(target),
                null,
                offset: Offset::ZERO,
                origin: Some(usize::MAX - number),
            })
        };
        parameters.iter().enumerate().map(argument).collect()
    }

    /// What the argument registers hold when a function begins.
    fn entry(&self, function: usize) -> [Value; 5] {
        if !self.arguments.is_empty() {
            let arguments = Pointer::to(Target::Arguments(self.arguments.len()));
            let mut registers = [Value::Unset; 5];
            registers[0] = Value::Pointer(arguments);
            return registers;
        }
        let of_calls = self.summaries[function].arguments;
        let known = of_calls.unwrap_or([Value::Any; 5]);
        known.map(|value| match value {
            Value::Pointer(pointer)
                if matches!(pointer.target, Target::Stack | Target::Arguments(_)) =>
            {
                Value::Any
            }
            // What no call sets is not read, or else the call has already been refused.
            Value::Unset => Value::Any,
            other => other.elsewhere(),
        })
    }

    /// Follows all paths through a function.
    fn follow(&self, linked: &Linked, arguments: [Value; 5]) -> Ways {
        let count = linked.operations.len();
        let mut ways = Ways {
            before: vec![Vec::new(); count],
            results: Vec::new(),
        };
        let mut joins = vec![0_u32; count];
        let mut work = VecDeque::from([(0, State::new(arguments).holding)]);
        ways.before[0].push(State::new(arguments));
        while let Some((at, holding)) = work.pop_front() {
            let Some(state) = ways.before[at].iter().find(|one| one.holding == holding) else {
                continue;
            };
            for (next, after) in self.successors(linked, at, state) {
                if next >= count {
                    continue;
                }
                let Some(holding) = arrive(&mut ways.before[next], after, &mut joins[next]) else {
                    continue;
                };
                let entry = (next, holding);
                if !work.contains(&entry) {
                    work.push_back(entry);
                }
            }
        }
        for (at, operation) in linked.operations.iter().enumerate() {
            if operation.instruction.is_exit() {
                let returned = ways.before[at].iter().map(|state| state.registers[0]);
                ways.results.extend(returned);
            }
        }
        ways
    }

    /// Where control goes from an instruction, and what is known there.
    fn successors(&self, linked: &Linked, at: usize, state: &State) -> Vec<(usize, State)> {
        let operation = &linked.operations[at];
        let next = at
            + if operation.instruction.is_wide() {
                2
            } else {
                1
            };
        match operation.target {
            Some(target) => {
                let decided = linked.flow.decided[at];
                let way = |to: usize, taken: bool| {
                    (decided != Some(!taken))
                        .then(|| branch::after(operation.instruction, state, taken))
                        .flatten()
                        .map(|state| (to, state))
                };
                way(target, true)
                    .into_iter()
                    .chain(way(next, false))
                    .collect()
            }
            None if operation.ends_function() => Vec::new(),
            None => {
                let mut after = state.clone();
                self.step(at, operation, &mut after);
                vec![(next, after)]
            }
        }
    }

    /// Reports what is refused, and which checks instructions need.
    fn judge(&self, linked: &Linked, ways: &Ways) -> Result<Vec<Option<Check>>, Error> {
        let mut checks = vec![None; linked.operations.len()];
        let is_program = self.may_sleep.is_some();
        for (at, operation) in linked.operations.iter().enumerate() {
            if operation.target.is_some() {
                continue;
            }
            let mut verdicts = Vec::new();
            for state in &ways.before[at] {
                if operation.instruction.is_exit() {
                    if is_program
                        && !state.is_doubtful
                        && let Some(error) = self.leak(linked, state)
                    {
                        return Err(error);
                    }
                    continue;
                }
                let verdict = self.step(at, operation, &mut state.clone());
                verdicts.push(verdict);
            }
            if let Some(problem) = all_refused(&verdicts) {
                return Err(self.refuse(at, problem));
            }
            checks[at] = common_guard(&verdicts).map(|guard| Check {
                guard,
                problem: self.broken(linked, guard),
            });
        }
        Ok(checks)
    }

    /// What is wrong if a guard fails.
    fn broken(&self, linked: &Linked, guard: Guard) -> String {
        match guard {
            Guard::NotNull => "NULL is used as a pointer".to_owned(),
            Guard::Within { origin, .. } => match origin {
                Origin::Slot(slot) => {
                    format!("access outside of {}", self.name(Target::Section(slot)))
                }
                Origin::Stack => "access outside of the stack".to_owned(),
                Origin::Call(at) => {
                    format!(
                        "access outside of what {}() returned",
                        self.called(linked, at)
                    )
                }
            },
        }
    }

    fn refuse(&self, at: usize, problem: String) -> Error {
        refused(self.object.location(self.function, at).to_string(), problem)
    }

    /// What the program still holds at its end, as an error at the place where it was acquired.
    fn leak(&self, linked: &Linked, state: &State) -> Option<Error> {
        let held = *state.holding.as_ref()?.first()?;
        let problem = match held {
            Held::Reference(at) => {
                let name = self.called(linked, at);
                format!("the reference that {name}() returned is not released on every path")
            }
            Held::Region(region, _) => format!("{} is not left on every path", region.name()),
            Held::Iterator(..) => "an iterator is not ended on every path".to_owned(),
        };
        Some(self.refuse(held.taken_at(), problem))
    }

    fn called(&self, linked: &Linked, at: usize) -> String {
        if let Some(Reference::Extern { index, .. }) = self.function.reference(at) {
            return self.object.externs()[index].essential_name().to_owned();
        }
        let id = linked.operations[at].instruction.immediate.cast_unsigned();
        let known = self.linker.helper_contract(id);
        known.map_or("a helper", |(name, _)| name).to_owned()
    }

    /// The calls of other functions of the object, with their arguments. Nothing is known about those of callbacks.
    fn calls(&self, linked: &Linked, ways: &Ways) -> Vec<(usize, [Value; 5])> {
        let mut calls = Vec::new();
        for (at, operation) in linked.operations.iter().enumerate() {
            let Some(Operand::Function(callee)) = operation.operand else {
                continue;
            };
            for state in &ways.before[at] {
                let registers = &state.registers;
                calls.push((
                    callee,
                    if operation.instruction.is_call() {
                        std::array::from_fn(|number| registers[number + 1])
                    } else {
                        [Value::Any; 5]
                    },
                ));
            }
        }
        calls
    }

    fn section(&self, slot: usize) -> Option<&'a Section> {
        match self.slots[slot] {
            Slot::Section(section) => self.object.sections().get(section),
            Slot::Map(_) => None,
        }
    }

    fn is_constant(&self, slot: usize) -> bool {
        self.section(slot)
            .is_some_and(|section| section.name.starts_with(".rodata"))
    }

    /// Whether a loader may give the section another size: it holds one array.
    fn may_grow(&self, slot: usize) -> bool {
        self.section(slot)
            .is_some_and(|section| section.variables.len() == 1)
    }

    fn special_fields(&self, target: Target) -> &[SpecialField] {
        match target {
            Target::MapValue(map) => &self.special.maps[map],
            Target::Section(slot) => match self.slots[slot] {
                Slot::Section(section) => &self.special.sections[section],
                Slot::Map(_) => &[],
            },
            _ => &[],
        }
    }

    /// The name of a structure, without `___flavor`.
    fn structure(&self, type_id: TypeId) -> Option<&'a str> {
        let name = without_flavor(&self.object.btf().get(type_id).name);
        (!name.is_empty()).then_some(name)
    }

    /// What a pointer type points to.
    fn pointee(&self, type_id: TypeId) -> Option<TypeId> {
        match *self.object.btf().resolved(type_id) {
            Kind::Pointer(target) => Some(self.object.btf().resolve(target)),
            _ => None,
        }
    }

    /// The structure that a pointer type points to.
    fn structure_behind(&self, type_id: TypeId) -> Option<TypeId> {
        let target = self.pointee(type_id)?;
        let kind = &self.object.btf().get(target).kind;
        let is_structure = matches!(kind, Kind::Structure { .. } | Kind::Forward);
        is_structure.then_some(target)
    }
}

/// Adds a state to those of an instruction. Returns what it holds if that added anything.
fn arrive(known: &mut Vec<State>, mut state: State, joins: &mut u32) -> Option<Holding> {
    if known.len() >= WAYS && known.iter().all(|one| one.holding != state.holding) {
        state.holding = None;
    }
    match known.iter_mut().find(|one| one.holding == state.holding) {
        Some(one) => {
            *joins += 1;
            let widen = *joins > PATIENCE * WAYS as u32 / 8;
            one.join(&state, widen).then(|| one.holding.clone())
        }
        None => {
            let holding = state.holding.clone();
            known.push(state);
            Some(holding)
        }
    }
}

/// The problem, if all paths to an instruction have one.
fn all_refused(verdicts: &[Verdict]) -> Option<String> {
    let mut first = None;
    for verdict in verdicts {
        match verdict {
            Verdict::Refused { problem, .. } => first = first.or(Some(problem.clone())),
            _ => return None,
        }
    }
    first
}

/// The guard, if the same one fits all paths that need one.
fn common_guard(verdicts: &[Verdict]) -> Option<Guard> {
    let mut common = None;
    for verdict in verdicts {
        let guard = match verdict {
            Verdict::Fine => continue,
            Verdict::Guarded(guard) | Verdict::Refused { guard, .. } => (*guard)?,
        };
        if common.is_some_and(|common| common != guard) {
            return None;
        }
        common = Some(guard);
    }
    common
}

impl Specials {
    fn of(object: &Object) -> Specials {
        let fields = |type_id: Option<TypeId>| {
            type_id.map_or_else(Vec::new, |type_id| object.btf().special_fields(type_id))
        };
        Specials {
            maps: object
                .maps()
                .iter()
                .map(|map| fields(map.value_type))
                .collect(),
            sections: object
                .sections()
                .iter()
                .map(|section| fields(section.type_id))
                .collect(),
        }
    }
}

/// The functions in an order in which each comes after its callers.
fn callers_first(functions: &[Linked]) -> Vec<usize> {
    fn visit(place: usize, functions: &[Linked], seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[place], true) {
            return;
        }
        for operation in &functions[place].operations {
            if let Some(Operand::Function(callee)) = operation.operand
                && let Some(callee) = functions.iter().position(|one| one.function == callee)
            {
                visit(callee, functions, seen, order);
            }
        }
        order.push(place);
    }
    let mut order = Vec::new();
    let mut seen = vec![false; functions.len()];
    for place in 0..functions.len() {
        visit(place, functions, &mut seen, &mut order);
    }
    order.reverse();
    order
}

/// Finds the functions that acquire or release references or locks, themselves or in what they call.
fn find_effects(
    object: &Object,
    linker: &dyn Linker,
    functions: &[Linked],
    summaries: &mut [Summary],
) {
    let has_effect = |linked: &Linked| {
        let function = &object.functions()[linked.function];
        linked.operations.iter().enumerate().any(|(at, operation)| {
            if !operation.instruction.is_call() || !linked.flow.reachable[at] {
                return false;
            }
            let contract = match function.reference(at) {
                Some(Reference::Extern { index, .. }) => {
                    let external = &object.externs()[index];
                    matches!(external.kind, ExternKind::Function { .. })
                        .then(|| linker.kfunc_contract(external.essential_name()))
                }
                Some(_) => None,
                None => linker
                    .helper_contract(operation.instruction.immediate.cast_unsigned())
                    .map(|known| known.1),
            };
            contract.is_some_and(|contract| contract.effect != Effect::None)
        })
    };
    for one in functions {
        summaries[one.function].takes_or_gives = has_effect(one);
    }
    for &place in callers_first(functions).iter().rev() {
        let callees =
            functions[place]
                .operations
                .iter()
                .filter_map(|operation| match operation.operand {
                    Some(Operand::Function(callee)) if operation.instruction.is_call() => {
                        Some(callee)
                    }
                    _ => None,
                });
        let inherits = callees
            .into_iter()
            .any(|callee| summaries[callee].takes_or_gives);
        summaries[functions[place].function].takes_or_gives |= inherits;
    }
}
