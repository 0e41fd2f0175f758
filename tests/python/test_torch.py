"""heed.torch beside PyTorch's own function: results and gradients, ops, switch, what falls back."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import heed  # noqa: E402
import heed.torch  # noqa: E402

F = torch.nn.functional
PYTORCH = F.scaled_dot_product_attention
UNITS = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()
    heed.torch.report(clear=True)
    yield
    assert F.scaled_dot_product_attention is PYTORCH
    assert F.multi_head_attention_forward is heed.torch._pytorch_multi_head
    assert torch.backends.mha.get_fastpath_enabled()


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def problem(heads=4, key_heads=4, rows=5, keys=7, features=8, width=8, dtype=torch.float32):
    return (
        normal(2, heads, rows, features, dtype=dtype),
        normal(2, key_heads, keys, features, dtype=dtype),
        normal(2, key_heads, keys, width, dtype=dtype),
    )


def some(*shape):
    """Half of it True; row 1 nowhere."""
    made = torch.rand(*shape) < 0.5
    if made.dim() > 1 and made.shape[-2] > 1:
        made[..., 1, :] = False
    return made


def axes(count):
    return [x[(0,) * (4 - count)] for x in problem()]


def rows_side_by_side():
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in problem()]


def negative():
    x = torch.complex(normal(2, 4, 5, 8), normal(2, 4, 5, 8)).conj().imag
    return (x, x, x), {}


# What PyTorch supports and heed computes.
CASES = {
    "plain": lambda: (problem(), {}),
    "bfloat16": lambda: (problem(dtype=torch.bfloat16), {"is_causal": True}),
    "float64": lambda: (problem(dtype=torch.float64), {}),
    "two_axes": lambda: (axes(2), {"is_causal": True}),
    "three_axes": lambda: (axes(3), {"attn_mask": some(4, 5, 7)}),
    "strided": lambda: (rows_side_by_side(), {}),
    "wider_values": lambda: (problem(width=11), {}),
    "is_causal": lambda: (problem(), {"is_causal": True}),
    "is_causal_more_rows": lambda: (problem(rows=9), {"is_causal": True}),
    "is_causal_and_mask": lambda: (problem(), {"is_causal": True, "attn_mask": some(5, 7)}),
    "scale": lambda: (problem(), {"scale": -0.3}),
    "negative_bit": negative,
    "enable_gqa": lambda: (problem(key_heads=2), {"enable_gqa": True, "is_causal": True}),
    "one_key_head": lambda: (problem(key_heads=1), {"is_causal": True}),
    "bool_mask_of_keys": lambda: (problem(), {"attn_mask": some(2, 1, 1, 7)}),
    "bool_mask_of_two_axes": lambda: (problem(), {"attn_mask": some(5, 7)}),
    "bool_mask_of_heads": lambda: (problem(), {"attn_mask": some(1, 4, 5, 7)}),
    "bool_mask_expanded": lambda: (problem(), {"attn_mask": some(1, 1, 5, 7).expand(2, 4, 5, 7)}),
    "float_mask": lambda: (problem(), {"attn_mask": normal(2, 1, 5, 7)}),
    "float_mask_minus_inf": lambda: (
        problem(),
        {"attn_mask": torch.zeros(5, 7).masked_fill(~some(5, 7), -torch.inf)},
    ),
    "no_rows": lambda: (problem(rows=0), {}),
}


def differentiable(options):
    return {n: x for n, x in options.items() if torch.is_tensor(x) and x.requires_grad}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(name):
    """Results, and gradients of all tensors, with PyTorch's of float64."""
    tensors, options = CASES[name]()
    found = []
    for wide in (False, True):
        given = [x.detach().double() if wide else x.detach() for x in tensors]
        inputs = [x.requires_grad_() for x in given]
        own, mask = dict(options), options.get("attn_mask")
        if mask is not None and mask.is_floating_point():
            own["attn_mask"] = (mask.double() if wide else mask.clone()).requires_grad_()
            inputs.append(own["attn_mask"])
        with heed.torch.use(not wide):
            out = F.scaled_dot_product_attention(*given, **own)
        assert out.dtype == given[0].dtype
        torch.manual_seed(2)
        weights = torch.randn(out.shape).to(tensors[0].dtype).to(out.dtype)
        found.append([out, *torch.autograd.grad((weights * out).sum(), inputs)])
    assert heed.torch.report() == {"heed": 1}
    unit = UNITS[found[0][0].dtype]
    for ours, theirs in zip(*found, strict=True):
        bound = 100 * unit * max(1.0, theirs.abs().max().item() if theirs.numel() else 0)
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


