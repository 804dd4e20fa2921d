//! Machines as TOML files, with the origin of each number, and those that come with fairground.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::assemble::{Facts, NodeDistances, assemble};
use crate::capacity;
use crate::error::Error;
use crate::hardware::{CacheSize, Clock, IdleState, Step};
use crate::host::cpu_list;
use crate::model::{Machine, ranges};
use crate::{smt, synthetic};

/// Latencies and residencies are at most this long, in microseconds. The kernel expects no longer idle time as long as it keeps the tick, and would
/// keep it for ever for a state with a longer residency.
const LONGEST: f64 = 45_000.0;
/// The rate limit where none is given, in microseconds, as for a driver that does not say how long a change takes.
pub(crate) const RATE_LIMIT_US: u64 = 1000;

/// The machines that come with fairground, by name.
pub const NAMED: [(&str, &str); 3] = [
    ("desktop", include_str!("../machines/desktop.toml")),
    ("phone", include_str!("../machines/phone.toml")),
    ("server", include_str!("../machines/server.toml")),
];

/// A file. Each table has the origin of its numbers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    topology: Topology,
    capacity: Option<Capacity>,
    smt: Option<Smt>,
    #[serde(default)]
    idle: Vec<Idle>,
    #[serde(default)]
    clock: Vec<GivenClock>,
    speed: Option<SetBy>,
    cache: Option<GivenCache>,
}

/// CPUs, caches and nodes: a synthetic description, or all CPUs with who shares what. All are lists such as `0-3,8`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topology {
    description: Option<String>,
    cpus: Option<String>,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    caches: Vec<String>,
    #[serde(default)]
    cores: Vec<String>,
    /// Distances between nodes, row by row.
    #[serde(default)]
    distances: Vec<u32>,
    origin: String,
}

/// Relative capacities, as the word of a description lists them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Capacity {
    list: String,
    origin: String,
}

/// How busy siblings share a core.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Smt {
    /// Throughput with two, three and more busy CPUs, relative to one.
    throughput: Vec<f64>,
    origin: String,
}

/// The idle states of some CPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Idle {
    /// A list such as `0-3,8`; all CPUs if it is left out.
    cpus: Option<String>,
    states: Vec<GivenState>,
    origin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenState {
    name: String,
    exit_us: f64,
    residency_us: f64,
    #[serde(default)]
    mw: f64,
}

/// The frequencies of some CPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenClock {
    /// A list such as `0-3,8`; all CPUs if it is left out.
    cpus: Option<String>,
    /// Whether each of the CPUs has a clock of its own.
    #[serde(default)]
    each: bool,
    rate_limit_us: Option<f64>,
    steps: Vec<GivenStep>,
    origin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenStep {
    khz: u64,
    mw: Option<f64>,
}

/// The last-level caches.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenCache {
    kib: u64,
    line_ns: u64,
    origin: String,
}

/// The governor of the frequencies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetBy {
    set_by: Setter,
    origin: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Setter {
    Hardware,
}

/// Makes a machine from the file of this name.
pub(crate) fn read(file: &str) -> Result<Machine, Error> {
    let text = fairground_files::read_text(file.as_ref()).map_err(|cause| {
        let message = format!("the file cannot be read: {cause}; check the name");
        Error::new(file, message)
    })?;
    parse(file, &text)
}

/// The machine with this name that comes with fairground.
pub(crate) fn named(name: &str) -> Option<Result<Machine, Error>> {
    let (_, text) = NAMED.iter().find(|(one, _)| *one == name)?;
    Some(parse(name, text))
}

/// Makes a machine from the text of a file; `name` is its description.
pub(crate) fn parse(name: &str, text: &str) -> Result<Machine, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = { error.span() }.map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let message = format!("line {line}: {}", error.message().replace('\n', " "));
        Error::new(name, message)
    })?;
    file.machine(name)
}

