/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bound_tasks.h - tasks that may not use every CPU, under schedulers that are older than affinity
 *
 * Where all CPUs take from one list a task that waits is served by whichever CPU is done first, and such schedulers rely on it: a
 * CPU that has no other task with ticks left begins an epoch for all, and so the tasks that run elsewhere need never come to the
 * end of their quanta. A task that may only use their CPUs would wait for ever. It goes first once it has waited long enough.
 */
#ifndef FAIRGROUND_BOUND_TASKS_H
#define FAIRGROUND_BOUND_TASKS_H

/* A task that other CPUs refill looks this often for bound tasks that are overdue; of several the one that has waited longest is next. */
#define BOUND_TASKS_INTERVAL NSEC_PER_SEC

/* Whether @p is bound to certain CPUs and has waited there since before @patience_ms milliseconds ago. */
static __always_inline bool bound_task_is_overdue(const struct task_struct *p, u64 waiting_since, u32 patience_ms, u64 now)
{
	return p->nr_cpus_allowed < scx_bpf_nr_cpu_ids() &&
	       time_before(waiting_since + patience_ms * NSEC_PER_MSEC, now);
}

#endif /* FAIRGROUND_BOUND_TASKS_H */
