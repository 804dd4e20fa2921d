//! The kernel functions (kfuncs) and helpers that schedulers call.

use std::collections::BTreeSet;

use fairground_bpf::{Context, Entry, Inline, Native};
use fairground_linux::{Release, function};

use crate::cost::Lock;
use crate::kernel::Kernel;

pub(crate) mod arena;
mod cid;
pub(crate) mod contracts;
pub(crate) mod cpumask;
mod current;
mod dsq;
mod dynptr;
mod helpers;
mod idle;
mod iterators;
mod objects;
mod output;
mod passed;
mod strings;
mod task;
mod work;

/// What the programs of a loaded scheduler have made in the kernel, and what is known of their memory.
#[derive(Default)]
pub struct Made {
    /// Objects, and the trees and lists that they are in.
    objects: Objects,
    /// Masks of CPUs.
    masks: cpumask::Masks,
    /// Spin locks. Each holds its index here plus 1, so that zeroed memory is a new lock.
    spin_locks: Vec<Lock>,
    /// Pages that they have probed and that are memory.
    probed: BTreeSet<u64>,
}

/// The kernel that a context belongs to.
///
/// # Safety
///
/// Only for calls that come from compiled scheduler code: [`Kernel::call_function`] has just stored the pointer, and does not
/// use its own reference before the code returns.
pub(crate) unsafe fn kernel_of<'k>(context: *mut Context) -> &'k mut Kernel<'k> {
    // SAFETY: the caller says so.
    unsafe { &mut *(*context).kernel.cast::<Kernel<'k>>() }
}

/// A row of a table of functions: name, code, and how many arguments they have; the instructions that take the place of a call, and how many BPF
/// instructions they cost.
pub(crate) type Row = (&'static str, Entry, usize, Option<Inline>, Option<u64>);

/// Defines functions with the calling convention of compiled code, and the table of their names. Each costs a call, or is
/// `costing` so many BPF instructions: on x86-64 the verifier replaces the call with them. One that is `inline` is not called where the
/// translation knows these instructions, which do the same.
macro_rules! kernel_functions {
    (@cost $kernel:ident) => { $kernel.context.spent += $kernel.settings.cost.kfunc };
    (@cost $kernel:ident $instructions:literal) => { $kernel.context.instructions += $instructions };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    ($table:ident; $(
        $(#[$meta:meta])*
        fn $name:ident($kernel:ident $(, $argument:ident)*) $(costing $instructions:literal)? $(inline $inline:ident)? $body:block
    )*) => {
        $(
            $(#[$meta])*
            #[allow(unused_variables, non_snake_case)]
            unsafe extern "C" fn $name(
                context: *mut fairground_bpf::Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64,
            ) -> u64 {
                // SAFETY: called by compiled scheduler code only.
                let $kernel = unsafe { crate::kfunc::kernel_of(context) };
                $crate::kfunc::kernel_functions!(@cost $kernel $($instructions)?);
                let [$($argument,)* ..] = [r1, r2, r3, r4, r5];
                $body
            }
        )*
        /// The rows of the functions above.
        pub(super) static $table: &[$crate::kfunc::Row] = &[$((
            stringify!($name),
            $name,
            { const NAMES: &[&str] = &[$(stringify!($argument)),*]; NAMES.len() },
            $crate::kfunc::kernel_functions!(@option $(fairground_bpf::Inline::$inline)?),
            $crate::kfunc::kernel_functions!(@option $($instructions)?),
        )),*];
    };
}
pub(crate) use iterators::Iterations;
pub(crate) use kernel_functions;
use objects::Objects;
pub(crate) use passed::{copy, load, read_bytes, write_bytes};

/// The tables of kernel functions.
static TABLES: [&[Row]; 12] = [
    dsq::TABLE,
    idle::TABLE,
    cid::TABLE,
    task::TABLE,
    cpumask::TABLE,
    iterators::TABLE,
    output::TABLE,
    arena::TABLE,
    objects::TABLE,
    strings::TABLE,
    work::TABLE,
    dynptr::TABLE,
];

/// The code of the kernel function called `name`, if `release` has one. A renamed function does the same as under its new name.
pub(crate) fn find(name: &str, release: Release) -> Option<Native> {
    let function = function(name)?;
    if !function.releases.contains(release) {
        return None;
    }
    let alike = function.successor.as_ref();
    let alike = alike.filter(|successor| successor.remark.is_empty());
    code(name).or_else(|| code(alike?.name))
}

/// The code under this name.
fn code(name: &str) -> Option<Native> {
    let mut rows = TABLES.into_iter().flatten();
    rows.find(|(known, ..)| *known == name).map(native)
}

/// A row of a table of functions, in the form that the linker returns.
fn native(&(_, entry, arguments, inline, instructions): &Row) -> Native {
    Native { inline, instructions, ..Native::called(entry, arguments) }
}

/// The code of the helper with this number.
pub(crate) fn find_helper(number: u32) -> Option<Native> {
    helpers::find(number)
}

/// The name of the function that implements the helper with this number: its own, or that of one that does the same here.
pub(crate) fn implementation(number: u32) -> Option<&'static str> {
    helpers::implementation(number)
}

/// A 32-bit number as compiled code receives it: sign-extended.
pub(crate) fn signed(value: i32) -> u64 {
    i64::from(value) as u64
}

/// A negative error number.
pub(crate) fn error(number: i64) -> u64 {
    (-number) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_linux::helpers;

    #[test]
    fn the_table_of_functions_has_what_the_model_has() {
        let names = TABLES.into_iter().flatten().map(|row| row.0);
        let unknown: Vec<&str> = names.filter(|name| function(name).is_none()).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[test]
    fn the_model_has_the_helpers_that_callbacks_may_call() {
        for (number, helper) in helpers().filter(|(_, one)| one.for_callbacks) {
            let is_there = find_helper(number).is_some();
            assert_eq!(is_there, !helper.is_lacking, "{}", helper.name);
        }
    }
}
