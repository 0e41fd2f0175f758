"""heed.multihead, its plan and heed.Weights, against the definition in float64 and PyTorch."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from kinds import KINDS, Kind, assert_close, assert_like, block_units, needed, params, tiles

import heed

BATCH, ROWS, KEYS, WIDTH, KEY_WIDTH, FEATURES, VALUE_FEATURES = 2, 5, 7, 12, 10, 6, 5
MATRICES = ("w_query", "w_key", "w_value", "w_out")
BIASES = ("b_query", "b_key", "b_value", "b_out")


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
    "multi_query": lambda: block(key_heads=1, cross=True),
    "one_head": lambda: block(heads=1),
    "two_axes": lambda: two_axes(causal=True),
    "two_axes_cross": lambda: two_axes(cross=True),
    "heads_alone": lambda: heads_alone(key_heads=2),
    "tensor": lambda: block(combine="tensor"),
    "weighted": lambda: block(combine="weighted"),
    "mean": lambda: block(combine="mean", key_heads=2),
    "max": lambda: block(combine="max"),
    "causal": lambda: block(causal="bottom_right", cross=True),
    "mask": lambda: block(attn_mask=mask()),
    "bias": lambda: block(bias=np.random.default_rng(2).standard_normal((4, ROWS, ROWS))),
    "window": lambda: block(window=(1, 0), causal=True),
    "softcap_and_scale": lambda: block(softcap=0.8, scale=0.7),
    "alibi_and_sinks": lambda: block(alibi_slopes=[0.5, 0.2, 0.1, 0.0], sinks=[0.0, 1, -1, 2]),
    "key_lengths": lambda: block(cross=True, key_lengths=[3, 7]),
    "hard": lambda: block(hard=True),
    "score_function": lambda: block(
        score_function=lambda s, _b, h, i, j: s / (1 + h) + (i - j) / 8
    ),
    "packed_self": lambda: packed(False, causal=True),
    "packed_cross": lambda: packed(True, causal="bottom_right"),
}


def expected_of(arrays, settings, options):
    """A list of out and log-sum-exp, by batch item."""
    heads = settings["heads"]
    shared = settings.get("key_heads", heads)
    source = arrays.get("key", arrays["query"])

    def projected(x, matrix, bias, count):
        y = x @ arrays[matrix] + arrays.get(bias, 0)
        y = y.reshape(*y.shape[:-1], count, -1)
        return y if "cu_seqlens_q" in options else np.swapaxes(y, -2, -3)

    given = dict(options)
    if "cu_seqlens_q" in options:
        given.setdefault("cu_seqlens_k", options["cu_seqlens_q"])
    found = oracle.attention(
        projected(arrays["query"], "w_query", "b_query", heads),
        projected(source, "w_key", "b_key", shared),
        projected(source, "w_value", "b_value", shared),
        **given,
    )
    return [combined(out, arrays, settings) for out in found.out], found.lse


def combined(out, arrays, settings):
    """[heads, rows, value features] to [rows, width]."""
    combine = settings["combine"]
    if combine == "concat" and "w_out" not in arrays:
        return np.concatenate(out, -1)
    if combine == "concat":
        return np.concatenate(out, -1) @ arrays["w_out"] + arrays.get("b_out", 0)
    if combine == "tensor":
        return (out @ arrays["w_out"]).sum(0) + arrays.get("b_out", 0)
    if combine == "weighted":
        return np.tensordot(settings["head_weights"], out, 1)
    return out.mean(0) if combine == "mean" else out.max(0)


def by_item(x, options, rows_axis=0):
    """A result in pieces as expected_of gives them."""
    if "cu_seqlens_q" in options:
        starts = itertools.pairwise(options["cu_seqlens_q"])
        return [x[(slice(None),) * rows_axis + (slice(*ends),)] for ends in starts]
    return list(x) if x.ndim == 3 else [x]


def made(kind: Kind, case: str):
    arrays, settings, options = CASES[case]()
    given = {name: kind.make(array) for name, array in arrays.items()}
    seen = {name: kind.back(array) for name, array in given.items()}
    return given, seen, settings, options


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", params())
def test_every_case(kind, case):
    given, seen, settings, options = made(needed(kind), case)
    asked = {} if options.get("hard") else {"return_lse": True}
    result = heed.multihead(**given, **settings, **options, **asked, return_weights=True)
    outs, lses = expected_of(seen, settings, options)
    assert_like(kind, result.out, given["query"])
    out_unit, lse_unit = block_units(kind)
    for actual, expected in zip(by_item(result.out, options), outs, strict=True):
        assert_close(kind.back(actual), expected, out_unit, "out")
    if asked:
        lse = np.asarray(result.lse)
        pieces = by_item(lse, options, 1) if lse.ndim == 2 else list(lse)
        for actual, expected in zip(pieces, lses, strict=True):
            assert_close(actual, expected, lse_unit, "lse")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", params(KINDS[:3]))
def test_prepared_and_planned_have_the_same_bits(kind, case):
    given, _, settings, options = made(kind, case)
    expected = heed.multihead(**given, **settings, **options)
    prepared = dict(given)
    for name, bias in zip(MATRICES, BIASES, strict=True):
        if name in given:
            prepared[name] = heed.Weights(given[name], prepared.pop(bias, None))
    written = options.get("cu_seqlens_q")
    rows = slice(None) if written is None else slice(written[0], written[-1])

    def check(out):
        np.testing.assert_array_equal(out[rows], expected[rows])

    check(heed.multihead(**prepared, **settings, **options))
    tensors = ("attn_mask", "bias", "alibi_slopes", "sinks", "key_lengths")
    anew = {
        name: options[name]
        for name in (*tensors, "cu_seqlens_q", "cu_seqlens_k")
        if name in options
    }
    inputs = [given[name] for name in ("query", "key") if name in given]
    for matrices in (given, prepared):
        plan = heed.multihead_plan(**matrices, **settings, **options)
        for _ in range(2):
            check(plan(*inputs, **anew))


def test_float_mask_as_attn_mask():
    given, seen, settings, _ = made(KINDS[0], "self")
    bias = np.where(mask(), 0, -np.inf)
    result = heed.multihead(**given, **settings, attn_mask=bias.astype(np.float32))
    for actual, expected in zip(
        result, expected_of(seen, settings, {"bias": bias})[0], strict=True
    ):
        assert_close(actual, expected, 2.0**-24, "out")


def test_any_strides():
    """[out, in], parts of a packed matrix, and what only strides know."""
    given, _, settings, _ = made(KINDS[0], "grouped")
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
        prepared = {
            matrix: heed.Weights(changed.get(matrix, given[matrix]), given[bias])
            for matrix, bias in zip(MATRICES, BIASES, strict=True)
        }
        query = changed.get("query", given["query"])
        out = heed.multihead(query, **prepared, **settings)
        np.testing.assert_array_equal(out, expected, err_msg=name)


def test_out_is_written_where_the_caller_says():
    given, _, settings, _ = made(KINDS[0], "self")
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


@pytest.mark.parametrize("masked", [False, True])
def test_as_pytorchs_module(masked):
    torch = pytest.importorskip("torch")
    width, heads = 16, 4
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    torch.nn.init.normal_(module.in_proj_bias)
    x = torch.randn(2, 6, width)
    attn_mask = torch.nn.Transformer.generate_square_subsequent_mask(6) if masked else None
    parts = {}
    for i, name in enumerate(("query", "key", "value")):
        part = slice(i * width, (i + 1) * width)
        parts["w_" + name] = module.in_proj_weight[part].T
        parts["b_" + name] = module.in_proj_bias[part]
    with torch.no_grad():
        expected = module(x, x, x, attn_mask=attn_mask, need_weights=False)[0]
        out = heed.multihead(
            x,
            **parts,
            w_out=module.out_proj.weight.T,
            b_out=module.out_proj.bias,
            heads=heads,
            attn_mask=attn_mask,
        )
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_plan_reads_parameters_anew():
    given, _, settings, _ = made(KINDS[0], "self")
    plan = heed.multihead_plan(**given, **settings)
    given["w_out"] *= 2
    given["b_out"] *= 2
    np.testing.assert_array_equal(
        plan(given["query"]), heed.multihead(**given, **settings), strict=True
    )


def test_weights_need_nothing_afterwards():
    given, _, settings, _ = made(KINDS[0], "self")
    expected = heed.multihead(**given, **settings)
    prepared = {
        name: heed.Weights(given[name], given[bias])
        for name, bias in zip(MATRICES, BIASES, strict=True)
    }
    query = given["query"].copy()
    for array in given.values():
        array[:] = np.nan
    np.testing.assert_array_equal(heed.multihead(query, **prepared, **settings), expected)


def test_describe():
    given, _, settings, _ = made(KINDS[0], "self")
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
    given, _, settings, _ = made(KINDS[0], "self")
    prepared = {
        name: heed.Weights(given[name], given[bias])
        for name, bias in zip(MATRICES, BIASES, strict=True)
    }
    query = np.tile(given["query"], (1, 40, 1))  # so long that calls give the GIL back
    plan = heed.multihead_plan(query, **prepared, **settings)
    inputs = [(1 + i / 10) * query for i in range(12)]
    expected = [heed.multihead(x, **prepared, **settings) for x in inputs]
    with ThreadPoolExecutor(12) as pool:
        for _ in range(5):
            for out, one in zip(pool.map(plan, inputs), expected, strict=True):
                np.testing.assert_array_equal(out, one)
