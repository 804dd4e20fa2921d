//! The faults of a scheduler: many small plans, each with its requirements, judged and explained.

use std::num::NonZero;

use fairground_metrics::{Cause, Explanation, Place, RunMetrics};
use fairground_results::{Breach, Lack, Run, Status};

use crate::cell::{Cell, CellResult, Failure, NO_TASKS, STALL, run_cells};
use crate::contender::Contender;
use crate::error::Error;
use crate::explain::{beside_background, why_it_waited};
use crate::parallel;
use crate::plan::{Cells, Plan};

/// A run of one of several plans, as it was judged.
pub struct Judged {
    /// Index of its plan.
    pub plan: usize,
    /// Its number in that plan.
    pub number: usize,
    /// The run.
    pub run: Run,
    /// Faults, the worst first; empty if there are none.
    pub findings: Vec<Finding>,
    /// The requirements that it neither meets nor breaks, and why.
    pub undecided: Vec<(String, Lack)>,
}

/// Something that is wrong with a run.
pub struct Finding {
    /// The failure.
    pub failure: Failure,
    /// The requirement that is not met, if it is one.
    pub breach: Option<Breach>,
    /// Why the task that it is about waited, if it is about a wait.
    pub wait: Option<Explanation>,
}

/// Runs all plans, and explains the faults of each run. Requirements that one wait breaks are one finding. `is_wanted` tells whether a plan, by its
/// index, is for a scheduler. `progress` is called with the number of finished runs and the total, from any thread.
pub fn check(
    plans: &[Plan],
    is_wanted: &dyn Fn(usize, &Contender) -> bool,
    threads: Option<NonZero<usize>>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Judged>, Error> {
    Plan::check_all(plans)?;
    let (mut cells, mut places) = (Vec::new(), Vec::new());
    for (index, plan) in plans.iter().enumerate() {
        let of_plan = Cells::of(plan);
        for number in 0..plan.run_count() {
            if !is_wanted(index, plan.contender(plan.place(number))) {
                continue;
            }
            let mut cell = of_plan.get(number);
            cell.options.most_events = Some(MOST_EVENTS);
            cells.push(cell);
            places.push((index, number));
        }
    }
    let results = run_cells(&cells, threads, progress, |_, result| result)?;
    let order: Vec<usize> = (0..cells.len()).collect();
    let findings = parallel::map(&order, threads, |index| findings(&cells[index], &results[index]));
    let mut judged = Vec::new();
    for (((plan, number), result), findings) in places.into_iter().zip(results).zip(findings) {
        let CellResult { run, undecided, .. } = result;
        judged.push(Judged { plan, number, run, findings: findings?, undecided });
    }
    Ok(judged)
}

/// A run of a check that has more events than this does not end; no case has as many under a documented scheduler.
const MOST_EVENTS: u64 = 4_000_000;

/// The task that waited for longest when the run ended, and since when.
fn longest_to_the_end(run: &RunMetrics) -> Option<(String, u64)> {
    let lasting = run.tasks.iter().filter_map(|task| {
        let wait = task.longest_wait.filter(|wait| !wait.ended)?;
        Some((wait.length_ns, task.name.clone(), wait.from_ns))
    });
    let longest = lasting.reduce(|one, other| if other.0 > one.0 { other } else { one });
    longest.map(|(_, task, from)| (task, from))
}

/// The faults of a run.
pub(crate) fn findings(cell: &Cell, result: &CellResult) -> Result<Vec<Finding>, Error> {
    if let Some(none) = result.untold.iter().find(|one| one.kind == NO_TASKS) {
        // All else is about the kernel's own class.
        return Ok(vec![Finding { failure: none.clone(), breach: None, wait: None }]);
    }
    let metrics = result.run.metrics.as_deref();
    let mut told = Vec::new();
    let mut found = Vec::new();
    if let Some(failure) = &result.failure
        && failure.status != Status::Unmet
    {
        let starvation = metrics.and_then(|metrics| cell.patience.exceeded_in(metrics));
        let wait = match failure.status {
            Status::Starved => starvation.map(|one| (one.task, one.wait.from_ns)),
            Status::Ejected if failure.kind == STALL => metrics.and_then(longest_to_the_end),
            _ => None,
        };
        told.extend(wait.clone());
        found.push((failure.clone(), None, wait));
    }
    // The measures until the kernel ended a run belong to the reason why it did, and where a task starves, shares are uneven.
    let status = found.first().map(|(failure, ..)| failure.status);
    let is_own = |breach: &&Breach| match status {
        None => true,
        Some(status) => status == Status::Starved && !breach.is_about_shares(),
    };
    for breach in result.breaches.iter().filter(is_own) {
        let wait = metrics.and_then(|metrics| breach.wait(metrics));
        if wait.as_ref().is_some_and(|wait| told.contains(wait)) {
            continue;
        }
        told.extend(wait.clone());
        let failure = cell.unmet(std::slice::from_ref(breach));
        found.extend(failure.map(|failure| (failure, Some(breach.clone()), wait)));
    }
    found.extend(result.untold.iter().map(|failure| (failure.clone(), None, None)));
    let explained = found.into_iter().map(|(mut failure, breach, wait)| {
        let wait = match wait {
            Some((task, from_ns)) => why_it_waited(cell, &task, from_ns)?,
            None => None,
        };
        if let (Some(wait), Status::Starved) = (&wait, failure.status) {
            let told = beside_background(cell, wait)?;
            failure.message.push_str(told.unwrap_or_default());
        }
        Ok(Finding { failure, breach, wait })
    });
    let all: Result<Vec<Finding>, Error> = explained.collect();
    Ok(all?.into_iter().filter(Finding::is_of_scheduler).collect())
}

impl Finding {
    /// The kind of its reason, which a smaller case has as well.
    pub(crate) fn reason(&self) -> String {
        reason_of(self.wait.as_ref())
    }

    /// Whether the scheduler could have done otherwise: all CPUs of a task that starved may have been those of real-time tasks, which the kernel places,
    /// or the task belonged to another class, as all do between two loads of a scheduler.
    fn is_of_scheduler(&self) -> bool {
        let cause = self.wait.as_ref().map(|wait| wait.cause);
        let is_behind_real_time = matches!(cause, Some(Cause::RealTime { cpu: None, .. }));
        let place = Place::Kernel;
        let stays = self.wait.iter().flat_map(|wait| &wait.places);
        let is_elsewhere = cause == Some(Cause::Lay { place })
            || cause.is_some()
                && stays.clone().count() > 0
                && stays.clone().all(|stay| matches!(stay.place, Place::Kernel | Place::Way));
        !(is_elsewhere || self.failure.status == Status::Starved && is_behind_real_time)
    }
}

/// The kind of the reason for a wait: where the task lay, and whether a CPU that it may use was idle meanwhile; empty if there was no wait.
fn reason_of(wait: Option<&Explanation>) -> String {
    let Some(wait) = wait else { return String::new() };
    let half = (wait.to_ns - wait.from_ns).div_ceil(2).max(1);
    let is_beside_idle = wait.cpus.iter().any(|cpu| cpu.idle_ns >= half);
    let place = match wait.cause {
        Cause::RealTime { .. } => "behind real-time tasks",
        Cause::Server { .. } => "behind the deadline server",
        Cause::Others { .. } => "behind others",
        Cause::Throttled { .. } => "without runtime",
        Cause::Quota { .. } => "without quota",
        Cause::Lay { place } => match place {
            Place::Kernel => "in another class",
            Place::Way => "on its way",
            Place::Scheduler => "in the scheduler's data",
            Place::Local { .. } => "in a local queue",
            Place::Global { .. } | Place::Queue { .. } => "in a queue",
        },
    };
    let beside = if is_beside_idle { ", beside an idle CPU" } else { "" };
    format!("{place}{beside}")
}

#[cfg(test)]
mod tests {
    use fairground_metrics::CpuUse;

    use super::*;

    /// A wait for 100 ns for this reason, beside a CPU that was idle for part of it.
    fn wait(cause: Cause, idle_ns: u64) -> Explanation {
        let cpu = CpuUse { cpu: 1, ran: Vec::new(), idle_ns, overhead_ns: 0, offline_ns: 0 };
        Explanation {
            task: "a".to_owned(),
            from_ns: 100,
            to_ns: 200,
            ran: true,
            cause,
            places: Vec::new(),
            cpus: vec![cpu],
            steps: Vec::new(),
            steps_left_out: 0,
        }
    }

    #[test]
    fn reasons_are_where_a_task_lay_and_whether_a_cpu_was_idle_beside_it() {
        let reason = |place, idle_ns| reason_of(Some(&wait(Cause::Lay { place }, idle_ns)));
        let (one, other) = (Place::Queue { id: 7 }, Place::Queue { id: 8 });
        assert_eq!(reason(one, 50), reason(other, 100));
        assert_ne!(reason(one, 49), reason(one, 50));
        assert_ne!(reason(one, 0), reason(Place::Local { cpu: 1 }, 0));
        assert_eq!(reason_of(None), "");
    }

    #[test]
    fn a_wait_in_another_class_is_no_fault_of_the_scheduler() {
        let finding = |place| Finding {
            failure: Failure {
                workload: String::new(),
                machine: String::new(),
                scheduler: String::new(),
                status: Status::Starved,
                kind: "lost".to_owned(),
                message: String::new(),
                after_ns: None,
                dump: String::new(),
            },
            breach: None,
            wait: Some(wait(Cause::Lay { place }, 0)),
        };
        assert!(!finding(Place::Kernel).is_of_scheduler());
        assert!(finding(Place::Scheduler).is_of_scheduler());
    }
}
