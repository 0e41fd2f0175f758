"""Times that can be compared: of programs that take turns."""

import random
import statistics
import time
from collections.abc import Callable, Mapping

from heed.command.terminal import Progress

Call = Callable[[], object]
SAMPLE = 0.004  # seconds that a turn of one program lasts at least


class Turns:
    """Calls that are timed in turns, so that what slows the machine down slows all of them down."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        """Calls each once, which is not timed, and sees how many calls make a turn."""
        self.calls = dict(calls)
        self.seconds: dict[str, list[float]] = {name: [] for name in calls}
        self._random = random.Random(1)
        self._loops = {}
        for name, call in self.calls.items():
            call()
            self._loops[name] = max(1, round(SAMPLE / max(_seconds(call, 1), 1e-7)))

    def run(self, turns: int, progress: Progress | None = None) -> None:
        """So many turns more, each in another order; the first call of each is not timed."""
        for _ in range(turns):
            names = list(self.calls)
            self._random.shuffle(names)
            for name in names:
                self.calls[name]()  # while the one before still spins, in its caches
                self.seconds[name].append(_seconds(self.calls[name], self._loops[name]))
                if progress is not None:
                    progress.step()

    def median(self, name: str) -> float:
        """Seconds of a call."""
        return statistics.median(self.seconds[name])

    def quartiles(self, name: str) -> tuple[float, float]:
        """The quartiles of the seconds of a call."""
        return quartiles(sorted(self.seconds[name]))

    def ratios(self, name: str, to: str) -> list[float]:
        """How many times as long it takes as another, turn by turn, the least first."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return sorted(one / other for one, other in pairs)


def quartiles(ordered: list[float]) -> tuple[float, float]:
    """The lower and the upper one of numbers, the least of which is first."""
    return ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]


def _seconds(call: Call, loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - start) / loops
