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

import functools
import math
from typing import Any, cast

from heed.needed import needed_by

with needed_by("heed.linear"):
    import torch
    from torch import Tensor
    from torch.nn import Parameter
    from torch.optim.optimizer import register_optimizer_step_post_hook

import heed
from heed.torch_ops import (
    _context_of,
    _define,
    _Kept,
    _require_gradients,
    _reverse_only,
    _unreadable,
)

__all__ = ["Linear", "linear", "prepare", "refresh"]

# With fewer PyTorch is as fast: heed computes 16 rows at once, whether there are as many or not.
_FEWEST_ROWS = 8

_prepared = _Kept()  # of weights


def _after_step(optimizer: Any, *_: Any) -> None:
    """Fused optimizers change parameters without a word to PyTorch's counters of versions."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            _prepared.drop(parameter)


register_optimizer_step_post_hook(_after_step)


@functools.cache
def _sample_step(rows: int, columns: int) -> int:
    """Every number at so many steps: the sample meets each row and each column of the matrix."""
    most = max(1, min(rows, columns))
    return next(step for step in range(most, 0, -1) if math.gcd(step, columns) == 1)


def _sample(weight: Tensor, bias: Tensor | None) -> Tensor:
    """The bits of some numbers of a weight and of the whole bias, to tell whether they changed.

    All numbers would say more. But to read them takes as long as the product of few rows does.
    """
    matrix = weight.detach()
    matrix = matrix if matrix.is_contiguous() else matrix.T
    some = matrix.reshape(-1)[:: _sample_step(*matrix.shape)]
    return torch.cat([some] if bias is None else [some, bias.detach()]).view(torch.int16)


def _weights_of(weight: Tensor, bias: Tensor | None, context: heed.Context) -> heed.Weights:
    inference = weight.is_inference()  # has no version
    made_of = None if inference else (id(weight), weight._version, weight.data_ptr())
    sample = _sample(weight, bias)
    known, sampled, weights = _prepared.get(weight) or (None, None, None)
    if inference or known != made_of or not torch.equal(sampled, sample):
        own = None if bias is None else bias.detach().contiguous()
        weights = heed.Weights(weight.detach().T, own, context=context)
        if not inference:
            _prepared.put(weight, (made_of, sample, weights))
    return cast("heed.Weights", weights)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    context = _context_of(torch.get_num_threads())
    rows = x.reshape(-1, weight.shape[1])
    out = x.new_empty((*x.shape[:-1], len(weight)))
    into = out.view(len(rows), len(weight))
    heed.project(rows, _weights_of(weight, bias, context), out=into, context=context)
    return out


def _linear_fake(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return x.new_empty((*x.shape[:-1], len(weight)))


linear = _define(
    "linear",
    "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
    _linear,
    _linear_fake,
    (torch.Tag.pt2_compliant_tag,),
)
"""The custom op ``heed::linear(x, weight, bias)``: ``torch.nn.functional.linear`` of float32."""


def _below_autograd(keyset: Any, *args: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.heed.linear.default.redispatch(
            keyset & torch._C._after_autograd_keyset, *args
        )


_reverse_only.impl("linear", _below_autograd, "Autograd", with_keyset=True)


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    tensors = [x, weight] if bias is None else [x, weight, bias]
    if _unreadable(*tensors) is not None or any(t.dtype != torch.float32 for t in tensors):
        return False
    if x.numel() < _FEWEST_ROWS * x.shape[-1] or torch.is_autocast_enabled("cpu"):
        return False
    if x.shape[-1] != weight.shape[1] or _require_gradients(*tensors):
        return False
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    if torch.compiler.is_compiling():
        return True
    # Weights that are no parameters are computed anew for each call (torch.nn.utils.parametrize,
    # FSDP), and tensors of inference do not tell when they are changed.
    return isinstance(weight, Parameter) and not any(t.is_inference() for t in tensors[1:])


class Linear(torch.nn.Linear):
    """A ``torch.nn.Linear`` whose product heed computes; ``prepare`` makes it of one."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """As of ``torch.nn.Linear``."""
        if _fits(input, self.weight, self.bias):
            given = input, self.weight, self.bias
            if torch.compiler.is_compiling():
                return cast(Tensor, linear(*given))
            with torch._C._AutoDispatchBelowAutograd():  # whose Python takes time
                return cast(Tensor, linear(*given))
        if not torch.compiler.is_compiling() and _require_gradients(self.weight):
            _prepared.drop(self.weight)  # in training it will change
        return super().forward(input)


def prepare(model: torch.nn.Module, on: bool = True) -> int:
    """Let heed compute the linear layers of a model, with matrices in the order it reads them.

    Each matrix is prepared when it is first used, which doubles the memory of these layers, and
    again when it or its bias was changed: by PyTorch's operators, by any ``torch.optim`` optimizer,
    fused ones too, by ``load_state_dict``, by another tensor in its place, or by whatever else
    changes a whole row or column, even past PyTorch: through ``weight.data``, NumPy, DLPack, shared
    memory or pointers of C. Single numbers that are changed in these ways are not seen: call
    ``refresh`` after that. The model keeps its structure, parameters and ``state_dict``.

    PyTorch computes, as before, where gradients are required, for weights that are no parameters,
    as parametrizations make, for other types than float32, on other devices, under autocast and
    ``torch.func``, for derivatives in forward mode, and for fewer than 8 rows.

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
    refresh(model)
    return len(changed)


def refresh(model: torch.nn.Module) -> None:
    """Let the linear layers of a model prepare their matrices again when they are next used.

    Needed only where single numbers of weights were changed in ways that PyTorch does not tell of;
    see ``prepare``.

    Args:
        model: one that ``prepare`` was given.

    >>> import torch, heed.linear
    >>> layer = torch.nn.Linear(4, 4)
    >>> _ = heed.linear.prepare(layer)
    >>> layer.weight.data[0, 0] = 1.0
    >>> heed.linear.refresh(layer)
    """
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            _prepared.drop(layer.weight)