def layouts():
    """Contiguous; with the heads of a row side by side; and so out of one packed projection."""
    packed = normal(2, 5, 3, 4, 8)
    yield problem(rows=7)
    yield rows_side_by_side()
    yield [packed[:, :, i].transpose(1, 2) for i in range(3)]


def test_results_lie_as_pytorchs_do():
    """So that whoever calls view() on them may."""
    for tensors in layouts():
        out = heed.torch.scaled_dot_product_attention(*tensors)
        assert out.stride() == PYTORCH(*tensors).stride()


def nested():
    query, key, value = (
        torch.nested.nested_tensor([x[0], y[0]]).contiguous()
        for x, y in zip(problem(rows=7), problem(), strict=True)
    )
    return (query, key, value), {}


def subclass():
    query, key, value = problem()
    return (query, key.as_subclass(type("Own", (torch.Tensor,), {})), value), {}


# What heed leaves to PyTorch, and why.
FALLS_BACK = {
    "dropout": (lambda: (problem(), {"dropout_p": 0.5}), "dropout_p is 0.5"),
    "subclass": (subclass, "a tensor is a Own"),
    "nested": (nested, "a tensor is nested"),
    "meta": (
        lambda: ([x.to("meta") for x in problem()], {}),
        "a tensor lies on meta",
    ),
    "scale_of_zero": (lambda: (problem(), {"scale": 0.0}), r"scale is 0; .*"),
    "broadcast_batch": (
        lambda: ((problem()[0], *(x[:1] for x in problem()[1:])), {}),
        "query and key differ in batch or heads",
    ),
    "five_axes": (
        lambda: ([x[None] for x in problem()], {}),
        r"query has 5 axes; it may have at most 4",
    ),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_leaves_to_pytorch(name, capsys):
    make, reason = FALLS_BACK[name]
    tensors, options = make()
    with heed.torch.use(verbose=True):
        torch.manual_seed(1)
        out = F.scaled_dot_product_attention(*tensors, **options)
    ((counted, times),) = heed.torch.report().items()
    assert re.fullmatch(reason, counted)
    assert times == 1
    assert re.search(
        rf"^heed.torch: query float32 .*, key .*: by PyTorch: {reason}$",
        capsys.readouterr().err,
        re.MULTILINE,
    )
    torch.manual_seed(1)
    expected = PYTORCH(*tensors, **options)
    assert out.requires_grad == expected.requires_grad
    if out.is_nested:
        out, expected = (torch.cat([x.flatten() for x in y.unbind()]) for y in (out, expected))
    if out.device.type == "cpu":
        torch.testing.assert_close(out, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attn_mask": some(5, 7).int()}, "attn_mask is int32"),
        ({"key": problem(dtype=torch.float64)[1]}, "query, key and value differ in dtype"),
    ],
)
def test_wrong_arguments_are_refused_as_by_pytorch(change, reason):
    query, key, value = problem()
    arguments = {"query": query, "key": key, "value": value, **change}
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        PYTORCH(**arguments)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value).splitlines()[0])):
        heed.torch.scaled_dot_product_attention(**arguments)
    ((counted, _),) = heed.torch.report().items()
    assert counted.startswith(reason)


