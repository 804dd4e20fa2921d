//! Pipes: bytes on their way, readers that wait for some, and writers that wait for room. Each kind says what a system call moves and whom it wakes.

use std::collections::VecDeque;

use fairground_workload::{Pipe as Described, PipeKind, Waiting};

use super::early_pipe::EarlyPipe;
use super::socket::Socket;
use super::{Action, Execution};
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// Size of a page, the unit by which a pipe fills up.
pub(super) const PAGE: u64 = 4096;

/// The part of a transfer that happens at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes that it moves.
    pub bytes: u64,
    /// Whether it wakes those on the other side, and then whether it wakes those on its own.
    pub wakes: [bool; 2],
    /// Whether it ends the call in the kernel's eyes: the waker does not announce that it is about to sleep.
    pub ends: bool,
    /// Whether the task has to wait for the other side then.
    pub waits: bool,
}

/// The bytes in a pipe of some kind.
pub(super) trait Channel {
    /// A reader takes out up to `most` bytes.
    fn read(&mut self, most: u64, reader: &mut Execution) -> Step;

    /// A writer of `all` bytes puts in up to the `left` ones that are left.
    fn write(&mut self, all: u64, left: u64, writer: &mut Execution) -> Step;
}

enum Buffer {
    /// As in newer kernels: waiters are exclusive, so one is woken, the one that came first.
    Paged(PagedPipe),
    /// As in early 2.6: readers and writers wait in one queue, and all of them are woken, the last one first.
    Early(EarlyPipe),
    /// A stream socket: all readers or writers are woken, the last one first.
    Socket(Socket),
}

/// A pipe, with the tasks that wait at it.
pub(super) struct Pipe {
    kind: Buffer,
    readers: VecDeque<TaskRef>,
    writers: VecDeque<TaskRef>,
}

impl Pipe {
    /// An empty pipe.
    pub fn new(described: &Described) -> Pipe {
        let kind = match described.kind {
            PipeKind::Paged { capacity } => Buffer::Paged(PagedPipe::new(capacity)),
            PipeKind::Early => Buffer::Early(EarlyPipe::default()),
            PipeKind::Socket => Buffer::Socket(Socket::default()),
        };
        Pipe { kind, readers: VecDeque::new(), writers: VecDeque::new() }
    }

    fn channel(&mut self) -> &mut dyn Channel {
        match &mut self.kind {
            Buffer::Paged(pipe) => pipe,
            Buffer::Early(pipe) => pipe,
            Buffer::Socket(socket) => socket,
        }
    }

    /// The queue of those who wait for room, or for data.
    fn queue(&mut self, waiting: Waiting) -> &mut VecDeque<TaskRef> {
        match (&self.kind, waiting) {
            (Buffer::Paged(_) | Buffer::Socket(_), Waiting::Room(_)) => &mut self.writers,
            _ => &mut self.readers,
        }
    }

    fn add(&mut self, task: TaskRef, waiting: Waiting) {
        let is_exclusive = matches!(self.kind, Buffer::Paged(_));
        let queue = self.queue(waiting);
        match is_exclusive {
            true => queue.push_back(task),
            false => queue.push_front(task),
        }
    }

    fn take_woken(&mut self, waiting: Waiting) -> VecDeque<TaskRef> {
        match self.kind {
            Buffer::Paged(_) => self.queue(waiting).pop_front().into_iter().collect(),
            Buffer::Early(_) | Buffer::Socket(_) => std::mem::take(self.queue(waiting)),
        }
    }
}

