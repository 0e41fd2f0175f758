"""Keys in shards, each attended by a worker of its own, and the results merged.

    python shards.py

What a worker hands over is its result and the log-sum-exp of its scores, however many keys it has.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import heed

HEADS, ROWS, KEYS, FEATURES = 4, 8, 1000, 32
random = np.random.default_rng(0)
q = random.standard_normal((HEADS, ROWS, FEATURES), dtype=np.float32)
k, v = random.standard_normal((2, HEADS, KEYS, FEATURES), dtype=np.float32)


def attend(shard):
    """What one worker does, with its own keys and values."""
    found = heed.attention(q, k[:, shard], v[:, shard], return_lse=True)
    return found.out, found.lse


shards = [slice(0, 100), slice(100, 600), slice(600, KEYS)]
with ThreadPoolExecutor(len(shards)) as workers:
    parts = list(workers.map(attend, shards))
out, lse = heed.merge(parts)

whole = heed.attention(q, k, v, return_lse=True)
print("out:", np.allclose(out, whole.out, atol=1e-6), "lse:", np.allclose(lse, whole.lse))

# Merged parts can be merged again, in any order.
pair = heed.merge(parts[1:])
print("again:", np.allclose(heed.merge([pair, parts[0]])[0], whole.out, atol=1e-6))
