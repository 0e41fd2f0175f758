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

With --layer whole layers are compared, projections included: heed.pyg's and PyTorch Geometric's of
that name with the same parameters, on data of 64 numbers per node. Their gradients are those of data
and all parameters.

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

    def forward(self):
        self.plan(*self.tensors, out=self.out)
        return self.out

    def backward(self):
        query, key, value = self.grads
        self.heed.graph_attention_backward(
            self.graph, *self.tensors, grad_out=self.grad_out, grad_query=query, grad_key=key,
            grad_value=value, context=self.context)
        return self.grads


class Layer:
    """A whole layer, of heed.pyg or of PyTorch Geometric; `like` is one with the same parameters."""

    WIDTH = 64

    def __init__(self, torch, layers, kind, shape, edges, learns, like=None):
        self.torch, self.learns = torch, learns
        self.conv = getattr(layers, kind)(self.WIDTH, shape.features, heads=shape.heads)
        if like:
            self.conv.load_state_dict(like.conv.state_dict())
        self.edges = torch.from_numpy(numpy.stack(edges))
        data = numpy.random.default_rng(2).standard_normal((shape.nodes, self.WIDTH), dtype=numpy.float32)
        self.data = torch.from_numpy(data).requires_grad_(learns)

    def forward(self):
        with self.torch.inference_mode(not self.learns):
            self.out = self.conv(self.data, self.edges)
        return self.out.detach().numpy()

    def backward(self):
        leaves = [self.data, *self.conv.parameters()]
        grads = self.torch.autograd.grad(self.out, leaves, self.torch.ones_like(self.out), retain_graph=True)
        return [grad.numpy() for grad in grads]


class PyTorchGeometric:
    """The messages of a TransformerConv, passed."""

    def __init__(self, torch, geometric, shape, edges, tensors, learns):
        self.torch, self.learns, self.nodes = torch, learns, shape.nodes
        self.conv = geometric.nn.TransformerConv(1, shape.features, heads=shape.heads, root_weight=False).eval()
        self.edges = torch.from_numpy(numpy.stack(edges))
        self.leaves = [torch.from_numpy(tensor).requires_grad_(learns) for tensor in tensors]

    def forward(self):
        query, key, value = self.leaves
        with self.torch.inference_mode(not self.learns):
            self.out = self.conv.propagate(self.edges, query=query, key=key, value=value, edge_attr=None,
                                           size=(self.nodes, self.nodes))
        return self.out.detach().numpy()

    def backward(self):
        """Of the latest out, as often as wanted."""
        grads = self.torch.autograd.grad(self.out, self.leaves, self.torch.ones_like(self.out), retain_graph=True)
        return [grad.numpy() for grad in grads]


def available_bytes():
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(ours, theirs, name):
    """Both are means of nearly normal numbers in float32, or sums of such, some 1e-6 of their size
    from the truth; an edge in the wrong place would make a difference of 1e-2 or more."""
    size = max(1.0, float(numpy.abs(theirs).max()))
    difference = float(numpy.abs(ours - theirs).max()) / size
    if not difference <= 1e-4:
        sys.exit(f"{name}: the results differ by {difference:.3g}")


def compare(heed, torch, geometric, table, name, options):
    shape = GraphShape(name)
    random = numpy.random.default_rng(1)
    edges, tensors = shape.edges(random), shape.tensors(random)
    how = options.layer, shape, edges, options.backward
    ours = (Layer(torch, heed.pyg, *how) if options.layer else
            HeedGraph(heed, options.threads, shape, edges, tensors, options.backward))
    rows = TRAINING_ROWS_PER_EDGE if options.backward else ROWS_PER_EDGE
    needed = rows * len(edges[0]) * shape.heads * shape.features * 4
    peer = None
    if needed < 0.9 * available_bytes():
        peer = (Layer(torch, geometric.nn, *how, like=ours) if options.layer else
                PyTorchGeometric(torch, geometric, shape, edges, tensors, options.backward))
    else:
        print(f"PyG would need {needed / 2**30:.1f} GiB for {name}")
    mine = [ours.forward(), *(ours.backward() if options.backward else ())]
    if peer:
        theirs = [peer.forward(), *(peer.backward() if options.backward else ())]
        for one, other in zip(mine, theirs):
            check(one, other.reshape(one.shape), name)
    alone = options.threads == 1
    if options.backward:
        return table.add_training(name, (ours, peer), alone)
    table.add(name, [program and (lambda p=program: seconds_per_call(p.forward, alone))
                     for program in (ours, peer)])


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--backward", action="store_true",
                        help="gradients: together with the forward run, and alone")
    parser.add_argument("--layer", choices=("GATConv", "GATv2Conv", "TransformerConv"),
                        help="whole layers, with their projections")
    options = parser.parse_args()
    torch, geometric, heed, _ = imported("torch", "torch_geometric", "heed", "torch_geometric.nn")
    torch.set_num_threads(options.threads)
    if options.layer:
        imported("heed.pyg")
    print(f"heed {heed.__version__}, torch_geometric {geometric.__version__} on torch {torch.__version__}")
    table = Table(["heed", "PyG"], options.threads, options.repetitions, width=38)
    for_each(options.workload or WORKLOADS,
             lambda workload: compare(heed, torch, geometric, table, workload, options))


if __name__ == "__main__":
    main()
