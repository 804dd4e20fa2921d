//! The subject of a simulation: the arguments shared by the commands that run workloads in the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fairground_companion::Companion;
use fairground_lab::{
    Contender, DEFAULT_HZ, Error, Kept, LOADER, Load, Noise, Plan, Release, Replay, Settings, Site,
    hunting_grounds,
};
use fairground_machine::Machine;
use fairground_recording::is_recording;
use fairground_results::{CpuChange, Patience, Requirement, Run, short_name};
use fairground_workload::{Template, Workload};

use crate::gauntlet::Case;
use crate::loads;
use crate::quantity::{cpu_change, nanoseconds, window};
use crate::schedulers::{self, Wanted};
use crate::{output, settings};

/// The machine unless another one is described.
pub const USUAL_MACHINE: &str = "4";

/// The cost model unless another one is given.
const USUAL_COST: &str = "default";

/// The largest seed: CSV and Parquet keep it as a number with a sign.
pub const MOST_SEED: u64 = i64::MAX as u64;

/// Workloads, the machine, and how they are run.
#[derive(Debug, Args)]
pub struct Simulation {
    /// rt-app files, recordings (`fairground record`), or names of loads that come with fairground (`fairground list --loads`), such as
    /// mix-two; NAME:PARAMETER=VALUE,... sets the parameters of a load or file
    #[arg(required = true, value_name = "WORKLOAD")]
    pub workloads: Vec<PathBuf>,

    /// A number of CPUs, an hwloc synthetic description ('numa:2 l3:2 core:4 pu:2'), a file (hwloc's .xml, or .toml), a machine that comes
    /// with fairground (phone, desktop, server), or host; may be given several times [default: as many CPUs as a recording had, otherwise 4]
    #[arg(short, long = "machine", value_name = "DESCRIPTION")]
    pub machines: Vec<String>,

    /// Length of every run, such as 500ms or 10s, instead of the workload's own
    ///
    /// Without it a workload runs for the duration in its file, or until its tasks end; a workload with neither runs for 10 s.
    #[arg(short, long, value_parser = nanoseconds)]
    pub duration: Option<u64>,

    /// Seed for all random choices; each further repetition adds 1
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,

    /// Costs of scheduling: default, zero, or a TOML file
    #[arg(long, value_name = "MODEL", default_value = USUAL_COST)]
    pub cost: String,

    /// Timer ticks per second, or native: the rate that each scheduler was made for
    #[arg(long, value_name = "NUMBER|native", default_value_t = TickRate(Some(DEFAULT_HZ)))]
    pub hz: TickRate,

    /// Length of the windows in which shares are compared [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub window: Option<u64>,

    /// Take a CPU offline or bring it online at this time; may be given several times
    #[arg(long, value_name = "CPU:on|off@TIME", value_parser = cpu_change)]
    pub hotplug: Vec<CpuChange>,

    /// What else differs from seed to seed as on a real machine: none, spread, or default [default: spread with several runs in compare and rank, else none]
    ///
    /// With spread each run has another phase of the ticks, and each task's work takes up to 0.5 % more or less. With default there are also the threads of
    /// an idle kernel, which go through the scheduler but are in no figure. Recordings vary by themselves, have threads of their own and get no others.
    #[arg(long, value_name = "none|spread|default")]
    pub noise: Option<Noise>,

    #[command(flatten)]
    pub sources: Sources,
}

/// The options about schedulers and the kernel that runs them.
#[derive(Clone, Debug, Args)]
pub struct Sources {
    /// Set a tunable of a scheduler; may be given several times
    ///
    /// ID may be left out if there is one scheduler, and may be a name that -s gives. With several values, the scheduler runs with
    /// each: cfs.sched_latency=6ms,12ms, and ranges such as 1ms..8ms:x2 or 1ms..4ms:+1ms. With several lists it runs with all
    /// combinations.
    ///
    /// For a scheduler of your own you can also make the settings of its loader: ID.OPTION=VALUE for an option of its companion,
    /// ID.ops.flags=SCX_OPS_ENQ_LAST, ID.map.tasks.max_entries=64, ID.config.limits[2]=5 for any global variable.
    #[arg(long = "set", value_name = "[ID.]NAME=VALUE,...")]
    settings: Vec<String>,

