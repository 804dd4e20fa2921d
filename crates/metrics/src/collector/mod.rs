//! The sink that turns events into metrics.

mod results;

use crate::cpu_sets::{ALL_CPUS, CpuSets};
use crate::distribution::Samples;
use crate::float;
use crate::fluid::{Fluid, REAL_TIME_WEIGHT};
use crate::idle::{IdleCpus, WaitingTasks};
use crate::result::{WindowRecord, WindowSpread};
use crate::task::{State, Task, is_fair};
use fairground_events::{
    CpuId, Event, EventKind, Nanoseconds, OverheadKind, Sink, TaskId, TaskInfo,
};

/// What the metrics need to know about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Capacity of each CPU, by CPU number; 1024 for the reference CPU. All CPUs are online at the start.
    pub capacities: Vec<u32>,
}

impl MachineFacts {
    /// A machine of `cpus` equal CPUs of capacity 1024.
    pub fn equal(cpus: usize) -> Self {
        Self {
            capacities: vec![1024; cpus],
        }
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
        Self {
            window: 3_000_000_000,
            records: false,
        }
    }
}

/// Computes the metrics of one run from its events.
#[derive(Clone, Debug)]
pub struct Metrics {
    options: Options,
    now: Nanoseconds,
    cpus: Vec<Cpu>,
    sets: CpuSets,
    online: u64,
    /// Sum over online CPUs of work per nanosecond.
    online_speed: f64,
    idle: IdleCpus,
    waiting: WaitingTasks,
    tasks: Vec<Option<Task>>,
    /// Numbers of the tasks that have been runnable at least once and have not ended, ascending.
    living: Vec<usize>,
    ideal: Fluid,
    window_end: Nanoseconds,
    worst_window: Option<WindowSpread>,
    scheduler_pass: Samples,
    available: Available,
    capacity: Capacity,
    context_switches: u64,
    preemptions: u64,
    wakeups: u64,
    migrations: u64,
    /// By [`OverheadKind`].
    overhead: Option<[u64; 4]>,
    /// Overhead up to the present.
    overhead_booked: u64,
    inconsistent: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Work per nanosecond.
    speed: f64,
    current: Option<usize>,
    /// Until when its time has been accounted.
    booked: Nanoseconds,
    /// Until when it has overhead.
    overhead_until: Nanoseconds,
    /// Accounted time of its task that has not been added to the task yet.
    ran: Nanoseconds,
    /// Whether the scheduler's loader has it.
    has_loader: bool,
}

/// What the machine had up to some time.
#[derive(Clone, Copy, Debug, Default)]
struct Available {
    until: Nanoseconds,
    /// Time of online CPUs, and the work they could have done in it.
    time: u64,
    work: f64,
}

