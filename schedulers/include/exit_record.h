/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a scheduler was switched off, as the loader reads it.
 *
 * The kernel tells a sched_ext scheduler the reason of its end in ops.exit(), and nobody else. A scheduler
 * therefore defines one global record with DEFINE_EXIT_RECORD and fills it in ops.exit() with RECORD_EXIT; the
 * loader reads it once the kernel has let go of the scheduler.
 *
 * This header expects that vmlinux.h, bpf_helpers.h and bpf_core_read.h have been included.
 */
#pragma once

#define EXIT_REASON_LENGTH 128
#define EXIT_MESSAGE_LENGTH 1024
#define EXIT_DUMP_LENGTH 32768

/* The loader finds the members by name through BTF; texts end with a zero byte. */
struct exit_record {
	/* enum scx_exit_kind; 0 as long as the scheduler has not ended. */
	s32 kind;
	/* What scx_bpf_exit() was called with, or a combination of enum scx_exit_code. */
	s64 exit_code;
	/* One line by the kernel for the kind. */
	char reason[EXIT_REASON_LENGTH];
	/* What exactly went wrong, may be empty. */
	char msg[EXIT_MESSAGE_LENGTH];
	/* The kernel's report of run queues and tasks at that moment, may be empty. */
	char dump[EXIT_DUMP_LENGTH];
};

/* Defines the record; once per scheduler. */
#define DEFINE_EXIT_RECORD struct exit_record exit_record SEC(".data")

/*
 * Copies what the kernel says (struct scx_exit_info *) into the record, the kind last: a loader that
 * sees the kind sees the texts as well.
 */
#define RECORD_EXIT(info)								\
	do {										\
		struct scx_exit_info *exit_info_ = (info);				\
											\
		bpf_probe_read_kernel_str(exit_record.reason, EXIT_REASON_LENGTH,	\
					  exit_info_->reason);				\
		bpf_probe_read_kernel_str(exit_record.msg, EXIT_MESSAGE_LENGTH,		\
					  exit_info_->msg);				\
		bpf_probe_read_kernel_str(exit_record.dump, EXIT_DUMP_LENGTH,		\
					  exit_info_->dump);				\
		exit_record.exit_code = exit_info_->exit_code;				\
		__sync_val_compare_and_swap(&exit_record.kind, 0, exit_info_->kind);	\
	} while (0)
