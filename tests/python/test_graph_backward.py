"""heed.graph_attention_backward beside differences, and itself in other types; what it refuses."""

import numpy as np
import pytest
from differences import Loss
from kinds import assert_close, assert_like, needed, params
from refusals import refusals
from test_graph import CASES, DESTINATIONS, EDGES, HEADS, NODES, SOURCES, VALUE_FEATURES, case

import heed

ALL = {
    **{name: make for name, make in CASES.items() if name != "hard"},
    "shared_weighted": lambda: case("shared", combine="weighted", softcap=1.5, temperature=0.7),
    "bias_in_a_column": lambda: case("projected", edges=["shared_bias"]),
    "per_node_steps": lambda: case("per_node", width=HEADS * VALUE_FEATURES, steps=2),
}
NOT_ROUNDED = ("b_query", "b_key", "b_value", "head_weights")


def graph_of(keep, **options):
    duplicates = "keep" if keep else None
    return heed.Graph(
        SOURCES, DESTINATIONS, nodes=NODES, duplicates=duplicates, reverse=True, **options
    )


class OverGraph(Loss):
    """Of heed.graph_attention, by everything that it has gradients of."""

    def __init__(self, name):
        arguments, self.settings, keep = ALL[name]()
        if name == "bias_in_a_column":
            arguments["edge_bias"] = arguments["edge_bias"][:, None]
        self.graph = graph_of(keep)
        if "head_weights" in self.settings:
            arguments["head_weights"] = np.array(self.settings.pop("head_weights"))

        def forward(arguments):
            return heed.graph_attention(self.graph, **arguments, **self.settings, return_lse=True)

        super().__init__(arguments, forward)

    def gradients(self, arguments=None, **changes):
        arguments = self.arguments if arguments is None else arguments
        more = {"grad_out": self.grad_out, "grad_lse": self.grad_lse, **changes}
        return heed.graph_attention_backward(self.graph, **arguments, **self.settings, **more)


@pytest.mark.parametrize("name", ALL)
def test_differences(name):
    loss = OverGraph(name)
    loss.check(loss.gradients())


@pytest.mark.parametrize("name", ["all_of_edges", "shared_edges", "shared_residual", "per_node"])
@pytest.mark.parametrize("kind", params())
def test_types_and_kinds_of_arrays(kind, name):
    needed(kind)
    loss = OverGraph(name)
    for of, x in loss.arguments.items():
        loss.arguments[of] = kind.rounded(x)
    loss.grad_out = kind.rounded(loss.grad_out)
    expected = loss.gradients()
    given = {of: kind.make(x) for of, x in loss.arguments.items()}
    found = loss.gradients(given, grad_out=kind.make(loss.grad_out))
    exact = 2.0**-53 if kind.element == "float64" else 2.0**-24
    for of, x in given.items():
        gradient, right = getattr(found, of), getattr(expected, of)
        size = max(1.0, float(np.abs(right).max()))  # terms as large as the largest cancel
        if of not in NOT_ROUNDED:
            assert_like(kind, gradient, x)
            gradient = kind.back(gradient)
        unit = exact if of in NOT_ROUNDED else kind.unit
        assert_close(np.asarray(gradient) / size, right / size, unit, of)