    /// Companion file that describes a scheduler's loader, or none; may be given several times
    ///
    /// The default is NAME.companion.toml beside NAME.bpf.c, or the one that comes with fairground for a scheduler of this name.
    #[arg(long = "with", value_name = "FILE.toml|none")]
    companions: Vec<String>,

    /// Folder with headers for sources of your own; may be given several times
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,

    /// Macro for sources of your own; may be given several times
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = NonEmptyStringValueParser::new())]
    defines: Vec<String>,

    /// The release of Linux that is simulated: its kernel functions, fields, callbacks, flags and rules
    ///
    /// A note lists the rules in which the model follows that release. `fairground show` says on which releases a scheduler loads. `kernel`, the
    /// kernel's own scheduler, is that of the newest one.
    #[arg(long, value_name = "RELEASE", default_value_t = Release::NEWEST)]
    pub kernel: Release,

    /// Simulations at once [default: one for each CPU of this machine]
    #[arg(long)]
    pub threads: Option<NonZero<usize>>,
}

/// Timer ticks per second; `None` for each scheduler's own rate.
#[derive(Clone, Copy, Debug)]
pub struct TickRate(Option<u64>);

impl FromStr for TickRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "native" {
            return Ok(Self(None));
        }
        let rate = text.parse().ok().filter(|rate| (10..=10_000).contains(rate));
        match rate {
            Some(rate) => Ok(Self(Some(rate))),
            None => Err("not a number from 10 to 10000, and not native".to_owned()),
        }
    }
}

impl Display for TickRate {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => rate.fmt(formatter),
            None => formatter.write_str("native"),
        }
    }
}

impl Simulation {
    /// Plans one run of each workload under each of these schedulers; everything that the arguments name is read and checked.
    pub fn plan(&self, schedulers: &[String]) -> Result<Plan, Error> {
        let mut plans = Self::plan_all(&[self], schedulers)?;
        Ok(plans.remove(0))
    }

    /// The simulation of workloads without any option.
    pub fn usual(workloads: Vec<PathBuf>, sources: Sources) -> Self {
        Self {
            workloads,
            machines: Vec::new(),
            duration: None,
            seed: 0,
            cost: USUAL_COST.to_owned(),
            hz: TickRate(Some(DEFAULT_HZ)),
            window: None,
            hotplug: Vec::new(),
            noise: None,
            sources,
        }
    }

    /// Sets an option, from the text that it takes on the command line.
    pub fn set(&mut self, option: &str, text: &str) -> Result<(), String> {
        let told = |error: String| format!("{option}: {error}");
        match option {
            "cost" => text.clone_into(&mut self.cost),
            "hz" => self.hz = text.parse().map_err(told)?,
            "kernel" => self.sources.kernel = text.parse().map_err(told)?,
            "noise" => self.noise = Some(text.parse().map_err(told)?),
            "duration" => self.duration = Some(nanoseconds(text).map_err(told)?),
            "window" => self.window = Some(window(text).map_err(told)?),
            "hotplug" => self.hotplug.push(cpu_change(text).map_err(told)?),
            _ => return Err(format!("there is no option {option}")),
        }
        Ok(())
    }

    /// The simulation of a case of a gauntlet.
    pub fn of_case(case: &Case, sources: Sources) -> Self {
        Self {
            machines: vec![case.machine.clone()],
            duration: Some(case.duration),
            hotplug: case.hotplug.clone(),
            noise: Some(case.noise),
            window: case.window,
            ..Self::usual(vec![case.name.clone()], sources)
        }
    }

