//! The present state of the machine: which tasks its CPUs run, which tasks want them, and how much the ideal processor has given these.

use crate::collector::MachineFacts;
use crate::cpu_sets::{ALL_CPUS, CpuSets, SetId};
use crate::float;
use crate::fluid::Fluid;
use crate::idle::{IdleCpus, WaitingTasks};
use crate::result::{IdleBeside, IdleCpu, LONG_IDLE, LONG_WAIT, LongWait};
use crate::task::{State, Task};
use fairground_events::{Nanoseconds, Outsider, OverheadKind};

/// The machine up to the time `now`.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) now: Nanoseconds,
    pub(super) cpus: Vec<Cpu>,
    pub(super) sets: CpuSets,
    online: u64,
    /// Sum over online CPUs of work per nanosecond.
    online_speed: f64,
    idle: IdleCpus,
    pub(super) waiting: WaitingTasks,
    /// The longest time that a CPU was idle beside waiting tasks of fair policies.
    pub(super) idle_beside: Option<IdleCpu>,
    /// Numbers of the tasks that have been runnable at least once and have not ended, ascending.
    pub(super) living: Vec<usize>,
    pub(super) ideal: Fluid,
    available: Available,
    capacity: Capacity,
    /// By [`OverheadKind`].
    pub(super) overhead: Option<[u64; 4]>,
    /// Overhead up to the present.
    pub(super) overhead_booked: u64,
    /// Time that other programs had CPUs, up to the present.
    pub(super) others: Option<u64>,
    /// The CPUs that were idle and had overhead after `capacity`. Those of which this is no longer true go when it changes.
    covered: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// Work per nanosecond.
    speed: f64,
    pub(super) current: Option<usize>,
    /// Until when its time has been accounted.
    booked: Nanoseconds,
    /// Until when it has overhead.
    overhead_until: Nanoseconds,
    /// Accounted time of its task that has not been added to the task yet.
    ran: Nanoseconds,
    /// Time that has been added to tasks.
    pub(super) busy: u64,
    online: bool,
    /// The thread outside the run that has it.
    outsider: Option<Outsider>,
}

/// Capacity of the machine up to some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Available {
    until: Nanoseconds,
    /// Time of online CPUs, and the work they could have done in it.
    pub(super) time: u64,
    pub(super) work: f64,
}

/// Use that the machine allowed up to some time, given the tasks that were runnable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    until: Nanoseconds,
    /// Idle time that waiting tasks could have used.
    pub(super) idle_while_runnable: u64,
    /// Work that a work-conserving machine without overhead would have done.
    pub(super) possible_work: f64,
}

impl Cpu {
    /// Adds the accounted time to its task.
    #[inline]
    pub(super) fn hand_over(&mut self, task: &mut Task) {
        let ran = std::mem::take(&mut self.ran);
        task.cpu_time += ran;
        self.busy += ran;
        task.work += float(ran) * self.speed;
    }
}

impl Machine {
    /// A machine with all CPUs online and idle, at time 0.
    pub(super) fn new(facts: &MachineFacts) -> Self {
        let sets = CpuSets::new(&facts.capacities);
        let cpus = sets.cpus();
        Self {
            now: 0,
            cpus: (0..cpus)
                .map(|cpu| Cpu { speed: sets.speed(cpu), online: true, ..Cpu::default() })
                .collect(),
            online: cpus as u64,
            online_speed: (0..cpus).map(|cpu| sets.speed(cpu)).sum(),
            sets,
            idle: IdleCpus::new(cpus),
            waiting: WaitingTasks::default(),
            idle_beside: None,
            living: Vec::new(),
            ideal: Fluid::default(),
            available: Available::default(),
            capacity: Capacity::default(),
            overhead: None,
            overhead_booked: 0,
            others: None,
            covered: Vec::new(),
        }
    }

    /// The machine's capacity up to now. No CPU must have gone online or offline since `self.available`.
    pub(super) fn available_until_now(&self) -> Available {
        let span = self.now - self.available.until;
        Available {
            until: self.now,
            time: self.available.time + self.online * span,
            work: self.available.work + self.online_speed * float(span),
        }
    }

