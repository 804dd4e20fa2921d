//! A scheduler, compiled and ready to be simulated any number of times.

use std::sync::{Arc, Mutex, PoisonError};

use fairground_bpf::{
    Code, Extern, Linker as _, Object, Setup, StructOps, StructOpsValue, map_kind,
};

use crate::constants::*;
use crate::kfunc;
use crate::linker::{self, KernelLinker};
use crate::operations::{Op, Operations, cid_name};
use crate::simulation::Options;
use crate::variables;

/// Type of a table of callbacks that identify CPUs by number.
const CPU_FORM: &str = "sched_ext_ops";
/// Type of a table of callbacks that identify CPUs by topological id.
const CID_FORM: &str = "sched_ext_ops_cid";

/// Why a scheduler cannot be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The object is malformed, or needs something that this kernel does not have.
    Object(fairground_bpf::Error),
    /// The object has no operations table of type `sched_ext_ops`, or several.
    Table(String),
    /// The kernel would refuse the operations table.
    Operations(String),
    /// A map of a type, or of a size, that the simulator does not have.
    Map(String),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Object(error) => write!(f, "{error}"),
            LoadError::Table(message)
            | LoadError::Operations(message)
            | LoadError::Map(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for LoadError {}

/// A scheduler: its code, and what a kernel needs to set it up. Shared by simulations on all threads.
pub struct Scheduler {
    pub(crate) object: Arc<Object>,
    pub(crate) code: Code,
    table: StructOps,
    pub(crate) operations: Operations,
    /// Versions for kernels with other tick rates, as far as they were requested.
    for_ticks: Mutex<Vec<(u64, Arc<Scheduler>)>>,
}

impl Scheduler {
    /// Compiles the BPF object of a scheduler.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the object is unusable, needs functions or fields that this kernel does not have (all are named), or has
    /// no operations table that a kernel would accept.
    pub fn load(bytes: &[u8]) -> Result<Scheduler, LoadError> {
        Scheduler::load_with(
            Arc::new(parse(bytes)?),
            linker::DEFAULT_HZ,
            fairground_bpf::compile,
        )
    }

    /// The same for an object that has already been read.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::load`].
    pub fn load_object(object: Arc<Object>) -> Result<Scheduler, LoadError> {
        Scheduler::load_with(object, linker::DEFAULT_HZ, fairground_bpf::compile)
    }

    /// The same for the values that read-only variables have in runs with `options`. As a kernel's verifier does it, the code that these
    /// values rule out is left out, whatever it is. The scheduler may only be simulated with these values.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::load`].
    pub fn load_with_values(
        object: Arc<Object>,
        options: &Options,
    ) -> Result<Scheduler, LoadError> {
        let read_only = variables::read_only(&object, options);
        Scheduler::load_with(object, options.hz, |object, linker| {
            fairground_bpf::compile_with(object, linker, &read_only)
        })
    }

    /// The same without run-time checks, to measure what they cost.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::load`].
    pub fn load_unguarded(bytes: &[u8]) -> Result<Scheduler, LoadError> {
        Scheduler::load_with(
            Arc::new(parse(bytes)?),
            linker::DEFAULT_HZ,
            fairground_bpf::compile_unguarded,
        )
    }

    fn load_with(
        object: Arc<Object>,
        hz: u64,
        compile: impl Fn(&Object, &dyn fairground_bpf::Linker) -> Result<Code, fairground_bpf::Error>,
    ) -> Result<Scheduler, LoadError> {
        let tables: Vec<&StructOps> = object.schedulers().collect();
        let table = match tables[..] {
            [table] => table.clone(),
            [] => {
                let other = object
                    .struct_ops()
                    .first()
                    .map(|table| table.type_name.clone());
                return Err(LoadError::Table(match other {
                    Some(other) => format!("the object has a {other} table, but neither {CPU_FORM} nor {CID_FORM}"),
                    None => "the object has no sched_ext_ops table; a scheduler defines one in section .struct_ops.link".into(),
                }));
            }
            _ => {
                let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
                return Err(LoadError::Table(format!(
                    "the object has several tables of callbacks: {}; say which one behind a #, such as FILE#{}",
                    names.join(", "),
                    names[0]
                )));
            }
        };
        let linker = KernelLinker {
            cid_form: table.type_name == CID_FORM,
            hz,
        };
        let arenas = object
            .maps()
            .iter()
            .filter(|map| map.kind == map_kind::ARENA);
        if linker.cid_form && arenas.count() != 1 {
            return Err(LoadError::Operations(
                "a scheduler of the cid form has to have one arena".into(),
            ));
        }
        let code = compile(&object, &linker).map_err(LoadError::Object)?;
        Scheduler::assemble(object, code, table)
    }

    fn assemble(object: Arc<Object>, code: Code, table: StructOps) -> Result<Scheduler, LoadError> {
        check_license(&object)?;
        check_sections(&object, &table)?;
        check_programs(&object, &code)?;
        let operations = read_operations(&table, &code, &[])?;
        Ok(Scheduler {
            object,
            code,
            table,
            operations,
            for_ticks: Mutex::default(),
        })
    }

    /// The scheduler for a kernel with `hz` ticks per second: a different one only if its code asks for `CONFIG_HZ`.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::load`].
    pub fn for_hz(self: &Arc<Self>, hz: u64) -> Result<Arc<Scheduler>, LoadError> {
        let asks = |external: &Extern| external.name == "CONFIG_HZ";
        if hz == linker::DEFAULT_HZ || !self.object.externs().iter().any(asks) {
            return Ok(self.clone());
        }
        let mut known = self
            .for_ticks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scheduler)) = known.iter().find(|(ticks, _)| *ticks == hz) {
            return Ok(scheduler.clone());
        }
        let linker = KernelLinker {
            cid_form: self.operations.cid_form,
            hz,
        };
        let code = fairground_bpf::compile(&self.object, &linker).map_err(LoadError::Object)?;
        let scheduler = Scheduler::assemble(self.object.clone(), code, self.table.clone())?;
        let scheduler = Arc::new(scheduler);
        known.push((hz, scheduler.clone()));
        Ok(scheduler)
    }

    /// The object that it was compiled from.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Sections of its programs that a kernel would attach to events that the simulated one does not have.
    pub fn unattached(&self) -> Vec<&str> {
        crate::tracing::unattached(&self.object)
    }

    /// The constants of the simulated kernel's enumerations.
    pub fn constants() -> impl Iterator<Item = (&'static str, u64)> {
        linker::enumerators()
    }

    /// The value of a configuration option of the simulated kernel.
    pub fn kconfig(name: &str) -> Option<u64> {
        KernelLinker::default().kconfig(name)
    }

    /// Whether the simulated kernel has this kernel function.
    pub fn has_function(name: &str) -> bool {
        KernelLinker::default().kfunc(name).is_some()
    }

    /// The value of a constant of the simulated kernel's enumerations.
    pub fn constant(name: &str) -> Option<u64> {
        linker::enumerator(name)
    }

    /// The table of callbacks with the changes that `setup` makes to it.
    pub(crate) fn operations_with(&self, setup: &Setup) -> Result<Operations, LoadError> {
        if setup.operations.is_empty() {
            return Ok(self.operations.clone());
        }
        read_operations(&self.table, &self.code, &setup.operations)
    }

    /// `ops.name`.
    pub fn name(&self) -> &str {
        &self.operations.name
    }

    /// The source location of an address in the scheduler's machine code, for crash reports.
    pub fn locate(&self, address: usize) -> Option<String> {
        let location = self.code.locate(address as *const u8)?;
        Some(location.to_string())
    }

    pub(crate) fn type_size(&self, type_id: u32) -> Option<u64> {
        self.object.btf().size_of(type_id)
    }

    /// The source location that a token of compiled code stands for, after ` in `; empty if there is none.
    pub(crate) fn describe(&self, token: u64) -> String {
        match self.code.place(token) {
            Some(location) => format!(" in {location}"),
            None => String::new(),
        }
    }
}

