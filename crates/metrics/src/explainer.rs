//! Follows tasks while they wait, to explain their waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fairground_events::{
    Callback, Condition, CpuId, Event, EventKind, Nanoseconds, Outsider, Policy, Sink, TaskId,
    TaskInfo,
};

use crate::explanation::{
    Action, Cause, CpuUse, Explanation, Moved, Place, Ran, Stay, Step, Taken,
};
use crate::timeline::{LongestWait, States};

/// Number of steps to keep from the beginning of a wait. Those between these and the last ones are only counted.
const FIRST_STEPS: usize = 24;

/// Number of steps to keep from the end of a wait.
pub const LAST_STEPS: usize = 12;

/// Attributes of a task.
struct Known {
    name: String,
    policy: Policy,
    priority: u32,
    allowed: Vec<CpuId>,
    /// Whether its slice never ends.
    endless: bool,
    /// Whether a deadline server has it run.
    served: bool,
}

/// State of a task whose waits are explained.
#[derive(Default)]
struct Followed {
    /// When the waits to explain begin.
    wanted: Vec<Nanoseconds>,
    /// The steps since it last ran or slept.
    steps: Steps,
    place: Option<Place>,
    /// When it left a place last.
    left: Option<Nanoseconds>,
    /// Whether it is in the scheduler's class.
    of_scheduler: bool,
    /// The CPU that it was woken for, moved to or ran on last.
    cpu: Option<u32>,
    /// Since when quotas hold it back, if they do.
    throttled_since: Option<Nanoseconds>,
    /// Since when its deadline runtime is used up, if it is.
    used_up_since: Option<Nanoseconds>,
    open: Option<Open>,
}

/// A wait that has not ended.
struct Open {
    from: Nanoseconds,
    /// The CPU on whose run queue it began.
    cpu: Option<u32>,
    /// Since when the task has been where it is.
    there_since: Nanoseconds,
    stays: Vec<Stay>,
    /// How long quotas have held it back.
    throttled: Nanoseconds,
    /// How long its deadline runtime was used up.
    used_up: Nanoseconds,
    /// How tasks ran meanwhile, by CPU and task.
    ran: BTreeMap<(u32, Runner), Turns>,
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runner {
    Task(TaskId),
    Outside(Outsider),
    /// Nobody: the kernel wakes it from idleness, switches or serves interrupts.
    Overhead,
    /// Nobody: it is offline, which is not idle.
    Offline,
}

/// Someone's turn on a CPU.
#[derive(Clone, Copy)]
struct Turn {
    runner: Runner,
    begin: Nanoseconds,
    /// Since when the rest of the turn is as follows.
    since: Nanoseconds,
    endless: bool,
    served: bool,
}

impl Turn {
    fn overhead(begin: Nanoseconds) -> Self {
        Self { runner: Runner::Overhead, begin, since: begin, endless: false, served: false }
    }
}

/// How a task ran on a CPU.
#[derive(Clone, Copy, Default)]
struct Turns {
    count: u64,
    duration: Nanoseconds,
    /// How long with a slice that never ends.
    endless: Nanoseconds,
    /// How long because a deadline server had it run.
    served: Nanoseconds,
}

#[derive(Clone, Default)]
struct Steps {
    first: Vec<Step>,
    last: VecDeque<Step>,
    left_out: u64,
}

impl Steps {
    fn add(&mut self, time_ns: Nanoseconds, action: Action) {
        let step = Step { time_ns, action };
        if self.first.len() < FIRST_STEPS {
            self.first.push(step);
            return;
        }
        self.last.push_back(step);
        if self.last.len() > LAST_STEPS {
            self.last.pop_front();
            self.left_out += 1;
        }
    }
}

/// Explains waits. Needs a stream with details.
pub struct Explainer {
    cpus: u32,
    tasks: BTreeMap<TaskId, Known>,
    wanted: BTreeMap<String, Vec<Nanoseconds>>,
    followed: BTreeMap<TaskId, Followed>,
    states: States,
    /// Who runs on each CPU, and since when.
    running: Vec<Option<Turn>>,
    /// The last overhead of each CPU while nobody ran there: its beginning and its end, if it was not followed by anything.
    overhead: Vec<Option<(Nanoseconds, Nanoseconds)>>,
    offline: BTreeSet<CpuId>,
    /// The tasks that have left a queue and are not yet elsewhere, and those queues.
    moving: BTreeMap<TaskId, Place>,
    explanations: Vec<Explanation>,
}

impl Explainer {
    /// Will explain `waits` on a machine with `cpus` CPUs.
    #[must_use]
    pub fn new(cpus: u32, waits: &[LongestWait]) -> Self {
        let mut wanted: BTreeMap<String, Vec<Nanoseconds>> = BTreeMap::new();
        for wait in waits {
            let begins = wanted.entry(wait.task.clone()).or_default();
            begins.push(wait.from_ns);
        }
        Self {
            cpus,
            tasks: BTreeMap::new(),
            wanted,
            followed: BTreeMap::new(),
            states: States::default(),
            running: vec![None; cpus as usize],
            overhead: vec![None; cpus as usize],
            offline: BTreeSet::new(),
            moving: BTreeMap::new(),
            explanations: Vec::new(),
        }
    }

    /// The explanations, longest wait first; equally long waits in the order in which they ended.
    #[must_use]
    pub fn result(mut self) -> Vec<Explanation> {
        let length = |one: &Explanation| std::cmp::Reverse(one.to_ns - one.from_ns);
        self.explanations.sort_by_key(length);
        self.explanations
    }

