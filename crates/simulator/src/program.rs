//! What tasks do: the events of a workload, interpreted one after the other in virtual time.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use fairground_catalog::attributes::{self, Attributes};
use fairground_events::{EventKind, OverheadKind, TaskId, load_weight};
use fairground_workload::{Event, Policy, TimerMode, Workload};

use crate::clock::Due;
use crate::constants::*;
use crate::dispatch_queue::DsqIndex;
use crate::kernel::Kernel;
use crate::structures::{CpuMask, MmStruct, TaskStruct};
use crate::surroundings::{Errand, is_hidden};
use crate::task::{Class, OpsState, Process, Task, TaskRef};

/// Memory bandwidth that `mem` and `iorun` events are given, bytes a nanosecond.
const BYTES_PER_NANOSECOND: u64 = 8;
/// Time of one access of a `memrun` event, nanoseconds.
const MEMORY_ACCESS: u64 = 2;
/// Events that a task may pass in one instant before its program counts as one that never lets time pass.
const EVENTS_PER_INSTANT: u32 = 100_000;

/// What a task does after its program went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It needs CPU time.
    Compute,
    /// It yields.
    Yield,
    /// It waits.
    Block,
    /// It ends.
    Exit,
    /// The simulation cannot go on; the reason is recorded.
    Failed,
}

/// What a task waits for, for reports of deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing.
    Nothing,
    /// A point in time.
    Time,
    /// A mutex.
    Mutex(usize),
    /// A condition.
    Condition(usize),
    /// A barrier.
    Barrier(usize),
    /// A semaphore.
    Semaphore(usize),
}

/// Where a task is in its program, and what is left of the current step.
#[derive(Clone, Debug)]
pub struct Execution {
    definition: usize,
    passes: u64,
    phase: usize,
    phase_passes: u64,
    event: usize,
    entered: bool,
    begun: bool,
    remaining: u64,
    remainder: u64,
    until: u64,
    /// What it waits for.
    pub waiting: Waiting,
    /// A mutex it has to take before it goes on.
    relock: Option<usize>,
    /// Whether it has waited for the mutex that it is about to take.
    contends: bool,
    /// Second half of a two-part event.
    resumed: bool,
    /// Number of its sleeps until now.
    sleep: u32,
    /// The CPU whose timer ends its sleep.
    sleeps_on: usize,
    timers: Vec<Option<u64>>,
    periodic: bool,
    deadline: Option<u64>,
    release: Option<u64>,
    /// The time from which its events count.
    pub(crate) start: u64,
    delayed: bool,
    instant: u64,
    passed: u32,
    held: u32,
    /// Phase whose affinity is in force; the task's own before the first.
    affinity_of: Option<usize>,
    /// Policy in force.
    policy: Option<Policy>,
    /// What the task has to do that is not in its program.
    pub(crate) errand: Errand,
}

impl Execution {
    /// The state of a task that has not begun `definition`.
    pub fn new(
        definition: usize,
        phases: &[fairground_workload::Phase],
        timers: usize,
    ) -> Execution {
        let is_timer = |event: &Event| matches!(event, Event::Timer { .. });
        let periodic = phases.iter().any(|phase| phase.events.iter().any(is_timer));
        Execution {
            definition,
            passes: 0,
            phase: 0,
            phase_passes: 0,
            event: 0,
            entered: false,
            begun: false,
            remaining: 0,
            remainder: 0,
            until: 0,
            waiting: Waiting::Nothing,
            relock: None,
            contends: false,
            resumed: false,
            sleep: 0,
            sleeps_on: 0,
            timers: vec![None; timers],
            periodic,
            deadline: None,
            release: None,
            start: 0,
            delayed: false,
            instant: u64::MAX,
            passed: 0,
            held: 0,
            affinity_of: None,
            policy: None,
            errand: Errand::None,
        }
    }

    /// Takes `duration` on a CPU of `capacity` off the current step.
    pub fn progress(&mut self, duration: u64, capacity: u64) {
        if self.remaining == 0 {
            return;
        }
        let work = duration * capacity + self.remainder;
        self.remainder = work % 1024;
        self.remaining = self.remaining.saturating_sub(work / 1024);
    }

    /// When the current step ends if the task runs from `start` on; `u64::MAX` for never.
    pub fn completes_at(&self, start: u64, capacity: u64) -> u64 {
        if self.until > 0 {
            return self.until.max(start);
        }
        if self.remaining == u64::MAX {
            return u64::MAX;
        }
        start.saturating_add(
            (self.remaining * 1024)
                .saturating_sub(self.remainder)
                .div_ceil(capacity.max(1)),
        )
    }

