//! The kernel structures that schedulers see, laid out for this kernel.
//!
//! CO-RE relocations resolve against these layouts by name, so offsets need not match any real kernel; names, meaning and widths do. This model
//! does not keep fields that are missing here: a scheduler that reads one is refused at load, with the field's name.

use std::mem::{offset_of, size_of};

use fairground_bpf::Field;
use fairground_linux::{Release, Releases};

use crate::constants::one_of;

/// Number of 64-bit words in a CPU mask; the same for every machine, as `NR_CPUS` is for a kernel.
pub const CPU_MASK_WORDS: usize = 64;
/// Largest number of CPUs a machine can have.
pub const MAX_CPUS: usize = CPU_MASK_WORDS * 64;

/// Levels of groups whose ancestors a scheduler can read, from the root to the group itself.
pub const GROUP_LEVELS: usize = 64;

/// How a type takes part in field look-ups.
pub trait KernelType {
    /// Name of the structure, if fields can be looked up inside it.
    const STRUCTURE: Option<&'static str> = None;
    /// Whether loads of it are sign-extended.
    const SIGNED: bool = false;
}

macro_rules! scalar_types {
    ($($t:ty: $signed:expr),*) => { $(impl KernelType for $t { const SIGNED: bool = $signed; })* };
}
scalar_types!(u8: false, u16: false, u32: false, u64: false, bool: false, i8: true, i16: true, i32: true, i64: true);
/// Type of a pointer to something of which this model keeps only the address.
pub type Opaque = *const u8;

impl<T> KernelType for *mut T {}
impl<T> KernelType for *const T {}
impl<T: KernelType, const N: usize> KernelType for [T; N] {}

impl ClampRequest {
    /// A request for this utilization, by the kernel's default number of buckets.
    pub fn of(value: u32) -> Self {
        const BUCKETS: u32 = 5;
        let width = (1024 + BUCKETS / 2) / BUCKETS;
        Self { value, bucket_id: (value / width).min(BUCKETS - 1), active: 0, user_defined: 0 }
    }
}

/// One named field of a structure.
pub struct FieldEntry {
    /// Its name in C.
    pub name: &'static str,
    /// Byte offset.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Whether it is a signed integer.
    pub signed: bool,
    /// The structure it is, if it is one.
    pub structure: Option<&'static str>,
    /// The releases that have it.
    pub releases: Releases,
}

/// One structure with its fields.
pub struct StructureEntry {
    /// Its name in C.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// The releases that have it.
    pub releases: Releases,
    /// Its fields.
    pub fields: &'static [FieldEntry],
}

