"""heed.multihead, its plan and heed.Weights, against the definition in float64 and PyTorch."""

import numpy as np
import oracle
import pytest
from kinds import KINDS, Kind, assert_close, needed, params

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
        starts = options["cu_seqlens_q"]
        return [
            np.take(x, range(begin, end), rows_axis)
            for begin, end in zip(starts, starts[1:], strict=False)
        ]
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
    assert type(result.out) is type(given["query"])
    assert str(result.out.dtype).removeprefix("torch.") == kind.element
    for actual, expected in zip(by_item(kind.back(result.out), options), outs, strict=True):
        assert_close(actual, expected, kind.unit, "out")
    exact = 2.0**-53 if kind.element == "float64" else 2.0**-24
    if asked:
        lse = np.asarray(result.lse)
        pieces = by_item(lse, options, 1) if lse.ndim == 2 else list(lse)
        for actual, expected in zip(pieces, lses, strict=True):
            assert_close(actual, expected, exact, "lse")


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
            for name, begin, end in zip(MATRICES, widths, widths[1:], strict=False)
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
    assert set(said) - {"executor", "threads", "projection_flops", "attention_flops"} == {
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


F32 = np.float32
X = np.zeros((2, 5, 12), F32)
GIVEN = {
    "query": X,
    "w_query": np.zeros((12, 8), F32),
    "w_key": np.zeros((12, 4), F32),
    "w_value": np.zeros((12, 6), F32),
    "w_out": np.zeros((12, 7), F32),
    "heads": 4,
    "key_heads": 2,
}

ARGUMENTS = [
    (dict(query=X[0, 0]), r"query has shape \[12\]; it must have axes \[batch, rows, width\], the"),
    (dict(query=X[None]), r"query has shape \[1, 2, 5, 12\]; it must have axes"),
    (dict(query=X.astype(int)), "query is int64; it must be float32, float64, float16 or bfloat16"),
    (dict(query=X[..., :0]), r"query is float32 \[2, 5, 0\]; it must have features"),
    (
        dict(query=X[..., :8]),
        r"w_query is float32 \[12, 8\]; it must be \[in, out\] with in 8, as q",
    ),
    (dict(key=X[:1]), "key is for 1 sequences, but query for 2"),
    (dict(key=X.astype(float)), "key is float64 but query is not; all must be float64, or none"),
    (dict(key=X[..., :5]), r"w_key is float32 \[12, 4\]; it must be \[in, out\] with in 5, as key"),
    (
        dict(w_query=np.zeros((8, 12), F32)),
        r"w_query is float32 \[8, 12\]; it must be \[in, out\] with in 12, as query \(a matrix "
        r"\[out, in\], as PyTorch has it, is given as w_query.T\)",
    ),
    (dict(w_query=np.zeros((12, 10), F32)), "w_query has 10 columns, which 4 heads cannot share"),
    (dict(w_value=np.zeros((12, 5), F32)), "w_value has 5 columns, which 2 heads cannot share"),
    (
        dict(w_key=np.zeros((12, 6), F32)),
        "w_key has 6 columns; it must have 4, for 2 heads of 2 features",
    ),
    (dict(w_key=np.zeros(12, F32)), r"w_key has shape \[12\]; it must have axes \[in, out\]"),
    (dict(w_key=np.zeros((12, 0), F32)), r"w_key is float32 \[12, 0\]; it must have numbers"),
    (dict(w_key=np.zeros((12, 4))), "w_key is float64 but query is not; all must be float64, or"),
    (
        dict(w_key=heed.Weights(np.zeros((12, 4)))),
        "w_key is prepared for float64 arithmetic; this plan's is float32",
    ),
    (
        dict(w_key=heed.Weights(np.zeros((9, 4), F32))),
        r"w_key is from 9 features; it must be \[in, out\] with in 12, as query",
    ),
    (
        dict(w_out=np.zeros((11, 7), F32)),
        r"w_out is float32 \[11, 7\]; it must be .* with in 12, as",
    ),
    (
        dict(combine="tensor"),
        r"w_out has shape \[12, 7\]; it must have axes \[matrices, in, out\]",
    ),
    (
        dict(combine="tensor", w_out=np.zeros((3, 4, 7), F32)),
        r"w_out is float32 \[3, 4, 7\]; it must be \[4, 3, out\]: heads, features of a value",
    ),
    (dict(combine="mean"), 'w_out is given, but combine is neither "concat" nor "tensor"'),
    (dict(combine="sum"), 'combine is \'sum\'; it must be "concat", "weighted", "mean", "max" or'),
    (dict(combine="weighted", w_out=None), 'head_weights is None; combine="weighted" needs'),
    (
        dict(combine="weighted", w_out=None, head_weights=[1.0]),
        "head_weights has 1 numbers; it must have one for each of the 4 query heads",
    ),
    (dict(head_weights=[1.0] * 4), 'head_weights is given; only combine="weighted" has them'),
    (dict(heads=0), "heads is 0; it must be at least 1"),
    (dict(key_heads=3), "heads is 4 and key_heads 3; each key head must serve the same number"),
    (dict(b_query=np.zeros(7, F32)), r"b_query has shape \[7\]; it must have \[8\], a number for"),
    (dict(b_query=np.zeros(16, F32)[::2]), "b_query has a stride of 2 elements; its numbers must"),
    (dict(b_query=np.zeros(8)), "b_query is float64 but w_query is not; all must be float64"),
    (
        dict(b_query=np.zeros(8, F32), b_key=np.zeros(4, np.float16)),
        "b_query and b_key are of different types; biases must all be of one",
    ),
    (
        dict(w_query=heed.Weights(np.zeros((12, 8), F32)), b_query=np.zeros(8, F32)),
        "b_query is given, but w_query is heed.Weights, which have their bias inside",
    ),
    (
        dict(combine="mean", w_out=None, b_out=np.zeros(3, F32)),
        "b_out is given without w_out",
    ),
    (dict(cu_seqlens_q=[0, 5]), r"query has shape \[2, 5, 12\]; it must have axes \[rows, width\]"),
    (dict(query=X[0], cu_seqlens_q=[0, 6]), r"cu_seqlens_q\[1\] is 6; it must be 0 to 5"),
    (dict(cu_seqlens_k=[0, 5]), "cu_seqlens_k is given without key and cu_seqlens_q"),
    (dict(window=(1, 1), key=X[:, :3]), "window is given with 5 query rows and 3 keys: say by"),
    (dict(scale=0), "scale is 0; for weights"),
    (dict(softcap=-1.0), "^softcap is -1; it must be finite and at least 0"),
    (dict(attn_mask=np.zeros((5, 6), bool)), r"attn_mask has shape \[5, 6\]; it must broadcast to"),
    (dict(key_lengths=[1, 9]), r"^key_lengths\[1\] is 9; it must be 0 to 5"),
    (dict(out=np.zeros((2, 5, 6), F32)), r"out has shape \[2, 5, 6\]; the result has \[2, 5, 7\]"),
    (dict(out=np.zeros((2, 5, 7))), "out is float64 but query is float32"),
]

TYPES = [
    (dict(query=None), "query must be an array"),
    (dict(w_query=None), "w_query must be an array or heed.Weights, not None$"),
    (
        dict(w_out=None),
        'w_out must be .*, not None; combine="mean", "max" and "weighted" have none',
    ),
    (dict(w_key=3), "w_key must be an array"),
    (dict(heads="4"), "heads must be an int, not str"),
    (dict(combine=1), 'combine must be "concat", .* or "tensor", not int'),
    (dict(block_table=[[0]]), "block_table is given; a block makes its keys and values itself"),
    (dict(key_scales=1.0), "key_scales is given; a block makes"),
    (dict(causl=True), r"multihead\w*\(\) got an unexpected keyword argument 'causl'"),
    (dict(context=1), "context must be a heed.Context, not int"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in ARGUMENTS] + [(*row, TypeError) for row in TYPES],
)
def test_refused(changes, message, error):
    out = np.full((2, 5, 7), 7, F32)
    given = {**GIVEN, "out": out, **changes}
    if changes.get("combine") in ("mean", "weighted") or "cu_seqlens_q" in changes:
        del given["out"]
    with pytest.raises(error, match=message):
        heed.multihead(**given)
    assert (out == 7).all()
    with pytest.raises(error, match=message):
        plan = heed.multihead_plan(**given)
        tensors = ("key_lengths", "cu_seqlens_q")  # whose numbers only runs look at
        matrices = {name: changes[name] for name in tensors if name in changes}
        plan(given["query"], out=given.get("out"), **matrices)


PLAN_ARGUMENTS = [
    (
        dict(query=X[:, :4], attn_mask=np.ones((4, 4), bool)),
        r"query is float32 \[2, 4, 12\]; the plan was made for float32 \[2, 5,",
    ),
    (dict(query=np.asfortranarray(X)), r"query has strides \[1, 2, 10\]; the plan was made for"),
    (dict(query=X.astype(np.float16)), "query is float16 .*; the plan was made for float32"),
    (
        dict(attn_mask=np.zeros((5, 5), F32)),
        "attn_mask is floating; the plan was made for one that is bool",
    ),
    (dict(attn_mask=np.zeros((1, 5), bool)), r"attn_mask is bool \[1, 5\]; the plan was made for"),
]

PLAN_TYPES = [
    (dict(key=X), "key is given, but the plan was made without"),
    (dict(attn_mask=None), "the plan was made with attn_mask: give it"),
    (dict(bias=np.zeros((5, 5), F32)), "bias is given, but the plan was made without"),
    (dict(causal=True), "causal is the plan's: give it to heed.multihead_plan"),
    (dict(heads=2), r"MultiheadPlan.__call__\(\) got an unexpected keyword argument 'heads'"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in PLAN_ARGUMENTS]
    + [(*row, TypeError) for row in PLAN_TYPES],
)
def test_plan_refuses(changes, message, error):
    mask_ = np.ones((5, 5), bool)
    plan = heed.multihead_plan(**GIVEN, attn_mask=mask_)
    with pytest.raises(error, match=message):
        plan(**{"query": X, "attn_mask": mask_, **changes})


def test_plan_with_key_and_out_wants_them():
    out = np.zeros((2, 5, 7), F32)
    plan = heed.multihead_plan(**GIVEN, key=X, out=out)
    with pytest.raises(TypeError, match="key is None, but the plan was made with one: give it"):
        plan(X, out=out)
    with pytest.raises(TypeError, match="the plan was made with out: give it"):
        plan(X, X)


WEIGHTS = [
    (dict(matrix=X[0, 0]), heed.ArgumentError, r"matrix has shape \[12\]; it must have axes \[in,"),
    (dict(matrix=X[0].astype(int)), heed.ArgumentError, "matrix is int64; it must be float32"),
    (
        dict(matrix=X[0], bias=X[0, 0, :5]),
        heed.ArgumentError,
        r"bias has shape \[5\]; it must have",
    ),
    (dict(matrix=heed.Weights(X[0])), TypeError, "matrix must be an array, not heed.Weights"),
    (dict(matrix=None), TypeError, "matrix must be an array"),
    (dict(matrix=X[0], context=2), TypeError, "context must be a heed.Context"),
]


@pytest.mark.parametrize(("given", "error", "message"), WEIGHTS)
def test_weights_refused(given, error, message):
    with pytest.raises(error, match=message):
        heed.Weights(**given)
