"""Text from a cache that several answers share.

    python generate.py [PROMPT]

The model is a single attention head that needs no training: it looks up where the last four
letters stood before, and writes what followed them there, as induction heads of language models do.
All text and the prompt are read once; every answer is a fork, which shares their pages.
"""

import sys
from pathlib import Path

import numpy as np

import heed

LETTERS, CONTEXT, FEATURES, ANSWERS, STEPS = 128, 4, 32, 3, 60
random = np.random.default_rng(4)
embedding = random.choice([-1.0, 1.0], (LETTERS, FEATURES)).astype(np.float32)
letters = np.eye(LETTERS, dtype=np.float32)

text = (Path(__file__).parents[3] / "tests" / "data" / "paragraph.txt").read_text().strip()
prompt = sys.argv[1] if len(sys.argv) > 1 else "The Moon"
known = [min(ord(c), LETTERS - 1) for c in f"{' ' * CONTEXT}{text} {prompt}"]


def look_up(codes):
    """What is asked for, and what a letter after these is found by: the codes' embeddings."""
    return embedding[codes].reshape(-1)


cache = heed.Cache(
    key_heads=1,
    features=CONTEXT * FEATURES,
    value_features=LETTERS,
    pages=len(known) // 64 + 1 + 2 * ANSWERS,
    sequences=1 + ANSWERS,
    dtype="int8",
)
read = cache.sequence()
keys = np.stack([look_up(known[t - CONTEXT : t]) for t in range(CONTEXT, len(known))])
read.append(keys[None], letters[known[CONTEXT:]][None])

answers = [read.fork() for _ in range(ANSWERS)]
written = [known[-CONTEXT:] for _ in answers]
for _ in range(STEPS):
    query = np.stack([look_up(codes[-CONTEXT:]) for codes in written])[:, None, None]
    chances = cache.attention(answers, query, scale=0.2)[:, 0, 0]
    for answer, codes, key, chance in zip(answers, written, query, chances, strict=True):
        chance = np.clip(chance.astype(np.float64), 0, None)
        code = int(random.choice(LETTERS, p=chance / chance.sum()))
        answer.append(key[0], letters[None, None, code])
        codes.append(code)

for codes in written:
    print(prompt + "".join(map(chr, codes[CONTEXT:])))
said = cache.describe()
print(
    f"{len(read)} letters read; {said['pages_used']} pages, {said['pages_shared']} of them shared"
)
