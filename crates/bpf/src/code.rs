//! Machine code of an object.

use std::mem::ManuallyDrop;

use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};

use crate::context::Entry;
use crate::error::{Error, Missing};
use crate::link::{Calls, KernelCall, Linked, LinkedObject, Operand, link};
use crate::linker::Linker;
use crate::location::{Location, Places};
use crate::object::{Object, Slot};
use crate::translate::{Environment, translate};

/// The compiled programs of one object. It holds no simulation state: any number of simulations, on any threads, may run it at once, each with
/// its own [`crate::Context`]. The code is freed with this value.
pub struct Code {
    module: ManuallyDrop<JITModule>,
    /// Sorted by address.
    functions: Vec<Compiled>,
    /// What the code refers to by address.
    _kconfig: Box<[u8]>,
    _problems: Vec<Box<str>>,
    needs: Needs,
}

/// What an object needs of its kernel.
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
/// What the kernel's verifier visibly would refuse is an error; accesses about which too little is known are checked at run time
/// ([`Linker::stray`]). That is less than a proof: the object is trusted like any machine code.
///
/// # Errors
///
/// [`Error::Refused`] names what a kernel would refuse. [`Error::Malformed`] and [`Error::Unsupported`] name an invalid instruction. It is not
/// an error if the linker lacks something: see [`Needs::missing`].
pub fn compile(object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
    compile_linked(object, linker, link(object, linker, &[])?)
}

/// The same for one setting of the read-only variables, with which a kernel's verifier knows them: code that these values rule out is neither
/// checked nor compiled, and may be anything. `read_only` has the contents of sections, by their number in [`Object::sections`]. The code is
/// right only where the sections have these contents.
///
/// # Errors
///
/// As [`compile`].
pub fn compile_with(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[(usize, Vec<u8>)],
) -> Result<Code, Error> {
    let linked = link(object, linker, &by_slot(object, read_only))?;
    compile_linked(object, linker, linked)
}

/// What an object needs of its kernel, with these contents of its read-only sections: all of [`compile_with`] but the translation.
///
/// # Errors
///
/// As [`compile`].
pub fn examine(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[(usize, Vec<u8>)],
) -> Result<Needs, Error> {
    let linked = link(object, linker, &by_slot(object, read_only))?;
    let LinkedObject {
        missing,
        untested,
        calls,
        ..
    } = linked;
    Ok(Needs::of(object, missing, untested, calls))
}

/// The contents of sections in the order of the object's slots.
fn by_slot(object: &Object, read_only: &[(usize, Vec<u8>)]) -> Vec<Option<Vec<u8>>> {
    let contents = |slot| {
        let known = read_only.iter().find(|one| Slot::Section(one.0) == slot);
        known.map(|one| one.1.clone())
    };
    object.slots().into_iter().map(contents).collect()
}

/// The same without run-time checks, to measure what they cost.
///
/// # Errors
///
/// As [`compile`].
pub fn compile_unguarded(object: &Object, linker: &dyn Linker) -> Result<Code, Error> {
    let mut linked = link(object, linker, &[])?;
    for function in &mut linked.functions {
        function.checks.fill(None);
    }
    compile_linked(object, linker, linked)
}

fn compile_linked(
    object: &Object,
    linker: &dyn Linker,
    linked: LinkedObject,
) -> Result<Code, Error> {
    let mut compiler = Compiler::new(object, linker, &linked)?;
    for one in &linked.functions {
        compiler.compile(one)?;
    }
    compiler.finish(linked)
}

struct Compiler<'a> {
    object: &'a Object,
    module: JITModule,
    signature: Signature,
    /// The module's number for each compiled function of the object.
    ids: Vec<Option<FuncId>>,
    problems: Vec<Box<str>>,
    runaway: u64,
    unavailable: u64,
    stray: u64,
    may_stop: Vec<bool>,
    functions: Vec<Compiled>,
}

fn generator(place: &str, error: impl std::fmt::Display) -> Error {
    Error::Generator {
        place: place.to_owned(),
        problem: error.to_string(),
    }
}