    /// The simulations of a hunt, on all its machines and this one; it has no workloads until one is drawn.
    pub fn of_hunt(machine: &str, sources: Sources) -> Self {
        let mut machines: Vec<String> = hunting_grounds().map(str::to_owned).collect();
        if !machines.iter().any(|one| one == machine) {
            machines.push(machine.to_owned());
        }
        Self { machines, ..Self::usual(Vec::new(), sources) }
    }

    /// The same with CPUs that go and come.
    pub fn with_hotplug(&self, hotplug: &[CpuChange]) -> Self {
        let same = self.with_loads(self.workloads.clone(), self.machines.clone(), self.duration);
        Self { hotplug: hotplug.to_vec(), ..same }
    }

    /// The same of other loads.
    pub fn with_loads(
        &self,
        workloads: Vec<PathBuf>,
        machines: Vec<String>,
        duration: Option<u64>,
    ) -> Self {
        Self {
            workloads,
            machines,
            duration,
            cost: self.cost.clone(),
            hotplug: self.hotplug.clone(),
            sources: self.sources.clone(),
            ..*self
        }
    }

    /// Plans simulations that differ in loads and machines, for which each scheduler is opened once.
    pub fn plan_all(simulations: &[&Self], schedulers: &[String]) -> Result<Vec<Plan>, Error> {
        let mut plans = Vec::new();
        for simulation in simulations {
            plans.push(simulation.plan_without_schedulers()?);
        }
        if let Some(first) = simulations.first() {
            first.sources.open(&schedulers::parse(schedulers)?, &mut plans)?;
        }
        Ok(plans)
    }

    /// Plans one run of each workload, as [`plan`](Self::plan) does, for schedulers to be added.
    pub fn plan_without_schedulers(&self) -> Result<Plan, Error> {
        let parse = |description: &String| {
            Machine::parse(description).map_err(|error| Error::Plan(error.to_string()))
        };
        let described = self.machines.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let cost = fairground_lab::read_cost_model(&self.cost)?;
        let mut loads = Vec::new();
        let mut replays = BTreeMap::new();
        for path in &self.workloads {
            let wanted = loads::Wanted::parse(path).map_err(Error::Plan)?;
            let load = match wanted.named() {
                Some(load) => Load::File(load?),
                None => fairground_lab::read_load(wanted.path, &cost)
                    .map_err(|error| loads::names(wanted.path).map_or(error, Error::Plan))?,
            };
            match load {
                Load::File(template) => loads.push(Planned::File(template, wanted)),
                Load::Recording(workload, replay) => {
                    wanted.check_none().map_err(Error::Plan)?;
                    replays.insert(workload.name.clone(), replay);
                    loads.push(Planned::Recording(workload));
                }
            }
        }
        let machines = match described.is_empty() {
            true => vec![usual_machine(loads.len(), &replays)?],
            false => described,
        };
        let site = |machine: Machine| {
            let workloads = loads.iter().map(|load| load.on(&machine));
            Ok::<_, Error>(Site {
                workloads: workloads.collect::<Result<_, _>>()?,
                machine: Arc::new(machine),
                contenders: Vec::new(),
                references: Vec::new(),
            })
        };
        let plan = Plan {
            sites: machines.into_iter().map(site).collect::<Result<_, _>>()?,
            replays,
            settings: Settings {
                duration: self.duration,
                seed: self.seed,
                cost,
                hz: self.hz.0,
                release: self.sources.kernel,
                window: self.window,
                hotplug: self.hotplug.clone(),
            },
            repeats: 1,
            patience: Patience::Off,
            requirements: Vec::new(),
            noise: self.noise.unwrap_or_default(),
            kept: Kept::All,
            traces: None,
            threads: self.sources.threads,
        };
        plan.check_workloads()?;
        Ok(plan)
    }

