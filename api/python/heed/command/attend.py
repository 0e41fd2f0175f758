"""``heed attend``: attention over arrays from files."""

import argparse
from typing import Any

import heed
from heed.command import files
from heed.command.arguments import (
    add_context,
    add_output,
    add_progress,
    add_scores,
    check_asked,
    context_of,
    integer,
    number,
    offset,
    pair,
)
from heed.command.cost import add_yes, agree_on_memory, agree_on_time
from heed.command.ends import Failure, Misuse, in_words_of
from heed.command.files import Array
from heed.command.looks import ASKED, OPTIONS, compare, draw, expected, look_at, tell_nan, timed
from heed.command.pieces import Problem, in_pieces
from heed.command.shapes import TYPES, numpy_type

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

# Of each file, the kinds of numbers that NumPy calls by these letters, and what is said of others.
FROM_FILES = {
    "attn_mask": ("b", "bool, where True attends; --bias adds numbers to the scores"),
    "bias": ("f", "floating; --mask takes bool"),
    "alibi_slopes": ("iuf", "numbers"),
    "sinks": ("iuf", "numbers"),
    "key_lengths": ("iu", "whole numbers"),
}
AS_THEY_ARE = ("causal", "window", "alignment", "scale", "softcap", "temperature", "hard")
POINTS = ("scores", "capped", "masked", "probabilities")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument("query", metavar="QUERY", help="a .npy file, or a .npz file with all three")
    parser.add_argument("key", metavar="KEY", nargs="?", help="a .npy file")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="a .npy file")
    add_output(parser)
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
        const="top-left",
        metavar="WHERE",
        help="attend no later key: top-left (row 0 sees key 0; the default), bottom-right (the "
        "last row sees every key), or by how much a row's keys go on past it",
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
    add_scores(options)
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
    add_yes(parser)
    add_progress(parser)


def run(arguments: argparse.Namespace) -> int:
    """Computes, writes, draws."""
    check(arguments)
    problem = read(arguments)
    with in_words_of(OPTIONS):
        context = context_of(arguments)
        plan = heed.plan(
            problem.query, problem.key, problem.value, context=context, **problem.inputs
        )
    wanted = expected(problem, arguments)
    look = look_at(problem, arguments)
    count = problem.result_bytes(0 if look is None else len(look[0]))
    agree_on_memory("results", count, arguments)
    agree_on_time(arguments.query, plan, context, arguments, problem.query.dtype)
    with in_words_of(OPTIONS):
        if arguments.repeat is None:
            results = in_pieces("heed attend", problem, context, arguments.progress)
        else:
            results = timed(problem, context, arguments)
    files.write_results(arguments.output, results)
    tell_nan(problem, results["out"])
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
    inputs |= {OPTIONS[name]: getattr(arguments, name) for name in FROM_FILES}
    results = {"-o": (arguments.output, files.ARRAYS), "--svg": (arguments.svg, (".svg",))}
    files.check_results(results, inputs)


def read(arguments: argparse.Namespace) -> Problem:
    """The arrays of the command line."""
    query, key, value = read_tensors(arguments)
    if arguments.dtype is not None:
        dtype = numpy_type(arguments.dtype)
        query, key, value = (array.astype(dtype) for array in (query, key, value))
    options: dict[str, Any] = {}
    for name, (kinds, words) in FROM_FILES.items():
        path = getattr(arguments, name)
        if path is not None:
            options[name] = files.read_array(path)
            files.check_kind(f"{OPTIONS[name]} {path}", options[name], kinds, words)
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
