"""What callers' own objects do while heed reads them: they free memory and raise what they like."""

import copy
import ctypes
import inspect
import pickle
import re
import weakref

import numpy as np
import pytest
import test_refused as right
from cases import PARAMETERS
from kinds import KINDS, OTHERS, assert_like, bits_of, of_numpy, of_torch

import heed

F32, POISON = np.float32, 0x7F


class OnDemand:
    """Numbers in memory that what it gives alone owns: it is overwritten when that ends."""

    step = 1  # between numbers

    def __init__(self, numbers):
        self.numbers, self.kept = numbers, []

    def made(self):
        whole = np.repeat(self.numbers, self.step, -1) if self.numbers.ndim else self.numbers
        memory = np.frombuffer(whole.tobytes(), np.uint8).copy()
        owner = (ctypes.c_char * len(memory)).from_buffer(memory)
        self.kept.append(memory)
        weakref.finalize(owner, self.end, memory, whole)
        return self.view(owner, whole)

    def view(self, memory, whole):
        array = np.frombuffer(memory, whole.dtype).reshape(whole.shape)
        return array[..., :: self.step] if whole.ndim else array

    def end(self, memory, whole):
        self.numbers = self.view(memory, whole).copy()  # an output, as it was
        memory[:] = POISON


class ByStruct(OnDemand):
    @property
    def __array_struct__(self):
        return self.made().__array_struct__


class ByDLPack(OnDemand):
    def __dlpack__(self):  # as it was before version 1 of DLPack
        return self.made().__dlpack__()


class Scattered(ByStruct):
    """Which heed has to collect where it wants them side by side."""

    step = 2


RANDOM = np.random.default_rng(5)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(F32)


def indices(*values):
    return np.array(values, np.int32)


X = numbers(2, 2, 5, 8)
CONTEXT = heed.Context(threads=1, executor="serial")


def like(name, **more):
    """What test_refused.py calls, what it gives, and more."""
    function, given, _ = right.FUNCTIONS[name]
    return function, {**given, **more}


def planned(make, *kept):
    """A plan and a call of it, which keeps these arguments."""

    def call(query, **given):
        calls = {n: x for n, x in given.items() if not isinstance(x, bool | int)}
        plan = make(query, **given)
        return plan(query, **{n: x for n, x in calls.items() if n not in kept})

    return call


def cached(key, value, query, positions, cosines, sines, out, **options):
    rotary = {"cosines": cosines, "sines": sines}
    cache = heed.Cache(key_heads=2, features=8, pages=4, rotary=rotary)
    sequence = cache.sequence()
    sequence.append(key, value, positions=positions)
    return cache.attention(sequence, query, out=out, positions=positions, **options)


def graph_of(query, key, value, **edges):
    make = heed.Graph.from_csr if "offsets" in edges else heed.Graph
    return heed.graph_attention(make(**edges), query, key, value)


def merged(**given):
    first, second, into = ((given[f"{of}out"], given[f"{of}lse"]) for of in ("", "more_", "to_"))
    return heed.merge([first, second], out=into)


