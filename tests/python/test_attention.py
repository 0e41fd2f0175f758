"""Every option, in every kind of array, against the definition in float64."""

import copy
import pickle

import numpy as np
import oracle
import pytest
from cases import CASES, SLOPES, Make, mask
from kinds import KINDS, Kind, assert_close, assert_like, lse_unit, needed, params

import heed

TENSORS = ("attn_mask", "bias")


def made(kind: Kind, name: str):
    """A case in arrays of the kind, and the same in NumPy with the numbers that these hold."""
    query, key, value, options = CASES[name]()
    given = dict(options)
    seen = dict(options)
    for option in TENSORS:
        if option in options:
            array = options[option]
            given[option] = as_mask(kind, array)
            seen[option] = array if array.dtype == bool else kind.rounded(array)
    tensors = [kind.make(x) for x in (query, key, value)]
    return tensors, given, [kind.back(x) for x in tensors], seen


def as_mask(kind, array):
    if array.dtype != bool:
        return kind.make(array)
    if kind.library != "torch":
        return array
    import torch

    return torch.from_numpy(array)


def expected_arrays(tensors, options):
    """out, lse, weights and column sums, in the shapes that heed gives them."""
    query, key, value = (np.asarray(x) for x in tensors)
    expected = oracle.attention(query, key, value, **options)
    if "cu_seqlens_q" in options:
        starts = options["cu_seqlens_q"]
        out = np.full((len(query), query.shape[1], value.shape[-1]), np.nan)
        lse = np.full((query.shape[1], len(query)), np.nan)
        for b, (o, e) in enumerate(zip(expected.out, expected.lse, strict=True)):
            out[starts[b] : starts[b + 1]] = np.swapaxes(o, 0, 1)
            lse[:, starts[b] : starts[b + 1]] = e
        return out, lse, expected
    if not expected.out:  # of no batch item
        return query, query[..., 0], expected
    whole = (len(expected.out), *expected.lse[0].shape)
    axes = max(
        query.ndim,
        0 if "block_table" in options or "cu_seqlens_k" in options else max(key.ndim, value.ndim),
    )
    out = np.array(expected.out).reshape(*whole, value.shape[-1])
    return (
        out[(0,) * (4 - axes)],
        np.array(expected.lse).reshape(whole)[(0,) * (4 - axes)],
        expected,
    )


def used_rows(options):
    """Packed rows that belong to a sequence; others are not written."""
    if "cu_seqlens_q" not in options:
        return slice(None)
    return slice(options["cu_seqlens_q"][0], options["cu_seqlens_q"][-1])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", params())
def test_every_option(kind, case):
    tensors, given, seen, options = made(needed(kind), case)
    out, lse, _ = expected_arrays(seen, options)
    asked = {} if options.get("hard") else {"return_lse": True}
    result = heed.attention(*tensors, **given, **asked, return_column_sums=True)
    assert type(result) is heed.Result
    assert_like(kind, result.out, tensors[0])
    rows = used_rows(options)
    assert_close(kind.back(result.out)[rows], out[rows], kind.unit, "out")
    if asked:
        assert_close(result.lse[..., rows], lse[..., rows], lse_unit(kind), "lse")


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


@pytest.mark.parametrize("point", oracle.POINTS)
@pytest.mark.parametrize("case", CASES)
def test_weights_and_column_sums(case, point):
    kind = KINDS[0]
    tensors, given, seen, options = made(kind, case)
    expected = oracle.attention(*seen, **options)
    plain = heed.attention(*tensors, **given)
    result = heed.attention(*tensors, **given, return_weights=point, return_column_sums=True)
    np.testing.assert_array_equal(result.out[used_rows(options)], plain[used_rows(options)])
    whole = four_axes(result.weights)
    sums = result.column_sums.reshape(whole.shape[0], whole.shape[1], whole.shape[3])
    for b, weights in enumerate(expected.weights[point]):
        heads, rows, keys = weights.shape
        assert_close(whole[b, :heads, :rows, :keys], weights, kind.unit, f"weights of item {b}")
        past = whole[b, :, :rows, keys:]
        assert (past == (-np.inf if point == "masked" else 0)).all()
        received = expected.weights["probabilities"][b].sum(1)
        assert_close(sums[b, :, :keys], received, kind.unit, f"column sums of item {b}")
        assert (sums[b, :, keys:] == 0).all()


def four_axes(x):
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def test_weights_of_some_rows():
    query, key, value, _ = (
        np.asarray(x, np.float32) if i < 3 else x for i, x in enumerate(Make()())
    )
    whole = heed.attention(query, key, value, return_weights=True).weights
    for rows in ([0, 3], (4,), np.array([1, 2, 4]), np.array([1, 2], np.int32)):
        some = heed.attention(query, key, value, return_weights="probabilities", weight_rows=rows)
        np.testing.assert_array_equal(some.weights, whole[:, :, list(rows)])


