"""heed.linear beside torch.nn.Linear."""

import copy

import pytest

torch = pytest.importorskip("torch")

import heed.linear  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Counts what heed computes."""
    torch.manual_seed(0)
    calls = []

    def counted(*args):
        calls.append(args[0].shape)
        return op(*args)

    op = heed.linear.linear
    monkeypatch.setattr(heed.linear, "linear", counted)
    return calls


def prepared(ins, outs, bias=True):
    layer = torch.nn.Linear(ins, outs, bias=bias)
    ours = copy.deepcopy(layer)
    assert heed.linear.prepare(ours) == 1
    return layer, ours


def assert_same(out, expected, ins):
    """Sums of `ins` products differ by their roundings, of numbers of size about 1."""
    assert out.dtype == expected.dtype
    torch.testing.assert_close(out, expected, rtol=0, atol=2 * ins * 2.0**-24)


@pytest.mark.parametrize("shape", [(8,), (3, 5), (2, 130), (2, 3, 4), (600,)])
@pytest.mark.parametrize(("ins", "outs"), [(7, 5), (64, 48), (300, 1030)])
@pytest.mark.parametrize("bias", [True, False])
def test_agrees(shape, ins, outs, bias, fresh):
    layer, ours = prepared(ins, outs, bias)
    x = torch.randn(*shape, ins)
    with torch.inference_mode():
        assert_same(ours(x), layer(x), ins)
    assert fresh == [x.shape]


def test_strided_rows(fresh):
    layer, ours = prepared(6, 10)
    for x in (torch.randn(6, 40).T, torch.randn(40, 12)[:, ::2], torch.randn(1, 6).expand(40, 6)):
        with torch.no_grad():
            assert_same(ours(x), layer(x), 6)
    assert len(fresh) == 3


def test_matrix_is_prepared_once_and_again_when_changed(monkeypatch):
    made = []
    weights = heed.Weights
    monkeypatch.setattr(heed, "Weights", lambda *a, **k: made.append(1) or weights(*a, **k))
    layer, ours = prepared(16, 16)
    x = torch.randn(20, 16)
    with torch.inference_mode():
        ours(x), ours(x)
        assert len(made) == 1
        ours.load_state_dict({name: 2 * p for name, p in layer.state_dict().items()})
        assert_same(ours(x), 2 * layer(x), 64)
        assert len(made) == 2
        ours.bias.zero_()
        assert_same(ours(x), F.linear(x, ours.weight), 64)
        assert len(made) == 3
    with torch.no_grad():
        ours.weight.data = torch.ones(16, 16)
        assert_same(ours(x), F.linear(x, torch.ones(16, 16)), 64)
        ours.weight.data.mul_(2)  # which does not show
        heed.linear.prepare(ours)
        assert_same(ours(x), F.linear(x, 2 * torch.ones(16, 16)), 64)


LEFT_TO_PYTORCH = {
    "gradients": lambda layer: layer(torch.randn(20, 16)),
    "few_rows": lambda layer: no_grad(layer, torch.randn(7, 16)),
    "one_axis": lambda layer: no_grad(layer, torch.randn(16)),
    "float64": lambda layer: no_grad(layer.double(), torch.randn(20, 16).double()),
    "vmap": lambda layer: no_grad(torch.vmap(layer), torch.randn(3, 20, 16)),
}


def no_grad(layer, x):
    with torch.no_grad():
        return layer(x)


@pytest.mark.parametrize("name", LEFT_TO_PYTORCH)
def test_leaves_to_pytorch(name, fresh):
    layer, ours = prepared(16, 12)
    torch.manual_seed(1)
    expected = LEFT_TO_PYTORCH[name](layer)
    torch.manual_seed(1)
    out = LEFT_TO_PYTORCH[name](ours)
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    assert out.requires_grad == expected.requires_grad
    assert not fresh


def test_autocast_is_left_to_pytorch(fresh):
    layer, ours = prepared(16, 12)
    x = torch.randn(20, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours(x), layer(x))
    assert not fresh


def test_wrong_features_are_refused_as_by_pytorch():
    _, ours = prepared(16, 12)
    with torch.no_grad(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ours(torch.randn(20, 15))


def test_op_is_what_torch_library_asks_for():
    given = torch.randn(9, 6), torch.randn(5, 6), torch.randn(5)
    torch.library.opcheck(torch.ops.heed.linear.default, given)


def test_compiled_graph_keeps_the_op(monkeypatch):
    monkeypatch.undo()
    torch._dynamo.reset()
    layer, ours = prepared(16, 12)
    graphs = []

    def backend(module, _):
        graphs.append(module.graph)
        return module.forward

    x = torch.randn(20, 16)
    with torch.no_grad():
        out = torch.compile(ours, backend=backend, fullgraph=True)(x)
        assert_same(out, layer(x), 16)
    op = torch.ops.heed.linear.default
    assert [node.target for node in graphs[0].nodes].count(op) == 1


def test_on_and_off():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4)))
    names = list(model.state_dict())
    assert heed.linear.prepare(model) == 2
    assert heed.linear.prepare(model) == 0
    assert list(model.state_dict()) == names
    assert isinstance(model[0], torch.nn.Linear)
    assert heed.linear.prepare(model, False) == 2
    assert type(model[0]) is torch.nn.Linear
