"""heed.Graph, heed.graph_attention and its plan, beside heed.attention whose keys are edges."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kinds import KINDS, assert_close, assert_like, needed

import heed

NODES, HEADS, FEATURES, VALUE_FEATURES, WIDTH, EDGE_WIDTH = 6, 3, 4, 5, 7, 2
# Node 3 is isolated, 0 -> 2 is there twice, 4 -> 4 is a self-loop.
EDGES = [(0, 2), (1, 2), (5, 2), (4, 4), (2, 0), (0, 2), (3, 1), (0, 1), (2, 5), (5, 4), (1, 0)]
SOURCES, DESTINATIONS = (np.array(ends) for ends in zip(*EDGES, strict=True))
TENSORS = ("query", "key", "value", "data", "edge_data", "edge_bias")
MATRICES = ("w_query", "w_key", "w_value")
SCORES = ("scale", "softcap", "temperature", "hard")
BIASES = ("b_query", "b_key", "b_value")


def case(inputs="projected", width=WIDTH, edges=(), biases=True, keep=False, **settings):
    """Arrays and settings of a problem, in float64."""
    random = np.random.default_rng(11)
    value_features = settings.pop("value_features", VALUE_FEATURES)
    widths = {"w_query": FEATURES, "w_key": FEATURES, "w_value": value_features}
    arrays = {}
    if inputs == "projected":
        for name, features in zip(("query", "key", "value"), widths.values(), strict=True):
            arrays[name] = random.standard_normal((NODES, HEADS, features))
    else:
        settings["heads"] = HEADS
        for (name, features), bias in zip(widths.items(), BIASES, strict=True):
            shape = (width, HEADS * features)
            nodes = (NODES,) if inputs == "per_node" else ()
            arrays[name] = 0.4 * random.standard_normal(nodes + shape)
            if biases and inputs == "shared":
                arrays[bias] = random.standard_normal(shape[1])
    if inputs != "projected" or settings.get("residual"):
        arrays["data"] = random.standard_normal((NODES, width))
    if "key" in edges or "value" in edges:
        arrays["edge_data"] = random.standard_normal((len(EDGES), EDGE_WIDTH))
    for name, features in (("key", FEATURES), ("value", value_features)):
        if name in edges:
            arrays[f"w_edge_{name}"] = random.standard_normal((EDGE_WIDTH, HEADS * features))
    if "bias" in edges:
        arrays["edge_bias"] = random.standard_normal((len(EDGES), HEADS))
        arrays["edge_bias"][1, 0] = -np.inf
    if "shared_bias" in edges:
        arrays["edge_bias"] = random.standard_normal(len(EDGES))
    if settings.get("combine") == "weighted":
        settings["head_weights"] = [0.5, -1.0, 2.0]
    return arrays, settings, keep


CASES = {
    "projected": case,
    "duplicates_kept": lambda: case(keep=True),
    "edge_bias": lambda: case(edges=["bias"]),
    "edge_bias_of_all_heads": lambda: case(edges=["shared_bias"], keep=True),
    "edge_keys": lambda: case(edges=["key"]),
    "edge_values": lambda: case(edges=["value"]),
    "all_of_edges": lambda: case(edges=["key", "value", "bias"], keep=True),
    "scale_and_softcap": lambda: case(scale=-0.7, softcap=0.9),
    "temperature": lambda: case(temperature=0.5),
    "uniform": lambda: case(temperature=math.inf),
    "hard": lambda: case(hard=True),
    "mean": lambda: case(combine="mean"),
    "max": lambda: case(combine="max"),
    "weighted": lambda: case(combine="weighted"),
    "projected_residual": lambda: case(width=HEADS * VALUE_FEATURES, residual=True),
    "shared": lambda: case("shared"),
    "shared_without_biases": lambda: case("shared", biases=False),
    "shared_edges": lambda: case("shared", edges=["key", "value", "bias"]),
    "shared_mean": lambda: case("shared", combine="mean"),
    "shared_residual": lambda: case("shared", width=HEADS * VALUE_FEATURES, residual=True),
    "shared_steps": lambda: case("shared", width=HEADS * VALUE_FEATURES, residual=True, steps=2),
    "shared_steps_of_means": lambda: case(
        "shared", width=VALUE_FEATURES, combine="mean", steps=2, edges=["key"]
    ),
    "per_node": lambda: case("per_node"),
    "per_node_residual": lambda: case("per_node", width=HEADS * VALUE_FEATURES, residual=True),
}


def graph_of(keep, **options):
    duplicates = "keep" if keep else None
    return heed.Graph(SOURCES, DESTINATIONS, nodes=NODES, duplicates=duplicates, **options)


@pytest.mark.parametrize("rows", [False, True])
def test_source_nodes(rows):
    sources, destinations = np.array([6, 0, 3, 3, 5]), np.array([0, 1, 1, 3, 3])
    random = np.random.default_rng(1)
    query, (key, value) = (
        random.standard_normal((4, HEADS, 5)),
        random.standard_normal((2, 7, HEADS, 5)),
    )
    bias = random.standard_normal((5, HEADS))
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
    tensors = {"query": query, "key": key, "value": value, "edge_bias": bias}
    assert_close(heed.graph_attention(graph, **tensors), expected, 2.0**-53, "out")
    plan = heed.graph_attention_plan(graph, **tensors)
    assert_close(plan(**tensors), expected, 2.0**-53, "out")
    with pytest.raises(ValueError, match="value is .*a row for each of the 7 source"):
        heed.graph_attention(graph, query, key, value[:4])
    with pytest.raises(TypeError, match="a graph with source_nodes takes query, key and value"):
        heed.graph_attention(graph, data=query[:, 0], heads=1)
    with pytest.raises(heed.UnsupportedError, match="reverse is True; it must be False with sour"):
        heed.Graph(sources, destinations, nodes=4, source_nodes=7, reverse=True)


def expected_of(kind, arrays, settings, keep):
    """out, log-sum-exp and weights. What steps hand on is in the type of out."""
    data = arrays.get("data")
    for _ in range(settings.get("steps", 1)):
        out, lse, weights = one_step(arrays, settings, keep, data)
        data = kind.rounded(out)
    return out, lse, weights


def one_step(arrays, settings, keep, data):
    """heed.attention whose keys are edges, which nodes attend where they end."""
    order = sorted(range(len(EDGES)), key=lambda e: (EDGES[e][0], e))  # which "hard" goes by
    order = [e for e in order if keep or EDGES.index(EDGES[e]) == e]
    query, key, value = (
        arrays[name] if name in arrays else projected(arrays, name, data)
        for name in ("query", "key", "value")
    )
    key, value = (
        x[SOURCES[order]] + of_edges(arrays, name)[order]
        for x, name in ((key, "key"), (value, "value"))
    )
    bias = arrays.get("edge_bias", np.zeros(len(EDGES)))[order].reshape(len(order), -1)
    options = {name: settings[name] for name in SCORES if name in settings}
    found = heed.attention(
        *(x.swapaxes(0, 1) for x in (query, key, value)),
        attn_mask=DESTINATIONS[order] == np.arange(NODES)[:, None],
        bias=bias.T[:, None],
        **options,
        return_lse=not options.get("hard"),
        return_weights=True,
    )
    weights = np.zeros((len(EDGES), HEADS))
    weights[order] = found.weights.sum(1).T
    out = combined(found.out.swapaxes(0, 1), settings)
    if "query" not in arrays:
        out = out.reshape(NODES, -1)
    if settings.get("residual"):
        out = out + data.reshape(out.shape)
    return out, None if found.lse is None else found.lse.T, weights


def projected(arrays, name, data):
    """Of nodes that share a matrix, or have one each."""
    matrix = arrays[f"w_{name}"]
    subscripts = "nw,wo->no" if matrix.ndim == 2 else "nw,nwo->no"
    y = np.einsum(subscripts, data, matrix) + arrays.get(f"b_{name}", 0)
    return y.reshape(NODES, HEADS, -1)


def of_edges(arrays, name):
    """What edges add to keys or values."""
    if f"w_edge_{name}" not in arrays:
        return np.zeros((len(EDGES), 1, 1))
    return (arrays["edge_data"] @ arrays[f"w_edge_{name}"]).reshape(len(EDGES), HEADS, -1)


def combined(new, settings):
    combine = settings.get("combine", "concat")
    if combine == "weighted":
        return np.einsum("h,nhf->nf", settings["head_weights"], new)
    return new if combine == "concat" else getattr(new, combine)(1)


EVERY_OPTION = [(KINDS[1], name) for name in CASES]
EVERY_KIND = [(kind, name) for kind in KINDS for name in ("all_of_edges", "shared_edges")]


@pytest.mark.parametrize(
    ("kind", "name"), EVERY_OPTION + EVERY_KIND, ids=lambda x: getattr(x, "name", x)
)
def test_every_option_and_kind(kind, name):
    arrays, settings, keep = CASES[name]()
    given = {name: needed(kind).make(array) for name, array in arrays.items()}
    seen = {name: kind.back(array) for name, array in given.items()}
    asked = {} if settings.get("hard") else {"return_lse": True}
    result = heed.graph_attention(graph_of(keep), **given, **settings, **asked, return_weights=True)
    out, lse, weights = expected_of(kind, seen, settings, keep)
    assert_like(kind, result.out, given.get("query", given.get("data")))
    assert_close(kind.back(result.out), out, kind.unit, "out")
    exact = 2.0**-53 if kind.element == "float64" else 2.0**-24
    if asked:
        assert_close(result.lse, lse, exact, "lse")
    assert_close(result.weights, weights, exact, "weights")


@pytest.mark.parametrize("name", CASES)
def test_prepared_and_planned_have_the_same_bits(name):
    given, settings, keep = CASES[name]()
    graph = graph_of(keep)
    expected = heed.graph_attention(graph, **given, **settings)
    prepared = dict(given)
    if "b_query" in given:
        for matrix, bias in zip(MATRICES, BIASES, strict=True):
            prepared[matrix] = heed.Weights(given[matrix], prepared.pop(bias))
    np.testing.assert_array_equal(heed.graph_attention(graph, **prepared, **settings), expected)
    anew = {name: given[name] for name in TENSORS if name in given}
    for parameters in (given, prepared):
        plan = heed.graph_attention_plan(graph, **parameters, **settings)
        for _ in range(2):
            np.testing.assert_array_equal(plan(**anew), expected)


@pytest.mark.parametrize("index", [np.int32, np.int64, list, "torch"])
@pytest.mark.parametrize("keep", [False, True])
def test_edges_of_every_kind_and_csr(index, keep):
    def made_of(x):
        if index == "torch":
            torch = pytest.importorskip("torch")
            return torch.from_numpy(np.array(x))
        return list(map(int, x)) if index is list else np.asarray(x, index)

    duplicates = "keep" if keep else "remove"
    graph = heed.Graph(made_of(SOURCES), made_of(DESTINATIONS), nodes=NODES, duplicates=duplicates)
    order = np.argsort(DESTINATIONS, kind="stable")
    offsets = np.searchsorted(DESTINATIONS[order], np.arange(NODES + 1))
    csr = heed.Graph.from_csr(made_of(offsets), made_of(SOURCES[order]), duplicates=duplicates)
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
    arrays, _, _ = case(edges=["bias"])
    outs = []
    for made, bias in ((graph, arrays["edge_bias"]), (csr, arrays["edge_bias"][order])):
        said = made.describe()
        assert said.pop("bytes") > 0
        assert said == expected
        outs.append(heed.graph_attention(made, **{**arrays, "edge_bias": bias}))
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-14, atol=1e-14)
    assert repr(graph) == f"<heed.Graph: {NODES} nodes, {expected['edges']} edges>"


def test_strided_edges_and_arrays():
    arrays, settings, keep = case("shared", edges=["key", "bias"])
    expected = heed.graph_attention(graph_of(keep), **arrays, **settings)
    pairs = np.array(EDGES)  # so that sources are every second number
    graph = heed.Graph(pairs[:, 0], pairs[:, 1], nodes=NODES)
    strided = {
        name: np.asfortranarray(array)[::-1].copy("K")[::-1] if array.ndim > 1 else array
        for name, array in arrays.items()
    }
    np.testing.assert_array_equal(heed.graph_attention(graph, **strided, **settings), expected)
    repeated = np.broadcast_to(arrays["edge_data"][:1], arrays["edge_data"].shape)
    one = heed.graph_attention(graph, **{**arrays, "edge_data": repeated}, **settings)
    copied = heed.graph_attention(graph, **{**arrays, "edge_data": repeated.copy()}, **settings)
    np.testing.assert_array_equal(one, copied)


def test_graph_needs_no_arrays_afterwards():
    sources, destinations = SOURCES.copy(), DESTINATIONS.copy()
    graph = heed.Graph(sources, destinations, nodes=NODES)
    sources[:] = destinations[:] = -1
    arrays, _, _ = case()
    np.testing.assert_array_equal(
        heed.graph_attention(graph, **arrays), heed.graph_attention(graph_of(False), **arrays)
    )


def test_out_and_in_place():
    arrays, settings, keep = case("shared", width=HEADS * VALUE_FEATURES, residual=True)
    graph = graph_of(keep)
    expected = heed.graph_attention(graph, **arrays, **settings)
    wide = np.zeros((NODES, 2 * HEADS * VALUE_FEATURES))
    out = wide[:, ::2]
    assert heed.graph_attention(graph, **arrays, **settings, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert (wide[:, 1::2] == 0).all()
    plan = heed.graph_attention_plan(graph, **arrays, **settings, out=arrays["data"])
    data = arrays["data"].copy()
    assert plan(data=data, out=data) is data
    np.testing.assert_array_equal(data, expected)


def test_empty_graphs():
    x = np.ones((0, 1, 3), np.float32)
    assert heed.graph_attention(heed.Graph([], [], nodes=0), x, x, x).shape == (0, 1, 3)


def test_describe():
    arrays, settings, keep = case("shared")
    context = heed.Context(threads=1, executor="serial")
    plan = heed.graph_attention_plan(graph_of(keep), **arrays, **settings, context=context)
    said = plan.describe()
    assert said["executor"] == "serial"
    assert said["threads"] == 1
    assert said["tasks"] >= 1
    assert set(said) == {
        "isa",
        "executor",
        "threads",
        "tasks",
        "workspace_bytes",
        "gathered_bytes",
    }


def test_threads_share_plans_and_graphs():
    random = np.random.default_rng(1)
    nodes, edges = 500, 5000  # so many that calls give the GIL back
    graph = heed.Graph(*random.integers(0, nodes, (2, edges)), nodes=nodes)
    tensors = [random.standard_normal((nodes, HEADS, 16)) for _ in range(3)]
    plan = heed.graph_attention_plan(graph, *tensors)
    inputs = [(1 + i / 10) * tensors[0] for i in range(12)]
    expected = [heed.graph_attention(graph, query, *tensors[1:]) for query in inputs]
    with ThreadPoolExecutor(12) as pool:
        for _ in range(5):
            outs = pool.map(lambda query: plan(query, *tensors[1:]), inputs)
            for out, one in zip(outs, expected, strict=True):
                np.testing.assert_array_equal(out, one)
