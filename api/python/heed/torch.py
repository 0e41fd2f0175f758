"""heed in PyTorch: ``scaled_dot_product_attention``, the switch ``use``, and the custom op.

>>> import torch, heed.torch
>>> q = k = v = torch.eye(3, 4).reshape(1, 1, 3, 4)
>>> with torch.inference_mode(), heed.torch.use():
...     out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
>>> out[0, 0, 1]
tensor([0.2689, 0.7311, 0.0000, 0.0000])

Calls run on as many threads as ``torch.get_num_threads()`` says, and where both were built for GNU
OpenMP, as their wheels are, on the very threads that PyTorch's own operators run on: two teams that
wait for work side by side would take CPU time from each other. ``HEED_PARALLEL`` and
``HEED_THREADS``, if set, are heeded instead.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from heed.needed import needed_by

with needed_by("heed.torch"):
    import torch
    from torch import Tensor

import heed
from heed.torch_ops import (
    _count,
    _counts,
    _lock,
    _text,
    _unreadable,
    attend,
    attention,
    drawn_seed,
)

__all__ = ["attention", "report", "scaled_dot_product_attention", "use"]

_F = TypeVar("_F", bound=Callable[..., Any])


_pytorch = torch.nn.functional.scaled_dot_product_attention
_pytorch_multi_head = torch.nn.functional.multi_head_attention_forward
_verbose = False


def _shape_text(tensor: Tensor) -> str:
    return "of nested rows" if tensor.is_nested else str(list(tensor.shape))


def _objection(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    enable_gqa: bool,
) -> str | None:
    """A reason that keeps heed from a call that it would not refuse itself."""
    if query is None or key is None or value is None:
        return "a tensor is None"
    reason = _unreadable(query, key, value, attn_mask)
    if reason is not None:
        return reason
    if not 0 <= dropout_p < 1:
        return f"dropout_p is {dropout_p:g}"
    if not query.dtype == key.dtype == value.dtype:
        return "query, key and value differ in dtype"
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype, torch.float32):
        return f"attn_mask is {_text(attn_mask.dtype)}"
    outer = key.shape[:-2]
    if outer != value.shape[:-2]:
        return "key and value differ in batch or heads"
    like = query.shape[:-2]
    shared = enable_gqa or outer[-1:] == (1,)  # one key head, which PyTorch broadcasts
    if like != outer and not (shared and like[:-1] == outer[:-1] and len(like) == len(outer)):
        return "query and key differ in batch or heads"
    return None


def _mismatch(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, enable_gqa: bool
) -> str | None:
    """Shapes that make no call of PyTorch's function, which looks at some of them only."""
    shapes = {"query": query.shape, "key": key.shape, "value": value.shape}
    for name, shape in shapes.items():
        if len(shape) < 2:
            return f"{name} has {len(shape)} axes; it must have at least 2"
    if key.shape[-1] != query.shape[-1]:
        return f"key has {key.shape[-1]} features; it must have {query.shape[-1]} as query does"
    if value.shape[-2] != key.shape[-2]:
        return f"value has {value.shape[-2]} rows; it must have {key.shape[-2]}, one for each key"
    outer = [list(shape[:-2]) for shape in shapes.values()]
    if enable_gqa and all(outer):
        heads = outer[0][-1]
        for name, own in zip(("key", "value"), outer[1:], strict=True):
            if own[-1] == 0 or heads % own[-1] != 0:
                return f"{name} has {own[-1]} heads; they must divide query's {heads}"
            own[-1] = heads
    try:
        batch = torch.broadcast_shapes(*outer)
    except RuntimeError:
        found = ", ".join(f"{name} is {list(shape)}" for name, shape in shapes.items())
        return f"batch and heads of query, key and value must broadcast: {found}"
    if attn_mask is not None:
        scores = [*batch, query.shape[-2], key.shape[-2]]
        try:
            fits = list(torch.broadcast_shapes(attn_mask.shape, scores)) == scores
        except RuntimeError:
            fits = False
        if not fits:
            return f"attn_mask has shape {list(attn_mask.shape)}; it must broadcast to {scores}"
    return None


