"""heed.multihead_backward beside differences, and itself in other types; what it refuses."""

import numpy as np
import pytest
from differences import Loss, squared, squared_gradient
from kinds import assert_close, assert_like, block_units, needed, params
from refusals import refusals
from test_multihead import BIASES, CASES, MATRICES, ROWS, block, packed
from test_multihead_refused import GIVEN as FORWARD

import heed

OPTIONS = ("bias", "sinks", "alibi_slopes", "scale", "temperature")
NUMBERS = ("scale", "temperature")
ALL = {
    **{name: case for name, case in CASES.items() if name not in ("hard", "score_function")},
    "temperature": lambda: block(temperature=0.5, cross=True, combine="weighted"),
    "score_function": lambda: block(score_function=squared, softcap=1.5),
    "packed_tensor": lambda: packed(True, combine="tensor", key_heads=2),
}


class Block(Loss):
    """Of heed.multihead, by everything that it has gradients of."""

    def __init__(self, case):
        arrays, self.settings, options = ALL[case]()
        self.options = dict(options)
        arguments = dict(arrays)
        if "head_weights" in self.settings:
            arguments["head_weights"] = np.array(self.settings.pop("head_weights"))
        for name in OPTIONS:
            if name in self.options:
                arguments[name] = np.asarray(self.options.pop(name), np.float64)
        width = arrays["w_query"].shape[1] // self.settings["heads"]
        arguments.setdefault("scale", np.array(width**-0.5))
        arguments.setdefault("temperature", np.array(1.0))

        def forward(arguments):
            return heed.multihead(**self.given(arguments), return_lse=True)

        super().__init__(arguments, forward, self.options.get("cu_seqlens_q"))

    def given(self, arguments):
        plain = {n: float(x) if n in NUMBERS else x for n, x in arguments.items()}
        return {**plain, **self.settings, **self.options}

    def gradients(self, arguments=None, **changes):
        arguments = self.arguments if arguments is None else arguments
        more = {"grad_out": self.grad_out, "grad_lse": self.grad_lse, **changes}
        if "score_function" in self.options:
            more["score_gradient"] = squared_gradient
        # Of parameters by themselves; of attention's options when asked for.
        more.update({f"grad_{name}": True for name in OPTIONS if name in arguments})
        return heed.multihead_backward(**self.given(arguments), **more)


@pytest.mark.parametrize("case", ALL)
def test_differences(case):
    loss = Block(case)
    loss.check(loss.gradients(), most=15)


@pytest.mark.parametrize("case", ["self", "packed_cross", "tensor", "weighted"])
@pytest.mark.parametrize("kind", params())
def test_types_and_kinds_of_arrays(kind, case):
    needed(kind)
    loss = Block(case)
    arrays = ("query", "key", *MATRICES, *BIASES)
    for name in arrays:
        if name in loss.arguments:
            loss.arguments[name] = kind.rounded(loss.arguments[name])
    loss.grad_out = kind.rounded(loss.grad_out)
    expected = loss.gradients()
    given = {n: kind.make(x) if n in arrays else x for n, x in loss.arguments.items()}
    found = loss.gradients(given, grad_out=kind.make(loss.grad_out))
    of_arrays, of_numbers = block_units(kind)
    for name in given:
        gradient, right = getattr(found, name), getattr(expected, name)
        size = max(1.0, float(np.abs(right).max()))  # terms as large as the largest cancel
        if name in arrays:
            assert_like(kind, gradient, given[name])
            gradient = kind.back(gradient)
        unit = of_arrays if name in arrays else of_numbers
        assert_close(np.asarray(gradient) / size, np.asarray(right) / size, unit, name)


@pytest.mark.parametrize("case", ["self", "packed_cross", "tensor", "mean"])
def test_prepared_matrices(case):
    """The same bits; matrices' gradients come in the arithmetic's type, biases' on request."""
    loss = Block(case)
    arguments = {
        n: np.asarray(x, np.float32) if n not in NUMBERS else x for n, x in loss.arguments.items()
    }
    grad_out = loss.grad_out.astype(np.float32)
    expected = loss.gradients(arguments, grad_out=grad_out)
    prepared = dict(arguments)
    for name, bias in zip(MATRICES, BIASES, strict=True):
        if name in arguments:
            prepared[name] = heed.Weights(arguments[name], prepared.pop(bias, None))
    wanted = {f"grad_{name}": True for name in BIASES if name in arguments}
    found = loss.gradients(prepared, grad_out=grad_out, **wanted)
    for name in arguments:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    plain = loss.gradients(prepared, grad_out=grad_out)
    assert plain.b_query is None


