"""heed.mpi over the ranks that mpirun starts, all of which run these tests in the same order.

test_mpi.py starts them. A rank that fails ends all others, which would wait for it.
"""

import gc
import importlib.util
import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest
from cases import CASES, Make, mask
from kinds import KINDS, assert_close, assert_like, lse_unit, needed, params
from mpi4py import MPI
from test_attention import expected_arrays, made
from test_readme import OVER_RANKS, check_session

import heed
import heed.mpi

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
LAST = RANKS - 1
NOT_OVER_RANKS = re.compile("hard|packed|paged|score_function|key_lengths_int64")
SUPPORTED = [name for name in CASES if not NOT_OVER_RANKS.match(name)]


@pytest.fixture(autouse=True)
def at_once():
    """Ranks begin and end a test together, so that no message of one can meet another's."""
    WORLD.Barrier()
    yield
    WORLD.Barrier()


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


# What is passed as placement, and the positions of queries and keys that this rank has.
SPLITS = {
    "contiguous": lambda rows, keys: (
        "contiguous",
        heed.mpi.place(rows),
        heed.mpi.place(keys, WORLD),
    ),
    "uneven": lambda rows, keys: ("contiguous", uneven(rows), uneven(keys)),
    "zigzag": lambda rows, keys: (
        "zigzag",
        heed.mpi.place(rows, placement="zigzag"),
        heed.mpi.place(keys, WORLD, "zigzag"),
    ),
    "dealt": lambda rows, keys: ((dealt(rows, 1), dealt(keys, 2)), dealt(rows, 1), dealt(keys, 2)),
}


def rows_of_mask(given, rows, length):
    if given.ndim < 2 or given.shape[-2] != length or length == 1:
        return given
    return given[..., rows, :]


def split(tensors, options, how):
    """This rank's part of a problem, and the positions of its queries."""
    query, key, value = tensors
    placement, rows, keys = SPLITS[how](query.shape[-2], key.shape[-2])
    part = [query[..., rows, :], key[..., keys, :], value[..., keys, :]]
    own = dict(options)
    for name in ("attn_mask", "bias"):
        if name in own:
            own[name] = rows_of_mask(own[name], rows, query.shape[-2])
    return part, {**own, "placement": placement}, rows


def check(kind, name, how, **more):
    tensors, options, seen, seen_options = made(kind, name)
    part, own, rows = split(tensors, options, how)
    found = heed.mpi.attention(*part, return_lse=True, **own, **more)
    out, lse, _ = expected_arrays(seen, seen_options)
    assert_like(kind, found.out, tensors[0])
    what = f"rank {RANK} of {RANKS}, {name}, {how}"
    assert_close(kind.back(found.out), out[..., rows, :], kind.unit, what)
    assert_close(np.asarray(found.lse), lse[..., rows], lse_unit(kind), what)


@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("name", SUPPORTED)
def test_every_option(name, how):
    check(KINDS[0], name, how)


@pytest.mark.parametrize("kind", params(KINDS[1:]))
@pytest.mark.parametrize("name", ["grouped", "everything"])
def test_every_kind_of_array(kind, name):
    check(needed(kind), name, "zigzag")


@pytest.mark.parametrize("name", ["plain", "causal", "alibi", "three_axes"])
def test_heads(name):
    """All key heads but those of a rank are computed elsewhere."""
    for ranks in {n for n in range(1, RANKS + 1) if RANKS % n == 0 and 4 % n == 0}:
        if name != "three_axes" or ranks in (1, 2):  # which has two key heads
            check(KINDS[0], name, "contiguous", head_ranks=ranks)


