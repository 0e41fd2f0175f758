"""heed.attention_backward beside differences, PyTorch's autograd, and itself in other types."""

import ctypes
import math

import numpy as np
import pytest
from cases import CASES, SLOPES, Make, bias, mask
from differences import Loss, squared, squared_gradient
from kinds import assert_close, assert_like, needed, params

import heed

GRADIENTS = heed.Gradients._fields
NUMBERS = ("scale", "temperature")
DIFFERENTIABLE = [name for name in CASES if name != "hard" and not name.startswith("paged")]


MORE = {
    "score_function_squared": lambda: Make()(
        score_function=squared, softcap=2.0, temperature=0.5, attn_mask=mask(5, 7)
    ),
    "bias_of_one": lambda: Make()(bias=np.array(0.5), causal=True),
    "bias_repeated": lambda: Make()(bias=np.broadcast_to(bias(5, 7), (2, 4, 5, 7))),
}
ALL = {**{name: CASES[name] for name in DIFFERENTIABLE}, **MORE}


def derivative_of(options):
    """What goes with a score function."""
    if "score_function" not in options:
        return {}
    given = options["score_function"] is squared
    return {"score_gradient": squared_gradient if given else lambda g, *_: g}


def arguments_of(case):
    """What a case has gradients of, by name; and the options that it has none of."""
    query, key, value, options = ALL[case]()
    options = dict(options)
    arguments = {"query": query, "key": key, "value": value}
    if np.asarray(options.get("attn_mask", True)).dtype != bool:
        options["bias"] = options.pop("attn_mask")
    for name in ("bias", "sinks", "alibi_slopes", *NUMBERS):
        if name in options:
            arguments[name] = np.asarray(options.pop(name), np.float64)
    scale = query.shape[-1] ** -0.5
    arguments.setdefault("scale", np.array(scale))
    arguments.setdefault("temperature", np.array(1.0))
    return arguments, options


def as_given(arguments):
    return {n: float(x) if n in NUMBERS else x for n, x in arguments.items()}


def wanted_of(arguments):
    return {f"grad_{name}": name in arguments for name in GRADIENTS}


class Dense(Loss):
    """Of heed.attention."""

    def __init__(self, case):
        arguments, self.options = arguments_of(case)

        def forward(arguments):
            return heed.attention(**as_given(arguments), **self.options, return_lse=True)

        super().__init__(arguments, forward, self.options.get("cu_seqlens_q"))

    def gradients(self):
        found = self.forward(self.arguments)
        return heed.attention_backward(
            **as_given(self.arguments),
            **self.options,
            **derivative_of(self.options),
            **wanted_of(self.arguments),
            out=found.out,
            lse=found.lse,
            grad_out=self.grad_out,
            grad_lse=self.grad_lse,
        )


@pytest.mark.parametrize("case", ALL)
def test_differences(case):
    """Every gradient of every option, element by element, in float64."""
    loss = Dense(case)
    loss.check(loss.gradients())


def reference(torch, arguments, options):
    """out and lse by PyTorch, as heed.attention defines them."""
    query, key, value = (arguments[n] for n in ("query", "key", "value"))
    heads = max(query.shape[1], key.shape[1], value.shape[1])
    query, key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (query, key, value))
    rows, keys = query.shape[2], key.shape[2]
    causal = options.get("causal", False)
    where = options.get("alignment") if causal is False else causal
    named = {True: 0, None: 0, "top_left": 0, "bottom_right": keys - rows}
    offset = where if type(where) is int else named[where]
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - offset
    s = arguments["scale"] * (query @ key.transpose(2, 3))
    if "softcap" in options:
        s = options["softcap"] * torch.tanh(s / options["softcap"])
    if "alibi_slopes" in arguments:
        s = s - arguments["alibi_slopes"][:, None, None] * distance.abs()
    if "bias" in arguments:
        s = s + arguments["bias"]
    allowed = torch.ones(s.shape, dtype=torch.bool)
    if "attn_mask" in options:
        allowed = allowed & torch.from_numpy(options["attn_mask"])
    if causal is not False:
        allowed = allowed & (distance <= 0)
    left, right = options.get("window", (None, None))
    if left not in (None, -1):
        allowed = allowed & (distance >= -left)
    if right not in (None, -1):
        allowed = allowed & (distance <= right)
    if "key_lengths" in options:
        lengths = torch.tensor(np.asarray(options["key_lengths"]))
        allowed = allowed & (torch.arange(keys) < lengths[:, None, None, None])
    allowed = allowed & (s > -torch.inf)
    z = torch.where(allowed, s, 0) / arguments["temperature"]
    z = torch.where(allowed, z, -1e30)
    sinks = arguments.get("sinks", torch.full((heads,), -torch.inf, dtype=s.dtype))
    sinks = torch.where(sinks > -torch.inf, sinks, -1e30)
    column = sinks[:, None, None].expand(*s.shape[:-1], 1)
    lse = torch.logsumexp(torch.cat([z, column], -1), -1)
    p = torch.where(allowed, torch.exp(z - lse[..., None]), 0)
    return p @ value, lse


