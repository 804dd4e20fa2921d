//! Measures what scheduling costs on this machine, for the simulator's cost model (`docs/cost-model.md`).
//!
//! Everything is measured from user space with the kernel's own means: threads on chosen CPUs that wake one another. With root and
//! sched_ext, a scheduler without callbacks is in charge while wake-ups and switches are measured, so that they are those of
//! sched_ext; next to it, schedulers whose callbacks do something tell what callbacks cost. A figure is that of an
//! undisturbed one among many short batches.

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
    /// Nanoseconds; one number, or four by distance, where distances that this machine does not have are `None`.
    pub ns: Vec<Option<u64>>,
    /// How it was measured.
    pub origin: String,
}

/// CPUs of this machine to measure on: a pair for each distance that there is, nearest first: siblings, the same last-level cache, the
/// same node, another node.
pub type Pairs = [Option<(u32, u32)>; 4];

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// The costs.
    pub costs: Vec<Cost>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

impl Calibration {
    fn add(&mut self, name: &'static str, ns: u64, how: impl Into<String>) {
        self.costs.push(Cost {
            name,
            ns: vec![Some(ns)],
            origin: how.into(),
        });
    }

    fn add_by_distance(&mut self, name: &'static str, ns: [Option<u64>; 4], how: &str) {
        if ns.iter().any(Option::is_some) {
            self.costs.push(Cost {
                name,
                ns: ns.to_vec(),
                origin: how.to_owned(),
            });
        } else {
            self.notes.push(format!("{name} needs a second CPU"));
        }
    }
}

/// Figures that others are made from, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Basis {
    /// A futex call that wakes nobody.
    empty_wake: u64,
    /// A futex call that does not wait.
    empty_wait: u64,
    /// Waking a thread of this CPU.
    wakeup: u64,
    /// Going from one thread to another.
    switch: u64,
}

impl Basis {
    /// From one thread to the other.
    fn handoff(self) -> u64 {
        self.switch + self.wakeup + self.empty_wake + self.empty_wait
    }
}

/// Measures the costs of this machine. Takes some ten seconds.
///
/// # Errors
/// No thread can be started or bound to a CPU.
pub fn calibrate(pairs: &Pairs) -> Result<Calibration, Error> {
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
        None => result
            .notes
            .push("wakeup_remote and interrupt need a second CPU".to_owned()),
    }
    caches::measure_by_distance(&mut result, pairs)?;
    drop(bound);
    result
        .notes
        .push("task_walk and timer_slack are not measured".to_owned());
    Ok(result)
}

/// A short call that does next to nothing.
fn system_call(result: &mut Calibration) {
    let ns = threads::time_per_call(1000, || {
        // SAFETY: the call takes nothing and returns a number.
        unsafe { nix::libc::syscall(nix::libc::SYS_getppid) };
    });
    result.add("system_call", ns, "fairground calibrate: getppid()");
}

/// Wake-ups and switches, and what callbacks add to them.
fn sched_ext(result: &mut Calibration, cpu: u32) -> io::Result<Basis> {
    match bpf::Scheduler::start(bpf::Kind::Bare) {
        Ok(scheduler) => {
            let basis = switches::basis(cpu)?;
            recorder(result, cpu, basis);
            drop(scheduler);
            report_basis(
                result,
                basis,
                "under a sched_ext scheduler without callbacks",
            );
            bpf::measure(result, cpu, basis)?;
            Ok(basis)
        }
        Err(error) => {
            result.notes.push(format!(
                "callback, kfunc, kilo_instructions and scan need root and sched_ext: {error}"
            ));
            let basis = switches::basis(cpu)?;
            recorder(result, cpu, basis);
            report_basis(result, basis, "under the kernel's own scheduler");
            Ok(basis)
        }
    }
}

/// What the recorder of `fairground play` takes. A handoff is a wake-up and a switch.
fn recorder(result: &mut Calibration, cpu: u32, basis: Basis) {
    let takes = |wanted| {
        let recorded = switches::recorded_handoff(cpu, wanted)?;
        Ok::<_, Error>(recorded.saturating_sub(basis.handoff()))
    };
    let both = takes(|_| true);
    let wake = takes(|program| program == "record_wakeup");
    match (both, wake) {
        (Ok(both), Ok(wake)) => {
            let how = "fairground calibrate: what a recorder adds to a turn of two threads that wake one another";
            result.add("record_wakeup", wake, format!("{how}, of wake-ups alone"));
            let rest = both.saturating_sub(wake);
            result.add("record_switch", rest, format!("{how}, less record_wakeup"));
        }
        (Err(error), _) | (_, Err(error)) => result.notes.push(format!(
            "record_wakeup and record_switch need root: {error}"
        )),
    }
}

fn report_basis(result: &mut Calibration, basis: Basis, under: &str) {
    result.add(
        "wakeup",
        basis.wakeup,
        format!("fairground calibrate: two threads of policy batch that wake one another by futex on one CPU: the wake, less one of nobody, {under}"),
    );
    result.add(
        "context_switch",
        basis.switch,
        format!("fairground calibrate: two threads of policy batch that wake one another by futex on one CPU: a turn, less the wake-up and two futex calls, {under}"),
    );
}

/// What was measured, and on what: for the head of a file.
#[must_use]
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
