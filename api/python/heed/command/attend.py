"""``heed attend``: attention over arrays from files."""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import heed
from heed.command import files
from heed.command.arguments import (
    add_context,
    add_progress,
    context_of,
    integer,
    number,
    offset,
    pair,
)
from heed.command.failure import Failure, Misuse, in_words_of
from heed.command.files import Array
from heed.command.progress import Progress
from heed.command.shapes import TYPES, numpy_type
from heed.command.timing import Turns
from heed.show import show

EXAMPLES = """\
examples:
  heed attend q.npy k.npy v.npy -o out.npy
  heed attend qkv.npz -o results.npz --causal --lse     arrays named q, k, v or query, key, value
  heed attend q.npy k.npy v.npy -o out.npy --window 256,0 --softcap 30 --mask mask.npy
  heed attend q.npy k.npy v.npy --show --tokens words.txt --rows 0-20

Arrays are [batch, heads, rows, features], [heads, rows, features] or [rows, features], of float32,
float64, float16 or, with ml_dtypes, bfloat16."""

# What arguments of heed.attention are called here.
OPTIONS = {
    "query": "QUERY",
    "key": "KEY",
    "value": "VALUE",
    "attn_mask": "--mask",
    "bias": "--bias",
    "causal": "--causal",
    "window": "--window",
    "alignment": "--alignment",
    "scale": "--scale",
    "softcap": "--softcap",
    "temperature": "--temperature",
    "hard": "--hard",
    "alibi_slopes": "--alibi-slopes",
    "sinks": "--sinks",
    "key_lengths": "--key-lengths",
    "return_lse": "--lse",
    "return_weights": "--weights",
    "return_column_sums": "--column-sums",
    "threads": "--threads",
    "isa": "--isa",
    "executor": "--executor",
}
FROM_FILES = ("attn_mask", "bias", "alibi_slopes", "sinks", "key_lengths")
AS_THEY_ARE = ("causal", "window", "alignment", "scale", "softcap", "temperature", "hard")
ASKED = {"lse": "return_lse", "weights": "return_weights", "column_sums": "return_column_sums"}
POINTS = ("scores", "capped", "masked", "probabilities")
LONG = 2e10  # flops of a piece of long work, some tenths of a second


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "attend",
        parents=[parent],
        help="compute attention over arrays from files",
        description="Computes attention over arrays from files.",
        epilog=EXAMPLES,
    )
    parser.add_argument("query", metavar="QUERY", help="a .npy file, or a .npz file with all three")
    parser.add_argument("key", metavar="KEY", nargs="?", help="a .npy file")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="a .npy file")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write out (.npy), or all that is asked for (.npz)"
    )
    wanted = parser.add_argument_group("results beside out, which take a .npz file")
    wanted.add_argument("--lse", action="store_true", help="the log-sum-exp of every row")
    wanted.add_argument(
        "--weights",
        nargs="?",
        const="probabilities",
        choices=POINTS,
        help="the weights of every row and key (probabilities), or scores at another point",
    )
    wanted.add_argument(
        "--column-sums", action="store_true", help="the weights that every key gets, summed"
    )
    options = parser.add_argument_group("options of attention")
    options.add_argument("--mask", dest="attn_mask", metavar="FILE", help="bool: True attends")
    options.add_argument("--bias", metavar="FILE", help="added to the scores")
    options.add_argument(
        "--causal",
        type=offset,
        nargs="?",
        const="top_left",
        metavar="WHERE",
        help="attend no later key: top-left (row 0 sees key 0; the default), bottom-right (the last "
        "row sees every key), or by how much a row's keys go on past it",
    )
    options.add_argument(
        "--window",
        type=pair,
        metavar="LEFT,RIGHT",
        help="attend so many keys before a row and after it; nothing is no bound: 256,",
    )
    options.add_argument(
        "--alignment",
        type=offset,
        metavar="WHERE",
        help="where rows stand among keys, for windows: top-left, bottom-right or an offset",
    )
    options.add_argument("--scale", type=number, help="of scores (1 / sqrt(features))")
    options.add_argument("--softcap", type=number, help="bound scores by softcap * tanh(s / softcap)")
    options.add_argument("--temperature", type=number, help="divide scores by this (1)")
    options.add_argument("--hard", action="store_true", help="weight 1 at the largest score alone")
    options.add_argument("--alibi-slopes", metavar="FILE", help="a slope for every head")
    options.add_argument("--sinks", metavar="FILE", help="a score for every head, without a value")
    options.add_argument("--key-lengths", metavar="FILE", help="keys of every item of the batch")
    options.add_argument(
        "--dtype", choices=list(TYPES), help="convert query, key and value (as they are)"
    )
    looks = parser.add_argument_group("looking at it")
    looks.add_argument(
        "--show",
        nargs="?",
        const=-1,
        type=integer(0),
        metavar="HEAD",
        help="draw the weights of a head, or the mean of all, in the terminal",
    )
    looks.add_argument("--batch", type=integer(0), default=0, help="the item that --show draws (0)")
    looks.add_argument("--rows", metavar="FIRST-LAST", help="the rows that --show draws (0-31)")
    looks.add_argument("--tokens", metavar="FILE", help="names of keys, one a line, for --show")
    looks.add_argument("--svg", metavar="FILE", help="write what --show draws as an SVG")
    looks.add_argument("--expect", metavar="FILE", help="tell how far out is from this array")
    looks.add_argument(
        "--tolerance", type=number, help="with --expect: fail if it is further from it than this"
    )
    looks.add_argument("--repeat", type=integer(1), metavar="N", help="time it, N times")
    looks.add_argument("--quiet", action="store_true", help="print nothing but errors")
    add_context(parser)
    add_progress(parser)
    parser.set_defaults(run=run)


