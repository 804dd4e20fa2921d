//! Creating tasks, and their properties: policy, affinity, process, attributes.

use fairground_contract::attributes::{self, Attributes};
use fairground_events::{self as events, OverheadKind, TaskId, load_weight};
use fairground_workload::{Draws, Phase, Policy};

use super::{Action, Execution};
use crate::constants::*;
use crate::idle::distribute;
use crate::kernel::Kernel;
use crate::structures::{CpuMask, MmStruct, TaskStruct};
use crate::surroundings::{Errand, is_hidden};
use crate::task::{Class, Process, Task, TaskRef};
use crate::tracing::Hook;

/// Largest number of tasks of a workload, as many as a file may start at once.
const TASKS_MAX: usize = 100_000;
/// Limits of a custom slice, nanoseconds.
const CUSTOM_SLICE_MIN: u64 = 100_000;
const CUSTOM_SLICE_MAX: u64 = 100_000_000;
/// Flags that the C library passes to `clone()` for a thread.
const CLONE_THREAD_FLAGS: u64 = 0x003d_0f00;
/// First process id given to tasks of the workload.
const FIRST_PID: i32 = 1000;

/// The policy that a thread has from its creator until it asks for its own.
const INHERITED: Policy = Policy::Other { nice: 0, slice: None };

/// A fork that failed because `ops.init_task()` did.
struct Refusal {
    /// The task that was not created, as kernel messages name it.
    task: String,
    /// The error that `ops.init_task()` returned.
    error: i32,
}

/// The kernel's number of a policy, and the nice value and real-time priority that go with it.
fn numbers_of(policy: Policy) -> (u32, i32, u32) {
    match policy {
        Policy::Other { nice, .. } => (SCHED_NORMAL, nice, 0),
        Policy::Batch { nice, .. } => (SCHED_BATCH, nice, 0),
        Policy::Idle => (SCHED_IDLE, 0, 0),
        Policy::Ext { nice } => (SCHED_EXT, nice, 0),
        Policy::Fifo { priority } => (SCHED_FIFO, 0, priority),
        Policy::RoundRobin { priority } => (SCHED_RR, 0, priority),
        Policy::Deadline { .. } => (SCHED_DEADLINE, 0, 0),
    }
}

/// The kernel's priority of tasks with this policy; lower ones come first (`__normal_prio`).
fn priority_of(policy: Policy) -> i32 {
    match numbers_of(policy) {
        (SCHED_DEADLINE, ..) => -1,
        (_, nice, 0) => 120 + nice,
        (_, _, rt_priority) => 99 - rt_priority as i32,
    }
}

