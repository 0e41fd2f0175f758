"""heed.plan and the plans of blocks and graphs: what they say, and what calls may change."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from cases import SHARED, block, graph_of, prepared_of, tensors

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
    assert said.get("precision", "exact") == "exact"


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
    out, strided = np.empty_like(q), np.zeros((2, 4, 5, 16), np.float32)[..., ::2]
    assert heed.plan(q, k, v)(q, k, v, out=out) is out
    heed.plan(q, k, v, out=strided)(q, k, v, out=strided)
    for one in (out, strided):
        np.testing.assert_array_equal(one, expected)
    graph = graph_of()
    plan = heed.graph_attention_plan(graph, **SHARED, out=SHARED["data"])
    data = SHARED["data"].copy()
    assert plan(data=data, out=data) is data  # in place
    np.testing.assert_array_equal(data, heed.graph_attention(graph, **SHARED))


def test_lengths_change_from_call_to_call():
    rows = np.random.default_rng(0).standard_normal((9, 4, 8)).astype(np.float32)
    plan = heed.plan(rows, rows, rows, cu_seqlens_q=[0, 2, 9], cu_seqlens_k=[0, 2, 9])
    for cut in (3, 7):
        ends = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), np.array([0, cut, 9], np.int32))
        expected = heed.attention(rows, rows, rows, **ends)
        np.testing.assert_array_equal(plan(rows, rows, rows, **ends), expected)


def test_it_outlives_its_context():
    q, k, v = tensors(keys=5)
    plan = heed.plan(q, k, v, context=heed.Context(threads=2))
    np.testing.assert_array_equal(plan(q, k, v), heed.attention(q, k, v))
