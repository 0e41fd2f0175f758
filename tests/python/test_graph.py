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


@pytest.mark.parametrize("keep", [False, True])
def test_describe_graphs(keep):
    duplicates = "keep" if keep else "remove"
    order = np.argsort(DESTINATIONS, kind="stable")
    offsets = np.searchsorted(DESTINATIONS[order], np.arange(NODES + 1))
    csr = heed.Graph.from_csr(offsets, SOURCES[order], duplicates=duplicates)
    edges = len(EDGES) if keep else len(set(EDGES))
    expected = {"nodes": NODES, "edges": edges, "edges_given": len(EDGES), "isolated": 1}
    expected |= {"source_nodes": 0, "most": 4 if keep else 3, "reverse": False}
    for graph in (graph_of(duplicates=duplicates), csr):
        said = graph.describe()
        size = said.pop("bytes")
        assert said == expected
        assert repr(graph) == f"<heed.Graph: {NODES} nodes, {edges} edges>"
    other = graph_of(duplicates=duplicates, reverse=True).describe()
    assert other["reverse"] is True
    assert other["bytes"] > size > 0
    sourced = heed.Graph.from_csr([0, 1, 3, 3, 5], [6, 0, 3, 3, 5], source_nodes=7)
    assert sourced.describe()["source_nodes"] == 7
    assert repr(sourced) == "<heed.Graph: 4 nodes, 7 source nodes, 5 edges>"


def test_edges_of_any_strides_and_libraries():
    expected = heed.graph_attention(graph_of(), **PROJECTED)
    pairs = np.array(EDGES)  # so that sources are every second number
    graphs = [heed.Graph(pairs[:, 0], pairs[:, 1], nodes=NODES)]
    sources, destinations = SOURCES.copy(), DESTINATIONS.copy()
    graphs.append(heed.Graph(sources, destinations, nodes=NODES))
    sources[:] = destinations[:] = -1  # which a graph does not look at again
    for graph in graphs:
        np.testing.assert_array_equal(heed.graph_attention(graph, **PROJECTED), expected)
