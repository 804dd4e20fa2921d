//! What differs from run to run on a real machine: when its ticks come, how long work takes, and what the kernel's own threads do.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_simulator::{Options, Thread, Turn};
use fairground_workload::{Event, Policy};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const US: Nanoseconds = 1_000;
const MS: Nanoseconds = 1_000_000;
const SECOND: Nanoseconds = 1_000_000_000;
/// After how many seconds the irregular work of a CPU begins again.
const PATTERN: u64 = 64;
/// Make the random numbers independent of those of workloads with the same seed.
const SALT: u64 = 0x006e_6f69_7365;
const SPREAD_SALT: u64 = 0x7370_7265_6164;
/// By how much the work of a task takes longer or shorter in a run than its workload says, as a fraction.
const WIDTH: f64 = 0.005;

/// What a workload shares the machine with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noise {
    /// Nothing: the workload has the machine to itself.
    #[default]
    None,
    /// It has, and each seed has another phase of the ticks, and takes a little more or less time for each task's work.
    Spread,
    /// The same, and the kernel threads that never quite rest.
    Default,
}

impl Display for Noise {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "none",
            Self::Spread => "spread",
            Self::Default => "default",
        })
    }
}

impl FromStr for Noise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "spread" => Ok(Self::Spread),
            "default" => Ok(Self::Default),
            _ => Err("not none, spread or default".to_owned()),
        }
    }
}

impl Noise {
    /// What runs share the machine with unless something is said: runs that are one would show nothing of what is certain.
    pub fn usual(repeats: u32) -> Self {
        if repeats > 1 { Self::Spread } else { Self::None }
    }

    /// Makes a run one of another time, according to its seed.
    pub(crate) fn vary(self, options: &mut Options) {
        if self == Self::None {
            return;
        }
        let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(options.seed ^ SPREAD_SALT));
        options.surroundings.tick_offset = random.below(SECOND / options.hz.max(1));
        for task in &mut Arc::make_mut(&mut options.workload).tasks {
            let factor = 1.0 + WIDTH * (2.0 * random.chance() - 1.0);
            for phase in &mut task.phases {
                let vary = |event| match event {
                    Event::Run(time) => Event::Run((time as f64 * factor).round() as u64),
                    other => other,
                };
                phase.events = phase.events.iter().map(vary).collect();
            }
        }
    }

    /// The threads, each at its own moments, which depend on the seed alone.
    ///
    /// Threads, periods and CPU times were measured on an idle guest of two CPUs under Linux 7.3.4 (Debian's configuration, 250 ticks a second)
    /// with the tracepoint `sched_switch`, for 20 s: the median CPU time of threads that woke at least once in ten seconds. A kworker of each CPU serves the statistics of memory
    /// management at full seconds, on all CPUs within a tick, and timers now and then; the soft lockup watchdog checks every CPU; RCU ends a grace
    /// period in steps of two ticks; kcompactd looks after each node; unbound work comes every two seconds.
    pub(crate) fn threads(self, machine: &Machine, seed: u64) -> Vec<Thread> {
        if self != Self::Default {
            return Vec::new();
        }
        let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed ^ SALT));
        let second = random.below(SECOND);
        let mut threads = Vec::new();
        for cpu in 0..machine.cpu_count() as u32 {
            let name = format!("kworker/{cpu}:0");
            let turns = statistics_and_timers(&mut random, second);
            threads.push(kernel_thread(name, Some(vec![cpu]), PATTERN * SECOND, turns));
            let name = format!("migration/{cpu}");
            let turns = vec![(random.below(4 * SECOND), 6 * US)];
            let watchdog = kernel_thread(name, Some(vec![cpu]), 4 * SECOND, turns);
            threads.push(Thread { policy: Policy::Fifo { priority: 99 }, ..watchdog });
        }
        for node in machine.nodes() {
            let cpus = machine.node_members(node).map(|cpu| cpu as u32).collect();
            let turns = vec![(random.below(512 * MS), 9 * US)];
            let name = format!("kcompactd{node}");
            threads.push(kernel_thread(name, Some(cpus), 512 * MS, turns));
        }
        let grace_period = random.below(2_000 * MS);
        let turns = (0..3).map(|step| (grace_period + step * 8 * MS, 11 * US)).collect();
        threads.push(kernel_thread("rcu_preempt".into(), None, 2_500 * MS, turns));
        let turns = vec![(random.below(2 * SECOND), 12 * US)];
        threads.push(kernel_thread("kworker/u8:0".into(), None, 2 * SECOND, turns));
        threads
    }
}

