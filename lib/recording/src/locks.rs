//! Mutexes: words in memory on which several tasks wait, and which they hand to each other.
//!
//! A recording shows a mutex only where some task had to wait. The sleeper took the mutex when it was woken; the waker released it. The
//! other end of each hold was not seen, and is inferred:
//!
//! - An unseen end is put where a hold of the usual length ends, but never after a wait: no task was seen to sleep in the critical section.
//! - A task that is woken and waits again before any other thread of its process has run found the mutex taken, and never held it.
//! - Where most holds have a yield in them, one with many yields was as many holds, and nobody waited between them.
//! - A task that waits for another, on a condition or in any other call, releases all it holds and takes it again once woken: the waker may
//!   need it first.
//! - A task that wakes others, which then first wait for a mutex that it releases later, held it when it woke them: this is how conditions
//!   are signalled.
//! - A task that takes a mutex at regular intervals of CPU time took it where nobody waited, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::lives::{Life, Lives};
use crate::nesting::{Nestings, one_at_a_time};
use crate::rhythm::job;
use crate::steps::{Futex, LifeId, Step, Steps, Wait};

/// Number of `futex()` on x86.
const FUTEX: i32 = 202;
/// Fewer holds show no rhythm.
const FEW: usize = 8;
/// A task that waits again this soon after being woken, in nanoseconds of CPU time, found the mutex taken by another that came first.
const STOLEN: u64 = 30_000;

/// The futex that the task waits for.
fn futex(wait: &Wait, process: u32) -> Option<Futex> {
    let call = wait.call.filter(|call| call.number == FUTEX)?;
    wait.waker.map(|_| (process, call.first))
}

/// Replaces waits and wake-ups that concern mutexes by locks; returns the number of mutexes.
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
    // A condition has tasks that wait and others that signal. With a mutex they are the same.
    waiters.retain(|word, waiting| {
        waiting.len() > 1 && wakers[word].intersection(waiting).count() > 1
    });
    if waiters.is_empty() {
        return 0;
    }
    let mut mutexes = Mutexes::default();
    for life in &lives.all {
        let mut woken = 0;
        for wait in life.steps.waits() {
            let word = futex(&wait, life.description.process);
            if let Some(word) = word.filter(|word| waiters.contains_key(word)) {
                mutexes.of_post.insert(wait.post, word);
                mutexes.asked.insert(woken, word);
            }
            woken = wait.post;
        }
    }
    let apart = apart(&lives.all, &mutexes);
    for life in &mut lives.all {
        life.steps = Holds::of(life, &mutexes).steps(&apart);
    }
    waiters.len()
}

/// Evidence of wake-ups about mutexes, by their numbers.
#[derive(Default)]
struct Mutexes {
    /// The mutex that the waker released.
    of_post: BTreeMap<u32, Futex>,
    /// The mutex that the woken task waited for next.
    asked: BTreeMap<u32, Futex>,
}

/// Mutexes that cannot have been held together as often as it seems, because then there would be no lock order.
fn apart(lives: &[Life], mutexes: &Mutexes) -> BTreeSet<Futex> {
    let several: Vec<&Life> =
        lives.iter().filter(|life| Holds::of(life, mutexes).words().len() > 1).collect();
    let mut apart = BTreeSet::new();
    loop {
        let mut nestings = Nestings::default();
        for life in &several {
            nestings.add(Holds::of(life, mutexes).steps(&apart).iter());
        }
        let circles = nestings.circles();
        if circles.is_empty() {
            return apart;
        }
        // Some of them are new: no two that are already in `apart` are ever held together.
        apart.extend(circles);
    }
}

/// A step at its place in the CPU time of its task.
type Placed = (u64, Step);

/// A task's use of mutexes, by its CPU time. This includes kernel work, because holds may consist of little else.
struct Holds<'a> {
    steps: Vec<Placed>,
    /// The places of steps, and of the end, in CPU time without kernel work.
    own: Vec<u64>,
    mutexes: &'a Mutexes,
    process: u32,
    total: u64,
}

