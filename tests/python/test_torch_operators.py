"""What PyTorch asks of every operator of heed: schemas, gradients, compilers, derivatives."""

import re
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import heed  # noqa: E402
import heed.linear  # noqa: E402
import heed.torch  # noqa: E402

if find_spec("torch_geometric"):
    import heed.pyg


def learned(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()


def small(dtype=torch.float64, key_heads=2):
    shapes = (2, 4, 5, 3), (2, key_heads, 6, 3), (2, key_heads, 6, 2)
    return tuple(learned(*shape, dtype=dtype) for shape in shapes)


# Options of heed::attention; the tensors among them that have gradients require them.
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
    "dropout": lambda: {"dropout": 0.3, "seed": torch.tensor(4)},
}


def over_graph(score):
    node = (9, 2, 3)
    shapes = (node, node, node, (20, 4), (4, 6), (6,))
    rest = [torch.tensor(5), torch.randint(0, 9, (2, 20)), None, False, score, 0.2, 0.25]
    if score == "dot":
        return [learned(*shape) for shape in shapes[:5]], [None, *rest]
    return [learned(*shape) for shape in shapes], rest


def operator(name):
    """An operator, the tensors that have gradients, and what else it takes."""
    if name in ("graph_attention", "additive"):
        pytest.importorskip("torch_geometric")
        score = "dot" if name == "graph_attention" else name
        return torch.ops.heed.graph_attention.default, *over_graph(score)
    if name == "linear":
        shapes = (9, 6), (5, 6), (5,)
        return torch.ops.heed.linear.default, [torch.randn(*shape) for shape in shapes], []
    return torch.ops.heed.attention.default, small(), []


def outputs(results):
    return results if isinstance(results, tuple) else (results,)


def sum_of(results):
    return sum(x.square().sum() for x in outputs(results))


@pytest.mark.parametrize("name", [*OPTIONS, "graph_attention", "additive", "linear"])
def test_torch_library_has_no_objection(name):
    """To schemas, fake kernels and autograd, also traced with dynamic shapes."""
    op, tensors, rest = operator(name)
    torch.library.opcheck(op, (*tensors, *rest), OPTIONS.get(name, dict)())


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("attention", w) for w in ((), (0,), (1, 2), (0, 2))]
    + [("graph_attention", w) for w in ((0,), (2, 3), (1, 4))],
)
def test_only_what_requires_gradients(name, wanted):
    op, tensors, rest = operator(name)
    tensors = [x.detach().requires_grad_(i in wanted) for i, x in enumerate(tensors)]
    loss = sum_of(op(*tensors, *rest))
    assert loss.requires_grad == bool(wanted)
    if wanted:
        loss.backward()
    assert [i for i, x in enumerate(tensors) if x.grad is not None] == list(wanted)


@pytest.mark.parametrize("name", ["attention", "graph_attention"])
def test_higher_derivatives_are_refused(name):
    op, tensors, rest = operator(name)
    (first,) = torch.autograd.grad(sum_of(op(*tensors, *rest)), tensors[0], create_graph=True)
    message = "gradients of heed's operators have no derivative: let PyTorch compute attention"
    with pytest.raises(heed.UnsupportedError, match=re.escape(message)):
        first.sum().backward()


@pytest.mark.parametrize("name", ["attention", "graph_attention"])
def test_saved_tensors_are_unpacked_once(name):
    """Checkpoints refuse a second time, and offloading would copy again."""
    op, tensors, rest = operator(name)
    unpacked = []

    def pack(tensor):
        unpacked.append(0)
        return len(unpacked) - 1, tensor

    def unpack(packed):
        unpacked[packed[0]] += 1
        return packed[1]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = sum(x.sum() for x in outputs(op(*tensors, *rest)))
    loss.backward()
    assert unpacked
    assert set(unpacked) == {1}


def jvp(function, x):
    return torch.func.jvp(function, (x,), (torch.ones_like(x),))


def dual(function, x):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(x, torch.ones_like(x)))


