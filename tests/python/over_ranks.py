"""heed.mpi over the ranks that mpirun starts, all of which run these tests in the same order.

test_mpi.py starts them. A rank that fails ends all others, which would wait for it. Numbers are
those of one process, whose functions other tests compare with definitions.
"""

import gc
import importlib.util
import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest
from cases import everything, mask, tensors
from kinds import assert_like, of_kinds
from mpi4py import MPI
from test_docstrings import OVER_RANKS, check_session, described

import heed
import heed.mpi

if importlib.util.find_spec("torch") is not None:
    import torch

    import heed.torch
    import heed.torch_mpi

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
LAST = RANKS - 1
# Options as the package reads them, and gradients that they have; tests of C have all over ranks.
OPTIONS = {
    "float_mask": (
        {"attn_mask": np.where(mask(2, 1, 5, 7), 0, -np.inf)}
        | {"score": "cosine", "score_weights": [1, 2, -1, 5]},
        ["bias", "score_weights", "scale", "temperature"],
    ),
    "dropout": (
        {"bias": np.random.default_rng(5).normal(size=(4, 1, 7)), "causal": "bottom_right"}
        | {"dropout": 0.4, "seed": (7, 3)},
        ["bias", "scale"],
    ),
    "everything": (everything(), ["bias", "sinks", "alibi_slopes", "scale", "temperature"]),
}
of_ranks_that_differ = pytest.mark.skipif(RANKS == 1, reason="of ranks that differ there are two")