def test_queries_everywhere():
    q, k, v = Make(rows=1, keys=70, key_heads=2).tensors()
    _, own, keys = SPLITS["uneven"](1, 70)
    del own
    want = heed.attention(q, k, v, causal="bottom_right", sinks=[0.5] * 4, return_lse=True)
    for placement, keys in (("contiguous", uneven(70)), (dealt(70, 3), dealt(70, 3))):
        out, lse, *_ = heed.mpi.attention(
            q,
            k[:, :, keys],
            v[:, :, keys],
            queries="everywhere",
            placement=placement,
            causal="bottom_right",
            sinks=[0.5] * 4,
            return_lse=True,
        )
        np.testing.assert_allclose(out, want.out, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(lse, want.lse, rtol=1e-13, atol=1e-13)
        assert all(np.array_equal(out, other) for other in WORLD.allgather(out))


def test_one_rank_has_the_bits_of_one_process():
    """What is asked of a context holds in the library's engine, too."""
    q, k, v = (x.astype(np.float32) for x in Make(rows=50, keys=60).tensors())
    bits = set()
    for isa in [name for name, isa in heed.info()["isas"].items() if isa["usable"]]:
        context = heed.Context(isa=isa, threads=2)
        want = heed.attention(q, k, v, context=context)
        got = heed.mpi.attention(q, k, v, comm=MPI.COMM_SELF, context=context)
        assert np.array_equal(got, want), isa
        bits.add(want.tobytes())
    assert len(bits) > 1 or len(heed.info()["isas"]) == 1


def test_bits_do_not_depend_on_threads():
    q, k, v = (x.astype(np.float32) for x in Make(rows=200, keys=200).tensors())
    one, two = (
        heed.mpi.attention(q, k, v, causal=True, context=heed.Context(threads=n)) for n in (1, 2)
    )
    assert np.array_equal(one, two)


class TestPlan:
    def test_calls(self):
        q, k, v = Make(rows=9, keys=9).tensors()
        rows = heed.mpi.place(9, placement="zigzag")
        part = [x[:, :, rows] for x in (q, k, v)]
        with heed.mpi.plan(*part, placement="zigzag", causal=True, sinks=[0.0] * 4) as plan:
            assert plan.times() == {"run": 0.0, "compute": 0.0, "wait": 0.0}
            for sinks in ([0.5] * 4, [-1.0, 1.0, 2.0, 3.0]):
                want = heed.attention(q, k, v, causal=True, sinks=sinks)
                np.testing.assert_allclose(
                    plan(*part, sinks=sinks), want[:, :, rows], rtol=1e-13, atol=1e-13
                )
            out = np.zeros((2, 4, len(rows), 8))
            assert plan(*part, sinks=sinks, out=out) is out
            np.testing.assert_allclose(out, want[:, :, rows], rtol=1e-13, atol=1e-13)
            said, times = plan.describe(), plan.times()
            assert (said["strategy"], said["rank"], said["ranks"]) == ("ring", RANK, RANKS) or (
                said["strategy"] in ("heads", "grid") and said["head_ranks"] > 1
            )
            assert times["run"] >= times["compute"] + times["wait"] > 0
            assert (said["bytes"] > 0) == (RANKS > 1)
            choices = plan.choices()
            assert [c["head_ranks"] for c in choices if c["chosen"]] == [said["head_ranks"]]
            assert min(c["cost"] for c in choices) == next(
                c["cost"] for c in choices if c["chosen"]
            )
        with pytest.raises(heed.ArgumentError, match="rank 0: the plan has been freed"):
            plan(*part, sinks=sinks)
        with pytest.raises(heed.ArgumentError, match="the plan has been freed"):
            plan.describe()
        plan.free()

    def test_what_calls_must_be_like(self):
        q, k, v = Make(rows=9, keys=9).tensors()
        plan = heed.mpi.plan(q, k, v)
        short = q if RANK != LAST else q[:, :, 1:]
        with pytest.raises(heed.ArgumentError, match=rf"rank {LAST}: query is .*; the plan was"):
            plan(short, k, v)
        sinks = {} if RANK != LAST else {"sinks": [0.0] * 4}
        with pytest.raises(TypeError, match=f"rank {LAST}: sinks is given, but the plan was made"):
            plan(q, k, v, **sinks)
        causal = {} if RANK != LAST else {"causal": True}
        with pytest.raises(TypeError, match="causal is the plan's: give it to heed.mpi.plan"):
            plan(q, k, v, **causal)
        assert np.isfinite(plan(q, k, v)).all()

    def test_dropped(self):
        q, k, v = Make(rows=3, keys=3).tensors()
        for _ in range(3):
            heed.mpi.plan(q, k, v)(q, k, v)
            gc.collect()


def of_part_of_the_world():
    """Ranks of a communicator are its own."""
    comm = WORLD.Split(RANK % 2, -RANK)
    length = 3 * comm.size
    q, k, v = Make(rows=length, keys=length).tensors()
    rows = heed.mpi.place(length, comm)
    out = heed.mpi.attention(*(x[:, :, rows] for x in (q, k, v)), comm=comm, causal=True)
    want = heed.attention(q, k, v, causal=True)
    np.testing.assert_allclose(out, want[:, :, rows], rtol=1e-13, atol=1e-13)
    comm.Free()


def test_communicators():
    of_part_of_the_world()
    with pytest.raises(TypeError, match="length must be an int, not float"):
        heed.mpi.place(9.5)


Q, K, V = Make(rows=4, keys=6).tensors()

# What the last rank does otherwise, and what all are told; of what must be the same on all ranks
# there must be two.
REFUSED = [
    (dict(query="words"), TypeError, "query must be an array"),
    (dict(key=K[..., :7]), heed.ArgumentError, r"query is float64 .* their features, 8 and 7"),
    (dict(key=K.astype(np.int8)), heed.ArgumentError, "query is float64 but key is int8"),
    (dict(placement="zig"), heed.ArgumentError, "placement is 'zig'; it must be \"contiguous\" or"),
    (dict(placement=(1, 2, 3)), heed.ArgumentError, "placement has 3 entries; as a tuple it must"),
    (dict(queries="here"), heed.ArgumentError, 'queries is \'here\'; it must be "split" or "every'),
    (dict(colour=1), TypeError, "got an unexpected keyword argument 'colour'"),
    (dict(is_causal=1), TypeError, r"'is_causal'; did you mean causal\?"),
    (dict(head_ranks=0), heed.ArgumentError, "head_ranks is 0; it must be at least 1, or None"),
    (dict(head_ranks=1.5), TypeError, "head_ranks must be an int, not float"),
    (dict(flops_per_byte=-1), heed.ArgumentError, "flops_per_byte is -1; it must be finite and"),
    (dict(context=3), TypeError, "context must be a heed.Context, not int"),
    (dict(scale=0), heed.ArgumentError, "scale is 0; for weights that no score changes"),
    (dict(out=np.zeros(3)), heed.ArgumentError, r"out has shape \[3\]; the result has"),
    (
        dict(attn_mask=np.ones((4, 5), bool)),
        heed.ArgumentError,
        "attn_mask is given; on rank 0 it is not, and must be too|attn_mask has shape",
    ),
    (dict(hard=True), heed.UnsupportedError, "hard is given, which is not supported over ranks"),
    (
        dict(return_weights=True),
        heed.UnsupportedError,
        "return_weights is given, which is not supported over ranks",
    ),
    (dict(max_seqlen_q=4), heed.UnsupportedError, "max_seqlen_q is given, which is not supported"),
    (dict(cu_seqlens_q=[0, 4]), heed.ArgumentError, "cu_seqlens_q is given without cu_seqlens_k"),
    (
        dict(cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 3, 6]),
        heed.ArgumentError,
        "cu_seqlens_k is for 2 sequences, but cu_seqlens_q for 1",
    ),
    (dict(cu_seqlens_q=[0], cu_seqlens_k=[0]), heed.ArgumentError, "cu_seqlens_q has 1 numbers; o"),
    (
        dict(cu_seqlens_q=[0, 4], cu_seqlens_k=[0, 6]),
        heed.ArgumentError,
        "query is .*, a batch of 2; with cu_seqlens_q it must be of 1",
    ),
]
DIFFERENT = [
    (dict(scale=2.0), "scale is 2; on rank 0 it is "),
    (dict(causal=True), "causal is top_left; on rank 0 it is None, and must be the same"),
    (dict(causal=0), "causal is 0; on rank 0 it is None, and must be the same"),
    (dict(alignment=1), "alignment is 1; on rank 0 it is None, and must be the same"),
    (dict(queries="everywhere"), "queries is everywhere; on rank 0 it is split, and must be"),
    (dict(placement="zigzag"), "placement is zigzag; on rank 0 it is contiguous, and must be"),
    (dict(sinks=[0.0] * 4), "sinks is given; on rank 0 it is not, and must be too"),
    (dict(query=Q[:, :2], key=K[:, :2], value=V[:, :2]), "the heads of query is 2; on rank 0 it"),
    (
        {n: x.astype(np.float32) for n, x in (("query", Q), ("key", K), ("value", V))},
        "query is float32; on rank 0 it is float64, and must be the same",
    ),
]


