/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints the arguments of its programs at the kernel's own events. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct trace_entry {
	int pid;
};

struct trace_event_raw_sched_switch {
	struct trace_entry ent;
	char prev_comm[16];
	int prev_pid;
	char next_comm[16];
	int next_pid;
};
#pragma clang attribute pop

#define say(format, args...) bpf_printk(format, ##args)

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct task_struct *current = bpf_get_current_task_btf();

	say("switch from %d to %d state %u in %d", prev->pid, next->pid, prev_state, current->pid);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	say("waking %d state 0x%x", p->pid, p->__state);
	return 0;
}

SEC("raw_tp/sched_wakeup")
int on_wakeup(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];

	say("wakeup %d state 0x%x", BPF_CORE_READ(p, pid), BPF_CORE_READ(p, __state));
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	say("wakeup_new %d", p->pid);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int dest_cpu)
{
	say("migrate %d from %d to %d", p->pid, scx_bpf_task_cpu(p), dest_cpu);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	say("fork of %d by %d", child->pid, parent->pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p, bool group_dead)
{
	say("exit %d last %d", p->pid, group_dead);
	return 0;
}

SEC("tracepoint/sched/sched_switch")
int on_switch_record(struct trace_event_raw_sched_switch *ctx)
{
	say("record from %s %d to %s %d", ctx->prev_comm, ctx->prev_pid, ctx->next_comm,
	    ctx->next_pid);
	return 0;
}

struct futex_exit {
	u64 common;
	int number;
	long ret;
};

SEC("tracepoint/syscalls/sys_exit_futex")
int on_futex_exit(struct futex_exit *ctx)
{
	say("futex %d returns %ld to %d", ctx->number, ctx->ret, (u32)bpf_get_current_pid_tgid());
	return 0;
}

SEC("fexit/__futex_wait")
int BPF_PROG(on_futex_wait, u32 *uaddr, unsigned int flags, u32 val, void *to, u32 bitset, int ret)
{
	say("futex_wait of %u returns %d", val, ret);
	return 0;
}

SEC("fentry/bpf_scx_reg")
int on_register(void *ctx)
{
	say("registered, %d", bpf_get_current_task_btf()->migration_disabled);
	return 0;
}

SEC("fentry/scx_tick")
int BPF_PROG(on_tick, struct rq *rq)
{
	say("tick of CPU %d", rq->cpu);
	return 0;
}

SEC("kprobe/try_to_wake_up")
int BPF_KPROBE(on_wake_call, struct task_struct *p, unsigned int state, int wake_flags)
{
	say("try_to_wake_up %d state %u flags 0x%x", BPF_CORE_READ(p, pid), state, wake_flags);
	return 0;
}

SEC("kretprobe/try_to_wake_up")
int BPF_KRETPROBE(on_wake_return, int woken)
{
	say("try_to_wake_up returns %d", woken);
	return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(switched_off, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	say("never");
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_mkdir, struct cgroup *group, const char *path)
{
	return 0;
}

void BPF_STRUCT_OPS(traces_running, struct task_struct *p)
{
	struct task_struct *current = bpf_get_current_task_btf();

	say("running %d in %d", p->pid, current->pid);
}

DEFINE_SCHEDULER(traces,
		 .running = (void *)traces_running,
		 .name = "traces");
