//! Pipes as in `fs/pipe.c`: pages of data, waiting readers and writers, and synchronous wake-ups.

use std::collections::VecDeque;

use fairground_workload::{Pipe as Described, PipeKind, Waiting};

use super::Action;
use super::early_pipe::EarlyPipe;
use super::socket::Socket;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// Size of a page, the unit by which a pipe fills up.
pub(super) const PAGE: u64 = 4096;

/// One page of a pipe: bytes already read from it, and bytes left in it.
#[derive(Clone, Copy)]
struct Page {
    read: u64,
    left: u64,
}

/// A pipe of one of several kinds.
pub(super) enum Pipe {
    /// That of newer kernels.
    Paged(PagedPipe),
    /// That of early 2.6.
    Early(EarlyPipe),
    /// A stream socket.
    Socket(Socket),
}

impl Pipe {
    /// An empty pipe.
    pub fn new(described: &Described) -> Pipe {
        match described.kind {
            PipeKind::Paged { capacity } => Pipe::Paged(PagedPipe::new(capacity)),
            PipeKind::Early => Pipe::Early(EarlyPipe::default()),
            PipeKind::Socket => Pipe::Socket(Socket::default()),
        }
    }
}

/// A pipe of pages.
pub(super) struct PagedPipe {
    pages: VecDeque<Page>,
    most_pages: usize,
    readers: VecDeque<TaskRef>,
    writers: VecDeque<TaskRef>,
}

/// The bytes that a system call on a pipe moved before it ended or had to wait.
struct Moved {
    bytes: u64,
    /// Whether the other side may have been waiting for this.
    wakes: bool,
}

impl PagedPipe {
    /// An empty pipe that holds at least `capacity` bytes: as in the kernel, the number of its pages is a power of two.
    fn new(capacity: u64) -> PagedPipe {
        PagedPipe {
            pages: VecDeque::new(),
            most_pages: (capacity.div_ceil(PAGE) as usize).next_power_of_two(),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= self.most_pages
    }

    /// Takes out up to `bytes`. Writers are woken if a page of a full pipe became free.
    fn read(&mut self, bytes: u64) -> Moved {
        let (mut left, mut wakes) = (bytes, false);
        while left > 0
            && let Some(page) = self.pages.front_mut()
        {
            let part = page.left.min(left);
            page.read += part;
            page.left -= part;
            left -= part;
            if page.left == 0 {
                wakes |= self.is_full();
                self.pages.pop_front();
            }
        }
        Moved { bytes: bytes - left, wakes }
    }

    /// Puts in up to `bytes`; bytes beyond whole pages go into the last page if it has room. Readers are woken if the pipe was empty.
    fn write(&mut self, bytes: u64, begins: bool) -> Moved {
        let wakes = self.pages.is_empty();
        let (mut left, over) = (bytes, bytes % PAGE);
        if let Some(last) = self.pages.back_mut()
            && begins
            && over > 0
            && last.read + last.left + over <= PAGE
        {
            last.left += over;
            left -= over;
        }
        while left > 0 && !self.is_full() {
            let part = left.min(PAGE);
            self.pages.push_back(Page { read: 0, left: part });
            left -= part;
        }
        Moved { bytes: bytes - left, wakes }
    }
}

impl Kernel<'_> {
    /// Reads from a pipe until `bytes` have come, with as many read() calls as it takes.
    pub(super) fn read_pipe(&mut self, task: TaskRef, pipe: usize, bytes: u64) -> Option<Action> {
        match self.programs.pipes[pipe] {
            Pipe::Paged(_) => self.read_paged_pipe(task, pipe, bytes),
            Pipe::Early(_) => self.read_early_pipe(task, pipe, bytes),
            Pipe::Socket(_) => self.read_socket(task, pipe, bytes),
        }
    }

    /// Writes `bytes` to a pipe in one write() call, which waits for room as often as it has to.
    pub(super) fn write_pipe(&mut self, task: TaskRef, pipe: usize, bytes: u64) -> Option<Action> {
        match self.programs.pipes[pipe] {
            Pipe::Paged(_) => self.write_paged_pipe(task, pipe, bytes),
            Pipe::Early(_) => self.write_early_pipe(task, pipe, bytes),
            Pipe::Socket(_) => self.write_socket(task, pipe, bytes),
        }
    }

    fn paged_pipe(&mut self, pipe: usize) -> &mut PagedPipe {
        match &mut self.programs.pipes[pipe] {
            Pipe::Paged(state) => state,
            Pipe::Early(_) | Pipe::Socket(_) => {
                unreachable!("other kinds have functions of their own")
            }
        }
    }

    fn read_paged_pipe(&mut self, mut task: TaskRef, pipe: usize, bytes: u64) -> Option<Action> {
        loop {
            let state = self.paged_pipe(pipe);
            if state.pages.is_empty() {
                state.readers.push_back(task);
                return Some(self.block_in_event(task, Waiting::Data(pipe)));
            }
            let waited = std::mem::take(&mut task.execution.waited);
            let moved = state.read(bytes - task.execution.moved);
            task.execution.moved += moved.bytes;
            let next_reader = waited && !state.pages.is_empty();
            if moved.wakes {
                self.wake_one_of_pipe(task, pipe, |pipe| &mut pipe.writers);
            }
            if next_reader {
                self.wake_one_of_pipe(task, pipe, |pipe| &mut pipe.readers);
            }
            if task.execution.moved >= bytes {
                task.execution.moved = 0;
                return None;
            }
            self.system_call();
        }
    }

    fn write_paged_pipe(&mut self, mut task: TaskRef, pipe: usize, bytes: u64) -> Option<Action> {
        let waited = std::mem::take(&mut task.execution.waited);
        let state = self.paged_pipe(pipe);
        let moved = state.write(bytes - task.execution.moved, !waited);
        task.execution.moved += moved.bytes;
        let done = task.execution.moved >= bytes;
        let next_writer = waited && done && !state.is_full();
        if !done {
            state.writers.push_back(task);
        }
        if moved.wakes {
            self.wake_one_of_pipe(task, pipe, |pipe| &mut pipe.readers);
        }
        if next_writer {
            self.wake_one_of_pipe(task, pipe, |pipe| &mut pipe.writers);
        }
        if !done {
            return Some(self.block_in_event(task, Waiting::Room(pipe)));
        }
        task.execution.moved = 0;
        None
    }

    /// wake_up_interruptible_sync_poll(): the waiters are exclusive, so one is woken; the waker announces that it is about to sleep.
    fn wake_one_of_pipe(
        &mut self,
        task: TaskRef,
        pipe: usize,
        queue: impl Fn(&mut PagedPipe) -> &mut VecDeque<TaskRef>,
    ) {
        if let Some(waiter) = queue(self.paged_pipe(pipe)).pop_front() {
            self.wake(waiter, Some(task), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_full_by_pages() {
        let mut pipe = PagedPipe::new(5000);
        assert_eq!(pipe.most_pages, 2);
        assert!(pipe.write(3000, true).wakes);
        // Merged into the existing page.
        assert!(!pipe.write(1000, true).wakes);
        assert_eq!(pipe.pages.len(), 1);
        // Not merged: a second page.
        assert_eq!(pipe.write(1000, true).bytes, 1000);
        assert_eq!(pipe.write(4000, true).bytes, 0);
        // Freeing part of a page makes no room.
        assert!(!pipe.read(3999).wakes);
        assert!(pipe.is_full());
        assert!(pipe.read(1).wakes);
        assert_eq!(pipe.write(8192, true).bytes, 4096);
        assert_eq!(pipe.read(10_000).bytes, 5096);
    }
}
