"""Multi-head attention blocks: ``heed.multihead`` and ``heed.multihead_plan``."""

from collections.abc import Sequence
from typing import Any, Literal, Required, TypeAlias, Unpack, overload

from heed import _heed
from heed._heed import Kept, MultiheadPlan, Weights
from heed.options import Array, ArrayT, CallOptions, Options, ResultOptions, spelled_out, taken
from heed.results import Result

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


_MATRICES = ("w_query", "w_key", "w_value", "w_out")
_BIASES = ("b_query", "b_key", "b_value", "b_out")
_SETTINGS = ("heads", "key_heads", "combine", "head_weights")


def _parts(
    options: dict[str, Any],
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Matrices, biases and settings, taken out of what was given; attention's options stay."""
    return taken(options, _MATRICES), taken(options, _BIASES), taken(options, _SETTINGS)


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
        **options: of ``heed.attention``, but for ``block_table``, ``key_scales`` and
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
    out, context = taken(options, ("out", "context"))
    return _heed.multihead(query, key, *_parts(options), out, context, keep, options)


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
    rest: dict[str, Any] = {**options}
    out, context = taken(rest, ("out", "context"))
    return _heed.multihead_plan(query, key, *_parts(rest), out, context, rest)