def _autocast(tensor: Tensor) -> Tensor:
    """The tensor that PyTorch's own operator is given where autocast is on."""
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def _note_compiled(reason: str) -> None:
    with _lock:  # the compiler may come here more than once
        _counts[f"{reason} (compiled: counted once)"] = 1


# torch.compile calls it while it compiles: torch.compiler.assume_constant_result without
# importing the compiler, which takes a second.
_note_compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _tell(by: str, query: Tensor, key: Tensor, reason: str | None) -> None:
    """Say who computes, and count why heed does not; what heed computes counts itself."""
    if torch.compiler.is_compiling():
        if reason is not None:
            _note_compiled(reason)
        return
    if reason is not None:
        _count(reason)
    if _verbose:
        print(
            f"heed.torch: query {_text(query.dtype)} {_shape_text(query)}, "
            f"key {_shape_text(key)}: by {by}{f': {reason}' if reason else ''}",
            file=sys.stderr,
        )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention``, computed by heed where it can be.

    Arguments and results are PyTorch's. Rows whose keys are all masked give exactly 0. Gradients
    are heed's too, also of a floating ``attn_mask``, but no higher derivatives. Shapes that do not
    fit are a ``heed.ArgumentError``: PyTorch reads memory that is not there where value has other
    rows than key. PyTorch computes, and refuses what else is wrong, where

    - ``dropout_p`` is 1
    - a tensor is nested, sparse, a subclass of Tensor's, or on another device, or there are more
      than 4 axes
    - key and value are to be broadcast to the batch of query (but ``enable_gqa`` and a single key
      head are supported)
    - ``torch.func`` transforms the call, or derivatives are asked for in forward mode
    - heed refuses the call: ``report`` shows its message

    Args:
        query: ``[batch, heads, rows, features]``, or 2 or 3 axes, as of PyTorch.
        key: ``[batch, key heads, keys, features]``.
        value: ``[batch, key heads, keys, value features]``.
        attn_mask: bool, True attends, or floating, added; broadcast to
            ``[batch, heads, rows, keys]``.
        dropout_p: how likely a weight is dropped, in steps of 1 / 256. The seed of the mask, which
            is not PyTorch's, is drawn from PyTorch's generator: ``torch.manual_seed`` gives the
            same again, and so does a checkpoint that is computed again.
        is_causal: row i attends key j if ``j <= i``, beside ``attn_mask`` if that is given too.
        scale: of scores; ``1 / sqrt(features)`` unless given.
        enable_gqa: query heads may be a multiple of key heads.

    Returns:
        ``[batch, heads, rows, value features]``.

    >>> import torch, heed.torch
    >>> q = k = v = torch.eye(3, 4)
    >>> heed.torch.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)[1]
    tensor([0.2689, 0.7311, 0.0000, 0.0000])
    """
    reason = _objection(query, key, value, attn_mask, dropout_p, enable_gqa)
    if reason is None:
        given = (query, key, value, attn_mask)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = _autocast(query), _autocast(key), _autocast(value)
        try:
            out = attend(
                *(query, key, value, attn_mask),
                seed=drawn_seed() if dropout_p > 0 else None,
                causal=is_causal,
                scale=scale,
                dropout=dropout_p,
            )
        except heed.Error as error:
            reason = str(error)
            query, key, value, attn_mask = given
        else:
            _tell("heed", query, key, None)
            return out
    given = query, key, value, *(() if attn_mask is None else (attn_mask,))
    if all(isinstance(x, Tensor) and not x.is_nested for x in given):
        wrong = _mismatch(query, key, value, attn_mask, enable_gqa)
        if wrong is not None:
            raise heed.ArgumentError(wrong)
    if all(isinstance(x, Tensor) for x in given):
        _tell("PyTorch", query, key, reason)
    return _pytorch(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@functools.wraps(_pytorch_multi_head)
def _multi_head_attention_forward(query: Tensor, key: Tensor, *args: Any, **options: Any) -> Any:
    """PyTorch's, which asks for no attention where it gives weights back."""
    if options.get("need_weights", args[13] if len(args) > 13 else True):
        reason = "nn.MultiheadAttention computes weights itself: call it with need_weights=False"
        _tell("PyTorch", query, key, reason)
    return _pytorch_multi_head(query, key, *args, **options)


