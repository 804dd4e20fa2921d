//! All tasks of a simulation: those of the workload, and those around them.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use fairground_events::TaskId;

use crate::dsq_table::FixedState;
use crate::handle::Stock;
use crate::surroundings::{CREATOR, is_hidden};
use crate::task::{Task, TaskRef};

/// The memory of tasks. None is removed before the end: a scheduler may keep the address of a task that has ended, or of one that it refused.
#[derive(Default)]
pub struct TaskMemory {
    tasks: Stock<Task>,
    /// A hash table by address: each task is at the place that its address has, or at the next that was free. Schedulers pass tasks so
    /// often that the cost of a look-up counts, and most places are free.
    places: Vec<Option<TaskRef>>,
}

impl TaskMemory {
    /// Moves a task to its place.
    pub fn place(&mut self, task: Task) -> TaskRef {
        let task = self.tasks.add(task);
        if self.tasks.len() * 4 > self.places.len() {
            self.places = vec![None; (self.tasks.len() * 8).next_power_of_two()];
            for place in 0..self.tasks.len() {
                self.enter(self.tasks.handles()[place]);
            }
        } else {
            self.enter(task);
        }
        task
    }

    fn enter(&mut self, task: TaskRef) {
        let place = self.find(task.address());
        self.places[place] = Some(task);
    }

    /// The place of the task at `address`, or where it would be. There is at least one task.
    #[inline]
    fn find(&self, address: u64) -> usize {
        let last = self.places.len() - 1;
        let mut place = FixedState::default().hash_one(address) as usize & last;
        while self.places[place].is_some_and(|task| task.address() != address) {
            place = (place + 1) & last;
        }
        place
    }
}

/// The tasks by the parts they play. Idle tasks only have their memory here.
pub struct Tasks {
    memory: TaskMemory,
    /// The parent of the tasks that exist at the start.
    creator: TaskRef,
    /// Those of the workload, by number.
    workload: Vec<TaskRef>,
    /// How many of those have not ended, without daemons.
    live: u32,
    /// Threads that are not part of the workload, by number.
    others: Vec<TaskRef>,
    /// How many the scheduler refused at fork. Nothing refers to them unless the scheduler has kept their address.
    unborn: usize,
    /// How many refused forks each error had.
    refusals: BTreeMap<i32, u32>,
    /// How many positions were handed out in lists of runnable tasks.
    runnable_places: u64,
}

impl Tasks {
    /// Only the creator and idle tasks, in their memory.
    pub fn new(memory: TaskMemory, creator: TaskRef) -> Tasks {
        Tasks {
            memory,
            creator,
            workload: Vec::new(),
            live: 0,
            others: Vec::new(),
            unborn: 0,
            refusals: BTreeMap::new(),
            runnable_places: 0,
        }
    }

    /// Moves a task to its place, from where it is to be added.
    pub fn place(&mut self, task: Task) -> TaskRef {
        self.memory.place(task)
    }

    /// The task at `address`, if there is one.
    #[inline]
    pub fn at(&self, address: u64) -> Option<TaskRef> {
        self.memory.places[self.memory.find(address)]
    }

    /// The parent of the tasks that exist at the start.
    pub fn creator(&self) -> TaskRef {
        self.creator
    }

    /// The tasks of the workload, by number.
    pub fn workload(&self) -> &[TaskRef] {
        &self.workload
    }

    /// The threads that are not part of the workload, by number.
    pub fn others(&self) -> &[TaskRef] {
        &self.others
    }

    /// The tasks of the surroundings.
    pub fn hidden(&self) -> impl Iterator<Item = TaskRef> + '_ {
        std::iter::once(self.creator).chain(self.others.iter().copied())
    }

    /// The tasks of the whole system in a fixed order, one by one: the surroundings, then the workload's.
    pub fn nth(&self, place: usize) -> Option<TaskRef> {
        match place.checked_sub(1) {
            None => Some(self.creator),
            Some(place) => match place.checked_sub(self.others.len()) {
                None => Some(self.others[place]),
                Some(place) => self.workload.get(place).copied(),
            },
        }
    }

    /// The task with this number, of the workload or of the surroundings.
    pub fn any(&self, id: TaskId) -> TaskRef {
        match id {
            CREATOR => self.creator,
            id if is_hidden(id) => self.others[(CREATOR.0 - 1 - id.0) as usize],
            id => self.workload[id.0 as usize],
        }
    }

    /// Number of tasks of the workload that were forked, refused ones included: their numbers are not reused.
    pub fn forked(&self) -> usize {
        self.workload.len() + self.unborn
    }

    /// Adds a task of the workload that is being forked.
    pub fn add(&mut self, task: TaskRef) {
        self.workload.push(task);
    }

    /// Adds a thread that is not part of the workload.
    pub fn add_other(&mut self, task: TaskRef) {
        self.others.push(task);
    }

    /// Takes back the newest task of the workload, which the scheduler refused.
    pub fn take_back(&mut self) {
        self.workload.pop();
        self.unborn += 1;
    }

    /// Takes back the newest thread that is not part of the workload, which the scheduler refused.
    pub fn take_back_other(&mut self) {
        self.others.pop();
        self.unborn += 1;
    }

    /// Counts a fork that failed with this error.
    pub fn count_refusal(&mut self, error: i32) {
        *self.refusals.entry(error).or_default() += 1;
    }

    /// How many refused forks each error had.
    pub fn refusals(&self) -> &BTreeMap<i32, u32> {
        &self.refusals
    }

    /// Counts a task of the workload that was forked.
    pub fn begin_one(&mut self, task: TaskRef) {
        self.live += u32::from(!task.daemon);
    }

    /// Counts a task of the workload that has ended.
    pub fn end_one(&mut self, task: TaskRef) {
        self.live -= u32::from(!task.daemon);
    }

    /// Whether tasks of the workload are left for which the run waits.
    pub fn are_left(&self) -> bool {
        self.live > 0
    }

    /// The next position in the lists of runnable tasks.
    pub fn next_runnable_place(&mut self) -> u64 {
        self.runnable_places += 1;
        self.runnable_places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::CpuMask;

    #[test]
    fn tasks_are_found_by_their_addresses_and_by_no_others() {
        let mut memory = TaskMemory::default();
        let blank = |pid| Task::blank(CREATOR, String::new(), pid, CpuMask::default(), 1);
        let creator = memory.place(blank(1));
        let mut tasks = Tasks::new(memory, creator);
        for pid in 2..200 {
            let task = tasks.place(blank(pid));
            assert_eq!(tasks.at(task.address()), Some(task));
            assert_eq!(tasks.at(task.address() + 8), None);
        }
        assert_eq!(tasks.at(creator.address()), Some(creator));
        assert_eq!(tasks.at(0), None);
    }
}
