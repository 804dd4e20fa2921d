//! Machine code as data, which any process of the same program can load.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{UserExternalName, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, ir};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module, ModuleReloc, ModuleRelocTarget};
use serde::{Deserialize, Serialize};

use crate::code::{Needs, Shell};
use crate::error::Error;
use crate::link::{Linked, LinkedObject, Operand, link};
use crate::linker::Linker;
use crate::maps::kind as map_kind;
use crate::object::{Object, Slot};
use crate::translate::{Environment, translate};

/// The translation of an object: machine code, or why there is none. It is the same for the same object, programs that are marked for loading,
/// contents of read-only sections, answers of the linker and [`processor`], in every process of the same program; it does not contain the source
/// lines, which stay in the object.
#[derive(Serialize, Deserialize)]
pub struct Translated(pub(crate) Result<Translation, Error>);

/// Machine code without the addresses that differ between processes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Translation {
    pub functions: Vec<Function>,
    /// Possible faults, in words, one after the other.
    pub problems: String,
    pub needs: Needs,
}

/// One function.
#[derive(Serialize, Deserialize)]
pub(crate) struct Function {
    /// Index in the object.
    pub function: usize,
    #[serde(with = "bytes")]
    pub code: Vec<u8>,
    pub alignment: u64,
    pub relocations: Vec<Relocation>,
    /// Offset in the code, and the instruction whose code starts there; sorted.
    pub places: Vec<(u32, usize)>,
}

/// A place in the code that depends on where something is loaded.
#[derive(Serialize, Deserialize)]
pub(crate) struct Relocation {
    offset: u32,
    kind: Patch,
    /// Cranelift's name for the target.
    target: (u32, u32),
    addend: i64,
}

/// The kinds of relocations that the translation leads to.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Patch {
    Absolute,
    X86Call,
    X86Relative,
    ArmCall,
}

const PATCHES: [(Patch, Reloc); 4] = [
    (Patch::Absolute, Reloc::Abs8),
    (Patch::X86Call, Reloc::X86CallPCRel4),
    (Patch::X86Relative, Reloc::X86PCRel4),
    (Patch::ArmCall, Reloc::Arm64Call),
];

impl Relocation {
    fn of(one: &ModuleReloc) -> Option<Self> {
        let kind = PATCHES.iter().find(|patch| patch.1 == one.kind)?.0;
        let ModuleRelocTarget::User { namespace, index } = one.name else { return None };
        Some(Self { offset: one.offset, kind, target: (namespace, index), addend: one.addend })
    }

    pub fn to_module(&self) -> ModuleReloc {
        let kind = PATCHES.iter().find(|patch| patch.0 == self.kind);
        ModuleReloc {
            offset: self.offset,
            kind: kind.map_or(Reloc::Abs8, |patch| patch.1),
            name: ModuleRelocTarget::user(self.target.0, self.target.1),
            addend: self.addend,
        }
    }
}

/// Translates the programs of an object that are marked for loading ([`crate::Program::autoload`]), and the functions they use, to machine code.
/// `read_only` has the contents of sections, by their number in [`Object::sections`]: code that these values rule out is left out, so that the
/// rest is right only where the sections have these contents. `linker` only gives addresses of functions and variables of this program.
pub fn translated(
    object: &Object,
    linker: &dyn Linker,
    read_only: &[(usize, Vec<u8>)],
) -> Translated {
    let linked = link(object, linker, &by_slot(object, read_only));
    Translated(linked.and_then(|linked| Translation::of(object, linker, linked)))
}

impl Translated {
    /// As bytes, for [`Translated::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, Vec::new()).unwrap_or_default()
    }

    /// The translation that these bytes were made from; `None` if they are of none. They have to be those that a process of this program has made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

/// The contents of sections in the order of the object's slots.
pub(crate) fn by_slot(object: &Object, read_only: &[(usize, Vec<u8>)]) -> Vec<Option<Vec<u8>>> {
    let contents = |slot| {
        let known = read_only.iter().find(|one| Slot::Section(one.0) == slot);
        known.map(|one| one.1.clone())
    };
    object.slots().into_iter().map(contents).collect()
}

/// The properties of this machine's processor on which machine code depends.
pub fn processor() -> String {
    match isa() {
        Ok(isa) => {
            let flags = isa.isa_flags();
            let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
            format!("{} {}", isa.triple(), flags.join(" "))
        }
        Err(error) => error.to_string(),
    }
}

pub(crate) fn generator(place: &str, error: impl std::fmt::Display) -> Error {
    Error::Generator { place: place.to_owned(), problem: error.to_string() }
}

/// The instructions of this processor, and how code is made of them.
pub(crate) fn isa() -> Result<OwnedTargetIsa, Error> {
    let bad = |error: &dyn std::fmt::Display| generator("the setup", error);
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ] {
        flags.set(name, value).map_err(|error| bad(&error))?;
    }
    cranelift_native::builder()
        .map_err(|error| bad(&error))?
        .finish(settings::Flags::new(flags))
        .map_err(|error| bad(&error))
}

