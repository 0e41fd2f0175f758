"""What heed.attention refuses, one by one, and in which words. Outputs stay as they were."""

import numpy as np
import pytest

import heed

F32 = np.float32
QUERY = np.ones((2, 4, 5, 8), F32)
KEY = np.ones((2, 2, 7, 8), F32)
VALUE = np.ones((2, 2, 7, 6), F32)
POOL = np.ones((3, 2, 16, 8), F32)
ROWS = np.ones((5, 4, 8), F32)
PACKED = np.ones((7, 2, 8), F32)
INT8 = KEY.astype(np.int8)
SCALES = np.ones((2, 2, 7), F32)

# Options, or tensors and options, and the message.
ARGUMENTS = [
    # shapes
    (
        dict(key=KEY[..., :7]),
        r"query is float32 \[2, 4, 5, 8\], key is float32 \[2, 2, 7, 7\]: their "
        "features, 8 and 7, must be the same",
    ),
    (dict(value=VALUE[:, :, :6]), "key is .*, value is .*: their rows, 7 and 6, must be the same"),
    (dict(key=np.ones((3, 2, 7, 8), F32)), "their batches, 2 and 3, must be the same, or 1"),
    (dict(value=np.ones((2, 4, 7, 8), F32)), "their heads, 2 and 4, must be the same, or 1"),
    (dict(query=QUERY[:, :3]), "query has 3 heads and key 2; each must serve the same number"),
    (dict(query=QUERY[..., :0], key=KEY[..., :0]), "key is .*, 7, 0.; it must have features"),
    (dict(value=VALUE[..., :0]), r"value is float32 \[2, 2, 7, 0\]; it must have features"),
    # types
    (
        dict(query=QUERY.astype(float)),
        "query is float64 but key is float32; query, key, value and out must all be float64",
    ),
    (dict(query=QUERY.astype(np.int8)), "query is int8; it must be float32, float64, float16 or "),
    (
        dict(key=KEY.astype(bool)),
        "key is bool; it must be .*, or int8 or float8_e4m3fn with scales",
    ),
    # masks
    (
        dict(attn_mask=np.ones((4, 7), bool)),
        r"attn_mask has shape \[4, 7\]; it must broadcast to \[2, 4, 5, 7\]: batch, heads,",
    ),
    (
        dict(attn_mask=np.ones((5, 7), np.int32)),
        r"attn_mask is int32; it must be bool \(True attends\), or floating \(added to scores\)",
    ),
    (
        dict(attn_mask=np.ones((5, 7), F32), bias=np.ones((5, 7), F32)),
        "attn_mask is float32, a bias, but bias is given too: add them",
    ),
    (dict(bias=np.ones((5, 7), bool)), "bias is bool; it must be float32"),
    (dict(bias=np.ones((2, 5, 7), F32)), r"bias has shape \[2, 5, 7\]; it must broadcast to"),
    # where rows stand
    (
        dict(causal="left"),
        'causal is \'left\'; it must be False, True, "top_left", "bottom_right" or',
    ),
    (
        dict(alignment="left"),
        'alignment is \'left\'; it must be "top_left", "bottom_right" or an int',
    ),
    (dict(causal=True, alignment=1), "alignment is given beside causal, which says itself where"),
    (dict(causal=2**70), "causal is 1180591620717411303424; it must fit in 64 bits"),
    (dict(window=(1, 2)), "window is given with 5 query rows and 7 keys: say by alignment"),
    (dict(window=(1, -2), alignment=0), r"window\[1\] is -2; it must be a number of keys"),
    (dict(window=(1, 2, 3)), "window has 3 entries; it must be a pair"),
    (dict(alibi_slopes=[1.0] * 4), "alibi_slopes are given with 5 query rows and 7 keys: say by"),
    # numbers
    (dict(scale=0), "scale is 0; for weights that no score changes give temperature=float"),
    (dict(scale=np.nan), "scale is nan; it must be finite"),
    (dict(scale=1e300), "scale is 1e.300; with it scores would be multiplied by"),
    (dict(softcap=0), "softcap is 0; None is no cap"),
    (dict(softcap=-1.0), "softcap is -1; it must be finite and at least 0"),
    (dict(temperature=0), r"temperature is 0; it must be above 0 \(hard=True is its limit\)"),
    (dict(temperature=np.nan), "temperature is nan; it must be above 0"),
    (dict(hard=True, temperature=2), "temperature is given with hard, which has no denominator"),
    (dict(hard=True, sinks=[0.0] * 4), "sinks is given with hard"),
    (dict(hard=True, return_lse=True), "return_lse is given with hard"),
    (
        dict(alibi_slopes=[1.0] * 3, causal=True),
        "alibi_slopes has 3 numbers; it must have one for each of the 4 query heads",
    ),
    (dict(alibi_slopes=[np.inf] * 4, causal=True), r"alibi_slopes\[0\] is inf; it must be finite"),
    (dict(sinks=[0, np.nan, 0, 0]), r"sinks\[1\] is nan; it must not be NaN"),
    (dict(sinks=np.zeros((4, 1), F32)), r"sinks has shape \[4, 1\]; it must have 1 axis"),
    # lengths
    (dict(key_lengths=[8, 2]), r"key_lengths\[0\] is 8; it must be 0 to 7"),
    (dict(key_lengths=[7]), "key_lengths has 1 numbers; it must have one for each of the 2 seq"),
    (dict(key_lengths=[2**40, 1]), r"key_lengths\[0\] is 1099511627776; it must fit in 32 bits"),
    (dict(query=ROWS, cu_seqlens_q=[0, 3, 2]), r"cu_seqlens_q\[2\] is 2; it must be 3 to 5"),
    (dict(query=ROWS, cu_seqlens_q=[0, 3, 6]), r"cu_seqlens_q\[2\] is 6; it must be 3 to 5"),
    (dict(query=ROWS, cu_seqlens_q=[-1, 3, 5]), r"cu_seqlens_q\[0\] is -1; it must be 0 to 5"),
    (dict(query=ROWS, cu_seqlens_q=[]), "cu_seqlens_q is empty; it must hold one number more than"),
    (
        dict(query=ROWS, cu_seqlens_q=[0, 2, 3, 5]),
        r"key is float32 \[2, 2, 7, 8\], a batch of 2, but cu_seqlens_q is for 3 sequences",
    ),
    (
        dict(cu_seqlens_q=[0, 5]),
        r"query has shape \[2, 4, 5, 8\]; it must have axes \[rows, heads,",
    ),
    (
        dict(query=ROWS, cu_seqlens_q=[0, 3, 5], max_seqlen_q=2),
        "max_seqlen_q is 2; cu_seqlens_q has 3 rows for a sequence",
    ),
    (dict(max_seqlen_q=5), "max_seqlen_q is given without cu_seqlens_q"),
    (dict(max_seqlen_k=5), "max_seqlen_k is given without cu_seqlens_k or block_table"),
    (
        dict(key=PACKED, value=PACKED, cu_seqlens_k=[0, 3, 7], max_seqlen_k=3),
        "max_seqlen_k is 3; cu_seqlens_k has 4 rows for a sequence",
    ),
    (
        dict(key=PACKED, value=PACKED, cu_seqlens_k=[0, 3, 7], max_seqlen_k=-3),
        "max_seqlen_k is -3; it must be at least 0",
    ),
    (dict(key=PACKED, value=PACKED, cu_seqlens_k=[0, 3, 9]), r"cu_seqlens_k\[2\] is 9; it must be"),
    (
        dict(key=PACKED, value=PACKED, cu_seqlens_k=[0, 3, 7], query=ROWS, cu_seqlens_q=[0, 5]),
        "cu_seqlens_k is for 2 sequences, but cu_seqlens_q for 1",
    ),
    # pages
    (dict(key=POOL, value=POOL, block_table=[[0, 1], [1, 3]]), r"block_table\[1\]\[1\] is 3"),
    (
        dict(key=POOL, value=POOL, block_table=[[0, 1], [1]]),
        "block_table has rows of 2 and 1 entries",
    ),
    (dict(key=POOL, value=POOL, block_table=[[0, 1]]), "a batch of 2, but block_table is for 1"),
    (
        dict(key=POOL, value=POOL, block_table=[[0], [1]], cu_seqlens_k=[0, 1]),
        "block_table and cu_seqlens_k cannot both say where keys are",
    ),
    (
        dict(key=POOL, value=POOL, block_table=[[0], [1]], max_seqlen_k=17),
        "max_seqlen_k is 17; block_table has 16 rows for a sequence",
    ),
    (
        dict(key=POOL[:, :, :15], value=POOL[:, :, :15], block_table=[[0], [1]]),
        "pages of 15 rows; that must be a multiple of 16",
    ),
    (
        dict(key=PACKED, value=PACKED, block_table=[[0], [1]]),
        r"key has shape \[7, 2, 8\]; it must have axes \[pages, heads, rows of a page, features\]",
    ),
    # 8 bits
    (dict(key=INT8), "key is int8, so key_scales must be given: float32, the shape of rows"),
    (
        dict(key=INT8, key_scales=SCALES[:1]),
        r"key_scales is float32 \[1, 2, 7\]; it must be float32 \[2, 2, 7\], a number for each row",
    ),
    (dict(key_scales=SCALES), "key_scales is given, but key is float32; scales belong to int8"),
    (dict(value_scales=1.0), "value_scales is given, but value is float32"),
    # results
    (dict(return_weights="all"), "return_weights is 'all'; it must be False, True, \"scores\""),
    (dict(weight_rows=[1]), "weight_rows is given without return_weights"),
    (dict(return_weights=True, weight_rows=[]), "weight_rows is empty; None is all rows"),
    (dict(return_weights=True, weight_rows=[3, 1]), r"weight_rows\[1\] is 1; it must be 4 to 4"),
    (dict(return_weights=True, weight_rows=[5]), r"weight_rows\[0\] is 5; it must be 0 to 4"),
    (
        dict(out=np.zeros((2, 4, 5, 7), F32)),
        r"out has shape \[2, 4, 5, 7\]; the result has \[2, 4, 5, 6\]",
    ),
    (dict(out=np.zeros((4, 5, 6), F32)), "out has shape .4, 5, 6.; the result has"),
    (dict(out=np.zeros((2, 4, 5, 6))), "out is float64 but query is float32"),
    (dict(out=np.zeros((2, 4, 5, 6), np.int32)), "out is int32; it must be float32"),
    (
        dict(out=np.lib.stride_tricks.as_strided(np.zeros(8, F32), (2, 4, 5, 6), (0, 0, 0, 4))),
        "out.stride_batch is 0; it must exceed 0, or elements of the output overlap",
    ),
]

