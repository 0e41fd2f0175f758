"""heed.Graph, and what heed.graph_attention and its plan do with it."""

import numpy as np
import pytest

import heed

NODES, HEADS, WIDTH = 6, 3, 15
# Node 3 is isolated, 0 -> 2 is there twice, 4 -> 4 is a self-loop.
EDGES = [(0, 2), (1, 2), (5, 2), (4, 4), (2, 0), (0, 2), (3, 1), (0, 1), (2, 5), (5, 4), (1, 0)]
SOURCES, DESTINATIONS = (np.array(ends) for ends in zip(*EDGES, strict=True))
RANDOM = np.random.default_rng(11)
PROJECTED = {name: RANDOM.standard_normal((NODES, HEADS, 4)) for name in ("query", "key", "value")}
SHARED = {
    "data": RANDOM.standard_normal((NODES, WIDTH)),
    **{f"w_{name}": RANDOM.standard_normal((WIDTH, 15)) for name in ("query", "key", "value")},
    "heads": HEADS,
    "residual": True,
}


def graph_of(**options):
    return heed.Graph(SOURCES, DESTINATIONS, nodes=NODES, **options)


@pytest.mark.parametrize("rows", [False, True])
def test_source_nodes(rows):
    """Keys of edges that go into a node, and nothing else."""
    sources, destinations = np.array([6, 0, 3, 3, 5]), np.array([0, 1, 1, 3, 3])
    query, *pair = (RANDOM.standard_normal((n, HEADS, 5)) for n in (4, 7, 7))
    key, value = pair
    bias = RANDOM.standard_normal((5, HEADS))
    if rows:
        graph = heed.Graph.from_csr([0, 1, 3, 3, 5], sources, source_nodes=7)
    else:
        graph = heed.Graph(sources, destinations, nodes=4, source_nodes=7)
    assert repr(graph) == "<heed.Graph: 4 nodes, 7 source nodes, 5 edges>"
    assert graph.describe()["source_nodes"] == 7
    expected = heed.attention(
        *(x.swapaxes(0, 1) for x in (query, key[sources], value[sources])),
        attn_mask=destinations == np.arange(4)[:, None],
        bias=bias.T[:, None],
    ).swapaxes(0, 1)
    given = {"query": query, "key": key, "value": value, "edge_bias": bias}
    out = heed.graph_attention(graph, **given)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(heed.graph_attention_plan(graph, **given)(**given), out)
    with pytest.raises(ValueError, match="value is .*a row for each of the 7 source"):
        heed.graph_attention(graph, query, key, value[:4])
    with pytest.raises(TypeError, match="a graph with source_nodes takes query, key and value"):
        heed.graph_attention(graph, data=query[:, 0], heads=1)
    with pytest.raises(heed.UnsupportedError, match="reverse is True; it must be False with sour"):
        heed.Graph(sources, destinations, nodes=4, source_nodes=7, reverse=True)


@pytest.mark.parametrize("keep", [False, True])
def test_describe_graphs(keep):
    duplicates = "keep" if keep else "remove"
    order = np.argsort(DESTINATIONS, kind="stable")
    offsets = np.searchsorted(DESTINATIONS[order], np.arange(NODES + 1))
    csr = heed.Graph.from_csr(offsets, SOURCES[order], duplicates=duplicates)
    incoming = [len({s for s, to in EDGES if to == n}) for n in range(NODES)]
    expected = {
        "nodes": NODES,
        "edges": len(EDGES) if keep else len(set(EDGES)),
        "edges_given": len(EDGES),
        "isolated": incoming.count(0),
        "source_nodes": 0,
        "most": 4 if keep else max(incoming),
        "reverse": False,
    }
    for graph in (graph_of(duplicates=duplicates), csr):
        said = graph.describe()
        assert said.pop("bytes") > 0
        assert said == expected
        assert repr(graph) == f"<heed.Graph: {NODES} nodes, {expected['edges']} edges>"
    other = graph_of(duplicates=duplicates, reverse=True).describe()
    assert other["reverse"] is True
    assert other["bytes"] > graph_of(duplicates=duplicates).describe()["bytes"]


def test_edges_of_any_strides_and_libraries():
    expected = heed.graph_attention(graph_of(), **PROJECTED)
    pairs = np.array(EDGES)  # so that sources are every second number
    graphs = [heed.Graph(pairs[:, 0], pairs[:, 1], nodes=NODES)]
    sources, destinations = SOURCES.copy(), DESTINATIONS.copy()
    graphs.append(heed.Graph(sources, destinations, nodes=NODES))
    sources[:] = destinations[:] = -1  # which a graph does not look at again
    for graph in graphs:
        np.testing.assert_array_equal(heed.graph_attention(graph, **PROJECTED), expected)


def test_out_in_place():
    graph = graph_of()
    expected = heed.graph_attention(graph, **SHARED)
    plan = heed.graph_attention_plan(graph, **SHARED, out=SHARED["data"])
    data = SHARED["data"].copy()
    assert plan(data=data, out=data) is data
    np.testing.assert_array_equal(data, expected)
