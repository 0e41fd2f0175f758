"""Programs that take turns, so that whatever else the machine does hits all of them, and the table
of what came of it."""

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


class Table:
    """A line for every workload: heed's milliseconds, then per peer its milliseconds and its time
    over heed's, all of them medians over turns."""

    def __init__(self, names, threads, repetitions, width=30):
        titles = ["workload", f"{names[0]} ms"]
        for name in names[1:]:
            titles += [f"{name} ms", "/ " + names[0]]
        self.widths = [width] + [max(10, len(title) + 2) for title in titles[1:]]
        self.names, self.repetitions, self.times_as_long = names, repetitions, {}
        print(f"{threads} threads, medians of {repetitions} turns")
        self.print(titles)

    def print(self, cells):
        line = cells[0].ljust(self.widths[0])
        line += "".join(cell.rjust(width) for cell, width in zip(cells[1:], self.widths[1:]))
        print(line, flush=True)

    def add(self, workload, turns):
        """Each turn returns seconds per call; None: what the peer cannot compute."""
        times = [[] for _ in turns]
        for _ in range(self.repetitions):
            for turn, taken in zip(turns, times):
                if turn is not None:
                    taken.append(turn())
        ratios = self.times_as_long[workload] = {}
        columns = [f"{statistics.median(times[0]) * 1e3:.4g}"]
        for name, taken in zip(self.names[1:], times[1:]):
            if not taken:
                columns += ["-", "-"]
                continue
            ratio = statistics.median(theirs / ours for theirs, ours in zip(taken, times[0]))
            ratios[name] = round(ratio, 2)
            columns += [f"{statistics.median(taken) * 1e3:.4g}", f"{ratio:.2f}"]
        self.print([workload, *columns])

    def add_training(self, workload, programs, alone):
        """Forward and backward as a step of training runs them, then backward of what one forward run
        has left: two lines."""
        both = lambda program: (program.forward(), program.backward())
        for label, call in (("together", both), ("alone", lambda program: program.backward())):
            self.add(f"{workload} {label}", [
                program and (lambda p=program: seconds_per_call(lambda: call(p), alone)) for program in programs])

    def print_ratios(self):
        """Of the first peer's lines of training."""
        for label in ("together", "alone"):
            ratios = [times[self.names[1]] for name, times in self.times_as_long.items() if name.endswith(label)]
            print(f"{label}: at least {min(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}")