@pytest.mark.parametrize("case", ["self", "packed_cross", "tensor", "weighted", "score_function"])
def test_from_what_was_kept(case):
    """The same bits, whatever else the forward call gives back; twice from one room."""
    loss = Block(case)
    expected = loss.gradients()
    keep = heed.Kept()
    assert keep.nbytes == 0
    for more in ({}, {"return_lse": True, "return_column_sums": True}):
        given = loss.given(loss.arguments)
        out = heed.multihead(**given, **more)
        kept = heed.multihead(**given, **more, keep=keep)
        np.testing.assert_array_equal(kept[0] if more else kept, out[0] if more else out)
        size = keep.nbytes
        assert size > 0
        found = loss.gradients(keep=keep)
        assert keep.nbytes == size
        for name, right in zip(expected._fields, expected, strict=True):
            np.testing.assert_array_equal(getattr(found, name), right, err_msg=name)


def test_what_was_kept_is_read():
    """With a query of other numbers gradients are those of what was kept, but for the product with
    the query itself."""
    loss = Block("self")
    keep = heed.Kept()
    heed.multihead(**loss.given(loss.arguments), keep=keep)
    other = {**loss.arguments, "query": loss.arguments["query"] + 1}
    np.testing.assert_array_equal(loss.gradients(other, keep=keep).query, loss.gradients().query)


def test_kept_for_another_block():
    loss, other = Block("self"), Block("weighted")
    keep = heed.Kept()
    with pytest.raises(heed.ArgumentError, match="^keep holds nothing; give it to heed.multihead"):
        loss.gradients(keep=keep)
    heed.multihead(**other.given(other.arguments), keep=keep)
    with pytest.raises(heed.ArgumentError, match="^keep was filled by a call with other shapes"):
        loss.gradients(keep=keep)
    with pytest.raises(heed.Error, match="hard"):
        heed.multihead(**loss.given(loss.arguments), hard=True, keep=keep)
    with pytest.raises(TypeError, match=r"^keep must be a heed\.Kept or None, not int"):
        heed.multihead(**loss.given(loss.arguments), keep=1)


def test_one_input_gets_both_gradients():
    loss = Block("self")
    one = loss.gradients()
    both = loss.gradients({**loss.arguments, "key": loss.arguments["query"]})
    assert one.key is None
    np.testing.assert_allclose(one.query, both.query + both.key, rtol=1e-12, atol=1e-12)


