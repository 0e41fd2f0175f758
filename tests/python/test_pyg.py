"""heed.pyg.TransformerConv beside PyTorch Geometric's, which is also its constructor."""

import itertools
import re

import pytest

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")

import heed.pyg  # noqa: E402

NODES, EDGES, WIDTH, FEATURES = 40, 300, 6, 5


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    heed.torch.report(clear=True)


def graph(nodes=NODES, sources=NODES):
    """Edges with duplicates; the last ten nodes have none that come in."""
    return torch.stack(
        [torch.randint(0, sources, (EDGES,)), torch.randint(0, nodes - 10, (EDGES,))]
    )


def layers(in_channels=WIDTH, **options):
    """PyTorch Geometric's and heed's, with the same parameters."""
    theirs = geometric.nn.TransformerConv(in_channels, FEATURES, **options).eval()
    ours = heed.pyg.TransformerConv(in_channels, FEATURES, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def assert_same(ours, theirs):
    """Within 100 roundings of the largest number, as of attention (kinds.assert_close), twice."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    bound = 200 * torch.finfo(ours.dtype).eps * theirs.abs().max().item()
    assert (ours - theirs).abs().max().item() <= bound


@pytest.mark.parametrize(
    ("heads", "concat", "beta", "edge_dim", "root_weight", "bias"),
    [
        c
        for c in itertools.product(
            (1, 3), (True, False), (True, False), (None, 4), (True, False), (True, False)
        )
        if c[0] == 3 or c[5]
    ],
)
def test_agrees(heads, concat, beta, edge_dim, root_weight, bias):
    theirs, ours = layers(
        heads=heads, concat=concat, beta=beta, edge_dim=edge_dim, root_weight=root_weight, bias=bias
    )
    edges = torch.randn(EDGES, edge_dim) if edge_dim else None
    given = torch.randn(NODES, WIDTH), graph(), edges
    with torch.no_grad():
        assert_same(ours(*given), theirs(*given))
    assert heed.torch.report() == {"heed": 1}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(dtype):
    theirs, ours = layers(heads=2, edge_dim=3)
    given = torch.randn(NODES, WIDTH), graph(), torch.randn(EDGES, 3)
    expected = theirs.double()(*(x.double() if x.is_floating_point() else x for x in given))
    ours = ours.to(dtype)
    with torch.no_grad():
        out = ours(*(x.to(dtype) if x.is_floating_point() else x for x in given))
    assert out.dtype == dtype
    bound = (200 if dtype == torch.float64 else 8) * torch.finfo(dtype).eps * expected.abs().max()
    assert (out.double() - expected).abs().max() <= bound


@pytest.mark.parametrize("edge_dim", [None, 4])
def test_weights_on_request(edge_dim):
    theirs, ours = layers(heads=2, edge_dim=edge_dim)
    edges = torch.randn(EDGES, edge_dim) if edge_dim else None
    given = torch.randn(NODES, WIDTH), graph(), edges
    with torch.no_grad():
        out, (index, alpha) = ours(*given, return_attention_weights=True)
        expected, (_, weights) = theirs(*given, return_attention_weights=True)
    assert index is given[1]
    assert_same(alpha, weights)
    assert_same(out, expected)


@pytest.mark.parametrize("sizes", [(50, 30), (30, 50)])
def test_two_sets_of_nodes(sizes):
    theirs, ours = layers((WIDTH, 4), heads=2)
    sources, destinations = sizes
    given = (
        (torch.randn(sources, WIDTH), torch.randn(destinations, 4)),
        graph(destinations, sources),
    )
    with torch.no_grad():
        assert_same(ours(*given), theirs(*given))
    assert heed.torch.report() == {"heed": 1}


def test_flow_from_target_to_source():
    theirs, ours = layers(heads=2, flow="target_to_source")
    given = torch.randn(NODES, WIDTH), graph().flip(0)
    with torch.no_grad():
        assert_same(ours(*given), theirs(*given))
        with torch.inference_mode():
            assert_same(ours(*given), theirs(*given))


def test_lazy_channels_and_repr():
    ours = heed.pyg.TransformerConv(-1, FEATURES).eval()
    with torch.no_grad():
        assert ours(torch.randn(NODES, WIDTH), graph()).shape == (NODES, FEATURES)
    assert repr(ours) == "TransformerConv(-1, 5, heads=1)"


def test_graph_is_made_once_and_again_when_changed(monkeypatch):
    made = []
    graph_of = heed.Graph

    def counted(*args, **kwargs):
        made.append(kwargs["nodes"])
        return graph_of(*args, **kwargs)

    monkeypatch.setattr(heed, "Graph", counted)
    theirs, ours = layers()
    x, edge_index = torch.randn(NODES, WIDTH), graph()
    with torch.inference_mode():
        for _ in range(3):
            ours(x, edge_index)
        assert made == [NODES]
        edge_index[:, 0] = torch.tensor([3, 4])
        assert_same(ours(x, edge_index), theirs(x, edge_index))
        assert made == [NODES] * 2
        copy = edge_index.clone()  # a tensor of inference, which does not tell
        ours(x, copy)
        copy[:, 0] = torch.tensor([8, 9])
        assert_same(ours(x, copy), theirs(x, copy))
    assert len(made) == 4
    assert len(heed.pyg_ops._graphs) >= 1
    before = len(heed.pyg_ops._graphs)
    del edge_index
    assert len(heed.pyg_ops._graphs) == before - 1


def test_bad_edges_are_refused():
    _, ours = layers()
    edge_index = graph()
    edge_index[1, 7] = NODES
    with torch.no_grad(), pytest.raises(heed.ArgumentError, match=r"destinations\[7\] is 40"):
        ours(torch.randn(NODES, WIDTH), edge_index)


def with_hook(layer):
    layer.register_message_forward_hook(lambda *_: None)
    return layer


FALLS_BACK = {
    "dropout": (lambda: layers(dropout=0.5)[1].train(), "dropout is 0.5"),
    "aggr": (lambda: layers(aggr="max")[1], "aggr is max"),
    "hook": (lambda: with_hook(layers()[1]), "hooks look at messages"),
    "edges_without_matrix": (
        lambda: layers()[1],
        "edge_dim and edge_attr do not go together",
        torch.ones(EDGES, 1, FEATURES),
    ),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_leaves_to_pytorch_geometric(name, capsys):
    make, reason, *edges = FALLS_BACK[name]
    ours = make()
    with torch.no_grad(), heed.torch.use(verbose=True):
        out = ours(torch.randn(NODES, WIDTH), graph(), *edges)
    assert out.shape == (NODES, FEATURES)
    assert heed.torch.report() == {reason: 1}
    assert re.search(f"by PyTorch Geometric: {reason}$", capsys.readouterr().err.strip())


def test_subclasses_are_left_to_pytorch_geometric():
    theirs, ours = layers()
    x, edge_index = (
        torch.randn(NODES, WIDTH),
        geometric.EdgeIndex(graph(), sparse_size=(NODES,) * 2),
    )
    with torch.no_grad():
        assert_same(ours(x, edge_index), theirs(x, edge_index))
    assert heed.torch.report() == {"a tensor is a EdgeIndex": 1}


def test_ordinary_hooks_stay():
    _, ours = layers()
    seen = []
    ours.register_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    with torch.no_grad():
        ours(torch.randn(NODES, WIDTH), graph())
    assert seen == [(NODES, FEATURES)]
    assert heed.torch.report() == {"heed": 1}
