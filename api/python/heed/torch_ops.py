"""The custom operators of heed in PyTorch, and the operators of their gradients."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils.weak import WeakIdKeyDictionary

import heed

_lock = threading.Lock()
_counts: Counter[str] = Counter()  # of calls that heed computed, and of reasons why it did not


def _count(what: str) -> None:
    with _lock:
        _counts[what] += 1


@functools.cache
def _context_of(threads: int) -> heed.Context:
    built = "openmp" in cast("list[str]", heed.info()["executors"])
    return heed.Context(
        executor="openmp" if built and "HEED_PARALLEL" not in os.environ else None,
        threads=None if "HEED_THREADS" in os.environ else threads,
    )


class _Kept:
    """Things made of tensors, each kept for as long as the memory of its tensor lives.

    The memory is referenced weakly, not the tensor: ``torch.utils.swap_tensors`` refuses tensors
    with weak references. A key tells tensors apart that share the memory.
    """

    def __init__(self) -> None:
        self._by_memory: Any = WeakIdKeyDictionary()

    @staticmethod
    def _key(tensor: Tensor) -> tuple[Any, ...]:
        return tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype

    def get(self, tensor: Tensor) -> Any:
        return self._by_memory.get(tensor.untyped_storage(), {}).get(self._key(tensor))

    def put(self, tensor: Tensor, made: Any) -> None:
        self._by_memory.setdefault(tensor.untyped_storage(), {})[self._key(tensor)] = made

    def drop(self, tensor: Tensor) -> None:
        """Forget all that was made of the memory of this tensor."""
        plain = type(tensor) in (Tensor, Parameter) and tensor.layout == torch.strided
        if plain and tensor.is_cpu:
            self._by_memory.pop(tensor.untyped_storage(), None)


def _empty_out(query: Tensor, value: Tensor) -> Tensor:
    """``[batch, heads, rows, features]`` that lies as query does, as PyTorch's own results do.

    No view: autograd forbids to change a view in place that a custom operator gives.
    """
    if query.dim() < 2 or value.dim() < 2:
        return query.new_empty(0)  # heed refuses them
    *outer, rows, _ = query.shape
    shape = *outer, rows, value.shape[-1]
    if len(outer) < 2 or query.stride(-3) >= query.stride(-2):
        return query.new_empty(shape)
    *batch, heads = outer  # the heads of a row lie side by side
    strides, whole = [shape[-1], heads * shape[-1], 1], rows * heads * shape[-1]
    for size in reversed(batch):
        strides.insert(0, whole)
        whole = whole * size
    return query.new_empty_strided(shape, strides)


_PLAIN = (Tensor, Parameter, FakeTensor)  # whose memory is what they say


def _text(name: torch.dtype | torch.layout) -> str:
    return str(name).removeprefix("torch.")


def _unreadable(*tensors: Tensor | None) -> str | None:
    """A reason that keeps heed from a call: unreadable tensors, or derivatives that it has not."""
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN:
            return f"a tensor is a {type(tensor).__name__}"
        if not tensor.is_cpu:
            return f"a tensor lies on {tensor.device.type}"
        if tensor.is_nested or tensor.layout != torch.strided:
            return f"a tensor is {'nested' if tensor.is_nested else _text(tensor.layout)}"
    if torch.compiler.is_compiling():
        return None
    if torch._C._functorch.peek_interpreter_stack():
        return "a transform of torch.func is at work"
    if forward_ad._current_level >= 0:
        return "derivatives are asked for in forward mode"
    return None


def _require_gradients(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _real(query: Tensor) -> torch.dtype:
    """The type that is computed in."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _options(
    attn_mask: Tensor | None = None,
    bias: Tensor | None = None,
    key_lengths: Tensor | None = None,
    sinks: Tensor | None = None,
    seed: Tensor | None = None,
    causal: bool = False,
    offset: int = 0,
    left: int | None = None,
    right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
) -> dict[str, Any]:
    """The operators' options by their names in heed.attention."""
    window = None if left is None and right is None else (left, right)
    return {
        "attn_mask": attn_mask,
        "bias": bias,
        "key_lengths": key_lengths,
        "sinks": sinks,
        "causal": causal,
        "window": window,
        "alignment": offset if causal or window is not None else None,
        "scale": scale,
        "softcap": softcap,
        "dropout": dropout,
        "seed": None if seed is None else int(seed),
        "context": _context_of(torch.get_num_threads()),
    }


# Results lie as query does: compilers must not give it other strides than they asked results for.
_EXACT = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
_TAGS = torch.Tag.pt2_compliant_tag, _EXACT


