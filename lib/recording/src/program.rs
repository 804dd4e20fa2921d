//! Programs: a task's behaviour under any scheduler, derived from its behaviour under one.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use fairground_workload::{Event, Events, Mutex, Phase, Task, Timer, TimerMode, Workload};

use crate::lives::{Life, Lives};
use crate::loss::{Loss, Sure};
use crate::numbers::Numbers;
use crate::record::Context;
use crate::rhythm::{Rhythm, TIMER_SLACK, is_timer, rhythm};
use crate::steps::{Futex, Iter, LifeId, Step, Wait};

/// A task that waited for less than its time divided by this is CPU-bound, and its waits are left out.
const BOUND: u64 = 50;
/// Behaviour over a shorter time does not show how a task continues, nanoseconds.
const SHORT: u64 = 100_000_000;
/// Fewest waits from which a task is taken to loop.
const FEW: usize = 4;
/// CPU time of one pass of a task that only computes, nanoseconds.
const STRETCH: u64 = 100_000_000;
/// System calls on x86 that wait for something outside: poll, select, pause, accept, recvfrom, recvmsg, rt_sigtimedwait, epoll_wait,
/// pselect6, ppoll, epoll_pwait, accept4, recvmmsg, epoll_pwait2.
const ARRIVALS: [i32; 14] = [7, 23, 34, 43, 45, 47, 128, 232, 270, 271, 281, 288, 299, 441];

/// How a task continues after its recorded steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Going {
    /// It ends.
    Ends,
    /// It repeats its steps from this one on.
    On {
        /// Index of the step.
        from: usize,
        /// Whether it is CPU-bound from there on, so that its waits there are left out.
        bound: bool,
    },
}

/// How a task continues after a recording of this length.
pub(crate) fn going(life: &Life, length: u64) -> Going {
    let lived = length.saturating_sub(life.begin());
    if life.ended.is_some() || !life.chosen || lived < SHORT || lived < length.div_ceil(2) {
        return Going::Ends;
    }
    let part = Part::behind_forks(life);
    if life.open
        && !part.locks
        && let Some(from) = bound(&part, length, lived)
    {
        return Going::On { from, bound: true };
    }
    steady(life, &part, length, lived)
}

/// The steps of a task from some step onwards.
struct Part<'a> {
    steps: Iter<'a>,
    /// The index of its first step, and when that began.
    begin: usize,
    since: u64,
    /// How long the task waited in it.
    waited: u64,
    /// Whether the task ever took a mutex.
    locks: bool,
}

impl<'a> Part<'a> {
    /// The part after the last fork: repeating a fork would create the task again.
    fn behind_forks(life: &'a Life) -> Self {
        let (mut begin, mut since, mut woken) = (0, life.begin(), life.begin());
        let (mut waited, mut locks) = (0, false);
        for (place, step) in life.steps.iter().enumerate() {
            match step {
                Step::Wait(wait) => {
                    woken = wait.until;
                    waited += wait.length();
                }
                Step::Fork(_) => (begin, since, waited) = (place + 1, woken, 0),
                Step::Lock(_) => locks = true,
                _ => {}
            }
        }
        Self { steps: life.steps.iter().without(begin), begin, since, waited, locks }
    }

    /// The waits, each with the index of the step after it.
    fn waits(&self) -> impl Iterator<Item = (usize, Wait)> + '_ {
        let steps = self.steps.clone().zip(self.begin + 1..);
        steps.filter_map(|(step, behind)| match step {
            Step::Wait(wait) => Some((behind, wait)),
            _ => None,
        })
    }
}

/// The step from which the task is CPU-bound, if it is.
fn bound(part: &Part<'_>, length: u64, lived: u64) -> Option<usize> {
    let mut waited = part.waited;
    let mut waits = part.waits();
    let (mut from, mut since) = (part.begin, part.since);
    loop {
        let left = length.saturating_sub(since);
        if left < lived.div_ceil(2) || left < SHORT {
            return None;
        }
        if waited < left.div_ceil(BOUND) {
            return Some(from);
        }
        let (behind, wait) = waits.next()?;
        waited -= wait.length();
        (from, since) = (behind, wait.until);
    }
}

