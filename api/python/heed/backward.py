"""Gradients of dense attention: ``heed.attention_backward``."""

from typing import Any, Unpack

from heed import _heed
from heed._heed import Context
from heed.options import Array, ArrayT, Options, spelled_out
from heed.results import Gradients


@spelled_out(Options)
def attention_backward(
    query: ArrayT,
    key: Array,
    value: Array,
    out: Array,
    lse: Array,
    grad_out: Array,
    *,
    grad_lse: Array | None = None,
    grad_query: bool | Array = True,
    grad_key: bool | Array = True,
    grad_value: bool | Array = True,
    grad_bias: bool | Array = False,
    grad_sinks: bool | Array = False,
    grad_alibi_slopes: bool | Array = False,
    grad_scale: bool = False,
    grad_temperature: bool = False,
    accumulate: bool = False,
    score_gradient: Any = None,
    context: Context | None = None,
    **options: Unpack[Options],
) -> Gradients[ArrayT]:
    """Gradients of ``heed.attention``, from its inputs, its results and the gradient of ``out``.

        delta_i      = <grad_out_i, out_i> - grad_lse_i
        grad_value_j = sum over i of p_ij grad_out_i
        grad_z_ij    = p_ij (<grad_out_i, v_j> - delta_i)         z = s / temperature
        grad_s_ij    = grad_z_ij / temperature, back through score function, bias, slopes, softcap
        grad_query_i = scale * sum over j of grad_s_ij k_j
        grad_key_j   = scale * sum over i of grad_s_ij q_i

    Probabilities are computed again from ``lse``: nothing of size rows times keys is kept. Rows
    that attend nothing, and keys that nobody attends, get exactly 0. Gradients are summed in
    float32 or float64, over query heads that share a key head and over axes that a tensor repeats,
    and rounded once. Their bits do not depend on threads. Hard attention is not differentiable;
    pages and 8-bit keys and values have no gradients.

    Args:
        query: as the forward call had it, as were ``key``, ``value`` and all options.
        key: see ``heed.attention``.
        value: see ``heed.attention``.
        out: what ``heed.attention`` gave.
        lse: what it gave with ``return_lse``.
        grad_out: the gradient of ``out``, in its shape; any floating type, float64 as ``query``.
        grad_lse: the gradient of ``lse``, in its shape, where the loss depends on it.
        grad_query: True, the gradient of ``query`` is wanted, in a new array of its shape and type;
            an array, it is written there, but for packed rows of no sequence, and must not overlap
            another argument; False, it is not wanted, and costs nothing.
        grad_key: the same of ``key``.
        grad_value: the same of ``value``.
        grad_bias: the same of ``bias``, or of a floating ``attn_mask``: in its shape, summed over
            the axes that it repeats.
        grad_sinks: the same of ``sinks``, ``[heads]`` of float32, or float64 if ``query`` is.
        grad_alibi_slopes: the same of ``alibi_slopes``.
        grad_scale: the derivative by ``scale``, also where that is the default, is wanted.
        grad_temperature: the same by ``temperature``.
        accumulate: gradients are added to what the arrays given for them hold.
        score_gradient: of ``score_function``, and needed with it: a callable
            ``f(gradients, scores, batch, heads, rows, keys)`` beside a callable, which returns
            ``gradients``, those of the scores that the function made, times its derivative at the
            ``scores`` that it was given, which may be anything where they are masked; a function
            pointer (``heed.ScoreGradient``) beside a function pointer, which gets the same
            ``user``.
        context: where to compute; the default one of the process unless given.
        **options: those of ``heed.attention``, but for those that ask for results.

    Returns:
        A ``heed.Gradients``, None where one is not wanted: arrays of the kind that ``query`` is,
        and ``scale`` and ``temperature`` as float.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit.
        heed.UnsupportedError: there are no gradients of this.
        TypeError: an argument is of a wrong Python type.
        heed.OutOfMemoryError: there is no memory.

    >>> import heed, numpy as np
    >>> q = k = v = np.eye(3, 4, dtype=np.float32)
    >>> out, lse, *_ = heed.attention(q, k, v, causal=True, scale=1.0, return_lse=True)
    >>> ones = np.ones_like(out)
    >>> found = heed.attention_backward(q, k, v, out, lse, ones, causal=True, scale=1.0)
    >>> np.round(found.value[:, 0], 2)
    array([1.48, 0.94, 0.58], dtype=float32)
    >>> found.bias is None
    True

    In C: heed_attention_backward.
    """
    wanted = (
        grad_query,
        grad_key,
        grad_value,
        grad_bias,
        grad_sinks,
        grad_alibi_slopes,
        grad_scale,
        grad_temperature,
    )
    found: Gradients[ArrayT] = _heed.attention_backward(
        query,
        key,
        value,
        out,
        lse,
        grad_out,
        grad_lse,
        wanted,
        accumulate,
        score_gradient,
        context,
        options,
    )
    return found
