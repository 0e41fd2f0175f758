"""heed.Cache and heed.Sequence: what they hold, by heed.attention over the same rows."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import heed

LAYERS, HEADS, KEY_HEADS, FEATURES, VALUE_FEATURES = 2, 4, 2, 8, 6
SIZES = dict(layers=LAYERS, key_heads=KEY_HEADS, features=FEATURES, value_features=VALUE_FEATURES)
F32 = np.float32


def cache_of(**changes):
    return heed.Cache(**{**SIZES, "page_rows": 16, "pages": 40, **changes})


def rows_of(count, seed=0):
    random = np.random.default_rng(seed)
    key = random.standard_normal((KEY_HEADS, count, FEATURES)).astype(F32)
    value = random.standard_normal((KEY_HEADS, count, VALUE_FEATURES)).astype(F32)
    return key, value


def queries_of(*shape, seed=9):
    return np.random.default_rng(seed).standard_normal((*shape, FEATURES)).astype(F32)


def filled(cache, count, seed=0):
    """A sequence of so many rows in every layer, and these rows, layer by layer.

    Layer 1 gets them in parts of any length, backwards in memory, as of a batch of one.
    """
    sequence = cache.sequence()
    rows = [rows_of(count, seed + layer) for layer in range(LAYERS)]
    assert sequence.append(*rows[0]) is None
    key, value = (x[None, :, ::-1].copy()[:, :, ::-1] for x in rows[1])
    for begin, end in ((0, 5), (5, 6), (6, count)):
        sequence.append(key[:, :, begin:end], value[:, :, begin:end], layer=1)
    return sequence, rows


def assert_holds(sequence, *rows, layer=0):
    """The bits of attention over these keys and values."""
    query = queries_of(HEADS, 2)
    found = sequence.cache.attention(sequence, query, layer=layer)
    np.testing.assert_array_equal(found, heed.attention(query, *rows))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "float8_e4m3fn"])
def test_stored_types(dtype):
    scales = {"key_scale": 0.01, "value_scale": 0.02} if dtype == "float8_e4m3fn" else {}
    cache = cache_of(dtype=dtype, **scales)
    assert cache.describe()["dtype"] == dtype
    sequence, (rows, _) = filled(cache, 40)
    query = queries_of(HEADS, 2)
    error = np.abs(cache.attention(sequence, query) - heed.attention(query, *rows)).max()
    assert 1e-6 < error < 0.15  # it was rounded


def test_dtype_by_any_name():
    for dtype in (np.float16, np.dtype("float16"), "float16"):
        assert cache_of(dtype=dtype).describe()["dtype"] == "float16"
    torch = pytest.importorskip("torch")
    assert cache_of(dtype=torch.bfloat16).describe()["dtype"] == "bfloat16"


LENGTHS = (33, 7, 18)


def test_sequences_of_any_length_together():
    """With the bits that each has alone, of attention over its rows side by side."""
    cache = cache_of()
    made = [filled(cache, length, 10 * i) for i, length in enumerate(LENGTHS)]
    query = queries_of(3, HEADS, 2)
    mask = np.random.default_rng(1).random((3, 1, 2, 33)) < 0.7
    options = {"causal": "bottom_right", "window": (20, 0), "softcap": 0.5, "scale": 0.8}
    options |= {"alibi_slopes": [0.5, 0.25, 0.1, 0.0], "sinks": [0.0, 1.0, -1.0, 2.0]}
    options |= {"return_weights": True, "return_lse": True}
    for layer in range(LAYERS):
        sequences = [sequence for sequence, _ in made]
        found = cache.attention(sequences, query, layer=layer, attn_mask=mask, **options)
        assert found.weights.shape == (3, HEADS, 2, max(LENGTHS))
        for b, (_, rows) in enumerate(made):
            own = mask[b, ..., : LENGTHS[b]]
            expected = heed.attention(query[b], *rows[layer], attn_mask=own, **options)
            np.testing.assert_array_equal(found.out[b], expected.out)
            np.testing.assert_array_equal(found.lse[b], expected.lse)
            weights = found.weights[b]
            np.testing.assert_array_equal(weights[..., : LENGTHS[b]], expected.weights)
            assert (weights[..., LENGTHS[b] :] == 0).all()


def test_packed_queries_out_and_repeated_sequences():
    cache = cache_of()
    made = [filled(cache, length, 10 * i) for i, length in enumerate(LENGTHS)]
    a, b, c = (sequence for sequence, _ in made)
    sequences = (c, a, c)
    starts = np.array([0, 2, 3, 7], np.int32)
    query = queries_of(7, HEADS)
    out = np.zeros((7, HEADS, 2 * VALUE_FEATURES), F32)[..., ::2]
    result = cache.attention(
        sequences, query, cu_seqlens_q=starts, causal="bottom_right", out=out, max_seqlen_k=50
    )
    assert result is out
    for i, sequence in enumerate(sequences):
        part = slice(starts[i], starts[i + 1])
        alone = cache.attention(sequence, query[part].swapaxes(0, 1), causal="bottom_right")
        np.testing.assert_array_equal(out[part].swapaxes(0, 1), alone)
    one_query = cache.attention([a, b], query[None, 0, :, None])  # serves all sequences
    np.testing.assert_array_equal(one_query[1], cache.attention(b, query[0, :, None]))
    assert cache.attention([], queries_of(0, HEADS, 1)).shape == (0, HEADS, 1, VALUE_FEATURES)


def test_fork_truncate_and_pages():
    cache = cache_of()

    def told():
        return [cache.describe()[n] for n in ("pages_used", "pages_shared", "sequences")]

    sequence, rows = filled(cache, 40)
    assert told() == [3, 0, 1]
    fork = sequence.fork()
    assert told() == [3, 3, 2]
    assert fork.cache is cache
    more = [rows_of(3, 50 + layer) for layer in range(LAYERS)]
    for layer, pair in enumerate(more):
        fork.append(*pair, layer=layer)
    assert told() == [4, 2, 2]
    for layer in range(LAYERS):
        both = [np.concatenate(x, 1) for x in zip(rows[layer], more[layer], strict=True)]
        assert_holds(sequence, *rows[layer], layer=layer)
        assert_holds(fork, *both, layer=layer)
    fork.truncate(10)
    assert (len(fork), fork.length(1), len(sequence)) == (10, 10, 40)
    assert_holds(fork, *(x[:, :10] for x in rows[0]))
    fork.free()
    assert told() == [3, 0, 1]
    assert repr(fork) == "<heed.Sequence, freed>"
    assert repr(sequence) == "<heed.Sequence of 40 rows>"
    assert repr(cache) == "<heed.Cache: 3 of 40 pages used, 1 sequences>"


TABLES = {f: getattr(np, f)(np.arange(100)[:, None] * [0.3, 0.1]) for f in ("cos", "sin")}
ROTARIES = [
    ("halves", {}),
    ({"pairs": "interleaved", "features": 4}, {"pairs": "interleaved", "features": 4}),
    ({"base": 500.0}, {"base": 500.0}),
    (None, {f"{name}{end}": TABLES[name] for name, end in (("cos", "ines"), ("sin", "es"))}),
]


@pytest.mark.parametrize(("rotary", "arguments"), ROTARIES)
def test_rotary(rotary, arguments):
    if rotary is None:  # tables with strides, which are changed afterwards
        wide = {name: np.tile(x, 2).astype(F32) for name, x in arguments.items()}
        cache = cache_of(rotary={name: x[:, :2] for name, x in wide.items()})
        arguments = {name: x[:, :2].copy() for name, x in wide.items()}
        for table in wide.values():
            table[:] = np.nan
    else:
        cache = cache_of(rotary=rotary)
    key, value = rows_of(30)
    query = queries_of(HEADS, 4)
    places, where = np.random.default_rng(3).permutation(40)[:30], [3, 1, 4, 1]
    # How rows are appended and queried, and where that makes keys and queries stand.
    for rows, queries, keys_at, queries_at in (
        ({}, {}, range(30), range(26, 30)),
        ({"positions": places}, {"positions": where}, places, where),
        ({"position_offset": 7}, {"position_offset": 2}, range(7, 37), range(28, 32)),
    ):
        sequence = cache.sequence()
        sequence.append(key, value, **rows)
        out = cache.attention(sequence, query, **queries)
        turned = (
            heed.rotate(x, list(at), **arguments) for x, at in ((query, queries_at), (key, keys_at))
        )
        np.testing.assert_allclose(out, heed.attention(*turned, value), atol=1e-6)


def test_sequences_live_with_their_objects():
    cache = cache_of()
    sequence, (rows, _) = filled(cache, 20)
    for _ in range(5):
        cache.sequence().append(*rows)
    gc.collect()
    assert cache.describe()["sequences"] == 1
    assert cache.describe()["pages_used"] == 2
    del cache  # which its sequence keeps
    gc.collect()
    assert_holds(sequence, *rows)


def test_pages_and_sequences_run_out():
    cache = cache_of(pages=2, sequences=2)
    sequence = cache.sequence()
    key, value = rows_of(33)
    with pytest.raises(heed.OutOfMemoryError, match="33 more rows take 3 pages; 2 of the cache's"):
        sequence.append(key, value)
    assert len(sequence) == 0
    sequence.append(key[:, :32], value[:, :32])
    other = cache.sequence()
    with pytest.raises(MemoryError, match="2 sequences, as many as its sequences allow"):
        cache.sequence()
    del sequence
    gc.collect()
    other.append(key[:, :16], value[:, :16])


def test_bytes_and_description():
    sizes = {"layers": 3, "key_heads": 2, "features": 8, "pages": 5}
    said = heed.Cache(**sizes).describe()
    page_bytes, all_bytes = said.pop("page_bytes"), said.pop("bytes")
    assert page_bytes == 3 * 2 * 64 * (8 + 8) * 4
    assert 5 * page_bytes < heed.cache_bytes(**sizes) <= all_bytes
    defaults = {"dtype": "float32", "value_features": 8, "page_rows": 64}
    counts = dict.fromkeys(("pages_used", "pages_shared", "sequences"), 0)
    assert said == {**sizes, **defaults, **counts}


def test_threads():
    """Each with a sequence of its own, and all with one that nobody changes."""
    cache = cache_of(pages=400)
    shared, ((key, value), _) = filled(cache, 200)
    query = queries_of(HEADS, 150)  # so many that calls give the GIL back
    expected = heed.attention(query, key, value)

    def work(seed):
        for length in range(200, 260, 20):
            mine, ((k, v), _) = filled(cache, length, seed)
            both = cache.attention([mine, shared], np.stack([query, query]))
            np.testing.assert_array_equal(both[0], heed.attention(query, k, v))
            np.testing.assert_array_equal(both[1], expected)
            fork = shared.fork()
            fork.append(k, v)
            assert cache.load(mine.save()).save() == mine.save()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, 100 * i) for i in range(8)]:
            done.result()
    gc.collect()
    assert cache.describe()["sequences"] == 1


def test_a_change_is_refused_while_another_call_reads():
    """A score function runs in the middle of a call."""
    cache = cache_of()
    sequence, ((key, value), _) = filled(cache, 20)
    refused = []

    def scores(scores_, *_):
        for change in (lambda: sequence.append(key, value), sequence.free):
            try:
                change()
            except heed.BusyError as error:
                refused.append(str(error))
        assert len(sequence) == 20
        return scores_

    query = queries_of(HEADS, 1)
    out = cache.attention(sequence, query, score_function=scores)
    expected = heed.attention(query, key, value, score_function=lambda s, *_: s)
    np.testing.assert_array_equal(out, expected)
    assert len(refused) >= 2
    assert all("is being used by another call" in text for text in refused)
    assert len(sequence) == 20


def test_sequences_that_are_not_there():
    freed = filled(cache_of(), 5)[0]
    freed.free()
    calls = [freed.fork, freed.free, freed.save, freed.length, freed.__len__]
    calls += [lambda: freed.truncate(1), lambda: freed.append(*rows_of(3))]
    for call in calls:
        with pytest.raises(heed.ArgumentError, match="the sequence was freed"):
            call()
    with pytest.raises(TypeError, match="no constructor"):
        heed.Sequence()


def test_a_forked_process_uses_the_cache():
    cache = cache_of()
    sequence, (rows, _) = filled(cache, 20)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fork = sequence.fork()
            fork.append(*rows_of(3))
            assert_holds(sequence, *rows)
            code = 0 if (len(sequence), len(fork)) == (20, 23) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.describe()["sequences"] == 1
