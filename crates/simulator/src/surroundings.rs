//! The other threads of a real system besides the tasks of a workload: the process that creates these, and others, including the kernel's own.
//!
//! Without these, a simulation begins with tasks that exist at once, whose parent has never run, on a machine that does nothing else. To be
//! comparable with a run on a kernel, it has to begin as that run did: the decisions of many schedulers depend on a task's inheritance, and on
//! which other tasks call the scheduler. These tasks go through the scheduler like all others; sinks only see that others have a CPU.

use fairground_events::{CpuId, EventKind, Nanoseconds, Outsider, OverheadKind, TaskId};
use fairground_workload::{Policy, Waiting};

use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::program::Action;
use crate::task::{Class, Task, TaskRef};

/// The threads and groups besides the tasks of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The process that creates the tasks; `None` if they exist at once and their parent has never run.
    pub creator: Option<Creator>,
    /// Threads that are not part of the workload, present from the beginning of the run.
    pub threads: Vec<Thread>,
    /// How far the kernel's ticks are behind multiples of their length on the clock that schedulers see, nanoseconds.
    pub tick_offset: Nanoseconds,
}

/// A process that prepares for a while, creates the tasks one after the other, and starts them at the same time. That is when the run begins;
/// nothing before it is in any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creator {
    /// How long it lives before it creates the first task, nanoseconds.
    pub age: Nanoseconds,
    /// CPU time that it uses meanwhile, nanoseconds.
    pub cpu_time: Nanoseconds,
    /// How often it waits meanwhile.
    pub waits: u64,
    /// CPU time that each task uses before it waits for the common start, nanoseconds.
    pub preparation: Nanoseconds,
    /// When it starts them, in nanoseconds after a full second of the clock that schedulers see; `None`: as soon as they are prepared.
    pub begin: Option<Nanoseconds>,
}

/// A thread that is not part of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Its policy.
    pub policy: Policy,
    /// CPUs that it may use; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// Path of its control group, if that is not the root.
    pub group: Option<String>,
    /// Its turns, in order of time.
    pub turns: Vec<Turn>,
    /// After how long it does all of that again; `None` for never.
    pub period: Option<Nanoseconds>,
}

/// A thread's activity between being woken and falling asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When it is woken, nanoseconds since the beginning of the run.
    pub at: Nanoseconds,
    /// CPU time that it uses, including one context switch, nanoseconds.
    pub cpu_time: Nanoseconds,
}

/// A task's work that is not in the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Nothing: it follows its program.
    #[default]
    None,
    /// The task is new and has to prepare itself.
    Prepare,
    /// It is prepared and has to report to its creator.
    Report,
    /// The creator runs and waits in turns, `left` more times; `running`: it has had its CPU time of this turn.
    Live { left: u64, running: bool },
    /// The creator creates the tasks, starting with this one.
    Create { next: usize },
    /// The creator, which nothing may delay any more, starts the tasks.
    Begin,
    /// The creator waits for the end.
    Rest,
    /// A thread of the loader carries out the loader's demands.
    Follow { thread: u32 },
    /// A thread that is not part of the workload waits for its turn with this number; `running`: the turn has begun.
    Serve { turn: usize, running: bool },
}

/// Number of the process that creates the tasks.
pub(crate) const CREATOR: TaskId = TaskId(u32::MAX - 1);
/// Numbers from this one up do not belong to a workload's tasks: the creator and, below it, the other threads.
const FIRST_HIDDEN: u32 = u32::MAX / 2;
/// Process number of the first of the other threads; workloads have fewer tasks.
const FIRST_OTHER_PID: i32 = 2_000_000;
/// Policy of a process that nothing may delay.
const UNDISTURBED: Policy = Policy::Fifo { priority: 99 };
/// Maximum time, beyond the known times, from the end of the creator's own life to the common start of its tasks.
const PREPARATION: Nanoseconds = 4_000_000;
const SECOND: Nanoseconds = 1_000_000_000;

