/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_length_balance.h - the balancer of Linux 2.6.2: by the length of run queues
 *
 * A CPU takes waiting tasks from the longest run queue of its node: every tick when idle, every 200
 * ms when busy, and when it has just run out of tasks. Less often it takes them from the busiest
 * node. It remembers how long the queues were when it last looked, so that short fluctuations do
 * not count.
 */
#pragma once

#include "ebs.h"

/* Milliseconds between balancings, and how many of them make up the interval for other nodes */
#define BUSY_REBALANCE_TICK 200
#define IDLE_REBALANCE_TICK 1
#define BUSY_NODE_REBALANCE 2
#define IDLE_NODE_REBALANCE 5

/* Load of another node, in percent of this one's, beyond which tasks are pulled */
#define NODE_THRESHOLD 125

/*
 * cache_decay_ticks, which was measured at boot: how long a task that has lost its CPU is too
 * cache-hot for a busy CPU to pull
 */
#define CACHE_DECAY (2 * NSEC_PER_MSEC)

/* How many CPUs and nodes a CPU remembers the load of; beyond that it uses the current load */
#define NR_REMEMBERED_CPUS 1024
#define NR_REMEMBERED_NODES 64

/* Lengths of all run queues, and loads of nodes, when a CPU last looked */
struct queue_lengths {
	u32 prev_cpu_load[NR_REMEMBERED_CPUS];
	u32 prev_node_load[NR_REMEMBERED_NODES];
};

DEFINE_PER_CPU(struct queue_lengths, queue_lengths)

/* One attempt to pull tasks to a CPU */
struct balance {
	s32 cpu;
	/* The CPU has nothing to run */
	bool idle;
	/* The CPUs to pull from: positions */
	struct topology_span span;
	s32 busiest;
	/* How many more tasks to pull, and how many have been pulled */
	u32 imbalance;
	u32 pulled;
};

/*
 * Moves up to b->imbalance waiting tasks from b->busiest to b->cpu, subject to can_migrate_task(),
 * and adds their number to b->pulled.
 */
__noinline int pull_tasks(struct balance *b __arg_nonnull);

/* CPUs of @cpu's node; all if the topology is unknown. */
static __always_inline void node_span(s32 cpu, struct topology_span *span)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span->first = place ? place->node_cpus.first : 0;
	span->count = place ? place->node_cpus.count : scx_bpf_nr_cpu_ids();
}

/*
 * The length of the run queue of @cpu, which it also remembers: to filter out fluctuations, it is
 * the lesser of the current and the remembered length for other CPUs, and the greater for this one.
 * Idle CPUs use the current one.
 */
static __always_inline u32 cpu_load(s32 this_cpu, s32 cpu, bool idle, bool local)
{
	struct queue_lengths *lengths = queue_lengths_of(this_cpu);
	struct run_queue *rq = run_queue_of(cpu);
	u32 index = cpu, load, before;

	if (!rq || !lengths)
		return 0;
	load = rq->nr_running;
	if (index >= NR_REMEMBERED_CPUS)
		return load;
	before = lengths->prev_cpu_load[index];
	lengths->prev_cpu_load[index] = load;
	if (idle)
		return load;
	return local ? max(load, before) : min(load, before);
}

/*
 * find_busiest_queue(): the longest run queue of the span if it is enough longer than this one;
 * sets b->busiest and b->imbalance.
 */
__noinline bool find_busiest_queue(struct balance *b __arg_nonnull)
{
	u64 nr_running = cpu_load(b->cpu, b->cpu, b->idle, true), max_load = 1;
	struct run_queue *busiest_rq;
	s32 cpu, i;

	b->busiest = -1;
	for_each_cpu_in_span(cpu, i, b->span.first, b->span.count) {
		u64 load;

		if (cpu == b->cpu)
			continue;
		load = cpu_load(b->cpu, cpu, b->idle, false);
		if (load > max_load) {
			b->busiest = cpu;
			max_load = load;
		}
	}
	if (b->busiest < 0 || max_load <= nr_running)
		return false;
	/* The difference must be at least a quarter */
	if (!b->idle && (max_load - nr_running) * 4 < max_load)
		return false;
	busiest_rq = run_queue_of(b->busiest);
	if (!busiest_rq || busiest_rq->nr_running <= nr_running)
		return false;
	/* Half of the difference, so as not to reverse it; an idle CPU takes one task */
	b->imbalance = b->idle ? 1 : max((max_load - nr_running) / 2, 1);
	return true;
}

