"""Multi-head attention blocks: ``heed.multihead`` and ``heed.multihead_plan``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, Unpack, overload

from heed import _heed
from heed._heed import Context, MultiheadPlan, Weights
from heed.options import Array, ArrayT, Options, ResultOptions, with_options
from heed.results import Result

Combine: TypeAlias = Literal["concat", "weighted", "mean", "max", "tensor"]
Matrix: TypeAlias = Array | Weights


@overload
def multihead(
    query: ArrayT,
    key: Array | None = None,
    *,
    w_query: Matrix,
    w_key: Matrix,
    w_value: Matrix,
    w_out: Matrix | None = None,
    b_query: Array | None = None,
    b_key: Array | None = None,
    b_value: Array | None = None,
    b_out: Array | None = None,
    heads: int,
    key_heads: int | None = None,
    combine: Combine = "concat",
    head_weights: Array | Sequence[float] | None = None,
    out: Array | None = None,
    context: Context | None = None,
    **options: Unpack[Options],
) -> ArrayT: ...


@overload
def multihead(
    query: ArrayT,
    key: Array | None = None,
    *,
    w_query: Matrix,
    w_key: Matrix,
    w_value: Matrix,
    w_out: Matrix | None = None,
    b_query: Array | None = None,
    b_key: Array | None = None,
    b_value: Array | None = None,
    b_out: Array | None = None,
    heads: int,
    key_heads: int | None = None,
    combine: Combine = "concat",
    head_weights: Array | Sequence[float] | None = None,
    out: Array | None = None,
    context: Context | None = None,
    **options: Unpack[ResultOptions],
) -> Result[ArrayT]: ...


@with_options
def multihead(
    query: Any,
    key: Any | None = None,
    *,
    w_query: Any,
    w_key: Any,
    w_value: Any,
    w_out: Any | None = None,
    b_query: Any | None = None,
    b_key: Any | None = None,
    b_value: Any | None = None,
    b_out: Any | None = None,
    heads: int,
    key_heads: int | None = None,
    combine: Combine = "concat",
    head_weights: Any | None = None,
    out: Any | None = None,
    context: Context | None = None,
    **options: Any,
) -> Any:
    """A block of multi-head attention, from inputs and weight matrices to its output.

        Q      = query @ w_query + b_query        [batch, rows, heads * features]
        K      = key @ w_key + b_key              [batch, keys, key_heads * features]
        V      = key @ w_value + b_value          [batch, keys, key_heads * value features]
        head_h = attention of the h-th features of Q, K and V, with the options of heed.attention
        out    = [head_1, ..., head_h] @ w_out + b_out          combine="concat"
                 sum of head_h @ w_out[h] + b_out               combine="tensor"
                 sum of head_weights[h] * head_h                combine="weighted"
                 mean, or largest number, of the head_h         combine="mean", "max"

    Matrices are [in, out], with any strides: PyTorch's ``nn.Linear.weight``, [out, in], is given as
    ``weight.T``; parts of a packed one as ``w_qkv[:, begin:end]``, or ``in_proj_weight[:width].T``.
    Those of a model are better given as ``heed.Weights``, prepared once.

    Args:
        query: ``[batch, rows, width]``, the first of which may lack, of float32, float64, float16
            or bfloat16.
        key: ``[batch, keys, width of keys]``, what keys and values are made from; ``query`` unless
            given.
        w_query: ``[width, heads * features]``, or ``heed.Weights``, as all matrices. Types may be
            mixed, but for float64, which goes with itself alone.
        w_key: ``[width of keys, key_heads * features]``.
        w_value: ``[width of keys, key_heads * value features]``.
        w_out: ``[heads * value features, width of out]``; with ``combine="tensor"``
            ``[heads, value features, width of out]``; otherwise None.
        b_query: ``[heads * features]``, as wide as its matrix, or None. Not beside
            ``heed.Weights``, which have their bias inside.
        b_key: likewise.
        b_value: likewise.
        b_out: likewise.
        heads: of queries.
        key_heads: of keys and values, which queries share in groups; ``heads`` unless given.
        combine: how heads become one.
        head_weights: ``[heads]``, with ``combine="weighted"``.
        out: where to write; any strides, and any floating type (float64 as above).
        context: where to compute; the default one of the process unless given.
        **options: of ``heed.attention``, but for ``block_table``, ``key_scales`` and
            ``value_scales``. With ``cu_seqlens_q`` inputs and ``out`` are packed ``[rows, width]``;
            ``cu_seqlens_k`` is the same unless given or ``key`` is.

    Returns:
        ``out``, ``[batch, rows, width of out]`` in the kind and type of ``query``. Or, if more is
        asked for, a ``heed.Result`` with log-sum-exp, weights and column sums as of
        ``heed.attention``.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit.
        TypeError: an argument is of a wrong Python type.
        heed.OutOfMemoryError: there is no memory.

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
    return _heed.multihead(
        query,
        key,
        (w_query, w_key, w_value, w_out),
        (b_query, b_key, b_value, b_out),
        (heads, key_heads, combine, head_weights),
        out,
        context,
        options,
    )


@with_options
def multihead_plan(
    query: Array,
    key: Array | None = None,
    *,
    w_query: Matrix,
    w_key: Matrix,
    w_value: Matrix,
    w_out: Matrix | None = None,
    b_query: Array | None = None,
    b_key: Array | None = None,
    b_value: Array | None = None,
    b_out: Array | None = None,
    heads: int,
    key_heads: int | None = None,
    combine: Combine = "concat",
    head_weights: Array | Sequence[float] | None = None,
    out: Array | None = None,
    context: Context | None = None,
    **options: Unpack[ResultOptions],
) -> MultiheadPlan:
    """A multi-head block made ready, for calls that have the same shapes again and again.

    Checks arguments and lays out memory once. The plan is made for the shapes, strides and types of
    what it is given here. It keeps matrices, biases and settings; calls are given ``query``,
    ``key`` if it was given here, and exactly the tensors among attention's options that were.

    Args:
        query: as of ``heed.multihead``, as is everything below.
        key: see ``heed.multihead``.
        w_query: see ``heed.multihead``.
        w_key: see ``heed.multihead``.
        w_value: see ``heed.multihead``.
        w_out: see ``heed.multihead``.
        b_query: see ``heed.multihead``.
        b_key: see ``heed.multihead``.
        b_value: see ``heed.multihead``.
        b_out: see ``heed.multihead``.
        heads: see ``heed.multihead``.
        key_heads: see ``heed.multihead``.
        combine: see ``heed.multihead``.
        head_weights: see ``heed.multihead``.
        out: what form ``out`` will have, unless it is new.
        context: where the plan computes; the default one of now unless given.
        **options: see ``heed.multihead``.

    Returns:
        A ``heed.MultiheadPlan``, which any threads may call at once.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit.

    >>> import heed, numpy as np
    >>> x = np.eye(3, 4)
    >>> w = heed.Weights(np.eye(4))
    >>> block = heed.multihead_plan(x, w_query=w, w_key=w, w_value=w, w_out=w, heads=2)
    >>> block(x).shape
    (3, 4)

    In C: heed_multihead_plan_create.
    """
    return _heed.multihead_plan(
        query,
        key,
        (w_query, w_key, w_value, w_out),
        (b_query, b_key, b_value, b_out),
        (heads, key_heads, combine, head_weights),
        out,
        context,
        options,
    )
