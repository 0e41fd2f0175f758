"""Layers of heed.pyg beside PyTorch Geometric's, which are also their constructors."""

import itertools
import re

import pytest
from kinds import tangent

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")

import heed.pyg  # noqa: E402

NODES, EDGES, WIDTH, FEATURES = 40, 300, 6, 5


def graph(nodes=NODES, sources=NODES):
    """Edges with duplicates; the last ten nodes have none that come in."""
    return torch.stack(
        [torch.randint(0, sources, (EDGES,)), torch.randint(0, nodes - 10, (EDGES,))]
    )


def layers(in_channels=WIDTH, name="TransformerConv", **options):
    """PyTorch Geometric's and heed's, with the same parameters."""
    theirs = getattr(geometric.nn, name)(in_channels, FEATURES, **options).eval()
    ours = getattr(heed.pyg, name)(in_channels, FEATURES, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def assert_same(ours, theirs, most=200, least=0):
    """Within so many roundings of the largest number: each is off by 100 at most."""
    assert ours.shape == theirs.shape
    bound = most * torch.finfo(ours.dtype).eps * max(least, theirs.abs().max().item())
    assert (ours.double() - theirs).abs().max().item() <= bound


def trained(layer, *given):
    """Its output, and gradients of a loss that is not linear: of inputs, then of parameters."""
    given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in given]
    out = layer(*given)
    out.square().sum().backward()
    inputs = [x.grad for x in given if x.is_floating_point()]
    return [out.detach(), *inputs, *(p.grad for p in layer.parameters())]


def given_to(options, dtype):
    edges = [torch.randn(EDGES, 4, dtype=dtype)] if options.get("edge_dim") else []
    return torch.randn(NODES, WIDTH, dtype=dtype), graph(), *edges


def assert_all_close(found, expected, most=400):
    """Of twice as many products as results."""
    for ours, exact in zip(found, expected, strict=True):
        assert (ours is None) == (exact is None)  # PyTorch Geometric keeps what it does not use
        if ours is not None:
            assert_same(ours, exact, most, 1)


CHOICES = {
    "heads": (1, 3),
    "concat": (True, False),
    "beta": (True, False),
    "edge_dim": (None, 4),
    "root_weight": (True, False),
    "bias": (True, False),
}
OPTIONS = [dict(zip(CHOICES, c, strict=True)) for c in itertools.product(*CHOICES.values())]
OPTIONS = [o for o in OPTIONS if o["heads"] == 3 or o["bias"]]
OPTIONS += [dict(heads=2, flow="target_to_source"), dict(heads=2, edge_dim=4, train=True)]
OPTIONS += [dict(heads=2, edge_dim=4, dtype=x) for x in (torch.float64, torch.bfloat16)]


BOTH = "GATConv", "GATv2Conv"
OF_GATS = [
    {},
    *({"heads": 3, "concat": False}, {"heads": 3, "bias": False, "negative_slope": 0.01}),
    *({"heads": 2, "residual": True, "add_self_loops": False}, {"negative_slope": 0.0}),
    *({"heads": 2, "edge_dim": 4, "fill_value": fill} for fill in ("mean", "max", 0.5)),
    {"heads": 2, "edge_dim": 4, "add_self_loops": False},
    {"heads": 9},  # more than one matrix multiplies
    {"heads": 2, "edge_dim": 4, "train": True},
    *({"heads": 4, "edge_dim": 4, "dtype": x} for x in (torch.float64, torch.bfloat16)),
]


AGREEING = [("TransformerConv", options) for options in OPTIONS]
AGREEING += [(name, options) for name in BOTH for options in OF_GATS]
AGREEING += [("GATv2Conv", {**options, "share_weights": True}) for options in OF_GATS]


