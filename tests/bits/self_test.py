#!/usr/bin/env python3
"""Libraries that differ, die and answer nonsense, and what must be said about each."""

import contextlib
import io
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import run

# Stands for heed_bits: a "library" is a file that says what is special about it.
PROGRAM = """#!/usr/bin/env python3
import os, pathlib, signal, sys
if sys.argv[1] == "--areas":
    sys.exit(print("dense 5 forms\\nmerge 3 merges"))
special = pathlib.Path(sys.argv[1]).read_text().split()
area, first, last = sys.argv[2], int(sys.argv[3]), int(sys.argv[-1])
for seed in range(first, last + 1):
    here = special[1:3] == [area, str(seed)]
    if special[0] == "dies" and here:
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    bits = "0002" if special[0] == "differs" and here else "0001"
    runs = f"scalar={bits}" if special[0] == "scalar" else f"scalar=0001 avx2={bits}"
    print(f"{area} {seed} {runs} | problem {seed}")
    if len(sys.argv) == 4:
        print(f"scalar\\n  out\\n    [0] 1\\navx2\\n  out\\n    [0] 1\\n    [1] {bits}")
"""

# The two libraries, further arguments, the exit status, and what is said.
CASES = [
    ("same", "same", [], 0, ["dense         5 problems,  2 runs each: same", "8 problems, same bits"]),
    ("same", "differs merge 2", [], 1,
     ["merge 2: problem 2", "differs in avx2\n", "-avx2 out [1] 0001", "+avx2 out [1] 0002",
      "new merge 2\n", "1 of 8 problems differ"]),
    ("same", "differs dense 9", [], 0, ["same bits"]),
    ("same", "differs dense 9", ["--first", "9", "--problems", "1"], 1, ["dense 9: problem 9"]),
    ("same", "differs merge 2", ["--areas", "dense"], 0, ["5 problems, same bits"]),
    ("dies dense 4", "same", [], 2, ["old died of signal 9 at dense 4"]),
    ("same", "scalar", [], 2, ["other instruction sets: scalar avx2 and scalar"]),
    ("same", "same", ["--areas", "dense,sparse"], 2, ['there is no area "sparse", only dense, merge']),
]


def outcome(program, libraries, arguments):
    """The exit status of a comparison, and all that it says."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            status = run.main(["--program", str(program), *arguments, *map(str, libraries)])
        except run.Failure as failure:
            status = 2
            print(failure)
    return status, said.getvalue()


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = folder / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        libraries = [folder / "old", folder / "new"]
        for old, new, arguments, status, words in CASES:
            libraries[0].write_text(old)
            libraries[1].write_text(new)
            got, said = outcome(program, libraries, arguments)
            missing = [word for word in words if word not in said]
            if got == status and not missing:
                continue
            wrong += 1
            print(f'"{old}" and "{new}" {arguments}: {got} instead of {status}, without {missing}:'
                  f"\n{said}")
        status, said = outcome(program, [folder / "old", "no-such-commit"], [])
        if status != 2 or '"no-such-commit" is neither a library nor a commit' not in said:
            wrong += 1
            print(f"a library that is not there: {status}\n{said}")
    print(f"{wrong} wrong" if wrong else f"{len(CASES) + 1} cases")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
