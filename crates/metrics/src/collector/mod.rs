//! The sink that turns events into metrics.

mod machine;
mod results;

use crate::distribution::Samples;
use crate::fluid::REAL_TIME_WEIGHT;
use crate::result::{WindowRecord, WindowSpread};
use crate::task::{State, Task, is_fair};
use fairground_events::{
    CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, OverheadKind, QuotaUse, Sink, TaskId,
    TaskInfo,
};
use machine::Machine;
use std::collections::BTreeMap;

/// The properties of the machine that the metrics need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Capacity of each CPU, by CPU number; 1024 for the reference CPU. All CPUs are online at the start.
    pub capacities: Vec<u32>,
}

impl MachineFacts {
    /// A machine of `cpus` equal CPUs of capacity 1024.
    pub fn equal(cpus: usize) -> Self {
        Self { capacities: vec![1024; cpus] }
    }
}

/// Options of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of the windows in which shares are compared; more than 0.
    pub window: Nanoseconds,
    /// Whether to keep every single lap, job, window and so on of each task. Memory then grows with the length of the run.
    pub records: bool,
}

impl Default for Options {
    /// Windows of 3 seconds, no records.
    fn default() -> Self {
        Self { window: 3_000_000_000, records: false }
    }
}

/// Computes the metrics of one run from its events.
#[derive(Clone, Debug)]
pub struct Metrics {
    options: Options,
    /// Apart from the tasks, so that one of them, once looked up, can change together with it.
    machine: Machine,
    tasks: Vec<Option<Task>>,
    /// CPU time, by control group, of tasks that are in another one now.
    left_groups: Vec<u64>,
    quotas_used: BTreeMap<GroupId, QuotaUse>,
    /// The energy that each CPU has consumed, in nanojoules; empty if that is not known.
    energy: BTreeMap<CpuId, u64>,
    window_end: Nanoseconds,
    worst_window: Option<WindowSpread>,
    scheduler_pass: Samples,
    context_switches: u64,
    preemptions: u64,
    wakeups: u64,
    migrations: u64,
    inconsistent: u64,
}

impl Metrics {
    /// Metrics of a run that starts at time 0, without tasks.
    ///
    /// # Panics
    ///
    /// If the window is 0 or the machine has no CPU.
    pub fn new(machine: MachineFacts, options: Options) -> Self {
        assert!(options.window > 0, "a window has a length");
        assert!(!machine.capacities.is_empty(), "a machine has a CPU");
        Self {
            options,
            machine: Machine::new(&machine),
            tasks: Vec::new(),
            left_groups: Vec::new(),
            quotas_used: BTreeMap::new(),
            energy: BTreeMap::new(),
            window_end: options.window,
            worst_window: None,
            scheduler_pass: Samples::default(),
            context_switches: 0,
            preemptions: 0,
            wakeups: 0,
            migrations: 0,
            inconsistent: 0,
        }
    }

    /// Advances to `time`.
    #[inline]
    fn advance(&mut self, time: Nanoseconds) {
        debug_assert!(time >= self.machine.now, "events come in time order");
        if self.window_end <= time {
            self.end_windows(time);
        }
        self.machine.now = self.machine.now.max(time);
    }

    /// Ends all windows that end by `time`.
    #[cold]
    fn end_windows(&mut self, time: Nanoseconds) {
        while self.window_end <= time {
            self.machine.now = self.window_end;
            self.end_window();
        }
    }

    /// Accounts the time of all CPUs up to now and adds it to their tasks, and brings the ideal processor up to date.
    fn catch_up(&mut self) {
        for cpu in 0..self.machine.cpus.len() {
            let slot = self.machine.book(cpu);
            if let Some(number) = slot.current {
                slot.hand_over(known(&mut self.tasks, number));
            }
        }
        self.machine.serve();
    }

    fn end_window(&mut self) {
        self.catch_up();
        let window_ns = self.options.window;
        let start_ns = self.machine.now - window_ns;
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for &number in &self.machine.living {
            let Some(task) = &mut self.tasks[number] else {
                continue;
            };
            let ideal = self.machine.ideal.service(number);
            if task.born.is_some_and(|born| born > start_ns) {
                task.window.start(task.work, ideal);
                task.wants_all_along = task.wants_cpu();
                continue;
            }
            let share = task.window.roll(task.work, ideal, window_ns);
            let window = WindowRecord { start_ns, actual: share.actual, ideal: share.ideal };
            task.end_window(window, window_ns);
            task.wants_all_along = task.wants_cpu();
            let took_part = share.actual != 0.0 || share.ideal != 0.0;
            if task.fair && took_part {
                least = least.min(share.actual - share.ideal);
                most = most.max(share.actual - share.ideal);
            }
        }
        let spread = most - least;
        if spread.is_finite() && self.worst_window.is_none_or(|worst| spread > worst.spread) {
            self.worst_window = Some(WindowSpread { window_ns, start_ns, spread });
        }
        self.window_end += window_ns;
    }

