"""A problem of dense attention, computed in one go or, where it takes long, in pieces."""

import math
from collections.abc import Iterator
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
    def heads(self) -> tuple[int, int]:
        """Items of the batch, and key heads."""
        shape = (1, 1, *self.key.shape)[-4:]
        return shape[0], shape[1]

    @property
    def inputs(self) -> dict[str, Any]:
        """The options that ask for no result."""
        given = self.options.items()
        return {name: value for name, value in given if not name.startswith("return_")}

    def result_bytes(self, drawn: int) -> float:
        """Of everything that is asked for, and of the weights of so many rows that are drawn."""
        rows, keys = math.prod(self.query.shape[:-1]), self.key.shape[-2]
        wide = 8 if self.query.dtype == np.float64 else 4
        heads = math.prod(self.query.shape[:-2])
        counts = {"weights": rows * keys, "lse": rows, "column_sums": heads * keys}
        asked = sum(count for name, count in counts.items() if f"return_{name}" in self.options)
        out = rows * self.value.shape[-1] * self.query.dtype.itemsize
        return float(out + wide * (asked + heads * drawn * keys))

    @property
    def flops(self) -> float:
        """Of all pairs of rows and keys."""
        pairs = math.prod(self.query.shape[:-1]) * self.key.shape[-2]
        return 2.0 * float(pairs * (self.query.shape[-1] + self.value.shape[-1]))


def attend(problem: Problem, context: heed.Context) -> dict[str, Array]:
    """Everything that is asked for, by name."""
    result = heed.attention(
        problem.query, problem.key, problem.value, context=context, **problem.options
    )
    return by_name(result)


def by_name(result: Any) -> dict[str, Array]:
    """What a call gave back."""
    if isinstance(result, heed.Result):
        return {name: array for name, array in result._asdict().items() if array is not None}
    return {"out": result}


def in_pieces(
    label: str, problem: Problem, context: heed.Context, progress: When
) -> dict[str, Array]:
    """The same, heads by heads where it takes long: it shows how far it is, and can be stopped.

    Bits are the same: heads have nothing to do with each other.
    """
    batch, key_heads = problem.heads
    wanted = math.ceil(problem.flops / LONG)
    if wanted <= 1 or batch * key_heads <= 1 or problem.query.ndim < 3:
        return attend(problem, context)
    pieces = list(split(problem, min(wanted, batch * key_heads)))
    results: dict[str, Array] = {}
    with Progress(label, len(pieces), progress) as bar:
        for place, piece in pieces:
            for name, array in attend(piece, context).items():
                if name not in results:
                    results[name] = np.empty(whole(problem, array), array.dtype)
                results[name][place] = array
            bar.step()
    return results


def whole(problem: Problem, piece: Array) -> tuple[int, ...]:
    """The shape of a result of which a piece has this one."""
    leading = problem.query.ndim - 2
    return (*problem.query.shape[:leading], *piece.shape[leading:])


def split(problem: Problem, pieces: int) -> Iterator[tuple[tuple[slice, ...], Problem]]:
    """Key heads with their query heads, of one item of the batch each, and where they lie."""
    batch, key_heads = problem.heads
    group = (1, 1, *problem.query.shape)[-3] // key_heads
    each = max(1, key_heads * batch // pieces)
    for item in range(batch):
        items = (slice(item, item + 1),) * (problem.query.ndim - 3)
        for first in range(0, key_heads, each):
            heads = slice(first * group, min(first + each, key_heads) * group)
            at, key_at = (*items, heads), (*items, slice(first, first + each))
            options = dict(problem.options)
            for name in ("attn_mask", "bias"):
                if name in options:
                    options[name] = part(options[name], item, heads)
            for name in ("alibi_slopes", "sinks"):
                if name in options:
                    options[name] = options[name][heads]
            if "key_lengths" in options:
                options["key_lengths"] = options["key_lengths"][item : item + 1]
            yield (
                at,
                Problem(problem.query[at], problem.key[key_at], problem.value[key_at], options),
            )


def part(scores: Array, item: int, heads: slice) -> Array:
    """Of a mask or bias, which may repeat its heads and items."""
    if scores.ndim >= 3 and scores.shape[-3] != 1:
        scores = scores[..., heads, :, :]
    if scores.ndim == 4 and scores.shape[0] != 1:
        scores = scores[item : item + 1]
    return scores
