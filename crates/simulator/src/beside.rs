//! The scheduler's loader, whose threads are tasks: they go through the scheduler like all others, but sinks do not see them.
//!
//! A thread's code runs for real, in no virtual time, up to its next demand. The cost model charges a fixed CPU time per system call for it;
//! the demand is met when that time has passed.

use std::sync::Arc;

use fairground_bpf::{
    BpfCall, Demand, LOADER_PID, Loader, LoaderThread, MapOperation, Reply, Request,
    ThreadAttributes,
};
use fairground_events::OverheadKind;
use fairground_workload::{Policy, Waiting};

use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::program::Action;
use crate::surroundings::Errand;
use crate::task::{Class, TaskRef};

/// Number of demands in one instant after which a thread counts as never letting time pass.
const DEMANDS_PER_INSTANT: u32 = 100_000;

/// A loader that keeps running, and its threads.
pub(crate) struct LoaderBeside<'a> {
    loader: &'a mut dyn Loader,
    threads: Vec<Thread>,
}

/// A thread of the loader.
struct Thread {
    task: TaskRef,
    /// Its demand, to be met once the time for it has passed.
    request: Option<Request>,
    /// The reply that it gets next.
    reply: Reply,
    /// Whether another thread has ended the wait that it is in or about to begin.
    woken: bool,
    /// When it made its last demand, and how many it has made since.
    instant: (u64, u32),
}

impl<'a> LoaderBeside<'a> {
    pub(crate) fn new(loader: &'a mut dyn Loader) -> Self {
        Self { loader, threads: Vec::new() }
    }

    /// See [`Loader::arena`].
    pub(crate) fn arena(&self) -> Option<u64> {
        self.loader.arena()
    }

    /// See [`Loader::map_arena`].
    pub(crate) fn map_arena(&mut self, window: *mut u8, size: usize) -> bool {
        self.loader.map_arena(window, size)
    }

    /// Memory that the loader shares for a section, filled with these bytes.
    pub(crate) fn section(&mut self, number: usize, bytes: &[u8]) -> Option<*mut u8> {
        let memory = self.loader.section(number, bytes.len())?;
        // SAFETY: the loader has provided memory of this size, and its threads are waiting.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
        Some(memory)
    }
}

