"""heed.torch beside PyTorch's own function: results and gradients, switch, what falls back."""

import re
import sys
from pathlib import Path
from shutil import which

import pytest
from kinds import tangent

torch = pytest.importorskip("torch")

import heed  # noqa: E402
import heed.torch  # noqa: E402

F = torch.nn.functional
PYTORCH = F.scaled_dot_product_attention
UNITS = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def switched_back():
    torch._dynamo.reset()
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


def nested():
    return tuple(
        torch.nested.nested_tensor([x[0], y[0]]).contiguous()
        for x, y in zip(problem(rows=7), problem(), strict=True)
    )


def subclass():
    query, key, value = problem()
    return query, key.as_subclass(type("Own", (torch.Tensor,), {})), value


def shaped(*shapes):
    return lambda: [normal(*shape) for shape in shapes]


def forward_mode(attend, query, key, value, **_):
    return tangent(lambda x: attend(x, key, value), query)


def vmapped(attend, query, key, value, **_):
    return torch.vmap(attend)(query, key, value)


def called(attend, *tensors, **options):
    return attend(*tensors, **options)


# What heed leaves to PyTorch: tensors, options, why, and how attention is called.
FALLS_BACK = {
    "dropout_of_all": (problem, {"dropout_p": 1.0}, "dropout_p is 1", called),
    "subclass": (subclass, {}, "a tensor is a Own", called),
    "nested": (nested, {}, "a tensor is nested", called),
    "meta": (lambda: [x.to("meta") for x in problem()], {}, "a tensor lies on meta", called),
    "scale_of_zero": (problem, {"scale": 0.0}, r"scale is 0; .*", called),
    "five_axes": (lambda: [x[None] for x in problem()], {}, "query has 5 axes; .*", called),
    "broadcast_keys": (shaped((2, 4, 5, 8), (1, 4, 7, 8), (2, 1, 7, 8)), {}, ".*", called),
    "broadcast_query": (shaped((1, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {}, ".*", called),
    "broadcast_axes": (shaped((5, 8), (2, 4, 7, 8), (4, 7, 8)), {}, ".*", called),
    "broadcast_groups": (
        shaped((2, 4, 5, 8), (2, 2, 7, 8), (2, 4, 7, 8)),
        {"enable_gqa": True},
        ".*",
        called,
    ),
    "vmap": (problem, {}, "a transform of torch.func is at work", vmapped),
    "forward_mode": (
        lambda: problem(width=11),  # for which PyTorch's own has tangents
        *({}, "derivatives are asked for in forward mode", forward_mode),
    ),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_leaves_to_pytorch(name, capsys):
    make, options, reason, call = FALLS_BACK[name]
    tensors = make()
    with heed.torch.use(verbose=True):
        torch.manual_seed(1)
        out = call(F.scaled_dot_product_attention, *tensors, **options)
    ((counted, times),) = heed.torch.report().items()
    assert re.fullmatch(reason, counted)
    assert times == 1
    assert re.search(
        rf"^heed.torch: query float.*, key .*: by PyTorch: {reason}$",
        capsys.readouterr().err,
        re.MULTILINE,
    )
    torch.manual_seed(1)
    expected = call(PYTORCH, *tensors, **options)
    assert out.requires_grad == expected.requires_grad
    if out.is_nested:
        out, expected = (torch.cat([x.flatten() for x in y.unbind()]) for y in (out, expected))
    if out.device.type == "cpu":
        torch.testing.assert_close(out, expected, rtol=0, atol=0)


# What is changed, how, and why it is left to PyTorch, if it is.
REFUSED = [
    ("attn_mask", torch.Tensor.int, "attn_mask is int32"),
    ("key", torch.Tensor.double, "query, key and value differ in dtype"),
    *((name, torch.Tensor.numpy, None) for name in ("query", "key", "value", "attn_mask")),
    *((name, torch.Tensor.tolist, None) for name in ("query", "key", "value", "attn_mask")),
    *((name, lambda _: None, None) for name in ("query", "key", "value")),
]


@pytest.mark.parametrize(("name", "change", "reason"), REFUSED)
def test_wrong_arguments_are_refused_as_by_pytorch(name, change, reason):
    query, key, value = problem()
    given = {"query": query, "key": key, "value": value, "attn_mask": some(5, 7)}
    given[name] = change(given[name])
    with pytest.raises((RuntimeError, ValueError) if reason else TypeError) as theirs:
        PYTORCH(*given.values())
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value).splitlines()[0])):
        heed.torch.scaled_dot_product_attention(*given.values())
    if reason:
        assert [counted.startswith(reason) for counted in heed.torch.report()] == [True]


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


def test_autocast_narrows_as_pytorch_does():
    tensors = [x.requires_grad_() for x in problem(key_heads=2)]
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
def test_results_lie_as_pytorchs_and_may_be_changed_in_place(name):
    """Autograd forbids to change views that an operator gives, so heed's gives none."""
    for layout in layouts():
        tensors = [x.detach().requires_grad_() for x in layout]
        found = []
        attended = PYTORCH(*tensors), heed.torch.scaled_dot_product_attention(*tensors)
        assert attended[0].stride() == attended[1].stride()  # whoever calls view() on them may
        for out in map(CHANGED[name], attended):
            out += 1
            try:
                found.append(torch.autograd.grad(out.square().sum(), tensors))
            except RuntimeError:  # what gradients need was changed
                found.append(None)
        theirs, ours = found
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


