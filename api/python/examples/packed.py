"""Sequences of different lengths without padding, packed as FlashAttention packs them.

python packed.py
"""

from itertools import pairwise

import numpy as np

import heed

LENGTHS = [3, 50, 12]
HEADS, KEY_HEADS, FEATURES = 4, 2, 16  # two heads of queries share one of keys and values
random = np.random.default_rng(0)

# One after the other: [rows of all, heads, features], and where each begins and ends.
begins = np.cumsum([0, *LENGTHS]).astype(np.int32)
q = random.standard_normal((begins[-1], HEADS, FEATURES), dtype=np.float32)
k, v = random.standard_normal((2, begins[-1], KEY_HEADS, FEATURES), dtype=np.float32)
packed = heed.attention(q, k, v, cu_seqlens_q=begins, cu_seqlens_k=begins, causal=True)
print("packed:", packed.shape)

# Each alone, [heads, rows, features]: the same tensors with other strides, nothing is copied.
for begin, end in pairwise(begins):
    alone = (tensor[begin:end].transpose(1, 0, 2) for tensor in (q, k, v))
    out = heed.attention(*alone, causal=True)
    same = np.allclose(out, packed[begin:end].swapaxes(0, 1), atol=1e-6)
    print(f"alone: {out.shape}, the same: {same}")