/// Reads the BPF object of a scheduler.
fn parse(bytes: &[u8]) -> Result<Object, LoadError> {
    Object::parse(bytes).map_err(LoadError::Object)
}

/// Licences that the kernel takes for compatible with the GPL (`license_is_gpl_compatible`).
const GPL_COMPATIBLE: [&str; 6] = [
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
];

/// Callbacks that may sleep (`bpf_scx_check_member`).
const MAY_SLEEP: [&str; 12] = [
    "init_task",
    "cgroup_init",
    "cgroup_exit",
    "cgroup_prep_move",
    "cgroup_set_bandwidth",
    "cpu_online",
    "cpu_offline",
    "init",
    "init_cids",
    "exit",
    "sub_attach",
    "sub_detach",
];

/// Refuses callbacks under a licence that the kernel does not accept.
fn check_license(object: &Object) -> Result<(), LoadError> {
    let license = object.license();
    let mut programs = object.programs().iter();
    if GPL_COMPATIBLE.contains(&license) || !programs.any(|one| one.autoload && one.is_callback()) {
        return Ok(());
    }
    Err(LoadError::Operations(format!(
        "the licence is {license:?}, and callbacks must have one that is compatible with the GPL, such as \
         char _license[] SEC(\"license\") = \"GPL\""
    )))
}

