//! Loads a sched_ext scheduler: any object that libbpf can open and that defines one `struct sched_ext_ops`.
//!
//! Three steps: [`OpenScheduler::open`] reads the object (no privileges needed), [`OpenScheduler::set`] sets tunables,
//! [`OpenScheduler::start`] puts the scheduler in charge of this machine until the [`Running`] is stopped or dropped.

mod adapt;
mod running;
mod sections;

use std::time::Instant;

use fairground_bpf::{SCHEDULER_TABLES, Setup};
use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::{
    AsRawLibbpf as _, Link, MapCore as _, MapType, Object, ObjectBuilder, OpenObject, ProgramType,
};

use crate::error::hint;
use crate::exit::ExitLayout;
use crate::libbpf_messages::collect;
use crate::setup::{self, Steps};
use crate::variables::{self, Kind, Member, Variable};
use crate::verifier::Rejection;
use crate::{Error, host};
pub use running::{Running, Stopped};
use sections::{find_section, holds_section, map_prefix};

/// Section of the constants that user space may set before loading.
const CONSTANTS: &str = ".rodata";

/// A scheduler that has been read but not loaded.
#[derive(Debug)]
pub struct OpenScheduler {
    name: String,
    object: OpenObject,
    variables: Vec<Variable>,
    operations: Operations,
    exit: Option<ExitLayout>,
    /// Actions of its loader after loading.
    steps: Steps,
}

/// A scheduler that is loaded but not in charge.
struct Loaded {
    name: String,
    object: Object,
    operations: Operations,
    exit: Option<ExitLayout>,
    steps: Steps,
    warnings: Vec<String>,
}

/// The scheduler's table of callbacks.
#[derive(Clone, Debug)]
struct Operations {
    /// Name of the map, which is the variable's name.
    map: String,
    /// Name of the structure, without flavour.
    structure: String,
    members: Vec<Member>,
}

impl Operations {
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl OpenScheduler {
    /// Reads an object. `name` is used in messages; `table` selects the table of callbacks, which is only needed for an object with several schedulers.
    ///
    /// # Errors
    /// [`Error::Object`] if it is not a BPF object, has no type information, or leaves it open which scheduler is meant.
    pub fn open(name: &str, bytes: &[u8], table: Option<&str>) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Object {
            name: name.to_owned(),
            reason,
        };
        let (opened, messages) = collect(|| {
            ObjectBuilder::default()
                .name(map_prefix(name))
                .and_then(|builder| builder.open_memory(bytes))
        });
        let mut object = opened.map_err(|error| {
            unusable(format!(
                "not a BPF object that can be loaded ({error}); it must be made by clang with -target bpf -g{}",
                quoted(&messages)
            ))
        })?;
        // SAFETY: the pointer belongs to `object`, which outlives the borrow.
        let raw = unsafe { object.as_libbpf_object().as_ref() };
        let btf = Btf::from_bpf_object(raw).ok().flatten().ok_or_else(|| {
            unusable("the object has no type information; compile it with -g".to_owned())
        })?;
        let (operations, others) = find_operations(&object, &btf, table).map_err(&unusable)?;
        let variables = variables::variables(&btf);
        let exit = ExitLayout::find(&variables, |structure| variables::members(&btf, structure));
        drop(btf);
        for mut map in object.maps_mut() {
            if others.iter().any(|other| map.name() == other.as_str()) {
                map.set_autocreate(false)
                    .map_err(|error| unusable(error.to_string()))?;
            }
        }
        Ok(Self {
            name: name.to_owned(),
            object,
            variables,
            operations,
            exit,
            steps: Steps::default(),
        })
    }

    /// The name that the scheduler gives itself, and that the kernel shows.
    #[must_use]
    pub fn ops_name(&self) -> String {
        let bytes = self.section_bytes(&self.operations.map).unwrap_or_default();
        let field = self
            .operations
            .member("name")
            .and_then(|member| bytes.get(member.offset..member.offset + member.room))
            .unwrap_or_default();
        let end = field
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    }

    /// Variables that can be set before loading: the numeric constants, except those that belong to scx's headers.
    pub fn tunables(&self) -> impl Iterator<Item = &Variable> {
        self.variables.iter().filter(|variable| {
            variable.section == CONSTANTS
                && variable.kind != Kind::Other
                && !variable.name.starts_with("__")
                && !self.is_dump_length(variable)
        })
    }