impl File {
    fn machine(self, name: &str) -> Result<Machine, Error> {
        let error = |table: &str, message: String| Error::new(name, format!("{table}: {message}"));
        let topology = self.topology.machine();
        let mut machine = topology.map_err(|message| error("[topology]", message))?;
        machine.description = name.to_owned();
        machine.origin("CPUs, caches and nodes", &self.topology.origin);
        let description = self.topology.description.as_deref().unwrap_or_default();
        let is_there = |word: &str| description.split(' ').any(|one| one.starts_with(word));
        for (table, word, is_given) in [
            ("[capacity]", capacity::WORD, self.capacity.is_some()),
            ("[smt]", smt::WORD, self.smt.is_some()),
        ] {
            if is_given && is_there(word) {
                let message = format!("the description has {word} as well; leave one out");
                return Err(error(table, message));
            }
        }
        if let Some(capacity) = &self.capacity {
            let word = format!("{}{}", capacity::WORD, capacity.list);
            capacity::apply(&word, &mut machine)
                .map_err(|cause| error("[capacity]", cause.message))?;
            machine.origin("capacities", &capacity.origin);
        }
        if let Some(cores) = &self.smt {
            machine.hardware.smt = smt::throughputs(&cores.throughput, &machine)
                .map_err(|message| error("[smt]", message))?;
            machine.origin("throughput of shared cores", &cores.origin);
        }
        for idle in &self.idle {
            idle.apply(&mut machine).map_err(|message| error("[[idle]]", message))?;
        }
        for clock in &self.clock {
            clock.apply(&mut machine).map_err(|message| error("[[clock]]", message))?;
        }
        check_power(&machine).map_err(|message| error("[[clock]]", message))?;
        if let Some(cache) = &self.cache {
            let size = CacheSize::new(cache.kib, cache.line_ns);
            machine.hardware.cache = Some(size.map_err(|message| error("[cache]", message))?);
            machine.origin("size of caches", &cache.origin);
        }
        if let Some(SetBy { set_by, origin }) = &self.speed {
            machine.hardware.sets_speed = matches!(set_by, Setter::Hardware);
            if !machine.hardware.clocks.is_empty() {
                let message = "the hardware sets no frequencies where [[clock]] says that the kernel does; leave out one of them";
                return Err(error("[speed]", message.into()));
            }
            machine.origin("what sets frequencies", origin);
        }
        Ok(machine)
    }
}

impl Topology {
    fn machine(&self) -> Result<Machine, String> {
        match (&self.description, &self.cpus) {
            (Some(description), None) => {
                synthetic::parse(description).map_err(|cause| cause.message)
            }
            (None, Some(cpus)) => self.listed(cpus),
            _ => Err("it has either `description` or `cpus`, with lists of what they share".into()),
        }
    }

    /// The machine with these CPUs. Without lists there is one package, node and cache, and each CPU is a core.
    fn listed(&self, cpus: &str) -> Result<Machine, String> {
        let cpus = numbers(cpus)?;
        if cpus.len() > Machine::CPUS_MAX {
            return Err(format!("a machine has at most {} CPUs", Machine::CPUS_MAX));
        }
        let packages = groups("packages", &self.packages, &cpus)?;
        let nodes = groups("nodes", &self.nodes, &cpus)?;
        let caches = groups("caches", &self.caches, &cpus)?;
        let cores = groups("cores", &self.cores, &cpus)?;
        let facts = cpus.iter().map(|cpu| Facts {
            number: *cpu,
            core: cores.get(cpu).map_or(u64::from(*cpu), |core| u64::from(*core)),
            llc: caches.get(cpu).copied().unwrap_or(0).into(),
            node: nodes.get(cpu).copied().unwrap_or(0),
            package: packages.get(cpu).copied().unwrap_or(0).into(),
            capacity: capacity::FULL,
        });
        let count = self.nodes.len().max(1);
        if !self.distances.is_empty() && self.distances.len() != count * count {
            return Err(format!("{count} nodes have {} distances", count * count));
        }
        let pairs = (0..count as u32).flat_map(|from| (0..count as u32).map(move |to| (from, to)));
        let distances: NodeDistances = pairs.zip(self.distances.iter().copied()).collect();
        let memory: Vec<u32> = (0..self.nodes.len() as u32).collect();
        Ok(assemble("", facts.collect(), &memory, &distances))
    }
}

/// The group of each CPU in these lists, each of which is a group; none without lists.
fn groups(key: &str, lists: &[String], cpus: &BTreeSet<u32>) -> Result<BTreeMap<u32, u32>, String> {
    let mut groups = BTreeMap::new();
    for (group, list) in (0..).zip(lists) {
        for cpu in members(list)? {
            if !cpus.contains(&cpu) {
                return Err(format!("`{key}` has CPU {cpu}, which the machine does not have"));
            }
            if groups.insert(cpu, group).is_some() {
                return Err(format!("`{key}` has CPU {cpu} twice"));
            }
        }
    }
    match cpus.iter().find(|cpu| !groups.contains_key(cpu)) {
        Some(cpu) if !lists.is_empty() => Err(format!("`{key}` does not have CPU {cpu}")),
        _ => Ok(groups),
    }
}

/// The CPUs of a list, which may be none.
fn members(list: &str) -> Result<BTreeSet<u32>, String> {
    let cpus = cpu_list(list).map(|cpus| cpus.into_iter().collect());
    cpus.ok_or_else(|| format!("`{list}` is no list of CPUs, such as 0-3,8"))
}

/// The CPUs of a list that has some.
fn numbers(list: &str) -> Result<BTreeSet<u32>, String> {
    match members(list)? {
        none if none.is_empty() => Err(format!("`{list}` is no list of CPUs, such as 0-3,8")),
        some => Ok(some),
    }
}

