//! One thread that carries out a task's program.

use fairground_metrics::{LapRecord, Periods};
use fairground_workload::{Draws, Event, Task, TimerMode, Waiting};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use rustix::thread::sched_yield;

use super::deadlock::WaitRecord;
use super::program::{Program, Step};
use super::run::Run;
use super::samples::Samples;
use super::work::Work;
use crate::recorder::stream::NoteKind;
use crate::{clock, scheduling};

/// A thread's own record of its life.
#[derive(Clone, Debug, Default)]
pub struct ThreadRecord {
    /// CPU time since the start of the run.
    pub cpu_time: u64,
    /// Times it left a CPU because it waited.
    pub voluntary_switches: u64,
    /// Times it left a CPU although it was still runnable.
    pub involuntary_switches: u64,
    /// From the nominal end of a timer sleep to running.
    pub timer_latency: Samples,
    /// From release to completion of jobs.
    pub response_time: Samples,
    /// Jobs, if it has a timer.
    pub periods: Option<Periods>,
    /// Laps by its own watch.
    pub laps: Samples,
    /// The same laps one by one, if requested; times are `CLOCK_MONOTONIC`.
    pub lap_records: Vec<LapRecord>,
    /// When its program ended, `CLOCK_MONOTONIC`; `None` if the end of the run ended it.
    pub ended: Option<u64>,
}

/// Why a thread stops before the end of its program.
enum Stop {
    /// The run is over.
    Over,
    /// The workload asks for something that is not available here.
    Failed(String),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl ThreadRecord {
    /// The outcome of a thread of this task that did not reach its program in a run from `start` to `stop`.
    pub(super) fn of_nothing(task: &Task, start: u64, stop: u64) -> Self {
        let periods = first_job(task, start).map(|job| {
            let mut periods = RELEASED;
            leave(job, stop, &mut periods);
            periods
        });
        Self { periods, ..Self::default() }
    }
}

/// One released job.
const RELEASED: Periods = Periods { released: 1, completed: 0, missed: 0, skipped: 0 };

/// Release and nominal end of the first job of a task that begins at `start`, if it has a timer.
pub(super) fn first_job(task: &Task, start: u64) -> Option<(u64, u64)> {
    let due = start.saturating_add(task.delay);
    let period = task.next_period(0, 0)?;
    Some((due, due.saturating_add(period)))
}

/// Settles a job that is incomplete at `end`: it does not count if it is still to come, and is missed if its period is over.
fn leave((due, deadline): (u64, u64), end: u64, periods: &mut Periods) {
    periods.released -= u64::from(due >= end);
    periods.missed += u64::from(end > deadline && due < end);
}

/// The remedy if a policy cannot be set, for the end of a message.
fn way_out(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; without root, nice cannot become less than that of the shell, and no task is real-time"
        }
        std::io::ErrorKind::InvalidInput => "; this kernel does not have it",
        _ => "",
    }
}

/// The result of a wait; an error if the end of the run cut it short.
fn waited(ended_well: bool) -> Result<(), Stop> {
    if ended_well { Ok(()) } else { Err(Stop::Over) }
}

pub(super) struct Worker<'run> {
    run: &'run Run,
    task: &'run Task,
    pid: u32,
    waiting: &'run WaitRecord,
    /// Nominal start of the task's events: the common start, or the fork, plus the delay.
    first: u64,
    work: Work,
    /// Last expiry of its own timers.
    timers: Vec<Option<u64>>,
    /// Mutexes that it holds.
    held: Vec<bool>,
    /// The time from which the current job counts, and the nominal end of its period.
    job: Option<(u64, u64)>,
    /// When the current lap began.
    lap: Option<u64>,
    /// The random numbers of its varied events.
    draws: Draws,
    outcome: ThreadRecord,
}