    /// The current value of a tunable; `None` if there is no such tunable.
    #[must_use]
    pub fn get(&self, tunable: &str) -> Option<i128> {
        let variable = self.tunables().find(|variable| variable.name == tunable)?;
        variable.read(&self.section_bytes(CONSTANTS)?)
    }

    /// Sets a tunable.
    ///
    /// # Errors
    /// [`Error::UnknownTunable`], or [`Error::TunableValue`] for a value that its type cannot hold.
    pub fn set(&mut self, tunable: &str, value: i128) -> Result<(), Error> {
        let Some(variable) = self
            .tunables()
            .find(|variable| variable.name == tunable)
            .cloned()
        else {
            let all: Vec<String> = self
                .tunables()
                .map(|variable| variable.name.clone())
                .collect();
            return Err(Error::UnknownTunable {
                scheduler: self.name.clone(),
                tunable: tunable.to_owned(),
                hint: hint(tunable, &all),
            });
        };
        let (minimum, maximum) = variable.range().unwrap_or((0, 0));
        if value < minimum || value > maximum {
            return Err(Error::TunableValue {
                scheduler: self.name.clone(),
                reason: format!(
                    "{value} does not fit the tunable `{tunable}`, {}: {minimum} to {maximum}",
                    variable.describe()
                ),
            });
        }
        self.write(&variable, value);
        Ok(())
    }

    /// Writes a constant that is not a number, such as a table. If it is alone in its section, `bytes` may be longer than the variable: the
    /// section then grows to their length. Does nothing if the object lacks the variable.
    ///
    /// # Errors
    /// [`Error::Object`] if the bytes do not fit the variable and its section cannot be made longer.
    pub fn set_bytes(&mut self, section: &str, variable: &str, bytes: &[u8]) -> Result<(), Error> {
        let Some(found) = self
            .variables
            .iter()
            .find(|candidate| candidate.section == section && candidate.name == variable)
            .cloned()
        else {
            return Ok(());
        };
        let misfit = |reason: String| Error::Object {
            name: self.name.clone(),
            reason: format!(
                "the variable `{variable}` in {section} cannot hold {} bytes: {reason}",
                bytes.len()
            ),
        };
        let Some(mut map) = find_section(&mut self.object, section) else {
            return Ok(());
        };
        if found.offset == 0 && section != CONSTANTS {
            let length = u32::try_from(bytes.len()).map_err(|error| misfit(error.to_string()))?;
            map.set_value_size(length)
                .map_err(|error| misfit(error.to_string()))?;
        } else if bytes.len() != found.size {
            return Err(misfit(format!("it has {}", found.size)));
        }
        match map
            .initial_value_mut()
            .and_then(|value| value.get_mut(found.offset..found.offset + bytes.len()))
        {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(misfit("it has no initial value".to_owned())),
        }
    }

    /// Takes the place of the scheduler's loader: makes the settings for before loading, and the rest when the scheduler is started. `setup` is for
    /// `parsed`, which is the same object.
    ///
    /// # Errors
    /// [`Error::Setup`] with the part that cannot be given to a kernel.
    pub fn equip(&mut self, parsed: &fairground_bpf::Object, setup: Setup) -> Result<(), Error> {
        let refused = |name: &str, reason: String| Error::Setup {
            name: name.to_owned(),
            reason,
        };
        let in_arena = setup::in_arena(parsed, &setup);
        if !in_arena.is_empty() {
            let reason = format!(
                "the kernel cannot be given values of global variables in the arena, only the simulator can: {}; leave them out",
                in_arena.join(", ")
            );
            return Err(refused(&self.name, reason));
        }
        for (name, load) in &setup.programs {
            let mut programs = self.object.progs_mut();
            match programs.find(|program| program.name() == name.as_str()) {
                Some(mut program) => program.set_autoload(*load),
                None => {
                    return Err(refused(
                        &self.name,
                        format!("libbpf knows no program {name}"),
                    ));
                }
            }
        }
        let table = self.operations.map.clone();
        for (name, bytes) in &setup.operations {
            let Some(member) = self.operations.member(name).cloned() else {
                return Err(refused(&self.name, format!("there is no ops.{name}")));
            };
            self.patch(&table, member.offset, bytes)?;
        }
        for patch in &setup.variables {
            let section = &parsed.sections()[patch.section].name;
            self.patch(section, patch.offset, &patch.bytes)?;
        }
        let steps = setup::before_loading(&mut self.object, parsed, setup);
        self.steps = steps.map_err(|reason| refused(&self.name, reason))?;
        Ok(())
    }