    #[inline(never)]
    fn wake(&mut self, number: usize) {
        let Some(task) = find(&mut self.tasks, number, &mut self.inconsistent) else {
            return;
        };
        match task.state {
            State::Sleeping => {
                self.machine.become_runnable(number, task);
                self.machine.begin_hold(number, task);
            }
            State::Running { cpu, leaving: true } if task.ended.is_none() => {
                self.machine.book(cpu).hand_over(task);
                task.state = State::Running { cpu, leaving: false };
            }
            _ => {
                self.inconsistent += 1;
                return;
            }
        }
        task.wakeups += 1;
        task.woken = Some(self.machine.now);
        task.cpu_time_at_wake = task.cpu_time;
        self.wakeups += 1;
    }

    /// The task went to sleep or ended.
    #[inline(never)]
    fn stop(&mut self, number: usize, ends: bool) {
        let Some(task) = find(&mut self.tasks, number, &mut self.inconsistent) else {
            return;
        };
        if ends && task.state != State::Ended {
            task.ended = Some(self.machine.now);
        }
        match task.state {
            State::Running { cpu, .. } => task.state = State::Running { cpu, leaving: true },
            State::Waiting => {
                self.machine.end_wait(number, task);
                self.machine.cease_runnable(number, task);
            }
            State::Throttled => {
                self.machine.end_throttle(task);
                self.machine.cease_runnable(number, task);
            }
            State::Sleeping if ends => {
                task.state = State::Ended;
                self.machine.bury(number);
            }
            State::Sleeping | State::Ended => self.inconsistent += 1,
        }
    }

    #[inline(never)]
    fn switch(&mut self, cpu: usize, prev: Option<usize>, next: Option<usize>) {
        if !self.has(cpu) {
            return;
        }
        let current = self.machine.cpus[cpu].current;
        if current != prev {
            self.inconsistent += 1;
        }
        if prev != next {
            self.context_switches += 1;
        }
        if current != next {
            self.switch_out(cpu);
        }
        if let Some(number) = next {
            self.switch_in(cpu, number);
        }
    }

    #[inline(always)]
    fn switch_out(&mut self, cpu: usize) {
        let slot = self.machine.book(cpu);
        let Some(number) = slot.current else {
            return;
        };
        let task = known(&mut self.tasks, number);
        slot.hand_over(task);
        self.machine.set_current(cpu, None);
        task.switch_out(self.machine.now);
        if task.state == (State::Running { cpu, leaving: true }) {
            task.voluntary_switches += 1;
            self.machine.cease_runnable(number, task);
            return;
        }
        task.involuntary_switches += 1;
        if task.cpu_time > task.cpu_time_at_wake {
            // It was woken before it left its CPU and went on running, so there is no wake-up latency to measure.
            task.woken = None;
        }
        self.preemptions += 1;
        self.machine.serve();
        self.machine.sample_lag(number, task);
        self.machine.begin_hold(number, task);
    }

    /// A task is held back because of a quota, or no longer.
    #[inline(never)]
    fn throttle(&mut self, number: usize, begins: bool) {
        let Some(task) = find(&mut self.tasks, number, &mut self.inconsistent) else {
            return;
        };
        match task.state {
            State::Waiting if begins => {
                self.machine.end_wait(number, task);
                self.machine.begin_throttle(task);
            }
            State::Throttled if !begins => {
                self.machine.end_throttle(task);
                self.machine.serve();
                self.machine.begin_wait(number, task);
            }
            _ => {}
        }
        task.is_throttled = begins;
    }

    /// If the CPU is idle, it ceases to be.
    fn end_idle(&mut self, cpu: usize) {
        if let Some(since) = self.machine.idle_beside_waiting(cpu) {
            self.note_idle_cpu(cpu, since);
        }
    }

