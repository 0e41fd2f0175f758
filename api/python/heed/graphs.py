"""Attention over graphs: ``heed.graph_attention``, its plans and its gradients."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

from heed import _heed
from heed._heed import Context, Graph, GraphAttentionPlan
from heed.blocks import Matrix
from heed.options import Activation, Array, ArrayT, Score, named, spelled_out
from heed.results import GraphGradients, Result

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
    score: Score
    activation: Activation | None
    slope: float | None
    score_weights: Array | None
    scale: float | None
    softcap: float | None
    temperature: float | None
    hard: bool
    dropout: float | None
    seed: int | tuple[int, int] | None
    dropout_edges: Array | Sequence[int] | None
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


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: ArrayT | None = None,
    **options: Unpack[GraphCallOptions],
) -> ArrayT: ...


@overload
def graph_attention(
    graph: Graph,
    query: ArrayT | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: ArrayT | None = None,
    **options: Unpack[GraphResultOptions],
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
              = scale * act(q_n + k_m + edge_k_e)      with score="sum", as in GAT
              = scale * <a, act(q_n + k_m + edge_k_e)> with score="additive", as in GATv2
              = scale * a * <q_n, k_m> / (|q_n| |k_m|) with score="cosine", without edge_k
        s_e   = softcap * tanh(s_e / softcap)          if softcap is given
        s_e   = s_e + edge_bias[e]                     if a bias is given; -inf leaves the edge out
        p_e   = softmax(s_e / temperature)             over the edges into n
        p_e   = p_e / (1 - dropout), or 0 if dropped   if dropout is given
        new_n = combine over heads of (sum of p_e (v_m + edge_v_e))
        out_n = new_n, or data_n + new_n with residual

    Queries, keys and values are given; or made from ``data`` with matrices that all nodes share, or
    with matrices of each node's own. ``edge_k = edge_data @ w_edge_key`` and
    ``edge_v = edge_data @ w_edge_value``, if given. A node without incoming edges gets 0. Matrices
    are [in, out], with any strides: PyTorch's [out, in] is given as ``weight.T``.

    Args:
        graph: a ``heed.Graph``.
        query: ``[nodes, heads, features]`` of float32, float64, float16 or bfloat16. Types may be
            mixed, except float64, which goes with itself alone.
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
        edge_bias: ``[edges given, heads]``, or ``[edges given]`` for all heads; any floating type.
        score: how query and key make a score; with ``"sum"`` both have one feature.
        activation: ``act``, of ``"sum"`` and ``"additive"``; ``"leaky_relu"`` unless given.
        slope: of leaky ReLU below 0; 0.2 unless given.
        score_weights: ``a``, ``[heads * features]``, with ``score="additive"``; ``[heads]``, or
            ones, with ``score="cosine"``.
        scale: of scores; ``1 / sqrt(features)`` unless given, and 1 of other scores than ``"dot"``.
        softcap: bound of scores, above 0.
        temperature: above 0; infinity weighs all edges into a node alike. 1 unless given.
        hard: weight 1 at the largest score, of equal ones at the lowest source.
        dropout: at least 0, less than 1: how likely an edge is dropped, for each head, in steps of
            1 / 256, as in ``heed.attention``. lse and weights do not know of it.
        seed: of dropout: an int, another for every call; or a pair of an int and such an offset.
        dropout_edges: ``[edges given]``, where the graph has some edges of a larger one, whose mask
            it shall have: the number of each there. 0, 1, 2 and so on unless given.
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
    return _heed.graph_attention(named(locals()))


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
    return _heed.graph_attention_plan(named(locals()))


@spelled_out(GraphOptions, see="heed.graph_attention")
def graph_attention_backward(
    graph: Graph,
    query: Any | None = None,
    key: Array | None = None,
    value: Array | None = None,
    *,
    data: Any | None = None,
    grad_out: Array,
    grad_lse: Array | None = None,
    grad_query: bool | Array | None = None,
    grad_key: bool | Array | None = None,
    grad_value: bool | Array | None = None,
    grad_data: bool | Array | None = None,
    grad_edge_data: bool | Array | None = None,
    grad_edge_bias: bool | Array | None = None,
    grad_w_query: bool | Array | None = None,
    grad_w_key: bool | Array | None = None,
    grad_w_value: bool | Array | None = None,
    grad_w_edge_key: bool | Array | None = None,
    grad_w_edge_value: bool | Array | None = None,
    grad_b_query: bool | Array | None = None,
    grad_b_key: bool | Array | None = None,
    grad_b_value: bool | Array | None = None,
    grad_head_weights: bool | Array | None = None,
    grad_score_weights: bool | Array | None = None,
    accumulate: bool = False,
    **options: Unpack[GraphOptions],
) -> GraphGradients[Any]:
    """Gradients of ``heed.graph_attention``, from its inputs and the gradient of ``out``.

        delta_n      = <grad_n, result_n> - grad_lse_n       grad_n: of the head's result
        grad_z_e     = p_e (<grad_n, v_m + edge_v_e> - delta_n)       e from m to n
        grad_bias_e  = grad_z_e / temperature
        grad_s_e     = grad_bias_e, back through softcap
        grad_query_n = scale * sum over e into n of grad_s_e (k_m + edge_k_e)
        grad_key_m   = scale * sum over e from m of grad_s_e q_n
        grad_value_m = sum over e from m of p_e grad_n

    or of scores <a, act(z_e)>, with z_e = q_n + k_m + edge_k_e, scale * grad_s_e a act'(z_e) for
    queries and keys alike, and scale * grad_s_e act(z_e) for ``a``; and from these of what queries,
    keys, values, ``edge_k`` and ``edge_v`` are made of. All steps are differentiated. Nothing is
    kept per edge: scores and results are computed again, so nothing that ``heed.graph_attention``
    gave is needed. Sums follow the order of edges, so bits do not depend on threads. Nodes and
    edges that take no part, removed duplicates too, get exactly 0.
    Hard attention is not differentiable, and ``heed.Weights`` have no gradients.

    Args:
        graph: a ``heed.Graph`` made with ``reverse=True``.
        query: as the forward call had it, as were all arrays, matrices and options; ``data`` as it
            was before ``out`` may have replaced it.
        grad_out: the gradient of ``out``, in its shape; any floating type, float64 as the inputs.
        grad_lse: the gradient of the log-sum-exp, ``[nodes, heads]``, where the loss depends on it.
        grad_query: True, the gradient of ``query`` is wanted, in a new array of its shape and type;
            an array, it is written there, and must not overlap another argument; False, it is not
            wanted, and costs nothing; None, it is wanted where ``query`` is given. So are the next.
        grad_edge_bias: of ``edge_bias``; of one for all heads summed over them.
        grad_w_query: of the matrix, or of those of all nodes.
        grad_w_edge_key: likewise; apart from the next even where both are one matrix.
        grad_b_query: of the bias, in float32, or float64 if ``data`` is.
        **options: matrices and options of ``heed.graph_attention``, except the ones that ask
            for results.

    Returns:
        A ``heed.GraphGradients``, None where one is not wanted: arrays of the kind that ``query``
        or ``data`` is.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or the graph has no reverse order.
        heed.UnsupportedError: there are no gradients of this.

    >>> import heed, numpy as np
    >>> graph = heed.Graph([0, 1, 2], [2, 2, 0], nodes=3, reverse=True)
    >>> x = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    >>> ones = np.ones_like(x)
    >>> heed.graph_attention_backward(graph, x, x, x, grad_out=ones).value[:, 0]
    array([[0.5, 0.5],
           [0.5, 0.5],
           [1. , 1. ]])

    In C: heed_graph_attention_backward.
    """
    found: GraphGradients[Any] = _heed.graph_attention_backward(named(locals()))
    return found
