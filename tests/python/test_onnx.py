"""Every case of ONNX's Attention operator, as its wheel generates them, through heed.attention."""

import warnings

import numpy as np
import pytest

import heed

onnx = pytest.importorskip("onnx")

POINTS = ("scores", "capped", "masked", "probabilities")
LEAST = 93  # of release 1.23; later ones have more


def collect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases("Attention")
    return [c for c in cases if not c.name.endswith("_expanded")]


CASES = collect()


def test_they_are_all_here():
    assert len(CASES) >= LEAST


def heads_apart(x, heads):
    """[batch, rows, heads * features] as [batch, heads, rows, features]."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attend(node, given):
    """What the node computes, by output."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    inputs = dict(zip((i for i, name in enumerate(node.input) if name), given, strict=True))
    query = heads_apart(inputs[0], attributes.get("q_num_heads"))
    key = heads_apart(inputs[1], attributes.get("kv_num_heads"))
    value = heads_apart(inputs[2], attributes.get("kv_num_heads"))
    mask, nonpad, past = inputs.get(3), inputs.get(6), 0
    if 4 in inputs:
        past = inputs[4].shape[2]
        key, value = np.concatenate([inputs[4], key], 2), np.concatenate([inputs[5], value], 2)
    outputs = {1: key, 2: value}

    options = {"scale": attributes.get("scale"), "softcap": attributes.get("softcap") or None}
    if attributes.get("left_window_size", -1) >= 0 or attributes.get("right_window_size", -1) >= 0:
        options["window"] = (
            attributes.get("left_window_size", -1),
            attributes.get("right_window_size", -1),
        )
    # The new rows follow the past; with lengths they are the last ones.
    options["causal"] = bool(attributes.get("is_causal"))
    options["alignment"] = past if nonpad is None else "bottom_right"
    keys = key.shape[2]
    if mask is not None:
        options["attn_mask"] = mask
        if 1 < mask.shape[-1] < keys:  # those that the mask lacks are excluded
            key, value = key[:, :, : mask.shape[-1]], value[:, :, : mask.shape[-1]]
    if nonpad is not None:
        options["key_lengths"] = nonpad
    point = POINTS[attributes.get("qk_matmul_output_mode", 0)]
    result = heed.attention(query, key, value, **options, return_weights=point)
    outputs[0] = result.out
    if inputs[0].ndim == 3:
        outputs[0] = result.out.transpose(0, 2, 1, 3).reshape(*inputs[0].shape[:2], -1)
    missing = keys - key.shape[2]
    fill = -np.inf if point == "masked" else 0
    outputs[3] = np.pad(result.weights, [(0, 0)] * 3 + [(0, missing)], constant_values=fill)
    return outputs


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_case(case):
    node = case.model.graph.node[0]
    names = [i for i, name in enumerate(node.output) if name]
    for given, expected in case.data_sets:
        outputs = attend(node, given)
        narrow = given[0].dtype != np.float32
        # The operator's definition rounds 16-bit numbers after every step; heed once.
        tolerance = 4 * float(2.0**-8 if given[0].dtype.name == "bfloat16" else 2.0**-11)
        for name, wanted in zip(names, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(outputs[name], np.float32),
                np.asarray(wanted, np.float32),
                rtol=tolerance if narrow else 1e-5,
                atol=tolerance if narrow else 1e-6,
                err_msg=node.output[name],
            )
