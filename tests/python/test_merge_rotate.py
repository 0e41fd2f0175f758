"""heed.merge and heed.rotate against their definitions."""

import numpy as np
import pytest
from kinds import Kind, assert_close, lse_unit, needed, params

import heed

RANDOM = np.random.default_rng(5)
F32 = np.float32


@pytest.mark.parametrize("kind", params())
def test_merged_parts_are_the_whole(kind: Kind):
    query, key, value = (needed(kind).make(RANDOM.standard_normal((2, 3, n, 8))) for n in (4, 9, 9))
    parts = [
        heed.attention(query, key[:, :, half], value[:, :, half], return_lse=True)[:2]
        for half in (slice(0, 4), slice(4, None))
    ]
    out, lse = heed.merge(parts)
    assert type(out) is type(parts[0][0])
    whole = heed.attention(query, key, value, return_lse=True)
    assert_close(kind.back(out), kind.back(whole.out), 2 * kind.unit, "out")
    assert_close(lse, np.asarray(whole.lse, np.float64), lse_unit(kind), "lse")


def test_merge_into_a_part():
    query, key, value = (RANDOM.standard_normal((2, 3, n, 8)).astype(np.float32) for n in (4, 9, 9))
    first = heed.attention(query, key, value, return_lse=True)
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
