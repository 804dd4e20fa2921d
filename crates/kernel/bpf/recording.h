/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records of recording.bpf.c and of recording files; lib/recording/src/record.rs reads them. */
#ifndef FAIRGROUND_RECORDING_H
#define FAIRGROUND_RECORDING_H

enum entry_kind {
	/* A CPU switches from `task` to `other`. */
	ENTRY_SWITCH = 1,
	/* `other` is about to wake `task`. */
	ENTRY_WAKING = 2,
	/* `other` has created `task`. */
	ENTRY_BORN = 3,
	/* 4 was a description without a group, in version 1 of recordings. */
	/* A struct description of `task`. */
	ENTRY_TASK = 5,
	/* A struct group_description. */
	ENTRY_GROUP = 6,
};

/* Flags of a switch. */
#define SWITCH_PREEMPTS 1
#define SWITCH_WAITS_FOR_DISK 2

/* Flags of a wake-up: its context. */
enum waking_context {
	FROM_TASK = 0,
	FROM_SOFT_INTERRUPT = 1,
	FROM_DEVICE = 2,
	FROM_TIMER = 3,
};

/* Flags of a description. */
#define TASK_IS_KERNEL_THREAD 1
/* It is ending: its session, if it was in one, is no longer its group. */
#define TASK_IS_ENDING 2

/* Flags of a group: it has cpu.idle, or is a session. */
#define GROUP_IS_IDLE 1
#define GROUP_IS_SESSION 2

struct entry {
	/* CLOCK_MONOTONIC, nanoseconds. */
	u64 time;
	u32 task;
	u32 other;
	u16 cpu;
	u8 kind;
	u8 flags;
	/* For a switch: the task's system call, negative for none, and its first two arguments. */
	s32 call;
	u64 first;
	u32 second;
	/* For a switch: the kernel's state of the task that leaves. */
	u32 state;
};

struct description {
	/* The beginning of a struct entry, up to its flags. */
	u64 time;
	u32 task;
	u32 other;
	u16 cpu;
	u8 kind;
	u8 flags;
	u32 policy;
	/* Bit mask of the CPUs 0 to 63 that it may use. */
	u64 first_cpus_allowed;
	u32 static_prio;
	u32 nr_cpus_allowed;
	/* Number of its process. */
	u32 process;
	u32 rt_priority;
	char comm[16];
	/* Number of its control group, 0 for the root. */
	u64 group;
};

/* Longer names are cut off. */
#define GROUP_NAME 128

/* A control group, from now on. */
struct group_description {
	/* The beginning of a struct entry, up to its flags; it has no tasks. */
	u64 time;
	u32 task;
	u32 other;
	u16 cpu;
	u8 kind;
	u8 flags;
	/* Its part relative to its siblings; that of a new group is 1024. */
	u32 shares;
	u64 number;
	/* Number of the group above it, 0 for the root. */
	u64 parent;
	/* Nanoseconds; the quota is ~0 for none. */
	u64 quota;
	u64 period;
	u64 burst;
	char name[GROUP_NAME];
};

/* The ring of a CPU: crates/kernel/src/rings.rs reads the same layout. */
struct ring {
	/* Entries that the CPU has written and the reader has taken, since the beginning. */
	u64 written;
	u64 taken;
	/* Entries lost for lack of room. */
	u64 lost;
	/* Nesting depth of the CPU's interrupts. */
	u32 timer;
	u32 device;
	u32 soft;
	u32 unused[7];
};

#endif /* FAIRGROUND_RECORDING_H */