impl Translation {
    pub fn of(
        object: &Object,
        linker: &dyn Linker,
        linked: LinkedObject,
    ) -> Result<Translation, Error> {
        let functions: Vec<usize> = linked.functions.iter().map(|one| one.function).collect();
        let shell = Shell::new(&functions, 1 << 20, [0; 3])?;
        let mut may_stop = vec![false; object.functions().len()];
        for one in &linked.functions {
            may_stop[one.function] = one.may_stop;
        }
        let slots = object.slots().into_iter();
        let is_array = |slot| match slot {
            Slot::Map(number) => {
                let kind = object.maps()[number].kind;
                matches!(kind, map_kind::ARRAY | map_kind::PERCPU_ARRAY)
            }
            Slot::Section(_) => false,
        };
        let mut compiler = Compiler {
            object,
            linker,
            kconfig: linked.kconfig.as_ptr() as u64,
            ids: shell.ids(object.functions().len()),
            shell,
            problems: String::new(),
            may_stop,
            arrays: slots.map(is_array).collect(),
        };
        let functions = linked.functions.iter();
        Ok(Translation {
            functions: functions.map(|one| compiler.compile(one)).collect::<Result<_, _>>()?,
            problems: compiler.problems,
            needs: Needs::of(object, linked.missing, linked.untested, linked.calls),
        })
    }
}

struct Compiler<'a> {
    object: &'a Object,
    linker: &'a dyn Linker,
    kconfig: u64,
    shell: Shell,
    /// The module's number for each compiled function of the object.
    ids: Vec<Option<FuncId>>,
    problems: String,
    may_stop: Vec<bool>,
    /// Which slots have a map that is an array.
    arrays: Vec<bool>,
}

impl Compiler<'_> {
    fn compile(&mut self, linked: &Linked) -> Result<Function, Error> {
        let function = &self.object.functions()[linked.function];
        let failed = |error: &dyn std::fmt::Display| generator(&function.name, error);
        let id = self.ids[linked.function].ok_or_else(|| failed(&"it was not declared"))?;
        let module = &mut self.shell.module;
        let mut context = module.make_context();
        context.func.signature = self.shell.signature.clone();
        context.func.name = UserFuncName::user(0, id.as_u32());
        // References to the callees, declared before building starts.
        let mut callees = Vec::new();
        for operation in &linked.operations {
            if let Some(Operand::Function(target)) = operation.operand
                && let Some(callee) = self.ids[target]
                && !callees.iter().any(|&(known, _)| known == target)
            {
                let reference = module.declare_func_in_func(callee, &mut context.func);
                callees.push((target, reference));
            }
        }
        let bases = self.shell.bases.map(|base| {
            let name = UserExternalName::new(1, base.as_u32());
            context.func.declare_imported_user_function(name)
        });
        let mut builder_context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
        let signatures = std::array::from_fn(|arguments| {
            let mut signature = self.shell.signature.clone();
            signature.params.truncate(1 + arguments);
            builder.import_signature(signature)
        });
        let problems = problems_of(linked, &mut self.problems);
        let environment = Environment {
            runaway: self.linker.runaway() as u64,
            unavailable: self.linker.unavailable() as u64,
            stray: self.linker.stray() as u64,
            may_stop: &self.may_stop,
            arrays: &self.arrays,
            problems: &problems,
            kconfig: self.kconfig,
            bases: &|base| bases[base as usize],
        };
        let callee = |target: usize| -> ir::FuncRef {
            let found = callees.iter().find(|&&(known, _)| known == target);
            // Every reachable reference was declared above.
            found.expect("a function that linking has found").1
        };
        translate(&mut builder, &environment, linked, signatures, &callee);
        builder.finalize(self.shell.module.isa().frontend_config());
        self.finish(linked.function, id, &mut context)
    }

    /// The code of a function, once it is translated.
    fn finish(
        &self,
        function: usize,
        id: FuncId,
        context: &mut Context,
    ) -> Result<Function, Error> {
        let name = &self.object.functions()[function].name;
        let isa = self.shell.module.isa();
        context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| generator(name, format!("{:?}", error.inner)))?;
        let compiled = context.compiled_code();
        let buffer = &compiled.ok_or_else(|| generator(name, "no code"))?.buffer;
        let relocations = buffer.relocs().iter().map(|one| {
            let one = ModuleReloc::from_mach_reloc(one, &context.func, id);
            let unknown = || generator(name, format!("relocation {:?}", one.kind));
            Relocation::of(&one).ok_or_else(unknown)
        });
        let places = buffer.get_srclocs_sorted().iter();
        Ok(Function {
            function,
            code: buffer.data().to_vec(),
            alignment: u64::from(buffer.alignment),
            relocations: relocations.collect::<Result<_, _>>()?,
            places: places
                .filter(|range| !range.loc.is_default())
                .map(|range| (range.start, range.loc.bits() as usize))
                .collect(),
        })
    }
}

/// Adds the possible faults of a function, in words, to `texts`; returns place and length there, by operation.
fn problems_of(linked: &Linked, texts: &mut String) -> Vec<(u64, usize)> {
    let operations = linked.operations.iter().zip(&linked.checks);
    operations
        .map(|(operation, check)| {
            let problem = match (&operation.operand, check) {
                (Some(Operand::Absent { problem, .. }), _) => problem,
                (_, Some(check)) => &check.problem,
                _ => return (0, 0),
            };
            let place = texts.len() as u64;
            texts.push_str(problem);
            (place, problem.len())
        })
        .collect()
}

/// Code as a run of bytes, not as a list of numbers.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(deserializer).map(<[u8]>::to_vec)
    }
}
