"""``heed completion``: scripts that let shells complete the command."""

import argparse
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import heed
from heed.command import bench
from heed.command.arguments import OFFSETS

HELP = "print what lets a shell complete heed's options"
DESCRIPTION = "Prints a script with which a shell completes commands, options and values."
EXAMPLES = """\
examples:
  eval "$(heed completion bash)"              in ~/.bashrc
  eval "$(heed completion zsh)"               in ~/.zshrc, after compinit
  heed completion fish > ~/.config/fish/completions/heed.fish"""

SHELLS = ("bash", "zsh", "fish")
FILES = ("FILE", "QUERY", "KEY", "VALUE", "EDGES")


@functools.cache
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument("shell", choices=SHELLS)


@dataclass(frozen=True)
class Option:
    """An option of a command, or what stands without one (no names)."""

    names: tuple[str, ...]
    choices: tuple[str, ...]
    file: bool
    takes_value: bool
    optional: bool
    help: str


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    from heed.command import parser

    commands = dict(commands_of(parser()))
    print({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](commands))
    return 0


def commands_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[str, list[Option]]]]:
    """Each command's help and options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield name, (helps[name], [option_of(one) for one in command._actions])


def option_of(action: argparse.Action) -> Option:
    """What argparse knows."""
    return Option(
        tuple(action.option_strings),
        tuple(map(str, action.choices or words_of(action.metavar))),
        action.metavar in FILES,
        action.nargs != 0,
        action.nargs == "?" and bool(action.option_strings),
        plain(action.help or ""),
    )


def plain(text: str) -> str:
    """Without what shells would read otherwise."""
    return re.sub(r"[^\w .,;/=-]", "", re.split(r"[;:(]", text)[0]).strip()


Commands = dict[str, tuple[str, list[Option]]]


def bash(commands: Commands) -> str:
    """A function that looks at the words before the cursor."""
    names = " ".join(commands)
    lines = [
        "_heed() {",
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
        "  local command=${COMP_WORDS[1]}",
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f"    COMPREPLY=($(compgen -W '{names} --help --version' -- \"$word\"))",
        "    return",
        "  fi",
        '  case "$command $before" in',
    ]
    for command, (_, options) in commands.items():
        for option in options:
            pattern = "|".join(f"'{command} {name}'" for name in option.names)
            if pattern and (option.choices or option.file):
                lines.append(f"    {pattern}) {reply(option.choices)}; return ;;")
    lines += ["  esac", '  case "$command" in']
    for command, (_, options) in commands.items():
        flags = [name for option in options for name in option.names]
        words = [word for option in options if not option.names for word in option.choices]
        lines.append(f"    {command}) [[ $word == -* ]] && {reply(flags)} || {reply(words)} ;;")
    lines += ["  esac", "}", "complete -o filenames -F _heed heed"]
    return "\n".join(lines)


def reply(words: Sequence[str]) -> str:
    """One of these words, or a file where there are none."""
    kind = f"-W '{' '.join(words)}'" if words else "-f"
    return f'COMPREPLY=($(compgen {kind} -- "$word"))'


def zsh(commands: Commands) -> str:
    """With _arguments, which shows the help of every option."""
    described = " ".join(f"'{name}:{plain(text)}'" for name, (text, _) in commands.items())
    lines = [
        "#compdef heed",
        "_heed() {",
        "  if (( CURRENT == 2 )); then",
        f"    local -a commands=({described})",
        "    _describe command commands",
        "    return",
        "  fi",
        "  local command=$words[2]",
        "  shift words; (( CURRENT-- ))",
        '  case "$command" in',
    ]
    for command, (_, options) in commands.items():
        lines.append(f"    {command}) _arguments -s \\")
        rest = {zsh_value(option): option for option in options if not option.names}
        lines += [f"      '*{value}' \\" for value in list(rest)[:1]]  # it takes one such
        for option in options:
            for name in option.names:
                lines.append(f"      '{name}[{option.help}]{zsh_value(option)}' \\")
        lines[-1] = lines[-1].removesuffix(" \\") + " ;;"
    lines += ["  esac", "}", "compdef _heed heed"]
    return "\n".join(lines)


def zsh_value(option: Option) -> str:
    """What may follow an option, in the words of _arguments."""
    if not option.takes_value:
        return ""
    choices = f"({' '.join(option.choices)})" if option.choices else "_files" if option.file else ""
    return f"{'::' if option.optional else ':'}value:{choices}"


def fish(commands: Commands) -> str:
    """A line for every option."""
    lines = ["complete -c heed -f"]
    for command, (text, options) in commands.items():
        lines.append(f"complete -c heed -n __fish_use_subcommand -a {command} -d '{plain(text)}'")
        where = f"complete -c heed -n '__fish_seen_subcommand_from {command}'"
        for option in options:
            if not option.names:
                lines.append(
                    f"{where} -a '{' '.join(option.choices)}'" if option.choices else f"{where} -F"
                )
                continue
            names = " ".join(
                f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names
            )
            takes = (
                " -x"
                if option.choices
                else " -r -F"
                if option.file
                else " -x"
                if option.takes_value
                else ""
            )
            values = f" -a '{' '.join(option.choices)}'" if option.choices else ""
            lines.append(f"{where} {names}{takes}{values} -d '{option.help}'")
    return "\n".join(lines)
