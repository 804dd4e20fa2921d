//! Setting up and running a simulation, and its outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairground_bpf::{Loader, Setup};
use fairground_events::{Nanoseconds, Sink, TaskId};
use fairground_linux::Release;
use fairground_machine::{Machine, Online};
use fairground_workload::Workload;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::beside::LoaderBeside;
use crate::cids::{self, Cids};
use crate::clock::{Clock, Due};
use crate::constants::*;
use crate::cost::CostModel;
use crate::dispatch_queue::DispatchQueues;
use crate::exit::ExitRecord;
use crate::groups::Groups;
use crate::handle::Stock;
use crate::hardware::{Hardware, Nap};
use crate::kernel::{Cpu, Kernel};
use crate::kfunc::arena::{Arena, PAGE};
use crate::linker::{PREEMPT_COUNT, RUN_QUEUES};
use crate::maps::{Map, Maps};
use crate::memory::Memory;
use crate::messages::Messages;
use crate::operations::Op;
use crate::program::Programs;
use crate::reports::Reports;
use crate::restart::{Restart, Restarts};
use crate::scheduler::{LoadError, Scheduler};
use crate::shortfalls::{Noticed, Shortfall};
use crate::structures::{CpuMask, EventStats, MmStruct};
use crate::surroundings::{self, Surroundings};
use crate::task::{Class, Task, TaskRef};
use crate::tasks::{TaskMemory, Tasks};
use crate::timers::BpfTimers;
use crate::topology::Topology;
use crate::tracing::{Hook, Tracing};

/// A CPU that goes offline or comes online.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hotplug {
    /// When, since the beginning of the run.
    pub at: Nanoseconds,
    /// Its number.
    pub cpu: usize,
    /// Whether it is online from then on.
    pub online: bool,
}

/// The parts of a simulation.
#[derive(Clone)]
pub struct Options {
    /// The machine.
    pub machine: Arc<Machine>,
    /// The workload.
    pub workload: Arc<Workload>,
    /// When to stop, in nanoseconds of virtual time; `None` is the workload's own duration or, without one, when all tasks have ended.
    pub duration: Option<Nanoseconds>,
    /// The costs of scheduling.
    pub cost: CostModel,
    /// Seed of every random choice.
    pub seed: u64,
    /// Timer ticks per second.
    pub hz: u64,
    /// The release of Linux.
    pub release: Release,
    /// Values of the scheduler's read-only variables, encoded ([`Scheduler::encode`]).
    pub variables: Vec<(String, Vec<u8>)>,
    /// The settings, entries and program runs of the scheduler's loader.
    pub setup: Arc<Setup>,
    /// The same for when it loads the scheduler again while other CPUs are offline than at first, or why it gives up then.
    pub later_setups: Vec<LaterSetup>,
    /// CPUs that come online or go offline.
    pub hotplug: Vec<Hotplug>,
    /// How long the scheduler's loader takes to load it again when it asks for that; `None` if the loader does not.
    pub restart_after: Option<Nanoseconds>,
    /// How long the kernel has been up when the scheduler is loaded, nanoseconds. A scheduler may take a time of 0 for none, and times near it for
    /// those of long ago.
    pub uptime: Nanoseconds,
    /// Threads and groups besides the workload's tasks.
    pub surroundings: Surroundings,
    /// Whether sinks are also told about callbacks and operations on dispatch queues. It changes nothing else.
    pub details: bool,
    /// Ends the run as one that does not end once the engine has handled more events; `None` is for any number.
    pub most_events: Option<u64>,
}

impl Options {
    /// The usual uptime: something over an hour, in whole seconds.
    pub const UPTIME: Nanoseconds = 4096 * 1_000_000_000;

