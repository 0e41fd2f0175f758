"""Rows times a prepared matrix: ``heed.project``."""

from heed import _heed
from heed._heed import Context, Weights
from heed.options import Array, ArrayT


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
        x: ``[batch, rows, in]``, the first of which may lack, of float32, float64, float16 or
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
