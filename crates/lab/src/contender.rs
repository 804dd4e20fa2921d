//! A scheduler that takes part in an experiment.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use fairground_capture::{Captured, KernelFacts};
use fairground_catalog::Build;
use fairground_companion::{Companion, Prepared, Setting};
use fairground_machine::Machine;
use fairground_simulator::Scheduler;

use crate::error::Error;
use crate::parallel;

/// A scheduler, compiled for the simulator, with the tunables that were set.
#[derive(Clone)]
pub struct Contender {
    name: String,
    entry: fairground_catalog::Scheduler,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) variables: Vec<(String, Vec<u8>)>,
    pub(crate) tunables: BTreeMap<String, String>,
    companion: Companion,
    /// What was set that is no tunable.
    settings: Vec<Setting>,
}

impl Contender {
    /// The scheduler with this id, or the user's own at this path, with its tunables at their defaults.
    ///
    /// # Errors
    ///
    /// If there is no such scheduler, if it does not compile, or if the simulated kernel would refuse it.
    pub fn open(reference: &str, build: &Build) -> Result<Self, Error> {
        let (mut entry, mut scheduler) = load(reference, build)?;
        let is_own = fairground_catalog::find(entry.id()).is_err();
        let companion = match is_own {
            true => find_companion(&entry.source_file, scheduler.name())?,
            false => Companion::empty(),
        };
        let is_there = |name: &str| {
            scheduler
                .object()
                .programs()
                .iter()
                .any(|one| one.name == name)
        };
        // What only the loader calls, no source asks for.
        let wanted = companion.programs().filter(|name| !is_there(name));
        let wanted: Vec<String> = wanted.map(str::to_owned).collect();
        if !wanted.is_empty() && !entry.source.is_empty() {
            let build = Build {
                wanted,
                ..build.clone()
            };
            (entry, scheduler) = load(reference, &build)?;
        }
        Ok(Self {
            name: reference.to_owned(),
            entry,
            scheduler: Arc::new(scheduler),
            variables: Vec::new(),
            tunables: BTreeMap::new(),
            companion,
            settings: Vec::new(),
        })
    }

    /// The scheduler that a command of the form `exec:LOADER ARGUMENTS` attaches on `machine`, with what the loader sets there.
    ///
    /// # Errors
    ///
    /// If the loader does not attach a scheduler, or the simulated kernel would refuse it.
    pub fn capture(reference: &str, machine: &Machine) -> Result<Self, Error> {
        let command = reference.strip_prefix(LOADER).unwrap_or(reference);
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let captured = capture_loader(&words, machine, None)?;
        let unwritten = |cause| Error::Write {
            path: std::env::temp_dir(),
            cause,
        };
        let folder = tempfile::tempdir().map_err(unwritten)?;
        let path = folder.path().join(format!("{}.bpf.o", captured.scheduler));
        std::fs::write(&path, &captured.object).map_err(unwritten)?;
        let mut contender = Self::open(&path.display().to_string(), &Build::default())?;
        contender.name = reference.to_owned();
        contender.companion =
            Companion::parse(&format!("{command}, captured"), &captured.companion)?;
        Ok(contender)
    }

