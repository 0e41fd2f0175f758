#!/usr/bin/env python3
"""Compares heed's multi-head blocks with PyTorch's, in one process and on the same numbers.

For each workload of heed_perf --blocks the programs take turns (heed, peer, heed, peer, ...), so
that whatever else the machine does hits all of them; a ratio is taken within a turn, and the
median over turns is printed. Before that their results are compared. PyTorch computes

    MHA     torch.nn.MultiheadAttention in eval mode, under inference_mode, without weights: what
            PyTorch has a fast path for
    SDPA    the same out of F.linear and F.scaled_dot_product_attention, and with enable_gqa what MHA
            has not: fewer key heads than query heads

and is needed: pip install torch numpy. heed reads the matrices as PyTorch stores them, once, into
heed_weights.
"""

import ctypes
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import for_each, imported, load, parser_of
from shape import Shape, listed
from turns import Table, seconds_per_call



class Problem:
    """Inputs, and matrices [out, in] with variance 1 / in, as PyTorch keeps them: those of queries,
    keys and values one below the other."""

    def __init__(self, torch, workload):
        s = self.shape = Shape(workload)
        if s.width is None or s.queries != s.keys or s.asks_for_more_than({"W", "nobias"}) or s.causal:
            raise ValueError("only blocks (W) without options but nobias, of one length")
        torch.manual_seed(1)
        normal = lambda rows, columns: torch.randn(rows, columns) / columns**0.5
        self.outs = [heads * features for heads, features in (
            (s.heads, s.features), (s.key_heads, s.features), (s.key_heads, s.value_features))]
        self.w_in = normal(sum(self.outs), s.width)
        self.w_out = normal(s.width, s.heads * s.value_features)
        biased = "nobias" not in s.options
        self.b_in = torch.randn(sum(self.outs)) if biased else None
        self.b_out = torch.randn(s.width) if biased else None
        self.x = torch.randn(s.batch, s.queries, s.width)

    def tolerance(self):
        """What float32 may be off by: sums of n products of about the size of values, 1, are a
        random walk of n roundings; 64 times that leaves room for four in a row and a softmax."""
        return 64 * max(self.shape.width, self.shape.queries) ** 0.5 * 2**-24


class Heed:
    title = "heed"

    def __init__(self, library, torch, problem, threads):
        s, self.library = problem.shape, library
        options = library.struct("heed_context_options", threads=threads)
        context = library.make("heed_context_create", options)
        attention = s.desc(library)
        desc = library.struct("heed_multihead_desc", width_query=s.width,
                              attention=ctypes.addressof(attention))
        self.plan = library.make("heed_multihead_plan_create", context, desc)
        info = library.describe("heed_multihead_plan_describe", self.plan, "heed_multihead_info")
        self.about = f"{info.isa.decode()}, product {info.product.decode()}, {info.executor.decode()}"
        self.workspace = library.workspace(info.workspace_bytes)
        self.out = torch.full_like(problem.x, float("nan"))
        first = [sum(problem.outs[:i]) for i in range(3)]
        rows = [slice(f, f + out) for f, out in zip(first, problem.outs)]
        bias = lambda part: None if problem.b_in is None else problem.b_in[part]
        p_query, p_key, p_value = (
            self.prepare(context, problem.w_in[part], bias(part)) for part in rows)
        self.args = library.struct(
            "heed_multihead_args", input_query=problem.x.data_ptr(), p_query=p_query, p_key=p_key,
            p_value=p_value, p_out=self.prepare(context, problem.w_out, problem.b_out).value,
            out=self.out.data_ptr())
        self.kept = problem

    def prepare(self, context, matrix, bias):
        library, (out, features) = self.library, matrix.shape
        desc = library.struct("heed_weights_desc", out=out)
        setattr(desc, "in", features)
        desc.layout.stride_in, desc.layout.stride_out = matrix.stride(1), matrix.stride(0)
        pointer = lambda tensor: ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
        return library.make("heed_weights_create", context, desc, pointer(matrix), pointer(bias))

    def __call__(self):
        self.library.call("heed_multihead_plan_run", self.plan, self.args, *self.workspace)
        return self.out


def mha(torch, problem, _threads):
    s = problem.shape
    if s.key_heads != s.heads or s.value_features != s.features or s.width != s.heads * s.features:
        return None
    module = torch.nn.MultiheadAttention(s.width, s.heads, bias=problem.b_in is not None,
                                         batch_first=True).eval()
    with torch.no_grad():
        module.in_proj_weight.copy_(problem.w_in)
        module.out_proj.weight.copy_(problem.w_out)
        if problem.b_in is not None:
            module.in_proj_bias.copy_(problem.b_in)
            module.out_proj.bias.copy_(problem.b_out)
    return lambda: module(problem.x, problem.x, problem.x, need_weights=False)[0]


def sdpa(torch, problem, _threads):
    s, functional = problem.shape, torch.nn.functional
    heads = (s.heads, s.key_heads, s.key_heads)
    split = lambda t, count: t.unflatten(-1, (count, -1)).transpose(1, 2)

    def block():
        projected = functional.linear(problem.x, problem.w_in, problem.b_in)
        q, k, v = (split(t, n) for t, n in zip(projected.split(problem.outs, -1), heads))
        attended = functional.scaled_dot_product_attention(
            q, k, v, enable_gqa=s.heads != s.key_heads)
        return functional.linear(attended.transpose(1, 2).flatten(2), problem.w_out, problem.b_out)

    return block


def check(workload, problem, calls):
    """Leaves where results differ by more than rounding."""
    first = calls[0]().clone()
    for call in calls[1:]:
        if call is None:
            continue
        difference = (call() - first).abs().max().item()
        if not difference <= problem.tolerance():
            sys.exit(f"{workload}: results differ by {difference:.3g}, "
                     f"more than {problem.tolerance():.3g}")


def compare(library, torch, table, workload, threads):
    problem = Problem(torch, workload)
    torch.set_num_threads(threads)
    heed = Heed(library, torch, problem, threads)
    calls = [heed, mha(torch, problem, threads), sdpa(torch, problem, threads)]
    with torch.inference_mode():
        check(workload, problem, calls)
        turns = [call and (lambda call=call: seconds_per_call(call, threads == 1)) for call in calls]
        table.add(workload, turns)
    return heed.about


def main():
    options = parser_of(__doc__, "libheed.so", epilog=(
        "HEED_ISA, HEED_PRODUCT and HEED_PARALLEL choose as in any program.")).parse_args()
    torch, = imported("torch")
    library = load(options)
    print(f"heed {library.version}, torch {torch.__version__}")
    table = Table(["heed", "MHA", "SDPA"], options.threads, options.repetitions, width=36)
    about = []
    for_each(options.workload or listed("kBlockWorkloads"), lambda workload: about.append(
        compare(library, torch, table, workload, options.threads)))
    print(f"heed: {about[-1]}")


if __name__ == "__main__":
    main()
