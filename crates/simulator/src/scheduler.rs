//! A scheduler, compiled and ready to be simulated any number of times.

use std::sync::{Arc, Mutex, PoisonError};

use fairground_bpf::{
    Code, Extern, Linker as _, Needs, Object, Prepared, StructOps, StructOpsValue, Translated,
    map_kind,
};
use fairground_linux::{
    CID_FORM, MemberKind, Release, Releases, function, helper, member, members,
};
use fairground_machine::Online;

use crate::constants::*;
use crate::linker::{self, KernelLinker};
use crate::operations::{Op, Operations};
use crate::preparation::{newer_members, prepare, read_only};
use crate::simulation::Options;

/// The releases in which callbacks can identify CPUs by topological id.
const CID_FORM_RELEASES: Releases = Releases::read("7.2..");

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
    /// Its loader gives up.
    Loader(String),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Object(error) => write!(f, "{error}"),
            LoadError::Table(message)
            | LoadError::Operations(message)
            | LoadError::Map(message)
            | LoadError::Loader(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for LoadError {}

/// The place where the translation of an object is kept from one process of this program to the next, so that it is checked and translated once. Nothing
/// depends on it: it may forget everything.
pub trait Store: Send + Sync {
    /// The translation that was kept under `key` for the same object.
    fn find(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// Keeps `content` under `key`.
    fn keep(&self, key: &[u8], content: &[u8]);
}

/// A scheduler: its code, and the data that a kernel needs to set it up. Shared by simulations on all threads.
pub struct Scheduler {
    pub(crate) object: Arc<Object>,
    pub(crate) code: Code,
    table: StructOps,
    pub(crate) operations: Operations,
    /// The release of Linux that it was compiled for.
    release: Release,
    left_out: Vec<String>,
    /// The values of its read-only variables that it is translated for, if it is for certain ones and was loaded first.
    values: Option<Values>,
    /// Versions for other values, which it has when it is loaded again in the course of a run, or why a kernel refuses it then.
    later: Vec<(Values, Later)>,
    store: Option<Arc<dyn Store>>,
    /// Versions for other kernels, as far as they were requested.
    others: Mutex<Vec<(Target, Arc<Scheduler>)>>,
}

/// A version for other values, or why a kernel refuses it.
type Later = Result<Arc<Scheduler>, Arc<LoadError>>;

/// The content of read-only sections.
type Values = Vec<(usize, Vec<u8>)>;

/// The kernel that a scheduler is compiled for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Target {
    /// Ticks per second.
    hz: u64,
    release: Release,
}

impl Target {
    /// The kernel unless a run says otherwise.
    const USUAL: Target = Target { hz: linker::DEFAULT_HZ, release: Release::NEWEST };

    fn of(options: &Options) -> Target {
        Target { hz: options.hz, release: options.release }
    }
}

impl Scheduler {
    /// Compiles the BPF object of a scheduler.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the object is unusable, needs functions or fields that this kernel does not have (all are named), or has
    /// no operations table that a kernel would accept.
    pub fn load(bytes: &[u8]) -> Result<Scheduler, LoadError> {
        Scheduler::load_object(Arc::new(parse(bytes)?), None)
    }

    /// The same for an object that has already been read. `store` may have its translation.
    pub fn load_object(
        object: Arc<Object>,
        store: Option<Arc<dyn Store>>,
    ) -> Result<Scheduler, LoadError> {
        Scheduler::load_for(object, Target::USUAL, &[], store)
    }

    /// The same for the values that read-only variables have in runs with `options`. As a kernel's verifier does it, the code that these
    /// values rule out is left out, with any faults. The scheduler may only be simulated with these values, and with those that it has when it is
    /// loaded again in such a run.
    pub fn load_with_values(
        object: Arc<Object>,
        options: &Options,
        store: Option<Arc<dyn Store>>,
    ) -> Result<Scheduler, LoadError> {
        let target = Target::of(options);
        let load =
            |values: &Values| Scheduler::load_for(object.clone(), target, values, store.clone());
        let values = |options: &Options, online: &Online| {
            Ok(read_only(&object, prepare(&object, options, online)?))
        };
        let at_first = values(options, &options.online_at_first())?;
        let mut first = load(&at_first)?;
        for offline in options.offline().split_off(1) {
            // If its loader gives up then, the run will tell.
            let Ok(setup) = options.setup_without(&offline) else { continue };
            let then = Options { setup, ..options.clone() };
            let then: Result<Values, LoadError> =
                values(&then, &Online::without(&options.machine, &offline));
            let is_new = |values: &Values| {
                let later = first.later.iter().map(|(later, _)| later);
                later.chain([&at_first]).all(|known| known != values)
            };
            if let Some(values) = then.ok().filter(is_new) {
                let later = load(&values).map(Arc::new).map_err(Arc::new);
                first.later.push((values, later));
            }
        }
        first.values = Some(at_first);
        Ok(first)
    }

    /// The scheduler for the values that it has when it is loaded again while these CPUs are `online`: this one, which was loaded first, or one that was
    /// made with it. A run in a process of its own can make none.
    pub(crate) fn loaded_again(
        self: &Arc<Self>,
        options: &Options,
        online: &Online,
    ) -> Result<Arc<Scheduler>, LoadError> {
        let Some(own) = &self.values else { return Ok(self.clone()) };
        let values = read_only(&self.object, prepare(&self.object, options, online)?);
        if values == *own {
            return Ok(self.clone());
        }
        let later = self.later.iter().find(|(later, _)| *later == values);
        match later.map(|(_, loaded)| loaded.clone()) {
            Some(loaded) => loaded.map_err(|refused| LoadError::Operations(refused.to_string())),
            None => Err(LoadError::Loader(
                "its read-only variables have other values than were foreseen when it is loaded again".to_owned(),
            )),
        }
    }

    /// The same without run-time checks, to measure their cost.
    pub fn load_unguarded(bytes: &[u8]) -> Result<Scheduler, LoadError> {
        Scheduler::load_with(Arc::new(parse(bytes)?), Target::USUAL, |object, linker| {
            fairground_bpf::compile_unguarded(object, linker)
        })
    }

    fn load_for(
        object: Arc<Object>,
        target: Target,
        read_only: &[(usize, Vec<u8>)],
        store: Option<Arc<dyn Store>>,
    ) -> Result<Scheduler, LoadError> {
        let kept = store.as_deref();
        let mut scheduler = Scheduler::load_with(object, target, |object, linker| {
            translated(object, linker, read_only, kept).load(object, linker)
        })?;
        scheduler.store = store;
        Ok(scheduler)
    }

    fn load_with(
        mut object: Arc<Object>,
        target: Target,
        compile: impl Fn(&Object, &KernelLinker) -> Result<Code, fairground_bpf::Error>,
    ) -> Result<Scheduler, LoadError> {
        let table = object.scheduler().map_err(LoadError::Table)?;
        let is_newer = newer_members(table, target.release);
        let (table, left_out) = table.for_kernel(&[], &|name| !is_newer(name));
        if !left_out.is_empty() {
            Arc::make_mut(&mut object).replace(&table);
        }
        let linker = linker_for(&object, &table, target)?;
        let code = compile(&object, &linker).map_err(LoadError::Object)?;
        check_license(&object)?;
        check_sections(&object, &table, target.release)?;
        check_programs(&object, code.needs(), target.release)?;
        if let Some(first) = untested(code.needs()).next() {
            return Err(LoadError::Object(first));
        }
        let operations = link_operations(&table, &code, target.release)?;
        Ok(Scheduler {
            object,
            code,
            table,
            operations,
            release: target.release,
            left_out,
            values: None,
            later: Vec::new(),
            store: None,
            others: Mutex::default(),
        })
    }

    /// Members of its table that are newer than the kernel it is for, which `fairground run` leaves out on such a kernel.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The scheduler for the kernel of runs with `options`: a different one only if that is of another release, or if its code asks for
    /// `CONFIG_HZ`.
    pub fn for_kernel(self: &Arc<Self>, options: &Options) -> Result<Arc<Scheduler>, LoadError> {
        let asks = |external: &Extern| external.name == "CONFIG_HZ";
        let mut target = Target::of(options);
        if !self.object.externs().iter().any(asks) {
            target.hz = linker::DEFAULT_HZ;
        }
        if target == Target::USUAL {
            return Ok(self.clone());
        }
        let mut known = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scheduler)) = known.iter().find(|(other, _)| *other == target) {
            return Ok(scheduler.clone());
        }
        let object = self.object.clone();
        let scheduler = Scheduler::load_for(object, target, &[], self.store.clone())?;
        let scheduler = Arc::new(scheduler);
        known.push((target, scheduler.clone()));
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
        linker::enumerators(Release::NEWEST)
    }

    /// The value of a configuration option of the simulated kernel.
    pub fn kconfig(name: &str) -> Option<u64> {
        KernelLinker::default().kconfig(name)
    }

    /// Whether the simulated kernel has this kernel function.
    pub fn has_function(name: &str) -> bool {
        KernelLinker::default().kfunc(name).is_some()
    }

    /// The value of a constant of the kernel's enumerations in `release`: 0 for those that are newer, as scx's loaders take it.
    pub fn constant(name: &str, release: Release) -> Option<u64> {
        linker::enumerator(name, Release::NEWEST)?;
        Some(linker::enumerator(name, release).unwrap_or(0))
    }

    /// What it begins with in runs with `options`.
    pub fn prepared(&self, options: &Options) -> Result<Prepared, LoadError> {
        prepare(&self.object, options, &options.online_at_first())
    }

    /// What it begins with in runs with `options` while these CPUs are `online`, and its table of callbacks then.
    pub(crate) fn prepare(
        &self,
        options: &Options,
        online: &Online,
    ) -> Result<(Prepared, Operations), LoadError> {
        let prepared = prepare(&self.object, options, online)?;
        let operations = match prepared.operations == self.table {
            true => self.operations.clone(),
            false => link_operations(&prepared.operations, &self.code, self.release)?,
        };
        Ok((prepared, operations))
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

/// The translation of an object, from `store` or made now.
fn translated(
    object: &Object,
    linker: &KernelLinker,
    read_only: &[(usize, Vec<u8>)],
    store: Option<&dyn Store>,
) -> Translated {
    let translate = || fairground_bpf::translated(object, linker, read_only);
    let Some(store) = store else {
        return translate();
    };
    let key = key(object, linker, read_only);
    let known = store.find(&key);
    known.and_then(|bytes| Translated::from_bytes(&bytes)).unwrap_or_else(|| {
        let translated = translate();
        store.keep(&key, &translated.to_bytes());
        translated
    })
}

/// Everything on which the translation of an object depends, except for the file that it was read from and this program.
fn key(object: &Object, linker: &KernelLinker, read_only: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let programs = object.programs().iter().filter(|one| one.autoload);
    let programs: Vec<&str> = programs.map(|one| one.name.as_str()).collect();
    let tables: Vec<&str> = (object.struct_ops().iter()).map(|table| table.name.as_str()).collect();
    let processor = fairground_bpf::processor();
    format!("{programs:?} {tables:?} {linker:?} {processor} {read_only:?}").into_bytes()
}

/// The linker for an object with this table.
fn linker_for(
    object: &Object,
    table: &StructOps,
    target: Target,
) -> Result<KernelLinker, LoadError> {
    let Target { hz, release } = target;
    let cid_form = table.type_name == CID_FORM;
    if cid_form && !CID_FORM_RELEASES.contains(release) {
        return Err(LoadError::Operations(format!("Linux {release} has no {CID_FORM}")));
    }
    let mut maps = object.maps().iter();
    if cid_form && maps.by_ref().filter(|map| map.kind == map_kind::ARENA).count() != 1 {
        return Err(LoadError::Operations(
            "a scheduler of the cid form has to have one arena".into(),
        ));
    }
    Ok(KernelLinker { cid_form, hz, release })
}

/// The calls of functions that the kernel lacks and that the object declares as weak, where no test rules them out. libbpf makes them calls of
/// nothing, which a verifier refuses where it finds them.
fn untested(needs: &Needs) -> impl Iterator<Item = fairground_bpf::Error> {
    needs.untested().iter().map(|one| fairground_bpf::Error::Refused {
        place: one.place.clone(),
        problem: format!("{}, without a test with bpf_ksym_exists()", one.problem),
    })
}

/// The judgement of a release on a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Obstacles to loading it, in words.
    pub obstacles: Vec<String>,
    /// Names that it needs and the model does not have, so that nothing is known about them.
    pub unknown: Vec<String>,
}

