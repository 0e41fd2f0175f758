"""Score functions: callables of Python, and function pointers of ctypes and numba."""

import ctypes
import threading

import numpy as np
import pytest
from cases import tensors

import heed


def by_distance(s, b, h, i, j):
    return s - 0.1 * (h + 1) * np.abs(i - j) + 0.01 * b


@heed.ScoreFunction
def by_distance_in_c(user, tile):
    """The same, a score at a time: what a C function would do."""
    t = tile.contents
    real = ctypes.c_double if t.dtype == 2 else ctypes.c_float
    scores = ctypes.cast(t.scores, ctypes.POINTER(real))
    factor = ctypes.cast(user, ctypes.POINTER(ctypes.c_double))[0] if user else 0.1
    for j in range(t.keys):
        for r in range(t.rows):
            away = abs(t.query_rows[r] - t.first_key - j)
            scores[j * t.stride_key + r] += -factor * (t.query_heads[r] + 1) * away + 0.01 * t.batch


class WithAddress:
    """As numba's cfunc has it."""

    address = ctypes.cast(by_distance_in_c, ctypes.c_void_p).value


@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_pointers_of_ctypes(element):
    q, k, v = tensors(element)
    expected = heed.attention(q, k, v, score_function=by_distance)
    got = heed.attention(q, k, v, score_function=by_distance_in_c)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    by_address = heed.attention(q, k, v, score_function=WithAddress())
    np.testing.assert_array_equal(by_address, got)
    factor = ctypes.c_double(0.1)
    for user in (ctypes.byref(factor), ctypes.pointer(factor), ctypes.addressof(factor)):
        got = heed.attention(q, k, v, score_function=(by_distance_in_c, user))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    factor.value = 0.0
    flat = heed.attention(q, k, v, score_function=(by_distance_in_c, ctypes.byref(factor)))
    np.testing.assert_allclose(flat, heed.attention(q, k, v), rtol=1e-5, atol=1e-6)


def test_change_in_place_and_a_plan_keeps_it():
    def change(s, b, h, i, j):
        s -= 0.1 * np.abs(i - j)

    q, k, v = tensors()
    expected = heed.attention(q, k, v, score_function=lambda s, b, h, i, j: s - 0.1 * np.abs(i - j))
    plan = heed.plan(q, k, v, score_function=lambda *given: change(*given))
    np.testing.assert_array_equal(plan(q, k, v), expected)


def test_what_it_gets_is_its_own():
    """It may keep everything: nothing points into the run's memory."""
    kept = []

    def keep(*given):
        kept.append((given, [np.array(x) for x in given]))
        return given[0]

    q, k, v = tensors(rows=40, keys=90)
    heed.attention(q, k, v, score_function=keep, context=heed.Context(threads=2))
    seen = np.zeros((2, 4, 40, 90), int)
    for given, copies in kept:
        for x, copy in zip(given, copies, strict=True):
            np.testing.assert_array_equal(x, copy)
        _, b, h, i, j = given
        seen[b, h, i, j] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError("by 0"), KeyboardInterrupt(), SystemExit(3)])
def test_what_it_raises_comes_out_afterwards(error, threads):
    calls = []

    def fail(s, b, h, i, j):
        calls.append(threading.get_ident())
        raise error

    q, k, v = tensors(rows=200, keys=300)
    context = heed.Context(threads=threads)
    with pytest.raises(type(error)) as caught:
        heed.attention(q, k, v, score_function=fail, context=context)
    assert caught.value is error
    assert len(calls) <= threads  # and is not called again
    heed.attention(q, k, v, context=context)
