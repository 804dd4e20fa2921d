/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

DEFINE_SCHEDULER(accepted, .name = "accepted");