    /// Whether the current step ends at a point in time, however much the task runs.
    pub fn is_timed(&self) -> bool {
        self.until > 0
    }

    /// Whether it is asleep and the sleep with this number is to be ended by a timer.
    fn sleeps_until_timeout(&self, generation: u32) -> bool {
        self.sleep == generation && self.waiting == Waiting::Time
    }

    /// Whether the current step is over at `now`.
    pub fn step_is_done(&self, now: u64) -> bool {
        self.remaining == 0 && self.until <= now
    }
}

/// A sleep that a high-resolution timer ends.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// When it may end.
    earliest: u64,
    /// When it has to end, later by the timer slack: what the kernel sorts timers by.
    latest: u64,
    task: TaskId,
    /// Number of the task's sleep.
    generation: u32,
}

/// A mutex of the C library: a word that is free, held, or held and contended, and a futex to wait on.
#[derive(Default)]
struct Mutex {
    owner: Option<TaskId>,
    /// Whether unlocking wakes a waiter. Who has waited cannot know whether others still do and takes the mutex as contended; who
    /// finds it free does not look for waiters, and wakes none if nobody comes meanwhile: the one that was woken last will.
    contended: bool,
    waiters: VecDeque<TaskRef>,
}

#[derive(Default)]
struct Semaphore {
    value: u64,
    waiters: VecDeque<TaskRef>,
}

/// The objects that a workload's tasks share.
pub struct Programs {
    /// Counted within this thread, so that taking a reference to it is cheap.
    #[allow(clippy::redundant_allocation)]
    pub(crate) workload: Rc<Arc<Workload>>,
    mutexes: Vec<Mutex>,
    conditions: Vec<VecDeque<TaskRef>>,
    barriers: Vec<Vec<TaskRef>>,
    semaphores: Vec<Semaphore>,
    shared_timers: Vec<Option<u64>>,
    forks: Vec<u32>,
    /// Whether the first tasks were started.
    pub(crate) started: bool,
    /// Why the workload cannot go on.
    pub(crate) failure: Option<String>,
}

impl Programs {
    /// The shared objects of `workload`, all free.
    pub fn new(workload: Arc<Workload>) -> Programs {
        Programs {
            mutexes: workload.mutexes.iter().map(|_| Mutex::default()).collect(),
            conditions: workload
                .conditions
                .iter()
                .map(|_| VecDeque::new())
                .collect(),
            barriers: workload.barriers.iter().map(|_| Vec::new()).collect(),
            semaphores: workload
                .semaphores
                .iter()
                .map(|_| Semaphore::default())
                .collect(),
            shared_timers: vec![None; workload.timers.len()],
            forks: vec![0; workload.tasks.len()],
            started: false,
            failure: None,
            workload: Rc::new(workload),
        }
    }
}

/// Largest number of instances that `fork` events may start of one definition, as in rt-app.
const FORK_LIMIT: u32 = 1024;
/// Limits of a slice that a task asks for, nanoseconds.
const CUSTOM_SLICE_MIN: u64 = 100_000;
const CUSTOM_SLICE_MAX: u64 = 100_000_000;
/// First process id given to tasks of the workload.
const FIRST_PID: i32 = 1000;

