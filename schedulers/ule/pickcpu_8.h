/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pickcpu_8.h - sched_pickcpu() of FreeBSD 8: the last CPU if it is idle, or warm and good enough;
 * else the least loaded one near it
 */
#pragma once

#include "ule.h"
#include "cpu_search.h"

static bool sched_affinity(const struct td_sched *ts, u32 level, u64 ticks);

__noinline s32 sched_pickcpu_8(struct task_struct *p __arg_trusted, s32 last)
{
	s32 self = bpf_get_smp_processor_id(), cpu = -1, pri;
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq, *my_tdq = tdq_of(self);
	struct cpu_search s = { .number = LEAVE_NONE_OUT, .prefer = -1, .limit = 1 << 30 };
	u64 now = tick_at(scx_bpf_now());
	bool self_allowed;
	u32 level;

	if (!ts || !my_tdq)
		return last;
	self_allowed = bpf_cpumask_test_cpu(self, p->cpus_ptr);
	pri = ts->priority;
	if (pri <= PRI_MAX_ITHD && self_allowed && in_interrupt())
		last = self;
	tdq = tdq_of(last);
	if (tdq && bpf_cpumask_test_cpu(last, p->cpus_ptr) &&
	    (tdq->lowpri > PRI_MIN_IDLE ||
	     (sched_affinity(ts, CG_SHARE_L2, now) && tdq->lowpri > pri))) {
		count(STAT_PICK_AFFINITY);
		return last;
	}

	/* The smallest group whose cache is warm */
	s.pri = pri;
	bpf_for(level, 0, NR_LEVELS) {
		if (level < NR_LEVELS && group_exists(level, last) &&
		    sched_affinity(ts, cg_level(level), now)) {
			group_span(level, last, &s.span);
			cpu = cpu_search(&s, p);
			break;
		}
	}
	if (cpu < 0) {
		s.pri = -1;
		group_span(LEVEL_MACHINE, last, &s.span);
		cpu = cpu_search(&s, p);
	}
	tdq = tdq_of(cpu);
	if (cpu < 0 || !tdq)
		return (s32)bpf_cpumask_first(p->cpus_ptr);
	return self_allowed && my_tdq->lowpri > pri && tdq->lowpri < PRI_MIN_IDLE ? self : cpu;
}