@dataclass
class Problem:
    """Arrays and options of heed.attention."""

    query: Array
    key: Array
    value: Array
    options: dict[str, Any]

    @property
    def heads(self) -> tuple[int, int]:
        """Items of the batch, and key heads."""
        shape = (1, 1, *self.key.shape)[-4:]
        return shape[0], shape[1]

    @property
    def flops(self) -> float:
        """Of all pairs of rows and keys."""
        pairs = math.prod(self.query.shape[:-1]) * self.key.shape[-2]
        return 2.0 * pairs * (self.query.shape[-1] + self.value.shape[-1])


def run(arguments: argparse.Namespace) -> int:
    """Computes, writes, draws."""
    check(arguments)
    problem = read(arguments)
    with in_words_of(OPTIONS):
        context = context_of(arguments)
        if arguments.repeat is None:
            results = in_pieces(problem, context, arguments.progress)
        else:
            results = timed(problem, context, arguments)
    write(results, arguments)
    if not arguments.quiet:
        described = ", ".join(
            f"{name} {list(array.shape)} {array.dtype}" for name, array in results.items()
        )
        print(described + (f" in {arguments.output}" if arguments.output else ""))
    if arguments.show is not None or arguments.svg is not None:
        draw(problem, context, arguments)
    return compare(results["out"], arguments)


def check(arguments: argparse.Namespace) -> None:
    """Refuses options that mean nothing together, before anything is read."""
    for option, needed in (("tolerance", "expect"), ("rows", "show"), ("tokens", "show")):
        given = getattr(arguments, needed) is not None or (needed == "show" and arguments.svg)
        if getattr(arguments, option) is not None and not given:
            raise Misuse(f"--{option} is given without --{needed}")
    asked = [name for name in ASKED if getattr(arguments, name)]
    if asked and not (arguments.output or "").endswith(".npz"):
        option = "--" + asked[0].replace("_", "-")
        raise Misuse(f"{option} is one more array; write all with -o FILE.npz")
    if arguments.quiet and arguments.show is not None:
        raise Misuse("--show is given with --quiet")
    inputs = {name: getattr(arguments, name) for name in ("query", "key", "value", "expect", "tokens")}
    inputs |= {OPTIONS[name]: getattr(arguments, name) for name in FROM_FILES}
    files.check_apart({"-o": arguments.output, "--svg": arguments.svg}, inputs)


