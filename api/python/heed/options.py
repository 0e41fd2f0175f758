"""The options of attention, which every function that attends takes, and the types of arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
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
