"""Parts that say where in a larger problem they lie have its mask, results and gradients."""

import numpy as np
import pytest
from cases import DESTINATIONS, PROJECTED, SOURCES, block, graph_of, tensors

import heed

DROPS = {"dropout": 0.4, "seed": (5, 6)}
AXES = ["batch", "heads", "rows", "keys"]


@pytest.mark.parametrize("axis", AXES)
def test_halves_of_attention(axis):
    query, key, value = tensors(np.float64, rows=20, keys=26)
    out, lse, *_ = heed.attention(query, key, value, **DROPS, return_lse=True)
    grad_out = np.cos(out)
    whole = heed.attention_backward(query, key, value, out, lse, grad_out, **DROPS)
    sums = {
        name: np.zeros_like(x) for name, x in (("query", query), ("key", key), ("value", value))
    }
    plan, parts = None, []
    half = (2, 4, 20, 26)[AXES.index(axis)] // 2
    for begin in (0, half):
        of = [slice(None) if name != axis else slice(begin, begin + half) for name in AXES]
        rows, keys = (*of[:3],), (*of[:2], of[3])
        part = query[rows], key[keys], value[keys]
        drops = {**DROPS, "dropout_origin": [begin if name == axis else 0 for name in AXES]}
        plan = plan or heed.plan(*part, **drops, return_lse=True)
        parts.append(plan(*part, seed=DROPS["seed"], dropout_origin=drops["dropout_origin"])[:2])
        if axis != "keys":
            np.testing.assert_array_equal(parts[-1][0], out[rows])
        found = heed.attention_backward(*part, out[rows], lse[rows], grad_out[rows], **drops)
        for name, place in (("query", rows), ("key", keys), ("value", keys)):
            sums[name][place] += getattr(found, name)
    if axis == "keys":
        np.testing.assert_allclose(heed.merge(parts)[0], out, rtol=1e-12, atol=1e-12)
    for name, found in sums.items():
        added = axis == ("keys" if name == "query" else "rows")
        bound = 1e-12 if added else 0
        np.testing.assert_allclose(found, getattr(whole, name), rtol=bound, atol=bound)


def test_halves_of_the_batch_of_a_block():
    given = block(np.float64)
    inputs = given.pop("query")
    out = heed.multihead(inputs, **given, **DROPS)
    whole = heed.multihead_backward(inputs, **given, **DROPS, grad_out=np.cos(out))
    for b in range(2):
        of = slice(b, b + 1)
        drops = {**DROPS, "dropout_origin": np.array([b, 0, 0, 0])}
        np.testing.assert_array_equal(heed.multihead(inputs[of], **given, **drops), out[of])
        part = heed.multihead_backward(inputs[of], **given, **drops, grad_out=np.cos(out[of]))
        np.testing.assert_array_equal(part.query, whole.query[of])


def test_edges_of_a_larger_graph():
    given = {**PROJECTED, **DROPS}
    graph = graph_of(duplicates="keep", reverse=True)
    out = heed.graph_attention(graph, **given)
    grad_out = np.cos(out)
    whole = heed.graph_attention_backward(graph, **given, grad_out=grad_out)
    sums = {name: np.zeros_like(x) for name, x in PROJECTED.items()}
    for nodes in ([0, 1, 4], [2, 3, 5]):
        edges = np.flatnonzero(np.isin(DESTINATIONS, nodes))
        ends = SOURCES[edges], DESTINATIONS[edges]
        drops = {**given, "graph": heed.Graph(*ends, nodes=6, duplicates="keep", reverse=True)}
        drops["dropout_edges"] = edges
        found = heed.graph_attention(**drops)
        np.testing.assert_array_equal(found[nodes], out[nodes])
        gradients = heed.graph_attention_backward(**drops, grad_out=grad_out)
        np.testing.assert_array_equal(gradients.query[nodes], whole.query[nodes])
        for name in sums:
            sums[name] += getattr(gradients, name)
    for name, found in sums.items():
        np.testing.assert_allclose(found, getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_it_takes_no_part_without_dropout():
    """As seed, which programs give in every call, also where they do not train."""
    query, key, value = tensors()
    plain = heed.attention(query, key, value)
    for drops in ({}, {"dropout": 0.0}):
        found = heed.attention(query, key, value, **drops, seed=1, dropout_origin=[1])
        np.testing.assert_array_equal(found, plain)
