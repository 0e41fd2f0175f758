"""Small problems that several tests share."""

import numpy as np

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
