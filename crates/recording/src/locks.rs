//! Mutexes: words in memory on which several tasks wait, and which they hand to each other.
//!
//! A recording shows only those moments of a mutex at which somebody had to wait. Who waited for it took it when he was woken; who woke
//! a waiter let go of it. The other end of each hold was not seen, and is put where a hold of the usual length has it. Who waits for a condition
//! lets go of all that he holds, and takes it again when he is woken.

use std::collections::{BTreeMap, BTreeSet};

use crate::lives::{LifeId, Lives};
use crate::steps::{Futex, Step, Steps, Wait};

/// Number of `futex()` on x86.
const FUTEX: i32 = 202;
/// Who waits again so soon after being woken, in nanoseconds of CPU time, has found the mutex taken by somebody who came first.
const STOLEN: u64 = 30_000;

/// The word that the task waits for.
fn futex(wait: &Wait, process: u32) -> Option<Futex> {
    let call = wait.call.filter(|call| call.number == FUTEX)?;
    wait.waker.map(|_| (process, call.first))
}

/// Puts locks in the places of waits and wakings that are about mutexes; returns how many mutexes there are.
pub(crate) fn infer(lives: &mut Lives) -> usize {
    let mut waiters: BTreeMap<Futex, BTreeSet<LifeId>> = BTreeMap::new();
    let mut wakers = waiters.clone();
    for (id, life) in lives.all.iter().enumerate() {
        for wait in life.steps.waits() {
            if let Some(word) = futex(&wait, life.description.process) {
                waiters.entry(word).or_default().insert(id);
                wakers.entry(word).or_default().extend(wait.waker);
            }
        }
    }
    // A condition has those who wait and those who signal. With a mutex they are the same.
    waiters.retain(|word, waiting| {
        waiting.len() > 1 && wakers[word].intersection(waiting).count() > 1
    });
    if waiters.is_empty() {
        return 0;
    }
    let mut of_post: BTreeMap<u32, Futex> = BTreeMap::new();
    for life in &lives.all {
        for wait in life.steps.waits() {
            let word = futex(&wait, life.description.process);
            if let Some(word) = word.filter(|word| waiters.contains_key(word)) {
                of_post.insert(wait.post, word);
            }
        }
    }
    for life in &mut lives.all {
        let process = life.description.process;
        life.steps = Holds::of(&life.steps, process, &of_post).steps();
    }
    waiters.len()
}

/// A step at its place in the CPU time of its task.
type Placed = (u64, Step);

/// What a task did with mutexes, by its CPU time.
struct Holds<'a> {
    steps: Vec<Placed>,
    of_post: &'a BTreeMap<u32, Futex>,
    process: u32,
    total: u64,
}

/// What a step says of a mutex.
enum About {
    Took(Futex),
    Released(Futex),
    /// It waited for a condition.
    Condition,
    Nothing,
}

impl<'a> Holds<'a> {
    fn of(steps: &Steps, process: u32, of_post: &'a BTreeMap<u32, Futex>) -> Self {
        let mut total = 0;
        let mut placed = Vec::new();
        for step in steps.iter() {
            match step {
                Step::Run(time) => total += time,
                _ => placed.push((total, step)),
            }
        }
        Self {
            steps: placed,
            of_post,
            process,
            total,
        }
    }

    fn about(&self, step: &Step) -> About {
        match step {
            Step::Wait(wait) if self.of_post.contains_key(&wait.post) => {
                futex(wait, self.process).map_or(About::Nothing, About::Took)
            }
            Step::Wait(wait) if futex(wait, self.process).is_some() => About::Condition,
            Step::Post { id, .. } => self
                .of_post
                .get(id)
                .map_or(About::Nothing, |word| About::Released(*word)),
            _ => About::Nothing,
        }
    }

    /// Half of the holds that were seen from beginning to end are at most this long.
    fn usual(&self) -> BTreeMap<Futex, u64> {
        let mut held: BTreeMap<Futex, u64> = BTreeMap::new();
        let mut lengths: BTreeMap<Futex, Vec<u64>> = BTreeMap::new();
        for (place, step) in &self.steps {
            match self.about(step) {
                About::Took(word) => {
                    held.insert(word, *place);
                }
                About::Released(word) => {
                    if let Some(since) = held.remove(&word) {
                        lengths.entry(word).or_default().push(place - since);
                    }
                }
                About::Condition => held.clear(),
                About::Nothing => {}
            }
        }
        let median = |mut lengths: Vec<u64>| {
            lengths.sort_unstable();
            lengths[lengths.len() / 2]
        };
        lengths
            .into_iter()
            .map(|(word, lengths)| (word, median(lengths)))
            .collect()
    }

    /// The steps with locks, and with the runs between them.
    fn steps(self) -> Steps {
        let usual = self.usual();
        let mut held: BTreeMap<Futex, u64> = BTreeMap::new();
        let mut last: BTreeMap<Futex, u64> = BTreeMap::new();
        let mut woken = 0;
        // With a rank among those of the same place: what was not seen goes before what was.
        let mut placed: Vec<(u64, usize, Step)> = Vec::new();
        for (number, (place, step)) in self.steps.iter().enumerate() {
            let (place, rank) = (*place, 2 * number + 1);
            match self.about(step) {
                About::Took(word) => {
                    let length = usual.get(&word).copied().unwrap_or(0);
                    match held.get(&word) {
                        Some(since) if place - since < STOLEN.min(length / 4) => continue,
                        Some(since) => {
                            let release = (since + length).min(place);
                            placed.push((release, rank - 1, Step::Unlock(word)));
                        }
                        None => {}
                    }
                    placed.push((place, rank, Step::Lock(word)));
                    held.insert(word, place);
                }
                About::Released(word) => {
                    if held.remove(&word).is_none() {
                        let length = usual.get(&word).copied().unwrap_or(0);
                        let before = last.get(&word).copied().unwrap_or(0).max(woken);
                        let since = place.saturating_sub(length).max(before);
                        placed.push((since, rank - 1, Step::Lock(word)));
                    }
                    placed.push((place, rank, Step::Unlock(word)));
                    last.insert(word, place);
                }
                About::Condition => {
                    for (word, since) in std::mem::take(&mut held) {
                        let length = usual.get(&word).copied().unwrap_or(0);
                        let release = (since + length).min(place);
                        placed.push((release, rank - 1, Step::Unlock(word)));
                    }
                    woken = place;
                    placed.push((place, rank, *step));
                }
                About::Nothing => placed.push((place, rank, *step)),
            }
        }
        for (word, since) in held {
            let length = usual.get(&word).copied().unwrap_or(0);
            placed.push((
                (since + length).min(self.total),
                usize::MAX,
                Step::Unlock(word),
            ));
        }
        placed.sort_by_key(|(place, rank, _)| (*place, *rank));
        let mut steps = Steps::default();
        let mut now = 0;
        for (place, _, step) in placed {
            if place > now {
                steps.push(Step::Run(place - now));
                now = place;
            }
            steps.push(step);
        }
        if self.total > now {
            steps.push(Step::Run(self.total - now));
        }
        steps
    }
}