    /// The CPU, idle since `since`, ceases to be while tasks wait.
    #[cold]
    fn note_idle_cpu(&mut self, cpu: usize, since: Nanoseconds) {
        self.machine.note_idle_beside_crowds(cpu, since);
        for &number in &self.machine.living {
            let task = known(&mut self.tasks, number);
            if task.state == State::Waiting && self.machine.sets.contains(task.set, cpu) {
                self.machine.note_idle_cpu(cpu, since, task);
            }
        }
    }

    /// The task gets the CPU, which has no other task and whose time is up to date, or has it already.
    fn switch_in(&mut self, cpu: usize, number: usize) {
        let Some(task) = find(&mut self.tasks, number, &mut self.inconsistent) else {
            return;
        };
        match task.state {
            State::Waiting => self.machine.end_wait(number, task),
            State::Throttled => self.machine.end_throttle(task),
            State::Running { cpu: other, leaving } => {
                if other != cpu || leaving {
                    self.inconsistent += 1;
                }
                if other != cpu {
                    self.switch_out(other);
                    return self.switch_in(cpu, number);
                }
            }
            State::Sleeping | State::Ended => {
                self.inconsistent += 1;
                self.machine.become_runnable(number, task);
            }
        }
        task.is_throttled = false;
        let idle_since = self.machine.idle_beside_waiting(cpu);
        let slot = &mut self.machine.cpus[cpu];
        if slot.current.is_none() {
            self.machine.set_current(cpu, Some(number));
            task.switch_in(self.machine.now);
        } else {
            slot.hand_over(task);
        }
        self.machine.serve();
        self.machine.sample_lag(number, task);
        task.state = State::Running { cpu, leaving: false };
        if let Some(woken) = task.woken.take() {
            task.add_latency(self.machine.now - woken);
        }
        if let Some(since) = idle_since {
            self.note_idle_cpu(cpu, since);
        }
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, kind: OverheadKind, duration: u64) {
        self.machine.overhead.get_or_insert_default()[kind as usize] += duration;
        if self.has(cpu) {
            self.machine.lose(cpu, duration);
        }
    }

    /// Whether the machine has this CPU; if not, it counts as an inconsistent event.
    #[inline]
    fn has(&mut self, cpu: usize) -> bool {
        if cpu >= self.machine.cpus.len() {
            self.inconsistent += 1;
            return false;
        }
        true
    }

    fn complete(&mut self, number: usize, deadline: Nanoseconds) {
        let Some(task) = find(&mut self.tasks, number, &mut self.inconsistent) else {
            return;
        };
        if !task.complete(deadline, self.machine.now) {
            self.inconsistent += 1;
        }
    }
}

impl Metrics {
    /// A task, if it is known, goes to another control group: the time that it has used so far belongs to the one before.
    fn change_group(&mut self, number: usize, group: Option<GroupId>) {
        if self.tasks[number].as_ref().is_none_or(|task| task.group == group) {
            return;
        }
        self.catch_up();
        let task = known(&mut self.tasks, number);
        if let Some(before) = std::mem::replace(&mut task.group, group) {
            let place = before.0 as usize;
            let length = self.left_groups.len().max(place + 1);
            self.left_groups.resize(length, 0);
            self.left_groups[place] += task.cpu_time - task.cpu_time_before_group;
        }
        task.cpu_time_before_group = task.cpu_time;
    }
}