def read(arguments: argparse.Namespace) -> Problem:
    """The arrays of the command line."""
    query, key, value = read_tensors(arguments)
    if arguments.dtype is not None:
        dtype = numpy_type(arguments.dtype)
        query, key, value = (array.astype(dtype) for array in (query, key, value))
    options: dict[str, Any] = {}
    for name in FROM_FILES:
        path = getattr(arguments, name)
        if path is not None:
            options[name] = files.read_array(path)
    for name in AS_THEY_ARE:
        given = getattr(arguments, name)
        if given is not None and given is not False:
            options[name] = given
    for name, option in ASKED.items():
        if getattr(arguments, name):
            options[option] = getattr(arguments, name)
    return Problem(query, key, value, options)


def read_tensors(arguments: argparse.Namespace) -> tuple[Array, Array, Array]:
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


def attend(problem: Problem, context: heed.Context) -> dict[str, Array]:
    """Everything that is asked for, by name."""
    result = heed.attention(
        problem.query, problem.key, problem.value, context=context, **problem.options
    )
    if isinstance(result, heed.Result):
        return {name: array for name, array in result._asdict().items() if array is not None}
    return {"out": result}


def in_pieces(problem: Problem, context: heed.Context, progress: Any) -> dict[str, Array]:
    """The same, heads by heads where it takes long, so that it shows how far it is and can be stopped.

    Bits are the same: heads have nothing to do with each other.
    """
    batch, key_heads = problem.heads
    wanted = math.ceil(problem.flops / LONG)
    if wanted <= 1 or batch * key_heads <= 1 or problem.query.ndim < 3:  # noqa: PLR2004
        return attend(problem, context)
    pieces = list(split(problem, min(wanted, batch * key_heads)))
    results: dict[str, Array] = {}
    with Progress("heed attend", len(pieces), progress) as bar:
        for place, piece in pieces:
            for name, array in attend(piece, context).items():
                if name not in results:
                    results[name] = np.empty(whole(problem, array), array.dtype)
                results[name][place] = array
            bar.step()
    return results


def whole(problem: Problem, piece: Array) -> tuple[int, ...]:
    """The shape of a result of which a piece has this one."""
    leading = problem.query.ndim - 2
    return problem.query.shape[:leading] + piece.shape[leading:]


