/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "accepted.h"

DEFINE_SCHEDULER(accepted, .name = "accepted");