@pytest.mark.parametrize(
    ("name", "options"), AGREEING, ids=["-".join(map(str, (n, *o.values()))) for n, o in AGREEING]
)
def test_agrees(name, options):
    """A layer and its gradients, with those of PyTorch Geometric's in float64."""
    options = dict(options)
    training, dtype = options.pop("train", False), options.pop("dtype", torch.float32)
    theirs, ours = (x.train(training).to(dtype) for x in layers(name=name, **options))
    given = given_to(options, dtype)
    found = trained(ours, *given)
    assert {x.dtype for x in found if x is not None} == {dtype}
    exact = [x.double() if x.is_floating_point() else x for x in given]
    expected = trained(theirs.double(), *exact)
    assert_all_close(found, expected, 16 if dtype == torch.bfloat16 else 400)
    assert heed.torch.report() == {"heed": 1}
    with torch.inference_mode():
        assert_same(ours(*given), found[0])


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
def test_edges_that_inference_has_seen_are_trained_on(name):
    theirs, ours = layers(name=name)
    x, edges = torch.randn(NODES, WIDTH), graph().unique(dim=1).contiguous()
    matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (NODES, NODES))
    for adjacency in edges, matrix.coalesce():
        with torch.inference_mode():
            assert_same(ours(x, adjacency), theirs(x, adjacency).double())
        ours(x, adjacency).sum().backward()
    assert heed.torch.report() == {"heed": 4}


@pytest.mark.parametrize("name", BOTH)
def test_heads_that_are_not_finite_leave_the_others_alone(name):
    both = layers(name=name, heads=2, bias=False)
    x, edges, found = torch.randn(NODES, WIDTH), graph(), []
    for layer in both:
        lin = layer.lin if name == "GATConv" else layer.lin_l
        lin.weight.data[:FEATURES] *= torch.finfo(torch.float32).max  # the first head's
        found.append(layer(x, edges).detach())
    assert not any(out[:, :FEATURES].isfinite().all() for out in found)
    assert_same(found[1][:, FEATURES:], found[0][:, FEATURES:])


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
def test_dropout_draws_its_seed_from_pytorch(name):
    layer = layers(name=name, dropout=0.5)[1].double().train()
    x, edges = torch.randn(NODES, WIDTH, dtype=torch.float64, requires_grad=True), graph()

    def trained(x, seed=3):
        torch.manual_seed(seed)
        return layer(x, edges)

    assert torch.equal(trained(x), trained(x))
    assert not torch.equal(trained(x), trained(x, 4))
    assert not torch.equal(trained(x), layer.eval()(x, edges))
    layer.train()
    assert torch.autograd.gradcheck(trained, x, fast_mode=True)
    mean = sum(trained(x, seed).detach() for seed in range(400)) / 400
    assert (mean - layer.eval()(x, edges)).abs().mean() < 0.1 * mean.abs().mean()
    assert list(heed.torch.report()) == ["heed"]


def test_lazy_channels_hooks_and_bad_edges():
    ours, seen = heed.pyg.TransformerConv(-1, FEATURES).eval(), []
    ours.register_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    edge_index, x = graph(), torch.randn(NODES, WIDTH)
    with torch.no_grad():
        ours(x, edge_index)
        edge_index[1, 7] = NODES
        with pytest.raises(heed.ArgumentError, match=r"destinations\[7\] is 40"):
            ours(x, edge_index)
    assert seen == [(NODES, FEATURES)]
    assert heed.torch.report() == {"heed": 1}
    assert repr(ours) == "TransformerConv(-1, 5, heads=1)"


@pytest.fixture
def made(monkeypatch):
    """A number for every graph that is made."""
    counted, graph_of = [], heed.Graph
    monkeypatch.setattr(heed, "Graph", lambda *a, **k: counted.append(1) or graph_of(*a, **k))
    return counted


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
def test_graph_is_made_once_and_again_when_changed(made, name):
    """The graph of GATs has edges that they add."""
    theirs, ours = layers(name=name)
    x, edge_index = torch.randn(NODES, WIDTH), graph()
    with torch.inference_mode():
        for _ in range(3):
            ours(x, edge_index)
        assert len(made) == 1
        edge_index[:, 0] = torch.tensor([3, 4])
        assert_same(ours(x, edge_index), theirs(x, edge_index))
        assert len(made) == 2
        copy = edge_index.clone()  # a tensor of inference, which does not tell
        ours(x, copy)
        copy[:, 0] = torch.tensor([8, 9])
        assert_same(ours(x, copy), theirs(x, copy))
        copy.numpy()[:, 0] = 5  # PyTorch does not tell
        assert_same(ours(x, copy), theirs(x, copy))
    assert len(made) == 5
    # Of edges that a layer adds, the graph, and the edges by those that it was given.
    kept = [heed.torch_ops._graphs, heed.pyg._looped][: 2 if name in BOTH else 1]
    before = [len(of._by_memory) for of in kept]
    del edge_index
    assert [len(of._by_memory) for of in kept] == [count - 1 for count in before]


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
@pytest.mark.parametrize("options", [{}, {"edge_dim": 4, "heads": 2}])
def test_gradients_go_through_weights(name, options):
    """Of edges, as PyTorch Geometric has them, and results are those without weights."""
    found, given = [], given_to(options, torch.float32)
    for layer in layers(name=name, **options):
        layer.zero_grad()
        out, (_, alpha) = layer(*given, return_attention_weights=True)
        (out.square().sum() + alpha.square().sum()).backward()
        found.append([out.detach(), alpha.detach(), *(p.grad for p in layer.parameters())])
    theirs, ours = found
    assert_all_close(ours, theirs)
    assert torch.equal(ours[0], layer(*given))
    assert list(heed.torch.report()) == ["heed"]


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
def test_compiled_layers_are_one_graph(made, name):
    """Of PyTorch's; and their edges are sorted once, also where the layer adds some."""
    theirs, ours = layers(name=name, edge_dim=4)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    given = given_to({"edge_dim": 4}, torch.float32)
    for _ in range(2):
        want = trained(theirs, *given)
        assert_all_close(trained(compiled, *given), want)
        ours.zero_grad(), theirs.zero_grad()
    assert len(made) == 1
    ours.dropout = 0.5
    ours.train()
    drawn = [torch.manual_seed(7) and compiled(*given) for _ in range(2)]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], want[0])
    assert list(heed.torch.report()) == ["heed"]


