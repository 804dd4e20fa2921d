//! Tasks in the kernel model.

use fairground_events::TaskId;

use crate::constants::{SCHED_FIFO, SCHED_RR, SCX_DSQ_INVALID, SCX_SLICE_DFL, SIGCHLD};
use crate::core::DeadlineEntity;
use crate::dispatch_queue::DsqRef;
use crate::handle::Handle;
use crate::program::Execution;
use crate::structures::{
    ClampRequest, CpuMask, INITIAL_PID_NAMESPACE, ListHead, MmStruct, Pid, PtRegs, ROOT,
    SCHED_CLASSES, SignalStruct, TaskStruct, Upid,
};

/// Scheduling class, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing to run.
    Idle,
    /// sched_ext.
    Ext,
    /// The kernel's own scheduler for ordinary tasks (only with `SCX_OPS_SWITCH_PARTIAL`).
    Fair,
    /// `SCHED_FIFO` and `SCHED_RR`.
    RealTime,
    /// `SCHED_DEADLINE`.
    Deadline,
}

/// Whether the scheduler or the core owns a task that waits for a CPU (`enum scx_ops_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    /// The sched_ext core.
    None,
    /// On its way to the scheduler.
    Queueing,
    /// The scheduler.
    Queued,
    /// On its way back.
    Dispatching,
}

/// A task. The part that schedulers see comes first, so that a pointer to it is a pointer to the task.
#[repr(C)]
pub struct Task {
    /// The fields that schedulers see.
    pub seen: TaskStruct,
    /// Dense number.
    pub id: TaskId,
    /// Its name in results.
    pub name: String,
    /// Whether the run does not wait for it.
    pub daemon: bool,
    /// How much of a last-level cache it uses, in bytes; 0 if that is not known.
    pub footprint: u64,
    /// Class that schedules it now; see [`Task::set_class`].
    pub class: Class,
    /// Its pid, as schedulers see it.
    pid: Pid,
    /// Its process, as schedulers see it, if it is the first thread of one.
    signal: SignalStruct,
    /// Owner while it waits.
    pub ops_state: OpsState,
    /// Its position in its run queue's list of waiting runnable tasks, if it is on it; later arrivals have higher ones.
    pub runnable_place: Option<u64>,
    /// The dispatch queue it is on.
    pub dsq: Option<DsqRef>,
    /// Neighbours on that queue.
    pub dsq_previous: Option<TaskRef>,
    /// Neighbours on that queue.
    pub dsq_next: Option<TaskRef>,
    /// The slice that the scheduler has asked for but its CPU has not seen yet.
    pub requested_slice: Option<u64>,
    /// Whether the sinks know its slice as one without end.
    pub told_endless: bool,
    /// Virtual time with which it was queued, if the queue is ordered by it.
    pub dsq_key: u64,
    /// Order of arrival among equals on that queue.
    pub dsq_arrival: u64,
    /// Its deadline scheduling.
    pub deadline: DeadlineEntity,
    /// Ticks of its `SCHED_RR` quantum that are used up.
    pub round_robin_ticks: u32,
    /// Slice left in the fair class, nanoseconds.
    pub fair_slice: u64,
    /// Virtual runtime in the fair class.
    pub fair_vruntime: u64,
    /// The registers with which it entered the kernel, as far as schedulers ask for them.
    pub registers: PtRegs,
    /// Program and progress.
    pub execution: Execution,
    /// Values in task-storage maps, by map number.
    pub storage: Vec<Option<Box<[u64]>>>,
    /// The CPU it ran on last; its caches are warm there.
    pub last_ran_on: Option<usize>,
    /// CPU time that it used before the run began.
    pub cpu_time_before: u64,
    /// When the switch that takes it off its CPU is over; nothing can continue it before.
    pub off_cpu_at: u64,
    /// Since when it has been waiting to run; the stall watchdog rounds it to jiffies.
    pub runnable_since: u64,
    /// References that the scheduler holds (`bpf_task_acquire`).
    pub references: u32,
    /// The task that forked it during the run.
    pub parent: Option<TaskId>,
    /// Attributes from the workload's `fairground` key.
    pub attributes: Vec<(String, String)>,
    /// The weight that the workload wants the task to have relative to others, if not that of its nice value.
    pub wanted_weight: Option<u32>,
    /// Index of its cgroup.
    pub cgroup: usize,
}

/// A process that the workload names: tasks that share an address space.
pub struct Process {
    /// Its name in the workload.
    pub name: String,
    /// Its address space.
    pub memory: Box<MmStruct>,
    /// Its first task.
    pub leader: TaskRef,
}

/// A handle to a task of one simulation.
pub type TaskRef = Handle<Task>;

impl std::fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}]", self.name, self.seen.pid)
    }
}

impl TaskRef {
    /// The first thread of its process, once it is in one.
    pub fn leader(self) -> Option<TaskRef> {
        // SAFETY: only this model sets the pointer: to a task, or not at all.
        unsafe { Handle::at(self.seen.group_leader.cast()) }
    }

    /// The CPU the task is on or was on last.
    pub fn cpu(self) -> usize {
        self.seen.thread_info.cpu as usize
    }

    /// The CPUs it may use now (`p->cpus_ptr`).
    pub fn allowed(&self) -> &CpuMask {
        // SAFETY: the pointer leads to the task's own mask or to a kernel mask that lives as long.
        unsafe { &*self.seen.cpus_ptr }
    }

    /// Whether its own mask says which CPUs it may use now, as everywhere but in a section without migration.
    pub fn is_allowed_by_own_mask(&self) -> bool {
        std::ptr::eq(self.seen.cpus_ptr, &raw const self.seen.cpus_mask)
    }

