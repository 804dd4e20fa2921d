//! A scheduler that takes part in an experiment.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fairground_bpf::{Object, Setup};
use fairground_catalog::Build;
use fairground_companion::{Companion, Prepared};
use fairground_events::Callback;
use fairground_machine::{Machine, Online};
use fairground_results::short_name;
use fairground_simulator::{
    CostModel, Examined, LaterSetup, LoadError, Options, Release, Scheduler, examine, has_callback,
};

use crate::accompanied::Accompanied;
use crate::error::Error;
use crate::identity;
use crate::parallel;
use crate::store;

/// How long a loader is taken to need to load a scheduler that asks for it again, in nanoseconds.
const RESTART_AFTER: u64 = 500_000_000;

/// A scheduler, compiled for the simulator, with its tunables set.
#[derive(Clone)]
pub struct Contender {
    /// The name in results.
    name: String,
    /// The id, or the path as given.
    reference: String,
    /// How its sources were compiled.
    build: Build,
    /// Settings of a scheduler that could not be opened.
    asked: BTreeMap<String, String>,
    /// Whether it stands for a class that is built into the kernel.
    built_in: bool,
    /// The object to load, or why there is none.
    opened: Result<Opened, Arc<Error>>,
    /// The loader that keeps running alongside, with its arguments.
    loader: Option<Vec<String>>,
}

/// A scheduler that there is.
#[derive(Clone)]
struct Opened {
    whole: Arc<Accompanied>,
    object: Arc<Object>,
    /// The scheduler in the simulated kernel, or why the simulated kernel rejects it.
    scheduler: Loaded,
    /// If a kernel rejects it for all values of its read-only variables: its translations with the values of the runs so far.
    with_values: Arc<Mutex<Vec<(Values, Loaded)>>>,
    /// The hash of the object file.
    hash: String,
    /// The hash of the parts of the object that a kernel sees.
    essence: Arc<OnceLock<String>>,
}

