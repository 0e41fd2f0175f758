"""Parsers, readers and options that the commands share."""

import argparse
import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn, get_args

import heed
from heed.command.ends import USAGE, Failure, Misuse
from heed.options import TABLE, Point, Start


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
        # Values, not options: argparse knows -1 for one, but not a pair as -1,2.
        self._negative_number_matcher = re.compile(r"^-(\d+|\d*\.\d+|\d*,[+-]?\d*)$")

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        message = re.sub(r"^argument ([^:]*): ", r"\1: ", message)
        end = "" if message.endswith("?") else ";"
        sys.stderr.write(f"{self.prog}: {message}{end} see {self.prog} --help\n")
        sys.exit(USAGE)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what it does not know itself, so that the message names the command meant."""
        known, others = super().parse_known_args(args, namespace)
        if others:
            given = [other.partition("=")[0] for other in others]
            meant = [
                m for one in given for m in get_close_matches(one, self._option_string_actions, 1)
            ]
            hint = f"; did you mean {meant[0]}?" if meant else ""
            self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        return known, others

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


CORNERS = ("top-left", "bottom-right")


def corner(text: str) -> str:
    """Reads a corner, spelled as here or as in Python."""
    if text.replace("_", "-") in CORNERS:
        return text.replace("-", "_")
    told = f"{text!r} must be {' or '.join(CORNERS)}"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        told += f"; an offset is --causal --alignment {int(text)}"
    raise argparse.ArgumentTypeError(told)


def offset(text: str) -> str | int:
    """Reads a corner or an offset."""
    if text.replace("_", "-") in CORNERS:
        return text.replace("-", "_")
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be {', '.join(CORNERS)} or a whole number")


def pair(text: str) -> tuple[int | None, int | None]:
    """Reads LEFT,RIGHT, where nothing, or -1, is no bound."""
    match = re.fullmatch(r"(-1|[0-9]{0,18}),(-1|[0-9]{0,18})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be LEFT,RIGHT, two numbers of keys")
    left, right = (None if side in ("", "-1") else int(side) for side in match.groups())
    return left, right


def add(to: argparse._ActionsContainer, form: str, told: str, **how: Any) -> None:
    """An argument in the form that usage shows: ``QUERY``, ``[KEY]``, ``-o --output FILE``.

    An option without a value, as ``--lse``, is given or not; ``[VALUE]`` may be missing.
    """
    *names, last = form.split()
    metavar = last.strip("[].")
    if last.startswith("-"):
        names, how = [*names, last], {"action": "store_true", **how}
    else:
        many = "..." in last
        optional = "*" if many else "?"
        count = optional if "[" in last else "+" if many else None
        how = {"nargs": count, **({} if "choices" in how else {"metavar": metavar}), **how}
    to.add_argument(*(names or [how.pop("dest", metavar.lower())]), help=told, **how)


def words_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The names of heed's arguments here: the option, or the word of usage, that gives them."""
    return {
        action.dest: action.option_strings[-1] if action.option_strings else str(action.metavar)
        for action in parser._actions
    }


def check_asked(names: Iterable[str], arguments: argparse.Namespace) -> list[str]:
    """The options that ask for more than out, which the output must have room for."""
    asked = [name for name in names if getattr(arguments, name)]
    if asked and not (arguments.output or "").endswith(".npz"):
        option = arguments.words[asked[0]]
        raise Misuse(f"{option} is one more array; write all with -o FILE.npz")
    return asked


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    add(parser, "-o --output FILE", "write out (.npy), or all that is asked for (.npz)")


# Forms of usage, and readers, of options of attention by their types; all others are in files.
FORMS: dict[Any, tuple[str, dict[str, Any]]] = {
    bool: ("", {}),
    bool | Start: (" [WHERE]", {"type": corner, "const": True}),
    bool | Point | None: (" [POINT]", {"choices": get_args(Point), "const": "probabilities"}),
    int | Start | None: (" WHERE", {"type": offset}),
    float | None: (" NAME", {"type": nonzero}),
    tuple[int | None, int | None] | None: (" LEFT,RIGHT", {"type": pair}),
}


def add_options(to: argparse._ActionsContainer, names: Iterable[str]) -> None:
    """Options of attention, as their table has them."""
    for name in names:
        kind, row = TABLE[name]
        form, how = FORMS.get(kind, (" FILE", {}))
        option = f"--{row.word or name.replace('_', '-')}{form.replace('NAME', name.upper())}"
        add(to, option, str(row.told), dest=name, **how)


def add_context(parser: argparse.ArgumentParser) -> None:
    """Options of heed.Context."""
    to = parser.add_argument_group("where it is computed")
    add(to, "--threads N", "(HEED_THREADS, or all CPUs)", type=integer(1, 1024))
    add(to, "--isa ISA", "instruction set (HEED_ISA, or the widest usable)")
    add(to, "--executor EXECUTOR", "(HEED_PARALLEL, or the best there is)")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """When a bar is drawn."""
    told = "draw a bar on stderr (auto: if it is a terminal)"
    add(parser, "--progress WHEN", told, choices=("auto", "always", "never"), default="auto")


def imported(name: str) -> Any:
    """A library that not everybody has."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Failure(f"{name} is missing: pip install {name}") from None


def context_of(arguments: argparse.Namespace, **others: Any) -> heed.Context:
    """The context that the options ask for."""
    return heed.Context(
        threads=arguments.threads, isa=arguments.isa, executor=arguments.executor, **others
    )
