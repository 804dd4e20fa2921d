//! Quantities: a measure of a run, or of some of its tasks, as requirements, gates, goals and scores name it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use fairground_metrics::{RunMetrics, TaskMetrics, is_instance_of};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Measured;
use crate::format::time;
use crate::measure::{Better, MAKESPAN, MEASURES, Measure};

/// A measure of a run, or, of its tasks with a name, the worst.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Id of the measure.
    measure: &'static str,
    /// Only of the task with this name and its instances, of which the worst counts; `None` for the number of the whole run.
    task: Option<String>,
}

/// Why a run has no number that could be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    /// It has no task of this name.
    Task(String),
    /// It has the task, if one is named, but not the measure.
    Value,
    /// The value hangs on single samples: so many are there, of so many that it needs.
    Samples(u64, u64),
    /// The scheduler with which it is compared has no value.
    Reference(String),
    /// The run, or a task that is meant, did not come to its end within this length of the run, in nanoseconds.
    Unfinished(u64),
}

impl Quantity {
    /// That of whole runs, by the measure with this id.
    pub const fn of(measure: &'static str) -> Self {
        Self { measure, task: None }
    }

    /// The measure.
    ///
    /// # Panics
    ///
    /// If [`Self::of`] was given an id that no measure has.
    pub fn measure(&self) -> &'static Measure {
        Measure::find(self.measure).expect("quantities are made from the table of measures")
    }

    /// The task, if it is not one of whole runs.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Which numbers are better; smaller ones where the measure does not say.
    pub fn better(&self) -> Better {
        self.measure().better.unwrap_or(Better::Lower)
    }

    /// The value of a run, of several tasks the worst if `better` ones are so; `None` if it has none.
    pub fn value(&self, run: &(impl Measured + ?Sized), better: Better) -> Option<f64> {
        match self.task {
            None => run.number(self.measure()),
            Some(_) => self.place_of_worst(&run.tasks(), better).map(|(_, number)| number),
        }
    }

    /// The task with the worst value, the first of equals.
    pub fn worst<'r>(&self, run: &'r RunMetrics, better: Better) -> Option<&'r TaskMetrics> {
        let (place, _) = self.place_of_worst(&Measured::tasks(run), better)?;
        run.tasks.get(place)
    }

    /// The place of the task with the worst value, and the value; none if one did not come to its end, which is worse than any end.
    fn place_of_worst(
        &self,
        tasks: &[(&str, &dyn Measured)],
        better: Better,
    ) -> Option<(usize, f64)> {
        // A task that is called exactly so is the one that is meant.
        let is_exact = tasks.iter().any(|(name, _)| Some(*name) == self.task());
        let is_meant = |name: &str| !is_exact || Some(name) == self.task();
        let own = { tasks.iter().enumerate() }
            .filter(|(_, (name, _))| self.is_about(name) && is_meant(name));
        let numbers = own.map(|(place, (_, task))| (place, task.number(self.measure())));
        let numbers: Vec<(usize, Option<f64>)> = numbers.collect();
        if self.measure == MAKESPAN && numbers.iter().any(|(_, number)| number.is_none()) {
            return None;
        }
        let measured = numbers.into_iter().filter_map(|(place, number)| Some((place, number?)));
        measured.reduce(|one, other| match better.order(other.1, one.1).is_gt() {
            true => other,
            false => one,
        })
    }

    /// Whether it is about a task with this name.
    fn is_about(&self, name: &str) -> bool {
        self.task().is_none_or(|of| is_instance_of(name, of))
    }

    /// The number of samples behind the value; `None` if it does not come from samples.
    pub fn samples(&self, run: &(impl Measured + ?Sized)) -> Option<u64> {
        let samples = self.measure().samples()?;
        let number = match self.task {
            None => run.number(samples),
            Some(_) => {
                let tasks = run.tasks();
                let worst = self.place_of_worst(&tasks, self.better());
                worst.and_then(|(place, _)| tasks[place].1.number(samples))
            }
        };
        Some(number.unwrap_or(0.0) as u64)
    }

    /// Why a run has no value; `None` if it has one.
    pub fn lack(&self, run: &(impl Measured + ?Sized)) -> Option<Lack> {
        let is_there = || run.tasks().iter().any(|(name, _)| self.is_about(name));
        let task = self.task().filter(|_| !is_there());
        match task {
            Some(task) => Some(Lack::Task(task.to_owned())),
            None if self.measure().is_rare => None,
            None => self.value(run, Better::Lower).is_none().then_some(Lack::Value),
        }
    }

    /// What of its kind there is, if no run has a value: the tasks, or the measures; `None` if one has it, or there is none to tell by.
    pub fn absent_from(&self, runs: &[&(impl Measured + ?Sized)]) -> Option<String> {
        let first = runs.first()?;
        let lacks: Option<Vec<Lack>> = runs.iter().map(|run| self.lack(*run)).collect();
        let lacks = lacks?;
        if let Some(task) = self.task().filter(|_| lacks.iter().all(|one| *one != Lack::Value)) {
            let tasks = runs.iter().flat_map(|run| run.tasks());
            let mut names: Vec<&str> = tasks.map(|(name, _)| name).collect();
            // Cells come in the order in which they ended.
            names.sort_unstable();
            names.dedup();
            let more = names.len().saturating_sub(MOST_TOLD);
            names.truncate(MOST_TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Some(format!("no run has a task {task}, but {}{more}", names.join(", ")));
        }
        let is_there = |measure: &&Measure| match self.task {
            None => first.number(measure).is_some(),
            Some(_) => {
                let mut tasks = first.tasks().into_iter();
                tasks.any(|(name, task)| self.is_about(name) && task.number(measure).is_some())
            }
        };
        let there: Vec<&str> = MEASURES.iter().filter(is_there).map(|measure| measure.id).collect();
        let why = match self.measure == MAKESPAN {
            true => ", as none came to its end within its length",
            false => "",
        };
        Some(format!("no run has {self}{why}, but {}", there.join(", ")))
    }
}

/// So many tasks are told when a name is not among them.
const MOST_TOLD: usize = 20;

impl Lack {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Task(task) => format!("there is no task {task}"),
            Self::Value => "it was not measured".to_owned(),
            Self::Samples(samples, least) => {
                format!("too few samples: {samples} of the {least} that it needs")
            }
            Self::Reference(name) => format!("{name} has no value"),
            Self::Unfinished(length) => format!("it did not end within {}", time(*length)),
        }
    }
}

impl Display for Quantity {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.measure)?;
        self.task().map_or(Ok(()), |task| write!(formatter, " of {task}"))
    }
}

impl FromStr for Quantity {
    type Err = String;

    /// Parses `MEASURE`, or `MEASURE of TASK`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (id, task) = match text.split_once(" of ") {
            Some((id, task)) => (id.trim(), Some(task.trim().to_owned())),
            None => (text, None),
        };
        let Some(measure) = Measure::find(id) else {
            let ids: Vec<&str> = MEASURES.iter().map(|measure| measure.id).collect();
            return Err(format!("there is no measure {id:?}; there are {}", ids.join(", ")));
        };
        match task {
            None if measure.of_run.is_none() => {
                Err(format!("{id} is one of tasks; write '{id} of TASK'"))
            }
            Some(_) if measure.of_task.is_none() => {
                Err(format!("{id} is none of tasks; leave out 'of'"))
            }
            _ => Ok(Self { measure: measure.id, task }),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_as_it_is_read() {
        for text in ["longest_wait of hog", "throughput", "wakeup_p99 of cc1#12"] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
        }
    }
}
