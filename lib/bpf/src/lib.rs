//! BPF objects as machine code.
//!
//! [`Object::parse`] reads the objects that `clang -target bpf -g` writes: programs, maps, global variables and `struct_ops` tables. [`compile`] translates
//! the programs for this machine against a [`Linker`], which stands for the kernel: it knows the helpers, the kernel functions and the layout
//! of kernel structures. The [`Code`] is compiled once and shared by many simulations, each of which calls it with its own [`Context`].

mod blocks;
mod btf;
mod btf_ext;
mod bytes;
mod check;
mod code;
mod constants;
mod context;
mod contract;
mod core_relocation;
mod elf;
mod error;
mod frame;
mod instruction;
mod kernel_loads;
mod link;
mod linker;
mod loader;
mod location;
mod maps;
mod object;
mod prepared;
mod setup;
mod special;
mod symbols;
mod translate;
mod translated;
mod validate;

pub use btf::{Btf, Linkage, Member, SectionVariable, Type, TypeId, TypeKind};
pub use code::{Code, Needs, compile, compile_unguarded, compile_with, examine};
pub use context::{ArrayHead, Context, Entry, NULL_PAGE, NullPage, Stack};
pub use contract::{Argument, CallResult, Contract, Effect, Region};
pub use error::{Error, Missing};
pub use link::{HelperCall, KernelCall};
pub use linker::{Bits, Field, Inline, Linker, Native};
pub use loader::{
    BpfCall, Demand, LOADER_PID, Loader, LoaderThread, MapOperation, Reply, Request,
    ThreadAttributes, Wait,
};
pub use location::Location;
pub use maps::{InitialValue, Map, kind as map_kind};
pub use object::{
    Extern, ExternKind, Object, Program, SCHEDULER_TABLES, Section, Slot, StructOps,
    StructOpsMember, StructOpsValue, Variable, VariableKind, number,
};
pub use prepared::{CONSTANTS, Given, Prepared, Value};
pub use setup::{MapEntry, NewEntry, NewMap, Passed, ProgramRun, RunTime, Setup, VariablePatch};
pub use special::{SpecialField, SpecialKind};
pub use symbols::Symbols;
pub use translated::{Translated, processor, translated};
