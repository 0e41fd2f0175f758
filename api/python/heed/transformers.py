"""heed in Hugging Face transformers: ``attn_implementation="heed"``.

>>> import torch, heed.transformers
>>> from transformers import LlamaConfig, LlamaForCausalLM
>>> heed.transformers.register()
>>> config = LlamaConfig(vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
...                      num_attention_heads=4, num_key_value_heads=2,
...                      attn_implementation="heed")
>>> model = LlamaForCausalLM(config).eval()
>>> model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=4, min_new_tokens=4).shape
torch.Size([1, 7])
"""

from __future__ import annotations

import functools
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

from heed.needed import needed_by

with needed_by("heed.transformers"):
    import torch
    from torch import Tensor
    from transformers import (
        MODEL_MAPPING,
        AttentionInterface,
        AttentionMaskInterface,
        PreTrainedModel,
    )
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import prepare_padding_mask, sdpa_mask

from heed.errors import UnsupportedError
from heed.torch import _tell
from heed.torch_ops import _count, attend, drawn_seed

__all__ = ["ignored", "register"]


@dataclass(frozen=True)
class _Structure:
    """The structure of a mask, in terms that let heed leave out whole tiles of keys."""

    causal: bool = False
    offset: int = 0
    left: int | None = None
    attn_mask: Tensor | None = None
    key_lengths: Tensor | None = None
    version: int = 0  # of the mask when it said so


def _ignores(model: type) -> bool:
    """Whether a class of models computes attention itself, whatever its implementation is set to.

    transformers looks for that in the source of the model, where it is asked to change it.
    """
    looks = getattr(model, "_can_set_attn_implementation", None)
    return looks is not None and not looks()


@functools.cache
def _ignoring(config: type) -> str | None:
    """The model of a class of configurations, if it ignores what attention it is given."""
    known = MODEL_MAPPING.get(config, None)
    models = known if isinstance(known, tuple | list) else [known]
    return next((model.__name__ for model in models if _ignores(model)), None)


def _tell_of_ignoring(config: Any) -> None:
    """For a mask of a model that will never call ``_heed_attention``."""
    kind: Any = type(config)
    name = _ignoring(kind)
    if name is None:
        return
    reason = f'{name} ignores attn_implementation="heed" and computes attention itself'
    _count(reason)
    warnings.warn(f"{reason}; see heed.transformers.ignored", stacklevel=2)


def _ends(row: Tensor) -> tuple[int, int] | None:
    """The first and the last key that a row attends."""
    keys = row.nonzero()
    return (int(keys[0]), int(keys[-1])) if len(keys) else None


def _band(allowed: Tensor) -> _Structure | None:
    """The causal offset and window that ``allowed`` [rows, keys] is made of, if it is so made."""
    rows, keys = allowed.shape
    first, last = _ends(allowed[0]), _ends(allowed[-1])
    if first is None or last is None:
        return None
    left = right = None  # attends j from i - left to i + right
    if last[1] < keys - 1 or first[1] < keys - 1:
        right = last[1] - (rows - 1) if last[1] < keys - 1 else first[1]
    if last[0] > 0 or first[0] > 0:
        left = -first[0] if first[0] > 0 else rows - 1 - last[0]
    band = torch.ones_like(allowed)
    if right is not None:
        band = band.tril(right)
    if left is not None:
        band = band.triu(-left)
    if not torch.equal(band, allowed):
        return None
    if right is not None:
        return _Structure(True, right, None if left is None else left + right)
    if left is not None:
        return _Structure(False, -left, 0)
    return _Structure()


def _heed_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor | None:
    """The mask of ``sdpa_mask``, told apart into a band and padded keys where it is made of them.

    Whoever slices or changes the mask gets a tensor like any other; as it is, it carries its
    structure to ``_heed_attention``.
    """
    where: dict[str, Any] = {
        "batch_size": batch_size,
        "q_length": q_length,
        "kv_length": kv_length,
        "q_offset": q_offset,
        "kv_offset": kv_offset,
    }
    if torch.compiler.is_compiling():
        whole: Tensor | None = sdpa_mask(**where, attention_mask=attention_mask, **kwargs)
        return whole
    _tell_of_ignoring(kwargs.get("config"))
    with torch.inference_mode(False):  # tensors of inference cannot say that they were changed
        mask: Tensor | None = sdpa_mask(**where, attention_mask=attention_mask, **kwargs)
        if mask is None or mask.device.type != "cpu":
            return mask
        skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        pattern = sdpa_mask(**where, **{**kwargs, **skips})
        if pattern is None or (batch_size > 1 and pattern.stride(0) != 0):
            return mask  # it is another for each sequence
        structure = _band(pattern[0, 0])
        if structure is None:
            return mask
        padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
        if padding is not None:
            padding = padding[:, kv_offset : kv_offset + kv_length]
            lengths = padding.sum(-1, dtype=torch.int32)
            if not torch.equal(padding, torch.arange(kv_length) < lengths[:, None]):
                structure = replace(structure, attn_mask=padding[:, None, None, :])
            elif not padding.all():
                structure = replace(structure, key_lengths=lengths)
        mask.heed = replace(structure, version=mask._version)  # type: ignore[attr-defined]
        return mask