    fn name(&self, task: TaskId) -> String {
        let known = self.tasks.get(&task);
        known.map(|known| known.name.clone()).unwrap_or_default()
    }

    /// Adds a step to the story of a task, if its waits are explained.
    fn step(&mut self, time: Nanoseconds, task: TaskId, action: Action) {
        if let Some(followed) = self.followed.get_mut(&task) {
            followed.steps.add(time, action);
        }
    }

    /// Forgets the steps of a task so far, unless a wait is being explained.
    fn begin_story(&mut self, task: TaskId) {
        if let Some(followed) = self.followed.get_mut(&task)
            && followed.open.is_none()
        {
            followed.steps = Steps::default();
        }
    }

    /// `task` is in `place` from now on.
    fn put(&mut self, now: Nanoseconds, task: TaskId, place: Option<Place>) {
        if let Some(followed) = self.followed.get_mut(&task) {
            followed.settle(now);
            if std::mem::replace(&mut followed.place, place).is_some() {
                followed.left = Some(now);
            }
        }
    }

    fn callback(
        &mut self,
        now: Nanoseconds,
        (cpu, callback, begin): (CpuId, Callback, Nanoseconds),
        task: Option<TaskId>,
        action: Action,
    ) {
        if callback == Callback::Dispatch {
            for (task, followed) in &mut self.followed {
                let known = self.tasks.get(task);
                if known.is_some_and(|known| known.may_use(cpu)) {
                    followed.count_dispatch(begin);
                }
            }
        }
        let Some(task) = task else { return };
        if matches!(callback, Callback::SelectCpu | Callback::Stopping) {
            self.begin_story(task);
        }
        // Ticks concern a running task.
        if callback != Callback::Tick {
            self.step(now, task, action);
        }
        if callback == Callback::Enqueue {
            self.moving.remove(&task);
            self.put(now, task, Some(Place::Scheduler));
        }
    }

    fn insert(&mut self, now: Nanoseconds, task: TaskId, place: Place) {
        if let Some(from) = self.moving.remove(&task).filter(|from| *from != place) {
            for (other, followed) in &mut self.followed {
                if *other != task && followed.place == Some(from) {
                    followed.count_moved(place);
                }
            }
        }
        self.put(now, task, Some(place));
    }

    fn switch(&mut self, now: Nanoseconds, cpu: CpuId, next: Option<Runner>) {
        let place = cpu.0 as usize;
        self.end_overhead(now, cpu);
        let nobody = self.offline.contains(&cpu).then_some(Runner::Offline);
        let next = next.or(nobody).map(|runner| self.turn(runner, now, now));
        let Some(running) = self.running.get_mut(place) else { return };
        if let Some(turn) = std::mem::replace(running, next) {
            self.credit(cpu, turn, now, true);
            if let Runner::Task(task) = turn.runner
                && let Some(known) = self.tasks.get_mut(&task)
            {
                known.served = false;
            }
        }
    }

    /// A turn that began at `begin`, as it is from `since` on.
    fn turn(&self, runner: Runner, begin: Nanoseconds, since: Nanoseconds) -> Turn {
        let known = self.known(runner);
        let endless = known.is_some_and(|known| known.endless);
        let served = known.is_some_and(|known| known.served);
        Turn { runner, begin, since, endless, served }
    }

    /// Credits a turn up to `now` to all waits.
    fn credit(&mut self, cpu: CpuId, turn: Turn, now: Nanoseconds, ends: bool) {
        for open in self.followed.values_mut().filter_map(|one| one.open.as_mut()) {
            open.credit(cpu, turn, now, ends);
        }
    }

    /// A condition of a task begins or ends, which may run.
    fn condition(&mut self, now: Nanoseconds, task: TaskId, condition: Condition, begins: bool) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let followed = self.followed.get_mut(&task);
        match (condition, followed) {
            (Condition::Endless, _) => known.endless = begins,
            (Condition::Served, _) => known.served = begins,
            (Condition::UsedUp, Some(followed)) => return followed.use_up(now, begins),
            (Condition::Ext, Some(followed)) => {
                followed.settle(now);
                followed.of_scheduler = begins;
                return;
            }
            (Condition::UsedUp | Condition::Ext, None) => return,
        }
        let runs = |turn: &Option<Turn>| turn.is_some_and(|one| one.runner == Runner::Task(task));
        if let Some(cpu) = self.running.iter().position(runs)
            && let Some(turn) = self.running[cpu]
        {
            self.credit(CpuId(cpu as u32), turn, now, false);
            self.running[cpu] = Some(self.turn(turn.runner, turn.begin, now));
        }
    }

    /// `cpu` spends the time from `now` on, or from the end of earlier overhead, on something other than tasks.
    fn overhead(&mut self, now: Nanoseconds, cpu: CpuId, duration: Nanoseconds) {
        let place = cpu.0 as usize;
        if self.running.get(place).is_none_or(Option::is_some) {
            return;
        }
        match &mut self.overhead[place] {
            Some((_, until)) if *until >= now => *until += duration,
            _ => {
                self.end_overhead(now, cpu);
                self.overhead[place] = Some((now, now + duration));
            }
        }
    }

    /// Credits the overhead of a CPU that ran nobody, as far as it has passed.
    fn end_overhead(&mut self, now: Nanoseconds, cpu: CpuId) {
        let overhead = self.overhead.get_mut(cpu.0 as usize).and_then(Option::take);
        if let Some((begin, until)) = overhead {
            let turn = Turn::overhead(begin);
            self.credit(cpu, turn, until.min(now), true);
        }
    }

