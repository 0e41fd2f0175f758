"""Programs that take turns, so that whatever else the machine does hits all of them."""

import statistics
import time

SECONDS_PER_TURN = 0.1


def seconds_per_call(call, alone=False):
    """Repeats the call for SECONDS_PER_TURN, after one that warms up. Alone on one thread it is that
    thread's CPU time, so that what other programs do meanwhile counts for little."""
    call()
    clock = time.thread_time if alone else time.perf_counter
    calls, start, begin = 0, time.perf_counter(), clock()
    while True:
        call()
        calls += 1
        if time.perf_counter() - start >= SECONDS_PER_TURN:
            return (clock() - begin) / calls


def take_turns(turns, repetitions):
    """The seconds of every turn: a list for each program, empty where it is None."""
    times = [[] for _ in turns]
    for _ in range(repetitions):
        for turn, taken in zip(turns, times):
            if turn is not None:
                taken.append(turn())
    return times


def columns_of(times):
    """Medians: the first program's milliseconds, then per other one its milliseconds and its time
    over the first's, a ratio taken within a turn."""
    columns = [f"{statistics.median(times[0]) * 1e3:.4g}"]
    for taken in times[1:]:
        if not taken:
            columns += ["-", "-"]
            continue
        ratio = statistics.median(theirs / ours for theirs, ours in zip(taken, times[0]))
        columns += [f"{statistics.median(taken) * 1e3:.4g}", f"{ratio:.2f}"]
    return columns


class Table:
    def __init__(self, first, *titles, width=30):
        self.widths = [width] + [max(10, len(title) + 2) for title in titles]
        self.add(first, *titles)

    def add(self, first, *cells):
        padded = (cell.rjust(width) for cell, width in zip(cells, self.widths[1:]))
        print(first.ljust(self.widths[0]) + "".join(padded), flush=True)
