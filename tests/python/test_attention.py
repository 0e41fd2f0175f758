"""Every option of heed.attention, once, and every kind of array, beside the definition."""

import copy
import pickle

import numpy as np
import oracle
import pytest
from cases import CASES, SLOPES, Make, bias, mask
from kinds import Kind, assert_close, assert_like, lse_unit, needed, params

import heed

TOGETHER = [name for name in CASES if not name.startswith(("packed", "paged"))]


def four_axes(x):
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


@pytest.mark.parametrize("case", TOGETHER)
def test_every_option(case):
    query, key, value, options = CASES[case]()
    asked = {"return_column_sums": True, "return_lse": not options.get("hard")}
    found = heed.attention(query, key, value, **options, **asked)
    out, lse, weights = oracle.attention(*map(four_axes, (query, key, value)), **options)
    assert type(found) is heed.Result
    assert_close(four_axes(found.out), out, 2.0**-53, "out")
    sums = weights["probabilities"].sum(2)
    assert_close(found.column_sums.reshape(sums.shape), sums, 2.0**-53, "column sums")
    if asked["return_lse"]:
        assert_close(found.lse.reshape(lse.shape), lse, 2.0**-53, "lse")


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("packed")])
def test_packed_rows_are_sequences(case):
    query, key, value, options = CASES[case]()
    found = heed.attention(query, key, value, **options, return_lse=True)
    starts = {name: options.pop(f"cu_seqlens_{name}", None) for name in "qk"}
    for name in ("max_seqlen_q", "max_seqlen_k"):
        options.pop(name, None)

    def sequence(x, name, b):
        cu = starts[name]
        return x[b] if cu is None else np.swapaxes(x[cu[b] : cu[b + 1]], 0, 1)

    for b in range(2):
        q, k, v = (sequence(x, n, b) for x, n in ((query, "q"), (key, "k"), (value, "k")))
        alone = dict(options)
        if "bias" in options:
            alone["bias"] = options["bias"][: q.shape[1], : k.shape[1]]
        expected = heed.attention(q, k, v, **alone, return_lse=True)
        assert_close(sequence(found.out, "q", b), expected.out, 2.0**-53, "out")
        lse = found.lse[b] if starts["q"] is None else sequence(found.lse.T, "q", b)
        assert_close(lse, expected.lse, 2.0**-53, "lse")


@pytest.mark.parametrize("case", ["paged", "paged_short"])
@pytest.mark.parametrize("index", [np.int32, np.int64, list])
def test_pages(case, index):
    query, key, value, options = CASES[case]()
    table = options.pop("block_table")
    given = table.tolist() if index is list else table.astype(index)
    found = heed.attention(query, key, value, **options, block_table=given)
    key, value = (np.stack([np.concatenate(x[pages], 1) for pages in table]) for x in (key, value))
    options.pop("max_seqlen_k", None)
    assert_close(found, heed.attention(query, key, value, **options), 2.0**-53, "out")


@pytest.mark.parametrize("kind", params())
def test_every_kind_of_array(kind: Kind):
    """Masks may be arrays of any type too, and what models keep in the type of their weights."""
    make = needed(kind).make
    query, key, value, _ = Make(key_heads=2)()
    options = {"bias": bias(5, 7), "sinks": np.array(SLOPES), "alibi_slopes": np.array(SLOPES)}
    tensors = [make(x) for x in (query, key, value)]
    given = {name: make(x) for name, x in options.items()}
    boolean = mask(2, 1, 5, 7)
    of_kind = make(boolean.astype(float)) > 0
    found = heed.attention(*tensors, **given, attn_mask=of_kind, causal=True, return_lse=True)
    out, lse, _ = oracle.attention(
        *map(kind.back, tensors),
        **{name: kind.back(x) for name, x in given.items()},
        attn_mask=boolean,
        causal=True,
    )
    assert_like(kind, found.out, tensors[0])
    assert_close(kind.back(found.out), out, kind.unit, "out")
    assert_close(found.lse, lse, lse_unit(kind), "lse")


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


@pytest.mark.parametrize("point", [True, *oracle.POINTS])
def test_weights_of_some_rows(point):
    query, key, value, options = CASES["everything"]()
    del options["key_lengths"]
    expected = oracle.attention(query, key, value, **options)[2]
    expected = expected["probabilities" if point is True else point]
    for rows in (None, [0, 3], (4,), np.array([1, 2, 4]), np.array([1, 2], np.int32)):
        found = heed.attention(query, key, value, **options, return_weights=point, weight_rows=rows)
        some = slice(None) if rows is None else list(rows)
        assert_close(found.weights, expected[:, :, some], 2.0**-53, "weights")


