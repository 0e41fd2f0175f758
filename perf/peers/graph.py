#!/usr/bin/env python3
"""Compares heed with PyTorch Geometric on attention over graphs.

Both get the same graph, with edges sorted by destination, the same queries, keys and values, and
the same number of threads, in one process; TransformerConv computes its message passing alone
(propagate), without the projections around it. Results must agree before anything is timed. They
take turns, so that whatever else the machine does hits both; a ratio is taken within a turn, and
the median over turns is printed. With one thread times are the thread's CPU time.

    pip install torch torch_geometric

With --backward both also compute the gradients of queries, keys and values from that of the result.
Two lines each:

    together    forward and backward, as a step of training runs them
    alone       backward alone, of what one forward run has left

A workload shows "-" where PyTorch Geometric would need more memory than there is: it holds some
rows for every edge.
"""

import math
import os
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import for_each, imported, parser_of
from shape import numpy, parts_of
from turns import Table, seconds_per_call

WORKLOADS = [
    "er_N10000_deg8_H4_D16",
    "er_N10000_deg32_H4_D64",
    "rmat_N10000_deg8_H4_D16",
    "rmat_N10000_deg32_H4_D64",
    "er_N100000_deg8_H4_D64",
    "rmat_N100000_deg8_H4_D64",
    "rmat_N100000_deg32_H4_D16",
    "er_N1000000_deg8_H4_D16",
    "rmat_N1000000_deg8_H4_D16",
]

# Rows for every edge that TransformerConv holds at once: queries, keys, their products, values and
# weighted values.
ROWS_PER_EDGE = 5

# And with --backward: what autograd keeps of these, and the gradients of as many.
TRAINING_ROWS_PER_EDGE = 10


