"""What heed.Graph, heed.graph_attention and its plan refuse, and in which words."""

import numpy as np
import pytest

import heed

F32 = np.float32
SOURCES, DESTINATIONS = np.array([0, 1, 2]), np.array([2, 2, 0])
GRAPHS = [
    (dict(sources=[0, 1, 4]), r"sources\[2\] is 4; it must be 0 to 3"),
    (dict(destinations=[0, -1, 2]), r"destinations\[1\] is -1; it must be 0 to 3"),
    (dict(sources=[0, 1]), "sources has 2 entries and destinations 3; an edge is one of each"),
    (dict(sources=SOURCES.astype(F32)), "sources is float32; it must be int32 or int64"),
    (dict(sources=SOURCES[None]), r"sources has shape \[1, 3\]; it must have 1 axis"),
    (dict(nodes=-1), "nodes is -1; it must be 0 to 2147483647"),
    (dict(nodes=0), r"sources\[0\] is 0; nodes is 0"),
    (
        dict(source_nodes=0),
        "source_nodes is 0; it must be at least 1, or None: edges lead from the",
    ),
    (dict(source_nodes=2), r"sources\[2\] is 2; it must be 0 to 1"),
    (dict(duplicates="drop"), 'duplicates is \'drop\'; it must be "remove", "keep" or None'),
]
GRAPH_TYPES = [
    (dict(sources=None), "sources must be an array"),
    (dict(sources=[0, 1.5, 2]), r"sources\[1\] must be an int, not float"),
    (dict(nodes="4"), "nodes must be an int, not str"),
    (dict(nodes=None), "nodes must be an int, not NoneType"),
    (dict(context=4), "context must be a heed.Context, not int"),
]
CSR = [
    (dict(offsets=[]), "offsets is empty; it must hold one number more than there are nodes"),
    (dict(offsets=[1, 2, 3]), r"offsets\[0\] is 1; it must be 0"),
    (dict(offsets=[0, 2, 1, 3]), r"offsets\[2\] is 1; it must be 2 to 3"),
    (dict(offsets=[0, 1, 2]), r"offsets\[2\] is 2; the last must be the number of edges, 3"),
    (dict(sources=[0, 1, 2]), r"sources\[2\] is 2; it must be 0 to 1"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in GRAPHS] + [(*row, TypeError) for row in GRAPH_TYPES],
)
def test_graphs(changes, message, error):
    with pytest.raises(error, match=message):
        heed.Graph(**{"sources": SOURCES, "destinations": DESTINATIONS, "nodes": 4, **changes})


@pytest.mark.parametrize(("changes", "message"), CSR)
def test_csr(changes, message):
    with pytest.raises(heed.ArgumentError, match=message):
        heed.Graph.from_csr(**{"offsets": [0, 1, 3], "sources": [0, 1, 1], **changes})


GRAPH = heed.Graph(SOURCES, DESTINATIONS, nodes=4)
X = np.zeros((4, 2, 3), F32)
DATA = np.zeros((4, 6), F32)
W = np.zeros((6, 6), F32)
EDGE_DATA = np.zeros((3, 5), F32)
W_EDGE = np.zeros((5, 6), F32)
PROJECTED = {"query": X, "key": X, "value": X}
SHARED = {"data": DATA, "w_query": W, "w_key": W, "w_value": W, "heads": 2}