def refused(kind, message, change):
    given = {"query": Q, "key": K, "value": V, "causal": False, **(change if RANK == LAST else {})}
    with pytest.raises(kind, match=rf"^rank {LAST}: .*{message}|^rank {LAST}: {message}") as raised:
        heed.mpi.attention(**given)
    assert len(set(WORLD.allgather(str(raised.value)))) == 1


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused_on_one_rank(case):
    change, kind, message = REFUSED[case]
    refused(kind, message, change)


@pytest.mark.skipif(RANKS == 1, reason="of ranks that differ there are two")
@pytest.mark.parametrize("case", range(len(DIFFERENT)))
def test_refused_where_ranks_differ(case):
    change, message = DIFFERENT[case]
    refused(heed.ArgumentError, message, change)


def test_refused_on_all():
    rows = np.arange(4)
    with pytest.raises(heed.ArgumentError, match="rank 0: placement has 4 positions; key has 6 ro"):
        heed.mpi.attention(Q, K, V, placement=rows)
    with pytest.raises(heed.ArgumentError, match="head_ranks is 3; it must divide"):
        heed.mpi.attention(Q, K, V, head_ranks=3)
    with pytest.raises(
        heed.ArgumentError, match=r"attn_mask has shape \[4, 5\]; it must broadcast"
    ):
        heed.mpi.attention(Q, K, V, attn_mask=np.ones((4, 5), bool))
    with pytest.raises(heed.ArgumentError, match="key is .*, value is .*: their rows, 6 and 5"):
        heed.mpi.attention(Q, K, V[:, :, :5])
    with pytest.raises(TypeError, match=r"comm must be an mpi4py\.MPI\.Intracomm, not int"):
        heed.mpi.attention(Q, K, V, comm=3)
    with pytest.raises(heed.ArgumentError, match=r"comm is MPI\.COMM_NULL"):
        heed.mpi.attention(Q, K, V, comm=MPI.COMM_NULL)
    with pytest.raises(heed.ArgumentError, match=r"length is -1; it must be 0 to"):
        heed.mpi.place(-1)
    with pytest.raises(heed.ArgumentError, match="placement is 'here'; it must be \"contiguous\""):
        heed.mpi.place(3, placement="here")


