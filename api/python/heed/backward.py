"""Gradients of dense attention: ``heed.attention_backward``."""

from typing import Any, Unpack

from heed import _heed
from heed.options import Array, ArrayT, GradientOptions, Options, spelled_out, taken, wanted
from heed.results import Gradients


class BackwardOptions(Options, GradientOptions, total=False):
    """What ``heed.attention_backward`` takes beside tensors."""

    score_gradient: Any


@spelled_out(BackwardOptions, see="heed.attention")
def attention_backward(
    query: ArrayT,
    key: Array,
    value: Array,
    out: Array,
    lse: Array,
    grad_out: Array,
    **options: Unpack[BackwardOptions],
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
        out: what ``heed.attention`` gave.
        lse: what it gave with ``return_lse``.
        grad_query: True, the gradient of ``query`` is wanted, in a new array of its shape and type;
            an array, it is written there, but for packed rows of no sequence, and must not overlap
            another argument; False, it is not wanted, and costs nothing.
        grad_sinks: the same of ``sinks``, ``[heads]`` of float32, or float64 if ``query`` is.
        score_gradient: of ``score_function``, and needed with it: a callable
            ``f(gradients, scores, batch, heads, rows, keys)`` beside a callable, which returns
            ``gradients``, those of the scores that the function made, times its derivative at the
            ``scores`` that it was given, which may be anything where they are masked; a function
            pointer (``heed.ScoreGradient``) beside a function pointer, which gets the same
            ``user``.
        **options: those of ``heed.attention``, but for those that ask for results.

    Returns:
        A ``heed.Gradients``, None where one is not wanted: arrays of the kind that ``query`` is,
        and ``scale`` and ``temperature`` as float.

    Raises:
        heed.UnsupportedError: there are no gradients of this.

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
    rest: dict[str, Any] = {**options}
    grad_lse, score_gradient, context = taken(rest, ("grad_lse", "score_gradient", "context"))
    found: Gradients[ArrayT] = _heed.attention_backward(
        query,
        key,
        value,
        out,
        lse,
        grad_out,
        grad_lse,
        wanted(rest, Gradients._fields),
        rest.pop("accumulate", False),
        score_gradient,
        context,
        rest,
    )
    return found
