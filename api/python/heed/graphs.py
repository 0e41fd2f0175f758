"""Attention over graphs: ``heed.graph_attention`` and ``heed.graph_attention_plan``."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

from heed import _heed
from heed._heed import Context, Graph, GraphAttentionPlan
from heed.blocks import Matrix
from heed.options import Array, ArrayT, spelled_out, taken, unexpected
from heed.results import Result

Combine: TypeAlias = Literal["concat", "weighted", "mean", "max"]


class GraphOptions(TypedDict, total=False):
    """Options of attention over graphs; ``heed.graph_attention`` says what each means."""

    w_query: Matrix | None
    w_key: Matrix | None
    w_value: Matrix | None
    b_query: Array | None
    b_key: Array | None
    b_value: Array | None
    heads: int | None
    edge_data: Array | None
    w_edge_key: Array | None
    w_edge_value: Array | None
    edge_bias: Array | None
    scale: float | None
    softcap: float | None
    temperature: float | None
    hard: bool
    combine: Combine
    head_weights: Array | Sequence[float] | None
    residual: bool
    steps: int
    context: Context | None


class GraphCallOptions(GraphOptions, total=False):
    """And where the result goes."""

    out: Array | None


class GraphResultOptions(GraphCallOptions, total=False):
    """And what else it gives back, in a ``heed.Result``."""

    return_lse: bool
    return_weights: bool


_PARAMETERS = (
    *("w_query", "w_key", "w_value", "w_edge_key", "w_edge_value"),
    *("b_query", "b_key", "b_value", "head_weights"),
)
_SETTINGS = ("heads", "combine", "residual", "steps", "return_lse", "return_weights")
_SCORES = ("scale", "softcap", "temperature", "hard")


def _parts(
    function: str, known: type, inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, ...]:
    """Tensors, parameters, settings, and what changes scores: all that was given but the places."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(unexpected(function, name, known.__annotations__))
    tensors = (*inputs, *taken(options, ("edge_data", "edge_bias")))
    parameters = taken(options, _PARAMETERS)
    settings = taken(options, _SETTINGS)
    scores = dict(zip(_SCORES, taken(options, _SCORES), strict=True))
    return tensors, parameters, settings, scores


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT,
    key: Array,
    value: Array,
    *,
    data: Array | None = None,
    **options: Unpack[GraphCallOptions],
) -> ArrayT: ...


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT,
    key: Array,
    value: Array,
    *,
    data: Array | None = None,
    **options: Unpack[GraphResultOptions],
) -> Result[ArrayT]: ...


@overload
def graph_attention(
    graph: Graph, *, data: ArrayT, **options: Unpack[GraphCallOptions]
) -> ArrayT: ...


@overload
def graph_attention(
    graph: Graph, *, data: ArrayT, **options: Unpack[GraphResultOptions]
) -> Result[ArrayT]: ...


