"""The programs of api/python/examples run, and find what they say they find."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[2] / "api" / "python" / "examples"
PROGRAMS = {  # what each needs beside NumPy, and what it prints; times and spaces differ
    "generate": (
        [],
        r"(The Moon[ -~]{60}\n){3}619 letters read; 1\d pages, 9 of them shared",
    ),
    "heat_map": (
        [],
        r"head 9\n(.*\n)* +pull │ {14}░░ {4}██ {16}  │\n(.*\n)* +earth │.*│\n.*\n"
        r" *└─{40}┘\n0   ░░▒▒▓▓██ 0\.663",
    ),
    "karate": (
        [],
        r"member 1 attends most 2 \(0\.21\), 3 \(0\.12\), 4 \(0\.12\)\n"
        r"member 34 attends most 33 \(0\.45\), 24 \(0\.06\), 30 \(0\.06\)\n"
        r"with the instructor: 1 2 3 4 5 6 7 8 11 12 13 14 17 18 20 22\n"
        r"with the president: 9 10 15 16 19 21 23 24 25 26 27 28 29 30 31 32 33 34",
    ),
    "llama": (
        ["torch", "transformers"],
        r"generated: \(2, 32\)\nthe same tokens as with sdpa: True\nwho attended: \{'heed': 80\}",
    ),
    "masks": (
        [],
        r"causal, from the first key on\n +#\.\.\.\.\.\n +##\.\.\.\.\n +###\.\.\.\n +####\.\.\n"
        r"(.*\n)*the last two keys\n +\.##\.\.\.\n(.*\n)*"
        r"a mask, and causal\n +#\.#\.\.\.\n +\.#\.#\.\.\n +#\.#\.#\.\n +\.#\.#\.#\n"
        r"mask and bias as one: True",
    ),
    "multihead": (
        ["torch"],
        r"out: +\(2, 10, 64\) as PyTorch's: True\nweights: \(2, 8, 10, 10\) True",
    ),
    "packed": (
        [],
        r"packed: \(65, 4, 16\)\n(alone: \(4, \d+, 16\), the same: True\n){3}",
    ),
    "plan": (
        [],
        r"strategy: prefill\nplanned: +\d+ ns\nunplanned: \d+ ns\n"
        r"the same bits from four threads: True\n"
        r"refused: query is float32 \[5, 20\]; the plan was made for float32 \[10, 20\]",
    ),
    "score_function": (
        [],
        r"ctypes: True, \S+ ms\n(numba: True, \S+ ms\n)?callable: True, \S+ ms",
    ),
    "shards": ([], r"out: True lse: True\nagain: True"),
    "train": (
        ["torch", "transformers"],
        r"(step +\d+  sdpa (\d\.\d{2})\d\d  heed \2\d\d\n){5}"
        r"the losses are at most \d\.\de-0[5-9] apart\n( +\d+\.\d ms a step with (sdpa|heed)\n){2}"
        r"who attended: \{'heed': 80\}",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    needs, expected = PROGRAMS[name]
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    kept = {n: v for n, v in os.environ.items() if not n.startswith("HEED_") and n != "COLUMNS"}
    ran = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "PYTHONIOENCODING": "utf-8"},
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(expected + r"\n?", ran.stdout), ran.stdout


def test_curves_of_training_are_drawn(tmp_path):
    for module in (*PROGRAMS["train"][0], "matplotlib"):
        pytest.importorskip(module)
    train = runpy.run_path(str(FOLDER / "train.py"))
    train["plot"]({"sdpa": [4.0, 3.0], "heed": [4.0, 3.0]}, tmp_path / "curves.svg")
    ElementTree.parse(tmp_path / "curves.svg")


def test_the_readme_lists_them():
    """And the programs of sentences and of ranks, which tests of transformers and of MPI run."""
    files = {file.stem for file in FOLDER.glob("*.py")}
    assert files == {*PROGRAMS, "ranks", "sentence_embeddings"}
    readme = (FOLDER.parent / "README.md").read_text()
    assert {name for name in files if f"(examples/{name}.py)" in readme} == files
