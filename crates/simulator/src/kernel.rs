//! The state of one simulated kernel and the loop that drives it.

use std::collections::VecDeque;
use std::sync::Arc;

use fairground_bpf::Context;
use fairground_events::{Condition, CpuId, Event, EventKind, OverheadKind, Policy, TaskInfo};
use fairground_machine::Machine;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::beside::LoaderBeside;
use crate::clock::{Clock, Due, Jiffies, Progress, ticks_until};
use crate::constants::*;
use crate::core::{DeadlineQueue, RealTimeQueue};
use crate::cost::{Account, Lock};
use crate::deadline_server::DeadlineServers;
use crate::dispatch_queue::{DispatchQueues, DsqRef};
use crate::exit::ExitRecord;
use crate::groups::Groups;
use crate::handle::{Handle, Stock};
use crate::hardware::{Hardware, Menu, Meter, Nap, Speed};
use crate::kfunc::Made;
use crate::maps::Retired;
use crate::memory::Memory;
use crate::messages::Messages;
use crate::operations::{Calls, Operations};
use crate::program::{Programs, Sleep};
use crate::reports::Reports;
use crate::restart::Restarts;
use crate::scheduler::Scheduler;
use crate::shortfalls::Noticed;
use crate::simulation::{Hotplug, Options};
use crate::structures::{CpuMask, EventStats, MmStruct, RunQueue, ScxRq};
use crate::surroundings::{is_hidden, visible};
use crate::task::{Class, Process, TaskRef};
use crate::tasks::Tasks;
use crate::timers::BpfTimers;
use crate::topology::Topology;
use crate::tracing::Tracing;

/// Number of events in one instant beyond which time counts as stopped; each task and CPU raises the limit.
const EVENTS_AT_ONCE: u64 = 1 << 21;
const EVENTS_OF_A_TASK: u64 = 64;

/// An insertion that waits in the dispatch buffer (`struct scx_dsp_buf_ent`).
#[derive(Clone, Copy)]
pub struct BufferedInsert {
    pub task: TaskRef,
    pub sequence: u32,
    pub dsq_id: u64,
    pub slice: u64,
    pub vtime: u64,
    pub flags: u64,
}

