"""A bar on stderr while something takes long."""

import sys
import time
from types import TracebackType
from typing import Literal

When = Literal["auto", "always", "never"]
WIDTH = 30
EVERY = 0.1  # seconds between two pictures
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        filled = round(WIDTH * share)
        left = (now - self._started) * (1 - share) / share
        sys.stderr.write(
            f"\r\x1b[2K{self._label} {'█' * filled}{'░' * (WIDTH - filled)} "
            f"{100 * share:3.0f} %, {_duration(left)} left"
        )
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
