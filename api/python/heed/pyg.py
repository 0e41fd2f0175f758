"""heed in PyTorch Geometric: fused ``TransformerConv``, ``GATConv``, ``GATv2Conv``, ``HGTConv``.

>>> import torch, heed.pyg
>>> layer = heed.pyg.TransformerConv(3, 4, heads=2).eval()
>>> edge_index = torch.tensor([[0, 1, 2], [2, 2, 0]])
>>> with torch.inference_mode():
...     layer(torch.ones(3, 3), edge_index).shape
torch.Size([3, 8])
"""

from __future__ import annotations

import inspect
import math
from typing import Any, cast

from heed.needed import needed_by

with needed_by("heed.pyg"):
    import torch
    from torch import Tensor
    from torch.nn import Parameter
    from torch_geometric import EdgeIndex  # type: ignore[import-untyped]
    from torch_geometric.nn import GATConv as _GATConv  # type: ignore[import-untyped]
    from torch_geometric.nn import GATv2Conv as _GATv2Conv
    from torch_geometric.nn import HGTConv as _HGTConv
    from torch_geometric.nn import Linear as _Linear
    from torch_geometric.nn import TransformerConv as _TransformerConv
    from torch_geometric.utils import (  # type: ignore[import-untyped]
        add_self_loops,
        is_torch_sparse_tensor,
        remove_self_loops,
        softmax,
        to_edge_index,
    )

from heed.torch import _tell
from heed.torch_ops import (
    _Kept,
    _real,
    _require_gradients,
    _text,
    _unreadable,
    attend_graph,
    drawn_seed,
    graph_attention,
    never_changes,
)

__all__ = ["GATConv", "GATv2Conv", "HGTConv", "TransformerConv"]


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
        with torch.inference_mode(False):  # training may see them later
            known = never_changes(found.clone())
        _edges.put(memory, known)
    return cast(Tensor, known), values if values.dim() > 1 else None


_looped = _Kept()  # edges that have loops in place of those that they are kept by


def _with_loops(edge_index: Tensor, nodes: int) -> Tensor:
    """The edges with one loop at each node: the same tensor at each call, whose graph is known."""
    known, given, looped = _looped.get(edge_index) or (None, None, None)
    if known != nodes or not torch.equal(given, edge_index):
        with torch.inference_mode(False):  # training may see them later
            looped, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=nodes)
            begin = looped[:, : edge_index.shape[1]]
            given = begin if torch.equal(begin, edge_index) else edge_index.clone()
        _looped.put(edge_index, (nodes, given, never_changes(looped)))
    return cast(Tensor, looped)


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


def _only_multiplies(layer: Any) -> bool:
    """Whether a linear layer does nothing else, and nobody looks at it when it is called."""
    return (
        type(layer) is _Linear
        and not torch.compiler.is_compiling()
        and not torch.nn.modules.module._has_any_global_hook()
        and "forward" not in vars(layer)
        and not any(hooks for name, hooks in vars(layer).items() if name.endswith("_hooks"))
    )


_FEW_COLUMNS = 32  # BLAS libraries are slow where results have no more


def _projections(x: Tensor, *layers: Any) -> list[Tensor]:
    """The same rows through linear layers: through layers of few columns by one product."""
    together = all(
        _only_multiplies(layer)
        and len(layer.weight) <= _FEW_COLUMNS
        and (layer.bias is None) == (layers[0].bias is None)
        for layer in layers
    )
    if not together:
        return [layer(x) for layer in layers]
    matrix = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    rows = torch.nn.functional.linear(x, matrix, bias)
    return list(rows.split([len(layer.weight) for layer in layers], -1))