@pytest.fixture(autouse=True)
def at_once():
    """Ranks begin and end a test together, so that no message of one can meet another's."""
    WORLD.Barrier()
    yield
    WORLD.Barrier()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def uneven(length):
    """The first rank has nothing, the last what others leave."""
    counts = [0] + [length // RANKS] * (RANKS - 1)
    counts[-1] += length - sum(counts)
    begin = sum(counts[:RANK])
    return np.arange(begin, begin + counts[RANK])


def dealt(length, seed):
    """In any order, on any rank."""
    random = np.random.default_rng(seed)
    owners = random.integers(0, RANKS, length)
    return random.permutation(np.flatnonzero(owners == RANK))


def placed(how):
    return lambda rows, keys: (
        how,
        heed.mpi.place(rows, placement=how),
        heed.mpi.place(keys, WORLD, how),
    )


# What is passed as placement, and the positions of queries and keys that this rank has.
SPLITS = {
    "contiguous": placed("contiguous"),
    "uneven": lambda rows, keys: ("contiguous", uneven(rows), uneven(keys)),
    "zigzag": placed("zigzag"),
    "dealt": lambda rows, keys: ((dealt(rows, 1), dealt(keys, 2)), dealt(rows, 1), dealt(keys, 2)),
    "everywhere": lambda rows, keys: ("contiguous", np.arange(rows), uneven(keys)),
}


def cut_as_named(name, x, rows, keys):
    """This rank's part of a tensor of this name; what has no axis of rows is everybody's."""
    if name in ("key", "value"):
        return x[..., keys, :]
    if name == "query" or (name in ("attn_mask", "bias") and x.ndim > 1 and x.shape[-2] > 1):
        return x[..., rows, :]
    return x


def split(problem, options, how):
    """This rank's part of a problem, its options, and the positions of its queries and keys."""
    query, key, value = problem
    placement, rows, keys = SPLITS[how](query.shape[-2], key.shape[-2])
    own = {n: cut_as_named(n, x, rows, keys) for n, x in options.items()}
    own["placement"] = placement
    if how == "everywhere":
        own["queries"] = how
    return [query[..., rows, :], key[..., keys, :], value[..., keys, :]], own, rows, keys


@pytest.mark.parametrize(
    ("name", "how", "more"),
    [(name, how, {}) for name in OPTIONS for how in SPLITS]
    + [("everything", "contiguous", {"head_ranks": n}) for n in (1, 2) if RANKS % n == 0],
)
def test_options_and_gradients(name, how, more):
    """Results and gradients, of the whole and of this rank's part."""
    problem, (options, wanted) = tensors(np.float64, key_heads=2), OPTIONS[name]
    part, own, rows, keys = split(problem, options, how)
    own.update(more)
    whole = heed.attention(*problem, return_lse=True, **options)
    mine = heed.mpi.attention(*part, return_lse=True, **own)
    close(mine.out, whole.out[..., rows, :])
    close(mine.lse, whole.lse[..., rows])
    random = np.random.default_rng(3)
    grad_out, grad_lse = random.normal(size=whole.out.shape), random.normal(size=whole.lse.shape)
    asked = {f"grad_{name}": True for name in wanted}
    given = {**asked, **options, "grad_lse": grad_lse}
    want = heed.attention_backward(*problem, whole.out, whole.lse, grad_out, **given)
    given = {**asked, **own, "grad_lse": grad_lse[..., rows]}
    found = heed.mpi.attention_backward(*part, *mine[:2], grad_out[..., rows, :], **given)
    for name, of_whole in want._asdict().items():
        of_part = getattr(found, name)
        assert (of_part is None) == (of_whole is None)
        if of_whole is not None:
            close(of_part, cut_as_named(name, of_whole, rows, keys))


@of_kinds
def test_every_kind_of_array(kind):
    part = split([kind.needed().make(x) for x in tensors(key_heads=2)], {}, "contiguous")[0]
    found = heed.mpi.attention(*part, return_lse=True)
    assert_like(kind, found.out, part[0])
    gradients = heed.mpi.attention_backward(*part, found.out, found.lse, found.out)
    for of, gradient in zip(part, gradients, strict=False):
        assert_like(kind, gradient, of)
        assert gradient.shape == of.shape


def test_one_rank_has_the_bits_of_one_process():
    """What is asked of a context holds in the library's engine, too."""
    q, k, v = tensors(rows=50, keys=60)
    bits = set()
    for isa in [name for name, isa in heed.info()["isas"].items() if isa["usable"]]:
        context = heed.Context(isa=isa, threads=2)
        want = heed.attention(q, k, v, context=context)
        got = heed.mpi.attention(q, k, v, comm=MPI.COMM_SELF, context=context)
        assert np.array_equal(got, want), isa
        bits.add(want.tobytes())
    assert len(bits) > 1 or len(heed.info()["isas"]) == 1


class TestPlan:
    def test_calls(self):
        whole = tensors(np.float64, rows=9, keys=9)
        part, own, rows, _ = split(whole, {}, "zigzag")
        with heed.mpi.plan(*part, **own, causal=True, sinks=[0.0] * 4) as plan:
            assert plan.times() == {"run": 0.0, "compute": 0.0, "wait": 0.0}
            for sinks in ([0.5] * 4, [-1.0, 1.0, 2.0, 3.0]):
                want = heed.attention(*whole, causal=True, sinks=sinks)[:, :, rows]
                close(plan(*part, sinks=sinks), want)
            out = np.zeros((2, 4, len(rows), 8))
            assert plan(*part, sinks=sinks, out=out) is out
            close(out, want)
            said, times = plan.describe(), plan.times()
            assert (said["strategy"], said["rank"], said["ranks"]) == ("ring", RANK, RANKS) or (
                said["strategy"] in ("heads", "grid") and said["head_ranks"] > 1
            )
            assert times["run"] >= times["compute"] + times["wait"] > 0
            assert (said["bytes"] > 0) == (RANKS > 1)
            chosen = [c["head_ranks"] for c in plan.choices() if c["chosen"]]
            assert chosen == [said["head_ranks"]]
        with pytest.raises(heed.ArgumentError, match="rank 0: the plan has been freed"):
            plan(*part, sinks=sinks)
        with pytest.raises(heed.ArgumentError, match="the plan has been freed"):
            plan.describe()
        plan.free()

    def test_what_calls_must_be_like(self):
        q, k, v = tensors(np.float64, rows=9, keys=9)
        plan = heed.mpi.plan(q, k, v, key_lengths=[9, 9])
        for change, kind, message in (
            ({"query": q[:, :, 1:]}, heed.ArgumentError, r"query is .*; the plan was"),
            ({"sinks": [0.0] * 4}, TypeError, "sinks is given, but the plan was made"),
            ({"causal": True}, TypeError, "causal is the plan's: give it to heed.mpi.plan"),
            ({"key_lengths": None}, TypeError, "the plan was made with key_lengths: give it"),
            ({"key_lengths": [1]}, heed.ArgumentError, "key_lengths has 1 numbers; it must"),
        ):
            given = {"query": q, "key": k, "value": v, "key_lengths": [9, 9]}
            with pytest.raises(kind, match=f"rank {LAST}: {message}"):
                plan(**{**given, **(change if RANK == LAST else {})})
        assert np.isfinite(plan(q, k, v, key_lengths=[9, 9])).all()

    def test_dropped(self):
        q, k, v = tensors(np.float64, rows=3, keys=3)
        for _ in range(3):
            heed.mpi.plan(q, k, v)(q, k, v)
            gc.collect()


def test_parts_of_the_world():
    """Ranks of a communicator are its own."""
    comm = WORLD.Split(RANK % 2, -RANK)
    length = 3 * comm.size
    q, k, v = tensors(np.float64, rows=length, keys=length)
    rows = heed.mpi.place(length, comm)
    out = heed.mpi.attention(*(x[:, :, rows] for x in (q, k, v)), comm=comm, causal=True)
    close(out, heed.attention(q, k, v, causal=True)[:, :, rows])
    sources, destinations, *_ = edges()
    mine = slice(comm.rank, None, comm.size)
    graph = heed.mpi.Graph(sources[mine], destinations[mine], nodes=NODES, comm=comm)
    assert sorted(np.concatenate(comm.allgather(graph.nodes()))) == list(range(NODES))
    graph.free()
    comm.Free()


F32 = np.float32
Q, K, V = tensors(np.float64, rows=4, keys=6)
ALL = {"query": Q, "key": K, "value": V}


def right(name):
    """What is called, and with what; made by all ranks together."""
    given = dict(ALL)
    if name == "attention":
        return heed.mpi.attention, given
    if name == "attention_backward":
        out, lse, *_ = heed.mpi.attention(Q, K, V, return_lse=True)
        return heed.mpi.attention_backward, {**given, "out": out, "lse": lse, "grad_out": out}
    if name == "Graph":
        return heed.mpi.Graph, {"sources": [0], "destinations": [1], "nodes": 2}
    if name == "graph_attention":
        graph = heed.mpi.Graph([0], [0], nodes=1) if RANK == 0 else heed.mpi.Graph(nodes=1)
        x = np.ones((len(graph.nodes()), 4), np.float32)
        matrices = dict.fromkeys(("w_query", "w_key", "w_value"), np.eye(4, dtype=np.float32))
        return heed.mpi.graph_attention, {"graph": graph, "data": x, "heads": 1, **matrices}
    pytest.importorskip("torch")
    return heed.torch_mpi.attention, {
        name: torch.from_numpy(x).requires_grad_() for name, x in given.items()
    }


def prepared():
    return heed.Weights(np.eye(4, dtype=np.float32))


def requiring(*shape):
    return torch.zeros(shape, requires_grad=True)


def plain():
    return requiring(*Q.shape).double().detach()


TWO_BIASES = dict.fromkeys(("attn_mask", "bias"), lambda: requiring(4, 6))
# What the last rank does otherwise, and what all are told.
REFUSED = {
    heed.ArgumentError: [
        ("attention", dict(key=K[..., :7]), r"query is float64 .* their features, 8 and 7"),
        ("attention", dict(placement="zig"), "placement is 'zig'; it must be \"contiguous\" or"),
        ("attention", dict(placement=(1, 2, 3)), "placement has 3 entries; as a tuple it must"),
        ("attention", dict(queries="here"), 'queries is \'here\'; it must be "split" or "every'),
        ("attention", dict(head_ranks=0), "head_ranks is 0; it must be at least 1, or None"),
        ("attention", dict(flops_per_byte=-1), "flops_per_byte is -1; it must be finite and"),
        ("attention", dict(cu_seqlens_q=[0, 4]), "cu_seqlens_q is given without cu_seqlens_k"),
        ("attention", dict(cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 6]), "query is .*, a batch of 2"),
        ("attention_backward", dict(lse=np.zeros(3)), "lse has shape"),
        ("attention_backward", dict(grad_bias=True), "grad_bias is (wanted, but|True; on rank)"),
        ("Graph", dict(sources=[23]), r"sources\[0\] is 23; it must be"),
        ("Graph", dict(nodes=None), "nodes is None; without a path it must be"),
        ("Graph", dict(path="x"), "sources and destinations are given beside path"),
        ("Graph", dict(owners=[0]), "owners has 1 numbers; it must have one for"),
        ("graph_attention", dict(data=np.ones((7, 4))), "data is .*must have a row for"),
    ],
    TypeError: [
        ("attention", dict(query="words"), "query must be an array"),
        ("attention", dict(is_causal=1), r"'is_causal'; did you mean causal\?"),
        ("attention", dict(context=3), "context must be a heed.Context, not int"),
        ("attention_backward", dict(return_lse=True), "unexpected keyword argument 'return_lse'"),
        ("torch", dict(key=K), "key must be a torch.Tensor, not ndarray"),
    ],
    heed.UnsupportedError: [
        ("attention", dict(hard=True), "hard is given, which is not supported over ranks"),
        ("attention", dict(dropout_origin=[0] * 4), "dropout_origin is given, which is not"),
        ("graph_attention", dict(w_key=prepared), "w_key is heed.Weights"),
        ("graph_attention", dict(dropout_edges=[0]), "dropout_edges is given, which is not supp"),
        ("graph_attention", dict(data=lambda: requiring(0, 4)), "data requires gradients, which"),
        ("torch", TWO_BIASES, "attn_mask requires gradients and bias is"),
    ],
}
# Of what must be the same on all ranks, where there must be two.
DIFFERENT = [
    ("attention", dict(scale=2.0), "scale is 2; on rank 0 it is "),
    ("attention", dict(causal=True), "causal is top_left; on rank 0 it is None, and must be the"),
    ("attention", dict(alignment=1), "alignment is 1; on rank 0 it is None, and must be the same"),
    ("attention", dict(placement="zigzag"), "placement is zigzag; on rank 0 it is contiguous, and"),
    ("attention", {n: x[:, :2] for n, x in ALL.items()}, "the heads of query is 2; on rank 0 it"),
    ("attention", dict(queries="everywhere"), "queries is everywhere; on rank 0 it is split, and"),
    ("attention", dict(sinks=[0.0] * 4), "sinks is given; on rank 0 it is not, and must be too"),
    ("attention", {n: F32(x) for n, x in ALL.items()}, "query is float32; on rank 0 it is float64"),
    ("torch", dict(query=plain), "query.requires_grad is False; on rank 0 it is True"),
]


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [(kind, *row) for kind, rows in REFUSED.items() for row in rows]
    + [pytest.param(heed.ArgumentError, *row, marks=of_ranks_that_differ) for row in DIFFERENT],
)
def test_refused_on_one_rank(kind, name, change, message):
    function, given = right(name)
    if RANK == LAST:
        given.update({n: x() if inspect.isfunction(x) else x for n, x in change.items()})
    with pytest.raises(kind, match=rf"^rank {LAST}: .*{message}|^rank {LAST}: {message}") as raised:
        function(**given)
    assert len(set(WORLD.allgather(str(raised.value)))) == 1


