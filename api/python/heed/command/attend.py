"""``heed attend``: attention over arrays from files."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import heed
from heed.command import files
from heed.command.arguments import (
    add,
    add_context,
    add_options,
    add_output,
    add_progress,
    check_asked,
    context_of,
    integer,
    number,
)
from heed.command.cost import add_yes, agree_on_memory, agree_on_time
from heed.command.ends import Failure, Misuse, in_words_of
from heed.command.pieces import Problem, attend, in_pieces
from heed.command.shapes import TYPES, numpy_type
from heed.command.terminal import Progress
from heed.command.timing import Turns
from heed.options import TABLE, Array
from heed.show import show

HELP = "compute attention over arrays from files"
DESCRIPTION = "Computes attention over arrays from files."
EXAMPLES = """\
examples:
  heed attend q.npy k.npy v.npy -o out.npy
  heed attend qkv.npz -o results.npz --causal --lse     arrays named q, k, v or query, key, value
  heed attend q.npy k.npy v.npy -o out.npy --window 256,0 --softcap 30 --mask mask.npy
  heed attend q.npy k.npy v.npy --show --tokens words.txt --rows 0-20

Arrays are [batch, heads, rows, features], [heads, rows, features] or [rows, features], of float32,
float64, float16 or, with ml_dtypes, bfloat16."""

OPTIONS = [name for name, (_, row) in TABLE.items() if row.told is not None]
ASKED = [name for name in OPTIONS if name.startswith("return_")]
# The kinds of numbers in files, by NumPy's letters, and the words that refuse others.
KINDS = {
    Array | Sequence[float] | None: ("iuf", "numbers"),
    Array | Sequence[int] | None: ("iu", "whole numbers"),
}
FROM_FILES = {
    "attn_mask": ("b", "bool, where True attends; --bias adds numbers to the scores"),
    "bias": ("f", "floating; --mask takes bool"),
    **{name: KINDS[kind] for name in OPTIONS if (kind := TABLE[name][0]) in KINDS},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments; options of attention are called as its own."""
    add(parser, "QUERY", "a .npy file, or a .npz file with all three")
    add(parser, "[KEY]", "a .npy file")
    add(parser, "[VALUE]", "a .npy file")
    add_output(parser)
    to = parser.add_argument_group("results beside out, which take a .npz file")
    add_options(to, ASKED)
    to = parser.add_argument_group("options of attention")
    add_options(to, (name for name in OPTIONS if name not in ASKED))
    told = "convert query, key and value (as they are)"
    add(to, "--dtype TYPE", told, choices=list(TYPES))
    to = parser.add_argument_group("looking at it")
    told = "draw the weights of a head, or the mean of all, in the terminal"
    add(to, "--show [HEAD]", told, type=integer(0), const=-1)
    add(to, "--batch BATCH", "the item that --show draws (0)", type=integer(0), default=0)
    add(to, "--rows FIRST-LAST", "the rows that --show draws (0-31)")
    add(to, "--tokens FILE", "names of keys, one a line, for --show")
    add(to, "--svg FILE", "write what --show draws as an SVG")
    add(to, "--expect FILE", "tell how far out is from this array")
    told = "with --expect: fail if it is further from it than this"
    add(to, "--tolerance TOLERANCE", told, type=number)
    add(to, "--repeat N", "time it, N times", type=integer(1))
    add(to, "--quiet", "print nothing but errors")
    add_context(parser)
    add_yes(parser)
    add_progress(parser)


def run(arguments: argparse.Namespace) -> int:
    """Computes, writes, draws."""
    check(arguments)
    problem = read(arguments)
    with in_words_of(arguments.words):
        context = context_of(arguments)
        plan = heed.plan(
            problem.query, problem.key, problem.value, context=context, **problem.inputs
        )
    wanted = expected(problem, arguments)
    look = look_at(problem, arguments)
    count = problem.result_bytes(0 if look is None else len(look[0]))
    agree_on_memory("results", count, arguments)
    agree_on_time(arguments.query, plan, context, arguments, problem.query.dtype)
    with in_words_of(arguments.words):
        if arguments.repeat is None:
            results = in_pieces("heed attend", problem, context, arguments.progress)
        else:
            results = timed(problem, context, arguments)
    files.write_results(arguments.output, results)
    tell_nan(problem, results["out"], arguments)
    if not arguments.quiet:
        print(files.told(arguments.output, results))
    if look is not None:
        draw(problem, context, look, arguments)
    return 0 if wanted is None else compare(results["out"], wanted, arguments)