impl<'a> Compiler<'a> {
    fn new(
        object: &'a Object,
        linker: &dyn Linker,
        linked: &LinkedObject,
    ) -> Result<Compiler<'a>, Error> {
        let bad = |error: &dyn std::fmt::Display| generator("the setup", error);
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            (
                "enable_verifier",
                if cfg!(debug_assertions) {
                    "true"
                } else {
                    "false"
                },
            ),
        ] {
            flags.set(name, value).map_err(|error| bad(&error))?;
        }
        let isa = cranelift_native::builder()
            .map_err(|error| bad(&error))?
            .finish(settings::Flags::new(flags))
            .map_err(|error| bad(&error))?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        // One reservation of address space keeps calls between the functions within near-call range, whatever else the process maps.
        let instructions: usize = linked
            .functions
            .iter()
            .map(|one| one.operations.len())
            .sum();
        let reserve = (instructions * 1024 + linked.functions.len() * 8192).max(1 << 20);
        let memory = ArenaMemoryProvider::new_with_size(reserve).map_err(|error| bad(&error))?;
        builder.memory_provider(Box::new(memory));
        let mut module = JITModule::new(builder);
        let mut signature = module.make_signature();
        signature.params.extend([AbiParam::new(types::I64); 6]);
        signature.returns.push(AbiParam::new(types::I64));
        let mut ids = vec![None; object.functions().len()];
        let mut may_stop = vec![false; object.functions().len()];
        for one in &linked.functions {
            let id = module
                .declare_anonymous_function(&signature)
                .map_err(|error| bad(&error))?;
            ids[one.function] = Some(id);
            may_stop[one.function] = one.may_stop;
        }
        Ok(Compiler {
            object,
            module,
            signature,
            ids,
            problems: Vec::new(),
            runaway: linker.runaway() as u64,
            unavailable: linker.unavailable() as u64,
            stray: linker.stray() as u64,
            may_stop,
            functions: Vec::new(),
        })
    }

    fn compile(&mut self, linked: &Linked) -> Result<(), Error> {
        let function = &self.object.functions()[linked.function];
        let Some(id) = self.ids[linked.function] else {
            return Ok(());
        };
        let mut context = self.module.make_context();
        context.func.signature = self.signature.clone();
        context.func.name = UserFuncName::user(0, id.as_u32());
        // References to the callees, declared before building starts.
        let mut callees = Vec::new();
        for operation in &linked.operations {
            if let Some(Operand::Function(target)) = operation.operand
                && let Some(callee) = self.ids[target]
                && !callees.iter().any(|&(known, _)| known == target)
            {
                let reference = self.module.declare_func_in_func(callee, &mut context.func);
                callees.push((target, reference));
            }
        }
        let mut builder_context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
        let signatures = std::array::from_fn(|arguments| {
            let mut signature = self.signature.clone();
            signature.params.truncate(1 + arguments);
            builder.import_signature(signature)
        });
        // What may be wrong, in words, at addresses that are valid as long as the code.
        let mut problems = vec![(0, 0); linked.operations.len()];
        let operations = linked.operations.iter().zip(&linked.checks);
        for (place, (operation, check)) in problems.iter_mut().zip(operations) {
            let problem = match (&operation.operand, check) {
                (Some(Operand::Absent { problem, .. }), _) => problem,
                (_, Some(check)) => &check.problem,
                _ => continue,
            };
            let text: Box<str> = problem.as_str().into();
            *place = (text.as_ptr() as u64, text.len());
            self.problems.push(text);
        }
        let environment = Environment {
            runaway: self.runaway,
            unavailable: self.unavailable,
            stray: self.stray,
            may_stop: &self.may_stop,
            problems: &problems,
        };
        let callee = |target: usize| {
            let found = callees.iter().find(|&&(known, _)| known == target);
            // Every reachable reference was declared above.
            found.expect("a function that linking has found").1
        };
        translate(&mut builder, &environment, linked, signatures, &callee);
        builder.finalize(self.module.isa().frontend_config());
        self.module
            .define_function(id, &mut context)
            .map_err(|error| generator(&function.name, format!("{error:?}")))?;
        let compiled = context
            .compiled_code()
            .ok_or_else(|| generator(&function.name, "no code"))?;
        let places = compiled
            .buffer
            .get_srclocs_sorted()
            .iter()
            .filter(|range| !range.loc.is_default())
            .map(|range| (range.start, range.loc.bits() as usize))
            .collect();
        self.functions.push(Compiled {
            function: linked.function,
            name: function.name.clone(),
            address: 0,
            size: compiled.code_buffer().len(),
            places,
            source: self.object.places(function),
        });
        Ok(())
    }

    fn finish(mut self, linked: LinkedObject) -> Result<Code, Error> {
        self.module
            .finalize_definitions()
            .map_err(|error| generator("the end", error))?;
        for one in &mut self.functions {
            if let Some(id) = self.ids[one.function] {
                one.address = self.module.get_finalized_function(id) as usize;
            }
        }
        self.functions.sort_by_key(|one| one.address);
        Ok(Code {
            module: ManuallyDrop::new(self.module),
            functions: self.functions,
            _kconfig: linked.kconfig,
            _problems: self.problems,
            needs: Needs::of(self.object, linked.missing, linked.untested, linked.calls),
        })
    }
}

impl Code {
    /// The compiled code of a program or function, by name. It may only be called with the arguments that it expects, and while this value lives.
    #[must_use]
    pub fn entry(&self, program: &str) -> Option<Entry> {
        let one = self.functions.iter().find(|one| one.name == program)?;
        Some(one.entry())
    }

    /// The same for the code of a program or function that begins at `address`.
    #[must_use]
    pub fn entry_at(&self, address: usize) -> Option<Entry> {
        let place = self
            .functions
            .binary_search_by_key(&address, |one| one.address);
        Some(self.functions[place.ok()?].entry())
    }

    /// The source line of an address inside the code, for crash reports.
    #[must_use]
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
    #[must_use]
    pub fn place(&self, token: u64) -> Option<Location> {
        let function = (token >> 32) as usize;
        let instruction = (token & 0xffff_ffff) as usize;
        let one = self.functions.iter().find(|one| one.function == function)?;
        Some(one.source.at(instruction))
    }

    /// What it needs of its kernel.
    #[must_use]
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Size of the machine code in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.functions.iter().map(|one| one.size).sum()
    }
}

impl Needs {
    fn of(
        object: &Object,
        missing: Vec<Missing>,
        untested: Vec<Missing>,
        calls: Vec<Calls>,
    ) -> Needs {
        let name = |calls: &Calls| object.functions()[calls.function].name.clone();
        let calls = calls.into_iter().map(|calls| (name(&calls), calls));
        Needs {
            missing,
            untested,
            calls: calls.collect(),
        }
    }

    /// What reachable code needs and the linker lacks, each thing once. A program that gets there ends with [`Linker::unavailable`].
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Calls of weak functions that the kernel lacks, in code that no test for them rules out: a kernel's verifier refuses those.
    #[must_use]
    pub fn untested(&self) -> &[Missing] {
        &self.untested
    }

    /// The kernel function calls that a program can reach, in itself, in functions that it calls and in its callbacks.
    #[must_use]
    pub fn kernel_calls(&self, program: &str) -> Vec<&KernelCall> {
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
                found.extend(&calls.kernel);
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