/// One CPU.
pub struct Cpu {
    /// Its run queue, as schedulers see it.
    pub rq: RunQueue,
    /// The task it runs; its idle task if none.
    pub current: TaskRef,
    /// Its idle task.
    pub idle: TaskRef,
    /// Whether it is online.
    pub online: bool,
    /// Whether it goes offline as soon as no task is in a section without migration there.
    pub goes_offline: bool,
    /// The mask of this CPU alone (`cpumask_of`).
    pub mask: Box<CpuMask>,
    /// Where its next search through CPUs in turn starts (`distribute_cpu_mask_prev`).
    pub distributed: usize,
    /// Whether it has to reschedule.
    pub need_resched: bool,
    /// The stopper has just run: the idle task is current only until the next switch.
    pub stopped: bool,
    /// Class of the task it is about to run (`rq->next_class`).
    pub next_class: Class,
    /// Whether it is inside a dispatch.
    pub in_dispatch: bool,
    /// Time until which it is busy with kernel work.
    pub kernel_until: u64,
    /// Time at which the current task's program begins to make progress.
    pub resume_at: u64,
    /// Time up to which the progress of the current task is accounted.
    pub progress_at: u64,
    /// When the program step of its task ends; `u64::MAX` for never.
    pub completion_at: u64,
    /// When its next tick comes; `u64::MAX` if it has none.
    pub tick_at: u64,
    /// Interrupts that came while it was busy with kernel work, in order of arrival. It handles them when that is done, before anything else.
    pub interrupts: VecDeque<Due>,
    /// Sleeps that a high-resolution timer of this CPU ends, in the order in which they must end.
    pub sleeps: VecDeque<Sleep>,
    /// Its deadline tasks.
    pub deadline: DeadlineQueue,
    /// Its real-time tasks.
    pub real_time: RealTimeQueue,
    /// Give ordinary tasks their share next to real-time tasks.
    pub deadline_servers: DeadlineServers,
    /// Waiting tasks of the fair class.
    pub fair: Vec<TaskRef>,
    /// Lower bound of virtual runtime in the fair class.
    pub fair_min_vruntime: u64,
    /// Its local dispatch queue.
    pub local: DsqRef,
    /// The global dispatch queue of its node.
    pub global: DsqRef,
    /// Tasks sent directly to another CPU's local queue, to be moved when this run queue is unlocked.
    pub deferred_locals: Vec<TaskRef>,
    /// Whether its local queue has to be reenqueued, and with which flags.
    pub deferred_reenqueue: Option<u64>,
    /// User queues to be reenqueued.
    pub deferred_user_reenqueue: Vec<(DsqRef, u64)>,
    /// CPUs whose deferred work an irq_work of this one is to do.
    pub deferred_of: Vec<usize>,
    /// The interrupt context, as schedulers see it: its `__preempt_count`.
    pub preempt_count: u64,
    /// Wake-ups handed to this CPU, which puts the tasks on its run queue itself. The flag says whether the task comes from another CPU.
    pub wake_list: Vec<(TaskRef, bool)>,
    /// Kicks sent from this CPU and not delivered yet.
    pub kicks: Vec<(u32, u64)>,
    /// Bumped whenever it goes through the scheduler.
    pub kick_sync: u64,
    /// Time until which its next pass through the scheduler waits for CPUs that it has kicked (`SCX_KICK_WAIT`).
    pub waits_for_kicks: u64,
    /// The dispatch buffer.
    pub buffer: Vec<BufferedInsert>,
    /// Insertions and moves of the dispatch in progress.
    pub dispatched: u32,
    /// Relative capacity, 1024 for the fastest CPU.
    pub capacity: u64,
    /// How fast the clock for load tracking goes, of 1024: by capacity and frequency.
    pub scale: u64,
    /// How fast it computes now.
    pub speed: Speed,
    /// Its sleep, while it is idle and has idle states.
    pub nap: Option<Nap>,
    /// Chooses its idle states.
    pub menu: Menu,
    /// Its energy.
    pub meter: Meter,
    /// Performance level asked for with `scx_bpf_cpuperf_set`.
    pub performance: u32,
    /// The lock of its run queue: held during a pass through the scheduler and the switch, and by other CPUs that put a task there.
    pub run_queue_lock: Lock,
}

impl Cpu {
    /// An idle online CPU.
    pub fn new(cpu: usize, capacity: u64, idle: TaskRef, [local, global]: [DsqRef; 2]) -> Self {
        Self {
            rq: Kernel::new_run_queue(cpu, idle),
            current: idle,
            idle,
            online: true,
            goes_offline: false,
            mask: Box::new(CpuMask::only(cpu)),
            distributed: 0,
            need_resched: false,
            stopped: false,
            next_class: Class::Idle,
            in_dispatch: false,
            kernel_until: 0,
            resume_at: 0,
            progress_at: 0,
            completion_at: u64::MAX,
            tick_at: u64::MAX,
            interrupts: VecDeque::new(),
            deadline: DeadlineQueue::default(),
            real_time: RealTimeQueue::default(),
            deadline_servers: DeadlineServers::default(),
            fair: Vec::new(),
            fair_min_vruntime: 0,
            local,
            global,
            deferred_locals: Vec::new(),
            deferred_reenqueue: None,
            deferred_user_reenqueue: Vec::new(),
            deferred_of: Vec::new(),
            sleeps: VecDeque::new(),
            preempt_count: 0,
            kicks: Vec::new(),
            kick_sync: 0,
            waits_for_kicks: 0,
            wake_list: Vec::new(),
            buffer: Vec::new(),
            dispatched: 0,
            capacity,
            scale: capacity,
            speed: Speed::of_capacity(capacity),
            nap: None,
            menu: Menu::default(),
            meter: Meter::default(),
            performance: SCX_CPUPERF_ONE,
            run_queue_lock: Lock::default(),
        }
    }

