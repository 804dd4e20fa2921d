/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 words[4] = {};
	u64 *word = words;

	barrier_var(word);
	word[8] = 1;		/* refused: outside of the stack */
}

SCHEDULER;
