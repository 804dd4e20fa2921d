//! Evidence why the results of a comparison are as they are. Simulations are deterministic, so the decisive ones are run again.

use std::collections::BTreeMap;

use fairground_metrics::{
    Distribution, Explanation, LongWait, LongestWait, RunMetrics, TaskMetrics,
};
use fairground_results::{AllEvidence, Comparison, Decision, Evidence, Measure, Reason, Run};

use crate::cell::Cell;
use crate::error::Error;
use crate::explain::explain_waits;
use crate::moments::moments;
use crate::parallel;
use crate::plan::{Cells, Plan};

impl Plan {
    /// For each workload and machine, the decisive waits among its runs in `comparison`, which has all runs of the plan.
    pub fn evidence(&self, comparison: &Comparison) -> Result<AllEvidence, Error> {
        let cells = Cells::of(self);
        let tables = self.workload_count() * self.sites.len();
        let each = self.run_count() / tables.max(1);
        let order: Vec<usize> = (0..tables).collect();
        let found = parallel::map(&order, self.threads, |table| {
            let numbers = table * each..(table + 1) * each;
            let mine: Vec<Cell> = numbers.clone().map(|number| cells.get(number)).collect();
            let runs = comparison.runs[numbers].iter();
            let alternatives: Vec<(&Cell, &Run)> = mine.iter().zip(runs).collect();
            let options = &mine[0].options;
            let key = (options.workload.name.clone(), options.machine.description.clone());
            let found = Evidence {
                moments: moments(&alternatives)?,
                reasons: reasons(&alternatives, self.repeats as usize)?,
            };
            Ok((key, found))
        });
        found.into_iter().collect()
    }
}

/// Why the last scheduler in each measure is the last. `alternatives` are cells with their results, ordered by scheduler, with `repeats` of each.
fn reasons(alternatives: &[(&Cell, &Run)], repeats: usize) -> Result<Vec<Reason>, Error> {
    let runs: Vec<&Run> = alternatives.iter().map(|(_, run)| *run).collect();
    let rows: Vec<&[&Run]> = runs.chunks(repeats.max(1)).collect();
    // The waits to explain, by the number of the run, so that each is simulated once.
    let mut wanted: BTreeMap<usize, Vec<(&'static str, LongestWait)>> = BTreeMap::new();
    for measure in Measure::in_summaries() {
        let decision = Decision::of(&rows, measure);
        let Some(last) = decision.and_then(|decision| decision.last()) else { continue };
        if let Some((run, wait)) = decisive_wait(measure.id, rows[last]) {
            let waits = wanted.entry(last * repeats + run).or_default();
            waits.push((measure.id, wait));
        }
    }
    let mut reasons = Vec::new();
    for (run, wanted) in wanted {
        let waits: Vec<LongestWait> = wanted.iter().map(|(_, wait)| wait.clone()).collect();
        let cell = alternatives[run].0;
        let (explained, seed) = (explain_waits(cell, &waits)?, cell.options.seed);
        for (measure, wait) in wanted {
            let is_it = |one: &&_| is_of(one, &wait);
            let found = explained.iter().find(is_it).cloned();
            reasons.extend(found.map(|wait| Reason { measure, wait, seed }));
        }
    }
    Ok(reasons)
}

fn is_of(explained: &Explanation, wait: &LongestWait) -> bool {
    explained.task == wait.task && explained.from_ns == wait.from_ns
}

/// Whether a task can decide the measure: if it has less than a hundredth of all wake-ups, a percentile of 99 is that of others.
fn counts(measure: &str, task: &TaskMetrics, run: &RunMetrics) -> bool {
    let of = |latency: Option<Distribution>| latency.map_or(0, |latency| latency.samples);
    measure != "wakeup_p99" || of(task.wakeup_latency) * 100 >= of(run.wakeup_latency)
}

/// The wait beside the longest idleness of the run that lost most time so, if that is more than it lost to overhead.
fn wait_beside_idle(runs: &[&Run]) -> Option<(usize, LongestWait)> {
    let metrics = runs.iter().enumerate();
    let metrics = metrics.filter_map(|(number, run)| Some((number, run.metrics.as_deref()?)));
    let (number, worst) = metrics.max_by_key(|(_, one)| one.cpu_time.idle_while_runnable_ns)?;
    let lost = worst.cpu_time;
    if lost.idle_while_runnable_ns <= lost.overhead_ns {
        return None;
    }
    let waits = worst.tasks.iter().filter_map(|task| Some((task, task.idle_beside?)));
    let (task, idle) = waits.max_by_key(|(_, idle)| idle.length_ns)?;
    let wait = LongestWait {
        task: task.name.clone(),
        from_ns: idle.wait_from_ns,
        to_ns: idle.from_ns + idle.length_ns,
    };
    Some((number, wait))
}

/// The wait that shows best why a measure is as it is in repeated runs: of the run and task that do worst in the measure. None
/// where no wait need be the cause.
fn decisive_wait(measure: &str, runs: &[&Run]) -> Option<(usize, LongestWait)> {
    if ["throughput", "makespan"].contains(&measure) {
        return wait_beside_idle(runs);
    }
    let badness: fn(&TaskMetrics) -> Option<f64> = match measure {
        "jain_index" | "window_spread" => |task| {
            let share = task.share?;
            (share.actual < share.ideal).then(|| 1.0 - share.actual / share.ideal)
        },
        "wakeup_p99" => |task| Some(task.wakeup_latency?.p99_ns as f64),
        "longest_wait" => |task| Some(task.longest_wait?.length_ns as f64),
        "missed_periods" => |task| task.periods?.missed_part().filter(|part| *part > 0.0),
        _ => return None,
    };
    let wait = |task: &TaskMetrics| -> Option<LongWait> {
        match measure {
            "jain_index" | "window_spread" => task.worst_wait.or(task.longest_wait),
            // Another wait than one after a wake-up is not about its latency.
            "wakeup_p99" => task
                .longest_wait
                .filter(|wait| task.wakeup_latency.is_some_and(|one| one.max_ns == wait.length_ns)),
            _ => task.longest_wait,
        }
    };
    let mut worst: Option<(f64, usize, &TaskMetrics)> = None;
    for (number, run) in runs.iter().enumerate() {
        let Some(metrics) = &run.metrics else { continue };
        for task in metrics.tasks.iter().filter(|task| counts(measure, task, metrics)) {
            let Some(bad) = badness(task) else { continue };
            if worst.is_none_or(|(most, ..)| bad > most) {
                worst = Some((bad, number, task));
            }
        }
    }
    let (_, number, task) = worst?;
    let wait = wait(task)?;
    let wait = LongestWait {
        task: task.name.clone(),
        from_ns: wait.from_ns,
        to_ns: wait.from_ns + wait.length_ns,
    };
    Some((number, wait))
}
