/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fairground.bpf.h - the header that every scheduler includes
 *
 * It provides the kernel's interface (types, constants, kfuncs), libbpf's helpers and macros, and
 * the parts that every scheduler has: the licence, the exit record, counters, loops. Shared pieces
 * that define maps or variables are included by the schedulers that use them: task_attributes.h,
 * topology.h.
 *
 * A scheduler does not know where it runs: the same object is loaded into a kernel or the
 * simulator.
 */
#pragma once

#include "kfuncs.bpf.h"
#include "kernel_constants.h"

#include <bpf/bpf_tracing.h>

#define __maybe_unused __attribute__((unused))

/* A map of records numbered from 0: DEFINE_ARRAY(PERCPU_ARRAY, name, how many, record's type). */
#define DEFINE_ARRAY(kind, name, number, record_type)					\
	struct {									\
		__uint(type, BPF_MAP_TYPE_##kind);					\
		__uint(max_entries, number);						\
		__type(key, u32);							\
		__type(value, record_type);						\
	} name SEC(".maps");

#include "exit_record.h"
#include "statistics.h"
#include "virtual_ticks.h"
#include "nice.h"
#include "per_cpu.h"
#include "task_data.h"
#include "migration.h"
#include "real_time.h"
#include "timer.h"

/* Declares a callback: s32 BPF_STRUCT_OPS(o1_select_cpu, struct task_struct *p, ...) { ... } */
#define BPF_STRUCT_OPS(name, args...)							\
	SEC("struct_ops/" #name)							\
	BPF_PROG(name, ##args)

/* The same for a callback that may sleep: init, exit, init_task and the cgroup callbacks. */
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...)						\
	SEC("struct_ops.s/" #name)							\
	BPF_PROG(name, ##args)

/*
 * Members of the operations table for callbacks named after the scheduler and the operation:
 * CALLBACKS_OF(o1, enqueue, dispatch) is .enqueue = (void *)o1_enqueue, .dispatch = (void
 * *)o1_dispatch,. The preprocessor does not expand a macro within itself, so the rest of the list
 * waits for the next scan; there are enough scans for 32 names.
 */
#define CALLBACKS_OF(id, names...) SCANS(CALLBACK(id, names))
#define CALLBACK(id, callback, ...)							\
	.callback = (void *)id##_##callback, __VA_OPT__(NEXT_CALLBACK SCANNED (id, __VA_ARGS__))
#define NEXT_CALLBACK() CALLBACK
#define SCANNED ()
#define SCANS(list...) SCANS_8(SCANS_8(SCANS_8(SCANS_8(list))))
#define SCANS_8(list...) SCANS_2(SCANS_2(SCANS_2(SCANS_2(list))))
#define SCANS_2(list...) list

/*
 * Ends a scheduler's file: DEFINE_SCHEDULER(o1, CALLBACKS_OF(o1, enqueue, dispatch, ...) .name =
 * "o1"). Defines the operations table, the licence, and the exit callback that fills the exit
 * record. The watchdog's timeout is the maximum, 30 s.
 */
#define DEFINE_SCHEDULER(id, members...)						\
	char _license[] SEC("license") = "GPL";						\
	struct exit_record exit_record SEC(".data");					\
											\
	void BPF_STRUCT_OPS_SLEEPABLE(id##_exit, struct scx_exit_info *info)		\
	{										\
		record_exit(&exit_record, info);					\
	}										\
											\
	SEC(".struct_ops.link")								\
	struct sched_ext_ops id##_ops = {						\
		members,								\
		.exit = (void *)id##_exit,						\
	}

/*
 * True until a loop has run for some millions of iterations: the verifier takes while (can_loop &&
 * ...) and for (...; ... && can_loop; ...) to be bounded. Use bpf_for(i, from, to) for counting
 * loops.
 */
#define can_loop									\
	({										\
		__label__ exhausted_, end_;						\
		bool may_ = true;							\
											\
		asm volatile goto("may_goto %l[exhausted_]" :::: exhausted_);		\
		goto end_;								\
	exhausted_:									\
		may_ = false;								\
	end_:;										\
		may_;									\
	})

/*
 * from <= @variable < to. The barrier keeps clang from checking @variable - from in a register of
 * its own, from which the verifier of 6.18 learns nothing about @variable.
 */
#define is_within(variable, from, to)							\
	({										\
		bool above_ = (variable) >= (from);					\
											\
		barrier_var(variable);							\
		above_ && (variable) < (to);						\
	})

/*
 * @number, which is not negative, as a separate value. If a loop keeps a plain copy of a number for
 * later, the verifier of some 6.18 kernels fails with "backtracking call unexpected regs", a bug
 * that is fixed in later kernels.
 */
static __always_inline s32 unlinked(s32 number)
{
	asm volatile("%0 &= 0x7fffffff" : "+r"(number));
	return number;
}

/* The counting loop bpf_for(i, from, to) of libbpf, but with is_within() */
#undef bpf_for
#define bpf_for(i, from, to)									\
	for (struct bpf_iter_num it_ __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *once_ __maybe_unused = (bpf_iter_num_new(&it_, (from), (to)),			\
				      (void)bpf_iter_num_destroy, (void *)0);			\
	     ({											\
		int *next_ = bpf_iter_num_next(&it_);						\
												\
		next_ && ((i) = *next_, is_within(i, from, to));				\
	     });)

static __always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static __always_inline s64 clamp(s64 value, s64 low, s64 high)
{
	return value < low ? low : value > high ? high : value;
}

/* True if virtual time @a is before @b; both wrap around, so the sign of the difference decides. */
static __always_inline bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Nanoseconds from one moment to another; 0 if the clocks of two CPUs have them reversed. */
static __always_inline u64 elapsed(u64 from, u64 to)
{
	return time_before(from, to) ? to - from : 0;
}
