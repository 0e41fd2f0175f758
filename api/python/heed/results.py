"""Results of calls: more than ``out``, or gradients."""

from typing import Any, Generic, NamedTuple, Self, TypeVar

ArrayT = TypeVar("ArrayT")


class Result(tuple[Any, ...], Generic[ArrayT]):
    """The results of a call that were asked for, in this order; by name also None where not.

    >>> import heed, numpy as np
    >>> x = np.eye(2)
    >>> out, weights = heed.attention(x, x, x, return_weights=True)
    >>> found = heed.attention(x, x, x, return_weights=True)
    >>> len(found), found.lse is None, bool((found.weights == weights).all())
    (2, True, True)
    """

    _fields = ("out", "lse", "weights", "column_sums")
    out: ArrayT
    lse: ArrayT | None
    weights: ArrayT | None
    column_sums: ArrayT | None

    def __new__(
        cls,
        out: ArrayT,
        lse: ArrayT | None = None,
        weights: ArrayT | None = None,
        column_sums: ArrayT | None = None,
    ) -> Self:
        """A result that is None was not asked for."""
        values = (out, lse, weights, column_sums)
        made = super().__new__(cls, [value for value in values if value is not None])
        vars(made).update(zip(cls._fields, values, strict=True))
        return made

    def _asdict(self) -> dict[str, ArrayT | None]:
        return {name: getattr(self, name) for name in self._fields}

    def __getnewargs__(self) -> tuple[ArrayT | None, ...]:
        """For pickle and copy."""
        return tuple(self._asdict().values())

    def __repr__(self) -> str:
        """The results that there are, by name."""
        given = (f"{n}={value!r}" for n, value in self._asdict().items() if value is not None)
        return f"Result({', '.join(given)})"


class Gradients(NamedTuple, Generic[ArrayT]):
    """Gradients of attention, None where one is not wanted."""

    query: ArrayT | None = None
    key: ArrayT | None = None
    value: ArrayT | None = None
    bias: ArrayT | None = None
    sinks: ArrayT | None = None
    alibi_slopes: ArrayT | None = None
    score_weights: ArrayT | None = None
    scale: float | None = None
    temperature: float | None = None


class MultiheadGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of a block, None where one is not wanted."""

    query: ArrayT | None = None
    key: ArrayT | None = None
    w_query: ArrayT | None = None
    w_key: ArrayT | None = None
    w_value: ArrayT | None = None
    w_out: ArrayT | None = None
    b_query: ArrayT | None = None
    b_key: ArrayT | None = None
    b_value: ArrayT | None = None
    b_out: ArrayT | None = None
    head_weights: ArrayT | None = None
    bias: ArrayT | None = None
    sinks: ArrayT | None = None
    alibi_slopes: ArrayT | None = None
    score_weights: ArrayT | None = None
    scale: float | None = None
    temperature: float | None = None


class GraphGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of attention over a graph, None where one is not wanted."""

    query: ArrayT | None = None
    key: ArrayT | None = None
    value: ArrayT | None = None
    data: ArrayT | None = None
    edge_data: ArrayT | None = None
    edge_bias: ArrayT | None = None
    w_query: ArrayT | None = None
    w_key: ArrayT | None = None
    w_value: ArrayT | None = None
    w_edge_key: ArrayT | None = None
    w_edge_value: ArrayT | None = None
    b_query: ArrayT | None = None
    b_key: ArrayT | None = None
    b_value: ArrayT | None = None
    head_weights: ArrayT | None = None
    score_weights: ArrayT | None = None
