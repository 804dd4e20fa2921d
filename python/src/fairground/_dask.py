# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps on a Dask cluster.

A task is a shard of the shared folder, run by a ``fairground work`` process that each thread of Dask keeps from one task to the next, and that skips what
is there. The results are files, so a task returns counts, and one that Dask runs again, because a worker died, finds what the first one wrote.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._notebook import Progress
from ._worker import Worker

if TYPE_CHECKING:
    from distributed import Client

# Tasks for each thread of the cluster: some, so that the last ones to end are short.
TASKS_PER_THREAD = 8
# How many workers may die at a task before it counts as failed.
RETRIES = 3


# The worker of each thread.
_kept = threading.local()


def warm(program: str | None) -> Worker:
    """The worker of this thread, which starts with its first use."""
    if getattr(_kept, "program", None) != (program,):
        _kept.worker, _kept.program = Worker(program=program), (program,)
    worker: Worker = _kept.worker
    return worker


def shard(folder: str, number: int, count: int, threads: int, until: str | None, program: str | None) -> dict[str, Any]:
    """Runs a shard; returns how many of its cells have a result, and how these ended."""
    status = warm(program).shard(folder, number, count, threads=threads, until=until)
    return {name: status[name] for name in ("cells", "done", "statuses")}


def run_on(client: Client, function: Any, parts: list[tuple[Any, ...]], told: Any) -> list[Any]:
    """The results of a function for each part, in their order. ``told`` gets each one as it comes."""
    from distributed import as_completed

    futures = [client.submit(function, *part, pure=False, retries=RETRIES) for part in parts]
    places = {future.key: place for place, future in enumerate(futures)}
    results: list[Any] = [None] * len(futures)
    try:
        for future, result in as_completed(futures, with_results=True):
            results[places[future.key]] = result
            told(result)
            # Dask would compute again the results that it holds and loses.
            future.release()
    except BaseException:
        client.cancel(futures)
        raise
    return results


def run_sweep(
    client: Client, folder: Path, program: str | None, threads: int, shards: int | None, until: str | None, bar: Progress, cells: int
) -> None:
    """Runs the rest of a sweep."""
    slots = max(1, sum(client.nthreads().values()))
    count = min(shards or slots * TASKS_PER_THREAD, max(cells, 1))
    done = 0

    def tell(counts: dict[str, Any]) -> None:
        nonlocal done
        done += counts["done"]
        bar.tell(done)

    run_on(client, shard, [(str(folder), number, count, threads, until, program) for number in range(count)], tell)