/// The rank of the step with this number among the steps at its place; the ranks around it are free.
fn rank(number: usize) -> usize {
    3 * number + 1
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// A mutex that a task holds.
struct Held {
    since: u64,
    /// Place and rank of the yields since then.
    yields: Vec<(u64, usize)>,
    /// Place and rank just before the first wait since then.
    slept: Option<(u64, usize)>,
}

impl Held {
    /// The unlocks and locks that split this into holds of `yields` yields each; none if `yields` is 0.
    fn divide(&self, word: Futex, yields: usize) -> Vec<(u64, usize, Step)> {
        let mut placed = Vec::new();
        if yields > 0 {
            for of_one in self.yields.windows(yields + 1).step_by(yields) {
                let (last, next) = (of_one[yields - 1], of_one[yields]);
                let middle = last.0.midpoint(next.0);
                placed.push((middle, last.1 + 1, Step::Unlock(word)));
                placed.push((middle, last.1 + 1, Step::Lock(word)));
            }
        }
        placed
    }

    fn since(since: u64) -> Self {
        Self { since, yields: Vec::new(), slept: None }
    }

    /// The unseen end of a hold of the usual length: no later than `latest`, and not after a wait.
    fn release(&self, word: Futex, length: u64, latest: (u64, usize)) -> (u64, usize, Step) {
        let latest = self.slept.unwrap_or(latest);
        let (place, rank) = latest.min((self.since + length, latest.1));
        (place, rank, Step::Unlock(word))
    }
}

/// A step's evidence about mutexes.
enum About {
    Took(Futex),
    Released(Futex),
    /// The task waited for another, which may need any mutex before it wakes this one. A mutex held through such a wait could deadlock a
    /// replay.
    AwaitedTask,
    Nothing,
}

impl<'a> Holds<'a> {
    fn of(life: &Life, mutexes: &'a Mutexes) -> Self {
        let mut holds = Self {
            steps: Vec::new(),
            own: Vec::new(),
            mutexes,
            process: life.description.process,
            total: 0,
        };
        let mut own = 0;
        let leaves_out = life.steps.iter().any(|step| matches!(step, Step::Kernel(_)));
        // The number of the last wait, if it was for a mutex that the task has not been seen to release since.
        let mut attempt: Option<(usize, Futex)> = None;
        for step in life.steps.iter() {
            match step {
                Step::Run(time) => {
                    holds.total += time;
                    own += time;
                    continue;
                }
                Step::Kernel(time) => {
                    holds.total += time;
                    continue;
                }
                _ => {}
            }
            match (holds.about(&step), step) {
                (About::Took(word), Step::Wait(wait)) => {
                    let in_vain = |(_, one): &(usize, Futex)| *one == word && wait.undisturbed;
                    if let Some((place, _)) = attempt.filter(in_vain) {
                        // A replay makes its own attempts.
                        if leaves_out && place + 1 == holds.steps.len() {
                            own = holds.own[place];
                        }
                        holds.steps.remove(place);
                        holds.own.remove(place);
                    }
                    attempt = Some((holds.steps.len(), word));
                }
                (About::Released(word), _) => attempt = attempt.filter(|(_, one)| *one != word),
                (_, Step::Wait(_)) => attempt = None,
                _ => {}
            }
            holds.steps.push((holds.total, step));
            holds.own.push(own);
        }
        holds.own.push(own);
        holds
    }

    /// How much of the CPU time up to this place is the task's own.
    fn own(&self, place: u64) -> u64 {
        let next = self.steps.partition_point(|(other, _)| *other < place);
        let (from, own_from) = match next.checked_sub(1) {
            Some(before) => (self.steps[before].0, self.own[before]),
            None => (0, 0),
        };
        let to = self.steps.get(next).map_or(self.total, |(to, _)| *to);
        let part = (place - from) as f64 / (to - from).max(1) as f64;
        own_from + ((self.own[next] - own_from) as f64 * part) as u64
    }

    /// The mutexes that the task was seen to take or release.
    fn words(&self) -> BTreeSet<Futex> {
        let words = self.steps.iter().map(|(_, step)| self.about(step));
        words
            .filter_map(|about| match about {
                About::Took(word) | About::Released(word) => Some(word),
                About::AwaitedTask | About::Nothing => None,
            })
            .collect()
    }

    fn about(&self, step: &Step) -> About {
        match step {
            Step::Wait(wait) if self.mutexes.of_post.contains_key(&wait.post) => {
                futex(wait, self.process).map_or(About::Nothing, About::Took)
            }
            Step::Wait(wait) if wait.waker.is_some() => About::AwaitedTask,
            Step::Post { id, .. } => {
                self.mutexes.of_post.get(id).map_or(About::Nothing, |word| About::Released(*word))
            }
            _ => About::Nothing,
        }
    }

    /// The holds that were seen from beginning to end: how long each was, and how often the task yielded in it.
    fn seen(&self) -> BTreeMap<Futex, Vec<(u64, usize)>> {
        let mut held: BTreeMap<Futex, (u64, usize)> = BTreeMap::new();
        let mut seen: BTreeMap<Futex, Vec<(u64, usize)>> = BTreeMap::new();
        for (place, step) in &self.steps {
            match self.about(step) {
                About::Took(word) => {
                    held.insert(word, (*place, 0));
                }
                About::Released(word) => {
                    if let Some((since, yields)) = held.remove(&word) {
                        seen.entry(word).or_default().push((place - since, yields));
                    }
                }
                About::AwaitedTask => held.clear(),
                About::Nothing => {
                    let yields = usize::from(*step == Step::Yield);
                    held.values_mut().for_each(|(_, count)| *count += yields);
                }
            }
        }
        seen
    }

    /// Place and rank just before the first wake-up of a task that then waited for `word`, the mutex that this task released in step
    /// `number`; not before its last wait or its last release of that mutex.
    fn asked_for(&self, word: Futex, number: usize) -> Option<(u64, usize)> {
        let before = self.steps[..number].iter().enumerate().rev();
        let since = before.take_while(|(_, (_, step))| match step {
            Step::Wait(_) => false,
            Step::Post { id, .. } => self.mutexes.of_post.get(id) != Some(&word),
            _ => true,
        });
        let asked = since.filter(|(_, (_, step))| match step {
            Step::Post { id, .. } => self.mutexes.asked.get(id) == Some(&word),
            _ => false,
        });
        let (first, (place, _)) = asked.last()?;
        Some((*place, rank(first) - 1))
    }

    /// Adds the holds of a mutex for which nobody waited: where two of the places at which it was taken are several times the usual time
    /// apart.
    fn add_unseen(
        &self,
        word: Futex,
        begins: &[u64],
        length: u64,
        placed: &mut Vec<(u64, usize, Step)>,
    ) {
        let between: Vec<u64> =
            begins.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        if between.len() < FEW {
            return;
        }
        let Some(usual) = job(&between).filter(|usual| length > 0 && length <= *usual) else {
            return;
        };
        for (begin, between) in begins.iter().zip(between) {
            let count = (between as f64 / usual as f64).round() as u64;
            for turn in 1..count {
                let place = begin + between * turn / count;
                placed.extend(self.unseen(word, place, length));
            }
        }
    }

    /// A hold of this length that begins about here, but not before a wait that it would otherwise last through.
    fn unseen(&self, word: Futex, place: u64, length: u64) -> [(u64, usize, Step); 2] {
        let around = place.saturating_sub(length / 8)..place + length;
        let first = self.steps.partition_point(|(place, _)| *place < around.start);
        let waits = |from: usize| {
            let steps = self.steps.iter().enumerate().skip(from);
            steps
                .filter(|(_, (_, step))| matches!(step, Step::Wait(_)))
                .map(|(number, (place, _))| (*place, number))
        };
        let wait = waits(first).take_while(|(place, _)| around.contains(place)).last();
        let (begin, rank_of_begin, next) = match wait {
            Some((place, number)) => (place, rank(number) + 1, number + 1),
            None => (place, 0, first),
        };
        let end = waits(next)
            .next()
            .filter(|(place, _)| *place < begin + length)
            .map_or(((begin + length).min(self.total), 0), |(place, number)| {
                (place, rank(number) - 1)
            });
        [
            (begin, rank_of_begin, Step::Lock(word)),
            (end.0, end.1.max(rank_of_begin), Step::Unlock(word)),
        ]
    }

    /// The steps, with locks and with the runs between them. Mutexes in `apart` are held one at a time.
    fn steps(self, apart: &BTreeSet<Futex>) -> Steps {
        // Medians: of hold times, and of the yields in a hold.
        let (mut usual, mut yields) = (BTreeMap::new(), BTreeMap::new());
        for (word, seen) in self.seen() {
            let (lengths, counts): (Vec<u64>, Vec<usize>) = seen.into_iter().unzip();
            usual.insert(word, median(lengths));
            yields.insert(word, median(counts));
        }
        let usual = |word: &Futex| usual.get(word).copied().unwrap_or(0);
        let mut held: BTreeMap<Futex, Held> = BTreeMap::new();
        let mut last: BTreeMap<Futex, u64> = BTreeMap::new();
        let mut begins: BTreeMap<Futex, Vec<u64>> = BTreeMap::new();
        let mut woken = 0;
        // With a rank among steps at the same place: steps that were not seen go before those that were.
        let mut placed: Vec<(u64, usize, Step)> = Vec::new();
        for (number, (place, step)) in self.steps.iter().enumerate() {
            let (place, rank) = (*place, rank(number));
            match self.about(step) {
                About::Took(word) => {
                    let length = usual(&word);
                    match held.get(&word) {
                        Some(one) if place - one.since < STOLEN.min(length / 4) => continue,
                        Some(one) => placed.push(one.release(word, length, (place, rank - 1))),
                        None => {}
                    }
                    if apart.contains(&word) {
                        let away = |other: &Futex| *other != word && apart.contains(other);
                        for (other, one) in held.extract_if(.., |other, _| away(other)) {
                            last.insert(other, place);
                            placed.push(one.release(other, usual(&other), (place, rank - 1)));
                        }
                    }
                    placed.push((place, rank, Step::Lock(word)));
                    begins.entry(word).or_default().push(place);
                    held.insert(word, Held::since(place));
                    continue;
                }
                About::Released(word) => {
                    if let Some(one) = held.remove(&word) {
                        let yields = yields.get(&word).copied().unwrap_or(0);
                        placed.extend(one.divide(word, yields));
                    } else {
                        let before = last.get(&word).copied().unwrap_or(0).max(woken);
                        let usual = (place.saturating_sub(usual(&word)).max(before), rank - 1);
                        let asked_for = self.asked_for(word, number);
                        let asked_for = asked_for.filter(|(place, _)| *place > before);
                        let (since, rank) = usual.min(asked_for.unwrap_or(usual));
                        placed.push((since, rank, Step::Lock(word)));
                        begins.entry(word).or_default().push(since);
                    }
                    placed.push((place, rank, Step::Unlock(word)));
                    last.insert(word, place);
                    continue;
                }
                About::AwaitedTask => {
                    for (word, one) in std::mem::take(&mut held) {
                        placed.push(one.release(word, usual(&word), (place, rank - 1)));
                    }
                }
                About::Nothing => {}
            }
            if *step == Step::Yield {
                held.values_mut().for_each(|one| one.yields.push((place, rank)));
            }
            if matches!(step, Step::Wait(_)) {
                woken = place;
                for one in held.values_mut() {
                    one.slept.get_or_insert((place, rank - 1));
                }
            }
            placed.push((place, rank, *step));
        }
        for (word, one) in held {
            placed.push(one.release(word, usual(&word), (self.total, usize::MAX)));
        }
        for (word, begins) in begins {
            self.add_unseen(word, &begins, usual(&word), &mut placed);
        }
        placed.sort_by_key(|(place, rank, _)| (*place, *rank));
        let mut now = 0;
        let end = (self.total, None);
        let steps = placed.into_iter().map(|(place, _, step)| (place, Some(step)));
        let steps = steps.chain([end]).flat_map(|(place, step)| {
            let run = self.own(place).saturating_sub(now);
            now += run;
            let run = (run > 0).then_some(Step::Run(run));
            run.into_iter().chain(step)
        });
        one_at_a_time(steps, apart).collect()
    }
}
