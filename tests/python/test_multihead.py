"""heed.multihead, its plan and heed.Weights, beside heed.attention between products of NumPy."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kinds import KINDS, Kind, assert_close, assert_like, block_units, needed, tiles

import heed

BATCH, ROWS, KEYS, WIDTH, KEY_WIDTH, FEATURES, VALUE_FEATURES = 2, 5, 7, 12, 10, 6, 5
MATRICES = ("w_query", "w_key", "w_value", "w_out")
BIASES = ("b_query", "b_key", "b_value", "b_out")
# What calls of a plan are given anew.
TENSORS = {
    *("attn_mask", "bias", "alibi_slopes", "sinks", "key_lengths", "cu_seqlens_q", "cu_seqlens_k"),
    *("block_table", "key_scales", "value_scales"),
}


def block(heads=4, key_heads=None, cross=False, combine="concat", biases=True, **options):
    """Inputs, matrices and options of a block, in float64."""
    random = np.random.default_rng(5)
    shared = key_heads or heads
    source = KEY_WIDTH if cross else WIDTH
    rows = {"concat": [(heads * VALUE_FEATURES, 9)], "tensor": [(heads, VALUE_FEATURES, 9)]}
    shapes = [
        (WIDTH, heads * FEATURES),
        (source, shared * FEATURES),
        (source, shared * VALUE_FEATURES),
        *rows.get(combine, []),
    ]
    arrays = {"query": random.standard_normal((BATCH, ROWS, WIDTH))}
    if cross:
        arrays["key"] = random.standard_normal((BATCH, KEYS, KEY_WIDTH))
    for name, bias, shape in zip(MATRICES, BIASES, shapes, strict=False):
        arrays[name] = 0.4 * random.standard_normal(shape)
        if biases:
            arrays[bias] = 0.4 * random.standard_normal(shape[-1])
    settings = {"heads": heads, "combine": combine}
    if key_heads:
        settings["key_heads"] = key_heads
    if combine == "weighted":
        settings["head_weights"] = [0.5, -1.0, 2.0, 0.25][:heads]
    return arrays, settings, options


def packed(cross, **changes):
    arrays, settings, options = block(cross=cross, **changes)
    random = np.random.default_rng(6)
    arrays["query"] = random.standard_normal((9, WIDTH))
    options["cu_seqlens_q"] = np.array([1, 3, 8], np.int32)
    if cross:
        arrays["key"] = random.standard_normal((11, KEY_WIDTH))
        options["cu_seqlens_k"] = np.array([0, 4, 11], np.int32)
    return arrays, settings, options


def heads_alone(**changes):
    arrays, settings, options = block(**changes)
    return {n: x for n, x in arrays.items() if n not in ("w_out", "b_out")}, settings, options


def two_axes(**changes):
    arrays, settings, options = block(**changes)
    arrays.update({name: arrays[name][0] for name in ("query", "key") if name in arrays})
    return arrays, settings, options


def mask():
    made = np.random.default_rng(3).random((BATCH, 1, ROWS, ROWS)) < 0.6
    made[0, 0, 1] = False
    return made


CASES = {
    "self": block,
    "no_biases": lambda: block(biases=False),
    "cross": lambda: block(cross=True),
    "grouped": lambda: block(key_heads=2),
    "two_axes": lambda: two_axes(causal=True),
    "two_axes_cross": lambda: two_axes(cross=True),
    "heads_alone": lambda: heads_alone(key_heads=2),
    "tensor": lambda: block(combine="tensor"),
    "weighted": lambda: block(combine="weighted"),
    "mean": lambda: block(combine="mean", key_heads=2),
    "max": lambda: block(combine="max"),
    "causal": lambda: block(causal="bottom_right", cross=True),
    "mask": lambda: block(attn_mask=mask()),
    "float_mask": lambda: block(attn_mask=np.where(mask(), 0, -np.inf)),
    "bias": lambda: block(bias=np.random.default_rng(2).standard_normal((4, ROWS, ROWS))),
    "window": lambda: block(cross=True, window=(1, 0), alignment=1),
    "softcap_and_scale": lambda: block(softcap=0.8, scale=0.7, temperature=0.5),
    "alibi_and_sinks": lambda: block(alibi_slopes=[0.5, 0.2, 0.1, 0.0], sinks=[0.0, 1, -1, 2]),
    "key_lengths": lambda: block(cross=True, key_lengths=[3, 7]),
    "hard": lambda: block(hard=True),
    "score_function": lambda: block(
        score_function=lambda s, _b, h, i, j: s / (1 + h) + (i - j) / 8
    ),
    "packed_self": lambda: packed(False, causal=True),
    "packed_cross": lambda: packed(True, causal="bottom_right"),
}


def expected_of(arrays, settings, options, asked):
    """out and log-sum-exp: heed.attention between products of NumPy."""
    heads = settings["heads"]
    shared = settings.get("key_heads", heads)
    source = arrays.get("key", arrays["query"])
    given = dict(options)
    if "cu_seqlens_q" in options:
        given.setdefault("cu_seqlens_k", options["cu_seqlens_q"])

    def turned(x):
        return x if "cu_seqlens_q" in options else np.swapaxes(x, -2, -3)

    def projected(x, name, count):
        y = x @ arrays[f"w_{name}"] + arrays.get(f"b_{name}", 0)
        return turned(y.reshape(*y.shape[:-1], count, -1))

    found = heed.attention(
        projected(arrays["query"], "query", heads),
        projected(source, "key", shared),
        projected(source, "value", shared),
        **given,
        **asked,
        return_weights=True,
    )
    return combined(turned(found.out), arrays, settings), found.lse


def combined(out, arrays, settings):
    """[..., rows, heads, value features] to [..., rows, width]."""
    combine = settings["combine"]
    if combine == "concat":
        out = out.reshape(*out.shape[:-2], -1)
        return out @ arrays["w_out"] + arrays.get("b_out", 0) if "w_out" in arrays else out
    if combine == "tensor":
        return np.einsum("...hf,hfo->...o", out, arrays["w_out"]) + arrays.get("b_out", 0)
    if combine == "weighted":
        return np.einsum("h,...hf->...f", settings["head_weights"], out)
    return out.mean(-2) if combine == "mean" else out.max(-2)


def written(options):
    """Rows of a packed batch that belong to a sequence."""
    return slice(*options["cu_seqlens_q"][[0, -1]]) if "cu_seqlens_q" in options else slice(None)


def made(kind: Kind, case: str):
    arrays, settings, options = CASES[case]()
    return {name: needed(kind).make(array) for name, array in arrays.items()}, settings, options


EVERY_OPTION = [(KINDS[1], case) for case in CASES]
EVERY_KIND = [(kind, case) for kind in KINDS for case in ("self", "packed_cross")]


@pytest.mark.parametrize(
    ("kind", "case"), EVERY_OPTION + EVERY_KIND, ids=lambda x: getattr(x, "name", x)
)
def test_every_option_and_kind(kind, case):
    given, settings, options = made(kind, case)
    asked = {} if options.get("hard") else {"return_lse": True}
    result = heed.multihead(**given, **settings, **options, **asked, return_weights=True)
    seen = {name: kind.back(array) for name, array in given.items()}
    out, lse = expected_of(seen, settings, options, asked)
    assert_like(kind, result.out, given["query"])
    out_unit, lse_unit = block_units(kind)
    rows = written(options)
    assert_close(kind.back(result.out)[rows], out[rows], out_unit, "out")
    if asked:
        assert_close(result.lse[..., rows], lse[..., rows], lse_unit, "lse")


def prepared_of(given):
    """Arguments with heed.Weights for matrices and their biases."""
    prepared = dict(given)
    for name, bias in zip(MATRICES, BIASES, strict=True):
        if name in given:
            prepared[name] = heed.Weights(given[name], prepared.pop(bias, None))
    return prepared


@pytest.mark.parametrize("case", CASES)
def test_prepared_and_planned_have_the_same_bits(case):
    given, settings, options = made(KINDS[0], case)
    prepared = prepared_of(given)
    rows = written(options)
    expected = heed.multihead(**given, **settings, **options)[rows]
    np.testing.assert_array_equal(heed.multihead(**prepared, **settings, **options)[rows], expected)
    anew = {name: options[name] for name in options if name in TENSORS}
    inputs = [given[name] for name in ("query", "key") if name in given]
    for matrices in (given, prepared):
        plan = heed.multihead_plan(**matrices, **settings, **options)
        for _ in range(2):
            np.testing.assert_array_equal(plan(*inputs, **anew)[rows], expected)


def test_any_strides():
    """[out, in], parts of a packed matrix, and what only strides know."""
    given, settings, _ = made(KINDS[0], "grouped")
    expected = heed.multihead(**given, **settings)
    packed_qkv = np.concatenate([given[name] for name in MATRICES[:3]], 1)
    widths = np.cumsum([0] + [given[name].shape[1] for name in MATRICES[:3]])
    layouts = {
        "out_in": {name: np.ascontiguousarray(given[name].T).T for name in MATRICES},
        "packed": {
            name: packed_qkv[:, begin:end]
            for name, (begin, end) in zip(MATRICES, itertools.pairwise(widths), strict=False)
        },
        "negative": {name: given[name][::-1, ::-1].copy()[::-1, ::-1] for name in MATRICES},
        "inputs": {"query": np.asfortranarray(given["query"])},
        "inputs_backwards": {"query": given["query"][:, ::-1].copy()[:, ::-1]},
    }
    for name, changed in layouts.items():
        out = heed.multihead(**{**given, **changed}, **settings)
        np.testing.assert_array_equal(out, expected, err_msg=name)
        out = heed.multihead(**prepared_of({**given, **changed}), **settings)
        np.testing.assert_array_equal(out, expected, err_msg=name)


def test_out_is_written_where_the_caller_says():
    given, settings, _ = made(KINDS[0], "self")
    expected = heed.multihead(**given, **settings)
    wide = np.zeros((BATCH, 2 * ROWS, 9), np.float32)
    out = wide[:, ::2]
    assert heed.multihead(**given, **settings, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert (wide[:, 1::2] == 0).all()
    plan = heed.multihead_plan(**given, **settings, out=out)
    out[:] = 0
    assert plan(given["query"], out=out) is out
    np.testing.assert_array_equal(out, expected)
    half = np.zeros((BATCH, ROWS, 9), np.float16)
    heed.multihead(**given, **settings, out=half)
    np.testing.assert_array_equal(half, expected.astype(np.float16))


def test_plan_reads_parameters_anew():
    given, settings, _ = made(KINDS[0], "self")
    plan = heed.multihead_plan(**given, **settings)
    given["w_out"] *= 2
    given["b_out"] *= 2
    np.testing.assert_array_equal(
        plan(given["query"]), heed.multihead(**given, **settings), strict=True
    )


def test_weights_need_nothing_afterwards():
    given, settings, _ = made(KINDS[0], "self")
    expected = heed.multihead(**given, **settings)
    prepared = prepared_of({**given, "query": given["query"].copy()})
    for array in given.values():
        array[:] = np.nan
    np.testing.assert_array_equal(heed.multihead(**prepared, **settings), expected)


def test_describe():
    given, settings, _ = made(KINDS[0], "self")
    context = heed.Context(threads=1, executor="serial")
    said = heed.multihead_plan(**given, **settings, context=context).describe()
    assert said["executor"] == "serial"
    assert said["threads"] == 1
    products = sum(given[name].size for name in MATRICES)
    assert said["projection_flops"] == 2 * BATCH * ROWS * products
    assert said["attention_flops"] == 2 * BATCH * 4 * ROWS**2 * (FEATURES + VALUE_FEATURES)
    assert said["precision"] == ("default" if tiles() else "exact")
    known = {"executor", "threads", "projection_flops", "attention_flops", "precision"}
    assert set(said) - known == {
        "isa",
        "product",
        "workspace_bytes",
    }
    weights = heed.Weights(np.ones((3, 4), np.float16))
    assert weights.describe()["arithmetic"] == "float32"
    assert (weights.describe()["in"], weights.describe()["out"]) == (3, 4)
    assert weights.describe()["bytes"] >= 3 * 4 * 4
    assert repr(weights) == "<heed.Weights: 3 features to 4, float32>"
    tensor = heed.Weights(np.ones((2, 3, 4)))
    assert (tensor.describe()["in"], tensor.describe()["arithmetic"]) == (6, "float64")


def test_threads_share_plans_and_weights():
    given, settings, _ = made(KINDS[0], "self")
    query = np.tile(given["query"], (1, 40, 1))  # so long that calls give the GIL back
    prepared = prepared_of({**given, "query": query})
    plan = heed.multihead_plan(**prepared, **settings)
    inputs = [(1 + i / 10) * query for i in range(12)]
    expected = [heed.multihead(**{**prepared, "query": x}, **settings) for x in inputs]
    with ThreadPoolExecutor(12) as pool:
        for _ in range(5):
            for out, one in zip(pool.map(plan, inputs), expected, strict=True):
                np.testing.assert_array_equal(out, one)