def _define(
    name: str, schema: str, cpu: Callable[..., Any], fake: Callable[..., Any], tags: Any = _TAGS
) -> Any:
    torch.library.define(f"heed::{name}", schema, tags=tags)
    torch.library.impl(f"heed::{name}", "cpu", cpu)
    torch.library.register_fake(f"heed::{name}", fake)
    op = getattr(torch.ops.heed, name).default
    torch.library.register_vmap(
        f"heed::{name}",
        lambda info, dims, *args: _over_batch(op, info.batch_size, dims, args),
    )
    _library.impl(name, functools.partial(_gradients_in_batches, op), "Batched")
    return op


def _over_batch(op: Any, size: int, dims: Any, args: Any) -> tuple[Any, Any]:
    """The rule for torch.vmap: a call for each element of the batch; and where results have it."""

    def element(i: int, x: Any, dim: Any) -> Any:
        if not isinstance(dim, int):
            return x
        return x.select(dim, i) if size else x.new_zeros(x.shape[:dim] + x.shape[dim + 1 :])

    # Where there is no element, one of zeros says which shapes results have.
    calls = [op(*map(functools.partial(element, i), args, dims)) for i in range(max(1, size))]
    if isinstance(calls[0], Tensor):
        return torch.stack(calls)[:size], 0
    stacked = [torch.stack(results)[:size] for results in zip(*calls, strict=True)]
    kind = type(calls[0])
    return kind(stacked), kind([0] * len(stacked))


def _gradients_in_batches(op: Any, *args: Any) -> Any:
    """The same for ``is_grads_batched``, whose batches are not those of torch.func."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    batched = torch._C._functorch.is_legacy_batchedtensor
    dims = [0 if isinstance(x, Tensor) and batched(x) else None for x in args]
    plain = [
        x if dim is None else torch._remove_batch_dim(x, level, 1, dim)
        for x, dim in zip(args, dims, strict=True)
    ]
    size = next(len(x) for x, dim in zip(plain, dims, strict=True) if dim is not None)
    results, _ = _over_batch(op, size, dims, plain)
    if isinstance(results, Tensor):
        return torch._add_batch_dim(results, 0, level)
    return type(results)(torch._add_batch_dim(x, 0, level) for x in results)


_library = torch.library.Library("heed", "FRAGMENT")


class _ReverseOnly(torch.library.Library):
    """Registers gradients of operators that refuse derivatives in forward mode.

    PyTorch would take them for 0 where no tensor requires gradients.
    """

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        def reverse(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if forward_ad._current_level >= 0 and any(
                isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None
                for x in args
            ):
                raise heed.UnsupportedError(
                    "heed's operators have no derivatives in forward mode: call PyTorch's own, as "
                    "heed.torch.scaled_dot_product_attention and the layers of heed do for these"
                )
            return fn(keyset, *args, **kwargs)

        super().impl(op_name, reverse, dispatch_key, **options)


_reverse_only = _ReverseOnly("heed", "FRAGMENT")


def _refuse_higher(ctx: Any, *_: Any) -> None:
    raise heed.UnsupportedError(
        "gradients of heed's operators have no derivative: let PyTorch compute attention, as "
        "outside of heed.torch.use(), or PyTorch Geometric its own layers, where a loss depends on "
        "gradients"
    )


def _define_with_gradients(
    name: str,
    inputs: str,
    results: str,
    cpu: Callable[..., Any],
    fake: Callable[..., Any],
    fill: Callable[..., None],
    *,
    keeps_results: bool,
) -> Any:
    """An operator whose gradients another one computes, which has none itself.

    Tensors come first among the inputs. ``fill`` is given the gradients of results, the inputs, the
    results if they are kept, and for each tensor an array for its gradient, False where that is not
    wanted.
    """
    op = _define(name, f"({inputs}) -> ({results})", cpu, fake)
    count, outs = inputs.count("Tensor"), re.findall(r"Tensor (\w+)", results)

    def made_for(args: tuple[Any, ...]) -> list[Any]:
        tensors = args[len(outs) : len(outs) + count]
        return [want and torch.empty_like(x) for x, want in zip(tensors, args[-1], strict=True)]

    def filled(*args: Any) -> list[Tensor]:
        made = made_for(args)
        fill(*args[:-1], made)
        return [x for x in made if x is not False]

    given = [f"Tensor? grad_{out}" for out in outs]
    given.append(re.sub(r"=[\w.]+", "", inputs))  # all of them, none by default
    given += [f"Tensor {out}" for out in outs if keeps_results]
    backward: Callable[..., list[Tensor]] = _define(
        f"{name}_backward",
        f"({', '.join(given)}, bool[] wanted) -> Tensor[]",
        filled,
        lambda *args: [x for x in made_for(args) if x is not False],
    )
    torch.library.register_autograd(f"heed::{name}_backward", _refuse_higher, lib=_reverse_only)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        kept = () if not keeps_results else output if len(outs) > 1 else (output,)
        ctx.save_for_backward(*inputs[:count], *kept)
        ctx.settings = inputs[count:]
        ctx.set_materialize_grads(False)

    def differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # once: checkpoints and offloading unpack at every look
        tensors, kept = saved[:count], saved[count:]
        needs = ctx.needs_input_grad[:count]  # of what a call gave, without the defaults it left
        wanted = [*needs, *(False for _ in range(count - len(needs)))]
        found = iter(backward(*grads, *tensors, *ctx.settings, *kept, wanted))
        return *(next(found) if want else None for want in wanted), *(None for _ in ctx.settings)

    torch.library.register_autograd(
        f"heed::{name}", differentiate, setup_context=keep, lib=_reverse_only
    )
    return op


def _attend(
    query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    out = _empty_out(query, value)
    options = _options(*args, **kwargs)
    found = heed.attention(query, key, value, out=out, return_lse=True, **options)
    _count("heed")
    return out, cast(Tensor, found.lse)


def _attend_fake(
    query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    return _empty_out(query, value), query.new_empty(query.shape[:-1], dtype=_real(query))


def _fill_gradients(*args: Any) -> None:
    grad_out, grad_lse, query, key, value, *given, out, lse, made = args
    if grad_out is None:
        grad_out = out.new_zeros(()).expand_as(out)
    grad_query, grad_key, grad_value, grad_mask, grad_bias, _, grad_sinks, _ = made
    wide = grad_sinks
    if wide is not False:
        wide = torch.empty_like(wide, dtype=_real(query))
    heed.attention_backward(
        *(query, key, value, out, lse, grad_out),
        grad_lse=grad_lse,
        grad_query=grad_query,
        grad_key=grad_key,
        grad_value=grad_value,
        grad_bias=grad_bias if grad_mask is False else grad_mask,
        grad_sinks=wide,
        **_options(*given),
    )
    if wide is not False:
        grad_sinks.copy_(wide)


attention: Callable[..., tuple[Tensor, Tensor]] = _define_with_gradients(
    "attention",
    "Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, Tensor? bias=None, "
    "Tensor? key_lengths=None, Tensor? sinks=None, Tensor? seed=None, bool causal=False, "
    "SymInt offset=0, SymInt? left=None, SymInt? right=None, float? scale=None, "
    "float? softcap=None, float dropout=0.0",
    "Tensor out, Tensor lse",
    _attend,
    _attend_fake,
    _fill_gradients,
    keeps_results=True,
)
"""The custom op ``heed::attention``, which ``torch.compile`` and ``torch.export`` keep as one node.

