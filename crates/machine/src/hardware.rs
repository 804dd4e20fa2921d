//! How the CPUs of a machine share cores, sleep and change speed.

use std::fmt;
use std::sync::Arc;

/// Throughput of a core with one busy CPU, in the unit of [`Hardware::smt`].
pub const ALONE: u32 = 1000;

/// Bytes that a cache fetches at once.
pub const LINE: u64 = 64;

/// Behaviour of a machine's CPUs besides computing at a constant speed; the default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Throughput of a core with two, three and more busy CPUs, in thousandths of that with one ([`ALONE`]). If it is empty, siblings do not slow
    /// each other down.
    pub smt: Vec<u32>,
    /// For each CPU, the states in which it can be while it is idle, the shallowest first; empty if that of no CPU is known.
    pub idle: Vec<Arc<[IdleState]>>,
    /// The clocks that give CPUs their frequencies; a CPU without a clock has one frequency.
    pub clocks: Vec<Clock>,
    /// Size of each last-level cache, where tasks with a footprint displace one another; `None` if it is not known.
    pub cache: Option<CacheSize>,
    /// Whether the hardware sets the frequencies without asking the kernel, as most x86 processors do.
    pub sets_speed: bool,
}

/// Size of a last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Bytes.
    pub bytes: u64,
    /// How long it takes to fetch [`LINE`] bytes from memory, in nanoseconds.
    pub line_time: u64,
}

/// A state of a CPU that is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// How long it takes until the CPU does anything again, in nanoseconds.
    pub exit_latency: u64,
    /// How long the CPU should be in it for it to save energy, in nanoseconds.
    pub residency: u64,
    /// The CPU's power meanwhile, in microwatts.
    pub power: u64,
}

/// A clock that gives one or more CPUs a common frequency (a cpufreq policy).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The CPUs.
    pub cpus: Vec<usize>,
    /// Its frequencies, in ascending order; at least one.
    pub steps: Vec<Step>,
    /// For how long the kernel changes nothing after a change, in nanoseconds (`rate_limit_us` of schedutil).
    pub rate_limit: u64,
}

/// A frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kilohertz.
    pub frequency: u64,
    /// The power of a busy CPU at it, in microwatts, if that is known; all steps of a machine have it, or none.
    pub power: Option<u64>,
}

impl CacheSize {
    /// A cache of so many KiB, where a line takes so many nanoseconds.
    pub fn new(kib: u64, line_time: u64) -> Result<Self, String> {
        if !(1..=1 << 30).contains(&kib) {
            return Err(format!("{kib} KiB is no size of a cache"));
        }
        if !(1..=1_000_000).contains(&line_time) {
            let message = format!("{line_time} ns is no time to fetch a line");
            return Err(message);
        }
        Ok(Self { bytes: kib * 1024, line_time })
    }
}

impl Hardware {
    /// Throughput of a core with this many busy CPUs, at least one, in thousandths of that with one.
    #[inline]
    pub fn throughput(&self, busy: usize) -> u32 {
        let shared = busy.checked_sub(2);
        shared.map_or(ALONE, |place| {
            let known = self.smt.get(place).or(self.smt.last());
            known.map_or(ALONE * busy as u32, |throughput| *throughput)
        })
    }

    /// The idle states of a CPU, the shallowest first; none if they are not known.
    #[inline]
    pub fn idle_states(&self, cpu: usize) -> &[IdleState] {
        self.idle.get(cpu).map_or(&[], |states| states)
    }

    /// Whether the power of its CPUs is known.
    pub fn has_power(&self) -> bool {
        let mut steps = self.clocks.iter().flat_map(|clock| &clock.steps);
        steps.any(|step| step.power.is_some())
    }
}

/// Writes these properties in words, such as `SMT throughput 1.15, 3 idle states`; nothing for the default.
impl fmt::Display for Hardware {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.smt.is_empty() {
            let list: Vec<String> = { self.smt.iter() }
                .map(|throughput| (f64::from(*throughput) / f64::from(ALONE)).to_string())
                .collect();
            parts.push(format!("SMT throughput {}", list.join(" ")));
        }
        match self.idle.iter().map(|states| states.len()).max() {
            None => {}
            Some(1) => parts.push("1 idle state".to_owned()),
            Some(states) => parts.push(format!("{states} idle states")),
        }
        let steps = || self.clocks.iter().flat_map(|clock| &clock.steps);
        let frequencies = || steps().map(|step| step.frequency / 1000);
        if let (Some(lowest), Some(highest)) = (frequencies().min(), frequencies().max()) {
            parts.push(format!("{lowest} to {highest} MHz"));
        }
        if let Some(cache) = self.cache {
            parts.push(format!("caches of {} KiB", cache.bytes / 1024));
        }
        if self.has_power() {
            parts.push("known power".to_owned());
        }
        if self.sets_speed {
            parts.push("frequencies set by the hardware".to_owned());
        }
        formatter.write_str(&parts.join(", "))
    }
}
