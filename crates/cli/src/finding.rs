//! The faults that runs show, in words, and what counts as one.

use fairground_lab::{Finding, Plan};
use fairground_metrics::Explanation;
use fairground_report::{diagnosis, why};
use fairground_results::{Patience, Requirement};

use crate::gauntlet;
use crate::simulation::quoted;

/// The requirements: those given, and those of the usual ones that are on other measures.
pub fn replaced(given: &[Requirement], usual: &[Requirement]) -> Vec<Requirement> {
    let kept = gauntlet::on_other_measures(given, usual);
    given.iter().cloned().chain(kept).collect()
}

/// The options that say when a run of a plan fails, as part of a command.
pub fn judging(plan: &Plan) -> String {
    let mut text = match plan.patience {
        Patience::Wait(bound) => format!(" --starved {bound}ns"),
        Patience::Off => " --starved off".to_owned(),
        _ => String::new(),
    };
    for requirement in &plan.requirements {
        text.push_str(&format!(" --require {}", quoted(&requirement.to_string())));
    }
    text
}

/// Shorter waits, in nanoseconds, explain nothing.
const LEAST_WAIT: u64 = 1_000_000;

/// Why the task waited that a finding is about.
fn cause(finding: &Finding) -> Option<&Explanation> {
    let is_long = |wait: &&Explanation| wait.to_ns - wait.from_ns >= LEAST_WAIT;
    finding.wait.as_ref().filter(is_long)
}

/// The mistake that a finding on a machine of this many CPUs points to; empty if nothing is known.
pub fn mistake(finding: &Finding, cpus: u32) -> String {
    if let Some(breach) = &finding.breach {
        let known = match breach.measure.as_str() {
            _ if breach.is_excess() => "a task gets more CPU time than its weight is worth",
            "migrations" => "tasks leave CPUs on which they could have stayed",
            _ if breach.is_about_costs() => {
                "scheduling takes far more CPU time than the load needs, as where many CPUs are kicked for one task"
            }
            _ => "",
        };
        if !known.is_empty() {
            return known.to_owned();
        }
    }
    cause(finding).map_or_else(String::new, |wait| diagnosis(wait, cpus))
}

/// The fault, and its reason.
pub fn sentence(finding: &Finding) -> String {
    let cause = cause(finding).map(|wait| format!(": {}", why(wait)));
    format!("{}{}", finding.failure.sentence(), cause.unwrap_or_default())
}