/* can_migrate_task() of a waiting task: allowed on this CPU and, unless that is idle, cold. */
static __always_inline bool can_migrate_task(struct task_struct *p, u64 last_ran,
					     const struct balance *b, u64 now)
{
	if (!bpf_cpumask_test_cpu(b->cpu, p->cpus_ptr) || is_migration_disabled(p))
		return false;
	return b->idle || elapsed(last_ran, now) > CACHE_DECAY;
}

/* load_balance(): pulls waiting tasks from the busiest CPU of b->span. */
__noinline u32 load_balance(struct balance *b __arg_nonnull)
{
	b->pulled = 0;
	if (find_busiest_queue(b))
		pull_tasks(b);
	count_by(b->idle ? STAT_PULLED_IDLE : STAT_PULLED_BUSY, b->pulled);
	return b->pulled;
}

/* A node's load: ten times the tasks per CPU, plus half of the load that this CPU last saw. */
__noinline u32 node_load(s32 this_cpu, u32 node, u32 first, u32 count)
{
	struct queue_lengths *lengths = queue_lengths_of(this_cpu);
	u32 nr_running = unknown_zero, load, i;
	struct run_queue *rq;

	if (!lengths || node >= NR_REMEMBERED_NODES)
		return 0;
	for_each_rq_in_span(rq, i, first, count)
		nr_running += rq->nr_running;
	load = lengths->prev_node_load[node] / 2 + 10 * nr_running / (count ?: 1);
	lengths->prev_node_load[node] = load;
	return load;
}

/*
 * find_busiest_node(): puts the CPUs of the node with the highest load into b->span, if it is
 * enough higher than this one's.
 */
__noinline bool find_busiest_node(struct balance *b __arg_nonnull)
{
	const volatile struct cpu_topology *place = topology_of(b->cpu);
	u64 this_load, max_load;
	u32 position = unknown_zero, this_node;
	bool found = false;
	int i;

	if (!place)
		return false;
	this_node = place->node;
	this_load = node_load(b->cpu, this_node, place->node_cpus.first, place->node_cpus.count);
	max_load = this_load;
	bpf_for(i, 0, topology_nr_nodes) {
		u64 load;

		place = topology_of(cpu_at(position));
		if (!place)
			break;
		position = place->node_cpus.first + place->node_cpus.count;
		if (place->node == this_node)
			continue;
		load = node_load(b->cpu, place->node, place->node_cpus.first,
				 place->node_cpus.count);
		if (load > max_load && 100 * load > NODE_THRESHOLD * this_load) {
			max_load = load;
			b->span = place->node_cpus;
			found = true;
		}
	}
	return found;
}

/* rebalance_tick(): between nodes, then within the node, each when it is due. */
__noinline int rebalance_tick(const struct run_queue *rq __arg_nonnull, u64 jiffies)
{
	struct balance b = { .cpu = rq->cpu, .idle = rq->idle };
	u32 ticks, node_ticks, pulled = 0;

	/* No task waits that an idle CPU could take */
	if (b.idle && !nr_overloaded)
		return 0;
	ticks = ms_to_ticks(b.idle ? IDLE_REBALANCE_TICK : BUSY_REBALANCE_TICK) ?: 1;
	node_ticks = ticks * (b.idle ? IDLE_NODE_REBALANCE : BUSY_NODE_REBALANCE);
	if (topology_nr_nodes > 1 && jiffies % node_ticks == 0 && find_busiest_node(&b))
		pulled = load_balance(&b);
	if (jiffies % ticks == 0) {
		node_span(rq->cpu, &b.span);
		pulled += load_balance(&b);
	}
	if (pulled && rq->idle)
		scx_bpf_kick_cpu(rq->cpu, SCX_KICK_IDLE);
	return 0;
}

/* Pulls a task to a CPU that has run out of tasks. */
__noinline bool balance_newly_idle(s32 cpu)
{
	struct balance b = { .cpu = cpu, .idle = true };

	if (num_online_cpus == 1 || !nr_overloaded)
		return false;
	node_span(cpu, &b.span);
	return load_balance(&b) > 0;
}