# The reference knows four axes of a batch, whose items are equally long where they stand.
UNLIKE = (
    *("packed", "score_function", "no_", "two_axes", "three_axes", "uniform"),
    *("broadcast_batch", "key_lengths_int64"),
)


@pytest.mark.parametrize("case", [c for c in ALL if not c.startswith(UNLIKE)])
def test_autograd_of_pytorch_agrees(case):
    torch = pytest.importorskip("torch")
    loss = Dense(case)
    found = loss.gradients()
    arguments = {n: torch.tensor(x, requires_grad=True) for n, x in loss.arguments.items()}
    out, lse = reference(torch, arguments, loss.options)
    told = (torch.from_numpy(loss.grad_out) * out).sum()
    (told + (torch.from_numpy(loss.grad_lse) * lse).sum()).backward()
    for name, x in arguments.items():
        expected = 0 * x.detach() if x.grad is None else x.grad.nan_to_num()
        np.testing.assert_allclose(
            np.asarray(getattr(found, name)), expected, rtol=1e-9, atol=1e-10, err_msg=name
        )


@pytest.mark.parametrize("case", ["everything", "grouped", "packed", "broadcast_batch_and_heads"])
@pytest.mark.parametrize("kind", params())
def test_types_and_kinds_of_arrays(kind, case):
    """Gradients come as their tensors do; those of sinks and slopes in the arithmetic's type."""
    needed(kind)
    loss = Dense(case)
    arrays = ("query", "key", "value", "bias")
    for name in arrays:
        if name in loss.arguments:
            loss.arguments[name] = kind.rounded(loss.arguments[name])
    loss.grad_out, expected = kind.rounded(loss.grad_out), loss.gradients()
    given = {n: kind.make(x) if n in arrays else x for n, x in loss.arguments.items()}
    found = heed.attention(**as_given(given), **loss.options, return_lse=True)
    gradients = heed.attention_backward(
        **as_given(given),
        **loss.options,
        **wanted_of(given),
        out=found.out,
        lse=found.lse,
        grad_out=kind.make(loss.grad_out),
        grad_lse=loss.grad_lse,
    )
    exact = 2.0**-53 if kind.element == "float64" else 2.0**-24
    for name in given:
        gradient, right = getattr(gradients, name), getattr(expected, name)
        # Rounded results take part, and terms as large as the largest cancel.
        size = max(1.0, float(np.abs(right).max()))
        if name in arrays:
            assert_like(kind, gradient, given[name])
            gradient = kind.back(gradient)
        elif name not in NUMBERS:
            assert str(gradient.dtype).removeprefix("torch.") == (
                "float64" if kind.element == "float64" else "float32"
            )
        assert_close(
            np.asarray(gradient) / size, np.asarray(right) / size, max(4 * kind.unit, exact), name
        )


def plain(**options):
    """Arguments of a call of NumPy's float32, positional."""
    query, key, value, _ = Make(key_heads=2)()
    tensors = [x.astype(np.float32) for x in (query, key, value)]
    found = heed.attention(*tensors, **options, return_lse=True)
    return (*tensors, found.out, found.lse, np.ones_like(found.out))


def test_into_arrays_of_the_caller():
    """With strides and types of their own; what lies between stays."""
    given = plain(sinks=SLOPES)
    expected = heed.attention_backward(*given, grad_sinks=True, sinks=SLOPES)
    room = np.full((2, 5, 4, 16), 7, np.float32)
    query = room[..., ::2].transpose(0, 2, 1, 3)
    key = np.empty(given[1].shape, np.float16)
    sinks = np.empty(4, np.float32)
    found = heed.attention_backward(
        *given, grad_query=query, grad_key=key, grad_sinks=sinks, sinks=SLOPES
    )
    assert found.query is query
    assert found.key is key
    assert found.sinks is sinks
    np.testing.assert_array_equal(query, expected.query)
    np.testing.assert_array_equal(key, expected.key.astype(np.float16))
    np.testing.assert_array_equal(sinks, expected.sinks)
    assert (room[..., 1::2] == 7).all()