class GraphShape:
    """A workload of heed_perf --graphs by name; heed_perf --help has the grammar. The graphs are
    of the same kinds as heed_perf's, not the same ones."""

    def __init__(self, name):
        size, self.options = parts_of(name, {"N", "deg", "H", "D"})
        self.kind = name.split("_")[0]
        if set(self.options) != {self.kind} or self.kind not in {"er", "rmat", "hubs"}:
            raise ValueError("only er, rmat or hubs with sizes can be compared")
        self.nodes, self.degree = size["N"], size["deg"]
        self.heads, self.features = size["H"], size["D"]

    def edges(self, random):
        """Sources and destinations, sorted by destination and source, each edge once."""
        count = self.nodes * self.degree
        if self.kind == "rmat":
            sources, destinations = self.rmat_edges(random, count)
        else:
            sources = random.integers(self.nodes, size=count)
            destinations = random.integers(self.nodes, size=count)
        if self.kind == "hubs":  # 8 of them, to which every other edge leads
            destinations[::2] = destinations[::2] % 8 * (self.nodes // 8)
        codes = numpy.unique(destinations * self.nodes + sources)
        return codes % self.nodes, codes // self.nodes

    def rmat_edges(self, random, count):
        """The quarters of Graph500 at every level, and names that say nothing of the degree."""
        levels = math.ceil(math.log2(self.nodes))
        ends = numpy.empty((2, 0), dtype=numpy.int64)
        while ends.shape[1] < count:
            more = numpy.zeros((2, count), dtype=numpy.int64)
            for _ in range(levels):
                choice = random.random(count, dtype=numpy.float32)
                more = 2 * more
                more[0] += choice >= 0.76
                more[1] += ((choice >= 0.57) & (choice < 0.76)) | (choice >= 0.95)
            ends = numpy.hstack([ends, more[:, (more < self.nodes).all(axis=0)]])
        return random.permutation(self.nodes)[ends[:, :count]]

    def tensors(self, random):
        """Query, key and value, [nodes, heads, features]."""
        sizes = (self.nodes, self.heads, self.features)
        return [random.standard_normal(sizes, dtype=numpy.float32) for _ in range(3)]


class HeedGraph:
    """One plan, and what its runs need; they write into arrays that are there."""

    def __init__(self, heed, threads, shape, edges, tensors, backward):
        self.heed, self.tensors = heed, tensors
        self.out, self.grads = numpy.empty_like(tensors[0]), [numpy.empty_like(t) for t in tensors]
        self.grad_out = numpy.ones_like(self.out)
        self.context = heed.Context(threads=threads)
        sources, destinations = (numpy.ascontiguousarray(e, "int32") for e in edges)
        self.graph = heed.Graph(sources, destinations, nodes=shape.nodes, duplicates="keep",
                                reverse=backward, context=self.context)
        self.plan = heed.graph_attention_plan(self.graph, *tensors, out=self.out, context=self.context)

    def train(self):
        self.run()
        self.differentiate()

    def differentiate(self):
        query, key, value = self.grads
        self.heed.graph_attention_backward(
            self.graph, *self.tensors, grad_out=self.grad_out, grad_query=query, grad_key=key,
            grad_value=value, context=self.context)

    def run(self):
        self.plan(*self.tensors, out=self.out)


class PyTorchGeometric:
    def __init__(self, threads, torch, torch_geometric):
        from torch_geometric.nn import TransformerConv

        torch.set_num_threads(threads)
        self.torch, self.layer = torch, TransformerConv
        self.version = f"{torch_geometric.__version__} on torch {torch.__version__}"

    def prepare(self, shape, edges, tensors):
        """A function that passes the messages and returns the result."""
        conv = self.layer(1, shape.features, heads=shape.heads, root_weight=False).eval()
        edge_index = self.torch.from_numpy(numpy.stack(edges))
        query, key, value = map(self.torch.from_numpy, tensors)

        def run():
            with self.torch.inference_mode():
                return conv.propagate(edge_index, query=query, key=key, value=value,
                                      edge_attr=None, size=(shape.nodes, shape.nodes))

        return run

    def prepare_training(self, shape, edges, tensors):
        """The same with gradients: a function that returns the result, and one that returns it with
        the gradients of its inputs."""
        conv = self.layer(1, shape.features, heads=shape.heads, root_weight=False).eval()
        edge_index = self.torch.from_numpy(numpy.stack(edges))
        leaves = [self.torch.from_numpy(t).requires_grad_() for t in tensors]

        def forward():
            query, key, value = leaves
            return conv.propagate(edge_index, query=query, key=key, value=value, edge_attr=None,
                                  size=(shape.nodes, shape.nodes))

        def backward(out, retain_graph=False):
            for leaf in leaves:
                leaf.grad = None
            out.backward(self.torch.ones_like(out), retain_graph=retain_graph)
            return out.detach(), [leaf.grad for leaf in leaves]

        return forward, backward


def available_bytes():
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(ours, theirs, name):
    """Both are means of nearly normal numbers in float32, or sums of such, some 1e-6 of their size
    from the truth; an edge in the wrong place would make a difference of 1e-2 or more."""
    size = max(1.0, float(numpy.abs(theirs).max()))
    difference = float(numpy.abs(ours - theirs).max()) / size
    if not difference <= 1e-4:
        sys.exit(f"{name}: the results differ by {difference:.3g}")


def compare(heed, peer, table, name, options):
    shape = GraphShape(name)
    random = numpy.random.default_rng(1)
    edges, tensors = shape.edges(random), shape.tensors(random)
    ours = HeedGraph(heed, options.threads, shape, edges, tensors, options.backward)
    rows = TRAINING_ROWS_PER_EDGE if options.backward else ROWS_PER_EDGE
    needed = rows * len(edges[0]) * shape.heads * shape.features * 4
    fits = needed < 0.9 * available_bytes()
    if not fits:
        print(f"PyG would need {needed / 2**30:.1f} GiB for {name}")

    def add(label, *calls):
        alone = options.threads == 1
        table.add(name + label, [(lambda c=call: seconds_per_call(c, alone)) if call else None
                                 for call in calls])

    if options.backward:
        ours.train()
        forward, backward = peer.prepare_training(shape, edges, tensors) if fits else (None, None)
        if fits:
            out, grads = backward(forward())
            check(ours.out, out.numpy().reshape(ours.out.shape), name)
            for mine, theirs in zip(ours.grads, grads):
                check(mine, theirs.numpy().reshape(mine.shape), name)
        add(" together", ours.train, fits and (lambda: backward(forward())))
        kept = fits and forward()  # not before: it would be there twice
        add(" alone", ours.differentiate, fits and (lambda: backward(kept, retain_graph=True)))
    else:
        ours.run()
        run = peer.prepare(shape, edges, tensors) if fits else None
        if fits:
            check(ours.out, run().numpy().reshape(ours.out.shape), name)
        add("", ours.run, run)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--backward", action="store_true",
                        help="gradients: together with the forward run, and alone")
    options = parser.parse_args()
    torch, torch_geometric, heed = imported("torch", "torch_geometric", "heed")
    peer = PyTorchGeometric(options.threads, torch, torch_geometric)
    print(f"heed {heed.__version__}, torch_geometric {peer.version}")
    table = Table(["heed", "PyG"], options.threads, options.repetitions, width=38)
    for_each(options.workload or WORKLOADS,
             lambda workload: compare(heed, peer, table, workload, options))


if __name__ == "__main__":
    main()
