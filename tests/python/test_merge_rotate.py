"""heed.merge and heed.rotate against their definitions."""

import numpy as np
import pytest
from kinds import Kind, assert_close, lse_unit, needed, params

import heed

RANDOM = np.random.default_rng(5)


def parts_of(kind, query, key, value, cut):
    make = needed(kind).make
    q, halves = make(query), (slice(0, cut), slice(cut, None))
    return [
        tuple(heed.attention(q, make(key[:, :, h]), make(value[:, :, h]), return_lse=True)[:2])
        for h in halves
    ]


@pytest.mark.parametrize("kind", params())
def test_merged_parts_are_the_whole(kind: Kind):
    query, key, value = (RANDOM.standard_normal((2, 3, n, 8)) for n in (4, 9, 9))
    parts = parts_of(kind, query, key, value, 4)
    out, lse = heed.merge(parts)
    assert type(out) is type(parts[0][0])
    whole = heed.attention(*[kind.make(x) for x in (query, key, value)], return_lse=True)
    assert_close(kind.back(out), kind.back(whole.out), 2 * kind.unit, "out")
    assert_close(lse, np.asarray(whole.lse, np.float64), lse_unit(kind), "lse")


def test_merge_into_a_part_and_empty_parts():
    query, key, value = (RANDOM.standard_normal((2, 3, n, 8)).astype(np.float32) for n in (4, 9, 9))
    first = heed.attention(query, key, value, return_lse=True)
    empty = (np.full_like(first.out, np.nan), np.full_like(first.lse, -np.inf))
    np.testing.assert_array_equal(heed.merge([first[:2], empty])[0], first.out)
    out, lse = heed.merge([empty, empty])
    assert (out == 0).all()
    assert (lse == -np.inf).all()
    pair = (first.out.copy(), first.lse.copy())
    back = heed.merge([pair, first[:2]], out=pair)
    assert back[0] is pair[0]
    assert back[1] is pair[1]
    np.testing.assert_allclose(pair[1], first.lse + np.log(2), rtol=1e-6)


