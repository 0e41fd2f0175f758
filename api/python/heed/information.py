"""Tells what this heed can do on this computer: ``heed.info``."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from heed import _heed

_VARIABLES = (
    "HEED_ISA",
    "HEED_PARALLEL",
    "HEED_THREADS",
    "HEED_PRODUCT",
    "HEED_TILE_Q",
    "HEED_TILE_KV",
    "HEED_TUNING_FILE",
    "HEED_VERBOSE",
    "HEED_CHECK",
    "HEED_PRECISION",
)

# Libraries whose arrays, models and ranks heed takes.
_PACKAGES = ("numpy", "torch", "transformers", "torch_geometric", "ml_dtypes", "mpi4py")


def info() -> dict[str, object]:
    """Tell what this build of heed can do here, and what it chose.

    Returns:
        A dict of

        - ``version``: of heed, and ``compiler``: of its engine;
        - ``cpu``, ``cpus``: the processor's name, and how many CPUs the process may use;
        - ``isas``: instruction sets by name, each with ``usable``, ``lanes`` (float32 numbers in a
          vector) and ``panel`` (query rows that one kernel handles);
        - ``executors``, ``products``: what was compiled in, by name;
        - ``context``: what the default context chose, see ``heed.Context.describe``;
        - ``environment``: the variables that heed reads and that are set;
        - ``system``, ``python``: the operating system and its C library, and Python's version;
        - ``packages``: versions, by name, of the libraries it works with that are installed.

    >>> import heed
    >>> heed.info()["isas"]["scalar"]["usable"]
    True

    In C: heed_isa_get, heed_executor_name, heed_product_name, heed_context_describe.
    """
    return {
        "version": _heed.version,
        "compiler": _heed.compiler,
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        **_heed.built(),
        "context": _heed.default_context().describe(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": dict(_packages()),
    }


def _packages() -> Iterator[tuple[str, str]]:
    """Asked of what is installed: to import a library for its version may take seconds."""
    for name in _PACKAGES:
        try:
            yield name, version_of(name)
        except PackageNotFoundError:
            continue


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
