"""Operations on rows: ``heed.rotate``, ``heed.project`` and ``heed.merge``."""

from collections.abc import Sequence
from typing import Any, Literal

from heed import _heed
from heed._heed import Context, Weights
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
            or two axes may be missing.
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


def _rotary(given: Any) -> tuple[Any, ...]:
    """The arguments of ``rotate`` that a cache is given: the pairs alone, or a dict."""
    known = {"pairs": "halves", "base": None, "features": None, "cosines": None, "sines": None}
    if isinstance(given, str):
        given = {"pairs": given}
    if not isinstance(given, dict):
        raise TypeError(
            'rotary must be "halves", "interleaved", a dict or None, not ' + type(given).__name__
        )
    for name in given:
        if name not in known:
            raise TypeError(
                f"rotary has {name!r}; it may have pairs, base, features, cosines and sines"
            )
    return tuple((known | given).values())


def project(
    x: ArrayT,
    weights: Weights,
    *,
    out: Array | None = None,
    context: Context | None = None,
) -> ArrayT:
    """Multiply rows with a prepared matrix, and add its bias, as a linear layer does.

        out[i, o] = sum over f of x[i, f] * matrix[f, o] + bias[o]

    It is what blocks of ``heed.multihead`` make queries, keys and values with. Bits do not depend
    on threads, nor on the other rows.

    Args:
        x: ``[batch, rows, in]``, the first of which may be missing, of float32, float64, float16 or
            bfloat16; float64 with weights of float64, and with no others.
        weights: ``heed.Weights``, from ``in`` features to ``out``, with their bias inside.
        out: where to write; any strides, and any floating type (float64 as above). It must not
            overlap ``x``.
        context: where to compute; the default one of the process unless given.

    Returns:
        ``out``, or ``[batch, rows, out]`` in the kind and type of ``x``.

    Raises:
        heed.ArgumentError: shapes or types do not fit.
        TypeError: an argument is of a wrong Python type.
        heed.OutOfMemoryError: there is no memory.

    >>> import heed, numpy as np
    >>> weights = heed.Weights(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.0]))
    >>> heed.project(np.array([[1.0, 1.0], [0.0, 2.0]]), weights)
    array([[4.5, 6. ],
           [6.5, 8. ]])

    In C: heed_project.
    """
    projected: ArrayT = _heed.project(x, weights, out, context)
    return projected


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
            float32 or float64; the first one or two axes may be missing. All parts have the same
            shapes, strides and types.
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
