//! Pipes of Linux 2.6 to 2.6.10: a page of bytes with one queue of waiters, all of whom every transfer wakes. The wake-up is synchronous if the call
//! goes on to wait in the middle of its transfer, and not at its end.

use fairground_workload::Pipe as Described;

use super::Execution;
use super::pipe::{Channel, Step};

/// Such a pipe.
#[derive(Default)]
pub(super) struct EarlyPipe {
    length: u64,
    /// Writers in the middle of a call. A reader that has got something waits for more only if there are some.
    waiting_writers: u64,
}

impl Channel for EarlyPipe {
    fn read(&mut self, most: u64, reader: &mut Execution) -> Step {
        let bytes = self.length.min(most);
        self.length -= bytes;
        reader.moved_in_call += bytes;
        let has_read = reader.moved_in_call > 0;
        let waits = bytes < most && (self.waiting_writers > 0 || !has_read);
        if !waits {
            reader.moved_in_call = 0;
        }
        Step { bytes, wakes: [has_read || !waits, false], ends: !waits, waits }
    }

    /// Up to a page is written at once or not at all.
    fn write(&mut self, all: u64, left: u64, writer: &mut Execution) -> Step {
        self.waiting_writers -= u64::from(std::mem::take(&mut writer.waited));
        let least = if all > Described::EARLY_CAPACITY { 1 } else { left };
        let room = Described::EARLY_CAPACITY - self.length;
        let bytes = if room >= least { room.min(left) } else { 0 };
        self.length += bytes;
        let waits = bytes < left;
        self.waiting_writers += u64::from(waits);
        Step { bytes, wakes: [bytes > 0, false], ends: !waits, waits }
    }
}