    /// Notes the CPU of a task.
    fn locate(&mut self, task: TaskId, cpu: CpuId) {
        if let Some(followed) = self.followed.get_mut(&task) {
            followed.cpu = Some(cpu.0);
        }
    }

    /// Begins or ends a wait of `task`, according to its state.
    fn follow(&mut self, now: Nanoseconds, task: TaskId) {
        let waits_since = self.states.waits_since(task);
        let Some(followed) = self.followed.get_mut(&task) else {
            return;
        };
        match (waits_since, &followed.open) {
            (Some(since), None) if followed.wanted.contains(&since) => {
                followed.open = Some(Open::new(since, followed.cpu));
            }
            (None, Some(_)) => self.close(now, task, true),
            _ => {}
        }
    }

    fn close(&mut self, now: Nanoseconds, task: TaskId, ran: bool) {
        let Some(followed) = self.followed.get_mut(&task) else {
            return;
        };
        followed.settle(now);
        followed.throttle(now, false);
        followed.use_up(now, false);
        let Some(mut open) = followed.open.take() else {
            return;
        };
        for (cpu, running) in self.running.iter().enumerate() {
            let turn = running.filter(|turn| turn.runner != Runner::Task(task));
            if let Some(turn) = turn {
                open.credit(CpuId(cpu as u32), turn, now, true);
            }
            if let Some((begin, until)) = self.overhead[cpu] {
                let turn = Turn::overhead(begin);
                open.credit(CpuId(cpu as u32), turn, until.min(now), true);
            }
        }
        let Steps { first, last, left_out } = followed.steps.clone();
        for stay in &mut open.stays {
            stay.moved.sort_by_key(|moved| std::cmp::Reverse(moved.tasks));
        }
        let cpus = self.uses(&open, task, now - open.from);
        let length = now - open.from;
        self.explanations.push(Explanation {
            task: self.name(task),
            from_ns: open.from,
            to_ns: now,
            ran,
            cause: open
                .throttling(length)
                .or_else(|| self.real_time_cause(&open, task, &cpus, length))
                .unwrap_or_else(|| cause(&open.stays, &cpus, length, ran)),
            places: open.stays,
            cpus,
            steps: first.into_iter().chain(last).collect(),
            steps_left_out: left_out,
        });
    }

    /// Why a task of `SCHED_FIFO` or `SCHED_RR` waited on the run queue of a CPU.
    fn real_time_cause(
        &self,
        open: &Open,
        task: TaskId,
        cpus: &[CpuUse],
        length: Nanoseconds,
    ) -> Option<Cause> {
        let fixed = |one: &&Known| matches!(one.policy, Policy::Fifo | Policy::RoundRobin);
        let own = self.tasks.get(&task).filter(fixed)?;
        let cpu = open.cpu.filter(|cpu| own.may_use(CpuId(*cpu)));
        let its = cpus.iter().filter(|one| cpu.is_none_or(|cpu| one.cpu == cpu));
        let its = its.filter(|one| one.offline_ns < length);
        let (mut before, mut served, mut count) = (0, 0, 0);
        for one in its {
            count += 1;
            served += open.served_on(one.cpu);
            let is_before =
                |ran: &&Ran| ran.real_time && ran.priority.is_none_or(|one| one >= own.priority);
            before += one.ran.iter().filter(is_before).map(|ran| ran.duration_ns).sum::<u64>();
        }
        let (duration_ns, is_before) = (before.max(served), before >= served);
        let is_most = duration_ns > 0 && before + served >= length * count / 2;
        is_most.then_some(match is_before {
            true => Cause::RealTime { duration_ns, cpu },
            false => Cause::Server { duration_ns, cpu },
        })
    }

    /// The activities of the allowed CPUs of `task` during a wait of this length.
    fn uses(&self, open: &Open, task: TaskId, length: Nanoseconds) -> Vec<CpuUse> {
        let Some(known) = self.tasks.get(&task) else {
            return Vec::new();
        };
        let allowed = (0..self.cpus).filter(|cpu| known.may_use(CpuId(*cpu)));
        allowed
            .map(|cpu| {
                let busy: Nanoseconds = open.ran_on(cpu).map(|(_, turns)| turns.duration).sum();
                let on_it = open.ran_on(cpu);
                let mut ran: Vec<Ran> =
                    on_it.filter_map(|(runner, turns)| self.told(runner, turns)).collect();
                ran.sort_by_key(|one| std::cmp::Reverse(one.duration_ns));
                let time = |of: Runner| open.ran.get(&(cpu, of)).map_or(0, |one| one.duration);
                CpuUse {
                    cpu,
                    ran,
                    idle_ns: length.saturating_sub(busy),
                    overhead_ns: time(Runner::Overhead),
                    offline_ns: time(Runner::Offline),
                }
            })
            .collect()
    }

    fn known(&self, runner: Runner) -> Option<&Known> {
        match runner {
            Runner::Task(task) => self.tasks.get(&task),
            Runner::Outside(_) | Runner::Overhead | Runner::Offline => None,
        }
    }

