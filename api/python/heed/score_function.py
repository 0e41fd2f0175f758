"""Score functions: what a function pointer is given, and how one is told from a callable."""

import ctypes
from typing import Any


class ScoreTile(ctypes.Structure):
    """Scores on their way to softmax: ``heed_score_tile`` of ``heed.h``, which says what is where.

    The score of row ``r`` and key ``first_key + j`` is ``scores[j * stride_key + r]``, for ``r``
    below ``rows`` and ``j`` below ``keys``; ``scores`` points at float32, or at float64 where
    ``dtype`` is 2.
    """

    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("dtype", ctypes.c_uint32),
        ("batch", ctypes.c_int64),
        ("first_key", ctypes.c_int64),
        ("keys", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("stride_key", ctypes.c_int64),
        ("query_rows", ctypes.POINTER(ctypes.c_int64)),
        ("query_heads", ctypes.POINTER(ctypes.c_int64)),
        ("scores", ctypes.c_void_p),
    )


ScoreFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ScoreTile))
"""The type of function pointers, as ctypes knows it: ``heed_score_function``."""


ScoreGradient = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ScoreTile), ctypes.c_void_p)
"""The type of pointers to their derivatives: ``heed_score_gradient``."""


def _pointers(name: str, function: Any) -> tuple[int, int, Any] | None:
    """Address, user data and what both need to live; None for a Python callable."""
    pointer, user = function if isinstance(function, tuple) else (function, None)
    if isinstance(pointer, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        address = ctypes.cast(pointer, ctypes.c_void_p).value
    else:
        address = getattr(pointer, "address", None)  # of numba's cfunc
    if isinstance(address, int):
        return address, _user_address(user), function
    if user is None and callable(function):
        return None
    raise TypeError(
        f"{name} must be a callable, a function pointer of ctypes or numba, or a pair of "
        f"such a pointer and what is passed to it, not {type(pointer).__name__}"
    )


def _user_address(user: Any) -> int:
    if user is None:
        return 0
    if isinstance(user, int):
        return user
    try:
        return ctypes.cast(user, ctypes.c_void_p).value or 0
    except (ctypes.ArgumentError, TypeError) as error:
        raise TypeError(
            "score_function[1] must be an address, or a pointer or array of ctypes, not "
            f"{type(user).__name__}"
        ) from error