impl Kernel<'_> {
    /// Creates the loader's threads as tasks.
    pub(crate) fn create_loader_threads(&mut self) {
        let Some(companion) = &mut self.companion else {
            return;
        };
        for thread in companion.loader.threads() {
            self.create_loader_thread(&thread);
        }
    }

    fn create_loader_thread(&mut self, thread: &LoaderThread) -> TaskRef {
        let number = self.companion.as_ref().map_or(0, |one| one.threads.len());
        let mut task = self.blank_thread(thread.name.clone(), LOADER_PID + number as i32);
        let (memory, leader) = self.process_of(Some("the loader"), task, task);
        task.seen.mm = memory;
        task.seen.active_mm = memory;
        task.seen.group_leader = leader.address() as *mut _;
        task.fix_pointers();
        let policy = policy_of(&thread.attributes);
        self.add_other_thread(task, policy, thread.attributes.cpus.as_deref());
        task.execution.errand = Errand::Follow { thread: number as u32 };
        let state = Thread {
            task,
            request: thread.wait.map(|wait| Request {
                calls: 0,
                woken: Vec::new(),
                demand: Demand::Wait(wait),
            }),
            reply: Reply::default(),
            woken: false,
            instant: (0, 0),
        };
        if let Some(companion) = &mut self.companion {
            companion.threads.push(state);
        }
        task
    }

    /// Starts the loader's threads: the one that attached the scheduler and those that can continue are woken at once, the others when their
    /// time has come.
    pub(crate) fn start_loader_threads(&mut self) {
        let Some(companion) = &self.companion else {
            return;
        };
        for number in 0..companion.threads.len() as u32 {
            let Some(thread) = self.thread(number) else {
                return;
            };
            let task = thread.task;
            match thread.request.take().map(|request| request.demand) {
                Some(Demand::Wait(wait)) => {
                    if let Some(until) = wait.until {
                        self.sleep_until(task, until);
                    }
                }
                _ => {
                    self.enter(task.cpu());
                    self.wake(task, None, false);
                    self.leave(OverheadKind::Scheduling);
                }
            }
        }
    }

    fn thread(&mut self, number: u32) -> Option<&mut Thread> {
        self.companion.as_mut()?.threads.get_mut(number as usize)
    }

    /// Continues a thread of the loader that has used the CPU time for its demand, or that begins.
    pub(crate) fn follow_loader(&mut self, number: u32, task: TaskRef) -> Action {
        loop {
            if self.cpus[task.cpu()].current != task || self.cpus[task.cpu()].need_resched {
                return Action::Compute;
            }
            let now = self.clock.now();
            let Some(thread) = self.thread(number) else {
                return Action::Exit;
            };
            if thread.instant.0 != now {
                thread.instant = (now, 0);
            }
            thread.instant.1 += 1;
            if thread.instant.1 > DEMANDS_PER_INSTANT {
                self.programs.failure = Some(format!(
                    "thread {} of the loader makes {DEMANDS_PER_INSTANT} system calls without letting time pass; give system_call and \
                     loader_call a cost",
                    task.label()
                ));
                return Action::Failed;
            }
            let request = thread.request.take();
            let action = match request {
                Some(request) => self.meet(number, task, request),
                None => self.let_loader_run(number, task),
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    /// Lets a thread run to its next demand, and makes it use the CPU time for that.
    fn let_loader_run(&mut self, number: u32, task: TaskRef) -> Option<Action> {
        let now = self.program_time();
        let companion = self.companion.as_mut()?;
        let thread = &mut companion.threads[number as usize];
        let reply = std::mem::take(&mut thread.reply);
        thread.woken = false;
        match companion.loader.resume(number, reply, now) {
            Ok(request) => {
                let cost = &self.settings.cost;
                let time = request.calls * (cost.system_call + cost.loader_call);
                thread.request = Some(request);
                self.compute(task, time)
            }
            Err(message) => {
                self.programs.failure = Some(format!("the loader cannot be followed: {message}"));
                Some(Action::Failed)
            }
        }
    }

    /// Meets a thread's demand.
    fn meet(&mut self, number: u32, task: TaskRef, request: Request) -> Option<Action> {
        for other in request.woken {
            self.wake_loader_thread(other, task);
        }
        match request.demand {
            Demand::Time => None,
            Demand::Bpf(call) => {
                let reply = self.answer_loader(&call);
                self.thread(number)?.reply = reply;
                self.exit.is_some().then_some(Action::Failed)
            }
            Demand::Yield => Some(Action::Yield),
            Demand::Wait(wait) => {
                if self.thread(number)?.woken {
                    return None;
                }
                Some(match wait.until {
                    Some(until) if until <= self.program_time() => return None,
                    Some(until) => self.sleep_until(task, until),
                    None => Action::Block,
                })
            }
            Demand::Spawn { name } => self.spawn_loader_thread(number, name, task),
            Demand::Load { setup, .. } => {
                self.load_again(Arc::new(*setup));
                self.has_ended().then_some(Action::Failed)
            }
            Demand::Attach { setup } => {
                self.restarts.attaches = Some(task);
                self.settings.setup = Arc::new(*setup);
                self.clock.at(self.clock.now(), Due::Reload);
                Some(Action::Block)
            }
            Demand::Attributes(attributes) => {
                self.change_policy(task, policy_of(&attributes));
                self.change_affinity(task, attributes.cpus.as_deref());
                None
            }
            Demand::Exit => Some(Action::Exit),
            Demand::End { how } => {
                let unloaded = self.restarts.all.last().filter(|one| one.pause.is_none());
                self.programs.failure = Some(match unloaded {
                    Some(restart) => format!(
                        "the loader has gone instead of loading the scheduler again, as it was asked ({}): {how}",
                        restart.message
                    ),
                    None => format!("the loader has gone, and the scheduler with it: {how}"),
                });
                Some(Action::Failed)
            }
        }
    }

    fn wake_loader_thread(&mut self, number: u32, waker: TaskRef) {
        let Some(thread) = self.thread(number) else {
            return;
        };
        thread.woken = true;
        let mut task = thread.task;
        if task.seen.__state == TASK_INTERRUPTIBLE {
            task.execution.waiting = Waiting::Nothing;
            self.wake(task, Some(waker), false);
        }
    }

    /// Creates a thread that another one demands, unless the scheduler refuses it.
    fn spawn_loader_thread(
        &mut self,
        number: u32,
        name: String,
        parent: TaskRef,
    ) -> Option<Action> {
        let attributes = ThreadAttributes {
            policy: parent.seen.policy,
            priority: parent.seen.rt_priority,
            nice: parent.seen.static_prio - 120,
            cpus: None,
        };
        let thread = LoaderThread { name, attributes, wait: None };
        let mut task = self.create_loader_thread(&thread);
        task.seen.cpus_mask = parent.seen.cpus_mask;
        task.seen.nr_cpus_allowed = parent.seen.nr_cpus_allowed;
        task.seen.thread_info.cpu = parent.seen.thread_info.cpu;
        task.seen.__state = TASK_NEW;
        if let Err(error) = self.init_task(task, true) {
            self.forget_loader_thread(task);
            self.tasks.count_refusal(error);
            self.thread(number)?.reply.result = error.into();
            return self.exit.is_some().then_some(Action::Failed);
        }
        if task.class == Class::Ext {
            self.enable_task(task);
        }
        // The thread exists only once its parent has continued.
        let action = self.let_loader_run(number, parent);
        self.wake_new(task);
        action
    }

    /// Whether the run is over.
    fn has_ended(&self) -> bool {
        self.exit.is_some() || self.programs.failure.is_some()
    }

    /// Tells a loader that its scheduler asks to be loaded again; it does so when it finds out. `false` if there is no loader beside the simulation.
    pub(crate) fn leave_to_loader(&mut self) -> bool {
        if let Some(companion) = &mut self.companion {
            companion.loader.unloaded();
        }
        self.companion.is_some()
    }

    /// Lets the thread go on that has attached the scheduler.
    pub(crate) fn answer_attaching(&mut self) {
        if let Some(task) = self.restarts.attaches.take() {
            self.enter(task.cpu());
            self.wake(task, None, false);
            self.leave(OverheadKind::Scheduling);
        }
    }

    /// Tells the loader which CPUs are offline now.
    pub(crate) fn tell_loader_of_cpus(&mut self) {
        let cpus = self.offline();
        if let Some(companion) = &mut self.companion {
            companion.loader.offline(&cpus);
        }
    }

    /// Takes back the newest thread, which the scheduler refused.
    fn forget_loader_thread(&mut self, mut task: TaskRef) {
        if let Some(companion) = &mut self.companion {
            companion.threads.pop();
        }
        self.tasks.take_back_other();
        task.leave_process();
        task.storage.clear();
    }

    fn answer_loader(&mut self, call: &BpfCall) -> Reply {
        match call {
            BpfCall::Map { map, operation } => self.operate_on_map(*map, operation),
            BpfCall::Run { program, context } => self.run_for_loader(program, context),
        }
    }

    /// Carries out the loader's calls until it attaches the scheduler, at no cost: the machine is idle. `false` if it does not attach one.
    pub(crate) fn await_attachment(&mut self) -> bool {
        let mut reply = Reply::default();
        while let Some(companion) = &mut self.companion {
            match companion.loader.prepare(reply) {
                Ok(Some((cpu, call))) => {
                    self.enter(cpu);
                    reply = self.answer_loader(&call);
                    self.deliver_kicks(cpu);
                    self.forget_costs();
                }
                Ok(None) => break,
                Err(message) => {
                    self.programs.failure = Some(message);
                    return false;
                }
            }
        }
        self.exit.is_none()
    }

    /// Runs a program within a system call of the loader.
    fn run_for_loader(&mut self, program: &str, context: &[u8]) -> Reply {
        let Some(entry) = self.scheduler.code.entry(program) else {
            return Reply { result: -EINVAL, bytes: context.to_vec() };
        };
        // Aligned like the kernel's copy of a context.
        let mut words = vec![0_u64; context.len().div_ceil(8).max(1)];
        // SAFETY: the vector is at least as long as the context; any bytes are valid.
        let copy = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), context.len())
        };
        copy.copy_from_slice(context);
        let result = self.run_program(entry, [copy.as_mut_ptr() as u64, 0, 0, 0, 0]);
        Reply { result: i64::from(result as i32), bytes: copy.to_vec() }
    }

    fn operate_on_map(&mut self, map: usize, operation: &MapOperation) -> Reply {
        self.context.spent += self.settings.cost.kfunc;
        let done = match operation {
            MapOperation::Insert { key, map: new } => {
                let filled = self.fill_with_map(map, key, new);
                filled.map(|()| (Vec::new(), None))
            }
            _ => self.memory.maps[map].operate(operation),
        };
        match done {
            Ok((bytes, retired)) => {
                self.retire(retired);
                self.calls.retired.clear();
                Reply { result: 0, bytes }
            }
            Err(errno) => Reply { result: -errno, bytes: Vec::new() },
        }
    }
}

/// The workload's form of a policy.
fn policy_of(attributes: &ThreadAttributes) -> Policy {
    let (nice, priority) = (attributes.nice, attributes.priority);
    match attributes.policy {
        SCHED_BATCH => Policy::Batch { nice, slice: None },
        SCHED_IDLE => Policy::Idle,
        SCHED_EXT => Policy::Ext { nice },
        SCHED_FIFO => Policy::Fifo { priority },
        SCHED_RR => Policy::RoundRobin { priority },
        _ => Policy::Other { nice, slice: None },
    }
}
