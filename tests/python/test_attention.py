"""heed.attention: its definition, and what calls may leave out; test_bits.py has all options."""

import copy
import pickle

import numpy as np
import pytest
from cases import everything, tensors

import heed


def test_definition():
    query, key, value = tensors(np.float64)
    causal = np.arange(7) <= np.arange(5)[:, None]
    scores = np.where(causal, query @ key.swapaxes(2, 3) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - np.logaddexp.reduce(scores, -1, keepdims=True))
    found = heed.attention(query, key, value, causal=True, return_weights=True)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-12)
    np.testing.assert_allclose(found.out, weights @ value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axes", [2, 3])
def test_axes_may_lack(axes):
    """Of results too, those of gradients among them."""
    whole = [x[:1, : 1 if axes == 2 else 4] for x in tensors()]
    cut = [x[(0,) * (4 - axes)] for x in whole]
    asked = {"return_lse": True, "return_weights": True, "return_column_sums": True}
    found, expected = (heed.attention(*x, causal=True, **asked) for x in (cut, whole))
    gradients, others = (
        heed.attention_backward(*x, of.out, of.lse, of.out, causal=True)[:3]
        for x, of in ((cut, found), (whole, expected))
    )
    for one, other in zip((*found, *gradients), (*expected, *others), strict=True):
        np.testing.assert_array_equal(one, other[(0,) * (4 - axes)])


def test_axes_may_be_one():
    query, key, value = tensors(key_heads=1)
    key, value = key[:1], value[0]
    full = [np.broadcast_to(x, (2, 4, 7, 8)) for x in (key, value)]
    expected = heed.attention(query, *full, **everything(), return_weights=True)
    found = heed.attention(query, key, value, **everything(), return_weights=True)
    np.testing.assert_array_equal(found.out, expected.out)
    np.testing.assert_array_equal(found.weights, expected.weights)
    of_all = heed.attention(np.broadcast_to(query[:1, :1], (2, 4, 5, 8)), *full)
    np.testing.assert_array_equal(heed.attention(query[0, :1], *full), of_all)


def test_results_are_what_was_asked_for():
    x = np.eye(3)
    plain = heed.attention(x, x, x)
    out, weights = heed.attention(x, x, x, return_weights=True)
    found = heed.attention(x, x, x, return_weights=True, return_column_sums=True)
    again = pickle.loads(pickle.dumps(copy.copy(found)))
    for one in (found, again):
        assert type(one) is heed.Result
        assert one.lse is None
        for actual, expected in zip(one, (plain, weights, weights.sum(0)), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-12)
        assert one[1] is one.weights
        assert one[2] is one.column_sums
    assert repr(heed.Result(1, None, 2)) == "Result(out=1, weights=2)"
    np.testing.assert_array_equal(out, plain)


def test_float8_keys_of_torch():
    torch, ml_dtypes = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    query, key, value = tensors()
    narrow = key.astype(ml_dtypes.float8_e4m3fn)
    expected = heed.attention(query, narrow, value, key_scales=0.5)
    key = torch.from_numpy(key).to(torch.float8_e4m3fn)
    for scale in (np.float32(0.5), np.array(0.5)):
        out = heed.attention(query, key, value, key_scales=scale)
        np.testing.assert_array_equal(out, expected)


def test_packed_rows_of_no_sequence():
    """Of new results they are 0, whatever the memory held; of the caller's out they stay."""
    query, key, value = np.ones((3, 6, 2, 8), np.float32)
    of = dict(cu_seqlens_q=[1, 4], cu_seqlens_k=[0, 6])
    for _ in range(20):
        full = [np.full(n, np.nan, np.float32) for n in (96, 12)]  # memory that comes next
        del full
        result = heed.attention(query, key, value, **of, return_lse=True)
        assert not result.out[[0, 4, 5]].any()
        assert not result.lse[:, [0, 4, 5]].any()
    out = np.full_like(query, 7)
    heed.attention(query, key, value, **of, out=out)
    assert (out[[0, 4, 5]] == 7).all()
    assert (out[1:4] == 1).all()