impl Kernel<'_> {
    /// Reads from a pipe until `bytes` have come, with as many read() calls as it takes.
    pub(super) fn read_pipe(
        &mut self,
        mut task: TaskRef,
        pipe: usize,
        bytes: u64,
    ) -> Option<Action> {
        loop {
            let missing = bytes - task.execution.moved;
            let step = self.programs.pipes[pipe].channel().read(missing, &mut task.execution);
            if let Some(action) = self.complete_step(task, pipe, &step, Waiting::Data(pipe)) {
                return Some(action);
            }
            if step.bytes == missing {
                task.execution.moved = 0;
                return None;
            }
            self.system_call();
        }
    }

    /// Writes `bytes` to a pipe in one write() call, which waits for room as often as it has to.
    pub(super) fn write_pipe(
        &mut self,
        mut task: TaskRef,
        pipe: usize,
        bytes: u64,
    ) -> Option<Action> {
        while task.execution.moved < bytes {
            let missing = bytes - task.execution.moved;
            let channel = self.programs.pipes[pipe].channel();
            let step = channel.write(bytes, missing, &mut task.execution);
            if let Some(action) = self.complete_step(task, pipe, &step, Waiting::Room(pipe)) {
                return Some(action);
            }
        }
        task.execution.moved = 0;
        None
    }

    /// wake_up_interruptible_sync_poll() of both sides, and the task's own wait.
    fn complete_step(
        &mut self,
        mut task: TaskRef,
        pipe: usize,
        step: &Step,
        waiting: Waiting,
    ) -> Option<Action> {
        task.execution.moved += step.bytes;
        let other = match waiting {
            Waiting::Data(_) => Waiting::Room(pipe),
            _ => Waiting::Data(pipe),
        };
        for (wakes, waited) in step.wakes.into_iter().zip([other, waiting]) {
            if wakes {
                for waiter in self.programs.pipes[pipe].take_woken(waited) {
                    self.wake(waiter, Some(task), !step.ends);
                }
            }
        }
        step.waits.then(|| {
            self.programs.pipes[pipe].add(task, waiting);
            self.block_in_event(task, waiting)
        })
    }
}

/// One page of a pipe: bytes already read from it, and bytes left in it.
#[derive(Clone, Copy)]
struct Page {
    read: u64,
    left: u64,
}

/// A pipe of pages, as in `fs/pipe.c`.
struct PagedPipe {
    pages: VecDeque<Page>,
    most_pages: usize,
}

impl PagedPipe {
    /// An empty pipe that holds at least `capacity` bytes: as in the kernel, the number of its pages is a power of two.
    fn new(capacity: u64) -> PagedPipe {
        PagedPipe {
            pages: VecDeque::new(),
            most_pages: (capacity.div_ceil(PAGE) as usize).next_power_of_two(),
        }
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= self.most_pages
    }

    /// Takes out up to `bytes`; returns how many, and whether a page of a full pipe became free.
    fn take(&mut self, bytes: u64) -> (u64, bool) {
        let (mut left, mut has_room) = (bytes, false);
        while left > 0
            && let Some(page) = self.pages.front_mut()
        {
            let part = page.left.min(left);
            page.read += part;
            page.left -= part;
            left -= part;
            if page.left == 0 {
                has_room |= self.is_full();
                self.pages.pop_front();
            }
        }
        (bytes - left, has_room)
    }

    /// Puts in up to `bytes` and returns how many; bytes beyond whole pages go into the last page if it has room.
    fn put(&mut self, bytes: u64, begins: bool) -> u64 {
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
        bytes - left
    }
}

impl Channel for PagedPipe {
    fn read(&mut self, most: u64, reader: &mut Execution) -> Step {
        if self.pages.is_empty() {
            return Step { waits: true, ..Step::default() };
        }
        let waited = std::mem::take(&mut reader.waited);
        let (bytes, has_room) = self.take(most);
        // Who has waited passes on what is left.
        Step { bytes, wakes: [has_room, waited && !self.pages.is_empty()], ..Step::default() }
    }

    fn write(&mut self, _all: u64, left: u64, writer: &mut Execution) -> Step {
        let waited = std::mem::take(&mut writer.waited);
        let was_empty = self.pages.is_empty();
        let bytes = self.put(left, !waited);
        let waits = bytes < left;
        Step { bytes, wakes: [was_empty, waited && !waits && !self.is_full()], waits, ends: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_full_by_pages() {
        let mut pipe = PagedPipe::new(5000);
        assert_eq!(pipe.most_pages, 2);
        assert_eq!(pipe.put(3000, true), 3000);
        // Merged into the existing page.
        assert_eq!(pipe.put(1000, true), 1000);
        assert_eq!(pipe.pages.len(), 1);
        // Not merged: a second page.
        assert_eq!(pipe.put(1000, true), 1000);
        assert_eq!(pipe.put(4000, true), 0);
        // Freeing part of a page makes no room.
        assert_eq!(pipe.take(3999), (3999, false));
        assert!(pipe.is_full());
        assert_eq!(pipe.take(1), (1, true));
        assert_eq!(pipe.put(8192, true), 4096);
        assert_eq!(pipe.take(10_000), (5096, true));
    }
}
