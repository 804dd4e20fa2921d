# SPDX-License-Identifier: GPL-2.0-or-later
"""How far something is, in notebooks and terminals."""

from __future__ import annotations

import sys
import time
from typing import Any

# Seconds between two drawings, and until the first one: short runs show nothing.
PACE_S = 0.2
FIRST_S = 1.0


class Progress:
    """A line that says how many of something are done; it is there only while it lasts."""

    def __init__(self, what: str, total: int, wanted: bool = True) -> None:
        self._what, self._total = what, total
        self._begun = self._drawn = time.monotonic()
        self._display: Any = None
        self._shell = shell() if wanted else None
        self._is_terminal = wanted and self._shell is None and sys.stderr.isatty()

    def tell(self, done: int) -> None:
        """Says how many are done now."""
        now = time.monotonic()
        if now - self._begun < FIRST_S or now - self._drawn < PACE_S:
            return
        self._drawn = now
        spent = now - self._begun
        left = f", {spent / done * (self._total - done):.0f} s left" if done else ""
        line = f"{done} of {self._total} {self._what}, {spent:.0f} s{left}"
        if self._shell:
            bar = f'<progress value="{done}" max="{self._total}" style="width:20em"></progress> {line}'
            shown = {"text/html": bar, "text/plain": line}
            if self._display is None:
                self._display = self._shell(shown, raw=True, display_id=True)
            else:
                self._display.update(shown, raw=True)
        elif self._is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.update({"text/plain": ""}, raw=True)
        elif self._is_terminal and self._drawn > self._begun:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def shell() -> Any:
    """The function that shows something in a notebook, if this is one."""
    ipython = sys.modules.get("IPython")
    kernel = ipython.get_ipython() if ipython else None
    if kernel is None or not hasattr(kernel, "kernel"):
        return None
    from IPython.display import display

    return display