def check(arguments: argparse.Namespace) -> None:
    """Refuses options that mean nothing together, before anything is read."""
    for option, needed in (("tolerance", "expect"), ("rows", "show"), ("tokens", "show")):
        given = getattr(arguments, needed) is not None or (needed == "show" and arguments.svg)
        if getattr(arguments, option) is not None and not given:
            raise Misuse(f"--{option} is given without --{needed}")
    if arguments.batch and arguments.show is None and arguments.svg is None:
        raise Misuse("--batch is given without --show")
    if arguments.tolerance is not None and not arguments.tolerance >= 0:
        raise Misuse(f"--tolerance is {arguments.tolerance:g}; it must be at least 0")
    check_asked(ASKED, arguments)
    if arguments.quiet and arguments.show is not None:
        raise Misuse("--show is given with --quiet")
    inputs = {
        name: getattr(arguments, name) for name in ("query", "key", "value", "expect", "tokens")
    }
    inputs |= {arguments.words[name]: getattr(arguments, name) for name in FROM_FILES}
    results = {"-o": (arguments.output, files.ARRAYS), "--svg": (arguments.svg, (".svg",))}
    files.check_results(results, inputs)


def read(arguments: argparse.Namespace) -> Problem:
    """The arrays of the command line."""
    query, key, value = read_tensors(arguments)
    if arguments.dtype is not None:
        dtype = numpy_type(arguments.dtype)
        query, key, value = (array.astype(dtype) for array in (query, key, value))
    options: dict[str, Any] = {}
    for name in OPTIONS:
        given = getattr(arguments, name)
        if given is None or given is False:
            continue
        if name in FROM_FILES:
            subject, (kinds, words) = f"{arguments.words[name]} {given}", FROM_FILES[name]
            given = files.read_array(given)
            files.check_kind(subject, given, kinds, words)
        options[name] = given
    return Problem(query, key, value, options)


def read_tensors(arguments: argparse.Namespace) -> tuple[files.Array, files.Array, files.Array]:
    """Query, key and value of three files, or of one."""
    if arguments.value is not None:
        paths = (arguments.query, arguments.key, arguments.value)
        query, key, value = (files.read_array(path) for path in paths)
        return query, key, value
    if arguments.key is not None:
        raise Misuse("QUERY and KEY are given without VALUE; give all three, or one .npz file")
    if not arguments.query.endswith(".npz"):
        raise Misuse(f"{arguments.query} alone must be a .npz file; or give QUERY KEY VALUE")
    arrays = files.read_arrays(arguments.query)
    found = []
    for name in ("query", "key", "value"):
        array = arrays.get(name, arrays.get(name[0]))
        if array is None:
            has = ", ".join(arrays) or "nothing"
            raise Failure(f"{arguments.query}: it has {has}; it must have {name} or {name[0]}")
        found.append(array)
    query, key, value = found
    return query, key, value


# ---- Telling of its work: times, errors, weights as a picture ----


def timed(
    problem: Problem, context: heed.Context, arguments: argparse.Namespace
) -> dict[str, files.Array]:
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


def tell_nan(problem: Problem, out: files.Array, arguments: argparse.Namespace) -> None:
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
    """The rows that --show and --svg draw, checked before the work."""
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


def expected(problem: Problem, arguments: argparse.Namespace) -> files.Array | None:
    """The array of --expect, which has the shape that out will have."""
    if arguments.expect is None:
        return None
    subject = f"--expect {arguments.expect}"
    wanted = files.read_array(arguments.expect)
    files.check_kind(subject, wanted, "biuf", "numbers")
    if wanted.shape != problem.out_shape:
        raise Failure(f"{subject}: it is {list(wanted.shape)}; out is {list(problem.out_shape)}")
    return wanted


def compare(out: files.Array, expected: files.Array, arguments: argparse.Namespace) -> int:
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
