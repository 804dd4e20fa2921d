//! Files on drives: reads with read-ahead as in Linux 2.6.2 (`mm/readahead.c`), and writes in the background.

use std::collections::{BTreeMap, VecDeque};

use fairground_events::{OverheadKind, TaskId};
use fairground_workload::{Drive as Settings, Place as Where, Waiting};

use super::Action;
use super::elevator::{self, Next, Request};
use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// A drive, and the files that tasks have open there.
pub(super) struct Drive {
    elevator: elevator::Drive,
    read_ahead: u64,
    files: u64,
    readers: BTreeMap<TaskId, Reading>,
    /// The next place of each writer.
    writers: BTreeMap<TaskId, elevator::Place>,
    throttled: VecDeque<TaskRef>,
    /// Number of the drive's next event; earlier ones no longer count.
    event: u32,
}

impl Drive {
    /// A drive on which no file is open.
    pub fn new(settings: &Settings) -> Drive {
        Drive {
            elevator: elevator::Drive::new(settings),
            read_ahead: settings.read_ahead,
            files: 0,
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            throttled: VecDeque::new(),
            event: 0,
        }
    }

    fn new_file(&mut self) -> u64 {
        self.files += 1;
        self.files
    }
}

/// A file that a task reads from its beginning. Bytes are in memory up to `ready`, and asked for up to `requested`.
struct Reading {
    file: u64,
    size: u64,
    /// Bytes that the program has read.
    position: u64,
    ready: u64,
    requested: u64,
    /// The position that ends the event.
    target: u64,
    waits: bool,
}

impl Reading {
    fn new(file: u64, size: u64) -> Reading {
        Reading { file, size, position: 0, ready: 0, requested: 0, target: 0, waits: false }
    }

    /// Goes on to the end of the event or of the bytes in memory. Returns how many bytes are to be asked for. As in 2.6, a program that comes to the
    /// end of the bytes in memory asks for the first window, which is half of the largest one; and one that is within a window asks for the next.
    fn advance(&mut self, read_ahead: u64) -> Option<u64> {
        let is_inside = self.position < self.ready;
        self.position = self.target.min(self.ready);
        if self.requested > self.ready || (!is_inside && self.position == self.target) {
            return None;
        }
        let window = match self.requested {
            0 => read_ahead / 2,
            _ => read_ahead,
        };
        let window = window.min(self.size - self.requested);
        (window > 0).then_some(window)
    }
}

