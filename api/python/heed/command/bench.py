"""``heed bench``: how fast attention is, beside PyTorch where it is installed."""

import argparse
import json
import platform
from typing import Any

import heed
from heed.command import files
from heed.command.arguments import add_context, add_progress, context_of, integer
from heed.command.failure import Failure, in_words_of
from heed.command.plot import bars
from heed.command.progress import Progress
from heed.command.shapes import GRAMMAR, TYPES, Shape, parse
from heed.command.table import columns
from heed.command.timing import Turns

EXAMPLES = """\
examples:
  heed bench                                  some shapes of well-known models
  heed bench B1_H12_L512_D64 B1_H32_Hkv8_Lq1_Lkv8192_D128_bf16
  heed bench --json speed.json --plot speed.svg
  heed bench --dtype bf16                     the same in bfloat16

A shape
"""

SHAPES = (
    "B1_H1_L10_D20",
    "B1_H16_L1024_D64",
    "B1_H8_L4096_D128_causal",
    "B32_H12_L128_D64",
    "B8_H12_L197_D64",
    "B2_H8_Lq4096_Lkv77_D40",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128",
)
OPTIONS = {"threads": "--threads", "isa": "--isa", "executor": "--executor"}
TORCH_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "bench",
        parents=[parent],
        help="measure how fast attention is, beside PyTorch",
        description="Measures attention on problems of given shapes, in turns with PyTorch where "
        "it is installed; times are medians.",
        epilog=EXAMPLES + GRAMMAR,
    )
    parser.add_argument("shapes", metavar="SHAPE", nargs="*", type=str, help="as B1_H12_L512_D64")
    parser.add_argument(
        "--dtype", choices=list(TYPES), default="f32", help="of shapes that name none (f32)"
    )
    parser.add_argument("--turns", type=integer(1, 10000), default=15, help="of every program (15)")
    parser.add_argument("--no-torch", action="store_true", help="heed alone")
    parser.add_argument("--json", metavar="FILE", help="write the numbers too; - is stdout")
    parser.add_argument("--plot", metavar="FILE", help="draw them as bars, an SVG")
    add_context(parser)
    add_progress(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures and tells."""
    shapes = [parse(name) for name in names(arguments)]
    files.check_apart({"--json": arguments.json, "--plot": arguments.plot}, {})
    with in_words_of(OPTIONS):
        context = context_of(arguments)
    threads = int(str(context.describe()["threads"]))
    torch = None if arguments.no_torch else torch_with(threads)
    programs = {
        "heed": str(heed.info()["version"]),
        **({"torch": torch.__version__} if torch else {}),
    }
    rows = []
    with Progress(
        "heed bench", len(shapes) * len(programs) * arguments.turns, arguments.progress
    ) as bar:
        for shape in shapes:
            rows.append(measure(shape, context, torch, arguments.turns, bar))
    said = context.describe()
    results = {
        "programs": programs,
        "machine": {
            "cpu": str(said["cpu"]),
            "isa": str(said["isa"]),
            "system": platform.platform(),
        },
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
    """Of the shapes that were asked for."""
    asked = arguments.shapes or SHAPES
    if arguments.dtype == "f32":
        return list(asked)
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


def measure(
    shape: Shape, context: heed.Context, torch: Any, turns: int, bar: Progress
) -> dict[str, Any]:
    """The medians of one shape, in seconds."""
    query, key, value = shape.tensors()
    with in_words_of({"query": shape.name, **OPTIONS}):
        plan = heed.plan(query, key, value, context=context, **shape.options)
    said = plan.describe()
    calls = {"heed": lambda: plan(query, key, value)}
    if torch is not None:
        calls["torch"] = in_torch(shape, torch)
    timed = Turns(calls)
    timed.run(turns, bar)
    heed_seconds = timed.median("heed")
    row = {
        "shape": shape.name,
        "seconds": {name: timed.median(name) for name in calls},
        "gflops": float(str(said["flops"])) / heed_seconds * 1e-9,
        "strategy": said["strategy"],
        "threads": said["threads"],
    }
    if torch is not None:
        ratios = timed.ratios("torch", "heed")
        row["times_as_long"] = {"torch": ratios[len(ratios) // 2]}
        row["quartiles"] = {"torch": [ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]]}
    return row


def in_torch(shape: Shape, torch: Any) -> Any:
    """The same problem as PyTorch is asked for it."""
    dtype = getattr(torch, TORCH_TYPES[shape.dtype])
    generator = torch.Generator().manual_seed(1)
    query, key, value = (
        torch.randn(sizes, generator=generator).to(dtype)
        for sizes in (shape.query_shape, shape.key_shape, shape.value_shape)
    )
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


def table(results: dict[str, Any]) -> str:
    """For people."""
    programs = results["programs"]
    head = ["shape", "heed", "GFLOP/s", "how"]
    if "torch" in programs:
        head += ["torch", "times as long"]
    lines = [head]
    for row in results["shapes"]:
        line = [
            row["shape"],
            duration(row["seconds"]["heed"]),
            f"{row['gflops']:.1f}",
            f"{row['strategy']} x{row['threads']}",
        ]
        if "torch" in programs:
            low, high = row["quartiles"]["torch"]
            ratio = row["times_as_long"]["torch"]
            line += [duration(row["seconds"]["torch"]), f"{ratio:.2f} ({low:.2f}-{high:.2f})"]
        lines.append(line)
    text = columns(lines, words=(0, 3))
    versions = ", ".join(f"{name} {version}" for name, version in programs.items())
    where = f"{results['machine']['cpu']} {results['machine']['isa']}"
    text.append(
        f"{versions} on {where}, {results['threads']} threads, medians of {results['turns']} turns"
    )
    return "\n".join(text)


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def picture(results: dict[str, Any]) -> str:
    """Bars: how many times as long PyTorch takes, or the speed of heed alone."""
    programs, rows = results["programs"], results["shapes"]
    measured = f"{results['threads']} threads, medians of {results['turns']} turns"
    if "torch" in programs:
        return bars(
            {row["shape"]: row["times_as_long"]["torch"] for row in rows},
            f"PyTorch {programs['torch'].partition('+')[0]}",
            f"times as long as heed {programs['heed']}, which takes 1; {measured}",
            line=1.0,
        )
    return bars({row["shape"]: row["gflops"] for row in rows}, "heed", f"GFLOP/s; {measured}")
