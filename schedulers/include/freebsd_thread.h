/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * freebsd_thread.h - a thread of FreeBSD: its slice, and the list of a run queue that it waits in
 *
 * The file that includes this has defined before
 *
 *	struct td_sched		with priority, slice, sliceend, running, charged_until, place and waiting_since
 *	runq_of()		a run queue by its number, or NULL
 *	STAT_RESCUED		counts threads that had waited for too long
 */
#pragma once

/* ---- The slice ------------------------------------------------------------------------------------------------- */

/* Time to the tick at which the slice ends, nanoseconds */
static __always_inline u64 slice_left(const struct td_sched *ts, u64 now)
{
	return time_to_tick(now, ts->slice > 0 ? ts->slice : 1, stathz);
}

/* Takes a tick from the slice. True if that ends it; the next one has @slice. */
static __always_inline bool slice_ends(struct td_sched *ts, u32 slice)
{
	if (ts->sliceend || --ts->slice > 0)
		return false;
	ts->slice = slice;
	ts->sliceend = true;
	return true;
}

/* Charges a running thread one tick of stathz; the scheduler's. */
static void sched_clock(struct task_struct *p, struct td_sched *ts);

/* Charges a running thread the ticks since it was last charged. */
__noinline int charge_ticks(struct task_struct *p __arg_trusted)
{
	struct td_sched *ts = td_sched_of(p);
	u64 from, tick = stat_tick_at(scx_bpf_now());
	int i;

	if (!ts || !ts->running)
		return 0;
	from = __sync_lock_test_and_set(&ts->charged_until, tick);
	if (from >= tick)
		return 0;
	/* No slice is longer, whatever kept the tick away */
	bpf_for(i, 0, tick - from < 1000 ? tick - from : 1000)
		sched_clock(p, ts);
	return 0;
}

void BPF_STRUCT_OPS(freebsd_tick, struct task_struct *p)
{
	struct td_sched *ts = td_sched_of(p);

	if (!ts)
		return;
	charge_ticks(p);
	scx_bpf_task_set_slice(p, ts->sliceend ? 0 : slice_left(ts, scx_bpf_now()));
}

/* ---- The place in a run queue ---------------------------------------------------------------------------------- */

/* Where a thread waits: the number of the run queue times 64 plus that of the list, which is also the id of its dispatch queue */
static __always_inline u32 place_at(u32 number, u32 index)
{
	return number * RQ_NQS + index;
}

/* In a place: the thread may move to another CPU */
#define PLACE_XFERABLE (1U << 31)

/* A place that is no list: the thread is being moved by the CPU whose number is the rest, and by nobody else. */
#define PLACE_CLAIMED (1U << 30)

/* A thread that is in no list */
#define NO_LIST (~0U)

static __always_inline bool is_list(u32 place)
{
	return !(place & PLACE_CLAIMED);
}

/* Counts a thread for the list that it is about to be put into, or, by -1, no more. */
static __noinline void count_at(u32 place, s32 by)
{
	u32 list = place & ~PLACE_XFERABLE;
	struct runq *rq = runq_of(list / RQ_NQS);

	if (!rq)
		return;
	if (by > 0)
		runq_announce(rq, list);
	else
		runq_forget(rq, list);
	__sync_fetch_and_add(&rq->threads, by);
	if (place & PLACE_XFERABLE)
		__sync_fetch_and_add(&rq->transferable, by);
}

/* Notes the list a thread waits in, or that it waits in none. */
static __noinline void set_place(struct td_sched *ts, u32 place)
{
	u32 old;

	if (is_list(place))
		count_at(place, 1);
	old = __sync_lock_test_and_set(&ts->place, place);
	/* Of a claimed thread, its mover forgets the old list */
	if (is_list(old))
		count_at(old, -1);
}

/*
 * Claims a thread that waits at place @old, to move it to @new. Two movers at once could each believe that the thread is where they
 * put it, and it would wait in a list that nobody looks at. A CPU moves one thread at a time, so its number also tells a claim
 * from an earlier one.
 */
__noinline bool begin_move(struct td_sched *ts __arg_nonnull, u32 old, u32 new)
{
	if (__sync_val_compare_and_swap(&ts->place, old, PLACE_CLAIMED | bpf_get_smp_processor_id()) != old)
		return false;
	count_at(new, 1);
	return true;
}

/* Ends the move. True if the thread waits at @new; if it has been taken from there already it is counted nowhere. */
__noinline bool end_move(struct td_sched *ts __arg_nonnull, u32 old, u32 new, bool moved)
{
	u32 claim = PLACE_CLAIMED | bpf_get_smp_processor_id(), place = moved ? new : old;
	bool waits;

	count_at(moved ? old : new, -1);
	waits = __sync_val_compare_and_swap(&ts->place, claim, place) == claim;
	if (!waits)
		count_at(place, -1);
	return waits && moved;
}

/* Priority of the first thread of a list, or a worse one than there is if it is empty */
#define NO_PRIORITY 256

__noinline s32 head_priority(u64 list)
{
	struct task_struct *p;
	s32 priority = NO_PRIORITY;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list, 0) {
		struct td_sched *ts = td_sched_of(p);

		if (ts)
			priority = ts->priority;
		break;
	}
	bpf_rcu_read_unlock();
	return priority;
}

/* ---- Nobody waits for ever ------------------------------------------------------------------------------------- */

/* Puts the threads of a list that have waited for too long in front of all others, into list @front. */
__noinline u32 rescue_from_list(u32 list, u32 front)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	u32 rescued = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list, 0) {
		struct td_sched *ts = td_sched_of(p);
		u32 xfer;

		if (!ts || !starved_for(ts->waiting_since, now))
			continue;
		xfer = ts->place & PLACE_XFERABLE;
		if (!begin_move(ts, list | xfer, front | xfer))
			continue;
		if (end_move(ts, list | xfer, front | xfer, scx_bpf_dsq_move(DSQ_ITERATOR, p, front, 0))) {
			count(STAT_RESCUED);
			ts->priority = 0;
			rescued++;
		}
	}
	bpf_rcu_read_unlock();
	return rescued;
}

/* The same for all lists of a run queue. */
__noinline u32 rescue(u32 number, u32 front)
{
	struct runq *rq = runq_of(number);
	u32 index, rescued = 0;
	u64 bits;

	if (!rq)
		return 0;
	bits = rq->bits;
	bpf_for(index, 0, RQ_NQS) {
		if ((bits & (1ULL << index)) && place_at(number, index) != front)
			rescued += rescue_from_list(place_at(number, index), front);
	}
	return rescued;
}
