"""A plugin of pytest for ranks of MPI: the first that fails says why, and ends all."""

import sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """Others may wait for this rank already."""
    if report.failed:
        from mpi4py import MPI

        sys.__stdout__.write(
            f"rank {MPI.COMM_WORLD.rank}: {report.nodeid}\n{report.longreprtext}\n"
        )
        sys.__stdout__.flush()
        MPI.COMM_WORLD.Abort(1)
