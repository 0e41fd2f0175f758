"""What the commands' parsers share."""

import argparse
import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import heed
from heed.command.ends import USAGE, Failure, Misuse


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Examples stay as they are written; long options have room."""

    def __init__(self, prog: str) -> None:
        """As wide as the terminal, up to 100 columns."""
        width = min(shutil.get_terminal_size().columns, 100)
        super().__init__(prog, max_help_position=30, width=width)


class Parser(argparse.ArgumentParser):
    """Errors in one line, with the command's name."""

    def __init__(self, **given: Any) -> None:
        """Options are never cut short: --ma would mean something else with the next version."""
        given.setdefault("formatter_class", Formatter)
        super().__init__(allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        message = re.sub(r"^argument ([^:]*): ", r"\1: ", message)
        sys.stderr.write(f"{self.prog}: {message}; see {self.prog} --help\n")
        sys.exit(USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Unlike argparse's, raises what goes wrong."""
        print(message, end="", file=file or sys.stderr)


def integer(low: int, high: int = 1 << 40) -> Callable[[str], int]:
    """Reads a whole number between these."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not low <= int(text) <= high:
            bound = f"at least {low}" if high == 1 << 40 else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, {bound}")
        return int(text)

    return read


def number(text: str) -> float:
    """Reads a number; what it may be heed says."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None


def nonzero(text: str) -> float:
    """Reads a number; heed takes 0 for one that is not given."""
    value = number(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number other than 0")
    return value


OFFSETS = ("top-left", "bottom-right")


def offset(text: str) -> str | int:
    """Reads a corner or an offset."""
    if text in OFFSETS:
        return text.replace("-", "_")
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be {', '.join(OFFSETS)} or a whole number")


def pair(text: str) -> tuple[int | None, int | None]:
    """Reads LEFT,RIGHT, where nothing is no bound."""
    match = re.fullmatch(r"([0-9]{0,18}),([0-9]{0,18})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be LEFT,RIGHT, two numbers of keys")
    left, right = (int(side) if side else None for side in match.groups())
    return left, right


def named(*names: str, **others: str) -> dict[str, str]:
    """What arguments of heed are called here: an option of the same name, or the other."""
    options = (*names, "threads", "isa", "executor")
    return {name: f"--{name.replace('_', '-')}" for name in options} | others


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write out (.npy), or all that is asked for (.npz)"
    )


def check_asked(names: Iterable[str], arguments: argparse.Namespace) -> list[str]:
    """The options that ask for more than out, which the output must have room for."""
    asked = [name for name in names if getattr(arguments, name)]
    if asked and not (arguments.output or "").endswith(".npz"):
        option = "--" + asked[0].replace("_", "-")
        raise Misuse(f"{option} is one more array; write all with -o FILE.npz")
    return asked


def add_scores(parser: argparse._ActionsContainer) -> None:
    """What becomes of scores."""
    parser.add_argument("--scale", type=nonzero, help="of scores (1 / sqrt(features))")
    parser.add_argument(
        "--softcap", type=nonzero, help="bound scores by softcap * tanh(s / softcap)"
    )
    parser.add_argument("--temperature", type=nonzero, help="divide scores by this (1)")
    parser.add_argument("--hard", action="store_true", help="weight 1 at the largest score alone")


def add_context(parser: argparse.ArgumentParser) -> None:
    """Options of heed.Context."""
    group = parser.add_argument_group("where it is computed")
    group.add_argument(
        "--threads", type=integer(1, 1024), metavar="N", help="(HEED_THREADS, or all CPUs)"
    )
    group.add_argument(
        "--isa", metavar="ISA", help="instruction set (HEED_ISA, or the widest usable)"
    )
    group.add_argument(
        "--executor", metavar="EXECUTOR", help="(HEED_PARALLEL, or the best there is)"
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    """When a bar is drawn."""
    parser.add_argument(
        "--progress",
        choices=("auto", "always", "never"),
        default="auto",
        help="draw a bar on stderr (auto: if it is a terminal)",
    )


def imported(name: str) -> Any:
    """A library that not everybody has."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Failure(f"{name} is missing: pip install {name}") from None


def context_of(arguments: argparse.Namespace, **others: Any) -> heed.Context:
    """What the options say."""
    return heed.Context(
        threads=arguments.threads, isa=arguments.isa, executor=arguments.executor, **others
    )
