# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU schedulers side by side, in a simulator that behaves like Linux's sched_ext.

``compare`` runs schedulers on workloads, ``Worker`` runs single cells in one warm process, ``Sweep`` runs many cells that survive what ends
the processes that run them, and ``tune`` looks for good settings. All results are pyarrow tables.
"""

from ._command import CellError, FairgroundError, WorkerDied, command
from ._compare import Comparison, compare
from ._sweep import Sweep
from ._tune import Tuning, importance, tune
from ._worker import Worker

__all__ = [
    "CellError",
    "Comparison",
    "FairgroundError",
    "Sweep",
    "Tuning",
    "Worker",
    "WorkerDied",
    "command",
    "compare",
    "importance",
    "tune",
]
