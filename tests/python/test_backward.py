"""Gradients of attention, blocks and attention over graphs, beside differences."""

import ctypes

import numpy as np
import pytest
import test_graph
import test_multihead
from cases import CASES, Make, bias, mask
from differences import NUMBERS, Loss, squared
from kinds import KINDS, assert_close, assert_like, block_units, needed
from test_multihead import BIASES, block, prepared_of

import heed

OPTIONS = ("bias", "sinks", "alibi_slopes", *NUMBERS)
VECTORS = ("sinks", "alibi_slopes", "head_weights", *BIASES)

DENSE = {
    **{n: make for n, make in CASES.items() if not n.startswith(("hard", "paged", "score_"))},
    "score_function": lambda: Make()(
        score_function=squared, softcap=2.0, temperature=0.5, attn_mask=mask(5, 7)
    ),
    "bias_of_one": lambda: Make()(bias=np.array(0.5), causal=True),
    "bias_repeated": lambda: Make()(bias=np.broadcast_to(bias(5, 7), (2, 4, 5, 7))),
}
BLOCKS = {
    **{n: make for n, make in test_multihead.CASES.items() if n not in ("hard", "score_function")},
    "score_function": lambda: block(score_function=squared, softcap=1.5),
    "packed_tensor": lambda: test_multihead.packed(True, combine="tensor", key_heads=2),
}
GRAPHS = {
    **{n: make for n, make in test_graph.CASES.items() if n != "hard"},
    "shared_weighted": lambda: test_graph.case("shared", combine="weighted", softcap=1.5),
    "per_node_steps": lambda: test_graph.case(
        "per_node", width=test_graph.HEADS * test_graph.VALUE_FEATURES, steps=2
    ),
}


def differentiable(options, features):
    """What of the options there are gradients of, as arrays, taken out of them."""
    if np.asarray(options.get("attn_mask", True)).dtype != bool:
        options["bias"] = options.pop("attn_mask")
    found = {n: np.asarray(options.pop(n), np.float64) for n in OPTIONS if n in options}
    return {"scale": np.array(features**-0.5), "temperature": np.array(1.0), **found}


def dense(case):
    query, key, value, options = DENSE[case]()
    options = dict(options)
    arguments = {"query": query, "key": key, "value": value}
    arguments.update(differentiable(options, query.shape[-1]))
    return Loss(heed.attention, heed.attention_backward, arguments, options)


def of_block(case):
    arguments, settings, options = BLOCKS[case]()
    arguments = {**arguments, **differentiable(options, test_multihead.FEATURES)}
    if "head_weights" in settings:
        arguments["head_weights"] = np.array(settings.pop("head_weights"))
    return Loss(heed.multihead, heed.multihead_backward, arguments, {**settings, **options})


def over_graph(case):
    arguments, settings, keep = GRAPHS[case]()
    settings["graph"] = test_graph.graph_of(keep, reverse=True)
    if "head_weights" in settings:
        arguments["head_weights"] = np.array(settings.pop("head_weights"))
    if arguments.get("edge_bias", np.eye(2)).ndim == 1:
        arguments["edge_bias"] = arguments["edge_bias"][:, None]
    return Loss(heed.graph_attention, heed.graph_attention_backward, arguments, settings)


ALL = [
    (make, case)
    for make, cases in ((dense, DENSE), (of_block, BLOCKS), (over_graph, GRAPHS))
    for case in cases
]
SOME = [
    *((dense, case) for case in ("everything", "packed", "broadcast_batch_and_heads")),
    *((of_block, case) for case in ("self", "packed_cross", "tensor", "weighted")),
    *((over_graph, case) for case in ("all_of_edges", "shared_steps", "per_node")),
]


def of(losses):
    return pytest.mark.parametrize(
        ("make", "case"), losses, ids=[f"{make.__name__}-{case}" for make, case in losses]
    )


@of(ALL)
def test_differences(make, case):
    """Every gradient of every option, in float64."""
    loss = make(case)
    loss.check(loss.gradients())


@of(SOME)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kinds_of_arrays(kind, make, case):
    """Gradients come as their tensors do; those of sinks and slopes in the arithmetic's type."""
    needed(kind)
    loss = make(case)
    own = [
        n for n in loss.arguments if n not in (*NUMBERS, "sinks", "alibi_slopes", "head_weights")
    ]
    for name in own:
        loss.arguments[name] = kind.rounded(loss.arguments[name])
    loss.grad_out = kind.rounded(loss.grad_out)
    expected = loss.gradients()
    given = {n: kind.make(x) if n in own else x for n, x in loss.arguments.items()}
    found = loss.gradients(given, grad_out=kind.make(loss.grad_out))
    unit = 4 * max(kind.unit, *block_units(kind))
    for name in given:
        gradient, right = getattr(found, name), np.asarray(getattr(expected, name))
        size = max(1.0, float(np.abs(right).max()))  # terms as large as the largest cancel
        if name in own and not (make is over_graph and name in VECTORS):
            assert_like(kind, gradient, given[name])
            gradient = kind.back(gradient)
        elif name not in NUMBERS:
            arithmetic = "float64" if kind.element == "float64" else "float32"
            assert str(gradient.dtype).removeprefix("torch.") == arithmetic
        assert_close(np.asarray(gradient) / size, right / size, unit, name)


