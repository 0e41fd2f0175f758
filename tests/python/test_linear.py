"""heed.linear beside torch.nn.Linear."""

import copy
import itertools
import pickle

import pytest
from kinds import tangent

torch = pytest.importorskip("torch")

import heed.linear  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Counts what heed computes."""
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


def no_grad(layer, x):
    with torch.no_grad():
        return layer(x)


def of_shape(*shape):
    return lambda n: torch.randn(*shape, n)


ROWS = {
    **{str(shape): of_shape(*shape) for shape in ((8,), (2, 130), (2, 3, 4), (600,))},
    "transposed": lambda n: torch.randn(n, 40).T,
    "every second": lambda n: torch.randn(40, 2 * n)[:, ::2],
    "repeated": lambda n: torch.randn(1, n).expand(40, n),
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("ins", "outs"), [(7, 5), (64, 48), (300, 1030)])
@pytest.mark.parametrize("bias", [True, False])
def test_agrees(rows, ins, outs, bias, fresh):
    layer, ours = prepared(ins, outs, bias)
    x = ROWS[rows](ins)
    assert_same(no_grad(ours, x), no_grad(layer, x), ins)
    assert fresh == [x.shape]


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_parameters_of_any_strides(name, fresh):
    """As slices of what a model keeps packed."""
    layer, ours = prepared(16, 12)
    strided = torch.nn.Parameter(getattr(layer, name).detach().repeat_interleave(2, 0)[::2])
    setattr(ours, name, strided)
    x = torch.randn(20, 16)
    assert_same(no_grad(ours, x), no_grad(layer, x), 16)
    with torch.no_grad():
        strided[3] = getattr(layer, name)[3] = 5.0
    assert_same(no_grad(ours, x), no_grad(layer, x), 80)
    assert fresh == [x.shape] * 2


def test_matrix_is_prepared_once(monkeypatch):
    made = []
    weights = heed.Weights
    monkeypatch.setattr(heed, "Weights", lambda *a, **k: made.append(1) or weights(*a, **k))
    layer, ours = prepared(16, 16)
    for _ in range(3):
        no_grad(ours, torch.randn(20, 16))
    assert len(made) == 1
    torch.optim.SGD(layer.parameters(), lr=1.0).step()  # of others
    no_grad(ours, torch.randn(20, 16))
    assert len(made) == 1
    memory = ours.weight.untyped_storage()
    assert memory in heed.linear._prepared._by_memory
    ours(torch.randn(20, 16))  # in training copies are of no use
    assert memory not in heed.linear._prepared._by_memory


def one(tensor):
    """Changes a number that is not among those that are looked at."""
    tensor.view(-1)[1] += 1


def step_of(optimizer, **options):
    """A step that changes one number of a weight, as gradients of an embedding's rows do."""

    def change(layer):
        for parameter in layer.parameters():
            parameter.grad = torch.zeros_like(parameter)
            one(parameter.grad)
        optimizer(layer.parameters(), lr=0.5, **options).step()

    return change


def raw_fused_operator(layer):
    options = dict.fromkeys(("weight_decay", "momentum", "dampening"), 0.0)
    options |= dict.fromkeys(("nesterov", "maximize", "is_first_step"), False)
    gradients = [torch.ones_like(layer.weight)]
    torch._fused_sgd_([layer.weight], gradients, [], lr=0.5, **options)


def in_inference_mode(layer):
    with torch.inference_mode():
        one(layer.weight)


def set_data(layer):
    layer.weight.data = torch.randn(12, 16)


def at_the_same_address(layer):
    """Other memory, which mostly lies where memory was freed."""
    for _ in range(20):
        set_data(layer)
        no_grad(layer, torch.randn(20, 16))
        set_data(layer)


def as_fsdp_does(layer):
    """Memory that is freed between uses, and gathered again behind the back of autograd."""
    storage = layer.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    with torch.autograd._unsafe_preserve_version_counter(layer.weight):
        layer.weight.copy_(torch.randn(12, 16))


def swapping(change):
    """With the flag that makes ``to`` and ``load_state_dict`` swap tensors."""

    def changed(layer):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            change(layer)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    return changed


def load(layer, **options):
    layer.load_state_dict({name: 2 * p for name, p in layer.state_dict().items()}, **options)


def vector_to_parameters(layer):
    vector = torch.randn(12 * 16 + 12)
    torch.nn.utils.vector_to_parameters(vector, layer.parameters())
    no_grad(layer, torch.randn(20, 16))
    vector.mul_(2)


def aliases(layer):
    """Tensors of the same memory that count their versions apart."""
    alias = torch.nn.Parameter(layer.weight.data)
    torch.func.functional_call(layer, {"weight": alias}, torch.randn(20, 16))
    one(alias)


def parametrize(layer):
    torch.nn.utils.parametrizations.weight_norm(layer)
    no_grad(layer, torch.randn(20, 16))
    one(layer.parametrizations.weight.original0)


def then(told):
    """A change that nobody sees, and what tells of it."""
    return lambda layer: told(layer, one(layer.weight.data))


OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad")
# Ways to change a weight. Those that PyTorch does not tell of change more than a number.
CHANGES = {
    **{f"fused {n}": step_of(getattr(torch.optim, n), fused=True) for n in OPTIMIZERS},
    "foreach": step_of(torch.optim.Adam, foreach=True),
    "plain": step_of(torch.optim.Adam, foreach=False),
    "raw fused operator": raw_fused_operator,
    "foreach operator": lambda layer: torch._foreach_mul_([layer.weight.detach()], 2),
    "detached": lambda layer: one(layer.weight.detach()),
    "inference mode": in_inference_mode,
    "data": lambda layer: layer.weight.data.mul_(2),
    "a row of data": lambda layer: layer.weight.data[5].neg_(),
    "a column of data": lambda layer: layer.weight.data[:, 7].zero_(),
    "bias": lambda layer: one(layer.bias.data),
    "other data": set_data,
    "other data at an address": at_the_same_address,
    "other memory": lambda layer: layer.weight.set_(torch.randn(12, 16)),
    "storage": lambda layer: layer.weight.untyped_storage().fill_(1),
    "FSDP": as_fsdp_does,
    "NumPy": lambda layer: layer.weight.detach().numpy().fill(0.5),
    "DLPack": lambda layer: torch.from_dlpack(layer.weight.detach()).neg_(),
    "shared memory": lambda layer: layer.share_memory().weight.data.neg_(),
    "swap": lambda layer: torch.utils.swap_tensors(
        layer.weight, torch.nn.Parameter(torch.randn(12, 16))
    ),
    "swap by to": swapping(lambda layer: load(layer.double().float())),
    "swap by load": swapping(load),
    "load": load,
    "assign": lambda layer: load(layer, assign=True),
    "transposed": lambda layer: setattr(layer.weight, "data", torch.randn(16, 12).T),
    "vector": vector_to_parameters,
    "aliases": aliases,
    "another parameter": lambda layer: setattr(
        layer, "weight", torch.nn.Parameter(torch.randn(12, 16))
    ),
    "parametrization": parametrize,
    "refresh": then(lambda layer, _: heed.linear.refresh(layer)),
    "prepare": then(lambda layer, _: heed.linear.prepare(layer)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_computes_with_the_weight_as_it_is(name, fresh):
    """However it was changed; and the layer that it was copied from keeps its own."""
    layer, ours = prepared(16, 12)
    x = torch.randn(20, 16)
    before = no_grad(ours, x)
    assert_same(before, no_grad(layer, x), 16)
    pair = copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))
    calls = len(fresh)
    with torch.no_grad():
        CHANGES[name](ours)
    for _ in range(2):
        with torch.no_grad():
            out = ours(x)
            assert_same(out, F.linear(x, ours.weight, ours.bias), 64)
    assert (out - before).abs().max() > 0.1
    assert (len(fresh) > calls) == (name != "parametrization")
    for same in pair:
        assert_same(no_grad(same, x), before, 16)


def test_every_row_and_column_is_looked_at():
    for rows, columns in itertools.product(range(1, 50), repeat=2):
        looked_at = range(0, rows * columns, heed.linear._sample_step(rows, columns))
        assert len({i // columns for i in looked_at}) == rows
        assert len({i % columns for i in looked_at}) == columns


def test_tied_weights_change_together():
    _, first = prepared(16, 12)
    _, second = prepared(16, 12)
    second.weight = first.weight
    x = torch.randn(20, 16)
    no_grad(first, x), no_grad(second, x)
    step_of(torch.optim.SGD, fused=True)(first)
    for layer in (first, second):
        assert_same(no_grad(layer, x), F.linear(x, first.weight, layer.bias).detach(), 64)


def sparse(layer):
    layer.weight = torch.nn.Parameter(layer.weight.detach().to_sparse_csr())
    return layer


def one_bias(layer):
    layer.bias = torch.nn.Parameter(layer.bias.detach()[:1])
    return layer


def autocast(layer):
    with torch.autocast("cpu", torch.bfloat16):
        return no_grad(layer, torch.randn(20, 16))


LEFT_TO_PYTORCH = {
    "gradients": lambda layer: layer(torch.randn(20, 16)),
    "few_rows": lambda layer: no_grad(layer, torch.randn(7, 16)),
    "one_axis": lambda layer: no_grad(layer, torch.randn(16)),
    "float64": lambda layer: no_grad(layer.double(), torch.randn(20, 16).double()),
    "vmap": lambda layer: no_grad(torch.vmap(layer), torch.randn(3, 20, 16)),
    "sparse_weight": lambda layer: no_grad(sparse(layer), torch.randn(20, 16)),
    "sparse_rows": lambda layer: no_grad(layer, torch.eye(20, 16).to_sparse()),
    "forward_mode": lambda layer: tangent(layer.requires_grad_(False), torch.randn(20, 16)),
    "functional_call": lambda layer: no_grad(
        lambda x: torch.func.functional_call(layer, {"weight": 2 * layer.weight}, x),
        torch.randn(20, 16),
    ),
    "autocast": autocast,
    "one_bias_for_all": lambda layer: no_grad(one_bias(layer), torch.randn(20, 16)),
}


@pytest.mark.parametrize("name", LEFT_TO_PYTORCH)
def test_leaves_to_pytorch(name, fresh):
    results = []
    for layer in prepared(16, 12):
        torch.manual_seed(1)
        results.append(LEFT_TO_PYTORCH[name](layer))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert results[0].requires_grad == results[1].requires_grad
    assert not fresh


def test_wrong_features_are_refused_as_by_pytorch():
    _, ours = prepared(16, 12)
    with torch.no_grad(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ours(torch.randn(20, 15))


def test_on_and_off():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4)))
    names = list(model.state_dict())
    assert heed.linear.prepare(model) == 2
    assert heed.linear.prepare(model) == 0
    assert list(model.state_dict()) == names
    assert isinstance(model[0], torch.nn.Linear)
    assert heed.linear.prepare(model, False) == 2
    assert type(model[0]) is torch.nn.Linear
