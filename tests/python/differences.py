"""Losses of what heed computes, and their derivatives by central differences."""

import numpy as np
import pytest


class Loss:
    """A weighted sum of out and of what of lse is finite.

    ``forward`` makes a heed.Result of arguments, float64 by name. Packed rows count from
    ``begins[0]`` to ``begins[-1]``: others are not written.
    """

    def __init__(self, arguments, forward, begins=None):
        self.arguments, self.forward = arguments, forward
        found = forward(arguments)
        random = np.random.default_rng(5)
        self.grad_out = random.standard_normal(found.out.shape)
        self.grad_lse = np.where(
            np.isfinite(found.lse), random.standard_normal(found.lse.shape), 0.0
        )
        if begins is not None:
            for x in (self.grad_out, self.grad_lse.T):
                x[: begins[0]] = x[begins[-1] :] = 0

    def __call__(self, arguments):
        found = self.forward(arguments)
        parts = ((self.grad_out, found.out), (self.grad_lse, found.lse))
        return sum((w * np.where(w == 0, 0, x)).sum() for w, x in parts)

    def check(self, found, most=40, step=1e-5):
        """Every gradient in the NamedTuple found, at some of its elements, and no others."""
        assert set(self.arguments) <= set(found._fields)
        for name in found._fields:
            gradient = getattr(found, name)
            if name not in self.arguments:
                assert gradient is None
                continue
            x = self.arguments[name]
            if name == "temperature" and np.isinf(x):
                assert gradient == 0
                continue
            gradient = np.asarray(gradient)
            assert gradient.shape == x.shape
            assert gradient.dtype == np.float64
            assert (gradient[~np.isfinite(x)] == 0).all()
            for place in map(tuple, elements_of(x)[:most]):
                ends = []
                for sign in (1, -1):
                    moved = x.copy()
                    moved[place] += sign * step
                    ends.append(self({**self.arguments, name: moved}))
                expected = (ends[0] - ends[1]) / (2 * step)
                assert gradient[place] == pytest.approx(expected, rel=1e-6, abs=1e-7), (name, place)


def elements_of(x):
    """Those that a difference can be taken at, in any order."""
    return np.random.default_rng(2).permutation(np.argwhere(np.isfinite(x)))


def squared(s, b, h, i, j):
    """A score function, whose derivative is the next."""
    return s + 0.1 * (h + 1) * s * s + 0.01 * np.abs(i - j)


@np.errstate(invalid="ignore")  # what is masked may hold anything
def squared_gradient(g, s, b, h, i, j):
    return g * (1 + 0.2 * (h + 1) * s)
