#!/usr/bin/env python3
"""Compares heed's gradients of attention with PyTorch's, in one process and on the same numbers.

For each workload of heed_perf --backward that PyTorch has too, the programs take turns (heed, torch,
heed, torch, ...), so that whatever else the machine does hits both; a ratio is taken within a turn,
and the median over turns is printed. Before that their gradients are compared. Two lines each:

    together    forward and backward, as a step of training runs them
    alone       backward alone, of what one forward run has left

    pip install torch              scaled_dot_product_attention and its autograd
"""

import re
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import for_each, imported, parser_of
from gradients import Heed, Problem, PyTorch
from shape import BIASES, DROPOUT, MASKS, TYPES, Shape, listed
from turns import Table


def offered():
    """The workloads of heed_perf that PyTorch has: no windows, sinks, softcaps and packed batches."""
    return [name for name in listed("kBackwardWorkloads")
            if not Shape(name).asks_for_more_than(MASKS, BIASES, TYPES, DROPOUT)]


def tolerance(torch, problem, gradient):
    """Sums of n products in float32 are a random walk of n roundings; 64 times that leaves room for
    three in a row and a softmax. 16-bit gradients PyTorch sums in 16 bits, up to n of them."""
    s, epsilon = problem.shape, torch.finfo(problem.kind).eps
    roundings = 16 if epsilon > 1e-4 else 64 * max(s.features, s.queries, s.keys) ** 0.5
    return roundings * epsilon * gradient.abs().max().item()


def check(torch, workload, problem, heed, peer):
    """Leaves where gradients differ by more than rounding."""
    heed.forward(), peer.forward()
    for name, ours, theirs in zip(problem.names(), heed.backward(), peer.backward()):
        difference, most = (ours - theirs).abs().max().item(), tolerance(torch, problem, theirs)
        if not difference <= most:
            sys.exit(f"{workload}: gradients of {name} differ by {difference:.3g}, more than {most:.3g}")


def compare(package, torch, table, workload, threads):
    torch.set_num_threads(threads)
    programs = lambda problem: (Heed(package, torch, problem, threads), PyTorch(torch, problem))
    # Without dropout, of which each has a mask of its own.
    plain = Problem(torch, re.sub(r"_dropout\d+", "", workload))
    check(torch, workload, plain, *programs(plain))
    heed, peer = programs(Problem(torch, workload))
    table.add_training(workload, (heed, peer), threads == 1)
    return heed.about


def main():
    options = parser_of(__doc__, epilog="HEED_ISA and HEED_PARALLEL choose as in any program.").parse_args()
    torch, heed = imported("torch", "heed")
    print(f"heed {heed.__version__}, torch {torch.__version__}")
    workloads = options.workload or offered()
    table = Table(["heed", "torch"], options.threads, options.repetitions,
                  width=max(map(len, workloads)) + len(" together "))
    about = []
    for_each(workloads, lambda workload: about.append(
        compare(heed, torch, table, workload, options.threads)))
    table.print_ratios()
    print(f"heed: {about[-1]}")


if __name__ == "__main__":
    main()
