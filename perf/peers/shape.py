"""Workloads of heed_perf by name, and their tensors as the peers take them."""

import os
import re

try:
    import numpy
except ImportError:  # every peer needs it; heed alone does not
    numpy = None

MASKS = {"mask", "headmask", "keymask"}
BIASES = {"bias", "headbias"}
TYPES = {"bf16", "f16", "f64"}
DROPOUT = {"dropout"}


def listed(name):
    """A list of heed_perf's workloads by the name that it has in C++."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "standard.cpp")
    with open(path, encoding="utf-8") as source:
        return re.findall(r'"(\w+)"', re.search(name + r" = \{(.*?)\}", source.read(), re.DOTALL)[1])


def parts_of(name, sizes):
    """The numbers after the letters of `sizes`, and the options with theirs or True."""
    size, options = {}, {}
    for part in name.split("_"):
        match = re.fullmatch(r"([A-Za-z]+)(\d*)", part)
        if match is None:
            raise ValueError(f"shape {name!r}: {part!r} is not letters and a number")
        letters, digits = match.groups()
        if letters in sizes:
            size[letters] = int(digits)
        elif part in TYPES:
            options[part] = True
        else:
            options[letters] = int(digits) if digits else True
    return size, options


class Shape:
    """What a workload's name says; heed_perf --help has the grammar and checks it."""

    def __init__(self, name):
        size, self.options = parts_of(name, {"B", "H", "Hkv", "L", "Lq", "Lkv", "D", "Dv", "layers"})
        self.batch, self.heads, self.features = size["B"], size["H"], size["D"]
        self.key_heads = size.get("Hkv", self.heads)
        self.queries = size.get("Lq", size.get("L"))
        self.keys = size.get("Lkv", size.get("L"))
        self.value_features = size.get("Dv", self.features)
        self.layers = size.get("layers", 1)
        self.width = self.options.get("W")  # of a multi-head block
        self.dropout = self.options.get("dropout", 0) / 100
        self.causal = any(option.startswith("causal") for option in self.options)
        self.bottom_right = "causalBR" in self.options

    def tensors(self, layer=0):
        """Random query, key and value as numpy arrays [batch, heads, rows, features]."""
        random = numpy.random.default_rng(1 + layer)
        make = lambda *sizes: random.standard_normal(sizes, dtype=numpy.float32)
        return (
            make(self.batch, self.heads, self.queries, self.features),
            make(self.batch, self.key_heads, self.keys, self.features),
            make(self.batch, self.key_heads, self.keys, self.value_features),
        )

    def one_of(self, options):
        """The one of these that is given, or None."""
        return next((option for option in options if option in self.options), None)

    def asks_for_more_than(self, *offered):
        """Whether an option is neither causal nor among the sets of what is offered."""
        known = {"causal", "causalTL", "causalBR"}.union(*offered)
        return not known.issuperset(self.options)

    def asks_for_several(self):
        """Of masks, biases and causal, of which PyTorch and OpenVINO take one."""
        return (self.one_of(MASKS) is not None) + (self.one_of(BIASES) is not None) + self.causal > 1

    def mask(self):
        """As heed_perf's: random and 90 % true, or the padding of the last quarter of the keys."""
        if "keymask" in self.options:
            kept = numpy.arange(self.keys) < max(self.keys * 3 // 4, 1)
            return numpy.broadcast_to(kept, (self.batch, 1, 1, self.keys)).copy()
        heads = self.heads if "headmask" in self.options else 1
        return numpy.random.default_rng(2).random((1, heads, self.queries, self.keys)) < 0.9

    def bias(self):
        heads = self.heads if "headbias" in self.options else 1
        sizes = (1, heads, self.queries, self.keys)
        return numpy.random.default_rng(3).standard_normal(sizes, dtype=numpy.float32)
