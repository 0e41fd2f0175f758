"""The custom operator ``heed::attention`` of PyTorch, and the operator of its gradients."""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

import heed

_OPTIONS = (
    "Tensor? attn_mask{none}, Tensor? bias{none}, Tensor? key_lengths{none}, Tensor? sinks{none}, "
    "bool causal{false}, SymInt offset{zero}, SymInt? left{none}, SymInt? right{none}, "
    "float? scale{none}, float? softcap{none}"
)


_GRADIENTS = ("grad_query", "grad_key", "grad_value", "grad_bias", "grad_sinks")


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
        plain = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
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
    causal: bool = False,
    offset: int = 0,
    left: int | None = None,
    right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> dict[str, Any]:
    """What heed.attention calls the operators' options."""
    options: dict[str, Any] = {}
    if attn_mask is not None:
        options["attn_mask"] = attn_mask
    if bias is not None:
        options["bias"] = bias
    if key_lengths is not None:
        options["key_lengths"] = key_lengths
    if sinks is not None:
        options["sinks"] = sinks
    if causal:
        options["causal"] = offset
    if left is not None or right is not None:
        options["window"] = (left, right)
        if not causal:
            options["alignment"] = offset
    if scale is not None:
        options["scale"] = scale
    if softcap is not None:
        options["softcap"] = softcap
    options["context"] = _context_of(torch.get_num_threads())
    return options


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


def _empty_gradients(*args: Any) -> dict[str, Any]:
    """Arrays for what the backward operator is asked for, False where it is not wanted."""
    _, _, query, key, value, _, _, wanted, attn_mask, bias, _, sinks, *_ = args
    of = {
        "grad_query": (query, query.dtype),
        "grad_key": (key, key.dtype),
        "grad_value": (value, value.dtype),
    }
    biases = attn_mask if bias is None else bias
    if biases is not None:
        of["grad_bias"] = biases, biases.dtype
    if sinks is not None:
        of["grad_sinks"] = sinks, _real(query)
    wants = dict(zip(_GRADIENTS, wanted, strict=True))
    return {n: wants[n] and torch.empty_like(x, dtype=dtype) for n, (x, dtype) in of.items()}


def _wanted(gradients: dict[str, Any]) -> list[Tensor]:
    return [x for x in gradients.values() if x is not False]


def _attend_backward(*args: Any) -> list[Tensor]:
    grad_out, grad_lse, query, key, value, out, lse, _, *given = args
    made = _empty_gradients(*args)
    if grad_out is None:
        grad_out = out.new_zeros(()).expand_as(out)
    options = _options(*given)
    heed.attention_backward(
        query, key, value, out, lse, grad_out, grad_lse=grad_lse, **made, **options
    )
    return _wanted(made)


def _attend_backward_fake(*args: Any) -> list[Tensor]:
    return _wanted(_empty_gradients(*args))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """What gradients need of a call: its tensors, its results and its settings."""
    ctx.save_for_backward(*inputs[:7], *output)
    ctx.settings = inputs[7:]
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None
) -> tuple[Tensor | None, ...]:
    *tensors, attn_mask, bias, key_lengths, sinks, out, lse = ctx.saved_tensors
    # Of what a call gave, without the defaults that it left.
    needs = (*ctx.needs_input_grad, *(False for _ in range(7)))
    wanted = [*needs[:3], needs[3] or needs[4], needs[6]]
    found = iter(
        _backward_op(
            grad_out,
            grad_lse,
            *tensors,
            out,
            lse,
            wanted,
            attn_mask,
            bias,
            key_lengths,
            sinks,
            *ctx.settings,
        )
    )
    query, key, value, biases, sink = (next(found) if want else None for want in wanted)
    if sink is not None:
        sink = sink.to(sinks.dtype)
    in_mask, in_bias = (biases if need else None for need in needs[3:5])
    return query, key, value, in_mask, in_bias, None, sink, *(None for _ in ctx.settings)


def _refuse_higher(ctx: Any, *_: Any) -> None:
    raise heed.UnsupportedError(
        "gradients of heed's operators have no derivative: let PyTorch compute attention, as "
        "outside of heed.torch.use(), or PyTorch Geometric its own layers, where a loss depends on "
        "gradients"
    )


# Results lie as query does: compilers must not give it other strides than they asked results for.
_EXACT = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
_TAGS = torch.Tag.pt2_compliant_tag, _EXACT


def _define(name: str, schema: str, cpu: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    torch.library.define(f"heed::{name}", schema, tags=_TAGS)
    torch.library.impl(f"heed::{name}", "cpu", cpu)
    torch.library.register_fake(f"heed::{name}", fake)
    return getattr(torch.ops.heed, name).default


_given = _OPTIONS.format(none="=None", false="=False", zero="=0")
_kept = _OPTIONS.format(none="", false="", zero="")
_backward_op: Callable[..., list[Tensor]] = _define(
    "attention_backward",
    "(Tensor? grad_out, Tensor? grad_lse, Tensor query, Tensor key, Tensor value, Tensor out, "
    f"Tensor lse, bool[] wanted, {_kept}) -> Tensor[]",
    _attend_backward,
    _attend_backward_fake,
)
torch.library.register_autograd("heed::attention_backward", _refuse_higher)

attention: Callable[..., tuple[Tensor, Tensor]] = _define(
    "attention",
    f"(Tensor query, Tensor key, Tensor value, {_given}) -> (Tensor out, Tensor lse)",
    _attend,
    _attend_fake,
)
"""The custom op ``heed::attention``, which ``torch.compile`` and ``torch.export`` keep as one node.

Arguments are those of ``heed.attention``: ``attention(query, key, value, attn_mask, bias,
key_lengths, sinks, causal, offset, left, right, scale, softcap)``. Row ``i`` attends key ``j`` if
``j <= i + offset`` (with ``causal``), ``j >= i + offset - left`` and ``j <= i + offset + right``.
Results are ``out`` and ``lse``, which may both be differentiated, once: by query, key, value, a
floating mask, bias and sinks. Nothing falls back: what heed does not support is a ``heed.Error``,
higher derivatives among it.
"""
torch.library.register_autograd("heed::attention", _differentiate, setup_context=_keep)


def attend(*args: Any, **kwargs: Any) -> Tensor:
    """The ``out`` of ``attention``.

    Where nothing is differentiated it goes past autograd, whose Python takes as long as a small
    call.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return attention(*args, **kwargs)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return attention(*args, **kwargs)[0]
