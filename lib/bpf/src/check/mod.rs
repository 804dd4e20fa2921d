//! Refuses code that a kernel's verifier would refuse, as far as can be seen without running the program.
//!
//! An abstract interpretation follows the contents of registers and stack through each function: numbers with bounds, and pointers with the object
//! that they point into, an offset, and whether they may be NULL. Paths on which a program holds different references, locks and iterators are
//! followed separately. Where paths join, differences are forgotten. So this knows less than the verifier, which follows every path to its end:
//! an access that is forbidden on all paths known to lead to an instruction is refused, one that is allowed on all of them is left alone, and in between a
//! [`Guard`] is checked when the program runs.

mod access;
mod arithmetic;
mod branch;
mod call;
mod depth;
mod follow;
mod judge;
mod state;
mod step;
mod value;

use self::call::{Callee, callees};
use self::depth::check_depth;
use self::value::{Null, Number, Offset, Pointer, Root, Target, Value};
use crate::btf::{TypeId, TypeKind};
use crate::error::Error;
use crate::link::{Linked, Operand};
use crate::linker::Linker;
use crate::object::{Function, Object, Section, Slot, StructOpsValue, without_flavor};
use crate::special::SpecialField;

/// The condition that is checked at run time before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The pointer is not NULL.
    NotNull,
    /// The pointer into the arena is not NULL with an offset; otherwise the access does nothing, and the program goes on.
    Arena,
    /// The address lies in an object: at least `start` and at most `last` bytes from its beginning.
    Within { origin: Origin, start: i64, last: i64 },
}

/// A guard, and the fault if it fails.
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
        Verdict::Refused { problem: problem.into(), guard: None }
    }

    fn or_else(self, other: impl FnOnce() -> Verdict) -> Verdict {
        match self {
            Verdict::Fine => other(),
            _ => self,
        }
    }
}

/// A function of the object as its callers see it.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// The arguments of all calls, joined.
    arguments: Option<[Value; 5]>,
    result: Value,
    /// Whether it, or a function that it calls, acquires or releases references, locks and the like.
    takes_or_gives: bool,
}

/// Facts for the check of a function.
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
    /// The helpers and kernel functions that it calls, by instruction.
    callees: &'a [Option<Callee<'a>>],
    /// The contents of constant sections, by slot, as far as they are known.
    read_only: &'a [Option<Vec<u8>>],
}

/// The fields of map values and sections that the kernel manages.
struct Specials {
    maps: Vec<Vec<SpecialField>>,
    sections: Vec<Vec<SpecialField>>,
}

/// Checks all functions. Returns an error for the first thing that a kernel would refuse, or the checks of each function's instructions.
pub(crate) fn check(
    object: &Object,
    linker: &dyn Linker,
    functions: &[Linked],
    read_only: &[Option<Vec<u8>>],
) -> Result<Vec<Vec<Option<Check>>>, Error> {
    check_depth(object, linker, functions)?;
    let known = Known {
        read_only,
        slots: object.slots(),
        special: Specials::of(object),
        callees: functions.iter().map(|one| callees(object, linker, one)).collect(),
    };
    let mut summaries = vec![
        Summary { arguments: None, result: Value::Any, takes_or_gives: true };
        object.functions().len()
    ];
    find_effects(functions, &known.callees, &mut summaries);
    let order = callers_first(functions);
    // The values that functions return mostly depend on their own code alone.
    let is_called = called(functions, object.functions().len());
    for &place in order.iter().rev() {
        let one = &functions[place];
        if is_called[one.function] {
            let facts = Facts::new(object, linker, one, &known, place, &summaries);
            let result = facts.follow(one, [Value::Any; 5]).result();
            summaries[one.function].result = result;
        }
    }
    let mut checks = vec![Vec::new(); functions.len()];
    for &place in &order {
        let one = &functions[place];
        let facts = Facts::new(object, linker, one, &known, place, &summaries);
        let ways = facts.follow(one, facts.entry(one.function));
        let judgement = facts.judge(one, &ways)?;
        checks[place] = judgement.checks;
        for (callee, arguments) in judgement.calls {
            let known = &mut summaries[callee].arguments;
            *known = Some(match known {
                None => arguments,
                Some(known) => std::array::from_fn(|at| known[at].join(arguments[at], false)),
            });
        }
    }
    Ok(checks)
}

/// Facts about the object before any function is checked.
struct Known<'a> {
    /// The contents of constant sections, by slot, as far as they are known.
    read_only: &'a [Option<Vec<u8>>],
    slots: Vec<Slot>,
    special: Specials,
    /// The helpers and kernel functions that each function calls.
    callees: Vec<Vec<Option<Callee<'a>>>>,
}