impl<'run> Worker<'run> {
    /// The worker of the calling thread for an instance of the definition with this index.
    pub(super) fn new(
        run: &'run Run,
        waiting: &'run WaitRecord,
        definition: usize,
        instance: u32,
    ) -> Self {
        let task = &run.workload.tasks[definition];
        Self {
            run,
            task,
            pid: waiting.thread(),
            waiting,
            first: 0,
            work: Work::default(),
            timers: vec![None; run.workload.timers.len()],
            held: vec![false; run.workload.mutexes.len()],
            job: None,
            lap: None,
            draws: Draws::new(run.options.seed, definition, instance),
            outcome: ThreadRecord::default(),
        }
    }

    /// Sets the CPUs, the policy and the control group that apply from the start.
    pub(super) fn prepare(&self) -> Result<(), String> {
        let group = self.task.taskgroup.as_deref();
        self.enter(self.task.cpus.as_deref(), Some(&self.task.policy), group)
            .map_err(|error| format!("{}: {error}", self.task.name))
    }

    fn enter(
        &self,
        cpus: Option<&[u32]>,
        policy: Option<&fairground_workload::Policy>,
        group: Option<&str>,
    ) -> Result<(), String> {
        scheduling::set_cpus(cpus, &self.run.cpus).map_err(|error| match cpus {
            Some(cpus) => format!("cannot run on the CPUs {cpus:?}: {error}"),
            None => format!("cannot run on all CPUs: {error}"),
        })?;
        if let Some(policy) = policy {
            scheduling::set_policy(policy)
                .map_err(|error| format!("cannot set {policy}: {error}{}", way_out(&error)))?;
        }
        if let (Some(group), Some(groups)) = (group, &self.run.groups) {
            groups.join(group)?;
        }
        Ok(())
    }

    /// Carries out the program from `start` on; returns the thread's own record.
    pub(super) fn carry_out(mut self, start: u64) -> Result<ThreadRecord, String> {
        let cpu_time = clock::thread_cpu_time();
        self.first = start + self.task.delay;
        let end = self.follow_program();
        self.leave_job();
        self.outcome.cpu_time = clock::thread_cpu_time() - cpu_time;
        let usage = getrusage(UsageWho::RUSAGE_THREAD).map_err(|error| error.to_string())?;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        self.outcome.voluntary_switches = count(usage.voluntary_context_switches());
        self.outcome.involuntary_switches = count(usage.involuntary_context_switches());
        match end {
            Ok(()) => {
                self.outcome.ended = Some(clock::monotonic());
                Ok(self.outcome)
            }
            Err(Stop::Over) => Ok(self.outcome),
            Err(Stop::Failed(reason)) => Err(format!("{}: {reason}", self.task.name)),
        }
    }

    fn follow_program(&mut self) -> Result<(), Stop> {
        let task = self.task;
        let mut program = Program::new(task);
        self.job = first_job(task, self.first - task.delay);
        self.outcome.periods = self.job.map(|_| RELEASED);
        if task.delay > 0 {
            self.sleep_until(self.first)?;
        }
        let mut deadline = None;
        while let Some(step) = program.next() {
            match step {
                Step::Enter(phase) => {
                    let policy = task.phases[phase].policy.as_ref();
                    let group = task.phases[phase].taskgroup.as_deref();
                    self.enter(task.cpus_in(phase), policy, group).map_err(Stop::Failed)?;
                }
                Step::Event(_, Some(variation)) if !self.draws.happens(variation) => {}
                Step::Event(event, variation) => {
                    let event = match variation {
                        Some(variation) => self.draws.vary(event, variation),
                        None => event,
                    };
                    if let Event::Timer { timer, period, mode } = event {
                        let next = (!program.has_ended()).then(|| program.next_period());
                        deadline = Some(self.wait_for_timer(timer, (period, next), mode)? + period);
                    } else {
                        self.carry_out_event(event)?;
                    }
                }
            }
            if self.run.over.is_set() {
                return Err(Stop::Over);
            }
        }
        if let Some(deadline) = deadline {
            self.complete_job(deadline);
        }
        Ok(())
    }

