# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps: many cells that survive any end of the processes that run them."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from . import _dask
from ._command import FairgroundError, Text, message, plain, run, text
from ._notebook import Progress

if TYPE_CHECKING:
    from distributed import Client

Axis = Union[Any, Sequence[Any]]

# What a plan names and identities of cells do not depend on: columns of runs and tasks.
LABELS = ("scheduler", "workload", "machine", "cost_model")
# Exit status of a run that was asked to end before all was done.
UNFINISHED = 75


class Sweep:
    """A sweep's folder: a plan with everything that its cells need, and the results so far (docs/sweeps.md).

    >>> sweep = fairground.Sweep("S", "granularity.toml")                    # doctest: +SKIP
    >>> sweep = fairground.Sweep("S", workloads="mix-two", seeds=20, schedulers=["eevdf", {"id": "cfs", "set": {"sched_latency": ["3ms", "6ms"]}}])
    >>> sweep = fairground.Sweep("S")                                        # the one that is there

    It can be given to polars, pandas, DuckDB and pyarrow as it is and is then its ``runs``.

    Args:
        folder: where the sweep is or is to be. Planning again keeps the results that are there.
        file: the TOML file with the axes.
        schedulers: instead of a file: ids or paths, or tables with the members of ``[[scheduler]]``.
        scores: tables with the members of ``[[score]]``.
        axes: the other members of the file: ``workloads``, ``machines``, ``costs``, ``hz``, ``hotplug``, ``seeds``, ``duration`` and so on. Paths
            are looked for in the current folder; None is as if it were not there.
        program: another command than ``fairground.command()``.

    Raises:
        FairgroundError: if something that the plan names cannot be used, or there is no sweep in the folder.
    """

    def __init__(
        self,
        folder: Text,
        file: Text | None = None,
        *,
        schedulers: Axis = None,
        scores: Sequence[Mapping[str, Any]] = (),
        program: Text | None = None,
        **axes: Any,
    ) -> None:
        self.folder = Path(folder)
        self.program = None if program is None else os.fspath(program)
        axes = {name: value for name, value in axes.items() if value is not None}
        if file is not None and (schedulers is not None or scores or axes):
            raise ValueError("a sweep has either a file or axes")
        if file is not None:
            self._command("plan", os.fspath(file), "-o", folder)
        elif schedulers is not None or scores or axes:
            self._plan(_toml(schedulers, scores, axes))
        else:
            self.status()

    def run(
        self,
        *,
        client: Client | None = None,
        threads: int | None = None,
        shards: int | None = None,
        until: str | None = None,
        progress: bool = True,
    ) -> dict[str, Any]:
        """Runs the cells that have no result, and returns ``status()``.

        It may be interrupted or killed at any time; run again, it goes on.

        Args:
            client: the Dask cluster that runs them; this machine without it. Its workers need the folder under the same path, and this package.
            threads: cells at once in a process; all CPUs of this machine, on Dask those of a worker's thread, which is 1.
            shards: how many tasks that makes for Dask; eight for each thread of the cluster without it.
            until: begin no cell after this time, such as ``"55m"``.
            progress: whether to show how far it is.
        """
        before = self.status()
        with Progress("cells", before["cells"], progress) as bar:
            if client is not None:
                _dask.run_sweep(client, self.folder.resolve(), self.program, threads or 1, shards, until, bar, before["cells"])
            else:
                arguments = ["sweep", "run", os.fspath(self.folder)]
                for option, value in (("--threads", threads), ("--until", until)):
                    arguments += [] if value is None else [option, str(value)]
                run(arguments, (0, UNFINISHED), self.program, lambda: bar.tell(_rows(self.folder)))
        return self.status()

    def status(self) -> dict[str, Any]:
        """How many ``cells`` there are, are ``done`` and ``left``, and how many ended how (``statuses``)."""
        ended = run(["sweep", "status", os.fspath(self.folder), "--format", "json"], (0, 1), self.program)
        if not ended.stdout:
            raise FairgroundError(message(ended.stderr))
        status: dict[str, Any] = json.loads(ended.stdout)
        return status

    @property
    def runs(self) -> pa.Table:
        """The results of the plan's cells, a row for each."""
        return self._table("runs", [])

    @property
    def tasks(self) -> pa.Table:
        """The tasks of these runs, a row for each."""
        return self._table("tasks", ["task"])

    def dataset(self, what: str = "runs") -> ds.Dataset:
        """All files of ``runs`` or ``tasks`` as they are, for data that does not fit into memory.

        Cells that are not in the plan any more may be among them, and cells may be there twice.
        """
        return ds.dataset(os.fspath(self.folder / "data" / what), format="parquet", partitioning="hive")

    def score(self, name: str | None = None) -> pa.Table:
        """The numbers of a score for each scheduler with its settings, the best first: columns ``score``, ``scheduler`` and ``spread``,
        which has the place and the lowest and highest number with one seed. What the command says of them is a warning."""
        lines = self._command("score", self.folder, *([] if name is None else [name])).splitlines()
        # Without others, a scheduler is not named.
        first = self._planned()["schedulers"][0]
        only = " ".join([first["name"], *(f"{key}={values[0]}" for key, values in first["set"])])
        rows = [line.split("\t") if "\t" in line else (line, only, "") for line in lines]
        return pa.table(
            {
                "score": pa.array([float(row[0]) for row in rows], pa.float64()),
                "scheduler": pa.array([row[1] for row in rows], pa.string()),
                "spread": pa.array([row[2] for row in rows], pa.string()),
            }
        )

    def table(self, form: str = "table") -> str:
        """The output of ``fairground compare``, from the results that are there; ``form`` is ``table``, ``csv`` or ``markdown``."""
        return self._command("table", self.folder, "--format", form)

    def pack(self) -> None:
        """Makes few files of many, with each cell once.

        Raises:
            FairgroundError: if two results of a cell differ, which would be the mistake of a machine.
        """
        self._command("pack", self.folder)

    def slurm(self, *, tasks: int, cpus: int = 1, time: str) -> str:
        """The script of a Slurm array that runs the sweep, for ``sbatch``."""
        return self._command("slurm", self.folder, "--tasks", str(tasks), "--cpus", str(cpus), "--time", time)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.runs.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        status = self.status()
        ended = ", ".join(f"{count} {name}" for name, count in status["statuses"].items())
        return f"<fairground.Sweep {os.fspath(self.folder)!r}: {status['done']} of {status['cells']} cells done{': ' if ended else ''}{ended}>"

    def _command(self, verb: str, *arguments: Text) -> str:
        ended = run(["sweep", verb, *map(os.fspath, arguments)], program=self.program)
        if ended.stderr:
            warnings.warn(message(ended.stderr), stacklevel=3)
        return ended.stdout

    def _plan(self, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="fairground-") as folder:
            file = Path(folder, f"{self.folder.name}.toml")
            file.write_text(text, encoding="utf-8")
            self._command("plan", file, "-o", self.folder)

    def _planned(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads((self.folder / "plan" / "plan.json").read_text(encoding="utf-8"))
        return plan

    def _table(self, what: str, more: list[str]) -> pa.Table:
        plan = self._planned()
        files = sorted((self.folder / "data" / what / f"engine={plan['engine']}").glob("*.parquet"))
        if not files:
            raise FairgroundError(f"{self.folder}: there are no results yet; run() makes some")
        table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        listed = (self.folder / "plan" / "cells").read_bytes()
        planned = pa.array([listed[at : at + 16].hex() for at in range(0, len(listed), 16)])
        table = table.filter(pc.is_in(table["cell"], planned))
        # A former plan may have called the same things otherwise.
        places = pc.index_in(table["cell"], planned)
        for name, names in zip(LABELS, zip(*_labels(self.folder / "plan", plan))):
            table = table.set_column(table.column_names.index(name), name, pa.array(names, pa.string()).take(places))
        # Where a process was killed, a cell may be there twice.
        place = pa.array(range(table.num_rows), pa.int64())
        first = table.select(["cell", *more]).append_column("place", place).group_by(["cell", *more]).aggregate([("place", "min")])
        if first.num_rows == table.num_rows:
            return table
        return table.take(first["place_min"].combine_chunks().sort())


def _labels(folder: Path, plan: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """LABELS of each cell, in the order of the cells."""
    workloads = []
    for one in plan["workloads"]:
        file, mark, values = (one, "", "") if (folder / one).exists() else one.rpartition(":")
        workloads.append(Path(file).stem + mark + values)
    return [
        (scheduler["name"], workload, machine["name"], Path(condition["cost"]["from"]).name)
        for scheduler in plan["schedulers"]
        for condition in plan["conditions"]
        for workload in workloads
        for machine in plan["machines"]
        for _ in range(scheduler["variants"] * plan["seeds"])
    ]


def _rows(folder: Path) -> int:
    """Roughly how many cells are done: a number to look at."""
    count = 0
    for file in folder.glob("data/runs/engine=*/*.parquet"):
        try:
            count += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowInvalid):
            continue
    return count


def _toml(schedulers: Axis, scores: Sequence[Mapping[str, Any]], axes: Mapping[str, Any]) -> str:
    """The file of a sweep. Paths in it are absolute, as it is in another folder."""
    given = {}
    for name, value in axes.items():
        value = plain(value)
        if name in ("workloads", "machines", "costs", "hz") and (isinstance(value, (str, int)) or hasattr(value, "__fspath__")):
            value = [value]
        if name in ("workloads", "machines", "costs"):
            value = [_found(text(one)) for one in value]
        given[name] = value
    lines = _lines(given)
    if isinstance(schedulers, (str, Mapping)) or hasattr(schedulers, "__fspath__"):
        schedulers = [schedulers]
    for scheduler in schedulers or ():
        table = dict(scheduler) if isinstance(scheduler, Mapping) else {"id": scheduler}
        if "id" not in table:
            raise ValueError(f"a scheduler without an id: {table}")
        table["id"] = "+".join(_found(part) for part in os.fspath(table["id"]).split("+"))
        if "with" in table:
            table["with"] = _found(os.fspath(table["with"]))
        if "include" in table:
            table["include"] = [os.path.abspath(one) for one in table["include"]]
        lines += ["[[scheduler]]", *_lines(table)]
    for score in scores:
        lines += ["[[score]]", *_lines(score)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{json.dumps(name)} = {_value(value)}" for name, value in table.items()]


def _found(name: str) -> str:
    """The absolute path of a file, before a colon or number sign, and other names as they are."""
    for mark in ("", ":", "#"):
        path, found, rest = name.rpartition(mark) if mark else (name, "", "")
        if path and os.path.exists(path) and (os.sep in path or "." in path):
            return f"{os.path.abspath(path)}{found}{rest}"
    return name


def _value(value: Any) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(name))} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007F")
    return "[" + ", ".join(_value(one) for one in value) + "]"
