"""What functions of gradients are asked for, and give; test_bits.py has the numbers."""

import numpy as np
import pytest
from cases import PARAMETERS, PROJECTED, SHARED, block, everything, graph_of, prepared_of, tensors

import heed


def dense(**options):
    """Arguments of heed.attention_backward."""
    query, key, value = tensors(np.float64, key_heads=2)
    found = heed.attention(query, key, value, **options, return_lse=True)
    given = {"query": query, "key": key, "value": value, "out": found.out, "lse": found.lse}
    return {**given, "grad_out": np.ones_like(found.out), **options}


def of_block(**options):
    return {**block(np.float64, **options), "grad_out": np.ones((2, 5, 9))}


def over_graph():
    return {**SHARED, "graph": graph_of(reverse=True), "grad_out": np.ones((6, 15))}


# What is called, arguments, and gradients besides query's.
FUNCTIONS = {
    "dense": (heed.attention_backward, dense, ("key", "value", "sinks", "alibi_slopes", "bias")),
    "of_block": (heed.multihead_backward, of_block, PARAMETERS),
    "over_graph": (heed.graph_attention_backward, over_graph, ("w_query", "w_key", "w_value")),
}
of_all = pytest.mark.parametrize("name", FUNCTIONS)


def called(name):
    call, make, others = FUNCTIONS[name]
    given = make(**everything()) if name == "dense" else make()
    return call, given, ("data" if "data" in given else "query", *others)


@of_all
def test_accumulates(name):
    call, given, names = called(name)
    once = call(**given, **{f"grad_{n}": True for n in names})
    arrays = {f"grad_{n}": np.full(np.shape(given[n]), 0.5) for n in names}
    numbers = {} if name == "over_graph" else {"grad_scale": True}
    for _ in range(2):
        sums = call(**given, **arrays, **numbers, accumulate=True)
    for n in names:
        assert getattr(sums, n) is arrays[f"grad_{n}"]
        expected = 2 * getattr(once, n) + 0.5
        np.testing.assert_allclose(getattr(sums, n), expected, rtol=1e-12, atol=1e-12)
    if numbers:  # which begin at 0
        assert sums.scale == pytest.approx(call(**given, **numbers).scale, rel=1e-12)


