/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmlinux.h - for sources that come without one
 *
 * The vmlinux.h that bpftool generates declares the kernel's functions as well as its types, and
 * small schedulers rely on that. Those of Linux 7.3 are here; a source that declares them otherwise
 * defines BPF_NO_KFUNC_PROTOTYPES, as scx's headers do.
 */
#ifndef FAIRGROUND_VMLINUX_WITH_KFUNCS
#define FAIRGROUND_VMLINUX_WITH_KFUNCS

#include_next "vmlinux.h"

/* Flags that older kernels know, and 7.3 refuses */
enum {
	SCX_OPS_HAS_CGROUP_WEIGHT = 1ULL << 16,
};

#ifndef BPF_NO_KFUNC_PROTOTYPES

#pragma push_macro("kfunc")
#undef kfunc
#define kfunc(prototype) extern prototype __attribute__((weak, section(".ksyms")))

/* Dispatch queues */
kfunc(s32 scx_bpf_create_dsq(u64 dsq_id, s32 node));
kfunc(void scx_bpf_destroy_dsq(u64 dsq_id));
kfunc(s32 scx_bpf_dsq_nr_queued(u64 dsq_id));
kfunc(struct task_struct *scx_bpf_dsq_peek(u64 dsq_id));
kfunc(void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags));
kfunc(void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				    u64 enq_flags));
kfunc(bool scx_bpf_dsq_move_to_local(u64 dsq_id));
kfunc(bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags));
kfunc(bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				  u64 dsq_id, u64 enq_flags));
kfunc(void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice));
kfunc(void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime));
kfunc(void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags));
kfunc(u32 scx_bpf_reenqueue_local(void));
kfunc(u32 scx_bpf_dispatch_nr_slots(void));
kfunc(void scx_bpf_dispatch_cancel(void));
kfunc(int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags));
kfunc(struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it));
kfunc(void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it));

/* CPUs */
kfunc(s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				 bool *is_idle));
kfunc(s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				 const struct cpumask *cpus_allowed, u64 flags));
kfunc(void scx_bpf_kick_cpu(s32 cpu, u64 flags));
kfunc(bool scx_bpf_test_and_clear_cpu_idle(s32 cpu));
kfunc(s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags));
kfunc(s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags));
kfunc(s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags));
kfunc(s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags));
kfunc(const struct cpumask *scx_bpf_get_possible_cpumask(void));
kfunc(const struct cpumask *scx_bpf_get_online_cpumask(void));
kfunc(void scx_bpf_put_cpumask(const struct cpumask *cpumask));
kfunc(const struct cpumask *scx_bpf_get_idle_cpumask(void));
kfunc(const struct cpumask *scx_bpf_get_idle_cpumask_node(int node));
kfunc(const struct cpumask *scx_bpf_get_idle_smtmask(void));
kfunc(const struct cpumask *scx_bpf_get_idle_smtmask_node(int node));
kfunc(void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask));
kfunc(u32 scx_bpf_nr_cpu_ids(void));
kfunc(u32 scx_bpf_nr_node_ids(void));
kfunc(int scx_bpf_cpu_node(s32 cpu));
kfunc(u32 scx_bpf_cpuperf_cap(s32 cpu));
kfunc(u32 scx_bpf_cpuperf_cur(s32 cpu));
kfunc(void scx_bpf_cpuperf_set(s32 cpu, u32 perf));
kfunc(struct rq *scx_bpf_locked_rq(void));
kfunc(struct task_struct *scx_bpf_cpu_curr(s32 cpu));

/* Tasks and cgroups */
kfunc(bool scx_bpf_task_running(const struct task_struct *p));
kfunc(s32 scx_bpf_task_cpu(const struct task_struct *p));
kfunc(bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice));
kfunc(bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime));
kfunc(struct cgroup *scx_bpf_task_cgroup(struct task_struct *p));
kfunc(struct task_struct *bpf_task_acquire(struct task_struct *p));
kfunc(struct task_struct *bpf_task_from_pid(s32 pid));
kfunc(void bpf_task_release(struct task_struct *p));
kfunc(struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp));
kfunc(struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level));
kfunc(struct cgroup *bpf_cgroup_from_id(u64 cgid));
kfunc(void bpf_cgroup_release(struct cgroup *cgrp));

/* CPU masks */
kfunc(struct bpf_cpumask *bpf_cpumask_create(void));
kfunc(struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *cpumask));
kfunc(void bpf_cpumask_release(struct bpf_cpumask *cpumask));
kfunc(u32 bpf_cpumask_first(const struct cpumask *cpumask));
kfunc(u32 bpf_cpumask_first_zero(const struct cpumask *cpumask));
kfunc(u32 bpf_cpumask_first_and(const struct cpumask *src1, const struct cpumask *src2));
kfunc(void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask));
kfunc(void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask));
kfunc(bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask));
kfunc(bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *cpumask));
kfunc(bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask));
kfunc(void bpf_cpumask_setall(struct bpf_cpumask *cpumask));
kfunc(void bpf_cpumask_clear(struct bpf_cpumask *cpumask));
kfunc(bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *src1,
			   const struct cpumask *src2));
kfunc(void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *src1,
			  const struct cpumask *src2));
kfunc(void bpf_cpumask_xor(struct bpf_cpumask *dst, const struct cpumask *src1,
			   const struct cpumask *src2));
kfunc(bool bpf_cpumask_equal(const struct cpumask *src1, const struct cpumask *src2));
kfunc(bool bpf_cpumask_intersects(const struct cpumask *src1, const struct cpumask *src2));
kfunc(bool bpf_cpumask_subset(const struct cpumask *src1, const struct cpumask *src2));
kfunc(bool bpf_cpumask_empty(const struct cpumask *cpumask));
kfunc(bool bpf_cpumask_full(const struct cpumask *cpumask));
kfunc(void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src));
kfunc(u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask));
kfunc(u32 bpf_cpumask_any_and_distribute(const struct cpumask *src1, const struct cpumask *src2));
kfunc(u32 bpf_cpumask_weight(const struct cpumask *cpumask));

/* The rest */
kfunc(u64 scx_bpf_now(void));
kfunc(void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz));
kfunc(void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz));
kfunc(void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz));
kfunc(void bpf_rcu_read_lock(void));
kfunc(void bpf_rcu_read_unlock(void));
kfunc(void bpf_preempt_disable(void));
kfunc(void bpf_preempt_enable(void));

/* Only older kernels have these; a source that does not declare them itself gets them so */
#ifdef FAIRGROUND_OLDER_KFUNCS
#undef kfunc
#define kfunc(prototype) extern prototype __attribute__((section(".ksyms")))
kfunc(void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags));
kfunc(void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				  u64 enq_flags));
kfunc(bool scx_bpf_consume(u64 dsq_id));
kfunc(bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				     u64 dsq_id, u64 enq_flags));
kfunc(bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it__iter,
					   struct task_struct *p, u64 dsq_id, u64 enq_flags));
kfunc(void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice));
kfunc(void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime));
kfunc(struct rq *scx_bpf_cpu_rq(s32 cpu));
#endif

#undef kfunc
#pragma pop_macro("kfunc")

#endif /* BPF_NO_KFUNC_PROTOTYPES */

#endif /* FAIRGROUND_VMLINUX_WITH_KFUNCS */
