// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * accompanied - one global FIFO queue that depends on its loader
 *
 * Its init callback checks, on any machine, that everything was set as accompanied.companion.toml
 * says. Once the program that its loader runs at an interval has run three times, it reports this
 * and ends.
 */
#include "fairground.bpf.h"

#define QUEUE 7
#define MAX_CPUS 64

const volatile u64 slice_ns;
const volatile u32 capacities[MAX_CPUS];

struct domain {
	u64 cpus;
	struct {
		s32 node;
		u8 level : 3, common : 1;
	};
};

struct {
	u32 count;
	struct domain first;
} layout;

/* The loader sets the length. */
u32 weights[1] SEC(".data.weights");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} numbers SEC(".maps");

/* Created by the loader, one for each CPU. */
struct queue {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__array(values, struct queue);
} queues SEC(".maps");

struct cpu_context {
	s32 cpu;
	u32 token;
};

u64 told;
u64 returned;
u32 attached;
u32 rounds;
s32 last_cpu;

SEC("syscall")
int tell_cpu(struct cpu_context *context)
{
	told |= 1ULL << (context->cpu & 63);
	context->token = 100 + context->cpu;
	return 0;
}

SEC("syscall")
int take_token(struct cpu_context *context)
{
	if (context->token != 100 + context->cpu)
		return -22;
	returned |= 1ULL << (context->cpu & 63);
	return 0;
}

SEC("syscall")
int tell_attached(void *unused)
{
	attached = 1;
	return 0;
}

SEC("syscall")
int look(void *unused)
{
	last_cpu = bpf_get_smp_processor_id();
	rounds++;
	return 0;
}

void BPF_STRUCT_OPS(accompanied_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (attached && rounds >= 3)
		scx_bpf_error("three rounds on CPU %d", last_cpu);
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(accompanied_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

/* The number of values that fit into the queue of a CPU; -1 if there is no such queue. */
static int room(u32 cpu)
{
	void *queue = bpf_map_lookup_elem(&queues, &cpu);
	u32 value = 5;
	int count;

	if (!queue)
		return -1;
	for (count = 0; count < 4; count++)
		if (bpf_map_push_elem(queue, &value, 0))
			break;
	return count;
}

/* Not inlined, so that the verifier sees the check of the index. */
static __noinline u32 capacity(u32 cpu)
{
	return cpu < MAX_CPUS ? capacities[cpu] : 0;
}

#define EXPECT(condition)						\
	if (!(condition)) {						\
		scx_bpf_error("not as told: " #condition);		\
		return -22;						\
	}

s32 BPF_STRUCT_OPS_SLEEPABLE(accompanied_init)
{
	u32 last = scx_bpf_nr_cpu_ids() - 1, zero = 0;
	u64 all = last >= 63 ? ~0ULL : (1ULL << (last + 1)) - 1;
	struct domain *domain;
	volatile u32 *weight = weights;
	u32 *number;

	EXPECT(last > 0 && last < MAX_CPUS - 1);
	EXPECT(slice_ns == 3000000);
	EXPECT(capacity(last) == 1024 && capacity(last + 1) == 0);
	EXPECT(layout.count == 1);
	EXPECT(layout.first.cpus == all && layout.first.node == 2);
	EXPECT(layout.first.level == 5 && layout.first.common == 1);
	EXPECT(weight[1] == 10);
	domain = bpf_map_lookup_elem(&domains, &last);
	EXPECT(domain && domain->cpus == 1ULL << last && domain->node == 0);
	number = bpf_map_lookup_percpu_elem(&numbers, &zero, last);
	EXPECT(number && *number == 3 * last + 1);
	EXPECT(room(0) == 2 && room(last) == 2 && room(last + 1) == -1);
	EXPECT(told == all && returned == all);
	EXPECT(!attached);
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(accompanied,
	.enqueue = (void *)accompanied_enqueue,
	.dispatch = (void *)accompanied_dispatch,
	.init = (void *)accompanied_init,
	.name = "accompanied");
