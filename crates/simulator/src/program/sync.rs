//! How tasks of a workload wait for each other: mutexes and conditions.

use std::collections::VecDeque;

use fairground_events::TaskId;
use fairground_workload::{Event, Waiting};

use super::Action;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// The number with which a waker asks for all waiters (`INT_MAX`).
const ALL: u64 = i32::MAX as u64;

/// A mutex of the C library: a word that is free, held, or held and contended, and a futex to wait on.
pub(super) struct Mutex {
    pub(super) owner: Option<TaskId>,
    /// Whether unlocking wakes a waiter. A waiter marks the mutex contended, because others may still be waiting. A task that finds it free
    /// does not look for waiters, and wakes none unless one arrives meanwhile; the waiter that was woken last will.
    contended: bool,
    waiters: VecDeque<TaskRef>,
    /// CPU time that a task spins before it waits, nanoseconds.
    spin: u64,
    spinners: Vec<TaskRef>,
}

impl Mutex {
    /// A mutex that is free.
    pub fn new(described: &fairground_workload::Mutex) -> Mutex {
        Mutex {
            owner: None,
            contended: false,
            waiters: VecDeque::new(),
            spin: described.spin,
            spinners: Vec::new(),
        }
    }
}

/// A barrier.
#[derive(Default)]
pub(super) struct Barrier {
    waiters: Vec<TaskRef>,
    /// Tasks that spin before they wait.
    spinners: Vec<TaskRef>,
}

impl Barrier {
    /// How many tasks are there.
    pub fn arrived(&self) -> usize {
        self.waiters.len() + self.spinners.len()
    }
}

/// A counting semaphore.
#[derive(Default)]
pub(super) struct Semaphore {
    value: u64,
    waiters: VecDeque<TaskRef>,
}