ON_ALL = [
    (dict(ALL, placement=np.arange(4)), heed.ArgumentError, "rank 0: placement has 4 positions; k"),
    (dict(ALL, head_ranks=3), heed.ArgumentError, "head_ranks is 3; it must divide"),
    (
        dict(ALL, attn_mask=np.ones((4, 5), bool)),
        heed.ArgumentError,
        "attn_mask has shape .* broad",
    ),
    (dict(ALL, comm=3), TypeError, r"comm must be an mpi4py\.MPI\.Intracomm, not int"),
    (dict(ALL, comm=MPI.COMM_NULL), heed.ArgumentError, r"comm is MPI\.COMM_NULL"),
    (dict(length=-1), heed.ArgumentError, "length is -1; it must be 0 to"),
    (dict(length=9.5), TypeError, "length must be an int, not float"),
    (dict(length=3, placement="here"), heed.ArgumentError, "placement is 'here'; it must be"),
]


@pytest.mark.parametrize(("given", "kind", "message"), ON_ALL)
def test_refused_on_all(given, kind, message):
    function = heed.mpi.attention if "query" in given else heed.mpi.place
    with pytest.raises(kind, match=message):
        function(**given)


class Interrupted:
    def __dlpack__(self, **_):
        raise KeyboardInterrupt


