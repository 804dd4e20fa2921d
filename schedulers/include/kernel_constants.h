/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel_constants.h - constants that the kernel defines as macros
 *
 * BTF has no macros, so they are not in vmlinux.h. Values of Linux 6.18 to 7.3; all are part of the
 * interface to user space or have not changed for many years.
 */
#pragma once

/* task_struct.flags */
#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* task_struct.__state */
#define TASK_RUNNING 0x00000000
#define TASK_INTERRUPTIBLE 0x00000001
#define TASK_UNINTERRUPTIBLE 0x00000002
#define TASK_NOLOAD 0x00000400

/* task_struct.policy */
#define SCHED_NORMAL 0
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_BATCH 3
#define SCHED_IDLE 5

/* Priorities: 0 to 99 real time, 100 to 139 for nice -20 to 19 */
#define MAX_NICE 19
#define MIN_NICE -20
#define NICE_WIDTH 40
#define MAX_RT_PRIO 100
#define DEFAULT_PRIO 120
#define MAX_PRIO 140

/* Full capacity of a CPU */
#define SCHED_CAPACITY_SCALE 1024

/* Errors */
#define ENOENT 2
#define ESRCH 3
#define ENOMEM 12
#define EBUSY 16
#define EINVAL 22

/* Clocks of bpf_timer_init() */
#define CLOCK_MONOTONIC 1

#define NUMA_NO_NODE (-1)

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL
