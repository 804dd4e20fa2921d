//! Plans of runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use fairground_contract::attributes::Attributes;
use fairground_events::Nanoseconds;
use fairground_machine::{Machine, Online};
use fairground_results::format::seconds;
use fairground_results::{CpuChange, Hashes, Patience, Requirement};
use fairground_simulator::{
    CostModel, Hotplug, Options, Release, Surroundings, check_deadline_tasks,
};
use fairground_workload::{Arrivals, Workload};

use crate::cell::{Cell, TraceForm, effort, length_of};
use crate::contender::Contender;
use crate::error::Error;
use crate::identity;
use crate::noise::Noise;
use crate::recorded::Replay;

/// The tick rate of Debian's kernels, for schedulers made for no particular rate.
pub const DEFAULT_HZ: u64 = 250;

/// Rejects a list of CPUs of which the machine has none; `what` says whose it is.
fn check_cpus(what: &str, cpus: &[u32], machine: &Machine) -> Result<(), Error> {
    if cpus.iter().any(|cpu| machine.find(*cpu).is_some()) {
        return Ok(());
    }
    Err(Error::Plan(format!(
        "{what} CPUs {cpus:?}, and the machine has {}; choose a larger --machine or change \"cpus\"",
        machine.told_numbers()
    )))
}

/// Rejects tasks that could not exist in any run on this machine.
pub(crate) fn check_tasks(workload: &Workload, machine: &Machine) -> Result<(), Error> {
    for task in &workload.tasks {
        let name = &task.name;
        Attributes::parse(&task.attributes).map_err(|problem| {
            Error::Plan(format!("task {name} of {}: {problem}", workload.name))
        })?;
        // It begins with its own, whatever its phases have.
        let own = task.cpus.as_deref().into_iter();
        let of_phases = (0..task.phases.len()).filter_map(|phase| task.cpus_in(phase));
        for allowed in own.chain(of_phases) {
            check_cpus(&format!("{name} of {} may only use", workload.name), allowed, machine)?;
        }
    }
    for Arrivals { service, cpus, .. } in &workload.arrivals {
        let service = &workload.services[*service];
        let what = format!("the arrivals at {service} of {} come to", workload.name);
        cpus.iter().try_for_each(|cpus| check_cpus(&what, cpus, machine))?;
    }
    check_deadline_tasks(workload, machine)
        .map_err(|problem| Error::Plan(format!("{}: {problem}", workload.name)))
}

/// Finds the CPUs of changes that have the machine's own numbers, and rejects changes that would change nothing. As in the kernel, the last CPU
/// cannot go offline.
pub(crate) fn check_hotplug(
    changes: &[CpuChange],
    machine: &Machine,
) -> Result<Vec<Hotplug>, Error> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.at_ns);
    let mut found = Vec::new();
    let mut online = vec![true; machine.cpu_count()];
    for CpuChange { at_ns: at, cpu, online: comes } in changes {
        let state = if comes { "online" } else { "offline" };
        let place = machine.find(cpu);
        found.extend(place.map(|cpu| Hotplug { at, cpu, online: comes }));
        let before = place.map(|place| std::mem::replace(&mut online[place], comes));
        let problem = match before {
            None => format!("the machine has {}", machine.told_numbers()),
            Some(before) if before == comes => {
                format!("it is {state} then; leave this change out or correct its time")
            }
            Some(_) if online.contains(&true) => continue,
            Some(_) => "it is the last one, and something has to run the tasks".to_owned(),
        };
        let change = if comes { "come" } else { "go" };
        let time = seconds(at);
        return Err(Error::Plan(format!("CPU {cpu} cannot {change} {state} at {time}: {problem}")));
    }
    Ok(found)
}

/// The part that all runs of a plan have in common.
#[derive(Clone)]
pub struct Settings {
    /// Length of every run; `None` for each workload's own.
    pub duration: Option<Nanoseconds>,
    /// Seed of the first repetition; each further one adds 1.
    pub seed: u64,
    /// The costs of scheduling.
    pub cost: CostModel,
    /// Timer ticks per second; `None` for the rate that each scheduler was made for.
    pub hz: Option<u64>,
    /// The release of Linux that is simulated.
    pub release: Release,
    /// CPUs that go offline or come online, by the machine's own numbers.
    pub hotplug: Vec<CpuChange>,
    /// Length of the windows in which shares are compared; `None` for the usual one.
    pub window: Option<Nanoseconds>,
}

