/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tdq_move.h - how ULE moves waiting threads: idle CPUs steal, and a balancer moves one from each
 * loaded CPU
 */
#pragma once

#include "ule.h"
#include "cpu_search.h"

/* In ule.bpf.c */
static u32 queue_of(s32 priority);
static u64 runq_place(const struct tdq *tdq, s32 priority, bool preempted);
static void follow_idx(struct tdq *tdq, s32 cpu);
static bool thread_can_migrate(const struct task_struct *p);
static void add_to(s32 cpu, s32 load, s32 transferable);
static void tdq_setlowpri(struct tdq *tdq, s32 cpu);
static void preempt_in_interrupt(struct tdq *tdq, s32 cpu);

/* ---- Moving threads between CPUs ------------------------------------------------------------- */

/*
 * Moves the counts of a waiting thread that moved; one that has run or slept since counts where it
 * did.
 */
static __always_inline void recount(struct td_sched *ts, s32 from, s32 to)
{
	if (__sync_val_compare_and_swap(&ts->cpu, from, to) == from) {
		add_to(from, -1, 0);
		add_to(to, 1, 0);
	}
	if (__sync_val_compare_and_swap(&ts->transferable_on, from, to) == from) {
		add_to(from, 0, -1);
		add_to(to, 0, 1);
	}
}

/*
 * Where runq_steal_from() looks: in two lists, by their distance from the calendar's removal index;
 * 0 for a second one not yet found
 */
struct steal_search {
	u16 ridx;
	u16 list;
	u16 list_again;
	bool begun;
	/* 8 takes the first thread only where the search meets it again */
	bool first_may_go;
};

/*
 * All 64 lists are in one word of a bitmap. The search begins in it at the removal index and ends
 * after one list. Then it begins again at list 0, which is the farthest from the removal index of
 * those whose numbers have begun anew.
 */
static __always_inline bool is_searched(struct steal_search *s, u16 list)
{
	u16 distance = list - s->ridx, anew = RQ_NQS - s->ridx % RQ_NQS;

	if (!s->begun) {
		s->begun = true;
		s->list = unlinked(distance);
		s->list_again = distance < anew ? 0 : unlinked(distance);
		s->first_may_go = release == FREEBSD_9 || (distance < anew && s->ridx % RQ_NQS);
	}
	if (!s->list_again && distance >= anew)
		s->list_again = unlinked(distance);
	return distance == s->list || (s->list_again && distance == s->list_again);
}

/*
 * runq_steal(), for real-time and interactive threads and for idle ones: moves the first thread
 * that may move. runq_steal_from(), for the calendar, passes over its first one, which goes only if
 * no other thread of the lists that are searched may.
 */
__noinline bool runq_steal(s32 from, s32 to, u32 queue)
{
	struct tdq *tdq = tdq_of(to), *steal = tdq_of(from);
	struct task_struct *p, *td = NULL;
	struct bpf_iter_scx_dsq it;
	struct td_sched *ts;
	bool ended = false, moved = false;
	struct steal_search search = {};

	if (!tdq || !steal)
		return false;
	follow_idx(steal, from);
	search.ridx = steal->ridx;
	bpf_rcu_read_lock();
	bpf_iter_scx_dsq_new(&it, runq_of(from, queue), 0);
	while (!ended && (p = bpf_iter_scx_dsq_next(&it))) {
		bool first = queue == QUEUE_TIMESHARE && !search.begun;

		if (queue == QUEUE_TIMESHARE && !is_searched(&search, list_at(p->scx.dsq_vtime)))
			continue;
		/* THREAD_CAN_MIGRATE() and THREAD_CAN_SCHED() */
		if (thread_can_migrate(p) && bpf_cpumask_test_cpu(to, p->cpus_ptr) &&
		    (!first || search.first_may_go) && keep_task(&td, p))
			ended = !first;
	}
	ts = td ? td_sched_of(td) : NULL;
	if (td && ts) {
		follow_idx(tdq, to);
		scx_bpf_dsq_move_set_vtime(&it, runq_place(tdq, ts->priority, false));
		moved = scx_bpf_dsq_move_vtime(&it, td, runq_of(to, queue_of(ts->priority)), 0);
	}
	end_walk(&it, td);
	if (moved && ts) {
		recount(ts, from, to);
		/* sched_rem() and tdq_add() */
		if (ts->priority == steal->lowpri)
			tdq_setlowpri(steal, from);
		if (ts->priority < tdq->lowpri)
			tdq->lowpri = ts->priority;
	}
	bpf_rcu_read_unlock();
	return moved;
}