/// Time from `now` until `moment` nanoseconds after a full second.
fn until_moment(now: Nanoseconds, moment: Nanoseconds) -> Nanoseconds {
    (moment % SECOND + SECOND - now % SECOND) % SECOND
}

/// Whether this task belongs to the surroundings.
pub(crate) fn is_hidden(task: TaskId) -> bool {
    task.0 >= FIRST_HIDDEN
}

/// The event as sinks see it, if they do.
#[inline(always)]
pub(crate) fn visible(kind: EventKind) -> Option<EventKind> {
    let seen = |task: Option<TaskId>| task.filter(|task| !is_hidden(*task));
    match kind {
        EventKind::Wake { task, .. }
        | EventKind::Sleep { task }
        | EventKind::Exit { task }
        | EventKind::Migrate { task, .. }
        | EventKind::Throttle { task, .. }
        | EventKind::Callback { task: Some(task), .. }
        | EventKind::Condition { task, .. }
            if is_hidden(task) =>
        {
            None
        }
        EventKind::Wake { task, cpu, waker } => {
            Some(EventKind::Wake { task, cpu, waker: seen(waker) })
        }
        EventKind::Switch { prev: None, next: None, .. } => None,
        EventKind::Insert { task, queue, slice, vtime } if is_hidden(task) => {
            Some(EventKind::Insert { task: TaskId::OUTSIDER, queue, slice, vtime })
        }
        EventKind::Remove { task, queue } if is_hidden(task) => {
            Some(EventKind::Remove { task: TaskId::OUTSIDER, queue })
        }
        other => Some(other),
    }
}

/// Who a thread is to the sinks; `None` for a task of the workload and the idle task.
fn outsider(task: TaskRef) -> Option<Outsider> {
    let who = match task.execution.errand {
        Errand::Follow { .. } => Outsider::Loader,
        _ if task.class >= Class::RealTime => Outsider::RealTime,
        _ => Outsider::Other,
    };
    (is_hidden(task.id) && task.class != Class::Idle).then_some(who)
}

