"""``heed bench``: how fast attention is, beside PyTorch where it is installed."""

import argparse
import datetime
import io
import itertools
import json
import platform
import statistics
from typing import Any

import heed
from heed.command import files
from heed.command.arguments import (
    add,
    add_context,
    add_progress,
    context_of,
    imported,
    integer,
)
from heed.command.cost import add_yes, agree_on_shapes
from heed.command.ends import Failure, in_words_of
from heed.command.shapes import GRAMMAR, TYPES, Shape, parse
from heed.command.terminal import Progress, columns, duration
from heed.command.timing import Turns, quartiles

HELP = "measure how fast attention is, beside PyTorch"
DESCRIPTION = (
    "Measures attention on problems of given shapes, in turns with PyTorch where "
    "it is installed; times are medians."
)
EXAMPLES = f"""\
examples:
  heed bench                                  some shapes of well-known models
  heed bench B1_H12_L512_D64 B1_H32_Hkv8_Lq1_Lkv8192_D128_bf16
  heed bench --json speed.json --plot speed.svg
  heed bench --dtype bf16                     the same in bfloat16

A shape
{GRAMMAR}"""

# With the names that people have for them.
SHAPES = {
    "B1_H1_L10_D20": "ten words",
    "B1_H16_L1024_D64": "encoder, long text",
    "B1_H8_L4096_D128_causal": "LLM prefill",
    "B32_H12_L128_D64": "BERT, 32 texts",
    "B8_H12_L197_D64": "ViT, 8 images",
    "B2_H8_Lq4096_Lkv77_D40": "text to image",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128": "LLM decode",
}
WIDE = 1.5  # times the lower quartile; a wider spread says more about the machine than about heed
UNSTEADY = (
    f"unsteady: half of the turns lie more than a factor of {WIDE:g} apart, because other programs "
    "ran meanwhile"
)
COLOUR, INK = "#d9822b", "#737880"  # which is as far from white as from black
INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add(parser, "[SHAPE...]", "as B1_H12_L512_D64, in the grammar below")
    told = "of shapes that name none (f32)"
    add(parser, "--dtype TYPE", told, choices=list(TYPES), default="f32")
    add(parser, "--turns TURNS", "of every program (15)", type=integer(1, 10000), default=15)
    add(parser, "--no-torch", "heed alone")
    add(parser, "--json FILE", "write the numbers too; - is stdout")
    add(parser, "--plot FILE", "draw them as bars, an SVG, by matplotlib")
    add_context(parser)
    add_progress(parser)
    add_yes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures and tells."""
    shapes = [parse(name) for name in names(arguments)]
    json_file = None if arguments.json == "-" else arguments.json
    files.check_results({"--json": (json_file, ()), "--plot": (arguments.plot, (".svg",))}, {})
    if arguments.plot:
        imported("matplotlib")  # before the work
    with in_words_of(arguments.words):
        context = context_of(arguments)
    threads = int(str(context.describe()["threads"]))
    torch = None if arguments.no_torch else torch_with(threads)
    programs = {
        "heed": str(heed.info()["version"]),
        **({"torch": torch.__version__} if torch else {}),
    }
    plans = agree_on_shapes(shapes, len(programs), context, arguments)
    rows = []
    with Progress(
        "heed bench", len(shapes) * len(programs) * arguments.turns, arguments.progress
    ) as bar:
        for shape, plan in zip(shapes, plans, strict=True):
            rows.append(measure(shape, plan, torch, arguments.turns, bar))
    said = context.describe()
    results = {
        "programs": programs,
        "machine": {
            "cpu": str(heed.info()["cpu"]),
            "kind": str(said["cpu"]),
            "isa": str(said["isa"]),
            "system": platform.platform(),
        },
        "date": datetime.date.today().isoformat(),
        "threads": threads,
        "turns": arguments.turns,
        "shapes": rows,
    }
    if arguments.json == "-":
        print(json.dumps(results, indent=2))
    else:
        print(table(results))
        if arguments.json:
            files.write_text(arguments.json, json.dumps(results, indent=2) + "\n")
    if arguments.plot:
        files.write_text(arguments.plot, picture(results))
    return 0


def names(arguments: argparse.Namespace) -> list[str]:
    """The names of the shapes that were asked for."""
    asked = arguments.shape or list(SHAPES)
    if arguments.dtype == "f32":
        return asked
    typed = (set(name.split("_")) & set(TYPES) for name in asked)
    return [
        name if has else f"{name}_{arguments.dtype}" for name, has in zip(asked, typed, strict=True)
    ]


def torch_with(threads: int) -> Any:
    """PyTorch on as many threads, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch


def measure(shape: Shape, plan: heed.Plan, torch: Any, turns: int, bar: Progress) -> dict[str, Any]:
    """The medians of one shape, in seconds."""
    with in_words_of({"query": shape.name}):
        query, key, value = shape.tensors()
    said = plan.describe()
    calls = {"heed": lambda: plan(query, key, value)}
    if torch is not None:
        calls["torch"] = in_torch(shape, torch)
    timed = Turns(calls)
    timed.run(turns, bar)
    flops = float(str(said["flops"]))
    row = {
        "shape": shape.name,
        "name": SHAPES.get(shape.name.removesuffix(f"_{shape.dtype}"), ""),
        "seconds": {name: timed.median(name) for name in calls},
        "gflops": flops / timed.median("heed") * 1e-9,
        "gflops_quartiles": [flops / at * 1e-9 for at in reversed(timed.quartiles("heed"))],
        "strategy": said["strategy"],
        "threads": said["threads"],
    }
    if torch is not None:
        ratios = timed.ratios("torch", "heed")
        row["times_as_long"] = {"torch": statistics.median(ratios)}
        row["quartiles"] = {"torch": quartiles(ratios)}
    return row


