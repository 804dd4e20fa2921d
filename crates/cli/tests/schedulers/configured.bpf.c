/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler of one queue that does nothing sensible before its loader has described the machine
 * to it: it checks in init the values that it was given, and prints its orders.
 */
#include "fairground.bpf.h"

#define QUEUE 7
#define MAX_CPUS 64

const volatile u64 slice_ns;
const volatile bool numa;
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
	struct domain domains[4];
} layout;

char label[16];

/* As long as the loader makes it. */
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
} nodes SEC(".maps");

/* Made by the loader, one for each node. */
struct queue {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, u32);
	__array(values, struct queue);
} queues SEC(".maps");

struct pair {
	s32 cpu;
	s32 sibling;
	u64 token;
};

s32 siblings[MAX_CPUS];
u64 tokens;
u32 tokens_returned;
u64 rounds;

SEC("syscall")
int tell_sibling(struct pair *pair)
{
	if (pair->cpu < 0 || pair->cpu >= MAX_CPUS)
		return -22;
	siblings[pair->cpu] = pair->sibling;
	pair->token = 100 + pair->cpu;
	tokens++;
	return 0;
}

SEC("syscall")
int take_token(struct pair *pair)
{
	if (pair->token != 100 + pair->cpu)
		return -22;
	tokens_returned++;
	return 0;
}

SEC("syscall")
int look(void *unused)
{
	if (++rounds == 3)
		bpf_printk("three rounds at %llu ms on cpu %d", bpf_ktime_get_ns() / 1000000,
			   bpf_get_smp_processor_id());
	return 0;
}

void BPF_STRUCT_OPS(configured_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(configured_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

#define EXPECT(condition)						\
	if (!(condition)) {						\
		scx_bpf_error("not as told: " #condition);		\
		return -22;						\
	}

/* The number of values that fit into the queue of a node, -1 if there is no such queue. */
static int room(u32 node)
{
	void *queue = bpf_map_lookup_elem(&queues, &node);
	u32 value = 5;
	int count;

	if (!queue)
		return -1;
	for (count = 0; count < 4; count++)
		if (bpf_map_push_elem(queue, &value, 0))
			break;
	return count;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(configured_init)
{
	u32 key = 1, zero = 0;
	struct domain *domain = bpf_map_lookup_elem(&domains, &key);
	u32 *node = bpf_map_lookup_percpu_elem(&nodes, &zero, 3);
	volatile u32 *weight = weights;

	EXPECT(slice_ns == 3000000);
	EXPECT(numa);
	EXPECT(capacities[3] == 1024 && capacities[4] == 0);
	EXPECT(layout.count == 2);
	EXPECT(layout.domains[1].cpus == 0xc);
	EXPECT(layout.domains[1].node == 1);
	EXPECT(layout.domains[1].level == 5 && layout.domains[1].common == 1);
	EXPECT(label[0] == 'a' && label[1] == 'b' && !label[2]);
	EXPECT(weight[3] == 30);
	EXPECT(domain && domain->cpus == 0xc && domain->node == 1);
	EXPECT(node && *node == 1);
	EXPECT(room(0) == 2 && room(1) == 2 && room(2) == -1);
	EXPECT(siblings[0] == 1 && siblings[3] == 2);
	EXPECT(tokens == 4 && tokens_returned == 4);
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(configured,
		 .enqueue	= (void *)configured_enqueue,
		 .dispatch	= (void *)configured_dispatch,
		 .init		= (void *)configured_init,
		 .name		= "configured");
