//! Scheduling parameters of tasks and phases.

use crate::error::Error;
use crate::model::Policy;
use crate::notes::Remark;
use crate::object::{Field, Object};

/// Keys of scheduling parameters that tasks and phases share.
pub(crate) const KEYS: [&str; 7] =
    ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline", "util_min", "util_max"];

/// Maximum microseconds that fit rt-app's integers.
pub(crate) const MICROSECONDS_MAX: i64 = i32::MAX as i64;

/// The least runtime that the kernel takes, nanoseconds (`__checkparam_dl`).
const RUNTIME_MIN: i64 = 1024;

/// The periods that it takes, microseconds (`sched_deadline_period_min_us`, `sched_deadline_period_max_us`).
const PERIODS: std::ops::RangeInclusive<i64> = 100..=1 << 22;

/// A policy without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyName {
    Other,
    Batch,
    Idle,
    Ext,
    Fifo,
    RoundRobin,
    Deadline,
}

const NAMES: [(&str, PolicyName); 7] = [
    ("SCHED_OTHER", PolicyName::Other),
    ("SCHED_BATCH", PolicyName::Batch),
    ("SCHED_IDLE", PolicyName::Idle),
    ("SCHED_EXT", PolicyName::Ext),
    ("SCHED_FIFO", PolicyName::Fifo),
    ("SCHED_RR", PolicyName::RoundRobin),
    ("SCHED_DEADLINE", PolicyName::Deadline),
];

impl PolicyName {
    /// Reads the name of a policy.
    pub fn read(field: &Field) -> Result<Self, Error> {
        let text = field.string()?;
        match NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, policy)) => Ok(*policy),
            None => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                Err(field.mismatch(&format!("one of {}", names.join(", "))))
            }
        }
    }

    fn of(policy: Policy) -> Self {
        match policy {
            Policy::Other { .. } => Self::Other,
            Policy::Batch { .. } => Self::Batch,
            Policy::Idle => Self::Idle,
            Policy::Ext { .. } => Self::Ext,
            Policy::Fifo { .. } => Self::Fifo,
            Policy::RoundRobin { .. } => Self::RoundRobin,
            Policy::Deadline { .. } => Self::Deadline,
        }
    }
}

