//! Loads a sched_ext scheduler: any object that libbpf can open and that defines one `struct sched_ext_ops`.
//!
//! Two steps: [`OpenScheduler::open`] gives libbpf the object and what it begins with (no privileges needed), [`OpenScheduler::start`] puts the scheduler in charge of this machine until the [`Running`] is stopped or dropped.

mod give;
mod running;
mod sections;

use std::time::Instant;

use fairground_bpf::{Given, Object as Parsed, Setup, StructOpsValue, Value};
use libbpf_rs::{Link, MapCore as _, Object, ObjectBuilder, OpenObject, ProgramType};

use crate::exit::ExitLayout;
use crate::host::KernelTypes;
use crate::libbpf_messages::collect;
use crate::setup::Steps;
use crate::verifier::Rejection;
use crate::{Error, host};
use give::{give, in_arena};
pub use running::{Running, Stopped};
use sections::{holds_section, map_prefix};

/// A scheduler that has been read but not loaded.
#[derive(Debug)]
pub struct OpenScheduler {
    name: String,
    /// The name that the scheduler gives itself.
    title: String,
    object: OpenObject,
    /// Name of its table of callbacks, which is also that of libbpf's map.
    table: String,
    exit: Option<ExitLayout>,
    /// Actions of its loader after loading.
    steps: Steps,
    warnings: Vec<String>,
}

/// A scheduler that is loaded but not in charge.
struct Loaded {
    name: String,
    object: Object,
    table: String,
    exit: Option<ExitLayout>,
    steps: Steps,
    warnings: Vec<String>,
}

impl OpenScheduler {
    /// Opens an object, and takes the place of the scheduler's loader: gives it `values`, the constants of `kernel`, and the settings of `setup`,
    /// whose other actions follow when the scheduler is started. `name` is used in messages; `parsed` is the same object, with the scheduler and the
    /// programs that are meant.
    ///
    /// # Errors
    /// [`Error::Object`] if libbpf cannot open it or it leaves it open which scheduler is meant, [`Error::Setup`] for a setting that the kernel cannot
    /// be given.
    pub fn open(
        name: &str,
        bytes: &[u8],
        parsed: &Parsed,
        kernel: &KernelTypes,
        values: &[Value<'_>],
        setup: Setup,
    ) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Object { name: name.to_owned(), reason };
        let refused = |reason: String| Error::Setup { name: name.to_owned(), reason };
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
        let in_arena = in_arena(parsed, &setup);
        if !in_arena.is_empty() {
            return Err(refused(format!(
                "the kernel cannot be given values of global variables in the arena, only the simulator can: {}; leave them out",
                in_arena.join(", ")
            )));
        }
        let structure = &parsed.scheduler().map_err(&unusable)?.type_name;
        let prepared = parsed.prepare(&Given {
            values,
            constant: &|name| kernel.constants.get(name).copied(),
            knows: &|member| kernel.has_member(structure, member),
            hotplug_sequence: kernel.hotplug_sequence,
            setup: &setup,
        });
        let prepared = prepared.map_err(&unusable)?;
        give(&mut object, parsed, &prepared).map_err(refused)?;
        let warning = |member: &String| {
            format!("{name}: this kernel does not know ops.{member}; it is left out")
        };
        let title = prepared.operations.value("name");
        Ok(Self {
            name: name.to_owned(),
            title: title.map(StructOpsValue::text).unwrap_or_default(),
            object,
            table: prepared.operations.name,
            exit: ExitLayout::find(parsed),
            steps: Steps::of(parsed, setup),
            warnings: prepared.left_out.iter().map(warning).collect(),
        })
    }

    /// The name that the scheduler gives itself, and that the kernel shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The bytes that a section of global variables or the table of callbacks begins with, in libbpf's hands. A callback in it is an address.
    pub fn content(&self, section: &str) -> Option<Vec<u8>> {
        let mut maps = self.object.maps();
        let map = maps.find(|map| holds_section(&map.name().to_string_lossy(), section))?;
        Some(map.initial_value()?.to_vec())
    }

    /// The capacity of a map in entries, in libbpf's hands.
    pub fn map_entries(&self, name: &str) -> Option<u32> {
        let mut maps = self.object.maps();
        Some(maps.find(|map| map.name() == name)?.max_entries())
    }

    /// Lets the kernel's verifier check the scheduler, and unloads it again; returns the parts that had to be left out on this kernel, and how many
    /// programs were checked.
    pub fn verify(self) -> Result<(Vec<String>, usize), Error> {
        host::check_can_verify()?;
        let loaded = self.load()?;
        let programs = loaded.object.progs().filter(|program| program.autoload());
        Ok((loaded.warnings, programs.count()))
    }

    /// Loads the scheduler's programs and maps.
    fn load(self) -> Result<Loaded, Error> {
        let Self { name, object, table, exit, steps, warnings, .. } = self;
        let (loaded, messages) = collect(|| object.load());
        let object = loaded.map_err(|error| match Rejection::find(&messages) {
            Some(rejection) => {
                Error::Rejected { name: name.clone(), rejection: Box::new(rejection) }
            }
            None => {
                Error::Load { name: name.clone(), reason: format!("{error}{}", quoted(&messages)) }
            }
        })?;
        Ok(Loaded { name, object, table, exit, steps, warnings })
    }

    /// Loads the scheduler and puts it in charge. `statistics` names the counters of its statistics map in order.
    ///
    /// # Errors
    /// As for [`host::check_can_load`], a rejection by the verifier, anything else that the kernel rejects, and [`Error::Setup`].
    pub fn start(self, statistics: &[String]) -> Result<Running, Error> {
        host::check_can_load()?;
        let Loaded { name, mut object, table, exit, steps, warnings } = self.load()?;

        associate(&mut object, &table);
        let given_up = |reason: String| Error::Setup { name: name.clone(), reason };
        steps.before_attaching(&object).map_err(given_up)?;

        let sequence = host::enable_sequence();
        let (attached, messages) = collect(|| attach(&mut object, &table));
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
            return Err(Error::Start { name: running.name.clone(), report });
        }
        steps.after_attaching(&running.object).map_err(given_up)?;
        running.repetition = steps.start_repeating(&running.object).map_err(given_up)?;
        Ok(running)
    }
}

/// Lets the kfuncs in all other programs find the scheduler; kernels before 7.0 neither know nor need this.
fn associate(object: &mut Object, operations: &str) {
    let Some(table) = object.maps().find(|map| map.name() == operations) else { return };
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
