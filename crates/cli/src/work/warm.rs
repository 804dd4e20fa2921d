//! Results that are kept from one cell to the next.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairground_lab::{CellResult, Cells, Contender, DEFAULT_HZ, Error, Noise, Place, Plan, Replay};

use super::form::{Request, ShardRequest};
use crate::loads;
use crate::quantity::{nanoseconds, patience_or_usual};
use crate::schedulers::Wanted;
use crate::simulation::{Simulation, Sources};
use crate::sweep::{LastOpened, Progress, run_shard};

/// How many different cells, apart from their seeds, and how many schedulers are kept.
const MOST_CELLS: usize = 1000;
const MOST_SCHEDULERS: usize = 64;

/// A value that the first to need it makes, while others wait for it.
type Shared<T> = Arc<Mutex<Option<T>>>;

/// Values by their sources.
struct Memo<T> {
    values: Mutex<HashMap<String, Shared<T>>>,
    most: usize,
}

impl<T: Clone> Memo<T> {
    fn of(most: usize) -> Self {
        Self { values: Mutex::default(), most }
    }

    /// The value of `key`, which `make` makes if it is not there.
    fn get(&self, key: String, make: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let shared = {
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            if values.len() >= self.most && !values.contains_key(&key) {
                values.clear();
            }
            values.entry(key).or_default().clone()
        };
        let mut value = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*value {
            Some(value) => Ok(value.clone()),
            None => Ok(value.insert(make()?).clone()),
        }
    }
}

/// Schedulers and cells that were used before, for as long as their files are as they were.
pub struct Warm {
    cells: Memo<Arc<Cells<Box<Plan>>>>,
    schedulers: Memo<Contender>,
    /// What was opened for shards, one for each that ran at the same time.
    of_shards: Mutex<Vec<LastOpened>>,
    /// Whether no further cell of a shard is to begin.
    pub stop: Arc<AtomicBool>,
}

impl Default for Warm {
    fn default() -> Self {
        Self {
            cells: Memo::of(MOST_CELLS),
            schedulers: Memo::of(MOST_SCHEDULERS),
            of_shards: Mutex::default(),
            stop: Arc::default(),
        }
    }
}

/// The place of the only cell of a plan.
const ONLY: Place = Place { workload: 0, site: 0, contender: 0, repeat: 0 };

impl Warm {
    /// The result of a cell.
    pub fn run(&self, request: &Request) -> Result<CellResult, String> {
        let all_but_seed = Request { id: serde_json::Value::Null, seed: 0, ..request.clone() };
        let text = serde_json::to_string(&all_but_seed).map_err(|error| error.to_string())?;
        let key = format!("{text} {:x}", state(request));
        let cells = self.cells.get(key, || self.cells_of(request));
        let cells = cells.map_err(|error| error.to_string())?;
        let ended = cells.at(ONLY, request.seed).run();
        let mut result = ended.map_err(|error| error.to_string())?;
        let length = result.run.metrics.as_ref().map(|metrics| metrics.duration_ns);
        let window = cells.plan().settings.window;
        if let (Some(length), Some(window)) = (length, window)
            && length < window
        {
            let note = format!("window {window}ns has no effect: the run is not that long");
            result.run.notes.make_mut().push(note);
        }
        Ok(result)
    }

    /// How far a shard is when what was left of it has run.
    pub fn run_shard(&self, request: &ShardRequest) -> Result<Progress, String> {
        let until = request.until.as_deref().map(nanoseconds).transpose();
        let until = until.map_err(|message| format!("until: {message}"))?;
        let until = until.map(|until| Instant::now() + Duration::from_nanos(until));
        let opened = || {
            let opened = self.of_shards.lock();
            opened.unwrap_or_else(PoisonError::into_inner)
        };
        let mut last = opened().pop().unwrap_or_default();
        let how = (request.threads, until);
        let ended = run_shard(&request.sweep, &request.shard, how, &self.stop, &mut last);
        opened().push(last);
        ended.map_err(|error| error.to_string())
    }