def _by_the_model(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    structure: _Structure,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Computes what heed cannot, such as weights, as the model's "eager" does, which adds masks."""
    mask = structure.attn_mask
    if structure.causal:
        mask = torch.ones(
            query.shape[2], key.shape[2], dtype=torch.bool, device=query.device
        ).tril()
    if mask is not None and mask.dtype == torch.bool:
        least = torch.finfo(query.dtype).min
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, least)
    files = (sys.modules[kind.__module__] for kind in type(module).__mro__)
    eager = next(f.eager_attention_forward for f in files if hasattr(f, "eager_attention_forward"))
    result: tuple[Tensor, Tensor] = eager(module, query, key, value, mask, **options)
    return result


def _heed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """An attention function as transformers calls it; see ``register``."""
    if kwargs.get("cache") is not None:
        raise UnsupportedError(
            'attn_implementation="heed" does not read paged caches of continuous batching: give '
            'attn_implementation="sdpa"'
        )
    if query.shape[0] != key.shape[0]:  # learned queries, shared by a batch
        query = query.expand(key.shape[0], -1, -1, -1)
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    # No mask means causal for prompts, and for a single row every key.
    structure = _Structure(attn_mask=attention_mask)
    if attention_mask is None:
        structure = _Structure(causal=is_causal and query.shape[2] > 1)
    reason = None
    if not query.is_cpu:
        reason = f"a tensor lies on {query.device.type}"
    elif kwargs.get("output_attentions"):
        reason = "output_attentions asks for weights"
    _tell("heed" if reason is None else "PyTorch", query, key, reason)
    if reason is not None:
        if not kwargs.get("output_attentions") and softcap is None and s_aux is None:
            arguments = (attention_mask, dropout, scaling, is_causal, position_bias)
            result: tuple[Tensor, Tensor | None] = sdpa_attention_forward(
                module, query, key, value, *arguments, **kwargs
            )
            return result
        options = {"position_bias": position_bias, "softcap": softcap, "s_aux": s_aux, **kwargs}
        given = {name: option for name, option in options.items() if option is not None}
        return _by_the_model(
            *(module, query, key, value, structure), scaling=scaling, dropout=dropout, **given
        )
    if not torch.compiler.is_compiling():
        told = getattr(attention_mask, "heed", None)
        if told is not None and attention_mask is not None:
            structure = told if told.version == attention_mask._version else structure
    attn_mask, bias = structure.attn_mask, position_bias
    if attn_mask is not None and attn_mask.dtype != torch.bool and bias is not None:
        bias = bias + attn_mask
        attn_mask = None
    out = attend(
        query,
        key,
        value,
        attn_mask,
        bias,
        structure.key_lengths,
        s_aux,
        drawn_seed() if dropout > 0 else None,
        structure.causal,
        structure.offset,
        structure.left,
        None,
        scaling,
        softcap,
        dropout,
    )
    return out.transpose(1, 2).contiguous(), None


def ignored(model: torch.nn.Module) -> list[str]:
    """The models in a model that compute attention themselves, whatever they are told.

    Models of transformers that were written before its interface of attention functions ignore
    ``attn_implementation="heed"``, as they do others: Bloom, MPT, XGLM, MPNet and more; or know
    some names only, as Falcon and GPT-Neo, which raise KeyError where they are built with
    ``"heed"``. With ``"sdpa"`` Falcon calls PyTorch's function, which ``heed.torch.use`` replaces.
    Where such a model asks for a mask, there is a warning, and ``heed.torch.report`` counts it.

    Args:
        model: of transformers, or one that has some inside.

    Returns:
        The names of their classes; empty if all of them call what ``register`` has made known.

    >>> import heed.transformers
    >>> from transformers import BertConfig, BertModel, BloomConfig, BloomModel
    >>> heed.transformers.ignored(BloomModel(BloomConfig(hidden_size=32, n_head=4)))
    ['BloomModel']
    >>> heed.transformers.ignored(BertModel(BertConfig(num_hidden_layers=1)))
    []
    """
    models = {type(module) for module in model.modules() if isinstance(module, PreTrainedModel)}
    return sorted(kind.__name__ for kind in models if _ignores(kind))


def register(name: str = "heed") -> None:
    """Make ``attn_implementation="heed"`` known to transformers.

    After it, ``from_pretrained(..., attn_implementation="heed")``, a configuration's
    ``attn_implementation`` or ``model.set_attn_implementation("heed")`` let heed compute attention
    on CPUs: grouped heads, masks, sliding windows, logit softcapping, attention sinks, position
    biases, all caches but those of continuous batching. Also models that refuse ``"sdpa"``, such as
    Gemma 2 and GPT-OSS, run so. Where a mask is a causal or sliding band and padded keys, as it
    mostly is, heed is told so and leaves out what nobody attends; prompts padded on the right cost
    what their lengths do.

    Models train with it too, also with dropout of weights, whose seeds PyTorch's generator draws.
    ``"sdpa"`` computes on other devices; the model's own ``"eager"`` where it needs softcap or
    sinks then, and for ``output_attentions=True``; ``heed.torch.report`` counts why. Outputs of
    padded rows may differ between implementations: no row that is not padded reads them. Models
    that compute attention themselves ignore all of this: ``ignored`` names them.

    Args:
        name: what to call it.

    >>> import heed.transformers
    >>> heed.transformers.register()
    >>> from transformers import AttentionInterface
    >>> "heed" in AttentionInterface().valid_keys()
    True
    """
    AttentionInterface.register(name, _heed_attention)
    AttentionMaskInterface.register(name, _heed_mask)