def test_into_arrays_of_the_caller():
    loss = OverGraph("all_of_edges")
    expected = loss.gradients()
    room = np.full((NODES, HEADS, 8), 7.0)
    query = room[..., ::2]
    bias = np.zeros((HEADS, len(EDGES))).T
    w_edge_key = np.zeros(expected.w_edge_key.shape[::-1]).T
    found = loss.gradients(grad_query=query, grad_edge_bias=bias, grad_w_edge_key=w_edge_key)
    assert found.query is query
    assert found.edge_bias is bias
    assert found.w_edge_key is w_edge_key
    for name in ("query", "edge_bias", "w_edge_key", "w_edge_value"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (room[..., 1::2] == 7).all()


@pytest.mark.parametrize("name", ["all_of_edges", "shared_steps", "per_node"])
def test_accumulates(name):
    loss = OverGraph(name)
    once = loss.gradients()
    arrays = {f"grad_{n}": np.full(x.shape, 0.5) for n, x in loss.arguments.items()}
    for _ in range(2):
        loss.gradients(**arrays, accumulate=True)
    for of, array in arrays.items():
        gradient = getattr(once, of.removeprefix("grad_"))
        np.testing.assert_allclose(array, 2 * gradient + 0.5, rtol=1e-12, atol=1e-12)


def test_only_what_is_wanted():
    loss = OverGraph("shared_edges")
    whole = loss.gradients()
    off = {f"grad_{n}": False for n in loss.arguments}
    assert set(loss.gradients(**off)) == {None}
    for name in ("data", "w_value", "b_key", "edge_data", "edge_bias"):
        some = loss.gradients(**{**off, f"grad_{name}": True})
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
        assert sum(x is not None for x in some) == 1


def test_what_takes_no_part_gets_zero():
    found = OverGraph("edge_bias").gradients()
    assert (found.query[3] == 0).all()  # has no incoming edges
    assert (found.key[4] != 0).any()  # its self-loop alone
    assert (found.edge_bias[5] == 0).all()  # a duplicate that was removed
    assert found.edge_bias[1, 0] == 0  # -inf excludes it


def test_bits_do_not_depend_on_threads():
    random = np.random.default_rng(1)
    nodes, edges = 500, 5000
    graph = heed.Graph(*random.integers(0, nodes, (2, edges)), nodes=nodes, reverse=True)
    query, key, value, grad_out = random.standard_normal((4, nodes, HEADS, 16), dtype=np.float32)
    results = [
        heed.graph_attention_backward(
            graph, query, key, value, grad_out=grad_out, context=heed.Context(threads=threads)
        )
        for threads in (1, 2, 3)
    ]
    for result in results[1:]:
        for of in ("query", "key", "value"):
            np.testing.assert_array_equal(getattr(result, of), getattr(results[0], of))


def test_reverse_is_said_and_costs_memory():
    with_reverse, without = (
        heed.Graph(SOURCES, DESTINATIONS, nodes=NODES, reverse=on).describe()
        for on in (True, False)
    )
    assert with_reverse["reverse"] is True
    assert without["reverse"] is False
    assert with_reverse["bytes"] > without["bytes"]
    csr = heed.Graph.from_csr([0, 1, 3], [0, 1, 1], reverse=True)
    x = np.ones((2, 1, 3))
    gradient = heed.graph_attention_backward(csr, x, x, x, grad_out=x).value
    np.testing.assert_allclose(gradient[:, 0, 0], [1, 1])


def test_tensors_that_require_gradients_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.ones(NODES, 1, 3)
    with pytest.raises(heed.ArgumentError, match="key requires gradients, which only heed.torch"):
        heed.graph_attention_backward(graph_of(True), x, x.clone().requires_grad_(), x, grad_out=x)


F32 = np.float32
GRAPH = heed.Graph([0, 1, 2], [2, 2, 0], nodes=4, reverse=True)
X, DATA, W = np.ones((4, 2, 3), F32), np.ones((4, 6), F32), np.zeros((6, 6), F32)
PROJECTED = {"query": X, "key": X, "value": X, "grad_out": X}
SHARED = {"data": DATA, "w_query": W, "w_key": W, "w_value": W, "heads": 2, "grad_out": DATA}
BIAS = np.zeros((3, 2), F32)
REFUSED = [
    (
        PROJECTED,
        dict(graph=heed.Graph([0, 1, 2], [2, 2, 0], nodes=4)),
        "graph was made without reverse=True, which gradients need",
    ),
    (PROJECTED, dict(grad_out=DATA), r"grad_out has shape \[4, 6\]; it must have \[4, 2, 3\], as"),
    (PROJECTED, dict(grad_out=X.astype(float)), "grad_out is float64 but query is float32"),
    (
        PROJECTED,
        dict(grad_lse=np.ones((4, 3), F32)),
        r"grad_lse has shape \[4, 3\]; it must have \[4, 2\], as the lse of the result has",
    ),
    (
        PROJECTED,
        dict(grad_query=X[:3].copy()),
        r"grad_query has shape \[3, 2, 3\]; the gradient ha",
    ),
    (PROJECTED, dict(grad_data=True), "grad_data is wanted, but no data is given"),
    (
        PROJECTED,
        dict(grad_w_edge_key=True),
        "grad_w_edge_key is wanted, but no w_edge_key is given",
    ),
    (PROJECTED, dict(grad_edge_bias=True), "grad_edge_bias is wanted, but no edge_bias is given"),
    (
        PROJECTED,
        dict(edge_bias=np.broadcast_to(F32(0), (3, 2))),
        r"grad_edge_bias is wanted, but edge_bias repeats a number for all heads; give it as \[edg",
    ),
    (
        PROJECTED,
        dict(edge_bias=BIAS, grad_edge_bias=np.zeros(3, F32)),
        r"grad_edge_bias has shape \[3\]; the gradient has \[3, 2\]",
    ),
    (SHARED, dict(grad_query=True), "grad_query is wanted, but no query is given"),
    (SHARED, dict(grad_b_key=True), "grad_b_key is wanted, but no b_key is given"),
    (
        SHARED,
        dict(b_key=W[0], grad_b_key=np.zeros(6, np.float16)),
        r"grad_b_key is float16 \[6\] with strides \[1\]; it must be contiguous float32",
    ),
    (SHARED, dict(grad_w_key=W[:, :4].copy()), r"grad_w_key has shape \[6, 4\]; the gradient has"),
    (SHARED, dict(grad_head_weights=True), "grad_head_weights is wanted, but no head_weights is"),
]
UNSUPPORTED = [
    (PROJECTED, dict(hard=True), "hard is True; it must be False: hard attention is not different"),
    (
        SHARED,
        dict(w_value=heed.Weights(W)),
        "w_value is heed.Weights; gradients need the array that they were made from, and its bias",
    ),
    (
        SHARED,
        dict(
            steps=2,
            edge_data=np.zeros((3, 5), F32),
            w_edge_key=np.zeros((5, 6), F32),
            grad_edge_data=np.zeros((3, 5), np.float16),
        ),
        "grad_edge_data has 2 bytes an element; with steps 2 it must have 4 or more, because the",
    ),
]
WRONG_TYPES = [
    (
        PROJECTED,
        dict(grad_query=1),
        "grad_query must be True, False or an array to write to, not 1",
    ),
    (PROJECTED, dict(accumulate="no"), "accumulate must be True or False, not 'no'"),
    (PROJECTED, dict(return_lse=True), r"graph_attention_backward\(\) got an unexpected keyword"),
    (PROJECTED, dict(causal=True), "unexpected keyword argument 'causal'"),
    (PROJECTED, dict(graph=3), "graph must be a heed.Graph, not int"),
    (PROJECTED, dict(grad_out=None), "grad_out must be an array"),
    (PROJECTED, dict(key=None), "query is given but key is None; give query, key and value, or"),
]


@pytest.mark.parametrize(
    ("given", "change", "message", "kind"), refusals(REFUSED, UNSUPPORTED, WRONG_TYPES)
)
def test_refused(given, change, message, kind):
    shape = X.shape if given is PROJECTED else W.shape
    name = "grad_value" if given is PROJECTED else "grad_w_value"
    written = np.full(shape, 7, F32)
    with pytest.raises(kind, match=message):
        heed.graph_attention_backward(**{"graph": GRAPH, **given, name: written, **change})
    assert (written == 7).all()


@pytest.mark.parametrize(
    "made",
    [
        lambda **x: heed.Graph([0], [0], nodes=1, **x),
        lambda **x: heed.Graph.from_csr([0, 1], [0], **x),
    ],
)
def test_reverse_is_a_bool(made):
    with pytest.raises(TypeError, match="reverse must be True or False, not 1"):
        made(reverse=1)
