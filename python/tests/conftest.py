# SPDX-License-Identifier: GPL-2.0-or-later
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "src"))
# The environment that workers of Dask and kernels of notebooks inherit.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python" / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])

# Twenty lines: one queue, a slice that can be set.
SOURCE = """
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";
const volatile unsigned long long slice_ns = 20000000;

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;

SEC("struct_ops/plain_enqueue")
void plain_enqueue(unsigned long long *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];

	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, ctx[1]);
}

SEC(".struct_ops.link")
struct sched_ext_ops plain = {
	.enqueue = (void *)plain_enqueue,
	.name = "plain",
};
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A scheduler of the user's own."""
    path = tmp_path / "plain.bpf.c"
    path.write_text(SOURCE)
    return path