def test_every_option_is_documented():
    functions = heed.mpi.attention_backward, heed.mpi.graph_attention
    for function in (heed.mpi.attention, heed.mpi.plan, heed.mpi.place, *functions):
        documented = set(re.findall(r"^ {4}(\w+):", inspect.getdoc(function), re.MULTILINE))
        options = set(inspect.signature(function).parameters)
        if function in (heed.mpi.plan, heed.mpi.attention_backward):
            options -= set(heed.mpi.ResultOptions.__annotations__)
        assert options <= documented | {"options"}
    assert set(heed.mpi.ResultOptions.__annotations__) <= set(
        inspect.signature(heed.mpi.plan).parameters
    ), "spelled out"
    header = (Path(__file__).parents[2] / "api" / "heed_mpi.h").read_text()
    public = [getattr(heed.mpi, name) for name in heed.mpi.__all__]
    for kind in (heed.mpi.Plan, heed.mpi.Graph):
        public += [value for name, value in vars(kind).items() if not name.startswith("_")]
    for function in filter(inspect.isfunction, public):
        for name in re.findall(r"heed_\w+", inspect.getdoc(function).partition("In C:")[2]):
            assert re.search(rf"\b{name}\b", header), name


@pytest.mark.parametrize("length", [0, 1, 7, 23, 77])
@pytest.mark.parametrize("placement", ["contiguous", "zigzag"])
def test_places(length, placement):
    all_rows = WORLD.allgather(heed.mpi.place(length, WORLD, placement))
    assert all(rows.dtype == np.int64 for rows in all_rows)
    assert sorted(np.concatenate(all_rows)) == list(range(length))
    counts = [len(rows) for rows in all_rows]
    assert max(counts) - min(counts) <= 1


def test_the_library_is_the_one_of_this_mpi():
    found = heed.mpi.library()
    assert found.mpi == MPI.Get_library_version().rstrip("\0")
    assert os.environ.get("HEED_MPI_LIBRARY", found.path) == found.path


def test_the_readme():
    assert OVER_RANKS
    for session in OVER_RANKS:
        if "torch" not in session or importlib.util.find_spec("torch") is not None:
            check_session(session)


def test_masks_of_all_keys():
    """Every rank has its rows of them."""
    make = Make(rows=10, keys=12)
    q, k, v = make.tensors()
    given = mask(2, 4, 10, 12)
    part, own, rows = split([q, k, v], {"attn_mask": given}, "zigzag")
    want = heed.attention(q, k, v, attn_mask=given)
    out = heed.mpi.attention(*part, **own)
    np.testing.assert_allclose(out, want[:, :, rows], rtol=1e-13, atol=1e-13)


# Sequences of a packed batch, one without queries, and keys that count.
BEGINS_Q, BEGINS_K, LENGTHS = [0, 9, 9, 30, 41], [0, 12, 17, 30, 44], [7, 0, 13, 5]


def packed(how, **options):
    """The rows of a packed batch, this rank's part, and what one process makes of it."""
    make = Make(rows=BEGINS_Q[-1], keys=BEGINS_K[-1])
    q, k, v = (x[0] for x in make.tensors())
    offsets = {"cu_seqlens_q": BEGINS_Q, "cu_seqlens_k": BEGINS_K}
    together = [np.moveaxis(x, 0, 1) for x in (q, k, v)]
    want = heed.attention(*together, return_lse=True, **offsets, **options)
    part, own, rows = split([q, k, v], {**offsets, **options}, how)
    return part, own, rows, together, want


@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize(
    "options", [{"causal": True}, {"key_lengths": LENGTHS}, {"causal": "bottom_right"}], ids=str
)
def test_packed_batches(how, options):
    part, own, rows, _, want = packed(how, **options)
    found = heed.mpi.attention(*part, return_lse=True, **own)
    want_out = np.moveaxis(np.asarray(want.out), 1, 0)[:, rows]
    np.testing.assert_allclose(found.out, want_out, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.lse, np.asarray(want.lse)[:, rows], rtol=1e-12, atol=1e-12)