/// Whether a task loops, and from which step: waits at its beginning that happened only once are not part of the loop.
fn steady(life: &Life, part: &Part<'_>, length: u64, lived: u64) -> Going {
    let (mut count, mut longest) = (0, 0);
    // A task that wakes it only once, at the beginning, signals a start that does not come again.
    let mut wakers: BTreeMap<LifeId, usize> = BTreeMap::new();
    for step in part.steps.clone() {
        match step {
            Step::Wait(wait) => {
                count += 1;
                longest = wait.length().max(longest);
                if let Some(waker) = wait.waker {
                    *wakers.entry(waker).or_default() += 1;
                }
            }
            Step::Lock(_) => count += 1,
            _ => {}
        }
    }
    if count < FEW {
        return Going::Ends;
    }
    let asleep = life.asleep_since.map_or(0, |since| length.saturating_sub(since));
    if asleep > longest.saturating_mul(2).max(lived / 10) {
        return Going::Ends;
    }
    let once = |wait: &Wait| wait.waker.is_some_and(|waker| wakers[&waker] == 1);
    let early = |wait: &Wait| wait.until.saturating_sub(life.begin()) < lived.div_ceil(2);
    let start = part.waits().filter(|(_, wait)| once(wait) && early(wait)).last();
    let (from, since) =
        start.map_or((part.begin, part.since), |(behind, wait)| (behind, wait.until));
    if length.saturating_sub(since) < lived.div_ceil(2) {
        return Going::Ends;
    }
    Going::On { from, bound: false }
}

/// Makes the programs of all tasks, and the objects that they share.
pub(crate) struct Maker<'a> {
    /// Whether the recording lacks system calls.
    without_calls: bool,
    goings: &'a [Going],
    definitions: &'a BTreeMap<LifeId, usize>,
    /// Wake-ups whose waits are left out.
    dropped: Numbers,
    /// Wake-ups that are repeated: they are in the loops of both waker and sleeper.
    repeated: Numbers,
    mutexes: BTreeMap<Futex, usize>,
    semaphores: BTreeMap<LifeId, usize>,
    /// A task's own timers, and the times at which something arrives from outside, which are also a timer.
    timers: BTreeMap<(LifeId, Moments), usize>,
    disks: BTreeMap<LifeId, usize>,
}

/// The meanings of points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moments {
    Own = 0,
    Outside = 1,
}

/// A program under construction.
struct Making {
    events: Events,
    /// The run before the next event, and how certain it is.
    run: u64,
    sure: Sure,
    /// The mutexes that it holds.
    held: BTreeSet<Futex>,
    /// The times that its timers were last set to.
    last: [u64; 2],
    /// How late the kernel lets its timers come: that much of each sleep it did not ask for.
    slack: u64,
}

impl Making {
    fn flush(&mut self) {
        let run = mem::take(&mut self.run);
        if run > 0 {
            self.events.push(Event::Run(run));
        }
    }

    fn push(&mut self, event: Event) {
        self.flush();
        self.events.push(event);
    }

    /// A sleep that took so long.
    fn sleep(&mut self, length: u64) {
        self.push(Event::Sleep(length.saturating_sub(self.slack).max(1000)));
    }
}

impl<'a> Maker<'a> {
    pub fn new(
        lives: &Lives,
        goings: &'a [Going],
        definitions: &'a BTreeMap<LifeId, usize>,
    ) -> Self {
        let mut dropped = Numbers::default();
        let [mut awaited, mut posted] = [Numbers::default(), Numbers::default()];
        for (life, going) in lives.all.iter().zip(goings) {
            let Going::On { from, bound } = *going else { continue };
            for step in life.steps.iter().without(from) {
                match step {
                    Step::Wait(wait) if bound => dropped.insert(wait.post),
                    Step::Wait(wait) => awaited.insert(wait.post),
                    Step::Post { id, .. } => posted.insert(id),
                    _ => {}
                }
            }
        }
        Self {
            without_calls: lives.without_calls,
            goings,
            definitions,
            dropped,
            repeated: awaited.and(&posted),
            mutexes: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            timers: BTreeMap::new(),
            disks: BTreeMap::new(),
        }
    }