def test_merge_packed():
    rows = RANDOM.standard_normal((5, 5, 8)).astype(np.float32)  # as many heads as rows
    cu = [0, 2, 5]
    part = heed.attention(rows, rows, rows, cu_seqlens_q=cu, cu_seqlens_k=cu, return_lse=True)[:2]
    weight = np.array([1.0, 2.0])
    other = (part[0] + 1, part[1] + np.float32(np.log(2)))
    out, lse = heed.merge([part, other], packed=True)
    np.testing.assert_allclose(out, part[0] + weight[1] / weight.sum(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse, part[1] + np.log(3), rtol=1e-6)


F32 = np.float32
OUT = np.zeros((2, 4, 5, 8), F32)
LSE = np.zeros((2, 4, 5), F32)

MERGE_REFUSED = [
    ([], {}, ValueError, "parts is empty; there must be at least one part"),
    (3, {}, TypeError, r"parts must be a sequence of pairs \(out, lse\), not int"),
    ([OUT], {}, ValueError, r"parts\[0\]\[0\] has 3 axes|parts\[0\]\[1\] has shape"),
    ([(OUT,)], {}, TypeError, r"parts\[0\] must be a pair \(out, lse\)"),
    ([(OUT, 1)], {}, TypeError, r"parts\[0\]\[1\] must be an array"),
    (
        [(OUT, LSE[:1])],
        {},
        ValueError,
        r"parts\[0\]\[1\] has shape \[1, 4, 5\]; it must have \[2, 4, 5\], as parts\[0\]\[0\] has",
    ),
    (
        [(OUT, LSE.astype(np.float16))],
        {},
        ValueError,
        r"parts\[0\]\[1\] is float16; it must be float32",
    ),
    ([(OUT.astype(np.int8), LSE)], {}, ValueError, r"parts\[0\]\[0\] is int8; it must be float32"),
    (
        [(OUT, LSE), (OUT[::-1], LSE)],
        {},
        ValueError,
        r"parts\[1\]\[0\] is .* with strides \[-160, .*; it must be as of the first part",
    ),
    (
        [(OUT, LSE)],
        {"out": (OUT[:1], LSE[:1])},
        ValueError,
        r"out\[0\] has shape .*; the parts have",
    ),
    ([(OUT, LSE)], {"packed": True}, ValueError, r"it must have axes \[rows, heads, features\]"),
    ([(OUT, LSE)], {"packed": 1}, TypeError, "packed must be True or False, not 1"),
    ([(OUT, LSE)], {"out": OUT}, TypeError, r"out\[0\] has|out\[1\] has|out\[1\] must|out must"),
]


@pytest.mark.parametrize(("parts", "options", "kind", "message"), MERGE_REFUSED)
def test_merge_refuses(parts, options, kind, message):
    with pytest.raises((kind, ValueError), match=message):
        heed.merge(parts, **options)


def turned(x, positions, base=1e4, features=None, interleaved=False, angles=None):
    """The definition, in float64; positions [rows] or [batch, 1, rows]."""
    features = features or x.shape[-1]
    half = features // 2
    if angles is None:
        angles = np.asarray(positions)[..., None] * base ** (-2 * np.arange(half) / features)
    cos, sin = np.cos(angles), np.sin(angles)
    y = x.astype(np.float64).copy()
    first = slice(0, features, 2) if interleaved else slice(0, half)
    second = slice(1, features, 2) if interleaved else slice(half, features)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y


@pytest.mark.parametrize("kind", params())
def test_rotate(kind: Kind):
    x = needed(kind).make(RANDOM.standard_normal((2, 3, 5, 8)))
    numbers = kind.back(x)
    positions = np.array([[4, 0, 9, 100000, 2], [7, 7, 1, 0, 3]])
    for options, expected in [
        ({}, turned(numbers, np.arange(5))),
        ({"position": 7}, turned(numbers, np.arange(5) + 7)),
        ({"positions": positions[0]}, turned(numbers, positions[0])),
        ({"positions": list(map(int, positions[0]))}, turned(numbers, positions[0])),
        ({"positions": positions}, turned(numbers, positions[:, None])),
        ({"positions": positions.astype(np.int32)[:1]}, turned(numbers, positions[0])),
        ({"base": 500.0, "features": 6}, turned(numbers, np.arange(5), 500.0, 6)),
        ({"pairs": "interleaved"}, turned(numbers, np.arange(5), interleaved=True)),
    ]:
        got = heed.rotate(x, **options)
        assert type(got) is type(x)
        assert_close(kind.back(got), expected, kind.unit, str(options))
    out = x * 0
    assert heed.rotate(x, out=out) is out
    assert heed.rotate(x, position=0, out=x) is x
    np.testing.assert_array_equal(kind.back(out), kind.back(x))


def test_rotate_by_tables():
    x = RANDOM.standard_normal((3, 5, 8)).astype(F32)
    angles = RANDOM.standard_normal((9, 3))
    tables = {"cosines": np.cos(angles).astype(F32), "sines": np.sin(angles).astype(F32)}
    positions = [8, 0, 3, 3, 1]
    expected = turned(x, None, features=6, angles=angles[positions])
    assert_close(heed.rotate(x, positions, **tables), expected, 2.0**-24, "tables")


X = np.zeros((2, 5, 8), F32)
TABLE = np.ones((3, 4), F32)

ROTATE_REFUSED = [
    (dict(x=[1.0]), "x must be an array"),
    (dict(x=X[0, 0]), r"x has shape \[8\]; it must have axes"),
    (dict(x=X.astype(np.int32)), "x is int32; it must be float32"),
    (
        dict(x=X[..., :7]),
        "x has 7 features; features must say how many, an even number, are turned",
    ),
    (dict(features=3), "features is 3; it must be even, at least 2"),
    (dict(features=10), "features is 10; x has 8"),
    (dict(pairs="thirds"), 'pairs is \'thirds\'; it must be "halves" or "interleaved"'),
    (dict(base=0), "base is 0; it must be finite and at least 1e-256"),
    (dict(base="e"), "base must be a number, not str"),
    (dict(base=2.0, cosines=TABLE, sines=TABLE), "base is given beside cosines and sines"),
    (dict(cosines=TABLE), "cosines is given without sines"),
    (
        dict(cosines=TABLE, sines=TABLE[:2]),
        "cosines is float32 .3, 4. .* sines float32 .2, 4. .* alike",
    ),
    (
        dict(cosines=TABLE.T, sines=TABLE.T),
        "cosines is float32 .4, 3. with strides .1, 4.; it must be",
    ),
    (dict(cosines=TABLE, sines=TABLE, features=4), "cosines has 4 pairs; features, 4, are 2 pairs"),
    (dict(cosines=TABLE, sines=TABLE), r"position \+ rows - 1 is 4; it must be 0 to 2"),
    (dict(position=-1), "position is -1; it must be 0 to"),
    (
        dict(position=1, positions=[1] * 5),
        "position is 1 beside positions, which say where rows stand",
    ),
    (dict(positions=[1, 2]), r"positions has shape \[2\]; it must have \[5\] or \[1, 5\]"),
    (dict(positions=[-1] * 5), r"positions\[0\]\[0\] is -1"),
    (dict(out=X[:1]), r"out has shape \[1, 5, 8\]; x has \[2, 5, 8\]"),
    (dict(out=X.astype(float)), "out is float64, x float32; float64 goes with float64"),
]


@pytest.mark.parametrize(("given", "message"), ROTATE_REFUSED)
def test_rotate_refuses(given, message):
    given = dict(given)
    with pytest.raises((heed.ArgumentError, TypeError), match=message):
        heed.rotate(given.pop("x", X), **given)