/// Refuses programs that are no callbacks, and those that may sleep as callbacks that may not.
fn check_sections(object: &Object, table: &StructOps) -> Result<(), LoadError> {
    let may_sleep = |member: &str| {
        MAY_SLEEP
            .iter()
            .any(|one| *one == member || cid_name(one) == member)
    };
    for member in &table.members {
        let StructOpsValue::Program(name) = &member.value else {
            continue;
        };
        let Some(program) = object.programs().iter().find(|one| one.name == *name) else {
            continue;
        };
        let wrong = if !program.is_callback() {
            "callbacks are in sections that begin with struct_ops/"
        } else if program.section.starts_with("struct_ops.s") && !may_sleep(&member.name) {
            "programs there may sleep, and this callback may not"
        } else {
            continue;
        };
        return Err(LoadError::Operations(format!(
            "ops.{} is {name} in section {}: {wrong}",
            member.name, program.section
        )));
    }
    Ok(())
}

/// Refuses calls of kernel functions that the kernel does not allow, in programs that are not callbacks.
fn check_programs(object: &Object, code: &Code) -> Result<(), LoadError> {
    let programs = object.programs().iter();
    for program in programs.filter(|one| one.autoload && !one.is_callback()) {
        for call in code.kernel_calls(&program.name) {
            if !kfunc::contexts::allows_program(&program.section, &call.name) {
                return Err(LoadError::Operations(format!(
                    "calling kernel function {} is not allowed in the {} program {}, at {}",
                    call.name, program.section, program.name, call.place
                )));
            }
        }
    }
    Ok(())
}

/// Refuses calls of kernel functions that the kernel does not allow in this callback.
fn check_calls(
    code: &Code,
    program: &str,
    op: Op,
    name: &str,
    cid_form: bool,
) -> Result<(), LoadError> {
    for call in code.kernel_calls(program) {
        if !kfunc::contexts::allows(op.name(), cid_form, &call.name) {
            return Err(LoadError::Operations(format!(
                "calling kernel function {} is not allowed in ops.{name}(), at {}",
                call.name, call.place
            )));
        }
    }
    Ok(())
}

