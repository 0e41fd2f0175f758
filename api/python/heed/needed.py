"""Libraries that only some modules of heed need."""

from collections.abc import Iterator
from contextlib import contextmanager

_LIBRARIES = {
    "mpi4py": "mpi4py, and an MPI",
    "torch": "PyTorch",
    "torch_geometric": "PyTorch Geometric",
    "transformers": "transformers",
}


@contextmanager
def needed_by(module: str) -> Iterator[None]:
    """Says what to install where a library that is imported within is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        raise ModuleNotFoundError(
            f"{module} needs {_LIBRARIES[error.name]}: pip install {error.name}",
            name=error.name,
            path=error.path,
        ) from None
