"""50,000 calls hold on to nothing: neither objects nor memory, whether they work or not."""

import gc
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

import heed

CALLS = 50_000
MOST_BYTES = 2 * 2**20
X = np.ones((1, 2, 3, 4), np.float32)
MASK = np.ones((3, 3), bool)
PLAN = heed.plan(X, X, X, attn_mask=MASK)
OUT = np.empty_like(X)
INDICES = np.array([3], np.int64)


ROWS = np.ones((3, 4), np.float32)
MATRIX = np.ones((4, 4), np.float32)
WEIGHTS = heed.Weights(MATRIX)
MATRICES = dict.fromkeys(("w_query", "w_key", "w_value"), MATRIX)
BLOCK = {**MATRICES, "w_out": MATRIX, "heads": 2}
BLOCK_PLAN = heed.multihead_plan(ROWS, **BLOCK, causal=True)
GRAPH = heed.Graph([0, 1, 2], [1, 2, 0], nodes=3)
REVERSIBLE = heed.Graph([0, 1, 2], [1, 2, 0], nodes=3, reverse=True)
GRAPH_PLAN = heed.graph_attention_plan(GRAPH, data=ROWS, **MATRICES, heads=2)
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


def differentiated():
    found = heed.attention(X, X, X, sinks=[0.0, 1.0], return_lse=True)
    repeated = X[:, :1]  # summed over heads
    heed.attention_backward(X, repeated, X, *found[:2], X, sinks=[0.0, 1.0], grad_sinks=True)


CHANGES = {
    "attention": (lambda: heed.attention(X, X, X), CALLS),
    "gradients": (differentiated, CALLS // 10),
    "refused_gradients": (
        refused(lambda: heed.attention_backward(X, X, X, X, X, X, grad_key=OUT)),
        CALLS,
    ),
    "gradients_of_blocks": (
        lambda: heed.multihead_backward(
            ROWS, **BLOCK, b_out=ROWS[0], grad_out=ROWS, grad_scale=True
        ),
        CALLS // 10,
    ),
    "refused_gradients_of_blocks": (
        refused(lambda: heed.multihead_backward(ROWS, **BLOCK, grad_out=ROWS, grad_w_out=OUT)),
        CALLS,
    ),
    "gradients_of_graphs": (
        lambda: heed.graph_attention_backward(
            REVERSIBLE, data=ROWS, **MATRICES, heads=2, grad_out=ROWS
        ),
        CALLS // 10,
    ),
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
    "refused": (refused(lambda: heed.attention(X, X, X[..., :0])), CALLS),
    "multihead": (lambda: heed.multihead(ROWS, **BLOCK, return_lse=True), CALLS),
    "multihead_plan": (lambda: BLOCK_PLAN(ROWS), CALLS),
    "made_blocks": (
        lambda: heed.multihead_plan(ROWS, **{**BLOCK, "w_out": heed.Weights(MATRIX)})(ROWS),
        CALLS // 10,
    ),
    "refused_block": (refused(lambda: heed.multihead(ROWS[:, :3], **BLOCK)), CALLS),
    "graph": (lambda: heed.Graph([0, 1], [1, 2], nodes=3).describe(), CALLS // 10),
    "graph_attention": (
        lambda: heed.graph_attention(GRAPH, data=ROWS, **MATRICES, heads=2, return_weights=True),
        CALLS,
    ),
    "graph_attention_plan": (lambda: GRAPH_PLAN(data=ROWS), CALLS),
    "cache": (generated, CALLS // 10),
    "made_caches": (
        lambda: heed.Cache(key_heads=2, features=4, pages=8).sequence().append(X, X),
        CALLS // 10,
    ),
    "project": (lambda: heed.project(ROWS, WEIGHTS), CALLS),
    "merge": (lambda: heed.merge([(X, X[..., 0])] * 2), CALLS),
    "rotate": (lambda: heed.rotate(X, [2, 1, 0]), CALLS),
    "score_function": (
        lambda: heed.attention(X, X, X, score_function=lambda *a: a[0]),
        CALLS // 10,
    ),
    "raising": (
        refused(lambda: heed.attention(X, X, X, score_function=raising), ZeroDivisionError),
        CALLS // 10,
    ),
    "contexts": (lambda: heed.Context(threads=1, executor="serial").describe(), CALLS // 10),
}


def held_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(call, calls):
    """Of two runs at most: an arena that the allocator takes comes once, a leak goes on."""
    found = measure_once(call, calls)
    return found if found[2] < MOST_BYTES else measure_once(call, calls)


def measure_once(call, calls):
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
    assert grown < calls // 100  # CPython gives back when it likes
    assert max(map(abs, more)) < 100
    assert bytes_held < MOST_BYTES


def test_no_leak_of_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 2, 3, 4)
    grown, _, bytes_held = measure(lambda: heed.attention(x, x, x, return_lse=True), CALLS)
    assert grown < CALLS // 100
    assert bytes_held < MOST_BYTES