NODES = {name: numbers(4, 2, 3) for name in ("query", "key", "value")}
BIASES = {"b_query": numbers(8), "b_key": numbers(4), "b_value": numbers(6), "b_out": numbers(7)}
EDGES = {"sources": indices(0, 1, 2), "destinations": indices(2, 2, 0), "nodes": 4}
INT8 = {name: RANDOM.integers(-9, 9, (2, 2, 7, 8), np.int8) for name in ("key", "value")}
SCALES = {name: abs(numbers(2, 2, 7)) for name in ("key_scales", "value_scales")}
SCORES = {"bias": numbers(5, 7), "sinks": numbers(4), "alibi_slopes": numbers(4), "causal": True}
MASKED = {"attn_mask": np.tri(5, 7, dtype=bool), "key_lengths": indices(7, 3), **SCORES}
EDGE_DATA = {"edge_data": numbers(3, 5), "edge_bias": numbers(3, 2)}
EDGE_DATA |= {name: numbers(5, 6) for name in ("w_edge_key", "w_edge_value")}
TURNED_BY = {"cosines": numbers(5, 4), "sines": numbers(5, 4)}
WRITTEN = ("out", "to_out", "to_lse", "grad_query", "grad_w_out", "grad_bias", "grad_sinks")
GRADIENTS = {"grad_query": 0 * right.QUERY, "grad_bias": numbers(5, 7), "grad_sinks": numbers(4)}
FUNCTIONS = {
    "attention": like("attention", **MASKED, out=numbers(2, 4, 5, 6)),
    "scalars": like("attention", bias=np.array(1.5, F32), attn_mask=np.array(True)),
    "packed": (
        heed.attention,
        {n: indices(*x) if "cu_" in n else x for n, x in right.PACK.items()},
    ),
    "paged": like("attention", **right.POOLS, block_table=np.int32([[0], [2]]), key_lengths=[9, 5]),
    "int8": like("attention", **INT8, **SCALES),
    "weight_rows": like("attention", weight_rows=np.array([1, 3]), return_weights=True),
    "plan": (planned(heed.plan, "context"), {**right.ATTENTION, **MASKED}),
    "attention_backward": like("attention_backward", grad_lse=right.LSE, **SCORES, **GRADIENTS),
    "repeated": like("attention_backward", key=right.KEY[:, :1]),
    "multihead": like("multihead", key=right.INPUT, **BIASES, out=numbers(2, 5, 7)),
    "multihead_plan": (planned(heed.multihead_plan, *PARAMETERS), {**right.BLOCK, **BIASES}),
    "weighted": like("multihead", w_out=None, combine="weighted", head_weights=numbers(4)),
    "multihead_backward": like("multihead_backward", **BIASES, grad_w_out=numbers(12, 7)),
    "graph": (graph_of, {**NODES, **EDGES}),
    "csr": (graph_of, {**NODES, "offsets": indices(0, 1, 1, 2, 3), "sources": EDGES["sources"]}),
    "graph_attention": like(
        "graph_attention of data", b_query=numbers(6), **EDGE_DATA, out=numbers(4, 6)
    ),
    "graph_attention_backward": like("graph_attention_backward of data"),
    "project": (
        lambda x, matrix, bias, **given: heed.project(x, heed.Weights(matrix, bias), **given),
        {"x": right.DATA, "matrix": right.W, "bias": numbers(6), "out": 0 * right.DATA},
    ),
    "merge": (
        merged,
        {"out": right.OUT, "lse": right.LSE, "more_out": right.OUT + 1, "more_lse": right.LSE + 1}
        | {"to_out": 0 * right.OUT, "to_lse": 0 * right.LSE},
    ),
    "rotate": like(
        "rotate", **TURNED_BY, positions=np.array([3, 1, 0, 2, 4]), out=0 * right.TURNED
    ),
    "cache": (
        cached,
        {"key": X[0], "value": X[0], "query": X[0], "positions": np.array([0, 2, 4, 1, 3])}
        | {**TURNED_BY, "out": 0 * X[0]},
    ),
}
ARRAYS = [
    (function, name)
    for function, (_, given) in FUNCTIONS.items()
    for name, value in given.items()
    if isinstance(value, np.ndarray)
]


def found(result):
    """All that a call gave, as NumPy arrays."""
    results = result if isinstance(result, tuple) else (result,)
    return [np.array(getattr(x, "numbers", x)) for x in results if x is not None]


def called(function, **others):
    call, given = FUNCTIONS[function]
    given = {n: x.copy() if n in WRITTEN and hasattr(x, "copy") else x for n, x in given.items()}
    return call(**{**given, **others})


