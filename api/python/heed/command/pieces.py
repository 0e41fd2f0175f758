"""A problem of dense attention, computed in one go or, where it takes long, in pieces."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import heed
from heed.command.files import Array
from heed.command.terminal import Progress, When

LONG = 2e10  # flops of a piece of long work, some tenths of a second


@dataclass
class Problem:
    """Arrays and options of heed.attention."""

    query: Array
    key: Array
    value: Array
    options: dict[str, Any]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Items of the batch, query heads, key heads, rows and keys; axes may be missing, or 1."""
        query, key, value = ((1, 1, *x.shape)[-4:-2] for x in (self.query, self.key, self.value))
        batch, key_heads = np.broadcast_shapes(key, value, (query[0], 1))
        heads = key_heads if query[1] == 1 else query[1]
        return batch, heads, key_heads, self.query.shape[-2], self.key.shape[-2]

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Without the axes that all of query, key and value lack."""
        batch, heads, _, rows, _ = self.sizes
        axes = max(x.ndim for x in (self.query, self.key, self.value))
        return (batch, heads, rows, self.value.shape[-1])[-axes:]

    @property
    def inputs(self) -> dict[str, Any]:
        """The options that ask for no result."""
        given = self.options.items()
        return {name: value for name, value in given if not name.startswith("return_")}

    def result_bytes(self, drawn: int) -> float:
        """The bytes of all that is asked for, and of the weights of so many rows that are drawn."""
        batch, heads, _, rows, keys = self.sizes
        wide = 8 if self.query.dtype == np.float64 else 4
        counts = {"weights": rows * keys, "lse": rows, "column_sums": keys}
        asked = sum(count for name, count in counts.items() if f"return_{name}" in self.options)
        out = rows * self.value.shape[-1] * self.query.dtype.itemsize
        return float(batch * heads * (out + wide * (asked + drawn * keys)))

    @property
    def flops(self) -> float:
        """The operations of all pairs of rows and keys."""
        batch, heads, _, rows, keys = self.sizes
        features = self.query.shape[-1] + self.value.shape[-1]
        return 2.0 * float(batch * heads * rows * keys * features)


def attend(problem: Problem, context: heed.Context) -> dict[str, Array]:
    """Everything that is asked for, by name."""
    result = heed.attention(
        problem.query, problem.key, problem.value, context=context, **problem.options
    )
    return by_name(result)


def by_name(result: Any) -> dict[str, Array]:
    """The arrays that a call gave back, by name."""
    if isinstance(result, heed.Result):
        return {name: array for name, array in result._asdict().items() if array is not None}
    return {"out": result}


def in_pieces(
    label: str, problem: Problem, context: heed.Context, progress: When
) -> dict[str, Array]:
    """The same, heads by heads where it takes long: it shows how far it is, and can be stopped.

    Bits are the same: heads have nothing to do with each other.
    """
    batch, heads, key_heads, *_ = problem.sizes
    pieces = min(math.ceil(problem.flops / LONG), batch * key_heads)
    if pieces <= 1:
        return attend(problem, context)
    each = max(1, key_heads * batch // pieces)  # key heads with their query heads
    begins = list(itertools.product(range(batch), range(0, key_heads, each)))
    results: dict[str, Array] = {}
    with Progress(label, len(begins), progress) as bar:
        for item, first in begins:
            of_keys = slice(first, first + each)
            of_queries = slice(*(n * heads // key_heads for n in (first, first + each)))
            piece = cut(problem, item, of_queries, of_keys)
            for name, array in attend(piece, context).items():
                shape = (batch, heads, *array.shape[2:])
                if name not in results:
                    results[name] = np.empty(shape, array.dtype)
                results[name][item, of_queries] = array[0]
            bar.step()
    axes = len(problem.out_shape) - 2
    return {name: x.reshape(*x.shape[2 - axes : 2], *x.shape[2:]) for name, x in results.items()}


def cut(problem: Problem, item: int, of_queries: slice, of_keys: slice) -> Problem:
    """Some heads of an item of the batch, as tensors of four axes; nothing is copied."""
    batch, heads, key_heads, rows, keys = problem.sizes

    def some(x: Array, count: int, which: slice) -> Array:
        return np.broadcast_to(x, (batch, count, *x.shape[-2:]))[item : item + 1, which]

    query = some(problem.query, heads, of_queries)
    key, value = (some(x, key_heads, of_keys) for x in (problem.key, problem.value))
    options = dict(problem.options)
    for name in {"attn_mask", "bias"} & options.keys():
        scores = np.broadcast_to(options[name], (batch, heads, rows, keys))
        options[name] = some(scores, heads, of_queries)
    for name in {"alibi_slopes", "sinks"} & options.keys():
        options[name] = options[name][of_queries]
    for name in {"key_lengths", "first_keys"} & options.keys():
        options[name] = options[name][item : item + 1]
    return Problem(query, key, value, options)
