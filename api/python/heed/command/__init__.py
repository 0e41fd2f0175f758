"""The command ``heed``."""

import argparse
import os
import sys
from collections.abc import Sequence

from heed import Error
from heed.command import attend, bench, completion, graph, info, tune
from heed.command.arguments import Formatter, Parser
from heed.command.failure import FAILED, INTERRUPTED, USAGE, Failure, Misuse

EXAMPLES = """\
examples:
  heed info                                     what heed computes with here, and why
  heed attend q.npy k.npy v.npy -o out.npy      attention over arrays from files
  heed graph edges.csv --features x.npy         attention over a graph
  heed bench B1_H12_L512_D64                    how fast, beside PyTorch where it is installed
  heed tune B1_H12_L512_D64 -o heed.tuning      better tiles for this CPU
  eval "$(heed completion bash)"                complete options with the tab key

The exit status is 0, 1 where something could not be done, 2 for a wrong command line."""

COMMANDS = (info, attend, graph, bench, tune, completion)


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(
        prog="heed",
        description="Attention on CPUs.",
        epilog=EXAMPLES,
    )
    whole.add_argument("--version", action="store_true", help="print the version and end")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    common = argparse.ArgumentParser(add_help=False, formatter_class=Formatter)
    for command in COMMANDS:
        command.add(commands, common)
    return whole


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit status."""
    read = parser()
    arguments = read.parse_args(given)
    if arguments.command is None and not arguments.version:
        read.print_help(sys.stderr)
        return USAGE
    try:
        status = run(arguments)
        sys.stdout.flush()
    except (Error, Failure) as failure:
        print(f"heed {arguments.command}: {failure}", file=sys.stderr)
        status = USAGE if isinstance(failure, Misuse) else FAILED
    except KeyboardInterrupt:
        print(f"heed {arguments.command}: interrupted", file=sys.stderr)
        status = INTERRUPTED
    except BrokenPipeError:  # as of `heed info | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    return status


def run(arguments: argparse.Namespace) -> int:
    """Runs the command that was read."""
    if arguments.version:
        print(f"heed {info.version()}")
        return 0
    status: int = arguments.run(arguments)
    return status