    /// Sets what differs from seed to seed, unless it is given, and says if that has no effect.
    pub fn complete_noise(&mut self, usual: Noise) {
        // What comes through a pipe can be read once.
        let is_recording = |path: &PathBuf| path.is_file() && is_recording(path);
        if let Some(noise) = self.noise.filter(|noise| *noise != Noise::None)
            && self.workloads.iter().all(is_recording)
        {
            output::say!(
                "fairground: --noise {noise} has no effect: recordings vary by themselves, and have threads of their own"
            );
        }
        self.noise.get_or_insert(usual);
    }

    /// Says if windows have no effect, because no run is as long as one.
    pub fn tell_idle_window(&self, runs: &[Run]) {
        let mut lengths = runs.iter().filter_map(|run| run.metrics.as_ref());
        if let Some(window) = self.window
            && lengths.all(|metrics| metrics.duration_ns < window)
        {
            output::say!("fairground: --window {window}ns has no effect: no run is that long");
        }
    }

    /// Adds these requirements to the plan, with the schedulers that they name: those that come with fairground, whatever others are called, and else
    /// those of the plan.
    pub fn require(&self, requirements: &[Requirement], plan: &mut Plan) -> Result<(), Error> {
        plan.requirements = requirements.to_vec();
        let names: BTreeSet<&str> =
            { requirements.iter() }.filter_map(Requirement::reference).collect();
        for name in names {
            // A loader makes another scheduler for each machine.
            let mut opened = None;
            for site in &mut plan.sites {
                let is_ours = schedulers::is_ours(name);
                let is_plain =
                    |one: &Contender| one.reference() == name && one.tunables().is_empty();
                let is_it = |one: &&Contender| one.name() == name && (!is_ours || is_plain(one));
                let mut named = site.contenders.iter().filter(is_it);
                let known = named.next();
                if !is_ours && named.next().is_some() {
                    let all = requirements.iter().find(|one| one.reference() == Some(name));
                    let text = all.map(ToString::to_string).unwrap_or_default();
                    return Err(Error::Plan(format!(
                        "--require {}: {name} is each of several schedulers; give them names of their own (-s NAME=...)",
                        quoted(&text)
                    )));
                }
                let reference = match known.or(opened.as_ref()) {
                    Some(known) => known.clone(),
                    None => self.sources.single(name, &site.machine)?,
                };
                if !name.contains(LOADER) {
                    opened = Some(reference.clone());
                }
                site.references.push((name.to_owned(), reference));
            }
        }
        Ok(())
    }
}

/// Refuses requirements that would judge nobody, since the only scheduler is the one with which they compare it.
pub fn refuse_idle(requirements: &[Requirement], plan: &Plan) -> Result<(), Error> {
    for requirement in requirements {
        let Some(name) = requirement.reference() else { continue };
        let is_idle = |site: &Site| {
            let mut named = site.references.iter().filter(|(other, _)| other == name);
            named.any(|(_, reference)| site.contenders.iter().all(|one| one.is(reference)))
        };
        if plan.sites.iter().all(is_idle) {
            let text = quoted(&requirement.to_string());
            return Err(Error::Plan(format!(
                "--require {text} judges nobody: {name} is the only scheduler here"
            )));
        }
    }
    Ok(())
}

/// The source of a workload.
enum Planned<'a> {
    /// A file or a load with a name, with the values to fill in.
    File(Template, loads::Wanted<'a>),
    /// A recording, which is the same on every machine.
    Recording(Arc<Workload>),
}

impl Planned<'_> {
    fn on(&self, machine: &Machine) -> Result<Arc<Workload>, Error> {
        match self {
            Self::File(template, wanted) => {
                let arguments = wanted.arguments(machine.cpu_count() as u32);
                Ok(Arc::new(template.workload(&arguments)?))
            }
            Self::Recording(workload) => Ok(workload.clone()),
        }
    }
}