/// Whether the release of Linux that `options` name loads a scheduler, with the values that runs with them give to its variables.
pub fn examine(object: &Object, options: &Options) -> Examined {
    let target = Target::of(options);
    let examined = object.scheduler().map_err(LoadError::Table);
    let examined = examined.and_then(|table| {
        let linker = linker_for(object, table, target)?;
        let prepared = prepare(object, options, &options.online_at_first())?;
        let read_only = read_only(object, prepared);
        let needs =
            fairground_bpf::examine(object, &linker, &read_only).map_err(LoadError::Object)?;
        check_license(object)?;
        check_sections(object, table, target.release)?;
        check_programs(object, &needs, target.release)?;
        let (table, _) = table.for_kernel(&options.setup.operations, &|_| true);
        read_operations(&table, &needs, target.release)?;
        Ok(needs)
    });
    let mut told = Examined::default();
    match examined {
        Ok(needs) => {
            let untested = untested(&needs);
            told.obstacles.extend(untested.map(|one| one.to_string()));
            let missing = needs.missing().iter().map(ToString::to_string);
            told.unknown.extend(missing);
        }
        Err(LoadError::Object(fairground_bpf::Error::Lacking(missing))) => {
            let missing = missing.iter().map(ToString::to_string);
            told.obstacles.extend(missing);
        }
        Err(error) => told.obstacles.push(error.to_string()),
    }
    told
}