ARGUMENTS = [
    (PROJECTED, dict(query=X[:3]), r"query is float32 \[3, 2, 3\]; it must have a row for each of"),
    (PROJECTED, dict(query=X[0]), r"query has shape \[2, 3\]; it must have axes \[nodes, heads, f"),
    (PROJECTED, dict(key=X[:, :1]), "query is .*, key is .*, value is .*; heads, and features of"),
    (PROJECTED, dict(key=X[..., :2]), "heads, and features of query and key, must be the same"),
    (PROJECTED, dict(key=X.astype(float)), "key is float64 but query is not; all must be float64"),
    (PROJECTED, dict(query=X.astype(int)), "query is int64; it must be float32, float64"),
    (PROJECTED, dict(query=X[..., :0]), r"query is float32 \[4, 2, 0\]; it must have features"),
    (PROJECTED, dict(w_key=W), "w_key is given beside query, key and value; it belongs to data"),
    (PROJECTED, dict(b_key=W[0]), "b_key is given; only matrices that all nodes share have biases"),
    (PROJECTED, dict(heads=3), r"heads is 3; query is float32 \[4, 2, 3\]"),
    (PROJECTED, dict(steps=2), "steps is 2; query, key and value do not change, so it must be 1"),
    (PROJECTED, dict(steps=0), "steps is 0; it must be at least 1"),
    (
        PROJECTED,
        dict(residual=True, data=DATA[:, :5]),
        "data has 5 features; with residual it must have as many as a row of the result, 6",
    ),
    (
        PROJECTED,
        dict(edge_bias=np.zeros((3, 4), F32)),
        r"edge_bias is float32 \[3, 4\]; it must have a number for each of the 2 heads, or one",
    ),
    (
        PROJECTED,
        dict(edge_bias=np.zeros((4, 2), F32)),
        r"edge_bias is float32 \[4, 2\]; it must have a row for each of the 3 edges given",
    ),
    (PROJECTED, dict(w_edge_key=W_EDGE), "w_edge_key is given without edge_data"),
    (
        PROJECTED,
        dict(edge_data=EDGE_DATA, w_edge_key=W),
        r"w_edge_key is float32 \[6, 6\]; it must be \[in, out\] with in 5, as edge_data",
    ),
    (
        PROJECTED,
        dict(edge_data=EDGE_DATA, w_edge_value=W_EDGE[:, :5]),
        "w_edge_value has 5 columns; it must have 6, for 2 heads of 3 features",
    ),
    (PROJECTED, dict(combine="tensor"), 'combine is \'tensor\'; it must be "concat", "weighted", '),
    (PROJECTED, dict(combine="weighted"), 'head_weights is None; combine="weighted" needs'),
    (PROJECTED, dict(scale=0), "scale is 0; for weights"),
    (PROJECTED, dict(softcap=-1), "^softcap is -1; it must be finite"),
    (PROJECTED, dict(temperature=-1), "temperature is -1; it must be above 0"),
    (PROJECTED, dict(hard=True, temperature=2), "temperature is given with hard"),
    (PROJECTED, dict(hard=True, return_lse=True), "return_lse is given with hard"),
    (PROJECTED, dict(out=np.zeros((4, 6), F32)), r"out has shape \[4, 6\]; the result has \[4, 2,"),
    (PROJECTED, dict(out=np.zeros((4, 2, 3))), "out is float64 but query is float32"),
    (SHARED, dict(heads=4), "w_query has 6 columns, which 4 heads cannot share"),
    (SHARED, dict(heads=0), "heads is 0; it must be at least 1"),
    (SHARED, dict(w_key=W[:, :4]), "w_key has 4 columns; it must have 6, for 2 heads of 3"),
    (SHARED, dict(w_key=W[:4]), r"w_key is float32 \[4, 6\]; it must be .* in 6, as data"),
    (SHARED, dict(w_key=W.astype(float)), "w_key is float64 but data is not"),
    (SHARED, dict(b_key=W[0, :4]), r"b_key has shape \[4\]; it must have \[6\]"),
    (
        SHARED,
        dict(w_key=heed.Weights(W), b_key=W[0]),
        "b_key is given, but w_key is heed.Weights, which have their bias inside",
    ),
    (
        SHARED,
        dict(w_query=np.zeros((4, 6, 6), F32)),
        r"w_key has shape \[6, 6\]; it must have axes",
    ),
    (
        SHARED,
        dict.fromkeys(("w_query", "w_key", "w_value"), np.zeros((3, 6, 6), F32)),
        r"w_query is float32 \[3, 6, 6\]; it must have a matrix for each of the 4 nodes",
    ),
    (
        SHARED,
        dict(steps=2, w_value=W[:, :4]),
        "data has 6 features; with steps above 1 it must have as many as a row of the result, 4",
    ),
    (SHARED, dict(out=np.zeros((4, 2, 3), F32)), r"out has shape \[4, 2, 3\]; the result has \[4,"),
]
TYPES = [
    (PROJECTED, dict(graph=3), "graph must be a heed.Graph, not int"),
    (PROJECTED, dict(key=None), "query is given but key is None; give query, key and value, or"),
    (PROJECTED, dict(query=None), "query is None but key is given"),
    (PROJECTED, dict(data=DATA), "data is given beside query, key and value, which only residual"),
    (PROJECTED, dict(residual=True), "data is None; residual=True adds to it"),
    (PROJECTED, dict(residual=1), "residual must be True or False, not 1"),
    (PROJECTED, dict(edge_data=EDGE_DATA), "edge_data is given without w_edge_key or w_edge_value"),
    (
        PROJECTED,
        dict(edge_data=EDGE_DATA, w_edge_key=heed.Weights(W_EDGE)),
        "w_edge_key must be an array, not heed.Weights, which edges do not take",
    ),
    (PROJECTED, dict(steps=1.5), "steps must be an int, not float"),
    (
        PROJECTED,
        dict(return_weights="scores"),
        "return_weights must be True or False, not",
    ),
    (PROJECTED, dict(causal=True), "unexpected keyword argument 'causal'"),
    (SHARED, dict(data=None), "data is None; w_query, w_key and w_value are multiplied with it"),
    (SHARED, dict(w_key=None), "w_key is None; give query, key and value, or data with w_query, "),
    (SHARED, dict(heads=None), "heads is None; it must be given with data"),
]


@pytest.mark.parametrize(
    ("given", "changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in ARGUMENTS] + [(*row, TypeError) for row in TYPES],
)
@pytest.mark.parametrize("function", [heed.graph_attention, heed.graph_attention_plan])
def test_refused(function, given, changes, message, error):
    shape = (4, 2, 3) if given is PROJECTED else (4, 6)
    out = np.full(shape, 7, F32)
    plain = "combine" not in changes and "w_value" not in changes
    more = {"out": out} if plain else {}
    with pytest.raises(error, match=message):
        function(**{"graph": GRAPH, **given, **more, **changes})
    assert (out == 7).all()


PLANS = [
    (
        dict(query=X.astype(np.float16)),
        heed.ArgumentError,
        "query is float16 .*; the plan was",
    ),
    (dict(query=np.asfortranarray(X)), heed.ArgumentError, r"query has strides \[1, 4, 8\]; the p"),
    (dict(query=np.zeros((4, 2, 5), F32)), heed.ArgumentError, "query is .*, key is .*, value is"),
    (dict(edge_bias=None), TypeError, "the plan was made with edge_bias: give it"),
    (dict(data=DATA), TypeError, "data is given, but the plan was made without"),
    (dict(w_query=W), TypeError, r"GraphAttentionPlan.__call__\(\) got an unexpected .* 'w_query'"),
]


@pytest.mark.parametrize(("changes", "error", "message"), PLANS)
def test_plan_refuses(changes, error, message):
    given = {**PROJECTED, "edge_bias": np.zeros((3, 2), F32)}
    plan = heed.graph_attention_plan(GRAPH, **given)
    with pytest.raises(error, match=message):
        plan(**{**given, **changes})
