//! Numbers by measure, whatever has them: a run that was simulated, or a row of a data set.

use fairground_metrics::{RunMetrics, TaskMetrics};

use crate::measure::{MEASURES, Measure};

/// Something that was measured: a run or a task.
pub trait Measured {
    /// Its number, if it has one.
    fn number(&self, measure: &Measure) -> Option<f64>;

    /// The tasks of a run with their names, as far as they are known.
    fn tasks(&self) -> Vec<(&str, &dyn Measured)> {
        Vec::new()
    }
}

impl Measured for RunMetrics {
    fn number(&self, measure: &Measure) -> Option<f64> {
        measure.run(self)
    }

    fn tasks(&self) -> Vec<(&str, &dyn Measured)> {
        self.tasks.iter().map(|task| (&*task.name, task as &dyn Measured)).collect()
    }
}

impl Measured for TaskMetrics {
    fn number(&self, measure: &Measure) -> Option<f64> {
        measure.task(self)
    }
}

/// All that a data set has of a run or of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The task's name; that of a run is empty.
    pub name: String,
    /// The task's nice value at the start.
    pub nice: Option<i32>,
    /// The task's weight.
    pub weight: Option<u32>,
    /// Its numbers, in the order of [`MEASURES`].
    pub numbers: Box<[Option<f64>]>,
    /// The run's tasks, if they were read.
    pub tasks: Vec<Figures>,
}

impl Measured for Figures {
    fn number(&self, measure: &Measure) -> Option<f64> {
        let place = MEASURES.iter().position(|one| one.id == measure.id)?;
        self.numbers[place]
    }

    fn tasks(&self) -> Vec<(&str, &dyn Measured)> {
        self.tasks.iter().map(|task| (&*task.name, task as &dyn Measured)).collect()
    }
}
