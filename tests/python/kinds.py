"""Kinds of arrays: what makes them from those of NumPy, and the bits that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest


class Kind(NamedTuple):
    library: str  # what must be installed
    element: str
    make: Callable[[np.ndarray], Any]

    @property
    def name(self) -> str:
        return f"{self.library}_{self.element}"

    def needed(self) -> Kind:
        pytest.importorskip(self.library)
        if self.element == "bfloat16":
            pytest.importorskip("ml_dtypes")
        return self


def of_numpy(element: str, library: str = "numpy") -> Kind:
    return Kind(library, element, lambda x: np.asarray(x).astype(element_of(element)))


def of_torch(element: str) -> Kind:
    def make(x: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(x)).to(getattr(torch, element))

    return Kind("torch", element, make)


class OnlyDLPack:
    """An array of a library that has nothing else."""

    def __init__(self, x: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.x, self.device, self.dtype = x, device, x.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)


class InLibrary(OnlyDLPack):
    """Of a library with results of its own."""

    def __array_namespace__(self) -> Any:
        return type("Library", (), {"from_dlpack": InLibrary})


def element_of(name: str) -> Any:
    return getattr(__import__("ml_dtypes"), name) if name == "bfloat16" else np.dtype(name)


def bits_of(x: Any) -> np.ndarray:
    """Of an array of any kind."""
    if hasattr(x, "detach"):
        import torch

        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        return x.contiguous().view(whole).numpy()
    x = np.ascontiguousarray(getattr(x, "x", x))
    return x.view(f"i{x.itemsize}")


KINDS = [
    *(of_numpy(element) for element in ("float32", "float64", "float16")),
    of_numpy("bfloat16", "ml_dtypes"),
    *(of_torch(element) for element in ("float32", "float64", "float16", "bfloat16")),
]
# Of libraries that heed asks to make their results.
OTHERS = [Kind("numpy", "float32", InLibrary)]  # as JAX does
of_kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def tangent(function: Callable[[Any], Any], x: Any) -> Any:
    """Of PyTorch's forward mode, where all that goes in grows alike."""
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.new_ones(x.shape))
        return forward_ad.unpack_dual(function(dual)).tangent


def assert_like(kind: Kind, actual: Any, given: Any) -> None:
    """Results come in the caller's kind of array, and in its type."""
    assert type(actual) is type(given)
    assert str(actual.dtype).removeprefix("torch.") == kind.element
