"""``heed tune``: looks for better tiles than the automatic ones."""

import argparse
import os
import shlex
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import heed
from heed.command import files
from heed.command.arguments import add, add_context, add_progress, context_of, integer
from heed.command.cost import add_yes, agree_on_shapes
from heed.command.ends import Failure, Misuse, in_words_of
from heed.command.shapes import GRAMMAR, Shape, parse
from heed.command.terminal import Progress, columns
from heed.command.timing import Turns, quartiles

HELP = "look for better tiles for this CPU"
DESCRIPTION = (
    "Looks for tiles that are faster than the automatic ones, for given shapes on "
    "this CPU, and writes them to a file that HEED_TUNING_FILE loads in any program."
)
EXAMPLES = f"""\
examples:
  heed tune B1_H12_L512_D64 -o heed.tuning    writes it, or adds to it
  export HEED_TUNING_FILE=$PWD/heed.tuning    from now on every program that uses heed reads it
  heed tune B8_H12_L197_D64 B1_H8_L4096_D128_causal --turns 30
  heed tune B1_H12_L512_D64 --dry-run         tells, and writes nothing

No bit of a result depends on tiles. A line of the file is for this CPU, instruction set and number
of threads, and for problems of about the same sizes. It is written where tiles are faster than the
automatic ones by 1 % or more, and in three turns of four; where they are not, a line that was there
goes. A shape
{GRAMMAR}"""

