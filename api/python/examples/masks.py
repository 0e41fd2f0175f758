"""Which rows attend which keys: causal, windows, lengths and masks.

    python masks.py

Prints each as a picture, # where a row attends a key.
"""

import numpy as np

import heed

ROWS, KEYS = 4, 6
random = np.random.default_rng(0)
q = random.standard_normal((ROWS, 8), dtype=np.float32)
k, v = random.standard_normal((2, KEYS, 8), dtype=np.float32)

checkerboard = np.indices((ROWS, KEYS)).sum(axis=0) % 2 == 0
forms = {
    "causal, from the first key on": {"causal": True},
    "causal, as rows are decoded": {"causal": "bottom_right"},
    "the last two keys": {"causal": "bottom_right", "window": (1, None)},
    "a key before, a key after": {"window": (1, 1), "alignment": "top_left"},
    "the first four keys": {"key_lengths": [4]},
    "a mask": {"attn_mask": checkerboard},
    "a mask, and causal": {"attn_mask": checkerboard, "causal": "bottom_right"},
}
for name, options in forms.items():
    weights = heed.attention(q, k, v, return_weights=True, **options).weights
    print(name)
    for row in weights:
        print("   ", "".join("#" if weight > 0 else "." for weight in row))

# A floating mask is added to the scores; beside a boolean mask it is called bias.
bias = -0.5 * np.abs(np.arange(ROWS)[:, None] - np.arange(KEYS)).astype(np.float32)
both = heed.attention(q, k, v, attn_mask=checkerboard, bias=bias)
one = heed.attention(q, k, v, attn_mask=np.where(checkerboard, bias, -np.inf))
print("mask and bias as one:", np.allclose(both, one))
