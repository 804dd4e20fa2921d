/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmlinux.h - the part of the kernel's interface that a sched_ext scheduler sees
 *
 * Written for fairground from the interface of Linux 7.3; valid for 6.18 and later. It holds what a
 * vmlinux.h generated from a kernel's BTF holds, types and enumerations and no macros, but only the
 * structures and the fields that schedulers read. Every access is relocated when the object is
 * loaded (CO-RE), so a structure may list its fields in any order and leave out any of them.
 * Exceptions are the structures that a scheduler itself allocates, such as iterators and argument
 * blocks: those have the kernel's exact layout.
 *
 * The values of the enumerations are those of 7.3. Those that differ between kernels (scx_enq_flags
 * and others) are read through bpf_core_enum_value(), see kfuncs.bpf.h.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* Basic types */

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __le16;
typedef __u16 __be16;
typedef __u32 __le32;
typedef __u32 __be32;
typedef __u64 __le64;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s8 int8_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
typedef long __kernel_long_t;
typedef unsigned long __kernel_ulong_t;
typedef __kernel_ulong_t __kernel_size_t;
typedef __kernel_long_t __kernel_ssize_t;
typedef __kernel_size_t size_t;
typedef __kernel_ssize_t ssize_t;
typedef unsigned long uintptr_t;
typedef int __kernel_pid_t;
typedef __kernel_pid_t pid_t;
typedef unsigned int __kernel_uid32_t;
typedef __kernel_uid32_t uid_t;
typedef unsigned int gfp_t;
typedef _Bool bool;

enum {
	false = 0,
	true = 1,
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef atomic64_t atomic_long_t;

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

struct hlist_node {
	struct hlist_node *next;
	struct hlist_node **pprev;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct callback_head {
	struct callback_head *next;
	void (*func)(struct callback_head *head);
};

/* BPF: map types, flags, and the objects that live in maps */

enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_SOCKMAP = 15,
	BPF_MAP_TYPE_CPUMAP = 16,
	BPF_MAP_TYPE_XSKMAP = 17,
	BPF_MAP_TYPE_SOCKHASH = 18,
	BPF_MAP_TYPE_CGROUP_STORAGE_DEPRECATED = 19,
	BPF_MAP_TYPE_CGROUP_STORAGE = 19,
	BPF_MAP_TYPE_REUSEPORT_SOCKARRAY = 20,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE_DEPRECATED = 21,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE = 21,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_DEVMAP_HASH = 25,
	BPF_MAP_TYPE_STRUCT_OPS = 26,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_BLOOM_FILTER = 30,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
	BPF_MAP_TYPE_ARENA = 33,
	BPF_MAP_TYPE_INSN_ARRAY = 34,
	BPF_MAP_TYPE_RHASH = 35,
	__MAX_BPF_MAP_TYPE = 36,
};

/* Flags of bpf_map_update_elem() */
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_LOCK = 4,
	BPF_F_CPU = 8,
	BPF_F_ALL_CPUS = 16,
};

/* Flags of map creation */
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_NO_COMMON_LRU = 1U << 1,
	BPF_F_NUMA_NODE = 1U << 2,
	BPF_F_RDONLY = 1U << 3,
	BPF_F_WRONLY = 1U << 4,
	BPF_F_STACK_BUILD_ID = 1U << 5,
	BPF_F_ZERO_SEED = 1U << 6,
	BPF_F_RDONLY_PROG = 1U << 7,
	BPF_F_WRONLY_PROG = 1U << 8,
	BPF_F_CLONE = 1U << 9,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_PRESERVE_ELEMS = 1U << 11,
	BPF_F_INNER_MAP = 1U << 12,
	BPF_F_LINK = 1U << 13,
	BPF_F_PATH_FD = 1U << 14,
	BPF_F_VTYPE_BTF_OBJ_FD = 1U << 15,
	BPF_F_TOKEN_FD = 1U << 16,
	BPF_F_SEGV_ON_FAULT = 1U << 17,
	BPF_F_NO_USER_CONV = 1U << 18,
	BPF_F_RB_OVERWRITE = 1U << 19,
};

/* Flags of bpf_*_storage_get() */
enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1ULL << 0,
	BPF_SK_STORAGE_GET_F_CREATE = 1ULL << 0,
};