    /// Time on the clock of its run queue: when it began its current work.
    #[inline]
    pub fn clock(&self, now: u64) -> u64 {
        self.kernel_until.max(now)
    }

    /// Accounts the progress of its current task up to `now`.
    #[inline(always)]
    pub fn account_progress(&mut self, now: u64) {
        if self.progress_at != now {
            self.advance_to(now);
        }
    }

    #[inline(never)]
    fn advance_to(&mut self, now: u64) {
        let from = self.progress_at.max(self.resume_at);
        self.progress_at = now;
        if now > from {
            self.current.execution.progress(now - from, self.speed);
        }
    }

    /// Updates the clocks of its run queue that schedulers see (`update_rq_clock`). The one for load tracking advances as fast as the CPU
    /// computes while it is busy, and catches up when it is idle.
    #[inline]
    pub fn update_clock(&mut self, now: u64) {
        let now = self.clock(now);
        let passed = now.saturating_sub(self.rq.clock);
        self.rq.clock = now;
        self.rq.clock_task = now;
        self.rq.clock_pelt = if self.scale == 1024 || self.current == self.idle {
            now
        } else {
            self.rq.clock_pelt + passed * self.scale / 1024
        };
    }

    /// When it next has something of its own to do.
    #[inline]
    pub fn next_own(&self) -> u64 {
        let time = self.completion_at.min(self.tick_at);
        if self.interrupts.is_empty() { time } else { time.min(self.kernel_until) }
    }
}

/// A simulated kernel with one scheduler loaded.
pub struct Kernel<'a> {
    pub(crate) scheduler: Arc<Scheduler>,
    /// The same as it was when the run began: for other values of its read-only variables, perhaps.
    pub(crate) first_loaded: Arc<Scheduler>,
    /// The part of the state that the scheduler's code knows: among others, the CPU whose code is running, and the cost so far of its work in the
    /// current event.
    pub(crate) context: Context,
    /// The memory that the scheduler's code addresses; the context points here.
    pub(crate) memory: Memory,
    /// The address space that the workload's threads share; tasks point here.
    pub(crate) _address_space: Box<MmStruct>,
    /// Processes that the workload names.
    pub(crate) processes: Vec<Process>,
    /// The scheduler's loader, if it keeps running.
    pub(crate) companion: Option<LoaderBeside<'a>>,
    /// How often CPUs have come or gone (`scx_hotplug_seq`).
    pub(crate) hotplug_changes: u64,
    pub(crate) cids: crate::cids::Cids,
    pub(crate) operations: Operations,
    /// The calls into the scheduler's code that are running.
    pub(crate) calls: Calls,
    /// What its programs have made.
    pub(crate) made: Made,
    /// The options of the simulation; the duration is the workload's own if there is no other.
    pub(crate) settings: Options,
    pub(crate) machine: Arc<Machine>,
    pub(crate) topology: Topology,
    /// What its CPUs share.
    pub(crate) hardware: Hardware,
    pub(crate) clock: Clock,
    pub(crate) cpus: Stock<Cpu>,
    /// The CPU whose work is being done.
    pub(crate) here: Handle<Cpu>,
    pub(crate) tasks: Tasks,
    /// When the part of the run began that results cover.
    pub(crate) origin: u64,
    /// Whether that part has begun.
    pub(crate) observed: bool,
    /// The end of the run; not known before it has begun.
    pub(crate) end: u64,
    pub(crate) dsqs: DispatchQueues,
    pub(crate) idle: crate::idle::IdleState,
    pub(crate) timers: BpfTimers,
    pub(crate) programs: Programs,
    pub(crate) groups: Groups,
    pub(crate) statistics: EventStats,
    pub(crate) exit: Option<ExitRecord>,
    pub(crate) restarts: Restarts,
    pub(crate) random: Xoshiro256PlusPlus,
    /// Features that the run asked for and the model does not have, as far as only the run shows them.
    pub(crate) noticed: Noticed,
    /// The scheduler's programs that are attached to kernel events.
    pub(crate) tracing: Tracing,
    pub(crate) account: Account,
    pub(crate) initialised: bool,
    pub(crate) warned_zero_slice: bool,
    pub(crate) online: CpuMask,
    pub(crate) possible: CpuMask,
    pub(crate) jiffies: Jiffies,
    pub(crate) context_switches: u64,
    pub(crate) progress: Progress,
    pub(crate) dump: Option<String>,
    pub(crate) messages: Messages,
    pub(crate) reports: Reports<'a>,
}