/// Parameters as an object gives them.
struct Parameters<'a> {
    object: &'a Object<'a>,
    policy: Option<PolicyName>,
    priority: Option<(i64, Field<'a>)>,
    /// In microseconds, with the place where it was given.
    runtime: Option<(i64, Field<'a>)>,
    period: Option<(i64, Field<'a>)>,
    deadline: Option<(i64, Field<'a>)>,
}

/// The policy a task starts with.
///
/// `legacy_runtime` says that `runtime` is only the old name of `dl-runtime` here, because the task has its events in phases; otherwise it is
/// an event and, as in rt-app, also the parameter.
pub(crate) fn of_task(
    object: &Object,
    default: PolicyName,
    legacy_runtime: bool,
) -> Result<Policy, Error> {
    let mut parameters = Parameters::read(object)?;
    let name = parameters.policy.unwrap_or(default);
    if parameters.runtime.is_none() && (legacy_runtime || name == PolicyName::Deadline) {
        parameters.runtime = microseconds(object, "runtime")?;
    }
    if parameters.period.is_none() {
        parameters.period = microseconds(object, "period")?;
    }
    if let (PolicyName::Deadline, false, Some((_, field)), None) =
        (name, legacy_runtime, &parameters.runtime, &parameters.period)
        && !object.has("dl-runtime")
    {
        return Err(field.error("is an event here, which takes the whole CPU as a reservation without \"dl-period\"; add \"dl-runtime\" and \"dl-period\" \
             (microseconds) for what SCHED_DEADLINE reserves",
        ));
    }
    if parameters.deadline.is_none() {
        parameters.deadline = microseconds(object, "deadline")?;
    }
    parameters.build(name)
}

/// The policy to switch to on entry to a phase, if it changes; `current` is the one in force.
pub(crate) fn of_phase(object: &Object, current: Policy) -> Result<Option<Policy>, Error> {
    let parameters = Parameters::read(object)?;
    let unchanged = PolicyName::of(current);
    let deadline_changes = unchanged == PolicyName::Deadline && parameters.runtime.is_some();
    match parameters.policy {
        Some(name) => parameters.build(name).map(Some),
        None if parameters.priority.is_some() || deadline_changes => {
            parameters.build(unchanged).map(Some)
        }
        None => {
            parameters.note_unused_deadline(unchanged);
            // A slice alone changes nothing else.
            let slice = parameters.slice();
            Ok(match current {
                Policy::Other { nice, .. } if slice.is_some() => {
                    Some(Policy::Other { nice, slice })
                }
                Policy::Batch { nice, .. } if slice.is_some() => {
                    Some(Policy::Batch { nice, slice })
                }
                _ => None,
            })
        }
    }
}

fn microseconds<'a>(object: &Object<'a>, key: &str) -> Result<Option<(i64, Field<'a>)>, Error> {
    let Some(field) = object.get(key) else { return Ok(None) };
    let value = field.integer(0..=MICROSECONDS_MAX)?;
    // rt-app takes 0 as not given.
    Ok((value > 0).then_some((value, field)))
}

impl<'a> Parameters<'a> {
    fn read(object: &'a Object<'a>) -> Result<Self, Error> {
        let policy = object.get("policy").map(|field| PolicyName::read(&field)).transpose()?;
        let priority = match object.get("priority") {
            Some(field) => Some((field.integer(-20..=99)?, field)),
            None => None,
        };
        for key in ["util_min", "util_max"] {
            if let Some(field) = object.get(key) {
                // -1 leaves the clamp unchanged.
                if field.integer(-1..=1024)? >= 0 {
                    field.remark(Remark::UtilizationClamp);
                }
            }
        }
        Ok(Self {
            object,
            policy,
            priority,
            runtime: microseconds(object, "dl-runtime")?,
            period: microseconds(object, "dl-period")?,
            deadline: microseconds(object, "dl-deadline")?,
        })
    }

    fn build(&self, name: PolicyName) -> Result<Policy, Error> {
        let policy = match name {
            PolicyName::Other => Policy::Other { nice: self.nice()?, slice: self.slice() },
            PolicyName::Batch => Policy::Batch { nice: self.nice()?, slice: self.slice() },
            PolicyName::Idle => {
                if let Some((_, field)) = &self.priority {
                    field.note("has no effect with SCHED_IDLE, as in rt-app");
                }
                Policy::Idle
            }
            PolicyName::Ext => {
                self.object.reader.remark(&self.object.place, Remark::Ext);
                Policy::Ext { nice: self.nice()? }
            }
            PolicyName::Fifo => Policy::Fifo { priority: self.real_time_priority()? },
            PolicyName::RoundRobin => Policy::RoundRobin { priority: self.real_time_priority()? },
            PolicyName::Deadline => self.deadline()?,
        };
        self.note_unused_deadline(name);
        Ok(policy)
    }

    fn nice(&self) -> Result<i32, Error> {
        match &self.priority {
            None => Ok(0),
            Some((nice @ -20..=19, _)) => Ok(*nice as i32),
            Some((nice, field)) => Err(field.error(format!(
                "{nice} is not a nice value; SCHED_OTHER, SCHED_BATCH and SCHED_EXT take -20 to 19 \
                     (SCHED_FIFO and SCHED_RR take 1 to 99)"
            ))),
        }
    }

    /// The slice that a task without a real-time policy asks for.
    fn slice(&self) -> Option<u64> {
        self.runtime.as_ref().map(|(microseconds, _)| *microseconds as u64 * 1000)
    }

    fn real_time_priority(&self) -> Result<u32, Error> {
        match &self.priority {
            None => Ok(10),
            Some((priority @ 1..=99, _)) => Ok(*priority as u32),
            Some((priority, field)) => Err(field.error(format!(
                "{priority} is not a real-time priority; SCHED_FIFO and SCHED_RR take 1 to 99 \
                     (SCHED_OTHER, SCHED_BATCH and SCHED_EXT take nice -20 to 19)"
            ))),
        }
    }

    fn deadline(&self) -> Result<Policy, Error> {
        let Some((runtime, _)) = self.runtime else {
            let needs = "SCHED_DEADLINE needs its runtime per period; add \"dl-runtime\" : 10000 (microseconds)";
            return Err(self.object.lacks("dl-runtime", needs));
        };
        let period = self.period.as_ref().map_or(runtime, |(value, _)| *value);
        let deadline = self.deadline.as_ref().map_or(period, |(value, _)| *value);
        if !(runtime <= deadline && deadline <= period) {
            return Err(self.object.error(format!(
                "the kernel needs dl-runtime <= dl-deadline <= dl-period, but they are {runtime}, \
                     {deadline} and {period}; change them so"
            )));
        }
        if let Some((_, field)) = &self.priority {
            field.note("has no effect with SCHED_DEADLINE");
        }
        if runtime * 1000 < RUNTIME_MIN {
            return Err(self.object.error(format!(
                "the kernel needs a dl-runtime of at least 2 us, not {runtime}; raise it"
            )));
        }
        if !PERIODS.contains(&period) {
            return Err(self.object.error(format!(
                "the kernel needs a dl-period from {} to {} us, not {period}; change it so",
                PERIODS.start(),
                PERIODS.end()
            )));
        }
        let nanoseconds = |microseconds: i64| microseconds as u64 * 1000;
        Ok(Policy::Deadline {
            runtime: nanoseconds(runtime),
            period: nanoseconds(period),
            deadline: nanoseconds(deadline),
        })
    }

    /// Notes deadline parameters under another policy.
    fn note_unused_deadline(&self, name: PolicyName) {
        if name == PolicyName::Deadline {
            return;
        }
        if let Some((_, field)) = &self.runtime {
            match name {
                PolicyName::Other | PolicyName::Batch => {
                    field.remark(Remark::CustomSlice);
                }
                _ => field.note("has no effect with this policy"),
            }
        }
        for (_, field) in [&self.period, &self.deadline].into_iter().flatten() {
            field.note("has no effect without SCHED_DEADLINE, as in rt-app");
        }
    }
}
