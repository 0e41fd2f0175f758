"""What caches and sequences refuse, and in which words."""

import numpy as np
import pytest
from test_cache import FEATURES, HEADS, cache_of, filled, queries_of, rows_of

import heed

F32 = np.float32
ONE = {"key_heads": 2, "features": 8, "pages": 3}
TABLE = np.ones((5, 4), F32)

CACHES = [
    (dict(pages=0), "pages is 0; it must be at least 1"),
    (dict(key_heads=-1), "key_heads is -1; it must be at least 1"),
    (dict(features=0), "features is 0; it must be at least 1"),
    (dict(page_rows=24), "page_rows is 24; it must be a multiple of 16"),
    (dict(sequences=2**20 + 1), "sequences is 1048577; it must be at most 1048576"),
    (dict(pages=2**40), "pages is 1099511627776; it must be at most 2147483647"),
    (dict(dtype="float64"), "dtype is float64; it must be float32, float16, bfloat16, int8 or flo"),
    (dict(dtype=np.int32), "dtype is int32; it must be"),
    (dict(key_scale=2.0), 'key_scale is given; only dtype="float8_e4m3fn" has one'),
    (dict(value_scale=0, dtype="float8_e4m3fn"), "value_scale is 0; it must be above 0"),
    (dict(rotary="quarters"), 'pairs is \'quarters\'; it must be "halves" or "interleaved"'),
    (dict(rotary={"features": 10}), "rotary has 10 features; keys have 8"),
    (dict(rotary={"base": -1.0}), "base is -1; it must be finite and at least"),
    (dict(rotary="halves", features=7), "rotary turns pairs, but features is 7; give rotary an ev"),
    (dict(rotary={"cosines": TABLE}), "cosines is given without sines"),
    (dict(rotary={"cosines": TABLE, "sines": TABLE[:4]}), "cosines is .* sines .* they must be al"),
]
CACHE_TYPES = [
    (dict(pages=None), "pages must be an int, not NoneType"),
    (dict(pages=2.5), "pages must be an int, not float"),
    (dict(page=3), r"Cache\(\) got an unexpected keyword argument 'page'"),
    (dict(rotary=3), 'rotary must be "halves", "interleaved", a dict or None, not int'),
    (dict(rotary={"pair": 1}), "rotary has 'pair'; it may have pairs, base, features, cosines an"),
    (dict(context=3), "context must be a heed.Context, not int"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in CACHES] + [(*row, TypeError) for row in CACHE_TYPES],
)
def test_caches(changes, message, error):
    with pytest.raises(error, match=message):
        heed.Cache(**{**ONE, **changes})
    if "context" in changes:
        message = r"cache_bytes\(\) got an unexpected keyword argument .context."
    with pytest.raises(error, match=message.replace("Cache", "cache_bytes", 1)):
        heed.cache_bytes(**{**ONE, **changes})


def test_too_large():
    with pytest.raises(MemoryError, match="there is no memory for"):
        heed.Cache(key_heads=1024, features=2**20, pages=2**14)


KEY, VALUE = rows_of(3)
APPEND = [
    (
        dict(key=KEY[:1]),
        r"key has shape \[1, 3, 8\]; it must have \[2, rows, 8\]: the cache's key",
    ),
    (dict(key=KEY.swapaxes(0, 1)), r"key has shape \[3, 2, 8\]; it must have \[2, rows, 8\]"),
    (dict(key=KEY[0]), r"key has shape \[3, 8\]; it must have"),
    (dict(key=np.stack([KEY, KEY])), r"key has shape \[2, 2, 3, 8\]; it must have"),
    (dict(value=KEY), r"value has shape \[2, 3, 8\]; it must have \[2, rows, 6\]"),
    (dict(value=VALUE[:, :2]), r"key is float32 \[2, 3, 8\], value is float32 \[2, 2, 6\]; both m"),
    (dict(key=KEY.astype(float)), "key is float64; it must be float32, float16 or bfloat16, as"),
    (dict(key=KEY.astype(int)), "key is int64; it must be float32"),
    (dict(layer=2), "layer is 2; it must be 0 to 1, for the cache's layers"),
    (dict(layer=-1), "layer is -1; it must be 0 to 1"),
    (dict(positions=[1, 2, 3]), "positions is given, but the cache has no rotary embedding"),
    (dict(position_offset=1), "position_offset is given, but the cache has no rotary embedding"),
]
APPEND_TYPES = [
    (dict(key=None), "key must be an array"),
    (dict(layer="0"), "layer must be an int, not str"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in APPEND] + [(*row, TypeError) for row in APPEND_TYPES],
)
def test_append(changes, message, error):
    cache = cache_of()
    sequence, _ = filled(cache, 5)
    before = sequence.save()
    with pytest.raises(error, match=message):
        sequence.append(**{"key": KEY, "value": VALUE, **changes})
    assert sequence.save() == before


