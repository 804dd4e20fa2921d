//! The faults of a scheduler, as data.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Status;

/// Something that is wrong with a scheduler, told once for all cases that show it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fault {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// How its runs ended.
    pub status: Status,
    /// The kind, as in [`crate::Failure`].
    pub kind: String,
    /// The mistake that it points to; empty if nothing is known but the message.
    pub diagnosis: String,
    /// The fault in the first of the cases, the task that suffers and the reason, as a sentence behind the scheduler's name.
    pub message: String,
    /// Schedulers that many begin with, and which have the same fault in the same cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<String>,
    /// Names of the cases that show it.
    pub cases: Vec<String>,
    /// The purpose of the first of the cases, or when a hunt found it.
    pub about: String,
    /// The command that shows it again.
    pub command: String,
}

/// Cases that a scheduler does not go through, because they are about a callback that it lacks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The scheduler, with its settings.
    pub scheduler: String,
    /// Name of the callback.
    pub callback: String,
    /// Names of the cases.
    pub cases: Vec<String>,
}

impl LeftOut {
    /// Those of a scheduler.
    pub fn of<'a>(all: &'a [Self], scheduler: &str) -> impl Iterator<Item = &'a Self> {
        all.iter().filter(move |one| one.scheduler == scheduler)
    }

    /// How many cases a scheduler did not go through.
    pub fn count(all: &[Self], scheduler: &str) -> usize {
        Self::of(all, scheduler).map(|one| one.cases.len()).sum()
    }
}

/// The result of a check of schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Checkup {
    /// The schedulers, with their settings.
    pub schedulers: Vec<String>,
    /// How many cases there were; 0 for a hunt.
    pub cases: usize,
    /// Those that schedulers did not go through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Faults, in the order of the schedulers; those that are shared come after a scheduler's own.
    pub faults: Vec<Fault>,
    /// How many runs a hunt made under each scheduler; empty if they went through the cases of the gauntlet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hunts: Vec<usize>,
    /// How many faulty runs are left out because a former result has them as well.
    pub known: usize,
    /// The same for each scheduler; empty if there is no former result.
    #[serde(skip)]
    pub known_of: Vec<usize>,
}
