# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps on a Dask cluster.

A task is a shard: ``fairground sweep run`` on the shared folder, which skips what is there. The results are files, so a task returns counts, and
one that Dask runs again, because a worker died, finds what the first one wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._command import FairgroundError, message, run
from ._notebook import Progress

if TYPE_CHECKING:
    from distributed import Client

# Tasks for each thread of the cluster: some, so that the last ones to end are short.
TASKS_PER_THREAD = 8
# How many workers may die at a task before it counts as failed.
RETRIES = 3


def shard(folder: str, number: int, count: int, threads: int, until: str | None, program: str | None) -> dict[str, Any]:
    """Runs a shard; returns how many of its cells have a result, and how these ended."""
    here = [folder, "--shard", f"{number}/{count}"]
    limit = [] if until is None else ["--until", until]
    run(["sweep", "run", *here, "--threads", str(threads), *limit], (0, 75), program)
    ended = run(["sweep", "status", *here, "--format", "json"], (0, 1), program)
    if not ended.stdout:
        raise FairgroundError(message(ended.stderr))
    status = json.loads(ended.stdout)
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
            # Dask would compute again what it holds and loses.
            future.release()
    except BaseException:
        client.cancel(futures)
        raise
    return results


def run_sweep(
    client: Client, folder: Path, program: str | None, threads: int, shards: int | None, until: str | None, bar: Progress, cells: int
) -> None:
    """Runs what is left of a sweep."""
    slots = max(1, sum(client.nthreads().values()))
    count = min(shards or slots * TASKS_PER_THREAD, max(cells, 1))
    done = 0

    def tell(counts: dict[str, Any]) -> None:
        nonlocal done
        done += counts["done"]
        bar.tell(done)

    run_on(client, shard, [(str(folder), number, count, threads, until, program) for number in range(count)], tell)
