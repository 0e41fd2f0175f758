"""Linear layers of PyTorch models, with matrices that are prepared once.

Attention is a small part of what a model with short inputs computes; this is most of the rest.

>>> import torch, heed.linear
>>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
>>> heed.linear.prepare(model)
2
>>> with torch.inference_mode():
...     model(torch.ones(32, 8)).shape
torch.Size([32, 8])
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

import heed
from heed.torch import _PLAIN
from heed.torch_ops import _context_of

__all__ = ["Linear", "linear", "prepare"]

# With fewer PyTorch is as fast: heed computes 16 rows at once, whether there are as many or not.
_FEWEST_ROWS = 8

_prepared: Any = WeakIdKeyDictionary()  # by weight, for as long as that lives


def _weights_of(weight: Tensor, bias: Tensor | None, context: heed.Context) -> heed.Weights:
    made_of = [(t._version, t.data_ptr()) for t in (weight, bias) if t is not None]
    known, weights = _prepared.get(weight, (None, None))
    if known != made_of:
        own = None if bias is None else bias.detach()
        weights = heed.Weights(weight.detach().T, own, context=context)
        _prepared[weight] = made_of, weights
    return cast("heed.Weights", weights)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    context = _context_of(torch.get_num_threads())
    rows = x.reshape(-1, weight.shape[1])
    out = heed.project(rows, _weights_of(weight, bias, context), context=context)
    return out.view(*x.shape[:-1], len(weight))


def _linear_fake(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return x.new_empty((*x.shape[:-1], len(weight)))


torch.library.define(
    "heed::linear",
    "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.impl("heed::linear", "cpu", _linear)
torch.library.register_fake("heed::linear", _linear_fake)

linear = torch.ops.heed.linear.default
"""The custom op ``heed::linear(x, weight, bias)``: ``torch.nn.functional.linear`` of float32."""


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    if not (x.is_cpu and weight.is_cpu and x.dtype == weight.dtype == torch.float32):
        return False
    if type(x) not in _PLAIN or x.shape[-1] != weight.shape[1]:
        return False
    if x.numel() < _FEWEST_ROWS * x.shape[-1] or torch.is_autocast_enabled("cpu"):
        return False
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    if torch.compiler.is_compiling():
        return True
    # Tensors of inference do not tell when they are changed.
    return not (
        torch._C._functorch.peek_interpreter_stack() or any(t.is_inference() for t in tensors[1:])
    )


class Linear(torch.nn.Linear):
    """A ``torch.nn.Linear`` whose product heed computes; ``prepare`` makes it of one."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """As of ``torch.nn.Linear``."""
        if _fits(input, self.weight, self.bias):
            return cast(Tensor, linear(input, self.weight, self.bias))
        return super().forward(input)


def prepare(model: torch.nn.Module, on: bool = True) -> int:
    """Let heed compute the linear layers of a model, with matrices in the order it reads them.

    Each matrix is prepared when it is first used and again when it or its bias has been changed,
    which doubles the memory of these layers. Changes through ``weight.data`` do not show: call
    ``prepare`` again after them. The model keeps its structure, parameters and
    ``state_dict``. PyTorch computes, as before, where gradients are required, for other types than
    float32, on other devices, under autocast and ``torch.func``, and for fewer than 8 rows.

    Args:
        model: its modules of type ``torch.nn.Linear`` become ``heed.linear.Linear``; subclasses of
            others stay what they are.
        on: False makes them ``torch.nn.Linear`` again.

    Returns:
        How many layers were changed.

    >>> import torch, heed.linear
    >>> layer = torch.nn.Linear(4, 4)
    >>> heed.linear.prepare(layer), type(layer).__module__
    (1, 'heed.linear')
    >>> heed.linear.prepare(layer, False), type(layer).__module__
    (1, 'torch.nn.modules.linear')
    """
    before, after = (torch.nn.Linear, Linear) if on else (Linear, torch.nn.Linear)
    changed = [module for module in model.modules() if type(module) is before]
    for module in changed:
        module.__class__ = after
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            _prepared.pop(layer.weight, None)
    return len(changed)