def test_an_interrupt_of_one_rank_ends_the_call_on_all():
    words = f"^rank {LAST}: KeyboardInterrupt$"
    with pytest.raises(
        (KeyboardInterrupt, heed.Error), match=None if RANK == LAST else words
    ) as one:
        heed.mpi.attention(Interrupted() if RANK == LAST else Q, K, V)
    assert isinstance(one.value, KeyboardInterrupt) == (RANK == LAST)


def test_every_option_is_documented():
    functions = heed.mpi.attention_backward, heed.mpi.graph_attention
    for function in (heed.mpi.attention, heed.mpi.plan, heed.mpi.place, *functions):
        assert set(inspect.signature(function).parameters) <= described(function)
    header = (Path(__file__).parents[2] / "api" / "heed_mpi.h").read_text()
    public = [getattr(heed.mpi, name) for name in heed.mpi.__all__]
    methods = {"free", "describe", "choices", "times", "nodes", "edges"}
    for kind in (heed.mpi.Plan, heed.mpi.Graph):
        public += [getattr(kind, name) for name in methods & {*dir(kind)}]
    for function in filter(inspect.isroutine, public):
        assert "In C: heed_mpi_" in inspect.getdoc(function) or function is heed.mpi.library
        for name in re.findall(r"heed_\w+", inspect.getdoc(function).partition("In C:")[2]):
            assert re.search(rf"\b{name}\b", header), name