    /// A run of `workload` on `machine` with default costs at 250 ticks per second.
    pub fn new(machine: impl Into<Arc<Machine>>, workload: Arc<Workload>) -> Options {
        Options {
            machine: machine.into(),
            workload,
            duration: None,
            cost: CostModel::default_model(),
            seed: 0,
            hz: 250,
            release: Release::NEWEST,
            variables: Vec::new(),
            setup: Arc::default(),
            later_setups: Vec::new(),
            hotplug: Vec::new(),
            restart_after: None,
            uptime: Options::UPTIME,
            surroundings: Surroundings::default(),
            details: false,
            most_events: None,
        }
    }
}

/// The CPUs that are offline, and the actions of a scheduler's loader then, or why it gives up.
pub type LaterSetup = (Vec<usize>, Result<Arc<Setup>, String>);

impl Options {
    /// The CPUs that are offline at first, and after each further change of the machine, in ascending order.
    pub fn offline(&self) -> Vec<Vec<usize>> {
        let mut changes = self.hotplug.clone();
        // Those that go offline at time 0 are offline from the first; one that comes then comes to a loaded scheduler.
        let is_first = |change: &Hotplug| change.at == 0 && !change.online;
        changes.sort_by_key(|change| (!is_first(change), change.at));
        let mut states = vec![Vec::new()];
        for change in &changes {
            let mut offline = states.last().cloned().unwrap_or_default();
            match offline.binary_search(&change.cpu) {
                Ok(place) if change.online => _ = offline.remove(place),
                // The last CPU stays online.
                Err(place) if !change.online && offline.len() + 1 < self.machine.cpus.len() => {
                    offline.insert(place, change.cpu);
                }
                _ => continue,
            }
            match is_first(change) {
                true => states = vec![offline],
                false => states.push(offline),
            }
        }
        states
    }

    /// The CPUs that are online when the scheduler is loaded for the first time.
    pub fn online_at_first(&self) -> Online {
        Online::without(&self.machine, &self.offline()[0])
    }

    /// The actions of the scheduler's loader while these CPUs are offline.
    pub(crate) fn setup_without(&self, offline: &[usize]) -> Result<Arc<Setup>, LoadError> {
        let mut later = self.later_setups.iter();
        let setup = later.find(|(others, _)| others == offline);
        let setup = setup.map_or_else(|| Ok(self.setup.clone()), |(_, setup)| setup.clone());
        setup.map_err(LoadError::Loader)
    }
}

/// The outcome for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutcome {
    /// Its number in the event stream.
    pub id: TaskId,
    /// Its name.
    pub name: String,
    /// CPU time since the run began, as the kernel accounts it (`se.sum_exec_runtime`), including overhead on its CPU, nanoseconds.
    pub cpu_time: Nanoseconds,
    /// Whether it ended up in the kernel's own class for ordinary tasks although a scheduler was loaded, and so not under that.
    pub is_fair: bool,
    /// The scheduler's data about it in task storage maps, by map name; empty once the task has ended.
    pub storage: Vec<(String, Vec<u8>)>,
}

impl TaskOutcome {
    /// Of a task at the end; whether a scheduler was loaded then.
    fn of(task: &Task, maps: &Maps, loaded: bool) -> TaskOutcome {
        let values = maps.own().iter().zip(&task.storage);
        TaskOutcome {
            id: task.id,
            name: task.name.clone(),
            cpu_time: task.seen.se.sum_exec_runtime - task.cpu_time_before,
            is_fair: loaded && task.class == Class::Fair,
            storage: values
                .filter_map(|(map, value)| {
                    let words = value.as_ref()?.iter();
                    let mut bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
                    bytes.truncate(map.value_size);
                    Some((map.name.clone(), bytes))
                })
                .collect(),
        }
    }
}