Arguments are those of ``heed.attention``: ``attention(query, key, value, attn_mask, bias,
key_lengths, sinks, seed, causal, offset, left, right, scale, softcap, dropout)``. Row ``i`` attends
key ``j`` if ``j <= i + offset`` (with ``causal``), ``j >= i + offset - left`` and
``j <= i + offset + right``. ``seed`` is that of ``dropout``, a tensor of one int. Results are
``out`` and ``lse``, which may both be differentiated, once: by query, key, value, a floating mask,
bias and sinks. Nothing falls back: what heed does not support is a ``heed.Error``, higher
derivatives and those in forward mode among it. Batches of ``torch.vmap`` and of gradients
(``is_grads_batched``) are a call for each of their elements.
"""


def drawn_seed() -> Tensor:
    """A seed of dropout, from PyTorch's generator: who replays that has the same mask."""
    return torch.randint(2**63 - 1, (), dtype=torch.int64)


def attend(*args: Any, **kwargs: Any) -> Tensor:
    """The ``out`` of ``attention``.

    Where nothing is differentiated it goes past autograd, whose Python takes as long as a small
    call.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return attention(*args, **kwargs)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return attention(*args, **kwargs)[0]


_graphs = _Kept()  # of edge_index
_changed_graphs = _Kept()  # of what a layer has made edge_index of


def _graph_of(
    edge_index: Tensor, made_from: Tensor | None, nodes: int, flipped: bool, reverse: bool
) -> heed.Graph:
    """The graph sorted by destination, once for all layers and calls that share an edge_index.

    With ``reverse`` by source too, as gradients need it; ``flipped``, edges lead the other way.
    Edges that are made anew at each call are known by the tensor that they are ``made_from``.
    """
    made_of = nodes, flipped
    kept, of = (_graphs, edge_index) if made_from is None else (_changed_graphs, made_from)
    found = kept.get(of)
    known, reversible, edges, graph = found or (None, False, None, None)
    changes = found is None or edges is not None
    # Edges are compared: PyTorch does not tell of all that is written to them, as through NumPy.
    same = known == made_of and (not changes or torch.equal(edges, edge_index))
    if not same or (reverse and not reversible):
        sources, destinations = edge_index.flip(0) if flipped else edge_index
        graph = heed.Graph(sources, destinations, nodes=nodes, duplicates="keep", reverse=reverse)
        kept.put(of, (made_of, reverse, edge_index.clone() if changes else None, graph))
    return cast("heed.Graph", graph)


def never_changes(edge_index: Tensor) -> Tensor:
    """Edges that nobody else has, so that they need not be compared at each call."""
    _graphs.put(edge_index, (None, False, None, None))
    return edge_index


def _graph_call(
    nodes: int,
    reverse: bool,
    edge_data: Tensor | None,
    w_edge: Tensor | None,
    score_weights: Tensor | None,
    seed: Tensor | None,
    edge_index: Tensor,
    made_from: Tensor | None,
    flipped: bool,
    score: str,
    slope: float,
    dropout: float,
) -> tuple[heed.Graph, dict[str, Any]]:
    """The graph, and what heed.graph_attention calls the operator's options."""
    dot = score == "dot"
    return _graph_of(edge_index, made_from, nodes, flipped, reverse), {
        "dropout": dropout,
        "seed": None if seed is None else int(seed),
        "edge_data": edge_data,
        "w_edge_key": w_edge,
        "w_edge_value": w_edge if dot else None,
        "score_weights": score_weights,
        "score": score,
        "slope": None if dot else slope,
        "context": _context_of(torch.get_num_threads()),
    }