    /// The use that the machine allowed up to now. Idle CPUs and waiting tasks must not have changed since `self.capacity`.
    #[inline(always)]
    pub(super) fn capacity_until_now(&self) -> Capacity {
        let span = self.now - self.capacity.until;
        let usable = self.waiting.usable(&self.idle, &self.sets);
        let capacity = self.sets.capacity(ALL_CPUS);
        let busy = capacity.cpus() - self.idle.count();
        // As many CPUs as are busy or usable, assuming the fastest ones.
        let speed = capacity.of(busy + usable);
        let usable_time = match self.covered.is_empty() || usable == 0 {
            true => usable as u64 * span,
            false => self.usable_beside_overhead(),
        };
        Capacity {
            until: self.now,
            idle_while_runnable: self.capacity.idle_while_runnable + usable_time,
            possible_work: self.capacity.possible_work + speed * float(span),
        }
    }

    /// Idle time since `self.capacity` that waiting tasks could have used: CPUs that run no task but have overhead are not idle.
    fn usable_beside_overhead(&self) -> u64 {
        let (mut from, mut sum) = (self.capacity.until, 0);
        while from < self.now {
            let covered = self.covered.iter().filter(|&&cpu| self.is_covered(cpu, from));
            let (mut count, mut to) = (0, self.now);
            for &cpu in covered.clone() {
                count += 1;
                to = to.min(self.cpus[cpu].overhead_until);
            }
            let usable = self.waiting.usable_by_unrestricted(self.idle.count() - count);
            let usable = usable.unwrap_or_else(|| {
                let mut free = self.idle.clone();
                covered.for_each(|&cpu| free.set(cpu, false, from));
                self.waiting.usable(&free, &self.sets)
            });
            sum += usable as u64 * (to - from);
            from = to;
        }
        sum
    }

    /// Whether `cpu` is idle and has overhead after `time`.
    fn is_covered(&self, cpu: usize, time: Nanoseconds) -> bool {
        self.cpus[cpu].overhead_until > time && self.idle.since(cpu).is_some()
    }

    /// `cpu` is or becomes idle, perhaps with overhead.
    fn cover(&mut self, cpu: usize) {
        if self.cpus[cpu].overhead_until > self.now && !self.covered.contains(&cpu) {
            self.covered.push(cpu);
        }
    }

    /// Must be called before a CPU becomes idle or busy or goes online or offline, and before a task begins or ends a wait.
    #[inline]
    pub(super) fn use_changes(&mut self) {
        if self.capacity.until != self.now {
            self.use_capacity();
        }
    }

    #[inline(never)]
    fn use_capacity(&mut self) {
        self.capacity = self.capacity_until_now();
        for place in (0..self.covered.len()).rev() {
            if !self.is_covered(self.covered[place], self.now) {
                self.covered.swap_remove(place);
            }
        }
    }

    /// Brings the ideal processor up to date.
    #[inline]
    pub(super) fn serve(&mut self) {
        if !self.ideal.is_at(self.now) {
            self.ideal.advance(self.now, &self.sets);
        }
    }

    /// Accounts the time of `cpu` up to now: first to overhead, the rest to its task. Returns the CPU.
    #[inline]
    pub(super) fn book(&mut self, cpu: usize) -> &mut Cpu {
        let slot = &mut self.cpus[cpu];
        let overhead_end = slot.overhead_until.clamp(slot.booked, self.now);
        let overhead = overhead_end - slot.booked;
        let rest = self.now - overhead_end;
        slot.booked = self.now;
        // A CPU that goes offline still runs what it has until that has moved.
        if !slot.online {
            let has_one = slot.current.is_some() || slot.outsider.is_some();
            let used = overhead + if has_one { rest } else { 0 };
            self.available.time += used;
            self.available.work += float(used) * slot.speed;
        }
        self.overhead_booked += overhead;
        if slot.current.is_some() {
            slot.ran += rest;
            self.ideal.lose(float(overhead) * slot.speed);
        }
        match slot.outsider {
            None => {}
            // Time that a scheduler spends in user space counts like time it spends in the kernel.
            Some(Outsider::Loader) => {
                self.overhead_booked += rest;
                self.overhead.get_or_insert_default()[OverheadKind::Scheduling as usize] += rest;
            }
            Some(Outsider::Other | Outsider::RealTime) => {
                *self.others.get_or_insert(0) += rest;
            }
        }
        slot
    }

    /// `cpu` has overhead from now on, or after the overhead that it already has.
    #[inline]
    pub(super) fn lose(&mut self, cpu: usize, duration: u64) {
        let now = self.now;
        let is_busy = self.cpus[cpu].current.is_some();
        if !is_busy && self.waiting.total() > 0 && self.idle.since(cpu).is_some() {
            self.use_changes();
        }
        let slot = self.book(cpu);
        slot.overhead_until = slot.overhead_until.max(now) + duration;
        if !is_busy {
            self.cover(cpu);
        }
    }

