//! The kernel that an object is compiled against.

use crate::context::Entry;
use crate::contract::{Argument, CallResult, Contract};

/// A helper or kernel function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Native {
    /// Address of its code, which has the signature [`crate::Entry`].
    pub address: *const u8,
    /// How many of the registers r1 to r5 it reads. The contents of the others are undefined when it is called.
    pub arguments: usize,
    /// The instructions that may take the place of a call of it.
    pub inline: Option<Inline>,
    /// How many BPF instructions these instructions count as; `None` if they cost [`crate::Context::call_cost`].
    pub instructions: Option<u64>,
}

impl Native {
    /// A function that is called.
    pub fn called(address: Entry, arguments: usize) -> Self {
        Self { address: address as *const u8, arguments, inline: None, instructions: None }
    }
}

/// Instructions that do the same as a function of the kernel, faster than a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inline {
    /// Returns the number of the CPU.
    Cpu,
    /// `bpf_iter_num_new()`: begins an iteration over numbers.
    FirstNumber,
    /// `bpf_iter_num_next()`: its next number.
    NextNumber,
    /// `bpf_iter_num_destroy()`: its end.
    LastNumber,
    /// `bpf_map_lookup_elem()`. Only for maps that are known to be arrays: the others' calls stay.
    LookUp,
    /// `bpf_map_lookup_percpu_elem()`, likewise.
    LookUpOfCpu,
}

/// Answers an object's questions about its kernel. The answers are built into the code and shared by all simulations. Answers that are only used
/// to check the code may be left out: then nothing is known, and nothing is refused.
pub trait Linker {
    /// The helper with that number (`BPF_FUNC_*`).
    fn helper(&self, id: u32) -> Option<Native>;

    /// The kernel function of that name, without `___flavor`.
    fn kfunc(&self, name: &str) -> Option<Native>;

    /// The field at the end of a path of member names, from a structure named without `___flavor`. Members of anonymous structures and unions
    /// belong to the structure around them. An array in the path stands for its first element.
    fn field(&self, structure: &str, path: &[&str]) -> Option<Field>;

    /// Size in bytes of the structure, union, enumeration or typedef of that
    /// name, without `___flavor`.
    fn type_size(&self, name: &str) -> Option<u32>;

    /// Value of an enumerator of that enumeration.
    fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64>;

    /// A configuration value, such as `CONFIG_HZ`. Tristate values are 1 for y, 0 for n and 2 for m; `LINUX_KERNEL_VERSION` is also asked for here.
    fn kconfig(&self, name: &str) -> Option<u64>;

    /// Address of a kernel variable (`__ksym`).
    fn variable(&self, name: &str) -> Option<*const u8>;

    /// Called, with the signature [`crate::Entry`], when a loop continues beyond [`crate::Context::instruction_limit`]; `r1` says where, for
    /// [`crate::Code::place`]. A helper that calls back many times must stop when it finds the limit to be 0.
    fn runaway(&self) -> *const u8;

    /// Called, with the signature [`crate::Entry`], when code gets to something that the linker lacks. `r1` and `r2` are address and length of
    /// a UTF-8 text that names it, `r3` says where, for [`crate::Code::place`]. All running functions return 0 afterwards, as they do after
    /// [`Linker::runaway`].
    fn unavailable(&self) -> *const u8;

    /// Called like [`Linker::unavailable`] when code is about to make an access that is not allowed. The text says which.
    fn stray(&self) -> *const u8;

    /// Whether the kernel, and not only a model of it, is known to have no kernel function, or no variable with a type, of that name. libbpf then
    /// does not load an object that needs it.
    fn lacks(&self, _name: &str, _is_function: bool) -> bool {
        false
    }

    /// The remedy where the kernel does not have the function of that name, as the rest of a sentence about it.
    fn remedy(&self, _name: &str) -> Option<String> {
        None
    }

    /// Name of the helper with that number, whether there is one or not.
    fn helper_name(&self, _id: u32) -> Option<&'static str> {
        None
    }

    /// Name and contract of the helper with that number.
    fn helper_contract(&self, _id: u32) -> Option<(&'static str, Contract)> {
        None
    }

    /// The contract of the kernel function of that name.
    fn kfunc_contract(&self, _name: &str) -> Contract {
        Contract { arguments: [Argument::Any; 5], result: CallResult::Any, ..Contract::default() }
    }

    /// How deep functions may call one another (`MAX_CALL_FRAMES`), at most 16.
    fn call_frames(&self) -> usize {
        16
    }

    /// The arguments of a program attached to the event that the section names: the structures that they point to, "" for numbers. `None`
    /// if the kernel has no such event.
    fn event_arguments(&self, _section: &str) -> Option<Vec<&'static str>> {
        None
    }

    /// Whether an argument of a callback, by its number from 0, may be NULL.
    fn may_be_null(&self, _callback: &str, _argument: usize) -> bool {
        false
    }

    /// Whether a program may write to that part of a kernel structure.
    fn may_write(&self, _structure: &str, _offset: i64, _size: u64) -> bool {
        true
    }

    /// Whether structures of that name are kernel objects, which only the kernel can create.
    fn is_object(&self, _structure: &str) -> bool {
        false
    }

    /// Whether the first member of a kernel structure is a `_first`, so that a pointer to the structure will do for one.
    fn begins_with(&self, _structure: &str, _first: &str) -> bool {
        false
    }
}

/// Place and size of a field of a kernel structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Offset in bytes; for a bit field, of the storage unit that holds it.
    pub offset: u32,
    /// Size in bytes; for a bit field, of the storage unit.
    pub size: u32,
    /// Bits within the storage unit, if this is a bit field.
    pub bits: Option<Bits>,
    /// Whether it is a signed integer or enumeration.
    pub signed: bool,
}

/// Place of a bit field in its storage unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Lowest bit.
    pub offset: u32,
    /// Number of bits, at least 1.
    pub size: u32,
}
