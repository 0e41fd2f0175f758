"""Packed batches without rows of queries or of keys: results are empty, or of no key."""

import numpy as np
import pytest

import heed

RNG = np.random.default_rng(2)
HEADS, WIDTH = 2, 4
# How many rows queries and keys have, and where their sequences begin; None: they are not packed.
BATCHES = {
    "no queries": ((0, [0, 0]), (3, None)),
    "no packed queries": ((0, [0, 0, 0]), (5, [0, 2, 5])),
    "no keys": ((3, None), (0, [0, 0])),
    "no packed keys": ((5, [0, 2, 5]), (0, [0, 0, 0])),
    "neither": ((0, [0, 0, 0]), (0, [0, 0, 0])),
    "no sequences": ((0, [0]), (0, [0])),
}
OPTIONS = {
    "plain": {},
    "causal": {"causal": "bottom_right"},
    "longest": {"max_seqlen": 6},
    "mask": {"attn_mask": np.ones((1, 1), bool), "bias": np.zeros((1, 1), np.float32)},
}


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def call_of(name, option, *tail):
    """Arguments of a call: arrays [rows, *tail], or of a batch of one, [1, *heads, rows, width]."""
    options = dict(OPTIONS[option])
    longest = options.pop("max_seqlen", None)
    given = []
    for which, (rows, offsets) in zip("qk", BATCHES[name], strict=True):
        if offsets is None:
            given.append(numbers(1, *tail[:-1], rows, tail[-1]))
            continue
        given.append(numbers(rows, *tail))
        options[f"cu_seqlens_{which}"] = offsets
        if longest is not None:
            options[f"max_seqlen_{which}"] = longest
    return *given, options


def shaped(array, *, like):
    """Of the shape, and 0, as where no key is attended."""
    assert array.shape == like.shape
    assert not array.any()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", BATCHES)
def test_attention_and_its_gradients(name, option):
    query, key, options = call_of(name, option, HEADS, WIDTH)
    packed = "cu_seqlens_q" in options
    rows = query.shape[0] if packed else query.shape[2]
    found = heed.attention(query, key, key, **options, return_lse=True, return_weights=True)
    shaped(found.out, like=query)
    assert found.lse.shape == ((HEADS, rows) if packed else (1, HEADS, rows))
    assert (found.lse == -np.inf).all()
    assert not found.weights.any()
    plan = heed.plan(query, key, key, **options)
    anew = {n: x for n, x in options.items() if n.startswith(("cu_", "attn_mask", "bias"))}
    shaped(plan(query, key, key, **anew), like=query)
    written = np.ones_like(query)
    assert heed.attention(query, key, key, **options, out=written) is written
    shaped(written, like=query)
    given = query, key, key, found.out, found.lse, np.ones_like(found.out)
    gradients = heed.attention_backward(*given, **options)
    for gradient, of in zip(gradients[:3], (query, key, key), strict=True):
        shaped(gradient, like=of)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", BATCHES)
def test_blocks_and_their_gradients(name, option):
    query, key, options = call_of(name, option, WIDTH)
    matrices = [numbers(WIDTH, WIDTH) for _ in range(4)]
    names = "w_query", "w_key", "w_value", "w_out"
    given = {**dict(zip(names, matrices, strict=True)), "heads": HEADS, **options, "key": key}
    found = heed.multihead(query, **given, return_lse=True)
    shaped(found.out, like=query)
    gradients = heed.multihead_backward(query, **given, grad_out=np.ones_like(query))
    shaped(gradients.query, like=query)
    shaped(gradients.key, like=key)
    for of in (gradients.w_query, gradients.w_key, gradients.w_value, gradients.w_out):
        shaped(of, like=matrices[0])


def test_self_attention_of_a_block():
    query = np.zeros((0, WIDTH), np.float32)
    matrices = dict.fromkeys(("w_query", "w_key", "w_value"), numbers(WIDTH, WIDTH))
    out = heed.multihead(query, **matrices, heads=HEADS, cu_seqlens_q=[0, 0])
    assert out.shape == query.shape


def test_attention_over_a_cache():
    cache = heed.Cache(key_heads=HEADS, features=WIDTH, pages=2)
    sequence = cache.sequence()
    sequence.append(numbers(HEADS, 3, WIDTH), numbers(HEADS, 3, WIDTH))
    query = np.zeros((0, HEADS, WIDTH), np.float32)
    found = cache.attention([sequence] * 2, query, cu_seqlens_q=[0, 0, 0], return_lse=True)
    assert (found.out.shape, found.lse.shape) == (query.shape, (HEADS, 0))


def test_one_of_a_batch_serves_no_sequence():
    """Where it would serve all of them, were there any."""
    one, none = numbers(1, HEADS, 3, WIDTH), numbers(0, HEADS, 3, WIDTH)
    cache = heed.Cache(key_heads=HEADS, features=WIDTH, pages=2)
    assert cache.attention([], one).shape == none.shape
    for given in ((one, none, none), (none, one, one), (none, one, none)):
        assert heed.attention(*given).shape == none.shape
    keys = np.zeros((0, HEADS, WIDTH), np.float32)
    assert heed.attention(one, keys, keys, cu_seqlens_k=[0]).shape == none.shape
