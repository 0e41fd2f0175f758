"""Gradients of multi-head attention blocks: ``heed.multihead_backward``."""

from typing import Any, Unpack

from heed import _heed
from heed._heed import Kept
from heed.blocks import Block, _parts
from heed.options import Array, ArrayT, spelled_out, taken
from heed.results import MultiheadGradients


@spelled_out(Block, see="heed.multihead")
def multihead_backward(
    query: ArrayT,
    key: Array | None = None,
    *,
    grad_out: Array,
    grad_lse: Array | None = None,
    grad_query: bool | Array = True,
    grad_key: bool | Array | None = None,
    grad_w_query: bool | Array | None = None,
    grad_w_key: bool | Array | None = None,
    grad_w_value: bool | Array | None = None,
    grad_w_out: bool | Array | None = None,
    grad_b_query: bool | Array | None = None,
    grad_b_key: bool | Array | None = None,
    grad_b_value: bool | Array | None = None,
    grad_b_out: bool | Array | None = None,
    grad_head_weights: bool | Array | None = None,
    grad_bias: bool | Array = False,
    grad_sinks: bool | Array = False,
    grad_alibi_slopes: bool | Array = False,
    grad_scale: bool = False,
    grad_temperature: bool = False,
    accumulate: bool = False,
    score_gradient: Any = None,
    keep: Kept | None = None,
    **options: Unpack[Block],
) -> MultiheadGradients[ArrayT]:
    """Gradients of ``heed.multihead``, from its inputs and the gradient of ``out``.

        grad_heads   = grad_out @ w_out.T                     combine="concat", "tensor"
                       grad_out                               combine="concat" without w_out
                       head_weights[h] * grad_out             combine="weighted"
                       grad_out / heads                       combine="mean"
                       grad_out where the head is largest     combine="max", the first of equal ones
        grad_Q, grad_K, grad_V = those of attention, see heed.attention_backward
        grad_w_query = query.T @ grad_Q                       summed over all rows
        grad_w_key   = key.T @ grad_K
        grad_w_value = key.T @ grad_V
        grad_w_out   = heads.T @ grad_out
        grad_b       = sum over rows of grad_Q, grad_K, grad_V or grad_out
        grad_query   = grad_Q @ w_query.T
        grad_key     = grad_K @ w_key.T + grad_V @ w_value.T

    Where no ``key`` is given, ``grad_query`` is the sum of both. Projections and attention are
    computed again, unless the forward call had a ``keep``: nothing else that it gave is needed, and
    the bits are the same. Gradients are summed in float32 or float64 in an order that shapes alone
    decide, and rounded once; their bits do not depend on threads. Hard attention is not
    differentiable.

    Args:
        query: as the forward call had it, as were ``key``, matrices and all options.
        grad_lse: the gradient of the log-sum-exp, ``[batch, heads, rows]``, where the loss depends
            on it.
        grad_key: the same of ``key``. None, of it and of the next: wanted where it is given.
        grad_w_query: of the matrix, ``[in, out]``; of ``heed.Weights`` in float32 or float64.
        grad_w_out: likewise; with ``combine="tensor"`` ``[heads, value features, width of out]``.
        grad_b_query: of the bias, as wide as the matrix. True: also where there is none, or it is
            inside ``heed.Weights``. All biases' gradients are of one type, and lie side by side.
        grad_head_weights: ``[heads]`` of float32, or float64 if ``query`` is.
        score_gradient: of ``score_function``, as of ``heed.attention_backward``.
        keep: a ``heed.Kept`` that ``heed.multihead`` has filled, with the same inputs, matrices,
            options and context.
        **options: matrices and options of ``heed.multihead``, but for those that ask for results.

    Returns:
        A ``heed.MultiheadGradients``, None where one is not wanted: arrays of the kind that
        ``query`` is, and ``scale`` and ``temperature`` as float.

    Raises:
        heed.UnsupportedError: there are no gradients of this.

    >>> import heed, numpy as np
    >>> x, w = np.eye(3, 4), np.eye(4)
    >>> block = dict(w_query=w, w_key=w, w_value=w, w_out=w, heads=2, causal=True)
    >>> grad_out = heed.multihead(x, **block) - x  # of half the squares of the difference
    >>> found = heed.multihead_backward(x, grad_out=grad_out, **block)
    >>> np.round(found.w_out, 2)
    array([[ 0.22,  0.  , -0.17,  0.  ],
           [ 0.33, -0.11, -0.17,  0.  ],
           [ 0.17,  0.17, -0.25,  0.  ],
           [ 0.  ,  0.  ,  0.  ,  0.  ]])
    >>> found.b_out is None
    True

    In C: heed_multihead_backward.
    """
    wanted = (
        *(grad_query, grad_key, grad_w_query, grad_w_key, grad_w_value, grad_w_out),
        *(grad_b_query, grad_b_key, grad_b_value, grad_b_out, grad_head_weights),
        *(grad_bias, grad_sinks, grad_alibi_slopes, grad_scale, grad_temperature),
    )
    rest: dict[str, Any] = {**options}
    (context,) = taken(rest, ("context",))
    parts = _parts(rest)
    found: MultiheadGradients[ArrayT] = _heed.multihead_backward(
        query,
        key,
        *parts,
        grad_out,
        grad_lse,
        wanted,
        accumulate,
        score_gradient,
        context,
        keep,
        rest,
    )
    return found