@pytest.mark.parametrize("differentiate", [jvp, dual, torch.no_grad()(dual)])
@pytest.mark.parametrize("name", ["attention", "graph_attention", "linear"])
def test_forward_mode_is_refused(name, differentiate):
    """Whichever tensor has a tangent: PyTorch would say 0."""
    op, tensors, rest = operator(name)
    tensors = [x.detach() for x in tensors]
    for i, tensor in enumerate(tensors):

        def function(x, i=i):
            return op(*tensors[:i], x, *tensors[i + 1 :], *rest)

        with pytest.raises(heed.UnsupportedError, match="no derivatives in forward mode"):
            differentiate(function, tensor)


def test_forward_mode_of_others_is_none_of_its_business():
    tensors = [x.detach() for x in small()]
    with forward_ad.dual_level():
        forward_ad.make_dual(torch.ones(2), torch.ones(2))
        found = heed.torch.attention(*tensors)
    for one, other in zip(found, heed.torch.attention(*tensors), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("count", [3, 0])
@pytest.mark.parametrize("name", ["attention", "graph_attention", "linear"])
def test_batches_are_calls_for_each_element(name, count):
    """Of torch.vmap, over any axis of some tensors."""
    op, tensors, rest = operator(name)
    tensors = [x.detach() for x in tensors]
    batched = torch.stack([tensors[0] + i for i in range(count)] or [tensors[0]], -1)[..., :count]
    found = outputs(torch.vmap(lambda x: op(x, *tensors[1:], *rest), in_dims=-1)(batched))
    shapes = [x.shape for x in outputs(op(*tensors, *rest))]
    assert [x.shape for x in found] == [(count, *shape) for shape in shapes]
    for i in range(count):
        expected = outputs(op(batched[..., i].contiguous(), *tensors[1:], *rest))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one[i], other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["attention", "graph_attention"])
def test_gradients_in_batches(name):
    op, tensors, rest = operator(name)
    out = outputs(op(*tensors, *rest))[0]
    weights = torch.randn(3, *out.shape, dtype=out.dtype)
    found = torch.autograd.grad(out, tensors, weights, is_grads_batched=True, retain_graph=True)
    for i, one in enumerate(weights):
        expected = torch.autograd.grad(out, tensors, one, retain_graph=True)
        for batch, other in zip(found, expected, strict=True):
            assert torch.equal(batch[i], other)


class Attention(torch.nn.Module):
    def forward(self, x):
        return heed.torch.scaled_dot_product_attention(x, x, x)


def prepared():
    layer = torch.nn.Linear(16, 12)
    heed.linear.prepare(layer)
    return layer


@pytest.mark.parametrize(
    ("make", "train", "names"),
    [(Attention, True, ["attention", "attention_backward"]), (prepared, False, ["linear"])],
)
def test_compiled_graphs_keep_operators(make, train, names):
    torch._dynamo.reset()
    graphs = []

    def keep(module, _):
        graphs.append([node.target for node in module.graph.nodes])
        return make_boxed_func(module.forward)

    model, x = make(), torch.randn(20, 16, requires_grad=train)
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    with torch.set_grad_enabled(train):
        out = torch.compile(model, backend=backend, fullgraph=True)(x)
        torch.testing.assert_close(out, model(x))
    if train:
        out.sum().backward()
    ops = [getattr(torch.ops.heed, name).default for name in names]
    assert [graph.count(op) for graph, op in zip(graphs, ops, strict=True)] == [1] * len(ops)


def in_heed(causal=False, offset=0, left=None, right=None, **rest):
    """Options of heed.attention."""
    return {**rest, "causal": causal, "alignment": offset, "window": (left, right)}


@pytest.mark.parametrize("name", OPTIONS)
def test_attention_is_heeds_with_its_gradients(name):
    """Bit for bit, of out and of lse, by everything that has gradients; and none is a view."""
    tensors, options = small(), OPTIONS[name]()
    more = {n: x for n, x in options.items() if torch.is_tensor(x) and x.requires_grad}
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
        assert not one._is_view()


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


def test_from_many_threads():
    tensors = [x.detach() for x in small()]

    def gradients(_):
        own = [x.clone().requires_grad_() for x in tensors]
        return torch.autograd.grad(sum_of(heed.torch.attention(*own, causal=True)), own)

    expected = gradients(None)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(gradients, range(100)):
            assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
