"""heed.project against its definition."""

import numpy as np
import pytest
from kinds import Kind, assert_close, needed, params, product_unit

import heed

RANDOM = np.random.default_rng(11)
F32 = np.float32


@pytest.mark.parametrize("shape", [(7, 23), (3, 5, 23), (2, 0, 23)])
@pytest.mark.parametrize("kind", params())
def test_projects(kind: Kind, shape):
    make = needed(kind).make
    x, matrix, bias = (make(RANDOM.standard_normal(s)) for s in (shape, (23, 9), (9,)))
    for given in (None, bias):
        got = heed.project(x, heed.Weights(matrix, given))
        assert type(got) is type(x)
        assert got.dtype == x.dtype
        expected = kind.back(x) @ kind.back(matrix) + (0 if given is None else kind.back(bias))
        unit = max(kind.unit, product_unit(kind))
        assert_close(kind.back(got) / 8, expected / 8, unit, "terms as large as the largest cancel")


def test_reads_and_writes_in_place():
    matrix = RANDOM.standard_normal((9, 23)).astype(F32)
    weights = heed.Weights(matrix.T)
    x = RANDOM.standard_normal((2, 23, 40)).astype(F32)
    turned = x.transpose(0, 2, 1)
    for rows in (turned, turned[:, ::-2], np.broadcast_to(x[0, :, 0], (3, 4, 23))):
        out = np.zeros((*rows.shape[:2], 18), F32)[..., ::2]
        assert heed.project(rows, weights, out=out) is out
        assert_close(out / 8, rows.astype(float) @ matrix.T / 8, 2.0**-24, "out")
        narrow = np.zeros((9, *rows.shape[:2]), np.float16).transpose(1, 2, 0)
        assert heed.project(rows, weights, out=narrow) is narrow
        np.testing.assert_array_equal(narrow, out.astype(np.float16))
