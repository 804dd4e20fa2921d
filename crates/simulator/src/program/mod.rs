//! The programs of tasks: the events of a workload, interpreted one by one in virtual time.

mod call;
mod disk;
mod drive;
mod early_pipe;
mod elevator;
mod fork;
mod futex;
mod pipe;
mod service;
mod sleep;
mod socket;
mod sync;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use fairground_events::EventKind;
use fairground_workload::{
    Cursor, Draws, Event, Phase, Policy, Source, Task as Definition, Variation, Waiting, Workload,
};

use crate::constants::*;
use crate::hardware::Speed;
use crate::kernel::Kernel;
use crate::surroundings::Errand;
use crate::task::TaskRef;
pub(crate) use call::call_of;
use drive::Drive;
use pipe::Pipe;
use service::{Request, Service, Stream};
pub use sleep::Sleep;
use sync::{Barrier, Mutex, Semaphore};

/// Memory bandwidth of `mem` and `iorun` events, bytes per nanosecond.
const BYTES_PER_NANOSECOND: u64 = 8;
/// Time of one access of a `memrun` event, nanoseconds.
const MEMORY_ACCESS: u64 = 2;
/// Number of events in one instant after which a program counts as never letting time pass.
const EVENTS_PER_INSTANT: u32 = 100_000;

/// A task's action after a step of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It needs CPU time.
    Compute,
    /// It yields.
    Yield,
    /// It waits.
    Block,
    /// It waits for a disk and cannot be woken by signals.
    BlockOnDisk,
    /// It ends.
    Exit,
    /// The simulation cannot go on; the reason is recorded.
    Failed,
}

/// The next part of a program.
enum Next {
    /// An event, which counts as passed.
    Event(Event),
    /// The end of a phase or of a pass, or an event that does not happen this time; look for the next one.
    Again,
    /// Something else.
    Action(Action),
}

/// Where a task is in its program, and the rest of the current step.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    definition: usize,
    passes: u64,
    phase: usize,
    phase_passes: u64,
    event: usize,
    /// Position among the events of its phase.
    cursor: Cursor,
    entered: bool,
    begun: bool,
    remaining: u64,
    remainder: u64,
    pub(crate) until: u64,
    /// The thing that it waits for.
    pub waiting: Waiting,
    /// A mutex it has to take before it goes on.
    relock: Option<usize>,
    /// Whether it has already waited for the mutex that it is about to take.
    contends: bool,
    /// CPU time for which it may still spin for the mutex that it is about to take, while it spins.
    spin_left: Option<u64>,
    /// Whether the barrier at which it spins has opened.
    opened: bool,
    /// The request that it has taken.
    request: Option<Request>,
    /// Whether it resumes inside the system call of its event.
    resumed: bool,
    /// Whether it has waited in that call.
    waited: bool,
    /// Amount that its event has moved so far: bytes or pages.
    moved: u64,
    /// How much of that the current call has read from an early pipe.
    moved_in_call: u64,
    /// The random numbers of its varied events.
    draws: Option<Draws>,
    /// Number of sleeps so far.
    sleep: u32,
    /// The CPU whose timer ends its sleep.
    sleeps_on: usize,
    timers: Vec<Option<u64>>,
    periodic: bool,
    deadline: Option<u64>,
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
    /// The task's work besides its program.
    pub(crate) errand: Errand,
}

impl Execution {
    /// The state of a task that has not begun `definition`.
    pub fn new(definition: usize, phases: &[Phase], timers: usize) -> Execution {
        let is_timer = |event: Event| matches!(event, Event::Timer { .. });
        let periodic = phases.iter().any(|phase| phase.events.iter().any(is_timer));
        Execution {
            definition,
            timers: vec![None; timers],
            periodic,
            instant: u64::MAX,
            ..Execution::default()
        }
    }

    /// Takes `duration` on a CPU of this speed off the current step.
    pub fn progress(&mut self, duration: u64, speed: Speed) {
        if self.remaining == 0 {
            return;
        }
        let (work, remainder) = speed.work(duration, self.remainder);
        self.remainder = remainder;
        self.remaining = self.remaining.saturating_sub(work);
    }

    /// When the current step ends if the task keeps running from `start`; `u64::MAX` for never.
    pub fn completes_at(&self, start: u64, speed: Speed) -> u64 {
        if self.until > 0 {
            return self.until.max(start);
        }
        if self.remaining == u64::MAX {
            return u64::MAX;
        }
        start.saturating_add(speed.time_for(self.remaining, self.remainder))
    }

    /// What is left of the current step, in nanoseconds on a CPU of full speed.
    pub fn work_left(&self) -> u64 {
        self.remaining
    }

