"""Gradients of heed.torch: gradcheck, PyTorch's own beside them, compiled, and of modules."""

import re
from concurrent.futures import ThreadPoolExecutor
from shutil import which

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import heed  # noqa: E402
import heed.torch  # noqa: E402

F = torch.nn.functional
PYTORCH = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()
    heed.torch.report(clear=True)
    yield
    assert F.scaled_dot_product_attention is PYTORCH


def normal(*shape, dtype=torch.float64, grad=True):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


def problem(key_heads=2, dtype=torch.float64):
    return (
        normal(2, 4, 5, 3, dtype=dtype),
        normal(2, key_heads, 6, 3, dtype=dtype),
        normal(2, key_heads, 6, 2, dtype=dtype),
    )


# Options of the op; the tensors among them that have gradients require them.
OPTIONS = {
    "plain": dict,
    "causal": lambda: {"causal": True, "offset": 2},
    "window": lambda: {"offset": 1, "left": 2, "right": 1},
    "lengths_and_mask": lambda: {
        "attn_mask": torch.ones(5, 6, dtype=torch.bool).tril(1),
        "key_lengths": torch.tensor([6, 3], dtype=torch.int32),
    },
    "float_mask": lambda: {"attn_mask": normal(2, 1, 5, 6), "scale": -0.4},
    "bias_and_mask": lambda: {
        "attn_mask": torch.ones(5, 6, dtype=torch.bool).triu(-1),
        "bias": normal(4, 1, 6),
    },
    "sinks_and_softcap": lambda: {"sinks": normal(4), "softcap": 0.7, "causal": True},
}


def differentiable(options):
    return {n: x for n, x in options.items() if torch.is_tensor(x) and x.requires_grad}


@pytest.mark.parametrize("name", OPTIONS)
def test_gradcheck(name):
    """Of out and of lse, by everything that has gradients, in float64."""
    tensors, options = problem(), OPTIONS[name]()
    names = list(differentiable(options))

    def attend(query, key, value, *more):
        return heed.torch.attention(
            query, key, value, **{**options, **dict(zip(names, more, strict=True))}
        )

    given = (*tensors, *(options[n] for n in names))
    assert torch.autograd.gradcheck(attend, given)


@pytest.mark.parametrize("name", OPTIONS)
def test_op_is_what_torch_library_asks_for(name):
    """Schemas, fake kernels and autograd of both ops, also traced with dynamic shapes."""
    torch.library.opcheck(torch.ops.heed.attention.default, problem(), OPTIONS[name]())


@pytest.mark.parametrize("wanted", [(0,), (1, 2), (0, 2)])
def test_only_what_requires_gradients(wanted):
    tensors = [x.detach() for x in problem()]
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

    assert torch.autograd.gradcheck(lse, problem())


# Calls of PyTorch's function whose gradients heed computes.
CALLS = {
    "plain": dict,
    "is_causal": lambda: {"is_causal": True},
    "bool_mask": lambda: {"attn_mask": torch.ones(5, 6, dtype=torch.bool).tril(2)},
    "float_mask": lambda: {"attn_mask": normal(2, 1, 5, 6, dtype=torch.float32)},
    "mask_of_keys": lambda: {"attn_mask": normal(1, 6, dtype=torch.float32)},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_switch_computes_gradients(name, dtype):
    tensors, options = problem(dtype=dtype), CALLS[name]()
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options["attn_mask"] = mask.detach().to(dtype).requires_grad_()
    inputs = [*tensors, *differentiable(options).values()]
    weights = torch.randn(2, 4, 5, 2).to(dtype)
    found = []
    for on in (True, False):
        with heed.torch.use(on):
            out = F.scaled_dot_product_attention(*tensors, enable_gqa=True, **options)
        found.append(torch.autograd.grad((weights * out).sum(), inputs))
    assert heed.torch.report() == {"heed": 1}
    unit = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8}[dtype]
    for x, ours, theirs in zip(inputs, *found, strict=True):
        assert ours.shape == x.shape
        assert ours.dtype == dtype
        tolerance = 16 * unit * max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def test_gradients_lie_as_their_tensors():
    """Heads side by side, so that nothing is copied on the way to the projections."""
    tensors = [normal(2, 6, 4, 3).transpose(1, 2) for _ in range(3)]
    out, _ = heed.torch.attention(*tensors)
    for gradient in torch.autograd.grad(out.sum(), tensors):
        assert gradient.transpose(1, 2).is_contiguous()


def test_higher_derivatives_are_refused():
    tensors = problem()
    out, _ = heed.torch.attention(*tensors)
    (gradient,) = torch.autograd.grad(out.sum(), tensors[0], create_graph=True)
    message = "gradients of heed's operators have no derivative: let PyTorch compute attention"
    with pytest.raises(heed.UnsupportedError, match=re.escape(message)):
        gradient.sum().backward()


def test_forward_mode_is_left_to_pytorch():
    query, key, value = (x.detach() for x in problem(key_heads=4))
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(query, torch.ones_like(query))
        tangents = [
            forward_ad.unpack_dual(attend(dual, key, value)).tangent
            for attend in (heed.torch.scaled_dot_product_attention, PYTORCH)
        ]
    assert torch.equal(*tangents)
    assert heed.torch.report() == {"derivatives are asked for in forward mode": 1}


def test_autocast_trains():
    tensors = problem(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = heed.torch.scaled_dot_product_attention(*tensors, enable_gqa=True)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out.float().sum(), tensors)
    assert heed.torch.report() == {"heed": 1}
    assert all(x.dtype == torch.float32 for x in gradients)


def test_from_many_threads():
    tensors = [x.detach() for x in problem()]

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


needs_compiler = pytest.mark.skipif(which("g++") is None, reason="needs g++")


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=needs_compiler)]
)
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
