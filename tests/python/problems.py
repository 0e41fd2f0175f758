"""Random problems of the C tests: what Python is called with, and what C made of the same."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import heed

BUILD = Path(heed.__file__).parents[3]


def problems(operation: str, count: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """A line that describes each, arguments and results, which live until the next is drawn."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists() or "HEED_BUILD_TESTS:BOOL=ON" not in cache.read_text():
        pytest.skip("needs the build's heed_python_problems, which HEED_BUILD_TESTS makes")
    sys.path.append(str(BUILD / "tests" / "python"))
    draw = importlib.import_module("heed_python_problems").draw
    sys.path.pop()
    for seed in range(count):
        try:
            drawn = draw(operation, seed)
        except ModuleNotFoundError:  # its types are of ml_dtypes
            continue
        yield drawn