impl Kernel<'_> {
    /// Carries out an event by which tasks wait for each other. Returns an action if `task` does not continue at once.
    pub(super) fn synchronize(&mut self, mut task: TaskRef, event: Event) -> Option<Action> {
        match event {
            Event::Lock(mutex) => {
                let action = self.take_mutex(task, mutex);
                task.execution.relock = action.map(|_| mutex);
                return action;
            }
            Event::Unlock(mutex) => self.release_mutex(task, mutex),
            Event::Wait { condition, mutex } => {
                self.release_mutex(task, mutex);
                task.execution.relock = Some(mutex);
                return Some(self.wait_on(task, condition));
            }
            Event::Suspend(condition) => return Some(self.wait_on(task, condition)),
            Event::Signal(condition) => self.wake_waiters(task, condition, false),
            Event::Broadcast(condition) | Event::Resume(condition) => {
                self.wake_waiters(task, condition, true);
            }
            Event::Sync { condition, mutex } => {
                self.wake_waiters(task, condition, false);
                self.release_mutex(task, mutex);
                task.execution.relock = Some(mutex);
                return Some(self.wait_on(task, condition));
            }
            Event::Barrier(barrier) => return self.arrive(task, barrier),
            Event::SemPost(semaphore) => {
                let state = &mut self.programs.semaphores[semaphore];
                state.value += 1;
                if let Some(waiter) = state.waiters.pop_front() {
                    self.system_call();
                    self.futex_wake(task, Waiting::Semaphore(semaphore), 1, [waiter]);
                }
            }
            Event::SemWait(semaphore) => return self.take_semaphore(task, semaphore),
            _ => unreachable!("not an event of this kind: {event:?}"),
        }
        None
    }

    /// Waits at a barrier until all parties are there, first by spinning if the barrier is set to do so.
    fn arrive(&mut self, mut task: TaskRef, barrier: usize) -> Option<Action> {
        let described = &self.programs.workload.barriers[barrier];
        let (parties, spin) = (described.parties as usize, described.spin);
        let state = &mut self.programs.barriers[barrier];
        if task.execution.spin_left.take().is_some() {
            // It has spun, and the barrier has opened or the time is over.
            if std::mem::take(&mut task.execution.opened) {
                return None;
            }
            state.spinners.retain(|other| *other != task);
        } else if state.arrived() + 1 == parties {
            self.open_barrier(task, barrier);
            return None;
        } else if spin > 0 {
            state.spinners.push(task);
            task.execution.spin_left = Some(0);
            task.execution.event -= 1;
            task.execution.resumed = true;
            return self.compute(task, spin);
        }
        self.programs.barriers[barrier].waiters.push(task);
        self.trace_futex_wait(Waiting::Barrier(barrier));
        task.execution.waiting = Waiting::Barrier(barrier);
        Some(Action::Block)
    }

    /// Lets all go on that wait at a barrier.
    fn open_barrier(&mut self, task: TaskRef, barrier: usize) {
        let state = &mut self.programs.barriers[barrier];
        let (waiters, spinners) =
            (std::mem::take(&mut state.waiters), std::mem::take(&mut state.spinners));
        for mut spinner in spinners {
            spinner.execution.opened = true;
            self.stop_spinning(spinner);
        }
        self.futex_wake(task, Waiting::Barrier(barrier), ALL, waiters);
    }

    fn take_semaphore(&mut self, task: TaskRef, semaphore: usize) -> Option<Action> {
        let state = &mut self.programs.semaphores[semaphore];
        if state.value == 0 {
            state.waiters.push_back(task);
            self.system_call();
            self.trace_futex_wait(Waiting::Semaphore(semaphore));
            return Some(self.block_in_event(task, Waiting::Semaphore(semaphore)));
        }
        state.value -= 1;
        None
    }

    /// Blocks `task` inside the system call of its event, which it resumes when it is woken.
    pub(super) fn block_in_event(&mut self, mut task: TaskRef, waiting: Waiting) -> Action {
        task.execution.event -= 1;
        task.execution.resumed = true;
        task.execution.waiting = waiting;
        Action::Block
    }

    /// Takes a mutex if it is free. Otherwise the task spins, if the mutex is set to do so, and then waits.
    pub(super) fn take_mutex(&mut self, mut task: TaskRef, mutex: usize) -> Option<Action> {
        let state = &mut self.programs.mutexes[mutex];
        let is_free = state.owner.is_none();
        let left = match task.execution.spin_left.take() {
            Some(left) => left,
            // Only a task that has not waited yet spins.
            None if !is_free && !task.execution.contends && state.spin > 0 => {
                state.spinners.push(task);
                state.spin
            }
            None => 0,
        };
        if !is_free && left > 0 {
            task.execution.spin_left = Some(0);
            return self.compute(task, left);
        }
        state.spinners.retain(|other| *other != task);
        if is_free {
            state.owner = Some(task.id);
            state.contended = std::mem::take(&mut task.execution.contends);
            task.execution.held += 1;
            return None;
        }
        state.contended = true;
        state.waiters.push_back(task);
        self.system_call();
        self.trace_futex_wait(Waiting::Mutex(mutex));
        task.execution.contends = true;
        task.execution.waiting = Waiting::Mutex(mutex);
        Some(Action::Block)
    }

    /// Unlocks a mutex: spinning tasks notice, and one waiter is woken if it is contended. Whichever task runs first takes it.
    pub(super) fn release_mutex(&mut self, mut task: TaskRef, mutex: usize) {
        let state = &mut self.programs.mutexes[mutex];
        if state.owner != Some(task.id) {
            return;
        }
        state.owner = None;
        task.execution.held -= 1;
        let waiter = match std::mem::take(&mut state.contended) {
            true => state.waiters.pop_front(),
            false => None,
        };
        for place in 0..self.programs.mutexes[mutex].spinners.len() {
            let spinner = self.programs.mutexes[mutex].spinners[place];
            self.stop_spinning(spinner);
        }
        if let Some(waiter) = waiter {
            self.system_call();
            self.futex_wake(task, Waiting::Mutex(mutex), 1, [waiter]);
        }
    }

    /// Makes a spinning task check its mutex or barrier, at once if it is on a CPU.
    fn stop_spinning(&mut self, mut spinner: TaskRef) {
        let cpu = spinner.cpu();
        let runs = self.cpus[cpu].current == spinner;
        if runs {
            self.cpus[cpu].account_progress(self.clock.now());
        }
        let execution = &mut spinner.execution;
        let left = std::mem::take(&mut execution.remaining);
        execution.spin_left = Some(execution.spin_left.unwrap_or(0) + left);
        if runs {
            self.arm_completion(cpu);
        }
    }

    fn wait_on(&mut self, mut task: TaskRef, condition: usize) -> Action {
        self.programs.conditions[condition].push_back(task);
        self.system_call();
        self.trace_futex_wait(Waiting::Condition(condition));
        task.execution.waiting = Waiting::Condition(condition);
        Action::Block
    }

    fn wake_waiters(&mut self, task: TaskRef, condition: usize, all: bool) {
        let waiting = &mut self.programs.conditions[condition];
        if waiting.is_empty() {
            return;
        }
        let woken = if all { waiting.len() } else { 1 };
        let woken: Vec<TaskRef> = waiting.drain(..woken).collect();
        self.system_call();
        let most = if all { ALL } else { 1 };
        self.futex_wake(task, Waiting::Condition(condition), most, woken);
    }
}