    /// `cpu` gets a task or becomes idle. Its time must be up to date.
    #[inline]
    pub(super) fn set_current(&mut self, cpu: usize, task: Option<usize>) {
        self.use_changes();
        self.cpus[cpu].current = task;
        let idle = task.is_none() && self.sets.is_online(cpu);
        if idle {
            self.cover(cpu);
        }
        self.idle.set(cpu, idle, self.now);
    }

    /// Samples the lag of a task. The ideal processor and the task's CPU time must be up to date.
    #[inline]
    pub(super) fn sample_lag(&self, number: usize, task: &mut Task) {
        task.lag.sample(task.work, self.ideal.service(number));
    }

    /// A runnable task off its CPU may not run from now on.
    #[cold]
    pub(super) fn begin_throttle(&mut self, task: &mut Task) {
        task.state = State::Throttled;
        task.throttled_since = self.now;
    }

    /// It may run again. Its next state is up to the caller.
    #[cold]
    pub(super) fn end_throttle(&mut self, task: &mut Task) {
        task.is_throttled = false;
        task.throttled = task.throttled_until(self.now);
    }

    /// A runnable task has no CPU from now on: it waits for one, or its quota to be filled up. The ideal processor must be up to date.
    #[inline(always)]
    pub(super) fn begin_hold(&mut self, number: usize, task: &mut Task) {
        if task.is_throttled {
            self.begin_throttle(task);
        } else {
            self.begin_wait(number, task);
        }
    }

    /// The ideal processor must be up to date.
    #[inline(always)]
    pub(super) fn begin_wait(&mut self, number: usize, task: &mut Task) {
        self.use_changes();
        task.state = State::Waiting;
        task.waiting_since = self.now;
        task.allowed_since = self.now;
        task.ideal_at_wait = self.ideal.service(number);
        self.waiting.add(task.set, task.fair, self.now);
    }

    #[inline(always)]
    pub(super) fn end_wait(&mut self, number: usize, task: &mut Task) {
        self.use_changes();
        let length = self.now - task.waiting_since;
        task.wait += length;
        let is_shorter = |longest: LongWait| length <= longest.length_ns;
        if length >= LONG_WAIT || !task.longest_wait.is_some_and(is_shorter) {
            self.end_long_wait(number, task);
        }
        if length >= LONG_IDLE && self.idle.count() > 0 {
            self.note_idle_beside(task);
        }
        self.leave_crowd(task);
    }

    /// A waiting task stops being one of those with its CPUs.
    #[inline]
    pub(super) fn leave_crowd(&mut self, task: &Task) {
        if task.fair
            && let Some(since) = self.waiting.last_of(task.set)
            && self.now - since >= LONG_IDLE
            && self.idle.count() > 0
        {
            self.note_crowd(task.set, since);
        }
        self.waiting.remove(task.set, task.fair);
    }

    /// There are waiting tasks with this set no more that there have been since `since`.
    #[cold]
    fn note_crowd(&mut self, set: SetId, since: Nanoseconds) {
        if let Some((cpu, idle_since)) = self.idle.longest_in(set, &self.sets) {
            self.note_idle(cpu, idle_since.max(since));
        }
    }

    /// The run ends: notes how long CPUs have been idle beside those that still wait.
    pub(super) fn note_crowds(&mut self) {
        let crowds: Vec<(SetId, Nanoseconds)> = self.waiting.crowds().collect();
        for (set, since) in crowds {
            self.note_crowd(set, since);
        }
    }

    /// `cpu`, idle since `since`, ceases to be: notes how long it has been so beside waiting tasks.
    pub(super) fn note_idle_beside_crowds(&mut self, cpu: usize, since: Nanoseconds) {
        let crowds = self.waiting.crowds();
        let allowed = crowds.filter(|(set, _)| self.sets.contains(*set, cpu));
        let earliest = allowed.map(|(_, crowd_since)| crowd_since).min();
        if let Some(crowd_since) = earliest {
            self.note_idle(cpu, since.max(crowd_since));
        }
    }

