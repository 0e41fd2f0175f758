#!/usr/bin/env python3
"""Compares the errors of heed and PyTorch: the same data, float64 as the truth.

For each workload the root mean square (rms) and the largest absolute error of out are printed for
both programs, and heed's over PyTorch's. An error is taken over all heads and up to --rows query
rows of each, spread from the first to the last. One thread or many, the errors are the same.

With --backward it is the errors of the gradients of query, key and value, from the forward run on: a
line for each, over as many rows of it. Workloads may be bf16 and f16 then; the truth is that of their
rounded tensors, and gradients are rounded to the same type: what that alone makes of the truth is the
last column, an rms error below which nobody gets.

    pip install torch, and heed, or PYTHONPATH=build/release/api/python

A workload is heed_perf's name of a shape; scores are made normal with deviation 1 by default,
`_scoresN` multiplies queries so that their deviation is N (`_scores0`: 0.01).
"""

import copy
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import for_each, imported, parser_of
from gradients import Heed, PyTorch, sdpa
from gradients import Problem as Differentiated
from shape import Shape, numpy

WORKLOADS = [
    "B1_H8_L1024_D64",
    "B1_H4_L4096_D128",
    "B1_H4_L4096_D128_causal",
    "B8_H4_L128_D64",
    "B1_H8_L1024_D64_scores0",
    "B1_H8_L1024_D64_scores14",
    "B1_H8_Lq256_Lkv1024_D64",
    "B1_H8_Lq256_Lkv4096_D64",
    "B1_H8_Lq256_Lkv16384_D64",
    "B1_H8_Lq256_Lkv65536_D64",
]

BACKWARD = [
    "B1_H8_L1024_D64",
    "B1_H4_L4096_D128",
    "B1_H4_L4096_D128_causal",
    "B8_H4_L128_D64",
    "B1_H8_Hkv2_L1024_D64",
    "B1_H8_L1024_D64_bf16",
    "B1_H8_L1024_D64_f16",
    "B1_H8_Hkv2_L1024_D64_causal_bf16",
]

WIDTH = 40  # of a name


def spread(count, rows):
    """At most `count` of so many rows."""
    return numpy.unique(numpy.rint(numpy.linspace(0, rows - 1, min(count, rows))).astype(int))


def rms_and_maximum(error):
    return numpy.sqrt(numpy.mean(error**2)), numpy.abs(error).max()


def print_errors(name, ours, theirs, *more):
    cells = [c for a, b in zip(ours, theirs) for c in (f"{a:.2e}", f"{b:.2e}", f"{a / b:.2f}")]
    cells += [f"{number:.2e}" for number in more]
    print(name.ljust(WIDTH) + "".join(cell.rjust(11) for cell in cells), flush=True)


class Problem:
    """One workload's tensors, and some rows of what float64 makes of them."""

    def __init__(self, torch, name, rows):
        self.shape = shape = Shape(name)
        if shape.asks_for_more_than({"scores"}) or shape.bottom_right:
            raise ValueError("only causal and scoresN can be compared")
        query, self.key, self.value = shape.tensors()
        deviation = shape.options.get("scores", 1) or 0.01
        self.query = query * numpy.float32(deviation)
        self.rows = spread(rows, shape.queries)
        wide = (tensor.astype("f8") for tensor in (self.query, self.key, self.value))
        self.truth = pytorch(torch, shape, *wide)[:, :, self.rows]

    def error(self, out):
        """rms and maximum."""
        return rms_and_maximum(out[:, :, self.rows].astype("f8") - self.truth)


def pytorch(torch, shape, *tensors):
    with torch.inference_mode():
        return sdpa(torch, shape, map(torch.from_numpy, tensors)).numpy()


def true_gradients(torch, problem):
    """Of query, key and value, in float64."""
    wide = copy.copy(problem)
    wide.inputs = {name: tensor.detach().double().requires_grad_()
                   for name, tensor in problem.inputs.items()}
    wide.grad_out = problem.grad_out.double()
    truth = PyTorch(torch, wide)
    truth.forward()
    return [gradient.numpy() for gradient in truth.backward()]


def compare_gradients(package, torch, workload, options):
    problem = Differentiated(torch, workload)
    if problem.mask is not None or "bias" in problem.inputs or problem.shape.dropout > 0:
        raise ValueError("only causal and types can be compared")
    heed, peer = Heed(package, torch, problem, 0, options.isa), PyTorch(torch, problem)
    found = []
    for program in (heed, peer):
        program.forward()
        found.append([gradient.double().numpy() for gradient in program.backward()])
    for name, true, *both in zip(problem.names(), true_gradients(torch, problem), *found):
        rows = spread(options.rows, true.shape[2])
        errors = [rms_and_maximum((gradient - true)[:, :, rows]) for gradient in both]
        rounded = torch.from_numpy(true).to(problem.kind).double().numpy()
        print_errors(f"{workload} {name}", *errors, rms_and_maximum((rounded - true)[:, :, rows])[0])


def main():
    parser = parser_of(__doc__, turns=False)
    parser.add_argument("--rows", type=int, default=512, help="of each head; default %(default)s")
    parser.add_argument("--isa", help="of heed; default: the best one here")
    parser.add_argument("--backward", action="store_true", help="of gradients instead of out")
    options = parser.parse_args()
    torch, heed = imported("torch", "heed")
    context = heed.Context(isa=options.isa)
    print(f"heed {heed.__version__} {context.describe()['isa']}, torch {torch.__version__}")
    titles = ["heed rms", "torch rms", "ratio", "heed max", "torch max", "ratio"]
    titles += ["rounded"] if options.backward else []
    print("workload".ljust(WIDTH) + "".join(title.rjust(11) for title in titles))

    def compare(name):
        problem = Problem(torch, name, options.rows)
        causal = "top_left" if problem.shape.causal else False
        ours = problem.error(heed.attention(problem.query, problem.key, problem.value, causal=causal,
                                            context=context))
        print_errors(name, ours, problem.error(
            pytorch(torch, problem.shape, problem.query, problem.key, problem.value)))

    if options.backward:
        for_each(options.workload or BACKWARD,
                 lambda name: compare_gradients(heed, torch, name, options))
    else:
        for_each(options.workload or WORKLOADS, compare)


if __name__ == "__main__":
    main()
