"""``heed info``: what heed computes with here, and why."""

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

import heed
from heed.command.arguments import add
from heed.command.terminal import columns

HELP = "tell what heed computes with here, and why"
DESCRIPTION = """\
Tells what heed computes with here, why it was chosen, and all else that a report of a problem
needs."""
REPORT = """\
To report a problem, send these lines, the smallest call that shows it, and whether HEED_CHECK=1 or
HEED_ISA=scalar changes it."""
EXAMPLES = """\
examples:
  heed info
  heed info --json                            everything, for programs
  HEED_ISA=avx2 heed info                     what the environment changes"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add(parser, "--json", "for programs")


def run(arguments: argparse.Namespace) -> int:
    """Prints it."""
    known: dict[str, Any] = heed.info()
    if arguments.json:
        print(json.dumps(known, indent=2))
        return 0
    rows = [*choices(known), *surroundings(known)]
    print("\n".join(columns(rows, words=(0, 1, 2))))
    print(f"\n{REPORT}")
    return 0


def choices(known: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Tells what there is, what was chosen, and why."""
    context = known["context"]
    usable = [name for name, isa in known["isas"].items() if isa["usable"]]
    isa = known["isas"][context["isa"]]
    tiles = [name for name in ("HEED_TILE_Q", "HEED_TILE_KV") if name in known["environment"]]
    yield "heed", known["version"], f"compiled by {known['compiler']}"
    yield "cpu", context["cpu"], known["cpu"]
    yield "isa", context["isa"], because("HEED_ISA", f"the fastest usable of {', '.join(usable)}")
    yield "vectors", f"{isa['lanes']} float32", f"{isa['panel']} query rows in a kernel"
    yield (
        "executor",
        context["executor"],
        because("HEED_PARALLEL", f"the best of {', '.join(known['executors'])}"),
    )
    yield "threads", str(context["threads"]), because("HEED_THREADS", "the CPUs of this process")
    yield (
        "product",
        context["product"],
        because("HEED_PRODUCT", f"the first of {', '.join(known['products'])}"),
    )
    for level in ("l1", "l2"):
        yield level, f"{context[f'{level}_bytes'] / 1024:g} KiB", "of a core, as the system says"
    yield (
        "tiles",
        ", ".join(known["environment"][name] for name in tiles) or "automatic",
        ", ".join(tiles) or because("HEED_TUNING_FILE", "from the L2 cache and the shape"),
    )
    yield "precision", context["precision"], because("HEED_PRECISION", "as far as the isa can")
    yield "check", "on" if context["check"] else "off", because("HEED_CHECK", "")


def surroundings(known: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The system, Python and its libraries, and the variables that are set, misspelt ones too."""
    yield "system", known["system"], f"{known['cpus']} CPUs for this process"
    yield "python", known["python"], ""
    for name, version in known["packages"].items():
        yield name, version, ""
    for name in sorted(os.environ):
        if name.startswith("HEED_"):
            read = name in known["environment"]
            yield name, os.environ[name], "" if read else "heed reads no variable of this name"


def because(variable: str, otherwise: str) -> str:
    """The variable that decided, if it is set."""
    return f"{variable}={os.environ[variable]}" if os.environ.get(variable) else otherwise