/// The machine for workloads of which `replays` are recordings, unless one is described: one with as many CPUs as they were recorded on.
fn usual_machine(
    workloads: usize,
    replays: &BTreeMap<String, Arc<Replay>>,
) -> Result<Machine, Error> {
    let recorded: BTreeSet<u32> = replays.values().map(|replay| replay.cpus).collect();
    let mut recorded = recorded.into_iter();
    let description = match (recorded.next(), recorded.next()) {
        (None, _) => USUAL_MACHINE.to_owned(),
        (Some(cpus), None) => {
            if replays.len() < workloads {
                output::say!(
                    "fairground: all workloads run on the number of CPUs that was recorded, {cpus}; --machine sets another"
                );
            }
            cpus.to_string()
        }
        (Some(_), Some(_)) => {
            let message = "the recordings are of machines with different numbers of CPUs; choose one for all with --machine";
            return Err(Error::Plan(message.to_owned()));
        }
    };
    Machine::parse(&description).map_err(|error| Error::Plan(error.to_string()))
}

impl Sources {
    /// How schedulers are opened, without settings.
    pub fn of(
        include: Vec<PathBuf>,
        defines: Vec<String>,
        companions: Vec<String>,
        threads: Option<NonZero<usize>>,
    ) -> Self {
        let kernel = Release::NEWEST;
        Self { settings: Vec::new(), companions, include, defines, kernel, threads }
    }

    /// The scheduler of this name, with its default settings.
    fn single(&self, name: &str, machine: &Machine) -> Result<Contender, Error> {
        // Headers and macros are for the schedulers that are judged; one that comes compiled has no use for them.
        let build = match schedulers::is_compiled(name) {
            true => schedulers::build(&[], &[])?,
            false => schedulers::build(&self.include, &self.defines)?,
        };
        let wanted = [Wanted::plain(name)];
        let opened = schedulers::open(&wanted, &build, self.threads, &[machine])?;
        Ok(opened.into_iter().flatten().last().expect("one for each that is wanted"))
    }

    /// Adds the schedulers, with their settings, to all sites of these plans; each is opened once.
    pub fn open(&self, wanted: &[Wanted], plans: &mut [Plan]) -> Result<(), Error> {
        let mut sites: Vec<&mut Site> = plans.iter_mut().flat_map(|plan| &mut plan.sites).collect();
        let machines: Vec<Arc<Machine>> = sites.iter().map(|site| site.machine.clone()).collect();
        let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
        let opened = self.contenders(wanted, &machines)?;
        for (site, contenders) in sites.iter_mut().zip(opened) {
            site.contenders = contenders;
        }
        Ok(())
    }

    /// The schedulers for each of the machines, with their settings.
    pub fn contenders(
        &self,
        wanted: &[Wanted],
        machines: &[&Machine],
    ) -> Result<Vec<Vec<Contender>>, Error> {
        let newest = Release::NEWEST;
        if self.kernel != newest
            && let Some(loader) = wanted.iter().find(|one| one.is_loader())
        {
            return Err(Error::Plan(format!(
                "{}: loaders see Linux {newest}; leave out --kernel, or name the scheduler's source or object",
                loader.reference
            )));
        }
        let build = schedulers::build(&self.include, &self.defines)?;
        let mut sites = schedulers::open(wanted, &build, self.threads, machines)?;
        let has_companion = |one: &Contender| one.own_companion().is_some();
        let is_none = self.companions.iter().any(|file| file == "none");
        if is_none && !sites.iter().flatten().any(has_companion) {
            output::say!(
                "fairground: --with none has no effect: no scheduler here has a companion"
            );
        }
        for contenders in &mut sites {
            for file in &self.companions {
                accompany(contenders, file)?;
            }
            let opened = std::mem::take(contenders);
            *contenders = settings::apply(opened, wanted, &self.settings)?;
        }
        Ok(sites)
    }
}