    /// Whether the current step ends at a fixed time, no matter how much the task runs.
    pub fn is_timed(&self) -> bool {
        self.until > 0
    }

    /// Whether it is in the sleep with this number, which a timer ends.
    fn sleeps_until_timeout(&self, generation: u32) -> bool {
        self.sleep == generation && self.waiting == Waiting::Time
    }

    /// Whether the current step is over at `now`.
    pub fn step_is_done(&self, now: u64) -> bool {
        self.remaining == 0 && self.until <= now
    }
}

/// The objects that a workload's tasks share.
pub struct Programs {
    /// Reference-counted within this thread, so that cloning it is cheap.
    #[allow(clippy::redundant_allocation)]
    pub(crate) workload: Rc<Arc<Workload>>,
    mutexes: Vec<Mutex>,
    conditions: Vec<VecDeque<TaskRef>>,
    barriers: Vec<Barrier>,
    semaphores: Vec<Semaphore>,
    shared_timers: Vec<Option<u64>>,
    pipes: Vec<Pipe>,
    /// When each disk will have served all its requests.
    disks: Vec<u64>,
    drives: Vec<Drive>,
    /// Evicted pages of each memory that have not been read back in.
    evicted: Vec<u64>,
    services: Vec<Service>,
    /// How many requests were put at services.
    requests: u64,
    streams: Vec<Stream>,
    /// By definition, whether its tasks measure laps themselves.
    stopwatches: Vec<bool>,
    forks: Vec<u32>,
    /// Whether the first tasks were started.
    pub(crate) started: bool,
    /// Why the workload cannot go on.
    pub(crate) failure: Option<String>,
    /// The tasks and the things for which they wait at the end, if all tasks wait for each other.
    pub(crate) stuck: Option<String>,
}

impl Programs {
    /// The shared objects of `workload`, all free, in a run with this seed.
    pub fn new(workload: Arc<Workload>, seed: u64) -> Programs {
        let is_lap = |event: Event| matches!(event, Event::Lap { .. });
        let measures = |phase: &Phase| phase.events.iter().any(is_lap);
        Programs {
            mutexes: workload.mutexes.iter().map(Mutex::new).collect(),
            conditions: workload.conditions.iter().map(|_| VecDeque::new()).collect(),
            barriers: { workload.barriers.iter() }.map(|_| Barrier::default()).collect(),
            semaphores: workload.semaphores.iter().map(|_| Semaphore::default()).collect(),
            shared_timers: vec![None; workload.timers.len()],
            pipes: workload.pipes.iter().map(Pipe::new).collect(),
            disks: vec![0; workload.disks.len()],
            drives: workload.drives.iter().map(Drive::new).collect(),
            evicted: vec![0; workload.memories.len()],
            services: { workload.services.iter() }.map(|_| Service::default()).collect(),
            requests: 0,
            streams: Stream::of(&workload, seed),
            // Only requests ask for it.
            stopwatches: { workload.tasks.iter().filter(|_| !workload.services.is_empty()) }
                .map(|task| task.phases.iter().any(measures))
                .collect(),
            forks: vec![0; workload.tasks.len()],
            started: false,
            failure: None,
            stuck: None,
            workload: Rc::new(workload),
        }
    }
}

