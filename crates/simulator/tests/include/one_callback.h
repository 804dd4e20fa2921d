/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts that the schedulers of refused/ and accepted/ share. Those of the one do one thing each
 * that a kernel's verifier refuses, where a comment says "refused"; those of the other do things
 * that a kernel accepts and a check that is too strict would refuse.
 */
#include "fairground.bpf.h"

struct value {
	u64 numbers[4];
};

struct locked {
	struct bpf_spin_lock lock;
	u64 number;
};

struct kept {
	struct task_struct __kptr *task;
	u64 number;
};

struct timed {
	struct bpf_timer timer;
};

#define MAP(name, kind, entries, of)		\
	struct {				\
		__uint(type, kind);		\
		__uint(max_entries, entries);	\
		__type(key, u32);		\
		__type(value, of);		\
	} name SEC(".maps")

MAP(array, BPF_MAP_TYPE_ARRAY, 4, struct value);
MAP(per_cpu, BPF_MAP_TYPE_PERCPU_ARRAY, 4, struct value);
MAP(hash, BPF_MAP_TYPE_HASH, 4, struct value);
MAP(locks, BPF_MAP_TYPE_ARRAY, 4, struct locked);
MAP(kept, BPF_MAP_TYPE_ARRAY, 4, struct kept);
MAP(timers, BPF_MAP_TYPE_ARRAY, 4, struct timed);

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct value);
} storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4);
	__type(value, u64);
} queue SEC(".maps");

u64 before[4], numbers[4], after[4];
const volatile u64 constants[4] = { 1, 2, 3, 4 };
u32 zero;

void bpf_preempt_disable(void) __ksym;
void bpf_preempt_enable(void) __ksym;
void bpf_local_irq_save(unsigned long *flags) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;

/* A scheduler that is one callback, running. */
#define RUNNING(args...) void BPF_STRUCT_OPS(one_running, struct task_struct *p)
#define SCHEDULER \
	DEFINE_SCHEDULER(one_callback, .running = (void *)one_running, .name = "one_callback")