    /// How a task or others ran.
    fn told(&self, runner: Runner, turns: Turns) -> Option<Ran> {
        let known = self.known(runner);
        let (task, real_time) = match runner {
            Runner::Task(task) => (self.name(task), known.is_some_and(Known::is_real_time)),
            Runner::Outside(Outsider::Loader) => ("the scheduler's loader".to_owned(), false),
            Runner::Outside(Outsider::Other) => ("other programs".to_owned(), false),
            Runner::Outside(Outsider::RealTime) => ("other programs' threads".to_owned(), true),
            Runner::Overhead | Runner::Offline => return None,
        };
        let priority = known.map(|known| known.priority).filter(|priority| *priority > 0);
        let endless = turns.endless > turns.duration / 2;
        let outside = matches!(runner, Runner::Outside(_));
        let (duration_ns, turns) = (turns.duration, turns.count);
        Some(Ran { task, real_time, endless, priority, outside, duration_ns, turns })
    }
}

impl Known {
    fn is_real_time(&self) -> bool {
        matches!(self.policy, Policy::Fifo | Policy::RoundRobin | Policy::Deadline)
    }

    fn may_use(&self, cpu: CpuId) -> bool {
        self.allowed.is_empty() || self.allowed.contains(&cpu)
    }
}

impl Followed {
    /// A quota holds the task back from now on, or no longer.
    fn throttle(&mut self, now: Nanoseconds, begins: bool) {
        if let (Some(since), Some(open)) = (self.throttled_since.take(), &mut self.open) {
            open.throttled += now - since.max(open.from);
        }
        self.throttled_since = begins.then_some(now);
    }

    /// Its deadline runtime is used up from now on, or no longer.
    fn use_up(&mut self, now: Nanoseconds, begins: bool) {
        if let (Some(since), Some(open)) = (self.used_up_since.take(), &mut self.open) {
            open.used_up += now - since.max(open.from);
        }
        self.used_up_since = begins.then_some(now);
    }

    /// Counts the time since it was last called as spent in the task's place.
    fn settle(&mut self, now: Nanoseconds) {
        let elsewhere = if self.of_scheduler { Place::Way } else { Place::Kernel };
        let place = self.place.unwrap_or(elsewhere);
        if let Some(open) = &mut self.open {
            let duration = now.saturating_sub(open.there_since);
            open.there_since = now;
            if duration > 0 {
                open.stay(place).duration_ns += duration;
            }
        }
    }

    /// Counts a call of `dispatch` that began at `begin`, unless it has moved the task.
    fn count_dispatch(&mut self, begin: Nanoseconds) {
        let has_moved_it = self.left.is_some_and(|when| when >= begin);
        if let (Some(open), Some(place), false) = (&mut self.open, self.place, has_moved_it) {
            open.stay(place).dispatches += 1;
        }
    }

    /// Counts another task that was moved `to` elsewhere from where this one is.
    fn count_moved(&mut self, to: Place) {
        let (Some(open), Some(place)) = (&mut self.open, self.place) else {
            return;
        };
        let stay = open.stay(place);
        let Place::Local { cpu } = to else {
            match stay.moved.iter_mut().find(|one| one.to == to) {
                Some(one) => one.tasks += 1,
                None => stay.moved.push(Moved { to, tasks: 1 }),
            }
            return;
        };
        let taken = &mut stay.taken;
        let at = taken.partition_point(|one| one.cpu < cpu);
        match taken.get_mut(at).filter(|one| one.cpu == cpu) {
            Some(one) => one.tasks += 1,
            None => taken.insert(at, Taken { cpu, tasks: 1 }),
        }
    }
}

impl Open {
    fn new(from: Nanoseconds, cpu: Option<u32>) -> Self {
        Self {
            from,
            cpu,
            there_since: from,
            stays: Vec::new(),
            throttled: 0,
            used_up: 0,
            ran: BTreeMap::new(),
        }
    }

    fn stay(&mut self, place: Place) -> &mut Stay {
        let at = self.stays.iter().position(|stay| stay.place == place);
        let at = at.unwrap_or_else(|| {
            let (taken, moved) = (Vec::new(), Vec::new());
            self.stays.push(Stay { place, duration_ns: 0, taken, moved, dispatches: 0 });
            self.stays.len() - 1
        });
        &mut self.stays[at]
    }

    /// Who ran on a CPU, and how.
    fn ran_on(&self, cpu: u32) -> impl Iterator<Item = (Runner, Turns)> {
        let on_it = self.ran.iter().filter(move |((other, _), _)| *other == cpu);
        on_it.map(|((_, runner), turns)| (*runner, *turns))
    }

    /// How long a deadline server had tasks run on a CPU.
    fn served_on(&self, cpu: u32) -> Nanoseconds {
        self.ran_on(cpu).map(|(_, turns)| turns.served).sum()
    }

    /// The rest of this turn on `cpu` up to `now`, at which it may end.
    fn credit(&mut self, cpu: CpuId, turn: Turn, now: Nanoseconds, ends: bool) {
        if now <= turn.begin.max(self.from) {
            return;
        }
        let duration = now.saturating_sub(turn.since.max(self.from));
        let turns = self.ran.entry((cpu.0, turn.runner)).or_default();
        turns.count += u64::from(ends);
        turns.duration += duration;
        turns.endless += if turn.endless { duration } else { 0 };
        turns.served += if turn.served { duration } else { 0 };
    }

    /// Whether the task waited for its next period for most of this length: that of a quota, or its own.
    fn throttling(&self, length: Nanoseconds) -> Option<Cause> {
        let is_most = |duration: Nanoseconds| duration > 0 && duration >= length / 2;
        if is_most(self.throttled) {
            return Some(Cause::Quota { duration_ns: self.throttled });
        }
        is_most(self.used_up).then_some(Cause::Throttled { duration_ns: self.used_up })
    }
}

