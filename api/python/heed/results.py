"""What a call gives back if more than ``out`` is asked for."""

from typing import Generic, NamedTuple, TypeVar

ArrayT = TypeVar("ArrayT")


class Result(NamedTuple, Generic[ArrayT]):
    """The results of a call, None where one was not asked for."""

    out: ArrayT
    lse: ArrayT | None = None
    weights: ArrayT | None = None
    column_sums: ArrayT | None = None