impl Kernel<'_> {
    /// Starts the instances of every definition.
    pub(crate) fn start_programs(&mut self) {
        let workload = self.programs.workload.clone();
        self.start_loader_threads();
        self.start_surroundings();
        if self.settings.surroundings.creator.is_some() {
            return;
        }
        self.programs.started = true;
        self.begin_arrivals();
        self.enter(0);
        for (definition, instance) in workload.first_tasks() {
            let name = workload.tasks[definition].instance_name(instance);
            self.fork_first_task(definition, instance, name, None);
            if self.exit.is_some() || self.programs.failure.is_some() {
                return;
            }
        }
        self.leave(OverheadKind::Scheduling);
    }

    /// Creates a task that the workload begins with. If the scheduler refuses it, the run ends: without it, this would be another workload.
    pub(crate) fn fork_first_task(
        &mut self,
        definition: usize,
        instance: u32,
        name: String,
        parent: Option<TaskRef>,
    ) {
        if let Err(Refusal { task, error }) = self.fork_task(definition, instance, name, parent) {
            self.programs.failure = Some(format!(
                "the workload cannot begin without {task}, which the scheduler refused: ops.init_task() returned {error}"
            ));
        }
    }

    /// Carries out a `fork` event of `task`. If the scheduler refuses the new task, the fork fails and `task` goes on.
    pub(super) fn fork_by_event(&mut self, task: TaskRef, target: usize) -> Option<Action> {
        let workload = self.programs.workload.clone();
        if task.class == Class::Deadline {
            self.programs.failure = Some(format!(
                "{} may not fork (EAGAIN): it is a SCHED_DEADLINE task; fork under another policy",
                task.name
            ));
            return Some(Action::Failed);
        }
        let number = self.programs.forks[target];
        if self.tasks.workload().len() >= TASKS_MAX {
            self.programs.failure = Some(format!(
                "{} was forked {number} times, and with it the workload has {TASKS_MAX} tasks, the most that a simulation takes; fork fewer, or end the \
                 run earlier",
                workload.tasks[target].name
            ));
            return Some(Action::Failed);
        }
        self.programs.forks[target] += 1;
        let instance = workload.tasks[target].instances + number;
        let name = format!("{}-{instance}", workload.tasks[target].name);
        if let Err(Refusal { error, .. }) = self.fork_task(target, instance, name, Some(task)) {
            self.tasks.count_refusal(error);
        }
        let failed = self.programs.failure.is_some();
        failed.then_some(Action::Failed)
    }

    /// Creates a task of `definition` and makes it runnable (`copy_process`, `wake_up_new_task`).
    fn fork_task(
        &mut self,
        definition: usize,
        instance: u32,
        name: String,
        parent: Option<TaskRef>,
    ) -> Result<(), Refusal> {
        let origin = parent.unwrap_or(self.tasks.creator());
        let mut cpu = if parent.is_some() { self.context.cpu } else { 0 };
        let processes = self.processes.len();
        let mut task = self.new_task(definition, instance, name, parent);
        self.join_new_task(task, definition, origin, cpu);
        if parent.is_none() && task.class >= Class::RealTime {
            cpu = self.birthplace(task);
            task.seen.thread_info.cpu = cpu as u32;
            task.seen.wake_cpu = cpu as i32;
        }
        self.tasks.add(task);
        self.set_attributes(task);
        if let Err(error) = self.init_task(task, true) {
            self.tasks.take_back();
            self.processes.truncate(processes);
            task.leave_process();
            task.storage.clear();
            task.seen.mm = std::ptr::null_mut();
            task.seen.active_mm = std::ptr::null_mut();
            let refusal = Refusal { task: task.label(), error };
            return Err(refusal);
        }
        self.tasks.begin_one(task);
        self.emit_new_task(task);
        self.release_first_job(task);
        if task.class == Class::Ext {
            self.enable_task(task);
        }
        self.trace(Hook::TaskNewtask, &[task.address(), CLONE_THREAD_FLAGS]);
        self.trace(Hook::SchedProcessFork, &[origin.address(), task.address()]);
        if !task.allowed().test(cpu) {
            let cpu = self.fallback_cpu(task, cpu);
            task.seen.thread_info.cpu = cpu as u32;
        }
        self.wake_new(task);
        Ok(())
    }

    /// Where a real-time task is that the workload begins with. rt-app's threads are born with an ordinary policy, which spreads them, and ask for a
    /// real-time one when they run; the kernel then leaves a task where it is.
    fn birthplace(&self, task: TaskRef) -> usize {
        let mut load = vec![0; self.cpus.len()];
        for other in self.tasks.workload() {
            let definition = &self.programs.workload.tasks[other.execution.definition];
            load[other.cpu()] += usize::from(definition.delay == 0);
        }
        let cpus = 0..self.cpus.len();
        let usable = cpus.filter(|&cpu| self.cpus[cpu].online && task.allowed().test(cpu));
        usable.min_by_key(|&cpu| load[cpu]).unwrap_or(0)
    }

    /// A task of `definition` with its program; it is not in any process yet.
    fn new_task(
        &mut self,
        definition: usize,
        instance: u32,
        name: String,
        parent: Option<TaskRef>,
    ) -> TaskRef {
        let workload = self.programs.workload.clone();
        let origin = parent.unwrap_or(self.tasks.creator());
        let id = TaskId(self.tasks.workload().len() as u32);
        // The number of a refused task is not reused.
        let number = self.tasks.forked() as i32;
        let source = &workload.tasks[definition];
        let mut execution = Execution::new(definition, &source.phases, workload.timers.len());
        execution.start = self.clock.now();
        execution.policy = Some(source.policy);
        execution.errand = self.first_errand();
        let varies = |phase: &Phase| !phase.variations.is_empty();
        execution.draws = source.phases.iter().any(varies).then(|| {
            let seed = self.settings.seed;
            Draws::new(seed, definition, instance)
        });
        let mut task =
            Task::blank(id, name, FIRST_PID + 1 + number, self.possible, self.cpus.len());
        task.execution = execution;
        task.parent = parent.map(|parent| parent.id).filter(|id| !is_hidden(*id));
        task.daemon = source.daemon;
        task.footprint = source.footprint;
        task.attributes = source.attributes.clone();
        let idle = load_weight(events::Policy::from_number(SCHED_IDLE), 0);
        let wanted = Attributes::parse(&task.attributes).ok();
        task.wanted_weight = wanted.and_then(|attributes| attributes.weight(idle));
        task.cgroup = match &source.taskgroup {
            Some(path) => self.groups.find(path),
            None => origin.cgroup,
        };
        task.seen.scx.tid = number as u64 + 1;
        self.tasks.place(task)
    }

    /// Sets the process, group, policy and CPUs of a new task.
    fn join_new_task(&mut self, mut task: TaskRef, definition: usize, origin: TaskRef, cpu: usize) {
        let workload = self.programs.workload.clone();
        let source = &workload.tasks[definition];
        let now = self.clock.now();
        let (mm, leader) = self.process_of(source.process.as_deref(), task, origin);
        let groups = self.groups.pointers(task.cgroup);
        let runnable_at = self.ticks_until(now);
        let seen = &mut task.seen;
        seen.thread_info.cpu = cpu as u32;
        seen.mm = mm;
        seen.active_mm = mm;
        seen.real_parent = origin.address() as *mut TaskStruct;
        seen.parent = origin.address() as *mut TaskStruct;
        seen.group_leader = leader.address() as *mut TaskStruct;
        seen.start_time = now;
        seen.start_boottime = now;
        seen.recent_used_cpu = cpu as i32;
        seen.wake_cpu = cpu as i32;
        seen.cgroups = groups.0;
        seen.sched_task_group = groups.1;
        seen.scx.runnable_at = runnable_at;
        seen.__state = TASK_NEW;
        task.fix_pointers();
        if let Some(mask) = self.mask_of(task, source.cpus.as_deref()) {
            task.allow(mask);
        }
        if let Some(reason) = self.refusal_of(task, source.policy) {
            self.programs.failure = Some(reason);
        }
        let policy = match task.execution.errand {
            // Its creator's, until it has prepared itself. Attributes come with the nice value that they stand for.
            Errand::Prepare if task.attributes.is_empty() => INHERITED,
            _ => source.policy,
        };
        self.apply_policy(task, policy);
        task.set_class(self.class_of(policy));
    }

    /// Gives a running task, which has prepared itself, the policy of its definition.
    pub(crate) fn ask_for_policy(&mut self, task: TaskRef) {
        let policy = task.execution.policy.filter(|policy| *policy != INHERITED);
        if let Some(policy) = policy.filter(|_| task.attributes.is_empty()) {
            self.change_policy(task, policy);
        }
    }

    /// The address space and the thread group leader of a new task that `origin` forks: those of the process that its definition names, which
    /// begins with this task if it is the first, or those of `origin`.
    pub(crate) fn process_of(
        &mut self,
        name: Option<&str>,
        task: TaskRef,
        origin: TaskRef,
    ) -> (*mut MmStruct, TaskRef) {
        let Some(name) = name else {
            return (origin.seen.mm, origin.leader().unwrap_or(origin));
        };
        let index = self.processes.iter().position(|process| process.name == name);
        let index = index.unwrap_or_else(|| {
            self.processes.push(Process {
                name: name.to_owned(),
                memory: Box::new(MmStruct { mm_users: 1, owner: task.address() as *mut _ }),
                leader: task,
            });
            self.processes.len() - 1
        });
        let process = &mut self.processes[index];
        (&raw mut *process.memory, process.leader)
    }

    /// Passes the attributes of a new task to the scheduler, if it reads any; shares adjust the nice value.
    fn set_attributes(&mut self, mut task: TaskRef) {
        if task.attributes.is_empty() {
            return;
        }
        let Some(number) =
            self.memory.maps.own().iter().position(|map| map.name == attributes::MAP)
        else {
            let message = format!(
                "{} reads no task attributes: those of the workload have no effect",
                self.operations.name
            );
            if !self.messages.has(&message) {
                self.say(message);
            }
            return;
        };
        match Attributes::parse(&task.attributes) {
            Ok(parsed) => {
                if let Some(nice) = parsed.nice() {
                    self.renice(task, nice);
                }
                let bytes = parsed.encode();
                let words = bytes.chunks_exact(8).map(|chunk| {
                    let mut word = [0; 8];
                    word.copy_from_slice(chunk);
                    u64::from_le_bytes(word)
                });
                let value: Box<[u64]> = words.collect();
                task.storage.resize_with(self.memory.maps.own().len(), || None);
                task.storage[number] = Some(value);
            }
            Err(message) => self.programs.failure = Some(format!("{}: {message}", task.name)),
        }
    }

    /// Gives a new task another nice value, which a real-time task keeps for later.
    fn renice(&mut self, mut task: TaskRef, nice: i32) {
        match task.execution.policy {
            Some(Policy::Other { slice, .. }) => {
                self.apply_policy(task, Policy::Other { nice, slice });
            }
            Some(Policy::Batch { slice, .. }) => {
                self.apply_policy(task, Policy::Batch { nice, slice });
            }
            Some(Policy::Ext { .. }) => self.apply_policy(task, Policy::Ext { nice }),
            _ => task.seen.static_prio = 120 + nice,
        }
    }

    /// The mask of the CPUs that a workload names, or of all if it names none. An empty mask ends the run.
    pub(crate) fn mask_of(&mut self, task: TaskRef, cpus: Option<&[u32]>) -> Option<CpuMask> {
        let Some(cpus) = cpus else {
            return Some(self.possible);
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
            return None;
        }
        Some(mask)
    }

    pub(crate) fn apply_policy(&mut self, mut task: TaskRef, policy: Policy) {
        if let Policy::Other { slice, .. } | Policy::Batch { slice, .. } = policy {
            // __setparam_fair(), as far as a sched_ext scheduler sees it: the fair class's own base slice is not modelled.
            task.seen.se.custom_slice = u8::from(slice.is_some());
            task.seen.se.slice =
                slice.map_or(0, |slice| slice.clamp(CUSTOM_SLICE_MIN, CUSTOM_SLICE_MAX));
        }
        let (runtime, period, deadline) = match policy {
            Policy::Deadline { runtime, period, deadline } => (runtime, period, deadline),
            _ => (0, 0, 0),
        };
        task.deadline.set(runtime, period, deadline);
        let prio = priority_of(policy);
        let (policy, nice, rt_priority) = numbers_of(policy);
        task.seen.policy = policy;
        task.seen.rt_priority = rt_priority;
        task.seen.static_prio = 120 + nice;
        task.seen.prio = prio;
        task.seen.normal_prio = prio;
        task.request_utilization();
        let weight = load_weight(events::Policy::from_number(policy), nice);
        task.seen.se.load.weight = u64::from(weight);
        task.seen.se.load.inv_weight = (u32::MAX as u64 / u64::from(weight)) as u32;
    }

    /// The class of tasks with this policy (`__setscheduler_class`).
    pub(crate) fn class_of(&self, policy: Policy) -> Class {
        match numbers_of(policy).0 {
            SCHED_DEADLINE => Class::Deadline,
            SCHED_FIFO | SCHED_RR => Class::RealTime,
            SCHED_EXT => Class::Ext,
            _ if self.operations.flags & SCX_OPS_SWITCH_PARTIAL != 0 => Class::Fair,
            _ => Class::Ext,
        }
    }

    /// Changes the policy or nice value of a live task (`__sched_setscheduler`).
    pub(crate) fn change_policy(&mut self, task: TaskRef, policy: Policy) {
        if let Some(reason) = self.refusal_of(task, policy) {
            self.programs.failure = Some(reason);
            return;
        }
        let mut flags = DEQUEUE_SAVE | DEQUEUE_MOVE;
        if priority_of(policy) == task.seen.prio {
            flags &= !DEQUEUE_MOVE;
        }
        let to = self.class_of(policy);
        self.with_change(task, flags, to, |kernel, task| {
            kernel.apply_policy(task, policy);
            // `set_load_weight` notifies the class even if the weight has not changed.
            if to == Class::Ext && task.class == Class::Ext {
                kernel.reweight(task);
            }
        });
        self.emit_task(task);
    }

    /// Changes the affinity of a live task (`__set_cpus_allowed_ptr`).
    pub(crate) fn change_affinity(&mut self, task: TaskRef, cpus: Option<&[u32]>) {
        let Some(mask) = self.mask_of(task, cpus) else {
            return;
        };
        if mask.bits == task.seen.cpus_mask.bits {
            return;
        }
        if task.class == Class::Deadline && !self.covers_online_cpus(|cpu| mask.test(cpu)) {
            self.programs.failure = Some(format!(
                "{} may not leave out CPUs (EBUSY): it is a SCHED_DEADLINE task; leave out \"cpus\"",
                task.name
            ));
            return;
        }
        let previous = &mut self.cpus[self.context.cpu].distributed;
        let Some(target) = distribute(&self.online, &mask, previous, &self.topology) else {
            let message = format!(
                "{} keeps its CPUs: none of {:?} is online",
                task.name,
                mask.iter().collect::<Vec<_>>()
            );
            if !self.messages.has(&message) {
                self.say(message);
            }
            return;
        };
        self.set_allowed(task, mask);
        if !mask.test(task.cpu()) {
            self.push_off(task, Some(target));
        }
    }

    /// Lets a task use these CPUs (`do_set_cpus_allowed`).
    pub(crate) fn set_allowed(&mut self, task: TaskRef, mask: CpuMask) {
        self.with_change(task, DEQUEUE_SAVE, task.class, |kernel, mut task| {
            task.allow(mask);
            if task.class == Class::Ext {
                kernel.call_set_cpumask(task);
            }
        });
        self.emit_task(task);
    }
}