def test_packed_batches_planned():
    part, own, rows, together, _ = packed("zigzag", key_lengths=LENGTHS)
    offsets = {"cu_seqlens_q": BEGINS_Q, "cu_seqlens_k": BEGINS_K}
    with heed.mpi.plan(*part, **own) as plan:
        for lengths in (LENGTHS, [1, 5, 2, 14]):
            want = heed.attention(*together, **offsets, key_lengths=lengths)
            out = plan(*part, key_lengths=lengths)
            np.testing.assert_allclose(
                out, np.moveaxis(want, 1, 0)[:, rows], rtol=1e-12, atol=1e-12
            )
        with pytest.raises(TypeError, match="rank 0: the plan was made with key_lengths: give it"):
            plan(*part)
        with pytest.raises(
            heed.ArgumentError, match=r"key_lengths has 1 numbers; it must have one"
        ):
            plan(*part, key_lengths=[1])
        with pytest.raises(heed.ArgumentError, match=r"key_lengths\[0\] is 13; it must be 0 to 12"):
            plan(*part, key_lengths=[13, 0, 0, 0])


def gradients(tensors, options, how, wanted, **more):
    """This rank's gradients, and what they should be."""
    out, lse, *_ = heed.attention(*tensors, return_lse=True, **options)
    random = np.random.default_rng(3)
    grad_out, grad_lse = random.normal(size=out.shape), random.normal(size=lse.shape)
    want = heed.attention_backward(
        *tensors, out, lse, grad_out, grad_lse=grad_lse, **wanted, **options
    )
    part, own, rows = split(tensors, options, how)
    _, _, keys = SPLITS[how](tensors[0].shape[-2], tensors[1].shape[-2])
    mine = heed.mpi.attention(*part, return_lse=True, **own, **more)
    found = heed.mpi.attention_backward(
        *part,
        mine.out,
        mine.lse,
        grad_out[..., rows, :],
        grad_lse=grad_lse[..., rows],
        **wanted,
        **own,
        **more,
    )
    cut = {"query": rows, "key": keys, "value": keys}
    for name, of_whole in want._asdict().items():
        of_part = getattr(found, name)
        if of_whole is None:
            assert of_part is None
            continue
        if name in cut:
            of_whole = of_whole[..., cut[name], :]
        elif name == "bias":
            of_whole = rows_of_mask(of_whole, rows, tensors[0].shape[-2])
        what = f"{name}, rank {RANK} of {RANKS}, {how}, {more}"
        np.testing.assert_allclose(of_part, of_whole, rtol=1e-11, atol=1e-11, err_msg=what)


OF_ALL = dict.fromkeys(("grad_sinks", "grad_alibi_slopes", "grad_scale", "grad_temperature"), True)


@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("head_ranks", [None, 1, 2][: 3 - RANKS % 2])
def test_gradients(how, head_ranks):
    tensors = Make(rows=20, keys=24, key_heads=2).tensors()
    options = {"causal": "bottom_right", "sinks": [0.5, -1.0, 0.0, 2.0]}
    options |= {"alibi_slopes": [0.1, 0.2, 0.0, 0.5], "temperature": 1.5}
    gradients(tensors, options, how, OF_ALL, head_ranks=head_ranks)
    random = np.random.default_rng(5)
    for shape in ((2, 4, 20, 24), (1, 1, 20, 24), (4, 1, 24)):
        bias = random.normal(size=shape)
        gradients(tensors, {"bias": bias}, how, {"grad_bias": True}, head_ranks=head_ranks)


@pytest.mark.parametrize("kind", params(KINDS))
def test_gradients_of_every_kind_of_array(kind):
    kind = needed(kind)
    tensors, options, *_ = made(kind, "grouped")
    part, own, _ = split(tensors, options, "zigzag")
    out, lse, *_ = heed.mpi.attention(*part, return_lse=True, **own)
    found = heed.mpi.attention_backward(*part, out, lse, out, **own)
    for of, gradient in zip(part, found, strict=False):
        assert_like(kind, gradient, of)
        assert gradient.shape == of.shape


def test_gradients_that_are_added():
    tensors = Make(rows=9, keys=9).tensors()
    part, own, _ = split(tensors, {"causal": True}, "zigzag")
    out, lse, *_ = heed.mpi.attention(*part, return_lse=True, **own)
    once = heed.mpi.attention_backward(*part, out, lse, out, grad_key=False, **own)
    assert once.key is None
    into = np.ones_like(once.value)
    twice = heed.mpi.attention_backward(
        *part, out, lse, out, grad_query=False, grad_value=into, accumulate=True, **own
    )
    assert twice.value is into
    np.testing.assert_allclose(into, once.value + 1, rtol=1e-13)
    nothing = dict.fromkeys(("grad_query", "grad_key", "grad_value"), False)
    assert not any(
        x is not None for x in heed.mpi.attention_backward(*part, out, lse, out, **nothing, **own)
    )


