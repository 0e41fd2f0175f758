"""Edge lists from files."""

import re
from dataclasses import dataclass

import numpy as np

from heed.command import files
from heed.command.ends import Failure
from heed.command.files import Array

MOST_NODES = (1 << 31) - 1


@dataclass
class Edges:
    """From sources to destinations; weights where the file has them."""

    sources: Array
    destinations: Array
    weights: Array | None = None

    @property
    def nodes(self) -> int:
        """Those that edges name, from 0."""
        ends = (self.sources, self.destinations)
        return 1 + max(int(end.max(initial=-1)) for end in ends)

    def both_ways(self) -> "Edges":
        """With each edge's opposite; a loop has none."""
        loops = self.sources == self.destinations
        sources = np.concatenate([self.sources, self.destinations[~loops]])
        destinations = np.concatenate([self.destinations, self.sources[~loops]])
        if self.weights is None:
            return Edges(sources, destinations)
        return Edges(sources, destinations, np.concatenate([self.weights, self.weights[~loops]]))

    def with_loops(self, nodes: int) -> "Edges":
        """With an edge from every node to itself that has none, of weight 1."""
        has = np.zeros(nodes, bool)
        has[self.sources[self.sources == self.destinations]] = True
        loops = np.flatnonzero(~has).astype(np.int64)
        weights = self.weights
        if weights is not None:
            weights = np.concatenate([weights, np.ones(len(loops))])
        sources = np.concatenate([self.sources, loops])
        return Edges(sources, np.concatenate([self.destinations, loops]), weights)


def read_edges(path: str) -> Edges:
    """Of a .npy file [2, edges], or of lines: source, destination and perhaps a weight."""
    if path.endswith(".npy"):
        array = files.read_array(path)
        if array.ndim != 2 or len(array) != 2 or array.dtype.kind not in "iu":
            found = f"{list(array.shape)} {array.dtype}"
            raise Failure(f"{path}: it is {found}; edges are [2, edges] of whole numbers")
        return checked(path, Edges(array[0].astype(np.int64), array[1].astype(np.int64)))
    sources, destinations, weights = [], [], []
    columns = 0
    for number, line in enumerate(files.read_lines(path), 1):
        words = [word for word in re.split(r"[\s,;]+", re.split("[#%]", line)[0].strip()) if word]
        if not words:
            continue
        if columns == 0 and not any(word.isdigit() for word in words):
            columns = -len(words)  # names of columns
            continue
        if columns <= 0:
            columns = len(words)
        if len(words) != columns or columns not in (2, 3):
            wanted = columns if columns in (2, 3) else "2 or 3"
            raise Failure(f"{path}: line {number} has {len(words)} columns; it must have {wanted}")
        try:
            sources.append(int(words[0]))
            destinations.append(int(words[1]))
            weights += [float(word) for word in words[2:]]
        except ValueError:
            raise Failure(
                f"{path}: line {number} is {line.strip()[:60]!r}; it must be two nodes, whole "
                "numbers from 0, and perhaps a weight"
            ) from None
    ends = (numbers(sources), numbers(destinations))
    return checked(path, Edges(*ends, np.array(weights) if weights else None))


def numbers(nodes: list[int]) -> Array:
    """Whole numbers, of Python's where int64 cannot hold them; ``checked`` refuses these."""
    try:
        return np.array(nodes, np.int64)
    except OverflowError:
        return np.array(nodes, object)


def checked(path: str, edges: Edges) -> Edges:
    """Refuses what is no edge."""
    for end in (edges.sources, edges.destinations):
        wrong = np.flatnonzero((end < 0) | (end >= MOST_NODES))
        if len(wrong):
            node = f"edge {wrong[0]} has the node {end[wrong[0]]}"
            raise Failure(f"{path}: {node}; it must be 0 to {MOST_NODES - 1}")
    if edges.weights is not None:
        wrong = np.flatnonzero(~(edges.weights >= 0) | ~np.isfinite(edges.weights))
        if len(wrong):
            weight = f"edge {wrong[0]} has the weight {edges.weights[wrong[0]]:g}"
            raise Failure(f"{path}: {weight}; it must be finite, at least 0")
    return edges
