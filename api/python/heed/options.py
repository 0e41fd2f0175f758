"""The options of attention, which many functions take."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, TypeVar

Array = Any
ArrayT = TypeVar("ArrayT")


class Options(TypedDict, total=False):
    """The options of attention, of every function that attends."""

    attn_mask: Array | None
    bias: Array | None
    causal: bool | int | Literal["top_left", "bottom_right"]
    window: tuple[int | None, int | None] | None
    alignment: int | Literal["top_left", "bottom_right"] | None
    scale: float | None
    softcap: float | None
    alibi_slopes: Array | Sequence[float] | None
    sinks: Array | Sequence[float] | None
    temperature: float | None
    hard: bool
    key_lengths: Array | Sequence[int] | None
    cu_seqlens_q: Array | Sequence[int] | None
    cu_seqlens_k: Array | Sequence[int] | None
    max_seqlen_q: int | None
    max_seqlen_k: int | None
    block_table: Array | Sequence[Sequence[int]] | None
    key_scales: Array | float | None
    value_scales: Array | float | None
    score_function: Any
    return_lse: bool
    return_weights: bool | Literal["scores", "capped", "masked", "probabilities"] | None
    weight_rows: Array | Sequence[int] | None
    return_column_sums: bool