def test_gradients_of_packed_batches():
    part, own, rows, together, want = packed("dealt", key_lengths=LENGTHS)
    offsets = {"cu_seqlens_q": BEGINS_Q, "cu_seqlens_k": BEGINS_K, "key_lengths": LENGTHS}
    whole = heed.attention_backward(*together, want.out, want.lse, want.out, **offsets)
    mine = heed.mpi.attention(*part, return_lse=True, **own)
    found = heed.mpi.attention_backward(*part, mine.out, mine.lse, mine.out, **own)
    keys = dealt(BEGINS_K[-1], 2)
    for of_part, of_whole, at in zip(found, whole[:3], (rows, keys, keys), strict=False):
        np.testing.assert_allclose(
            of_part, np.moveaxis(of_whole, 1, 0)[:, at], rtol=1e-11, atol=1e-11
        )


GRADIENTS_REFUSED = [
    (dict(grad_out=np.zeros((2, 4, 4, 7))), heed.ArgumentError, "grad_out has shape"),
    (dict(lse=np.zeros(3)), heed.ArgumentError, "lse has shape"),
    (dict(grad_query=1), TypeError, "grad_query must be True, False or an array to write to"),
    (dict(grad_bias=True), heed.ArgumentError, "grad_bias is (wanted, but neither|True; on rank)"),
    (dict(return_lse=True), TypeError, "got an unexpected keyword argument 'return_lse'"),
]


@pytest.mark.parametrize("case", range(len(GRADIENTS_REFUSED)))
def test_gradients_refused_on_one_rank(case):
    change, kind, message = GRADIENTS_REFUSED[case]
    out, lse, *_ = heed.mpi.attention(Q, K, V, return_lse=True)
    given = {"query": Q, "key": K, "value": V, "out": out, "lse": lse, "grad_out": out}
    with pytest.raises(kind, match=rf"^rank {LAST}: .*{message}|^rank {LAST}: {message}") as raised:
        heed.mpi.attention_backward(**{**given, **(change if RANK == LAST else {})})
    assert len(set(WORLD.allgather(str(raised.value)))) == 1