def split(problem: Problem, pieces: int) -> Iterator[tuple[tuple[Any, ...], Problem]]:
    """Key heads with their query heads, of one item of the batch each, and where they lie."""
    batch, key_heads = problem.heads
    group = (1, 1, *problem.query.shape)[-3] // key_heads
    each = max(1, key_heads * batch // pieces)
    four = problem.query.ndim == 4  # noqa: PLR2004
    for item in range(batch):
        for first in range(0, key_heads, each):
            heads = slice(first * group, min(first + each, key_heads) * group)
            key_slice = slice(first, first + each)
            at: Callable[[slice], tuple[Any, ...]] = (
                (lambda s, i=item: (slice(i, i + 1), s)) if four else (lambda s: (s,))  # type: ignore[misc]
            )
            options = dict(problem.options)
            for name in ("attn_mask", "bias"):
                if name in options:
                    options[name] = part(options[name], item, heads)
            for name in ("alibi_slopes", "sinks"):
                if name in options:
                    options[name] = options[name][heads]
            if "key_lengths" in options:
                options["key_lengths"] = options["key_lengths"][item : item + 1]
            yield (
                at(heads),
                Problem(
                    problem.query[at(heads)],
                    problem.key[at(key_slice)],
                    problem.value[at(key_slice)],
                    options,
                ),
            )


def part(scores: Array, item: int, heads: slice) -> Array:
    """Of a mask or bias, which may repeat its heads and items."""
    if scores.ndim >= 3 and scores.shape[-3] != 1:  # noqa: PLR2004
        scores = scores[..., heads, :, :]
    if scores.ndim == 4 and scores.shape[0] != 1:  # noqa: PLR2004
        scores = scores[item : item + 1]
    return scores


def timed(problem: Problem, context: heed.Context, arguments: argparse.Namespace) -> dict[str, Array]:
    """The same, and how long it takes."""
    results = attend(problem, context)
    turns = Turns({"heed": lambda: attend(problem, context)})
    with Progress("heed attend", arguments.repeat, arguments.progress) as bar:
        turns.run(arguments.repeat, bar)
    seconds = turns.median("heed")
    if not arguments.quiet:
        print(
            f"{seconds * 1e3:.4g} ms, median of {arguments.repeat}, {problem.flops / seconds * 1e-9:.1f}"
            " GFLOP/s of all pairs"
        )
    return results


def write(results: dict[str, Array], arguments: argparse.Namespace) -> None:
    """To the file that is asked for, if any."""
    if arguments.output is None:
        return
    if arguments.output.endswith(".npz"):
        files.write_arrays(arguments.output, results)
    else:
        files.write_array(arguments.output, results["out"])


def draw(problem: Problem, context: heed.Context, arguments: argparse.Namespace) -> None:
    """The weights of some rows, computed anew."""
    rows = problem.query.shape[-2]
    first, last = 0, min(rows, 32) - 1
    if arguments.rows is not None:
        begin, dash, end = arguments.rows.partition("-")
        if not begin.isdigit() or not (end.isdigit() or not dash):
            raise Misuse(f"--rows is {arguments.rows}; it must be FIRST-LAST, from 0")
        first, last = int(begin), int(end or begin)
        if not first <= last < rows:
            raise Failure(f"--rows is {arguments.rows}; it must be within 0-{rows - 1}")
    options = {name: given for name, given in problem.options.items() if name not in ASKED.values()}
    listed = list(range(first, last + 1))
    with in_words_of(OPTIONS):
        weights = heed.attention(
            problem.query,
            problem.key,
            problem.value,
            context=context,
            return_weights=problem.options.get("return_weights", True),
            weight_rows=listed,
            **options,
        ).weights
    keys = weights.shape[-1]
    names = None if arguments.tokens is None else files.read_lines(arguments.tokens)
    if names is not None and len(names) != keys:
        raise Failure(f"--tokens {arguments.tokens}: it has {len(names)} lines; keys are {keys}")
    of_rows = names if names is not None and keys == rows else [str(row) for row in range(rows)]
    with in_words_of({"head": "--show", "batch": "--batch"}):
        head = None if arguments.show in (None, -1) else arguments.show
        title = "mean of all heads" if head is None else f"head {head}"
        drawn = show(
            weights,
            [of_rows[row] for row in listed],
            key_tokens=names or [str(key) for key in range(keys)],
            head=head,
            batch=arguments.batch,
            title=title,
        )
    if arguments.show is not None:
        print(drawn)
    if arguments.svg is not None:
        files.write_text(arguments.svg, drawn.svg())


def compare(out: Array, arguments: argparse.Namespace) -> int:
    """How far it is from what is expected."""
    if arguments.expect is None:
        return 0
    expected = files.read_array(arguments.expect)
    if expected.shape != out.shape:
        raise Failure(
            f"--expect {arguments.expect}: it is {list(expected.shape)}; out is {list(out.shape)}"
        )
    off = np.abs(out.astype(np.float64) - expected.astype(np.float64))
    worst = float(off.max(initial=0.0))
    if not arguments.quiet:
        print(f"max error {worst:.3g}, mean {off.mean() if off.size else 0.0:.3g}")
    if arguments.tolerance is not None and not worst <= arguments.tolerance:
        raise Failure(f"the error is {worst:.3g}; --tolerance allows {arguments.tolerance:g}")
    return 0
