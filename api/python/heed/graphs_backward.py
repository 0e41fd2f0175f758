"""Gradients of attention over graphs: ``heed.graph_attention_backward``."""

from typing import Any, Unpack

from heed import _heed
from heed._heed import Graph
from heed.graphs import GraphOptions, _parts
from heed.options import Array, spelled_out
from heed.results import GraphGradients


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

    and from these of what queries, keys, values, ``edge_k`` and ``edge_v`` are made of. All steps
    are differentiated. Nothing is kept per edge: scores and results are computed again, so nothing
    that ``heed.graph_attention`` gave is needed. Sums follow the order of edges, so bits do not
    depend on threads. Nodes and edges that take no part, removed duplicates too, get exactly 0.
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
        **options: matrices and options of ``heed.graph_attention``, but for those that ask for
            results.

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
    rest: dict[str, Any] = {**options}
    parts = _parts("graph_attention_backward", GraphOptions, (query, key, value, data), rest)
    wanted = (
        *(grad_query, grad_key, grad_value, grad_data, grad_edge_data, grad_edge_bias),
        *(grad_w_query, grad_w_key, grad_w_value, grad_w_edge_key, grad_w_edge_value),
        *(grad_b_query, grad_b_key, grad_b_value, grad_head_weights),
    )
    found: GraphGradients[Any] = _heed.graph_attention_backward(
        graph, parts, grad_out, grad_lse, wanted, accumulate, rest.pop("context", None)
    )
    return found