/// What could have been done with it up to some time.
#[derive(Clone, Copy, Debug, Default)]
struct Capacity {
    until: Nanoseconds,
    /// Idle time that waiting tasks could have used.
    idle_while_runnable: u64,
    /// Work that a work-conserving machine without overhead would have done.
    possible_work: f64,
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
        let sets = CpuSets::new(&machine.capacities);
        let cpus = sets.cpus();
        Self {
            options,
            now: 0,
            cpus: (0..cpus)
                .map(|cpu| Cpu {
                    speed: sets.speed(cpu),
                    ..Cpu::default()
                })
                .collect(),
            online: cpus as u64,
            online_speed: (0..cpus).map(|cpu| sets.speed(cpu)).sum(),
            sets,
            idle: IdleCpus::new(cpus),
            waiting: WaitingTasks::default(),
            tasks: Vec::new(),
            living: Vec::new(),
            ideal: Fluid::default(),
            window_end: options.window,
            worst_window: None,
            scheduler_pass: Samples::default(),
            available: Available::default(),
            capacity: Capacity::default(),
            context_switches: 0,
            preemptions: 0,
            wakeups: 0,
            migrations: 0,
            overhead: None,
            overhead_booked: 0,
            inconsistent: 0,
        }
    }

    /// Advances to `time`.
    #[inline]
    fn advance(&mut self, time: Nanoseconds) {
        debug_assert!(time >= self.now, "events come in time order");
        if self.window_end <= time {
            self.end_windows(time);
        }
        self.now = self.now.max(time);
    }

    /// Ends all windows that end by `time`.
    #[cold]
    fn end_windows(&mut self, time: Nanoseconds) {
        while self.window_end <= time {
            self.now = self.window_end;
            self.end_window();
        }
    }

    /// What the machine had up to now. No CPU must have gone online or offline since `self.available`.
    fn available_until_now(&self) -> Available {
        let span = self.now - self.available.until;
        Available {
            until: self.now,
            time: self.available.time + self.online * span,
            work: self.available.work + self.online_speed * float(span),
        }
    }

    /// What could have been done up to now. Idle CPUs and waiting tasks must not have changed since `self.capacity`.
    #[inline(always)]
    fn capacity_until_now(&self) -> Capacity {
        let span = self.now - self.capacity.until;
        let usable = self.waiting.usable(&self.idle, &self.sets);
        let busy = self.online as usize - self.idle.count();
        // As many CPUs as are busy or usable, assuming the fastest ones.
        let speed = self.sets.capacity(ALL_CPUS).of(busy + usable);
        Capacity {
            until: self.now,
            idle_while_runnable: self.capacity.idle_while_runnable + usable as u64 * span,
            possible_work: self.capacity.possible_work + speed * float(span),
        }
    }

    /// Must be called before a CPU becomes idle or busy or goes online or offline, and before a task begins or ends a wait.
    #[inline]
    fn use_changes(&mut self) {
        if self.capacity.until != self.now {
            self.use_capacity();
        }
    }

    #[inline(never)]
    fn use_capacity(&mut self) {
        self.capacity = self.capacity_until_now();
    }

    /// Brings the ideal processor up to date.
    #[inline]
    fn serve(&mut self) {
        if !self.ideal.is_at(self.now) {
            self.ideal.advance(self.now, &self.sets);
        }
    }

    /// Accounts the time of `cpu` up to now: first to overhead, the rest to its task.
    #[inline]
    fn book(&mut self, cpu: usize) {
        // Often nothing is left to account; not to ask costs less than to guess wrong.
        let slot = &mut self.cpus[cpu];
        let span = self.now - slot.booked;
        let overhead = span.min(slot.overhead_until.saturating_sub(slot.booked));
        let rest = span - overhead;
        slot.booked = self.now;
        self.overhead_booked += overhead;
        let (ran, lost) = match slot.current {
            Some(_) => (rest, overhead),
            None => (0, 0),
        };
        slot.ran += ran;
        self.ideal.lose(float(lost) * slot.speed);
        if slot.has_loader {
            self.book_loader(rest);
        }
    }

    /// Time that a scheduler spends in user space counts like time it spends in the kernel.
    #[cold]
    fn book_loader(&mut self, time: u64) {
        self.overhead_booked += time;
        self.count_overhead(OverheadKind::Scheduling, time);
    }

    /// Accounts the time of `cpu` up to now and adds it to its task.
    fn pay(&mut self, cpu: usize) {
        self.book(cpu);
        self.hand_over(cpu);
    }

    /// Adds the accounted time of `cpu` to its task.
    fn hand_over(&mut self, cpu: usize) {
        let slot = &mut self.cpus[cpu];
        let ran = std::mem::take(&mut slot.ran);
        if let Some(task) = slot.current.and_then(|number| self.tasks[number].as_mut()) {
            task.cpu_time += ran;
            task.work += float(ran) * slot.speed;
        }
    }

    fn end_window(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.pay(cpu);
        }
        self.serve();
        let window_ns = self.options.window;
        let start_ns = self.now - window_ns;
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for &number in &self.living {
            let Some(task) = &mut self.tasks[number] else {
                continue;
            };
            let ideal = self.ideal.service(number);
            if task.born.is_some_and(|born| born > start_ns) {
                task.window.start(task.work, ideal);
                continue;
            }
            let share = task.window.roll(task.work, ideal, window_ns);
            if let Some(records) = &mut task.records {
                records.windows.push(WindowRecord {
                    start_ns,
                    actual: share.actual,
                    ideal: share.ideal,
                });
            }
            let took_part = share.actual != 0.0 || share.ideal != 0.0;
            if task.fair && took_part {
                least = least.min(share.actual - share.ideal);
                most = most.max(share.actual - share.ideal);
            }
        }
        let spread = most - least;
        if spread.is_finite() && self.worst_window.is_none_or(|worst| spread > worst.spread) {
            self.worst_window = Some(WindowSpread {
                window_ns,
                start_ns,
                spread,
            });
        }
        self.window_end += window_ns;
    }

    /// Samples the lag of a task. The ideal processor and the task's CPU time must be up to date.
    fn sample_lag(&mut self, number: usize) {
        let ideal = self.ideal.service(number);
        if let Some(task) = &mut self.tasks[number] {
            task.lag.sample(task.work, ideal);
        }
    }

    /// The state of a task; an unknown task counts as an inconsistent event.
    fn state(&mut self, number: usize) -> Option<State> {
        self.task_mut(number).map(|task| task.state)
    }

    fn known(&mut self, number: usize) -> &mut Task {
        self.tasks[number]
            .as_mut()
            .expect("the caller has seen the task's state")
    }

    fn begin_wait(&mut self, number: usize) {
        self.use_changes();
        let now = self.now;
        let task = self.known(number);
        task.state = State::Waiting;
        task.waiting_since = now;
        let set = task.set;
        self.waiting.add(set);
    }

    fn end_wait(&mut self, number: usize) {
        self.use_changes();
        let now = self.now;
        let task = self.known(number);
        task.end_wait(now);
        let set = task.set;
        self.waiting.remove(set);
    }

    /// The task wants a CPU from now on.
    fn become_runnable(&mut self, number: usize) {
        self.serve();
        self.ideal.activate(number);
        let now = self.now;
        let task = self.known(number);
        task.ended = None;
        if task.born.is_none() {
            task.born = Some(now);
            let work = task.work;
            let ideal = self.ideal.service(number);
            self.known(number).window.start(work, ideal);
            let at = self.living.partition_point(|&other| other < number);
            self.living.insert(at, number);
        }
    }

    /// The task no longer wants a CPU. Its CPU time must be up to date.
    fn cease_runnable(&mut self, number: usize) {
        self.serve();
        self.sample_lag(number);
        let task = self.known(number);
        let received = task.work;
        task.lag.demand_met(received);
        let ended = task.ended.is_some();
        task.woken = None;
        task.state = if ended { State::Ended } else { State::Sleeping };
        self.ideal.deactivate(number, received, &self.sets);
        if ended {
            self.bury(number);
        }
    }

    fn bury(&mut self, number: usize) {
        if let Ok(at) = self.living.binary_search(&number) {
            self.living.remove(at);
        }
    }

    fn wake(&mut self, number: usize) {
        let Some(state) = self.state(number) else {
            return;
        };
        let now = self.now;
        match state {
            State::Sleeping => {
                self.become_runnable(number);
                self.begin_wait(number);
            }
            State::Running { cpu, leaving: true } if self.known(number).ended.is_none() => {
                self.pay(cpu);
                self.known(number).state = State::Running {
                    cpu,
                    leaving: false,
                };
            }
            _ => {
                self.inconsistent += 1;
                return;
            }
        }
        let task = self.known(number);
        task.wakeups += 1;
        task.woken = Some(now);
        task.cpu_time_at_wake = task.cpu_time;
        self.wakeups += 1;
    }

    /// The task went to sleep or ended.
    fn stop(&mut self, number: usize, ends: bool) {
        let Some(state) = self.state(number) else {
            return;
        };
        let now = self.now;
        if ends && state != State::Ended {
            self.known(number).ended = Some(now);
        }
        match state {
            State::Running { cpu, .. } => {
                self.known(number).state = State::Running { cpu, leaving: true };
            }
            State::Waiting => {
                self.end_wait(number);
                self.cease_runnable(number);
            }
            State::Sleeping if ends => {
                self.known(number).state = State::Ended;
                self.bury(number);
            }
            State::Sleeping | State::Ended => self.inconsistent += 1,
        }
    }

    fn switch(&mut self, cpu: usize, prev: Option<usize>, next: Option<usize>) {
        if cpu >= self.cpus.len() {
            self.inconsistent += 1;
            return;
        }
        if self.cpus[cpu].current != prev {
            self.inconsistent += 1;
        }
        if prev != next {
            self.context_switches += 1;
        }
        if self.cpus[cpu].current != next {
            self.switch_out(cpu);
        }
        if let Some(number) = next {
            self.switch_in(cpu, number);
        }
    }

    fn switch_out(&mut self, cpu: usize) {
        self.pay(cpu);
        let Some(number) = self.cpus[cpu].current.take() else {
            return;
        };
        self.use_changes();
        self.idle.set(cpu, self.sets.is_online(cpu));
        let now = self.now;
        let task = self.known(number);
        task.switch_out(now);
        if task.state == (State::Running { cpu, leaving: true }) {
            task.voluntary_switches += 1;
            self.cease_runnable(number);
            return;
        }
        task.involuntary_switches += 1;
        if task.cpu_time > task.cpu_time_at_wake {
            // It was woken before it left its CPU and went on running, so there is no wake-up latency to measure.
            task.woken = None;
        }
        self.preemptions += 1;
        self.serve();
        self.sample_lag(number);
        self.begin_wait(number);
    }

    fn switch_in(&mut self, cpu: usize, number: usize) {
        let Some(state) = self.state(number) else {
            return;
        };
        match state {
            State::Waiting => self.end_wait(number),
            State::Running {
                cpu: other,
                leaving,
            } => {
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
                self.become_runnable(number);
            }
        }
        if self.cpus[cpu].current != Some(number) {
            self.book(cpu);
            self.use_changes();
            self.cpus[cpu].current = Some(number);
            self.idle.set(cpu, false);
            let now = self.now;
            self.known(number).switch_in(now);
        } else {
            self.hand_over(cpu);
        }
        self.serve();
        self.sample_lag(number);
        let now = self.now;
        let task = self.known(number);
        task.state = State::Running {
            cpu,
            leaving: false,
        };
        if let Some(woken) = task.woken.take() {
            task.wakeup_latency.add(now - woken);
            if let Some(records) = &mut task.records {
                records.wakeup_latency.add(now - woken);
            }
        }
    }

    #[inline]
    fn count_overhead(&mut self, kind: OverheadKind, duration: u64) {
        self.overhead.get_or_insert_default()[kind as usize] += duration;
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, kind: OverheadKind, duration: u64) {
        self.count_overhead(kind, duration);
        if cpu >= self.cpus.len() {
            self.inconsistent += 1;
            return;
        }
        self.book(cpu);
        let slot = &mut self.cpus[cpu];
        slot.overhead_until = slot.overhead_until.max(self.now) + duration;
    }

    /// The scheduler's loader gets or leaves a CPU.
    fn give_to_loader(&mut self, cpu: usize, begins: bool) {
        if cpu >= self.cpus.len() {
            self.inconsistent += 1;
            return;
        }
        self.book(cpu);
        self.use_changes();
        self.cpus[cpu].has_loader = begins;
        let idle = !begins && self.cpus[cpu].current.is_none() && self.sets.is_online(cpu);
        self.idle.set(cpu, idle);
    }

    fn set_online(&mut self, cpu: usize, online: bool) {
        if cpu >= self.cpus.len() {
            self.inconsistent += 1;
            return;
        }
        if self.sets.is_online(cpu) == online {
            return;
        }
        self.serve();
        self.use_changes();
        self.available = self.available_until_now();
        self.sets.set_online(cpu, online);
        self.ideal.machine_changed();
        if online {
            self.online += 1;
            self.online_speed += self.sets.speed(cpu);
        } else {
            self.online -= 1;
            self.online_speed -= self.sets.speed(cpu);
        }
        self.idle
            .set(cpu, online && self.cpus[cpu].current.is_none());
    }

    fn complete(&mut self, number: usize, deadline: Nanoseconds) {
        let now = self.now;
        let Some(task) = self.task_mut(number) else {
            return;
        };
        if !task.complete(deadline, now) {
            self.inconsistent += 1;
        }
    }

    /// A task; an unknown one counts as an inconsistent event.
    fn task_mut(&mut self, number: usize) -> Option<&mut Task> {
        let task = self.tasks.get_mut(number).and_then(Option::as_mut);
        self.inconsistent += u64::from(task.is_none());
        task
    }
}

