"""What ``heed attend`` tells of its work: weights as a picture, errors, times."""

import argparse
import re
import sys

import numpy as np

import heed
from heed.command import files
from heed.command.ends import Failure, Misuse, in_words_of
from heed.command.files import Array
from heed.command.pieces import Problem, attend
from heed.command.terminal import Progress
from heed.command.timing import Turns
from heed.show import show


def timed(
    problem: Problem, context: heed.Context, arguments: argparse.Namespace
) -> dict[str, Array]:
    """The same, and how long it takes."""
    results = attend(problem, context)
    turns = Turns({"heed": lambda: attend(problem, context)})
    with Progress("heed attend", arguments.repeat, arguments.progress) as bar:
        turns.run(arguments.repeat, bar)
    seconds = turns.median("heed")
    speed = problem.flops / seconds * 1e-9
    if not arguments.quiet:
        times = f"{seconds * 1e3:.4g} ms, median of {arguments.repeat}"
        print(f"{times}, {speed:.1f} GFLOP/s of all pairs")
    return results


def tell_nan(problem: Problem, out: Array, arguments: argparse.Namespace) -> None:
    """Says on stderr that out has NaN, and where it may come from; it is no failure."""
    count = int(np.isnan(out.astype(np.float64)).sum())
    if count == 0:
        return
    given = {"query": problem.query, "key": problem.key, "value": problem.value}
    given |= {name: problem.options[name] for name in ("bias", "sinks") if name in problem.options}
    odd = []
    for name, array in given.items():
        numbers = array.astype(np.float64)
        if not np.all(np.isfinite(numbers) | (np.isneginf(numbers) & (name == "bias"))):
            odd.append(arguments.words[name])
    where = f"; NaN or infinity stands in {', '.join(odd)}" if odd else ""
    print(f"heed attend: out has NaN, {count} of its {out.size} numbers{where}", file=sys.stderr)


Look = tuple[list[int], list[str] | None]  # rows, and names of keys


def look_at(problem: Problem, arguments: argparse.Namespace) -> Look | None:
    """What --show and --svg draw, checked before the work."""
    if arguments.show is None and arguments.svg is None:
        return None
    batch, heads, _, rows, keys = problem.sizes
    if not rows * keys * heads * batch:
        raise Failure(f"there is nothing to draw of {rows} rows and {keys} keys")
    for option, count in (("show", heads), ("batch", batch)):
        given = getattr(arguments, option) or 0
        if given >= count:
            raise Failure(f"--{option} is {given}; it must be 0 to {count - 1}")
    first, last = 0, min(rows, 32) - 1
    if arguments.rows is not None:
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", arguments.rows)
        if match is None:
            raise Misuse(f"--rows is {arguments.rows}; it must be FIRST-LAST, from 0")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < rows:
            raise Failure(f"--rows is {arguments.rows}; it must be within 0-{rows - 1}")
    names = None if arguments.tokens is None else files.read_lines(arguments.tokens)
    if names is not None and len(names) != keys:
        raise Failure(f"--tokens {arguments.tokens}: it has {len(names)} lines; keys are {keys}")
    return list(range(first, last + 1)), names


def draw(
    problem: Problem, context: heed.Context, look: Look, arguments: argparse.Namespace
) -> None:
    """The weights of some rows, computed anew."""
    listed, names = look
    with in_words_of(arguments.words):
        weights = heed.attention(
            problem.query,
            problem.key,
            problem.value,
            context=context,
            return_weights=problem.options.get("return_weights", True),
            weight_rows=listed,
            **problem.inputs,
        ).weights
    rows, keys = problem.query.shape[-2], problem.key.shape[-2]
    of_keys = names or [str(key) for key in range(keys)]
    of_rows = of_keys if keys == rows else [str(row) for row in range(rows)]
    head = None if arguments.show in (None, -1) else arguments.show
    drawn = show(
        weights,
        [of_rows[row] for row in listed],
        key_tokens=of_keys,
        head=head,
        batch=arguments.batch,
        title="mean of all heads" if head is None else f"head {head}",
    )
    if arguments.show is not None:
        print(drawn)
    if arguments.svg is not None:
        files.write_text(arguments.svg, drawn.svg())


def expected(problem: Problem, arguments: argparse.Namespace) -> Array | None:
    """What --expect has, of the shape that out will have."""
    if arguments.expect is None:
        return None
    subject = f"--expect {arguments.expect}"
    wanted = files.read_array(arguments.expect)
    files.check_kind(subject, wanted, "biuf", "numbers")
    if wanted.shape != problem.out_shape:
        raise Failure(f"{subject}: it is {list(wanted.shape)}; out is {list(problem.out_shape)}")
    return wanted


def compare(out: Array, expected: Array, arguments: argparse.Namespace) -> int:
    """How far it is from what is expected; the same infinity is not off, nor is NaN in both."""
    got, wanted = out.astype(np.float64), expected.astype(np.float64)
    off = np.abs(got - wanted)
    off[(got == wanted) | (np.isnan(got) & np.isnan(wanted))] = 0
    worst = float(off.max(initial=0.0))
    if not arguments.quiet:
        print(f"max error {worst:.3g}, mean {off.mean() if off.size else 0.0:.3g}")
    if arguments.tolerance is not None and not worst <= arguments.tolerance:
        raise Failure(f"the error is {worst:.3g}; --tolerance allows {arguments.tolerance:g}")
    return 0
