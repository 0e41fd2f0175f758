"""Random problems of the C tests: what Python is called with, and what C made of the same."""

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heed

BUILD = Path(heed.__file__).parents[3]
LIBRARY = BUILD / "tests" / "python" / "libheed_python_problems.so"
# By the names that the C tests give types. Those that NumPy lacks are of ml_dtypes.
TYPES = {
    "f32": "<f4",
    "f64": "<f8",
    "f16": "<f2",
    "i8": "|i1",
    "byte": "|b1",
    "bf16": "bfloat16",
    "f8": "float8_e4m3fn",
}


class Lying:
    """Memory of C as NumPy reads it."""

    def __init__(self, address: int, shape: list[int], strides: list[int], kind: str) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": kind,
            "version": 3,
        }


def array(said: dict[str, Any]) -> np.ndarray:
    """Where C has it, with its strides."""
    kind, named = TYPES[said["dtype"]], None
    if said["dtype"] in ("bf16", "f8"):
        named = getattr(pytest.importorskip("ml_dtypes"), kind)
        kind = f"|V{np.dtype(named).itemsize}"
    if 0 in said["shape"]:
        return np.empty(said["shape"], named or kind)
    lying = np.asarray(Lying(said["address"], said["shape"], said["strides"], kind))
    return lying.view(named) if named else lying


def made(said: Any) -> Any:
    """An argument."""
    if isinstance(said, list):
        return [made(one) for one in said]
    if not isinstance(said, dict):
        return said
    if "address" in said:
        return array(said)
    if "flat" in said:
        found = array(said["flat"])
        return found.reshape(len(found), found.shape[1] * found.shape[2])
    if "weights" in said:
        return heed.Weights(*map(made, said["weights"]))
    if "user" in said:
        return heed.ScoreFunction(said["pointer"]), said["user"]
    return heed.ScoreGradient(said["pointer"]) if "pointer" in said else said["graph"]


def narrow(said: Any) -> bool:
    """Whether it has types of ml_dtypes."""
    text = json.dumps(said)
    return '"bf16"' in text or '"f8"' in text


def problems(operation: str, count: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """A line that describes each, arguments and results, which live until the next is drawn."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists() or "HEED_BUILD_TESTS:BOOL=ON" not in cache.read_text():
        pytest.skip("needs the build's libheed_python_problems, which HEED_BUILD_TESTS makes")
    draw = ctypes.CDLL(str(LIBRARY)).heed_test_draw
    draw.restype, draw.argtypes = ctypes.c_char_p, (ctypes.c_char_p, ctypes.c_uint64)
    try:
        import ml_dtypes  # noqa: F401

        known = True
    except ImportError:
        known = False
    for seed in range(count):
        said = json.loads(draw(operation.encode(), seed))
        assert "error" not in said, f"{operation} {seed}: {said['error']}"
        if known or not narrow(said):
            arguments, results = (
                {name: made(one) for name, one in said[of].items()}
                for of in ("arguments", "results")
            )
            yield f"{operation} {seed}: {said['line']}", arguments, results