impl Sink for Metrics {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.advance(time);
        self.serve();
        self.use_changes();
        let number = index(task);
        let set = self.sets.intern(&info.allowed);
        if number >= self.tasks.len() {
            self.tasks.resize(number + 1, None);
        }
        match &mut self.tasks[number] {
            Some(known) => {
                if known.state == State::Waiting && known.set != set {
                    self.waiting.remove(known.set);
                    self.waiting.add(set);
                }
                known.name.clone_from(&info.name);
                known.nice = info.nice;
                known.weight = info.weight;
                known.fair = is_fair(info.policy);
                known.set = set;
            }
            empty => *empty = Some(Task::new(info, set, self.options.records)),
        }
        let weight = if is_fair(info.policy) {
            u64::from(info.weight.max(1))
        } else {
            REAL_TIME_WEIGHT
        };
        self.ideal.describe(number, weight, set);
    }

    // Inlined so that a batch is one loop without calls for the most frequent events.
    #[inline(always)]
    fn event(&mut self, event: &Event) {
        self.advance(event.time);
        match event.kind {
            // The most frequent events, which change little.
            EventKind::Overhead {
                cpu,
                kind,
                duration,
            } => self.overhead(cpu_index(cpu), kind, duration),
            EventKind::Pass { duration, .. } => self.scheduler_pass.add(duration),
            _ => self.change(&event.kind),
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.advance(end);
        for cpu in 0..self.cpus.len() {
            self.pay(cpu);
        }
        self.serve();
        for number in self.living.clone() {
            self.sample_lag(number);
        }
        for number in self.cpus.iter().filter_map(|cpu| cpu.current) {
            if let Some(task) = &mut self.tasks[number] {
                task.switch_out(end);
            }
        }
    }
}