# Shapes of query, key, value and of a mask, and what is wrong with them.
MISMATCHES = {
    "more values": ((2, 4, 5, 8), (2, 4, 5, 8), (2, 4, 6, 8), None, "value has 6 rows; it must"),
    "fewer values": ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 5, 8), None, "value has 5 rows; it must"),
    "features": ((2, 4, 5, 8), (2, 4, 7, 9), (2, 4, 7, 8), None, "key has 9 features; it must"),
    "batch": ((2, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8), None, "batch and heads of query, key and"),
    "heads": ((2, 4, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), None, "batch and heads of query, key and"),
    "heads of value": ((2, 4, 5, 8), (2, 4, 7, 8), (2, 2, 7, 8), None, "batch and heads of query"),
    "one axis": ((8,), (7, 8), (7, 8), None, "query has 1 axes; it must have at least 2"),
    "mask rows": ((5, 8), (7, 8), (7, 8), (3, 7), "attn_mask has shape [3, 7]; it must"),
    "mask keys": ((5, 8), (7, 8), (7, 8), (5, 6), "attn_mask has shape [5, 6]; it must"),
    "mask heads": ((4, 5, 8), (4, 7, 8), (4, 7, 8), (2, 5, 7), "attn_mask has shape [2, 5, 7]"),
    "mask axes": ((5, 8), (7, 8), (7, 8), (1, 2, 5, 7), "attn_mask has shape [1, 2, 5, 7]"),
    "groups": (
        (2, 4, 5, 8),
        (2, 3, 7, 8),
        (2, 3, 7, 8),
        "gqa",
        "key has 3 heads; they must divide",
    ),
}
CALLED = {
    "plain": {},
    "is_causal": {"is_causal": True},
    "dropout": {"dropout_p": 0.5},
    "float64": {"dtype": torch.float64},
    "gradients": {"grad": True},
}


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("name", MISMATCHES)
def test_shapes_that_do_not_fit_are_refused(name, called):
    """Whoever would compute: PyTorch's kernels do not look at all of them."""
    *shapes, more, message = MISMATCHES[name]
    options = dict(CALLED[called])
    dtype, grad = options.pop("dtype", torch.float32), options.pop("grad", False)
    tensors = [torch.ones(shape, dtype=dtype, requires_grad=grad) for shape in shapes]
    if more == "gqa":
        options["enable_gqa"] = True
    elif more is not None:
        options["attn_mask"] = torch.ones(more, dtype=torch.bool)
    with pytest.raises(heed.ArgumentError, match="^" + re.escape(message)):
        heed.torch.scaled_dot_product_attention(*tensors, **options)


def test_broadcast_heads_and_batches_are_left_to_pytorch():
    """Whatever PyTorch broadcasts, also in groups of heads."""
    for shapes in (
        [(2, 4, 5, 8), (1, 4, 7, 8), (2, 1, 7, 8)],
        [(1, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)],
        [(5, 8), (2, 4, 7, 8), (4, 7, 8)],
        [(2, 4, 5, 8), (2, 2, 7, 8), (2, 4, 7, 8)],
    ):
        tensors = [normal(*shape) for shape in shapes]
        grouped = {"enable_gqa": shapes[1][1] == 2}
        out = heed.torch.scaled_dot_product_attention(*tensors, **grouped)
        torch.testing.assert_close(out, PYTORCH(*tensors, **grouped), rtol=0, atol=0)


def test_transforms_of_functions_are_left_to_pytorch():
    query, key, value = problem()
    out = torch.vmap(heed.torch.scaled_dot_product_attention)(query, key, value)
    torch.testing.assert_close(out, PYTORCH(query, key, value))
    assert heed.torch.report() == {"a transform of torch.func is at work": 1}