class TestTorch:
    """A step of training over ranks; one process is torch's own autograd."""

    OPTIONS = ("plain", "causal", "positions", "sinks", "bias", "everywhere")

    @pytest.mark.parametrize("head_ranks", [None, 1, 2, 3])
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    @pytest.mark.parametrize("name", OPTIONS)
    def test_against_one_process(self, name, dtype, head_ranks):
        torch = pytest.importorskip("torch")
        import heed.torch_mpi

        if head_ranks is not None and (RANKS % head_ranks or name == "everywhere"):
            pytest.skip("does not divide the ranks, or is refused")
        random = torch.Generator().manual_seed(6)

        def drawn(*shape):
            return torch.randn(*shape, generator=random, dtype=getattr(torch, dtype))

        heads, length = 6, 23
        rows = 5 if name == "everywhere" else length
        q, k, v = drawn(2, heads, rows, 8), drawn(2, heads, length, 8), drawn(2, heads, length, 7)
        grad_out, grad_lse = drawn(2, heads, rows, 7), drawn(2, heads, rows)
        extra = {}
        if name == "sinks":
            extra["sinks"] = drawn(heads)
        if name == "bias":
            extra["bias"] = drawn(1, heads, rows, length)
        how = "dealt" if name in ("positions", "everywhere") else "zigzag"
        mine, own = dealt(length, 1), {"placement": dealt(length, 1)}
        if how == "zigzag":
            mine, own = heed.mpi.place(length, placement="zigzag"), {"placement": "zigzag"}
        keys = torch.from_numpy(mine)
        at = torch.arange(rows) if name == "everywhere" else keys
        if name == "everywhere":
            own["queries"] = "everywhere"
        causal = name in ("causal", "positions")

        whole = [x.clone().requires_grad_() for x in (q, k, v, *extra.values())]
        scores = whole[0] @ whole[1].transpose(-1, -2) / 8**0.5
        if name == "bias":
            scores = scores + whole[3]
        if causal:
            scores = scores.masked_fill(~torch.ones(rows, length).tril().bool(), -torch.inf)
        logits = scores
        if name == "sinks":
            logits = torch.cat([scores, whole[3][None, :, None, None].expand(2, -1, rows, 1)], -1)
        want = (torch.softmax(logits, -1)[..., :length] @ whole[2], torch.logsumexp(logits, -1))
        torch.autograd.backward(want, (grad_out, grad_lse))

        def part_of(tensor, index):
            return tensor[..., index, :].clone().requires_grad_()

        part = [part_of(q, at), part_of(k, keys), part_of(v, keys)]
        mine_of = {
            n: (part_of(x, at) if n == "bias" else x.clone().requires_grad_())
            for n, x in extra.items()
        }
        found = heed.torch_mpi.attention(
            *part, causal=causal, head_ranks=head_ranks, **mine_of, **own
        )
        torch.autograd.backward(found, (grad_out[:, :, at], grad_lse[:, :, at]))
        # 23 keys and 8 features: no sum has more terms than 2 * 23 * 12, each of numbers below 50.
        bound = 2 * 23 * 12 * 50 * torch.finfo(q.dtype).eps
        for a, b in zip(found, want, strict=True):
            b = b[:, :, at]
            torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=bound)
        cut = [at, keys, keys, *(at if n == "bias" else None for n in extra)]
        for a, b, index in zip([*part, *mine_of.values()], whole, cut, strict=True):
            b = b.grad if index is None else b.grad[..., index, :]
            torch.testing.assert_close(a.grad, b, rtol=0, atol=bound)

    def tensors(self, torch):
        return [torch.from_numpy(x).clone().requires_grad_() for x in (K, K, V)]

    def test_only_what_is_wanted(self):
        torch = pytest.importorskip("torch")
        import heed.torch_mpi

        q, k, v = self.tensors(torch)
        out, lse = heed.torch_mpi.attention(q.detach(), k, v.detach())
        (out.sum() + lse.sum()).backward()
        assert q.grad is None
        assert v.grad is None
        assert k.grad.abs().sum() > 0
        with torch.no_grad():
            assert not heed.torch_mpi.attention(q, k, v)[0].requires_grad
        k.grad = None
        _, lse = heed.torch_mpi.attention(q.detach(), k, v.detach())
        lse.sum().backward()  # a loss of the logarithms alone
        assert k.grad.abs().sum() > 0

    def test_no_second_derivative(self):
        torch = pytest.importorskip("torch")
        import heed.torch_mpi

        q, k, v = self.tensors(torch)
        out, _ = heed.torch_mpi.attention(q, k, v)
        grads = torch.autograd.grad(out.sum(), (q, k, v), create_graph=True)
        with pytest.raises(heed.UnsupportedError, match="gradients of .* over ranks have no deriv"):
            grads[0].sum().backward()

    @pytest.mark.skipif(RANKS == 1, reason="of ranks that differ there are two")
    def test_refused_where_ranks_differ(self):
        torch = pytest.importorskip("torch")
        import heed.torch_mpi

        q, k, v = self.tensors(torch)
        own = q if RANK != LAST else q.detach()
        with pytest.raises(
            heed.ArgumentError,
            match=f"rank {LAST}: query.requires_grad is False; on rank 0 it is True",
        ):
            heed.torch_mpi.attention(own, k, v)
        given = (q, k, v) if RANK != LAST else (x.float() for x in (q, k, v))
        with pytest.raises(
            heed.ArgumentError, match=f"rank {LAST}: query is float32; on rank 0 it is float64"
        ):
            heed.torch_mpi.attention(*given)

    def test_refused_on_one_rank(self):
        torch = pytest.importorskip("torch")
        import heed.torch_mpi

        q, k, v = self.tensors(torch)
        with pytest.raises(
            TypeError, match=f"rank {LAST}: key must be a torch.Tensor, not ndarray"
        ):
            heed.torch_mpi.attention(q, k if RANK != LAST else K, v)
        if RANK == LAST:
            k = k.float()
        with pytest.raises(
            heed.ArgumentError, match=f"rank {LAST}: .*query is float64 but key is float32"
        ):
            heed.torch_mpi.attention(q, k, v)
        mask = torch.zeros(4, 6 * RANKS, dtype=torch.float64, requires_grad=True)
        with pytest.raises(heed.UnsupportedError, match="attn_mask requires gradients and bias is"):
            heed.torch_mpi.attention(q, k, v, attn_mask=mask, bias=mask)

    def test_graphs_have_no_gradients(self):
        torch = pytest.importorskip("torch")
        graph = heed.mpi.Graph([0], [0], nodes=1) if RANK == 0 else heed.mpi.Graph(nodes=1)
        x = torch.ones(len(graph.nodes()), 1, 4, requires_grad=RANK == LAST)
        with pytest.raises(
            heed.UnsupportedError,
            match=f"rank {LAST}: query requires gradients, which attention over a graph",
        ):
            heed.mpi.graph_attention(graph, x, x, x)


NODES = 23