@pytest.mark.parametrize("protocol", [ByStruct, ByDLPack, Scattered])
@pytest.mark.parametrize(("function", "name"), ARRAYS)
def test_memory_lives_as_long_as_it_is_needed(function, name, protocol):
    owner = protocol(FUNCTIONS[function][1][name].copy())
    try:
        actual = found(called(function, **{name: owner}))
    except heed.ArgumentError as refused:
        if protocol is Scattered and re.search("with strides|side by side", str(refused)):
            return
        raise
    for one, other in zip(actual, found(called(function)), strict=True):
        np.testing.assert_array_equal(one, other)


# Arrays that have the arithmetic's type whatever rows have, or float32.
WIDE = ("lse", "grad_lse", "more_lse", "to_lse", "grad_sinks")
SINGLE = ("key_scales", "value_scales", "cosines", "sines")


def of_kind(function, kind):
    """Arguments, floating ones as this kind of array and others of its library."""

    def made(name, x):
        if not isinstance(x, np.ndarray):
            return x
        element = x.dtype.name
        if element == "float32" and name not in SINGLE:
            wide = "float64" if kind.element == "float64" else "float32"
            element = wide if name in WIDE else kind.element
        make = of_torch if kind.library == "torch" else of_numpy
        return (kind if element == kind.element else make(element)).make(x)

    return {name: made(name, x) for name, x in FUNCTIONS[function][1].items()}


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS], ids=lambda kind: kind.name)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_come_in_the_callers_kind(function, kind):
    """With the bits that NumPy's arrays of this type give."""
    if kind.element == "float64" and function in ("int8", "cache"):
        pytest.skip("which go with narrower numbers")
    results = []
    for one in (kind.needed(), of_numpy(kind.element)):
        given = of_kind(function, one)
        found = FUNCTIONS[function][0](**given)
        found = found if isinstance(found, tuple) else (found,)
        results.append([x for x in found if x is not None and not isinstance(x, float)])
    assert_like(kind, results[0][0], of_kind(function, kind).get("query", kind.make(X)))
    for own, other in zip(*results, strict=True):
        assert type(own) is type(results[0][0])
        np.testing.assert_array_equal(bits_of(own), bits_of(other))


class Raising:
    """Raises one error wherever it is asked anything."""

    def __init__(self, error):
        self.error, self.asked = error, False

    def fail(self, *_, **__):
        self.asked = True
        raise self.error


def methods(name):
    """What objects of a protocol have: the method that raises, and what must be there beside it."""
    fail = property(Raising.fail) if name in ("__array_struct__", "dtype") else Raising.fail
    beside = {"__getitem__": "__len__", "__dlpack__": "__dlpack_device__"}.get(name)
    answers = {"__len__": lambda self: 2, "__dlpack_device__": lambda self: (1, 0)}
    return {name: fail, **({beside: answers[beside]} if beside else {})}


PROTOCOLS = {
    name: type(name, (Raising,), methods(name))
    for name in (
        *("__array_struct__", "__dlpack__", "__dlpack_device__", "__float__", "__index__"),
        *("__len__", "__getitem__", "__iter__", "__eq__", "__bool__", "__buffer__"),
    )
}
PROTOCOLS["dlpack attribute"] = type("D", (Raising,), {"__dlpack__": property(Raising.fail)})
PROTOCOLS["dtype"] = type("dtype", (Raising,), {**methods("dtype"), "__dlpack__": lambda s: 0})
PROTOCOLS["exchange"] = type(  # an attribute of the type
    "Meta", (type,), {"__dlpack_c_exchange_api__": property(lambda cls: cls.one.fail())}
)("Exchanging", (Raising,), {})
WAYS = {"alone": lambda x: x, "in a list": lambda x: [x, x], "in rows": lambda x: [[x], [x]]}
PASSING = (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit)
CALLED = {
    **{name: (call, given) for name, (call, given) in FUNCTIONS.items()},
    **{name: like(name) for name in ("Cache", "Context", "Weights", "Graph")},
    "show": (lambda **given: repr(heed.show(**given)), {"weights": X}),
}


