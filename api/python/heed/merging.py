"""Partial results as one: ``heed.merge``."""

from collections.abc import Sequence

from heed import _heed
from heed._heed import Context
from heed.options import Array


def merge(
    parts: Sequence[tuple[Array, Array]],
    *,
    out: tuple[Array, Array] | None = None,
    packed: bool = False,
    context: Context | None = None,
) -> tuple[Array, Array]:
    """Make one ``(out, lse)`` of results of the same queries over different keys.

        lse = log(sum over parts of e^lse_k)      out = sum over parts of e^(lse_k - lse) out_k

    Computed in float64, in the order of the parts, and rounded once. A part whose ``lse`` is -inf
    is empty: its out is not read. If all are, ``out`` is 0 and ``lse`` -inf.

    Args:
        parts: pairs ``(out, lse)``, as ``heed.attention(..., return_lse=True)`` gives them: out
            ``[batch, heads, rows, features]`` of any floating type, lse ``[batch, heads, rows]`` of
            float32 or float64; the first one or two axes may lack. All parts have the same shapes,
            strides and types.
        out: a pair to write the result to; may be one of the parts, and must not overlap another.
        packed: out is ``[rows, heads, features]`` and lse ``[heads, rows]``, as they are where
            ``cu_seqlens_q`` was given.
        context: where to compute.

    Returns:
        The pair ``(out, lse)``.

    Raises:
        heed.ArgumentError: shapes, strides or types do not fit.

    >>> import heed, numpy as np
    >>> q, k, v = (np.random.default_rng(0).standard_normal((3, 2, 8, 16), np.float32))
    >>> halves = [slice(0, 4), slice(4, 8)]
    >>> parts = [heed.attention(q, k[:, h], v[:, h], return_lse=True)[:2] for h in halves]
    >>> out, lse = heed.merge(parts)
    >>> bool(np.allclose(out, heed.attention(q, k, v), atol=1e-6))
    True

    In C: heed_merge.
    """
    return _heed.merge(parts, out, packed, context)
