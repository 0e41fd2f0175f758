"""Arrays without rows, packed or not, and batches of nothing: results are empty, or of no key."""

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


ONE, NONE = numbers(1, HEADS, 3, WIDTH), numbers(0, HEADS, 3, WIDTH)
NO_ROWS, PACKED = ONE[:, :, :0], numbers(0, HEADS, WIDTH)
MATRICES = dict.fromkeys(("w_query", "w_key", "w_value"), numbers(WIDTH, WIDTH))
CACHE = heed.Cache(key_heads=HEADS, features=WIDTH, pages=2)
HELD = CACHE.sequence()
HELD.append(ONE[0], ONE[0])
CALLS = [
    # What is called, and the shape of what it gives.
    (lambda: heed.attention(NONE, NONE, NONE), NONE.shape),
    (lambda: heed.attention(NONE, NONE, NONE, return_weights=True).weights, (0, HEADS, 3, 3)),
    (lambda: heed.multihead(PACKED[:, 0], **MATRICES, heads=2, cu_seqlens_q=[0, 0]), (0, WIDTH)),
    (lambda: heed.graph_attention(heed.Graph([], [], nodes=0), *[PACKED] * 3), PACKED.shape),
    (lambda: heed.merge([(NO_ROWS, NO_ROWS[..., 0])])[0], NO_ROWS.shape),
    (lambda: heed.rotate(NO_ROWS), NO_ROWS.shape),
    (lambda: CACHE.attention(CACHE.sequence(), NO_ROWS[0]), (HEADS, 0, WIDTH)),
    (lambda: CACHE.attention([HELD] * 2, PACKED, cu_seqlens_q=[0, 0, 0]), PACKED.shape),
    (lambda: CACHE.attention([HELD], PACKED, cu_seqlens_q=[0, 0], return_lse=True).lse, (HEADS, 0)),
    # One of a batch would serve all sequences, were there any.
    (lambda: CACHE.attention([], ONE), NONE.shape),
    (lambda: heed.attention(ONE, NONE, NONE), NONE.shape),
    (lambda: heed.attention(NONE, ONE, ONE), NONE.shape),
    (lambda: heed.attention(NONE, ONE, NONE), NONE.shape),
    (lambda: heed.attention(ONE, PACKED, PACKED, cu_seqlens_k=[0]), NONE.shape),
]


@pytest.mark.parametrize(("call", "shape"), CALLS)
def test_empty_arrays_give_empty_results(call, shape):
    """They have pointers in NumPy, and C takes none for them."""
    assert call().shape == shape


def test_no_rows_are_appended():
    HELD.append(NO_ROWS[0], NO_ROWS[0])
    assert len(HELD) == 3