KINDS = (
    ["author", "paper"],
    [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "of", "author")],
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hgt_over_edges_of_several_types(made, dtype):
    theirs = geometric.nn.HGTConv(WIDTH, 8, KINDS, heads=2).to(dtype)
    ours = heed.pyg.HGTConv(WIDTH, 8, KINDS, heads=2).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    for relation in ours.p_rel:
        factor = torch.rand(1, 2, dtype=dtype)
        theirs.p_rel[relation].data.copy_(factor)
        ours.p_rel[relation].data.copy_(factor)
    counts = {"author": 7, "paper": 11}
    x = {name: torch.randn(count, WIDTH, dtype=dtype) for name, count in counts.items()}
    edges = {
        kind: torch.stack([torch.randint(counts[kind[end]], (30,)) for end in (0, 2)])
        for kind in KINDS[1]
    }
    found = []
    for layer in theirs, ours:
        for _ in range(2):
            layer.zero_grad()
            inputs = {name: rows.clone().requires_grad_() for name, rows in x.items()}
            out = layer(inputs, edges)
            sum(rows.square().sum() for rows in out.values()).backward()
        found.append([*(out[name].detach() for name in x), *(inputs[name].grad for name in x)])
        found[-1] += [p.grad for p in layer.parameters()]
    assert_all_close(found[1], found[0])
    assert len(made) == 1
    assert list(heed.torch.report()) == ["heed"]


@pytest.mark.parametrize("name", ["TransformerConv", *BOTH])
def test_relations_of_their_own(name):
    """``HeteroConv`` takes layers of heed as it takes PyTorch Geometric's."""
    options = {"add_self_loops": False} if name in BOTH else {}
    both, found = layers((WIDTH, WIDTH), name=name, **options), []
    x = {"author": torch.randn(7, WIDTH), "paper": torch.randn(11, WIDTH)}
    kind = ("author", "writes", "paper")
    edges = {kind: torch.stack([torch.randint(7, (30,)), torch.randint(11, (30,))])}
    for layer in both:
        found.append(geometric.nn.HeteroConv({kind: layer})(x, edges)["paper"].detach())
    assert_same(found[1], found[0])
    assert list(heed.torch.report()) == ["heed"]


def hooked(layer, at="message"):
    getattr(layer, f"register_{at}_forward_hook")(lambda *_: None)
    return layer


def plainly(layer, *given):
    with torch.no_grad():
        return layer(*given)


def with_weights(layer, *given):
    with torch.no_grad():
        return layer(*given, return_attention_weights=True)[0]


def forward_mode(layer, x, *given):
    return tangent(lambda dual: layer(dual, *given), x)