impl Kernel<'_> {
    /// Tells the sinks which task or other thread has a CPU from `time` on.
    pub(crate) fn tell_switch(&mut self, time: u64, cpu: usize, previous: TaskRef, next: TaskRef) {
        let cpu = CpuId(cpu as u32);
        let (before, after) = (outsider(previous), outsider(next));
        if before.is_some() && after.is_none() {
            self.emit_at(time, EventKind::Outside { cpu, who: None });
        }
        let seen = |task: TaskRef| Some(task.id).filter(|task| !is_hidden(*task));
        let (prev, next) = (seen(previous), seen(next));
        self.emit_at(time, EventKind::Switch { cpu, prev, next });
        if after.is_some() && after != before {
            self.emit_at(time, EventKind::Outside { cpu, who: after });
        }
    }

    /// Creates the threads that are not part of the workload, asleep.
    pub(crate) fn create_other_threads(&mut self) {
        for (place, thread) in self.settings.surroundings.threads.clone().iter().enumerate() {
            let pid = FIRST_OTHER_PID + place as i32;
            let mut task = self.blank_thread(thread.name.clone(), pid);
            task.fix_pointers();
            if thread.kernel {
                task.seen.flags = PF_KTHREAD;
            } else {
                let process = format!("{} {}", thread.name, task.seen.pid);
                let (memory, _) = self.process_of(Some(&process), task, task);
                task.seen.mm = memory;
                task.seen.active_mm = memory;
            }
            if let Some(path) = &thread.group {
                self.put_in_group(task, path);
            }
            self.add_other_thread(task, thread.policy, thread.cpus.as_deref());
        }
    }

    /// The next thread that is not part of the workload, asleep and without memory of its own.
    pub(crate) fn blank_thread(&mut self, name: String, pid: i32) -> TaskRef {
        let place = self.tasks.others().len() as u32;
        let id = TaskId(CREATOR.0 - 1 - place);
        let mut task = Task::blank(id, name, pid, self.possible, self.cpus.len());
        task.seen.__state = TASK_INTERRUPTIBLE;
        let (set, group) = self.groups.pointers(0);
        task.seen.cgroups = set;
        task.seen.sched_task_group = group;
        self.tasks.place(task)
    }

    /// Puts a thread that is not part of the workload into the control group at `path`.
    fn put_in_group(&mut self, mut task: TaskRef, path: &str) {
        task.cgroup = self.groups.find(path);
        let (set, group) = self.groups.pointers(task.cgroup);
        task.seen.cgroups = set;
        task.seen.sched_task_group = group;
    }

    /// Sets the policy and CPUs of such a thread, and adds it.
    pub(crate) fn add_other_thread(
        &mut self,
        mut task: TaskRef,
        policy: Policy,
        cpus: Option<&[u32]>,
    ) {
        self.apply_policy(task, policy);
        if let Some(mask) = self.mask_of(task, cpus) {
            task.allow(mask);
        }
        task.set_class(self.class_of(policy));
        let cpu = task.allowed().first().unwrap_or(0);
        task.seen.thread_info.cpu = cpu as u32;
        task.seen.wake_cpu = cpu as i32;
        self.tasks.add_other(task);
    }

    /// One of the other threads as it was asked for.
    fn other(&self, thread: TaskRef) -> Option<&Thread> {
        self.settings.surroundings.threads.get((CREATOR.0 - 1 - thread.id.0) as usize)
    }

    /// This turn of one of the other threads, if it has that many turns.
    fn turn(&self, thread: TaskRef, number: usize) -> Option<Turn> {
        let thread = self.other(thread)?;
        let rounds = number.checked_div(thread.turns.len())?;
        let turn = thread.turns[number % thread.turns.len()];
        let later = match rounds {
            0 => 0,
            _ => rounds as u64 * thread.period?,
        };
        Some(Turn { at: turn.at + later, ..turn })
    }

    /// CPU time that the threads of the surroundings have used since the run began.
    pub(crate) fn time_of_other_threads(&self) -> Nanoseconds {
        let others = self.tasks.others().iter();
        let follows = |task: &&TaskRef| matches!(task.execution.errand, Errand::Follow { .. });
        let others = others.filter(|task| !follows(task));
        others.map(|task| task.seen.se.sum_exec_runtime).sum()
    }

    /// What the threads of the surroundings would have done in a run of this length if each had had a CPU of full speed whenever it wanted one, in
    /// time on such a CPU.
    pub(crate) fn wanted_by_other_threads(&self, end: Nanoseconds) -> Nanoseconds {
        let until = |turns: &[Turn], end: Nanoseconds| -> Nanoseconds {
            let begun = turns.iter().take_while(|turn| turn.at < end);
            begun.map(|turn| self.work_of(turn).min(end - turn.at)).sum()
        };
        let wanted = |thread: &Thread| match thread.period {
            Some(period) => {
                let rounds = end / period;
                rounds * until(&thread.turns, period) + until(&thread.turns, end % period)
            }
            None => until(&thread.turns, end),
        };
        self.settings.surroundings.threads.iter().map(wanted).sum()
    }

    /// What they did, in the same unit, whatever the speed of their CPUs was.
    pub(crate) fn done_by_other_threads(&self) -> Nanoseconds {
        let done = |task: &TaskRef| {
            let turns = &*self.other(*task)?.turns;
            let all = |turns: &[Turn]| turns.iter().map(|turn| self.work_of(turn)).sum::<u64>();
            Some(match task.execution.errand {
                Errand::Serve { turn, running } => {
                    let (rounds, rest) = (turn.checked_div(turns.len())?, turn % turns.len());
                    let begun = if running { self.work_of(&turns[rest]) } else { 0 };
                    let left = if running { task.execution.work_left() } else { 0 };
                    rounds as u64 * all(turns) + all(&turns[..rest]) + begun.saturating_sub(left)
                }
                Errand::Rest => all(turns),
                _ => 0,
            })
        };
        self.tasks.others().iter().filter_map(done).sum()
    }

    /// What a thread does in a turn; its switch is accounted for like any other.
    fn work_of(&self, turn: &Turn) -> Nanoseconds {
        turn.cpu_time.saturating_sub(self.settings.cost.context_switch).max(1)
    }

    /// Makes one of the other threads, which sleeps or is about to, wait for this turn, if it has that many turns.
    fn await_turn(&mut self, mut thread: TaskRef, number: usize) {
        if matches!(thread.execution.errand, Errand::Follow { .. }) {
            return;
        }
        let Some(turn) = self.turn(thread, number) else {
            thread.execution.errand = Errand::Rest;
            return;
        };
        thread.execution.errand = Errand::Serve { turn: number, running: false };
        self.wake_at(thread, self.origin + turn.at);
    }

    /// When the clock of the simulation begins, so that the tasks are prepared shortly before their common start.
    pub(crate) fn first_time(&self) -> Nanoseconds {
        match self.settings.surroundings.creator {
            Some(Creator { begin: Some(begin), .. }) => {
                self.settings.uptime + until_moment(self.time_to_prepare(), begin)
            }
            _ => self.settings.uptime,
        }
    }

    /// Maximum time from the creator's birth until its tasks are prepared.
    fn time_to_prepare(&self) -> Nanoseconds {
        let Some(creator) = self.settings.surroundings.creator else {
            return 0;
        };
        let tasks = self.programs.workload.first_tasks().count() as u64;
        creator.age + tasks * creator.preparation + PREPARATION
    }

    /// Starts the surroundings.
    pub(crate) fn start_surroundings(&mut self) {
        if let Some(creator) = self.settings.surroundings.creator {
            let mut task = self.tasks.creator();
            task.execution.errand = Errand::Live { left: creator.waits + 1, running: false };
            self.enter(0);
            self.wake(task, None, false);
            self.leave(OverheadKind::Scheduling);
        }
    }

    /// Continues the work of `task` besides its program; `None` if there is nothing.
    pub(crate) fn advance_errand(&mut self, mut task: TaskRef) -> Option<Action> {
        let errand = task.execution.errand;
        if errand == Errand::None {
            return None;
        }
        task.execution.waiting = Waiting::Nothing;
        let (next, action) = match (errand, self.settings.surroundings.creator) {
            (Errand::Follow { thread }, _) => return Some(self.follow_loader(thread, task)),
            (Errand::Serve { turn, running }, _) => {
                if running {
                    self.await_turn(task, turn + 1);
                    return Some(Action::Block);
                }
                let work = self.work_of(&self.turn(task, turn)?);
                self.compute(task, work);
                (Errand::Serve { turn, running: true }, Action::Compute)
            }
            (Errand::Prepare, Some(creator)) => {
                self.compute(task, creator.preparation.max(1));
                (Errand::Report, Action::Compute)
            }
            (Errand::Report, _) => {
                self.ask_for_policy(task);
                let parent = self.tasks.creator();
                self.wake(parent, Some(task), false);
                (Errand::None, Action::Block)
            }
            (Errand::Live { left, running }, Some(creator)) => {
                let turns = creator.waits + 1;
                if !running {
                    self.compute(task, (creator.cpu_time / turns).max(1));
                    (Errand::Live { left, running: true }, Action::Compute)
                } else if left > 1 {
                    // Counted from the beginning of its life: timers are late, and their delays would add up.
                    let lived = creator.age - creator.cpu_time.min(creator.age) / turns;
                    let until = self.first_time() + lived / creator.waits * (turns - left + 1);
                    let next = Errand::Live { left: left - 1, running: false };
                    (next, self.sleep_until(task, until))
                } else {
                    (Errand::Create { next: 0 }, self.create_task(task, 0))
                }
            }
            (Errand::Create { next }, _) => {
                (Errand::Create { next: next + 1 }, self.create_task(task, next + 1))
            }
            (Errand::Begin, _) => {
                task.execution.until = 0;
                self.begin_run_of_workload(task);
                (Errand::Rest, Action::Block)
            }
            (Errand::Rest, _) => (Errand::Rest, Action::Block),
            (Errand::None, _) | (Errand::Prepare | Errand::Live { .. }, None) => return None,
        };
        // The last creation has already moved on by itself.
        if task.execution.errand == errand {
            task.execution.errand = next;
        }
        Some(action)
    }

    /// Creates the task with this place among the first ones and waits until it is prepared. After the last one, nothing may delay the creator
    /// any more.
    fn create_task(&mut self, mut creator: TaskRef, place: usize) -> Action {
        let workload = self.programs.workload.clone();
        let Some((definition, instance)) = workload.first_tasks().nth(place) else {
            creator.execution.errand = Errand::Begin;
            self.change_policy(creator, UNDISTURBED);
            if let Some(Creator { begin: Some(_), .. }) = self.settings.surroundings.creator {
                creator.execution.until = self.first_time() + self.time_to_prepare();
            }
            return Action::Compute;
        };
        let name = workload.tasks[definition].instance_name(instance);
        self.fork_first_task(definition, instance, name, Some(creator));
        if self.programs.failure.is_some() {
            return Action::Failed;
        }
        Action::Block
    }

    /// The common start: from now on sinks see the events.
    fn begin_run_of_workload(&mut self, creator: TaskRef) {
        self.begin_observation();
        self.programs.started = true;
        for mut task in self.tasks.workload().to_vec() {
            task.execution.start = self.clock.now();
            task.cpu_time_before = task.seen.se.sum_exec_runtime;
            self.emit_new_task(task);
            self.release_first_job(task);
        }
        for task in self.tasks.workload().to_vec() {
            self.wake(task, Some(creator), false);
        }
    }

    /// Makes now the time at which the observed run begins.
    pub(crate) fn begin_observation(&mut self) {
        self.origin = self.clock.now();
        self.observed = true;
        let duration = self.settings.duration.unwrap_or(u64::MAX);
        self.end = self.origin.saturating_add(duration);
        self.reports.open();
        for cpu in 0..self.cpus.len() {
            let who = outsider(self.cpus[cpu].current);
            if who.is_some() {
                self.emit_at(self.origin, EventKind::Outside { cpu: CpuId(cpu as u32), who });
            }
        }
        self.begin_metering();
        for thread in self.tasks.others().to_vec() {
            self.await_turn(thread, 0);
        }
        self.begin_groups();
        for (index, change) in self.settings.hotplug.iter().enumerate() {
            // CPUs that are offline from the beginning already are.
            if change.at == 0 && !change.online {
                continue;
            }
            self.clock.at(self.origin + change.at, Due::Hotplug { index: index as u32 });
        }
    }

    /// Whether a new task has to prepare itself first.
    pub(crate) fn first_errand(&self) -> Errand {
        if self.settings.surroundings.creator.is_some() && !self.observed {
            Errand::Prepare
        } else {
            Errand::None
        }
    }

    /// Hands the tasks of the surroundings to the scheduler, as tasks that exist when it is loaded.
    pub(crate) fn enable_surroundings(&mut self) -> Result<(), (i32, String)> {
        for task in self.tasks.hidden().collect::<Vec<_>>() {
            self.init_task(task, false).map_err(|error| (error, task.label()))?;
            if task.class == Class::Ext {
                self.enable_task(task);
            }
        }
        Ok(())
    }
}