@of(SOME)
def test_into_arrays_of_the_caller(make, case):
    """With strides of their own where they are tensors; what lies between stays."""
    loss = make(case)
    expected = loss.gradients()
    rooms = {
        name: np.full((*x.shape[:-1], 2 * x.shape[-1]), 7.0)
        for name, x in loss.arguments.items()
        if name not in (*NUMBERS, *VECTORS)
    }
    given = {name: room[..., ::2] for name, room in rooms.items()}
    given.update({n: np.zeros(x.shape) for n, x in loss.arguments.items() if n in VECTORS})
    for x in given.values():
        x[...] = 0  # rows of no sequence are not written
    found = loss.gradients(**{f"grad_{name}": x for name, x in given.items()})
    for name, x in given.items():
        assert getattr(found, name) is x
        np.testing.assert_array_equal(x, getattr(expected, name), err_msg=name)
        assert name in VECTORS or (rooms[name][..., 1::2] == 7).all()


@of(SOME)
def test_accumulates(make, case):
    loss = make(case)
    once = loss.gradients()
    arrays = {
        f"grad_{n}": np.full(x.shape, 0.5) for n, x in loss.arguments.items() if n not in NUMBERS
    }
    for _ in range(2):
        sums = loss.gradients(**arrays, accumulate=True)
    for name, array in arrays.items():
        gradient = getattr(once, name.removeprefix("grad_"))
        np.testing.assert_allclose(array, 2 * gradient + 0.5, rtol=1e-12, atol=1e-12)
    if make is not over_graph:
        np.testing.assert_allclose(sums.scale, once.scale, rtol=1e-12)  # numbers begin at 0


@of(SOME)
def test_only_what_is_wanted(make, case):
    loss = make(case)
    whole = loss.gradients()
    off = {f"grad_{name}": False for name in loss.arguments}
    assert set(loss.gradients(**off)) == {None}
    for name in loss.arguments:
        some = loss.gradients(**{**off, f"grad_{name}": True})
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
        assert sum(x is not None for x in some) == 1


def plain(**options):
    """Arguments of attention_backward in NumPy's float32, positional."""
    tensors = [x.astype(np.float32) for x in Make(key_heads=2).tensors()]
    found = heed.attention(*tensors, **options, return_lse=True)
    return (*tensors, found.out, found.lse, np.ones_like(found.out))


def test_what_is_wanted_by_default():
    found = heed.attention_backward(*plain())
    assert [x is not None for x in found] == [True] * 3 + [False] * (len(found) - 3)
    given = plain(scale=8**-0.5)
    scale = heed.attention_backward(*given, grad_scale=True).scale  # which 8 features have anyway
    assert type(scale) is float
    assert scale == heed.attention_backward(*given, scale=8**-0.5, grad_scale=True).scale


def test_into_arrays_of_another_type():
    given = plain()
    key = np.empty(given[1].shape, np.float16)
    expected = heed.attention_backward(*given)
    assert heed.attention_backward(*given, grad_key=key).key is key
    np.testing.assert_array_equal(key, expected.key.astype(np.float16))


def multiply(user, tile, pointer):
    """What a C function would do to a tile of scores, or to their gradients."""
    t = tile.contents
    reals = ctypes.POINTER(ctypes.c_double)
    numbers = np.ctypeslib.as_array(ctypes.cast(pointer, reals), (t.keys, t.stride_key))
    numbers[:, : t.rows] *= ctypes.cast(user, reals)[0]


@heed.ScoreFunction
def multiplied_in_c(user, tile):
    multiply(user, tile, tile.contents.scores)


@heed.ScoreGradient
def multiplied_gradient_in_c(user, tile, gradients):
    multiply(user, tile, gradients)


