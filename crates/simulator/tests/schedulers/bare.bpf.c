/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Nothing but a name: the kernel's defaults schedule.
 */
#include "fairground.bpf.h"

DEFINE_SCHEDULER(bare, .name = "bare");
