/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A FIFO that does one thing wrong, or one unusual thing; which one is defined by the test.
 */
#include "fairground.bpf.h"

#define SHARED 7

#ifndef SLICE
#define SLICE 5000000
#endif
#ifndef FLAGS
#define FLAGS 0
#endif

#ifdef UNKNOWN_KFUNC
extern void scx_bpf_teleport(struct task_struct *p) __ksym;
extern void scx_bpf_levitate(s32 cpu) __ksym;
#endif

#ifdef MAP_TYPE
struct {
	__uint(type, MAP_TYPE);
	__uint(max_entries, MAP_SIZE);
	__type(key, u32);
	__type(value, u64);
} huge SEC(".maps");
#endif

#ifdef LOOPS_IN_LOOPS
#define MANY (8 * 1024 * 1024)
static u64 rounds;

static long innermost(u32 index, void *context)
{
	rounds++;
	return 0;
}

static long inner(u32 index, void *context)
{
	bpf_loop(MANY, innermost, NULL, 0);
	return 0;
}
#endif

s32 BPF_STRUCT_OPS(fault_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
#ifdef SELECT_INVALID_CPU
	return 4000;
#endif
#ifdef SELECT_INSERTS_TWICE
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, 0);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, 0);
#endif
#ifdef SELECT_INSERTS_LOCAL
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, 0);
#endif
	return prev_cpu;
}

void BPF_STRUCT_OPS(fault_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef LOSE
	if (p->pid == LOSE)
		return;
#endif
#ifdef BOGUS_DSQ
	scx_bpf_dsq_insert(p, 0xdeadbeef, SLICE, enq_flags);
	return;
#endif
#ifdef VTIME_LOCAL
	scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, SLICE, 0, enq_flags);
	return;
#endif
#ifdef LOCAL_ON
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | LOCAL_ON, SLICE, enq_flags);
	return;
#endif
#ifdef ELSEWHERE
	/* The count of the current task includes this program's own. */
	bool stays = p->migration_disabled > (p == bpf_get_current_task_btf());

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | stays, SLICE, enq_flags);
	return;
#endif
#ifdef PREEMPT
	if (p->static_prio < 120) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
#endif
#ifdef ERROR_ON_ENQUEUE
	scx_bpf_error_bstr("no more of %d", (u64[]){ p->pid }, 8);
#endif
#ifdef LOOPS_IN_LOOPS
	bpf_loop(MANY, inner, NULL, 0);
#endif
#ifdef ENDLESS
	for (;;)
		bpf_get_prandom_u32();
#endif
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
}

void BPF_STRUCT_OPS(fault_dispatch, s32 cpu, struct task_struct *prev)
{
#ifdef MAP_TYPE
	u32 key = 0;

	bpf_map_lookup_elem(&huge, &key);
#endif
#ifdef UNKNOWN_KFUNC
	scx_bpf_teleport(prev);
	scx_bpf_levitate(cpu);
#endif
#ifdef MOVE_FROM_NOWHERE
	scx_bpf_dsq_move_to_local(99, 0);
#endif
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

#ifdef CPU_HOTPLUG
void BPF_STRUCT_OPS(fault_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(fault_cpu_offline, s32 cpu)
{
}
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(fault_init)
{
#ifdef INIT_FAILS
	return -12;
#endif
	return scx_bpf_create_dsq(SHARED, -1);
}

DEFINE_SCHEDULER(fault,
		 .select_cpu = (void *)fault_select_cpu,
		 .enqueue = (void *)fault_enqueue,
		 .dispatch = (void *)fault_dispatch,
#ifdef CPU_HOTPLUG
		 .cpu_online = (void *)fault_cpu_online,
		 .cpu_offline = (void *)fault_cpu_offline,
#endif
		 .init = (void *)fault_init,
		 .flags = FLAGS,
		 .timeout_ms = 5000,
		 .name = "fault");
