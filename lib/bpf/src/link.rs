//! Functions joined with the linker's answers, ready for translation.

use serde::{Deserialize, Serialize};

use crate::btf::TypeKind;
use crate::check::{Check, check};
use crate::constants::{ConstantMemory, Flow, Reach, analyse};
use crate::core_relocation::{self, Failure};
use crate::error::{Error, Missing, malformed, unsupported};
use crate::instruction::{FRAME_POINTER, Instruction, SIZE, atomic, class, mode};
use crate::kernel_loads::mark_kernel_loads;
use crate::linker::{Linker, Native};
use crate::object::{ExternKind, Function, Object, Reference};
use crate::validate::check_instruction;

/// An instruction with everything it refers to.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub instruction: Instruction,
    pub operand: Option<Operand>,
    /// Its jump target.
    pub target: Option<usize>,
    /// Whether it loads from a kernel structure, which yields 0 for a null pointer.
    pub kernel_load: bool,
}

impl Operation {
    /// Whether this calls a helper that calls back a function of the object.
    pub(crate) fn calls_back(&self) -> bool {
        let one = self.instruction;
        one.is_call() && one.source == 0 && HELPERS_WITH_CALLBACK.contains(&one.immediate)
    }

    /// Whether the function returns here, possibly with an error. It also does where something is missing, but the code after it is examined all the
    /// same, so that everything missing is found at once.
    pub(crate) fn ends_function(&self) -> bool {
        let absent = matches!(self.operand, Some(Operand::Absent { optional: true, .. }));
        self.instruction.is_exit() || absent
    }
}

/// The origin of addresses in the code, which lies elsewhere in each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// This program: its functions and variables.
    Program,
    /// [`LinkedObject::kconfig`].
    Kconfig,
    /// The texts about possible faults.
    Problems,
}

/// The operand of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A number.
    Constant(u64),
    /// An address that is the same in all simulations of this process, and the section in which it lies.
    Address { within: Base, address: u64 },
    /// A map or section, with an offset into it.
    Slot { slot: usize, offset: u64 },
    /// A function of this object, by index.
    Function(usize),
    /// A helper or kernel function.
    Native(Native),
    /// Something that the kernel model lacks: the program ends with an error if it gets here.
    Absent {
        /// The missing name, in a sentence.
        problem: String,
        /// Whether the object declares that it can do without (a weak function).
        optional: bool,
    },
    /// An instruction that the translation does not support, with its fault. Only code that never runs may have one.
    Unknown(String),
}

/// A function that will be compiled.
#[derive(Debug)]
pub(crate) struct Linked {
    /// Index of the function in the object.
    pub function: usize,
    pub operations: Vec<Operation>,
    pub flow: Flow,
    /// The check at run time before each operation.
    pub checks: Vec<Option<Check>>,
    /// Whether a call may end because the simulation should stop.
    pub may_stop: bool,
}

/// Helpers that call back a function of the object: they iterate over a map, find memory areas, loop, or drain a buffer.
const HELPERS_WITH_CALLBACK: [i32; 4] = [164, 180, 181, 209];

impl Linked {
    /// The reachable operations with their places.
    fn reachable(&self) -> impl Iterator<Item = (usize, &Operation)> {
        self.operations.iter().enumerate().filter(|&(at, _)| self.flow.reachable[at])
    }

    /// The functions of the object that this one calls.
    fn callees(&self) -> impl Iterator<Item = usize> {
        self.reachable().filter(|(_, operation)| operation.instruction.is_call()).filter_map(
            |(_, operation)| match operation.operand {
                Some(Operand::Function(target)) => Some(target),
                _ => None,
            },
        )
    }

    /// The functions of the object that run in frames below this one's: those that it calls, and those that it has helpers call back.
    pub(crate) fn nested(&self) -> impl Iterator<Item = usize> {
        let called_back = self.reachable().filter_map(|(at, operation)| match operation.operand {
            Some(Operand::Function(target)) if !operation.instruction.is_call() => {
                let mut calls =
                    self.operations[at..].iter().filter(|next| next.instruction.is_call());
                calls.next().is_some_and(Operation::calls_back).then_some(target)
            }
            _ => None,
        });
        self.callees().chain(called_back)
    }

    /// Whether this function itself has a place where it may stop.
    fn has_stop(&self) -> bool {
        self.reachable().any(|(at, operation)| {
            operation.target.is_some_and(|target| target <= at)
                || operation.calls_back()
                || matches!(operation.operand, Some(Operand::Absent { .. }))
                || self.checks[at].is_some()
        })
    }
}

