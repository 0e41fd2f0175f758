"""What calls give back: more than ``out``, or gradients."""

from typing import Generic, NamedTuple, TypeVar

ArrayT = TypeVar("ArrayT")


class Result(NamedTuple, Generic[ArrayT]):
    """The results of a call, None where one was not asked for."""

    out: ArrayT
    lse: ArrayT | None = None
    weights: ArrayT | None = None
    column_sums: ArrayT | None = None


class Gradients(NamedTuple, Generic[ArrayT]):
    """Gradients of attention, None where one is not wanted."""

    query: ArrayT | None = None
    key: ArrayT | None = None
    value: ArrayT | None = None
    bias: ArrayT | None = None
    sinks: ArrayT | None = None
    alibi_slopes: ArrayT | None = None
    scale: float | None = None
    temperature: float | None = None
