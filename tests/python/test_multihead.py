"""heed.multihead and heed.Weights: what they keep, and what weights say of themselves."""

import numpy as np

import heed

BATCH, ROWS, WIDTH, HEADS, FEATURES, VALUE_FEATURES = 2, 5, 12, 4, 6, 5
MATRICES = ("w_query", "w_key", "w_value", "w_out")
BIASES = ("b_query", "b_key", "b_value", "b_out")


def block(element=np.float32, **options):
    """Arguments of self-attention."""
    random = np.random.default_rng(5)
    widths = (HEADS * FEATURES, HEADS * FEATURES, HEADS * VALUE_FEATURES, 9)
    given = {"query": random.standard_normal((BATCH, ROWS, WIDTH))}
    for name, bias, width in zip(MATRICES, BIASES, widths, strict=True):
        rows = HEADS * VALUE_FEATURES if name == "w_out" else WIDTH
        given[name] = 0.4 * random.standard_normal((rows, width))
        given[bias] = 0.4 * random.standard_normal(width)
    return {**{name: x.astype(element) for name, x in given.items()}, "heads": HEADS, **options}


def prepared_of(given):
    """Arguments with heed.Weights for matrices and their biases."""
    made = {name: x for name, x in given.items() if name not in BIASES}
    pairs = zip(MATRICES, BIASES, strict=True)
    return {**made, **{name: heed.Weights(given[name], given[bias]) for name, bias in pairs}}


def test_batch_axis_may_lack():
    given = block(causal=True, return_lse=True)
    whole = heed.multihead(**given)
    for b in range(BATCH):
        alone = heed.multihead(**{**given, "query": given["query"][b]})
        np.testing.assert_array_equal(alone.out, whole.out[b])
        np.testing.assert_array_equal(alone.lse, whole.lse[b])


def test_weights_need_nothing_afterwards():
    given = block()
    expected = heed.multihead(**given)
    prepared = {**prepared_of(given), "query": given["query"].copy()}
    for name in ("query", *MATRICES, *BIASES):
        given[name][:] = np.nan
    np.testing.assert_array_equal(heed.multihead(**prepared), expected)


def test_describe_weights():
    weights = heed.Weights(np.ones((3, 4), np.float16))
    said = weights.describe()
    assert (said["in"], said["out"], said["arithmetic"]) == (3, 4, "float32")
    assert said["bytes"] >= 3 * 4 * 4
    assert repr(weights) == "<heed.Weights: 3 features to 4, float32>"
    tensor = heed.Weights(np.ones((2, 3, 4)))
    assert (tensor.describe()["in"], tensor.describe()["arithmetic"]) == (6, "float64")