/// All functions that the programs need.
#[derive(Debug)]
pub(crate) struct LinkedObject {
    pub functions: Vec<Linked>,
    /// Configuration values that the code refers to by address.
    pub kconfig: Box<[u8]>,
    /// Names that reachable code needs and the linker lacks.
    pub missing: Vec<Missing>,
    /// Calls, in reachable code, of functions that the kernel lacks and the object declares as weak.
    pub untested: Vec<Missing>,
    /// The calls of each function, in the order of `functions`.
    pub calls: Vec<Calls>,
}

/// The calls in the reachable code of a function.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// Index of the function in the object.
    pub function: usize,
    /// Kernel functions.
    pub kernel: Vec<KernelCall>,
    /// Helpers.
    pub helpers: Vec<HelperCall>,
    /// Functions of the object that it calls, or passes to others as callbacks.
    pub own: Vec<usize>,
}

/// A call of a kernel function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCall {
    /// The function's name, without `___flavor`.
    pub name: String,
    /// Where: function, and source line if known.
    pub place: String,
}

/// A call of a helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperCall {
    /// The helper's number (`BPF_FUNC_*`).
    pub number: u32,
    /// Where: function, and source line if known.
    pub place: String,
}

/// Links the programs marked for loading, and the functions they use. `read_only` has the contents of sections that are constant from then on,
/// by slot, as far as they are known: code that they rule out is left out.
pub(crate) fn link(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[Option<Vec<u8>>],
) -> Result<LinkedObject, Error> {
    check_externs(object, linker)?;
    let kconfig = kconfig_values(object, linker)?;
    let mut linked = LinkedObject {
        functions: Vec::new(),
        kconfig,
        missing: Vec::new(),
        untested: Vec::new(),
        calls: Vec::new(),
    };
    let mut wanted: Vec<usize> = object
        .programs()
        .iter()
        .filter(|program| program.autoload)
        .map(|program| program.function)
        .collect();
    wanted.reverse();
    let mut seen = vec![false; object.functions().len()];
    while let Some(index) = wanted.pop() {
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        let function = &object.functions()[index];
        let operations = link_function(object, linker, function, &linked.kconfig)?;
        let memory = ConstantMemory {
            address: linked.kconfig.as_ptr() as u64,
            bytes: &linked.kconfig,
            slots: read_only,
        };
        let flow = analyse(&operations, memory, Reach::Any);
        check_flow(object, function, &operations, &flow)?;
        collect_missing(&mut linked.missing, object, function, &operations, &flow);
        linked.untested.extend(untested(object, linker, function, &operations, memory));
        let calls = calls_of(object, index, &operations, &flow);
        wanted.extend(&calls.own);
        linked.calls.push(calls);
        linked.functions.push(Linked {
            function: index,
            operations,
            flow,
            checks: Vec::new(),
            may_stop: false,
        });
    }
    linked.functions.sort_by_key(|one| one.function);
    let checks = check(object, linker, &linked.functions, read_only)?;
    for (one, checks) in linked.functions.iter_mut().zip(checks) {
        one.checks = checks;
    }
    find_stops(&mut linked.functions, object.functions().len());
    Ok(linked)
}

/// Refuses an object that cannot do without a kernel function or variable that the kernel lacks, as libbpf does. All are named.
fn check_externs(object: &Object, linker: &dyn Linker) -> Result<(), Error> {
    let externs = object.externs().iter().enumerate();
    let missing: Vec<Missing> = externs
        .filter_map(|(index, external)| {
            let name = external.essential_name();
            let (kind, is_lacking) = match external.kind {
                ExternKind::Function { .. } => ("function", linker.kfunc(name).is_none()),
                ExternKind::Variable { type_id } => (
                    "variable",
                    // The types say nothing about variables without one.
                    !matches!(object.btf().resolved(type_id), TypeKind::Void)
                        && linker.variable(name).is_none(),
                ),
                ExternKind::Configuration { .. } => return None,
            };
            let is_refused = !external.weak && is_lacking && linker.lacks(name, kind == "function");
            is_refused.then(|| Missing {
                problem: no_such(linker, kind, name),
                place: user_of(object, index),
            })
        })
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Lacking(missing)) }
}