/// The work of a CPU's kworker: something within a tick of every full second, and something else once a second on average.
fn statistics_and_timers(
    random: &mut Random,
    second: Nanoseconds,
) -> Vec<(Nanoseconds, Nanoseconds)> {
    const TIME: Nanoseconds = 16 * US;
    let mut turns: Vec<_> = (0..PATTERN)
        .map(|number| (number * SECOND + second + random.below(4 * MS), TIME))
        .collect();
    let mut at = random.exponential(SECOND);
    while at < PATTERN * SECOND {
        turns.push((at, TIME));
        at += random.exponential(SECOND);
    }
    turns.sort_unstable();
    turns
}

/// A kernel thread with turns that begin again after `period`: when, and for how much CPU time.
fn kernel_thread(
    name: String,
    cpus: Option<Vec<u32>>,
    period: Nanoseconds,
    turns: Vec<(Nanoseconds, Nanoseconds)>,
) -> Thread {
    let turn = |(at, cpu_time)| Turn { at, cpu_time };
    Thread {
        name,
        kernel: true,
        policy: Policy::Other { nice: 0, slice: None },
        cpus,
        group: None,
        turns: turns.into_iter().map(turn).collect(),
        period: Some(period),
    }
}

/// Random times.
struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A time below this one.
    fn below(&mut self, bound: Nanoseconds) -> Nanoseconds {
        self.0.next_u64() % bound
    }

    /// A time of an exponential distribution with this mean.
    fn exponential(&mut self, mean: Nanoseconds) -> Nanoseconds {
        (-self.chance().ln() * mean as f64) as Nanoseconds
    }

    /// A number up to 1 and above 0, so that its logarithm is finite.
    fn chance(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(machine: &str, seed: u64) -> Vec<Thread> {
        Noise::Default.threads(&Machine::parse(machine).unwrap(), seed)
    }

    #[test]
    fn two_idle_cpus_are_as_busy_as_those_that_were_measured() {
        // Wake-ups in 20 s of the model's threads: 3.3 + 0.85 + 1.2 + 1.95 + 0.5 a second, and some 4.5 ms of CPU time less that of kdamond.
        let threads = noise("2", 1);
        let rates = threads.iter().map(|thread| {
            let turns = &thread.turns;
            let time: u64 = turns.iter().map(|turn| turn.cpu_time).sum();
            let periods = 20.0 * SECOND as f64 / thread.period.unwrap() as f64;
            (turns.len() as f64 * periods, time as f64 * periods)
        });
        let (wakes, time) = rates.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!((120.0..190.0).contains(&wakes), "{wakes}");
        assert!((1.5e6..3.5e6).contains(&time), "{time} ns");
    }

    #[test]
    fn the_seed_decides_when() {
        assert_eq!(noise("numa:2 core:4", 1), noise("numa:2 core:4", 1));
        assert_ne!(noise("2", 1), noise("2", 2));
        assert_eq!(Noise::None.threads(&Machine::parse("2").unwrap(), 1), []);
    }

    #[test]
    fn turns_come_in_order_within_their_period() {
        for thread in noise("numa:2 core:4", 7) {
            let period = thread.period.unwrap();
            let turns = &thread.turns;
            assert!(turns.is_sorted_by_key(|turn| turn.at), "{}", thread.name);
            assert!(turns.last().unwrap().at < period + SECOND, "{}", thread.name);
        }
    }
}