def test_no_gradients_are_asked_of_parameters_in_inference():
    query, key, value = (torch.nn.Parameter(x) for x in problem())
    with torch.no_grad():
        heed.torch.scaled_dot_product_attention(query, key, value)
    assert heed.torch.report() == {"heed": 1}


def test_autocast_narrows_as_pytorch_does():
    tensors = small(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = heed.torch.scaled_dot_product_attention(*tensors, enable_gqa=True)
        expected = PYTORCH(*tensors, enable_gqa=True)
    gradients = torch.autograd.grad(out.float().sum(), tensors)
    assert all(x.dtype == torch.float32 for x in gradients)
    assert heed.torch.report() == {"heed": 1}
    assert out.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected, rtol=2.0**-6, atol=2.0**-6)


CHANGED = {
    "itself": lambda x: x,
    "reshaped": lambda x: x.transpose(1, 2).reshape(2, -1, 32),
    "copied": lambda x: x.clone().flatten(2),
    "a row": lambda x: x[:, :, 0],
}


@pytest.mark.parametrize("name", CHANGED)
def test_results_may_be_changed_in_place_where_pytorchs_may(name):
    """Autograd forbids to change views that an operator gives, so heed's gives none."""
    for layout in layouts():
        tensors = [x.detach().requires_grad_() for x in layout]
        found = []
        for attend in (PYTORCH, heed.torch.scaled_dot_product_attention):
            out = CHANGED[name](attend(*tensors))
            out += 1
            try:
                found.append(torch.autograd.grad(out.square().sum(), tensors))
            except RuntimeError:  # what gradients need was changed
                found.append(None)
        theirs, ours = found
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_operators_give_no_views():
    query, key, value = (x.requires_grad_() for x in problem())
    out, lse = heed.torch.attention(query, key, value)
    gradients = torch.autograd.grad(out.sum() + lse.sum(), (query, key, value))
    for gradient in gradients:
        gradient += 1
        assert not gradient._is_view()
    for axes_given in (2, 3, 4):
        given = axes(axes_given)
        results = heed.torch.attention(*(x.requires_grad_() for x in given))
        assert not any(result._is_view() for result in results)


class Model(torch.nn.Module):
    def forward(self, query, key, value):
        out = F.scaled_dot_product_attention(2 * query, key, value, is_causal=True)
        return out.transpose(1, 2).flatten(2) + 1


needs_compiler = pytest.mark.skipif(which("g++") is None, reason="needs g++")
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=needs_compiler)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_whole(backend, dynamic):
    tensors = problem()
    with torch.inference_mode(), heed.torch.use():
        compiled = torch.compile(Model(), backend=backend, fullgraph=True, dynamic=dynamic)
        torch.testing.assert_close(compiled(*tensors), Model()(*tensors), rtol=0, atol=0)
        longer = problem(rows=6, keys=9)
        torch.testing.assert_close(compiled(*longer), Model()(*longer), rtol=0, atol=0)


def test_exported_program_keeps_the_op(tmp_path):
    tensors = problem(rows=7)
    rows = torch.export.Dim("rows", min=2)
    with torch.no_grad(), heed.torch.use():
        shapes = ({2: rows}, {2: rows}, {2: rows})
        program = torch.export.export(Model(), tensors, dynamic_shapes=shapes)
        expected = Model()(*problem_of(11))
    op = torch.ops.heed.attention.default
    assert [node.target for node in program.graph.nodes].count(op) == 1
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(loaded(*problem_of(11)), expected, rtol=0, atol=0)


def problem_of(rows):
    torch.manual_seed(rows)
    return problem(rows=rows, keys=rows)