impl Metrics {
    /// Handles events that change more than a sum.
    #[inline(never)]
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
                if self.state(index(task)).is_some() {
                    self.known(index(task)).migrations += 1;
                }
            }
            EventKind::JobRelease {
                task,
                due,
                deadline,
            } => {
                let now = self.now;
                if let Some(task) = self.task_mut(index(task)) {
                    task.release(due, deadline, now);
                }
            }
            EventKind::JobComplete { task, deadline } => self.complete(index(task), deadline),
            EventKind::JobSkip {
                task,
                due,
                period,
                count,
            } => {
                if let Some(task) = self.task_mut(index(task)) {
                    task.skip(due, period, count);
                }
            }
            EventKind::Lap { task, at, begins } => {
                if let Some(task) = self.task_mut(index(task)) {
                    task.lap(at, begins);
                }
            }
            EventKind::Loader { cpu, begins } => self.give_to_loader(cpu_index(cpu), begins),
            EventKind::CpuOnline { cpu, online } => self.set_online(cpu_index(cpu), online),
            EventKind::Overhead { .. } | EventKind::Pass { .. } => {}
            // They show how the scheduler decides; only the outcome is measured.
            EventKind::Callback { .. } | EventKind::Insert { .. } | EventKind::Remove { .. } => {}
        }
    }
}

fn index(task: TaskId) -> usize {
    task.0 as usize
}

fn cpu_index(cpu: CpuId) -> usize {
    cpu.0 as usize
}