impl<'a> Facts<'a> {
    fn new(
        object: &'a Object,
        linker: &'a dyn Linker,
        linked: &Linked,
        known: &'a Known<'a>,
        place: usize,
        summaries: &'a [Summary],
    ) -> Facts<'a> {
        let function = &object.functions()[linked.function];
        let mut facts = Facts {
            object,
            linker,
            function,
            slots: &known.slots,
            special: &known.special,
            summaries,
            arguments: Vec::new(),
            may_sleep: None,
            callees: &known.callees[place],
            read_only: known.read_only,
        };
        let program = object.programs().iter().find(|program| program.function == linked.function);
        let Some(program) = program else { return facts };
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
        let members = self.object.struct_ops().iter().flat_map(|table| &table.members);
        let named = StructOpsValue::Program(program.to_owned());
        let btf = self.object.btf();
        let Some(member) = members.into_iter().find(|member| member.value == named) else {
            return Vec::new();
        };
        let TypeKind::Pointer(prototype) = *btf.resolved(member.type_id) else { return Vec::new() };
        let TypeKind::Prototype { parameters, .. } = btf.resolved(prototype) else {
            return Vec::new();
        };
        let argument = |(number, &(_, type_id)): (usize, &(String, TypeId))| {
            let Some(target) = self.structure_behind(type_id) else {
                return match btf.resolved(type_id) {
                    TypeKind::Pointer(_) => Value::Any,
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

    /// The contents of the argument registers when a function begins.
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
            // A register that no call sets is not read, or else the call has already been refused.
            Value::Unset => Value::Any,
            other => other.elsewhere(),
        })
    }

    fn section(&self, slot: usize) -> Option<&'a Section> {
        match self.slots[slot] {
            Slot::Section(section) => self.object.sections().get(section),
            Slot::Map(_) => None,
        }
    }

    fn is_constant(&self, slot: usize) -> bool {
        self.section(slot).is_some_and(|section| section.name.starts_with(".rodata"))
    }

    /// Whether a loader may give the section another size: it holds one array.
    fn may_grow(&self, slot: usize) -> bool {
        self.section(slot).is_some_and(|section| section.variables.len() == 1)
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

    /// The type to which a pointer type points.
    fn pointee(&self, type_id: TypeId) -> Option<TypeId> {
        match *self.object.btf().resolved(type_id) {
            TypeKind::Pointer(target) => Some(self.object.btf().resolve(target)),
            _ => None,
        }
    }

    /// The structure that a pointer type points to.
    fn structure_behind(&self, type_id: TypeId) -> Option<TypeId> {
        let target = self.pointee(type_id)?;
        let kind = &self.object.btf().get(target).kind;
        let is_structure = matches!(kind, TypeKind::Structure { .. } | TypeKind::Forward);
        is_structure.then_some(target)
    }
}

impl Specials {
    fn of(object: &Object) -> Specials {
        let fields = |type_id: Option<TypeId>| {
            type_id.map_or_else(Vec::new, |type_id| object.btf().special_fields(type_id))
        };
        Specials {
            maps: object.maps().iter().map(|map| fields(map.value_type)).collect(),
            sections: object.sections().iter().map(|section| fields(section.type_id)).collect(),
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

/// Which functions of the object others call, or pass to the kernel as callbacks.
fn called(functions: &[Linked], count: usize) -> Vec<bool> {
    let mut called = vec![false; count];
    for operation in functions.iter().flat_map(|one| &one.operations) {
        if let Some(Operand::Function(callee)) = operation.operand {
            called[callee] = true;
        }
    }
    called
}

/// Finds the functions that acquire or release references or locks, themselves or in functions that they call.
fn find_effects(
    functions: &[Linked],
    callees: &[Vec<Option<Callee<'_>>>],
    summaries: &mut [Summary],
) {
    for (one, callees) in functions.iter().zip(callees) {
        let has_effect = |(at, callee): (usize, &Option<Callee<'_>>)| {
            one.flow.reachable[at] && callee.as_ref().is_some_and(Callee::has_effect)
        };
        let mut callees = callees.iter().enumerate();
        summaries[one.function].takes_or_gives = callees.any(has_effect);
    }
    for &place in callers_first(functions).iter().rev() {
        let operations = functions[place].operations.iter();
        let inherits =
            operations.filter(|operation| operation.instruction.is_call()).any(|operation| {
                match operation.operand {
                    Some(Operand::Function(callee)) => summaries[callee].takes_or_gives,
                    _ => false,
                }
            });
        summaries[functions[place].function].takes_or_gives |= inherits;
    }
}
