"""heed.rotate and heed.project against their definitions, heed.merge into its own parts."""

import numpy as np
from cases import tensors

import heed

RANDOM = np.random.default_rng(5)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def turned(x, angles):
    """Halves of the first features of x, pairs as many as angles, turned in float64."""
    pairs = angles.shape[-1]
    z = (x[..., :pairs] + 1j * x[..., pairs : 2 * pairs]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag, x[..., 2 * pairs :]], -1)


def angles(positions, base=1e4, features=8):
    steps = base ** (-2 * np.arange(features // 2) / features)
    return np.asarray(positions)[..., None] * steps


def test_rotate():
    x = RANDOM.standard_normal((2, 3, 5, 8))
    positions = np.array([[4, 0, 9, 100000, 2], [7, 7, 1, 0, 3]])
    of = angles(np.arange(9), 500.0, 6)
    tables = {"cosines": np.cos(of).astype(np.float32), "sines": np.sin(of).astype(np.float32)}
    for options, expected, bound in [
        ({"position": 7}, turned(x, angles(np.arange(5) + 7)), 1e-12),
        ({"positions": positions[0].tolist()}, turned(x, angles(positions[0])), 1e-12),
        ({"positions": positions}, turned(x, angles(positions[:, None])), 1e-12),
        ({"positions": positions.astype(np.int32)[:1]}, turned(x, angles(positions[0])), 1e-12),
        ({"base": 500.0, "features": 6}, turned(x, of[:5]), 1e-12),
        ({"positions": [8, 0, 3, 3, 1], **tables}, turned(x, of[[8, 0, 3, 3, 1]]), 1e-6),
    ]:
        np.testing.assert_allclose(heed.rotate(x, **options), expected, atol=bound)
    interleaved = heed.rotate(x[..., [0, 4, 1, 5, 2, 6, 3, 7]], pairs="interleaved")
    np.testing.assert_array_equal(interleaved[..., [0, 2, 4, 6, 1, 3, 5, 7]], heed.rotate(x))
    out = np.zeros_like(x)
    assert heed.rotate(x, out=out) is out
    assert heed.rotate(x, position=0, out=x) is x
    np.testing.assert_array_equal(out, x)


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
