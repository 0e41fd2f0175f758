"""The custom operator ``heed::graph_attention`` of PyTorch, and the operator of its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

import heed
from heed.torch_ops import _context_of, _count, _define, _Kept, _refuse_higher

_graphs = _Kept()  # of edge_index


def _graph_of(edge_index: Tensor, nodes: int, flipped: bool, reverse: bool) -> heed.Graph:
    """The graph sorted by destination, once for all layers and calls that share an edge_index.

    With ``reverse`` by source too, as gradients need it; ``flipped``, edges lead the other way.
    """
    made_of = nodes, flipped
    known, reversible, edges, graph = _graphs.get(edge_index) or (None, False, None, None)
    # Edges are compared: PyTorch does not tell of all that is written to them, as through NumPy.
    if known != made_of or (reverse and not reversible) or not torch.equal(edges, edge_index):
        sources, destinations = edge_index.flip(0) if flipped else edge_index
        graph = heed.Graph(sources, destinations, nodes=nodes, duplicates="keep", reverse=reverse)
        _graphs.put(edge_index, (made_of, reverse, edge_index.clone(), graph))
    return cast("heed.Graph", graph)


def _settings(w_edge: Tensor | None, edge_data: Tensor | None) -> dict[str, Any]:
    """What edges have, and where to compute."""
    return {
        "edge_data": edge_data,
        "w_edge_key": w_edge,
        "w_edge_value": w_edge,
        "context": _context_of(torch.get_num_threads()),
    }


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_data: Tensor | None,
    w_edge: Tensor | None,
    edge_index: Tensor,
    flipped: bool,
    *,
    reverse: bool = False,
    return_weights: bool = False,
) -> Any:
    """``heed.graph_attention`` of what the operator is given, past autograd."""
    graph = _graph_of(edge_index, len(query), flipped, reverse)
    more = _settings(w_edge, edge_data)
    found = heed.graph_attention(graph, query, key, value, return_weights=return_weights, **more)
    _count("heed")
    return found


def _attend(*args: Any) -> Tensor:
    return cast(Tensor, attend(*args, reverse=True))


def _attend_fake(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


_GRADIENTS = ("grad_query", "grad_key", "grad_value", "grad_edge_data", "grad_w_edge_key")


def _attend_backward(grad_out: Tensor, *args: Any) -> list[Tensor]:
    query, key, value, edge_data, w_edge, edge_index, flipped, wanted = args
    wants: dict[str, Any] = dict(zip(_GRADIENTS, wanted, strict=True))
    wants["grad_w_edge_value"] = wants["grad_w_edge_key"]
    graph = _graph_of(edge_index, len(query), flipped, True)
    more = _settings(w_edge, edge_data)
    found: Any = heed.graph_attention_backward(
        graph, query, key, value, grad_out=grad_out, **wants, **more
    )
    gradients = [found.query, found.key, found.value, found.edge_data]
    if wants["grad_w_edge_key"]:
        gradients.append(found.w_edge_key + found.w_edge_value)
    return [x for x in gradients if x is not None]


def _attend_backward_fake(grad_out: Tensor, *args: Any) -> list[Tensor]:
    *tensors, _edge_index, _flipped, wanted = args
    return [
        torch.empty_like(x, memory_format=torch.contiguous_format)
        for x, want in zip(tensors, wanted, strict=True)
        if want
    ]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.flipped = inputs[6]


def _differentiate(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    wanted = list(ctx.needs_input_grad[:5])
    found = iter(_backward_op(grad_out, *ctx.saved_tensors, ctx.flipped, wanted))
    return *(next(found) if want else None for want in wanted), None, None


_TENSORS = (
    "Tensor query, Tensor key, Tensor value, Tensor? edge_data, Tensor? w_edge, "
    "Tensor edge_index, bool flipped"
)
_backward_op: Callable[..., list[Tensor]] = _define(
    "graph_attention_backward",
    f"(Tensor grad_out, {_TENSORS}, bool[] wanted) -> Tensor[]",
    _attend_backward,
    _attend_backward_fake,
)
torch.library.register_autograd("heed::graph_attention_backward", _refuse_higher)

graph_attention: Callable[..., Tensor] = _define(
    "graph_attention", f"({_TENSORS}) -> Tensor", _attend, _attend_fake
)
"""The custom op ``heed::graph_attention``: every node attends to the sources of its edges.

``graph_attention(query, key, value, edge_data, w_edge, edge_index, flipped)`` of what is
``[nodes, heads, features]``, with ``edge_index`` as PyTorch Geometric has it, each edge of which
counts; ``flipped``, edges lead from ``edge_index[1]`` to ``edge_index[0]``. ``w_edge``,
``[edge width, heads * features]``, is multiplied with ``edge_data``, ``[edges, edge width]``, and
adds to keys and values. All but the edges may be differentiated, once.
"""
torch.library.register_autograd("heed::graph_attention", _differentiate, setup_context=_keep)
