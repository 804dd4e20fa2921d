//! What the kernel tells of the frequencies of this machine's CPUs: the policies of cpufreq, and its energy model.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::file::RATE_LIMIT_US;
use crate::hardware::{Clock, Step};
use crate::host::{folders, list, number, text};
use crate::model::Machine;

/// Drivers that leave it to the hardware which frequency a CPU has.
const HARDWARE_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
/// The bit of an energy model's flags that says that its unit is the microwatt (`EM_PERF_DOMAIN_MICROWATTS`).
const MICROWATTS: u64 = 1;

/// A policy of cpufreq: CPUs that have a frequency in common.
pub(crate) struct Policy {
    pub(crate) number: u32,
    pub(crate) driver: String,
    pub(crate) governor: String,
    /// Its CPUs that are online, by their places in the machine.
    pub(crate) cpus: Vec<usize>,
    /// Its frequencies, in ascending order; none if the driver has no list of them.
    pub(crate) steps: Vec<Step>,
    /// For how long schedutil changes nothing after a change, in microseconds, if it is the governor.
    pub(crate) rate_limit: Option<u64>,
}

impl Policy {
    /// Whether the hardware sets the frequency without asking the kernel.
    pub(crate) fn is_up_to_hardware(&self) -> bool {
        HARDWARE_DRIVERS.contains(&&*self.driver)
    }
}

/// The policies of the machine whose `/sys` this is, in the order of their numbers.
pub(crate) fn policies(sys: &Path, machine: &Machine) -> Vec<Policy> {
    let root = sys.join("devices/system/cpu/cpufreq");
    let mut numbers = folders(&root, "policy");
    numbers.sort_unstable();
    let powers = energy_models(sys);
    let policy = |number| {
        let folder = root.join(format!("policy{number}"));
        let text = |file: &str| text(&folder.join(file)).unwrap_or_default();
        let cpus = text("affected_cpus");
        let cpus = cpus.split_whitespace().filter_map(|cpu| machine.find(cpu.parse().ok()?));
        let cpus: Vec<usize> = cpus.collect();
        let frequencies = text("scaling_available_frequencies");
        let frequencies = frequencies.split_whitespace().filter_map(|word| word.parse().ok());
        let mut frequencies: Vec<u64> = frequencies.collect();
        frequencies.sort_unstable();
        frequencies.dedup();
        let first = cpus.first().map(|cpu| machine.numbers[*cpu]);
        let power = |frequency| powers.get(&(first?, frequency)).copied();
        Policy {
            number,
            driver: text("scaling_driver"),
            governor: text("scaling_governor"),
            steps: { frequencies.into_iter() }
                .map(|frequency| Step { frequency, power: power(frequency) })
                .collect(),
            rate_limit: text("schedutil/rate_limit_us").parse().ok(),
            cpus,
        }
    };
    numbers.into_iter().map(policy).collect()
}

/// The clocks of that machine, as far as the kernel sets frequencies that it tells. The energy model is for root only.
pub(crate) fn clocks(sys: &Path, machine: &Machine) -> Vec<Clock> {
    let policies = policies(sys, machine).into_iter();
    let known = policies.filter(|policy| {
        !policy.is_up_to_hardware() && !policy.cpus.is_empty() && !policy.steps.is_empty()
    });
    let clock = |policy: Policy| Clock {
        cpus: policy.cpus,
        steps: policy.steps,
        rate_limit: 1000 * policy.rate_limit.unwrap_or(RATE_LIMIT_US),
    };
    known.map(clock).collect()
}

/// The power of each CPU at each frequency, in microwatts, from the kernel's energy model.
fn energy_models(sys: &Path) -> BTreeMap<(u32, u64), u64> {
    let root = sys.join("kernel/debug/energy_model");
    let mut powers = BTreeMap::new();
    for domain in fs::read_dir(&root).into_iter().flatten().flatten() {
        let domain = domain.path();
        let flags = text(&domain.join("flags")).unwrap_or_default();
        let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
        let cpus = list(&domain.join("cpus")).unwrap_or_default();
        if flags & MICROWATTS == 0 {
            continue;
        }
        for state in folders(&domain, "ps:") {
            let folder = domain.join(format!("ps:{state}"));
            let Some(power) = number(&folder.join("power")) else { continue };
            for cpu in &cpus {
                powers.insert((*cpu, u64::from(state)), u64::from(power));
            }
        }
    }
    powers
}