def test_use_as_switch_manager_and_decorator():
    def current():
        return F.scaled_dot_product_attention

    heed.torch.use()
    assert current() is heed.torch.scaled_dot_product_attention
    assert not torch.backends.mha.get_fastpath_enabled()
    with heed.torch.use(False):
        assert current() is PYTORCH
        with heed.torch.use():
            assert current() is heed.torch.scaled_dot_product_attention
        assert current() is PYTORCH
    assert current() is heed.torch.scaled_dot_product_attention
    heed.torch.use(False)
    assert current() is PYTORCH
    decorated = heed.torch.use()(current)
    assert current() is PYTORCH
    assert decorated() is heed.torch.scaled_dot_product_attention
    assert decorated() is heed.torch.scaled_dot_product_attention
    assert current() is PYTORCH
    with pytest.raises(ZeroDivisionError), heed.torch.use():
        1 / 0  # noqa: B018
    assert current() is PYTORCH


def test_verbose_says_who_computes(capsys):
    with heed.torch.use(verbose=True):
        F.scaled_dot_product_attention(*problem())
    told = "heed.torch: query float32 [2, 4, 5, 8], key [2, 4, 7, 8]: by heed\n"
    assert capsys.readouterr().err == told
    with heed.torch.use():
        F.scaled_dot_product_attention(*problem())
    assert capsys.readouterr().err == ""


MODULES = {
    "multihead": lambda: torch.nn.MultiheadAttention(16, 4, batch_first=True),
    "encoder": lambda: torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2
    ),
    "decoder": lambda: torch.nn.TransformerDecoder(
        torch.nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 2
    ),
}
ARGUMENTS = {
    "multihead": lambda x: ((x, x, x), {"need_weights": False}),
    "encoder": lambda x: (
        (x,),
        {"src_key_padding_mask": torch.arange(6) >= torch.tensor([[6], [4]])},
    ),
    "decoder": lambda x: ((x, x), {"tgt_is_causal": True, "tgt_mask": causal_mask(6)}),
}
CALLS = {"multihead": 1, "encoder": 2, "decoder": 4}


def causal_mask(rows):
    return torch.nn.Transformer.generate_square_subsequent_mask(rows)


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_pytorch_use_heed(name):
    module = MODULES[name]().eval()
    arguments, options = ARGUMENTS[name](normal(2, 6, 16))
    with torch.inference_mode():
        expected = module(*arguments, **options)
        with heed.torch.use():
            out = module(*arguments, **options)
    assert heed.torch.report() == {"heed": CALLS[name]}
    if name == "multihead":
        out, expected = out[0], expected[0]
    if name == "encoder":  # the fast path gives 0 for padded rows
        out, expected = (torch.cat([x[0], x[1, :4]]) for x in (out, expected))
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


NEED_WEIGHTS = "nn.MultiheadAttention computes weights itself: call it with need_weights=False"
COMPILED = " (compiled: counted once)"


MULTIHEAD = torch.nn.MultiheadAttention(8, 2)


def with_weights(x):
    return MULTIHEAD(x, x, x)[0]


def with_dropout(x):
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: F.scaled_dot_product_attention(x, x, x), None),
        (with_dropout, "dropout_p is 0.5"),
        (with_weights, NEED_WEIGHTS),
    ],
)
def test_report_says_what_never_came_and_why(function, reason):
    """Called, then compiled, of which reasons show when it compiles."""
    x = normal(3, 5, 8)
    with heed.torch.use():
        for _ in range(2):
            function(x)
        assert heed.torch.report(clear=True) == {reason or "heed": 2}
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
    assert heed.torch.report() == ({reason + COMPILED: 1} if reason else {"heed": 3})
    with_weights(x)
    assert sum(heed.torch.report().values()) == (1 if reason else 3)  # not without use()


