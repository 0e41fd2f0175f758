"""What heed.multihead, its plan and heed.Weights refuse, and in which words."""

import numpy as np
import pytest

import heed

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
        r"w_query is float32 \[12, 8\]; it must be \[in, out\] with in 8, as",
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
        dict(combine="tensor", w_out=None),
        'w_out must be .*, not None; only combine="tensor" needs it',
    ),
    (dict(w_key=3), "w_key must be an array"),
    (dict(heads="4"), "heads must be an int, not str"),
    (dict(combine=1), 'combine must be "concat", .* or "tensor", not int'),
    (dict(block_table=[[0]]), "block_table is given; a block makes its keys and values itself"),
    (dict(key_scales=1.0), "key_scales is given; a block makes"),
    (dict(causl=True), r"multihead\w*\(\) got an unexpected keyword argument 'causl'"),
    (dict(context=1), "context must be a heed.Context, not int"),
]


def plan_and_run(given):
    """Some numbers are looked at by runs alone."""
    tensors = {name: given[name] for name in ("key_lengths", "cu_seqlens_q") if name in given}
    heed.multihead_plan(**given)(given["query"], out=given.get("out"), **tensors)


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
        plan_and_run(given)


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
    (dict(matrix=X[0, 0]), heed.ArgumentError, r"matrix has shape \[12\]; it must have axes"),
    (dict(matrix=X[0].astype(int)), heed.ArgumentError, "matrix is int64; it must be float32"),
    (
        dict(matrix=X[0], bias=X[0, 0, :5]),
        heed.ArgumentError,
        r"bias has shape \[5\]; it must",
    ),
    (dict(matrix=heed.Weights(X[0])), TypeError, "matrix must be an array, not heed.Weights"),
    (dict(matrix=None), TypeError, "matrix must be an array"),
    (dict(matrix=X[0], context=2), TypeError, "context must be a heed.Context"),
]


@pytest.mark.parametrize(("given", "error", "message"), WEIGHTS)
def test_weights_refused(given, error, message):
    with pytest.raises(error, match=message):
        heed.Weights(**given)
