/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sleep_priority.h - the kernel priority that a sleep passes to FreeBSD's sched_sleep(), by what
 * the thread waits for
 *
 * FreeBSD names a priority where it sleeps: PRIBIO for disks and pipes, PSOCK for sockets and
 * kqueue, PWAIT for nanosleep() and wait(), PPAUSE for signals, none for the mutexes and conditions
 * of programs (umtx) and for select(). Here the system call that a thread sleeps in tells these
 * apart. That is visible on x86 only; elsewhere every sleep but one for a disk passes PWAIT.
 */
#pragma once

#include "freebsd.h"

/* FreeBSD 9 */
#define PRIBIO (PRI_MIN_KERN + 12)
#define PSOCK (PRI_MIN_KERN + 24)
#define PWAIT (PRI_MIN_KERN + 28)
#define PPAUSE (PRI_MIN_KERN + 36)

/* Passed by a sleep that leaves the priority as it is */
#define NO_SLEEP_PRIORITY 0

/* System calls of x86 in which threads sleep; select() and its relatives come in groups */
enum system_call {
	SYS_READ = 0,
	SYS_WRITE = 1,
	SYS_POLL = 7,
	SYS_PREAD64 = 17,
	SYS_PWRITE64 = 18,
	SYS_READV = 19,
	SYS_WRITEV = 20,
	SYS_SELECT = 23,
	SYS_PAUSE = 34,
	SYS_CONNECT = 42,
	SYS_ACCEPT = 43,
	SYS_SENDTO = 44,
	SYS_RECVFROM = 45,
	SYS_SENDMSG = 46,
	SYS_RECVMSG = 47,
	SYS_RT_SIGTIMEDWAIT = 128,
	SYS_RT_SIGSUSPEND = 130,
	SYS_FUTEX = 202,
	SYS_EPOLL_WAIT = 232,
	SYS_PSELECT6 = 270,
	SYS_PPOLL = 271,
	SYS_EPOLL_PWAIT = 281,
	SYS_ACCEPT4 = 288,
	SYS_EPOLL_PWAIT2 = 441,
};

static __always_inline s32 priority_of_call(u64 call)
{
	switch (call) {
	case SYS_FUTEX:
	case SYS_SELECT:
	case SYS_PSELECT6:
	case SYS_POLL:
	case SYS_PPOLL:
		return NO_SLEEP_PRIORITY;
	case SYS_READ:
	case SYS_WRITE:
	case SYS_PREAD64:
	case SYS_PWRITE64:
	case SYS_READV:
	case SYS_WRITEV:
		return PRIBIO;
	case SYS_CONNECT ... SYS_RECVMSG:
	case SYS_ACCEPT4:
	case SYS_EPOLL_WAIT:
	case SYS_EPOLL_PWAIT:
	case SYS_EPOLL_PWAIT2:
		return PSOCK;
	case SYS_PAUSE:
	case SYS_RT_SIGTIMEDWAIT:
	case SYS_RT_SIGSUSPEND:
		return PPAUSE;
	default:
		return PWAIT;
	}
}

/* The priority that the sleep of @p passes, which has just begun. */
static __always_inline s32 sleep_priority(struct task_struct *p)
{
	const struct pt_regs *registers;

	if (p->in_iowait)
		return PRIBIO;
	registers = (const struct pt_regs *)bpf_task_pt_regs(p);
	if (!bpf_core_field_exists(registers->orig_ax))
		return PWAIT;
	return priority_of_call(registers->orig_ax);
}
