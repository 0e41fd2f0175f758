"""100,000 calls hold on to nothing: neither objects nor memory, whether they work or not."""

import gc
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

import heed

CALLS = 100_000
X = np.ones((1, 2, 3, 4), np.float32)
MASK = np.ones((3, 3), bool)
PLAN = heed.plan(X, X, X, attn_mask=MASK)
OUT = np.empty_like(X)
INDICES = np.array([3], np.int64)


def refused():
    try:
        heed.attention(X, X, X[..., :0])
    except heed.ArgumentError:
        return
    raise AssertionError


def raising():
    def fail(*_):
        raise ZeroDivisionError

    try:
        heed.attention(X, X, X, score_function=fail)
    except ZeroDivisionError:
        return
    raise AssertionError


CHANGES = {
    "attention": (lambda: heed.attention(X, X, X), CALLS),
    "options": (
        lambda: heed.attention(
            X,
            X,
            X,
            attn_mask=MASK,
            sinks=[0.0, 1.0],
            key_lengths=INDICES,
            return_lse=True,
            return_weights=True,
            out=OUT,
        ),
        CALLS,
    ),
    "plan": (lambda: PLAN(X, X, X, attn_mask=MASK), CALLS),
    "made_plans": (lambda: heed.plan(X, X, X, causal=True)(X, X, X), CALLS),
    "refused": (refused, CALLS),
    "merge": (lambda: heed.merge([(X, X[..., 0])] * 2), CALLS),
    "rotate": (lambda: heed.rotate(X, [2, 1, 0]), CALLS),
    "score_function": (
        lambda: heed.attention(X, X, X, score_function=lambda *a: a[0]),
        CALLS // 10,
    ),
    "raising": (raising, CALLS // 10),
    "contexts": (lambda: heed.Context(threads=1, executor="serial").describe(), CALLS // 10),
}


def held_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(call, calls):
    for _ in range(calls // 10):
        call()
    gc.collect()
    objects, counts, before = (
        sys.getallocatedblocks(),
        list(map(sys.getrefcount, (X, MASK, None))),
        held_bytes(),
    )
    for _ in range(calls):
        call()
    gc.collect()
    grown = sys.getallocatedblocks() - objects
    more = [b - a for a, b in zip(counts, map(sys.getrefcount, (X, MASK, None)), strict=True)]
    return grown, more, held_bytes() - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", CHANGES)
def test_no_leak(name):
    call, calls = CHANGES[name]
    grown, more, bytes_held = measure(call, calls)
    assert abs(grown) < calls // 100
    assert max(map(abs, more)) < 100
    assert bytes_held < 4 * 2**20


def test_no_leak_of_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 2, 3, 4)
    grown, _, bytes_held = measure(lambda: heed.attention(x, x, x, return_lse=True), CALLS)
    assert abs(grown) < CALLS // 100
    assert bytes_held < 4 * 2**20