/// Reads the BPF object of a scheduler.
fn parse(bytes: &[u8]) -> Result<Object, LoadError> {
    Object::parse(bytes).map_err(LoadError::Object)
}

/// Licences that the kernel takes for compatible with the GPL (`license_is_gpl_compatible`).
const GPL_COMPATIBLE: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

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

/// Refuses programs that are no callbacks, and those that may sleep as callbacks of `release` that may not.
fn check_sections(object: &Object, table: &StructOps, release: Release) -> Result<(), LoadError> {
    let cid_form = table.type_name == CID_FORM;
    for member in &table.members {
        let StructOpsValue::Program(name) = &member.value else {
            continue;
        };
        let Some(program) = object.programs().iter().find(|one| one.name == *name) else {
            continue;
        };
        let wrong = if !program.is_callback() {
            "callbacks are in sections that begin with struct_ops/".to_owned()
        } else if program.section.starts_with("struct_ops.s") {
            let Some(when) = forbids_sleep(&member.name, cid_form, release) else {
                continue;
            };
            format!("programs there may sleep, and this callback may not{when}")
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

/// Whether that callback of `release` may not sleep, and if so, before which release, in words. A callback that `release` does not have is
/// not refused for this.
fn forbids_sleep(name: &str, cid_form: bool, release: Release) -> Option<String> {
    let Some(member) = member(name, cid_form) else {
        return Some(String::new());
    };
    let sleeps = member.sleeps();
    if !member.is_in(cid_form, release) || sleeps.is_some_and(|when| when.contains(release)) {
        return None;
    }
    let since = sleeps.and_then(|when| when.since);
    Some(since.map_or_else(String::new, |since| format!(" before Linux {since}")))
}

/// Refuses calls of kernel functions that `release` does not allow, in programs that are not callbacks.
fn check_programs(object: &Object, needs: &Needs, release: Release) -> Result<(), LoadError> {
    for program in object.programs().iter().filter(|one| one.autoload && !one.is_callback()) {
        for call in needs.kernel_calls(&program.name) {
            let is_syscall = program.section == "syscall";
            let function = function(&call.name);
            if function.is_some_and(|one| !one.is_allowed_in_program(is_syscall, release)) {
                return Err(LoadError::Operations(format!(
                    "calling kernel function {} is not allowed in the {} program {}, at {}",
                    call.name, program.section, program.name, call.place
                )));
            }
        }
    }
    Ok(())
}

/// Refuses calls of kernel functions that `release` does not allow in the callback called `name`.
fn check_calls(
    needs: &Needs,
    program: &str,
    name: &str,
    cid_form: bool,
    release: Release,
) -> Result<(), LoadError> {
    let Some(MemberKind::Callback { groups, .. }) = member(name, cid_form).map(|one| &one.kind)
    else {
        return Ok(());
    };
    for call in needs.kernel_calls(program) {
        let function = function(&call.name);
        if function.is_some_and(|one| !one.is_allowed_in(groups, cid_form, release)) {
            return Err(LoadError::Operations(format!(
                "calling kernel function {} is not allowed in ops.{name}(), at {}",
                call.name, call.place
            )));
        }
    }
    for call in needs.helper_calls(program) {
        let problem = match helper(call.number) {
            Some(one) if one.for_callbacks => continue,
            Some(one) => format!("helper {} is not for callbacks", one.name),
            None => format!("there is no helper {}", call.number),
        };
        return Err(LoadError::Operations(format!(
            "{problem}, and ops.{name}() calls it at {}",
            call.place
        )));
    }
    Ok(())
}

/// Refuses members that are set but unknown to `release`.
fn check_members(table: &StructOps, release: Release) -> Result<(), LoadError> {
    let cid_form = table.type_name == CID_FORM;
    for one in &table.members {
        let member = member(&one.name, cid_form);
        // Sub-schedulers came before the cid form, and belong to it since there is one.
        let is_for_others =
            !cid_form && one.name.starts_with("sub_") && CID_FORM_RELEASES.contains(release);
        if one.value.is_set()
            && (is_for_others || !member.is_some_and(|member| member.is_in(cid_form, release)))
        {
            return Err(LoadError::Operations(format!(
                "ops.{} is set, which a root scheduler of Linux {release} does not have",
                one.name
            )));
        }
    }
    Ok(())
}

/// The program of each callback, in the order of [`Op`].
fn programs_of(table: &StructOps) -> impl Iterator<Item = (&'static str, Option<&str>)> {
    Op::ALL.iter().map(|op| {
        let row = members().find(|one| one.name == op.name());
        let name = row.map_or(op.name(), |one| match table.type_name == CID_FORM {
            true => one.cid_name,
            false => one.name,
        });
        match table.value(name) {
            Some(StructOpsValue::Program(program)) => (name, Some(program.as_str())),
            _ => (name, None),
        }
    })
}

/// Whether the scheduler of an object has this callback, as `release` knows it.
pub fn has_callback(object: &Object, callback: Op, release: Release) -> bool {
    object.scheduler().is_ok_and(|table| {
        let cid_form = table.type_name == CID_FORM;
        matches!(programs_of(table).nth(callback as usize), Some((name, Some(_)))
            if member(name, cid_form).is_some_and(|one| one.is_in(cid_form, release)))
    })
}

/// Refuses members that `release` does not take, and reads the rest; there are no callbacks yet.
fn read_operations(
    table: &StructOps,
    needs: &Needs,
    release: Release,
) -> Result<Operations, LoadError> {
    let number = |name: &str| table.number(name);
    let cid_form = table.type_name == CID_FORM;
    check_members(table, release)?;
    for (name, program) in programs_of(table) {
        if let Some(program) = program {
            check_calls(needs, program, name, cid_form, release)?;
        }
    }
    if number("sub_cgroup_id") != 0 {
        return Err(LoadError::Operations(
            "ops.sub_cgroup_id is set: sub-schedulers are not simulated".into(),
        ));
    }
    let name = table.value("name").map(StructOpsValue::text);
    let name = name.unwrap_or_default();
    let valid =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '.';
    if name.is_empty() || !name.chars().all(valid) || name.len() as u64 >= SCX_OPS_NAME_LEN {
        return Err(LoadError::Operations(format!(
            "ops.name is {name:?}; it has to be letters, digits, '_' and '.', fewer than {SCX_OPS_NAME_LEN}"
        )));
    }
    let or_default = |value: u64, default: u64| if value == 0 { default } else { value };
    let operations = Operations {
        entries: [None; Op::ALL.len()],
        name,
        cid_form,
        flags: number("flags"),
        timeout_ms: or_default(number("timeout_ms"), SCX_WATCHDOG_MAX_TIMEOUT_MS),
        max_batch: or_default(number("dispatch_max_batch"), u64::from(SCX_DSP_DFL_MAX_BATCH))
            as u32,
        exit_dump_len: or_default(number("exit_dump_len"), SCX_EXIT_DUMP_DFL_LEN as u64) as usize,
        cid_shard_size: number("cid_shard_size") as u32,
        hotplug_seq: number("hotplug_seq"),
    };
    let programs: Vec<_> = programs_of(table).map(|(_, program)| program).collect();
    let has = |op: Op| programs[op as usize].is_some();
    operations.validate(has, release).map_err(LoadError::Operations)?;
    Ok(operations)
}

/// The table with its callbacks.
fn link_operations(
    table: &StructOps,
    code: &Code,
    release: Release,
) -> Result<Operations, LoadError> {
    let mut operations = read_operations(table, code.needs(), release)?;
    for (place, (name, program)) in operations.entries.iter_mut().zip(programs_of(table)) {
        let entry = program.map(|program| {
            code.entry(program).ok_or_else(|| {
                LoadError::Operations(format!(
                    "ops.{name} is {program}, which the object does not have"
                ))
            })
        });
        *place = entry.transpose()?;
    }
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fairground_machine::Machine;

    use super::*;

    /// Keeps each translation that it is given, and counts them.
    #[derive(Default)]
    struct Memory(Mutex<Kept>);

    #[derive(Default)]
    struct Kept {
        contents: BTreeMap<Vec<u8>, Vec<u8>>,
        times: usize,
    }

    impl Store for Memory {
        fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.0.lock().unwrap().contents.get(key).cloned()
        }

        fn keep(&self, key: &[u8], content: &[u8]) {
            let mut memory = self.0.lock().unwrap();
            memory.contents.insert(key.to_vec(), content.to_vec());
            memory.times += 1;
        }
    }

    /// That of any scheduler.
    fn any() -> Object {
        parse(&fairground_catalog::all()[0].object).unwrap()
    }

    #[test]
    fn an_object_is_translated_once_for_each_kernel_and_choice_of_programs() {
        let store = Arc::new(Memory::default());
        let kept = || store.0.lock().unwrap().times;
        let load = |object: Object| {
            let scheduler = Scheduler::load_object(Arc::new(object), Some(store.clone()));
            Arc::new(scheduler.unwrap())
        };
        let first = load(any());
        assert_eq!(kept(), 1);
        let second = load(any());
        assert_eq!(kept(), 1);
        assert_eq!(first.code.size(), second.code.size());

        let machine = Arc::new(Machine::parse("2").unwrap());
        let mut options = Options::new(machine, Arc::default());
        options.release = Release::new(6, 18);
        second.for_kernel(&options).unwrap();
        assert_eq!(kept(), 2);
        let object = second.object.clone();
        Scheduler::load_with_values(object, &options, Some(store.clone())).unwrap();
        assert_eq!(kept(), 3);

        let exit = format!("{}_exit", fairground_catalog::all()[0].id());
        let mut object = any();
        assert!(object.set_autoload(&exit, false));
        let _ = Scheduler::load_object(Arc::new(object), Some(store.clone()));
        assert_eq!(kept(), 4);

        for content in store.0.lock().unwrap().contents.values_mut() {
            content.truncate(content.len() / 2);
        }
        load(any());
        assert_eq!(kept(), 5, "what is damaged is made again");
    }

    #[test]
    fn a_refusal_is_kept_too() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("gone.bpf.c");
        let text = r#"#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
char _license[] SEC("license") = "GPL";
extern void scx_bpf_dispatch(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym;
SEC("struct_ops/gone_enqueue") void BPF_PROG(gone_enqueue, struct task_struct *p, u64 flags)
{
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, 0, flags);
}
SEC(".struct_ops.link") struct sched_ext_ops gone = { .enqueue = (void *)gone_enqueue, .name = "gone" };
"#;
        std::fs::write(&source, text).unwrap();
        let compiled = fairground_catalog::compile_source(&source, &Default::default()).unwrap();
        let object = Arc::new(parse(&compiled.object).unwrap());
        let store = Arc::new(Memory::default());
        let refusal = || {
            let loaded = Scheduler::load_object(object.clone(), Some(store.clone()));
            loaded.err().map(|error| error.to_string())
        };
        let first = refusal().unwrap();
        assert!(first.contains("has no function scx_bpf_dispatch"), "{first}");
        assert_eq!(refusal(), Some(first));
        assert_eq!(store.0.lock().unwrap().times, 1);
    }
}
