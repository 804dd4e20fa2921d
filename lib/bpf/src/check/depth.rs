//! How deep functions call one another, and how much stack that takes.

use crate::context::Stack;
use crate::error::{Error, refused};
use crate::frame::Frame;
use crate::link::Linked;
use crate::linker::Linker;
use crate::object::Object;

/// Refuses what a kernel's verifier refuses of calls (`check_max_stack_depth()`): functions that call each other, too many frames, and frames
/// of more than 512 bytes together, each rounded up to 16. Helpers' callbacks run in the frames of their callers, those of timers do not.
pub(super) fn check_depth(
    object: &Object,
    linker: &dyn Linker,
    functions: &[Linked],
) -> Result<(), Error> {
    let place = |function: usize| functions.binary_search_by_key(&function, |one| one.function);
    let called = |one: &Linked| one.nested().filter_map(|callee| place(callee).ok()).collect();
    let calls: Vec<Vec<usize>> = functions.iter().map(called).collect();
    let order = callees_first(object, functions, &calls)?;
    let chains = Chains { object, functions, calls, order };
    let frames = linker.call_frames().min(Stack::CALL_DEPTH);
    chains.check(&vec![1; functions.len()], frames, |chain, depth| {
        let names = chain.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        format!("{depth} functions deep are called, and the kernel allows {frames}: {names}")
    })?;
    let used = |one: &Linked| Frame::of(&one.operations, |at| one.flow.reachable[at]).named.into();
    let sizes: Vec<usize> = functions.iter().map(used).collect();
    let limit = Stack::LIMIT;
    chains.check(&sizes, limit.into(), |chain, bytes| {
        let frames: Vec<String> =
            chain.iter().map(|(name, size)| format!("{name} {size}")).collect();
        let frames = frames.join(", ");
        format!(
            "functions that call one another take {bytes} bytes of stack together, and a kernel allows {limit}: {frames}; keep fewer variables \
             along this way, or do what ends before the deepest call in a function of its own (__noinline)"
        )
    })
}

/// The functions, each after all that it calls.
fn callees_first(
    object: &Object,
    functions: &[Linked],
    calls: &[Vec<usize>],
) -> Result<Vec<usize>, Error> {
    let mut is_done = vec![false; calls.len()];
    let mut order = Vec::new();
    while order.len() < calls.len() {
        let ready = |&at: &usize| !is_done[at] && calls[at].iter().all(|&callee| is_done[callee]);
        let next: Vec<usize> = (0..calls.len()).filter(ready).collect();
        if next.is_empty() {
            // Of those that are left, some only call one of the circle.
            let mut left: Vec<usize> = (0..calls.len()).filter(|&at| !is_done[at]).collect();
            let mut before = usize::MAX;
            while std::mem::replace(&mut before, left.len()) != left.len() {
                let called: Vec<usize> = left.iter().flat_map(|&at| calls[at].clone()).collect();
                left.retain(|at| called.contains(at));
            }
            let left: Vec<_> =
                left.iter().map(|&at| &object.functions()[functions[at].function]).collect();
            let names: Vec<&str> = left.iter().map(|one| one.name.as_str()).collect();
            let problem = format!("these functions call each other: {}", names.join(", "));
            return Err(refused(object.location(left[0], 0).to_string(), problem));
        }
        for &at in &next {
            is_done[at] = true;
        }
        order.extend(next);
    }
    Ok(order)
}

struct Chains<'a> {
    object: &'a Object,
    functions: &'a [Linked],
    /// The functions that each calls, by their places.
    calls: Vec<Vec<usize>>,
    order: Vec<usize>,
}

impl Chains<'_> {
    /// Refuses the chain of calls with the largest total of these costs if that is above a limit, in words for the chain and its total.
    fn check(
        &self,
        costs: &[usize],
        limit: usize,
        problem: impl Fn(&[(&str, usize)], usize) -> String,
    ) -> Result<(), Error> {
        let mut totals = vec![0; costs.len()];
        for &at in &self.order {
            let deepest = self.calls[at].iter().map(|&callee| totals[callee]).max();
            totals[at] = costs[at] + deepest.unwrap_or(0);
        }
        let first = (0..totals.len()).rev().max_by_key(|&at| totals[at]);
        let Some(first) = first.filter(|&first| totals[first] > limit) else { return Ok(()) };
        let next =
            |&at: &usize| self.calls[at].iter().copied().max_by_key(|&callee| totals[callee]);
        let function = |at: usize| &self.object.functions()[self.functions[at].function];
        let chain = std::iter::successors(Some(first), next);
        let chain: Vec<(&str, usize)> =
            chain.map(|at| (function(at).name.as_str(), costs[at])).collect();
        let place = self.object.location(function(first), 0).to_string();
        Err(refused(place, problem(&chain, totals[first])))
    }
}