/// Refuses members that are set but unknown to this kernel, whose callbacks are `callbacks`.
fn check_members(table: &StructOps, callbacks: &[String]) -> Result<(), LoadError> {
    let known_data = [
        "dispatch_max_batch",
        "flags",
        "timeout_ms",
        "exit_dump_len",
        "hotplug_seq",
        "cid_shard_size",
        "rescue_bandwidth_ppt",
        "rescue_quantum_us",
        "sub_cgroup_id",
        "name",
        "priv",
    ];
    for member in &table.members {
        // A root scheduler of the cid form may have these; no sub-scheduler is attached here.
        if table.type_name == CID_FORM && member.name.starts_with("sub_") {
            continue;
        }
        let set = match &member.value {
            StructOpsValue::Program(_) => true,
            StructOpsValue::Data(bytes) => bytes.iter().any(|byte| *byte != 0),
        };
        if set && !callbacks.contains(&member.name) && !known_data.contains(&member.name.as_str()) {
            return Err(LoadError::Operations(format!(
                "ops.{} is set, which a root scheduler of this kernel does not have",
                member.name
            )));
        }
    }
    Ok(())
}

/// The table of callbacks as the kernel gets it: the object's, with the data that its loader sets.
fn read_operations(
    table: &StructOps,
    code: &Code,
    loader: &[(String, Vec<u8>)],
) -> Result<Operations, LoadError> {
    let mut table = table.clone();
    for member in &mut table.members {
        if let Some((_, bytes)) = loader.iter().find(|(name, _)| *name == member.name) {
            member.value = StructOpsValue::Data(bytes.clone());
        }
    }
    let member = |name: &str| {
        table
            .members
            .iter()
            .find(|member| member.name == name)
            .map(|member| &member.value)
    };
    let number = |name: &str| match member(name) {
        Some(StructOpsValue::Data(bytes)) => {
            let mut word = [0; 8];
            let length = bytes.len().min(8);
            word[..length].copy_from_slice(&bytes[..length]);
            u64::from_le_bytes(word)
        }
        _ => 0,
    };
    let cid_form = table.type_name == CID_FORM;
    let names: Vec<String> = Op::ALL
        .iter()
        .map(|op| match cid_form {
            true => cid_name(op.name()),
            false => op.name().to_owned(),
        })
        .collect();
    let mut entries = Vec::with_capacity(Op::ALL.len());
    for (op, name) in Op::ALL.iter().zip(&names) {
        entries.push(match member(name) {
            Some(StructOpsValue::Program(program)) => {
                check_calls(code, program, *op, name, cid_form)?;
                Some(code.entry(program).ok_or_else(|| {
                    LoadError::Operations(format!(
                        "ops.{name} is {program}, which the object does not have"
                    ))
                })?)
            }
            _ => None,
        });
    }
    if number("sub_cgroup_id") != 0 {
        return Err(LoadError::Operations(
            "ops.sub_cgroup_id is set: sub-schedulers are not simulated".into(),
        ));
    }
    check_members(&table, &names)?;
    let name = member("name").map(StructOpsValue::text).unwrap_or_default();
    let valid =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '.';
    if name.is_empty() || !name.chars().all(valid) || name.len() as u64 >= SCX_OPS_NAME_LEN {
        return Err(LoadError::Operations(format!(
            "ops.name is {name:?}; it has to be letters, digits, '_' and '.', fewer than {SCX_OPS_NAME_LEN}"
        )));
    }
    let or_default = |value: u64, default: u64| if value == 0 { default } else { value };
    let operations = Operations {
        entries,
        name,
        cid_form,
        flags: number("flags"),
        timeout_ms: or_default(number("timeout_ms"), SCX_WATCHDOG_MAX_TIMEOUT_MS),
        max_batch: or_default(
            number("dispatch_max_batch"),
            u64::from(SCX_DSP_DFL_MAX_BATCH),
        ) as u32,
        exit_dump_len: or_default(number("exit_dump_len"), SCX_EXIT_DUMP_DFL_LEN as u64) as usize,
        cid_shard_size: number("cid_shard_size") as u32,
    };
    operations.validate().map_err(LoadError::Operations)?;
    Ok(operations)
}