    /// Overwrites initial bytes of a section or a table of callbacks. A section that is too short grows.
    fn patch(&mut self, section: &str, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let name = self.name.clone();
        let failed = |reason: String| Error::Setup {
            name,
            reason: format!("{} bytes of {section} cannot be set: {reason}", bytes.len()),
        };
        let Some(mut map) = find_section(&mut self.object, section) else {
            return Err(failed("libbpf knows no such section".to_owned()));
        };
        let end = offset + bytes.len();
        let length = map.initial_value_mut().map_or(0, |value| value.len());
        if end > length {
            let grown = u32::try_from(end).map_err(|error| error.to_string());
            let grown =
                grown.and_then(|end| map.set_value_size(end).map_err(|error| error.to_string()));
            if let Err(reason) = grown {
                return Err(failed(reason));
            }
        }
        match map
            .initial_value_mut()
            .and_then(|value| value.get_mut(offset..end))
        {
            Some(place) => place.copy_from_slice(bytes),
            None => return Err(failed("it has no initial value".to_owned())),
        }
        Ok(())
    }

    /// Lets the kernel's verifier check the scheduler, and unloads it again; returns the parts that had to be left out on this kernel, and how many
    /// programs were checked.
    ///
    /// # Errors
    /// As for [`host::check_can_verify`], a rejection by the verifier, or anything else that the kernel rejects.
    pub fn verify(self) -> Result<(Vec<String>, usize), Error> {
        host::check_can_verify()?;
        let loaded = self.load()?;
        let programs = loaded.object.progs().filter(|program| program.autoload());
        Ok((loaded.warnings, programs.count()))
    }

    /// Loads the scheduler's programs and maps.
    fn load(mut self) -> Result<Loaded, Error> {
        let warnings = self.adapt_to_kernel()?;
        let Self {
            name,
            object,
            operations,
            exit,
            steps,
            ..
        } = self;
        let (loaded, messages) = collect(|| object.load());
        let object = loaded.map_err(|error| match Rejection::find(&messages) {
            Some(rejection) => Error::Rejected {
                name: name.clone(),
                rejection: Box::new(rejection),
            },
            None => Error::Load {
                name: name.clone(),
                reason: format!("{error}{}", quoted(&messages)),
            },
        })?;
        Ok(Loaded {
            name,
            object,
            operations,
            exit,
            steps,
            warnings,
        })
    }

    /// Loads the scheduler and puts it in charge. `statistics` names the counters of its statistics map in order.
    ///
    /// # Errors
    /// As for [`host::check_can_load`], a rejection by the verifier, anything else that the kernel rejects, and [`Error::Setup`].
    pub fn start(self, statistics: &[String]) -> Result<Running, Error> {
        host::check_can_load()?;
        let Loaded {
            name,
            mut object,
            operations,
            exit,
            steps,
            warnings,
        } = self.load()?;

        associate(&mut object, &operations.map);
        let given_up = |reason: String| Error::Setup {
            name: name.clone(),
            reason,
        };
        steps.before_attaching(&object).map_err(given_up)?;

        let sequence = host::enable_sequence();
        let (attached, messages) = collect(|| attach(&mut object, &operations.map));
        let links = attached.map_err(|error| {
            // Another scheduler may have been loaded since the check above.
            match host::loaded_scheduler() {
                Some(name) => Error::AlreadyLoaded { name },
                None => Error::Load {
                    name: name.clone(),
                    reason: format!("{error}{}", quoted(&messages)),
                },
            }
        })?;
        let mut running = Running {
            name: name.clone(),
            repetition: None,
            links,
            object,
            exit,
            statistics: statistics.to_vec(),
            warnings,
            sequence: host::enable_sequence(),
            started: Instant::now(),
        };
        // If a scheduler fails while it is enabled, the kernel reports this through its exit callback only.
        if running.sequence == sequence {
            let report = running.exit_report().map_or_else(
                || {
                    "it keeps no record of the reason; the kernel's log (dmesg) may have it"
                        .to_owned()
                },
                |report| report.to_string(),
            );
            return Err(Error::Start {
                name: running.name.clone(),
                report,
            });
        }
        steps.after_attaching(&running.object).map_err(given_up)?;
        running.repetition = steps.start_repeating(&running.object).map_err(given_up)?;
        Ok(running)
    }