TYPES = [
    (dict(causl=True), r"attention\(\) got an unexpected keyword argument 'causl'"),
    (dict(causal=1.5), "causal must be False, True, .*, not float"),
    (dict(alignment=None, window=3), r"window must be a pair \(left, right\), not int"),
    (dict(window=("1", 2)), r"window\[0\] must be an int, not str"),
    (dict(window="12"), "window must be a pair"),
    (dict(alignment=1.5), "alignment must be .*, not float"),
    (dict(alignment=True), "alignment must be .*, not bool"),
    (dict(scale="1"), "scale must be a number, not str"),
    (dict(hard=1), "hard must be True or False, not 1"),
    (dict(return_lse="yes"), "return_lse must be True or False, not 'yes'"),
    (dict(return_weights=3), "return_weights must be False, True, .*, not int"),
    (dict(attn_mask=[[True]]), "attn_mask must be an array"),
    (dict(key_lengths=7), "key_lengths must be an array"),
    (dict(key_lengths=[7.0, 1]), r"key_lengths\[0\] must be an int, not float"),
    (dict(sinks=["a"] * 4), r"sinks\[0\] must be a number, not str"),
    (
        dict(query=ROWS, cu_seqlens_q=[0, 2, 5], max_seqlen_q="5"),
        "max_seqlen_q must be an int, not str",
    ),
    (
        dict(key=POOL, value=POOL, block_table=[0, 1]),
        "block_table must be an array, or a sequence of rows, not of int",
    ),
    (dict(score_function=3), "score_function must be a callable, a function pointer of ctypes or"),
    (dict(score_function=(print, 1)), "score_function must be .*, not builtin_function"),
    (dict(context=3), "context must be a heed.Context, not int"),
    (dict(out=[1.0]), "out must be an array"),
]