/// One run.
pub struct Single<'a> {
    /// The command that runs it.
    pub command: &'static str,
    /// File of its workload.
    pub workload: &'a Path,
    /// Its scheduler.
    pub contender: &'a Contender,
    /// Description of the machine.
    pub machine: &'a str,
    /// How long it runs, in nanoseconds; `None` for as long as the workload says.
    pub duration: Option<u64>,
    /// Its seed.
    pub seed: u64,
}

impl Simulation {
    /// The command for a single run, with all other arguments unchanged.
    pub fn command(&self, run: &Single) -> String {
        let mut words = vec!["fairground".to_owned(), run.command.to_owned()];
        let mut add = |option: &str, value: String| {
            words.extend([option, &value].into_iter().filter(|word| !word.is_empty()).map(quoted));
        };
        add("", run.workload.display().to_string());
        let (name, reference) = (run.contender.name(), run.contender.reference());
        let scheduler = match name == reference || name == short_name(reference) {
            true => reference.to_owned(),
            false => format!("{name}={reference}"),
        };
        add("-s", scheduler);
        add("-m", run.machine.to_owned());
        if let Some(duration) = run.duration {
            let duration = match duration {
                whole if whole.is_multiple_of(1_000_000) => format!("{}ms", whole / 1_000_000),
                other => format!("{other}ns"),
            };
            add("-d", duration);
        }
        if run.seed != 0 {
            add("--seed", run.seed.to_string());
        }
        for (option, value) in self.sources.options_of(run.contender) {
            add(option, value);
        }
        if let Some(window) = self.window {
            add("--window", format!("{window}ns"));
        }
        if self.cost != USUAL_COST {
            add("--cost", self.cost.clone());
        }
        if self.hz.0 != Some(DEFAULT_HZ) {
            add("--hz", self.hz.to_string());
        }
        if self.sources.kernel != Release::NEWEST {
            add("--kernel", self.sources.kernel.to_string());
        }
        if let Some(noise) = self.noise.filter(|noise| *noise != Noise::None) {
            add("--noise", noise.to_string());
        }
        for change in &self.hotplug {
            add("--hotplug", change.to_string());
        }
        words.join(" ")
    }
}

impl Sources {
    /// The options that make a scheduler from its source as these have: its settings, its companion, folders and macros.
    pub fn options_of(&self, contender: &Contender) -> Vec<(&'static str, String)> {
        let settings = contender.tunables();
        let mut options: Vec<(&str, String)> =
            settings.iter().map(|(key, value)| ("--set", format!("{key}={value}"))).collect();
        for file in &self.companions {
            let companion = Companion::read(Path::new(file));
            let called = companion.is_ok_and(|one| contender.is_called(one.scheduler()));
            if called || file == "none" {
                options.push(("--with", file.clone()));
            }
        }
        let build = contender.build();
        options.extend(build.include.iter().map(|one| ("-I", one.display().to_string())));
        options.extend(build.defines.iter().map(|one| ("-D", one.clone())));
        options
    }
}

/// Words for a shell.
pub fn quoted_all(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell if needed.
pub fn quoted(word: &str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "_-./:=,@+%".contains(one);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Applies a companion file to the schedulers that it is for.
pub fn accompany(contenders: &mut [Contender], file: &str) -> Result<(), Error> {
    if file == "none" {
        for contender in contenders {
            contender.set_companion(Companion::empty())?;
        }
        return Ok(());
    }
    let companion = Companion::read(Path::new(file))?;
    let mut found = false;
    for contender in contenders.iter_mut() {
        if contender.is_called(companion.scheduler()) {
            contender.set_companion(companion.clone())?;
            found = true;
        }
    }
    if found {
        return Ok(());
    }
    let names: Vec<String> = contenders.iter().map(Contender::kernel_name).collect();
    Err(Error::Plan(format!(
        "--with {file}: it is for scheduler {}, and those compared call themselves {}",
        companion.scheduler(),
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("-j4"), "-j4");
        assert_eq!(quoted("a b | c"), "'a b | c'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
