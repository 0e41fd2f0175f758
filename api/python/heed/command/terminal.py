"""Pictures in the terminal: a bar on stderr while something takes long, and tables."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Literal

When = Literal["auto", "always", "never"]
WIDTH = 30
EVERY = 0.1  # seconds between two pictures
UNITS = {"days": 86400.0, "hours": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
PATIENCE = 0.5  # what ends before shows no bar


class Progress:
    """Counts up to ``total``; use it with ``with``."""

    def __init__(self, label: str, total: int, when: When = "auto") -> None:
        """Draws nothing yet; ``auto`` draws where stderr is a terminal."""
        self._label = label
        self._total = max(total, 1)
        self._done = 0
        self._draws = when == "always" or (when == "auto" and sys.stderr.isatty())
        self._started = time.monotonic()
        self._next = self._started if when == "always" else self._started + PATIENCE
        self._drawn = False

    def __enter__(self) -> "Progress":
        """Nothing is drawn before the first step."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves an empty line."""
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def step(self, by: int = 1) -> None:
        """So much more is done."""
        self._done = min(self._done + by, self._total)
        now = time.monotonic()
        if not self._draws or (now < self._next and self._done < self._total):
            return
        if now < self._started + PATIENCE and self._next > now:
            return
        self._next = now + EVERY
        self._drawn = True
        share = self._done / self._total
        left = duration((now - self._started) * (1 - share) / share)
        columns = shutil.get_terminal_size().columns
        words = f"{self._label} ", f" {100 * share:3.0f} %, {left} left"
        wide = max(min(WIDTH, columns - 1 - sum(map(len, words))), 0)
        drawn = f"{'█' * round(wide * share):░<{wide}}".join(words)
        sys.stderr.write(f"\r\x1b[2K{drawn[: columns - 1]}")  # a second line would stay
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for unit, size in UNITS.items():
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def columns(lines: Sequence[Sequence[str]], words: Sequence[int]) -> list[str]:
    """Lines whose cells have a column each: ``words`` begin where it does, numbers end there."""
    wide = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, wide, strict=True))
        ).rstrip()
        for line in lines
    ]
