/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tdq_move.h - how ULE moves waiting threads: idle CPUs steal, and a balancer moves one from each loaded CPU
 *
 * The including file first defines, besides the names that cpu_search.h asks for: runq_of(), queue_of(), runq_place() and follow_idx();
 * add_to(), thread_can_migrate() and tdq_setlowpri(); the tunables steal_idle and steal_thresh.
 */
#pragma once

/* ---- Moving threads between CPUs ------------------------------------------------------------------------------- */

/* Moves the counts of a waiting thread that has moved. If it has run or slept since, it is counted where it did. */
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
 * runq_steal(), for real-time and interactive threads and for idle ones: moves the first thread that may move. runq_steal_from(),
 * for the calendar, skips the very first one unless it is the only one.
 */
__noinline bool runq_steal(s32 from, s32 to, u32 queue)
{
	u64 runq = runq_of(from, queue);
	struct tdq *tdq = tdq_of(to);
	struct task_struct *p;
	bool moved = false, skips_first;

	if (!tdq)
		return false;
	skips_first = queue == QUEUE_TIMESHARE && scx_bpf_dsq_nr_queued(runq) > 1;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, runq, 0) {
		struct td_sched *ts = td_sched_of(p);
		bool skipped = skips_first;

		skips_first = false;
		if (skipped || !ts || !bpf_cpumask_test_cpu(to, p->cpus_ptr) || !thread_can_migrate(p))
			continue;
		follow_idx(tdq, to);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, runq_place(tdq, ts->priority, false));
		moved = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, runq_of(to, queue_of(ts->priority)), 0);
		if (!moved)
			continue;
		recount(ts, from, to);
		if (ts->priority < tdq->lowpri)
			tdq->lowpri = ts->priority;
		break;
	}
	bpf_rcu_read_unlock();
	return moved;
}

/* tdq_move(): moves one thread of @from to @to, best queue first like tdq_steal(). */
__noinline bool tdq_move(s32 from, s32 to)
{
	struct tdq *tdq = tdq_of(from);
	u32 queue;

	for (queue = 0; queue < NR_QUEUES; queue++) {
		if (runq_steal(from, to, queue)) {
			if (tdq)
				tdq_setlowpri(tdq, from);
			return true;
		}
	}
	return false;
}

/* One group: steals from its most loaded CPU, or from the next one if there is nothing to steal. */
__noinline bool steal_in_group(struct cpu_search *s __arg_nonnull, s32 cpu, u32 level)
{
	struct tdq *victim;
	int i;

	group_span(level, cpu, &s->span);
	s->limit = level == LEVEL_CORE ? 1 : steal_thresh;
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
		if (level < NR_LEVELS && group_exists(level, cpu) && steal_in_group(&s, cpu, level)) {
			count(STAT_STEALS);
			return true;
		}
	}
	return false;
}

/* ---- The balancer ---------------------------------------------------------------------------------------------- */

/* Its searches for a CPU that gives a thread and for one that gets it: too large for the stack. Only one CPU balances at a time. */
static struct cpu_search balance_high = { .limit = 1, .prefer = -1, .highest = true };
static struct cpu_search balance_low = { .pri = -1 };

/* Moves one thread, and makes its new CPU notice. */
static __always_inline bool balance_move(s32 high, s32 low)
{
	struct tdq *tdq = tdq_of(low);

	if (!tdq || !tdq_move(high, low))
		return false;
	count(STAT_BALANCED);
	scx_bpf_kick_cpu(low, tdq->idle ? 0 : SCX_KICK_PREEMPT);
	return true;
}

/*
 * sched_balance_pair(): gives one thread of @high to the least loaded CPU that can take one. False if no CPU has less load, which ends
 * the pass.
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
 * sched_balance(), for the whole machine: one thread from each CPU, starting with the most loaded. A CPU that has given or got one is marked
 * with the number of the search for the most loaded, which is larger than those of the other searches, so all of them leave it out.
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