@pytest.mark.parametrize("length", [0, 7, 77])
@pytest.mark.parametrize("placement", ["contiguous", "zigzag"])
def test_places(length, placement):
    all_rows = WORLD.allgather(heed.mpi.place(length, WORLD, placement))
    assert all(rows.dtype == np.int64 for rows in all_rows)
    assert sorted(np.concatenate(all_rows)) == list(range(length))


def test_the_library_is_the_one_of_this_mpi():
    found = heed.mpi.library()
    assert found.mpi == MPI.Get_library_version().rstrip("\0")
    assert os.environ.get("HEED_MPI_LIBRARY", found.path) == found.path


def test_the_readme():
    assert OVER_RANKS
    for session in OVER_RANKS:
        if "torch" not in session or importlib.util.find_spec("torch") is not None:
            check_session(session)


# Sequences of a packed batch, one without queries, and keys that count.
BEGINS_Q, BEGINS_K, LENGTHS = [0, 9, 9, 30, 41], [0, 12, 17, 30, 44], [7, 0, 13, 5]
OFFSETS = {"cu_seqlens_q": BEGINS_Q, "cu_seqlens_k": BEGINS_K, "causal": True}


def test_packed_batches():
    """Planned, and their gradients."""
    problem = [x[0] for x in tensors(np.float64, rows=BEGINS_Q[-1], keys=BEGINS_K[-1])]
    together = [np.moveaxis(x, 0, 1) for x in problem]
    part, own, rows, keys = split(problem, OFFSETS, "dealt")
    with heed.mpi.plan(*part, key_lengths=LENGTHS, return_lse=True, **own) as plan:
        for lengths in (LENGTHS, [1, 5, 2, 14]):
            options = {**OFFSETS, "key_lengths": lengths}
            want = heed.attention(*together, **options, return_lse=True)
            mine = plan(*part, key_lengths=lengths)
            close(mine.out, np.moveaxis(want.out, 1, 0)[:, rows])
            close(mine.lse, want.lse[:, rows])
    whole = heed.attention_backward(*together, want.out, want.lse, want.out, **options)
    found = heed.mpi.attention_backward(*part, *mine, mine.out, **{**own, "key_lengths": lengths})
    for name, of_part in list(found._asdict().items())[:3]:
        close(of_part, cut_as_named(name, np.moveaxis(getattr(whole, name), 1, 0), rows, keys))


