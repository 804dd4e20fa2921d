//! A task's program: which event comes next.
//!
//! Pure bookkeeping over a task definition. It knows nothing about threads, clocks or kernels; the code that carries out the steps does.

use fairground_workload::{Cursor, Event, Task, Variation};

/// The next step of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'task> {
    /// It enters the phase with this index, whose policy and CPUs apply from now on.
    Enter(usize),
    /// An event, and how it varies.
    Event(Event, Option<&'task Variation>),
}

/// Where a task is in its program.
#[derive(Clone, Debug)]
pub struct Program<'task> {
    task: &'task Task,
    passes: u64,
    phase: usize,
    phase_passes: u64,
    event: usize,
    cursor: Cursor,
    entered: bool,
}

impl<'task> Program<'task> {
    /// The program of a task that has not begun.
    pub fn new(task: &'task Task) -> Self {
        Self {
            task,
            passes: 0,
            phase: 0,
            phase_passes: 0,
            event: 0,
            cursor: Cursor::default(),
            entered: false,
        }
    }

    /// Period of the next timer, if there are timers.
    pub fn next_period(&self) -> Option<u64> {
        self.task.next_period(self.phase, self.event)
    }

    /// Whether no step follows.
    pub fn has_ended(&self) -> bool {
        self.task.ends_at(self.passes, self.phase, self.phase_passes, self.event)
    }
}

impl<'task> Iterator for Program<'task> {
    type Item = Step<'task>;

    fn next(&mut self) -> Option<Step<'task>> {
        loop {
            let Some(phase) = self.task.phases.get(self.phase) else {
                self.passes += 1;
                let done = self.task.loops.is_some_and(|loops| self.passes >= loops);
                if done || self.task.phases.is_empty() {
                    return None;
                }
                self.phase = 0;
                continue;
            };
            if !self.entered {
                self.entered = true;
                self.phase_passes = 0;
                self.event = 0;
                self.cursor = Cursor::default();
                return Some(Step::Enter(self.phase));
            }
            if let Some(event) = phase.events.read(self.event, &mut self.cursor) {
                let variation = phase.variations.get(&self.event);
                self.event += 1;
                return Some(Step::Event(event, variation));
            }
            self.event = 0;
            self.phase_passes += 1;
            if phase.events.is_empty()
                || phase.loops.is_some_and(|loops| self.phase_passes >= loops)
            {
                self.phase += 1;
                self.entered = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_workload::{Phase, Policy};
    use std::collections::BTreeMap;

    fn task(loops: Option<u64>, phases: &[(Option<u64>, &[u64])]) -> Task {
        Task {
            name: "task".to_owned(),
            instances: 1,
            delay: 0,
            loops,
            phases: phases
                .iter()
                .map(|(loops, runs)| Phase {
                    name: "phase".to_owned(),
                    loops: *loops,
                    policy: None,
                    cpus: None,
                    taskgroup: None,
                    events: runs.iter().map(|run| Event::Run(*run)).collect(),
                    variations: BTreeMap::new(),
                })
                .collect(),
            policy: Policy::Other { nice: 0, slice: None },
            cpus: None,
            attributes: Vec::new(),
            daemon: false,
            footprint: 0,
            process: None,
            taskgroup: None,
        }
    }

    /// Steps as text: `p0` for entering phase 0, a number for a run.
    fn steps(task: &Task, count: usize) -> String {
        let words: Vec<String> = Program::new(task)
            .take(count)
            .map(|step| match step {
                Step::Enter(phase) => format!("p{phase}"),
                Step::Event(Event::Run(run), _) => run.to_string(),
                Step::Event(other, _) => format!("{other:?}"),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn loops_of_phases_lie_in_loops_of_the_task() {
        let task = task(Some(2), &[(Some(2), &[1, 2]), (Some(1), &[3])]);
        assert_eq!(steps(&task, 100), "p0 1 2 1 2 p1 3 p0 1 2 1 2 p1 3");
    }

    #[test]
    fn a_task_without_a_count_never_ends() {
        assert_eq!(steps(&task(None, &[(Some(1), &[1])]), 5), "p0 1 p0 1 p0");
    }

    #[test]
    fn a_phase_without_a_count_is_never_left() {
        assert_eq!(steps(&task(Some(1), &[(None, &[1]), (Some(1), &[2])]), 4), "p0 1 1 1");
    }

    #[test]
    fn empty_phases_are_entered_and_left() {
        assert_eq!(steps(&task(Some(1), &[(Some(1), &[]), (Some(1), &[2])]), 100), "p0 p1 2");
        assert_eq!(steps(&task(None, &[]), 100), "");
    }
}
