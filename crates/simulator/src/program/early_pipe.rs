//! Pipes of Linux 2.6 to 2.6.10: a page of bytes with one queue of waiters, all of whom every transfer wakes. The wake-up is synchronous if the call
//! goes on to wait in the middle of its transfer, and not at its end.

use std::collections::VecDeque;

use fairground_workload::{Pipe as Described, Waiting};

use super::Action;
use super::pipe::Pipe;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// Such a pipe.
#[derive(Default)]
pub(super) struct EarlyPipe {
    length: u64,
    /// Those who came last are woken first.
    waiters: VecDeque<TaskRef>,
    /// Writers in the middle of a call. A reader that has got something waits for more only if there are some.
    waiting_writers: u64,
}

impl EarlyPipe {
    fn take(&mut self, most: u64) -> u64 {
        let bytes = self.length.min(most);
        self.length -= bytes;
        bytes
    }

    /// Puts in up to `most` bytes if there is room for at least `least`.
    fn put(&mut self, least: u64, most: u64) -> u64 {
        let room = Described::EARLY_CAPACITY - self.length;
        let bytes = if room >= least { room.min(most) } else { 0 };
        self.length += bytes;
        bytes
    }
}

impl Kernel<'_> {
    fn early_pipe(&mut self, pipe: usize) -> &mut EarlyPipe {
        match &mut self.programs.pipes[pipe] {
            Pipe::Early(state) => state,
            Pipe::Paged(_) | Pipe::Socket(_) => {
                unreachable!("other kinds have functions of their own")
            }
        }
    }

    /// Reads until `bytes` have come, with as many read() calls as it takes.
    pub(super) fn read_early_pipe(
        &mut self,
        mut task: TaskRef,
        pipe: usize,
        bytes: u64,
    ) -> Option<Action> {
        loop {
            let missing = bytes - task.execution.moved;
            let state = self.early_pipe(pipe);
            let (part, is_followed) = (state.take(missing), state.waiting_writers > 0);
            task.execution.moved += part;
            task.execution.moved_in_call += part;
            let has_read = task.execution.moved_in_call > 0;
            let done = part == missing;
            if !done && (is_followed || !has_read) {
                if has_read {
                    self.wake_all_of_early_pipe(task, pipe, true);
                }
                self.early_pipe(pipe).waiters.push_front(task);
                return Some(self.block_in_event(task, Waiting::Data(pipe)));
            }
            task.execution.moved_in_call = 0;
            self.wake_all_of_early_pipe(task, pipe, false);
            if done {
                task.execution.moved = 0;
                return None;
            }
            self.system_call();
        }
    }

    /// Writes `bytes` in one write() call, which waits for room as often as it has to. Up to a page is written at once or not at all.
    pub(super) fn write_early_pipe(
        &mut self,
        mut task: TaskRef,
        pipe: usize,
        bytes: u64,
    ) -> Option<Action> {
        let waited = std::mem::take(&mut task.execution.waited);
        let missing = bytes - task.execution.moved;
        let least = if bytes > Described::EARLY_CAPACITY { 1 } else { missing };
        let state = self.early_pipe(pipe);
        state.waiting_writers -= u64::from(waited);
        let part = state.put(least, missing);
        task.execution.moved += part;
        let done = part == missing;
        if part > 0 {
            self.wake_all_of_early_pipe(task, pipe, !done);
        }
        if done {
            task.execution.moved = 0;
            return None;
        }
        let state = self.early_pipe(pipe);
        state.waiting_writers += 1;
        state.waiters.push_front(task);
        Some(self.block_in_event(task, Waiting::Room(pipe)))
    }

    fn wake_all_of_early_pipe(&mut self, task: TaskRef, pipe: usize, sync: bool) {
        while let Some(waiter) = self.early_pipe(pipe).waiters.pop_front() {
            self.wake(waiter, Some(task), sync);
        }
    }
}
