"""``heed graph``: attention over a graph."""

import argparse
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import heed
from heed.command import files
from heed.command.arguments import (
    add,
    add_context,
    add_options,
    add_output,
    check_asked,
    context_of,
    integer,
)
from heed.command.cost import add_yes, agree_on_memory
from heed.command.ends import Failure, in_words_of
from heed.command.files import Array
from heed.command.pieces import by_name

HELP = "compute attention over a graph from a file"
DESCRIPTION = "Computes attention over a graph: nodes attend those that edges lead from."
EXAMPLES = """\
examples:
  heed graph edges.csv --features x.npy -o out.npy
  heed graph edges.csv --features x.npy --heads 8 --undirected --self-loops -o out.npy
  heed graph edges.npy --features x.npy --matrices w.npz --heads 4 --weights -o all.npz
  heed graph edges.csv --features x.npy --show 0      what node 0 attends most

EDGES has a line for each edge: its source and destination, whole numbers from 0, and perhaps a
weight, with blanks or commas between; an edge of weight 2 counts like two. Or it is a .npy file
[2, edges]. Destinations attend to sources.

--matrices has w_query and w_key [width, heads * features], w_value [width, heads * value features]
and perhaps b_query, b_key and b_value. Without it, features are what nodes ask, are found by and
tell."""

# Features are what nodes ask, are found by and tell, or what these are made of.
WORDS = dict.fromkeys(("query", "key", "value", "data"), "--features")
MATRICES = ("w_query", "w_key", "w_value")
RESULTS = ("return_weights", "return_lse")
SCORES = ("scale", "softcap", "temperature", "hard")
BIASES = ("b_query", "b_key", "b_value")
SHOWN = 10  # sources of a node
MOST_NODES = (1 << 31) - 1


@dataclass
class Edges:
    """From sources to destinations; weights where the file has them."""

    sources: Array
    destinations: Array
    weights: Array | None = None

    @property
    def nodes(self) -> int:
        """How many nodes edges name, from 0."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments; options of attention are called as its own."""
    add(parser, "EDGES", "a text or .npy file; - is stdin", dest="graph")
    add(parser, "--features FILE", "[nodes, width] or [nodes, heads, features]", required=True)
    add(parser, "--matrices FILE", "projects features, a .npz file")
    add(parser, "--heads HEADS", "into how many features are cut (1)", type=integer(1))
    add_output(parser)
    told = "of every edge and head too (.npz)"
    add(parser, "--weights", told, dest="return_weights")
    add(parser, "--lse", "the log-sum-exp of every node too (.npz)", dest="return_lse")
    add(parser, "--undirected", "every edge leads both ways")
    add(parser, "--self-loops", "every node attends itself too")
    told = "what becomes of edges that are given again (remove)"
    add(parser, "--duplicates HOW", told, choices=("remove", "keep"), default="remove")
    add_options(parser, SCORES)
    told = f"tell the {SHOWN} sources it attends most"
    add(parser, "--show NODE", told, type=integer(0))
    add(parser, "--quiet", "print nothing but errors")
    add_context(parser)
    add_yes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads, computes, writes, tells."""
    asked = check_asked(RESULTS, arguments)
    asked = [name.removeprefix("return_") for name in asked]
    arguments.return_weights |= arguments.show is not None
    files.check_results(
        {"-o": (arguments.output, files.ARRAYS)},
        {
            "EDGES": arguments.graph,
            "--features": arguments.features,
            "--matrices": arguments.matrices,
        },
    )
    features = files.read_array(arguments.features)
    edges = read_edges(arguments.graph)
    nodes = len(features) if features.ndim else 0
    if nodes < edges.nodes:
        raise Failure(
            f"--features has {nodes} nodes; {arguments.graph} names node {edges.nodes - 1}"
        )
    if arguments.show is not None and arguments.show >= nodes:
        raise Failure(f"--show is {arguments.show}; it must be 0 to {nodes - 1}")
    if arguments.undirected:
        edges = edges.both_ways()
    if arguments.self_loops:
        edges = edges.with_loops(nodes)
    agree_on_memory("results", result_bytes(arguments, edges, features), arguments)
    results = attend(arguments, edges, features)
    kept = {name: results[name] for name in ("out", *asked)}
    files.write_results(arguments.output, kept)
    if not arguments.quiet:
        print(files.told(arguments.output, kept))
    if arguments.show is not None:
        show(arguments.show, edges, results["weights"])
    return 0


def attend(arguments: argparse.Namespace, edges: Edges, features: Array) -> dict[str, Array]:
    """Out, and the rest of it."""
    with in_words_of(arguments.words | WORDS):
        graph = heed.Graph(
            edges.sources, edges.destinations, nodes=len(features), duplicates=arguments.duplicates
        )
        options: dict[str, Any] = {
            name: getattr(arguments, name)
            for name in (*SCORES, *RESULTS)
            if getattr(arguments, name)
        }
        if edges.weights is not None:
            real = np.float64 if features.dtype == np.float64 else np.float32
            options["edge_bias"] = np.log(edges.weights).astype(real)[:, None]
        options |= inputs_of(arguments, features)
        return by_name(heed.graph_attention(graph, context=context_of(arguments), **options))


def result_bytes(arguments: argparse.Namespace, edges: Edges, features: Array) -> float:
    """The bytes of out, and of weights where they are asked for; both at most in float64."""
    heads = arguments.heads or (features.shape[1] if features.ndim == 3 else 1)
    weights = len(edges.sources) * heads if arguments.return_weights else 0
    return 8.0 * (features.size + weights)


def inputs_of(arguments: argparse.Namespace, features: Array) -> dict[str, Any]:
    """Features, cut into heads, or matrices that they are projected with."""
    heads = arguments.heads or 1
    if arguments.matrices is not None:
        if features.ndim != 2:
            raise Failure(f"--features has {features.ndim} axes; with --matrices it must have 2")
        arrays = files.read_arrays(arguments.matrices)
        missing = [name for name in MATRICES if name not in arrays]
        if missing:
            raise Failure(f"--matrices {arguments.matrices}: {missing[0]} is missing")
        known = {name: arrays[name] for name in (*MATRICES, *BIASES) if name in arrays}
        return {"data": features, "heads": heads, **known}
    if features.ndim == 2 and features.shape[1] % heads == 0:
        features = features.reshape(len(features), heads, -1)
    elif features.ndim == 2:
        raise Failure(f"--heads is {heads}; it must divide the {features.shape[1]} features")
    elif features.ndim != 3 or arguments.heads not in (None, features.shape[1]):
        shape = list(features.shape)
        raise Failure(
            f"--features is {shape}; it must be [nodes, width] or [nodes, heads, features]"
        )
    return {"query": features, "key": features, "value": features}


def show(node: int, edges: Edges, weights: Array) -> None:
    """Prints the sources that a node attends most, in the mean over heads."""
    into = np.flatnonzero(edges.destinations == node)
    mean = weights[into].reshape(len(into), -1).mean(axis=1) if len(into) else np.empty(0)
    order = np.argsort(-mean, kind="stable")[:SHOWN]
    print(f"node {node} attends {len(into)} edges" + (", most" if len(order) else ""))
    for edge in order:
        bar = "█" * round(20 * float(mean[edge]))
        print(f"  {edges.sources[into[edge]]:>10}  {mean[edge]:.3f}  {bar}".rstrip())


def read_edges(path: str) -> Edges:
    """Reads a .npy file [2, edges], or lines: source, destination and perhaps a weight."""
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
