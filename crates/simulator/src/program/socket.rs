//! Stream sockets of a pair, as in `net/unix/af_unix.c` and `net/core/sock.c`: every write queues messages, which take memory of the writing side until
//! they are read. Whoever waits is woken with all others, the last one first: readers by any message, writers when three quarters of the memory are free.

use std::collections::VecDeque;

use super::Execution;
use super::pipe::{Channel, PAGE, Step};

/// Memory that messages may take, in bytes (`net.core.wmem_default`). The last one may go beyond.
const MEMORY: u64 = 212_992;
/// Maximum bytes of a message in one piece; the rest is in pages.
const PIECE: u64 = 3776;
/// Maximum bytes of a message in pages.
const PAGED: u64 = 32_768;
/// Memory of each message beside its bytes, in bytes: what lies behind its piece, and its descriptor.
const BEHIND: u64 = 320;
const DESCRIPTOR: u64 = 256;
/// The unit of pieces, in bytes: a cache line.
const LINE: u64 = 64;

/// Bytes of a message that are left, and the memory that it takes.
struct Message {
    left: u64,
    memory: u64,
}

impl Message {
    fn new(bytes: u64) -> Message {
        let paged = bytes.saturating_sub(PIECE).next_multiple_of(PAGE).min(bytes);
        let piece = (bytes - paged).next_multiple_of(LINE) + BEHIND;
        Message {
            left: bytes,
            memory: piece.next_power_of_two() + DESCRIPTOR + paged.next_multiple_of(PAGE),
        }
    }
}

/// One direction of such a pair.
#[derive(Default)]
pub(super) struct Socket {
    messages: VecDeque<Message>,
    memory: u64,
}

impl Socket {
    fn is_full(&self) -> bool {
        self.memory >= MEMORY
    }

    /// Takes out up to `most` bytes; returns how many, and whether writers are woken.
    fn take(&mut self, most: u64) -> (u64, bool) {
        let (mut left, mut wakes) = (most, false);
        while left > 0
            && let Some(message) = self.messages.front_mut()
        {
            let part = message.left.min(left);
            message.left -= part;
            left -= part;
            if message.left == 0 {
                self.memory -= message.memory;
                self.messages.pop_front();
                wakes |= self.memory * 4 < MEMORY;
            }
        }
        (most - left, wakes)
    }

    /// Puts in a message of up to `most` bytes; returns how many.
    fn put(&mut self, most: u64) -> u64 {
        let bytes = most.min(PIECE + PAGED);
        let message = Message::new(bytes);
        self.memory += message.memory;
        self.messages.push_back(message);
        bytes
    }
}

impl Channel for Socket {
    fn read(&mut self, most: u64, _reader: &mut Execution) -> Step {
        let waits = self.messages.is_empty();
        let (bytes, wakes) = self.take(most);
        Step { bytes, wakes: [wakes, false], waits, ends: false }
    }

    fn write(&mut self, _all: u64, left: u64, _writer: &mut Execution) -> Step {
        match self.is_full() {
            true => Step { waits: true, ..Step::default() },
            false => Step { bytes: self.put(left), wakes: [true, false], ..Step::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages of this length fill a socket, and the memory that they take then: the figures of Linux 6.18 (SIOCOUTQ).
    #[test]
    fn messages_take_as_much_memory_as_on_a_kernel() {
        for (bytes, messages, memory) in [
            (1, 278, 213_504),
            (100, 278, 213_504),
            (192, 278, 213_504),
            (193, 167, 213_760),
            (705, 93, 214_272),
            (3776, 49, 213_248),
            (3777, 44, 214_016),
            (8000, 24, 215_040),
            (36_544, 6, 222_720),
        ] {
            let mut socket = Socket::default();
            let mut count = 0;
            while !socket.is_full() {
                assert_eq!(socket.put(bytes), bytes);
                count += 1;
            }
            assert_eq!((count, socket.memory), (messages, memory), "{bytes}");
        }
        // One message takes no more than this.
        assert_eq!(Socket::default().put(60_000), 36_544);
    }

    #[test]
    fn writers_are_woken_when_three_quarters_are_free() {
        let mut socket = Socket::default();
        while !socket.is_full() {
            socket.put(100);
        }
        // 69 messages of 768 bytes are less than a quarter.
        let (bytes, wakes) = socket.take(208 * 100 + 50);
        assert_eq!((bytes, wakes), (20_850, false));
        assert_eq!(socket.take(50), (50, true));
        assert_eq!(socket.messages.len(), 69);
        assert_eq!(socket.take(10_000), (6900, true));
        assert_eq!(socket.memory, 0);
    }
}