def in_torch(shape: Shape, torch: Any) -> Any:
    """The same problem as PyTorch is asked for it."""
    dtype = getattr(torch, TYPES[shape.dtype])
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(sizes, generator=generator).to(dtype) for sizes in shape.sizes)
    options: dict[str, Any] = {"enable_gqa": True} if shape.heads != shape.key_heads else {}
    square = shape.queries == shape.keys
    if shape.causal == "causal" or (shape.causal is not None and square):
        options["is_causal"] = True
    elif shape.causal is not None:
        corner = torch.ones(shape.queries, shape.keys, dtype=torch.bool)
        options["attn_mask"] = corner.tril(shape.keys - shape.queries)
    attend = torch.nn.functional.scaled_dot_product_attention

    def call() -> Any:
        with torch.inference_mode():
            return attend(query, key, value, **options)

    try:
        call()
    except RuntimeError as error:
        raise Failure(
            f"shape {shape.name}: torch: {str(error).splitlines()[0]}; --no-torch leaves it out"
        ) from error
    return call


def spread(row: dict[str, Any]) -> tuple[float, float]:
    """The quartiles of what is told of a shape: times as long as heed, or heed's speed."""
    low, high = row.get("quartiles", {}).get("torch", row["gflops_quartiles"])
    return low, high


def unsteady(row: dict[str, Any]) -> bool:
    """The turns of a shape differ so much that their median says little."""
    low, high = spread(row)
    return high > WIDE * low


def table(results: dict[str, Any]) -> str:
    """For people."""
    programs, rows = results["programs"], results["shapes"]
    head = ["shape", "", "heed", "GFLOP/s", "how"]
    if "torch" in programs:
        head += ["torch", "times as long"]
    lines = [[*head, ""]]
    for row in rows:
        line = [
            row["shape"],
            row["name"],
            duration(row["seconds"]["heed"]),
            f"{row['gflops']:.1f}",
            f"{row['strategy']} x{row['threads']}",
        ]
        if "torch" in programs:
            low, high = spread(row)
            ratio = row["times_as_long"]["torch"]
            line += [duration(row["seconds"]["torch"]), f"{ratio:.2f} ({low:.2f}-{high:.2f})"]
        lines.append([*line, "unsteady" if unsteady(row) else ""])
    text = columns(lines, words=(0, 1, 4, len(head)))
    text.append(measured(results))
    if any(map(unsteady, rows)):
        text.append(UNSTEADY)
    return "\n".join(text)


def measured(results: dict[str, Any]) -> str:
    """By what, where and when."""
    versions = ", ".join(
        f"{name} {version.partition('+')[0]}" for name, version in results["programs"].items()
    )
    where = f"{results['machine']['cpu']} ({results['machine']['isa']})"
    how = f"{results['threads']} threads, medians of {results['turns']} turns"
    return f"{versions} on {where}, {how}, {results['date']}"


def picture(results: dict[str, Any]) -> str:
    """Bars, as an SVG: how many times as long PyTorch takes, or the speed of heed alone."""
    figure_of = imported("matplotlib.figure").Figure
    rows, beside = results["shapes"], "torch" in results["programs"]
    values = [row["times_as_long"]["torch"] if beside else row["gflops"] for row in rows]
    ends = [spread(row) for row in rows]
    marked = ["unsteady" if unsteady(row) else "" for row in rows]
    notes = ["times as long as heed, which takes 1" if beside else "GFLOP/s"]
    notes += [measured(results), "lines: half of the turns lie there"]
    notes += [UNSTEADY] if any(marked) else []
    # To be read on light and on dark paper.
    with imported("matplotlib").rc_context(dict.fromkeys(INKED, INK) | {"svg.fonttype": "none"}):
        figure = figure_of((9, 1.4 + 0.45 * len(rows) + 0.2 * len(notes)), layout="constrained")
        axes = figure.subplots()
        begin = 1.0 if beside else min(values) / 2
        drawn = axes.barh(range(len(rows)), [value - begin for value in values], left=begin)
        for place, (bar, value, (low, high)) in enumerate(zip(drawn, values, ends, strict=True)):
            bar.set(color=COLOUR, alpha=0.35 if marked[place] else 1)
            axes.plot([low, high], [place, place], "|-", color=INK)
            told = f"{value:.3g} {marked[place]}".rstrip()
            end = (max(value, high, begin), place)
            axes.annotate(told, end, (6, 0), textcoords="offset points", va="center")
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        low, high = (side(begin, *values, *itertools.chain(*ends)) for side in (min, max))
        axes.set_xlim(right=high * max(high / low, 4.0) ** 0.25)  # room for numbers
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.grid(axis="x", alpha=0.3)
        names = [f"{row['shape']}\n{row['name']}".rstrip() for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        axes.axvline(begin, color=INK)
        axes.set_title("PyTorch" if beside else "heed", loc="left", color=COLOUR)
        axes.set_xlabel("\n".join(notes), loc="left")
        whole = io.StringIO()
        how = {"bbox_inches": "tight", "transparent": True, "metadata": {"Date": None}}
        figure.savefig(whole, format="svg", **how)
    return whole.getvalue()
