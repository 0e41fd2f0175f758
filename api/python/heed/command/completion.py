"""``heed completion``: what lets a shell complete the command, by argcomplete."""

import argparse
import os
from collections.abc import Iterable
from typing import Any

import heed
from heed.command import bench
from heed.command.arguments import CORNERS, imported

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
    """Adds the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    print(imported("argcomplete").shellcode(["heed"], shell=arguments.shell), end="")
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Tells the shell that asks what may come next, which ends the program."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    imported("argcomplete").autocomplete(
        parser, always_complete_options="long", default_completer=words_of
    )


def words_of(prefix: str, action: argparse.Action, **given: Any) -> Iterable[str]:
    """Values that are known here of what argparse takes any word for; names of files."""
    if action.metavar in FILES:
        of_files: Iterable[str] = imported("argcomplete.completers").FilesCompleter()(prefix)
        return of_files
    known: dict[str, Any] = heed.info()
    words: dict[Any, Iterable[str]] = {
        "ISA": [name for name, isa in known["isas"].items() if isa["usable"]],
        "EXECUTOR": known["executors"],
        "WHERE": CORNERS,
        "SHAPE": bench.SHAPES,
    }
    return words.get(action.metavar, ())
