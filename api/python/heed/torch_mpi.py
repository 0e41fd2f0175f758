"""Attention over the ranks of MPI in PyTorch: ``heed.mpi.attention`` in a step of training.

Every rank differentiates a loss of its own, and gradients are those of the sum of all losses: keys
and values get what other ranks' rows have to say to them, on the rank that brought them. Where
queries are everywhere all ranks must have the same loss, which counts once.

Gradients travel as keys and values do, so backward is collective as calls are. A loss must depend
on the results of every call, in the same way on all ranks; that of a rank without rows does so by
their sum, which is 0. PyTorch differentiates on the thread that calls ``backward``, as MPI wants.

This needs PyTorch, and what ``heed.mpi`` needs.
"""

from __future__ import annotations

from typing import Any, NoReturn, Unpack, cast

from heed.needed import needed_by

with needed_by("heed.torch_mpi"):
    import torch
    from mpi4py import MPI
    from torch import Tensor
    from torch.autograd import Function

import heed.mpi
from heed.errors import UnsupportedError
from heed.mpi import Options, _agreed, _communicator, _compared
from heed.options import spelled_out
from heed.torch_ops import _context_of

__all__ = ["attention"]

# Differentiated tensors, and the names of their gradients in heed.mpi.attention_backward.
_DIFFERENTIATED = {
    "query": "grad_query",
    "key": "grad_key",
    "value": "grad_value",
    "bias": "grad_bias",
    "attn_mask": "grad_bias",
    "sinks": "grad_sinks",
    "alibi_slopes": "grad_alibi_slopes",
}


class _Attention(Function):
    """A call of ``heed.mpi.attention`` with tensors of these names, and its gradients."""

    @staticmethod
    def forward(
        ctx: Any, names: list[str], wanted: list[str], options: dict[str, Any], *given: Tensor
    ) -> tuple[Tensor, Tensor]:
        named: dict[str, Any] = dict(zip(names, given, strict=True))
        out, lse, *_ = heed.mpi.attention(**named, **options, return_lse=True)
        ctx.names, ctx.wanted, ctx.options = names, wanted, options
        ctx.save_for_backward(*given, out, lse)
        ctx.set_materialize_grads(False)
        return out, cast(Tensor, lse)

    @staticmethod
    def backward(
        ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        *given, out, lse = tensors = ctx.saved_tensors
        named = dict(zip(ctx.names, given, strict=True))
        asked: dict[str, Any] = dict.fromkeys(_DIFFERENTIATED.values(), False)
        asked |= {_DIFFERENTIATED[name]: True for name in ctx.wanted}
        with torch.no_grad():
            found = heed.mpi.attention_backward(
                **named,
                out=out,
                lse=lse,
                grad_out=torch.zeros_like(out) if grad_out is None else grad_out,
                grad_lse=grad_lse,
                **asked,
                **ctx.options,
            )
            of = {n: getattr(found, _DIFFERENTIATED[n].removeprefix("grad_")) for n in ctx.wanted}
            gradients = [gradient.to(named[name].dtype) for name, gradient in of.items()]
        gradients = _Underivable.apply(gradients, grad_out, grad_lse, *tensors)
        by_name = dict(zip(ctx.wanted, gradients, strict=True))
        return None, None, None, *(by_name.get(name) for name in ctx.names)


class _Underivable(Function):
    """Gradients as they are, which have no derivative by what they were made of."""

    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor], *made_of: Tensor | None) -> tuple[Tensor, ...]:
        return tuple(gradients)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:
        raise UnsupportedError(
            "gradients of attention over ranks have no derivative: let PyTorch compute attention "
            "where a loss depends on gradients"
        )


@spelled_out(Options, see="heed.mpi.attention")
def attention(
    query: Tensor, key: Tensor, value: Tensor, **options: Unpack[Options]
) -> tuple[Tensor, Tensor]:
    """``heed.mpi.attention`` of tensors, which PyTorch differentiates; collective, as backward is.

    By query, key, value, bias or a floating mask, sinks and slopes of ALiBi, once: higher
    derivatives are refused. The same of these require gradients on all ranks. The gradient of what
    all ranks have together, as sinks, slopes and a bias that repeats over rows, is the sum of all
    ranks on every rank: it is not to be summed again.

    Args:
        query: ``[batch, heads, rows, features]``, this rank's rows, as of ``heed.mpi.attention``.
        context: what to compute with; threads as many as ``torch.get_num_threads()`` says unless
            given.
        **options: of ``heed.mpi.attention``, except ``return_lse``.

    Returns:
        ``out`` and ``lse`` of this rank's rows. Both may be differentiated.

    Raises:
        heed.ArgumentError: shapes, types or values do not fit, or differ between ranks, or not the
            same tensors require gradients on all of them.
        heed.UnsupportedError: an option is not supported, or there is no library.

    In C: heed_mpi_attention and heed_mpi_attention_backward.
    """
    asked: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
    comm = _communicator(asked.get("comm"))
    tensors, wanted = _differentiated(comm, query, key, value, asked)
    for name in tensors:
        asked.pop(name, None)
    if "context" not in asked:
        asked["context"] = _context_of(torch.get_num_threads())
    found: tuple[Tensor, Tensor] = _Attention.apply(list(tensors), wanted, asked, *tensors.values())
    return found


def _differentiated(
    comm: MPI.Intracomm, query: Any, key: Any, value: Any, options: dict[str, Any]
) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of a call, and which of them require gradients: the same on all ranks."""

    def read() -> tuple[dict[str, Tensor], list[str]]:
        given = {"query": query, "key": key, "value": value}
        for name, tensor in given.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
        for name in _DIFFERENTIATED:
            if isinstance(options.get(name), Tensor):
                given[name] = options[name]
        wanted = [n for n, x in given.items() if torch.is_grad_enabled() and x.requires_grad]
        if "attn_mask" in wanted and "bias" in given:
            raise UnsupportedError(
                "attn_mask requires gradients and bias is given: add them up, and give the sum as "
                "bias"
            )
        return given, wanted

    given, wanted = _agreed(comm, read)
    _compared(comm, {f"{name}.requires_grad": name in wanted for name in _DIFFERENTIATED}, 0)
    return given, wanted