    /// The phases of a task: the recorded ones, and how it continues.
    pub fn phases(&mut self, id: LifeId, life: &Life, loss: &mut Loss) -> Vec<Phase> {
        let going = self.goings[id];
        let steady = match going {
            Going::On { from, .. } => from,
            Going::Ends => 0,
        };
        let rhythm = rhythm(life.steps.iter().without(steady));
        let mut making = Making {
            events: Events::default(),
            run: 0,
            sure: Sure::Exact,
            held: BTreeSet::new(),
            last: [life.begin(); 2],
            slack: if life.is_real_time() { 0 } else { TIMER_SLACK },
        };
        let mut of_phase = |maker: &mut Self, from: usize, repeats: bool, loss: &mut Loss| {
            let mut job_timers = 0;
            if repeats {
                // Times count from where the loop begins, or a second pass would find all of them in the past.
                making.last = [begin_of(life, from); 2];
            }
            for (place, step) in (from..).zip(life.steps.iter().without(from)) {
                let bound = matches!(going, Going::On { from, bound: true } if place >= from);
                match step {
                    Step::Run(time) => {
                        making.run += time;
                        loss.run(making.sure, time);
                    }
                    Step::Kernel(_) => {}
                    Step::Yield => making.push(Event::Yield),
                    Step::Fork(child) => {
                        if let Some(definition) = maker.definitions.get(&child) {
                            making.push(Event::Fork(*definition));
                        }
                    }
                    Step::Post { to, id } => {
                        let heard =
                            !maker.dropped.contains(id) && maker.definitions.contains_key(&to);
                        if heard && (!repeats || maker.repeated.contains(id)) {
                            let semaphore = number(&mut maker.semaphores, to);
                            making.push(Event::SemPost(semaphore));
                        }
                    }
                    Step::Lock(word) => {
                        loss.wait(Sure::Approximated);
                        making.sure = Sure::Approximated;
                        if making.held.insert(word) {
                            let mutex = number(&mut maker.mutexes, word);
                            making.push(Event::Lock(mutex));
                        }
                    }
                    Step::Unlock(word) => {
                        if making.held.remove(&word) {
                            let mutex = number(&mut maker.mutexes, word);
                            making.push(Event::Unlock(mutex));
                        }
                    }
                    Step::Wait(_) if bound => {
                        loss.wait(Sure::Approximated);
                        making.sure = Sure::Approximated;
                    }
                    Step::Wait(wait) => {
                        let jobs = Jobs {
                            rhythm: if place >= steady { rhythm } else { Rhythm::Relative },
                            first: job_timers == 0 && !repeats,
                        };
                        job_timers += u32::from(is_timer(&wait) && place >= steady);
                        making.sure = maker.wait(id, &wait, jobs, repeats, &mut making);
                        loss.wait(making.sure);
                    }
                }
            }
            making.flush();
            for word in mem::take(&mut making.held) {
                let mutex = number(&mut maker.mutexes, word);
                making.events.push(Event::Unlock(mutex));
            }
            mem::take(&mut making.events)
        };
        let recorded = of_phase(self, 0, false, loss);
        let mut phases = vec![phase("recorded", Some(1), recorded)];
        if let Going::On { from, .. } = going {
            // Repeated steps are only counted once.
            let mut events = of_phase(self, from, true, &mut Loss::default());
            let runs = |event: Event| matches!(event, Event::Run(_));
            if events.iter().all(runs) {
                events = vec![Event::Run(STRETCH)].into();
            }
            if !events.iter().any(runs) {
                events.push(Event::Run(1000));
            }
            phases.push(phase("on", None, events));
        }
        phases
    }

    /// The event that a wait becomes, and how certain it is.
    fn wait(
        &mut self,
        id: LifeId,
        wait: &Wait,
        jobs: Jobs,
        repeats: bool,
        making: &mut Making,
    ) -> Sure {
        let length = wait.length();
        let known = wait.waker.filter(|waker| self.definitions.contains_key(waker));
        if known.is_some() && (!repeats || self.repeated.contains(wait.post)) {
            let semaphore = number(&mut self.semaphores, id);
            making.push(Event::SemWait(semaphore));
            // Without system calls it may have been a mutex.
            return if self.without_calls { Sure::Approximated } else { Sure::Exact };
        }
        if length == 0 {
            return Sure::Exact;
        }
        if known.is_some() || wait.call.is_none() {
            // The waker does not repeat this wake-up, or the task was asleep from before the beginning.
            making.sleep(length);
            return Sure::Assumed;
        }
        if is_timer(wait) {
            self.timer(id, wait, jobs, making);
            return match jobs.rhythm {
                Rhythm::Periodic { shown: false, .. } => Sure::Assumed,
                _ if self.without_calls => Sure::Assumed,
                _ => Sure::Approximated,
            };
        }
        let call = wait.call.map_or(-1, |call| call.number);
        // Without system calls, a wait that is not for a disk is taken to be for something outside.
        let from_outside = wait.context == Context::Task || self.without_calls;
        let outside = ARRIVALS.contains(&call) || (from_outside && !wait.by_kernel);
        if wait.disk || !outside {
            let disk = number(&mut self.disks, id);
            making.push(Event::Disk { disk, service: length });
            return Sure::Approximated;
        }
        self.point(id, Moments::Outside, wait.until, TimerMode::Absolute, making);
        Sure::Assumed
    }

