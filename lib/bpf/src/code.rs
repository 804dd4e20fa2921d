//! Machine code of an object.

use std::mem::ManuallyDrop;

use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{DataId, FuncId, Linkage, Module, default_libcall_names};
use serde::{Deserialize, Serialize};

use crate::context::Entry;
use crate::error::{Error, Missing};
use crate::link::{Calls, HelperCall, KernelCall, LinkedObject, kconfig_values, link};
use crate::linker::Linker;
use crate::location::{Location, Places};
use crate::object::Object;
use crate::translate::program;
use crate::translated::{Translated, Translation, by_slot, generator, isa, translated};

/// The compiled programs of one object. It holds no simulation state: any number of simulations, on any threads, may run it at once, each with
/// its own [`crate::Context`]. The code is freed with this value.
pub struct Code {
    module: ManuallyDrop<JITModule>,
    /// Sorted by address.
    functions: Vec<Compiled>,
    /// Data to which the code refers by address.
    _kconfig: Box<[u8]>,
    _problems: Box<str>,
    needs: Needs,
}

/// An object's needs of its kernel.
#[derive(Serialize, Deserialize)]
pub struct Needs {
    missing: Vec<Missing>,
    untested: Vec<Missing>,
    /// The calls of each function, with its name.
    calls: Vec<(String, Calls)>,
}

// SAFETY: after compilation nothing changes the module, and its memory is
// executable and read-only.
unsafe impl Send for Code {}
// SAFETY: as above; all methods only read.
unsafe impl Sync for Code {}

/// One compiled function.
struct Compiled {
    /// Index in the object.
    function: usize,
    name: String,
    address: usize,
    size: usize,
    /// Offset in the code, and the instruction whose code starts there; sorted.
    places: Vec<(u32, usize)>,
    /// Source lines of the instructions.
    source: Places,
}

impl Compiled {
    fn entry(&self) -> Entry {
        // SAFETY: the address is that of a function compiled with exactly this signature.
        unsafe { std::mem::transmute::<usize, Entry>(self.address) }
    }
}

/// Compiles the programs of an object that are marked for loading
/// ([`crate::Program::autoload`]), and the functions they use.
///
/// Accesses that the kernel's verifier visibly would refuse are errors; accesses about which too little is known are checked at run time
/// ([`Linker::stray`]). That is less than a proof: the object is trusted like any machine code.
///
/// # Errors
///
/// [`Error::Refused`] names accesses that a kernel would refuse. [`Error::Malformed`] and [`Error::Unsupported`] name an invalid instruction. It is not
/// an error if the linker lacks something: see [`Needs::missing`].
pub fn compile(object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
    compile_with(object, linker, &[])
}

/// The same for one setting of the read-only variables, with which a kernel's verifier knows them: code that these values rule out is neither
/// checked nor compiled, and may be anything. `read_only` has the contents of sections, by their number in [`Object::sections`]. The code is
/// right only where the sections have these contents.
pub fn compile_with(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[(usize, Vec<u8>)],
) -> Result<Code, Error> {
    translated(object, linker, read_only).load(object, linker)
}

/// The object's needs of its kernel, with these contents of its read-only sections: all of [`compile_with`] but the translation.
pub fn examine(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[(usize, Vec<u8>)],
) -> Result<Needs, Error> {
    let linked = link(object, linker, &by_slot(object, read_only))?;
    let LinkedObject { missing, untested, calls, .. } = linked;
    Ok(Needs::of(object, missing, untested, calls))
}

/// The same without run-time checks, to measure their cost.
pub fn compile_unguarded(object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
    let mut linked = link(object, linker, &[])?;
    for function in &mut linked.functions {
        function.checks.fill(None);
    }
    Translation::of(object, linker, linked)?.load(object, linker)
}

/// A module in which the functions of an object are declared, and the places that their addresses are counted from.
pub(crate) struct Shell {
    pub module: JITModule,
    pub signature: Signature,
    /// In the order of [`crate::link::Base`].
    pub bases: [DataId; 3],
    /// Index in the object, and the module's number; sorted.
    functions: Vec<(usize, FuncId)>,
}

impl Shell {
    /// A module for these functions of an object, with room for `size` bytes of code. `bases` says where the [`crate::link::Base`]s are.
    pub fn new(functions: &[usize], size: usize, bases: [u64; 3]) -> Result<Self, Error> {
        let bad = |error: &dyn std::fmt::Display| generator("the setup", error);
        let mut builder = JITBuilder::with_isa(isa()?, default_libcall_names());
        // One reservation of address space keeps calls between the functions within near-call range, despite other mappings of the process.
        let memory = ArenaMemoryProvider::new_with_size(size).map_err(|error| bad(&error))?;
        builder.memory_provider(Box::new(memory));
        let names = ["program", "kconfig", "problems"];
        for (name, base) in names.iter().zip(bases) {
            builder.symbol(*name, base as *const u8);
        }
        let mut module = JITModule::new(builder);
        let mut signature = module.make_signature();
        signature.params.extend([AbiParam::new(types::I64); 6]);
        signature.returns.push(AbiParam::new(types::I64));
        let mut ids = [DataId::from_u32(0); 3];
        for (id, name) in ids.iter_mut().zip(names) {
            *id = module
                .declare_data(name, Linkage::Import, false, false)
                .map_err(|error| bad(&error))?;
        }
        let declared = functions.iter().map(|&function| {
            let id = module.declare_anonymous_function(&signature);
            Ok((function, id.map_err(|error| bad(&error))?))
        });
        let functions = declared.collect::<Result<_, _>>()?;
        Ok(Self { module, signature, bases: ids, functions })
    }

