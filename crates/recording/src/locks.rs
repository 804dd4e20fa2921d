//! Mutexes: words in memory on which several tasks wait, and which they hand to each other.
//!
//! A recording shows only those moments of a mutex at which somebody had to wait. Who waited for it took it when he was woken; who woke
//! a waiter let go of it. The other end of each hold was not seen, and is put where a hold of the usual length has it, but not beyond a wait: nobody was
//! seen to sleep with it. Who is woken and waits again before any other thread has had a CPU has found it taken, and never had it. Where
//! most holds have a yield in them, one with many yields was as many holds, between which nobody waited. Who waits for another task, on a
//! condition or in any other call, lets go of all that he holds, and takes it again when he is woken: the one who wakes him may need it first.
//! A task that wakes others, which then ask first of all for the mutex that it lets go of later, had it when it woke them: so conditions are signalled.
//! Who takes a mutex each time when he has run for so long has taken it also where nobody waited.

use std::collections::{BTreeMap, BTreeSet};

use crate::lives::{Life, LifeId, Lives};
use crate::nesting::{Nestings, one_at_a_time};
use crate::rhythm::job;
use crate::steps::{Futex, Step, Steps, Wait};

/// Number of `futex()` on x86.
const FUTEX: i32 = 202;
/// Fewer holds have no rhythm.
const FEW: usize = 8;
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

/// What wakings say of mutexes, by their numbers.
#[derive(Default)]
struct Mutexes {
    /// The mutex that the waker let go of.
    of_post: BTreeMap<u32, Futex>,
    /// The mutex that the woken task waited for next.
    asked: BTreeMap<u32, Futex>,
}

/// Mutexes that cannot have been held together as often as it seems: else there were no order of taking them.
fn apart(lives: &[Life], mutexes: &Mutexes) -> BTreeSet<Futex> {
    let several: Vec<&Life> = lives
        .iter()
        .filter(|life| Holds::of(life, mutexes).words().len() > 1)
        .collect();
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
        // Some of them are new: two of those known are never held together.
        apart.extend(circles);
    }
}

/// A step at its place in the CPU time of its task.
type Placed = (u64, Step);

/// What a task did with mutexes, by its CPU time. What the kernel did in that time counts: holds may consist of little else.
struct Holds<'a> {
    steps: Vec<Placed>,
    /// The places of steps, and of the end, in what is left of the CPU time without the kernel's.
    own: Vec<u64>,
    mutexes: &'a Mutexes,
    process: u32,
    total: u64,
}

/// The rank that the step with this number has among those of its place; the ranks around it are free.
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
    /// Place and rank of its yields since then.
    yields: Vec<(u64, usize)>,
    /// Place and rank in front of its first wait after that.
    slept: Option<(u64, usize)>,
}

impl Held {
    /// Ends and begins between the holds that this one was, if one has so many yields; none if it has none.
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
        Self {
            since,
            yields: Vec::new(),
            slept: None,
        }
    }

    /// The end of a hold of this usual length, which was not seen: not behind this place and rank, nor behind a wait.
    fn release(&self, word: Futex, length: u64, latest: (u64, usize)) -> (u64, usize, Step) {
        let latest = self.slept.unwrap_or(latest);
        let (place, rank) = latest.min((self.since + length, latest.1));
        (place, rank, Step::Unlock(word))
    }
}

/// What a step says of a mutex.
enum About {
    Took(Futex),
    Released(Futex),
    /// Nothing of this one: the task waited for another one, which may need any mutex before it wakes it. Held through such a wait, one could stop a replay.
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
        let leaves_out = life
            .steps
            .iter()
            .any(|step| matches!(step, Step::Kernel(_)));
        // The number of its last wait, if that was for a mutex of which it has not been seen to let go.
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
                        // A replay makes attempts of its own.
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

    /// The mutexes that the task was seen to take or to let go of.
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
            Step::Post { id, .. } => self
                .mutexes
                .of_post
                .get(id)
                .map_or(About::Nothing, |word| About::Released(*word)),
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

    /// The place and rank in front of the first waking of a task that then asked for the mutex of which this task let go in the step with
    /// this number; not before it last waited or let go of that mutex.
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

    /// Adds holds for which nobody waited, of a mutex that was taken at these places: where several times the usual time lies between two of them.
    fn add_unseen(
        &self,
        word: Futex,
        begins: &[u64],
        length: u64,
        placed: &mut Vec<(u64, usize, Step)>,
    ) {
        let between: Vec<u64> = begins
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .collect();
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

    /// A hold of this length that began about here, and not before a wait that it would else last through.
    fn unseen(&self, word: Futex, place: u64, length: u64) -> [(u64, usize, Step); 2] {
        let around = place.saturating_sub(length / 8)..place + length;
        let first = self
            .steps
            .partition_point(|(place, _)| *place < around.start);
        let waits = |from: usize| {
            let steps = self.steps.iter().enumerate().skip(from);
            steps
                .filter(|(_, (_, step))| matches!(step, Step::Wait(_)))
                .map(|(number, (place, _))| (*place, number))
        };
        let wait = waits(first)
            .take_while(|(place, _)| around.contains(place))
            .last();
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

    /// The steps with locks, and with the runs between them. Of the mutexes in `apart` it holds one at a time.
    fn steps(self, apart: &BTreeSet<Futex>) -> Steps {
        // Half of the holds are at most so long, and have at most so many yields.
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
        // With a rank among those of the same place: what was not seen goes before what was.
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
                held.values_mut()
                    .for_each(|one| one.yields.push((place, rank)));
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
        let steps = placed
            .into_iter()
            .map(|(place, _, step)| (place, Some(step)));
        let steps = steps.chain([end]).flat_map(|(place, step)| {
            let run = self.own(place).saturating_sub(now);
            now += run;
            let run = (run > 0).then_some(Step::Run(run));
            run.into_iter().chain(step)
        });
        one_at_a_time(steps, apart).collect()
    }
}
