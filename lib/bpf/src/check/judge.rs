//! Verdicts on instructions, from all that is known before them.

use super::follow::Ways;
use super::state::{Held, State};
use super::value::{Target, Value};
use super::{Check, Facts, Guard, Origin, Verdict};
use crate::blocks::after;
use crate::error::{Error, refused};
use crate::link::{Linked, Operand};
use crate::object::Reference;

/// The result of checking a function.
pub(super) struct Judgement {
    /// The check at run time before each instruction.
    pub checks: Vec<Option<Check>>,
    /// The calls of other functions of the object, with their arguments. Nothing is known about those of callbacks.
    pub calls: Vec<(usize, [Value; 5])>,
}

impl Facts<'_> {
    /// Reports the first thing that is refused, or which checks instructions need.
    pub(super) fn judge(&self, linked: &Linked, ways: &Ways) -> Result<Judgement, Error> {
        let mut judgement =
            Judgement { checks: vec![None; linked.operations.len()], calls: Vec::new() };
        let mut states = Vec::new();
        let mut verdicts = Vec::new();
        let mut next = 0;
        while let Some(operation) = linked.operations.get(next) {
            let at = next;
            next = after(operation, at);
            let arrived = &ways.before[at];
            if !arrived.is_empty() {
                states.clone_from(arrived);
            }
            if let Some(Operand::Function(callee)) = operation.operand {
                let is_call = operation.instruction.is_call();
                let arguments = states.iter().map(|state| arguments(state, is_call));
                let calls = arguments.map(|arguments| (callee, arguments));
                judgement.calls.extend(calls);
            }
            if operation.instruction.is_exit() {
                self.check_end(linked, &states)?;
            }
            if operation.target.is_some() || operation.ends_function() {
                // The following instructions are another block.
                states.clear();
                continue;
            }
            verdicts.clear();
            verdicts.extend(states.iter_mut().map(|state| self.step(at, operation, state)));
            if let Some(problem) = all_refused(&verdicts) {
                return Err(self.refuse(at, problem));
            }
            judgement.checks[at] = common_guard(&verdicts)
                .map(|guard| Check { guard, problem: self.broken(linked, guard) });
        }
        Ok(judgement)
    }

    /// Refuses a program that ends while it holds something.
    fn check_end(&self, linked: &Linked, states: &[State]) -> Result<(), Error> {
        if self.may_sleep.is_none() {
            // A subprogram may end a region that its caller has begun, and the other way round.
            return Ok(());
        }
        let mut certain = states.iter().filter(|state| !state.is_doubtful);
        certain.find_map(|state| self.leak(linked, state)).map_or(Ok(()), Err)
    }

    /// The fault if a guard fails.
    fn broken(&self, linked: &Linked, guard: Guard) -> String {
        match guard {
            Guard::NotNull => "NULL is used as a pointer".to_owned(),
            Guard::Arena => String::new(),
            Guard::Within { origin, .. } => match origin {
                Origin::Slot(slot) => {
                    format!("access outside of {}", self.name(Target::Section(slot)))
                }
                Origin::Stack => "access outside of the stack".to_owned(),
                Origin::Call(at) => {
                    format!(
                        "access outside of the memory that {}() returned",
                        self.called(linked, at)
                    )
                }
            },
        }
    }

    fn refuse(&self, at: usize, problem: String) -> Error {
        refused(self.object.location(self.function, at).to_string(), problem)
    }

    /// A thing that the program still holds at its end, as an error at the place where it was acquired.
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
        self.linker.helper_contract(id).map_or("a helper", |(name, _)| name).to_owned()
    }
}

/// The arguments of a call.
fn arguments(state: &State, is_call: bool) -> [Value; 5] {
    match is_call {
        true => std::array::from_fn(|number| state.registers[number + 1]),
        false => [Value::Any; 5],
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
