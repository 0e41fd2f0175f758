"""heed in PyTorch Geometric: a fused ``TransformerConv``.

>>> import torch, heed.pyg
>>> layer = heed.pyg.TransformerConv(3, 4, heads=2).eval()
>>> edge_index = torch.tensor([[0, 1, 2], [2, 2, 0]])
>>> with torch.inference_mode():
...     layer(torch.ones(3, 3), edge_index).shape
torch.Size([3, 8])
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.nn import TransformerConv as _TransformerConv  # type: ignore[import-untyped]

import heed
from heed.torch import _tell
from heed.torch_ops import _context_of

__all__ = ["TransformerConv"]

_graphs: Any = WeakIdKeyDictionary()  # of edge_index, for as long as that lives


def _graph_of(edge_index: Tensor, nodes: int, flow: str) -> heed.Graph:
    """The graph sorted by destination, once for all layers and calls that share an edge_index."""
    sources, destinations = edge_index if flow == "source_to_target" else edge_index.flip(0)
    if edge_index.is_inference():  # does not tell when it is changed
        return heed.Graph(sources, destinations, nodes=nodes, duplicates="keep")
    made_of = (edge_index._version, nodes, flow)
    known, graph = _graphs.get(edge_index, (None, None))
    if known != made_of:
        graph = heed.Graph(sources, destinations, nodes=nodes, duplicates="keep")
        _graphs[edge_index] = made_of, graph
    return cast("heed.Graph", graph)


def _with_rows(x: Tensor, rows: int) -> Tensor:
    return x if len(x) == rows else torch.nn.functional.pad(x, (0, 0, 0, 0, 0, rows - len(x)))


class TransformerConv(_TransformerConv):  # type: ignore[misc]
    """``torch_geometric.nn.TransformerConv``, whose scores, softmax and sums heed fuses.

    Constructor, parameters, ``state_dict`` and calls are PyTorch Geometric's, for a ``Tensor`` or a
    pair of them and an ``edge_index``, also with ``return_attention_weights``. Nothing is stored
    per edge but the weights, if they are asked for: edge features are multiplied with the sum over
    edges, not edge by edge. The graph is sorted when an ``edge_index`` is first seen and kept while
    that lives and is not changed; tensors made under ``torch.inference_mode()`` cannot say whether
    they were, so make ``edge_index`` outside.

    PyTorch Geometric computes where gradients are required, in training with dropout, for sparse
    adjacency matrices and other subclasses of ``Tensor``, on other devices, with another ``aggr``,
    under ``explain``, with hooks, and in what is compiled or exported; ``heed.torch.report`` counts
    why.

    >>> import torch, heed.pyg, torch_geometric
    >>> layer = torch_geometric.nn.TransformerConv(3, 4, edge_dim=2).eval()
    >>> fused = heed.pyg.TransformerConv(3, 4, edge_dim=2).eval()
    >>> _ = fused.load_state_dict(layer.state_dict())
    >>> x, edge_index = torch.randn(3, 3), torch.tensor([[0, 1, 2], [2, 2, 0]])
    >>> with torch.no_grad():
    ...     given = x, edge_index, torch.randn(3, 2)
    ...     torch.allclose(fused(*given), layer(*given), atol=1e-5)
    True
    """

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Any,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """As of ``torch_geometric.nn.TransformerConv``."""
        self._return_weights = isinstance(return_attention_weights, bool)
        return super().forward(x, edge_index, edge_attr, return_attention_weights)

    def propagate(self, edge_index: Any, size: Any = None, **inputs: Any) -> Tensor:
        """Attend over the edges, in PyTorch Geometric's place."""
        query, key, value = inputs["query"], inputs["key"], inputs["value"]
        edge_attr = inputs["edge_attr"]
        reason = self._objection(edge_index, edge_attr, query, key, value)
        if reason is not None:
            _tell("PyTorch Geometric", query, key, reason)
            return cast(Tensor, super().propagate(edge_index, size=size, **inputs))
        nodes = max(len(query), len(key))
        w_edge = None if self.lin_edge is None else self.lin_edge.weight.T
        found: Any = heed.graph_attention(
            _graph_of(edge_index, nodes, self.flow),
            _with_rows(query, nodes),
            _with_rows(key, nodes),
            _with_rows(value, nodes),
            edge_data=edge_attr,
            w_edge_key=w_edge,
            w_edge_value=w_edge,
            return_weights=self._return_weights,
            context=_context_of(torch.get_num_threads()),
        )
        _tell("heed", query, key, None)
        if self._return_weights:
            found, self._alpha = found.out, found.weights.to(query.dtype)
        return cast(Tensor, found[: len(query)])

    def _objection(self, edge_index: Any, edge_attr: Tensor | None, *tensors: Tensor) -> str | None:
        if torch.compiler.is_compiling():
            return "it is compiled"
        for tensor in (edge_index, edge_attr, *tensors):
            if tensor is not None and type(tensor) is not Tensor:
                return f"a tensor is a {type(tensor).__name__}"
        if not tensors[0].is_cpu:
            return f"a tensor lies on {tensors[0].device.type}"
        if torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in (edge_attr, *tensors, *self.parameters())
        ):
            return "gradients are required"
        if self.training and self.dropout > 0:
            return f"dropout is {self.dropout:g}"
        if (self.lin_edge is None) != (edge_attr is None):
            return "edge_dim and edge_attr do not go together"
        if self.aggr != "add":
            return f"aggr is {self.aggr}"
        looked_at = ("_propagate", "_message", "_aggregate")
        if self.explain or any(
            hooks
            for name, hooks in vars(self).items()
            if name.startswith(looked_at) and name.endswith("_hooks")
        ):
            return "hooks look at messages"
        return None
