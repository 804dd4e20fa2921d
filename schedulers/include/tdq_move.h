/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tdq_move.h - how ULE moves threads that wait: idle CPUs steal, and a balancer moves one from each loaded CPU
 *
 * The file that includes this has defined before, besides what cpu_search.h asks for: the calendar's place_of(), index_of(), next_list(),
 * index_at() and follow_idx(); count_on(), xferable() and tdq_setlowpri(); the tunables steal_idle and steal_thresh.
 */
#pragma once

/* ---- Moving threads between CPUs ------------------------------------------------------------------------------- */

/* One attempt to move a thread */
struct move {
	s32 from;
	s32 to;
	/* The first thread is passed over */
	bool skips_first;
	/* Threads seen so far */
	u32 seen;
	/* It is the turn of the only thread after all */
	bool last_resort;
};

/* The list of its new CPU that a thread goes to */
static __noinline u32 destination(struct td_sched *ts, const struct move *m)
{
	struct tdq *tdq = tdq_of(m->to);
	u32 queue = queue_of(ts->priority);

	if (!tdq)
		return NO_LIST;
	follow_idx(tdq, m->to);
	return place_of(m->to, queue, index_of(tdq, queue, ts->priority, false)) | PLACE_XFERABLE;
}

/* One list: the first thread that may move there; in runq_steal_from() the very first one of all is passed over. */
__noinline bool steal_from_list(struct move *m __arg_nonnull, u32 queue, u32 index)
{
	u32 list = place_of(m->from, queue, index);
	struct tdq *tdq = tdq_of(m->to);
	struct task_struct *p;
	bool moved = false;

	if (!tdq)
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list, 0) {
		struct td_sched *ts = td_sched_of(p);
		u32 new;

		if (!ts)
			continue;
		if (!m->seen++ && m->skips_first && !m->last_resort)
			continue;
		if (!bpf_cpumask_test_cpu(m->to, p->cpus_ptr) || !xferable(p))
			continue;
		new = destination(ts, m);
		if (!begin_move(ts, list | PLACE_XFERABLE, new))
			continue;
		moved = scx_bpf_dsq_move(DSQ_ITERATOR, p, new & ~PLACE_XFERABLE, 0);
		if (end_move(ts, list | PLACE_XFERABLE, new, moved)) {
			count_on(ts, m->to);
			if (ts->priority < tdq->lowpri)
				tdq->lowpri = ts->priority;
		}
		if (moved)
			break;
	}
	bpf_rcu_read_unlock();
	return moved;
}

/*
 * tdq_steal() for one of the queues of a CPU. runq_steal_from(), for the calendar, passes the first thread over unless it is the only
 * one; runq_steal(), for real-time and interactive threads and for idle ones, does not.
 */
__noinline bool steal_from_queue(struct move *m __arg_nonnull, u32 queue)
{
	struct tdq *tdq = tdq_of(m->from);
	u32 steps = 0;
	int i;

	if (!tdq || queue >= NR_QUEUES)
		return false;
	m->skips_first = queue == QUEUE_TIMESHARE;
	m->seen = 0;
	m->last_resort = false;
	bpf_for(i, 0, 2 * RQ_NQS + 2) {
		steps = next_list(m->from, queue, steps);
		if (steps >= RQ_NQS) {
			if (m->last_resort || !m->skips_first || m->seen != 1)
				return false;
			m->last_resort = true;
			steps = 0;
			continue;
		}
		if (steal_from_list(m, queue, index_at(tdq, queue, steps)))
			return true;
		steps++;
	}
	return false;
}

/* tdq_move(): one thread of @from to @to, the best queue first. */
__noinline bool tdq_move(s32 from, s32 to)
{
	struct move m = { .from = from, .to = to };
	struct tdq *tdq = tdq_of(from);
	u32 queue;

	bpf_for(queue, 0, NR_QUEUES) {
		if (steal_from_queue(&m, queue)) {
			if (tdq)
				tdq_setlowpri(tdq, from);
			return true;
		}
	}
	return false;
}

/* One group: steals from its most loaded CPU, or the next one if nothing can be had there. */
__noinline bool steal_in_group(struct cpu_search *s __arg_nonnull, s32 cpu, u32 level)
{
	struct topology_span span;
	struct tdq *victim;
	int i;

	group_span(level, cpu, &span);
	s->first = span.first;
	s->count = span.count;
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

/* Number of the current pass */
static u64 balance_pass;

/* Its two searches, which would be too large for the stack; only one CPU balances at a time */
static struct cpu_search balance_high;
static struct cpu_search balance_low;

/* Begins a search for a CPU that gives a thread, or gets one, in a part of the machine. */
static __always_inline void begin_search(struct cpu_search *s, bool highest, u32 first, u32 count)
{
	s->number = LEAVE_NONE_OUT;
	s->first = first;
	s->count = count;
	s->pri = -1;
	s->limit = highest ? 1 : 1 << 30;
	s->prefer = -1;
	s->highest = highest;
}

/* Moves one thread, and has its new CPU look at it. */
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
 * Gives one thread of @high, by sched_balance_pair(), to the least loaded CPU that can have one. False if no CPU has less load, which
 * ends the pass.
 */
__noinline bool balance_from(s32 high)
{
	struct cpu_search *low = &balance_low;
	struct tdq *high_tdq = tdq_of(high), *low_tdq;
	bool any_low = true;
	u32 i, cpu;

	if (!high_tdq)
		return false;
	low->number = __sync_fetch_and_add(&searches, 1) + 1;
	low->limit = (s32)high_tdq->load - 1;
	low->prefer = high;
	/* Who has given a thread in this pass, or got one, is left out */
	bpf_for(cpu, 0, nr_cpu_ids) {
		low_tdq = tdq_of(cpu);
		if (low_tdq && low_tdq->no_donor_by == balance_pass)
			low_tdq->left_out_by = low->number;
	}
	bpf_for(i, 0, nr_cpu_ids) {
		s32 to = cpu_search(low, NULL);

		if (to < 0)
			return !any_low;
		low_tdq = tdq_of(to);
		if (!low_tdq)
			return false;
		if (high_tdq->load > low_tdq->load && balance_move(high, to)) {
			low_tdq->no_donor_by = balance_pass;
			return true;
		}
		low_tdq->left_out_by = low->number;
		any_low = false;
	}
	return true;
}

/* sched_balance(), for the whole machine: from the most loaded CPU on, one thread each. */
__noinline int sched_balance(void)
{
	struct cpu_search *high = &balance_high;
	struct tdq *tdq;
	u32 i, cpu;

	count(STAT_BALANCE_PASSES);
	balance_pass++;
	begin_search(high, true, 0, nr_cpu_ids);
	begin_search(&balance_low, false, 0, nr_cpu_ids);
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from;

		high->number = __sync_fetch_and_add(&searches, 1) + 1;
		bpf_for(cpu, 0, nr_cpu_ids) {
			tdq = tdq_of(cpu);
			if (tdq && tdq->no_donor_by == balance_pass)
				tdq->left_out_by = high->number;
		}
		from = cpu_search(high, NULL);
		tdq = tdq_of(from);
		if (from < 0 || !tdq)
			break;
		tdq->no_donor_by = balance_pass;
		if (!balance_from(from))
			break;
	}
	return 0;
}
