"""What heed.attention_backward refuses, in which words, one by one. Outputs stay as they were."""

import numpy as np
import pytest
from cases import SLOPES, mask
from refusals import refusals

import heed


def product(*arrays):
    return arrays[0]


POINTER = heed.ScoreFunction(lambda *_: None)
GRADIENT_POINTER = heed.ScoreGradient(lambda *_: None)
F32 = np.float32
OUT, LSE = np.ones((2, 4, 5, 8), F32), np.ones((2, 4, 5), F32)
KEY = np.ones((2, 2, 7, 8), F32)
GIVEN = {"query": OUT, "key": KEY, "value": KEY, "out": OUT, "lse": LSE, "grad_out": OUT}
INT8 = np.ones((2, 2, 7, 8), np.int8)
SCALES = np.ones((2, 2, 7), F32)

# Arguments to change, and the message.
REFUSED = [
    (dict(out=OUT[:, :, :4]), r"out has shape \[2, 4, 4, 8\]; it must have \[2, 4, 5, 8\], as the"),
    (dict(out=OUT.astype(float)), "out is float64 but query is float32; they must both be float64"),
    (dict(lse=LSE[:, :3]), r"lse has shape \[2, 3, 5\]; it must have \[2, 4, 5\], as the lse of"),
    (dict(lse=LSE.astype(np.float16)), "lse is float16; it must be float32 or float64"),
    (dict(grad_out=OUT[..., :7]), r"grad_out has shape \[2, 4, 5, 7\]; it must have \[2, 4, 5, 8"),
    (dict(grad_out=OUT.astype(np.int32)), "grad_out is int32; it must be float32, float64"),
    (dict(grad_lse=LSE[0]), r"grad_lse has shape \[4, 5\]; it must have \[2, 4, 5\]"),
    (dict(grad_query=OUT[:1].copy()), r"grad_query has shape \[1, 4, 5, 8\]; the gradient has"),
    (dict(grad_query=OUT.astype(float)), "grad_query is float64 but query is float32"),
    (dict(grad_key=np.broadcast_to(F32(0), (2, 2, 7, 8))), "grad_key is read-only"),
    (dict(grad_bias=True), "grad_bias is wanted, but neither bias nor a floating attn_mask is"),
    (dict(grad_bias=True, attn_mask=mask(5, 7)), "grad_bias is wanted, but neither bias nor"),
    (
        dict(grad_bias=np.empty((7,), F32), bias=np.zeros((5, 7), F32)),
        r"grad_bias has shape \[7\]; the gradient has \[5, 7\]",
    ),
    (dict(grad_sinks=True), "grad_sinks is wanted, but no sinks are given"),
    (dict(grad_alibi_slopes=True), "grad_alibi_slopes is wanted, but no alibi_slopes are given"),
    (
        dict(grad_sinks=np.empty(8, F32)[::2], sinks=SLOPES),
        r"grad_sinks is float32 \[4\] with strides \[2\]; it must be contiguous float32",
    ),
    (dict(query=OUT[:, :, :0]), r"out has shape \[2, 4, 5, 8\]; it must have \[2, 4, 0, 8\]"),
]
UNSUPPORTED = [
    (dict(hard=True), "hard is True; it must be False: hard attention is not differentiable"),
    (
        dict(key=INT8, key_scales=SCALES),
        "key is int8; gradients of 8-bit numbers are not supported",
    ),
    (
        dict(value=INT8, value_scales=SCALES),
        "value is int8; gradients of 8-bit numbers are not supported",
    ),
    (
        dict(
            key=np.ones((3, 2, 16, 8), F32),
            value=np.ones((3, 2, 16, 8), F32),
            block_table=np.zeros((2, 1), np.int32),
        ),
        "block_table is given; gradients of keys in pages are not supported",
    ),
]
WRONG_TYPES = [
    (dict(grad_query=1), "grad_query must be True, False or an array to write to, not 1"),
    (dict(accumulate=1), "accumulate must be True or False, not 1"),
    (dict(grad_key=None), "grad_key must be True, False or an array to write to, not None"),
    (dict(grad_key="no"), "grad_key must be an array, of NumPy, PyTorch or another library"),
    (dict(grad_scale=np.ones(1)), "grad_scale must be True or False, not array"),
    (dict(return_lse=True), r"attention_backward\(\) got an unexpected keyword argument 'return_l"),
    (dict(colour=1), r"attention_backward\(\) got an unexpected keyword argument 'colour'"),
    (dict(score_function=product), "score_function is given, so score_gradient must be"),
    (dict(score_gradient=product), "score_gradient is given without score_function"),
    (
        dict(score_function=product, score_gradient=GRADIENT_POINTER),
        "score_gradient is a function pointer, score_function a callable; both must be the same",
    ),
    (
        dict(score_function=POINTER, score_gradient=product),
        "score_gradient is a callable, score_function a function pointer; both must be the same",
    ),
    (
        dict(score_function=POINTER, score_gradient=(GRADIENT_POINTER, None)),
        "score_gradient must be a callable or a function pointer, not tuple: it is given the user",
    ),
    (
        dict(score_function=product, score_gradient=3),
        "score_gradient must be a callable, a function pointer of ctypes or numba",
    ),
]


@pytest.mark.parametrize(("change", "message", "kind"), refusals(REFUSED, UNSUPPORTED, WRONG_TYPES))
def test_refused(change, message, kind):
    written = np.full(KEY.shape, 7, F32)
    with pytest.raises(kind, match=message):
        heed.attention_backward(**{**GIVEN, "grad_value": written, **change})
    assert (written == 7).all()
