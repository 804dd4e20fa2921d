/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler of the cid form that prints the kernel's messages on CPUs. It keeps the kernel's
 * order of them; with REVERSE it has its own.
 */
#include "fairground.bpf.h"

#define __arena __attribute__((address_space(1)))

s32 scx_bpf_cpu_to_cid(s32 cpu) __ksym;
s32 scx_bpf_cid_to_cpu(s32 cid) __ksym;
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, size_t out__sz) __ksym;
void scx_bpf_cid_override(const s32 __arena *cpu_to_cid__arena, u32 cpu_to_cid_cnt,
			  const s32 __arena *shard_start__arena, u32 shard_start_cnt) __ksym;
void scx_bpf_kick_cid(s32 cid, u64 flags) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
s32 scx_bpf_this_cid(void) __ksym;
struct task_struct *scx_bpf_cid_curr(s32 cid) __ksym;
u32 scx_bpf_nr_cids(void) __ksym;
u32 scx_bpf_nr_online_cids(void) __ksym;
s32 scx_bpf_cidperf_set(s32 cid, u32 perf) __ksym;
u32 scx_bpf_cidperf_cur(s32 cid) __ksym;
s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask __arena *out__arena) __ksym;
s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask __arena *cmask__arena,
		      struct scx_cmask __arena *denied_out__arena__nullable) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
} arena SEC(".maps");

#define CPUS 8

s32 __arena order[CPUS], shards[2];
u64 __arena held_words[4];

/* Programs that load pointers into the arena from elsewhere have to name it. */
#define USE_ARENA() asm volatile("" :: "r"(&arena))

s32 BPF_STRUCT_OPS_SLEEPABLE(cids_init_cids)
{
	USE_ARENA();
#ifdef REVERSE
	for (int cpu = 0; cpu < CPUS; cpu++)
		order[cpu] = CPUS - 1 - cpu;
	shards[1] = 6;
#ifdef TWICE
	order[3] = order[2];
#endif
	scx_bpf_cid_override(order, CPUS, shards, 2);
#endif
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cids_init)
{
	struct scx_cmask __arena *held = (struct scx_cmask __arena *)held_words;
	struct scx_cid_topo topo;

	USE_ARENA();
	bpf_printk("%u cids, %u online", scx_bpf_nr_cids(), scx_bpf_nr_online_cids());
	for (int cid = 0; cid < CPUS; cid++) {
		scx_bpf_cid_topo(cid, &topo, sizeof(topo));
		bpf_printk("cid %d cpu %d core %d/%d", cid, scx_bpf_cid_to_cpu(cid), topo.core_cid,
			   topo.core_idx);
		bpf_printk("llc %d/%d node %d/%d shard %d/%d", topo.llc_cid, topo.llc_idx,
			   topo.node_cid, topo.node_idx, topo.shard_cid, topo.shard_idx);
	}
	held->base = 0;
	held->nr_cids = scx_bpf_nr_cids();
	held->alloc_words = 2;
	bpf_printk("caps %d bits %llx", scx_bpf_sub_caps(0, SCX_CAP_ENQ, held), held->bits[0]);
	bpf_printk("none below: %d", scx_bpf_sub_grant(17, SCX_CAP_ENQ, held, NULL));
#ifdef BEYOND
	scx_bpf_cid_to_cpu(CPUS);
#endif
	return 0;
}

static void show(const char *who, struct task_struct *p, struct scx_cmask __arena *mask)
{
	bpf_printk("%s %d: %u words, %llx", who, p->pid, mask->alloc_words, mask->bits[0]);
}

void BPF_STRUCT_OPS(cids_enable, struct task_struct *p, struct scx_enable_args *args)
{
	USE_ARENA();
	show("enable", p, (struct scx_cmask __arena *)args->cmask_arena_addr);
}

void BPF_STRUCT_OPS(cids_set_cmask, struct task_struct *p, const struct scx_cmask *mask)
{
	USE_ARENA();
	show("set_cmask", p, (struct scx_cmask __arena *)(long)mask);
}

void BPF_STRUCT_OPS(cids_set_weight, struct task_struct *p, u32 weight)
{
	bpf_printk("set_weight %d", p->pid);
}

s32 BPF_STRUCT_OPS(cids_select_cid, struct task_struct *p, s32 prev_cid, u64 wake_flags)
{
	bpf_printk("select_cid %d prev %d", p->pid, prev_cid);
	return prev_cid;
}

void BPF_STRUCT_OPS(cids_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef CPU_FORM
	bpf_printk("%d", scx_bpf_task_cpu(p));
#endif
#ifdef WRITES
	p->scx.slice = 1;
#endif
	bpf_printk("enqueue %d on %d", p->pid, scx_bpf_task_cid(p));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 7, SCX_SLICE_DFL, enq_flags);
	scx_bpf_kick_cid(7, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(cids_running, struct task_struct *p)
{
	struct task_struct *current;

	bpf_printk("running on %d, cpu %u", scx_bpf_this_cid(), bpf_get_smp_processor_id());
	bpf_rcu_read_lock();
	current = scx_bpf_cid_curr(scx_bpf_this_cid());
	if (current)
		bpf_printk("current %d", current->pid);
	bpf_rcu_read_unlock();
	scx_bpf_cidperf_set(scx_bpf_this_cid(), 512);
	bpf_printk("level %u", scx_bpf_cidperf_cur(scx_bpf_this_cid()));
}

void BPF_STRUCT_OPS(cids_update_idle, s32 cid, bool idle)
{
	bpf_printk("update_idle %d %d", cid, idle);
}

#ifdef PARENT
s32 BPF_STRUCT_OPS_SLEEPABLE(cids_sub_attach, void *args)
{
	return 0;
}
#endif

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops_cid cids_ops = {
	.init_cids = (void *)cids_init_cids,
	.init = (void *)cids_init,
	.enable = (void *)cids_enable,
	.set_cmask = (void *)cids_set_cmask,
	.set_weight = (void *)cids_set_weight,
	.select_cid = (void *)cids_select_cid,
	.enqueue = (void *)cids_enqueue,
	.running = (void *)cids_running,
	.update_idle = (void *)cids_update_idle,
#ifdef PARENT
	.sub_attach = (void *)cids_sub_attach,
#endif
#ifdef SUB
	.sub_cgroup_id = 5,
#endif
	.name = "cids",
};