impl Kernel<'_> {
    /// Begins to read `bytes` from a drive.
    pub(super) fn read_drive(
        &mut self,
        task: TaskRef,
        drive: usize,
        bytes: u64,
        place: Where,
    ) -> Option<Action> {
        if !task.execution.waited {
            let state = &mut self.programs.drives[drive];
            let is_open = state.readers.contains_key(&task.id);
            if place == Where::New || !is_open {
                let file = state.new_file();
                let size = match place {
                    Where::New => bytes,
                    Where::Next => u64::MAX,
                };
                state.readers.insert(task.id, Reading::new(file, size));
            }
            let reading = state.readers.get_mut(&task.id).expect("it is open");
            reading.target += bytes;
            reading.size = reading.size.max(reading.target);
        }
        self.go_on_reading(task, drive)
    }

    /// Reads back in one more file that others have pushed out of memory, if there is one and the event needs more.
    pub(super) fn fault_from_drive(
        &mut self,
        mut task: TaskRef,
        memory: usize,
        drive: usize,
        (bytes, most): (u64, u64),
    ) -> Option<Action> {
        if task.execution.waited {
            let action = self.go_on_reading(task, drive);
            if action.is_some() {
                return action;
            }
            task.execution.waited = false;
        }
        loop {
            let evicted = &mut self.programs.evicted[memory];
            if *evicted == 0 || task.execution.moved == most {
                task.execution.moved = 0;
                return None;
            }
            *evicted -= 1;
            task.execution.moved += 1;
            let action = self.read_drive(task, drive, bytes, Where::New);
            if action.is_some() {
                return action;
            }
        }
    }

    fn go_on_reading(&mut self, task: TaskRef, drive: usize) -> Option<Action> {
        loop {
            let state = &mut self.programs.drives[drive];
            let reading = state.readers.get_mut(&task.id).expect("it is open");
            if let Some(window) = reading.advance(state.read_ahead) {
                let place = (reading.file, reading.requested);
                reading.requested += window;
                self.ask_for(task, drive, place, window);
                continue;
            }
            if reading.position == reading.target {
                return None;
            }
            reading.waits = true;
            return Some(self.wait_for_drive(task, Waiting::Disk));
        }
    }

    fn ask_for(&mut self, task: TaskRef, drive: usize, place: elevator::Place, bytes: u64) {
        let request = self.request(task, place, bytes, Some(task.id));
        self.programs.drives[drive].elevator.read(request);
        self.start_drive(drive, request.since);
    }

    fn request(
        &self,
        task: TaskRef,
        place: elevator::Place,
        bytes: u64,
        reader: Option<TaskId>,
    ) -> Request {
        Request { place, bytes, reader, cpu: task.cpu(), since: self.program_time() }
    }

    /// Writes `bytes` into memory; the task waits while too much there has not been written to the drive.
    pub(super) fn write_drive(
        &mut self,
        task: TaskRef,
        drive: usize,
        bytes: u64,
        place: Where,
    ) -> Option<Action> {
        if task.execution.waited {
            return None;
        }
        let state = &mut self.programs.drives[drive];
        let next = state.writers.get(&task.id).copied();
        let at = match next.filter(|_| place == Where::Next) {
            Some(at) => at,
            None => (state.new_file(), 0),
        };
        state.writers.insert(task.id, (at.0, at.1 + bytes));
        let request = self.request(task, at, bytes, None);
        let state = &mut self.programs.drives[drive];
        let goes_on = state.elevator.write(request);
        if !goes_on {
            state.throttled.push_back(task);
        }
        self.start_drive(drive, request.since);
        (!goes_on).then(|| self.wait_for_drive(task, Waiting::Writeback))
    }

    fn wait_for_drive(&mut self, task: TaskRef, waiting: Waiting) -> Action {
        self.block_in_event(task, waiting);
        Action::BlockOnDisk
    }

    /// Lets the elevator choose, if the drive is idle.
    fn start_drive(&mut self, drive: usize, now: u64) {
        let state = &mut self.programs.drives[drive];
        let at = match state.elevator.start(now) {
            Next::Served { at } => at,
            Next::Anticipated { until } => until,
            Next::Nothing => return,
        };
        state.event = state.event.wrapping_add(1);
        let event = state.event;
        let drive = drive as u32;
        self.clock.at(at, Due::Drive { drive, event });
    }

    /// A drive has served a request, or has waited long enough for another one. The interrupt goes to the CPU that made the request; the timer and the
    /// kernel's thread that ends the waiting take no time here.
    pub(crate) fn handle_drive(&mut self, drive: usize, event: u32, due: Due) {
        let state = &mut self.programs.drives[drive];
        if state.event != event {
            return;
        }
        let now = self.clock.now();
        let Some(home) = state.elevator.interrupts() else {
            state.elevator.give_up();
            self.start_drive(drive, now);
            return;
        };
        let cpu = self.online_cpu_near(home);
        if self.postponed(cpu, due) {
            return;
        }
        let woken = self.complete_drive(drive, now);
        self.interrupt(cpu);
        // Like a timer interrupt, it wakes tasks and does little else.
        self.context.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        for task in woken {
            self.wake(task, None, false);
        }
        self.cpus[cpu].preempt_count = 0;
        self.leave(OverheadKind::Scheduling);
    }

    /// Ends the request that a drive serves, and begins with the next. Returns the tasks that go on.
    fn complete_drive(&mut self, drive: usize, now: u64) -> Vec<TaskRef> {
        let state = &mut self.programs.drives[drive];
        let request = state.elevator.complete(now).expect("one is served");
        let mut woken = Vec::new();
        if let Some(task) = request.reader
            && let Some(reading) = state.readers.get_mut(&task)
            && reading.file == request.place.0
        {
            reading.ready = request.place.1 + request.bytes;
            if std::mem::take(&mut reading.waits) {
                woken.push(self.tasks.workload()[task.0 as usize]);
            }
        }
        let state = &mut self.programs.drives[drive];
        if state.elevator.has_room() {
            woken.extend(state.throttled.drain(..));
        }
        self.start_drive(drive, now);
        woken
    }

    /// Closes the files of a task that ends.
    pub(crate) fn close_files(&mut self, task: TaskRef) {
        for state in &mut self.programs.drives {
            state.elevator.forget(task.id);
            state.readers.remove(&task.id);
            state.writers.remove(&task.id);
        }
    }
}