    /// The module's number for each of the `count` functions of the object.
    pub fn ids(&self, count: usize) -> Vec<Option<FuncId>> {
        let mut ids = vec![None; count];
        for &(function, id) in &self.functions {
            ids[function] = Some(id);
        }
        ids
    }
}

impl Translated {
    /// Loads the code, which was translated from `object` for `linker`.
    pub fn load(self, object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
        self.0?.load(object, linker)
    }
}

impl Translation {
    fn load(self, object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
        let kconfig = kconfig_values(object, linker)?;
        let problems = self.problems.into_boxed_str();
        let bases = [program(), kconfig.as_ptr() as u64, problems.as_ptr() as u64];
        let functions: Vec<usize> = self.functions.iter().map(|one| one.function).collect();
        let size: usize = self.functions.iter().map(|one| one.code.len() + 8192).sum();
        let mut shell = Shell::new(&functions, size.max(1 << 20), bases)?;
        let module = &mut shell.module;
        for (one, &(_, id)) in self.functions.iter().zip(&shell.functions) {
            let relocations = one.relocations.iter();
            let relocations: Vec<_> = relocations.map(|one| one.to_module()).collect();
            module
                .define_function_bytes(id, one.alignment, &one.code, &relocations)
                .map_err(|error| generator("the loading", format!("{error:?}")))?;
        }
        module.finalize_definitions().map_err(|error| generator("the end", error))?;
        let loaded = self.functions.into_iter().zip(&shell.functions);
        let mut functions: Vec<Compiled> = loaded
            .map(|(one, &(_, id))| Compiled {
                function: one.function,
                name: object.functions()[one.function].name.clone(),
                address: module.get_finalized_function(id) as usize,
                size: one.code.len(),
                places: one.places,
                source: object.places(&object.functions()[one.function]),
            })
            .collect();
        functions.sort_by_key(|one| one.address);
        Ok(Code {
            module: ManuallyDrop::new(shell.module),
            functions,
            _kconfig: kconfig,
            _problems: problems,
            needs: self.needs,
        })
    }
}

impl Code {
    /// The compiled code of a program or function, by name. It may only be called with the arguments that it expects, and while this value lives.
    pub fn entry(&self, program: &str) -> Option<Entry> {
        Some(self.functions.iter().find(|one| one.name == program)?.entry())
    }

    /// The same for the code of a program or function that begins at `address`.
    pub fn entry_at(&self, address: usize) -> Option<Entry> {
        let place = self.functions.binary_search_by_key(&address, |one| one.address);
        Some(self.functions[place.ok()?].entry())
    }

    /// The source line of an address inside the code, for crash reports.
    pub fn locate(&self, address: *const u8) -> Option<Location> {
        let address = address as usize;
        let after = self.functions.partition_point(|one| one.address <= address);
        let one = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - one.address;
        if offset >= one.size {
            return None;
        }
        let offset = u32::try_from(offset).ok()?;
        let after = one.places.partition_point(|place| place.0 <= offset);
        let place = after.checked_sub(1).map_or(0, |index| one.places[index].1);
        Some(one.source.at(place))
    }

    /// The source line for a token passed to [`Linker::runaway`] or [`Linker::unavailable`].
    pub fn place(&self, token: u64) -> Option<Location> {
        let function = (token >> 32) as usize;
        let instruction = (token & 0xffff_ffff) as usize;
        Some(self.functions.iter().find(|one| one.function == function)?.source.at(instruction))
    }

    /// Its needs of its kernel.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Size of the machine code in bytes.
    pub fn size(&self) -> usize {
        self.functions.iter().map(|one| one.size).sum()
    }
}

impl Needs {
    pub(crate) fn of(
        object: &Object,
        missing: Vec<Missing>,
        untested: Vec<Missing>,
        calls: Vec<Calls>,
    ) -> Needs {
        let name = |calls: &Calls| object.functions()[calls.function].name.clone();
        let calls = calls.into_iter().map(|calls| (name(&calls), calls));
        Needs { missing, untested, calls: calls.collect() }
    }

    /// Names that reachable code needs and the linker lacks, each once. A program that gets there ends with [`Linker::unavailable`].
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Calls of weak functions that the kernel lacks, in code that no test for them rules out: a kernel's verifier refuses those.
    pub fn untested(&self) -> &[Missing] {
        &self.untested
    }

    /// The kernel function calls that a program can reach, in itself, in functions that it calls and in its callbacks.
    pub fn kernel_calls(&self, program: &str) -> Vec<&KernelCall> {
        let calls = self.calls_of(program).into_iter();
        calls.flat_map(|calls| &calls.kernel).collect()
    }

    /// The same for helpers.
    pub fn helper_calls(&self, program: &str) -> Vec<&HelperCall> {
        let calls = self.calls_of(program).into_iter();
        calls.flat_map(|calls| &calls.helpers).collect()
    }

    /// The calls of the functions that a program can reach.
    fn calls_of(&self, program: &str) -> Vec<&Calls> {
        let start = self.calls.iter().find(|(name, _)| name == program);
        let mut wanted: Vec<usize> = start.map(|(_, one)| one.function).into_iter().collect();
        let mut seen = Vec::new();
        let mut found = Vec::new();
        while let Some(function) = wanted.pop() {
            if seen.contains(&function) {
                continue;
            }
            seen.push(function);
            let calls = self.calls.iter().map(|(_, calls)| calls);
            for calls in calls.filter(|one| one.function == function) {
                found.push(calls);
                wanted.extend(&calls.own);
            }
        }
        found
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.functions.iter().map(|one| &*one.name).collect();
        formatter
            .debug_struct("Code")
            .field("functions", &names)
            .field("size", &self.size())
            .finish()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the module is taken only once, here, and entries must not be called after their code was dropped.
        unsafe {
            ManuallyDrop::take(&mut self.module).free_memory();
        }
    }
}