/* Flags of the ring buffer helpers and of its query */
enum {
	BPF_RB_NO_WAKEUP = 1ULL << 0,
	BPF_RB_FORCE_WAKEUP = 1ULL << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_RB_CONS_POS = 2,
	BPF_RB_PROD_POS = 3,
	BPF_RB_OVERWRITE_POS = 4,
};

/* Flags of bpf_timer_start() */
enum {
	BPF_F_TIMER_ABS = 1ULL << 0,
	BPF_F_TIMER_CPU_PIN = 1ULL << 1,
};

/* Limit of bpf_loop() and of may_goto */
enum {
	BPF_MAX_LOOPS = 8388608,
};

enum page_size_enum {
	__PAGE_SIZE = 4096,
};

enum {
	BPF_F_INDEX_MASK = 0xffffffffULL,
	BPF_F_CURRENT_CPU = 0xffffffffULL,
};

struct bpf_spin_lock {
	__u32 val;
};

struct bpf_res_spin_lock {
	u32 val;
};

struct bpf_timer {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_wq {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_task_work {
	__u64 __opaque;
} __attribute__((aligned(8)));

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

struct bpf_dynptr {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_head {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_node {
	__u64 __opaque[3];
} __attribute__((aligned(8)));

struct bpf_rb_root {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	__u64 __opaque[4];
} __attribute__((aligned(8)));

struct bpf_refcount {
	__u32 __opaque[1];
} __attribute__((aligned(4)));

struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_bits {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_css {
	__u64 __opaque[3];
} __attribute__((aligned(8)));

struct bpf_iter_css_task {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_task {
	__u64 __opaque[3];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 __opaque[6];
} __attribute__((aligned(8)));

enum {
	BPF_TASK_ITER_ALL_PROCS = 0,
	BPF_TASK_ITER_ALL_THREADS = 1,
	BPF_TASK_ITER_PROC_THREADS = 2,
};

enum bpf_cgroup_iter_order {
	BPF_CGROUP_ITER_ORDER_UNSPEC = 0,
	BPF_CGROUP_ITER_SELF_ONLY = 1,
	BPF_CGROUP_ITER_DESCENDANTS_PRE = 2,
	BPF_CGROUP_ITER_DESCENDANTS_POST = 3,
	BPF_CGROUP_ITER_ANCESTORS_UP = 4,
	BPF_CGROUP_ITER_CHILDREN = 5,
};

struct bpf_map {
	enum bpf_map_type map_type;
	u32 key_size;
	u32 value_size;
	u32 max_entries;
};

/* Processors and topology */

typedef struct cpumask {
	unsigned long bits[128];
} cpumask_t;

/* A kernel sizes struct cpumask by NR_CPUS; 128 words hold 8192, as in distribution kernels. */
struct bpf_cpumask {
	cpumask_t cpumask;
	refcount_t usage;
};

/* Control groups */

struct kernfs_node {
	refcount_t count;
	const char *name;
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys *ss;
	int id;
	unsigned int flags;
	u64 serial_nr;
	atomic_t online_cnt;
	struct cgroup_subsys_state *parent;
};

/* Numbers as with all controllers before these compiled in, as in distribution kernels */
enum cgroup_subsys_id {
	cpuset_cgrp_id = 0,
	cpu_cgrp_id = 1,
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct cgroup_subsys_state *subsys[14];
	unsigned long flags;
	int level;
	int nr_descendants;
	int nr_dying_descendants;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_root {
	unsigned int subsys_mask;
	int hierarchy_id;
	struct cgroup cgrp;
};

struct css_set {
	struct cgroup_subsys_state *subsys[14];
	refcount_t refcount;
	struct cgroup *dfl_cgrp;
	int nr_tasks;
};

struct scx_task_group {
	u32 flags;
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
	bool idle;
};

struct task_group {
	struct cgroup_subsys_state css;
	int idle;
	unsigned long shares;
	struct scx_task_group scx;
	struct task_group *parent;
};

/* Tasks */

struct thread_info {
	unsigned long flags;
	u32 status;
	u32 cpu;
};

struct load_weight {
	unsigned long weight;
	u32 inv_weight;
};

struct sched_avg {
	u64 last_update_time;
	u64 load_sum;
	u64 runnable_sum;
	u32 util_sum;
	u32 period_contrib;
	unsigned long load_avg;
	unsigned long runnable_avg;
	unsigned long util_avg;
	unsigned int util_est;
};

struct sched_entity {
	struct load_weight load;
	u64 deadline;
	u64 min_vruntime;
	unsigned char on_rq;
	unsigned char custom_slice;
	u64 exec_start;
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
	u64 vruntime;
	u64 slice;
	u64 nr_migrations;
	struct sched_avg avg;
};

struct sched_rt_entity {
	unsigned long timeout;
	unsigned long watchdog_stamp;
	unsigned int time_slice;
	unsigned short on_rq;
	unsigned short on_list;
};

struct sched_dl_entity {
	u64 dl_runtime;
	u64 dl_deadline;
	u64 dl_period;
	s64 runtime;
	u64 deadline;
	unsigned int flags;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct scx_dispatch_q {
	struct task_struct *first_task;
	u32 nr;
	u32 seq;
	u64 id;
};

struct scx_dsq_list_node {
	struct list_head node;
	u32 flags;
	u32 priv;
};

struct sched_ext_entity {
	struct scx_dispatch_q *dsq;
	atomic_long_t ops_state;
	u64 ddsp_dsq_id;
	u64 ddsp_enq_flags;
	struct scx_dsq_list_node dsq_list;
	struct rb_node dsq_priq;
	u32 dsq_seq;
	u32 dsq_flags;
	u32 flags;
	u32 weight;
	s32 sticky_cpu;
	s32 holding_cpu;
	s32 selected_cpu;
	struct list_head runnable_node;
	unsigned long runnable_at;
	u64 tid;
	u64 slice;
	u64 dsq_vtime;
	u64 reenq_reason_caps;
	s32 reenq_reason_cid;
	bool disallow;
	struct cgroup *cgrp_moving_from;
	struct list_head tasks_node;
};

struct vm_area_struct;

struct mm_struct {
	atomic_t mm_users;
	atomic_t mm_count;
	int map_count;
	unsigned long total_vm;
	struct task_struct *owner;
};

struct signal_struct {
	int nr_threads;
	unsigned int flags;
	int group_exit_code;
};

/* Registers with which a task entered the kernel, on x86; elsewhere they have other names */
struct pt_regs {
	unsigned long ax;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int saved_state;
	refcount_t usage;
	unsigned int flags;
	unsigned int ptrace;
	int on_cpu;
	unsigned int wakee_flips;
	unsigned long wakee_flip_decay_ts;
	struct task_struct *last_wakee;
	int recent_used_cpu;
	int wake_cpu;
	int on_rq;
	int prio;
	int static_prio;
	int normal_prio;
	unsigned int rt_priority;
	struct sched_entity se;
	struct sched_rt_entity rt;
	struct sched_dl_entity dl;
	struct sched_ext_entity scx;
	const struct sched_class *sched_class;
	struct task_group *sched_task_group;
	unsigned int policy;
	unsigned long max_allowed_capacity;
	int nr_cpus_allowed;
	const cpumask_t *cpus_ptr;
	cpumask_t *user_cpus_ptr;
	cpumask_t cpus_mask;
	unsigned short migration_disabled;
	unsigned short migration_flags;
	struct sched_info sched_info;
	struct list_head tasks;
	struct mm_struct *mm;
	struct mm_struct *active_mm;
	int exit_state;
	int exit_code;
	int exit_signal;
	unsigned int personality;
	unsigned int in_execve : 1;
	unsigned int in_iowait : 1;
	pid_t pid;
	pid_t tgid;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct list_head children;
	struct list_head sibling;
	struct task_struct *group_leader;
	u64 utime;
	u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	u64 start_boottime;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	unsigned long last_switch_count;
	unsigned long last_switch_time;
	struct signal_struct *signal;
	struct css_set *cgroups;
	refcount_t rcu_users;
};

/* Run queues */

enum scx_rq_flags {
	SCX_RQ_ONLINE = 1 << 0,
	SCX_RQ_CAN_STOP_TICK = 1 << 1,
	SCX_RQ_CLK_VALID = 1 << 5,
	SCX_RQ_BAL_CB_PENDING = 1 << 6,
	SCX_RQ_SUB_IDLE_RENOTIFY = 1 << 7,
	SCX_RQ_ROOT_IDLE_RENOTIFY = 1 << 8,
	SCX_RQ_IN_WAKEUP = 1 << 16,
	SCX_RQ_IN_DISPATCH = 1 << 17,
};

struct scx_rq {
	struct scx_dispatch_q local_dsq;
	u32 nr_running;
	u32 cpuperf_target;
	bool cpu_released;
	u32 flags;
	u32 nr_immed;
	u64 clock;
};

struct rq {
	unsigned int nr_running;
	struct scx_rq scx;
	struct task_struct *curr;
	struct task_struct *idle;
	struct task_struct *stop;
	u64 clock;
	u64 clock_task;
	u64 clock_pelt;
	unsigned long lost_idle_time;
	u64 prev_steal_time_rq;
	u64 nr_switches;
	unsigned long cpu_capacity;
	int cpu;
	int online;
};

/* sched_ext: constants (include/linux/sched/ext.h, kernel/sched/ext/) */

enum scx_public_consts {
	SCX_OPS_NAME_LEN = 128,
	SCX_SLICE_DFL = 20000000,
	SCX_SLICE_BYPASS = 5000000,
	SCX_SLICE_INF = 18446744073709551615ULL,
};

enum scx_consts {
	SCX_DSP_DFL_MAX_BATCH = 32,
	SCX_DSP_MAX_LOOPS = 32,
	SCX_RESCUE_DFL_BW_PPT = 20,
	SCX_RESCUE_MAX_BW_PPT = 250,
	SCX_RESCUE_DISABLE = 4294967295U,
	SCX_RESCUE_DFL_QUANTUM_US = 5000,
	SCX_RESCUE_MIN_QUANTUM_US = 1000,
	SCX_RESCUE_MAX_QUANTUM_US = 100000,
	SCX_EXIT_BT_LEN = 64,
	SCX_EXIT_MSG_LEN = 1024,
	SCX_EXIT_DUMP_DFL_LEN = 32768,
	SCX_CPUPERF_ONE = 1024,
	SCX_TASK_ITER_BATCH = 32,
	SCX_REENQ_MAX_REPEAT = 256,
	SCX_SUB_MAX_DEPTH = 4,
};

enum scx_dsq_id_flags {
	SCX_DSQ_FLAG_BUILTIN = 1ULL << 63,
	SCX_DSQ_FLAG_LOCAL_ON = 1ULL << 62,
	SCX_DSQ_INVALID = 1ULL << 63,
	SCX_DSQ_GLOBAL = (1ULL << 63) | 1,
	SCX_DSQ_LOCAL = (1ULL << 63) | 2,
	SCX_DSQ_BYPASS = (1ULL << 63) | 3,
	SCX_DSQ_REJECT = (1ULL << 63) | 4,
	SCX_DSQ_RESCUE = (1ULL << 63) | 5,
	SCX_DSQ_LOCAL_ON = (1ULL << 63) | (1ULL << 62),
	SCX_DSQ_LOCAL_CPU_MASK = 0xffffffffULL,
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
	SCX_EXIT_DONE = 1,
	SCX_EXIT_UNREG = 64,
	SCX_EXIT_UNREG_BPF = 65,
	SCX_EXIT_UNREG_KERN = 66,
	SCX_EXIT_SYSRQ = 67,
	SCX_EXIT_PARENT = 68,
	SCX_EXIT_PARENT_KILL = 69,
	SCX_EXIT_ERROR = 1024,
	SCX_EXIT_ERROR_BPF = 1025,
	SCX_EXIT_ERROR_STALL = 1026,
	SCX_EXIT_ERROR_REENQ = 1027,
	SCX_EXIT_ERROR_RESCUE = 1028,
};

enum scx_exit_code {
	SCX_ECODE_RSN_HOTPLUG = 1ULL << 32,
	SCX_ECODE_RSN_CGROUP_OFFLINE = 2ULL << 32,
	SCX_ECODE_ACT_RESTART = 1ULL << 48,
};

enum scx_exit_flags {
	SCX_EFLAG_INITIALIZED = 1ULL << 0,
};

enum scx_ops_flags {
	SCX_OPS_KEEP_BUILTIN_IDLE = 1ULL << 0,
	SCX_OPS_ENQ_LAST = 1ULL << 1,
	SCX_OPS_ENQ_EXITING = 1ULL << 2,
	SCX_OPS_SWITCH_PARTIAL = 1ULL << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1ULL << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1ULL << 5,
	SCX_OPS_BUILTIN_IDLE_PER_NODE = 1ULL << 6,
	SCX_OPS_ALWAYS_ENQ_IMMED = 1ULL << 7,
	SCX_OPS_TID_TO_TASK = 1ULL << 8,
	SCX_OPS_ALL_FLAGS = (1ULL << 9) - 1,
	__SCX_OPS_INTERNAL_MASK = 0xffULL << 56,
	SCX_OPS_HAS_CPU_PREEMPT = 1ULL << 56,
};

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_RT = 0,
	SCX_CPU_PREEMPT_DL = 1,
	SCX_CPU_PREEMPT_STOP = 2,
	SCX_CPU_PREEMPT_UNKNOWN = 3,
};

enum scx_wake_flags {
	SCX_WAKE_FORK = 4,
	SCX_WAKE_TTWU = 8,
	SCX_WAKE_SYNC = 16,
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_HEAD = 0x10000,
	SCX_ENQ_CPU_SELECTED = 0x100000,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_IMMED = 1ULL << 33,
	SCX_ENQ_RESCUE = 1ULL << 34,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
	__SCX_ENQ_INTERNAL_MASK = 0xffULL << 56,
	SCX_ENQ_CLEAR_OPSS = 1ULL << 56,
	SCX_ENQ_DSQ_PRIQ = 1ULL << 57,
	SCX_ENQ_NESTED = 1ULL << 58,
	SCX_ENQ_GDSQ_FALLBACK = 1ULL << 59,
	SCX_ENQ_IGNORE_CAPS = 1ULL << 60,
	SCX_ENQ_APPLY_SLICE = 1ULL << 61,
	SCX_ENQ_SLICE_DFL = 1ULL << 62,
};

enum scx_deq_flags {
	SCX_DEQ_SLEEP = 1,
	SCX_DEQ_CORE_SCHED_EXEC = 1ULL << 32,
	SCX_DEQ_SCHED_CHANGE = 1ULL << 33,
};

enum scx_reenq_flags {
	SCX_REENQ_ANY = 1ULL << 0,
	SCX_REENQ_CAP_REVOKE = 1ULL << 1,
	__SCX_REENQ_FILTER_MASK = 0xffffULL,
	__SCX_REENQ_USER_MASK = 1ULL << 0,
	SCX_REENQ_TSR_RQ_OPEN = 1ULL << 32,
	SCX_REENQ_TSR_NOT_FIRST = 1ULL << 33,
	__SCX_REENQ_TSR_MASK = 0xfULL << 32,
};

enum scx_pick_idle_cpu_flags {
	SCX_PICK_IDLE_CORE = 1ULL << 0,
	SCX_PICK_IDLE_IN_NODE = 1ULL << 1,
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1ULL << 0,
	SCX_KICK_PREEMPT = 1ULL << 1,
	SCX_KICK_WAIT = 1ULL << 2,
};

enum scx_dsq_iter_flags {
	SCX_DSQ_ITER_REV = 1U << 16,
	__SCX_DSQ_ITER_HAS_SLICE = 1U << 30,
	__SCX_DSQ_ITER_HAS_VTIME = 1U << 31,
	__SCX_DSQ_ITER_USER_FLAGS = 1U << 16,
	__SCX_DSQ_ITER_ALL_FLAGS = (1U << 16) | (1U << 30) | (1U << 31),
};

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1 << 0,
	SCX_TASK_IN_CUSTODY = 1 << 1,
	SCX_TASK_RESET_RUNNABLE_AT = 1 << 2,
	SCX_TASK_DEQD_FOR_SLEEP = 1 << 3,
	SCX_TASK_SUB_INIT = 1 << 4,
	SCX_TASK_IMMED = 1 << 5,
	SCX_TASK_PROTECTED = 1 << 6,
	SCX_TASK_STATE_SHIFT = 8,
	SCX_TASK_STATE_BITS = 3,
	SCX_TASK_STATE_MASK = 7 << 8,
	SCX_TASK_NONE = 0 << 8,
	SCX_TASK_INIT_BEGIN = 1 << 8,
	SCX_TASK_INIT = 2 << 8,
	SCX_TASK_READY = 3 << 8,
	SCX_TASK_ENABLED = 4 << 8,
	SCX_TASK_DEAD = 5 << 8,
	SCX_TASK_REENQ_REASON_SHIFT = 12,
	SCX_TASK_REENQ_REASON_BITS = 3,
	SCX_TASK_REENQ_REASON_MASK = 7 << 12,
	SCX_TASK_REENQ_NONE = 0 << 12,
	SCX_TASK_REENQ_KFUNC = 1 << 12,
	SCX_TASK_REENQ_IMMED = 2 << 12,
	SCX_TASK_REENQ_PREEMPTED = 3 << 12,
	SCX_TASK_REENQ_CAP = 4 << 12,
	SCX_TASK_CURSOR = 1U << 31,
};

enum scx_ent_dsq_flags {
	SCX_TASK_DSQ_ON_PRIQ = 1 << 0,
};

enum scx_cap_flags {
	SCX_CAP_ENQ_IMMED = 1ULL << 0,
	SCX_CAP_ENQ = 1ULL << 1,
	SCX_CAP_PREEMPT = 1ULL << 2,
	SCX_CAP_PERF = 1ULL << 3,
	SCX_CAP_BASE = 1ULL << 0,
	SCX_CAPS_REENQ_ON_LOSS = (1ULL << 0) | (1ULL << 1),
};

enum scx_cid_consts {
	SCX_CID_SHARD_SIZE_DFL = 24,
	SCX_CID_SHARD_MAX_CPUS = 512,
};

/* sched_ext: arguments of callbacks and of kfuncs */

struct scx_exit_info {
	enum scx_exit_kind kind;
	s32 exit_cpu;
	s64 exit_code;
	u64 flags;
	const char *reason;
	unsigned long *bt;
	u32 bt_len;
	char *msg;
	char *dump;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_enable_args {
	u64 cmask_arena_addr;
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
	bool sched_idle;
};

struct scx_cpu_acquire_args {
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct scx_dump_ctx {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	u64 at_ns;
	u64 at_jiffies;
};

struct scx_sub_attach_args {
	struct sched_ext_ops *ops;
	char *cgroup_path;
};

struct scx_sub_detach_args {
	struct sched_ext_ops *ops;
	char *cgroup_path;
};

struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct scx_cid_topo {
	s32 core_cid;
	s32 core_idx;
	s32 llc_cid;
	s32 llc_idx;
	s32 node_cid;
	s32 node_idx;
	s32 shard_cid;
	s32 shard_idx;
};

struct scx_cid_shard {
	s32 base_cid;
	s32 nr_cids;
};

struct scx_cmask {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u64 bits[];
};

struct scx_event_stats {
	s64 SCX_EV_SELECT_CPU_FALLBACK;
	s64 SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE;
	s64 SCX_EV_DISPATCH_KEEP_LAST;
	s64 SCX_EV_ENQ_SKIP_EXITING;
	s64 SCX_EV_ENQ_SKIP_MIGRATION_DISABLED;
	s64 SCX_EV_REENQ_IMMED;
	s64 SCX_EV_REENQ_REPEAT;
	s64 SCX_EV_REFILL_SLICE_DFL;
	s64 SCX_EV_SLICE_CLAMPED;
	s64 SCX_EV_SLICE_DENIED;
	s64 SCX_EV_BYPASS_DURATION;
	s64 SCX_EV_BYPASS_DISPATCH;
	s64 SCX_EV_BYPASS_ACTIVATE;
	s64 SCX_EV_INSERT_NOT_OWNED;
	s64 SCX_EV_SUB_BYPASS_DISPATCH;
	s64 SCX_EV_SUB_FORCED_ADMIT;
	s64 SCX_EV_SUB_PREEMPT_DENIED;
	s64 SCX_EV_SUB_KICK_DENIED;
	s64 SCX_EV_SUB_REENQ_DENIED;
	s64 SCX_EV_SUB_CIDPERF_DENIED;
	s64 SCX_EV_SUB_RESCUE;
};

/* sched_ext: the operations tables */

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	u32 cid_shard_size;
	u32 rescue_bandwidth_ppt;
	u32 rescue_quantum_us;
	u64 sub_cgroup_id;
	char name[128];
	void *priv;
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
};

struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cmask)(struct task_struct *p, const struct scx_cmask *cmask__arena);
	void (*update_idle)(s32 cid, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cid)(struct scx_dump_ctx *ctx, s32 cid, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cpuctl_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cpuctl_exit)(struct cgroup *cgrp);
	s32 (*cpuctl_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cpuctl_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);
	void (*cpuctl_set_idle)(struct cgroup *cgrp, bool idle);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask__arena, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	void (*cid_online)(s32 cid);
	void (*cid_offline)(s32 cid);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	u32 cid_shard_size;
	u32 rescue_bandwidth_ppt;
	u32 rescue_quantum_us;
	u64 sub_cgroup_id;
	char name[128];
	void *priv;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