/// In words, that the kernel has no such function or variable, and the remedy if that is known.
fn no_such(linker: &dyn Linker, kind: &str, name: &str) -> String {
    let remedy = linker.remedy(name).map_or_else(String::new, |one| format!(" ({one})"));
    format!("the kernel has no {kind} {name}{remedy}")
}

/// Where an external name is first used.
fn user_of(object: &Object, index: usize) -> String {
    let functions = object.functions().iter();
    let mut uses = functions.flat_map(|function| {
        let references = function.references.iter();
        references
            .filter(
                |(_, what)| matches!(what, Reference::Extern { index: used, .. } if *used == index),
            )
            .map(move |(at, _)| object.location(function, *at).to_string())
    });
    uses.next().unwrap_or_else(|| "its declaration".to_owned())
}

/// Finds the functions that may stop early, themselves or in a call.
fn find_stops(functions: &mut [Linked], count: usize) {
    let mut may_stop = vec![false; count];
    loop {
        let mut changed = false;
        for one in functions.iter_mut().filter(|one| !one.may_stop) {
            one.may_stop = one.has_stop() || one.callees().any(|callee| may_stop[callee]);
            may_stop[one.function] = one.may_stop;
            changed |= one.may_stop;
        }
        if !changed {
            return;
        }
    }
}

fn calls_of(object: &Object, index: usize, operations: &[Operation], flow: &Flow) -> Calls {
    let function = &object.functions()[index];
    let mut calls = Calls { function: index, ..Calls::default() };
    for (at, operation) in operations.iter().enumerate() {
        if !flow.reachable[at] {
            continue;
        }
        if let Some(Operand::Function(target)) = operation.operand {
            calls.own.push(target);
        } else if operation.instruction.is_call()
            && let Some(Reference::Extern { index, .. }) = function.reference(at)
        {
            calls.kernel.push(KernelCall {
                name: object.externs()[index].essential_name().to_owned(),
                place: object.location(function, at).to_string(),
            });
        } else if operation.instruction.is_call() && operation.instruction.source == 0 {
            calls.helpers.push(HelperCall {
                number: operation.instruction.immediate.cast_unsigned(),
                place: object.location(function, at).to_string(),
            });
        }
    }
    calls
}