TILE_Q = (1 / 3, 1 / 2, 2 / 3, 1, 4 / 3, 2, 3)  # times the automatic one
TILE_KV = (1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 4)
WORTH = 1.01  # a smaller gain is noise
FIRST = "heed-tuning 1"  # line of a tuning file, whose format is in docs/reference/precision.md
# Tiles, and a note, by the problems that they are for; None: the automatic ones.
Entries = dict[str, str | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add(parser, "SHAPE...", "as B1_H12_L512_D64, in the grammar below")
    told = (
        "the tuning file (HEED_TUNING_FILE, or heed.tuning); what is there for other problems stays"
    )
    add(parser, "-o --output FILE", told)
    add(parser, "--dry-run", "write nothing")
    add(parser, "--turns TURNS", "of every candidate (9)", type=integer(3, 10000), default=9)
    add_context(parser)
    add_progress(parser)
    add_yes(parser)


class Tiles(NamedTuple):
    """The tiles of a plan."""

    tile_q: int
    tile_kv: int

    def __str__(self) -> str:
        """As heed's own messages have it."""
        return f"{self.tile_q} x {self.tile_kv}"


@dataclass(frozen=True)
class Found:
    """The best tiles of a shape, and how they compare."""

    tiles: Tiles
    automatic: Tiles
    gain: float
    quartiles: tuple[float, float]

    @property
    def better(self) -> bool:
        """Also in the lower quartile of turns."""
        return self.gain >= WORTH and self.quartiles[0] > 1 and self.tiles != self.automatic


def run(arguments: argparse.Namespace) -> int:
    """Searches, tells, writes."""
    for variable in ("HEED_TILE_Q", "HEED_TILE_KV"):
        if os.environ.get(variable):
            asked = os.environ[variable]
            raise Misuse(f"{variable} is {asked}, which wins over a tuning file; unset it")
    shapes = list(dict.fromkeys(parse(name) for name in arguments.shape))
    path = arguments.output or os.environ.get("HEED_TUNING_FILE") or "heed.tuning"
    with in_words_of(arguments.words):
        context = context_of(arguments, tuning_file="")
    threads = int(str(context.describe()["threads"]))
    if not arguments.dry_run:
        files.check_results({"-o": (path, ())}, {})
        tried: Entries = {problems(shapes[0], threads): "tile_q=48 tile_kv=128"}
        update(path, context, tried, dry_run=True)  # refuses another file before the search
    plans = agree_on_shapes(shapes, 1, context, arguments)
    for shape, plan in zip(shapes, plans, strict=True):
        if plan.describe()["strategy"] != "prefill":
            raise Failure(f"shape {shape.name}: so few rows are decoded, which has no tiles")
    found = [search(*pair, arguments) for pair in zip(shapes, plans, strict=True)]
    print(table(shapes, found))
    entries: Entries = {}
    for shape, best in zip(shapes, found, strict=True):
        of, (tile_q, tile_kv) = problems(shape, threads), best.tiles
        if not best.better:
            entries.setdefault(of, None)
            continue
        print(f"{shape.name}: export HEED_TILE_Q={tile_q} HEED_TILE_KV={tile_kv}")
        note = f"{best.gain:.2f} times as fast as {best.automatic}; {shape.name}"
        entries[of] = f"tile_q={tile_q} tile_kv={tile_kv}  # {note}"
    if arguments.dry_run:
        return 0
    changed = update(path, context, entries)
    if os.path.exists(path):
        for shape, best in zip(shapes, found, strict=True):
            tell_other(shape, best, path, arguments)
    if changed:
        print(f"export HEED_TUNING_FILE={shlex.quote(os.path.abspath(path))}")
    else:
        print(f"nothing to write to {path}")
    return 0


def tell_other(shape: Shape, best: Found, path: str, arguments: argparse.Namespace) -> None:
    """Tells where another line of the file, for about the same sizes, gives a shape its tiles."""
    plan = plan_of(shape, arguments, tuning_file=path)
    line = plan.describe()["tuning_line"]
    if tiles_of(plan) != (best.tiles if best.better else best.automatic):
        print(f"{shape.name}: line {line} of {path} is for these sizes too, {tiles_of(plan)}")


def plan_of(shape: Shape, arguments: argparse.Namespace, **options: Any) -> Any:
    """Attention of this shape."""
    with in_words_of({"query": shape.name, **arguments.words}):
        return shape.plan(context_of(arguments, **options))


def table(shapes: list[Shape], found: list[Found]) -> str:
    """For people."""
    lines = [["shape", "automatic", "best", "times as fast", ""]]
    for shape, best in zip(shapes, found, strict=True):
        low, high = best.quartiles
        lines.append(
            [
                shape.name,
                str(best.automatic),
                str(best.tiles),
                f"{best.gain:.3f} ({low:.3f}-{high:.3f})",
                "" if best.better else "no gain: the automatic choice stays",
            ]
        )
    text = columns(lines, words=(0, 4))
    text.append(
        "times as fast: the median, and the quartiles, of turns beside the automatic choice"
    )
    return "\n".join(text)


def search(shape: Shape, plan: heed.Plan, arguments: argparse.Namespace) -> Found:
    """Candidates in turns with the automatic choice; the better half goes on with more turns."""
    with in_words_of({"query": shape.name}):
        tensors = shape.tensors()
    automatic = tiles_of(plan)
    plans = {automatic: plan}
    for tiles in candidates(automatic, shape):
        plan = plan_of(shape, arguments, tuning_file="", tile_q=tiles.tile_q, tile_kv=tiles.tile_kv)
        plans.setdefault(tiles_of(plan), plan)
    left = [tiles for tiles in plans if tiles != automatic]
    if not left:  # the shape is too small for others
        return Found(automatic, automatic, 1.0, (1.0, 1.0))
    rounds = list(halvings(len(left), arguments.turns))
    total = sum((count + 1) * turns for count, turns in rounds)
    with Progress(f"heed tune {shape.name}", total, arguments.progress) as bar:
        for count, turns in rounds:
            calls = {str(tiles): partial(plans[tiles], *tensors) for tiles in [automatic, *left]}
            timed = Turns(calls)
            timed.run(turns, bar)
            gains = {tiles: timed.ratios(str(automatic), str(tiles)) for tiles in left}
            left = sorted(left, key=lambda tiles: -statistics.median(gains[tiles]))
            if count == 1:
                return found(left[0], automatic, gains[left[0]])
            left = left[: -(-count // 2)]
    raise AssertionError("the last round has one candidate")


def found(tiles: Tiles, automatic: Tiles, gains: list[float]) -> Found:
    """From the last round, which no choice among candidates has made look better."""
    return Found(tiles, automatic, statistics.median(gains), quartiles(gains))


def tiles_of(plan: Any) -> Tiles:
    """As the kernels rounded them."""
    said = plan.describe()
    return Tiles(int(said["tile_q"]), int(said["tile_kv"]))


def candidates(automatic: Tiles, shape: Shape) -> Iterator[Tiles]:
    """Tiles around the automatic ones, none larger than they and the shape are."""
    rows = max(shape.queries * (shape.heads // shape.key_heads), automatic.tile_q)
    keys = max(shape.keys, automatic.tile_kv)
    for q in TILE_Q:
        for kv in TILE_KV:
            yield Tiles(
                min(max(round(q * automatic.tile_q), 1), rows, 65536),
                min(max(round(kv * automatic.tile_kv), 1), keys, 65536),
            )


def halvings(candidates: int, turns: int) -> Iterator[tuple[int, int]]:
    """How many candidates each round has, and its turns; the last has one and judges it.

    It has 15 turns at least: three quarters of 15 are better by chance once in fifty times.
    """
    least = max(turns // 3, 3)
    while candidates > 1:
        yield candidates, least
        candidates = -(-candidates // 2)
        least = min(2 * least, turns)
    yield 1, max(3 * turns, 15)


# ---- Files with tiles, which HEED_TUNING_FILE loads ----


def problems(shape: Shape, threads: int) -> str:
    """The words of a line for problems of about the shape's sizes."""
    rows = shape.queries * (shape.heads // shape.key_heads)
    return " ".join(
        (
            f"key={shape.dtype} value={shape.dtype}",
            f"features={shape.features} value_features={shape.value_features}",
            f"rows={about(rows)} keys={about(shape.keys)}",
            f"heads={about(shape.batch * shape.key_heads)}",
            f"threads={threads} causal={'no' if shape.causal is None else 'yes'}",
        )
    )


def about(size: int) -> str:
    """Sizes less than a factor of sqrt(2) away: powers of two share all others."""
    low, high = int(size / 2**0.5) + 1, int(size * 2**0.5)
    return f"{low}-{high}" if low < high else str(size)


def merged(text: str, cpu: str, isa: str, entries: Entries) -> str:
    """The text of a tuning file with these entries, in place of lines for the same problems."""
    lines = text.splitlines()
    section = f"cpu={cpu} isa={isa}"
    new = [f"{of} {tiles}" for of, tiles in entries.items() if tiles is not None]
    replaced = {conditions_of(of.split()) for of in entries}
    kept: list[str] = []
    here = False
    begins = None
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] and words[0].startswith("cpu="):
            here = " ".join(words) == section
        elif here and conditions_of(words) in replaced:
            continue
        kept.append(line)
        if here and begins is None:
            begins = len(kept)
    if not new:
        return "".join(f"{line}\n" for line in kept)
    if not kept:
        kept = [
            FIRST,
            "# Written by `heed tune`; of the lines that cover a problem the first counts.",
        ]
    if begins is None:
        kept += ["", section]
        begins = len(kept)
    kept[begins:begins] = new
    return "\n".join(kept) + "\n"


def conditions_of(words: list[str]) -> frozenset[str]:
    """The words of a line about problems, without tiles."""
    return frozenset(word for word in words if not word.startswith("tile_"))


def update(path: str, context: heed.Context, entries: Entries, dry_run: bool = False) -> bool:
    """Merges into a file, which may not be there yet, once heed has read the result.

    Returns whether the file has changed.
    """
    before = ""
    if os.path.exists(path):
        before = "".join(f"{line}\n" for line in files.read_lines(path))
    said = context.describe()
    isa = str(said["isa"])
    text = merged(before, str(said["cpu"]), isa, entries)
    if not text:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".tuning", encoding="utf-8") as tried:
        tried.write(text)
        tried.flush()
        try:
            heed.Context(isa=isa, executor="serial", tuning_file=tried.name)
        except (ValueError, heed.UnsupportedError) as error:
            raise Failure(
                f"{path} is not a tuning file: {str(error).partition('; ')[2]}"
            ) from error
    if text != before and not dry_run:
        files.write_text(path, text)
    return text != before