@pytest.mark.parametrize("repeated", [False, True])
def test_accumulates(repeated):
    query, key, value, *_ = plain()
    if repeated:
        query, key = query[:1], key[1, :1]
    found = heed.attention(query, key, value, return_lse=True)
    given = (query, key, value, found.out, found.lse, np.ones_like(found.out))
    once = heed.attention_backward(*given)
    arrays = [np.full(x.shape, 0.5, np.float32) for x in (query, key)]
    for _ in range(2):
        sums = heed.attention_backward(
            *given, grad_query=arrays[0], grad_key=arrays[1], accumulate=True
        )
    assert sums.query is arrays[0]
    for array, gradient in zip(arrays, once[:2], strict=True):
        np.testing.assert_allclose(array, 2 * gradient + 0.5, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(sums.value, once.value)  # new ones begin at 0


def test_only_what_is_wanted():
    given = plain()
    whole = heed.attention_backward(*given)
    some = heed.attention_backward(*given, grad_query=False, grad_key=False, grad_scale=True)
    assert some.query is None
    assert some.key is None
    assert type(some.scale) is float
    assert whole.scale is None
    np.testing.assert_array_equal(some.value, whole.value)
    nothing = heed.attention_backward(*given, grad_query=False, grad_key=False, grad_value=False)
    assert set(nothing) == {None}


def test_rows_of_no_sequence_and_keys_that_nobody_attends_get_zero():
    found = Dense("packed").gradients()  # sequences [1, 3) and [3, 8) of 9 rows
    assert (found.query[[0, 8]] == 0).all()
    assert (found.query[1:8] != 0).any()
    lengths = Dense("key_lengths").gradients()
    assert (lengths.key[1] == 0).all()
    assert (lengths.value[1] == 0).all()
    rows = Dense("mask_of_rows_and_keys").gradients()
    assert (rows.query[:, :, 1] == 0).all()


def test_bits_do_not_depend_on_threads():
    query, key, value, _ = Make(batch=1, heads=1, key_heads=1, rows=300, keys=700)()
    tensors = [x.astype(np.float32) for x in (query, key, value)]
    found = heed.attention(*tensors, return_lse=True)
    results = [
        heed.attention_backward(
            *tensors,
            found.out,
            found.lse,
            np.ones_like(found.out),
            context=heed.Context(threads=threads),
        )
        for threads in (1, 2, 3)
    ]
    for result in results[1:]:
        for name in ("query", "key", "value"):
            np.testing.assert_array_equal(getattr(result, name), getattr(results[0], name))


@heed.ScoreFunction
def squared_in_c(user, tile):
    each(user, tile, lambda s, h: s + (h + 1) * s * s)


@heed.ScoreGradient
def squared_gradient_in_c(user, tile, gradients):
    each(user, tile, lambda s, h: 1 + 2 * (h + 1) * s, gradients)


def each(user, tile, function, gradients=None):
    """What a C function would do; `user` points at a factor of the head's number."""
    t = tile.contents
    factor = ctypes.cast(user, ctypes.POINTER(ctypes.c_double))[0]
    scores = ctypes.cast(t.scores, ctypes.POINTER(ctypes.c_double))
    found = ctypes.cast(gradients, ctypes.POINTER(ctypes.c_double)) if gradients else None
    for j in range(t.keys):
        for r in range(t.rows):
            at = j * t.stride_key + r
            value = function(scores[at], factor * (t.query_heads[r] + 1) - 1)
            if found:
                found[at] *= value
            else:
                scores[at] = value


def test_function_pointers():
    query, key, value, _ = Make()()
    factor = ctypes.c_double(0.1)
    options = {"score_function": (squared_in_c, ctypes.byref(factor))}
    found = heed.attention(query, key, value, return_lse=True, **options)
    given = (query, key, value, found.out, found.lse, np.ones_like(found.out))
    got = heed.attention_backward(*given, score_gradient=squared_gradient_in_c, **options)
    expected = heed.attention_backward(
        *given,
        score_function=lambda s, b, h, i, j: s + 0.1 * (h + 1) * s * s,
        score_gradient=squared_gradient,
    )
    for name in ("query", "key", "value"):
        np.testing.assert_allclose(
            getattr(got, name), getattr(expected, name), rtol=1e-9, atol=1e-10
        )


def test_what_a_derivative_raises_comes_out():
    error = ZeroDivisionError("by 0")

    def fail(*_):
        raise error

    options = {"score_function": squared}
    given = plain(**options)
    with pytest.raises(ZeroDivisionError) as caught:
        heed.attention_backward(*given, score_gradient=fail, **options)
    assert caught.value is error


def test_tensors_that_require_gradients_are_refused():
    torch = pytest.importorskip("torch")
    given = [torch.from_numpy(x) for x in plain()]
    given[0].requires_grad_()
    with pytest.raises(heed.ArgumentError, match="query requires gradients, which only heed.torch"):
        heed.attention_backward(*given)
    with torch.no_grad():
        heed.attention_backward(*given)


def test_scale_is_that_in_use():
    """By default too: the derivative along it is what all scores change by."""
    query, key, value, *rest = plain()
    found = heed.attention_backward(query, key, value, *rest, grad_scale=True)
    along = (found.query * query).sum() * math.sqrt(query.shape[-1])
    assert found.scale == pytest.approx(along, rel=1e-3, abs=1e-4)