    /// The same for several at once, in their order; `threads` as in [`Plan::threads`](crate::Plan::threads).
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), of the first one that has any.
    pub fn open_all(
        references: &[String],
        build: &Build,
        threads: Option<NonZero<usize>>,
    ) -> Result<Vec<Self>, Error> {
        let order: Vec<usize> = (0..references.len()).collect();
        let opened = parallel::map(&order, threads, |index| {
            Self::open(&references[index], build)
        });
        opened.into_iter().collect()
    }

    /// Takes what the scheduler's loader does from `companion`.
    pub fn set_companion(&mut self, companion: Companion) {
        self.companion = companion;
    }

    /// Where what its loader does is taken from.
    pub fn companion(&self) -> &Companion {
        &self.companion
    }

    /// What its loader does on `machine`.
    ///
    /// # Errors
    ///
    /// If its companion, or what was set, does not fit the scheduler or the machine.
    pub fn prepare(&self, machine: &Machine) -> Result<Prepared, Error> {
        let object = self.scheduler.object();
        let prepared =
            self.companion
                .prepare(object, &Scheduler::constant, machine, &self.settings)?;
        Ok(prepared)
    }

    /// The id, or the path as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sources that nobody named and that it needs, as one text; none if there are none.
    pub(crate) fn linked(&self) -> Option<String> {
        let sources = &self.entry.linked;
        let names = sources.iter().filter_map(|source| source.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether it comes from somewhere else than this program, so that nobody knows what its code does.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.entry.object, Cow::Owned(_))
    }

    /// Ticks a second that it was made for: its tunable `hz`, as set or by default. `None` if it has none, or 0 there, which is any rate.
    pub fn native_hz(&self) -> Option<u64> {
        let tunable = self.entry.tunable("hz").ok()?;
        let set = self.tunables.get(&tunable.name);
        let value = match set {
            Some(text) => tunable.parse_value(text).ok()?,
            None => tunable.default,
        };
        u64::try_from(value).ok().filter(|rate| *rate > 0)
    }

    /// The scheduler's counters by the names that its manifest gives them.
    pub(crate) fn name_counters(&self, values: &[u64]) -> BTreeMap<String, u64> {
        let names = self.entry.manifest.statistics.iter();
        names
            .zip(values)
            .map(|(statistic, value)| (statistic.name.clone(), *value))
            .collect()
    }

    /// Other values for up to `most` of its tunables that are numbers or switches: half and twice as much, or the other way. Each with
    /// the tunable's name, as people write it.
    pub(crate) fn alternatives(&self, most: usize) -> Vec<(String, String)> {
        let tunables = self.entry.manifest.tunables.iter();
        let free = tunables.filter(|tunable| {
            tunable.choices.is_empty() && !self.tunables.contains_key(&tunable.name)
        });
        let mut found = Vec::new();
        for tunable in free.take(most) {
            let values = if tunable.integer_type.boolean {
                vec![1 - tunable.default]
            } else {
                vec![tunable.default / 2, tunable.default * 2]
            };
            let range = tunable.minimum..=tunable.maximum;
            for value in values {
                if value != tunable.default && range.contains(&value) {
                    found.push((tunable.name.clone(), tunable.format_value(value)));
                }
            }
        }
        found
    }

    /// What the compiler warned about; empty for a built-in scheduler.
    pub fn warnings(&self) -> &str {
        self.entry.warnings.trim_end()
    }

    /// `ops.name`.
    pub fn kernel_name(&self) -> &str {
        self.scheduler.name()
    }

    /// Whether `name` means this scheduler: its id, its name in the kernel, or its path.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name || name == self.entry.id() || name == self.scheduler.name()
    }

    /// Sets what the scheduler or its loader has by this name: a tunable to a value as people write it, otherwise an option of the
    /// companion, `ops.MEMBER`, `map.NAME.max_entries` or a global variable with a path into it, to an expression. Setting one twice
    /// leaves the last value.
    ///
    /// # Errors
    ///
    /// If there is nothing of this name, or the value does not fit; the error says what does.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let is_option = self.companion.has_option(key);
        let unknown = match self.entry.tunable(key) {
            Ok(tunable) if !is_option => {
                let value = tunable.parse_value(text)?;
                self.variables.retain(|(name, _)| *name != tunable.name);
                self.variables
                    .push((tunable.name.clone(), tunable.encode(value)));
                self.tunables
                    .insert(tunable.name.clone(), tunable.format_value(value));
                return Ok(());
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        let object = self.scheduler.object();
        if let (Some(error), false) = (
            unknown,
            is_option || fairground_companion::names(object, key),
        ) {
            return Err(error.into());
        }
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(Setting {
            key: key.to_owned(),
            value: text.to_owned(),
            place: format!("--set {}.{key}", self.name),
        });
        self.tunables.insert(key.to_owned(), text.to_owned());
        Ok(())
    }
}

/// What a reference to a scheduler begins with that names its loader.
pub const LOADER: &str = "exec:";

/// Runs a loader until it has attached its scheduler on `machine`. `object` is the scheduler's object where the loader does not carry it.
///
/// # Errors
///
/// If it does not attach one.
pub fn capture_loader(
    command: &[String],
    machine: &Machine,
    object: Option<&Path>,
) -> Result<Captured, Error> {
    fairground_capture::capture(command, machine, &SimulatedKernel, object).map_err(|reason| {
        Error::Capture {
            command: command.join(" "),
            reason,
        }
    })
}

/// The simulated kernel, as loaders see it.
struct SimulatedKernel;

impl KernelFacts for SimulatedKernel {
    fn constants(&self) -> Vec<(&'static str, u64)> {
        Scheduler::constants().collect()
    }

    fn kconfig(&self, name: &str) -> Option<u64> {
        Scheduler::kconfig(name)
    }

    fn has_function(&self, name: &str) -> bool {
        Scheduler::has_function(name)
    }
}

/// The companion of a user's own scheduler: the one beside its source, or the one that comes with fairground for the name that it
/// gives itself.
fn load(
    reference: &str,
    build: &Build,
) -> Result<(fairground_catalog::Scheduler, Scheduler), Error> {
    let entry = fairground_catalog::open(reference, build)?;
    let scheduler = Scheduler::load(&entry.object).map_err(|reason| Error::Load {
        scheduler: reference.to_owned(),
        reason,
    })?;
    Ok((entry, scheduler))
}

fn find_companion(source: &Path, scheduler: &str) -> Result<Companion, Error> {
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    let stem = [".bpf.c", ".bpf.o", ".c", ".o"]
        .iter()
        .find_map(|ending| file.strip_suffix(ending))
        .unwrap_or(&file);
    let beside = source.with_file_name(format!("{stem}.companion.toml"));
    if beside.is_file() {
        return Ok(Companion::read(&beside)?);
    }
    match Companion::built_in(scheduler) {
        Some(companion) => Ok(companion?),
        None => Ok(Companion::empty()),
    }
}
