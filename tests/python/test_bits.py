"""Python computes what C computes, bit for bit: random problems of every form, drawn by C's tests.

Each is spelled in one of the ways in which callers may: lists or arrays, axes of one left out,
results that are new or written where the caller says, a plan or none.
"""

import importlib
import inspect
import sys
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

import heed
from heed.graphs import GraphResultOptions
from heed.options import ResultOptions

BUILD = Path(heed.__file__).parents[3]
CONTEXT = heed.Context(threads=1, executor="serial", product="heed")
COUNT = 400  # of each operation
NUMBERS = ("alibi_slopes", "sinks", "head_weights")
OPTIONS = {**ResultOptions.__annotations__, **GraphResultOptions.__annotations__}
INDICES = {n for n, kind in OPTIONS.items() if "Sequence[int]" in str(kind)}
MEANING_TRUE = [("causal", "top_left"), ("return_weights", "probabilities")]
# What calls of a plan are given anew.
TENSORS = {
    *("query", "key", "value", "data", "edge_data", "edge_bias", "attn_mask", "bias", "out"),
    *("alibi_slopes", "sinks", "key_scales", "value_scales", "seed", *(INDICES - {"weight_rows"})),
}
PLANS = {
    "attention": heed.plan,
    "multihead": heed.multihead_plan,
    "graph_attention": heed.graph_attention_plan,
}
GRADIENTS = {
    "attention_backward": heed.Gradients,
    "multihead_backward": heed.MultiheadGradients,
    "graph_attention_backward": heed.GraphGradients,
}


def spelled(name, value, random):
    """An argument in one of the ways in which it may be given."""
    if name.startswith("dropout_"):  # of problems larger than int32 counts
        return random.choice([list, np.int64])(value)
    if name in INDICES:
        return random.choice([list, np.int32, np.int64])(value)
    if name in NUMBERS:
        return random.choice([list, np.array])(value)
    if name in ("attn_mask", "bias"):
        while value.ndim and len(value) == 1 and random.random() < 0.7:
            value = value[0]
        return value
    if name == "graph":
        index = random.choice([list, np.int32, np.int64])
        ends = {n: index(x) if isinstance(x, list) else x for n, x in value.items()}
        make = heed.Graph.from_csr if "offsets" in ends else heed.Graph
        return make(**ends, reverse="source_nodes" not in ends)
    if name == "seed":
        return tuple(value)
    if isinstance(value, bool):
        return random.choice([bool, np.bool_])(value)
    if isinstance(value, str) and (name, value) in MEANING_TRUE:
        value = random.choice([value, True, np.True_])
    if name in ("causal", "alignment") and isinstance(value, str):
        return random.choice([value, value.replace("_", "-")])
    return value


def aligned(given, random):
    """Causal attention whose word may be said by alignment."""
    if given.get("causal") == "bottom_right" and random.random() < 0.5:
        given["causal"], given["alignment"] = True, "bottom_right"


def problems(operation):
    """A line that describes each, arguments and results, which live until the next is drawn."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists() or "HEED_BUILD_TESTS:BOOL=ON" not in cache.read_text():
        pytest.skip("needs the build's heed_python_problems, which HEED_BUILD_TESTS makes")
    sys.path.append(str(BUILD / "tests" / "python"))
    draw = importlib.import_module("heed_python_problems").draw
    sys.path.pop()
    for seed in range(COUNT):
        try:
            drawn = draw(operation, seed)
        except ModuleNotFoundError:  # its types are of ml_dtypes
            continue
        yield drawn


def drawn(operation):
    """A line that describes each problem, its arguments as they are spelled, and its results."""
    for line, arguments, results in problems(operation):
        random = Random(line)
        given = {name: spelled(name, value, random) for name, value in arguments.items()}
        aligned(given, random)
        given["context"] = CONTEXT
        if "attn_mask" not in given and "bias" in given and random.random() < 0.5:
            given["attn_mask"] = given.pop("bias")
        yield line, given, results, random


def room_for(array, step=2):
    """Zeros in its shape and type; with axes of features, these have strides of their own."""
    if array.ndim < 2:
        return np.zeros_like(array)
    return np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::step]


def assert_same_bits(found, expected, line):
    found = np.asarray(found)
    if expected.ndim:  # numbers of Python have one type
        assert found.dtype == expected.dtype, line
    assert found.shape == expected.shape, line
    bits = f"u{expected.dtype.itemsize}"
    pair = (
        np.ascontiguousarray(x, expected.dtype).reshape(-1).view(bits) for x in (found, expected)
    )
    np.testing.assert_array_equal(*pair, err_msg=line)


@pytest.mark.parametrize("operation", PLANS)
def test_attention(operation):
    for line, given, results, random in drawn(operation):
        expected, function = results["out"], getattr(heed, operation)
        like = given.get("query", given.get("data"))
        step = random.choice([0, 2, -2]) if expected.dtype == like.dtype else 2

        def out(expected=expected, step=step):
            return {"out": room_for(expected, step)} if step else {}

        runs = [partial(function, **given)]
        if random.random() < 0.3:
            plan = PLANS[operation](**given, **out())
            runs.append(partial(plan, **{n: x for n, x in given.items() if n in TENSORS}))
        for run in runs:
            written = out()
            found = run(**written)
            found = {"out": found} if len(results) == 1 else found._asdict()
            assert not step or found["out"] is written["out"]
            for name, expected in results.items():
                assert_same_bits(found[name], expected, f"{name} of {line}")


@pytest.mark.parametrize("operation", GRADIENTS)
def test_gradients(operation):
    """Those that are wanted, in arrays of any type; biases' are all of one."""
    for line, given, results, random in drawn(operation):
        no = random.choice([False, np.False_])
        wanted = dict.fromkeys((f"grad_{name}" for name in GRADIENTS[operation]._fields), no)
        for name, expected in results.items():
            like = given.get(name)
            if name == "bias":
                like = given.get("bias", given.get("attn_mask"))
                expected = results[name] = expected.reshape(like.shape)
            same = isinstance(like, np.ndarray) and like.dtype == expected.dtype
            new = same and random.random() < 0.5 and not name.startswith("b_")
            if name in ("scale", "temperature") or new or isinstance(like, list):
                wanted[f"grad_{name}"] = random.choice([True, np.True_])
            else:
                wanted[f"grad_{name}"] = room_for(expected)
        if operation == "multihead_backward" and random.random() < 0.5:
            wanted["keep"] = heed.Kept()
            names = inspect.signature(heed.multihead).parameters
            heed.multihead(**{n: x for n, x in given.items() if n in names}, keep=wanted["keep"])
        found = getattr(heed, operation)(**given, **wanted)._asdict()
        assert {name for name, gradient in found.items() if gradient is not None} == set(results)
        for name, expected in results.items():
            assert_same_bits(found[name], expected, f"{name} of {line}")


def test_merge():
    for line, given, results, _ in drawn("merge"):
        out = tuple(room_for(x) for x in results.values())
        for one in ({}, {"out": out}):
            for found, expected in zip(heed.merge(**given, **one), results.values(), strict=True):
                assert_same_bits(found, expected, line)
