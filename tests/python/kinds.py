"""Kinds of arrays: what makes them from float64 of NumPy, and NumPy of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import heed


@dataclass(frozen=True)
class Kind:
    name: str
    library: str  # what must be installed
    element: str
    unit: float  # of rounding
    make: Callable[[np.ndarray], Any]
    back: Callable[[Any], np.ndarray]  # float64

    def rounded(self, x: np.ndarray) -> np.ndarray:
        return self.back(self.make(x))


def of_numpy(name: str, element: Callable[[], Any], unit: float, library: str = "numpy") -> Kind:
    return Kind(
        f"numpy_{name}",
        library,
        name,
        unit,
        lambda x: np.asarray(x).astype(element()),
        lambda x: np.asarray(x, np.float64),
    )


def of_torch(name: str, unit: float) -> Kind:
    def make(x: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(x)).to(getattr(torch, name))

    return Kind(f"torch_{name}", "torch", name, unit, make, lambda x: x.double().numpy())


def bfloat16() -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16


KINDS = [
    of_numpy("float32", lambda: np.float32, 2.0**-24),
    of_numpy("float64", lambda: np.float64, 2.0**-53),
    of_numpy("float16", lambda: np.float16, 2.0**-11),
    of_numpy("bfloat16", bfloat16, 2.0**-8, "ml_dtypes"),
    of_torch("float32", 2.0**-24),
    of_torch("float64", 2.0**-53),
    of_torch("float16", 2.0**-11),
    of_torch("bfloat16", 2.0**-8),
]


def params(kinds: list[Kind] = KINDS) -> list[Any]:
    return [pytest.param(kind, id=kind.name) for kind in kinds]


def needed(kind: Kind) -> Kind:
    pytest.importorskip(kind.library)
    return kind


def in_pairs(kind: Kind) -> bool:
    """Whether the processor multiplies pairs of what is of this kind."""
    pairs = ("avx512bf16", "amx", "neonbf16")
    return kind.element == "bfloat16" and heed.Context().describe()["isa"] in pairs


def product_unit(kind: Kind) -> float:
    """What a product may lack: tiles multiply float16 as two parts."""
    return 2.0**-14 if kind.element == "float16" and tiles() else 0


def tiles() -> bool:
    return heed.Context().describe()["isa"] == "amx"


def lse_unit(kind: Kind) -> float:
    """Of a log-sum-exp: the sum is that of weights, which pairs of bfloat16 round."""
    if in_pairs(kind):
        return kind.unit
    return max(product_unit(kind), 2.0**-53 if kind.element == "float64" else 2.0**-24)


def block_units(kind: Kind) -> tuple[float, float]:
    """Of a block's result and log-sum-exp: in pairs what lies between products is rounded too."""
    if in_pairs(kind):
        return 4 * kind.unit, 4 * kind.unit
    return kind.unit, lse_unit(kind)


def assert_close(actual: Any, expected: np.ndarray, unit: float, what: str) -> None:
    """Errors of some 50 roundings of float32 or float64, and of one of a narrower result."""
    actual = np.asarray(actual, np.float64)
    assert actual.shape == expected.shape, what
    tolerance = 2 * max(unit, 50 * 2.0**-24 if unit > 2.0**-50 else 50 * unit)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def assert_like(kind: Kind, actual: Any, given: Any) -> None:
    """Results come in the caller's kind of array, and in its type."""
    assert type(actual) is type(given)
    assert str(actual.dtype).removeprefix("torch.") == kind.element