    /// Sets the CPUs that it may use (`set_cpus_allowed_common`).
    pub fn allow(&mut self, mask: CpuMask) {
        self.seen.cpus_mask = mask;
        self.seen.nr_cpus_allowed = mask.weight() as i32;
    }

    /// Name and pid as the kernel prints them.
    pub fn label(self) -> String {
        format!("{}[{}]", self.name, self.seen.pid)
    }
}

impl Task {
    /// A task with nothing to do yet; pointers into itself are set once it is in its place.
    pub fn blank(id: TaskId, name: String, pid: i32, allowed: CpuMask, cpus: usize) -> Task {
        // SAFETY: every field of the structures is an integer, a bool or a raw pointer, for which zero is a value.
        let (mut seen, signal): (TaskStruct, SignalStruct) = unsafe { std::mem::zeroed() };
        seen.pid = pid;
        seen.tgid = pid;
        seen.prio = 120;
        seen.static_prio = 120;
        seen.normal_prio = 120;
        seen.se.load.weight = 1024;
        seen.se.load.inv_weight = 4_194_304;
        seen.cpus_mask = allowed;
        seen.nr_cpus_allowed = cpus as i32;
        seen.numa_preferred_nid = -1;
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
        seen.uclamp_req = [0, 1024].map(ClampRequest::of);
        seen.uclamp = seen.uclamp_req;
        seen.real_cred = &raw const ROOT;
        seen.cred = &raw const ROOT;
        let number = Upid { nr: pid, ns: &raw const INITIAL_PID_NAMESPACE };
        let mut task = Task {
            seen,
            id,
            name,
            daemon: false,
            footprint: 0,
            class: Class::Ext,
            pid: Pid { level: 0, numbers: [number] },
            signal,
            ops_state: OpsState::None,
            runnable_place: None,
            dsq: None,
            dsq_previous: None,
            dsq_next: None,
            requested_slice: None,
            told_endless: false,
            dsq_key: 0,
            dsq_arrival: 0,
            deadline: DeadlineEntity::default(),
            round_robin_ticks: 0,
            fair_slice: 0,
            fair_vruntime: 0,
            registers: PtRegs::default(),
            execution: Execution::new(usize::MAX, &[], 0),
            storage: Vec::new(),
            last_ran_on: None,
            cpu_time_before: 0,
            off_cpu_at: 0,
            runnable_since: 0,
            references: 1,
            parent: None,
            attributes: Vec::new(),
            wanted_weight: None,
            cgroup: 0,
        };
        task.set_class(Class::Ext);
        task
    }

    /// Moves the task to another class.
    pub fn set_class(&mut self, class: Class) {
        self.class = class;
        self.seen.sched_class = (&raw const SCHED_CLASSES[class as usize]).cast();
    }
}

impl TaskRef {
    /// Sets the task's pointers into itself.
    pub fn fix_pointers(mut self) {
        let mask: *const CpuMask = &raw const self.seen.cpus_mask;
        self.seen.cpus_ptr = mask;
        if self.seen.real_parent.is_null() {
            let itself = self.address() as *mut TaskStruct;
            self.seen.real_parent = itself;
            self.seen.parent = itself;
        }
        self.seen.thread_pid = &raw mut self.pid;
        self.join_process(self.leader().unwrap_or(self));
    }

    /// Asks for the utilization of its policy: a real-time task for all that there is (`sysctl_sched_uclamp_util_min_rt_default`).
    pub fn request_utilization(mut self) {
        let is_real_time = [SCHED_FIFO, SCHED_RR].contains(&self.seen.policy);
        self.seen.uclamp_req[0] = ClampRequest::of(if is_real_time { 1024 } else { 0 });
        self.seen.uclamp = self.seen.uclamp_req;
    }

    /// Makes the task a thread of the process that `leader` is the first thread of.
    pub fn join_process(mut self, mut leader: TaskRef) {
        self.leave_process();
        if leader == self {
            let head = &raw mut self.signal.thread_head;
            self.signal.thread_head = ListHead { next: head, prev: head };
            self.signal.pids = [&raw mut self.pid; 4];
        }
        // A thread's end is no signal for the parent, that of the process is.
        self.seen.exit_signal = if leader == self { SIGCHLD } else { -1 };
        self.seen.group_leader = leader.address() as *mut TaskStruct;
        self.seen.tgid = leader.seen.pid;
        self.seen.signal = &raw mut leader.signal;
        leader.signal.nr_threads += 1;
        let node = &raw mut self.seen.thread_node;
        let head = &raw mut leader.signal.thread_head;
        // SAFETY: the list consists of nodes in tasks, which never move; tasks that leave are removed from it.
        unsafe {
            let last = (*head).prev;
            *node = ListHead { next: head, prev: last };
            (*last).next = node;
            (*head).prev = node;
        }
    }

    /// Whether it is the last thread left of its process.
    pub fn is_last_of_its_process(self) -> bool {
        // SAFETY: the process's first thread, which holds this, lives as long as the simulation.
        unsafe { (*self.seen.signal).nr_threads == 1 }
    }

    /// Removes the task from the list of its process's threads.
    pub fn leave_process(mut self) {
        let ListHead { next, prev } = self.seen.thread_node;
        if next.is_null() {
            return;
        }
        // SAFETY: as above; the process's first thread lives as long as the simulation.
        unsafe {
            (*prev).next = next;
            (*next).prev = prev;
            (*self.seen.signal).nr_threads -= 1;
        }
        self.seen.thread_node = ListHead { next: std::ptr::null_mut(), prev: std::ptr::null_mut() };
    }
}
