/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel_constants.h - constants that the kernel defines as macros
 *
 * BTF knows no macros, so they are not in vmlinux.h. Values of Linux 6.18 to 7.3; all of them are part of the
 * interface to user space or have not changed for many years.
 */
#ifndef FAIRGROUND_KERNEL_CONSTANTS_H
#define FAIRGROUND_KERNEL_CONSTANTS_H

/* task_struct.flags */
#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_FORKNOEXEC 0x00000040
#define PF_SIGNALED 0x00000400
#define PF_MEMALLOC 0x00000800
#define PF_USER_WORKER 0x00004000
#define PF_KCOMPACTD 0x00010000
#define PF_KSWAPD 0x00020000
#define PF_KTHREAD 0x00200000
#define PF_NO_SETAFFINITY 0x04000000

/* task_struct.__state */
#define TASK_RUNNING 0x00000000
#define TASK_INTERRUPTIBLE 0x00000001
#define TASK_UNINTERRUPTIBLE 0x00000002
#define TASK_PARKED 0x00000040
#define TASK_DEAD 0x00000080
#define TASK_WAKEKILL 0x00000100
#define TASK_WAKING 0x00000200
#define TASK_NOLOAD 0x00000400
#define TASK_NEW 0x00000800
#define TASK_IDLE (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)

/* task_struct.policy */
#define SCHED_NORMAL 0
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define SCHED_DEADLINE 6
#define SCHED_EXT 7

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
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EBUSY 16
#define EEXIST 17
#define ENODEV 19
#define EINVAL 22
#define ENOSPC 28
#define ERANGE 34
#define EOPNOTSUPP 95

/* Clocks of bpf_timer_init() */
#define CLOCK_MONOTONIC 1
#define CLOCK_BOOTTIME 7

#define NUMA_NO_NODE (-1)

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL

#endif /* FAIRGROUND_KERNEL_CONSTANTS_H */
