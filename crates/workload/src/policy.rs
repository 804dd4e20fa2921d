//! Scheduling parameters of tasks and phases.

use crate::error::Error;
use crate::model::Policy;
use crate::notes::{Place, Remark};
use crate::object::{Field, Object, Reader};

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
    pub fn read(reader: &Reader, field: &Field) -> Result<Self, Error> {
        let text = field.string(reader)?;
        match NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, policy)) => Ok(*policy),
            None => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                Err(field.mismatch(reader, &format!("one of {}", names.join(", "))))
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
    priority: Option<(i64, Place)>,
    /// In microseconds, with the place where it was given.
    runtime: Option<(i64, Place)>,
    period: Option<(i64, Place)>,
    deadline: Option<(i64, Place)>,
}

/// The policy a task starts with.
///
/// `legacy_runtime` says that `runtime` is only the old name of `dl-runtime` here, because the task has its events in phases; otherwise it is
/// an event and, as in rt-app, also the parameter.
pub(crate) fn of_task(
    reader: &mut Reader,
    object: &Object,
    default: PolicyName,
    legacy_runtime: bool,
) -> Result<Policy, Error> {
    let mut parameters = Parameters::read(reader, object)?;
    let name = parameters.policy.unwrap_or(default);
    if parameters.runtime.is_none() && (legacy_runtime || name == PolicyName::Deadline) {
        parameters.runtime = microseconds(reader, object, "runtime")?;
    }
    if parameters.period.is_none() {
        parameters.period = microseconds(reader, object, "period")?;
    }
    if let (PolicyName::Deadline, false, Some((_, place)), None) =
        (name, legacy_runtime, &parameters.runtime, &parameters.period)
        && !object.has("dl-runtime")
    {
        return Err(reader.error(
            place,
            "is an event here, which takes the whole CPU as a reservation without \"dl-period\"; add \"dl-runtime\" and \"dl-period\" \
             (microseconds) for what SCHED_DEADLINE reserves",
        ));
    }
    if parameters.deadline.is_none() {
        parameters.deadline = microseconds(reader, object, "deadline")?;
    }
    parameters.build(reader, name)
}

/// The policy to switch to on entry to a phase, if it changes; `current` is the one in force.
pub(crate) fn of_phase(
    reader: &mut Reader,
    object: &Object,
    current: Policy,
) -> Result<Option<Policy>, Error> {
    let parameters = Parameters::read(reader, object)?;
    let unchanged = PolicyName::of(current);
    let deadline_changes = unchanged == PolicyName::Deadline && parameters.runtime.is_some();
    match parameters.policy {
        Some(name) => parameters.build(reader, name).map(Some),
        None if parameters.priority.is_some() || deadline_changes => {
            parameters.build(reader, unchanged).map(Some)
        }
        None => {
            parameters.note_unused_deadline(reader, unchanged);
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

fn microseconds(
    reader: &mut Reader,
    object: &Object,
    key: &str,
) -> Result<Option<(i64, Place)>, Error> {
    let Some(field) = object.get(reader, key) else {
        return Ok(None);
    };
    let value = field.integer(reader, 0..=MICROSECONDS_MAX)?;
    // rt-app takes 0 as not given.
    Ok((value > 0).then_some((value, field.place)))
}

impl<'a> Parameters<'a> {
    fn read(reader: &mut Reader, object: &'a Object<'a>) -> Result<Self, Error> {
        let policy = match object.get(reader, "policy") {
            Some(field) => Some(PolicyName::read(reader, &field)?),
            None => None,
        };
        let priority = match object.get(reader, "priority") {
            Some(field) => Some((field.integer(reader, -20..=99)?, field.place)),
            None => None,
        };
        for key in ["util_min", "util_max"] {
            if let Some(field) = object.get(reader, key) {
                // -1 leaves the clamp unchanged.
                if field.integer(reader, -1..=1024)? >= 0 {
                    reader.notes.remark(&field.place, Remark::UtilizationClamp);
                }
            }
        }
        Ok(Self {
            object,
            policy,
            priority,
            runtime: microseconds(reader, object, "dl-runtime")?,
            period: microseconds(reader, object, "dl-period")?,
            deadline: microseconds(reader, object, "dl-deadline")?,
        })
    }

    fn build(&self, reader: &mut Reader, name: PolicyName) -> Result<Policy, Error> {
        let policy = match name {
            PolicyName::Other => Policy::Other { nice: self.nice(reader)?, slice: self.slice() },
            PolicyName::Batch => Policy::Batch { nice: self.nice(reader)?, slice: self.slice() },
            PolicyName::Idle => {
                if let Some((_, place)) = &self.priority {
                    reader.notes.add(place, "has no effect with SCHED_IDLE, as in rt-app");
                }
                Policy::Idle
            }
            PolicyName::Ext => {
                reader.notes.remark(&self.object.place, Remark::Ext);
                Policy::Ext { nice: self.nice(reader)? }
            }
            PolicyName::Fifo => Policy::Fifo { priority: self.real_time_priority(reader)? },
            PolicyName::RoundRobin => {
                Policy::RoundRobin { priority: self.real_time_priority(reader)? }
            }
            PolicyName::Deadline => self.deadline(reader)?,
        };
        self.note_unused_deadline(reader, name);
        Ok(policy)
    }

    fn nice(&self, reader: &Reader) -> Result<i32, Error> {
        match &self.priority {
            None => Ok(0),
            Some((nice @ -20..=19, _)) => Ok(*nice as i32),
            Some((nice, place)) => Err(reader.error(
                place,
                format!(
                    "{nice} is not a nice value; SCHED_OTHER, SCHED_BATCH and SCHED_EXT take -20 to 19 \
                     (SCHED_FIFO and SCHED_RR take 1 to 99)"
                ),
            )),
        }
    }

    /// The slice that a task without a real-time policy asks for.
    fn slice(&self) -> Option<u64> {
        self.runtime.as_ref().map(|(microseconds, _)| *microseconds as u64 * 1000)
    }

    fn real_time_priority(&self, reader: &Reader) -> Result<u32, Error> {
        match &self.priority {
            None => Ok(10),
            Some((priority @ 1..=99, _)) => Ok(*priority as u32),
            Some((priority, place)) => Err(reader.error(
                place,
                format!(
                    "{priority} is not a real-time priority; SCHED_FIFO and SCHED_RR take 1 to 99 \
                     (SCHED_OTHER, SCHED_BATCH and SCHED_EXT take nice -20 to 19)"
                ),
            )),
        }
    }

    fn deadline(&self, reader: &mut Reader) -> Result<Policy, Error> {
        let place = &self.object.place;
        let Some((runtime, _)) = self.runtime else {
            return Err(reader.error(
                place,
                "SCHED_DEADLINE needs its runtime per period; add \"dl-runtime\" : 10000 (microseconds)",
            ));
        };
        let period = self.period.as_ref().map_or(runtime, |(value, _)| *value);
        let deadline = self.deadline.as_ref().map_or(period, |(value, _)| *value);
        if !(runtime <= deadline && deadline <= period) {
            return Err(reader.error(
                place,
                format!(
                    "the kernel needs dl-runtime <= dl-deadline <= dl-period, but they are {runtime}, \
                     {deadline} and {period}; change them so"
                ),
            ));
        }
        if let Some((_, place)) = &self.priority {
            reader.notes.add(place, "has no effect with SCHED_DEADLINE");
        }
        if runtime * 1000 < RUNTIME_MIN {
            return Err(reader.error(
                place,
                format!("the kernel needs a dl-runtime of at least 2 us, not {runtime}; raise it"),
            ));
        }
        if !PERIODS.contains(&period) {
            return Err(reader.error(
                place,
                format!(
                    "the kernel needs a dl-period from {} to {} us, not {period}; change it so",
                    PERIODS.start(),
                    PERIODS.end()
                ),
            ));
        }
        let nanoseconds = |microseconds: i64| microseconds as u64 * 1000;
        Ok(Policy::Deadline {
            runtime: nanoseconds(runtime),
            period: nanoseconds(period),
            deadline: nanoseconds(deadline),
        })
    }

    /// Notes deadline parameters under another policy.
    fn note_unused_deadline(&self, reader: &mut Reader, name: PolicyName) {
        if name == PolicyName::Deadline {
            return;
        }
        if let Some((_, place)) = &self.runtime {
            match name {
                PolicyName::Other | PolicyName::Batch => {
                    reader.notes.remark(place, Remark::CustomSlice);
                }
                _ => reader.notes.add(place, "has no effect with this policy"),
            }
        }
        for (_, place) in [&self.period, &self.deadline].into_iter().flatten() {
            reader.notes.add(place, "has no effect without SCHED_DEADLINE, as in rt-app");
        }
    }
}