/// A machine, with the workloads and schedulers as they are there: a workload may ask for the number of CPUs, and a loader that is followed makes
/// another scheduler for each machine.
#[derive(Clone)]
pub struct Site {
    /// The machine.
    pub machine: Arc<Machine>,
    /// The workloads as they are on this machine, in the order of the result; those of all sites have the same names in the same order.
    pub workloads: Vec<Arc<Workload>>,
    /// The schedulers, in the order of the result; those of all sites have the same names in the same order.
    pub contenders: Vec<Contender>,
    /// Those with which requirements compare them, by the names that requirements give them.
    pub references: Vec<(String, Contender)>,
}

/// An experiment: every workload on every machine under every scheduler, repeated.
#[derive(Clone)]
pub struct Plan {
    /// The surroundings and variations of those workloads that are recordings, by the workload's name; others have the machine to themselves.
    pub replays: BTreeMap<String, Arc<Replay>>,
    /// The machines with the schedulers, in the order of the result.
    pub sites: Vec<Site>,
    /// The part that all runs have in common.
    pub settings: Settings,
    /// How often each workload runs on each machine under each scheduler.
    pub repeats: u32,
    /// How long a task may wait before its run is starved.
    pub patience: Patience,
    /// The requirements on every run.
    pub requirements: Vec<Requirement>,
    /// The load by the kernel's own threads meanwhile. Recordings have theirs and get no others.
    pub noise: Noise,
    /// The parts to keep of the runs that are ok.
    pub kept: Kept,
    /// Folder for a trace of each run, and their form.
    pub traces: Option<(PathBuf, TraceForm)>,
    /// Simulations at once; `None` for one per CPU of this machine.
    pub threads: Option<NonZero<usize>>,
}

/// The parts to keep in memory of runs that are ok.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Everything.
    #[default]
    All,
    /// The measures of whole runs, and for each task its share if there are at most so many of them.
    Shares(usize),
}

/// A run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of its workload.
    pub workload: usize,
    /// Index of its site.
    pub site: usize,
    /// Index of its scheduler.
    pub contender: usize,
    /// Which repetition it is, from 0.
    pub repeat: u32,
}

impl Plan {
    /// Checks the combinations of the plan's parts, which these cannot check by themselves.
    pub fn check(&self) -> Result<(), Error> {
        Self::check_all(std::slice::from_ref(self))
    }

    /// The same for several plans of the same schedulers.
    pub fn check_all(plans: &[Self]) -> Result<(), Error> {
        plans.iter().try_for_each(Self::check_names)?;
        Self::check_loaders(plans)
    }

