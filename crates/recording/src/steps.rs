//! What a task did, step by step, in few bytes: a recording has millions of steps, and all of them are in memory at once.

use serde::{Deserialize, Serialize};

use crate::lives::LifeId;
use crate::record::Context;

/// Something that a task did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// It had a CPU for so long, nanoseconds.
    Run(u64),
    /// It had a CPU for so long, in which the kernel did what a simulation does again: no program has this in it.
    Kernel(u64),
    /// It waited.
    Wait(Wait),
    /// It woke a task that waited.
    Post {
        /// Who it was.
        to: LifeId,
        /// The number of the waking, which the wait has too.
        id: u32,
    },
    /// It created a task.
    Fork(LifeId),
    /// It yielded.
    Yield,
    /// It took a mutex.
    Lock(Futex),
    /// It let go of one.
    Unlock(Futex),
}

/// A word in the memory of a process by which threads wait for each other.
pub(crate) type Futex = (u32, u64);

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// When it began, and when the task was woken, nanoseconds since the beginning.
    pub from: u64,
    pub until: u64,
    /// Where it was woken from.
    pub context: Context,
    /// By whom, if that task is one of those chosen.
    pub waker: Option<LifeId>,
    /// Number of that waking; 0 without a waker.
    pub post: u32,
    /// Whether a thread of the kernel woke it.
    pub by_kernel: bool,
    /// Whether it waited for a disk.
    pub disk: bool,
    /// The system call in which it waited, if it was seen to begin.
    pub call: Option<Call>,
    /// Whether no other thread of its process has had a CPU since it got one after the wait before.
    pub undisturbed: bool,
}

impl Wait {
    /// How long it was.
    pub fn length(&self) -> u64 {
        self.until - self.from
    }
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its number, negative outside of calls.
    pub number: i32,
    /// Its first argument.
    pub first: u64,
}

/// Steps in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    bytes: Vec<u8>,
    /// When the last wait ended: the next begins not much later.
    last: u64,
}

/// Goes through steps.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    bytes: &'a [u8],
    last: u64,
}

impl Steps {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a step.
    pub fn push(&mut self, mut step: Step) {
        if let Step::Wait(wait) = &mut step {
            let until = wait.until;
            wait.until = until.wrapping_sub(wait.from);
            wait.from = wait.from.wrapping_sub(self.last);
            self.last = until;
        }
        // No step has more than eight numbers of at most ten bytes each.
        let mut room = [0; 80];
        let bytes = postcard::to_slice(&step, &mut room).expect("a step finds room");
        self.bytes.extend_from_slice(bytes);
    }

    /// All of them.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            bytes: &self.bytes,
            last: 0,
        }
    }

    /// The waits.
    pub fn waits(&self) -> impl Iterator<Item = Wait> + Clone + '_ {
        waits(self.iter())
    }
}

/// The waits among these steps.
pub(crate) fn waits(steps: Iter<'_>) -> impl Iterator<Item = Wait> + Clone + '_ {
    steps.filter_map(|step| match step {
        Step::Wait(wait) => Some(wait),
        _ => None,
    })
}

impl Iter<'_> {
    /// Without the next steps, so many of them.
    pub fn without(mut self, count: usize) -> Self {
        self.by_ref().take(count).for_each(drop);
        self
    }
}

impl Iterator for Iter<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.bytes.is_empty() {
            return None;
        }
        let (mut step, rest) =
            postcard::take_from_bytes(self.bytes).expect("what was packed can be unpacked");
        self.bytes = rest;
        if let Step::Wait(wait) = &mut step {
            wait.from = wait.from.wrapping_add(self.last);
            wait.until = wait.until.wrapping_add(wait.from);
            self.last = wait.until;
        }
        Some(step)
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<T: IntoIterator<Item = Step>>(source: T) -> Self {
        let mut steps = Self::default();
        source.into_iter().for_each(|step| steps.push(step));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_as_they_were() {
        let wait = |from, until, call| {
            Step::Wait(Wait {
                from,
                until,
                context: Context::Timer,
                waker: Some(usize::MAX),
                post: u32::MAX,
                by_kernel: true,
                disk: true,
                call,
                undisturbed: true,
            })
        };
        let call = |number, first| Some(Call { number, first });
        let list = [
            Step::Run(u64::MAX),
            Step::Kernel(7),
            wait(0, u64::MAX, call(-1, u64::MAX)),
            // From before the end of the one in front of it.
            wait(7, 9, None),
            wait(20, 20, call(i32::MIN, 0)),
            Step::Post { to: 3, id: 4 },
            Step::Fork(5),
            Step::Yield,
            Step::Lock((u32::MAX, u64::MAX)),
            Step::Unlock((1, 2)),
        ];
        let steps: Steps = list.into_iter().collect();
        assert!(steps.iter().eq(list));
        assert!(steps.iter().without(4).eq(list[4..].iter().copied()));
        assert!(steps.iter().without(99).next().is_none());
        assert_eq!(steps.waits().count(), 3);
    }
}
