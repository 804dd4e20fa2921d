# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparing schedulers."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ._command import FairgroundError, Text, listed, message, run, settings, text

Several = Union[Text, Sequence[Text]]
Settings = Mapping[str, Any]


class Comparison:
    """The result of ``compare``: runs, their tasks, and the page.

    It can be given to polars, pandas, DuckDB and pyarrow as it is and is then its ``runs``, without a copy. In a notebook it shows the page.

    Attributes:
        runs: a row for each run, with the columns of docs/metrics.md.
        tasks: a row for each task of each run.
        differences: with a baseline, a row for each measure that was compared with it.
        document: the result as the command's JSON (docs/schema/compare-2.json).
    """

    def __init__(self, runs: pa.Table, tasks: pa.Table, document: dict[str, Any], page: str) -> None:
        self.runs = runs
        self.tasks = tasks
        self.document = document
        self._page = page

    @property
    def differences(self) -> pa.Table:
        """Differences to the baseline, a row for each measure, with the 95 % interval (``low``, ``high``) and the ``judgement``."""
        return pa.Table.from_pylist(self.document["differences"])

    @property
    def failures(self) -> pa.Table:
        """The runs that did not end well; ``status``, ``kind`` and ``message`` say how."""
        return self.runs.filter(pc.not_equal(self.runs["status"], "ok"))

    def page(self, path: Text | None = None) -> str:
        """The page as HTML, which is also written to ``path`` if there is one."""
        if path is not None:
            Path(path).write_text(self._page, encoding="utf-8")
        return self._page

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.runs.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.runs.num_rows

    def __repr__(self) -> str:
        statuses = Counter(self.runs["status"].to_pylist())
        ended = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        schedulers = ", ".join(dict.fromkeys(self.runs["scheduler"].to_pylist()))
        return f"<fairground.Comparison of {schedulers}: {len(self)} runs, {ended}>"

    def _repr_html_(self) -> str:
        return frame(self._page)


def frame(page: str) -> str:
    """A page inside another."""
    style = "width:100%;height:640px;border:1px solid #ccc"
    return f'<iframe style="{style}" sandbox="allow-scripts" srcdoc="{html.escape(page)}"></iframe>'


def compare(
    workloads: Several,
    schedulers: Several | Mapping[str, Text] | None = None,
    *,
    machine: Several | int | None = None,
    duration: str | None = None,
    seed: int = 0,
    repeat: int | None = None,
    cost: Text | None = None,
    hz: int | str | None = None,
    kernel: str | None = None,
    window: str | None = None,
    hotplug: Several | None = None,
    noise: str | None = None,
    set: Settings | None = None,  # noqa: A002: it is called so everywhere
    with_: Several | None = None,
    include: Several | None = None,
    define: Several | None = None,
    threads: int | None = None,
    baseline: Text | None = None,
    require: Several | None = None,
    starved: str | None = None,
    trace: Text | None = None,
    program: Text | None = None,
) -> Comparison:
    """Compares schedulers in the simulator.

    The options are those of ``fairground compare`` and have its defaults and units; times are texts with a unit, such as ``"500ms"``.

    Args:
        workloads: rt-app files, recordings, or names of loads, such as ``"mix-two"`` or ``"schbench:threads=16"``; one or several.
        schedulers: ids, or paths of sources or objects; ``{"old": "v1/mine.bpf.c", "new": "mine.bpf.c"}`` gives them names. All of the
            catalogue without it.
        machine: a number of CPUs, an hwloc description or XML file, or ``"host"``; one or several.
        repeat: how often each run is repeated, with one more for the seed each time.
        set: values of settings, ``{"cfs.sched_latency": "6ms"}``; a list is a scheduler for each value.
        with_: companion files, ``--with``.
        include: folders with headers, ``-I``.
        define: macros, ``-D``.
        baseline: the scheduler with which the others are compared: ``differences`` of the result.
        program: another command than ``fairground.command()``.

    Returns:
        The runs, whatever became of them: one that fails is a row.

    Raises:
        FairgroundError: if nothing can be run, with the command's message.
    """
    if isinstance(schedulers, Mapping):
        schedulers = [f"{name}={text(one)}" for name, one in schedulers.items()]
    arguments = ["compare", *listed(workloads), "--format", "json"]
    if schedulers is not None:
        arguments += ["--schedulers", ",".join(listed(schedulers))]
    for option, value in {
        "machine": machine,
        "duration": duration,
        "seed": seed,
        "repeat": repeat,
        "cost": cost,
        "hz": hz,
        "kernel": kernel,
        "window": window,
        "hotplug": hotplug,
        "noise": noise,
        "with": with_,
        "threads": threads,
        "baseline": baseline,
        "require": require,
        "starved": starved,
        "trace": trace,
    }.items():
        for one in listed(value):
            arguments += [f"--{option}", one]
    if repeat is None and baseline is None:
        arguments += ["--repeat", "1"]
    for option, value in {"-I": include, "-D": define}.items():
        for one in listed(value):
            arguments += [option, one]
    for name, value in (set or {}).items():
        arguments += ["--set", settings({name: value})]
    with tempfile.TemporaryDirectory(prefix="fairground-") as folder:
        page = os.path.join(folder, "page.html")
        ended = run([*arguments, "--output", folder, "--report", page], accepted=(0, 1), program=program)
        if not os.path.exists(page):
            raise FairgroundError(message(ended.stderr))
        return Comparison(
            read(folder, "runs"), read(folder, "tasks"), json.loads(ended.stdout), Path(page).read_text(encoding="utf-8")
        )


def read(folder: Text, what: str) -> pa.Table:
    """The table that is in the files of a folder."""
    # A file is read as a whole, or the table would need the file after it is gone.
    files = sorted(Path(folder, what).rglob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, memory_map=False, partitioning=None) for file in files])