impl Kernel<'_> {
    /// Starts the instances of every definition.
    pub(crate) fn start_programs(&mut self) {
        let workload = self.programs.workload.clone();
        self.start_surroundings();
        if self.settings.surroundings.creator.is_some() {
            return;
        }
        self.programs.started = true;
        self.enter(0);
        for (definition, instance) in workload.first_tasks() {
            let name = workload.tasks[definition].instance_name(instance);
            self.fork_task(definition, name, None);
            if self.exit.is_some() || self.programs.failure.is_some() {
                return;
            }
        }
        self.leave(OverheadKind::Scheduling);
    }

    /// Creates a task of `definition` and makes it runnable.
    pub(crate) fn fork_task(&mut self, definition: usize, name: String, parent: Option<TaskRef>) {
        let workload = self.programs.workload.clone();
        let origin = parent.unwrap_or(self.initial_parent);
        let id = TaskId(self.tasks.len() as u32);
        let source = &workload.tasks[definition];
        let mut execution = Execution::new(definition, &source.phases, workload.timers.len());
        execution.start = self.clock.now();
        execution.policy = Some(source.policy);
        execution.errand = self.first_errand();
        let mut task = Task::blank(
            id,
            name,
            FIRST_PID + 1 + id.0 as i32,
            self.possible,
            self.cpus.len(),
        );
        task.execution = execution;
        task.parent = parent.map(|parent| parent.id).filter(|id| !is_hidden(*id));
        task.attributes = source.attributes.clone();
        task.cgroup = match &source.taskgroup {
            Some(path) => self.groups.find(path),
            None => origin.cgroup,
        };
        let mut task = TaskRef::allocate(task);
        let now = self.clock.now();
        let cpu = if parent.is_some() { self.this_cpu } else { 0 };
        {
            let task_cpu = cpu as u32;
            let (mm, leader) = self.process_of(source.process.as_deref(), task, origin);
            let groups = self.groups.pointers(task.cgroup);
            let length = self.tick_length();
            let task_state = &mut task.seen;
            task_state.thread_info.cpu = task_cpu;
            task_state.tgid = leader.seen.pid;
            task_state.mm = mm;
            task_state.active_mm = mm;
            task_state.real_parent = origin.address() as *mut TaskStruct;
            task_state.parent = origin.address() as *mut TaskStruct;
            task_state.group_leader = leader.address() as *mut TaskStruct;
            task_state.start_time = now;
            task_state.start_boottime = now;
            task_state.recent_used_cpu = cpu as i32;
            task_state.wake_cpu = cpu as i32;
            task_state.cgroups = groups.0;
            task_state.sched_task_group = groups.1;
            task_state.scx.tid = u64::from(id.0) + 1;
            task_state.scx.runnable_at = now / length;
            task_state.__state = TASK_NEW;
        }
        task.fix_pointers();
        self.apply_policy(task, source.policy);
        self.restrict(task, source.cpus.as_deref());
        task.class = self.class_of(task);
        self.tasks.push(task);
        self.live_tasks += 1;
        self.emit_task(task);
        self.set_attributes(task);
        if let Err(error) = self.init_task(task, true) {
            self.live_tasks -= 1;
            task.seen.__state = TASK_DEAD;
            self.programs.failure = Some(format!(
                "the scheduler refused {}: ops.init_task() returned {error}",
                task.label()
            ));
            return;
        }
        if task.class == Class::Ext {
            self.enable_task(task);
        }
        if !task.allowed().test(cpu) {
            let cpu = self.fallback_cpu(task, cpu);
            task.seen.thread_info.cpu = cpu as u32;
        }
        self.wake_new(task);
    }

    /// The address space of a new task that `origin` forks, and the leader of its threads: those of the process that it names, which
    /// begins with it if it is the first, or those of `origin`.
    fn process_of(
        &mut self,
        name: Option<&str>,
        task: TaskRef,
        origin: TaskRef,
    ) -> (*mut MmStruct, TaskRef) {
        let Some(name) = name else {
            let leader = TaskRef::from_address(origin.seen.group_leader as u64);
            return (origin.seen.mm, leader.unwrap_or(origin));
        };
        let index = self
            .processes
            .iter()
            .position(|process| process.name == name);
        let index = index.unwrap_or_else(|| {
            self.processes.push(Process {
                name: name.to_owned(),
                memory: Box::new(MmStruct { mm_users: 1 }),
                leader: task,
            });
            self.processes.len() - 1
        });
        let process = &mut self.processes[index];
        (&raw mut *process.memory, process.leader)
    }

    /// Hands the attributes of a new task to the scheduler, if it understands any.
    fn set_attributes(&mut self, mut task: TaskRef) {
        if task.attributes.is_empty() {
            return;
        }
        let Some(number) = self.maps.iter().position(|map| map.name == attributes::MAP) else {
            let message = format!(
                "{} has attributes, which {} does not know",
                task.name, self.operations.name
            );
            if !self.messages.contains(&message) {
                self.messages.push(message);
            }
            return;
        };
        match Attributes::parse(&task.attributes) {
            Ok(parsed) => {
                let bytes = parsed.encode();
                let words = bytes.chunks_exact(8).map(|chunk| {
                    let mut word = [0; 8];
                    word.copy_from_slice(chunk);
                    u64::from_le_bytes(word)
                });
                let value: Box<[u64]> = words.collect();
                task.storage.resize_with(self.maps.len(), || None);
                task.storage[number] = Some(value);
            }
            Err(message) => self.programs.failure = Some(format!("{}: {message}", task.name)),
        }
    }

    fn restrict(&mut self, mut task: TaskRef, cpus: Option<&[u32]>) {
        let Some(cpus) = cpus else {
            task.seen.cpus_mask = self.possible;
            task.seen.nr_cpus_allowed = self.cpus.len() as i32;
            return;
        };
        let mut mask = CpuMask::default();
        for cpu in cpus.iter().map(|cpu| *cpu as usize) {
            if cpu < self.cpus.len() {
                mask.set(cpu);
            }
        }
        if mask.first().is_none() {
            self.programs.failure = Some(format!(
                "{} may only use CPUs {cpus:?}, and the machine has CPUs 0 to {}; choose a larger --machine or change \"cpus\"",
                task.name,
                self.cpus.len() - 1
            ));
            return;
        }
        task.seen.cpus_mask = mask;
        task.seen.nr_cpus_allowed = mask.weight() as i32;
    }

    fn apply_policy(&mut self, mut task: TaskRef, policy: Policy) {
        if let Policy::Other { slice, .. } | Policy::Batch { slice, .. } = policy {
            // __setparam_fair(), as far as a sched_ext scheduler sees it: the fair class's own base slice is not modelled.
            task.seen.se.custom_slice = u8::from(slice.is_some());
            task.seen.se.slice =
                slice.map_or(0, |slice| slice.clamp(CUSTOM_SLICE_MIN, CUSTOM_SLICE_MAX));
        }
        let (policy, nice, rt_priority) = match policy {
            Policy::Other { nice, .. } => (SCHED_NORMAL, nice, 0),
            Policy::Batch { nice, .. } => (SCHED_BATCH, nice, 0),
            Policy::Idle => (SCHED_IDLE, 0, 0),
            Policy::Fifo { priority } => (SCHED_FIFO, 0, priority),
            Policy::RoundRobin { priority } => (SCHED_RR, 0, priority),
            Policy::Deadline { .. } => (SCHED_DEADLINE, 0, 99),
        };
        task.seen.policy = policy;
        task.seen.rt_priority = rt_priority;
        task.seen.static_prio = 120 + nice;
        let prio = if rt_priority > 0 {
            99 - rt_priority as i32
        } else {
            120 + nice
        };
        task.seen.prio = prio;
        task.seen.normal_prio = prio;
        let weight = load_weight(event_policy(policy), nice);
        task.seen.se.load.weight = u64::from(weight);
        task.seen.se.load.inv_weight = (u32::MAX as u64 / u64::from(weight)) as u32;
        if task.class_slice == 0 {
            task.class_slice = 100_000_000;
        }
    }

    fn class_of(&self, task: TaskRef) -> Class {
        match task.seen.policy {
            SCHED_FIFO | SCHED_RR | SCHED_DEADLINE => Class::RealTime,
            SCHED_EXT => Class::Ext,
            _ if self.operations.flags & SCX_OPS_SWITCH_PARTIAL != 0 => Class::Fair,
            _ => Class::Ext,
        }
    }

    /// Changes policy or nice of a live task.
    pub(crate) fn change_policy(&mut self, task: TaskRef, policy: Policy) {
        let weight = task.seen.se.load.weight;
        self.with_change(task, |kernel, mut task| {
            kernel.apply_policy(task, policy);
            let class = kernel.class_of(task);
            if class == Class::Ext && task.class == Class::Ext && task.seen.se.load.weight != weight
            {
                kernel.reweight(task);
            }
            task.class = class;
        });
        self.emit_task(task);
    }

    /// Changes the affinity of a live task.
    fn change_affinity(&mut self, task: TaskRef, cpus: Option<&[u32]>) {
        self.with_change(task, |kernel, task| {
            kernel.restrict(task, cpus);
            if task.class == Class::Ext {
                kernel.call_set_cpumask(task);
            }
        });
        self.emit_task(task);
        if !task.allowed().test(task.cpu()) {
            self.push_off(task);
        }
    }

    /// Begins the next step of `task`, which was just switched in, if that is plainly computing.
    pub(crate) fn begin_run(&mut self, mut task: TaskRef) {
        let execution = &mut task.execution;
        if execution.remaining > 0
            || execution.until > 0
            || !execution.entered
            || execution.relock.is_some()
        {
            return;
        }
        let workload = &self.programs.workload;
        let Some(phase) = workload.tasks[execution.definition]
            .phases
            .get(execution.phase)
        else {
            return;
        };
        let wraps = execution.event == phase.events.len() && phase.loops.is_none();
        let event = if wraps { 0 } else { execution.event };
        let Some(Event::Run(work)) = phase.events.get(event) else {
            return;
        };
        execution.event = event + 1;
        execution.remaining = *work;
        execution.remainder = 0;
        execution.waiting = Waiting::Nothing;
        if let Some(due) = execution.release.take() {
            self.emit(EventKind::JobRelease { task: task.id, due });
        }
    }

    /// Goes on with the program of `task`, which runs on this CPU and has finished its step.
    pub(crate) fn advance_program(&mut self, mut task: TaskRef) -> Action {
        if let Some(action) = self.advance_errand(task) {
            return action;
        }
        let workload = self.programs.workload.clone();
        let definition = &workload.tasks[task.execution.definition];
        let now = self.clock.now();
        if task.execution.instant != now {
            task.execution.instant = now;
            task.execution.passed = 0;
        }
        task.execution.waiting = Waiting::Nothing;
        task.execution.until = 0;
        if !task.execution.begun {
            task.execution.begun = true;
            if task.execution.periodic {
                task.execution.release = Some(now.max(task.execution.start + definition.delay));
            }
            if definition.delay > 0 && !task.execution.delayed {
                task.execution.delayed = true;
                return self.sleep_until(task, task.execution.start + definition.delay);
            }
        }
        if let Some(due) = task.execution.release.take() {
            self.emit(EventKind::JobRelease { task: task.id, due });
        }
        loop {
            if self.cpus[task.cpu()].current != task {
                // A change of its attributes took the CPU from it; it goes on when it runs again.
                return Action::Compute;
            }
            task.execution.passed += 1;
            if task.execution.passed > EVENTS_PER_INSTANT {
                self.programs.failure = Some(format!(
                    "{} passes its events without letting time pass; give it a \"run\" or a \"sleep\" of at least 1",
                    task.name
                ));
                return Action::Failed;
            }
            if let Some(mutex) = task.execution.relock {
                if !self.take_mutex(task, mutex) {
                    return Action::Block;
                }
                task.execution.relock = None;
            }
            let Some(phase) = definition.phases.get(task.execution.phase) else {
                task.execution.passes += 1;
                if definition
                    .loops
                    .is_some_and(|loops| task.execution.passes >= loops)
                {
                    if let Some(deadline) = task.execution.deadline.take() {
                        self.emit(EventKind::JobComplete {
                            task: task.id,
                            deadline,
                        });
                    }
                    return Action::Exit;
                }
                task.execution.phase = 0;
                continue;
            };
            if !task.execution.entered {
                task.execution.entered = true;
                if let Some(policy) = phase.policy
                    && task.execution.policy != Some(policy)
                {
                    task.execution.policy = Some(policy);
                    self.change_policy(task, policy);
                }
                // A phase without a list of its own goes back to the task's, as in rt-app.
                let cpus = definition.cpus_in(task.execution.phase);
                let before = match task.execution.affinity_of {
                    Some(phase) => definition.cpus_in(phase),
                    None => definition.cpus.as_deref(),
                };
                task.execution.affinity_of = Some(task.execution.phase);
                if cpus != before {
                    self.change_affinity(task, cpus);
                }
                if let Some(path) = &phase.taskgroup {
                    let path = path.clone();
                    self.move_to_group(task, &path);
                }
                if self.programs.failure.is_some() {
                    return Action::Failed;
                }
                if self.cpus[task.cpu()].current != task || self.cpus[task.cpu()].need_resched {
                    return Action::Compute;
                }
            }
            let Some(event) = phase.events.get(task.execution.event) else {
                task.execution.event = 0;
                task.execution.phase_passes += 1;
                if phase
                    .loops
                    .is_some_and(|loops| task.execution.phase_passes >= loops)
                {
                    task.execution.phase += 1;
                    task.execution.phase_passes = 0;
                    task.execution.entered = false;
                }
                continue;
            };
            let event = event.clone();
            let resumed = std::mem::take(&mut task.execution.resumed);
            if !resumed {
                self.spent += self.settings.cost.system_call
                    * u64::from(!matches!(event, Event::Run(_) | Event::Runtime(_)));
            }
            task.execution.event += 1;
            match event {
                Event::Run(work) => {
                    if self.compute(task, work) {
                        return Action::Compute;
                    }
                }
                Event::Runtime(duration) => {
                    task.execution.until = self.program_time() + duration;
                    return Action::Compute;
                }
                Event::Mem(bytes) | Event::IoRun(bytes) => {
                    if self.compute(task, bytes / BYTES_PER_NANOSECOND) {
                        return Action::Compute;
                    }
                }
                Event::MemRun { accesses, .. } => {
                    if self.compute(task, accesses * MEMORY_ACCESS) {
                        return Action::Compute;
                    }
                }
                Event::Sleep(duration) => {
                    let until = self.program_time() + duration;
                    return self.sleep_until(task, until);
                }
                Event::Timer {
                    timer,
                    period,
                    mode,
                } => {
                    if let Some(action) = self.wait_for_timer(task, timer, period, mode) {
                        return action;
                    }
                }
                Event::Lock(mutex) => {
                    if !self.take_mutex(task, mutex) {
                        task.execution.relock = Some(mutex);
                        return Action::Block;
                    }
                }
                Event::Unlock(mutex) => self.release_mutex(task, mutex),
                Event::Wait { condition, mutex } => {
                    self.release_mutex(task, mutex);
                    task.execution.relock = Some(mutex);
                    return self.wait_on(task, condition);
                }
                Event::Suspend(condition) => return self.wait_on(task, condition),
                Event::Signal(condition) => self.wake_waiters(task, condition, 1),
                Event::Broadcast(condition) | Event::Resume(condition) => {
                    self.wake_waiters(task, condition, usize::MAX);
                }
                Event::Sync { condition, mutex } => {
                    self.wake_waiters(task, condition, 1);
                    self.release_mutex(task, mutex);
                    task.execution.relock = Some(mutex);
                    return self.wait_on(task, condition);
                }
                Event::Barrier(barrier) => {
                    let parties = workload.barriers[barrier].parties as usize;
                    if self.programs.barriers[barrier].len() + 1 < parties {
                        self.programs.barriers[barrier].push(task);
                        task.execution.waiting = Waiting::Barrier(barrier);
                        return Action::Block;
                    }
                    for waiter in std::mem::take(&mut self.programs.barriers[barrier]) {
                        self.wake(waiter, Some(task), false);
                    }
                }
                Event::SemPost(semaphore) => {
                    let state = &mut self.programs.semaphores[semaphore];
                    state.value += 1;
                    if let Some(waiter) = state.waiters.pop_front() {
                        self.wake(waiter, Some(task), false);
                    }
                }
                Event::SemWait(semaphore) => {
                    let state = &mut self.programs.semaphores[semaphore];
                    if state.value == 0 {
                        state.waiters.push_back(task);
                        task.execution.event -= 1;
                        task.execution.resumed = true;
                        task.execution.waiting = Waiting::Semaphore(semaphore);
                        return Action::Block;
                    }
                    state.value -= 1;
                }
                Event::Yield => return Action::Yield,
                Event::Fork(target) => {
                    let number = self.programs.forks[target];
                    if number >= FORK_LIMIT {
                        self.programs.failure = Some(format!(
                            "{} was forked {FORK_LIMIT} times, the most that rt-app allows",
                            workload.tasks[target].name
                        ));
                        return Action::Failed;
                    }
                    self.programs.forks[target] += 1;
                    let name = format!(
                        "{}-{}",
                        workload.tasks[target].name,
                        workload.tasks[target].instances + number
                    );
                    self.fork_task(target, name, Some(task));
                    if self.programs.failure.is_some() {
                        return Action::Failed;
                    }
                }
            }
            if self.cpus[task.cpu()].need_resched {
                // It is preempted on its way out of the system call.
                return Action::Compute;
            }
        }
    }

    pub(crate) fn compute(&mut self, mut task: TaskRef, work: u64) -> bool {
        task.execution.remaining = work;
        task.execution.remainder = 0;
        work > 0
    }

    pub(crate) fn sleep_until(&mut self, mut task: TaskRef, until: u64) -> Action {
        let is_kernel_thread = task.seen.flags & PF_KTHREAD != 0;
        let slack = match task.class {
            Class::RealTime => 0,
            _ => self.settings.cost.timer_slack,
        };
        task.execution.sleep = task.execution.sleep.wrapping_add(1);
        task.execution.sleeps_on = task.cpu();
        task.execution.waiting = Waiting::Time;
        // User programs sleep on high-resolution timers, threads of the kernel on its timer wheel.
        if !is_kernel_thread {
            let sleep = Sleep {
                earliest: until,
                latest: until + slack,
                task: task.id,
                generation: task.execution.sleep,
            };
            let sleeps = &mut self.cpus[task.cpu()].sleeps;
            let place = sleeps.partition_point(|other| other.latest <= sleep.latest);
            sleeps.insert(place, sleep);
        }
        let until = until + self.random_below(slack + 1);
        self.clock.at(
            until,
            Due::Timeout {
                task: task.id.0,
                generation: task.execution.sleep,
            },
        );
        Action::Block
    }

    fn wait_for_timer(
        &mut self,
        mut task: TaskRef,
        timer: usize,
        period: u64,
        mode: TimerMode,
    ) -> Option<Action> {
        let workload = self.programs.workload.clone();
        let unique = workload.timers[timer].unique;
        let definition = &workload.tasks[task.execution.definition];
        let first = task.execution.start + definition.delay;
        let stored = if unique {
            task.execution.timers[timer]
        } else {
            self.programs.shared_timers[timer]
        };
        let expiry = stored.unwrap_or(first) + period;
        let now = self.program_time();
        let late = now >= expiry;
        let next = if late && mode == TimerMode::Relative {
            now
        } else {
            expiry
        };
        if unique {
            task.execution.timers[timer] = Some(next);
        } else {
            self.programs.shared_timers[timer] = Some(next);
        }
        self.emit(EventKind::JobComplete {
            task: task.id,
            deadline: expiry,
        });
        if late {
            self.emit(EventKind::JobRelease {
                task: task.id,
                due: next,
            });
            return None;
        }
        task.execution.release = Some(expiry);
        Some(self.sleep_until(task, expiry))
    }

    fn take_mutex(&mut self, mut task: TaskRef, mutex: usize) -> bool {
        let state = &mut self.programs.mutexes[mutex];
        if state.owner.is_none() {
            state.owner = Some(task.id);
            state.contended = std::mem::take(&mut task.execution.contends);
            task.execution.held += 1;
            true
        } else {
            state.contended = true;
            state.waiters.push_back(task);
            task.execution.contends = true;
            task.execution.waiting = Waiting::Mutex(mutex);
            false
        }
    }

    /// Unlocks a mutex. One waiter of a contended one is woken and has to take the mutex itself when it runs.
    fn release_mutex(&mut self, mut task: TaskRef, mutex: usize) {
        let state = &mut self.programs.mutexes[mutex];
        if state.owner != Some(task.id) {
            return;
        }
        state.owner = None;
        task.execution.held -= 1;
        if !std::mem::take(&mut state.contended) {
            return;
        }
        if let Some(waiter) = state.waiters.pop_front() {
            self.wake(waiter, Some(task), false);
        }
    }

    fn wait_on(&mut self, mut task: TaskRef, condition: usize) -> Action {
        self.programs.conditions[condition].push_back(task);
        task.execution.waiting = Waiting::Condition(condition);
        Action::Block
    }

    fn wake_waiters(&mut self, task: TaskRef, condition: usize, count: usize) {
        for _ in 0..count {
            let Some(waiter) = self.programs.conditions[condition].pop_front() else {
                break;
            };
            self.wake(waiter, Some(task), false);
        }
    }

    /// The interrupt of a timer that ends a sleep. It comes to the CPU where the task went to sleep, at some time within the
    /// slack: other devices have their interrupts, too, and the kernel looks at its timers with them.
    pub(crate) fn handle_timeout(&mut self, number: u32, generation: u32, due: Due) {
        let task = self.any_task(TaskId(number));
        if !task.execution.sleeps_until_timeout(generation) {
            return;
        }
        let home = task.execution.sleeps_on;
        let mut cpu = home;
        if !self.cpus[cpu].online {
            cpu = (0..self.cpus.len())
                .find(|&cpu| self.cpus[cpu].online)
                .unwrap_or(cpu);
        }
        if self.postponed(cpu, due) {
            return;
        }
        self.enter(cpu);
        self.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        if task.seen.flags & PF_KTHREAD != 0 {
            self.cpus[cpu].preempt_count = SOFTIRQ_OFFSET;
            self.wake(task, None, false);
            self.cpus[cpu].preempt_count = 0;
        } else {
            self.end_sleeps(cpu, home, self.clock.now() + 1);
        }
        self.leave(OverheadKind::Scheduling);
    }

    /// hrtimer_interrupt(), which comes with every timer and every tick of `cpu`: ends the sleeps on `home`'s timers that may end
    /// before this time, whichever of them the interrupt was for. So sleeps that end at almost the same time end together.
    pub(crate) fn end_sleeps(&mut self, cpu: usize, home: usize, time: u64) {
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        while let Some(sleep) = self.cpus[home].sleeps.front().copied()
            && sleep.earliest < time
        {
            self.cpus[home].sleeps.pop_front();
            let mut task = self.any_task(sleep.task);
            if task.execution.sleeps_until_timeout(sleep.generation) {
                task.execution.waiting = Waiting::Nothing;
                self.wake(task, None, false);
            }
        }
        self.cpus[cpu].preempt_count = 0;
    }

    /// Why no task can ever run again, if that is so.
    pub(crate) fn deadlock(&self) -> Option<String> {
        let mut reasons = Vec::new();
        for task in &self.tasks {
            if task.seen.__state == TASK_DEAD {
                continue;
            }
            if task.seen.__state == TASK_RUNNING {
                return None;
            }
            let workload = &self.programs.workload;
            let reason = match task.execution.waiting {
                Waiting::Nothing | Waiting::Time => return None,
                Waiting::Mutex(mutex) => {
                    let owner = match self.programs.mutexes[mutex].owner {
                        Some(owner) => format!(", held by {}", self.any_task(owner).name),
                        None => String::new(),
                    };
                    format!("mutex {}{owner}", workload.mutexes[mutex])
                }
                Waiting::Condition(condition) => {
                    format!("condition {}", workload.conditions[condition])
                }
                Waiting::Barrier(barrier) => format!(
                    "barrier {} ({} of {} have arrived)",
                    workload.barriers[barrier].name,
                    self.programs.barriers[barrier].len(),
                    workload.barriers[barrier].parties
                ),
                Waiting::Semaphore(semaphore) => {
                    format!("semaphore {}", workload.semaphores[semaphore])
                }
            };
            reasons.push(format!("{} waits for {reason}", task.name));
        }
        if reasons.is_empty() {
            None
        } else {
            Some(reasons.join("; "))
        }
    }
}

