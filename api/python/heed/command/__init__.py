"""The command ``heed``."""

import sys
from collections.abc import Sequence
from types import ModuleType

import numpy as np

import heed
from heed.command import attend, bench, completion, graph, info, tune
from heed.command.arguments import Parser, add, words_of
from heed.command.ends import FAILED, INTERRUPTED, USAGE, Failure, Misuse, interruptible, streams

EXAMPLES = """\
examples:
  heed info                                     what heed computes with here, and why
  heed attend q.npy k.npy v.npy -o out.npy      attention over arrays from files
  heed graph edges.csv --features x.npy         attention over a graph
  heed bench B1_H12_L512_D64                    how fast, beside PyTorch where it is installed
  heed tune B1_H12_L512_D64 -o heed.tuning      better tiles for this CPU
  eval "$(heed completion bash)"                complete options with the tab key

The exit status is 0, 1 where something could not be done, 2 for a wrong command line."""

COMMANDS: tuple[ModuleType, ...] = (info, attend, graph, bench, tune, completion)


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(
        prog="heed",
        description="Attention on CPUs.",
        epilog=EXAMPLES,
    )
    told = "print the version and end"
    add(whole, "--version", told, action="version", version=f"heed {heed.__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        said = {"description": command.DESCRIPTION, "epilog": command.EXAMPLES}
        one = commands.add_parser(name, help=command.HELP, **said)
        command.add_arguments(one)
        one.set_defaults(run=command.run, words=words_of(one))
    return whole


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit status."""
    name = "heed"
    try:
        with streams(), np.errstate(all="ignore"):  # what is odd about numbers commands tell
            whole = parser()
            completion.complete(whole)
            arguments = whole.parse_args(given)
            if arguments.command is None:
                whole.print_help(sys.stderr)
                return USAGE
            name = f"heed {arguments.command}"
            with interruptible(name):
                return int(arguments.run(arguments))
    except (heed.Error, Failure) as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        return USAGE if isinstance(failure, Misuse) else FAILED
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
