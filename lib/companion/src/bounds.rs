//! Limits of expressions in files. The files may come from others.

use std::cell::Cell;

use rhai::{Engine, EvalAltResult, FLOAT, INT};
use rustix::time::{ClockId, clock_gettime};

/// Maximum nesting of calls and operators.
const DEPTH: usize = 64;
/// Maximum bytes of a text.
const TEXT: usize = 1 << 20;
/// Maximum members of a list or table, including nested ones: more than expressions can need to say about the largest machine.
const MEMBERS: usize = 1 << 22;
/// Maximum CPU time of one expression: with large lists a few steps take long.
pub const SECONDS: i64 = 5;
/// Steps from one look at the clock to the next.
const LOOK: u64 = 16;

/// Limits the depth and size of expressions in `engine`, and allows nothing but computation: no reading of files, no output, no sleep.
pub fn bound(engine: &mut Engine) {
    engine.set_max_expr_depths(DEPTH, DEPTH);
    engine.set_max_string_size(TEXT);
    engine.set_max_array_size(MEMBERS);
    engine.set_max_map_size(MEMBERS);
    engine.on_print(|_| {});
    engine.on_debug(|_, _, _| {});
    engine.register_fn("sleep", |_: INT| no_time());
    engine.register_fn("sleep", |_: FLOAT| no_time());
}

/// Whether the expression that this thread evaluates has used up its CPU time. To be asked at every step, with its number from 1.
pub fn takes_too_long(step: u64) -> bool {
    thread_local! {
        static BEGAN: Cell<i64> = const { Cell::new(0) };
    }
    if step == 1 {
        BEGAN.set(clock_gettime(ClockId::ThreadCPUTime).tv_sec);
    }
    step.is_multiple_of(LOOK)
        && clock_gettime(ClockId::ThreadCPUTime).tv_sec - BEGAN.get() > SECONDS
}

fn no_time() -> Result<(), Box<EvalAltResult>> {
    Err("expressions do not sleep".into())
}