impl Task {
    /// A task with nothing to do yet; pointers inside it are set once it has its place.
    pub fn blank(id: TaskId, name: String, pid: i32, allowed: CpuMask, cpus: usize) -> Task {
        // SAFETY: every field of the structure is an integer, a bool or a raw pointer, for which zero is a value.
        let mut seen: TaskStruct = unsafe { std::mem::zeroed() };
        seen.pid = pid;
        seen.tgid = pid;
        seen.prio = 120;
        seen.static_prio = 120;
        seen.normal_prio = 120;
        seen.se.load.weight = 1024;
        seen.se.load.inv_weight = 4_194_304;
        seen.cpus_mask = allowed;
        seen.nr_cpus_allowed = cpus as i32;
        seen.scx.sticky_cpu = -1;
        seen.scx.holding_cpu = -1;
        seen.scx.selected_cpu = -1;
        seen.scx.runnable_cpu = -1;
        seen.scx.ddsp_dsq_id = SCX_DSQ_INVALID;
        seen.scx.slice = SCX_SLICE_DFL;
        seen.scx.weight = 100;
        for (target, source) in seen.comm[..15].iter_mut().zip(name.bytes()) {
            *target = source;
        }
        Task {
            seen,
            id,
            name,
            class: Class::Ext,
            ops_state: OpsState::None,
            on_runnable_list: false,
            dsq: None::<DsqIndex>,
            dsq_previous: None,
            dsq_next: None,
            dsq_key: 0,
            dsq_arrival: 0,
            class_slice: 0,
            fair_vruntime: 0,
            execution: Execution::new(usize::MAX, &[], 0),
            storage: Vec::new(),
            last_ran_on: None,
            runnable_since: 0,
            references: 1,
            parent: None,
            attributes: Vec::new(),
            cgroup: 0,
        }
    }
}

impl TaskRef {
    /// Sets the pointers of the task that lead into itself.
    pub fn fix_pointers(mut self) {
        let mask: *const CpuMask = &raw const self.seen.cpus_mask;
        self.seen.cpus_ptr = mask;
        if self.seen.real_parent.is_null() {
            let itself = self.address() as *mut TaskStruct;
            self.seen.real_parent = itself;
            self.seen.parent = itself;
        }
        if self.seen.group_leader.is_null() {
            self.seen.group_leader = self.address() as *mut TaskStruct;
        }
    }
}