def test_function_pointers():
    """Which are given the user of the score function."""
    tensors, factor = Make().tensors(), ctypes.c_double(0.5)
    found = heed.attention(*tensors, scale=0.2, return_lse=True)
    given = (*tensors, found.out, found.lse, np.ones_like(found.out))
    pointers = {
        "score_function": (multiplied_in_c, ctypes.byref(factor)),
        "score_gradient": multiplied_gradient_in_c,
    }
    got = heed.attention_backward(*given, scale=0.4, **pointers)
    expected = heed.attention_backward(*given, scale=0.2)
    for one, other in zip(got[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@of([(dense, "score_function"), (of_block, "score_function")])
def test_what_a_derivative_raises_comes_out(make, case):
    error = ZeroDivisionError("by 0")

    def fail(*_):
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        make(case).gradients(score_gradient=fail)
    assert caught.value is error


@of([(dense, "plain"), (of_block, "self"), (over_graph, "projected")])
def test_tensors_that_require_gradients_are_refused(make, case):
    torch = pytest.importorskip("torch")
    loss = make(case)
    given = {n: x if n in NUMBERS else torch.from_numpy(x) for n, x in loss.arguments.items()}
    expected = loss.gradients(given)
    kept = {"out": expected.query, "lse": expected.query} if make is dense else {}
    given["query"].requires_grad_()
    with pytest.raises(heed.ArgumentError, match="query requires gradients, which only heed.torch"):
        loss.backward(**loss.given(given), grad_out=expected.query, **kept)
    with torch.no_grad():
        loss.gradients(given)


@pytest.mark.parametrize("case", ["self", "packed_cross", "tensor", "mean"])
def test_prepared_matrices(case):
    """The same bits; matrices' gradients come in the arithmetic's type, biases' on request."""
    loss = of_block(case)
    expected = loss.gradients()
    prepared = prepared_of(loss.arguments)
    wanted = {f"grad_{name}": True for name in BIASES if name in loss.arguments}
    found = loss.gradients(prepared, **wanted)
    for name in loss.arguments:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert loss.gradients(prepared).b_query is None


@pytest.mark.parametrize("case", ["self", "packed_cross", "tensor", "weighted", "score_function"])
def test_from_what_was_kept(case):
    """The same bits, whatever else the forward call gives back; twice from one room."""
    loss = of_block(case)
    given = loss.given(loss.arguments)
    expected = loss.gradients()
    keep = heed.Kept()
    assert keep.nbytes == 0
    for more in ({}, {"return_lse": True, "return_column_sums": True}):
        out = heed.multihead(**given, **more)
        kept = heed.multihead(**given, **more, keep=keep)
        np.testing.assert_array_equal(kept[0] if more else kept, out[0] if more else out)
        size = keep.nbytes
        assert size > 0
        found = loss.gradients(keep=keep)
        assert keep.nbytes == size
        for name, right in zip(expected._fields, expected, strict=True):
            np.testing.assert_array_equal(getattr(found, name), right, err_msg=name)


def test_what_was_kept_is_read():
    """With a query of other numbers gradients are those of what was kept, but for the product with
    the query itself."""
    loss = of_block("self")
    keep = heed.Kept()
    heed.multihead(**loss.given(loss.arguments), keep=keep)
    other = {**loss.arguments, "query": loss.arguments["query"] + 1}
    np.testing.assert_array_equal(loss.gradients(other, keep=keep).query, loss.gradients().query)


def test_kept_for_another_block():
    loss, other = of_block("self"), of_block("weighted")
    keep = heed.Kept()
    with pytest.raises(heed.ArgumentError, match="^keep holds nothing; give it to heed.multihead"):
        loss.gradients(keep=keep)
    heed.multihead(**other.given(other.arguments), keep=keep)
    with pytest.raises(heed.ArgumentError, match="^keep was filled by a call with other shapes"):
        loss.gradients(keep=keep)
    with pytest.raises(heed.Error, match="hard"):
        heed.multihead(**loss.given(loss.arguments), hard=True, keep=keep)
    with pytest.raises(TypeError, match=r"^keep must be a heed\.Kept or None, not int"):
        heed.multihead(**loss.given(loss.arguments), keep=1)


def test_one_input_gets_both_gradients():
    loss = of_block("self")
    one = loss.gradients()
    both = loss.gradients({**loss.arguments, "key": loss.arguments["query"]})
    assert one.key is None
    np.testing.assert_allclose(one.query, both.query + both.key, rtol=1e-12, atol=1e-12)


def test_graphs_say_whether_they_have_their_reverse_order():
    with_reverse, without = (
        test_graph.graph_of(False, reverse=on).describe() for on in (True, False)
    )
    assert with_reverse["reverse"] is True
    assert without["reverse"] is False
    assert with_reverse["bytes"] > without["bytes"]
    csr = heed.Graph.from_csr([0, 1, 3], [0, 1, 1], reverse=True)
    x = np.ones((2, 1, 3))
    gradient = heed.graph_attention_backward(csr, x, x, x, grad_out=x).value
    np.testing.assert_allclose(gradient[:, 0, 0], [1, 1])
