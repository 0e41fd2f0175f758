"""A function of one's own on scores: rows attend less to keys that are far away, quadratically.

    pip install numba        (or not: see below)
    python score_function.py

Compiled by numba it is called with tiles of scores, as a C function would be. Without numba the
same loop is a callback of ctypes, which is correct and slow. A Python callable is shortest, and
slow too, because threads wait for each other at the GIL.
"""

import ctypes
import time
from importlib.util import find_spec

import numpy as np

import heed

WIDTH = 50.0


def by_distance(scores, query_rows, first_key):
    """Change ``scores[j, r]``, of key ``first_key + j`` and row ``query_rows[r]``, in place."""
    for j in range(scores.shape[0]):
        for r in range(query_rows.shape[0]):
            away = (query_rows[r] - first_key - j) / WIDTH
            scores[j, r] -= away * away


def by_ctypes():
    """For a C function of a library, ``heed.ScoreFunction(address)`` is enough."""

    @heed.ScoreFunction
    def function(user, tile):
        tile = tile.contents
        scores = ctypes.cast(tile.scores, ctypes.POINTER(ctypes.c_float))
        by_distance(
            np.ctypeslib.as_array(scores, (tile.keys, tile.stride_key)),
            np.ctypeslib.as_array(tile.query_rows, (tile.rows,)),
            tile.first_key,
        )

    return function


def by_numba():
    """The same, compiled: pointers in a ``heed.ScoreTile`` are read as addresses."""
    import numba
    from numba.core import cgutils, types

    @numba.extending.intrinsic
    def pointer(_, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return types.voidptr(address), generate

    kinds = {ctypes.c_uint32: np.uint32, ctypes.c_int64: np.int64}
    fields = [(name, kinds.get(kind, np.uintp)) for name, kind in heed.ScoreTile._fields_]
    record = numba.from_dtype(np.dtype(fields, align=True))
    compiled = numba.njit(by_distance)

    @numba.cfunc(types.void(types.voidptr, types.CPointer(record)))
    def function(user, tile):
        tile = numba.carray(tile, 1)[0]
        compiled(
            numba.carray(pointer(tile.scores), (tile.keys, tile.stride_key), np.float32),
            numba.carray(pointer(tile.query_rows), tile.rows, np.int64),
            tile.first_key,
        )

    return function


random = np.random.default_rng(0)
q, k, v = random.standard_normal((3, 2, 200, 32), dtype=np.float32)
functions = {"ctypes": by_ctypes()}
if find_spec("numba"):
    functions["numba"] = by_numba()
functions["callable"] = lambda s, batch, heads, rows, keys: s - ((rows - keys) / WIDTH) ** 2

away = np.subtract.outer(np.arange(200), np.arange(200)) / np.float32(WIDTH)
expected = heed.attention(q, k, v, bias=(-(away**2)).astype(np.float32))
for name, function in functions.items():
    start = time.perf_counter()
    out = heed.attention(q, k, v, score_function=function)
    took = time.perf_counter() - start
    print(f"{name}: {np.allclose(out, expected, atol=1e-5)}, {1e3 * took:.2f} ms")
