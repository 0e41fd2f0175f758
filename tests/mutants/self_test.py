#!/usr/bin/env python3
"""Mutants that are noticed, overlooked and misplaced, and what must be said about each."""

import contextlib
import io
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import run
from table import Mutant

SOURCE = """int half(int x) {
  return x /
         2;
}
int twice(int x) { return 2 * x; }
"""

# What stands for a test program: it looks for what the mutant did to the source.
PROGRAM = """#!/bin/sh
[ "$1" = --abort ] || exit 3
if grep -q "%s" %s; then %s; fi
"""
FAILS = "printf -- '%s\\nhalves\\n%s\\n'; exit 1" % ("-" * 79, "-" * 79)

MUTANTS = [
    Mutant("thirds", "halves are thirds", ("test_a", "test_b"), "return x / 2;", "return x / 3;"),
    Mutant("crash", "twice dies", ("test_b",), "2 * x", "4 * x"),
    Mutant("sweep", "only full sweeps see it", ("test_a",), "int half(int x)", "int full(int x)"),
    Mutant("unseen", "nobody looks", ("test_a", "test_b"), "int twice(int x)", "int quiet(int x)"),
]
SAID = [
    "1 of 4  killed   thirds", 'test_b: "halves"', "test_b: died of signal 9",
    "test_a (full sweeps): ended with 1", "SURVIVES unseen", "not by test_a, test_b",
    "3 of 4 mutants killed", "unseen survives: nobody looks",
]
MISPLACED = [
    (Mutant("twice", "", (), "int x", ""), '"int x" is in engine/a.cpp, engine/a.cpp'),
    (Mutant("never", "", (), "int y", ""), '"int y" is in nowhere'),
]


def write_program(folder, name, lines):
    path = folder / name
    path.write_text("".join(lines) + "exit 0\n")
    path.chmod(0o755)


def check(folder):
    """What is wrong about a run over the sources and programs of a folder."""
    source = folder / "engine" / "a.cpp"
    source.parent.mkdir()
    source.write_text(SOURCE)
    full = '[ "$HEED_TEST_SIZE" = small ] || exit 1'
    write_program(folder, "test_a", [PROGRAM % ("int full", source, full)])
    write_program(folder, "test_b", [PROGRAM % ("x / 3", source, FAILS),
                                     PROGRAM % ("4 [*] x", source, "kill -9 $$")])
    run.SOURCES = run.TREE = run.COPY = run.ROOT = folder
    run.LOG = folder / "log"
    run.MUTANTS = MUTANTS
    run.copy_sources = lambda: None
    run.configure = lambda wanted: None
    run.isas = lambda: [""]
    run.build = lambda programs: True
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = run.main([])
    wrong = [f'nothing says "{words}"' for words in SAID if words not in said.getvalue()]
    if status != 1:
        wrong.append(f"a survivor ends with {status}")
    if source.read_text() != SOURCE:
        wrong.append("the sources are not as they were")
    for mutant, words in MISPLACED:
        try:
            run.places([mutant], folder)
            wrong.append(f"{mutant.name} is accepted")
        except run.Failure as failure:
            if words not in str(failure):
                wrong.append(f'"{failure}" does not say "{words}"')
    return wrong + ([said.getvalue()] if wrong else [])


def main():
    with tempfile.TemporaryDirectory() as folder:
        wrong = check(pathlib.Path(folder))
    print("\n".join(wrong) if wrong else f"{len(MUTANTS) + len(MISPLACED)} mutants")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
