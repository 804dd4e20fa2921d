//! Runs that failed, or starved a task: the messages about them, and the exit code.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use fairground_lab::{Failed, Failure, Plan, Results};
use fairground_metrics::Explanation;
use fairground_report::why;
use fairground_results::format::time;
use fairground_results::{Run, Status};

use crate::annotations;
use crate::output::{FAILED, UNUSABLE};
use crate::simulation::{Simulation, Single};

/// Adds to the result of each starved run why the task waited, as far as it was found out, and the command that tells all of it.
pub fn explain(simulation: &Simulation, plan: &Plan, results: &mut Results) {
    for failed in &mut results.failures {
        let run = &mut results.comparison.runs[failed.run];
        let Some(failure) = &mut run.failure else { continue };
        if let Some(wait) = &failed.wait {
            let cause = match is_of_wait(failed, wait) {
                true => format!(": {}", why(wait)),
                false => format!(
                    "; {} waited for {}: {}",
                    wait.task,
                    time(wait.to_ns - wait.from_ns),
                    why(wait)
                ),
            };
            failed.failure.message.push_str(&cause);
            failure.message.push_str(&cause);
            failure.explain = Some(command(simulation, plan, failed.run, &wait.task));
        }
    }
}

/// Whether a failure is about this wait, rather than about something that the wait explains or about several things.
fn is_of_wait(failed: &Failed, wait: &Explanation) -> bool {
    match failed.breaches.as_slice() {
        [] => true,
        [breach] => {
            let began = breach.episode.and_then(|episode| episode.wait_from_ns);
            began == Some(wait.from_ns)
                && breach.task.as_deref().is_none_or(|task| task == wait.task)
        }
        _ => false,
    }
}

/// The command that explains the longest wait of `task` in the run with this number.
fn command(simulation: &Simulation, plan: &Plan, run: usize, task: &str) -> String {
    let place = plan.place(run);
    let run = Single {
        command: "explain",
        workload: &simulation.workloads[place.workload],
        contender: plan.contender(place),
        machine: &plan.sites[place.site].machine.description,
        duration: simulation.duration,
        seed: plan.settings.seed.wrapping_add(u64::from(place.repeat)),
    };
    let words = ["--task", task, "--most", "1"];
    format!("{} {}", simulation.command(&run), crate::simulation::quoted_all(&words))
}

/// Says which runs failed and why, in one line each. A failure that is the same for other seeds or workloads is told once. Nothing is said if
/// standard output is the same terminal and says it already.
pub fn tell(plan: &Plan, failures: &[&Failure], said_in_table: bool) {
    if is_said(said_in_table) {
        return;
    }
    for (first, text) in in_words(failures) {
        annotations::tell(plan, &first.scheduler, &text);
    }
}

/// The first of each kind of failure, with a line about them all.
pub fn in_words<'a>(failures: &[&'a Failure]) -> Vec<(&'a Failure, String)> {
    let line = |(first, count): (&'a Failure, usize)| {
        let more = match count {
            1 => String::new(),
            count => format!(" ({count} runs)"),
        };
        (first, format!("{} {}{more}", first.place(), first.sentence()))
    };
    kinds(failures).into_iter().map(line).collect()
}

/// Whether standard output is the same terminal as that for messages, and a table on it has them.
pub fn is_said(said_in_table: bool) -> bool {
    said_in_table && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Prints further facts about failures: the kernel's debug dumps, and all that the compiler says.
pub fn tell_details(failures: &[&Failure]) {
    for (first, _) in kinds(failures) {
        if !first.dump.is_empty() {
            crate::output::say!("{}", first.dump.trim_end());
        }
    }
}

/// The first of each kind of failure, and how many there are of it.
fn kinds<'a>(failures: &[&'a Failure]) -> Vec<(&'a Failure, usize)> {
    let mut found: Vec<(&Failure, usize)> = Vec::new();
    for failure in failures {
        let known = found.iter_mut().find(|(one, _)| is_repeated(one, failure));
        match known {
            Some((_, count)) => *count += 1,
            None => found.push((failure, 1)),
        }
    }
    found
}

fn is_repeated(one: &Failure, other: &Failure) -> bool {
    one.scheduler == other.scheduler
        && one.status == other.status
        && match one.status {
            // A fault of the scheduler itself has nothing to do with the workload.
            Status::Invalid | Status::Refused => one.message == other.message,
            Status::Starved | Status::Unmet => {
                one.workload == other.workload && one.kind == other.kind
            }
            _ => one.workload == other.workload && one.is_like(other),
        }
}

/// Why the failed runs of this scheduler, the baseline of a gate, are no reason to fail, by their places.
pub fn of_scheduler(plan: &Plan, runs: &[Run], baseline: Option<&str>) -> BTreeMap<usize, String> {
    let title = |number| plan.contender(plan.place(number)).title();
    let is_it = |(number, _): &(usize, &Run)| baseline.is_some_and(|it| title(*number) == it);
    let failed = runs.iter().enumerate().filter(is_it).filter_map(|(number, run)| {
        let failure = run.failure.as_ref()?;
        Some((number, format!("the baseline {}", failure.message)))
    });
    failed.collect()
}

/// The exit code: 0 if all is well but for runs that are excused, 1 if a run failed or starved a task, 2 if nothing could be run.
pub fn exit_code(runs: &[Run], excused: &BTreeMap<usize, String>) -> ExitCode {
    let is_well = |(number, run): (usize, &Run)| run.is_ok() || excused.contains_key(&number);
    if runs.iter().enumerate().all(is_well) {
        ExitCode::SUCCESS
    } else if runs.iter().all(|run| run.status.never_began()) {
        ExitCode::from(UNUSABLE)
    } else {
        ExitCode::from(FAILED)
    }
}

/// The failures of a comparison.
pub fn of(failed: &[Failed]) -> Vec<&Failure> {
    failed.iter().map(|one| &one.failure).collect()
}