/* tdq_move(): moves one thread of @from to @to, best queue first like tdq_steal(). */
__noinline bool tdq_move(s32 from, s32 to)
{
	u32 queue;

	for (queue = 0; queue < NR_QUEUES; queue++) {
		if (runq_steal(from, to, queue))
			return true;
	}
	return false;
}

/* steal_thresh */
static __always_inline s32 steal_limit(void)
{
	if (steal_thresh)
		return steal_thresh;
	if (release == FREEBSD_9)
		return 2;
	return num_online_cpus < 4 ? 1 : num_online_cpus < 8 ? 2 : 3;
}

/* One group: steals from its most loaded CPU, or from the next one if there is nothing to steal. */
__noinline bool steal_in_group(struct cpu_search *s __arg_nonnull, s32 cpu, u32 level)
{
	struct tdq *victim;
	int i;

	group_span(level, cpu, &s->span);
	s->limit = level == LEVEL_CORE ? 1 : steal_limit();
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from = cpu_search(s, NULL);

		victim = tdq_of(from);
		if (from < 0 || !victim)
			return false;
		victim->left_out_by = s->number;
		if (tdq_move(from, cpu))
			return true;
	}
	return false;
}

/* tdq_idled(): an idle CPU climbs the tree from its own group until it has found a thread. */
__noinline bool tdq_idled(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	struct cpu_search s = { .prefer = -1, .highest = true };
	u32 level;

	if (!tdq || !steal_idle || num_online_cpus == 1)
		return false;
	s.number = __sync_fetch_and_add(&searches, 1) + 1;
	tdq->left_out_by = s.number;
	bpf_for(level, 0, NR_LEVELS) {
		if (level < NR_LEVELS && group_exists(level, cpu) &&
		    steal_in_group(&s, cpu, level)) {
			count(STAT_STEALS);
			return true;
		}
	}
	return false;
}

/* ---- The balancer ---------------------------------------------------------------------------- */

/*
 * Its searches for a CPU that gives a thread and for one that gets it: too large for the stack.
 * Only one CPU balances at a time.
 */
static struct cpu_search balance_high = { .limit = 1, .prefer = -1, .highest = true };
static struct cpu_search balance_low = { .pri = -1 };

/*
 * The end of sched_balance_pair(): moves one thread, and interrupts its new CPU unless that is the
 * one that balances. An interrupted CPU chooses again only if its thread is worse than the best
 * that waits: sched_preempt().
 */
static __always_inline bool balance_move(s32 high, s32 low)
{
	struct tdq *tdq = tdq_of(low);

	if (!tdq || !tdq_move(high, low))
		return false;
	count(STAT_BALANCED);
	if (tdq->idle)
		scx_bpf_kick_cpu(low, 0);
	else if (low != (s32)bpf_get_smp_processor_id() && tdq->curpri > tdq->lowpri)
		preempt_in_interrupt(tdq, low);
	return true;
}

/*
 * sched_balance_pair(): gives one thread of @high to the least loaded CPU that can take one. False
 * if no CPU has less load, which ends the pass.
 */
