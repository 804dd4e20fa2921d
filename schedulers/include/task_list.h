/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * task_list.h - places in a doubly linked list of tasks
 *
 * Schedulers that walk one list of tasks keep it as a dispatch queue that is ordered by virtual time: a task's virtual time is its place in
 * the list, smaller is nearer the front. A task that leaves the queue for a CPU keeps its place and may come back to it.
 */
#ifndef FAIRGROUND_TASK_LIST_H
#define FAIRGROUND_TASK_LIST_H

/* The last and the first place that have been handed out; half of the range lies to either side. */
static u64 last_place = 1ULL << 62;
static u64 first_place = 1ULL << 62;

/* A place behind all others */
static __always_inline __attribute__((unused)) u64 place_at_end(void)
{
	return __sync_fetch_and_add(&last_place, 1) + 1;
}

/* A place in front of all others */
static __always_inline __attribute__((unused)) u64 place_at_front(void)
{
	return __sync_fetch_and_add(&first_place, -1ULL) - 1;
}

#endif /* FAIRGROUND_TASK_LIST_H */
