"""``heed completion``: what lets a shell complete the command, by argcomplete."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

import heed
from heed.command import bench
from heed.command.arguments import OFFSETS, imported

HELP = "print what lets a shell complete heed's options"
DESCRIPTION = """\
Prints a script with which a shell completes commands, options and values. It needs argcomplete, as
completing does: pip install argcomplete."""
EXAMPLES = """\
examples:
  eval "$(heed completion bash)"              in ~/.bashrc
  eval "$(heed completion zsh)"               in ~/.zshrc, after compinit
  heed completion fish > ~/.config/fish/completions/heed.fish"""

FILES = ("FILE", "QUERY", "KEY", "VALUE", "EDGES")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    print(imported("argcomplete").shellcode(["heed"], shell=arguments.shell), end="")
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Tells the shell that asks what may come next, which ends the program."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    for action in actions_of(parser):
        if action.choices is None and action.metavar not in FILES:
            words = words_of(action.metavar)
            action.completer = argcomplete.ChoicesCompleter(words)  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All that the commands take."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from command._actions


def words_of(metavar: object) -> tuple[str, ...]:
    """Values that are known here of what argparse takes any word for."""
    known = heed.info()
    isas: Any = known["isas"]
    executors: Any = known["executors"]
    words = {
        "ISA": [name for name, isa in isas.items() if isa["usable"]],
        "EXECUTOR": executors,
        "WHERE": OFFSETS,
        "SHAPE": bench.SHAPES,
    }
    return tuple(words[metavar]) if metavar in words else ()
