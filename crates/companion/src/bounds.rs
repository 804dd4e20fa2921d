//! Limits of expressions in files. The files may come from others.

use rhai::module_resolvers::DummyModuleResolver;
use rhai::{Engine, EvalAltResult, FLOAT, INT};

/// Maximum nesting of calls and operators.
const DEPTH: usize = 64;
/// Maximum bytes of a text.
const TEXT: usize = 1 << 20;
/// Maximum members of a list or table, including nested ones: more than expressions can need to say about the largest machine.
const MEMBERS: usize = 1 << 25;

/// Limits the depth and size of what an expression can ask of `engine`, and allows nothing but computation: no reading of files, no output, no sleep.
pub fn bound(engine: &mut Engine) {
    engine.set_max_expr_depths(DEPTH, DEPTH);
    engine.set_max_string_size(TEXT);
    engine.set_max_array_size(MEMBERS);
    engine.set_max_map_size(MEMBERS);
    engine.set_module_resolver(DummyModuleResolver::new());
    engine.on_print(|_| {});
    engine.on_debug(|_, _, _| {});
    engine.register_fn("sleep", |_: INT| no_time());
    engine.register_fn("sleep", |_: FLOAT| no_time());
}

fn no_time() -> Result<(), Box<EvalAltResult>> {
    Err("expressions do not sleep".into())
}