/// Why a scheduler cannot be loaded.
pub(crate) enum Unloadable<'a> {
    /// There is none.
    Invalid(&'a Error),
    /// The simulated kernel rejects it.
    Refused(&'a LoadError),
}

impl Opened {
    fn load_with_values(&self, options: &Options) -> Loaded {
        let values = (
            options.variables.clone(),
            (options.setup.clone(), options.later_setups.clone()),
            options.machine.clone(),
            (options.hz, options.release),
        );
        let mut known = self.with_values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = known.iter().find(|(others, _)| *others == values) {
            return loaded.clone();
        }
        let store = store::of_object(&self.hash);
        let loaded = Scheduler::load_with_values(self.object.clone(), options, store);
        let loaded = loaded.map(Arc::new).map_err(Arc::new);
        known.push((values, loaded.clone()));
        loaded
    }

    /// The hash of the parts of the object that a kernel sees. To write them takes as long as the rest of a start, so that it is kept beside the code.
    fn find_essence(&self) -> String {
        let tables = self.object.struct_ops().iter();
        let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
        let key = format!("essence {tables:?}").into_bytes();
        let store = store::of_object(&self.hash);
        let kept = store.as_ref().and_then(|store| String::from_utf8(store.find(&key)?).ok());
        kept.unwrap_or_else(|| {
            let essence = identity::of_object(&self.object);
            if let Some(store) = store {
                store.keep(&key, essence.as_bytes());
            }
            essence
        })
    }
}

impl Contender {
    /// Opens the scheduler with this id, or the user's own at this path, with its tunables at their defaults. [`KERNEL`] is the kernel's own;
    /// the most similar scheduler of the catalogue stands in for it. If the simulated kernel rejects the scheduler, its runs fail before they
    /// begin.
    pub fn open(reference: &str, build: &Build) -> Result<Self, Error> {
        let built_in = reference == KERNEL;
        let whole = Accompanied::open(if built_in { STANDS_FOR_KERNEL } else { reference }, build)?;
        let hash = identity::of_bytes(&whole.entry().object);
        let (object, scheduler) = compile(&whole, &hash, reference)?;
        Ok(Self {
            name: reference.to_owned(),
            reference: reference.to_owned(),
            build: build.clone(),
            asked: BTreeMap::new(),
            built_in,
            opened: Ok(Opened {
                whole: Arc::new(whole),
                object,
                scheduler,
                with_values: Arc::default(),
                hash,
                essence: Arc::default(),
            }),
            loader: None,
        })
    }

    /// Like [`open`](Self::open), but a source that does not compile, or an object without a scheduler, gives one whose runs fail before they
    /// begin, so that others can be compared.
    pub fn open_any(reference: &str, build: &Build) -> Result<Self, Error> {
        match Self::open(reference, build) {
            Err(error) if error.is_of_the_scheduler() => Ok(Self {
                build: build.clone(),
                opened: Err(Arc::new(error)),
                ..Self::missing(reference, String::new())
            }),
            opened => opened,
        }
    }

    /// A scheduler that is none, because of this problem: its runs fail before they begin.
    pub fn missing(name: &str, problem: String) -> Self {
        Self {
            name: name.to_owned(),
            reference: name.to_owned(),
            build: Build::default(),
            asked: BTreeMap::new(),
            built_in: false,
            opened: Err(Arc::new(Error::Plan(problem))),
            loader: None,
        }
    }

    /// Why it is none, if that is so.
    pub fn problem(&self) -> Option<String> {
        self.opened.as_ref().err().map(ToString::to_string)
    }

    /// Opens several at once, in their order, each with its macros and headers; `threads` as in [`Plan::threads`](crate::Plan::threads). A scheduler that
    /// is asked for several times is compiled once.
    pub fn open_all(
        wanted: &[(&str, &Build)],
        threads: Option<NonZero<usize>>,
    ) -> Result<Vec<Self>, Error> {
        let mut different: Vec<(&str, &Build)> = Vec::new();
        for one in wanted {
            if !different.contains(one) {
                different.push(*one);
            }
        }
        let order: Vec<usize> = (0..different.len()).collect();
        let opened = parallel::map(&order, threads, |index| {
            let (reference, build) = different[index];
            Self::open_any(reference, build)
        });
        let opened = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
        let place = |one| different.iter().position(|other| other == one);
        Ok(wanted.iter().filter_map(place).map(|index| opened[index].clone()).collect())
    }

    /// Takes `companion` for the scheduler's loader.
    pub fn set_companion(&mut self, companion: Companion) -> Result<(), Error> {
        let Ok(opened) = &mut self.opened else { return Ok(()) };
        let as_before = companion.chooses_as(opened.whole.companion());
        Arc::make_mut(&mut opened.whole).set_companion(companion);
        if !as_before {
            (opened.object, opened.scheduler) = compile(&opened.whole, &opened.hash, &self.name)?;
            opened.with_values = Arc::default();
        }
        Ok(())
    }

    /// Its description; `None` if there is no scheduler.
    pub fn entry(&self) -> Option<&fairground_catalog::Scheduler> {
        self.whole().map(Accompanied::entry)
    }

    /// The scheduler in the simulated kernel.
    pub(crate) fn scheduler(&self) -> Result<&Arc<Scheduler>, Unloadable<'_>> {
        let opened = self.opened.as_ref().map_err(|error| Unloadable::Invalid(error))?;
        opened.scheduler.as_ref().map_err(|reason| Unloadable::Refused(reason))
    }

    /// Builds the scheduler for runs with `options`, from which it gets its values. Code that these values rule out may be of a kind that a kernel does
    /// not take, because its verifier never looks at that.
    pub(crate) fn load_for(&mut self, options: &Options) {
        if let Ok(opened) = &mut self.opened {
            opened.scheduler = match &opened.scheduler {
                Ok(scheduler) => match scheduler.for_kernel(options) {
                    Ok(scheduler) => Ok(scheduler),
                    Err(_) => opened.load_with_values(options),
                },
                Err(_) => opened.load_with_values(options),
            };
        }
    }

    /// Notes on the parts of it that a kernel of `release` does not know.
    pub(crate) fn left_out(&self, release: Release) -> Vec<String> {
        let scheduler = self.opened.as_ref().ok().and_then(|opened| opened.scheduler.as_ref().ok());
        let names = scheduler.map_or(&[][..], |scheduler| scheduler.left_out());
        let note = |name: &String| {
            format!(
                "Linux {release} does not know ops.{name}; it is left out, as `fairground run` does it"
            )
        };
        names.iter().map(note).collect()
    }

    /// The scheduler with its loader's actions; `None` if there is no scheduler.
    fn whole(&self) -> Option<&Accompanied> {
        self.opened.as_ref().ok().map(|opened| &*opened.whole)
    }

    /// The loader that keeps running alongside, if any, with its arguments.
    pub(crate) fn loader(&self) -> Option<&[String]> {
        self.loader.as_deref()
    }

    /// The companion that describes its loader; `None` if there is no scheduler.
    pub fn companion(&self) -> Option<&Companion> {
        self.whole().map(Accompanied::companion)
    }

    /// The actions of its loader under `release` while these CPUs are `online`.
    pub fn prepare(&self, online: &Online, release: Release) -> Result<Prepared, Error> {
        let Ok(opened) = &self.opened else { return Ok(Prepared::default()) };
        opened.whole.prepare(&opened.object, &|name| Scheduler::constant(name, release), online)
    }

    /// The same with this `companion` instead of its own.
    pub(crate) fn prepare_as(
        &self,
        companion: Companion,
        online: &Online,
        release: Release,
    ) -> Result<Prepared, Error> {
        let Ok(opened) = &self.opened else { return Ok(Prepared::default()) };
        let mut whole = Accompanied::clone(&opened.whole);
        whole.set_companion(companion);
        let constants = |name: &str| Scheduler::constant(name, release);
        whole.prepare(&opened.object, &constants, online)
    }

    /// The actions of its loader when it loads the scheduler again while these CPUs of `machine` are offline, for each such set.
    pub(crate) fn prepare_later(
        &self,
        machine: &Machine,
        release: Release,
        offline: Vec<Vec<usize>>,
    ) -> Vec<LaterSetup> {
        let mut later: Vec<LaterSetup> = Vec::new();
        for offline in offline {
            if later.iter().all(|(known, _)| *known != offline) {
                let prepared = self.prepare(&Online::without(machine, &offline), release);
                let setup = prepared.map(|prepared| Arc::new(prepared.setup));
                later.push((offline, setup.map_err(|error| error.to_string())));
            }
        }
        later
    }

    /// The judgements of Linux releases, from the first to the last, on it with its loader's actions on `machine`.
    pub fn examine(&self, machine: &Machine) -> Result<Vec<(Release, Examined)>, Error> {
        let Ok(opened) = &self.opened else { return Ok(Vec::new()) };
        let mut options = Options::new(machine.clone(), Arc::default());
        options.variables = self.variables();
        let mut verdicts = Vec::new();
        for release in Release::ALL {
            options.release = release;
            options.setup = Arc::new(self.prepare(&Online::whole(machine), release)?.setup);
            verdicts.push((release, examine(&opened.object, &options)));
        }
        Ok(verdicts)
    }

    /// Whether it has this callback under `release`. One that cannot be opened has none that it is known to lack.
    pub fn has_callback(&self, callback: Callback, release: Release) -> bool {
        let release = self.release(release);
        let has = |opened: &Opened| has_callback(&opened.object, callback, release);
        self.opened.as_ref().map_or(true, has)
    }

    /// Its companion, if that does anything for it.
    pub fn own_companion(&self) -> Option<&Companion> {
        let opened = self.opened.as_ref().ok()?;
        Some(opened.whole.companion()).filter(|companion| companion.is_for(&opened.object))
    }

    /// Whether its companion was made for another revision of it.
    pub(crate) fn is_of_another_revision(&self) -> bool {
        (self.opened.as_ref()).is_ok_and(|opened| {
            let companion = opened.whole.companion();
            companion.is_for_another_revision_of(&opened.object)
        })
    }

    /// Its name in results: its id or its path, unless it was given another.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it another name.
    pub fn set_name(&mut self, name: String) {
        self.name = name;
    }

    /// Gives it a loader that keeps running alongside: this command, named by `reference`.
    pub(crate) fn set_loader(&mut self, reference: &str, command: Vec<String>) {
        self.name = reference.to_owned();
        self.reference = reference.to_owned();
        self.loader = Some(command);
    }

    /// The id, or the path as given.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// How its sources were compiled, as given.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// Its name and its settings: `cfs sched_latency=24 ms`.
    pub fn title(&self) -> String {
        let mut title = self.name.clone();
        for (name, value) in self.tunables() {
            title.push_str(&format!(" {name}={value}"));
        }
        title
    }

    /// Whether it is this one, with the same settings.
    pub fn is(&self, other: &Self) -> bool {
        self.reference == other.reference && self.title() == other.title()
    }

    /// How long it is taken to need to be loaded again, in nanoseconds. The kernel's own scheduler stays: what stands for it begins anew at once.
    pub(crate) fn restart_after(&self) -> u64 {
        if self.built_in { 0 } else { RESTART_AFTER }
    }

    /// The costs of scheduling with this scheduler on a machine with these costs.
    pub(crate) fn costs(&self, machine: CostModel) -> CostModel {
        if self.built_in { machine.built_in() } else { machine }
    }

    /// The release of Linux for it where `wanted` is simulated: what stands for the kernel's own scheduler is not loaded by that kernel.
    pub(crate) fn release(&self, wanted: Release) -> Release {
        if self.built_in { Release::NEWEST } else { wanted }
    }

    /// The assumption behind it, if it stands for another scheduler.
    pub(crate) fn assumption(&self) -> Option<String> {
        self.built_in.then(|| {
            let newest = Release::NEWEST;
            format!("{KERNEL}: the kernel's own scheduler, for which {STANDS_FOR_KERNEL} of Linux {newest} stands, without the costs of callbacks")
        })
    }

    /// The hash of the parts of its object that a kernel sees; `None` if there is none.
    pub(crate) fn hash(&self) -> Option<String> {
        let opened = self.opened.as_ref().ok()?;
        Some(opened.essence.get_or_init(|| opened.find_essence()).clone())
    }

    /// Its parts, apart from its loader's actions: its object, which of the object's schedulers it is, and the tunables that do not have
    /// their defaults; if there is no scheduler, why.
    pub(crate) fn content(&self) -> Content {
        let Some(whole) = self.whole() else {
            let reason = self.opened.as_ref().err();
            let reason = reason.map_or_else(String::new, ToString::to_string);
            return (reason, None, Vec::new());
        };
        let entry = whole.entry();
        let values = whole.values().filter_map(|(name, value)| {
            let tunable = entry.tunable(name).ok()?;
            (value != tunable.default).then(|| (name.to_owned(), tunable.encode(value)))
        });
        let mut values: Vec<(String, Vec<u8>)> = values.collect();
        values.sort();
        (self.hash().unwrap_or_default(), entry.table.clone(), values)
    }

    /// Additional sources that had to be linked, as one text; `None` if there are none.
    pub(crate) fn linked(&self) -> Option<String> {
        let sources = &self.whole()?.entry().linked;
        let names = sources.iter().filter_map(|source| source.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether it comes from outside this program, so that its code may do anything.
    pub fn is_foreign(&self) -> bool {
        self.whole().is_some_and(|whole| !whole.entry().object.is_built_in())
    }

    /// The tick rate that it was made for: its tunable `hz`, as set or by default. `None` if it has no such tunable or its value is 0, for any rate.
    pub fn native_hz(&self) -> Option<u64> {
        let whole = self.whole()?;
        let tunable = whole.entry().tunable("hz").ok()?;
        let set = whole.values().find(|(name, _)| *name == tunable.name);
        let value = set.map_or(tunable.default, |(_, value)| value);
        u64::try_from(value).ok().filter(|rate| *rate > 0)
    }

    /// The scheduler's counters by the names that its manifest gives them.
    pub(crate) fn name_counters(&self, values: &[u64]) -> BTreeMap<String, u64> {
        let names = self.whole().map(|whole| &whole.entry().manifest.statistics);
        names
            .into_iter()
            .flatten()
            .zip(values)
            .map(|(statistic, value)| (statistic.name.clone(), *value))
            .collect()
    }

    /// Other values for up to `most` of its tunables that are numbers or switches: half and twice the number, or the other state. Each with
    /// the tunable's name, as a user writes it. None for the kernel's own, which cannot be loaded with other values.
    pub(crate) fn alternatives(&self, most: usize) -> Vec<(String, String)> {
        let Some(whole) = self.whole().filter(|_| !self.built_in) else { return Vec::new() };
        let tunables = whole.entry().manifest.tunables.iter();
        let free = tunables.filter(|tunable| {
            tunable.choices.is_empty() && !whole.tunables().contains_key(&tunable.name)
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

    /// The compiler's warnings; empty for a built-in scheduler.
    pub fn warnings(&self) -> &str {
        self.whole().map_or("", |whole| whole.entry().warnings.trim_end())
    }

    /// `ops.name`; the name as given if there is no scheduler.
    pub fn kernel_name(&self) -> String {
        match &self.opened {
            Ok(opened) => opened.object.scheduler_name(),
            Err(_) => short_name(&self.name).to_owned(),
        }
    }

    /// Whether `name` refers to this scheduler: its name in results, its id, its name in the kernel, or its path.
    pub fn is_called(&self, name: &str) -> bool {
        let is_id = |whole: &Accompanied| name == whole.entry().id();
        name == self.name
            || name == self.reference
            || name == self.kernel_name()
            || self.whole().is_some_and(is_id)
    }

    /// Sets the thing of this name that the scheduler or its loader has: a tunable, to a value as a user writes it; otherwise an option of the
    /// companion, `ops.MEMBER`, `map.NAME.max_entries` or a global variable with a path into it, to an expression. The last of several values
    /// counts.
    ///
    /// # Errors
    ///
    /// If there is nothing of this name, or the value does not fit; the error lists possible names or values.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let place = format!("--set {}.{key}", self.name);
        match &mut self.opened {
            Ok(opened) => Arc::make_mut(&mut opened.whole).set(&opened.object, key, text, place),
            Err(_) => {
                self.asked.insert(key.to_owned(), text.to_owned());
                Ok(())
            }
        }
    }

    /// The settings, as the user writes them.
    pub fn tunables(&self) -> &BTreeMap<String, String> {
        self.whole().map_or(&self.asked, Accompanied::tunables)
    }

    /// The tunables that were set, as plain numbers: see [`Tunable::number`](fairground_catalog::Tunable::number).
    pub(crate) fn numbers(&self) -> BTreeMap<String, i64> {
        let Some(whole) = self.whole() else { return BTreeMap::new() };
        let numbers = whole.values().filter_map(|(name, value)| {
            let number = whole.entry().tunable(name).ok()?.number(value);
            let limits = (i64::MIN.into(), i64::MAX.into());
            Some((name.to_owned(), number.clamp(limits.0, limits.1) as i64))
        });
        numbers.collect()
    }

    /// The bytes of the tunables that were set.
    pub(crate) fn variables(&self) -> Vec<(String, Vec<u8>)> {
        self.whole().map(Accompanied::variables).unwrap_or_default()
    }
}

/// The parts of a scheduler: see [`Contender::content`].
type Content = (String, Option<String>, Vec<(String, Vec<u8>)>);

/// A scheduler in the simulated kernel, or why the simulated kernel rejects it.
type Loaded = Result<Arc<Scheduler>, Arc<LoadError>>;

/// The sources of the values of read-only variables: tunables, the loader's actions, the machine, the tick rate and the release.
type Values = (Vec<(String, Vec<u8>)>, (Arc<Setup>, Vec<LaterSetup>), Arc<Machine>, (u64, Release));

/// A scheduler's object, and the scheduler.
type Compiled = (Arc<Object>, Loaded);

fn compile(whole: &Accompanied, hash: &str, name: &str) -> Result<Compiled, Error> {
    let object = whole.object()?;
    let scheduler = match Scheduler::load_object(object.clone(), store::of_object(hash)) {
        Err(reason @ LoadError::Table(_)) => {
            let scheduler = name.to_owned();
            return Err(Error::Load { scheduler, reason });
        }
        loaded => loaded.map(Arc::new).map_err(Arc::new),
    };
    Ok((object, scheduler))
}

/// A reference to the kernel's own scheduler.
pub const KERNEL: &str = "kernel";
/// The most similar scheduler of the catalogue.
const STANDS_FOR_KERNEL: &str = "eevdf";
