"""What stands in a README: fenced blocks, links, and code where it does not belong."""

import os
import re
import sys
from typing import NamedTuple


def told(faults):
    """Puts faults on stderr; the exit status."""
    faults = list(faults)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


class Block(NamedTuple):
    kind: str  # what follows the fence: sh, text, c, cmake, python
    line: int  # of its first line of text, from 1
    text: str


def blocks_of(readme):
    found, kind, start, lines = [], None, 0, []
    for number, line in enumerate(readme.splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, start, lines = line[3:].strip(), number + 1, []
        else:
            found.append(Block(kind, start, "".join(text + "\n" for text in lines)))
            kind = None
    return found


def without_blocks(readme):
    """Of a block a fence stays, so that it is seen what it stands beside."""
    return re.sub(r"^```.*?^```$", "```", readme, flags=re.DOTALL | re.MULTILINE)


def anchors_of(readme):
    titles = re.findall(r"^#+ (.*)$", without_blocks(readme), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def link_faults(readme, folder):
    """Links lead to headings and files that are there."""
    faults = []
    for target in re.findall(r"\]\(([^)]+)\)", without_blocks(readme)):
        path, _, anchor = target.partition("#")
        path = os.path.join(folder, path)
        if "://" in target:
            continue
        there, text = target[0] == "#" or os.path.exists(path), readme
        if there and anchor and target[0] != "#":
            with open(path, encoding="utf-8") as file:
                text = file.read()
        if not there or anchor and anchor not in anchors_of(text):
            faults.append(f"a link leads nowhere: {target}")
    return faults


def form_faults(readme):
    """Headings stand between empty lines, rows in tables, and commands in blocks of sh: whoever
    copies them copies no prompt and no comment that is none, and they run in the tests."""
    lines = without_blocks(readme).splitlines()
    faults = []
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""]):
        if re.match(r"#+ ", line) and (before.strip() or after.strip()):
            faults.append(f"a heading without empty lines around it: {line}")
        if line.startswith("|") and not before.startswith("|") and not re.match(r"\|[ :|-]+\|$", after):
            faults.append(f"a row outside a table: {line}")
        if re.match(r" {4}(\./|\S*/?heed_perf|cmake|ctest|python3|cc|apt-get|tests/|build/)", line):
            faults.append(f"a command outside a block of sh: {line.strip()}")
    for line in {line for line in lines if len(line) > 60 and lines.count(line) > 1}:
        faults.append(f"a line said twice: {line}")
    return faults