/// Defines structures, and the table of them. A structure and a field are of all releases unless these are named.
macro_rules! kernel_structures {
    ($($(#[$meta:meta])* $rust:ident = $c:literal $(in $releases:literal)? {
        $($(#[$fmeta:meta])* $field:ident : $ty:ty $(= $since:literal)?),* $(,)?
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(missing_docs, non_snake_case)]
            pub struct $rust { $($(#[$fmeta])* pub $field: $ty),* }
            impl KernelType for $rust { const STRUCTURE: Option<&'static str> = Some($c); }
        )*
        /// Every structure that this kernel model has.
        pub static STRUCTURES: &[StructureEntry] = &[
            $(StructureEntry {
                name: $c,
                size: size_of::<$rust>(),
                releases: one_of!($(Releases::read($releases))?, Releases::ALL),
                fields: &[
                $(FieldEntry {
                    name: stringify!($field),
                    offset: offset_of!($rust, $field),
                    size: size_of::<$ty>(),
                    signed: <$ty as KernelType>::SIGNED,
                    structure: <$ty as KernelType>::STRUCTURE,
                    releases: one_of!($(Releases::read($since))?, Releases::ALL),
                }),*],
            }),*
        ];
    };
}

kernel_structures! {
    /// `struct cpumask`.
    CpuMask = "cpumask" { bits: [u64; CPU_MASK_WORDS] }
    /// `struct bpf_cpumask`.
    BpfCpuMask = "bpf_cpumask" { cpumask: CpuMask, usage: u32 }
    /// `struct load_weight`.
    LoadWeight = "load_weight" { weight: u64, inv_weight: u32 }
    /// `struct sched_avg`: kept at zero; sched_ext does not maintain it for its tasks either.
    SchedAvg = "sched_avg" { load_avg: u64, runnable_avg: u64, util_avg: u64 }
    /// `struct sched_entity`.
    SchedEntity = "sched_entity" {
        load: LoadWeight, vruntime: u64, exec_start: u64, sum_exec_runtime: u64,
        prev_sum_exec_runtime: u64, slice: u64, custom_slice: u8, nr_migrations: u64, avg: SchedAvg,
    }
    /// `struct scx_dispatch_q`, as far as pointers to it are compared.
    DispatchQueueHandle = "scx_dispatch_q" { nr: u32, seq: u32, id: u64 }
    /// `struct sched_ext_entity`.
    SchedExtEntity = "sched_ext_entity" {
        dsq: *mut DispatchQueueHandle, ddsp_dsq_id: u64, ddsp_enq_flags: u64,
        ddsp_slice: u64 = "7.3..", ddsp_vtime: u64 = "7.3..", dsq_seq: u32, dsq_flags: u32, flags: u32, weight: u32,
        reenq_cnt: u32 = "7.3..", sticky_cpu: i32, holding_cpu: i32, selected_cpu: i32 = "6.15..", runnable_cpu: i32 = "7.3..", ops_qseq: u32 = "7.3..",
        runnable_at: u64, tid: u64 = "7.2..", slice: u64, dsq_vtime: u64, disallow: bool,
    }
    /// `struct kernfs_node`.
    KernfsNode = "kernfs_node" { id: u64, name: *const u8, __parent: *mut KernfsNode = "6.15.." }
    /// `struct cgroup_subsys_state`.
    CgroupSubsysState = "cgroup_subsys_state" {
        cgroup: *mut Cgroup, refcnt: PercpuRef, id: i32, flags: u32, parent: *mut CgroupSubsysState,
    }
    /// `struct percpu_ref`: no group goes away during a run.
    PercpuRef = "percpu_ref" { percpu_count_ptr: u64 }
    /// `struct cgroup`.
    Cgroup = "cgroup" {
        self_: CgroupSubsysState, subsys: [*mut CgroupSubsysState; 14], kn: *mut KernfsNode, level: i32, nr_descendants: i32, dom_cgrp: *mut Cgroup,
        ancestors: [*mut Cgroup; GROUP_LEVELS],
    }
    /// `struct css_set`.
    CssSet = "css_set" { subsys: [*mut CgroupSubsysState; 14], dfl_cgrp: *mut Cgroup }
    /// `struct scx_task_group`.
    ScxTaskGroup = "scx_task_group" in "6.17.." {
        flags: u32, weight: u32, bw_period_us: u64, bw_quota_us: u64, bw_burst_us: u64, idle: bool = "6.19..",
    }
    /// `struct task_group`.
    TaskGroup = "task_group" { css: CgroupSubsysState, shares: u64, idle: i32, scx: ScxTaskGroup = "6.17.." }
    /// `struct mm_struct`: only its identity and its owner, the first thread of the process, matter.
    MmStruct = "mm_struct" { mm_users: u32, owner: *mut TaskStruct }
    /// `struct uclamp_se`: no group limits it, so a request is also what counts.
    ClampRequest = "uclamp_se" { value: u32, bucket_id: u32, active: u8, user_defined: u8 }
    /// `struct sched_statistics`: a kernel counts only with `kernel.sched_schedstats=1`, which is not its default.
    SchedStatistics = "sched_statistics" {
        wait_start: u64, wait_max: u64, wait_count: u64, wait_sum: u64, iowait_count: u64, iowait_sum: u64, sleep_start: u64, sleep_max: u64,
        sum_sleep_runtime: i64, block_start: u64, block_max: u64, sum_block_runtime: i64, exec_max: i64, slice_max: u64,
        nr_failed_migrations_affine: u64, nr_failed_migrations_running: u64, nr_failed_migrations_hot: u64,
        nr_forced_migrations: u64, nr_wakeups: u64, nr_wakeups_sync: u64, nr_wakeups_migrate: u64, nr_wakeups_local: u64,
        nr_wakeups_remote: u64, nr_wakeups_affine: u64, nr_wakeups_affine_attempts: u64,
    }
    /// `struct list_head`.
    ListHead = "list_head" { next: *mut ListHead, prev: *mut ListHead }
    /// `struct signal_struct`: the data that the threads of a process share.
    SignalStruct = "signal_struct" { nr_threads: i32, thread_head: ListHead, pids: [*mut Pid; 4] }
    /// `struct ns_common`.
    NsCommon = "ns_common" { inum: u32 }
    /// `struct pid_namespace`: there is only one.
    PidNamespace = "pid_namespace" { level: u32, ns: NsCommon }
    /// `struct upid`.
    Upid = "upid" { nr: i32, ns: *const PidNamespace }
    /// `struct pid`.
    Pid = "pid" { level: u32, numbers: [Upid; 1] }
    /// `kuid_t`.
    UserId = "kuid_t" { val: u32 }
    /// `kgid_t`.
    GroupId = "kgid_t" { val: u32 }
    /// `struct cred`: all tasks are root's.
    Credentials = "cred" {
        uid: UserId, gid: GroupId, suid: UserId, sgid: GroupId, euid: UserId, egid: GroupId, fsuid: UserId, fsgid: GroupId,
    }
    /// `nodemask_t`.
    NodeMask = "nodemask_t" { bits: [u64; 16] }
    /// `struct mempolicy`: no task has one.
    Mempolicy = "mempolicy" { mode: u16, flags: u16, nodes: NodeMask, home_node: i32 }
    /// `struct thread_info`.
    ThreadInfo = "thread_info" { flags: u64, cpu: u32 }
    /// `struct task_struct`: no task prefers a node or shares pages with others in a group, because nothing looks at where its memory is. The large mask comes last, so that fields that every
    /// switch touches lie close together.
    TaskStruct = "task_struct" {
        thread_info: ThreadInfo, __state: u32, flags: u32, on_cpu: u32, on_rq: u32,
        wakee_flips: u32, wakee_flip_decay_ts: u64, last_wakee: *mut TaskStruct, recent_used_cpu: i32, wake_cpu: i32,
        prio: i32, static_prio: i32, normal_prio: i32, rt_priority: u32,
        se: SchedEntity, scx: SchedExtEntity, sched_task_group: *mut TaskGroup,
        policy: u32, nr_cpus_allowed: i32, cpus_ptr: *const CpuMask,
        migration_disabled: u16, mm: *mut MmStruct, active_mm: *mut MmStruct, exit_state: i32, exit_code: i32,
        in_iowait: u8, pid: i32, tgid: i32, real_parent: *mut TaskStruct, parent: *mut TaskStruct,
        group_leader: *mut TaskStruct, utime: u64, stime: u64, nvcsw: u64, nivcsw: u64, start_time: u64,
        start_boottime: u64, comm: [u8; 16], cgroups: *mut CssSet, thread_pid: *mut Pid, thread_node: ListHead,
        signal: *mut SignalStruct, real_cred: *const Credentials, cred: *const Credentials, mempolicy: *mut Mempolicy,
        numa_preferred_nid: i32, numa_group: Opaque, numa_faults: *const u64, total_numa_faults: u64, sched_class: Opaque,
        ptrace: u32, exit_signal: i32, gtime: u64, min_flt: u64, maj_flt: u64, worker_private: Opaque, uclamp_req: [ClampRequest; 2], uclamp: [ClampRequest; 2], stats: SchedStatistics,
        cpus_mask: CpuMask,
    }
    /// `struct scx_rq`.
    ScxRq = "scx_rq" { nr_running: u32, nr_immed: u32 = "7.1..", flags: u32, cpu_released: bool, clock: u64 = "6.14..", ops_qseq: u64 = "..7.3" }
    /// `struct rq`.
    RunQueue = "rq" {
        nr_running: u32, cpu: i32, online: i32, clock: u64, clock_task: u64, clock_pelt: u64, lost_idle_time: u64,
        curr: *mut TaskStruct, idle: *mut TaskStruct, scx: ScxRq,
    }
    /// `struct scx_init_task_args`.
    InitTaskArgs = "scx_init_task_args" { fork: bool, cgroup: *mut Cgroup }
    /// `struct scx_exit_task_args`.
    ExitTaskArgs = "scx_exit_task_args" { cancelled: bool }
    /// `struct scx_cpu_acquire_args`: empty in C.
    CpuAcquireArgs = "scx_cpu_acquire_args" { }
    /// `struct scx_cpu_release_args`.
    CpuReleaseArgs = "scx_cpu_release_args" { reason: u32, task: *mut TaskStruct }
    /// `struct scx_enable_args`, only in the cid form.
    EnableArgs = "scx_enable_args" in "7.2.." { cmask_arena_addr: u64 }
    /// `struct scx_cid_topo`.
    CidTopology = "scx_cid_topo" in "7.2.." {
        core_cid: i32, core_idx: i32, llc_cid: i32, llc_idx: i32, node_cid: i32, node_idx: i32, shard_cid: i32 = "7.3..", shard_idx: i32 = "7.3..",
    }
    /// `struct scx_cgroup_init_args`.
    CgroupInitArgs = "scx_cgroup_init_args" {
        weight: u32, bw_period_us: u64 = "6.17..", bw_quota_us: u64 = "6.17..", bw_burst_us: u64 = "6.17..", sched_idle: bool = "7.3..",
    }
    /// `struct scx_exit_info`.
    ExitInfo = "scx_exit_info" {
        kind: u32, exit_cpu: i32 = "7.3..", exit_code: i64, flags: u64 = "6.18..", reason: *const u8, bt: *const u64, bt_len: u32,
        msg: *const u8, dump: *const u8,
    }
    /// `struct scx_dump_ctx`.
    DumpContext = "scx_dump_ctx" {
        kind: u32, exit_code: i64, reason: *const u8, at_ns: u64, at_jiffies: u64,
    }
    /// `struct scx_event_stats`, in the kernel's order.
    EventStats = "scx_event_stats" in "6.15.." {
        SCX_EV_SELECT_CPU_FALLBACK: i64, SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE: i64, SCX_EV_DISPATCH_KEEP_LAST: i64,
        SCX_EV_ENQ_SKIP_EXITING: i64, SCX_EV_ENQ_SKIP_MIGRATION_DISABLED: i64, SCX_EV_REENQ_IMMED: i64 = "7.1..",
        SCX_EV_REENQ_REPEAT: i64 = "7.1..", SCX_EV_REFILL_SLICE_DFL: i64 = "6.16..", SCX_EV_SLICE_CLAMPED: i64 = "7.3..", SCX_EV_SLICE_DENIED: i64 = "7.3..",
        SCX_EV_BYPASS_DURATION: i64, SCX_EV_BYPASS_DISPATCH: i64, SCX_EV_BYPASS_ACTIVATE: i64,
        SCX_EV_INSERT_NOT_OWNED: i64 = "7.1..", SCX_EV_SUB_BYPASS_DISPATCH: i64 = "7.1..",
    }
    /// `struct scx_bpf_dsq_insert_vtime_args`.
    InsertVtimeArgs = "scx_bpf_dsq_insert_vtime_args" in "6.19.." { dsq_id: u64, slice: u64, vtime: u64, enq_flags: u64 }
    /// `struct scx_bpf_select_cpu_and_args`.
    SelectCpuAndArgs = "scx_bpf_select_cpu_and_args" in "6.19.." { prev_cpu: i32, wake_flags: u64, flags: u64 }
    /// `struct bpf_iter_scx_dsq`.
    DsqIterator = "bpf_iter_scx_dsq" { slot: u64, slice: u64, vtime: u64, overrides: u64, unused: [u64; 2] }
    /// `struct bpf_iter_css`.
    GroupIterator = "bpf_iter_css" { order: u64, position: u64, unused: u64 }
    /// `struct trace_entry`: the beginning of every tracepoint record.
    TraceEntry = "trace_entry" { type_: u16, flags: u8, preempt_count: u8, pid: i32 }
    /// Record of `sched_switch`.
    SwitchTrace = "trace_event_raw_sched_switch" {
        ent: TraceEntry, prev_comm: [u8; 16], prev_pid: i32, prev_prio: i32, prev_state: i64,
        next_comm: [u8; 16], next_pid: i32, next_prio: i32,
    }
    /// Record of `sched_waking`, `sched_wakeup` and `sched_wakeup_new`.
    WakeupTrace = "trace_event_raw_sched_wakeup_template" {
        ent: TraceEntry, comm: [u8; 16], pid: i32, prio: i32, target_cpu: i32,
    }
    /// Record of `sched_migrate_task`.
    MigrateTrace = "trace_event_raw_sched_migrate_task" {
        ent: TraceEntry, __data_loc_comm: u32 = "6.16..", pid: i32, prio: i32, orig_cpu: i32, dest_cpu: i32,
    }
    /// Record of `sched_process_fork`.
    ForkTrace = "trace_event_raw_sched_process_fork" {
        ent: TraceEntry, __data_loc_parent_comm: u32 = "6.16..", parent_pid: i32, __data_loc_child_comm: u32 = "6.16..", child_pid: i32,
    }
    /// Record of `sched_process_exit`.
    ExitTrace = "trace_event_raw_sched_process_exit" in "6.16.." {
        ent: TraceEntry, comm: [u8; 16], pid: i32, prio: i32, group_dead: bool,
    }
    /// Record of the entry of a system call.
    SyscallEntryTrace = "trace_event_raw_sys_enter" { ent: TraceEntry, id: i64, args: [u64; 6] }
    /// Record of the return of a system call.
    SyscallExitTrace = "trace_event_raw_sys_exit" { ent: TraceEntry, id: i64, ret: i64 }
    /// `struct pt_regs` on x86.
    PtRegs = "pt_regs" {
        r15: u64, r14: u64, r13: u64, r12: u64, bp: u64, bx: u64, r11: u64, r10: u64, r9: u64, r8: u64, ax: u64, cx: u64,
        dx: u64, si: u64, di: u64, orig_ax: u64, ip: u64, cs: u64, flags: u64, sp: u64, ss: u64,
    }
    /// `struct bpf_iter_num`.
    NumberIterator = "bpf_iter_num" { current: i32, end: i32 }
}

/// The user and the groups of every task.
pub static ROOT: Credentials = Credentials {
    uid: UserId { val: 0 },
    gid: GroupId { val: 0 },
    suid: UserId { val: 0 },
    sgid: GroupId { val: 0 },
    euid: UserId { val: 0 },
    egid: GroupId { val: 0 },
    fsuid: UserId { val: 0 },
    fsgid: GroupId { val: 0 },
};
/// The namespace that all tasks are in; its number is that of a kernel's first one.
pub static INITIAL_PID_NAMESPACE: PidNamespace =
    PidNamespace { level: 0, ns: NsCommon { inum: 0xeffffffc } };
/// Scheduling classes in the order of [`crate::task::Class`]; only their addresses are compared.
pub static SCHED_CLASSES: [u64; 5] = [0; 5];

impl Default for PtRegs {
    fn default() -> Self {
        // SAFETY: all registers are numbers, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

impl Default for CpuMask {
    fn default() -> Self {
        CpuMask { bits: [0; CPU_MASK_WORDS] }
    }
}

/// The layout of `structure`, by its C name.
pub fn find(structure: &str) -> Option<&'static StructureEntry> {
    STRUCTURES.iter().find(|entry| entry.name == structure)
}

/// The same if `release` has it.
pub fn find_in(structure: &str, release: Release) -> Option<&'static StructureEntry> {
    find(structure).filter(|entry| entry.releases.contains(release))
}

/// Resolves `structure.path[0].path[1]…` in `release`; array subscripts are given as numbers by the caller and not handled here.
pub fn resolve(structure: &str, path: &[&str], release: Release) -> Option<Field> {
    let mut entry = find_in(structure, release)?;
    let mut offset = 0;
    for (depth, name) in path.iter().enumerate() {
        // A name that is a Rust keyword has a trailing underscore here.
        let is_it =
            |field: &&FieldEntry| field.name.strip_suffix('_').unwrap_or(field.name) == *name;
        let field = entry.fields.iter().find(is_it)?;
        if !field.releases.contains(release) {
            return None;
        }
        offset += field.offset;
        if depth + 1 == path.len() {
            return Some(Field {
                offset: offset as u32,
                size: field.size as u32,
                bits: None,
                signed: field.signed,
            });
        }
        entry = find_in(field.structure?, release)?;
    }
    None
}