/// How a simulation ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Virtual time at the end.
    pub end: Nanoseconds,
    /// How the scheduler was unloaded: normally at the end, or earlier.
    pub exit: ExitRecord,
    /// How often it was unloaded before, in order to be loaded again.
    pub restarts: Vec<Restart>,
    /// Why the workload could not continue, if it could not.
    pub failure: Option<String>,
    /// The tasks and the things for which they wait, if at the end of the duration all tasks were waiting for each other and nothing could run any more.
    pub stuck: Option<String>,
    /// How often a fork of the workload or of the scheduler's loader failed, by the return value of `ops.init_task()`.
    pub refused_forks: BTreeMap<i32, u32>,
    /// The kernel's event counters that are not zero, by name.
    pub events: Vec<(&'static str, i64)>,
    /// Context switches, including those to and from idle.
    pub context_switches: u64,
    /// Events of the engine, a measure of its work.
    pub engine_events: u64,
    /// The outcome for every task, in order of creation.
    pub tasks: Vec<TaskOutcome>,
    /// Counters of the scheduler's `statistics` map, in order.
    pub statistics: Vec<u64>,
    /// Lines that the scheduler or the kernel printed.
    pub messages: Vec<String>,
    /// The features that the run asked for and the model does not have.
    pub shortfalls: Vec<Shortfall>,
    /// CPU time that the threads of the surroundings used, including overhead on their CPUs, nanoseconds.
    pub time_of_other_threads: Nanoseconds,
    /// What they wanted to do until the end, in nanoseconds on a CPU of full speed.
    pub wanted_by_other_threads: Nanoseconds,
    /// What they did of it.
    pub done_by_other_threads: Nanoseconds,
}

/// Simulates `scheduler` under `options`, and reports the events to `sinks`.
///
/// The same scheduler and options always give the same calls to the sinks and the same outcome.
///
/// # Errors
///
/// [`LoadError`] if the scheduler needs something that cannot be set up. A scheduler that misbehaves while it runs is not an error here; see
/// [`Outcome::exit`].
pub fn simulate(
    scheduler: &Arc<Scheduler>,
    options: &Options,
    sinks: Vec<&mut dyn Sink>,
) -> Result<Outcome, LoadError> {
    simulate_beside(scheduler, options, sinks, None)
}

/// Like [`simulate`], with the scheduler's loader running beside it; its threads are tasks.
pub fn simulate_beside<'a>(
    scheduler: &Arc<Scheduler>,
    options: &Options,
    sinks: Vec<&'a mut dyn Sink>,
    loader: Option<&'a mut dyn Loader>,
) -> Result<Outcome, LoadError> {
    // On the heap, because schedulers see addresses inside it, which must be the same in every run with the same memory.
    let mut kernel = Box::new(Kernel::new(scheduler, options, sinks, loader)?);
    kernel.enable();
    if kernel.exit.is_none() && kernel.programs.failure.is_none() {
        kernel.run();
    }
    let failure = kernel.programs.failure.clone();
    let stuck = kernel.programs.stuck.clone();
    let end = kernel.clock.now() - kernel.origin;
    kernel.settle_running();
    let statistics = kernel.read_statistics();
    let loaded = kernel.restarts.are_over();
    let tasks = { kernel.tasks.workload().iter() }
        .map(|task| TaskOutcome::of(task, &kernel.memory.maps, loaded))
        .collect();
    kernel.report_quotas();
    kernel.report_energy();
    kernel.reports.finish(end);
    let mut exit = kernel.disable();
    exit.time = exit.time.saturating_sub(kernel.origin);
    if let (ExitKind::Unregistered, Some(record)) = (exit.kind, kernel.restarts.unanswered.take()) {
        let message = format!("{}; its loader had not loaded it again by the end", record.message);
        exit = ExitRecord { message, ..record };
    }
    kernel.report_strays();
    let mut events = kernel.event_counters();
    events.retain(|(_, count)| *count != 0);
    Ok(Outcome {
        end,
        exit,
        restarts: std::mem::take(&mut kernel.restarts.all),
        failure,
        stuck,
        refused_forks: kernel.tasks.refusals().clone(),
        events,
        context_switches: kernel.context_switches,
        engine_events: kernel.progress.events(),
        tasks,
        statistics,
        messages: std::mem::take(&mut kernel.messages).finish(),
        shortfalls: kernel.shortfalls(),
        time_of_other_threads: kernel.time_of_other_threads(),
        wanted_by_other_threads: kernel.wanted_by_other_threads(end),
        done_by_other_threads: kernel.done_by_other_threads(),
    })
}

