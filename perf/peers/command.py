"""What the programs here share: their command lines, and leaving where something is not there."""

import argparse
import importlib
import os
import sys

from library import Error, Library


def parser_of(description, path, option="--library", turns=True, epilog=None):
    """Takes workloads and where `path`, a file of heed's build, is."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=epilog)
    parser.add_argument("--workload", action="append", help="a name; repeatable; default: a list")
    if turns:
        parser.add_argument("--threads", type=int, default=os.cpu_count())
        parser.add_argument("--repetitions", type=int, default=5, help="turns per workload")
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.normpath(os.path.join(here, "..", "..", "build", "release", path))
    name = os.path.basename(path)
    parser.add_argument(option, default=built, help=f"{name}; default %(default)s")
    return parser


def imported(*names):
    """Modules to compare with; without them there is nothing to do."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as problem:
        print(f"skipped: {problem}; pip install {' '.join(names)}")
        sys.exit()


def require(path, option):
    if not os.path.exists(path):
        sys.exit(f"{path} is not there: build it, or say where with {option}")


def load(options):
    require(options.library, "--library")
    return Library(options.library)


def for_each(workloads, compare):
    for workload in workloads:
        try:
            compare(workload)
        except (Error, KeyError, ValueError) as problem:
            sys.exit(f"{workload}: {problem}")
