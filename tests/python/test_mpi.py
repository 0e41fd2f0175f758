"""heed.mpi, in processes that mpirun starts: over_ranks.py on 1, 2 and 3 ranks; and its library."""

import importlib.util
import os
import re
import shutil
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest
from cases import started

import heed

FOLDER = Path(__file__).parent
BUILD = Path(heed.__file__).parents[3]
START = FOLDER.parent / "mpi" / "run.sh"
LIBRARY = Path(os.environ.get("HEED_MPI_LIBRARY", BUILD / "libheed_mpi.so"))
MPICH = BUILD / "libheed_mpi_mpich.so"

# An assertion that fails on one rank ends the others, too.
PROGRAM = [sys.executable, "-m", "pytest", "-qx", "--color=no", "-p", "no:cacheprovider"]
PROGRAM += [FOLDER / "over_ranks.py"]

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None
    or not shutil.which("mpirun")
    or not LIBRARY.exists(),
    reason="needs mpi4py, mpirun and libheed_mpi",
)


def run(*command, library=LIBRARY, **variables):
    path = os.pathsep.join(sys.path)
    return started(*command, PYTHONPATH=path, HEED_MPI_LIBRARY=str(library), **variables)


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_over_ranks(ranks):
    ran = run(START, "mpirun", ranks, *PROGRAM)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


@needs_mpi
def test_over_mpich(tmp_path):
    """With the MPI that the build has as a second one; mpi4py wants the name it has elsewhere."""
    library = find_library("mpich")
    if not MPICH.exists() or not shutil.which("mpiexec.mpich") or library is None:
        pytest.skip("there is no libheed_mpi_mpich")
    os.symlink(loaded(library), tmp_path / "libmpi.so.12")
    variables = {"LD_LIBRARY_PATH": str(tmp_path), "MPI4PY_MPIABI": "mpich"}
    tests = "(dropout and dealt) or refused or Plan or Graphs"
    ran = run(START, "mpiexec.mpich", 2, *PROGRAM, "-k", tests, library=MPICH, **variables)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_example(ranks):
    pytest.importorskip("torch")
    program = FOLDER.parents[1] / "api" / "python" / "examples" / "ranks.py"
    ran = run(START, "mpirun", ranks, sys.executable, program, "500")
    assert ran.returncode == 0, ran.stderr
    length = 500 - 500 % (2 * ranks)
    ring = r"ring" if ranks == 1 else r"(ring|heads)"
    assert re.fullmatch(
        "".join(
            rf"rank {rank} of {ranks}: {length // ranks} of {length} rows\n"
            rf"  heed, {ring}:  \S+ ms, \S+ MB beside its own rows\n"
            r"  gloo, gathered: \S+ ms, \S+ MB\n"
            r"  the same but for rounding: True, and as one process: True\n"
            for rank in range(ranks)
        ),
        ran.stdout,
    ), ran.stdout


def loaded(name):
    """Where the system has a library."""
    lines = started("/sbin/ldconfig", "-p").stdout.splitlines()
    return next(line.split("=> ")[1] for line in lines if f"{name} " in line)


LOADS = "import heed.mpi\ntry: print(heed.mpi.library())\nexcept heed.Error as e: print(repr(e))"


NONE = "/nowhere/libheed_mpi.so"
REFUSED = [
    (NONE, "UnsupportedError(\"no libheed_mpi for mpi4py's MPI, ", f"{NONE}: cannot open shared"),
    (BUILD / "libheed.so", "libheed.so has no heed_mpi_place"),
    (MPICH, "libheed_mpi_mpich.so is for MPICH", "; mpi4py uses Open MPI v"),
]


@needs_mpi
@pytest.mark.parametrize(("library", "words"), [(library, words) for library, *words in REFUSED])
def test_libraries_that_are_refused(library, words):
    if library == MPICH and not MPICH.exists():
        pytest.skip("there is no libheed_mpi_mpich")
    ran = run(sys.executable, "-c", LOADS, library=library)
    assert all(part in ran.stdout for part in words), ran.stdout + ran.stderr