    fn check_names(&self) -> Result<(), Error> {
        self.check_workloads()?;
        for Site { contenders, .. } in &self.sites {
            let mut seen = BTreeSet::new();
            for contender in contenders {
                if !seen.insert((contender.name(), contender.tunables())) {
                    let title = contender.title();
                    return Err(Error::Plan(format!(
                        "scheduler {title} is given twice; leave one out, or give each a name of its own: -s one={0},other={0}",
                        contender.reference()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks whether what stands for the loader of each scheduler can do its work on some machine; on others, runs fail before they begin.
    fn check_loaders(plans: &[Self]) -> Result<(), Error> {
        let sites =
            || plans.iter().flat_map(|plan| plan.sites.iter().map(move |site| (plan, site)));
        for number in 0..sites().next().map_or(0, |(_, site)| site.contenders.len()) {
            let mut tried = sites().map(|(plan, Site { machine, contenders, .. })| {
                let contender = &contenders[number];
                let release = contender.release(plan.settings.release);
                contender.prepare(&Online::whole(machine), release)
            });
            if let Some(Err(problem)) = tried.next()
                && tried.all(|one| one.is_err())
            {
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Checks whether the workloads and the changes of the machines fit together, without the schedulers, which take time to compile.
    pub fn check_workloads(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for workload in self.sites.iter().take(1).flat_map(|site| &site.workloads) {
            if !names.insert(workload.name.as_str()) {
                return Err(Error::Plan(format!(
                    "two workloads are called {}; their results could not be told apart, so rename a file or leave one out",
                    workload.name
                )));
            }
        }
        let mut machines = BTreeSet::new();
        for site in &self.sites {
            let machine = &site.machine;
            let description = &machine.description;
            if !machines.insert(description) {
                return Err(Error::Plan(format!(
                    "machine {description} is given twice; leave one out"
                )));
            }
            self.check_site(site).map_err(|error| match error {
                Error::Plan(message) if self.sites.len() > 1 => {
                    Error::Plan(format!("machine {description}: {message}"))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    fn check_site(&self, site: &Site) -> Result<(), Error> {
        check_hotplug(&self.settings.hotplug, &site.machine)?;
        for workload in &site.workloads {
            check_tasks(workload, &site.machine)?;
        }
        Ok(())
    }

    /// Number of workloads.
    pub fn workload_count(&self) -> usize {
        self.sites.first().map_or(0, |site| site.workloads.len())
    }

    /// The workload of a run.
    pub fn workload(&self, place: Place) -> &Arc<Workload> {
        &self.sites[place.site].workloads[place.workload]
    }

    /// A number that grows with the time that a run of a workload takes on a machine.
    pub fn effort(&self, workload: usize, site: usize) -> f64 {
        let workload = &self.sites[site].workloads[workload];
        effort(workload, self.settings.duration) as f64
    }

    /// Number of runs.
    pub fn run_count(&self) -> usize {
        let entries: usize = self.sites.iter().map(|site| site.contenders.len()).sum();
        self.workload_count() * entries * self.repeats as usize
    }

    /// The run with this number. They are ordered by workload, then by machine, scheduler and repetition.
    pub fn place(&self, number: usize) -> Place {
        let repeats = self.repeats as usize;
        let contenders = self.sites.first().map_or(1, |site| site.contenders.len());
        let row = number / repeats;
        let table = row / contenders;
        Place {
            workload: table / self.sites.len(),
            site: table % self.sites.len(),
            contender: row % contenders,
            repeat: (number % repeats) as u32,
        }
    }

    /// The scheduler of a run.
    pub fn contender(&self, place: Place) -> &Contender {
        &self.sites[place.site].contenders[place.contender]
    }

    /// A name for files about a run, without an ending: its workload and scheduler, and everything else that tells it apart from the other runs.
    pub fn file_name(&self, place: Place) -> String {
        let contender = self.contender(place);
        let workload = &self.workload(place).name;
        let mut name = format!("{workload}-{}", contender.name());
        for (tunable, value) in contender.tunables() {
            name.push_str(&format!("-{tunable}={}", value.replace(' ', "")));
        }
        if self.sites.len() > 1 {
            let machine = &self.sites[place.site].machine.description;
            name.push_str(&format!("-on-{machine}"));
        }
        if self.repeats > 1 {
            name.push_str(&format!("-{}", place.repeat));
        }
        let is_plain = |one: char| one.is_alphanumeric() || "-_.=+@,".contains(one);
        name.replace(|one: char| !is_plain(one), "_")
    }

    /// A name for files that two runs have in common: parts of names may look like what is between them.
    pub fn shared_file_name(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let mut names = (0..self.run_count()).map(|number| self.file_name(self.place(number)));
        names.find(|name| !seen.insert(name.clone()))
    }

    /// The part that all simulations of a scheduler on a machine have in common.
    fn template(&self, site: &Site, contender: &Contender) -> Cell {
        let settings = &self.settings;
        let hz = settings.hz.or_else(|| contender.native_hz());
        let options = Options {
            duration: settings.duration,
            cost: settings.cost.clone(),
            hz: hz.unwrap_or(DEFAULT_HZ),
            release: contender.release(settings.release),
            // The plan was checked before.
            hotplug: check_hotplug(&settings.hotplug, &site.machine).unwrap_or_default(),
            restart_after: Some(contender.restart_after()),
            ..Options::new(site.machine.clone(), Arc::default())
        };
        let usual = fairground_metrics::Options::default();
        Cell {
            metrics: fairground_metrics::Options {
                window: settings.window.unwrap_or(usual.window),
                ..usual
            },
            patience: self.patience,
            ..Cell::new(contender.clone(), options)
        }
    }

    /// The templates of all schedulers on a machine, with the rules by which they are judged.
    fn templates(&self, site: &Site) -> Vec<Cell> {
        let references = site.references.iter();
        let named = references.map(|(name, one)| (name.clone(), self.template(site, one)));
        let references: Vec<(String, Cell)> = named.collect();
        let cell = |contender| {
            let mut cell = Cell {
                requirements: self.requirements.clone(),
                references: references.clone(),
                ..self.template(site, contender)
            };
            cell.identity = Some(identity_of_template(&cell));
            cell.hashes = Some(Hashes {
                scheduler: cell.contender.hash(),
                companion: cell.contender.own_companion().map(identity::of_companion),
                machine: identity::of_machine(&cell.options.machine),
                costs: identity::of_costs(&cell.options.cost),
                workload: String::new(),
            });
            cell
        };
        site.contenders.iter().map(cell).collect()
    }
}

/// The hash of the parts that all simulations made from this one have in common: everything that determines the result but workload, length, noise
/// and seed. Names are no part of it, nor are values that are the default anyway.
fn identity_of_template(cell: &Cell) -> String {
    let options = &cell.options;
    let references = cell.references.iter();
    let references: Vec<(&String, String)> =
        references.map(|(name, reference)| (name, identity_of_template(reference))).collect();
    let requirements: Vec<String> = cell.requirements.iter().map(ToString::to_string).collect();
    let kernel = (
        identity::of_machine(&options.machine),
        identity::of_costs(&options.cost),
        options.hz,
        options.release,
        &options.hotplug,
    );
    let all = (
        cell.contender.content(),
        &options.setup,
        &cell.unprepared,
        kernel,
        &cell.metrics,
        cell.patience,
        requirements,
        references,
    );
    match options.later_setups.is_empty() {
        true => identity::of(&all),
        false => identity::of(&(all, &options.later_setups)),
    }
}

/// The simulations of a plan, in the order of the result. Each is made when it is about to run, from the part that all runs of a scheduler on a
/// machine have in common, so that a plan takes no more memory for more runs.
pub struct Cells<P> {
    plan: P,
    /// By site, then by scheduler.
    templates: Vec<Vec<Cell>>,
    /// The hashes of the workloads, by site.
    workloads: Vec<Vec<String>>,
}

impl<P: Deref<Target = Plan>> Cells<P> {
    /// The simulations of a plan that was [checked](Plan::check).
    pub fn of(plan: P) -> Self {
        let sites = plan.sites.iter();
        let hashes = sites.clone().map(|site| {
            let hash = |one: &Arc<Workload>| {
                let replay = plan.replays.get(&one.name);
                identity::of_workload(one, replay.map(Arc::as_ref))
            };
            site.workloads.iter().map(hash).collect()
        });
        Self {
            templates: sites.map(|site| plan.templates(site)).collect(),
            workloads: hashes.collect(),
            plan,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The part that all simulations of a scheduler on a machine have in common.
    pub(crate) fn template(&self, site: usize, contender: usize) -> &Cell {
        &self.templates[site][contender]
    }

    /// The simulation with this number.
    pub fn get(&self, number: usize) -> Cell {
        let place = self.plan.place(number);
        self.at(place, self.seed(place))
    }

    /// The identity of the simulation with this number: a hash of everything that determines its result, apart from the program that computes it.
    pub fn identity(&self, number: usize) -> String {
        let place = self.plan.place(number);
        self.identity_at(place, self.seed(place))
    }

    fn seed(&self, place: Place) -> u64 {
        self.plan.settings.seed.wrapping_add(u64::from(place.repeat))
    }

    fn noise(&self, workload: &Workload) -> Noise {
        match self.plan.replays.contains_key(&workload.name) {
            true => Noise::None,
            false => self.plan.noise,
        }
    }

    fn identity_at(&self, place: Place, seed: u64) -> String {
        let template = &self.templates[place.site][place.contender];
        let fixed = template.identity.as_deref().unwrap_or_default();
        let workload = self.plan.workload(place);
        identity::of_cell(
            fixed,
            &self.workloads[place.site][place.workload],
            length_of(workload, self.plan.settings.duration),
            self.noise(workload),
            seed,
        )
    }

    /// The simulation at this place of the plan, with this seed instead of the plan's.
    pub fn at(&self, place: Place, seed: u64) -> Cell {
        let plan = &self.plan;
        let template = &self.templates[place.site][place.contender];
        let workload = plan.workload(place).clone();
        let replay = plan.replays.get(&workload.name);
        let noise = self.noise(&workload);
        let surroundings = match replay {
            Some(replay) => replay.surroundings.clone(),
            None => Surroundings {
                threads: noise.threads(&template.options.machine, seed),
                ..Surroundings::default()
            },
        };
        let trace = plan.traces.as_ref().map(|(folder, form)| {
            folder.join(format!("{}.{}", plan.file_name(place), form.ending()))
        });
        Cell {
            options: Options { seed, surroundings, workload, ..template.options.clone() },
            repeat: place.repeat,
            trace,
            noise,
            replay: replay.cloned(),
            identity: Some(self.identity_at(place, seed)),
            hashes: template.hashes.clone().map(|hashes| Hashes {
                workload: self.workloads[place.site][place.workload].clone(),
                ..hashes
            }),
            ..template.clone()
        }
    }

    /// The numbers of the simulations, starting with those that are likely to take longest.
    pub(crate) fn longest_first(&self) -> Vec<usize> {
        let plan = &self.plan;
        let duration = plan.settings.duration;
        let mut order: Vec<usize> = (0..plan.run_count()).collect();
        order.sort_by_cached_key(|number| {
            Reverse(effort(plan.workload(plan.place(*number)), duration))
        });
        order
    }
}
