"""heed.project against its definition."""

import numpy as np
import pytest
from kinds import Kind, needed, params, product_unit

import heed

RANDOM = np.random.default_rng(11)
F32 = np.float32


def check(y, x, matrix, bias, unit, lost=0):
    """Every term sees as many roundings as there are, and the sum one to the result's type."""
    expected = x @ matrix + bias
    sizes = np.abs(x) @ np.abs(matrix) + np.abs(bias)
    summed = ((len(matrix) + 1) * min(unit, 2.0**-24) + lost) * sizes
    np.testing.assert_array_less(np.abs(y - expected), summed + unit * np.abs(expected) + 2.0**-24)


@pytest.mark.parametrize("shape", [(7, 23), (3, 5, 23), (2, 0, 23), (197, 23)])
@pytest.mark.parametrize("kind", params())
def test_projects(kind: Kind, shape):
    make = needed(kind).make
    x, matrix, bias = (make(RANDOM.standard_normal(s)) for s in (shape, (23, 9), (9,)))
    for given in (None, bias):
        got = heed.project(x, heed.Weights(matrix, given))
        assert type(got) is type(x)
        assert got.dtype == x.dtype
        numbers = [kind.back(a) for a in (x, matrix, bias)]
        numbers[2] = 0 if given is None else numbers[2]
        check(kind.back(got), *numbers, kind.unit, product_unit(kind))


def test_reads_and_writes_in_place():
    matrix = RANDOM.standard_normal((9, 23)).astype(F32)
    weights = heed.Weights(matrix.T)
    x = RANDOM.standard_normal((2, 23, 40)).astype(F32)
    turned = x.transpose(0, 2, 1)
    for rows in (turned, turned[:, ::-2], np.broadcast_to(x[0, :, 0], (3, 4, 23))):
        out = np.zeros((*rows.shape[:2], 18), F32)[..., ::2]
        assert heed.project(rows, weights, out=out) is out
        check(out, rows.astype(float), matrix.T.astype(float), 0, 2.0**-24)
        narrow = np.zeros((9, *rows.shape[:2]), np.float16).transpose(1, 2, 0)
        assert heed.project(rows, weights, out=narrow) is narrow
        np.testing.assert_array_equal(narrow, out.astype(np.float16))


def test_bits_do_not_depend_on_threads_or_other_rows():
    x = RANDOM.standard_normal((2, 300, 64)).astype(F32)
    weights = heed.Weights(RANDOM.standard_normal((64, 200)).astype(F32))
    one, two = (heed.project(x, weights, context=heed.Context(threads=n)) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(heed.project(x[1, 33:34], weights), one[1, 33:34])


X = np.zeros((4, 6), F32)
WEIGHTS = heed.Weights(np.ones((6, 3), F32))
REFUSED = [
    (dict(x=[1.0]), "x must be an array"),
    (dict(x=X[0]), r"x has shape \[6\]; it must have axes \[batch, rows, width\]"),
    (dict(x=X.astype(int)), "x is int64; it must be float32"),
    (dict(x=X[:, :5]), r"x is float32 \[4, 5\]; it must have 6 features, as weights have"),
    (dict(x=X.astype(float)), "x is float64 but weights is not; all must be float64, or none"),
    (dict(weights=np.ones((6, 3), F32)), "weights must be heed.Weights, not ndarray"),
    (dict(weights=None), "weights must be heed.Weights, not NoneType"),
    (dict(out=np.full((4, 2), 7, F32)), r"out has shape \[4, 2\]; the result has \[4, 3\]"),
    (dict(out=np.full((4, 3), 7.0)), "out is float64 but x is float32"),
    (dict(out=np.broadcast_to(F32(7), (4, 3))), "out is read-only"),
    (dict(context=3), "context must be a heed.Context, not int"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_refuses(given, message):
    given = {"x": X, "weights": WEIGHTS, **given}
    with pytest.raises((heed.ArgumentError, TypeError), match=message):
        heed.project(given.pop("x"), given.pop("weights"), **given)
    assert given.get("out") is None or (given["out"] == 7).all()


def test_weights_of_float64_go_with_float64():
    with pytest.raises(heed.ArgumentError, match="x is float32 but weights is float64"):
        heed.project(X, heed.Weights(np.ones((6, 3))))
