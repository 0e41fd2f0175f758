"""The transformer of generate in plain Python, and its files, as api/examples/README.md states them."""

import math
import random
import struct

TOKENS = 256
FLOAT32, BFLOAT16 = 1, 3


def checksum(content):
    """64-bit FNV-1a."""
    value = 0xcbf29ce484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def sealed(content):
    return content + struct.pack("<Q", checksum(content))


def uniform(state):
    """splitmix64: the next state, and a number of [0, 1)."""
    state = (state + 0x9e3779b97f4a7c15) % 2**64
    z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb % 2**64
    return state, ((z ^ (z >> 31)) >> 11) * 2.0**-53


def times(x, matrix):
    """x W, for W a list of rows."""
    return [sum(a * row[c] for a, row in zip(x, matrix, strict=True)) for c in range(len(matrix[0]))]


class Model:
    """Random weights that bfloat16 has exactly: multiples of 1/64 below 1."""

    def __init__(self, *, layers=3, width=12, query_heads=4, key_heads=2, features=6, rotary=4,
                 hidden=10, base=100.0, seed=1):
        self.sizes = (layers, width, query_heads, key_heads, features, rotary, hidden)
        self.base, self.random = base, random.Random(seed)
        self.tensors = []
        queries, keys = query_heads * features, key_heads * features
        self.embedding = self.draw(TOKENS, width)
        self.layers = [[self.draw(*shape) for shape in (
            (1, width), (width, queries), (width, keys), (width, keys), (queries, width), (1, width),
            (width, hidden), (width, hidden), (hidden, width))] for _ in range(layers)]
        self.out_norm = self.draw(1, width)
        self.unembedding = self.draw(width, TOKENS)

    def draw(self, rows, columns):
        tensor = [[self.random.randrange(-63, 64) / 64 for _ in range(columns)] for _ in range(rows)]
        self.tensors.append(tensor)
        return tensor

    def header(self, *, magic=b"heed-gen", version=1, dtype=FLOAT32, sizes=None, base=None):
        return struct.pack("<8s9Id", magic, version, dtype, *(sizes or self.sizes),
                           self.base if base is None else base)

    def file(self, **header):
        """The bytes of a model's file; every field of the header can be made wrong."""
        numbers = [x for tensor in self.tensors for row in tensor for x in row]
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        if header.get("dtype") == BFLOAT16:
            data = b"".join(data[i + 2 : i + 4] for i in range(0, len(data), 4))
        return sealed(self.header(**header) + data)

    # ---- What comes after a text --------------------------------------------------------------

    def rotate(self, row, position):
        half = self.sizes[5] // 2
        row = list(row)
        for i in range(half):
            angle = position * self.base ** (-i / half)
            a, b = row[i], row[i + half]
            row[i] = a * math.cos(angle) - b * math.sin(angle)
            row[i + half] = a * math.sin(angle) + b * math.cos(angle)
        return row

    def heads_of(self, row):
        features = self.sizes[4]
        return [row[i : i + features] for i in range(0, len(row), features)]

    def attend(self, queries, keys, values):
        """Of one position; keys and values are those of all positions up to it."""
        _, _, query_heads, key_heads, features, _, _ = self.sizes
        result = []
        for h, query in enumerate(queries):
            group = h // (query_heads // key_heads)
            scores = [sum(a * b for a, b in zip(query, key[group], strict=True)) / math.sqrt(features)
                      for key in keys]
            largest = max(scores)
            weights = [math.exp(score - largest) for score in scores]
            result += [sum(w * value[group][f] for w, value in zip(weights, values, strict=True))
                       / sum(weights) for f in range(features)]
        return result

    @staticmethod
    def normalised(x, factors):
        root = math.sqrt(sum(a * a for a in x) / len(x) + 1e-5)
        return [a / root * f for a, f in zip(x, factors[0], strict=True)]

    def step(self, token, cache):
        """The scores of what follows; `cache` has keys and values of what came before, by layer."""
        x = self.embedding[token]
        for layer, (first, query, key, value, out, second, gate, up, down) in enumerate(self.layers):
            keys, values = cache[layer]
            position = len(keys)
            normed = self.normalised(x, first)
            queries = [self.rotate(head, position) for head in self.heads_of(times(normed, query))]
            keys.append([self.rotate(head, position) for head in self.heads_of(times(normed, key))])
            values.append(self.heads_of(times(normed, value)))
            x = [a + b for a, b in zip(x, times(self.attend(queries, keys, values), out), strict=True)]
            normed = self.normalised(x, second)
            gated = [g / (1 + math.exp(-g)) * u
                     for g, u in zip(times(normed, gate), times(normed, up), strict=True)]
            x = [a + b for a, b in zip(x, times(gated, down), strict=True)]
        return times(self.normalised(x, self.out_norm), self.unembedding)

    def continued(self, prompt, tokens, temperature=0, seed=1):
        cache = [([], []) for _ in self.layers]
        for token in prompt:
            scores = self.step(token, cache)
        text = []
        for _ in range(tokens):
            largest = max(scores)
            if temperature == 0:
                token = scores.index(largest)
            else:
                seed, drawn = uniform(seed)
                shares = [math.exp((score - largest) / temperature) for score in scores]
                left = drawn * sum(shares)
                token = 0
                while token + 1 < TOKENS and left >= shares[token]:
                    left -= shares[token]
                    token += 1
            text.append(token)
            scores = self.step(token, cache)
        return bytes(text)
