/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The records that recording.bpf.c writes, which are those of a recording's file: crates/recording/src/record.rs reads the same layout. */
#ifndef FAIRGROUND_RECORDING_H
#define FAIRGROUND_RECORDING_H

enum entry_kind {
	/* A CPU goes from `task` to `other`. */
	ENTRY_SWITCH = 1,
	/* `other` is about to wake `task`. */
	ENTRY_WAKING = 2,
	/* `other` has created `task`. */
	ENTRY_BORN = 3,
	/* What `task` is; a struct description. */
	ENTRY_TASK = 4,
};

/* Flags of a switch. */
#define SWITCH_PREEMPTS 1
#define SWITCH_WAITS_FOR_DISK 2

/* Flags of a waking: from where. */
enum waking_context {
	FROM_TASK = 0,
	FROM_SOFT_INTERRUPT = 1,
	FROM_DEVICE = 2,
	FROM_TIMER = 3,
};

/* Flag of a description. */
#define TASK_IS_KERNEL_THREAD 1

struct entry {
	/* CLOCK_MONOTONIC, nanoseconds. */
	u64 time;
	u32 task;
	u32 other;
	u16 cpu;
	u8 kind;
	u8 flags;
	/* Of a switch: number of the system call that the task is in, negative for none, and its first two arguments. */
	s32 call;
	u64 first;
	u32 second;
	/* Of a switch: the kernel's state of the task that leaves. */
	u32 state;
};

struct description {
	/* The beginning of a struct entry, up to the flags. */
	u64 time;
	u32 task;
	u32 other;
	u16 cpu;
	u8 kind;
	u8 flags;
	u32 policy;
	/* The CPUs 0 to 63 that it may use. */
	u64 first_cpus_allowed;
	u32 static_prio;
	u32 nr_cpus_allowed;
	/* Number of its process. */
	u32 process;
	u32 rt_priority;
	char comm[16];
};

/* The ring of a CPU: crates/kernel/src/rings.rs reads the same layout. */
struct ring {
	/* Entries that the CPU has written, and those that the reader has taken, since the beginning. */
	u64 written;
	u64 taken;
	/* Entries that found no room. */
	u64 lost;
	/* How deep the CPU is in interrupts. */
	u32 timer;
	u32 device;
	u32 soft;
	u32 unused[7];
};

#endif /* FAIRGROUND_RECORDING_H */
