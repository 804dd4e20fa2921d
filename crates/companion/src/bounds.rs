//! What expressions in files may take. The files may come from others.

use rhai::module_resolvers::DummyModuleResolver;
use rhai::{Engine, EvalAltResult, FLOAT, INT};

/// Calls and operators inside of each other.
const DEPTH: usize = 64;
/// Bytes of a text.
const TEXT: usize = 1 << 20;
/// Members of a list or table, with those of the lists and tables in it: more than all that expressions may say of the largest machine.
const MEMBERS: usize = 1 << 25;

/// Bounds what an expression can ask of `engine`, in depth and size, and leaves it nothing but to compute: it reads no file, prints nothing
/// and does not sleep.
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