impl<'a> Kernel<'a> {
    /// Time on the clock of the running CPU: after all its work so far, including that of this event.
    #[inline(always)]
    pub(crate) fn local_time(&self) -> u64 {
        self.here.clock(self.clock.now()) + self.context.spent
    }

    /// Time on the clock of a run queue: when its CPU began its current work.
    pub(crate) fn run_queue_clock(&self, cpu: usize) -> u64 {
        self.cpus[cpu].clock(self.clock.now())
    }

    /// Time at which the program of this CPU's current task continues.
    pub(crate) fn program_time(&self) -> u64 {
        self.here.resume_at.max(self.clock.now()) + self.context.spent
    }

    /// Reports to the sinks something that happens now on the running CPU.
    #[inline(always)]
    pub(crate) fn emit(&mut self, kind: EventKind) {
        if self.reports.is_open() {
            self.emit_at(self.local_time(), kind);
        }
    }

    /// Reports to the sinks something that happens at `time`, now or later. Inlined, so that the event is constructed in place.
    #[inline(always)]
    pub(crate) fn emit_at(&mut self, time: u64, kind: EventKind) {
        if self.reports.is_open()
            && let Some(kind) = visible(kind)
        {
            let time = time - self.origin;
            self.reports.add_event(Event { time, kind });
        }
    }

    /// Reports that a condition of `task` begins or ends, to sinks that want details.
    pub(crate) fn tell_condition(&mut self, task: TaskRef, condition: Condition, begins: bool) {
        if self.settings.details {
            self.emit(EventKind::Condition { task: task.id, condition, begins });
        }
    }

    /// Describes a task that has changed.
    pub(crate) fn emit_task(&mut self, task: TaskRef) {
        self.describe(task, self.local_time());
    }

    /// Describes a task that is new, as of the begin of this work: what is due before its end, such as a CPU that goes offline, may meet the task.
    pub(crate) fn emit_new_task(&mut self, task: TaskRef) {
        self.describe(task, self.clock.now());
    }

    fn describe(&mut self, task: TaskRef, at: u64) {
        if !self.reports.is_open() || is_hidden(task.id) {
            return;
        }
        let has_all = task.seen.nr_cpus_allowed as usize >= self.cpus.len();
        let allowed: Vec<CpuId> = match has_all && task.is_allowed_by_own_mask() {
            true => Vec::new(),
            false => task.allowed().iter().map(|cpu| CpuId(cpu as u32)).collect(),
        };
        let info = TaskInfo {
            name: task.name.clone(),
            policy: Policy::from_number(task.seen.policy),
            nice: task.seen.static_prio - 120,
            rt_priority: task.seen.rt_priority,
            weight: task.wanted_weight.unwrap_or(task.seen.se.load.weight as u32),
            allowed,
            parent: task.parent,
            daemon: task.daemon,
            group: Groups::event_id(task.cgroup),
        };
        self.reports.add_task(at - self.origin, task.id, info);
        self.tell_class(task);
    }

    /// Reports whether a task is in the scheduler's class, to sinks that want details.
    pub(crate) fn tell_class(&mut self, task: TaskRef) {
        self.tell_condition(task, Condition::Ext, task.class == Class::Ext);
    }

    /// The CPU with this number.
    #[inline(always)]
    pub(crate) fn cpu(&self, cpu: usize) -> Handle<Cpu> {
        self.cpus.handles()[cpu]
    }