/// The calls of functions that the object declares as weak and that the kernel, not only the model, does not have, where no test rules them out.
fn untested(
    object: &Object,
    linker: &dyn Linker,
    function: &Function,
    operations: &[Operation],
    memory: ConstantMemory<'_>,
) -> Vec<Missing> {
    let mut found = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        if let Some(Operand::Absent { problem, optional: true }) = &operation.operand
            && let Some(Reference::Extern { index, .. }) = function.reference(at)
            && linker.lacks(object.externs()[index].essential_name(), true)
        {
            found.push((at, problem));
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let flow = analyse(operations, memory, Reach::Upwards);
    let reached = found.into_iter().filter(|(at, _)| flow.reachable[*at]);
    let missing = |(at, problem): (usize, &String)| Missing {
        problem: problem.clone(),
        place: object.location(function, at).to_string(),
    };
    reached.map(missing).collect()
}

/// Adds names that the reachable code of a function needs and the linker lacks, each once, with the place that first needs it.
fn collect_missing(
    missing: &mut Vec<Missing>,
    object: &Object,
    function: &Function,
    operations: &[Operation],
    flow: &Flow,
) {
    for (at, operation) in operations.iter().enumerate() {
        if let Some(Operand::Absent { problem, optional: false }) = &operation.operand
            && flow.reachable[at]
            && missing.iter().all(|one| one.problem != *problem)
        {
            missing.push(Missing {
                problem: problem.clone(),
                place: object.location(function, at).to_string(),
            });
        }
    }
}

/// The configuration values as the object lays them out.
pub(crate) fn kconfig_values(object: &Object, linker: &dyn Linker) -> Result<Box<[u8]>, Error> {
    let size = usize::try_from(object.kconfig_size())
        .map_err(|_| malformed("section .kconfig", "too large"))?;
    let mut bytes = vec![0; size];
    for one in object.externs() {
        let ExternKind::Configuration { type_id, offset, size } = one.kind else { continue };
        let Some(mut value) = linker.kconfig(&one.name) else { continue };
        // Characters hold the letter of a tristate value.
        if let TypeKind::Integer { size: 1, boolean: false, .. } = object.btf().resolved(type_id) {
            value = match value {
                0 => u64::from(b'n'),
                1 => u64::from(b'y'),
                2 => u64::from(b'm'),
                other => other,
            };
        }
        let encoded = value.to_le_bytes();
        let length = (size as usize).min(encoded.len());
        if encoded[length..].iter().any(|&byte| byte != 0) {
            return Err(unsupported(
                format!("configuration value {}", one.name),
                format!("{value} does not fit into {size} bytes"),
            ));
        }
        let offset = offset as usize;
        bytes[offset..offset + length].copy_from_slice(&encoded[..length]);
    }
    Ok(bytes.into_boxed_slice())
}

fn link_function(
    object: &Object,
    linker: &dyn Linker,
    function: &Function,
    kconfig: &[u8],
) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::with_capacity(function.instructions.len());
    let count = function.instructions.len();
    let mut second_half = false;
    for (at, &instruction) in function.instructions.iter().enumerate() {
        let bad = |problem: String| malformed(place(object, function, at), problem);
        let mut unknown = None;
        if second_half {
            if instruction.opcode != 0 {
                return Err(bad("the second half of a 16-byte load is damaged".to_owned()));
            }
            second_half = false;
        } else {
            unknown = check_instruction(instruction).err();
            second_half = unknown.is_none() && instruction.is_wide();
            if second_half && at + 1 == count {
                return Err(bad("half of a 16-byte load at the end".to_owned()));
            }
        }
        if let Some(problem) = unknown {
            operations.push(Operation {
                instruction: Instruction::NOTHING,
                operand: Some(Operand::Unknown(problem)),
                target: None,
                kernel_load: false,
            });
            continue;
        }
        let target = match instruction.jump_distance() {
            None => None,
            Some(distance) => {
                let target = usize::try_from(at as i64 + 1 + distance)
                    .ok()
                    .filter(|&target| target < count)
                    .ok_or_else(|| bad("jumps out of the function".to_owned()))?;
                Some(target)
            }
        };
        operations.push(Operation { instruction, operand: None, target, kernel_load: false });
    }
    for at in 0..count {
        if let Some(target) = operations[at].target
            && target > 0
            && operations[target - 1].instruction.is_wide()
        {
            return Err(malformed(
                place(object, function, at),
                "jumps into the middle of a 16-byte load",
            ));
        }
        if operations[at].operand.is_none() {
            operations[at].operand = operand(object, linker, function, at, kconfig)?;
        }
    }
    relocate(object, linker, function, &mut operations)?;
    Ok(operations)
}

fn place(object: &Object, function: &Function, at: usize) -> String {
    format!("{}, instruction {at}", object.location(function, at))
}

/// The operand of the instruction.
fn operand(
    object: &Object,
    linker: &dyn Linker,
    function: &Function,
    at: usize,
    kconfig: &[u8],
) -> Result<Option<Operand>, Error> {
    let one = function.instructions[at];
    match function.reference(at) {
        Some(Reference::Slot { slot, offset }) => Ok(Some(Operand::Slot { slot, offset })),
        Some(Reference::Function(index)) => Ok(Some(Operand::Function(index))),
        Some(Reference::Extern { index, offset }) => {
            external(object, linker, index, offset, one.is_call(), kconfig)
                .map(Some)
                .map_err(|problem| malformed(place(object, function, at), problem))
        }
        None if one.is_wide() => {
            if one.source != 0 {
                return Err(malformed(
                    place(object, function, at),
                    "refers to the kernel without a relocation",
                ));
            }
            let low = u64::from(one.immediate.cast_unsigned());
            let high = function
                .instructions
                .get(at + 1)
                .map_or(0, |half| u64::from(half.immediate.cast_unsigned()));
            Ok(Some(Operand::Constant(high << 32 | low)))
        }
        None if one.is_call() && one.source == 0 => {
            let id = one.immediate.cast_unsigned();
            Ok(Some(match linker.helper(id) {
                Some(native) => Operand::Native(native),
                None => absent(match linker.helper_name(id) {
                    Some(name) => format!("this kernel model has no helper {name}()"),
                    None => format!("this kernel model has no helper {id}"),
                }),
            }))
        }
        None if one.is_call() => {
            Err(malformed(place(object, function, at), "calls the kernel without a relocation"))
        }
        None => Ok(None),
    }
}

fn absent(problem: String) -> Operand {
    Operand::Absent { problem, optional: false }
}

fn of_program(address: u64) -> Operand {
    Operand::Address { within: Base::Program, address }
}