WITHOUT_MATRIX = torch.ones(EDGES, 1, FEATURES)
# Layers, why they are left, how they are called, and with what beside edges.
FALLS_BACK = {
    "dropout": (lambda: layers(dropout=1.0)[1].train(), "dropout is 1", plainly),
    "aggr": (lambda: layers(aggr="max")[1], "aggr is max", plainly),
    "hook": (lambda: hooked(layers()[1]), "hooks look at messages", plainly),
    "edges_without_matrix": (
        lambda: layers()[1],
        *("edge_dim and edge_attr do not go together", plainly, WITHOUT_MATRIX),
    ),
    "forward_mode": (
        lambda: layers()[1],
        *("derivatives are asked for in forward mode", forward_mode),
    ),
}
for gat in BOTH:
    FALLS_BACK |= {
        f"flow_of_{gat}": (
            lambda name=gat: layers(name=name, flow="target_to_source")[1],
            *("flow is target_to_source", plainly),
        ),
        f"dropout_of_{gat}": (
            lambda name=gat: layers(name=name, dropout=0.5)[1].train(),
            *("dropout is 0.5, and attention weights asked for", with_weights),
        ),
        f"hook_of_{gat}": (
            lambda name=gat: hooked(layers(name=name)[1], "edge_update"),
            *("hooks look at messages", plainly),
        ),
    }


@pytest.mark.parametrize("name", FALLS_BACK)
def test_leaves_to_pytorch_geometric(name, capsys):
    make, reason, call, *edges = FALLS_BACK[name]
    ours = make()
    with heed.torch.use(verbose=True):
        out = call(ours, torch.randn(NODES, WIDTH), graph(), *edges)
    assert out.shape == (NODES, FEATURES)
    assert heed.torch.report() == {reason: 1}
    assert re.search(f"by PyTorch Geometric: {reason}$", capsys.readouterr().err.strip())


def sparse(layout, values=None, coalesced=True):
    """The adjacency matrix of PyTorch Geometric's convention: a row for each destination."""

    def make(edges):
        sizes = 30, 50
        features = torch.ones(edges.shape[1]) if values is None else torch.randn(edges.shape[1], 4)
        if not coalesced:
            return torch.sparse_coo_tensor(edges.flip(0), features, sizes, is_coalesced=False)
        sizes = *sizes, *features.shape[1:]
        matrix = torch.sparse_coo_tensor(edges.flip(0), features, sizes).coalesce()
        if layout == torch.sparse_csr:  # to_sparse_csr has none of features
            ends = torch.bincount(edges[1], minlength=30).cumsum(0)
            starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends])
            return torch.sparse_csr_tensor(starts, matrix.indices()[1], matrix.values(), sizes)
        return matrix.to_sparse(layout=layout)

    return make


def narrow(edges):
    """With indices of int32."""
    matrix = sparse(torch.sparse_csr)(edges)
    indices = matrix.crow_indices().int(), matrix.col_indices().int()
    return torch.sparse_csr_tensor(*indices, matrix.values(), matrix.shape)


def to_sparse_tensor(edges):
    data = geometric.data.HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 50, 30
    data["a", "b"].edge_index = edges
    transform = geometric.transforms.ToSparseTensor(layout=torch.sparse_csr)
    return transform(data)["a", "b"].adj_t


def edge_index(sort=None, **options):
    def make(edges):
        made = geometric.EdgeIndex(edges, **options)
        return made if sort is None else made.sort_by(sort).values

    return make


# Forms of the edges from 50 sources to 30 destinations.
FORMS_OF_EDGES = {
    "int64": lambda edges: edges,
    "int32": lambda edges: edges.int(),
    "strided": lambda edges: edges.T.contiguous().T,
    "csr": sparse(torch.sparse_csr),
    "csr_int32": narrow,
    "csc": sparse(torch.sparse_csc),
    "coo": sparse(torch.sparse_coo),
    "csr_with_features": sparse(torch.sparse_csr, values=4),
    "coo_with_features": sparse(torch.sparse_coo, values=4),
    "ToSparseTensor": to_sparse_tensor,
    "EdgeIndex": edge_index(),
    "EdgeIndex_with_sizes": edge_index(sparse_size=(50, 30)),
    "EdgeIndex_by_row": edge_index("row", sparse_size=(50, 30)),
    "EdgeIndex_by_col": edge_index("col", sparse_size=(50, 30)),
}