/// The CPUs of a machine, each with its idle task.
fn idle_cpus(
    machine: &Machine,
    tasks: &mut TaskMemory,
    dsqs: &DispatchQueues,
    possible: CpuMask,
    uptime: Nanoseconds,
) -> Stock<Cpu> {
    let count = machine.cpus.len();
    let mut cpus = Stock::default();
    for (cpu, description) in machine.cpus.iter().enumerate() {
        let mut idle = idle_task(tasks, cpu, possible, count);
        idle.seen.se.exec_start = uptime;
        let queues = [dsqs.local(cpu), dsqs.global(description.node as usize)];
        let nap = Nap::deepest(machine.hardware.idle_states(cpu), uptime);
        cpus.add(Cpu { nap, ..Cpu::new(cpu, description.capacity.max(1).into(), idle, queues) });
    }
    cpus
}

/// The idle task of a CPU.
fn idle_task(tasks: &mut TaskMemory, cpu: usize, possible: CpuMask, count: usize) -> TaskRef {
    let mut idle = Task::blank(TaskId(u32::MAX), "swapper".into(), 0, possible, count);
    idle.set_class(Class::Idle);
    idle.seen.prio = 140;
    idle.seen.flags = PF_IDLE | PF_KTHREAD;
    idle.seen.thread_info.cpu = cpu as u32;
    let idle = tasks.place(idle);
    idle.fix_pointers();
    idle
}

/// The task that creates those of the workload; it sleeps.
fn creator(
    options: &Options,
    tasks: &mut TaskMemory,
    memory: &mut MmStruct,
    groups: &mut Groups,
    possible: CpuMask,
    count: usize,
) -> TaskRef {
    let name = options.workload.name.clone();
    let mut task = Task::blank(surroundings::CREATOR, name, 1000, possible, count);
    task.seen.mm = memory;
    task.seen.active_mm = task.seen.mm;
    task.seen.__state = TASK_INTERRUPTIBLE;
    let (set, group) = groups.pointers(0);
    task.seen.cgroups = set;
    task.seen.sched_task_group = group;
    let task = tasks.place(task);
    task.fix_pointers();
    memory.owner = task.address() as *mut _;
    task
}