def test_gradients_that_are_added():
    part, own, *_ = split(tensors(np.float64, rows=9, keys=9), {"causal": True}, "zigzag")
    out, lse, *_ = heed.mpi.attention(*part, return_lse=True, **own)
    once = heed.mpi.attention_backward(*part, out, lse, out, grad_key=False, **own)
    assert once.key is None
    into = np.ones_like(once.value)
    twice = heed.mpi.attention_backward(
        *part, out, lse, out, grad_query=False, grad_value=into, accumulate=True, **own
    )
    assert twice.value is into
    close(into, once.value + 1)
    nothing = dict.fromkeys(("grad_query", "grad_key", "grad_value"), False)
    assert set(heed.mpi.attention_backward(*part, out, lse, out, **nothing, **own)) == {None}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
class TestTorch:
    """A step of training over ranks; one process is heed.torch's own autograd."""

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    @pytest.mark.parametrize("how", ["zigzag", "dealt", "everywhere"])
    @pytest.mark.parametrize(
        "also", [{}, {"sinks": (6,)}, {"bias": (1, 6, 23, 23)}, {"attn_mask": (1, 6, 23, 23)}]
    )
    def test_against_one_process(self, also, how, dtype):
        drops = {"dropout": 0.3, "seed": torch.tensor(4)} if not also else {}
        random = torch.Generator().manual_seed(6)

        def drawn(*shape):
            return torch.randn(*shape, generator=random, dtype=getattr(torch, dtype))

        shapes = dict.fromkeys(("query", "key", "value"), (2, 6, 23, 8))
        whole = {n: drawn(*x).requires_grad_() for n, x in {**shapes, **also}.items()}
        want = heed.torch.attention(**whole, causal=True, **drops)
        weights = [drawn(*x.shape) for x in want]
        torch.autograd.backward(want, weights)
        own, rows, keys = split([whole[n].detach().numpy() for n in shapes], {}, how)[1:]
        if how == "dealt":
            own["placement"], rows = keys, keys

        def mine(name, x):
            return cut_as_named(name, x.detach(), rows, keys).clone()

        part = {n: mine(n, x).requires_grad_() for n, x in whole.items()}
        found = heed.torch_mpi.attention(**part, causal=True, **drops, **own)
        torch.autograd.backward(found, [x[:, :, rows] for x in weights])
        pairs = [
            (ours.detach(), x[:, :, rows].detach()) for ours, x in zip(found, want, strict=True)
        ]
        pairs += [(x.grad, mine(n, whole[n].grad)) for n, x in part.items()]
        for ours, theirs in pairs:
            atol = 1e4 * torch.finfo(ours.dtype).eps
            torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)

    def tensors(self):
        return [torch.from_numpy(x).clone().requires_grad_() for x in (K, K, V)]

    @pytest.mark.parametrize("loss", [lambda out, lse: out.sum() + lse.sum(), lambda _, x: x.sum()])
    def test_only_what_is_wanted(self, loss):
        q, k, v = self.tensors()
        loss(*heed.torch_mpi.attention(q.detach(), k, v.detach())).backward()
        assert q.grad is None
        assert v.grad is None
        assert k.grad.abs().sum() > 0
        with torch.no_grad():
            assert not heed.torch_mpi.attention(q, k, v)[0].requires_grad

    def test_no_second_derivative(self):
        q, k, v = self.tensors()
        out, _ = heed.torch_mpi.attention(q, k, v)
        grads = torch.autograd.grad(out.sum(), (q, k, v), create_graph=True)
        with pytest.raises(heed.UnsupportedError, match="gradients of .* over ranks have no deriv"):
            grads[0].sum().backward()