impl Idle {
    fn apply(&self, machine: &mut Machine) -> Result<(), String> {
        let cpus = cpus(self.cpus.as_deref(), machine)?;
        let states = self.states.iter().map(GivenState::state);
        let states: Arc<[IdleState]> = states.collect::<Result<_, _>>()?;
        let ascend = |one: &IdleState, next: &IdleState| {
            one.residency <= next.residency && one.exit_latency <= next.exit_latency
        };
        if states.is_empty() {
            return Err("there has to be at least one state".into());
        }
        if !states.is_sorted_by(ascend) {
            return Err("states are in the order of exit latency and residency".into());
        }
        machine.hardware.idle.resize(machine.cpus.len(), Arc::default());
        for cpu in &cpus {
            let own = &mut machine.hardware.idle[*cpu];
            if !own.is_empty() {
                return Err(format!("CPU {} has states already", machine.numbers[*cpu]));
            }
            *own = states.clone();
        }
        let whose = words(&cpus, machine);
        machine.origin(&format!("idle states of {whose}"), &self.origin);
        Ok(())
    }
}

impl GivenState {
    fn state(&self) -> Result<IdleState, String> {
        Ok(IdleState {
            name: self.name.clone(),
            exit_latency: nanoseconds("exit_us", self.exit_us)?,
            residency: nanoseconds("residency_us", self.residency_us)?,
            power: microwatts(self.mw)?,
        })
    }
}

impl GivenClock {
    fn apply(&self, machine: &mut Machine) -> Result<(), String> {
        let cpus = cpus(self.cpus.as_deref(), machine)?;
        let step = |step: &GivenStep| {
            Ok::<_, String>(Step {
                frequency: match step.khz {
                    khz @ 1_000..=100_000_000 => khz,
                    khz => return Err(format!("{khz} kHz is no frequency of a CPU")),
                },
                power: step.mw.map(microwatts).transpose()?,
            })
        };
        let steps = self.steps.iter().map(step).collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Err("there has to be at least one step".into());
        }
        if !steps.is_sorted_by(|one, next| one.frequency < next.frequency) {
            return Err("steps are in the order of their frequencies".into());
        }
        let known = machine.hardware.clocks.iter();
        let known: BTreeSet<usize> = known.flat_map(|clock| clock.cpus.clone()).collect();
        if let Some(cpu) = cpus.iter().find(|cpu| known.contains(cpu)) {
            let number = machine.numbers[*cpu];
            return Err(format!("CPU {number} has a clock already"));
        }
        let limit = self.rate_limit_us.unwrap_or(RATE_LIMIT_US as f64);
        let rate_limit = nanoseconds("rate_limit_us", limit)?;
        let groups = if self.each { cpus.chunks(1).collect() } else { vec![cpus.as_slice()] };
        machine.hardware.clocks.extend(groups.into_iter().map(|group| Clock {
            cpus: group.to_vec(),
            steps: steps.clone(),
            rate_limit,
        }));
        let whose = words(&cpus, machine);
        machine.origin(&format!("frequencies of {whose}"), &self.origin);
        Ok(())
    }
}

/// The CPUs of a list, or all. Lists have the machine's own numbers.
fn cpus(list: Option<&str>, machine: &Machine) -> Result<Vec<usize>, String> {
    let Some(list) = list else { return Ok((0..machine.cpus.len()).collect()) };
    let find = |cpu: u32| {
        let found = machine.find(cpu);
        found.ok_or_else(|| {
            let known = machine.told_numbers();
            format!("the machine has no CPU {cpu}, only {known}")
        })
    };
    numbers(list)?.into_iter().map(find).collect()
}

/// CPUs by the machine's own numbers, in words.
fn words(cpus: &[usize], machine: &Machine) -> String {
    let numbers: Vec<u32> = cpus.iter().map(|cpu| machine.numbers[*cpu]).collect();
    match numbers[..] {
        [one] => format!("CPU {one}"),
        _ => format!("CPUs {}", ranges(&numbers)),
    }
}

fn nanoseconds(key: &str, microseconds: f64) -> Result<u64, String> {
    match (0.0..=LONGEST).contains(&microseconds) {
        true => Ok((microseconds * 1000.0).round() as u64),
        false => Err(format!("`{key}` is {microseconds}, which is not from 0 to {LONGEST} us")),
    }
}

fn microwatts(milliwatts: f64) -> Result<u64, String> {
    match (0.0..=1e6).contains(&milliwatts) {
        true => Ok((milliwatts * 1000.0).round() as u64),
        false => Err(format!("{milliwatts} mW is no power of a CPU")),
    }
}

/// Energy is a figure of the whole machine, so the power of all its CPUs must be known, or of none.
fn check_power(machine: &Machine) -> Result<(), String> {
    let hardware = &machine.hardware;
    if !hardware.has_power() {
        return Ok(());
    }
    let clocked: usize = { hardware.clocks.iter() }.map(|clock| clock.cpus.len()).sum();
    let mut steps = hardware.clocks.iter().flat_map(|clock| &clock.steps);
    if clocked < machine.cpus.len() || steps.any(|step| step.power.is_none()) {
        return Err("`mw` belongs to all steps of all CPUs, or to none".into());
    }
    Ok(())
}