def test_padded_rows_of_encoders_are_those_without_the_fast_path():
    """Which gives 0 for them, and is switched off within use()."""
    encoder = MODULES["encoder"]().eval()
    (x,), options = ARGUMENTS["encoder"](normal(2, 6, 16))
    with torch.inference_mode():
        assert (encoder(x, **options)[1, 4:] == 0).all()
        torch.backends.mha.set_fastpath_enabled(False)
        expected = encoder(x, **options)
        torch.backends.mha.set_fastpath_enabled(True)
        with heed.torch.use():
            out = encoder(x, **options)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_threads_follow_pytorch():
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert (
                heed.torch_ops._context_of(torch.get_num_threads()).describe()["threads"] == threads
            )
            torch.manual_seed(5)
            results.append(heed.torch.attention(*problem(rows=200, keys=300))[0])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif("openmp" not in heed.info()["executors"], reason="built without OpenMP")
def test_shares_the_threads_of_pytorch():
    """One libgomp in the process: regions of heed run on the team that PyTorch's run on."""
    maps = Path("/proc/self/maps").read_text()
    assert len(set(re.findall(r"\S*libgomp\S*", maps))) == 1


# ---- Training -----------------------------------------------------------------------------------


def learned(*shape, dtype=torch.float64):
    return normal(*shape, dtype=dtype).requires_grad_()


def small(dtype=torch.float64, key_heads=2):
    shapes = (2, 4, 5, 3), (2, key_heads, 6, 3), (2, key_heads, 6, 2)
    return tuple(learned(*shape, dtype=dtype) for shape in shapes)


# Options of the op; the tensors among them that have gradients require them.
OPTIONS = {
    "plain": dict,
    "causal": lambda: {"causal": True, "offset": 2},
    "window": lambda: {"offset": 1, "left": 2, "right": 1},
    "lengths_and_mask": lambda: {
        "attn_mask": torch.ones(5, 6, dtype=torch.bool).tril(1),
        "key_lengths": torch.tensor([6, 3], dtype=torch.int32),
    },
    "float_mask": lambda: {"attn_mask": learned(2, 1, 5, 6), "scale": -0.4},
    "bias_and_mask": lambda: {
        "attn_mask": torch.ones(5, 6, dtype=torch.bool).triu(-1),
        "bias": learned(4, 1, 6),
    },
    "sinks_and_softcap": lambda: {"sinks": learned(4), "softcap": 0.7, "causal": True},
}


def in_heed(causal=False, offset=0, left=None, right=None, **rest):
    """Options of heed.attention."""
    where = {"causal" if causal else "alignment": offset}
    return {**rest, **where, "window": (left, right)}


