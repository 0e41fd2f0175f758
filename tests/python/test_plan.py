"""heed.plan and the plans of blocks and graphs: what they say, and what calls may change."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from cases import tensors
from test_graph import SHARED, graph_of
from test_multihead import MATRICES, block, prepared_of

import heed

Q, K, V = tensors(rows=40, keys=40, features=32)  # so many that calls give the GIL back
BLOCK = prepared_of(block())
BLOCK["query"] = np.tile(BLOCK["query"], (1, 40, 1))
GRAPH = heed.Graph(*np.random.default_rng(1).integers(0, 500, (2, 5000)), nodes=500)
DATA = np.random.default_rng(2).standard_normal((500, 15))
# What makes a plan, of what, which array differs from call to call, and what plans say.
PLANS = {
    "attention": (
        heed.plan,
        {"query": Q, "key": K, "value": V},
        "query",
        "strategy tile_q tile_kv tasks flops tuning_line precision",
    ),
    "multihead": (
        heed.multihead_plan,
        BLOCK,
        "query",
        "projection_flops attention_flops product precision",
    ),
    "graph_attention": (
        partial(heed.graph_attention_plan, GRAPH),
        {**SHARED, "data": DATA},
        "data",
        "tasks gathered_bytes",
    ),
}
of_all = pytest.mark.parametrize("name", PLANS)


@of_all
def test_describe(name):
    make, given, _, own = PLANS[name]
    said = make(**given, context=heed.Context(threads=1, executor="serial")).describe()
    assert set(said) == {"isa", "executor", "threads", "workspace_bytes", *own.split()}
    assert (said["executor"], said["threads"]) == ("serial", 1)
    exact = said["isa"] != "amx" or name == "attention"  # of float32, attention's always
    assert said.get("precision", "exact") == ("exact" if exact else "default")


def test_described_work():
    said = heed.plan(Q, K, V).describe()
    assert said["strategy"] == "prefill"
    assert said["flops"] == 2 * (32 + 32) * 2 * 4 * 40 * 40
    given = block()
    said = heed.multihead_plan(**given).describe()
    assert said["projection_flops"] == 2 * 2 * 5 * sum(given[name].size for name in MATRICES)
    assert said["attention_flops"] == 2 * 2 * 4 * 5**2 * (6 + 5)
    assert heed.graph_attention_plan(graph_of(), **SHARED).describe()["tasks"] >= 1


@of_all
def test_threads_share_plans_and_contexts(name):
    make, given, changing, _ = PLANS[name]
    plan, context = make(**given), heed.Context(threads=2)
    fixed = {n: given[n] for n in ("key", "value") if n in given}
    inputs = [(1 + i / 10) * given[changing] for i in range(12)]  # more than it keeps room for
    expected = [make(**{**given, changing: x})(**{changing: x}, **fixed) for x in inputs]

    def work(i):
        x = {changing: inputs[i]}
        anew = make(**{**given, **x}, context=context)
        return [plan(**x, **fixed), anew(**x, **fixed)]

    with ThreadPoolExecutor(12) as pool:
        for _ in range(5):
            for outs, one in zip(pool.map(work, range(12)), expected, strict=True):
                for out in outs:
                    np.testing.assert_array_equal(out, one)


def test_plan_reads_parameters_anew():
    given = block()
    plan = heed.multihead_plan(**given)
    given["w_out"] *= 2
    given["b_out"] *= 2
    np.testing.assert_array_equal(plan(given["query"]), heed.multihead(**given), strict=True)


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
