//! A plan: a folder with everything that a sweep needs, so that running it needs neither sources nor a compiler.
//!
//! `plan.json` describes the runs, `inputs/` holds the files that it names, and `cells` the identities of all cells, 16 bytes each, in their order. Cells
//! are ordered by scheduler and conditions, so that a process that runs some of them opens few schedulers; within these as in
//! [`Plan`](fairground_lab::Plan).

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_companion::Companion;
use fairground_files::Unfinished;
use fairground_lab::{Cells, Contender, ENGINE, Error, Plan};
use serde::{Deserialize, Serialize};

use super::Shard;
use super::file::Score;
use crate::quantity::patience_or_usual;
use crate::settings::vary_by;
use crate::simulation::{Simulation, Sources};

/// The identity of a cell.
pub type Identity = u128;
/// Its size in the list of cells.
const BYTES: u64 = 16;

/// Version of the form of `plan.json`.
pub const VERSION: u32 = 1;
/// The folder of a plan's files, inside its own.
pub const INPUTS: &str = "inputs";

/// The contents of `plan.json`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    pub version: u32,
    /// Version of fairground, with its commit.
    pub fairground: String,
    /// The hash on which the results of its simulations depend.
    pub engine: String,
    pub name: String,
    /// The beginning of files of this very plan: others in the same folder number cells in their own way.
    pub mark: String,
    /// Files inside the plan, or names of loads, with the values of their parameters.
    pub workloads: Vec<String>,
    pub machines: Vec<Described>,
    /// Costs, tick rates and hotplug, in all combinations.
    pub conditions: Vec<Condition>,
    /// Options that all cells have in common, as on the command line.
    pub options: Vec<(String, String)>,
    pub starved: Option<String>,
    /// The first seed, and how many there are.
    pub seed: u64,
    pub seeds: u32,
    pub schedulers: Vec<Scheduler>,
    pub scores: Vec<Score>,
    /// By workload, then by machine: a number that grows with the time that a cell takes.
    pub efforts: Vec<Vec<f64>>,
}

/// A machine or a cost model: as it was called, and where it is now.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Described {
    /// As it was called.
    pub name: String,
    /// Its source: a file inside the plan, or its name.
    pub from: String,
}

/// The parts that cells have in common beside scheduler, workload, machine and seed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Condition {
    pub cost: Described,
    pub hz: String,
    pub hotplug: Vec<String>,
}

/// A scheduler with its settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Scheduler {
    /// Its name in results.
    pub name: String,
    /// As it was called.
    pub given: String,
    /// An id, or an object inside the plan; `None` if there is none.
    pub object: Option<String>,
    /// Its companion inside the plan; `None` if it has none or is the catalogue's.
    pub companion: Option<String>,
    /// Why there is no object.
    pub problem: Option<String>,
    /// The settings, with all values.
    pub set: Vec<(String, Vec<String>)>,
    /// How many combinations of values that makes.
    pub variants: usize,
}

/// An opened plan.
pub struct Sweep {
    folder: PathBuf,
    pub planned: Planned,
    /// The first cell of each scheduler under each condition, and the number of all cells.
    starts: Vec<usize>,
}

/// The object that was opened last, as the next scheduler often has the same.
#[derive(Default)]
pub struct LastOpened(Option<(String, Contender)>);

impl LastOpened {
    fn open(&mut self, place: String) -> Result<Contender, Error> {
        if let Some((of, contender)) = &self.0 {
            if *of == place {
                return Ok(contender.clone());
            }
        }
        let contender = Contender::open_any(&place, &Default::default())?;
        self.0 = Some((place, contender.clone()));
        Ok(contender)
    }
}

/// The cells of a scheduler under a condition.
#[derive(Clone, Debug)]
pub struct Part {
    pub scheduler: usize,
    pub condition: usize,
    /// Their numbers.
    pub cells: Range<usize>,
}

/// Cells that are the same in everything but the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    pub part: usize,
    pub workload: usize,
    pub machine: usize,
    pub variant: usize,
}