__noinline bool balance_from(s32 high)
{
	struct cpu_search *low = &balance_low;
	struct tdq *high_tdq = tdq_of(high), *low_tdq;
	bool any_low = true;
	u32 i;

	if (!high_tdq)
		return false;
	low->number++;
	low->limit = (s32)high_tdq->load - 1;
	low->prefer = high;
	bpf_for(i, 0, nr_cpu_ids) {
		s32 to = cpu_search(low, NULL);

		if (to < 0)
			return !any_low;
		low_tdq = tdq_of(to);
		if (!low_tdq)
			return false;
		if (high_tdq->load > low_tdq->load && balance_move(high, to)) {
			low_tdq->left_out_by = balance_high.number;
			return true;
		}
		low_tdq->left_out_by = low->number;
		any_low = false;
	}
	return true;
}

/*
 * sched_balance(), for the whole machine: one thread from each CPU, starting with the most loaded.
 * A CPU that has given or got one is marked with the number of the search for the most loaded,
 * which is larger than those of the other searches, so all of them leave it out.
 */
__noinline int sched_balance(void)
{
	struct cpu_search *high = &balance_high;
	u32 i;

	count(STAT_BALANCE_PASSES);
	balance_low.number = __sync_fetch_and_add(&searches, nr_cpu_ids + 1);
	high->number = balance_low.number + nr_cpu_ids + 1;
	group_span(LEVEL_MACHINE, 0, &high->span);
	balance_low.span = high->span;
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from = cpu_search(high, NULL);
		struct tdq *tdq = tdq_of(from);

		if (from < 0 || !tdq)
			break;
		tdq->left_out_by = high->number;
		if (!balance_from(from))
			break;
	}
	return 0;
}

/* ---- The balancer of 8 ----------------------------------------------------------------------- */

/* sched_balance_pair(): gives half of the difference. */
__noinline bool balance_pair_8(s32 high, s32 low)
{
	struct tdq *high_tdq = tdq_of(high), *low_tdq = tdq_of(low);
	u32 i, move;
	bool moved = false;

	if (!high_tdq || !low_tdq || !high_tdq->transferable || high_tdq->load < low_tdq->load)
		return false;
	move = min((high_tdq->load - low_tdq->load + 1) / 2, high_tdq->transferable);
	bpf_for(i, 0, move) {
		if (tdq_move(high, low)) {
			moved = true;
			count(STAT_BALANCED);
		}
	}
	if (low_tdq->idle)
		scx_bpf_kick_cpu(low, 0);
	else if (low_tdq->curpri > low_tdq->lowpri)
		preempt_in_interrupt(low_tdq, low);
	return moved;
}

/*
 * sched_balance_group(), without its subgroups: one pair, of the most and the least loaded CPU of
 * which one can give and one can take
 */
__noinline int balance_group_8(u32 level, s32 cpu)
{
	struct cpu_search *high = &balance_high, *low = &balance_low;
	u32 i;

	high->number = __sync_fetch_and_add(&searches, 1) + 1;
	low->number = high->number;
	low->limit = 1 << 30;
	group_span(level, cpu, &high->span);
	low->span = high->span;
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from = cpu_search(high, NULL), to = cpu_search(low, NULL);
		struct tdq *high_tdq = tdq_of(from), *low_tdq = tdq_of(to);

		if (from < 0 || to < 0 || from == to || !high_tdq || !low_tdq ||
		    balance_pair_8(from, to))
			break;
		if (high_tdq->transferable)
			low_tdq->left_out_by = low->number;
		else
			high_tdq->left_out_by = high->number;
	}
	return 0;
}

/* sched_balance(): the whole machine, then group by group */
__noinline int sched_balance_8(void)
{
	s32 level, cpu;

	count(STAT_BALANCE_PASSES);
	for (level = NR_LEVELS - 1; level >= 0; level--) {
		bpf_for(cpu, 0, nr_cpu_ids) {
			struct topology_span span;

			group_span(level, cpu, &span);
			if (group_exists(level, cpu) && cpu_at(span.first) == cpu)
				balance_group_8(level, cpu);
		}
	}
	return 0;
}