def edges():
    """All of them, and the share that this rank brings."""
    random = np.random.default_rng(8)
    sources, destinations = random.integers(0, NODES, (2, 120))
    return sources, destinations, sources[RANK::RANKS], destinations[RANK::RANKS]


def brought(count):
    """The order in which ranks have brought edges."""
    return np.concatenate([np.arange(count)[rank::RANKS] for rank in range(RANKS)])


def owners():
    return np.random.default_rng(9).integers(0, RANKS, NODES).astype(np.int32)


class TestGraphs:
    @pytest.mark.parametrize("owned", [False, True])
    @pytest.mark.parametrize("duplicates", ["remove", "keep"])
    def test_rows(self, owned, duplicates):
        sources, destinations, *own = edges()
        order = brought(len(sources))
        whole = heed.Graph(sources[order], destinations[order], nodes=NODES, duplicates=duplicates)
        random = np.random.default_rng(1)
        q, k, v = random.normal(size=(3, NODES, 2, 8)).astype(np.float32)
        bias = random.normal(size=(len(sources), 2)).astype(np.float32)
        asked = {"return_lse": True, "return_weights": True}
        want = heed.graph_attention(whole, q, k, v, edge_bias=bias, **asked)
        given = {"owners": owners()} if owned else {}
        with heed.mpi.Graph(*own, nodes=NODES, duplicates=duplicates, **given) as graph:
            rows, (of, to, place) = graph.nodes(), graph.edges()
            assert np.array_equal(of, sources[order][place])
            assert np.array_equal(to, destinations[order][place])
            assert set(to) <= set(rows)
            if owned:
                assert np.array_equal(rows, np.flatnonzero(owners() == RANK))
            found = heed.mpi.graph_attention(
                graph, q[rows], k[rows], v[rows], edge_bias=bias[place], **asked
            )
            assert np.array_equal(found.out, want.out[rows])
            assert np.array_equal(found.lse, want.lse[rows])
            assert np.array_equal(found.weights, want.weights[place])
            said = graph.describe()
            assert (said["nodes"], said["own_nodes"]) == (NODES, len(rows))
            assert said["edges"] == whole.describe()["edges"]
            assert sum(WORLD.allgather(said["sent_rows"])) == sum(
                WORLD.allgather(said["remote_rows"])
            )
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
        options |= {"heads": 2, "steps": 3, "residual": True}
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

    def test_of_part_of_the_world(self):
        comm = WORLD.Split(RANK % 2, RANK)
        sources, destinations, *_ = edges()
        mine = slice(comm.rank, None, comm.size)
        graph = heed.mpi.Graph(sources[mine], destinations[mine], nodes=NODES, comm=comm)
        assert sorted(np.concatenate(comm.allgather(graph.nodes()))) == list(range(NODES))
        graph.free()
        comm.Free()

    @pytest.mark.parametrize(
        ("change", "kind", "message"),
        [
            (dict(sources=[NODES]), heed.ArgumentError, r"sources\[0\] is 23; it must be"),
            (dict(sources=[1, 2]), heed.ArgumentError, "sources has 2 entries and destinations 1"),
            (dict(nodes=None), heed.ArgumentError, "nodes is None; without a path it must be"),
            (dict(path="x"), heed.ArgumentError, "sources and destinations are given beside path"),
            (dict(owners=[0]), heed.ArgumentError, "owners has 1 numbers; it must have one for"),
            (dict(duplicates="x"), heed.ArgumentError, "duplicates is 'x'; it must be"),
        ],
    )
    def test_refused_on_one_rank(self, change, kind, message):
        given = {"sources": [0], "destinations": [1], "nodes": NODES}
        with pytest.raises(kind, match=rf"^rank {LAST}: {message}") as raised:
            heed.mpi.Graph(**{**given, **(change if RANK == LAST else {})})
        assert len(set(WORLD.allgather(str(raised.value)))) == 1

    def test_calls_refused_on_one_rank(self):
        *_, sources, destinations = edges()
        graph = heed.mpi.Graph(sources, destinations, nodes=NODES)
        rows = np.zeros((len(graph.nodes()) + (RANK == LAST), 1, 4))
        with pytest.raises(
            heed.ArgumentError, match=f"rank {LAST}: query is .*must have a row for"
        ):
            heed.mpi.graph_attention(graph, rows, rows, rows)
        prepared = heed.Weights(np.eye(4, dtype=np.float32))
        own = np.zeros((len(graph.nodes()), 4), np.float32)
        matrices = dict.fromkeys(("w_query", "w_key", "w_value"), np.eye(4, dtype=np.float32))
        if RANK == LAST:
            matrices["w_key"] = prepared
        with pytest.raises(heed.UnsupportedError, match=f"rank {LAST}: w_key is heed.Weights"):
            heed.mpi.graph_attention(graph, data=own, heads=1, **matrices)