    /// `cpu` has been idle since `from_ns` beside waiting tasks.
    fn note_idle(&mut self, cpu: usize, from_ns: Nanoseconds) {
        let length_ns = self.now - from_ns;
        let is_longer = |one: IdleCpu| one.length_ns < length_ns;
        if length_ns >= LONG_IDLE && self.idle_beside.is_none_or(is_longer) {
            self.idle_beside = Some(IdleCpu { cpu: cpu as u32, from_ns, length_ns });
        }
    }

    /// A waiting task stops waiting, or its CPUs change: notes how long the one of them has been idle beside it that has been so for longest.
    #[cold]
    pub(super) fn note_idle_beside(&self, task: &mut Task) {
        if let Some((cpu, since)) = self.idle.longest_in(task.set, &self.sets) {
            self.note_idle_cpu(cpu, since, task);
        }
    }

    /// `cpu` has been idle since `since` and ceases to be, or this task beside it ceases to wait.
    pub(super) fn note_idle_cpu(&self, cpu: usize, since: Nanoseconds, task: &mut Task) {
        let from_ns = since.max(task.allowed_since);
        let length_ns = self.now - from_ns;
        let is_longer = |one: IdleBeside| one.length_ns < length_ns;
        if task.fair && length_ns >= LONG_IDLE && task.idle_beside.is_none_or(is_longer) {
            task.idle_beside = Some(IdleBeside {
                cpu: cpu as u32,
                from_ns,
                length_ns,
                wait_from_ns: task.waiting_since,
            });
        }
    }

    /// Since when `cpu` has been idle, if it has been so for long and some task waits.
    #[inline]
    pub(super) fn idle_beside_waiting(&self, cpu: usize) -> Option<Nanoseconds> {
        let since = self.idle.since(cpu)?;
        (self.now - since >= LONG_IDLE && self.waiting.total() > 0).then_some(since)
    }

    #[cold]
    fn end_long_wait(&mut self, number: usize, task: &mut Task) {
        self.serve();
        task.end_long_wait(self.now, self.ideal.service(number));
    }

    /// The task wants a CPU from now on.
    #[inline(always)]
    pub(super) fn become_runnable(&mut self, number: usize, task: &mut Task) {
        self.serve();
        self.ideal.activate(number);
        task.ended = None;
        if task.born.is_none() {
            task.born = Some(self.now);
            task.wants_all_along = true;
            task.window.start(task.work, self.ideal.service(number));
            let at = self.living.partition_point(|&other| other < number);
            self.living.insert(at, number);
        }
    }

    /// The task no longer wants a CPU. Its CPU time must be up to date.
    #[inline(always)]
    pub(super) fn cease_runnable(&mut self, number: usize, task: &mut Task) {
        self.serve();
        self.sample_lag(number, task);
        let received = task.work;
        task.lag.demand_met(received);
        let ended = task.ended.is_some();
        task.woken = None;
        task.wants_all_along = false;
        task.state = if ended { State::Ended } else { State::Sleeping };
        self.ideal.deactivate(number, received, &self.sets);
        if ended {
            self.bury(number);
        }
    }

    pub(super) fn bury(&mut self, number: usize) {
        if let Ok(at) = self.living.binary_search(&number) {
            self.living.remove(at);
        }
    }

    /// A thread outside the run gets a CPU, or none has it any more.
    pub(super) fn give_to_outsider(&mut self, cpu: usize, who: Option<Outsider>) {
        self.book(cpu);
        self.cpus[cpu].outsider = who;
        self.offer(cpu);
    }

    pub(super) fn set_online(&mut self, cpu: usize, online: bool) {
        if self.cpus[cpu].online == online {
            return;
        }
        self.book(cpu);
        self.available = self.available_until_now();
        self.cpus[cpu].online = online;
        if online {
            self.online += 1;
            self.online_speed += self.sets.speed(cpu);
        } else {
            self.online -= 1;
            self.online_speed -= self.sets.speed(cpu);
        }
        self.offer(cpu);
    }

    /// Whether tasks can have `cpu` has changed: not if it is offline, nor while another program has it, which no task could have had then.
    fn offer(&mut self, cpu: usize) {
        self.use_changes();
        let Cpu { online, outsider, current, .. } = self.cpus[cpu];
        let is_there = online && matches!(outsider, None | Some(Outsider::Loader));
        if self.sets.is_online(cpu) != is_there {
            self.serve();
            self.sets.set_online(cpu, is_there);
            self.ideal.machine_changed();
        }
        let idle = is_there && outsider.is_none() && current.is_none();
        if idle {
            self.cover(cpu);
        }
        self.idle.set(cpu, idle, self.now);
    }
}
