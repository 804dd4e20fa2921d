/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpus_and_ticks.h - what ops.init() learns of the machine
 */
#pragma once

/* Number of CPUs, and the length of a tick of the era */
static u32 nr_cpus;
static u64 tick_nsec;