def attend_graph(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *options: Any,
    reverse: bool = False,
    return_weights: bool = False,
) -> Any:
    """``heed.graph_attention`` of what the operator is given, past autograd."""
    graph, given = _graph_call(len(query), reverse, *options)
    found = heed.graph_attention(graph, query, key, value, return_weights=return_weights, **given)
    _count("heed")
    return found


def _attend_graph(*args: Any) -> Tensor:
    return cast(Tensor, attend_graph(*args, reverse=True))


def _attend_graph_fake(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _fill_graph_gradients(*args: Any) -> None:
    grad_out, query, key, value, *options, made = args
    graph, given = _graph_call(len(query), True, *options)
    grad_query, grad_key, grad_value, grad_edge_data, grad_w_edge, grad_score_weights, *_ = made
    if grad_out is None:
        grad_out = query.new_zeros(()).expand(*query.shape[:-1], value.shape[-1])
    twice = given["score"] == "dot" and grad_w_edge is not False
    found = heed.graph_attention_backward(
        *(graph, query, key, value),
        grad_out=grad_out,
        grad_query=grad_query,
        grad_key=grad_key,
        grad_value=grad_value,
        grad_edge_data=grad_edge_data,
        grad_w_edge_key=grad_w_edge,
        grad_w_edge_value=twice,
        grad_score_weights=grad_score_weights,
        **given,
    )
    if twice:  # the one matrix multiplies for keys and for values
        grad_w_edge += found.w_edge_value


graph_attention: Callable[..., Tensor] = _define_with_gradients(
    "graph_attention",
    "Tensor query, Tensor key, Tensor value, Tensor? edge_data, Tensor? w_edge, "
    "Tensor? score_weights, Tensor? seed, Tensor edge_index, Tensor? made_from, bool flipped, "
    "str score, float slope, float dropout",
    "Tensor out",
    _attend_graph,
    _attend_graph_fake,
    _fill_graph_gradients,
    keeps_results=False,
)
"""The custom op ``heed::graph_attention``: every node attends to the sources of its edges.

``graph_attention(query, key, value, edge_data, w_edge, score_weights, seed, edge_index, made_from,
flipped, score, slope, dropout)`` of what is ``[nodes, heads, features]``, with ``edge_index`` as
PyTorch Geometric has it, each edge of which counts; the graph is found again by ``made_from``, if
edges are made anew of that at each call; ``flipped``, edges lead from ``edge_index[1]`` to
``edge_index[0]``. ``w_edge``, ``[edge width, heads * features]``, is multiplied with ``edge_data``,
``[edges, edge width]``, and adds to keys, and to values where ``score`` is ``"dot"``. ``"sum"`` is
the score of GAT, ``leaky_relu(query + key + edge_data @ w_edge, slope)``, a number per head;
``"additive"`` that of GATv2: of every feature, times ``score_weights``, ``[heads * features]``,
summed. ``seed`` is that of ``dropout``, a tensor of one int. All but the edges may be
differentiated, once, and not in forward mode.
"""
