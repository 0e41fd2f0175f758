"""Small problems that several tests share, and programs in processes of their own."""

import os
import subprocess

import numpy as np

import heed

SLOPES = [0.5, 0.25, 0.125, 0.0625]


def tensors(
    element=np.float32, batch=2, heads=4, key_heads=None, rows=5, keys=7, features=8, seed=7
):
    """Random query, key and value."""
    random = np.random.default_rng(seed)
    shared = heads if key_heads is None else key_heads
    sizes = ((heads, rows), (shared, keys), (shared, keys))
    return [random.standard_normal((batch, *size, features)).astype(element) for size in sizes]


def mask(*shape):
    """Half of it True; row 1 nowhere."""
    made = np.random.default_rng(3).random(shape) < 0.5
    made[..., 1, :] = False
    return made


def everything():
    """Options that go together, for tensors with 4 heads, 5 rows and 7 keys."""
    return {
        "causal": True,
        "alignment": 1,
        "window": (4, None),
        "softcap": 2.0,
        "alibi_slopes": SLOPES,
        "bias": np.random.default_rng(4).standard_normal((5, 7)),
        "attn_mask": mask(2, 1, 5, 7),
        "sinks": SLOPES,
        "temperature": 0.7,
        "key_lengths": [6, 7],
        "scale": 0.4,
    }


def started(*command, **environment):
    """Runs a program without the environment's choices, but those given; None takes one away."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEED_")}
    return subprocess.run(
        [str(word) for word in command],
        env={name: x for name, x in {**kept, **environment}.items() if x is not None},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


# ---- Blocks ----

MATRICES = ("w_query", "w_key", "w_value", "w_out")
BIASES = ("b_query", "b_key", "b_value", "b_out")
PARAMETERS = (*MATRICES, *BIASES)


def block(element=np.float32, **options):
    """Arguments of self-attention: 2 sequences of 5 rows, 4 heads of 6 features, values of 5."""
    random = np.random.default_rng(5)
    given = {"query": random.standard_normal((2, 5, 12))}
    sizes = zip(MATRICES, BIASES, (12, 12, 12, 20), (24, 24, 20, 9), strict=True)
    for name, bias, rows, width in sizes:
        given[name] = 0.4 * random.standard_normal((rows, width))
        given[bias] = 0.4 * random.standard_normal(width)
    return {**{name: x.astype(element) for name, x in given.items()}, "heads": 4, **options}


def prepared_of(given):
    """Arguments with heed.Weights for matrices and their biases."""
    made = {name: x for name, x in given.items() if name not in BIASES}
    pairs = zip(MATRICES, BIASES, strict=True)
    return {**made, **{name: heed.Weights(given[name], given[bias]) for name, bias in pairs}}


# ---- Graphs ----

# Node 3 is isolated, 0 -> 2 is there twice, 4 -> 4 is a self-loop.
EDGES = [(0, 2), (1, 2), (5, 2), (4, 4), (2, 0), (0, 2), (3, 1), (0, 1), (2, 5), (5, 4), (1, 0)]
SOURCES, DESTINATIONS = (np.array(ends) for ends in zip(*EDGES, strict=True))
RANDOM = np.random.default_rng(11)
PROJECTED = {name: RANDOM.standard_normal((6, 3, 4)) for name in ("query", "key", "value")}
SHARED = {
    "data": RANDOM.standard_normal((6, 15)),
    **{f"w_{name}": RANDOM.standard_normal((15, 15)) for name in ("query", "key", "value")},
    "heads": 3,
    "residual": True,
}


def graph_of(**options):
    return heed.Graph(SOURCES, DESTINATIONS, nodes=6, **options)