fn external(
    object: &Object,
    linker: &dyn Linker,
    index: usize,
    offset: u64,
    is_call: bool,
    kconfig: &[u8],
) -> Result<Operand, String> {
    let one = &object.externs()[index];
    let name = one.essential_name();
    let missing = |kind: &str| absent(format!("this kernel model has no kernel {kind} {name}"));
    match one.kind {
        ExternKind::Function { .. } => Ok(match (linker.kfunc(name), is_call) {
            (Some(native), true) => Operand::Native(native),
            (Some(native), false) => of_program(native.address as u64),
            (None, _) if !one.weak => missing("function"),
            (None, true) => Operand::Absent {
                problem: format!("called {name}(), which this kernel does not have"),
                optional: true,
            },
            (None, false) => Operand::Constant(0),
        }),
        _ if is_call => Err(format!("calls {name}, which is declared as a variable")),
        ExternKind::Variable { .. } => Ok(match linker.variable(name) {
            Some(address) => of_program((address as u64).wrapping_add(offset)),
            None if one.weak => Operand::Constant(0),
            None => missing("variable"),
        }),
        ExternKind::Configuration { offset: start, size, .. } => {
            if !one.weak && linker.kconfig(&one.name).is_none() {
                return Ok(missing("configuration value"));
            }
            if offset >= size {
                return Err(format!("offset {offset} outside of {name}"));
            }
            Ok(Operand::Address {
                within: Base::Kconfig,
                address: kconfig.as_ptr() as u64 + start + offset,
            })
        }
    }
}

/// Applies the CO-RE relocations of a function.
fn relocate(
    object: &Object,
    linker: &dyn Linker,
    function: &Function,
    operations: &mut [Operation],
) -> Result<(), Error> {
    let mut field_offsets = vec![false; operations.len()];
    for (section, relocations) in &object.ext().relocations {
        if *section != function.section {
            continue;
        }
        for relocation in relocations {
            let position = relocation.offset as usize / SIZE;
            let Some(at) = position.checked_sub(function.start).filter(|&at| at < operations.len())
            else {
                continue;
            };
            let instruction = operations[at].instruction;
            if matches!(operations[at].operand, Some(Operand::Unknown(_))) {
                continue;
            }
            let result =
                core_relocation::resolve(object.btf(), linker, relocation).and_then(|resolution| {
                    let what = || core_relocation::describe(object.btf(), relocation);
                    let patched = core_relocation::patch(instruction, resolution, &what)?;
                    Ok((resolution, patched))
                });
            match result {
                Ok((resolution, patched)) => {
                    operations[at].instruction = patched;
                    if instruction.is_wide() {
                        operations[at].operand = Some(Operand::Constant(resolution.value));
                    }
                    field_offsets[at] = relocation.is_field_offset();
                }
                Err(Failure::Absent(problem)) => operations[at].operand = Some(absent(problem)),
                Err(Failure::Malformed(problem)) => {
                    return Err(malformed(place(object, function, at), problem));
                }
            }
        }
    }
    mark_kernel_loads(operations, &field_offsets);
    Ok(())
}

/// Control must not leave the function at its end, and accesses to the stack must not lie outside the frame.
fn check_flow(
    object: &Object,
    function: &Function,
    operations: &[Operation],
    flow: &Flow,
) -> Result<(), Error> {
    for (at, operation) in operations.iter().enumerate() {
        if !flow.reachable[at] {
            continue;
        }
        let one = operation.instruction;
        let bad = |problem: &str| malformed(place(object, function, at), problem);
        if let Some(Operand::Unknown(problem)) = &operation.operand {
            return Err(unsupported(place(object, function, at), problem));
        }
        let next = at + if one.is_wide() { 2 } else { 1 };
        if next >= operations.len() && !one.ends_flow() && !operation.ends_function() {
            return Err(bad("control runs out of the function"));
        }
        let base = match one.class() {
            class::LDX => one.source,
            class::STX if one.mode() == mode::ATOMIC && one.immediate == atomic::LOAD_ACQUIRE => {
                one.source
            }
            _ => one.destination,
        };
        if one.accesses_memory() && base == FRAME_POINTER {
            let end = i32::from(one.offset) + i32::from(one.access_size());
            if one.offset < -512 || end > 0 {
                return Err(bad("accesses the stack outside of the frame"));
            }
        }
    }
    Ok(())
}