def test_into_arrays_of_the_caller():
    loss = Block("tensor")
    expected = loss.gradients()
    room = np.full((2, ROWS, 24), 7.0)
    query = room[..., ::2]
    w_key = np.zeros(expected.w_key.shape[::-1]).T
    b_out = np.zeros_like(expected.b_out)
    found = loss.gradients(grad_query=query, grad_w_key=w_key, grad_b_out=b_out)
    assert found.query is query
    assert found.w_key is w_key
    assert found.b_out is b_out
    for name in ("query", "w_key", "b_out", "w_out"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (room[..., 1::2] == 7).all()


@pytest.mark.parametrize("case", ["self", "packed_cross"])
def test_accumulates(case):
    loss = Block(case)
    once = loss.gradients()
    arrays = {
        f"grad_{n}": np.full(x.shape, 0.5) for n, x in loss.arguments.items() if n not in NUMBERS
    }
    for _ in range(2):
        sums = loss.gradients(**arrays, accumulate=True)
    for name, array in arrays.items():
        gradient = getattr(once, name.removeprefix("grad_"))
        np.testing.assert_allclose(array, 2 * gradient + 0.5, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(sums.scale, once.scale)  # numbers begin at 0


def test_only_what_is_wanted():
    loss = Block("packed_cross")
    whole = loss.gradients()
    off = {f"grad_{n}": False for n in ("query", "key", *MATRICES, *BIASES)}
    assert set(loss.gradients(**off)[:-2]) == {None}
    for name in ("key", "w_value", "b_query"):
        some = loss.gradients(**{**off, f"grad_{name}": True})
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
        assert sum(x is not None for x in some[:-2]) == 1


def test_rows_of_no_sequence_get_zero():
    found = Block("packed_cross").gradients()  # sequences [1, 3) and [3, 8) of 9 rows
    assert (found.query[[0, 8]] == 0).all()
    assert (found.query[1:8] != 0).any()


def test_bits_do_not_depend_on_threads():
    arrays, settings, _ = block(biases=True)
    arrays = {n: x.astype(np.float32) for n, x in arrays.items()}
    arrays["query"] = np.tile(arrays["query"], (1, 60, 1))
    grad_out = heed.multihead(**arrays, **settings)
    results = [
        heed.multihead_backward(
            **arrays, **settings, grad_out=grad_out, context=heed.Context(threads=threads)
        )
        for threads in (1, 2, 3)
    ]
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_a_derivative_raises_comes_out():
    error = ZeroDivisionError("by 0")

    def fail(*_):
        raise error

    arrays, settings, _ = block()
    with pytest.raises(ZeroDivisionError) as caught:
        heed.multihead_backward(
            **arrays,
            **settings,
            score_function=squared,
            score_gradient=fail,
            grad_out=np.ones((2, ROWS, 9)),
        )
    assert caught.value is error


F32 = np.float32
X, OUT = np.ones((2, 5, 12), F32), np.ones((2, 5, 7), F32)
B = np.zeros(8, F32)
GIVEN = {**FORWARD, "grad_out": OUT}
REFUSED = [
    (
        dict(grad_out=OUT[0]),
        r"grad_out has shape \[5, 7\]; it must have \[2, 5, 7\], as the result",
    ),
    (dict(grad_out=OUT.astype(float)), "grad_out is float64 but query is float32; they must both"),
    (
        dict(grad_lse=np.ones((2, 5), F32)),
        r"grad_lse has shape \[2, 5\]; it must have \[2, 4, 5\], as the lse of the result has",
    ),
    (dict(grad_lse=np.ones((2, 4, 5), np.float16)), "grad_lse is float16; it must be float32 or"),
    (dict(grad_query=X[:1].copy()), r"grad_query has shape \[1, 5, 12\]; the gradient has \[2, 5,"),
    (dict(grad_query=X.astype(float)), "grad_query is float64 but query is float32"),
    (dict(grad_key=True), "grad_key is wanted, but no key is given: grad_query is the sum of both"),
    (dict(grad_w_key=np.empty((4, 12), F32)), r"grad_w_key has shape \[4, 12\]; the gradient has"),
    (
        dict(grad_w_query=np.broadcast_to(F32(0), (12, 8))),
        "grad_w_query is read-only; the result could not be written to it",
    ),
    (
        dict(combine="mean", w_out=None, grad_out=np.ones((2, 5, 3), F32), grad_w_out=True),
        "grad_w_out is wanted, but there is no w_out",
    ),
    (
        dict(combine="mean", w_out=None, grad_out=np.ones((2, 5, 3), F32), grad_b_out=True),
        "grad_b_out is wanted, but there is no w_out",
    ),
    (dict(grad_head_weights=True), "grad_head_weights is wanted, but no head_weights are given"),
    (dict(grad_b_query=np.zeros(7, F32)), r"grad_b_query has shape \[7\]; the gradient has \[8\]"),
    (
        dict(grad_b_query=np.zeros(16, F32)[::2]),
        "grad_b_query has a stride of 2 elements; its numbers must lie side by side",
    ),
    (
        dict(b_query=B, grad_b_query=True, grad_b_key=np.zeros(4, np.float16)),
        "grad_b_query and grad_b_key are of different types; gradients of biases must all",
    ),
    (dict(grad_bias=True), "grad_bias is wanted, but neither bias nor a floating attn_mask is"),
    (dict(grad_sinks=True), "grad_sinks is wanted, but no sinks are given"),
    (dict(w_query=GIVEN["w_query"][:8]), r"w_query is float32 \[8, 8\]; it must be \[in, out\]"),
]
UNSUPPORTED = [
    (dict(hard=True), "hard is True; it must be False: hard attention is not differentiable"),
]
WRONG_TYPES = [
    (dict(grad_query=None), "grad_query must be True, False or an array to write to, not None"),
    (dict(grad_w_out=1), "grad_w_out must be True, False or an array to write to, not 1"),
    (dict(accumulate=1), "accumulate must be True or False, not 1"),
    (dict(grad_scale=None), "grad_scale must be True or False, not None"),
    (dict(return_lse=True), r"multihead_backward\(\) got an unexpected keyword argument 'return_l"),
    (dict(colour=1), r"multihead_backward\(\) got an unexpected keyword argument 'colour'"),
    (dict(grad_out=None), "grad_out must be an array"),
    (dict(score_function=squared), "score_function is given, so score_gradient must be"),
    (dict(score_gradient=squared), "score_gradient is given without score_function"),
    (dict(w_key=None), "w_key must be an array or heed.Weights, not None"),
]


@pytest.mark.parametrize(("change", "message", "kind"), refusals(REFUSED, UNSUPPORTED, WRONG_TYPES))
def test_refused(change, message, kind):
    written = np.full((12, 6), 7, F32)
    with pytest.raises(kind, match=message):
        heed.multihead_backward(**{**GIVEN, "grad_w_value": written, **change})
    assert (written == 7).all()
