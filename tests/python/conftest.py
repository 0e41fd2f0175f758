"""What tests share."""

import os
import sys
from typing import NamedTuple

import pytest

from heed.command import main

# Compilers of PyTorch keep code between runs, also what they made of other versions of heed.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"


class Ran(NamedTuple):
    """What a command line did."""

    status: int
    out: str
    err: str


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """The first rank of MPI that fails says why, and ends all, which may wait for it already."""
    if report.failed and "over_ranks.py" in report.nodeid:
        from mpi4py import MPI

        sys.__stdout__.write(
            f"rank {MPI.COMM_WORLD.rank}: {report.nodeid}\n{report.longreprtext}\n"
        )
        sys.__stdout__.flush()
        MPI.COMM_WORLD.Abort(1)


@pytest.fixture(autouse=True)
def fresh():
    """PyTorch draws the same numbers in every test, and heed.torch has counted nothing."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    if "heed.torch" in sys.modules:
        sys.modules["heed.torch"].report(clear=True)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command line in a folder of its own, without the environment's choices."""
    for name in list(os.environ):
        if name.startswith("HEED_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run_main(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
        return Ran(status, *capsys.readouterr())

    return run_main
