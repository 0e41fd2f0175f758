"""``heed info``: what heed computes with here, and why."""

import argparse
import json
import os
from typing import Any

import heed

EXAMPLES = """\
examples:
  heed info
  heed info --json | jq .threads
  HEED_ISA=avx2 heed info                     what the environment changes"""

# What makes a choice: an environment variable, or what heed does without.
REASONS = {
    "isa": ("HEED_ISA", "the widest usable"),
    "executor": ("HEED_PARALLEL", "the best that was built"),
    "threads": ("HEED_THREADS", "the CPUs of this process"),
    "product": ("HEED_PRODUCT", "the first that was built"),
    "check": ("HEED_CHECK", "off unless asked for"),
    "tuning_file": ("HEED_TUNING_FILE", "none"),
    "l1_bytes": ("", "from the system"),
    "l2_bytes": ("", "from the system; tiles are derived from it"),
}
TILES = ("HEED_TILE_Q", "HEED_TILE_KV")


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "info",
        parents=[parent],
        help="tell what heed computes with here, and why",
        description="Tells what heed computes with here, and why it was chosen.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def version() -> str:
    """Of the library."""
    return str(heed.info()["version"])


def run(arguments: argparse.Namespace) -> int:
    """Prints it."""
    known = heed.info()
    if arguments.json:
        print(json.dumps(known, indent=2))
        return 0
    rows = [(name, shown(name, value), reason(name)) for name, value in known.items()]
    rows += [(tile, os.environ[tile], "from the environment") for tile in TILES if tile in os.environ]
    wide = max(len(name) for name, _, _ in rows)
    value_wide = max(len(value) for _, value, why in rows if why)
    for name, value, why in rows:
        print(f"{name:{wide}}  {value:{value_wide if why else 0}}  {why}".rstrip())
    return 0


def shown(name: str, value: Any) -> str:
    """As people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name.endswith("_bytes"):
        return f"{value / 1024:g} KiB"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(str(key), one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(name, one) for one in value)
    return str(value)


def reason(name: str) -> str:
    """Why it is that."""
    if name not in REASONS:
        return ""
    variable, automatic = REASONS[name]
    return f"{variable}={os.environ[variable]}" if os.environ.get(variable) else automatic