@pytest.mark.parametrize("name", OPTIONS)
def test_op_is_heed_attention_with_its_gradients(name):
    """Bit for bit, of out and of lse, by everything that has gradients."""
    tensors, options = small(), OPTIONS[name]()
    more = differentiable(options)
    found = heed.torch.attention(*tensors, **options)
    weights = [torch.randn(x.shape, dtype=x.dtype) for x in found]
    gradients = torch.autograd.grad(found, [*tensors, *more.values()], weights)
    named = ["bias" if n == "attn_mask" else n for n in more]
    with torch.no_grad():
        own = in_heed(**options)
        expected = heed.attention(*tensors, **own, return_lse=True)
        own |= {f"grad_{n}": True for n in named}
        of_all = heed.attention_backward(
            *tensors, *expected, weights[0], grad_lse=weights[1], **own
        )
    others = (getattr(of_all, n) for n in ("query", "key", "value", *named))
    for one, other in zip((*found, *gradients), (*expected, *others), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", OPTIONS)
def test_op_is_what_torch_library_asks_for(name):
    """Schemas, fake kernels and autograd of both ops, also traced with dynamic shapes."""
    torch.library.opcheck(torch.ops.heed.attention.default, small(), OPTIONS[name]())


@pytest.mark.parametrize("wanted", [(0,), (1, 2), (0, 2)])
def test_only_what_requires_gradients(wanted):
    tensors = [x.detach() for x in small()]
    for i in wanted:
        tensors[i].requires_grad_()
    out, lse = heed.torch.attention(*tensors)
    (out.sum() + lse.sum()).backward()
    assert [i for i, x in enumerate(tensors) if x.grad is not None] == list(wanted)
    plain, _ = heed.torch.attention(*(x.detach() for x in tensors))
    assert not plain.requires_grad


def test_gradient_of_lse_alone():
    def lse(*tensors):
        return heed.torch.attention(*tensors)[1]

    assert torch.autograd.gradcheck(lse, small())


def test_gradients_lie_as_their_tensors():
    """Heads side by side, so that nothing is copied on the way to the projections."""
    tensors = [learned(2, 6, 4, 3).transpose(1, 2) for _ in range(3)]
    out, _ = heed.torch.attention(*tensors)
    for gradient in torch.autograd.grad(out.sum(), tensors):
        assert gradient.transpose(1, 2).is_contiguous()


def test_higher_derivatives_are_refused():
    tensors = small()
    out, _ = heed.torch.attention(*tensors)
    (gradient,) = torch.autograd.grad(out.sum(), tensors[0], create_graph=True)
    message = "gradients of heed's operators have no derivative: let PyTorch compute attention"
    with pytest.raises(heed.UnsupportedError, match=re.escape(message)):
        gradient.sum().backward()


def test_forward_mode_is_left_to_pytorch():
    query, key, value = (x.detach() for x in small(key_heads=4))
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(query, torch.ones_like(query))
        tangents = [
            forward_ad.unpack_dual(attend(dual, key, value)).tangent
            for attend in (heed.torch.scaled_dot_product_attention, PYTORCH)
        ]
    assert torch.equal(*tangents)
    assert heed.torch.report() == {"derivatives are asked for in forward mode": 1}


def test_from_many_threads():
    tensors = [x.detach() for x in small()]

    def gradients(_):
        own = [x.clone().requires_grad_() for x in tensors]
        out, lse = heed.torch.attention(*own, causal=True)
        return torch.autograd.grad(out.sum() + lse.sum(), own)

    expected = gradients(None)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(gradients, range(100)):
            assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


class Block(torch.nn.Module):
    """Attention of a model, with a learned bias of its scores."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)
        self.bias = torch.nn.Parameter(torch.zeros(4, 1, 9))

    def forward(self, x):
        query, key, value = self.project(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        mask = self.bias[..., : x.shape[1]].expand(4, x.shape[1], x.shape[1])
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return x + self.out(out.transpose(1, 2).flatten(2))


def gradients_of(model, x):
    x = x.detach().requires_grad_()
    model.zero_grad()
    model(x).square().sum().backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_with_gradients(backend, dynamic):
    model, x = Block(), torch.randn(2, 7, 16)
    expected = gradients_of(model, x)
    longer = gradients_of(model, torch.cat([x, x[:, :2]], 1))
    with heed.torch.use():
        compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
        found = gradients_of(compiled, x)
        found_longer = gradients_of(compiled, torch.cat([x, x[:, :2]], 1))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found_longer, longer, rtol=1e-4, atol=1e-5)


def test_compiled_graphs_keep_both_ops():
    graphs = []

    def keep(module, _):
        graphs.append([node.target for node in module.graph.nodes])
        return make_boxed_func(module.forward)

    with heed.torch.use():
        backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
        gradients_of(torch.compile(Block(), backend=backend, fullgraph=True), torch.randn(2, 7, 16))
    ops = torch.ops.heed.attention.default, torch.ops.heed.attention_backward.default
    assert [graph.count(op) for graph, op in zip(graphs, ops, strict=True)] == [1, 1]


def test_modules_of_pytorch_train():
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x, found = torch.randn(8, 12, 32), []
    mask = torch.nn.Transformer.generate_square_subsequent_mask(12)
    for on in (True, False):
        with heed.torch.use(on):
            layer.zero_grad()
            layer(x, src_mask=mask, is_causal=True).square().sum().backward()
        found.append([p.grad.clone() for p in layer.parameters()])
    assert heed.torch.report() == {"heed": 1}
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