impl Sink for Metrics {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.advance(time);
        self.machine.serve();
        self.machine.use_changes();
        let number = index(task);
        let set = self.machine.sets.intern(&info.allowed);
        if number >= self.tasks.len() {
            self.tasks.resize(number + 1, None);
        }
        self.change_group(number, info.group);
        match &mut self.tasks[number] {
            Some(known) => {
                let fair = is_fair(info.policy);
                if known.state == State::Waiting && (known.set, known.fair) != (set, fair) {
                    self.machine.note_idle_beside(known);
                    known.allowed_since = self.machine.now;
                    self.machine.leave_crowd(known);
                    self.machine.waiting.add(set, fair, self.machine.now);
                }
                known.name.clone_from(&info.name);
                known.nice = info.nice;
                known.weight = info.weight;
                known.policy = info.policy;
                known.fair = fair;
                known.daemon = info.daemon;
                known.set = set;
            }
            empty => *empty = Some(Task::new(info, set, self.options.records)),
        }
        let weight =
            if is_fair(info.policy) { u64::from(info.weight.max(1)) } else { REAL_TIME_WEIGHT };
        // Groups divide CPU time among fair tasks only.
        let group = info.group.filter(|_| is_fair(info.policy));
        self.machine.ideal.describe(number, group, weight, set);
    }

    fn group(&mut self, time: Nanoseconds, group: GroupId, info: &GroupInfo) {
        self.advance(time);
        self.machine.serve();
        self.machine.ideal.groups_mut().describe(group, info);
    }

    // As the trait has it, but compiled here: a method that a trait provides is compiled where it is used, with the optimization of
    // that crate.
    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.event(event);
        }
    }

    // Inlined so that a batch is one loop, without calls for the most frequent events and with one call for each other.
    #[inline(always)]
    fn event(&mut self, event: &Event) {
        self.advance(event.time);
        match event.kind {
            // The most frequent events, which change little.
            EventKind::Overhead { cpu, kind, duration } => {
                self.overhead(cpu_index(cpu), kind, duration)
            }
            EventKind::Pass { duration, .. } => self.scheduler_pass.add(duration),
            _ => self.change(&event.kind),
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.advance(end);
        self.catch_up();
        self.machine.note_crowds();
        for &number in &self.machine.living {
            let task = known(&mut self.tasks, number);
            self.machine.sample_lag(number, task);
            task.leave_waiting(end);
            if task.state == State::Waiting {
                self.machine.note_idle_beside(task);
            }
        }
        for number in self.machine.cpus.iter().filter_map(|cpu| cpu.current) {
            known(&mut self.tasks, number).switch_out(end);
        }
    }
}

impl Metrics {
    /// Handles events that change more than a sum.
    #[inline(always)]
    fn change(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::Wake { task, .. } => self.wake(index(task)),
            EventKind::Sleep { task } => self.stop(index(task), false),
            EventKind::Exit { task } => self.stop(index(task), true),
            EventKind::Switch { cpu, prev, next } => {
                self.switch(cpu_index(cpu), prev.map(index), next.map(index));
            }
            EventKind::Migrate { task, .. } => {
                self.migrations += 1;
                if let Some(task) = find(&mut self.tasks, index(task), &mut self.inconsistent) {
                    task.migrations += 1;
                }
            }
            EventKind::JobRelease { task, due, deadline } => {
                let now = self.machine.now;
                if let Some(task) = find(&mut self.tasks, index(task), &mut self.inconsistent) {
                    task.release(due, deadline, now);
                }
            }
            EventKind::JobComplete { task, deadline } => self.complete(index(task), deadline),
            EventKind::JobSkip { task, due, period, count } => {
                if let Some(task) = find(&mut self.tasks, index(task), &mut self.inconsistent) {
                    task.skip(due, period, count);
                }
            }
            EventKind::Lap { task, at, begins } => {
                if let Some(task) = find(&mut self.tasks, index(task), &mut self.inconsistent) {
                    task.lap(at, begins);
                }
            }
            EventKind::Throttle { task, begins } => self.throttle(index(task), begins),
            EventKind::QuotaUse { group, used } => {
                self.quotas_used.insert(group, used);
            }
            EventKind::Energy { cpu, nanojoules } => {
                self.energy.insert(cpu, nanojoules);
            }
            EventKind::Outside { cpu, who } => {
                if self.has(cpu_index(cpu)) {
                    self.end_idle(cpu_index(cpu));
                    self.machine.give_to_outsider(cpu_index(cpu), who);
                }
            }
            EventKind::CpuOnline { cpu, online } => {
                if self.has(cpu_index(cpu)) {
                    self.end_idle(cpu_index(cpu));
                    self.machine.set_online(cpu_index(cpu), online);
                }
            }
            EventKind::Overhead { .. } | EventKind::Pass { .. } => {}
            // They show how the scheduler decides; only the outcome is measured.
            EventKind::Callback { .. }
            | EventKind::Insert { .. }
            | EventKind::Remove { .. }
            | EventKind::Condition { .. } => {}
        }
    }
}

/// A task; an unknown one counts as an inconsistent event.
#[inline]
fn find<'a>(
    tasks: &'a mut [Option<Task>],
    number: usize,
    inconsistent: &mut u64,
) -> Option<&'a mut Task> {
    let task = tasks.get_mut(number).and_then(Option::as_mut);
    *inconsistent += u64::from(task.is_none());
    task
}

/// A task that an earlier event has named.
#[inline]
fn known(tasks: &mut [Option<Task>], number: usize) -> &mut Task {
    tasks[number].as_mut().expect("only known tasks are noted")
}

fn index(task: TaskId) -> usize {
    task.0 as usize
}

fn cpu_index(cpu: CpuId) -> usize {
    cpu.0 as usize
}