@pytest.mark.parametrize("kind", params())
def test_numbers_per_head_in_any_type(kind):
    """Models keep sinks and slopes in the type of their weights."""
    query, key, value, _ = Make()()
    tensors = [needed(kind).make(x) for x in (query, key, value)]
    given = kind.make(np.array(SLOPES))
    np.testing.assert_array_equal(
        kind.back(heed.attention(*tensors, sinks=given, alibi_slopes=given, causal=True)),
        kind.back(heed.attention(*tensors, sinks=SLOPES, alibi_slopes=SLOPES, causal=True)),
    )


@pytest.mark.parametrize(
    "mixed", [("float16", "float32", "float32"), ("float32", "float16", "float16")]
)
def test_mixed_types(mixed):
    query, key, value, _ = Make()()
    tensors = [x.astype(t) for x, t in zip((query, key, value), mixed, strict=True)]
    out = heed.attention(*tensors, attn_mask=mask(5, 7))
    assert out.dtype == mixed[0]
    expected = oracle.attention(*tensors, attn_mask=mask(5, 7)).out
    assert_close(out, np.array(expected), 2.0**-11 if mixed[0] == "float16" else 2.0**-24, "out")


def quantised(x):
    """int8 rows and their scales."""
    scales = np.abs(x).max(-1) / 127
    return np.rint(x / scales[..., None]).astype(np.int8), scales.astype(np.float32)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_int8_keys_and_values(library):
    query, key, value, _ = Make(key_heads=2)()
    (key, key_scales), (value, value_scales) = quantised(key), quantised(value)
    arrays = [query.astype(np.float32), key, value, key_scales, value_scales]
    expected = oracle.attention(
        arrays[0],
        key * key_scales[..., None].astype(np.float64),
        value * value_scales[..., None].astype(np.float64),
    )
    if library == "torch":
        torch = pytest.importorskip("torch")
        arrays = [torch.from_numpy(x) for x in arrays]
    q, k, v, ks, vs = arrays
    out = heed.attention(q, k, v, key_scales=ks, value_scales=vs)
    assert_close(out, np.array(expected.out), 2.0**-24, "out")


def test_int8_in_pages():
    random = np.random.default_rng(1)
    (key, key_scales), (value, value_scales) = (
        quantised(random.standard_normal((5, 2, 16, 8))) for _ in range(2)
    )
    query = random.standard_normal((2, 4, 3, 8)).astype(np.float32)
    pages = {"block_table": [[3, 0], [1, 4]], "key_lengths": [20, 9]}
    out = heed.attention(
        query, key, value, key_scales=key_scales, value_scales=value_scales, **pages
    )
    expected = oracle.attention(
        query,
        key * key_scales[..., None].astype(np.float64),
        value * value_scales[..., None].astype(np.float64),
        **pages,
    )
    assert_close(out, np.array(expected.out), 2.0**-24, "out")


@pytest.mark.parametrize("library", ["ml_dtypes", "torch"])
def test_float8_keys(library):
    module = pytest.importorskip(library)
    query, key, value, _ = Make()()
    query, value = query.astype(np.float32), value.astype(np.float32)
    if library == "torch":
        query, value = module.from_numpy(query), module.from_numpy(value)
        key = module.from_numpy(key).to(module.float8_e4m3fn)
        numbers = key.double().numpy()
    else:
        key = key.astype(module.float8_e4m3fn)
        numbers = key.astype(np.float64)
    for scale in (0.5, np.float32(0.5), np.array(0.5)):
        out = heed.attention(query, key, value, key_scales=scale)
        expected = oracle.attention(np.asarray(query), 0.5 * numbers, np.asarray(value))
        assert_close(out, np.array(expected.out), 2.0**-24, "out")


def test_pytorch_agrees():
    torch = pytest.importorskip("torch")
    query, key, value = (torch.from_numpy(x).float() for x in Make(key_heads=2)()[:3])
    sdpa = torch.nn.functional.scaled_dot_product_attention
    boolean = torch.from_numpy(mask(2, 1, 5, 7))
    boolean[..., 0] = True
    for options in (
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": boolean},
        {"attn_mask": torch.randn(5, 7)},
        {"attn_mask": torch.randn(4, 1, 7)},
    ):
        expected = sdpa(query, key, value, enable_gqa=True, **options)
        if "is_causal" in options:
            options = {"causal": options["is_causal"]}
        torch.testing.assert_close(heed.attention(query, key, value, **options), expected)