fn wrong(folder: &Path, message: impl std::fmt::Display) -> Error {
    let folder = folder.display();
    Error::Plan(format!("{folder}: {message}; `fairground sweep plan` makes a plan"))
}

impl Sweep {
    /// Opens the plan in a folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let text = fairground_files::read_text(&folder.join("plan/plan.json"))
            .map_err(|error| wrong(folder, format_args!("this is no sweep: {error}")))?;
        let planned: Planned = serde_json::from_str(&text)
            .map_err(|error| wrong(folder, format_args!("its plan cannot be read: {error}")))?;
        if planned.version != VERSION || planned.engine != ENGINE {
            let made = planned.fairground;
            return Err(Error::Plan(format!(
                "{}: the plan was made by {made}, whose simulations may have other results; use that, or plan again, which keeps all files",
                folder.display()
            )));
        }
        let sweep = Self::of(folder.to_owned(), planned);
        let size = sweep.list().metadata().map(|metadata| metadata.len());
        match size.map_err(|cause| sweep.unlisted(&cause))? {
            size if size == sweep.len() as u64 * BYTES => Ok(sweep),
            size => Err(sweep.unlisted(&format_args!(
                "it has {size} bytes, which is not the size of the plan's"
            ))),
        }
    }

    /// That the list of the cells is not as the plan left it.
    fn unlisted(&self, problem: &dyn std::fmt::Display) -> Error {
        Error::Plan(format!(
            "{}: {problem}; plan again, which keeps all results",
            self.list().display()
        ))
    }

    pub fn of(folder: PathBuf, planned: Planned) -> Self {
        let each = planned.workloads.len() * planned.machines.len() * planned.seeds as usize;
        let mut starts = vec![0];
        for scheduler in &planned.schedulers {
            for _ in &planned.conditions {
                let last = starts.last().copied().unwrap_or(0);
                starts.push(last + scheduler.variants * each);
            }
        }
        Self { folder, planned, starts }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The cells by scheduler and condition, in their order.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let conditions = self.planned.conditions.len();
        let pairs = self.starts.windows(2).enumerate();
        pairs.map(move |(number, pair)| Part {
            scheduler: number / conditions,
            condition: number % conditions,
            cells: pair[0]..pair[1],
        })
    }

    /// The row of a cell: the part that it has in common with those that differ in nothing but the seed.
    pub fn row(&self, cell: usize) -> RowKey {
        let part = self.starts.partition_point(|start| *start <= cell) - 1;
        let scheduler = part / self.planned.conditions.len();
        let variants = self.planned.schedulers[scheduler].variants;
        let row = (cell - self.starts[part]) / self.planned.seeds as usize;
        let table = row / variants;
        let machines = self.planned.machines.len();
        RowKey {
            part,
            workload: table / machines,
            machine: table % machines,
            variant: row % variants,
        }
    }

    /// The number of a cell's condition.
    pub fn condition_of(&self, cell: usize) -> usize {
        self.row(cell).part % self.planned.conditions.len()
    }

    /// A number that grows with the time that a cell takes.
    pub fn effort(&self, cell: usize) -> f64 {
        let row = self.row(cell);
        self.planned.efforts[row.workload][row.machine]
    }

    /// The cells of a shard, which has about the same effort as any other; without one, all of them.
    pub(super) fn cells_of(&self, shard: Option<Shard>) -> Range<usize> {
        let Some(Shard { number, count }) = shard else { return 0..self.len() };
        let at = |part: f64| {
            let mut left = part * self.efforts().map(|(_, effort)| effort).sum::<f64>();
            for (cells, effort) in self.efforts() {
                if left < effort {
                    let inside = left / effort * cells.len() as f64;
                    return cells.start + inside.round() as usize;
                }
                left -= effort;
            }
            self.len()
        };
        let border = |number: usize| match number {
            0 => 0,
            number if number == count => self.len(),
            number => at(number as f64 / count as f64),
        };
        border(number)..border(number + 1)
    }

    /// Cells that take equally long, with the effort of all of them.
    fn efforts(&self) -> impl Iterator<Item = (Range<usize>, f64)> {
        self.parts().flat_map(move |part| {
            let rows = self.planned.efforts.iter().flatten();
            let length = part.cells.len() / rows.clone().count().max(1);
            rows.enumerate().map(move |(number, effort)| {
                let start = part.cells.start + number * length;
                (start..start + length, effort * length as f64)
            })
        })
    }

    /// Where results are, those with a row per run or per task.
    pub fn data(&self, table: &str) -> PathBuf {
        let engine = format!("engine={}", self.planned.engine);
        self.folder.join("data").join(table).join(engine)
    }

    fn list(&self) -> PathBuf {
        self.folder.join("plan/cells")
    }

    /// The identities of some cells.
    pub fn identities(&self, cells: Range<usize>) -> Result<Vec<Identity>, Error> {
        let mut bytes = vec![0; cells.len() * BYTES as usize];
        let read = File::open(self.list()).and_then(|mut file| {
            file.seek(SeekFrom::Start(cells.start as u64 * BYTES))?;
            file.read_exact(&mut bytes)
        });
        read.map_err(|cause| self.unlisted(&cause))?;
        let (chunks, _) = bytes.as_chunks();
        Ok(chunks.iter().map(|chunk| Identity::from_be_bytes(*chunk)).collect())
    }

    /// The place of a thing that the plan names: a file inside it, or something that fairground knows.
    fn place(&self, text: &str) -> String {
        match text.starts_with(INPUTS) {
            true => self.folder.join("plan").join(text).display().to_string(),
            false => text.to_owned(),
        }
    }

    /// The scheduler with this number, with its default settings.
    pub fn contender(&self, number: usize, last: &mut LastOpened) -> Result<Contender, Error> {
        let planned = &self.planned.schedulers[number];
        let Some(object) = &planned.object else {
            let problem = planned.problem.clone().unwrap_or_default();
            return Ok(Contender::missing(&planned.name, problem));
        };
        let mut contender = last.open(self.place(object))?;
        if object.starts_with(INPUTS) {
            contender.set_companion(match &planned.companion {
                Some(file) => Companion::read(Path::new(&self.place(file)))?,
                None => Companion::empty(),
            })?;
        }
        contender.set_name(planned.name.clone());
        Ok(contender)
    }

    /// The simulation under a condition.
    fn simulation(&self, condition: &Condition) -> Result<Simulation, Error> {
        let sources = Sources::of(Vec::new(), Vec::new(), Vec::new(), Some(NonZero::<usize>::MIN));
        let workloads = self.planned.workloads.iter();
        let workloads = workloads.map(|workload| PathBuf::from(self.place(workload)));
        let mut simulation = Simulation::usual(workloads.collect(), sources);
        let machines = self.planned.machines.iter();
        simulation.machines = machines.map(|machine| self.place(&machine.from)).collect();
        simulation.seed = self.planned.seed;
        let cost = self.place(&condition.cost.from);
        let set = |simulation: &mut Simulation, option: &str, text: &str| {
            simulation.set(option, text).map_err(Error::Plan)
        };
        set(&mut simulation, "cost", &cost)?;
        set(&mut simulation, "hz", &condition.hz)?;
        for change in &condition.hotplug {
            set(&mut simulation, "hotplug", change)?;
        }
        for (option, text) in &self.planned.options {
            set(&mut simulation, option, text)?;
        }
        Ok(simulation)
    }

    /// The names of the workloads in results.
    pub fn workload_names(&self) -> Result<Vec<String>, Error> {
        let plan = self.simulation(&self.planned.conditions[0])?.plan_without_schedulers()?;
        let workloads = plan.sites.first().map_or(&[][..], |site| &site.workloads);
        Ok(workloads.iter().map(|workload| workload.name.clone()).collect())
    }

    /// The machine for workloads that say which one they need.
    pub fn usual_machine(&self) -> Result<String, Error> {
        let plan = self.simulation(&self.planned.conditions[0])?.plan_without_schedulers()?;
        Ok(plan.sites[0].machine.description.clone())
    }

    /// The required value of [`Planned::efforts`].
    pub fn measure_efforts(&self) -> Result<Vec<Vec<f64>>, Error> {
        let plan = self.simulation(&self.planned.conditions[0])?.plan_without_schedulers()?;
        let sites = 0..plan.sites.len();
        let of_workload =
            |workload| sites.clone().map(|site| plan.effort(workload, site)).collect();
        Ok((0..plan.workload_count()).map(of_workload).collect())
    }

    /// The cells of a part, for its scheduler with its default settings.
    pub fn cells(&self, part: &Part, contender: &Contender) -> Result<Cells<Box<Plan>>, Error> {
        let condition = &self.planned.conditions[part.condition];
        let mut plan = self.simulation(condition)?.plan_without_schedulers()?;
        plan.repeats = self.planned.seeds;
        let starved = self.planned.starved.as_deref();
        plan.patience = patience_or_usual(starved).map_err(Error::Plan)?;
        plan.settings.cost.name.clone_from(&condition.cost.name);
        let mut variants = vec![contender.clone()];
        for (key, values) in &self.planned.schedulers[part.scheduler].set {
            vary_by(&mut variants, key, values)
                .map_err(|message| Error::Plan(format!("{}.{key}: {message}", contender.name())))?;
        }
        for (site, machine) in plan.sites.iter_mut().zip(&self.planned.machines) {
            Arc::make_mut(&mut site.machine).description.clone_from(&machine.name);
            site.contenders.clone_from(&variants);
        }
        plan.check()?;
        Ok(Cells::of(Box::new(plan)))
    }

    /// The number of each cell by its identity, of those in a range.
    pub fn numbers(&self, cells: Range<usize>) -> Result<HashMap<Identity, usize>, Error> {
        Ok(self.identities(cells.clone())?.into_iter().zip(cells).collect())
    }

    /// Writes the list of the identities of all cells, and the plan itself.
    pub fn write(&mut self) -> Result<(), Error> {
        let path = self.list();
        let unwritten = |path: &Path, cause| Error::Write { path: path.to_owned(), cause };
        let list = Unfinished::create(&path).map_err(|cause| unwritten(&path, cause))?;
        let mut writer = BufWriter::new(list.file());
        let mut mark = DefaultHasher::new();
        let mut known: HashMap<String, String> = HashMap::new();
        let mut last = LastOpened::default();
        for part in self.parts() {
            let contender = self.contender(part.scheduler, &mut last)?;
            let cells = self.cells(&part, &contender)?;
            for number in 0..part.cells.len() {
                let identity = cells.identity(number);
                let bytes = parse(&identity).unwrap_or_default().to_be_bytes();
                mark.write(&bytes);
                writer.write_all(&bytes).map_err(|cause| unwritten(&path, cause))?;
                if number.is_multiple_of(self.planned.seeds as usize) {
                    let told = told(&cells, number);
                    if let Some(other) = known.insert(identity, told.clone()) {
                        return Err(Error::Plan(format!(
                            "{told} and {other} are the same cell; leave one out"
                        )));
                    }
                }
            }
        }
        writer.flush().map_err(|cause| unwritten(&path, cause))?;
        drop(writer);
        list.finish().map_err(|cause| unwritten(&path, cause))?;
        self.planned.mark = format!("{:016x}", mark.finish());
        let path = self.folder.join("plan/plan.json");
        let text = serde_json::to_string_pretty(&self.planned).map_err(io::Error::from);
        text.and_then(|text| fairground_files::write(&path, text.as_bytes()))
            .map_err(|cause| unwritten(&path, cause))
    }
}

/// A cell in words, without its seed.
fn told(cells: &Cells<Box<Plan>>, number: usize) -> String {
    let plan = cells.plan();
    let place = plan.place(number);
    format!(
        "{} on {} under {}",
        plan.workload(place).name,
        plan.sites[place.site].machine.description,
        plan.contender(place).title()
    )
}

/// An identity from its digits.
pub fn parse(digits: &str) -> Option<Identity> {
    Identity::from_str_radix(digits, 16).ok()
}