class _Fused:
    """Attention of a layer by heed, or why it leaves its edges to PyTorch Geometric."""

    _return_weights: bool
    _weights_learn: bool  # gradients go through them: PyTorch computes them beside
    lin_edge: Any

    def _disagrees(self, featured: bool) -> bool:
        """Whether features of edges meet no matrix, or a matrix no features."""
        return (self.lin_edge is not None) != featured

    def _objection(
        self: Any, edge_index: Any, edge_attr: Tensor | None, *tensors: Tensor
    ) -> str | None:
        if torch.compiler.is_compiling() and is_torch_sparse_tensor(edge_index):
            return "it is compiled, over a sparse adjacency matrix"
        if (reason := _unreadable(edge_attr, *tensors)) is not None:
            return reason
        if (reason := self._objection_to_edges(edge_index, *tensors)) is not None:
            return reason
        self._weights_learn = self._return_weights and _require_gradients(
            edge_attr, *tensors, *self.parameters()
        )
        if self._weights_learn and is_torch_sparse_tensor(edge_index):
            return "gradients are required, and attention weights asked for of a sparse matrix"
        if self.training and (reason := self._objection_to_dropout()) is not None:
            return reason
        stored = is_torch_sparse_tensor(edge_index) and edge_index.dense_dim() > 0
        if self._disagrees(edge_attr is not None or stored):
            return "edge_dim and edge_attr do not go together"
        if self.aggr not in ("add", "sum"):
            return f"aggr is {self.aggr}"
        looked_at = ("_propagate", "_message", "_aggregate", "_edge_update")
        if self.explain or any(
            hooks
            for name, hooks in vars(self).items()
            if name.startswith(looked_at) and name.endswith("_hooks")
        ):
            return "hooks look at messages"
        return None

    def _objection_to_dropout(self: Any) -> str | None:
        return None if 0 <= self.dropout < 1 else f"dropout is {self.dropout:g}"

    def _objection_to_edges(
        self: Any, edges: Any, query: Tensor, key: Tensor, _: Tensor
    ) -> str | None:
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

    def _attend(
        self: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        edge_attr: Tensor | None,
        w_edge: Tensor | None,
        score_weights: Tensor | None,
        *edges_and_score: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The results of nodes, and the weights of edges if they are asked for."""
        nodes = max(len(query), len(key))
        dropout = float(self.dropout) if self.training else 0.0
        seed = drawn_seed() if dropout > 0 else None
        rows = (_with_rows(x, nodes) for x in (query, key, value))
        tensors = *rows, edge_attr, w_edge, score_weights
        given = *tensors, seed, *edges_and_score, dropout
        found: Any
        if _require_gradients(*tensors):
            found = graph_attention(*given)
        else:
            found = attend_graph(*given, return_weights=self._return_weights)
        _tell("heed", query, key, None)
        out, weights = (found, None) if isinstance(found, Tensor) else (found.out, found.weights)
        return out if len(out) == len(query) else out[: len(query)], weights


class TransformerConv(_Fused, _TransformerConv):  # type: ignore[misc]
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
    Dropout, in steps of 1 / 256, draws the seed of its mask from PyTorch's generator.

    Attention weights that are asked for are heed's, and where gradients are required, which may go
    through them, computed beside by PyTorch. PyTorch Geometric computes such weights of sparse
    matrices, those that dropout has changed, a dropout of 1, for a ``SparseTensor`` of torch-sparse
    and other subclasses of ``Tensor``, on other devices, with another ``aggr``, under ``explain``
    and ``torch.func``, with hooks, for derivatives in forward mode, and over sparse matrices in
    what is compiled; ``heed.torch.report`` counts why.

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
        if self._return_weights or self.lin_beta is not None or not isinstance(x, Tensor):
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        layers = [self.lin_query, self.lin_key, self.lin_value]
        if self.root_weight:
            layers.append(self.lin_skip)
        rows = _projections(x, *layers)
        query, key, value = (of.view(-1, self.heads, self.out_channels) for of in rows[:3])
        out = self.propagate(edge_index, query=query, key=key, value=value, edge_attr=edge_attr)
        self._alpha = None
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + rows[3] if self.root_weight else out

    def propagate(self, edge_index: Any, size: Any = None, **inputs: Any) -> Tensor:
        """Attend over the edges, in PyTorch Geometric's place."""
        query, key, value = inputs["query"], inputs["key"], inputs["value"]
        edge_attr = inputs["edge_attr"]
        reason = self._objection(edge_index, edge_attr, query, key, value)
        if reason is not None:
            _tell("PyTorch Geometric", query, key, reason)
            return cast(Tensor, super().propagate(edge_index, size=size, **inputs))
        w_edge = None if self.lin_edge is None else self.lin_edge.weight.T
        edges, stored = _edges_of(edge_index)
        edge_attr = stored if edge_attr is None else edge_attr
        how = edges, None, self.flow != "source_to_target", "dot", 0.0
        out, weights = self._attend(query, key, value, edge_attr, w_edge, None, *how)
        if self._weights_learn:
            self._alpha = self._weights_of(query, key, edge_attr, *edges)
        elif weights is not None:
            self._alpha = weights.to(query.dtype)
        return out

    def _weights_of(
        self: Any,
        query: Tensor,
        key: Tensor,
        edge_attr: Tensor | None,
        source: Tensor,
        target: Tensor,
    ) -> Tensor:
        if self.flow != "source_to_target":
            source, target = target, source
        of_edges = key[source]
        if edge_attr is not None:
            of_edges = of_edges + self.lin_edge(edge_attr).view(of_edges.shape)
        scores = (query[target] * of_edges).sum(-1) / math.sqrt(self.out_channels)
        return cast(Tensor, softmax(scores, target, num_nodes=len(query)))


class _Activated(_Fused):
    """GATConv and GATv2Conv share this: attention where messages are propagated, not edge by edge.

    PyTorch Geometric asks for weights of edges first. It is given an empty tensor then, which gets
    them later if the caller has asked for them.
    """

    _signature: inspect.Signature  # of PyTorch Geometric's forward
    _scored_by: str  # the pair of inputs, of sources and of targets, that scores are made of
    _inputs: dict[str, Any] | None = None
    _looped: Tensor | None = None  # the edges that messages are propagated along, if they are known

    def forward(self: Any, x: Any, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        """As of PyTorch Geometric's layer."""
        given = self._signature.bind(self, x, edge_index, *args, **kwargs).arguments
        self._return_weights = bool(given.get("return_attention_weights"))
        self._given_edges = edge_index
        try:
            if self._is_plain(given):
                edges = edge_index
                if self.add_self_loops:
                    pair = x if isinstance(x, tuple) else (x,)
                    nodes = min(len(of) for of in pair if of is not None)
                    edges = self._looped = _with_loops(edge_index, nodes)
                    edge_index = edge_index[:, :0]  # PyTorch Geometric has none to change
                if self._is_of_one_kind(x) and self._objection(edges, None, x, x, x) is None:
                    return self._of_one_kind(x, edges)
                if self._return_weights:
                    self._looped, edge_index = None, self._given_edges
            return super().forward(x, edge_index, *args, **kwargs)  # type: ignore[misc]
        finally:
            self._given_edges = self._inputs = self._looped = None

    def _is_of_one_kind(self: Any, x: Any) -> bool:
        """Whether sources and targets are the same nodes."""
        return isinstance(x, Tensor) and x.dim() == 2

    def _of_one_kind(self: Any, x: Tensor, edges: Tensor) -> Any:
        """Computes PyTorch Geometric's layer where sources and targets are the same nodes."""
        query, key, value, weights = self._projected(x)
        score = "sum" if weights is None else "additive"
        how = edges, None, False, score, self.negative_slope
        out, found = self._attend(query, key, value, None, None, weights, *how)
        out = out.flatten(1) if self.concat else out.mean(1)
        if self.res is not None:
            out = out + self.res(x)
        out = out if self.bias is None else out + self.bias
        if not self._return_weights:
            return out
        if self._weights_learn:
            pair = (key, query) if weights is not None else (key.squeeze(-1), query.squeeze(-1))
            inputs = {self._scored_by: pair, "edge_attr": None}
            found = super().edge_updater(edges, size=None, **inputs)  # type: ignore[misc]
        edges = edges.clone() if edges is self._looped else edges  # the caller may change them
        return out, (edges, cast(Tensor, found).to(out.dtype))

    def _is_plain(self: Any, given: dict[str, Any]) -> bool:
        """Whether nothing goes with the edges, and nobody else gets to see them as they are."""
        edges, x = given["edge_index"], given["x"]
        return (
            not torch.compiler.is_compiling()
            and self.flow == "source_to_target"
            and type(edges) in (Tensor, Parameter)
            and edges.layout == torch.strided
            and edges.dim() == len(edges) == 2
            and edges.dtype in (torch.int32, torch.int64)
            and given.get("edge_attr") is given.get("size") is None
            and not (self._return_weights and not self._is_of_one_kind(x))
            and _unreadable(edges, *(x if isinstance(x, tuple) else (x,))) is None
        )

    def edge_updater(self: Any, edge_index: Any, size: Any = None, **inputs: Any) -> Any:
        """Look at what scores are made of; PyTorch Geometric computes them where heed does not."""
        edge_index = edge_index if self._looped is None else self._looped
        self._inputs = None
        reason = self._reason(edge_index, size, inputs)
        if reason is not None:
            query, key = inputs[self._scored_by]
            _tell("PyTorch Geometric", query, key, reason)
            return super().edge_updater(edge_index, size=size, **inputs)  # type: ignore[misc]
        if self._weights_learn:
            self._weights = super().edge_updater(edge_index, size=size, **inputs)  # type: ignore[misc]
        else:
            self._weights = inputs[self._scored_by][0].detach().new_empty(0)
        self._inputs = inputs
        return self._weights

    def propagate(self: Any, edge_index: Any, size: Any = None, **inputs: Any) -> Tensor:
        """Attend over the edges, in PyTorch Geometric's place."""
        edge_index = edge_index if self._looped is None else self._looped
        if self._inputs is None:
            plain = super().propagate(edge_index, size=size, **inputs)  # type: ignore[misc]
            return cast(Tensor, plain)
        edges, stored = _edges_of(edge_index)
        made_from = None
        known = edge_index is self._given_edges or edge_index is self._looped
        if not known and not is_torch_sparse_tensor(edge_index):
            made_from, _ = _edges_of(self._given_edges)
        edge_attr = self._inputs["edge_attr"]
        edge_attr = stored if edge_attr is None else edge_attr
        if edge_attr is None or self.lin_edge is None:
            edge_attr = w_edge = None
        else:
            edge_attr = edge_attr.view(-1, 1) if edge_attr.dim() == 1 else edge_attr
            w_edge = self._edge_matrix()
        sources, targets = inputs["x"]
        query, key, weights = self._scored(sources, targets)
        score = "sum" if weights is None else "additive"
        how = edges, made_from, False, score, self.negative_slope
        out, found = self._attend(query, key, sources, edge_attr, w_edge, weights, *how)
        if found is not None and not self._weights_learn:
            self._weights.set_(found.to(self._weights.dtype))
        return cast(Tensor, out)

    def _objection_to_dropout(self: Any) -> str | None:
        if self.dropout > 0 and self._return_weights:  # PyTorch Geometric's have been dropped
            return f"dropout is {self.dropout:g}, and attention weights asked for"
        return super()._objection_to_dropout()

    def _reason(self: Any, edge_index: Any, size: Any, inputs: dict[str, Any]) -> str | None:
        sources, targets = inputs[self._scored_by]
        if targets is None:
            return "targets have no features"
        if size is not None and tuple(size) != (len(sources), len(targets)):
            return "size is given"
        if self.flow != "source_to_target":
            return f"flow is {self.flow}"
        found = self._objection(edge_index, inputs["edge_attr"], targets, sources, sources)
        return cast("str | None", found)


def _products(rows: Tensor, *weights: Tensor) -> list[Tensor]:
    """The sums over features of rows times weights, ``[rows, heads]`` of each.

    Up to 8 heads one product with a matrix takes less time than numbers that are multiplied one by
    one and then summed, and gradients far less. Its zeros must not meet what is not finite. It
    comes first: BLAS libraries are slow where results have few columns.
    """
    _, heads, features = rows.shape
    if heads <= 8 and all(of.dtype == rows.dtype for of in weights):
        eye = torch.eye(heads, dtype=rows.dtype).unsqueeze(-1)
        matrices = [(of * eye).view(heads, heads * features) for of in weights]
        found = torch.cat(matrices) @ rows.view(-1, heads * features).T
        if bool(found.detach().sum().isfinite()):
            return list(found.view(len(weights), heads, -1).transpose(1, 2).contiguous().unbind())
    return [(rows * of).sum(-1) for of in weights]


class GATConv(_Activated, _GATConv):  # type: ignore[misc]
    """``torch_geometric.nn.GATConv``, whose scores, softmax and sums heed fuses.

    All that ``heed.pyg.TransformerConv`` says holds of it: what is PyTorch Geometric's, which
    edges there may be, gradients, and when PyTorch Geometric computes, which is so with
    ``flow="target_to_source"`` too. One number of a key is read per head.

    >>> import torch, heed.pyg
    >>> layer = heed.pyg.GATConv(3, 4, heads=2, edge_dim=2).eval()
    >>> x, edge_index = torch.randn(3, 3), torch.tensor([[0, 1, 2], [2, 2, 0]])
    >>> with torch.no_grad():
    ...     layer(x, edge_index, edge_attr=torch.randn(3, 2)).shape
    torch.Size([3, 8])
    """

    _signature = inspect.signature(_GATConv.forward)
    _scored_by = "alpha"
    # PyTorch Geometric writes its own for classes that have none.
    edge_updater = _Activated.edge_updater
    propagate = _Activated.propagate

    def _is_of_one_kind(self: Any, x: Any) -> bool:
        return super()._is_of_one_kind(x) and self.lin is not None

    def _projected(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Queries, keys and values: by one product, where numbers of heads may be sums of x."""
        if _only_multiplies(self.lin) and self.lin.bias is None:
            matrices = [self.lin.weight, *map(self._number_matrix, (self.att_src, self.att_dst))]
            found = torch.nn.functional.linear(x, torch.cat(matrices))
            value, key, query = found.split([len(of) for of in matrices], -1)
            value = value.view(-1, self.heads, self.out_channels)
            return query.unsqueeze(-1), key.unsqueeze(-1), value, None
        value = self.lin(x).view(-1, self.heads, self.out_channels)
        query, key, _ = self._scored(value, value)
        return query, key, value, None

    def _number_matrix(self: Any, weights: Tensor) -> Tensor:
        """From x to the sum over features of a head's row times weights."""
        matrix = self.lin.weight.view(self.heads, self.out_channels, -1)
        return cast(Tensor, (matrix * weights.view(self.heads, -1, 1)).sum(1))

    def _disagrees(self, featured: bool) -> bool:
        return False  # PyTorch Geometric uses them where both are given

    def _scored(self: Any, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, None]:
        if torch.compiler.is_compiling():
            key, query = self._inputs["alpha"]
        elif sources is targets:
            key, query = _products(sources, self.att_src, self.att_dst)
        else:
            (key,), (query,) = _products(sources, self.att_src), _products(targets, self.att_dst)
        return query.unsqueeze(-1), key.unsqueeze(-1), None

    def _edge_matrix(self) -> Tensor:
        """From features of edges to a number per head."""
        matrix = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
        return cast(Tensor, (matrix * self.att_edge.view(self.heads, -1, 1)).sum(1).T)


class GATv2Conv(_Activated, _GATv2Conv):  # type: ignore[misc]
    """``torch_geometric.nn.GATv2Conv``, whose scores, softmax and sums heed fuses.

    All that ``heed.pyg.TransformerConv`` says holds of it: what is PyTorch Geometric's, which
    edges there may be, gradients, and when PyTorch Geometric computes, which is so with
    ``flow="target_to_source"`` too. A row of sources is fetched once, for score and sum.

    >>> import torch, heed.pyg
    >>> layer = heed.pyg.GATv2Conv(3, 4, heads=2, edge_dim=2).eval()
    >>> x, edge_index = torch.randn(3, 3), torch.tensor([[0, 1, 2], [2, 2, 0]])
    >>> with torch.no_grad():
    ...     layer(x, edge_index, edge_attr=torch.randn(3, 2)).shape
    torch.Size([3, 8])
    """

    _signature = inspect.signature(_GATv2Conv.forward)
    _scored_by = "x"
    # PyTorch Geometric writes its own for classes that have none.
    edge_updater = _Activated.edge_updater
    propagate = _Activated.propagate

    def _projected(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        layers = (self.lin_l,) if self.share_weights else (self.lin_l, self.lin_r)
        rows = [of.view(-1, self.heads, self.out_channels) for of in _projections(x, *layers)]
        query, key, weights = self._scored(rows[0], rows[-1])
        return query, key, rows[0], weights

    def _disagrees(self, featured: bool) -> bool:
        return featured and self.lin_edge is None

    def _scored(self, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return targets, sources, self.att.flatten().to(_real(sources))

    def _edge_matrix(self) -> Tensor:
        return cast(Tensor, self.lin_edge.weight.T)


class HGTConv(_Fused, _HGTConv):  # type: ignore[misc]
    """``torch_geometric.nn.HGTConv``, whose scores, softmax and sums heed fuses.

    Edges of all types are one graph, which is sorted once for as long as the edges of the first
    type live. Everything that ``heed.pyg.TransformerConv`` says of gradients, and of when PyTorch
    Geometric computes, holds of it.

    >>> import torch, heed.pyg, torch_geometric
    >>> kinds = ["author", "paper"], [("author", "writes", "paper"), ("paper", "cites", "paper")]
    >>> layer = torch_geometric.nn.HGTConv(3, 4, kinds, heads=2)
    >>> fused = heed.pyg.HGTConv(3, 4, kinds, heads=2)
    >>> _ = fused.load_state_dict(layer.state_dict())
    >>> x = {"author": torch.randn(2, 3), "paper": torch.randn(3, 3)}
    >>> edges = {kind: torch.tensor([[0, 1, 1], [2, 2, 0]]) for kind in kinds[1]}
    >>> with torch.no_grad():
    ...     torch.allclose(fused(x, edges)["paper"], layer(x, edges)["paper"], atol=1e-5)
    True
    """

    dropout = 0.0
    lin_edge = None
    _return_weights = False
    _first_edges: Any = None
    _of_types: Any = None

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        """As of ``torch_geometric.nn.HGTConv``."""
        first = next(iter(edge_index_dict.values()), None)
        self._first_edges = first if type(first) in (Tensor, Parameter) else None
        try:
            return super().forward(x_dict, edge_index_dict)
        finally:
            self._first_edges = self._of_types = None

    def _construct_src_node_feat(self: Any, k_dict: Any, v_dict: Any, edges: Any) -> Any:
        found = super()._construct_src_node_feat(k_dict, v_dict, edges)
        self._of_types = [
            self.p_rel["__".join(kind)].expand(len(k_dict[kind[0]]), self.heads) for kind in edges
        ]
        return found

    def propagate(self: Any, edge_index: Any, size: Any = None, **inputs: Any) -> Tensor:
        """Attend over the edges, in PyTorch Geometric's place."""
        query, key, value = inputs["q"], inputs["k"], inputs["v"]
        reason = self._objection(edge_index, None, query, key, value)
        if reason is not None:
            _tell("PyTorch Geometric", query, key, reason)
            return cast(Tensor, super().propagate(edge_index, size=size, **inputs))
        # Each type of edges has keys of its own, so that its factors of scores are those of keys.
        key = key * torch.cat(self._of_types).unsqueeze(-1)
        edges, _ = _edges_of(edge_index)
        made_from = None if self._first_edges is None else _edges_of(self._first_edges)[0]
        how = edges, made_from, False, "dot", 0.0
        out, _ = self._attend(query, key, value, None, None, None, *how)
        return out.flatten(1)
