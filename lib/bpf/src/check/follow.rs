//! Following the paths through a function until nothing new is learnt.
//!
//! States are kept where blocks begin. Within a block there is one path, and a state changes in place. Blocks are visited in the order of the
//! text, so that most paths to a block are followed before the block itself, and loops are finished before the code after them.

use std::collections::{BTreeMap, BTreeSet};

use super::state::State;
use super::value::{Target, Value};
use super::{Facts, branch};
use crate::blocks::{after, beginnings};
use crate::link::Linked;

/// Maximum number of paths to a block that are followed separately.
const WAYS: usize = 24;
/// After this many returns to the beginning of a loop, bounds that still change are given up.
const PATIENCE: u32 = 18;

/// The states on the paths through a function.
pub(super) struct Ways {
    /// The states where blocks begin, by instruction: one for each set of things that the program may hold there.
    pub before: Vec<Vec<State>>,
    /// Values that the function returns, by the block that returns it and the number of the state at its beginning.
    returned: BTreeMap<(usize, usize), Value>,
}

impl Ways {
    /// The value that the function returns.
    pub(super) fn result(&self) -> Value {
        let mut results = self.returned.values().copied();
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

impl Facts<'_> {
    /// Follows all paths through a function.
    pub(super) fn follow(&self, linked: &Linked, arguments: [Value; 5]) -> Ways {
        let count = linked.operations.len();
        let mut ways = Ways { before: vec![Vec::new(); count], returned: BTreeMap::new() };
        let begins = beginnings(&linked.operations, |_| true);
        let mut returns = vec![0_u32; count];
        let mut work = BTreeSet::from([(0, 0)]);
        ways.before[0].push(State::new(arguments));
        while let Some((start, number)) = work.pop_first() {
            let mut state = ways.before[start][number].clone();
            let last = self.pass(linked, &begins, start, &mut state);
            if linked.operations[last].instruction.is_exit() {
                ways.returned.insert((start, number), state.registers[0]);
            }
            let nexts = self.successors(linked, last, state);
            for (next, state) in nexts.into_iter().flatten().filter(|one| one.0 < count) {
                // Each loop has a jump backwards, or to itself.
                let is_return = next <= start;
                returns[next] += u32::from(is_return);
                let widen = is_return && returns[next] > PATIENCE;
                if let Some(number) = arrive(&mut ways.before[next], state, widen) {
                    work.insert((next, number));
                }
            }
        }
        ways
    }

    /// Passes through the block that begins at `start`; returns its last instruction. `state` is then the state after it or, if it is a
    /// jump or ends the function, before it.
    fn pass(&self, linked: &Linked, begins: &[bool], start: usize, state: &mut State) -> usize {
        let mut at = start;
        loop {
            let operation = &linked.operations[at];
            if operation.target.is_some() || operation.ends_function() {
                return at;
            }
            self.step(at, operation, state);
            let next = after(operation, at);
            if begins.get(next) != Some(&false) {
                return at;
            }
            at = next;
        }
    }

    /// Where control goes from the last instruction of a block, and the state there.
    fn successors(
        &self,
        linked: &Linked,
        last: usize,
        state: State,
    ) -> [Option<(usize, State)>; 2] {
        let operation = &linked.operations[last];
        let next = after(operation, last);
        let Some(target) = operation.target else {
            let goes_on = !operation.ends_function();
            return [goes_on.then_some((next, state)), None];
        };
        let may = |taken: bool| linked.flow.decided[last] != Some(!taken);
        let instruction = operation.instruction;
        let jumps = if may(true) { branch::after(instruction, state.clone(), true) } else { None };
        let stays = if may(false) { branch::after(instruction, state, false) } else { None };
        [jumps.map(|state| (target, state)), stays.map(|state| (next, state))]
    }
}

/// Adds a state to those at the beginning of a block. Returns the number of the one that it changed, if any.
fn arrive(known: &mut Vec<State>, mut state: State, widen: bool) -> Option<usize> {
    if known.len() >= WAYS && known.iter().all(|one| one.holding != state.holding) {
        state.holding = None;
    }
    match known.iter().position(|one| one.holding == state.holding) {
        Some(number) => known[number].join(&state, widen).then_some(number),
        None => {
            known.push(state);
            Some(known.len() - 1)
        }
    }
}
