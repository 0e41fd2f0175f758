"""Losses of what heed computes, and their derivatives by central differences."""

import numpy as np
import pytest

import heed

NUMBERS = ("scale", "temperature")


class Loss:
    """A weighted sum of out and of what of lse is finite: of arguments, float64 by name."""

    def __init__(self, forward, backward, arguments, options):
        self.forward, self.backward = forward, backward
        self.arguments, self.options = arguments, options
        found = self.found(arguments)
        random = np.random.default_rng(5)
        self.grad_out = random.standard_normal(found.out.shape)
        self.grad_lse = np.where(
            np.isfinite(found.lse), random.standard_normal(found.lse.shape), 0.0
        )
        if "cu_seqlens_q" in options:  # other rows are not written
            begins = options["cu_seqlens_q"]
            for x in (self.grad_out, self.grad_lse.T):
                x[: begins[0]] = x[begins[-1] :] = 0

    def given(self, arguments):
        plain = {n: float(x) if n in NUMBERS else x for n, x in arguments.items()}
        return {**plain, **self.options}

    def found(self, arguments):
        return self.forward(**self.given(arguments), return_lse=True)

    def __call__(self, arguments):
        found = self.found(arguments)
        parts = ((self.grad_out, found.out), (self.grad_lse, found.lse))
        return sum((w * np.where(w == 0, 0, x)).sum() for w, x in parts)

    def gradients(self, arguments=None, **changes):
        arguments = self.arguments if arguments is None else arguments
        more = {"grad_out": self.grad_out, "grad_lse": self.grad_lse}
        more.update({f"grad_{name}": True for name in arguments})
        if self.backward is heed.attention_backward:
            found = self.found(arguments)
            more.update(out=found.out, lse=found.lse)
        if "score_function" in self.options:
            more["score_gradient"] = squared_gradient
        return self.backward(**{**self.given(arguments), **more, **changes})

    def check(self, found):
        """Every gradient in the NamedTuple found, along a direction, and no others."""
        assert set(self.arguments) <= set(found._fields)
        random = np.random.default_rng(2)
        for name in found._fields:
            if name not in self.arguments:
                assert getattr(found, name) is None
                continue
            x, gradient = self.arguments[name], np.asarray(getattr(found, name))
            assert (gradient.shape, gradient.dtype) == (x.shape, np.float64)
            assert (gradient[~np.isfinite(x)] == 0).all()
            step = 1e-5 * np.where(np.isfinite(x), random.standard_normal(x.shape), 0)
            ends = [self({**self.arguments, name: x + sign * step}) for sign in (1, -1)]
            expected = (ends[0] - ends[1]) / 2
            assert (gradient * step).sum() == pytest.approx(expected, rel=1e-5, abs=1e-11), name


def squared(s, b, h, i, j):
    """A score function, whose derivative is the next."""
    return s + 0.1 * (h + 1) * s * s + 0.01 * np.abs(i - j)


@np.errstate(invalid="ignore")  # what is masked may hold anything
def squared_gradient(g, s, b, h, i, j):
    return g * (1 + 0.2 * (h + 1) * s)