/// The main reason for a wait of this length with these stays, after which the task `ran`.
fn cause(stays: &[Stay], cpus: &[CpuUse], length: Nanoseconds, ran: bool) -> Cause {
    let longest = stays.iter().max_by_key(|stay| stay.duration_ns);
    let place = longest.map_or(Place::Kernel, |stay| stay.place);
    // Real-time tasks left the scheduler a CPU, and it did not use it for this task.
    if !ran && place == Place::Scheduler && longest.is_some_and(|stay| stay.dispatches > 0) {
        return Cause::Lay { place };
    }
    let only = match place {
        Place::Local { cpu } => Some(cpu),
        _ => None,
    };
    let its: Vec<&CpuUse> = { cpus.iter() }
        .filter(|one| only.is_none_or(|cpu| one.cpu == cpu) && one.offline_ns < length)
        .collect();
    // How long those of a kind had these CPUs, if they had each of them for at least half of the wait in which it was online: what they leave is the scheduler's to use.
    let had = |is_of_kind: fn(&Ran) -> bool| -> Option<Nanoseconds> {
        let on = |one: &&CpuUse| -> Nanoseconds {
            one.ran.iter().filter(|ran| is_of_kind(ran)).map(|ran| ran.duration_ns).sum()
        };
        let is_taken = |one: &&CpuUse| on(one) > 0 && on(one) >= (length - one.offline_ns) / 2;
        (!its.is_empty() && its.iter().all(is_taken)).then(|| its.iter().map(on).sum())
    };
    if let Some(duration_ns) = had(|ran| ran.real_time) {
        return Cause::RealTime { duration_ns, cpu: only };
    }
    if let Some(duration_ns) = had(|ran| ran.outside) {
        return Cause::Others { duration_ns, cpu: only };
    }
    Cause::Lay { place }
}