_State = tuple[Any, Any, bool, bool]


def _state() -> _State:
    """The functions that whoever looks them up gets, PyTorch's fast path, and whether to tell."""
    functional = torch.nn.functional
    functions = functional.scaled_dot_product_attention, functional.multi_head_attention_forward
    return *functions, torch.backends.mha.get_fastpath_enabled(), _verbose


def _set(state: _State) -> None:
    global _verbose
    functional = torch.nn.functional
    functional.scaled_dot_product_attention, multi_head, fast_path, _verbose = state
    functional.multi_head_attention_forward = multi_head
    torch.backends.mha.set_fastpath_enabled(fast_path)


class _Use(ContextDecorator):
    """The result of ``use``: a context manager and decorator that undoes the switch."""

    def __init__(self, on: bool, verbose: bool) -> None:
        self._choice = on, verbose
        self._before = _state()
        # The fast path would compute in C++, where nothing can be put in attention's place.
        ours = scaled_dot_product_attention, _multi_head_attention_forward, False
        _set((*(ours if on else (_pytorch, _pytorch_multi_head, True)), verbose))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _set(self._before)

    def __call__(self, function: _F) -> _F:
        _set(self._before)
        return super().__call__(function)

    def _recreate_cm(self) -> _Use:
        """A switch for each call of a function that is decorated."""
        return _Use(*self._choice)


def use(on: bool = True, *, verbose: bool = False) -> _Use:
    """Let heed compute ``torch.nn.functional.scaled_dot_product_attention``, in the whole process.

    A switch, ``heed.torch.use()`` and ``heed.torch.use(False)``; a context manager, ``with
    heed.torch.use():``, which restores at its end what was before; and a decorator. Whatever looks
    the function up in ``torch.nn.functional`` when it is called gets heed: transformers and
    diffusers with ``"sdpa"``; ``nn.MultiheadAttention`` with ``need_weights=False``, and so
    ``nn.TransformerEncoder``, whose fast path, which computes in C++, is switched off meanwhile.
    That path gives 0 for rows that ``src_key_padding_mask`` pads; without it, as in training, they
    are numbers that no other row reads.

    ``report`` counts ``nn.MultiheadAttention`` with ``need_weights=True``, its default, where
    PyTorch computes. Neither caught nor counted: modules that imported the function by name before
    (call ``heed.torch.scaled_dot_product_attention`` there), code in C++ and TorchScript, and what
    ``torch.compile`` compiled before.

    Args:
        on: False puts PyTorch's own function back.
        verbose: a line on stderr for every call, who computes it and why PyTorch does.

    >>> import torch, heed.torch
    >>> encoder = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    >>> _ = heed.torch.report(clear=True)
    >>> with torch.inference_mode(), heed.torch.use():
    ...     _ = encoder(torch.ones(1, 5, 8))
    >>> heed.torch.report()
    {'heed': 1}
    """
    return _Use(on, verbose)


def report(*, clear: bool = False) -> dict[str, int]:
    """How many calls heed computed, and PyTorch for which reasons.

    Calls of ``scaled_dot_product_attention``, of ``nn.MultiheadAttention`` within ``use``, of
    transformers' models with ``"heed"``, of ``heed.pyg``'s layers and of the custom operators. In
    code that ``torch.compile`` made, what heed computes counts at every run; a reason counts once,
    when it is compiled, and its text says so. Calls that never come here, such as in code that was
    compiled before ``use``, are not counted.

    Args:
        clear: count from 0 from now on.

    >>> import torch, heed.torch
    >>> _ = heed.torch.report(clear=True)
    >>> q = torch.ones(1, 1, 2, 4)
    >>> _ = heed.torch.scaled_dot_product_attention(q, q, q)
    >>> _ = heed.torch.scaled_dot_product_attention(q, q, q, dropout_p=1.0)
    >>> heed.torch.report()
    {'heed': 1, 'dropout_p is 1': 1}
    """
    with _lock:
        counted = dict(_counts)
        if clear:
            _counts.clear()
    return counted
