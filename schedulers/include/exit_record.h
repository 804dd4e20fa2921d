/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a scheduler was switched off, as the loader reads it.
 *
 * The kernel gives the reason for a scheduler's end only to its ops.exit(). So that callback copies
 * it into one global record, which the loader reads once the kernel has released the scheduler.
 */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define EXIT_REASON_LENGTH 128
#define EXIT_MESSAGE_LENGTH 1024
#define EXIT_DUMP_LENGTH 32768

/* The loader finds the members by name through BTF; texts end with a zero byte. */
struct exit_record {
	/* enum scx_exit_kind; 0 until the scheduler has ended. */
	s32 kind;
	/* The code given to scx_bpf_exit(), or a combination of enum scx_exit_code. */
	s64 exit_code;
	/* The kernel's one-line description of the kind. */
	char reason[EXIT_REASON_LENGTH];
	/* The exact fault; may be empty. */
	char msg[EXIT_MESSAGE_LENGTH];
	/* The kernel's report of run queues and tasks at that moment; may be empty. */
	char dump[EXIT_DUMP_LENGTH];
};

/* Copies the kernel's record, the kind last: a loader that sees the kind also sees the texts. */
static __always_inline void record_exit(struct exit_record *record, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(record->reason, EXIT_REASON_LENGTH, info->reason);
	bpf_probe_read_kernel_str(record->msg, EXIT_MESSAGE_LENGTH, info->msg);
	bpf_probe_read_kernel_str(record->dump, EXIT_DUMP_LENGTH, info->dump);
	record->exit_code = info->exit_code;
	__sync_val_compare_and_swap(&record->kind, 0, info->kind);
}
