"""Thousands of calls hold on to nothing: neither objects nor memory, whether they work or not."""

import gc
import resource
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_callers_objects import ARRAYS, FUNCTIONS

import heed

CALLS = 20_000
MOST_BYTES = 2**20
X = np.ones((1, 2, 3, 4), np.float32)
CACHE = heed.Cache(key_heads=2, features=4, pages=8, rotary="halves")


def generated():
    sequence = CACHE.sequence()
    sequence.append(X, X, positions=[5, 3, 4])
    fork = sequence.fork()
    fork.append(X, X)
    CACHE.attention([sequence, fork], X, causal="bottom_right")
    return CACHE.load(fork.save())


def refused(call, error=heed.ArgumentError):
    def attempt():
        try:
            call()
        except error:
            return
        raise AssertionError

    return attempt


def raising(*_):
    raise ZeroDivisionError


def of_torch():
    import torch

    x = torch.ones(1, 2, 3, 4)
    heed.attention(x, x, x, return_lse=True)


CHANGES = {
    **{name: partial(call, **given) for name, (call, given) in FUNCTIONS.items()},
    # All that is read before the last array, which is refused.
    **{
        f"refused {name}": refused(partial(call, **{**given, last: X.astype(complex)}))
        for name, (call, given) in FUNCTIONS.items()
        for last in [[array for function, array in ARRAYS if function == name][-1]]
    },
    "generated": generated,
    "kept": lambda: heed.multihead(**FUNCTIONS["multihead"][1], keep=heed.Kept()),
    "score_function": lambda: heed.attention(X, X, X, score_function=lambda *a: a[0]),
    "raising": refused(lambda: heed.attention(X, X, X, score_function=raising), ZeroDivisionError),
    "contexts": lambda: heed.Context(threads=1, executor="serial").describe(),
    "of_torch": of_torch,
}


GIVEN = [X, None, *(x for _, given in FUNCTIONS.values() for x in given.values())]


def references():
    return np.array([sys.getrefcount(x) for x in GIVEN])


def held_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(call):
    for _ in range(CALLS // 10):
        call()
    gc.collect()
    counts, objects, before = references(), sys.getallocatedblocks(), held_bytes()
    for _ in range(CALLS):
        call()
    gc.collect()
    grown = sys.getallocatedblocks() - objects
    return grown, abs(references() - counts).max(), held_bytes() - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", CHANGES)
def test_no_leak(name):
    if name == "of_torch":
        pytest.importorskip("torch")
    found = measure(CHANGES[name])
    if found[2] >= MOST_BYTES:  # an arena that the allocator takes comes once, a leak goes on
        found = measure(CHANGES[name])
    grown, more, bytes_held = found
    assert grown < CALLS // 100  # CPython gives back when it likes
    assert more < 100
    assert bytes_held < MOST_BYTES