POSITIONS = [
    (dict(positions=[1, 2]), r"positions has shape \[2\]; it must have \[3\] or \[1, 3\]"),
    (dict(positions=[1, 2, -1]), r"positions\[2\] is -1; it must be 0 to"),
    (dict(positions=[1, 2, 3], position_offset=4), "position_offset is given beside positions"),
    (dict(position_offset=-1), r"position_offset is -1; rows that lie at 0 to 2 must stand at 0"),
]


@pytest.mark.parametrize(("changes", "message"), POSITIONS)
def test_positions(changes, message):
    sequence = cache_of(rotary="halves").sequence()
    with pytest.raises(heed.ArgumentError, match=message):
        sequence.append(KEY, VALUE, **changes)
    assert len(sequence) == 0


QUERY = queries_of(2, HEADS, 3)
ATTENTION = [
    (
        dict(query=QUERY[..., :4]),
        r"query is float32 \[2, 4, 3, 4\]; it must have 8 features, as",
    ),
    (
        dict(query=QUERY[:, :3]),
        "query has 3 heads and the cache 2; each must serve the same",
    ),
    (dict(query=np.zeros((3, HEADS, 3, FEATURES), F32)), "a batch of 3, but sequences is for 2"),
    (dict(query=QUERY.astype(float)), "query is float64; it must be float32, float16 or bfloat16"),
    (dict(query=QUERY.astype(int)), "query is int64; it must be float32"),
    (dict(query=QUERY[0, 0, 0]), r"query has shape \[8\]; it must have axes"),
    (dict(layer=2), "layer is 2; it must be 0 to 1, for the cache's layers"),
    (dict(max_seqlen_k=4), "max_seqlen_k is 4; the longest of sequences has 5 rows"),
    (dict(cu_seqlens_q=[0, 3]), "cu_seqlens_q is for 1 sequences, but sequences for 2"),
    (dict(max_seqlen_q=4), "max_seqlen_q is given without cu_seqlens_q"),
    (dict(positions=[1, 2, 3]), "positions is given, but the cache has no rotary embedding"),
    (dict(window=(1, 1)), "window is given with 3 query rows and 5 keys: say by alignment"),
    (dict(attn_mask=np.ones((3, 4), bool)), r"attn_mask has shape \[3, 4\]; it must broadcast to"),
    (dict(softcap=-1), "^softcap is -1; it must be finite"),
    (dict(out=np.zeros((2, HEADS, 3, 8), F32)), r"out has shape \[2, 4, 3, 8\]; the result has"),
]
ATTENTION_TYPES = [
    (dict(query=None), "query must be an array"),
    (dict(key_lengths=[1, 2]), "key_lengths is given; the cache knows its keys and values"),
    (dict(block_table=[[1]]), "block_table is given; the cache knows"),
    (dict(causl=True), r"Cache.attention\(\) got an unexpected keyword argument 'causl'"),
    (dict(sequences=3), "sequences must be a heed.Sequence, or a list of them, not int"),
    (dict(sequences=[3]), r"sequences\[0\] must be a heed.Sequence, not int"),
]


@pytest.mark.parametrize(
    ("changes", "message", "error"),
    [(*row, heed.ArgumentError) for row in ATTENTION]
    + [(*row, TypeError) for row in ATTENTION_TYPES],
)
def test_attention(changes, message, error):
    cache = cache_of()
    sequences = [filled(cache, length)[0] for length in (5, 2)]
    out = np.full((2, HEADS, 3, 6), 7, F32)
    with pytest.raises(error, match=message):
        cache.attention(**{"sequences": sequences, "query": QUERY, "out": out, **changes})
    assert (out == 7).all()


def test_sequences_that_are_not_there():
    cache, other = cache_of(), cache_of()
    mine, theirs = filled(cache, 5)[0], filled(other, 5)[0]
    with pytest.raises(heed.ArgumentError, match=r"sequences\[1\] is of another cache"):
        cache.attention([mine, theirs], QUERY)
    with pytest.raises(heed.ArgumentError, match="sequences is of another cache"):
        cache.attention(theirs, QUERY[0])
    mine.free()
    with pytest.raises(heed.ArgumentError, match=r"sequences\[0\] was freed"):
        cache.attention([mine], QUERY[:1])
    for call in (
        mine.fork,
        mine.free,
        mine.save,
        mine.length,
        lambda: len(mine),
        lambda: mine.truncate(1),
        lambda: mine.append(KEY, VALUE),
    ):
        with pytest.raises(heed.ArgumentError, match="the sequence was freed"):
            call()
    with pytest.raises(TypeError, match="no constructor"):
        heed.Sequence()


def test_truncate():
    cache = cache_of()
    sequence, _ = filled(cache, 5)
    sequence.append(KEY, VALUE, layer=1)
    with pytest.raises(heed.ArgumentError, match="length is 6; it must be 0 to 5, the rows of lay"):
        sequence.truncate(6)
    with pytest.raises(heed.ArgumentError, match="length is -1; it must be 0 to 5"):
        sequence.truncate(-1)
    with pytest.raises(TypeError, match="length must be an int, not str"):
        sequence.truncate("5")
    assert (len(sequence), sequence.length(1)) == (5, 8)
