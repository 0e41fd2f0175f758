"""Multi-head attention blocks: ``heed.multihead``, its plans and its gradients."""

from collections.abc import Sequence
from typing import Any, Literal, Required, TypeAlias, Unpack, overload

from heed import _heed
from heed._heed import Kept, MultiheadPlan, Weights
from heed.options import Array, ArrayT, CallOptions, Options, ResultOptions, named, spelled_out
from heed.results import MultiheadGradients, Result

Combine: TypeAlias = Literal["concat", "weighted", "mean", "max", "tensor"]
Matrix: TypeAlias = Array | Weights


class Block(Options, total=False):
    """Matrices and settings of a block; ``heed.multihead`` says what each means."""

    w_query: Required[Matrix]
    w_key: Required[Matrix]
    w_value: Required[Matrix]
    w_out: Matrix | None
    b_query: Array | None
    b_key: Array | None
    b_value: Array | None
    b_out: Array | None
    heads: Required[int]
    key_heads: int | None
    combine: Combine
    head_weights: Array | Sequence[float] | None


class CallBlock(Block, CallOptions, total=False):
    """And where the result goes."""


class ResultBlock(CallBlock, ResultOptions, total=False):
    """And what else it gives back, in a ``heed.Result``."""


@overload
def multihead(
    query: ArrayT,
    key: Array | None = None,
    *,
    keep: Kept | None = None,
    **options: Unpack[CallBlock],
) -> ArrayT: ...


@overload
def multihead(
    query: ArrayT,
    key: Array | None = None,
    *,
    keep: Kept | None = None,
    **options: Unpack[ResultBlock],
) -> Result[ArrayT]: ...


@spelled_out(ResultBlock)
def multihead(
    query: Any, key: Any | None = None, *, keep: Kept | None = None, **options: Any
) -> Any:
    """A block of multi-head attention, from inputs and weight matrices to its output.

        Q      = query @ w_query + b_query        [batch, rows, heads * features]
        K      = key @ w_key + b_key              [batch, keys, key_heads * features]
        V      = key @ w_value + b_value          [batch, keys, key_heads * value features]
        head_h = attention of the h-th features of Q, K and V, with the options of heed.attention
        out    = [head_1, ..., head_h] @ w_out + b_out          combine="concat"
                 [head_1, ..., head_h]                          the same without w_out
                 sum of head_h @ w_out[h] + b_out               combine="tensor"
                 sum of head_weights[h] * head_h                combine="weighted"
                 mean, or largest number, of the head_h         combine="mean", "max"

    Matrices are [in, out], with any strides: PyTorch's ``nn.Linear.weight``, [out, in], is given as
    ``weight.T``; parts of a packed one as ``w_qkv[:, begin:end]``, or ``in_proj_weight[:width].T``.
    A model's are better given as ``heed.Weights``, prepared once.

    Args:
        query: ``[batch, rows, width]``, the first of which may be missing, of float32, float64,
            float16 or bfloat16.
        key: ``[batch, keys, width of keys]``, what keys and values are made from; ``query`` unless
            given.
        w_query: ``[width, heads * features]``, or ``heed.Weights``, as all matrices. Types may be
            mixed, except float64, which goes with itself alone.
        w_key: ``[width of keys, key_heads * features]``.
        w_value: ``[width of keys, key_heads * value features]``.
        w_out: ``[heads * value features, width of out]``, or None: the heads as they are, side by
            side; with ``combine="tensor"`` ``[heads, value features, width of out]``; otherwise
            None.
        b_query: ``[heads * features]``, as wide as its matrix, or None. Not beside
            ``heed.Weights``, which have their bias inside.
        b_key: likewise.
        b_value: likewise.
        b_out: likewise.
        heads: of queries.
        key_heads: of keys and values, which queries share in groups; ``heads`` unless given.
        combine: how heads become one.
        head_weights: ``[heads]``, with ``combine="weighted"``.
        out: where to write; any strides, and any floating type (float64 as above). It must not
            overlap an input.
        keep: a ``heed.Kept``, which receives what ``heed.multihead_backward`` would have to compute
            again; not with ``hard``.
        **options: of ``heed.attention``, except ``block_table``, ``key_scales`` and
            ``value_scales``. With ``cu_seqlens_q`` inputs and ``out`` are packed ``[rows, width]``;
            ``cu_seqlens_k`` is the same unless given or ``key`` is.

    Returns:
        ``out``, ``[batch, rows, width of out]`` in the kind and type of ``query``. Or, if more is
        asked for, a ``heed.Result`` with log-sum-exp, weights and column sums as of
        ``heed.attention``.

    >>> import heed, numpy as np
    >>> x = np.eye(3, 4)
    >>> w = np.eye(4)
    >>> block = dict(w_query=w, w_key=w, w_value=w, w_out=w, heads=2)
    >>> np.round(heed.multihead(x, **block, causal=True), 2)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.33, 0.67, 0.  , 0.  ],
           [0.33, 0.33, 0.5 , 0.  ]])

    In C: heed_multihead.
    """
    return _heed.multihead(named(locals()))


@spelled_out(ResultBlock, see="heed.multihead")
def multihead_plan(
    query: Array, key: Array | None = None, **options: Unpack[ResultBlock]
) -> MultiheadPlan:
    """A multi-head block made ready, for calls that have the same shapes again and again.

    Checks arguments and lays out memory once. The plan is made for the shapes, strides and types of
    what it is given here. It keeps matrices, biases and settings; calls are given ``query``,
    ``key`` if it was given here, and exactly the tensors among attention's options that were.

    Args:
        query: as of ``heed.multihead``, as are ``key``, matrices, biases and all options.
        out: what form ``out`` will have, unless it is new.
        context: where the plan computes; the default one of now unless given.

    Returns:
        A ``heed.MultiheadPlan``, which any threads may call at once.

    >>> import heed, numpy as np
    >>> x = np.eye(3, 4)
    >>> w = heed.Weights(np.eye(4))
    >>> block = heed.multihead_plan(x, w_query=w, w_key=w, w_value=w, w_out=w, heads=2)
    >>> block(x).shape
    (3, 4)

    In C: heed_multihead_plan_create.
    """
    return _heed.multihead_plan(named(locals()))


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
    grad_score_weights: bool | Array = False,
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
        **options: matrices and options of ``heed.multihead``, except the ones that ask for results.

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
    found: MultiheadGradients[ArrayT] = _heed.multihead_backward(named(locals()))
    return found