def call(function, changes):
    given = {"query": QUERY, "key": KEY, "value": VALUE, **changes}
    tensors = [given.pop(name) for name in ("query", "key", "value")]
    given.setdefault("out", None)
    return function(*tensors, **given)


@pytest.mark.parametrize(("changes", "message"), ARGUMENTS)
def test_wrong_arguments(changes, message):
    with pytest.raises(heed.ArgumentError, match=message):
        call(heed.attention, changes)


@pytest.mark.parametrize(("changes", "message"), TYPES)
def test_wrong_types(changes, message):
    with pytest.raises(TypeError, match=message):
        call(heed.attention, changes)


@pytest.mark.parametrize(("changes", "message"), ARGUMENTS + TYPES)
def test_outputs_stay_as_they_were(changes, message):
    if "out" in changes:
        pytest.skip("has an out of its own")
    rows = 5 if "cu_seqlens_q" in changes else (2, 4, 5)
    width = changes.get("value", VALUE).shape[-1]
    out = np.full((*np.atleast_1d(rows), *([4] if isinstance(rows, int) else []), width), 7, F32)
    with pytest.raises((heed.ArgumentError, TypeError)):
        call(heed.attention, {**changes, "out": out})
    assert (out == 7).all()


def test_errors_are_what_programs_expect():
    assert issubclass(heed.ArgumentError, heed.Error | ValueError)
    assert issubclass(heed.ArgumentError, ValueError)
    assert issubclass(heed.UnsupportedError, NotImplementedError)
    assert issubclass(heed.OutOfMemoryError, MemoryError)
    for kind in (heed.ArgumentError, heed.UnsupportedError, heed.OutOfMemoryError):
        assert issubclass(kind, heed.Error)


def test_memory_that_there_is_not():
    row = np.broadcast_to(F32(1), (1, 1, 2**36, 8))
    with pytest.raises(MemoryError):
        heed.attention(row, KEY[:1, :1], VALUE[:1, :1])
