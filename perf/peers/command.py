"""What the programs here share: their command lines, and leaving where something is not there."""

import argparse
import importlib
import os
import sys


def parser_of(description, turns=True, epilog=None):
    """Takes workloads."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=epilog)
    parser.add_argument("--workload", action="append", help="a name; repeatable; default: a list")
    if turns:
        parser.add_argument("--threads", type=int, default=os.cpu_count())
        parser.add_argument("--repetitions", type=int, default=5, help="turns per workload")
    return parser


def imported(*names):
    """Modules to compare with; without them there is nothing to do."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as problem:
        others = sorted({name.partition(".")[0] for name in names} - {"heed"})
        print(f"skipped: {problem}; pip install {' '.join(others)}; of heed, pip install . or "
              "PYTHONPATH=build/release/api/python")
        sys.exit()


def for_each(workloads, compare):
    for workload in workloads:
        try:
            compare(workload)
        except (KeyError, NotImplementedError, ValueError) as problem:
            sys.exit(f"{workload}: {problem}")