    /// Sets a timer that expires at `time`.
    fn point(
        &mut self,
        id: LifeId,
        moments: Moments,
        time: u64,
        mode: TimerMode,
        making: &mut Making,
    ) {
        let last = &mut making.last[moments as usize];
        let time = time.saturating_sub(making.slack);
        let period = time.saturating_sub(*last);
        *last = time.max(*last);
        let timer = number(&mut self.timers, (id, moments));
        making.push(Event::Timer { timer, period, mode });
    }

    fn timer(&mut self, id: LifeId, wait: &Wait, jobs: Jobs, making: &mut Making) {
        match jobs.rhythm {
            Rhythm::Relative => making.sleep(wait.length()),
            Rhythm::Absolute => {
                self.point(id, Moments::Own, wait.until, TimerMode::Absolute, making);
            }
            // The period counts from here on.
            Rhythm::Periodic { mode, .. } if jobs.first => {
                self.point(id, Moments::Own, wait.until, mode, making);
            }
            Rhythm::Periodic { period, job, mode, .. } => {
                let burst = mem::take(&mut making.run);
                let count = ((burst as f64 / job as f64).round() as u64).max(1);
                let timer = number(&mut self.timers, (id, Moments::Own));
                for done in 0..count {
                    // The first jobs get the remainder.
                    making.run = burst / count + u64::from(done < burst % count);
                    making.push(Event::Timer { timer, period, mode });
                }
            }
        }
    }

    /// The timers that stand for times at which something arrives from outside.
    pub fn arrivals(&self) -> BTreeSet<usize> {
        let outside = |((_, moments), timer): (&(LifeId, Moments), &usize)| {
            (*moments == Moments::Outside).then_some(*timer)
        };
        self.timers.iter().filter_map(outside).collect()
    }

    /// The workload of these tasks, whose programs were made here.
    pub fn workload(self, tasks: Vec<Task>) -> Workload {
        let named = |count: usize, what: &str| {
            (0..count).map(|number| format!("{what}{number}")).collect::<Vec<_>>()
        };
        let mutex = |name| Mutex { name, spin: 0 };
        let timer = |name| Timer { name, unique: true };
        Workload {
            name: String::new(),
            duration: None,
            tasks,
            mutexes: named(self.mutexes.len(), "mutex").into_iter().map(mutex).collect(),
            conditions: Vec::new(),
            barriers: Vec::new(),
            semaphores: named(self.semaphores.len(), "wake"),
            timers: named(self.timers.len(), "unique").into_iter().map(timer).collect(),
            pipes: Vec::new(),
            disks: named(self.disks.len(), "disk"),
            drives: Vec::new(),
            memories: Vec::new(),
            services: Vec::new(),
            choices: Vec::new(),
            arrivals: Vec::new(),
            groups: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// When the step with this number began.
fn begin_of(life: &Life, step: usize) -> u64 {
    let before = life.steps.iter().take(step);
    let ends = before.filter_map(|step| match step {
        Step::Wait(wait) => Some(wait.until),
        _ => None,
    });
    ends.last().unwrap_or(life.begin())
}

/// How a timer of a task fits into its rhythm.
#[derive(Clone, Copy)]
struct Jobs {
    rhythm: Rhythm,
    /// Whether it is the first timer of the rhythm.
    first: bool,
}

/// The number of `key`; the next free one if it is new.
fn number<K: Ord>(numbers: &mut BTreeMap<K, usize>, key: K) -> usize {
    let next = numbers.len();
    *numbers.entry(key).or_insert(next)
}

fn phase(name: &str, loops: Option<u64>, events: Events) -> Phase {
    Phase {
        name: name.to_owned(),
        loops,
        policy: None,
        cpus: None,
        taskgroup: None,
        events,
        variations: BTreeMap::new(),
    }
}
