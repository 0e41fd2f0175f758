"""What the words of a real sentence attend, as a heat map.

    python heat_map.py [HEAD]

Queries and keys are those of one layer of all-MiniLM-L6-v2, a sentence encoder with 12 heads. In a
notebook ``heed.show(...)`` as the last line of a cell draws an SVG.
"""

import sys
from pathlib import Path

import numpy as np

import heed

data = Path(__file__).parents[3] / "tests" / "data"
q, k, v = (np.load(data / f"minilm_layer3_{name}.npy") for name in "qkv")
tokens = (data / "minilm_tokens.txt").read_text().splitlines()
words = slice(1, tokens.index(".") + 1)  # the first sentence
q, k, v = (tensor[:, :, words] for tensor in (q, k, v))

head = int(sys.argv[1]) if len(sys.argv) > 1 else 9
weights = heed.attention(q, k, v, return_weights=True).weights
print(heed.show(weights, tokens[words], head=head, title=f"head {head}"))
