# SPDX-License-Identifier: GPL-2.0-or-later
"""Single cells in a process that stays warm."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ._command import PATIENCE_S, CellError, FairgroundError, Text, WorkerDied, command, message, plain
from ._notebook import Progress

# Cells that are sent before the first of them is answered, beyond those that run: enough that the worker never waits, and few enough that the pipe
# holds them.
AHEAD = 4


class Worker:
    """A warm ``fairground work`` process: the files that a cell names are read and compiled once, and each further cell takes a fraction of a millisecond.

    >>> with fairground.Worker() as worker:                                  # doctest: +SKIP
    ...     run = worker(workload="mix-two", scheduler="cfs", machine="2", set={"sched_latency": "12ms"}, seed=3)
    ...     run["metrics"]["wakeup_latency"]["p99_ns"]

    A cell has the members of docs/sweeps.md. It is safe to use from several threads, which then wait for each other. The process starts with the
    first cell, and once more with the first after it has died.

    Args:
        threads: how many cells run at once in ``many``.
        program: another command than ``fairground.command()``.
    """

    _process: subprocess.Popen[str] | None = None

    def __init__(self, threads: int = 1, program: Text | None = None) -> None:
        if threads < 1:
            raise ValueError("threads: there has to be one")
        self.threads = threads
        self._program = program
        self._lock = threading.Lock()
        self._process = None
        self._said: Any = None
        self._closed = False

    def __call__(self, cell: Mapping[str, Any] | None = None, /, **members: Any) -> dict[str, Any]:
        """The run of one cell, as in the JSON of ``fairground compare``; ``status`` says how it ended.

        Raises:
            CellError: if the cell names something that cannot be used.
            WorkerDied: if the process ended before it answered.
        """
        return self.many([{**(cell or {}), **members}])[0]

    def many(self, cells: Iterable[Mapping[str, Any]], *, errors: str = "raise", progress: bool = False) -> list[Any]:
        """The runs of many cells, in their order.

        Args:
            errors: ``"raise"`` for the first cell that cannot be used, when all others have run; with ``"return"`` its ``CellError`` is in its place.
            progress: whether to show how far it is.

        Raises:
            CellError, WorkerDied: as for a single one.
        """
        if errors not in ("raise", "return"):
            raise ValueError(f'errors={errors!r}: neither "raise" nor "return"')
        wanted = [dict(cell) for cell in cells]
        results: list[Any] = []
        for cell, answer in zip(wanted, self._answers(wanted, progress)):
            if answer["error"] is None:
                results.append(answer["run"])
                continue
            error = CellError(answer["error"], cell)
            if errors == "raise":
                raise error
            results.append(error)
        return results

    def shard(self, folder: Text, number: int, count: int, *, threads: int = 1, until: str | None = None) -> dict[str, Any]:
        """Runs the rest of a shard of a sweep, whose results are written into its folder, and returns its ``Sweep.status()``.

        Args:
            number, count: which of how many shards, counted from 0.
            threads: cells at once.
            until: begin no cell after this time, such as ``"55m"``.

        Raises:
            FairgroundError: if there is no such sweep, or something cannot be read or written.
            WorkerDied: if the process ended before that. Results that it had written are not computed again.
        """
        wanted = {"sweep": os.fspath(folder), "shard": f"{number}/{count}", "threads": threads, "until": until}
        (answer,) = self._answers([wanted], False)
        if answer["error"] is not None:
            raise FairgroundError(answer["error"])
        progress: dict[str, Any] = answer["progress"]
        return progress

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._closed = True
            self._kill()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._kill()

    @property
    def pid(self) -> int | None:
        """The number of the process, if there is one."""
        return self._process.pid if self._process else None

    def _answers(self, wanted: list[dict[str, Any]], progress: bool) -> list[dict[str, Any]]:
        answers: list[Any] = [None] * len(wanted)
        lines = []
        for number, one in enumerate(wanted):
            try:
                line = json.dumps({**one, "id": number}, default=_plain, allow_nan=False, ensure_ascii=False)
                line.encode()
                lines.append(line)
            except (TypeError, ValueError) as error:
                answers[number] = {"error": f"a cell cannot have this: {error}"}
        with self._lock:
            try:
                for answer in self._exchange(lines, progress):
                    answers[answer["id"]] = answer
                return answers
            except BaseException:
                # Answers still to come would be taken for answers to the next cells.
                self._kill()
                raise

    def _exchange(self, lines: list[str], progress: bool) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        if not lines:
            return answers
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        sent = 0
        with Progress("cells", len(lines), progress) as bar:
            for received in range(len(lines)):
                try:
                    while sent < len(lines) and sent - received < self.threads + AHEAD:
                        process.stdin.write(lines[sent] + "\n")
                        sent += 1
                    process.stdin.flush()
                except BrokenPipeError:
                    raise self._death(received) from None
                line = process.stdout.readline()
                if not line.endswith("\n"):
                    raise self._death(received)
                answers.append(json.loads(line))
                bar.tell(received + 1)
        return answers

    def _start(self) -> subprocess.Popen[str]:
        if self._closed:
            raise ValueError("the worker is closed")
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._kill()
        self._said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [os.fspath(self._program) if self._program is not None else command(), "work", "--threads", str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            # Ctrl-C in a terminal goes to Python alone.
            start_new_session=True,
        )
        return self._process

    def _death(self, received: int) -> WorkerDied:
        assert self._process is not None
        status = self._process.wait(PATIENCE_S)
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        self._said.seek(0)
        return WorkerDied(
            f"the worker process ended {how} after {received} answers: {message(self._said.read())}; the next cell starts another one"
        )

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._said):
            try:
                stream.close()
            except OSError:
                pass


def _plain(value: Any) -> Any:
    """What JSON has no form for: numbers of numpy and paths."""
    number = plain(value)
    return os.fsdecode(value) if number is value else number