class Model(torch.nn.Module):
    """Attention of a block, with a learned bias of its scores."""

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


def results_of(model, x, train):
    if not train:
        with torch.inference_mode():
            return [model(x)]
    x = x.detach().requires_grad_()
    model.zero_grad()
    model(x).square().sum().backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())]


needs_compiler = pytest.mark.skipif(which("g++") is None, reason="needs g++")
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=needs_compiler)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_compiled_whole(backend, dynamic, train):
    model, x = Model(), normal(2, 9, 16)
    for rows in (7, 9):
        expected = results_of(model, x[:, :rows], train)
        with heed.torch.use():
            if rows == 7:
                compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
            found = results_of(compiled, x[:, :rows], train)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Causal(torch.nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(2 * x, x, x, is_causal=True).transpose(1, 2) + 1


def test_exported_program_keeps_the_op(tmp_path):
    x, rows = normal(2, 4, 9, 8), torch.export.Dim("rows", min=2)
    with torch.no_grad(), heed.torch.use():
        program = torch.export.export(Causal(), (x,), dynamic_shapes=({2: rows},))
        expected = Causal()(x[:, :, :5])
    op = torch.ops.heed.attention.default
    assert [node.target for node in program.graph.nodes].count(op) == 1
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(loaded(x[:, :, :5]), expected, rtol=0, atol=0)


def test_use_as_switch_manager_and_decorator(capsys):
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
    with heed.torch.use(verbose=True):
        F.scaled_dot_product_attention(*problem())
    with heed.torch.use():
        F.scaled_dot_product_attention(*problem())
    told = "heed.torch: query float32 [2, 4, 5, 8], key [2, 4, 7, 8]: by heed\n"
    assert capsys.readouterr().err == told


def layer(kind):
    return kind(16, 4, 32, dropout=0.0, batch_first=True)


NN = torch.nn
PADDED = torch.arange(6) >= torch.tensor([[6], [4]])
CAUSAL = NN.Transformer.generate_square_subsequent_mask(6)
# Modules, how often they are given x, options, and how often they attend.
MODULES = {
    "multihead": (
        lambda: NN.MultiheadAttention(16, 4, batch_first=True),
        *(3, {"need_weights": False}, 1),
    ),
    "encoder": (
        lambda: NN.TransformerEncoder(layer(NN.TransformerEncoderLayer), 2),
        *(1, {"src_key_padding_mask": PADDED}, 2),
    ),
    "decoder": (
        lambda: NN.TransformerDecoder(layer(NN.TransformerDecoderLayer), 2),
        *(2, {"tgt_is_causal": True, "tgt_mask": CAUSAL}, 4),
    ),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_modules_of_pytorch_use_heed(name, train):
    """And give padded rows what they have without the fast path, which use() switches off."""
    make, times, options, calls = MODULES[name]
    module, x, found = make().train(train), normal(2, 6, 16), []
    fastpath = torch.backends.mha.set_fastpath_enabled
    if name == "encoder" and not train:
        with torch.inference_mode():
            assert (module(x, **options)[1, 4:] == 0).all()
    for on in (False, True):
        with torch.set_grad_enabled(train), heed.torch.use(on):
            if not on:
                fastpath(False)
            out = module(*[x] * times, **options)
            out = out[0] if name == "multihead" else out
        fastpath(True)
        found.append([out.detach()])
        if train:
            module.zero_grad()
            out.square().sum().backward()
            found[-1] += [p.grad.clone() for p in module.parameters()]
    assert heed.torch.report() == {"heed": calls}
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


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
        (with_dropout, None),
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


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_takes_its_share(dropout):
    """In multiples of 1 / 256, of pairs that a call whose value is the identity shows."""
    query, key, eye = normal(2, 4, 48, 16), normal(2, 4, 48, 16), torch.eye(48).expand(2, 4, -1, -1)
    shown = heed.torch.scaled_dot_product_attention(query, key, eye, dropout_p=dropout)
    rate, share = (shown == 0).double().mean().item(), round(dropout * 256) / 256
    assert abs(rate - share) < 5 * (share * (1 - share) / shown.numel()) ** 0.5


def test_a_checkpoint_drops_the_same_again():
    x = normal(1, 2, 16, 8)

    def layer(x):
        return heed.torch.scaled_dot_product_attention(x, x, x, dropout_p=0.3).sin()

    found = []
    for run in (layer, lambda x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)):
        torch.manual_seed(3)
        own = x.clone().requires_grad_()
        run(own).sum().backward()
        found.append(own.grad)
    assert torch.equal(*found)


def test_compiled_code_draws_a_seed_in_each_run():
    compiled = torch.compile(with_dropout, backend="aot_eager", fullgraph=True)
    x = normal(3, 5, 8)
    with heed.torch.use():
        first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)


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
def test_shares_the_threads_of_pytorch():
    """One libgomp in the process: regions of heed run on the team that PyTorch's run on."""
    maps = Path("/proc/self/maps").read_text()
    assert len(set(re.findall(r"\S*libgomp\S*", maps))) == 1