def arguments(function):
    """Every argument that a function has, or that the table gives it."""
    call, given = CALLED[function]
    signature = inspect.signature(call) if inspect.isfunction(call) else None
    text = "" if signature else call.__init__.__doc__
    names = signature.parameters if signature else re.findall(r"(\w+):", text)
    free = [n for n in names if n not in ("given", "options", "context", "keep", "make", "edges")]
    return dict.fromkeys([*given, *free])


def raised_by(call, given):
    """What a call raised, its cause, the cause of that and so on."""
    try:
        call(**given)
    except BaseException as error:
        chain = [error]
        while chain[-1].__cause__ is not None:
            chain.append(chain[-1].__cause__)
        return chain
    return []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("function", CALLED)
def test_what_callers_raise_comes_out(function, protocol, way):
    """An interrupt is never taken for an answer, and an error of theirs is not lost."""
    call, given = CALLED[function]
    for name in arguments(function):
        for kind in (*PASSING, ZeroDivisionError, TypeError):
            error = kind("theirs")
            one = PROTOCOLS[protocol](error)
            if protocol == "exchange":
                type(one).one = one
            changed = {n: x.copy() if n in WRITTEN else x for n, x in given.items()}
            chain = raised_by(call, {**changed, name: WAYS[way](one)})
            if one.asked:
                assert error in (chain[:1] if kind in PASSING else chain), (name, kind, chain)


# Objects of every class, and what is to be pickled in their stead.
OBJECTS = {
    "Cache": (right.CACHE, "save its sequences, by Sequence.save"),
    "Sequence": (right.CACHE.sequence(), "pickle what Sequence.save gives"),
    "Graph": (right.GRAPH, "pickle sources and destinations"),
    "Context": (CONTEXT, None),
    "Weights": (heed.Weights(numbers(8, 8)), "pickle the matrix and the bias"),
    "Kept": (heed.Kept(), "compute it anew with heed.multihead"),
    "Plan": (heed.plan(X, X, X), None),
    "MultiheadPlan": (
        heed.multihead_plan(**right.BLOCK),
        "make it anew with heed.multihead_plan",
    ),
    "GraphAttentionPlan": (
        heed.graph_attention_plan(right.GRAPH, **NODES),
        "make it anew with heed.graph_attention_plan",
    ),
}


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", OBJECTS)
def test_what_another_process_could_not_use_says_so(use, name):
    made, instead = OBJECTS[name]
    words = rf"^heed.{name} cannot be pickled or copied: .*: {instead}$" if instead else name
    with pytest.raises(TypeError, match=words):
        use(made)


def callables():
    """What heed exports, and the methods of what it exports, by name."""
    for name in heed.__all__:
        value = getattr(heed, name)
        if callable(value):
            yield name, value
    for name, (value, _) in OBJECTS.items():
        methods = [n for n in dir(value) if not n.startswith("_")] + ["__call__"]
        for method in methods:
            if callable(getattr(value, method, None)):
                yield f"{name}.{method}", getattr(value, method)
                yield f"{name}.{method} of none", getattr(type(value), method)


CALLABLES = dict(callables())
WRONG = {
    "too_many": (range(40), {}),
    "unknown": ((), {"colour": 1}),
    "unknown_beside": ((X, X, X), {"colour": 1}),
    "twice": ((X,), {"query": X, "sources": X, "matrix": X, "key": X, "file": X, "threads": X}),
    "objects": ((object(), object()), {}),
    "number": ((0.5,), {}),
    "none": ((None,), {}),
    "nothing": ((), {}),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", CALLABLES)
def test_wrong_calls_are_refused_in_words(name, wrong):
    """Never by a list of C++ signatures."""
    args, given = WRONG[wrong]
    if name == "set_threads":
        args = args[:1] and [*args, X]
    for error in raised_by(lambda **k: CALLABLES[name](*args, **k), given):
        assert isinstance(error, TypeError | ValueError | heed.Error)
        assert not re.search("nvoked with|incompatible function|signature", str(error))
