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
from torch.nn import Parameter
from torch_geometric import EdgeIndex  # type: ignore[import-untyped]
from torch_geometric.nn import TransformerConv as _TransformerConv  # type: ignore[import-untyped]
from torch_geometric.utils import (  # type: ignore[import-untyped]
    is_torch_sparse_tensor,
    to_edge_index,
)

from heed.torch import _tell
from heed.torch_ops import (
    _Kept,
    _require_gradients,
    _text,
    _unreadable,
    attend_graph,
    graph_attention,
)

__all__ = ["TransformerConv"]


_edges = _Kept()  # of the indices of sparse adjacency matrices


def _edges_of(adjacency: Tensor) -> tuple[Tensor, Tensor | None]:
    """The edges of what PyTorch Geometric takes for them, and the features stored with them.

    A sparse matrix has a row for each destination. Its edges are the same tensor at each call, by
    which their graph is found again.
    """
    if isinstance(adjacency, EdgeIndex):
        return adjacency.as_tensor(), None
    if not is_torch_sparse_tensor(adjacency):
        return adjacency, None
    indices, values = to_edge_index(adjacency)
    found = indices.flip(0)
    if adjacency.layout == torch.sparse_coo:
        memory = adjacency._indices()
    else:
        csr = adjacency.layout == torch.sparse_csr
        memory = adjacency.col_indices() if csr else adjacency.row_indices()
    known = _edges.get(memory)
    if known is None or not torch.equal(known, found):
        _edges.put(memory, found)
        known = found
    return known, values if values.dim() > 1 else None


def _sizes(adjacency: Tensor, flipped: bool) -> tuple[int | None, int | None]:
    """Numbers of sources and destinations, where the edges say them."""
    if isinstance(adjacency, EdgeIndex):
        sizes = adjacency.sparse_size()
        return sizes[::-1] if flipped else sizes
    if is_torch_sparse_tensor(adjacency):
        return adjacency.shape[1], adjacency.shape[0]
    return None, None


def _with_rows(x: Tensor, rows: int) -> Tensor:
    return x if len(x) == rows else torch.nn.functional.pad(x, (0, 0, 0, 0, 0, rows - len(x)))


class TransformerConv(_TransformerConv):  # type: ignore[misc]
    """``torch_geometric.nn.TransformerConv``, whose scores, softmax and sums heed fuses.

    Constructor, parameters, ``state_dict`` and calls are PyTorch Geometric's, for a ``Tensor`` or a
    pair of them and an ``edge_index``, also with ``return_attention_weights``. Edges may be an
    ``EdgeIndex``, or the sparse matrix of PyTorch that ``ToSparseTensor`` makes (COO, CSR or CSC; a
    row for each destination). Nothing is stored per edge but the weights, if they are asked for:
    edge features are multiplied with the sum over edges, not edge by edge. The graph is sorted when
    edges are first seen and kept, with a copy of them, for as long as their memory lives; at each
    call they are compared with the copy.

    Gradients are heed's too, of inputs, all parameters and edge features, but no higher
    derivatives; scores are computed again for them. The graph is then also sorted by source.

    PyTorch Geometric computes in training with dropout, where gradients are required and attention
    weights asked for, for a ``SparseTensor`` of torch-sparse and other subclasses of ``Tensor``, on
    other devices, with another ``aggr``, under ``explain`` and ``torch.func``, with hooks, for
    derivatives in forward mode, and in what is compiled or exported; ``heed.torch.report`` counts
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
        edges, stored = _edges_of(edge_index)
        edge_attr = stored if edge_attr is None else edge_attr
        tensors = *(_with_rows(x, nodes) for x in (query, key, value)), edge_attr, w_edge
        given = *tensors, edges, self.flow != "source_to_target"
        found: Any
        if _require_gradients(*tensors):
            found = graph_attention(*given)
        else:
            found = attend_graph(*given, return_weights=self._return_weights)
        _tell("heed", query, key, None)
        if self._return_weights:
            found, self._alpha = found.out, found.weights.to(query.dtype)
        return cast(Tensor, found[: len(query)])

    def _objection(self, edge_index: Any, edge_attr: Tensor | None, *tensors: Tensor) -> str | None:
        if torch.compiler.is_compiling():
            return "it is compiled"
        if (reason := _unreadable(edge_attr, *tensors)) is not None:
            return reason
        if (reason := self._objection_to_edges(edge_index, *tensors)) is not None:
            return reason
        if self._return_weights and _require_gradients(edge_attr, *tensors, *self.parameters()):
            return "gradients are required, and attention weights asked for"
        if self.training and self.dropout > 0:
            return f"dropout is {self.dropout:g}"
        stored = is_torch_sparse_tensor(edge_index) and edge_index.dense_dim() > 0
        if (self.lin_edge is None) != (edge_attr is None and not stored):
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

    def _objection_to_edges(self, edges: Any, query: Tensor, key: Tensor, _: Tensor) -> str | None:
        if type(edges) not in (Tensor, Parameter, EdgeIndex):
            return f"a tensor is a {type(edges).__name__}"
        flipped = self.flow != "source_to_target"
        if is_torch_sparse_tensor(edges):
            if flipped:
                return f"flow is {self.flow}, of a sparse adjacency matrix"
            if edges.layout == torch.sparse_coo and not edges.is_coalesced():
                return "a sparse adjacency matrix is not coalesced"
        elif edges.layout != torch.strided or edges.dim() != 2 or len(edges) != 2:
            return "edge_index is not [2, edges]"
        elif edges.dtype not in (torch.int32, torch.int64):
            return f"edge_index is {_text(edges.dtype)}"
        counts = zip(_sizes(edges, flipped), (len(key), len(query)), strict=True)
        if any(size not in (None, count) for size, count in counts):
            return "edges are of other numbers of nodes"
        return None
