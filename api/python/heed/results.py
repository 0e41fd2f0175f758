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