def test_wider_sums_are_not_rounded():
    """Of a float64 gradient of float32 arithmetic, which adds less than float32 could tell."""
    there = float(2**24 + 1)
    query, key, value = tensors(np.float32)
    found = heed.attention(query, key, value, return_lse=True)
    given = query, key, value, found.out, found.lse, np.ones_like(found.out)
    bias = np.zeros((5, 7))
    once = heed.attention_backward(*given, bias=bias, grad_bias=True).bias
    sums = np.full((7, 5), there).T  # of any strides
    heed.attention_backward(*given, bias=bias, grad_bias=sums, accumulate=True)
    np.testing.assert_array_equal(sums, there + once)
    graph, edges = graph_of(reverse=True), np.zeros((11, 3))
    nodes = {n: x.astype(np.float32) for n, x in PROJECTED.items()}
    given = {**nodes, "edge_bias": edges, "grad_out": np.ones((6, 3, 4), np.float32)}
    once = heed.graph_attention_backward(graph, **given).edge_bias
    sums = np.full((11, 3), there)
    heed.graph_attention_backward(graph, **given, grad_edge_bias=sums, accumulate=True)
    np.testing.assert_array_equal(sums, there + once)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_narrow_gradients_of_several_steps(dtype, accumulate):
    """Of all that C sums over steps where it lies: each is its tensor's shape and type."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    random = np.random.default_rng(3)
    given = {
        "data": (6, 4),
        **{f"w_{name}": (6, 4, 4) for name in ("query", "key", "value")},
        "edge_data": (11, 3),
        **{f"w_edge_{name}": (3, 4) for name in ("key", "value")},
        "edge_bias": (11, 2),
    }
    small = {n: 0.3 * random.standard_normal(x) for n, x in given.items()}
    wide = {n: x.astype(dtype).astype(np.float32) for n, x in small.items()}
    narrow = {n: x.astype(dtype) for n, x in wide.items()}
    found = []
    for tensors_of in (wide, narrow):
        there = {}
        if accumulate:
            there = {f"grad_{n}": np.full_like(x, 0.5) for n, x in tensors_of.items()}
        more = {"heads": 2, "steps": 3, "grad_out": np.ones((6, 4), tensors_of["data"].dtype)}
        graph = graph_of(reverse=True)
        gradients = heed.graph_attention_backward(
            graph, **tensors_of, **more, **there, accumulate=accumulate
        )
        found.append({n: getattr(gradients, n) for n in given})
        assert all(gradients is there[f"grad_{n}"] for n, gradients in found[-1].items() if there)
    for n, expected in found[0].items():
        assert (found[1][n].shape, found[1][n].dtype) == (given[n], dtype)
        error = np.abs(found[1][n].astype(np.float32) - expected).max()
        assert error <= 0.05 * np.abs(expected).max(), n


def test_what_is_wanted_by_default():
    given = dense()
    found = heed.attention_backward(**given)
    assert [x is not None for x in found] == [True] * 3 + [False] * (len(found) - 3)
    scale = heed.attention_backward(**given, grad_scale=True).scale
    assert type(scale) is float
    assert scale == heed.attention_backward(**given, scale=8**-0.5, grad_scale=True).scale
    off = dict.fromkeys(("grad_query", "grad_key", "grad_value"), False)
    assert set(heed.attention_backward(**given, **off)) == {None}


def test_repeated_tensors_get_sums():
    """In their shapes, of axes that they lack or have one element of."""
    given = dense()
    one = {"key": given["key"][:1], "value": given["value"][0, :1]}
    full = {n: np.ascontiguousarray(np.broadcast_to(x, (2, 2, 7, 8))) for n, x in one.items()}
    found = heed.attention(given["query"], **full, return_lse=True)
    given |= {"out": found.out, "lse": found.lse}
    expected = heed.attention_backward(**{**given, **full})
    into = {"grad_key": np.full((1, 2, 7, 8), 0.5), "accumulate": True}
    for more, before in (({}, 0), (into, 0.5)):
        summed = heed.attention_backward(**{**given, **one}, **more)
        np.testing.assert_allclose(summed.key, before + expected.key.sum(0, keepdims=True))
        np.testing.assert_allclose(summed.value, expected.value.sum((0, 1))[None])


def test_derivatives_of_callables():
    """They are told of which scores; of one head alone it is a scale and a bias."""
    b, i, j = np.ogrid[:2, :5, :7]
    bias = 0.1 * (b + i - j)[:, None]

    def gradient(g, s, b, h, i, j):
        assert s.shape == g.shape == np.broadcast_shapes(np.shape(h), np.shape(i), np.shape(j))
        return g * (1 + h)

    given = dense(score_function=lambda s, b, h, i, j: s * (1 + h) + 0.1 * (b + i - j))
    found = heed.attention_backward(**given, score_gradient=gradient)
    for h in range(4):
        of = slice(h, h + 1)
        alone = {n: given[n][:, of] for n in ("query", "out", "lse", "grad_out")}
        alone |= {n: given[n][:, h // 2 : h // 2 + 1] for n in ("key", "value")}
        expected = heed.attention_backward(**alone, scale=8**-0.5 * (1 + h), bias=bias)
        np.testing.assert_allclose(found.query[:, of], expected.query, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["dense", "of_block"])
def test_what_a_derivative_raises_comes_out(name):
    error = ZeroDivisionError("by 0")

    def fail(*_):
        raise error

    call, make, _ = FUNCTIONS[name]
    with pytest.raises(ZeroDivisionError) as caught:
        call(**make(score_function=lambda s, *_: s), score_gradient=fail)
    assert caught.value is error


@of_all
def test_tensors_that_require_gradients_are_refused(name):
    torch = pytest.importorskip("torch")
    call, given, (first, *_) = called(name)
    given = {n: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for n, x in given.items()}
    given[first].requires_grad_()
    with pytest.raises(heed.ArgumentError, match=f"{first} requires gradients, which only heed.to"):
        call(**given)
    with torch.no_grad():
        call(**given)


def test_prepared_matrices():
    """Of heed.Weights biases' gradients come on request."""
    given = of_block()
    prepared = {**prepared_of(given), "grad_out": given["grad_out"]}
    assert heed.multihead_backward(**prepared).b_query is None
    assert heed.multihead_backward(**prepared, grad_b_query=True).b_query.shape == (24,)


def forward(given):
    return {name: x for name, x in given.items() if name != "grad_out"}


def test_from_what_was_kept():
    """It is read, and once filled stays; test_bits.py has the bits of gradients.

    With a query of other numbers only the product with the query itself is another.
    """
    given, keep = of_block(), heed.Kept()
    expected = heed.multihead_backward(**given)
    assert keep.nbytes == 0
    asked = {"return_lse": True, "return_column_sums": True}
    plain, kept = (
        heed.multihead(**forward(given)),
        heed.multihead(**forward(given), **asked, keep=keep),
    )
    np.testing.assert_array_equal(kept.out, plain)
    size = keep.nbytes
    assert size > 0
    found = heed.multihead_backward(**{**given, "query": given["query"] + 1}, keep=keep)
    assert keep.nbytes == size
    np.testing.assert_array_equal(found.query, expected.query)


def test_kept_for_another_block():
    given, other = of_block(), of_block(causal=True, key_heads=4, return_lse=True)
    keep = heed.Kept()
    other["query"] = other["query"][:, :3]
    heed.multihead(**forward(other), keep=keep)
    with pytest.raises(heed.ArgumentError, match="^keep was filled by a call with other shapes"):
        heed.multihead_backward(**given, keep=keep)
    with pytest.raises(heed.Error, match="hard"):
        heed.multihead(**forward(given), hard=True, keep=keep)
    with pytest.raises(TypeError, match=r"^keep must be a heed\.Kept or None, not int"):
        heed.multihead(**forward(given), keep=1)