    fn write(&mut self, variable: &Variable, value: i128) {
        self.with_section(&variable.section.clone(), |bytes| {
            variable.write(bytes, value)
        });
    }

    /// Runs `change` on the initial bytes of a data section or of the table of callbacks.
    fn with_section(&mut self, section: &str, change: impl FnOnce(&mut [u8])) {
        if let Some(mut map) = find_section(&mut self.object, section) {
            if let Some(bytes) = map.initial_value_mut() {
                change(bytes);
            }
        }
    }

    fn section_bytes(&self, section: &str) -> Option<Vec<u8>> {
        let map = self
            .object
            .maps()
            .find(|map| holds_section(&map.name().to_string_lossy(), section))?;
        Some(map.initial_value()?.to_vec())
    }
}

/// Lets the kfuncs in all other programs find the scheduler; kernels before 7.0 neither know nor need this.
fn associate(object: &mut Object, operations: &str) {
    let Some(table) = object.maps().find(|map| map.name() == operations) else {
        return;
    };
    for program in object.progs_mut() {
        if program.prog_type() != ProgramType::StructOps && program.autoload() {
            let _ = program.assoc_struct_ops(&table);
        }
    }
}

/// Attaches the scheduler and every other program that declares its attach point.
fn attach(object: &mut Object, operations: &str) -> Result<Vec<Link>, libbpf_rs::Error> {
    let mut others = Vec::new();
    for program in object.progs_mut() {
        if program.prog_type() == ProgramType::StructOps || !program.autoload() {
            continue;
        }
        match program.attach() {
            Ok(link) => others.push(link),
            // Programs without an attach point, such as SEC("syscall"), are called by others.
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == operations)
        .expect("the map was there when the object was opened");
    let mut links = vec![map.attach_struct_ops()?];
    links.append(&mut others);
    Ok(links)
}

/// The selected table of callbacks and the names of the others, or the object's fault.
fn find_operations(
    object: &OpenObject,
    btf: &Btf<'_>,
    table: Option<&str>,
) -> Result<(Operations, Vec<String>), String> {
    let mut found = Vec::new();
    for map in object
        .maps()
        .filter(|map| map.map_type() == MapType::StructOps)
    {
        // SAFETY: the pointer belongs to `object`, which is borrowed here.
        let type_id =
            unsafe { libbpf_sys::bpf_map__btf_value_type_id(map.as_libbpf_object().as_ptr()) };
        let structure = btf
            .type_by_id::<BtfType<'_>>(TypeId::from(type_id))
            .and_then(|found| {
                Some(variables::without_flavour(&found.name()?.to_string_lossy()).to_owned())
            });
        if let Some(structure) = structure.filter(|name| SCHEDULER_TABLES.contains(&name.as_str()))
        {
            found.push(Operations {
                map: map.name().to_string_lossy().into_owned(),
                members: variables::members(btf, &structure),
                structure,
            });
        }
    }
    let mut names: Vec<String> = found.iter().map(|one| one.map.clone()).collect();
    let meant = match (table, names.len()) {
        (_, 0) => return Err("the object defines no scheduler: no `struct sched_ext_ops` in a section .struct_ops.link".to_owned()),
        (None, 1) => 0,
        (None, _) => {
            return Err(format!(
                "the object defines several schedulers ({}); say which one behind a #, such as FILE#{}",
                names.join(", "),
                names[0]
            ));
        }
        (Some(table), _) => names
            .iter()
            .position(|name| name == table)
            .ok_or_else(|| format!("the object has no {table}; it has {}", names.join(", ")))?,
    };
    names.remove(meant);
    Ok((found.swap_remove(meant), names))
}

/// libbpf's messages, to append to ours.
fn quoted(messages: &[String]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let text: String = messages
        .iter()
        .map(|message| format!("\n  {}", message.trim_end().replace('\n', "\n  ")))
        .collect();
    format!(". libbpf says:{text}")
}