    fn cells_of(&self, request: &Request) -> Result<Arc<Cells<Box<Plan>>>, Error> {
        let simulation = request.simulation().map_err(Error::Plan)?;
        let mut plan = simulation.plan_without_schedulers()?;
        let starved = patience_or_usual(request.starved.as_deref());
        plan.patience = starved.map_err(|error| wrong("starved", &error))?;
        let machine = plan.sites[0].machine.clone();
        let wanted = [Wanted::plain(&request.scheduler)];
        let opened = self.schedulers.get(request.scheduler_key(), || {
            let opened = simulation.sources.contenders(&wanted, &[&machine])?;
            let opened = opened.into_iter().flatten().next();
            Ok(opened.expect("one for each that is wanted"))
        });
        let mut contender = opened?;
        if let Some(name) = &request.name {
            contender.set_name(name.clone());
        }
        for (key, value) in &request.set {
            contender.set(key, &value.to_string())?;
        }
        if let Some(run) = &request.like {
            let replay = Replay::of_kernel_run(run, plan.settings.hz.unwrap_or(DEFAULT_HZ))?;
            let workload = plan.sites[0].workloads[0].name.clone();
            if plan.replays.insert(workload, Arc::new(replay)).is_some() {
                return Err(wrong(
                    "like",
                    "the workload is a recording, which has other threads of its own",
                ));
            }
        }
        if plan.noise != Noise::None && !plan.replays.is_empty() {
            return Err(wrong(
                "noise",
                "it has no effect on a recording or with like, which have threads of their own; leave it out",
            ));
        }
        plan.sites[0].contenders = vec![contender];
        plan.check()?;
        Ok(Arc::new(Cells::of(Box::new(plan))))
    }
}

fn wrong(member: &str, problem: &str) -> Error {
    Error::Plan(format!("{member}: {problem}"))
}

impl Request {
    /// The simulation, without the scheduler.
    fn simulation(&self) -> Result<Simulation, String> {
        let sources = Sources::of(
            self.include.clone(),
            self.define.clone(),
            self.with.iter().cloned().collect(),
            Some(NonZero::<usize>::MIN),
        );
        let mut simulation = Simulation::usual(vec![PathBuf::from(&self.workload)], sources);
        simulation.machines = self.machine.iter().cloned().collect();
        let hz = self.hz.as_ref().map(ToString::to_string);
        let options = [
            ("cost", &self.cost),
            ("hz", &hz),
            ("kernel", &self.kernel),
            ("noise", &self.noise),
            ("duration", &self.duration),
            ("window", &self.window),
        ];
        for (option, text) in options {
            if let Some(text) = text {
                simulation.set(option, text)?;
            }
        }
        for change in &self.hotplug {
            simulation.set("hotplug", change)?;
        }
        Ok(simulation)
    }

    /// The inputs on which the compiled scheduler depends. A loader's settings depend on the machine.
    fn scheduler_key(&self) -> String {
        let machine = self.machine.as_ref();
        let machine = machine.filter(|_| self.scheduler.starts_with(fairground_lab::LOADER));
        let parts = (&self.scheduler, &self.with, &self.include, &self.define);
        format!("{parts:?} {machine:?} {:x}", state(self))
    }
}

/// A number that changes with the files that a cell names, and with those beside a source or in its folders of headers.
fn state(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &Path| {
        if let Ok(found) = fs::metadata(path) {
            let time = (found.mtime(), found.mtime_nsec());
            (path, found.dev(), found.ino(), found.size(), time).hash(&mut hasher);
        }
    };
    let named = [&request.with, &request.machine, &request.cost];
    for text in named.into_iter().flatten() {
        add(Path::new(text));
    }
    let workload = Path::new(&request.workload);
    add(loads::Wanted::parse(workload).map_or(workload, |wanted| wanted.path));
    request.like.iter().for_each(|run| add(run));
    let (sources, _) = fairground_catalog::files_of(&request.scheduler, Path::new(""));
    let sources = sources.into_iter().map(Path::new).filter(|path| path.exists());
    let homes = sources.map(|path| match path.is_dir() {
        true => path,
        false => path.parent().unwrap_or(path),
    });
    let homes = homes.map(|home| match home.as_os_str().is_empty() {
        true => Path::new("."),
        false => home,
    });
    for folder in homes.chain(request.include.iter().map(PathBuf::as_path)) {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        files.sort();
        files.iter().for_each(|file| add(file));
    }
    hasher.finish()
}
