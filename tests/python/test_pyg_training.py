"""Gradients of heed.pyg.TransformerConv beside PyTorch Geometric's."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from test_pyg import EDGES, NODES, WIDTH, graph, layers  # noqa: E402

import heed.pyg  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    heed.torch.report(clear=True)


FORMS = {
    "plain": {},
    "heads": dict(heads=3),
    "mean_beta": dict(heads=3, concat=False, beta=True),
    "edges": dict(heads=2, edge_dim=4),
    "edges_beta": dict(heads=2, edge_dim=4, beta=True),
    "no_root_or_bias": dict(heads=2, root_weight=False, bias=False, edge_dim=4),
    "flipped": dict(heads=2, flow="target_to_source"),
}


def gradients_of(layer, *given):
    """Of a loss that is not linear, by inputs that require gradients, then by parameters."""
    given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in given]
    layer(*given).square().sum().backward()
    inputs = [x.grad for x in given if x.is_floating_point()]
    return [*inputs, *(p.grad for p in layer.parameters())]


def given_to(form, dtype=torch.float32):
    edges = [torch.randn(EDGES, 4, dtype=dtype)] if "edge_dim" in form else []
    return torch.randn(NODES, WIDTH, dtype=dtype), graph(NODES), *edges


def assert_gradients_close(found, expected, most=400):
    """Within so many roundings of the largest number: of twice as many products as results."""
    for ours, exact in zip(found, expected, strict=True):
        assert (ours is None) == (exact is None)  # PyTorch Geometric keeps what it does not use
        if ours is None:
            continue
        bound = most * torch.finfo(ours.dtype).eps * max(1, exact.abs().max().item())
        assert (ours.double() - exact).abs().max().item() <= bound


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_pytorch_geometrics(form, training):
    """Those of PyTorch Geometric's layer in float64."""
    theirs, ours = (layer.train(training) for layer in layers(**FORMS[form]))
    given = given_to(FORMS[form])
    found = gradients_of(ours, *given)
    expected = gradients_of(
        theirs.double(), *(x.double() if x.is_floating_point() else x for x in given)
    )
    assert_gradients_close(found, expected)
    assert heed.torch.report() == {"heed": 1}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_of_other_dtypes(dtype):
    theirs, ours = layers(heads=2, edge_dim=4)
    given = [x.to(dtype) if x.is_floating_point() else x for x in given_to(dict(edge_dim=4))]
    found = gradients_of(ours.to(dtype), *given)
    assert {x.dtype for x in found} == {dtype}
    exact = [x.double() if x.is_floating_point() else x for x in given]
    expected = gradients_of(theirs.to(dtype).double(), *exact)
    assert_gradients_close(found, expected, 400 if dtype == torch.float64 else 16)


def op_arguments():
    def make(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    node = (9, 2, 3)
    edge_index = torch.randint(0, 9, (2, 20))
    return make(*node), make(*node), make(*node), make(20, 4), make(4, 6), edge_index, False


def test_op_is_what_torch_library_asks_for():
    torch.library.opcheck(torch.ops.heed.graph_attention.default, op_arguments())


@pytest.mark.parametrize("wanted", [(0,), (2, 3), (1, 4)])
def test_only_what_requires_gradients(wanted):
    *tensors, edge_index, flipped = op_arguments()
    tensors = [x.detach() for x in tensors]
    for i in wanted:
        tensors[i].requires_grad_()
    torch.ops.heed.graph_attention(*tensors, edge_index, flipped).square().sum().backward()
    assert [i for i, x in enumerate(tensors) if x.grad is not None] == list(wanted)


def test_two_sets_of_nodes_train():
    theirs, ours = layers((WIDTH, 4), heads=2)
    edge_index = graph(30, 50)
    pairs = [torch.randn(50, WIDTH), torch.randn(30, 4)]
    found = []
    for layer, dtype in ((ours, torch.float32), (theirs.double(), torch.float64)):
        pair = [x.detach().to(dtype, copy=True).requires_grad_() for x in pairs]
        layer(tuple(pair), edge_index).square().sum().backward()
        found.append([x.grad for x in (*pair, *layer.parameters())])
    assert_gradients_close(*found)


def test_graph_gets_its_reverse_order_when_it_is_first_trained_on():
    _, ours = layers()
    x, edge_index = torch.randn(NODES, WIDTH), graph()

    def kept():
        return heed.pyg_ops._graphs.get(edge_index)[-1]

    with torch.no_grad():
        ours(x, edge_index)
    assert not kept().describe()["reverse"]
    ours(x, edge_index).sum().backward()
    both = kept()
    assert both.describe()["reverse"]
    with torch.no_grad():
        ours(x, edge_index)
    assert kept() is both


def test_higher_derivatives_are_refused():
    _, ours = layers(heads=2)
    x = torch.randn(NODES, WIDTH, requires_grad=True)
    (first,) = torch.autograd.grad(ours(x, graph()).square().sum(), x, create_graph=True)
    with pytest.raises(heed.UnsupportedError, match="gradients of heed's operators have no deriv"):
        first.sum().backward()


def test_forward_mode_is_left_to_pytorch_geometric():
    _, ours = layers()
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.randn(NODES, WIDTH), torch.ones(NODES, WIDTH))
        assert forward_ad.unpack_dual(ours(dual, graph())).tangent is not None
    assert heed.torch.report() == {"derivatives are asked for in forward mode": 1}


def test_weights_with_gradients_are_left_to_pytorch_geometric():
    _, ours = layers(heads=2)
    _, (_, alpha) = ours(torch.randn(NODES, WIDTH), graph(), return_attention_weights=True)
    alpha.square().sum().backward()
    assert ours.lin_query.weight.grad.abs().max() > 0
    assert heed.torch.report() == {"gradients are required, and attention weights asked for": 1}