@pytest.mark.parametrize(
    "mixed", [("float16", "float32", "float32"), ("float32", "float16", "float16")]
)
def test_mixed_types(mixed):
    query, key, value, _ = Make()()
    tensors = [x.astype(t) for x, t in zip((query, key, value), mixed, strict=True)]
    out = heed.attention(*tensors)
    assert out.dtype == mixed[0]
    unit = 2.0**-11 if mixed[0] == "float16" else 2.0**-24
    assert_close(out, oracle.attention(*tensors)[0], unit, "out")


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("pages", [{}, {"block_table": [[0], [1]], "key_lengths": [7, 7]}])
def test_int8_keys_and_values(library, pages):
    query, key, value, _ = Make(key_heads=2, keys=16)()
    arrays = [query.astype(np.float32), *quantised(key), *quantised(value)]
    numbers = [x * scales[..., None].astype(np.float64) for x, scales in (arrays[1:3], arrays[3:])]
    if library == "torch":
        torch = pytest.importorskip("torch")
        arrays = [torch.from_numpy(x) for x in arrays]
    q, k, key_scales, v, value_scales = arrays
    out = heed.attention(q, k, v, key_scales=key_scales, value_scales=value_scales, **pages)
    expected = oracle.attention(query, *numbers, key_lengths=pages.get("key_lengths", [16, 16]))
    assert_close(out, expected[0], 2.0**-24, "out")


def quantised(x):
    """int8 rows and their scales."""
    scales = np.abs(x).max(-1) / 127
    return np.rint(x / scales[..., None]).astype(np.int8), scales.astype(np.float32)


@pytest.mark.parametrize("library", ["ml_dtypes", "torch"])
def test_float8_keys(library):
    module = pytest.importorskip(library)
    query, key, value = (x.astype(np.float32) for x in Make()()[:3])
    if library == "torch":
        query, key, value = map(module.from_numpy, (query, key, value))
        key = key.to(module.float8_e4m3fn)
        numbers = key.double().numpy()
    else:
        key = key.astype(module.float8_e4m3fn)
        numbers = key.astype(np.float64)
    expected = oracle.attention(np.asarray(query), 0.5 * numbers, np.asarray(value))[0]
    for scale in (0.5, np.float32(0.5), np.array(0.5)):
        out = heed.attention(query, key, value, key_scales=scale)
        assert_close(out, expected, 2.0**-24, "out")


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


FAR = (-1e9, 1e9, -1e38, -3.4e38, 3.4e38, -1e39, 1e39, -1.7e308, 1.7e308)


@pytest.mark.parametrize("far", FAR)
def test_finite_biases_never_mask(far):
    """A row whose scores are all equal is the mean of the values, its gradients too."""
    q, v = np.zeros((5, 8), np.float32), np.random.default_rng(0).random((5, 8), np.float32)
    bias, grad = np.full((5, 5), far), np.ones((5, 8), np.float32)
    found = heed.attention(q, v, v, bias=bias, return_lse=True)
    assert np.isfinite(found.lse).all()
    given = dict(bias=bias, out=found.out, lse=found.lse, grad_out=grad)
    gradients = heed.attention_backward(q, v, v, **given, grad_bias=True)
    np.testing.assert_allclose(found.out, np.tile(v.mean(0), (5, 1)), rtol=1e-6)
    np.testing.assert_allclose(gradients.value, grad, rtol=1e-6)
    graph = heed.Graph(np.repeat(np.arange(5), 5), np.tile(np.arange(5), 5), nodes=5)
    heads = (x[:, None] for x in (q, v, v))
    edges = np.clip(bias, -3.4e38, 3.4e38).astype(np.float32).reshape(25, 1)
    out = heed.graph_attention(graph, *heads, edge_bias=edges)
    np.testing.assert_allclose(out[:, 0], found.out, rtol=1e-6)


def test_numbers_that_float32_cannot_hold():
    x = np.ones((1, 2, 3, 4), np.float32)
    for name in ("sinks", "alibi_slopes"):
        with pytest.raises(
            heed.ArgumentError, match=name + r"\[1\] is -1e\+39; it must be at most 3.4"
        ):
            heed.attention(x, x, x, **{name: [0.5, -1e39]})