impl Kernel<'_> {
    /// Begins the next step of `task`, which was just switched in, if that step just computes.
    pub(crate) fn begin_run(&mut self, mut task: TaskRef) {
        if self.traces_end_of(task.execution.waiting) {
            return;
        }
        let execution = &mut task.execution;
        if execution.remaining > 0
            || execution.until > 0
            || !execution.entered
            || execution.relock.is_some()
        {
            return;
        }
        let workload = &self.programs.workload;
        let Some(phase) = workload.tasks[execution.definition].phases.get(execution.phase) else {
            return;
        };
        let wraps = execution.event == phase.events.len() && phase.loops.is_none();
        let event = if wraps { 0 } else { execution.event };
        let Some(Event::Run(work)) = phase.events.read(event, &mut execution.cursor) else {
            return;
        };
        if phase.variations.contains_key(&event) {
            return;
        }
        execution.event = event + 1;
        execution.remaining = work;
        execution.remainder = 0;
        execution.waiting = Waiting::Nothing;
    }

    /// Continues the program of `task`, which runs on this CPU and has finished its step.
    pub(crate) fn advance_program(&mut self, mut task: TaskRef) -> Action {
        if let Some(action) = self.advance_errand(task) {
            return action;
        }
        let workload = self.programs.workload.clone();
        let definition = &workload.tasks[task.execution.definition];
        if let Some(action) = self.resume_program(task, definition) {
            return action;
        }
        loop {
            if self.cpus[task.cpu()].current != task {
                // A change of its attributes has cost it the CPU; it continues when it runs again.
                return Action::Compute;
            }
            self.count_event(task);
            if task.execution.passed > EVENTS_PER_INSTANT {
                self.programs.failure = Some(format!(
                    "{} passes its events without letting time pass; give it a \"run\" or a \"sleep\" of at least 1",
                    task.name
                ));
                return Action::Failed;
            }
            if let Some(mutex) = task.execution.relock {
                if let Some(action) = self.take_mutex(task, mutex) {
                    return action;
                }
                task.execution.relock = None;
            }
            let event = match self.next_event(task, definition) {
                Next::Event(event) => event,
                Next::Again => continue,
                Next::Action(action) => return action,
            };
            if let Some(action) = self.carry_out(task, event) {
                return action;
            }
            // The interrupt for kicks comes as soon as a wake-up has released its locks (`irq_work_queue()`), so a task that kicks its own CPU
            // by waking another task is preempted on its way out of the system call.
            let cpu = task.cpu();
            self.deliver_kicks(cpu);
            if self.cpus[cpu].need_resched || self.something_comes_first() {
                return Action::Compute;
            }
        }
    }

    /// Counts the events that `task` passes at one time on the clock of its CPU.
    fn count_event(&self, mut task: TaskRef) {
        let now = self.local_time();
        if task.execution.instant != now {
            task.execution.instant = now;
            task.execution.passed = 0;
        }
        task.execution.passed += 1;
    }

    /// Finishes the previous step; a task that has not begun waits for its delay.
    fn resume_program(&mut self, mut task: TaskRef, definition: &Definition) -> Option<Action> {
        task.seen.in_iowait = 0;
        let waited = std::mem::replace(&mut task.execution.waiting, Waiting::Nothing);
        if self.traces_end_of(waited) {
            self.trace_end_of_futex_wait(waited);
        }
        task.execution.until = 0;
        if !task.execution.begun {
            task.execution.begun = true;
            if definition.delay > 0 && !task.execution.delayed {
                task.execution.delayed = true;
                return Some(self.sleep_until(task, task.execution.start + definition.delay));
            }
        }
        None
    }

    /// Moves on to the next event of `definition`.
    fn next_event(&mut self, mut task: TaskRef, definition: &Definition) -> Next {
        let Some(phase) = definition.phases.get(task.execution.phase) else {
            task.execution.passes += 1;
            let loops = definition.loops;
            if loops.is_some_and(|loops| task.execution.passes >= loops) {
                if let Some(deadline) = task.execution.deadline.take() {
                    self.emit(EventKind::JobComplete { task: task.id, deadline });
                }
                return Next::Action(Action::Exit);
            }
            task.execution.phase = 0;
            return Next::Again;
        };
        if !task.execution.entered
            && let Some(action) = self.enter_phase(task, definition, phase)
        {
            return Next::Action(action);
        }
        let place = task.execution.event;
        let Some(event) = phase.events.read(place, &mut task.execution.cursor) else {
            task.execution.event = 0;
            task.execution.phase_passes += 1;
            let loops = phase.loops;
            if loops.is_some_and(|loops| task.execution.phase_passes >= loops) {
                task.execution.phase += 1;
                task.execution.phase_passes = 0;
                task.execution.entered = false;
            }
            return Next::Again;
        };
        task.execution.event += 1;
        match phase.variations.get(&place) {
            Some(variation) => vary(&mut task.execution, event, variation),
            None => Next::Event(event),
        }
    }

    /// Makes the changes that a phase makes on entry. Returns an action if the task cannot continue at once.
    fn enter_phase(
        &mut self,
        mut task: TaskRef,
        definition: &Definition,
        phase: &Phase,
    ) -> Option<Action> {
        task.execution.entered = true;
        task.execution.cursor = Cursor::default();
        if let Some(policy) = phase.policy
            && task.execution.policy != Some(policy)
        {
            task.execution.policy = Some(policy);
            self.change_policy(task, policy);
        }
        // A phase without its own list goes back to that of the task, as in rt-app.
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
            return Some(Action::Failed);
        }
        let cpu = &self.cpus[task.cpu()];
        (cpu.current != task || cpu.need_resched).then_some(Action::Compute)
    }

    /// Carries out an event. Returns an action if the task does not continue at once.
    fn carry_out(&mut self, mut task: TaskRef, event: Event) -> Option<Action> {
        let resumed = std::mem::take(&mut task.execution.resumed);
        task.execution.waited = resumed;
        if !resumed && always_calls(&event) {
            self.system_call();
        }
        match event {
            Event::Run(work) => self.compute(task, work),
            Event::Runtime(duration) => {
                task.execution.until = self.program_time() + duration;
                Some(Action::Compute)
            }
            Event::Mem(bytes) | Event::IoRun(bytes) => {
                self.compute(task, bytes / BYTES_PER_NANOSECOND)
            }
            Event::MemRun { accesses, .. } => self.compute(task, accesses * MEMORY_ACCESS),
            Event::Sleep(duration) => {
                let until = self.program_time() + duration;
                Some(self.sleep_until(task, until))
            }
            Event::Timer { timer, period, mode } => self.wait_for_timer(task, timer, period, mode),
            Event::Yield => Some(Action::Yield),
            Event::Fork(target) => self.fork_by_event(task, target),
            Event::Lap { begins } => {
                let at = self.program_time() - self.origin;
                self.emit(EventKind::Lap { task: task.id, at, begins });
                None
            }
            Event::Migration { enable: false } => {
                task.seen.migration_disabled += 1;
                None
            }
            Event::Migration { enable: true } => {
                self.enable_migration(task);
                None
            }
            Event::Ask(service) => self.ask(task, service),
            Event::Take(choice) => self.take(task, choice),
            Event::Pass(service) => self.pass(task, service),
            Event::Answer => self.answer(task),
            Event::PipeRead { pipe, bytes } => self.read_pipe(task, pipe, bytes),
            Event::PipeWrite { pipe, bytes } => self.write_pipe(task, pipe, bytes),
            Event::Disk { disk, service } => Some(self.wait_for_disk(task, disk, service)),
            Event::Evict { memory, pages } => {
                self.programs.evicted[memory] += pages;
                None
            }
            Event::Read { .. } | Event::Write { .. } | Event::Fault { .. } => {
                self.transfer(task, event)
            }
            _ => self.synchronize(task, event),
        }
    }

    /// Carries out an event that reads or writes.
    fn transfer(&mut self, task: TaskRef, event: Event) -> Option<Action> {
        match event {
            Event::Read { drive, bytes, place } => self.read_drive(task, drive, bytes, place),
            Event::Write { drive, bytes, place } => self.write_drive(task, drive, bytes, place),
            Event::Fault { memory, source: Source::Disk { disk, service }, most } => {
                self.fault(task, memory, disk, (service, most))
            }
            Event::Fault { memory, source: Source::Drive { drive, bytes }, most } => {
                self.fault_from_drive(task, memory, drive, (bytes, most))
            }
            _ => None,
        }
    }

    /// Makes `task` use this much CPU time.
    pub(crate) fn compute(&mut self, mut task: TaskRef, work: u64) -> Option<Action> {
        task.execution.remaining = work;
        task.execution.remainder = 0;
        (work > 0).then_some(Action::Compute)
    }

    /// Why no task can ever run again, if none can.
    pub(crate) fn deadlock(&self) -> Option<String> {
        let mut reasons = Vec::new();
        for task in self.tasks.workload() {
            if task.seen.__state == TASK_DEAD {
                continue;
            }
            if matches!(task.seen.__state, TASK_RUNNING | TASK_WAKING) {
                return None;
            }
            let reason = task.execution.waiting.describe(
                &self.programs.workload,
                |mutex| {
                    let owner = self.programs.mutexes[mutex].owner?;
                    Some(self.tasks.any(owner).name.to_string())
                },
                |barrier| self.programs.barriers[barrier].arrived() as u64,
            )?;
            reasons.push(format!("{} waits for {reason}", task.name));
        }
        if reasons.is_empty() { None } else { Some(reasons.join("; ")) }
    }
}

/// Whether an event always takes a system call. Reading a clock and using memory take none; mutexes, conditions and semaphores are words in
/// memory and need a call only to wait or to wake.
fn always_calls(event: &Event) -> bool {
    !matches!(
        event,
        Event::Run(_)
            | Event::Runtime(_)
            | Event::Lap { .. }
            | Event::Migration { .. }
            | Event::Evict { .. }
            | Event::Lock(_)
            | Event::Unlock(_)
            | Event::Wait { .. }
            | Event::Sync { .. }
            | Event::Suspend(_)
            | Event::Resume(_)
            | Event::Signal(_)
            | Event::Broadcast(_)
            | Event::SemPost(_)
            | Event::SemWait(_)
    )
}

/// This time's form of a varied event. A resumed event has already been found to happen.
fn vary(execution: &mut Execution, event: Event, variation: &Variation) -> Next {
    let Some(draws) = &mut execution.draws else {
        return Next::Event(event);
    };
    if !execution.resumed && !draws.happens(variation) {
        return Next::Again;
    }
    Next::Event(draws.vary(event, variation))
}
