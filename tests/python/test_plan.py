"""heed.plan: what it was made for, and what calls may change."""

import numpy as np
import pytest
from cases import tensors

import heed


def test_describe():
    q, k, v = tensors(keys=5)
    said = heed.plan(q, k, v, context=heed.Context(threads=1, executor="serial")).describe()
    assert said["strategy"] == "prefill"
    assert said["executor"] == "serial"
    assert said["threads"] == 1
    assert said["flops"] == 2 * (8 + 8) * 2 * 4 * 5 * 5
    assert set(said) == {
        "strategy",
        "isa",
        "executor",
        "threads",
        "tile_q",
        "tile_kv",
        "tasks",
        "workspace_bytes",
        "flops",
        "tuning_line",
        "precision",
    }
    assert said["precision"] == "exact"  # of float32, always


def test_out_is_the_plans_or_plain():
    q, k, v = tensors(keys=5)
    expected = heed.attention(q, k, v)
    plan = heed.plan(q, k, v)
    out = np.empty_like(q)
    assert plan(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(
        heed.ArgumentError,
        match="out is float32 .* with strides .*; the plan was "
        "made without, so it must be contiguous",
    ):
        plan(q, k, v, out=np.empty((2, 5, 4, 8), np.float32).swapaxes(1, 2))
    with pytest.raises(heed.ArgumentError, match="out is float16 .* the plan was made without"):
        plan(q, k, v, out=np.empty_like(q, np.float16))
    strided = np.zeros((2, 4, 5, 16), np.float32)[..., ::2]
    plan = heed.plan(q, k, v, out=strided)
    plan(q, k, v, out=strided)
    np.testing.assert_array_equal(strided, expected)
    with pytest.raises(TypeError, match="the plan was made with out: give it"):
        plan(q, k, v)
    with pytest.raises(heed.ArgumentError, match="out has strides .*; the plan was made for"):
        plan(q, k, v, out=out)


def test_lengths_change_from_call_to_call():
    random = np.random.default_rng(0)
    rows = random.standard_normal((9, 4, 8)).astype(np.float32)
    plan = heed.plan(rows, rows, rows, cu_seqlens_q=[0, 2, 9], cu_seqlens_k=[0, 2, 9])
    for cut in (3, 7):
        cu = np.array([0, cut, 9], np.int32)
        np.testing.assert_array_equal(
            plan(rows, rows, rows, cu_seqlens_q=cu, cu_seqlens_k=cu),
            heed.attention(rows, rows, rows, cu_seqlens_q=cu, cu_seqlens_k=cu),
        )
    for name, cu_q, cu_k in (("q", [0, 1, 9], [0, 3, 9]), ("k", [0, 3, 9], [0, 1, 9])):
        message = f"max_seqlen_{name} is 7; cu_seqlens_{name} has 8 rows for a sequence"
        with pytest.raises(heed.ArgumentError, match=message):
            plan(rows, rows, rows, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    with pytest.raises(
        heed.ArgumentError, match="cu_seqlens_k is for 3 sequences; the plan was made"
    ):
        plan(rows, rows, rows, cu_seqlens_q=[0, 2, 5, 9], cu_seqlens_k=[0, 2, 5, 9])


def test_it_outlives_its_context():
    q, k, v = tensors(keys=5)
    plan = heed.plan(q, k, v, context=heed.Context(threads=2))
    np.testing.assert_array_equal(plan(q, k, v), heed.attention(q, k, v))
