"""The options of attention, which every function that attends takes, and the types of arrays."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SupportsDLPack(Protocol):
    """An array that other libraries may read: of NumPy, PyTorch, JAX and many others."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Describe the array in a capsule."""


Array: TypeAlias = Union[SupportsDLPack, "Buffer"]
ArrayT = TypeVar("ArrayT", bound="SupportsDLPack | Buffer")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Point: TypeAlias = Literal["scores", "capped", "masked", "probabilities"]
Start: TypeAlias = Literal["top_left", "bottom_right"]


class ScoreOptions(TypedDict, total=False):
    """What attention computes, also over ranks; ``heed.attention`` says what each option means."""

    attn_mask: Array | None
    bias: Array | None
    causal: bool | int | Start
    window: tuple[int | None, int | None] | None
    alignment: int | Start | None
    scale: float | None
    softcap: float | None
    alibi_slopes: Array | Sequence[float] | None
    sinks: Array | Sequence[float] | None
    temperature: float | None
    key_lengths: Array | Sequence[int] | None


class Options(ScoreOptions, total=False):
    """What only one process computes."""

    hard: bool
    cu_seqlens_q: Array | Sequence[int] | None
    cu_seqlens_k: Array | Sequence[int] | None
    max_seqlen_q: int | None
    max_seqlen_k: int | None
    block_table: Array | Sequence[Sequence[int]] | None
    key_scales: Array | float | None
    value_scales: Array | float | None
    score_function: Any


class ResultOptions(Options, total=False):
    """And what else it gives back, in a ``heed.Result``."""

    return_lse: bool
    return_weights: bool | Point | None
    weight_rows: Array | Sequence[int] | None
    return_column_sums: bool


_DEFAULTS = {
    **dict.fromkeys(("causal", "hard", "residual", "return_lse", "return_weights"), False),
    "return_column_sums": False,
    "combine": "concat",
    "placement": "contiguous",
    "queries": "split",
    "steps": 1,
}


# What PyTorch, FlashAttention, ONNX, transformers and PyTorch Geometric call it.
_ELSEWHERE = {
    other: own
    for own, others in {
        "causal": "is_causal",
        "attn_mask": "mask attention_mask",
        "bias": "attn_bias attention_bias position_bias",
        "scale": "softmax_scale",
        "window": "window_size sliding_window",
        "softcap": "logits_soft_cap logit_softcap softcapping",
        "alibi_slopes": "alibi",
        "sinks": "attention_sinks s_aux",
        "score_function": "score_mod",
        "key_lengths": "seqused_k cache_seqlens nonpad_kv_seqlen",
        "cu_seqlens_q": "cu_seq_q cu_seqlens",
        "cu_seqlens_k": "cu_seq_k",
        "max_seqlen_q": "max_q",
        "max_seqlen_k": "max_k",
        "block_table": "page_table block_tables",
        "key_scales": "k_descale",
        "value_scales": "v_descale",
        "return_weights": "need_weights output_attentions return_attn_probs",
        "return_lse": "return_softmax_lse",
        "heads": "num_heads q_num_heads nhead",
        "key_heads": "kv_num_heads num_kv_heads num_key_value_heads",
        "features": "head_dim",
        "nodes": "num_nodes",
        "edge_data": "edge_attr",
        "layers": "num_layers",
        "page_rows": "block_size page_size",
        "pages": "num_blocks num_pages",
        "threads": "num_threads",
    }.items()
    for other in others.split()
}
_NOT_HERE = {
    "enable_gqa": "query heads may be a multiple of key heads without it",
    **dict.fromkeys(("dropout", "dropout_p", "attn_drop"), "heed has no dropout"),
}


def unexpected(function: str, name: str, known: Iterable[str]) -> str:
    """The message for a keyword that a function does not know: perhaps another one was meant."""
    import heed  # of which this is a part

    message = f"{function}() got an unexpected keyword argument {name!r}"
    if name in _NOT_HERE:
        return f"{message}: {_NOT_HERE[name]}"
    called = getattr(heed, function, None)
    parameters = inspect.signature(called).parameters if inspect.isfunction(called) else ()
    names = dict.fromkeys([*known, *parameters])
    meant = _ELSEWHERE.get(name)
    close = [meant] if meant in names else difflib.get_close_matches(name, names, 1)
    return f"{message}; did you mean {close[0]}?" if close else message


def spelled_out(options: type) -> Callable[[FunctionT], FunctionT]:
    """Spells options out in the signature that ``help`` and editors show."""

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        positional = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(options, name))
            for name in options.__annotations__
        ]
        rest = [p for p in own if p.kind is p.KEYWORD_ONLY]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*positional, *added, *rest]
        )
        return function

    return decorate


def _default(options: type, name: str) -> Any:
    """What a function takes for an option that is not given."""
    if name in getattr(options, "__required_keys__"):  # noqa: B009
        return inspect.Parameter.empty
    return _DEFAULTS.get(name)


def taken(options: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Takes options out of those that were given: defaults where they were not, or are None."""
    values = (options.pop(name, None) for name in names)
    return tuple(
        _DEFAULTS.get(name) if value is None else value
        for name, value in zip(names, values, strict=True)
    )


with_options = spelled_out(ResultOptions)
