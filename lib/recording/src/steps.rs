//! The steps of a task, packed: a recording has millions of steps, all in memory at once.

use serde::{Deserialize, Serialize};

use crate::record::Context;

/// Number of a life, in the order in which tasks appear. Thread numbers are reused; these are not.
pub(crate) type LifeId = usize;

/// Something that a task did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// It ran for this long, nanoseconds.
    Run(u64),
    /// It ran for this long in kernel work that a simulation adds again; programs leave it out.
    Kernel(u64),
    /// It waited.
    Wait(Wait),
    /// It woke a waiting task.
    Post {
        /// The task.
        to: LifeId,
        /// The number of the wake-up, which the wait has too.
        id: u32,
    },
    /// It created a task.
    Fork(LifeId),
    /// It yielded.
    Yield,
    /// It took a mutex.
    Lock(Futex),
    /// It released a mutex.
    Unlock(Futex),
}

/// A word in the memory of a process on which threads wait for each other.
pub(crate) type Futex = (u32, u64);

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// When it began and when the task was woken, nanoseconds since the beginning of the recording.
    pub from: u64,
    pub until: u64,
    /// The context of the wake-up.
    pub context: Context,
    /// The waker, if it is a chosen task.
    pub waker: Option<LifeId>,
    /// Number of the wake-up; 0 without a waker.
    pub post: u32,
    /// Whether a kernel thread woke it.
    pub by_kernel: bool,
    /// Whether it waited for a disk.
    pub disk: bool,
    /// The system call in which it waited, if its beginning was seen.
    pub call: Option<Call>,
    /// Whether no other thread of its process has run since the task got a CPU after its previous wait.
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
    /// Its number; negative outside of calls.
    pub number: i32,
    /// Its first argument.
    pub first: u64,
}

/// Steps in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    bytes: Vec<u8>,
    /// When the last wait ended: the next one begins soon after.
    last: u64,
}

/// Iterates over steps.
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
        // A step has at most eight numbers of at most ten bytes each.
        let mut room = [0; 80];
        let bytes = postcard::to_slice(&step, &mut room).expect("a step finds room");
        self.bytes.extend_from_slice(bytes);
    }

    /// All of them.
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: &self.bytes, last: 0 }
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
    /// Skips the next `count` steps.
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
            // Begins before the end of the previous one.
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