NODES = 23


def edges():
    """All of them, and the share that this rank brings."""
    random = np.random.default_rng(8)
    sources, destinations = random.integers(0, NODES, (2, 120))
    return sources, destinations, sources[RANK::RANKS], destinations[RANK::RANKS]


class TestGraphs:
    @pytest.mark.parametrize("owned", [False, True])
    @pytest.mark.parametrize("duplicates", ["remove", "keep"])
    def test_rows(self, owned, duplicates):
        sources, destinations, *own = edges()
        # In the order in which ranks have brought edges.
        order = np.concatenate([np.arange(120)[rank::RANKS] for rank in range(RANKS)])
        whole = heed.Graph(sources[order], destinations[order], nodes=NODES, duplicates=duplicates)
        random = np.random.default_rng(1)
        q, k, v = random.normal(size=(3, NODES, 2, 8)).astype(np.float32)
        bias = random.normal(size=(len(sources), 2)).astype(np.float32)
        asked = {"return_lse": True, "return_weights": True, "dropout": 0.3, "seed": 5}
        want = heed.graph_attention(whole, q, k, v, edge_bias=bias, **asked)
        owners = np.random.default_rng(9).integers(0, RANKS, NODES).astype(np.int32)
        given = {"owners": owners} if owned else {}
        with heed.mpi.Graph(*own, nodes=NODES, duplicates=duplicates, **given) as graph:
            rows, (of, to, place) = graph.nodes(), graph.edges()
            assert np.array_equal(of, sources[order][place])
            assert np.array_equal(to, destinations[order][place])
            assert set(to) <= set(rows)
            if owned:
                assert np.array_equal(rows, np.flatnonzero(owners == RANK))
            found = heed.mpi.graph_attention(
                graph, q[rows], k[rows], v[rows], edge_bias=bias[place], **asked
            )
            assert np.array_equal(found.out, want.out[rows])
            assert np.array_equal(found.lse, want.lse[rows])
            assert np.array_equal(found.weights, want.weights[place])
            said = graph.describe()
            assert (said["nodes"], said["own_nodes"]) == (NODES, len(rows))
            assert said["edges"] == whole.describe()["edges"]
        with pytest.raises(heed.ArgumentError, match="rank 0: the graph has been freed"):
            heed.mpi.graph_attention(graph, q, k, v)

    def test_files_and_steps(self, tmp_path):
        sources, destinations, *_ = edges()
        path = WORLD.bcast(tmp_path / "edges.txt")
        if RANK == 0:
            pairs = zip(sources, destinations, strict=True)
            path.write_text("".join(f"{m} {n}\n" for m, n in pairs))
        WORLD.Barrier()
        random = np.random.default_rng(2)
        data = random.normal(size=(NODES, 6))
        options = {f"w_{name}": random.normal(size=(6, 6)) for name in ("query", "key", "value")}
        options |= {"heads": 2, "steps": 3, "residual": True, "dropout": 0.2, "seed": (1, 2)}
        whole = heed.Graph(sources, destinations, nodes=NODES)
        want = heed.graph_attention(whole, data=data, **options)
        graph = heed.mpi.Graph(path=path, nodes=NODES)
        rows = graph.nodes()
        out = np.zeros((len(rows), 6))
        assert heed.mpi.graph_attention(graph, data=data[rows], out=out, **options) is out
        assert np.array_equal(out, want[rows])
        context = heed.Context(threads=2)
        again = heed.mpi.graph_attention(graph, data=data[rows], context=context, **options)
        assert np.array_equal(again, out)
