"""How many rows the ranks of a graph get from others, of R-MAT graphs too large to make here.

Nodes are shuffled and split over N ranks by edges. A rank gets the row of a node once, if the node is
another's and an edge leads from it to one of the rank's. R-MAT draws the bits of an edge's source and
destination one after the other; a source bit is 1 with probability c + d. So of 2^s nodes C(s, k) have k
bits, and

    e(k)  = E (a + b)^(s - k) (c + d)^k             edges that leave such a node, on average
    rows  = (N - 1) / N sum over k of C(s, k) (1 - exp(-e(k) / N))       that a rank gets, on average

which takes edges for independent, also of their duplicates, which are removed, and every rank for equally
likely. What that is off is measured: graphs of some scales are made, split and counted, and the ratio of
what is counted to what the formula says is extrapolated to the larger graph along the line through the
ratios of the two largest, by the logarithm of edges; 1 is the most that it may reach. The share of edges that
are computed while rows travel is that of the largest sample: it depends on degrees, which all have alike.

    step = max(inner share * compute, exchange) + (1 - inner share) * compute
"""

import math
from dataclasses import dataclass

import numpy as np

GRAPH500 = (0.57, 0.19, 0.19, 0.05)


@dataclass(frozen=True)
class Rmat:
    scale: int  # 2^scale nodes
    edges: int  # before duplicates are removed
    probabilities: tuple[float, float, float, float] = GRAPH500


def expected_rows(graph, ranks):
    """That a rank gets, by the formula."""
    a, b, c, d = graph.probabilities
    total = 0.0
    for k in range(graph.scale + 1):
        leave = math.exp(math.log(graph.edges) + (graph.scale - k) * math.log(a + b) + k * math.log(c + d))
        total += math.comb(graph.scale, k) * -math.expm1(-leave / ranks)
    return (ranks - 1) / ranks * total


def step(compute, exchange, inner):
    """Seconds, of those of computing, of messages, and the share that is computed meanwhile."""
    return max(inner * compute, exchange) + (1 - inner) * compute


def rows_of_nodes(nodes, edges, ranks):
    """expected_rows, of any number of nodes: of 2^s those with the largest names are left out, as heed_perf
    does. They have the fewest edges, so that next to no rows are missing."""
    return expected_rows(Rmat((nodes - 1).bit_length(), edges), ranks)


def sample(graph, seed=1):
    """Sources and destinations, without duplicates, of shuffled nodes."""
    random = np.random.default_rng(seed)
    a, b, c, _ = graph.probabilities
    sources = np.zeros(graph.edges, np.int64)
    destinations = np.zeros(graph.edges, np.int64)
    for _ in range(graph.scale):
        drawn = random.random(graph.edges, np.float32)
        sources = 2 * sources + (drawn >= a + b)
        destinations = 2 * destinations + (((drawn >= a) & (drawn < a + b)) | (drawn >= a + b + c))
    names = random.permutation(2**graph.scale)
    edges = np.unique(names[destinations] << np.int64(graph.scale) | names[sources])
    return edges & (2**graph.scale - 1), edges >> graph.scale


def counted_rows(sources, destinations, nodes, ranks):
    """That a rank gets, on average, and the most that any gets; ranges of nodes have as many edges. And
    the share of edges that are computed while rows travel: into nodes all of whose sources are own."""
    before = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=nodes))])
    ends = np.searchsorted(before, len(sources) * np.arange(1, ranks) / ranks)
    owner = np.searchsorted(ends, np.arange(nodes), side="right")
    remote = owner[sources] != owner[destinations]
    pairs = np.unique(owner[destinations[remote]] * nodes + sources[remote])
    rows = np.bincount(pairs // nodes, minlength=ranks)
    outer = np.bincount(destinations, weights=remote, minlength=nodes) > 0
    return float(rows.mean()), int(rows.max()), float(1 - outer[destinations].mean())


@dataclass(frozen=True)
class Extrapolated:
    rows: float  # that a rank gets, on average
    ratio: float  # to the formula
    ratios: tuple[tuple[int, float], ...]  # edges of samples, and what was counted over the formula
    inner: float  # of the largest sample's edges, those into nodes all of whose sources are a rank's own


def samples(graph, scales):
    """Smaller graphs with as many edges per node, and what they were asked to be."""
    for scale in scales:
        smaller = Rmat(scale, graph.edges * 2**scale // 2**graph.scale, graph.probabilities)
        yield smaller, sample(smaller)


def extrapolated(graph, ranks, smaller_ones):
    """`smaller_ones` as samples() has them, two or more."""
    ratios, inner = [], 1.0
    for smaller, edges in smaller_ones:
        mean, _, inner = counted_rows(*edges, 2**smaller.scale, ranks)
        ratios.append((smaller.edges, mean / expected_rows(smaller, ranks)))
    (x0, y0), (x1, y1) = ratios[-2:]
    slope = (y1 - y0) / math.log(x1 / x0)
    ratio = min(1.0, y1 + slope * math.log(graph.edges / x1))
    return Extrapolated(ratio * expected_rows(graph, ranks), ratio, tuple(ratios), inner)