impl<'a> Kernel<'a> {
    fn new(
        scheduler: &Arc<Scheduler>,
        options: &Options,
        sinks: Vec<&'a mut dyn Sink>,
        loader: Option<&'a mut dyn Loader>,
    ) -> Result<Kernel<'a>, LoadError> {
        let mut beside = loader.map(LoaderBeside::new);
        let machine = options.machine.clone();
        let topology = Topology::new(&machine);
        let count = machine.cpus.len();
        let online = options.online_at_first();
        let (prepared, operations) = scheduler.prepare(options, &online)?;
        let possible = CpuMask::first_cpus(count);
        let mut memory = Memory::new(scheduler, &prepared, online.id_count, beside.as_mut())?;
        let context = memory.context(count, &options.cost);
        let mut tasks = TaskMemory::default();
        let nodes = topology.nodes.len();
        let mut dsqs = DispatchQueues::default();
        dsqs.begin(count, nodes);
        let cpus = idle_cpus(&machine, &mut tasks, &dsqs, possible, options.uptime);
        let idle = operations.idle_state(nodes);
        let mut groups = Groups::new(&options.workload.groups);
        let mut address_space = Box::new(MmStruct { mm_users: 1, owner: std::ptr::null_mut() });
        let initial_parent =
            creator(options, &mut tasks, &mut address_space, &mut groups, possible, count);
        Ok(Kernel {
            scheduler: scheduler.clone(),
            first_loaded: scheduler.clone(),
            context,
            memory,
            _address_space: address_space,
            processes: Vec::new(),
            operations,
            settings: Options {
                duration: options.duration.or(options.workload.duration),
                ..options.clone()
            },
            clock: Clock::new(count),
            here: cpus.handles()[0],
            cpus,
            tasks: Tasks::new(tasks, initial_parent),
            origin: 0,
            observed: false,
            end: u64::MAX,
            dsqs,
            idle,
            timers: BpfTimers::default(),
            programs: Programs::new(options.workload.clone(), options.seed),
            groups,
            companion: beside,
            hotplug_changes: 0,
            cids: Default::default(),
            calls: Default::default(),
            made: Default::default(),
            // SAFETY: all members of the structure are integers, for which zero is a value.
            statistics: unsafe { std::mem::zeroed::<EventStats>() },
            exit: None,
            restarts: Restarts::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            tracing: Tracing::new(&scheduler.object, &scheduler.code),
            account: Default::default(),
            noticed: Noticed::new(&options.machine),
            initialised: false,
            warned_zero_slice: false,
            online: possible,
            possible,
            jiffies: Default::default(),
            context_switches: 0,
            progress: Default::default(),
            dump: None,
            messages: Messages::default(),
            reports: Reports::new(sinks),
            hardware: Hardware::new(&machine),
            machine,
            topology,
        })
    }

    /// Loads the scheduler: `init`, the groups, the existing tasks (`scx_root_enable_workfn`).
    fn enable(&mut self) {
        self.clock.advance_to(self.first_time());
        self.origin = self.clock.now();
        // CPUs that go offline at time 0 are offline before the scheduler is loaded.
        for cpu in self.settings.offline().swap_remove(0) {
            self.mark_online(cpu, false);
        }
        if !self.as_loader(|kernel| kernel.attach()) {
            return;
        }
        self.create_other_threads();
        self.create_loader_threads();
        if let Err((error, task)) = self.as_loader(|kernel| kernel.enable_surroundings()) {
            self.fail_to_init(error, &task);
            return;
        }
        self.tell_of_idle_cpus();
        let interval = self.operations.timeout_ms * 1_000_000 / 2;
        self.clock.at(self.clock.now() + interval.max(1), Due::Watchdog);
        if self.settings.surroundings.creator.is_none() {
            self.begin_observation();
        }
        self.clock.at(self.clock.now(), Due::Start);
        self.begin_loader();
    }

    /// Loads and initialises the scheduler; the tasks come next. `false` if its loader gives up or it is ejected.
    pub(crate) fn attach(&mut self) -> bool {
        self.load() && self.initialise()
    }

    /// Initialises a scheduler that has been loaded. `false` if it is ejected.
    pub(crate) fn initialise(&mut self) -> bool {
        let first = self.cpus.handles().iter().position(|cpu| cpu.online);
        self.enter(first.unwrap_or(0));
        self.trace(Hook::BpfScxReg, &[0, 0]);
        self.forget_costs();
        if !self.make_cids() {
            return false;
        }
        if self.operations.has(Op::Init) {
            let result = self.call(Op::Init, &[]) as i32;
            let result = self.sanitize("init", result);
            if result != 0 {
                self.fail_on(ExitKind::Error, 0, format!("ops.init() failed ({result})"));
                return false;
            }
        }
        if !self.is_as_the_loader_saw_it() {
            return false;
        }
        self.initialised = true;
        if let Err(error) = self.init_groups() {
            let message = format!("ops.cgroup_init() failed ({error})");
            self.fail_on(ExitKind::Error, 0, message);
            return false;
        }
        true
    }

    /// Ejects a scheduler that does not take a task which exists when it is loaded.
    pub(crate) fn fail_to_init(&mut self, error: i32, task: &str) {
        let message = format!("ops.init_task() failed ({error}) for {task}");
        self.fail_on(ExitKind::Error, 0, message);
    }

    /// At the end of bypass mode every idle CPU goes through the scheduler once, which fills the idle masks.
    pub(crate) fn tell_of_idle_cpus(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].online && self.cpus[cpu].current == self.cpus[cpu].idle {
                self.enter(cpu);
                self.update_idle(cpu, true, true);
                self.deliver_kicks(cpu);
                self.forget_costs();
            }
        }
        self.statistics.SCX_EV_BYPASS_ACTIVATE += 1;
    }

    /// Gives the CPUs their ids, and allocates masks of them for a scheduler of the cid form. `false` if the scheduler was ejected.
    fn make_cids(&mut self) -> bool {
        let size = self.operations.cid_shard_size;
        self.cids = Cids::new(&self.topology, &self.online, size);
        if !self.operations.cid_form {
            self.cids.published = true;
            return true;
        }
        let result = self.call(Op::InitCids, &[]) as i32;
        if result != 0 {
            let message = format!("ops.init_cids() failed ({result})");
            self.fail_on(ExitKind::Error, 0, message);
        }
        self.cids.published = true;
        // One for each CPU, and one for the online CPUs.
        let size = cids::mask_size(self.cpus.len()) * (self.cpus.len() + 1);
        let masks = self.memory.arena.as_mut().and_then(|arena| {
            let page = arena.allocate(None, size.div_ceil(PAGE))?;
            Some(arena.user(page * PAGE))
        });
        match masks {
            Some(address) => {
                self.cids.masks = address;
                self.write_online_cids();
            }
            None => {
                let message = "the arena has no room for masks of CPU ids".into();
                self.fail_on(ExitKind::Error, 0, message);
            }
        }
        self.exit.is_none()
    }

    /// Reports accesses to arena pages that were not allocated, as a kernel does in the program's own stream.
    fn report_strays(&mut self) {
        let count = self.context.null_accesses;
        if count > 0 {
            let place = self.scheduler.describe(self.context.null_access_place);
            self.say(format!(
                "ERROR: Arena access through a null pointer, {count} times, the last one{place}: stores were dropped, and loads gave 0, as in a kernel"
            ));
        }
        let strays = self.memory.arena.as_mut().map(Arena::strays);
        for (address, instruction) in strays.into_iter().flatten() {
            let place = self.scheduler.locate(instruction);
            let place = place.map_or_else(String::new, |place| format!(" in {place}"));
            self.say(format!("ERROR: Arena access at unmapped address 0x{address:x}{place}"));
        }
    }

    /// Accounts the time of running tasks up to the end.
    fn settle_running(&mut self) {
        let now = self.clock.now();
        for cpu in 0..self.cpus.len() {
            self.cpu(cpu).account_progress(now);
            let mut task = self.cpus[cpu].current;
            if task.class != Class::Idle {
                task.seen.se.sum_exec_runtime += now.saturating_sub(task.seen.se.exec_start);
                task.seen.se.exec_start = now;
            }
        }
    }

    /// The scheduler's map of this name.
    pub(crate) fn own_map(&self, name: &str) -> Option<&Map> {
        let mut maps = self.memory.maps.own().iter();
        maps.find(|map| map.name == name)
    }

    fn read_statistics(&self) -> Vec<u64> {
        let map = self.own_map("statistics");
        map.map(|map| map.counters()).unwrap_or_default()
    }

    /// The kernel's event counters.
    pub(crate) fn event_counters(&self) -> Vec<(&'static str, i64)> {
        let entry = crate::structures::find("scx_event_stats");
        let base = &raw const self.statistics as *const u8;
        entry
            .into_iter()
            .flat_map(|entry| entry.fields)
            // SAFETY: every field of the structure is a 64-bit integer at its offset.
            .map(|field| (field.name, unsafe { base.add(field.offset).cast::<i64>().read() }))
            .collect()
    }

    /// The copy of a per-CPU kernel variable for `cpu`.
    pub(crate) fn per_cpu_variable(&mut self, variable: u64, cpu: usize) -> u64 {
        if variable == &raw const PREEMPT_COUNT as u64 {
            &raw const self.cpus[cpu].preempt_count as u64
        } else if variable == &raw const RUN_QUEUES as u64 {
            self.run_queue_address(cpu)
        } else {
            variable
        }
    }
}
