"""Rotary embedding: ``heed.rotate``."""

from collections.abc import Sequence
from typing import Literal

from heed import _heed
from heed._heed import Context
from heed.options import Array, ArrayT


def rotate(
    x: ArrayT,
    positions: Array | Sequence[int] | None = None,
    *,
    pairs: Literal["halves", "interleaved"] = "halves",
    base: float | None = None,
    features: int | None = None,
    cosines: Array | None = None,
    sines: Array | None = None,
    position: int = 0,
    out: Array | None = None,
    context: Context | None = None,
) -> ArrayT:
    """Turn each row of queries or keys by its position.

        (a, b)  ->  (a cos t - b sin t, a sin t + b cos t)      t = p * base^(-2 i / R)

    for pair i of the first R features of a row at position p; other features stay. Angles are
    computed in float64, cosines and sines rounded once.

    Args:
        x: ``[batch, heads, rows, features]``, float32, float64, float16 or bfloat16; the first one
            or two axes may lack.
        positions: of rows, ``[rows]`` or ``[batch, rows]``, at least 0.
        pairs: ``"halves"``, features i and i + R / 2, as transformers stores Llama and GPT-NeoX; or
            ``"interleaved"``, 2 i and 2 i + 1, the paper's and GPT-J.
        base: of the angles; 10000 unless given.
        features: R, even; all unless given.
        cosines: instead of a base, tables ``[positions, R / 2]`` of float32, with ``sines``: for
            angles scaled by other rules (linear, YaRN, Llama 3).
        sines: see ``cosines``.
        position: of row 0 where ``positions`` are not given; the others follow it.
        out: where to write; may be ``x``, and must not overlap it otherwise.
        context: where to compute.

    Returns:
        ``out``, or an array of the kind, shape and type of ``x``.

    Raises:
        heed.ArgumentError: shapes or types do not fit, or an option makes no sense.

    >>> import heed, numpy as np
    >>> turned = heed.rotate(np.array([[1.0, 0.0]]), position=1)
    >>> np.round(turned, 4)
    array([[0.5403, 0.8415]])

    In C: heed_rotate.
    """
    turned: ArrayT = _heed.rotate(
        x, positions, pairs, base, features, cosines, sines, position, out, context
    )
    return turned
