//! Which tasks may be deadline tasks: together they must not need more than the CPUs have (`sched_dl_overflow`).

use fairground_machine::Machine;
use fairground_workload::{Policy, Workload};

use super::deadline::ratio;
use crate::constants::SCX_OPS_SWITCH_PARTIAL;
use crate::deadline_server;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// Bandwidth of one CPU of full capacity, as the kernel counts it.
const FULL: u64 = 1 << 20;

/// The bandwidth that deadline tasks may have on CPUs of these capacities: all of it but that of the deadline servers of each CPU.
fn limit(capacities: impl Iterator<Item = u64>, servers: u64) -> u64 {
    let server = ratio(deadline_server::RUNTIME as u64, deadline_server::PERIOD);
    let (count, capacity) =
        capacities.fold((0, 0), |(count, sum), capacity| (count + 1, sum + capacity));
    (FULL * capacity / 1024).saturating_sub(count * servers * server)
}

/// The bandwidth of tasks with this policy, if it is a deadline policy.
fn bandwidth(policy: Policy) -> Option<u64> {
    match policy {
        Policy::Deadline { runtime, period, .. } => Some(ratio(runtime, period)),
        _ => None,
    }
}

fn error_of_affinity(name: &str) -> String {
    format!(
        "{name} may not be a SCHED_DEADLINE task (EPERM): such tasks must be allowed on all CPUs; leave out its \"cpus\""
    )
}

/// The kernel's error for a task that needs `new` beside others that have `others`, if all may have `limit`.
fn error_of_bandwidth(name: &str, new: u64, others: u64, limit: u64) -> Option<String> {
    if others + new <= limit {
        return None;
    }
    let percent = |bandwidth: u64| 100.0 * bandwidth as f64 / FULL as f64;
    Some(format!(
        "{name} may not be a SCHED_DEADLINE task (EBUSY): it needs {:.1} % of a CPU and the others of its kind {:.1} %, and all together may \
         have {:.1} %; lower \"dl-runtime\" or choose a larger --machine",
        percent(new),
        percent(others),
        percent(limit)
    ))
}

/// Checks whether a kernel on this machine lets the tasks that a workload begins with, and each phase by itself, have their deadline policies.
pub fn check_deadline_tasks(workload: &Workload, machine: &Machine) -> Result<(), String> {
    let limit = limit(machine.cpus.iter().map(|cpu| cpu.capacity.into()), 1);
    let all = 0..machine.cpus.len() as u32;
    let check = |name: &str, policy, cpus: Option<&[u32]>, others| {
        let Some(new) = bandwidth(policy) else {
            return Ok(0);
        };
        if cpus.is_some_and(|cpus| !all.clone().all(|cpu| cpus.contains(&cpu))) {
            return Err(error_of_affinity(name));
        }
        match error_of_bandwidth(name, new, others, limit) {
            Some(error) => Err(error),
            None => Ok(new),
        }
    };
    let mut in_use = 0;
    for (definition, instance) in workload.first_tasks() {
        let task = &workload.tasks[definition];
        let name = task.instance_name(instance);
        in_use += check(&name, task.policy, task.cpus.as_deref(), in_use)?;
    }
    for task in &workload.tasks {
        let mut policy = task.policy;
        for (number, phase) in task.phases.iter().enumerate() {
            policy = phase.policy.unwrap_or(policy);
            check(&task.name, policy, task.cpus_in(number), 0)?;
        }
    }
    Ok(())
}

impl Kernel<'_> {
    /// The bandwidth that deadline tasks may have while these CPUs are online.
    fn deadline_limit(&self, online: impl Fn(usize) -> bool) -> u64 {
        let cpus = (0..self.cpus.len()).filter(|&cpu| online(cpu));
        // Under a scheduler that switches partially, the fair class keeps its server.
        let is_partial = self.operations.flags & SCX_OPS_SWITCH_PARTIAL != 0;
        limit(cpus.map(|cpu| self.cpus[cpu].capacity), 1 + u64::from(is_partial))
    }

    /// The bandwidth that deadline tasks have, without `except`. Unlike a kernel, which waits until the runtime of the current period cannot be
    /// used any more, this does not count tasks that have just ended or left the class.
    fn deadline_bandwidth(&self, except: Option<TaskRef>) -> u64 {
        let tasks = self.tasks.workload().iter();
        let tasks = tasks.filter(|task| Some(**task) != except && task.deadline.runtime > 0);
        let ratios = tasks.map(|task| ratio(task.deadline.runtime, task.deadline.period));
        ratios.sum()
    }

    /// Whether a CPU may go offline: the others have to suffice for the deadline tasks (`dl_bw_deactivate`).
    pub(crate) fn bandwidth_suffices_without(&self, cpu: usize) -> bool {
        let in_use = self.deadline_bandwidth(None);
        let online = |other: usize| other != cpu && self.cpus[other].online;
        in_use == 0 || in_use <= self.deadline_limit(online)
    }

    /// Why the kernel would refuse to give `task` this policy, if it would (`__sched_setscheduler`).
    pub(crate) fn refusal_of(&self, task: TaskRef, policy: Policy) -> Option<String> {
        let new = bandwidth(policy)?;
        if !self.covers_online_cpus(|cpu| task.seen.cpus_mask.test(cpu)) {
            return Some(error_of_affinity(&task.name));
        }
        let limit = self.deadline_limit(|cpu| self.cpus[cpu].online);
        let others = self.deadline_bandwidth(Some(task));
        error_of_bandwidth(&task.name, new, others, limit)
    }

    /// Whether every CPU that is online is allowed.
    pub(crate) fn covers_online_cpus(&self, allowed: impl Fn(usize) -> bool) -> bool {
        (0..self.cpus.len()).all(|cpu| !self.cpus[cpu].online || allowed(cpu))
    }
}