def results(layer, x, edges, features, dtype):
    """Output, weights and gradients; PyTorch Geometric makes gradients where weights are."""
    layer, x = layer.to(dtype), [part.to(dtype).requires_grad_() for part in x]
    features = [one.to(dtype) for one in features]
    with torch.no_grad():
        out, (same, alpha) = layer(x, edges, *features, return_attention_weights=True)
    assert same is edges or edges.layout != torch.strided
    trained = layer(x, edges, *features)
    gradients = torch.autograd.grad(trained.square().sum(), [*x, *layer.parameters()])
    return [out, alpha, trained.detach(), *gradients]


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support")
@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize(
    ("name", "form"),
    [("TransformerConv", form) for form in FORMS_OF_EDGES]
    + [(name, form) for name in BOTH for form in ("int64", "csr", "coo", "EdgeIndex")],
)
def test_edges_of_every_form(name, form, featured):
    """Results are those of PyTorch Geometric, by float64, of the edges in the order it has them."""
    edges = graph(30, 50).unique(dim=1).contiguous()
    stored = form.endswith("features")
    adjacency = FORMS_OF_EDGES[form](edges)
    options = {"add_self_loops": False} if name in BOTH else {}
    options |= {"heads": 2, "edge_dim": 4 if featured or stored else None}
    theirs, ours = layers((WIDTH, 4), name=name, **options)
    x = torch.randn(50, WIDTH), torch.randn(30, 4)
    features = [torch.randn(edges.shape[1], 4)] if featured else []
    # Of int32 gradients of torch.index_select are wrong.
    wide = {"csr_int32": "csr", "int32": "int64"}
    reference = FORMS_OF_EDGES[wide[form]](edges) if form in wide else adjacency
    if form == "csc":  # which PyTorch Geometric's own layer refuses
        reference = geometric.utils.to_edge_index(adjacency)[0].flip(0)
    found = results(ours, x, adjacency, features, torch.float32)
    assert heed.torch.report() == {"heed": 2}
    # Features in a matrix stay float32.
    exact = torch.float32 if stored and not featured else torch.float64
    expected = results(theirs, x, reference, features, exact)
    assert_all_close(found, expected)


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support")
def test_graph_of_a_matrix_is_made_once_and_again_when_changed(made):
    theirs, ours = layers((WIDTH, 4))
    x = torch.randn(50, WIDTH), torch.randn(30, 4)
    adjacency = sparse(torch.sparse_csr)(graph(30, 50).unique(dim=1))
    with torch.no_grad():
        ours(x, adjacency), ours(x, adjacency)
        assert len(made) == 1
        adjacency.col_indices().numpy()[:] = 7
        assert_same(ours(x, adjacency), theirs(x, adjacency))
    assert len(made) == 2


# Edges that PyTorch Geometric refuses.
REFUSED_EDGES = {
    "flow of a matrix": (sparse(torch.sparse_csr), {"flow": "target_to_source"}),
    "matrix of other nodes": (lambda edges: sparse(torch.sparse_csr)(edges).t(), {}),
    "EdgeIndex of other nodes": (edge_index(sparse_size=(51, 30)), {}),
    "coo not coalesced": (sparse(torch.sparse_coo, coalesced=False), {}),
    "three rows": (lambda edges: torch.cat([edges, edges[:1]]), {}),
    "floating": (lambda edges: edges.float(), {}),
    "int16": (lambda edges: edges.short(), {}),
    "blocks": (lambda edges: sparse(torch.sparse_coo)(edges).to_dense().to_sparse_bsr((5, 5)), {}),
}


@pytest.mark.filterwarnings("ignore:Sparse (CS.|BSR) tensor support")
@pytest.mark.parametrize("name", REFUSED_EDGES)
def test_edges_are_refused_as_by_pytorch_geometric(name):
    make, options = REFUSED_EDGES[name]
    theirs, ours = layers((WIDTH, 4), **options)
    given = (torch.randn(50, WIDTH), torch.randn(30, 4)), make(graph(30, 50).contiguous())
    with torch.no_grad():
        with pytest.raises((ValueError, RuntimeError, IndexError)) as expected:
            theirs(*given)
        with pytest.raises(expected.type, match=re.escape(str(expected.value))):
            ours(*given)


def test_graph_gets_its_reverse_order_when_it_is_first_trained_on():
    _, ours = layers()
    x, edge_index = torch.randn(NODES, WIDTH), graph()

    def kept():
        return heed.torch_ops._graphs.get(edge_index)[-1]

    with torch.no_grad():
        ours(x, edge_index)
    assert not kept().describe()["reverse"]
    ours(x, edge_index).sum().backward()
    both = kept()
    assert both.describe()["reverse"]
    with torch.no_grad():
        ours(x, edge_index)
    assert kept() is both
