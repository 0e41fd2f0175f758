"""Attention in plain loops, and a test case that compares attend with it."""

import itertools
import math
import random
import struct

from npy_files import FORMATS, npy, read_npy
from support import AttendTest


def softmax(scores):
    """The weights; scores of -inf get none, and none at all gives zeros."""
    largest = max(scores)
    if largest == -math.inf:
        return [0.0 for _ in scores]
    powers = [math.exp(s - largest) for s in scores]
    return [p / sum(powers) for p in powers]


def naive_attention(shapes, tensors, scale, change=None):
    """The definition, in double precision; shapes have four axes. change(b, h, i, j, score) is the
    score on its way to softmax."""
    (batch, heads, rows, features), (_, key_heads, keys, _), (_, _, _, width) = shapes
    query, key, value = tensors
    out = []
    for b, h, i in itertools.product(range(batch), range(heads), range(rows)):
        at = ((b * heads + h) * rows + i) * features
        q = query[at : at + features]
        first = (b * key_heads + h // (heads // key_heads)) * keys
        scores = []
        for j in range(keys):
            k = key[(first + j) * features : (first + j + 1) * features]
            scores.append(scale * sum(x * y for x, y in zip(q, k)))
        if change:
            scores = [change(b, h, i, j, s) for j, s in enumerate(scores)]
        weights = softmax(scores)
        for f in range(width):
            out.append(sum(w * value[(first + j) * width + f]
                           for j, w in enumerate(weights) if w > 0))
    return out


def only(allowed):
    """For naive_attention: masks the keys that allowed(i, j) does not allow."""
    return lambda b, h, i, j, score: score if allowed(i, j) else -math.inf


class Computed(AttendTest):
    """Runs attend on random tensors and compares what it writes with the definition."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)

    def write_random(self, name, shape, descr="<f4"):
        values = [self.random.uniform(-2, 2) for _ in range(math.prod(shape))]
        values = [v for v, in struct.iter_unpack("<" + FORMATS[descr], struct.pack(
            f"<{len(values)}{FORMATS[descr]}", *values))]
        self.write(name, npy(shape, values, descr=repr(descr)))
        return values

    def assert_close(self, got, wanted, delta=1e-5):
        self.assertEqual(len(got), len(wanted))
        for x, y in zip(got, wanted):
            if x != y:
                self.assertAlmostEqual(x, y, delta=delta)

    def check(self, query, key, value, *options, scale=None, change=None, descr="<f4",
              delta=1e-5):
        shapes = [query, key, value]
        tensors = [self.write_random(name, shape, descr)
                   for name, shape in zip(("q.npy", "k.npy", "v.npy"), shapes)]
        padded = [(1,) * (4 - len(shape)) + shape for shape in shapes]
        scale = scale or 1 / math.sqrt(query[-1])
        wanted = naive_attention(padded, tensors, scale, change)
        self.assert_works(self.attend(*options))
        shape, got = read_npy(self.path("out.npy"), descr)
        self.assertEqual(shape, query[:-1] + value[-1:])
        self.assert_close(got, wanted, delta)
