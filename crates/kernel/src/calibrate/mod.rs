//! Measures the costs of scheduling on this machine, for the simulator's cost model (`docs/cost-model.md`).
//!
//! Everything is measured from user space with the kernel's own interfaces: threads on chosen CPUs that wake one another. With root and
//! sched_ext, a scheduler without callbacks is in charge while wake-ups and switches are measured, so that they are those of sched_ext;
//! compared with it, schedulers whose callbacks do something show the cost of callbacks. A figure is taken from an undisturbed one among many
//! short batches.

mod bpf;
mod caches;
mod switches;
mod threads;
mod timers;
mod wakeups;

use std::io;

use crate::{Error, host, scheduling};
use threads::OnCpu;

/// A measured cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name in the cost model.
    pub name: &'static str,
    /// Nanoseconds: one number, or four by distance, with `None` for distances that this machine does not have.
    pub ns: Vec<Option<u64>>,
    /// How it was measured.
    pub origin: String,
}

/// CPUs of this machine to measure on: a pair for each existing distance, nearest first: siblings, the same last-level cache, the same node, another node.
pub type Pairs = [Option<(u32, u32)>; 4];

/// The result of a calibration.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// The costs.
    pub costs: Vec<Cost>,
    /// Costs that could not be measured, and why.
    pub notes: Vec<String>,
}

impl Calibration {
    fn add(&mut self, name: &'static str, ns: u64, how: impl Into<String>) {
        self.costs.push(Cost { name, ns: vec![Some(ns)], origin: how.into() });
    }

    fn add_by_distance(&mut self, name: &'static str, ns: [Option<u64>; 4], how: &str) {
        if ns.iter().any(Option::is_some) {
            self.costs.push(Cost { name, ns: ns.to_vec(), origin: how.to_owned() });
        } else {
            self.notes.push(format!("{name} needs a second CPU"));
        }
    }
}

/// Figures from which others are derived, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Basis {
    /// A futex call that wakes nobody.
    empty_wake: u64,
    /// A futex call that does not wait.
    empty_wait: u64,
    /// Waking a thread on this CPU.
    wakeup: u64,
    /// Switching from one thread to another.
    switch: u64,
}

impl Basis {
    /// A handoff from one thread to the other.
    fn handoff(self) -> u64 {
        self.switch + self.wakeup + self.empty_wake + self.empty_wait
    }
}

/// Measures the costs of this machine. Takes about ten seconds.
///
/// # Errors
/// Another scheduler than the kernel's own is in charge, whose costs these would be; or this machine cannot be measured.
pub fn calibrate(pairs: &Pairs) -> Result<Calibration, Error> {
    host::check_none_loaded()?;
    measure(pairs).map_err(Error::system("cannot measure"))
}

fn measure(pairs: &Pairs) -> io::Result<Calibration> {
    let all = scheduling::cpus()?;
    let here = *all.first().ok_or(io::ErrorKind::NotFound)?;
    let mut result = Calibration::default();
    let bound = OnCpu::bind(here)?;
    system_call(&mut result);
    caches::lock(&mut result);
    let basis = sched_ext(&mut result, here)?;
    timers::measure(&mut result, here, basis)?;
    match pairs.iter().flatten().next() {
        Some((from, to)) => wakeups::measure(&mut result, *from, *to, basis)?,
        None => result.notes.push("wakeup_remote and interrupt need a second CPU".to_owned()),
    }
    caches::measure_by_distance(&mut result, pairs)?;
    drop(bound);
    result.notes.push("task_walk and timer_slack are not measured".to_owned());
    Ok(result)
}

/// A short call that does almost nothing.
fn system_call(result: &mut Calibration) {
    let ns = threads::time_per_call(1000, || {
        // SAFETY: the call takes nothing and returns a number.
        unsafe { nix::libc::syscall(nix::libc::SYS_getppid) };
    });
    result.add("system_call", ns, "fairground calibrate: getppid()");
}

/// Wake-ups and switches, and the parts that callbacks and the kernel's own scheduler add to them.
fn sched_ext(result: &mut Calibration, cpu: u32) -> io::Result<Basis> {
    let own = switches::basis(cpu)?;
    match bpf::Scheduler::start(bpf::Probe::Bare) {
        Ok(scheduler) => {
            let basis = switches::basis(cpu)?;
            recorders(result, cpu, basis);
            drop(scheduler);
            report_basis(result, basis, "under a sched_ext scheduler without callbacks");
            let how = "fairground calibrate: two threads that wake one another under the kernel's own scheduler, less";
            result.add(
                "fair_wakeup",
                own.wakeup.saturating_sub(basis.wakeup),
                format!("{how} wakeup"),
            );
            result.add(
                "fair_switch",
                own.switch.saturating_sub(basis.switch),
                format!("{how} context_switch"),
            );
            bpf::measure(result, cpu, basis)?;
            Ok(basis)
        }
        Err(error) => {
            result.notes.push(format!(
                "callback, kfunc, kilo_instructions and scan need root and sched_ext: {error}"
            ));
            recorders(result, cpu, own);
            report_basis(result, own, "under the kernel's own scheduler");
            Ok(own)
        }
    }
}

/// The costs of the recorders of `fairground play` and `fairground record`. A handoff is a wake-up and a switch.
fn recorders(result: &mut Calibration, cpu: u32, basis: Basis) {
    let by_play = |wanted| switches::recorded_handoff(cpu, wanted);
    recorder(
        result,
        basis,
        ["record_wakeup", "record_switch"],
        "the recorder of fairground play",
        [by_play(|_| true), by_play(|program| program == "record_wakeup")],
    );
    let by_record = |wanted| switches::captured_handoff(cpu, wanted);
    recorder(
        result,
        basis,
        ["capture_wakeup", "capture_switch"],
        "fairground record",
        [by_record(|_| true), by_record(|program| program != "record_switch")],
    );
}

/// A recorder's costs per wake-up and per switch, from handoffs with the whole recorder and with its wake-up part only.
fn recorder(
    result: &mut Calibration,
    basis: Basis,
    [wakeup, switch]: [&'static str; 2],
    who: &str,
    handoffs: [Result<u64, Error>; 2],
) {
    match handoffs {
        [Ok(both), Ok(wake)] => {
            let how = format!(
                "fairground calibrate: what {who} adds to a turn of two threads that wake one another"
            );
            let [both, wake] = [both, wake].map(|handoff| handoff.saturating_sub(basis.handoff()));
            result.add(wakeup, wake, format!("{how}, of wake-ups alone"));
            let rest = both.saturating_sub(wake);
            result.add(switch, rest, format!("{how}, less {wakeup}"));
        }
        [Err(error), _] | [_, Err(error)] => {
            result.notes.push(format!("{wakeup} and {switch} need root: {error}"))
        }
    }
}

fn report_basis(result: &mut Calibration, basis: Basis, under: &str) {
    let how = "fairground calibrate: two threads of policy batch that wake one another by futex on one CPU";
    result.add("wakeup", basis.wakeup, format!("{how}: the wake, less one of nobody, {under}"));
    result.add(
        "context_switch",
        basis.switch,
        format!("{how}: a turn, less the wake-up and two futex calls, {under}"),
    );
}

/// The measured machine, for the head of a file.
pub fn machine_name() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".to_owned());
    let release = host::release().unwrap_or_default();
    format!("{model}, Linux {release}")
}
