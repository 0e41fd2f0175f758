"""The cost of work: it is known before the work begins, and the user is asked if it is too much."""

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import heed
from heed.command.arguments import add
from heed.command.ends import Failure, in_words_of
from heed.command.shapes import Shape, numpy_type
from heed.command.terminal import duration
from heed.command.timing import Turns

LONG = 60.0  # seconds of a call that nobody is asked about
SLOW = 1e9  # flop/s that every CPU reaches
TRIED = (128, 512, 64)  # rows, keys and features of what is timed


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that answers the question."""
    told = f"go on without a question where a call takes more than {LONG:g} s, or more memory "
    add(parser, "--yes", f"{told}than is free")


def agree_on_memory(subject: str, count: float, arguments: argparse.Namespace) -> None:
    """Returns where so many bytes more are free, or the user wants to go on; fails otherwise."""
    free = free_memory()
    if count > free:
        agree(
            f"{subject}: {in_gib(count)} are needed, {in_gib(free)} of memory are free", arguments
        )


def agree_on_time(
    subject: str, plan: Any, context: heed.Context, arguments: argparse.Namespace, dtype: Any
) -> None:
    """Returns where a call of the plan is short, or the user wants to go on; fails otherwise."""
    flops = float(plan.describe()["flops"])
    if arguments.yes or flops <= LONG * SLOW:
        return
    seconds = flops / rate(context, dtype)
    if seconds > LONG:
        agree(f"{subject}: a call takes about {duration(seconds)}", arguments)


def agree_on_shapes(
    shapes: Sequence[Shape], programs: int, context: heed.Context, arguments: argparse.Namespace
) -> list[Any]:
    """The same of problems that are not made yet, in so many programs; their plans."""
    plans = []
    for shape in shapes:
        subject = f"shape {shape.name}"
        agree_on_memory(subject, shape.bytes(programs), arguments)
        with in_words_of({"query": subject}):
            plans.append(shape.plan(context))
        agree_on_time(subject, plans[-1], context, arguments, numpy_type(shape.dtype))
    return plans


def agree(problem: str, arguments: argparse.Namespace) -> None:
    """Asks at a terminal, and fails where there is none."""
    if arguments.yes:
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(f"{problem}; --yes goes on nevertheless")
    sys.stderr.write(f"heed {arguments.command}: {problem}; go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing is computed")


def rate(context: heed.Context, dtype: Any) -> float:
    """Flop/s of attention that takes some milliseconds, on numbers of this type."""
    rows, keys, features = TRIED
    heads = int(str(context.describe()["threads"]))
    query, key = (np.ones((heads, length, features), dtype) for length in (rows, keys))
    turns = Turns({"": lambda: heed.attention(query, key, key, context=context)})
    turns.run(3)
    return 4.0 * heads * rows * keys * features / turns.median("")


def free_memory() -> float:
    """Bytes, as far as the system tells; of a container, what it may have."""
    found = [math.inf]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found)


def in_gib(count: float) -> str:
    """So many bytes, for people."""
    return f"{count / 2**30:,.3g} GiB" if count < 2**40 else f"{count / 2**40:,.0f} TiB"