@spelled_out(GraphResultOptions)
def graph_attention(
    graph: Graph,
    query: Any | None = None,
    key: Any | None = None,
    value: Any | None = None,
    *,
    data: Any | None = None,
    **options: Any,
) -> Any:
    """Attention over a graph: every node attends to the sources of its incoming edges.

        s_e   = scale * <q_n, k_m + edge_k_e>          for every edge e from m to n
        s_e   = softcap * tanh(s_e / softcap)          if softcap is given
        s_e   = s_e + edge_bias[e]                     if a bias is given; -inf leaves the edge out
        p_e   = softmax(s_e / temperature)             over the edges into n
        new_n = combine over heads of (sum of p_e (v_m + edge_v_e))
        out_n = new_n, or data_n + new_n with residual

    Queries, keys and values are given; or made from ``data`` with matrices that all nodes share, or
    with matrices of each node's own. ``edge_k = edge_data @ w_edge_key`` and
    ``edge_v = edge_data @ w_edge_value``, if given. A node without incoming edges gets 0. Matrices
    are [in, out], with any strides: PyTorch's [out, in] is given as ``weight.T``.

    Args:
        graph: a ``heed.Graph``.
        query: ``[nodes, heads, features]`` of float32, float64, float16 or bfloat16. Types may be
            mixed, but for float64, which goes with itself alone.
        key: ``[nodes, heads, features]``; over a graph with ``source_nodes`` it and ``value`` have
            a row for each of these, and the three must be given.
        value: ``[nodes, heads, value features]``, likewise.
        data: ``[nodes, width]``, instead of the three, and with ``residual``.
        w_query: ``[width, heads * features]`` or ``heed.Weights``; or ``[nodes, width, heads *
            features]``, one for each node. So are the next two.
        w_key: like ``w_query``.
        w_value: ``[width, heads * value features]``, likewise.
        b_query: ``[heads * features]``, as wide as its matrix, or None; only with matrices that all
            nodes share, and not beside ``heed.Weights``, which have their bias inside.
        b_key: likewise.
        b_value: likewise.
        heads: how many, with ``data``; otherwise ``query`` says it.
        edge_data: ``[edges given, edge width]``.
        w_edge_key: ``[edge width, heads * features]``; None: edges add nothing to keys.
        w_edge_value: ``[edge width, heads * value features]``, likewise; may be ``w_edge_key``.
        edge_bias: ``[edges given, heads]``, or ``[edges given]`` for all heads.
        scale: of scores; ``1 / sqrt(features)`` unless given.
        softcap: bound of scores, above 0.
        temperature: above 0; infinity weighs all edges into a node alike. 1 unless given.
        hard: weight 1 at the largest score, of equal ones at the lowest source.
        combine: how heads become one: side by side, the sum of ``head_weights[h] * head_h``, their
            mean, or the largest number, feature by feature.
        head_weights: ``[heads]``, with ``combine="weighted"``.
        residual: add ``data``, which must be as wide as the result.
        steps: how often; steps after the first take the result for ``data``.
        return_lse: also return the logarithm of the denominators, ``[nodes, heads]``.
        return_weights: also return the weights of edges, ``[edges given, heads]``; duplicates that
            were removed have 0.
        out: where to write, in any strides and floating type; may be ``data``, and must not overlap
            another input.

    Returns:
        ``out`` in the kind and type of ``query`` or ``data``: ``[nodes, heads, value features]`` of
        ``query``, ``[nodes, heads * value features]`` of ``data``; if heads are not concatenated
        ``[nodes, value features]``. Or, if more is asked for, a ``heed.Result`` whose other arrays
        are float32, or float64 if ``out`` is; with steps, of the last one.

    >>> import heed, numpy as np
    >>> graph = heed.Graph([0, 1, 2], [2, 2, 0], nodes=3)
    >>> x = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    >>> heed.graph_attention(graph, x, x, x)[:, 0]
    array([[1. , 1. ],
           [0. , 0. ],
           [0.5, 0.5]])

    In C: heed_graph_attention.
    """
    parts = _parts("graph_attention", GraphResultOptions, (query, key, value, data), options)
    return _heed.graph_attention(graph, parts, *taken(options, ("out", "context")))


@spelled_out(GraphResultOptions, see="heed.graph_attention")
def graph_attention_plan(
    graph: Graph,
    query: Array | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: Array | None = None,
    **options: Unpack[GraphResultOptions],
) -> GraphAttentionPlan:
    """Attention over a graph made ready, for calls that have the same shapes again and again.

    Checks arguments and lays out memory once. The plan keeps the graph, matrices, biases and
    settings; calls are given exactly the arrays among ``query``, ``key``, ``value``, ``data``,
    ``edge_data``, ``edge_bias`` and ``out`` that were given here.

    Args:
        graph: as of ``heed.graph_attention``, as is everything else.
        out: what form ``out`` will have, unless it is new.
        context: where the plan computes; the default one of now unless given.

    Returns:
        A ``heed.GraphAttentionPlan``, which any threads may call at once.

    >>> import heed, numpy as np
    >>> graph = heed.Graph([0, 1, 2], [2, 2, 0], nodes=3)
    >>> x = np.ones((3, 4))
    >>> layer = heed.graph_attention_plan(
    ...     graph, data=x, w_query=np.eye(4), w_key=np.eye(4), w_value=np.eye(4), heads=2
    ... )
    >>> layer(data=x).shape
    (3, 4)

    In C: heed_graph_attention_plan_create.
    """
    rest: dict[str, Any] = {**options}
    parts = _parts("graph_attention_plan", GraphResultOptions, (query, key, value, data), rest)
    return _heed.graph_attention_plan(graph, parts, *taken(rest, ("out", "context")))
