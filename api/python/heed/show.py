"""Pictures of attention weights: ``heed.show``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heed.results import Result

if TYPE_CHECKING:
    from heed.heat_map import HeatMap


def show(
    weights: Any,
    tokens: Sequence[str] | None = None,
    *,
    key_tokens: Sequence[str] | None = None,
    head: int | None = None,
    batch: int = 0,
    title: str = "",
) -> HeatMap:
    """Shows what each row attends: a heat map of weights, in a terminal or a notebook.

    A line is a row; the darker (in colours: the lighter) a cell, the larger the weight beside the
    largest. Where keys are more than fit, neighbours share a cell, which shows their sum.

    Args:
        weights: [rows, keys], [heads, rows, keys] or [batch, heads, rows, keys], as
            ``heed.attention(..., return_weights=True)`` gives them; scores may be shown too. Or
            what that returns as a whole.
        tokens: A name for every row, and for every key if there are as many.
        key_tokens: A name for every key, if there are others.
        head: Which head; None: the mean of all.
        batch: Which item of a batch.
        title: A line above.

    Returns:
        A ``HeatMap``: printed, it is the map for this terminal; notebooks show its ``svg()``.

    >>> import numpy as np, heed
    >>> weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    >>> print(heed.show(weights, ["I", "am"]).text(width=40, colour=False))
          a
        I m
       ┌────┐
     I │██  │
    am │░░▓▓│
       └────┘
    0   ░░▒▒▓▓██ 1
    """
    from heed.heat_map import HeatMap  # NumPy, which importing heed does without

    if isinstance(weights, Result):
        if weights.weights is None:
            raise ValueError("weights is a result without weights: ask for them by return_weights")
        weights = weights.weights
    return HeatMap(weights, tokens, key_tokens, head, batch, title)