    fn carry_out_event(&mut self, event: Event) -> Result<(), Stop> {
        let run = self.run;
        let (resources, over) = (&run.resources, &run.over);
        match event {
            Event::Run(time) => self.work.run(time, over),
            Event::Runtime(time) => self.work.run_for(time, over),
            Event::Sleep(time) => self.sleep_until(clock::monotonic() + time)?,
            Event::Lock(mutex) => self.lock(mutex)?,
            Event::Unlock(mutex) => {
                resources.mutexes[mutex].unlock();
                self.held[mutex] = false;
            }
            Event::Wait { condition, mutex } => self.wait(condition, mutex)?,
            Event::Signal(condition) => resources.conditions[condition].signal(),
            Event::Broadcast(condition) | Event::Resume(condition) => {
                resources.conditions[condition].broadcast()
            }
            Event::Sync { condition, mutex } => {
                resources.conditions[condition].signal();
                self.wait(condition, mutex)?;
            }
            Event::Barrier(barrier) => {
                self.block(Waiting::Barrier(barrier), || resources.barriers[barrier].wait(over))?;
            }
            Event::Suspend(condition) => {
                self.block(Waiting::Condition(condition), || {
                    resources.conditions[condition].wait(None, over)
                })?;
            }
            Event::SemPost(semaphore) => resources.semaphores[semaphore].post(),
            Event::SemWait(semaphore) => {
                self.block(Waiting::Semaphore(semaphore), || {
                    resources.semaphores[semaphore].wait(over)
                })?;
            }
            Event::Mem(bytes) => self.work.touch(bytes),
            Event::MemRun { accesses, size } => self.work.walk(accesses, size, over),
            Event::IoRun(bytes) => self.work.write(bytes)?,
            Event::Yield => sched_yield(),
            Event::Fork(definition) => run.fork(definition).map_err(Stop::Failed)?,
            Event::Lap { begins } => self.lap(begins),
            Event::PipeRead { pipe, bytes } => {
                let buffer = self.work.buffer(bytes);
                let read = || resources.pipes[pipe].read(buffer, over);
                waited(self.waiting.during(Waiting::Data(pipe), read)?)?;
            }
            Event::PipeWrite { pipe, bytes } => {
                let buffer = self.work.buffer(bytes);
                let write = || resources.pipes[pipe].write(buffer, over);
                waited(self.waiting.during(Waiting::Room(pipe), write)?)?;
            }
            // Handled where the deadline of the last job is kept.
            Event::Timer { .. } => {}
            Event::Migration { .. } => {
                return Err(Stop::Failed(
                    "only the kernel's own code can disable migration, so only a simulation has sections without it"
                        .to_owned(),
                ));
            }
            Event::Disk { .. }
            | Event::Read { .. }
            | Event::Write { .. }
            | Event::Evict { .. }
            | Event::Fault { .. }
            | Event::Ask(_)
            | Event::Take(_)
            | Event::Pass(_)
            | Event::Answer => {
                return Err(Stop::Failed(
                    "only a simulation models disks, memory and services".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn wait(&mut self, condition: usize, mutex: usize) -> Result<(), Stop> {
        let resources = &self.run.resources;
        let held = self.held[mutex].then(|| &resources.mutexes[mutex]);
        self.block(Waiting::Condition(condition), || {
            resources.conditions[condition].wait(held, &self.run.over)
        })?;
        if held.is_some() {
            self.lock(mutex)?;
        }
        Ok(())
    }

    fn lock(&mut self, mutex: usize) -> Result<(), Stop> {
        let lock = &self.run.resources.mutexes[mutex];
        self.block(Waiting::Mutex(mutex), || lock.lock(&self.run.over))?;
        lock.set_holder(self.pid);
        self.held[mutex] = true;
        Ok(())
    }

    /// Waits for something that only another thread can give.
    fn block(&self, cause: Waiting, wait: impl FnOnce() -> bool) -> Result<(), Stop> {
        waited(self.waiting.during(cause, wait))
    }

    /// Completes the current job, releases the next one, and sleeps until the timer expires; returns the nominal release. The periods are
    /// that of this timer and that of the next one, which a task that ends here does not have, nor a next job.
    fn wait_for_timer(
        &mut self,
        timer: usize,
        (period, next): (u64, Option<Option<u64>>),
        mode: TimerMode,
    ) -> Result<u64, Stop> {
        let now = clock::monotonic();
        let expiry = if self.run.workload.timers[timer].unique {
            let last = self.timers[timer].get_or_insert(self.first);
            mode.expire(last, period, now)
        } else {
            let mut shared = self.run.resources.timers[timer]
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            mode.expire(shared.get_or_insert(self.first), period, now)
        };
        let due = expiry.due;
        self.complete_job(due);
        if expiry.skipped > 0 {
            self.skip_jobs(due, period, expiry.skipped);
        }
        if let Some(next) = next {
            self.release_job(expiry.release, next);
        }
        if !expiry.late {
            self.sleep_until(due)?;
            self.outcome.timer_latency.add(clock::monotonic() - due);
        }
        Ok(expiry.release)
    }

    /// Releases a job whose period ends with the next timer.
    fn release_job(&mut self, due: u64, period: Option<u64>) {
        let deadline = due + period.unwrap_or(0);
        self.job = Some((due, deadline));
        if let Some(periods) = &mut self.outcome.periods {
            periods.released += 1;
        }
        let note = NoteKind::JobRelease { due, deadline };
        self.run.note(self.pid, note);
    }

    fn complete_job(&mut self, deadline: u64) {
        let Some((release, _)) = self.job.take() else { return };
        let now = clock::monotonic();
        self.outcome.response_time.add(now.saturating_sub(release));
        if let Some(periods) = &mut self.outcome.periods {
            periods.completed += 1;
            periods.missed += u64::from(now > deadline);
        }
        self.run.note(self.pid, NoteKind::JobComplete { deadline });
    }

    fn skip_jobs(&mut self, due: u64, period: u64, count: u64) {
        if let Some(periods) = &mut self.outcome.periods {
            periods.released += count;
            periods.missed += count;
            periods.skipped += count;
        }
        let note = NoteKind::JobSkip { due, period, count };
        self.run.note(self.pid, note);
    }

    /// Settles the job that is incomplete at the end.
    fn leave_job(&mut self) {
        let end = clock::monotonic().min(self.run.stop());
        if let (Some(job), Some(periods)) = (self.job.take(), &mut self.outcome.periods) {
            leave(job, end, periods);
        }
    }

    fn lap(&mut self, begins: bool) {
        let now = clock::monotonic();
        self.run.note(self.pid, NoteKind::Lap { begins });
        if begins {
            self.lap = Some(now);
            return;
        }
        let Some(begin_ns) = self.lap.take() else { return };
        let length_ns = now - begin_ns;
        self.outcome.laps.add(length_ns);
        if self.run.options.metrics.records {
            self.outcome.lap_records.push(LapRecord { begin_ns, length_ns });
        }
    }

    fn sleep_until(&self, time: u64) -> Result<(), Stop> {
        let seconds = |nanoseconds: u64| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        let until = nix::sys::time::TimeSpec::new(
            seconds(time / 1_000_000_000),
            seconds(time % 1_000_000_000),
        );
        loop {
            if self.run.over.is_set() {
                return Err(Stop::Over);
            }
            match clock_nanosleep(
                ClockId::CLOCK_MONOTONIC,
                ClockNanosleepFlags::TIMER_ABSTIME,
                &until,
            ) {
                Ok(_) => return Ok(()),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(Stop::Failed(error.to_string())),
            }
        }
    }
}