impl Sink for Explainer {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let known = Known {
            name: info.name.clone(),
            policy: info.policy,
            priority: info.rt_priority,
            allowed: info.allowed.clone(),
            endless: false,
            served: false,
        };
        let known = match self.tasks.remove(&task) {
            Some(Known { endless, served, .. }) => Known { endless, served, ..known },
            None => known,
        };
        self.tasks.insert(task, known);
        if let Some(wanted) = self.wanted.get(&info.name) {
            let followed = self.followed.entry(task).or_default();
            followed.wanted.clone_from(wanted);
            if info.policy != Policy::Deadline {
                followed.use_up(time, false);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let now = event.time;
        self.states.take(event, |_, _| {});
        match event.kind {
            EventKind::Wake { task, cpu, waker } => {
                let by = waker.map(|waker| self.name(waker));
                self.step(now, task, Action::Woken { cpu: cpu.0, by });
                self.locate(task, cpu);
                self.follow(now, task);
            }
            EventKind::Switch { cpu, prev, next } if prev != next => {
                if let Some(task) = next {
                    self.moving.remove(&task);
                    self.step(now, task, Action::Runs { cpu: cpu.0 });
                    self.locate(task, cpu);
                    self.follow(now, task);
                    self.begin_story(task);
                    self.put(now, task, None);
                }
                self.switch(now, cpu, next.map(Runner::Task));
                if let Some(task) = prev.filter(|task| self.states.waits_since(*task).is_some()) {
                    self.step(now, task, Action::Preempted { cpu: cpu.0 });
                    self.follow(now, task);
                }
            }
            EventKind::Outside { cpu, who } => self.switch(now, cpu, who.map(Runner::Outside)),
            EventKind::CpuOnline { cpu, online } => {
                if online {
                    self.offline.remove(&cpu);
                } else {
                    self.offline.insert(cpu);
                }
                // A CPU that goes offline still runs what it has until that has moved.
                let running = self.running.get(cpu.0 as usize).copied().flatten();
                if running.is_none_or(|turn| turn.runner == Runner::Offline) {
                    self.switch(now, cpu, None);
                }
            }
            EventKind::Migrate { task, to, .. } => self.locate(task, to),
            EventKind::Sleep { task } | EventKind::Exit { task } => {
                self.follow(now, task);
                self.begin_story(task);
                self.put(now, task, None);
            }
            EventKind::Callback { cpu, callback, task, chosen, duration } => {
                let action = Action::Callback {
                    callback: callback.name(),
                    cpu: cpu.0,
                    chosen_cpu: chosen.map(|cpu| cpu.0),
                    duration_ns: duration,
                };
                self.callback(now, (cpu, callback, now.saturating_sub(duration)), task, action);
            }
            EventKind::Insert { task, queue, slice, vtime } => {
                let queue = Place::from(queue);
                let action = Action::Inserted {
                    queue,
                    slice_ns: (slice != Nanoseconds::MAX).then_some(slice),
                    vtime,
                };
                self.step(now, task, action);
                self.insert(now, task, queue);
            }
            EventKind::Remove { task, queue } => {
                let queue = Place::from(queue);
                self.step(now, task, Action::Removed { queue });
                self.moving.insert(task, queue);
                self.put(now, task, None);
            }
            EventKind::Overhead { cpu, duration, .. } => self.overhead(now, cpu, duration),
            EventKind::Condition { task, condition, begins } => {
                self.condition(now, task, condition, begins);
            }
            EventKind::Throttle { task, begins } => {
                if let Some(followed) = self.followed.get_mut(&task) {
                    followed.throttle(now, begins);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        let followed: Vec<TaskId> = self.followed.keys().copied().collect();
        for task in followed {
            self.close(end, task, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use fairground_events::{OverheadKind, Queue};

    use super::*;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const Q: Queue = Queue::User(5);

    fn here(cpu: u32) -> Queue {
        Queue::Local(CpuId(cpu))
    }

    fn callback(cpu: u32, callback: Callback, task: Option<TaskId>) -> EventKind {
        EventKind::Callback { cpu: CpuId(cpu), callback, task, chosen: None, duration: 1 }
    }

    fn insert(task: TaskId, queue: Queue) -> EventKind {
        EventKind::Insert { task, queue, slice: 7, vtime: None }
    }

    fn remove(task: TaskId, queue: Queue) -> EventKind {
        EventKind::Remove { task, queue }
    }

    fn wake(task: TaskId) -> EventKind {
        EventKind::Wake { task, cpu: CpuId(0), waker: None }
    }

    fn condition(task: TaskId, condition: Condition, begins: bool) -> EventKind {
        EventKind::Condition { task, condition, begins }
    }

    fn switch(cpu: u32, prev: Option<TaskId>, next: Option<TaskId>) -> EventKind {
        EventKind::Switch { cpu: CpuId(cpu), prev, next }
    }

    /// Explains the wait of A that begins at 10, on two CPUs. B has this `policy`; both tasks may use the CPUs `allowed`.
    fn explain(policy: Policy, allowed: &[u32], events: &[(u64, EventKind)]) -> Explanation {
        explain_as([Policy::Normal, policy], allowed, events)
    }

    /// The same for an A with another policy.
    fn explain_as(
        policies: [Policy; 2],
        allowed: &[u32],
        events: &[(u64, EventKind)],
    ) -> Explanation {
        let wait = LongestWait { task: "a".to_owned(), from_ns: 10, to_ns: 0 };
        let mut explainer = Explainer::new(2, &[wait]);
        for (task, name, policy) in [(A, "a", policies[0]), (B, "b", policies[1])] {
            let info = TaskInfo {
                policy,
                // B comes before A.
                rt_priority: u32::from(policy == Policy::Fifo) * (50 + task.0),
                allowed: allowed.iter().copied().map(CpuId).collect(),
                ..TaskInfo::named(name)
            };
            explainer.task(0, task, &info);
            let begins = policy == Policy::Normal;
            let kind = condition(task, Condition::Ext, begins);
            explainer.event(&Event { time: 0, kind });
        }
        for &(time, kind) in events {
            explainer.event(&Event { time, kind });
        }
        explainer.finish(100);
        let mut found = explainer.result();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    fn places(found: &Explanation) -> Vec<(Place, u64)> {
        found.places.iter().map(|stay| (stay.place, stay.duration_ns)).collect()
    }

    #[test]
    fn a_cpu_that_is_offline_is_not_idle() {
        let online = |online| EventKind::CpuOnline { cpu: CpuId(1), online };
        let events = [
            (5, switch(1, None, Some(B))),
            (10, wake(A)),
            (20, online(false)),
            (30, switch(1, Some(B), None)),
            (70, online(true)),
        ];
        let found = explain(Policy::Normal, &[], &events);
        let of_cpu_1 = &found.cpus[1];
        assert_eq!((of_cpu_1.idle_ns, of_cpu_1.offline_ns, of_cpu_1.ran.len()), (30, 40, 1));
        assert_eq!((of_cpu_1.ran[0].duration_ns, of_cpu_1.ran[0].turns), (20, 1));
    }

    #[test]
    fn a_task_that_others_are_taken_before_lay_in_its_queue() {
        let found = explain(
            Policy::Normal,
            &[],
            &[
                (0, switch(1, None, Some(B))),
                (8, callback(0, Callback::SelectCpu, Some(A))),
                (9, callback(0, Callback::Enqueue, Some(A))),
                (9, insert(A, Q)),
                (10, wake(A)),
                (20, callback(1, Callback::Dispatch, None)),
                (20, remove(B, Q)),
                (20, insert(B, here(1))),
                (50, remove(A, Q)),
                (50, insert(A, here(0))),
                (60, remove(A, here(0))),
                (60, switch(0, None, Some(A))),
            ],
        );
        let queue = Place::Queue { id: 5 };
        assert_eq!(places(&found), [(queue, 40), (Place::Local { cpu: 0 }, 10)]);
        assert_eq!(found.cause, Cause::Lay { place: queue });
        assert_eq!(found.places[0].taken, [Taken { cpu: 1, tasks: 1 }]);
        assert_eq!(found.places[0].dispatches, 1);
        assert_eq!((found.from_ns, found.to_ns, found.ran), (10, 60, true));
        let told = |cpu: &CpuUse| (cpu.cpu, cpu.ran.len(), cpu.idle_ns);
        let cpus: Vec<_> = found.cpus.iter().map(told).collect();
        assert_eq!(cpus, [(0, 0, 50), (1, 1, 0)]);
        let ran = &found.cpus[1].ran[0];
        assert_eq!((ran.duration_ns, ran.turns), (50, 1));
        let times: Vec<u64> = found.steps.iter().map(|step| step.time_ns).collect();
        assert_eq!(times, [8, 9, 9, 10, 50, 50, 60, 60]);
    }

    #[test]
    fn a_task_that_is_in_no_queue_is_held_by_the_scheduler() {
        let found = explain(
            Policy::Normal,
            &[1],
            &[
                (9, callback(0, Callback::Enqueue, Some(A))),
                (10, wake(A)),
                (20, callback(0, Callback::Dispatch, None)),
                (30, callback(1, Callback::Dispatch, None)),
            ],
        );
        assert_eq!(places(&found), [(Place::Scheduler, 90)]);
        assert_eq!(found.cause, Cause::Lay { place: Place::Scheduler });
        // A may not use CPU 0.
        assert_eq!(found.places[0].dispatches, 1);
        assert_eq!(found.cpus.len(), 1);
        assert_eq!((found.to_ns, found.ran), (100, false));
    }

    #[test]
    fn a_used_quota_is_the_cause_if_it_held_the_task_for_half_of_the_time() {
        let throttle = |begins| EventKind::Throttle { task: A, begins };
        let cause = |until| {
            let events = [
                (0, switch(0, None, Some(A))),
                (9, throttle(true)),
                (9, insert(A, Q)),
                (10, switch(0, Some(A), None)),
                (until, throttle(false)),
                (until, insert(A, here(0))),
                (60, switch(0, None, Some(A))),
            ];
            explain(Policy::Normal, &[], &events).cause
        };
        assert_eq!(cause(40), Cause::Quota { duration_ns: 30 });
        let place = Place::Local { cpu: 0 };
        assert_eq!(cause(20), Cause::Lay { place });
    }

    #[test]
    fn a_real_time_task_on_the_cpu_where_it_lay_is_the_cause() {
        let events = [
            (0, switch(0, None, Some(B))),
            (9, callback(0, Callback::Enqueue, Some(A))),
            (9, insert(A, here(0))),
            (10, wake(A)),
            (70, switch(0, Some(B), Some(A))),
        ];
        let found = explain(Policy::Fifo, &[], &events);
        let cause = Cause::RealTime { duration_ns: 60, cpu: Some(0) };
        assert_eq!(found.cause, cause);
        let found = explain(Policy::Normal, &[], &events);
        let place = Place::Local { cpu: 0 };
        assert_eq!(found.cause, Cause::Lay { place });
    }

    #[test]
    fn a_task_that_is_never_inserted_is_not_behind_real_time_tasks() {
        let asked = (65, callback(0, Callback::Dispatch, None));
        let events = |asked: Option<(u64, EventKind)>, rest: &[(u64, EventKind)]| {
            let mut events = vec![
                (0, switch(0, None, Some(B))),
                (0, switch(1, None, Some(B))),
                (9, callback(0, Callback::Enqueue, Some(A))),
                (10, wake(A)),
            ];
            events.extend(asked);
            events.extend(rest);
            explain(Policy::Fifo, &[0], &events).cause
        };
        let held = Cause::Lay { place: Place::Scheduler };
        assert_eq!(events(Some(asked), &[]), held);
        // Nobody was asked for a task, or it ran in the end.
        let behind = |cause| matches!(cause, Cause::RealTime { .. });
        assert!(behind(events(None, &[])));
        assert!(behind(events(Some(asked), &[(95, switch(0, Some(B), Some(A)))])));
    }

    #[test]
    fn a_deadline_task_is_throttled_while_its_runtime_is_used_up() {
        let used_up = |begins| condition(A, Condition::UsedUp, begins);
        let cause = |until, policy| {
            let events = [
                (0, switch(0, None, Some(B))),
                (9, used_up(true)),
                (10, wake(A)),
                (until, used_up(false)),
                (70, switch(0, Some(B), Some(A))),
            ];
            explain_as([Policy::Deadline, policy], &[0], &events).cause
        };
        assert_eq!(cause(60, Policy::Normal), Cause::Throttled { duration_ns: 50 });
        assert_eq!(cause(20, Policy::Normal), Cause::Lay { place: Place::Kernel });
        // Behind one of its like it may just have the later deadline.
        let behind = Cause::RealTime { duration_ns: 60, cpu: None };
        assert_eq!(cause(20, Policy::Deadline), behind);
    }

    #[test]
    fn a_real_time_task_waits_behind_more_important_ones_or_the_deadline_server() {
        let behind = |policy, served| {
            let mut events = vec![(0, switch(0, None, Some(A)))];
            if served {
                events.push((10, condition(B, Condition::Served, true)));
            }
            events.extend([(10, switch(0, Some(A), Some(B))), (70, switch(0, Some(B), Some(A)))]);
            explain_as([Policy::Fifo, policy], &[], &events)
        };
        let found = behind(Policy::Fifo, false);
        assert_eq!(found.cause, Cause::RealTime { duration_ns: 60, cpu: Some(0) });
        assert_eq!(found.cpus[0].ran[0].priority, Some(51));
        let found = behind(Policy::Normal, true);
        assert_eq!(found.cause, Cause::Server { duration_ns: 60, cpu: Some(0) });
        // The switch itself takes time, whoever leaves the CPU.
        let found = behind(Policy::Normal, false);
        assert_eq!(found.cause, Cause::Lay { place: Place::Kernel });
    }

    #[test]
    fn who_is_not_of_the_run_may_be_the_cause() {
        let outside = |who| EventKind::Outside { cpu: CpuId(0), who };
        let events = |who| {
            [
                (0, outside(Some(who))),
                (9, insert(A, Q)),
                (10, wake(A)),
                (30, remove(TaskId::OUTSIDER, Q)),
                (30, insert(TaskId::OUTSIDER, here(0))),
                (70, outside(None)),
                (70, switch(0, None, Some(A))),
            ]
        };
        let found = explain(Policy::Normal, &[0], &events(Outsider::Other));
        assert_eq!(found.cause, Cause::Others { duration_ns: 60, cpu: None });
        assert_eq!((found.cpus[0].idle_ns, found.cpus[0].ran[0].outside), (0, true));
        assert_eq!(found.places[0].taken, [Taken { cpu: 0, tasks: 1 }]);
        let found = explain(Policy::Normal, &[0], &events(Outsider::RealTime));
        assert_eq!(found.cause, Cause::RealTime { duration_ns: 60, cpu: None });
        // They are not where another CPU is idle.
        for who in [Outsider::Other, Outsider::RealTime] {
            let found = explain(Policy::Normal, &[], &events(who));
            assert_eq!(found.cause, Cause::Lay { place: Q.into() });
        }
    }

    #[test]
    fn a_slice_never_ends_if_it_is_infinite_for_most_of_the_time_that_its_task_ran() {
        let endless = |begins, ends| {
            let events = [
                (0, insert(B, here(0))),
                (1, switch(0, None, Some(B))),
                (9, insert(A, Q)),
                (10, wake(A)),
                (begins, condition(B, Condition::Endless, true)),
                (ends, condition(B, Condition::Endless, false)),
                // Its next slice says nothing of this turn.
                (90, EventKind::Insert { task: B, queue: Q, slice: u64::MAX, vtime: None }),
                (90, switch(0, Some(B), Some(A))),
            ];
            let found = explain(Policy::Normal, &[0], &events);
            let ran = &found.cpus[0].ran[0];
            assert_eq!((ran.turns, ran.duration_ns), (1, 80));
            ran.endless
        };
        assert!(endless(20, 80));
        assert!(endless(40, 90));
        assert!(!endless(20, 40));
        assert!(!endless(10, 10));
    }

    #[test]
    fn others_that_are_moved_to_another_queue_are_counted_there() {
        let move_b = |time, from, to| [(time, remove(B, from)), (time + 1, insert(B, to))];
        let mut events = vec![(9, insert(A, Q)), (10, wake(A))];
        for time in [20, 40] {
            events.extend(move_b(time, Q, Queue::User(8)));
            // Another CPU does something in between.
            events.insert(events.len() - 1, (time, remove(TaskId::OUTSIDER, Q)));
            events.push((time + 2, insert(TaskId::OUTSIDER, here(1))));
        }
        // Back to where it was, as when its attributes change; or from the CPU.
        events.extend(move_b(60, Q, Q));
        events.extend([
            (70, remove(B, Q)),
            (71, switch(0, None, Some(B))),
            (72, insert(B, here(0))),
        ]);
        let found = explain(Policy::Normal, &[], &events);
        let stay = &found.places[0];
        assert_eq!(stay.moved, [Moved { to: Place::Queue { id: 8 }, tasks: 2 }]);
        assert_eq!(stay.taken, [Taken { cpu: 1, tasks: 2 }]);
    }

    #[test]
    fn a_call_of_dispatch_that_moves_the_task_is_none_that_left_it() {
        let dispatch = EventKind::Callback {
            cpu: CpuId(0),
            callback: Callback::Dispatch,
            task: None,
            chosen: None,
            duration: 5,
        };
        let events = [
            (9, insert(A, Q)),
            (10, wake(A)),
            (20, dispatch),
            (52, remove(A, Q)),
            (53, insert(A, here(0))),
            (55, dispatch),
            (60, switch(0, None, Some(A))),
        ];
        let found = explain(Policy::Normal, &[], &events);
        let dispatches: Vec<u64> = found.places.iter().map(|stay| stay.dispatches).collect();
        assert_eq!(dispatches, [1, 0, 0]);
        let way: Vec<Place> = found.places.iter().map(|stay| stay.place).collect();
        assert_eq!(way, [Q.into(), Place::Way, Place::Local { cpu: 0 }]);
    }

    #[test]
    fn a_cpu_that_wakes_from_idleness_is_not_idle() {
        let overhead =
            |duration| EventKind::Overhead { cpu: CpuId(0), kind: OverheadKind::Switch, duration };
        let events = [
            (5, overhead(10)),
            (10, wake(A)),
            (20, overhead(30)),
            (30, overhead(20)),
            (60, switch(0, None, Some(A))),
        ];
        let found = explain(Policy::Normal, &[], &events);
        let told = |cpu: &CpuUse| (cpu.idle_ns, cpu.overhead_ns);
        assert_eq!(found.cpus.iter().map(told).collect::<Vec<_>>(), [(5, 45), (50, 0)]);
    }

    #[test]
    fn a_cpu_that_is_offline_does_not_hide_the_cause() {
        let events = [
            (0, EventKind::CpuOnline { cpu: CpuId(1), online: false }),
            (0, switch(0, None, Some(B))),
            (9, insert(A, Q)),
            (10, wake(A)),
            (70, switch(0, Some(B), Some(A))),
        ];
        let found = explain(Policy::Fifo, &[], &events);
        assert_eq!(found.cause, Cause::RealTime { duration_ns: 60, cpu: None });
        assert_eq!((found.cpus[1].offline_ns, found.cpus[1].idle_ns), (60, 0));
    }

    #[test]
    fn of_many_steps_the_first_and_the_last_are_kept() {
        let mut events = vec![(10, wake(A))];
        for time in 11..91 {
            events.push((time, callback(0, Callback::Enqueue, Some(A))));
        }
        let found = explain(Policy::Normal, &[], &events);
        assert_eq!(found.steps.len(), FIRST_STEPS + LAST_STEPS);
        assert_eq!(found.steps_left_out, 81 - 36);
        assert_eq!(found.steps[FIRST_STEPS].time_ns, 90 - 11);
    }
}
