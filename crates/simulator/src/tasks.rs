//! All tasks of a simulation: those of the workload, and those around them.

use std::collections::BTreeMap;

use fairground_events::TaskId;
use indexmap::IndexMap;

use crate::dsq_table::FixedState;
use crate::surroundings::{CREATOR, is_hidden};
use crate::task::{Task, TaskRef};

/// The memory of tasks, with the address of each. None is removed before the end: a scheduler may keep the address of a task that has ended, or
/// of one that it refused.
#[derive(Default)]
pub struct TaskMemory(IndexMap<u64, TaskRef, FixedState>);

impl TaskMemory {
    /// Moves a task to its place.
    pub fn place(&mut self, task: Task) -> TaskRef {
        let task = TaskRef::allocate(task);
        self.0.insert(task.address(), task);
        task
    }
}

impl Drop for TaskMemory {
    fn drop(&mut self) {
        for task in self.0.values() {
            // SAFETY: `place` allocated the task, and only this frees it. The kernel that has this and all handles ends with it, and so does
            // the scheduler's code.
            unsafe { task.free() };
        }
    }
}

/// The tasks by the parts they play. Idle tasks only have their memory here.
pub struct Tasks {
    memory: TaskMemory,
    /// The parent of the tasks that exist at the start.
    creator: TaskRef,
    /// Those of the workload, by number.
    workload: Vec<TaskRef>,
    /// How many of those have not ended.
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
    pub fn at(&self, address: u64) -> Option<TaskRef> {
        self.memory.0.get(&address).copied()
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
    pub fn begin_one(&mut self) {
        self.live += 1;
    }

    /// Counts a task of the workload that has ended.
    pub fn end_one(&mut self) {
        self.live -= 1;
    }

    /// Whether tasks of the workload are left.
    pub fn are_left(&self) -> bool {
        self.live > 0
    }

    /// The next position in the lists of runnable tasks.
    pub fn next_runnable_place(&mut self) -> u64 {
        self.runnable_places += 1;
        self.runnable_places
    }
}
