"""What functions take, may be given without, and give; test_bits.py has all options."""

import copy
import pickle

import cases
import numpy as np
import pytest
from cases import DESTINATIONS, PROJECTED, SOURCES, block, everything, graph_of, tensors

import heed


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


# ---- Blocks, weights, projections ----


def test_batch_axis_may_lack():
    given = block(causal=True, return_lse=True)
    whole = heed.multihead(**given)
    for b in range(2):
        alone = heed.multihead(**{**given, "query": given["query"][b]})
        np.testing.assert_array_equal(alone.out, whole.out[b])
        np.testing.assert_array_equal(alone.lse, whole.lse[b])


def test_weights_need_nothing_afterwards():
    given = block()
    expected = heed.multihead(**given)
    prepared = {**cases.prepared_of(given), "query": given["query"].copy()}
    for name in ("query", *cases.PARAMETERS):
        given[name][:] = np.nan
    np.testing.assert_array_equal(heed.multihead(**prepared), expected)


def test_describe_weights():
    weights = heed.Weights(np.ones((3, 4), np.float16))
    said = weights.describe()
    assert (said["in"], said["out"], said["arithmetic"]) == (3, 4, "float32")
    assert said["bytes"] >= 3 * 4 * 4
    assert repr(weights) == "<heed.Weights: 3 features to 4, float32>"
    tensor = heed.Weights(np.ones((2, 3, 4)))
    assert (tensor.describe()["in"], tensor.describe()["arithmetic"]) == (6, "float64")


def test_project_reads_and_writes_in_place():
    random = np.random.default_rng(5)
    matrix, bias = random.standard_normal((23, 9)), random.standard_normal(9)
    weights = heed.Weights(np.asfortranarray(matrix), bias)
    x = random.standard_normal((2, 23, 40)).transpose(0, 2, 1)
    for rows in (x, x[:, ::-2], x[0], x[:, :0], np.broadcast_to(x[0, 0], (3, 4, 23))):
        out = np.zeros((*rows.shape[:-1], 18))[..., ::2]
        assert heed.project(rows, weights, out=out) is out
        np.testing.assert_allclose(out, rows @ matrix + bias, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(out, heed.project(rows.copy(), weights))


# ---- Rows ----


def test_rotate_takes_positions_in_any_form():
    x = np.random.default_rng(5).standard_normal((2, 3, 5, 8))
    expected, out = heed.rotate(x, position=7), np.zeros_like(x)
    at = np.arange(7, 12)
    for positions in (at.tolist(), at, at[None].astype(np.int32), np.tile(at, (2, 1))):
        np.testing.assert_array_equal(heed.rotate(x, positions=positions), expected)
    apart = np.array([[4, 0, 9, 100000, 2], [7, 7, 1, 0, 3]])
    alone = [heed.rotate(one, positions=own) for one, own in zip(x, apart, strict=True)]
    np.testing.assert_array_equal(heed.rotate(x, positions=apart), alone)
    angles = np.arange(12)[:, None] * 500.0 ** (-np.arange(3) / 3)
    tables = {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype("f4")}
    np.testing.assert_allclose(
        heed.rotate(x, position=7, **tables),
        heed.rotate(x, position=7, base=500.0, features=6),
        atol=1e-6,
    )
    interleaved = heed.rotate(x[..., [0, 4, 1, 5, 2, 6, 3, 7]], position=7, pairs="interleaved")
    np.testing.assert_array_equal(interleaved[..., [0, 2, 4, 6, 1, 3, 5, 7]], expected)
    assert heed.rotate(x, position=7, out=out) is out
    assert heed.rotate(x, position=7, out=x) is x
    for one in (out, x):
        np.testing.assert_array_equal(one, expected)


# ---- Graphs ----


@pytest.mark.parametrize("keep", [False, True])
def test_describe_graphs(keep):
    duplicates = "keep" if keep else "remove"
    order = np.argsort(DESTINATIONS, kind="stable")
    offsets = np.searchsorted(DESTINATIONS[order], np.arange(7))
    csr = heed.Graph.from_csr(offsets, SOURCES[order], duplicates=duplicates)
    edges = 11 if keep else 10
    expected = {"nodes": 6, "edges": edges, "edges_given": 11, "isolated": 1}
    expected |= {"source_nodes": 0, "most": 4 if keep else 3, "reverse": False}
    for graph in (graph_of(duplicates=duplicates), csr):
        said = graph.describe()
        size = said.pop("bytes")
        assert said == expected
        assert repr(graph) == f"<heed.Graph: 6 nodes, {edges} edges>"
    other = graph_of(duplicates=duplicates, reverse=True).describe()
    assert other["reverse"] is True
    assert other["bytes"] > size > 0
    sourced = heed.Graph.from_csr([0, 1, 3, 3, 5], [6, 0, 3, 3, 5], source_nodes=7)
    assert sourced.describe()["source_nodes"] == 7
    assert repr(sourced) == "<heed.Graph: 4 nodes, 7 source nodes, 5 edges>"


def test_edges_of_any_strides_and_libraries():
    expected = heed.graph_attention(graph_of(), **PROJECTED)
    pairs = np.stack([SOURCES, DESTINATIONS], 1)  # so that sources are every second number
    graphs = [heed.Graph(pairs[:, 0], pairs[:, 1], nodes=6)]
    sources, destinations = SOURCES.copy(), DESTINATIONS.copy()
    graphs.append(heed.Graph(sources, destinations, nodes=6))
    sources[:] = destinations[:] = -1  # which a graph does not look at again
    for graph in graphs:
        np.testing.assert_array_equal(heed.graph_attention(graph, **PROJECTED), expected)
