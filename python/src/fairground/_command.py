# SPDX-License-Identifier: GPL-2.0-or-later
"""The ``fairground`` command: where it is, and how it is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

Text = Union[str, os.PathLike]
"""A name or a path."""

# How long a process that is asked to end may take to write its results so far.
PATIENCE_S = 20


class FairgroundError(RuntimeError):
    """The command refused its input or could not do its work; the text is its message."""


class CellError(FairgroundError):
    """A cell names something that cannot be used, such as a scheduler or setting that there is not.

    ``cell`` is the cell as it was given.
    """

    def __init__(self, message: str, cell: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.cell = dict(cell)


class WorkerDied(FairgroundError):
    """The process of a ``Worker`` ended before it had answered."""


def command() -> str:
    """The path of the ``fairground`` command that the package uses.

    It is the one that was installed with the package; without it the one that the environment variable FAIRGROUND names, and otherwise the
    first in PATH.

    Raises:
        FairgroundError: if there is none.
    """
    beside = Path(__file__).parent.parent
    folders = [sysconfig.get_path("scripts"), Path(sys.prefix) / "bin", beside / "bin"]
    for folder in folders:
        path = Path(folder) / "fairground"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    named = os.environ.get("FAIRGROUND")
    if named:
        found = shutil.which(named)
        if found is None:
            raise FairgroundError(f"FAIRGROUND={named}: there is no such program")
        return os.path.abspath(found)
    found = shutil.which("fairground")
    if found is None:
        raise FairgroundError(
            "there is no fairground command; install the package with `pip install ./python`, which builds it, or name one by the "
            "environment variable FAIRGROUND"
        )
    return found


def listed(value: Any) -> list[str]:
    """Texts of one value or several."""
    if value is None:
        return []
    value = plain(value)
    if isinstance(value, (str, os.PathLike, int, float)):
        return [text(value)]
    return [text(one) for one in value]


def plain(value: Any) -> Any:
    """A number of numpy as one of Python, and anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value


def text(value: Any) -> str:
    """A value as behind an option."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def settings(values: Mapping[str, Any]) -> str:
    """Settings as in ``NAME=VALUE,...``; a list is all its values."""
    parts = []
    for name, value in values.items():
        parts.append(f"{name}={','.join(listed(value))}")
    return ",".join(parts)


def message(stderr: str) -> str:
    """A command's message, without its name before it and without bars of progress."""
    lines = [line.removeprefix("fairground: ") for line in stderr.splitlines() if line.strip()]
    return "\n".join(lines) or "it said nothing"


def run(
    arguments: Sequence[str],
    accepted: Iterable[int] = (0,),
    program: Text | None = None,
    waiting: Any = None,
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end.

    When Python is interrupted meanwhile (Ctrl-C, or a notebook's stop button), the command is asked to end and waited for.

    Args:
        accepted: exit statuses that are no errors.
        program: another command than ``command()``.
        waiting: called every half second while the command runs.

    Raises:
        FairgroundError: with what the command said, for other exit statuses.
    """
    path = os.fspath(program) if program is not None else command()
    process = subprocess.Popen(
        [path, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        # Ctrl-C in a terminal goes to Python alone, which passes it on.
        start_new_session=True,
    )
    try:
        while True:
            try:
                stdout, stderr = process.communicate(timeout=0.5 if waiting else None)
                break
            except subprocess.TimeoutExpired:
                waiting()
    except BaseException:
        end(process)
        raise
    if process.returncode not in accepted:
        if process.returncode < 0:
            raise FairgroundError(f"{path} was ended by signal {-process.returncode}: {message(stderr)}")
        raise FairgroundError(message(stderr))
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def end(process: subprocess.Popen[Any]) -> None:
    """Asks a process to end, and makes it end if it does not."""
    process.terminate()
    try:
        process.communicate(timeout=PATIENCE_S)
    except (subprocess.TimeoutExpired, ValueError):
        pass
    finally:
        # Also if Python is interrupted once more.
        process.kill()
        process.wait()
