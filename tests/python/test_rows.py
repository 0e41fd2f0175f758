"""heed.rotate and heed.project against their definitions, heed.merge into its own parts."""

import numpy as np
from cases import tensors

import heed

RANDOM = np.random.default_rng(5)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def turned(x, angles, interleaved=False):
    """Pairs of x as many as angles, in float64; `angles` are [..., rows, pairs]."""
    pairs = angles.shape[-1]
    first = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    second = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    y = x.copy()
    a, b = x[..., first], x[..., second]
    y[..., first] = a * np.cos(angles) - b * np.sin(angles)
    y[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return y


def angles(positions, base=1e4, features=8):
    steps = base ** (-2 * np.arange(features // 2) / features)
    return np.asarray(positions)[..., None] * steps


def test_rotate():
    x = RANDOM.standard_normal((2, 3, 5, 8))
    positions = np.array([[4, 0, 9, 100000, 2], [7, 7, 1, 0, 3]])
    for options, expected in [
        ({}, turned(x, angles(np.arange(5)))),
        ({"position": 7}, turned(x, angles(np.arange(5) + 7))),
        ({"positions": positions[0]}, turned(x, angles(positions[0]))),
        ({"positions": positions[0].tolist()}, turned(x, angles(positions[0]))),
        ({"positions": positions}, turned(x, angles(positions[:, None]))),
        ({"positions": positions.astype(np.int32)[:1]}, turned(x, angles(positions[0]))),
        ({"base": 500.0, "features": 6}, turned(x, angles(np.arange(5), 500.0, 6))),
        ({"pairs": "interleaved"}, turned(x, angles(np.arange(5)), True)),
    ]:
        np.testing.assert_allclose(heed.rotate(x, **options), expected, **CLOSE, err_msg=options)
    out = np.zeros_like(x)
    assert heed.rotate(x, out=out) is out
    assert heed.rotate(x, position=0, out=x) is x
    np.testing.assert_array_equal(out, x)


def test_rotate_by_tables():
    x, of = RANDOM.standard_normal((3, 5, 8)), RANDOM.standard_normal((9, 3))
    tables = {"cosines": np.cos(of).astype(np.float32), "sines": np.sin(of).astype(np.float32)}
    positions = [8, 0, 3, 3, 1]
    found = heed.rotate(x, positions, **tables)
    np.testing.assert_allclose(found, turned(x, of[positions]), atol=1e-6)


def test_project_reads_and_writes_in_place():
    matrix, bias = RANDOM.standard_normal((9, 23)), RANDOM.standard_normal(9)
    x = RANDOM.standard_normal((2, 23, 40)).transpose(0, 2, 1)
    for rows in (x, x[:, ::-2], x[0], x[:, :0], np.broadcast_to(x[0, 0], (3, 4, 23))):
        for given in (None, bias):
            weights = heed.Weights(matrix.T, given)
            out = np.zeros((*rows.shape[:-1], 18))[..., ::2]
            assert heed.project(rows, weights, out=out) is out
            expected = rows @ matrix.T + (0 if given is None else bias)
            np.testing.assert_allclose(out, expected, **CLOSE)
            np.testing.assert_array_equal(heed.project(rows, weights), out)


def test_merge_into_a_part():
    first = heed.attention(*tensors(), return_lse=True)
    pair = (first.out.copy(), first.lse.copy())
    back = heed.merge([pair, first[:2]], out=pair)
    assert back[0] is pair[0]
    assert back[1] is pair[1]
    np.testing.assert_allclose(pair[1], first.lse + np.log(2), rtol=1e-6)
