/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The records that recorder.bpf.c writes; src/recorder/record.rs reads the same layout. */
#ifndef FAIRGROUND_RECORDER_H
#define FAIRGROUND_RECORDER_H

enum record_kind {
	RECORD_SWITCH = 1,
	RECORD_WAKE = 2,
	RECORD_MIGRATION = 3,
	RECORD_FORK = 4,
	RECORD_TURN = 5,
};

/* The fate of the task that leaves a CPU. */
enum record_state {
	STATE_RUNNABLE = 0,
	STATE_SLEEPS = 1,
	STATE_ENDED = 2,
	/* Runnable, but held back because a control group has used its quota */
	STATE_THROTTLED = 3,
};

/* A tracked task; pid 0 for none. */
struct recorded_task {
	u32 pid;
	u32 policy;
	u32 static_prio;
	u32 rt_priority;
	/* Bit mask of the CPUs 0 to 63 that it may use. */
	u64 first_cpus_allowed;
	u32 nr_cpus_allowed;
	u32 padding;
	char comm[16];
};

struct record {
	/* CLOCK_MONOTONIC, nanoseconds; for a turn, when the task was woken. */
	u64 time;
	u32 kind;
	/* Where it happened; for a wake-up, the chosen CPU; for a migration, the CPU left. */
	u32 cpu;
	/* State of the leaving task. */
	u32 state;
	/* Waking thread, CPU migrated to, forking thread; of a turn, whether of a kernel thread. */
	u32 other;
	/* The task; for a switch, the one that leaves. */
	struct recorded_task task;
	/* For a switch, the task that comes. */
	struct recorded_task next;
	/* For a turn, CPU time used between wake-up and next sleep, nanoseconds. */
	u64 cpu_time;
};

#endif /* FAIRGROUND_RECORDER_H */