    /// A random number below `bound`.
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.random.next_u64() % bound }
    }

    /// Length of a tick in nanoseconds.
    pub(crate) fn tick_length(&self) -> u64 {
        1_000_000_000 / self.settings.hz.max(1)
    }

    /// How many ticks there were until `time`.
    pub(crate) fn ticks_until(&self, time: u64) -> u64 {
        ticks_until(time, self.tick_length(), self.settings.uptime)
    }

    /// When the next tick comes.
    pub(crate) fn next_tick(&self) -> u64 {
        let length = self.tick_length();
        let first = self.settings.uptime + self.settings.surroundings.tick_offset % length;
        (self.clock.now() + length - first) / length * length + first
    }

    /// Runs the workload from its start for its duration, until no task is left, or until the scheduler is unloaded.
    pub(crate) fn run(&mut self) {
        while self.exit.is_none() || self.unload_for_restart() {
            let Some(due) = self.clock.next(self.end) else {
                break;
            };
            if self.is_at_a_standstill() || self.is_endless() {
                break;
            }
            if self.reports.are_many() {
                self.reports.release(self.clock.now() - self.origin);
            }
            self.handle(due);
            if !self.tasks.are_left() && self.programs.started || self.programs.failure.is_some() {
                break;
            }
        }
        if !self.tasks.are_left()
            && let Some(last) = self.reports.latest()
        {
            // The last task is still on its way off its CPU.
            self.clock.advance_to((self.origin + last).min(self.end));
        }
        if self.exit.is_some() || !self.tasks.are_left() || self.programs.failure.is_some() {
            return;
        }
        let reasons = self.deadlock();
        if self.settings.duration.is_some() {
            self.programs.stuck = reasons;
            self.clock.advance_to(self.end);
        } else {
            self.programs.failure = reasons.map(|reasons| format!("deadlock: {reasons}"));
        }
    }

    /// Counts an event. Whether time has stopped: events follow one another endlessly in one instant. If so, ejects the scheduler.
    fn is_at_a_standstill(&mut self) -> bool {
        let at_once = self.progress.count(self.clock.now());
        if at_once <= EVENTS_AT_ONCE {
            return false;
        }
        let limit = EVENTS_AT_ONCE
            + EVENTS_OF_A_TASK * (self.tasks.workload().len() + self.cpus.len()) as u64;
        if at_once <= limit {
            return false;
        }
        let message = format!(
            "no time passes: {limit} events in one instant, such as a timer that arms itself for now or CPUs that kick each other"
        );
        self.fail_endless(message);
        true
    }

    /// Whether there were more events than the run may have. If so, ejects the scheduler.
    fn is_endless(&mut self) -> bool {
        let exceeded = { self.settings.most_events }.filter(|most| self.progress.events() > *most);
        if let Some(most) = exceeded {
            self.fail_endless(format!(
                "{most} events until now, such as switches, kicks and wake-ups"
            ));
        }
        exceeded.is_some()
    }

    /// Keeps a line that the scheduler or the kernel printed.
    pub(crate) fn say(&mut self, line: String) {
        self.messages.add(line);
    }

    /// Keeps a value that was removed from its map until the running program has ended; its timers end at once.
    pub(crate) fn retire(&mut self, value: Option<Retired>) {
        let Some(value) = value else { return };
        let addresses = value.as_ptr_range();
        self.timers.forget(addresses.start as u64..addresses.end as u64);
        self.calls.retired.push(value);
    }

    /// Handles all events that are due.
    pub(crate) fn handle(&mut self, due: Due) {
        match due {
            Due::Cpu { cpu } => self.handle_cpu(cpu as usize),
            Due::Reschedule { cpu } => {
                let cpu = cpu as usize;
                if !self.postponed(cpu, due) && self.cpus[cpu].online {
                    self.interrupt(cpu);
                    self.leave(OverheadKind::Scheduling);
                }
            }
            Due::Wakeups { cpu } => self.handle_wakeups(cpu as usize, due),
            Due::Timeout { task, generation } => self.handle_timeout(task, generation, due),
            Due::Disk { task } => self.handle_disk(task, due),
            Due::Drive { drive, event } => self.handle_drive(drive as usize, event, due),
            Due::Arrival { number } => self.handle_arrival(number, due),
            Due::BpfTimer { timer, generation } => self.handle_bpf_timer(timer, generation),
            Due::DeadlineServer { cpu, class, timer } => {
                self.handle_server(cpu as usize, class, timer, due);
            }
            Due::DeadlineTask { task, timer } => self.handle_deadline_task(task, timer, due),
            Due::DeadlineTick { cpu, timer } => {
                self.handle_deadline_tick(cpu as usize, timer, due);
            }
            Due::Watchdog => self.handle_watchdog(),
            Due::Hotplug { index } => {
                let Hotplug { cpu, online, .. } = self.settings.hotplug[index as usize];
                self.set_online(cpu, online);
            }
            Due::Group { change } => self.change_group(change),
            Due::Offline { cpu } => self.set_online(cpu as usize, false),
            Due::Loader { run, load } => self.handle_loader(run, load, due),
            Due::Reload => self.reload(),
            Due::Start => self.start_programs(),
        }
    }

    /// Puts an interrupt off while the CPU is busy with kernel work. Returns whether it did. The CPU handles it before the program of its task
    /// goes on: interrupts are on in system calls, so even a program that only makes system calls cannot hold them up.
    pub(crate) fn postponed(&mut self, cpu: usize, due: Due) -> bool {
        if self.cpus[cpu].kernel_until <= self.clock.now() {
            return false;
        }
        self.cpus[cpu].interrupts.push_back(due);
        self.clock.set_cpu(cpu, self.cpus[cpu].next_own());
        true
    }

    /// Whether something else is due, here or on another CPU, before the running CPU is done with its work so far.
    pub(crate) fn something_comes_first(&self) -> bool {
        let (state, done) = (self.here, self.local_time());
        done > self.clock.now()
            && (state.tick_at <= done
                || !state.interrupts.is_empty()
                || self.clock.is_due_by(done, self.context.cpu))
    }

    /// Begins work on `cpu`.
    pub(crate) fn enter(&mut self, cpu: usize) {
        self.context.cpu = cpu;
        self.here = self.cpu(cpu);
        self.forget_costs();
    }

    /// Begins the work of an interrupt on `cpu`; an idle CPU leaves its idle state first.
    pub(crate) fn interrupt(&mut self, cpu: usize) {
        self.enter(cpu);
        if self.here.current == self.here.idle {
            self.wake_cpu(cpu, false);
        }
    }

    /// Ends the work of the running CPU: delivers kicks, reschedules if asked, and charges the cost.
    pub(crate) fn leave(&mut self, kind: OverheadKind) {
        let cpu = self.context.cpu;
        let mut state = self.here;
        // An irq_work, which interrupts the code that asked for it.
        if !state.deferred_user_reenqueue.is_empty() || !state.deferred_of.is_empty() {
            self.run_deferred_of_all(cpu);
        }
        self.deliver_kicks(cpu);
        self.settle(kind);
        let mut rounds = 0;
        while state.need_resched && self.exit.is_none() {
            self.schedule(cpu);
            self.deliver_kicks(cpu);
            self.settle(OverheadKind::Scheduling);
            rounds += 1;
            if rounds == 64 {
                // A CPU that is asked again and again in one instant lets the others proceed in between.
                if state.need_resched {
                    state.need_resched = false;
                    self.resched_from_interrupt(cpu);
                }
                break;
            }
        }
        self.fall_asleep(cpu);
        self.arm_completion(cpu);
    }

    pub(crate) fn new_run_queue(cpu: usize, idle: TaskRef) -> RunQueue {
        RunQueue {
            nr_running: 0,
            cpu: cpu as i32,
            online: 1,
            clock: 0,
            clock_task: 0,
            clock_pelt: 0,
            lost_idle_time: 0,
            curr: idle.address() as *mut _,
            idle: idle.address() as *mut _,
            scx: ScxRq {
                nr_running: 0,
                nr_immed: 0,
                flags: 1,
                cpu_released: false,
                clock: 0,
                ops_qseq: 0,
            },
        }
    }

    /// Address of the run queue of `cpu`, as schedulers see it.
    pub(crate) fn run_queue_address(&self, cpu: usize) -> u64 {
        &raw const self.cpus[cpu].rq as u64
    }
}
