"""The same shapes again and again: a plan checks, chooses tiles and lays out memory once.

python plan.py
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import heed

random = np.random.default_rng(0)
q, k, v = random.standard_normal((3, 10, 20), dtype=np.float32)
out = np.empty_like(q)

plan = heed.plan(q, k, v, causal=True)
print("strategy:", plan.describe()["strategy"])


def nanoseconds(call, times=20000):
    """A call takes so long."""
    start = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - start) // times


print("planned:  ", nanoseconds(lambda: plan(q, k, v, out=out)), "ns")
print("unplanned:", nanoseconds(lambda: heed.attention(q, k, v, causal=True, out=out)), "ns")

# Threads may share a plan: each call has a workspace of its own.
inputs = random.standard_normal((100, 3, 10, 20), dtype=np.float32)
with ThreadPoolExecutor(4) as threads:
    outs = list(threads.map(lambda qkv: plan(*qkv), inputs))
same = all(
    np.array_equal(out, heed.attention(*qkv, causal=True))
    for out, qkv in zip(outs, inputs, strict=True)
)
print("the same bits from four threads:", same)

try:
    plan(q[:5], k, v)
except heed.ArgumentError as error:
    print("refused:", error)
