//! Running a plan.

use std::cmp::Reverse;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairground_events::{Nanoseconds, PerfettoWriter, Sink};
use fairground_metrics::{MachineFacts, Metrics};
use fairground_report::{Comparison, Labels, Run};
use fairground_simulator::{ExitKind, Options, Outcome, simulate};

use crate::crash;
use crate::error::Error;
use crate::parallel;
use crate::plan::{Job, Plan};

/// Lines of a scheduler that become notes of its run.
const NOTED_LINES: usize = 10;

/// What came of a plan.
pub struct Results {
    /// All runs, in the order of the plan. A run that failed holds what was measured until then, and a note.
    pub comparison: Comparison,
    /// The runs that failed, in the order of the plan.
    pub failures: Vec<Failure>,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// When and what: `after 3 s: the kernel ejected it ...`.
    pub message: String,
    /// The kernel's debug dump; empty if there is none.
    pub dump: String,
}

/// Runs every simulation of the plan, as many at once as it says. `progress` is told after each one how many of how many are
/// done, from any thread.
///
/// # Errors
///
/// If the plan makes no sense, or a trace cannot be written. A run that fails is not an error: see [`Results::failures`].
pub fn compare(plan: &Plan, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Results, Error> {
    plan.check()?;
    if let Some(folder) = &plan.traces {
        std::fs::create_dir_all(folder).map_err(|cause| Error::Write {
            path: folder.clone(),
            cause,
        })?;
    }
    let jobs = plan.jobs();
    let mut comparison = Comparison::default();
    let mut failures = Vec::new();
    let done = AtomicUsize::new(0);
    let results = parallel::map(&longest_first(plan, &jobs), plan.threads, |index| {
        let result = run(plan, &jobs[index]);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        result
    });
    for result in results {
        let (run, failure) = result?;
        comparison.runs.extend(run);
        failures.extend(failure);
    }
    Ok(Results {
        comparison,
        failures,
    })
}

type JobResult = Result<(Option<Run>, Option<Failure>), Error>;

/// Indices of the jobs, those that are likely to take longest first: if such a one began last, one thread would work on it
/// while all others wait. What a job takes grows with the time that it simulates and with its tasks.
fn longest_first(plan: &Plan, jobs: &[Job<'_>]) -> Vec<usize> {
    let effort = |index: &usize| {
        let workload = &jobs[*index].workload;
        let (duration, _) = plan.duration_of(workload);
        duration
            .unwrap_or(Nanoseconds::MAX)
            .saturating_mul(workload.tasks.len() as u64)
    };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_cached_key(|index| Reverse(effort(index)));
    order
}

fn run(plan: &Plan, job: &Job<'_>) -> JobResult {
    let _reporter = crash::Reporter::install();
    let (duration, duration_note) = plan.duration_of(job.workload);
    let seed = plan.seed.wrapping_add(u64::from(job.repeat));
    let mut options = Options::new(plan.machine.clone(), job.workload.clone());
    options.duration = duration;
    options.cost = plan.cost.clone();
    options.seed = seed;
    options.hz = plan.hz;
    options.variables = job.contender.variables.clone();
    options.hotplug = plan.hotplug.clone();
    options.surroundings = plan.surroundings.clone();

    let mut metrics = Metrics::new(
        MachineFacts {
            capacities: plan.machine.cpus.iter().map(|cpu| cpu.capacity).collect(),
        },
        fairground_metrics::Options::default(),
    );
    let outcome = match &plan.traces {
        Some(folder) => {
            simulate_with_trace(job, &options, &mut metrics, &folder.join(job.trace_name()))?
        }
        None => simulate_one(job, &options, vec![&mut metrics]),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return Ok((None, Some(failure))),
    };

    let failure = failure_of(job, &outcome);
    let mut notes = job.workload.notes.clone();
    notes.extend(duration_note);
    notes.extend(failure.as_ref().map(|failure| {
        format!(
            "{} FAILED {}; its figures end there",
            failure.scheduler, failure.message
        )
    }));
    notes.extend(messages_of(job, &outcome));
    let run = Run {
        labels: Labels {
            workload: job.workload.name.clone(),
            scheduler: job.contender.name().to_owned(),
            machine: plan.machine.description.clone(),
            cost_model: Some(plan.cost.name.clone()),
            seed: Some(seed),
            repeat: job.repeat,
            tunables: job.contender.tunables.clone(),
            duration_ns: duration,
        },
        metrics: metrics.result(),
        notes,
    };
    Ok((Some(run), failure))
}

fn simulate_one(
    job: &Job<'_>,
    options: &Options,
    sinks: Vec<&mut dyn Sink>,
) -> Result<Outcome, Failure> {
    let scheduler = &job.contender.scheduler;
    crash::while_running(job.contender.name(), scheduler, || {
        simulate(scheduler, options, sinks)
    })
    .map_err(|error| Failure {
        workload: job.workload.name.clone(),
        scheduler: job.contender.name().to_owned(),
        message: format!("before it began: {error}"),
        dump: String::new(),
    })
}

/// As [`simulate_one`], with a Perfetto trace.
fn simulate_with_trace(
    job: &Job<'_>,
    options: &Options,
    metrics: &mut Metrics,
    path: &Path,
) -> Result<Result<Outcome, Failure>, Error> {
    let unwritten = |cause| Error::Write {
        path: path.to_owned(),
        cause,
    };
    let file = File::create(path).map_err(unwritten)?;
    let mut trace = PerfettoWriter::new(
        BufWriter::new(file),
        &job.workload.name,
        options.machine.cpu_count(),
    );
    let outcome = simulate_one(job, options, vec![metrics, &mut trace]);
    trace.close().map_err(unwritten)?;
    Ok(outcome)
}

/// Whether and why the run ended before its time.
fn failure_of(job: &Job<'_>, outcome: &Outcome) -> Option<Failure> {
    let exit = &outcome.exit;
    let what = match (exit.kind, &outcome.failure) {
        (ExitKind::Unregistered, None) => return None,
        (ExitKind::Unregistered, Some(failure)) => failure.clone(),
        (kind, _) => {
            let verb = if kind.is_error() {
                "ejected"
            } else {
                "unloaded"
            };
            let message = match exit.message.as_str() {
                "" => String::new(),
                message => format!(": {message}"),
            };
            format!(
                "the kernel {verb} the scheduler ({}): {}{message}",
                kind.name(),
                exit.reason
            )
        }
    };
    Some(Failure {
        workload: job.workload.name.clone(),
        scheduler: job.contender.name().to_owned(),
        message: format!("after {}: {what}", seconds(outcome.end)),
        dump: exit.dump.clone(),
    })
}

/// A time as seconds with all digits that matter.
fn seconds(nanoseconds: u64) -> String {
    let text = format!(
        "{}.{:09}",
        nanoseconds / 1_000_000_000,
        nanoseconds % 1_000_000_000
    );
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// What scheduler and kernel printed, as notes.
fn messages_of(job: &Job<'_>, outcome: &Outcome) -> Vec<String> {
    let name = job.contender.name();
    let mut notes: Vec<String> = outcome
        .messages
        .iter()
        .take(NOTED_LINES)
        .map(|message| format!("{name} says: {}", message.trim_end()))
        .collect();
    if outcome.messages.len() > NOTED_LINES {
        notes.push(format!(
            "{name} says {} more lines",
            outcome.messages.len() - NOTED_LINES
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_the_digits_that_matter() {
        assert_eq!(seconds(0), "0 s");
        assert_eq!(seconds(1_500_000_000), "1.5 s");
        assert_eq!(seconds(30_000_000_001), "30.000000001 s");
    }
}
