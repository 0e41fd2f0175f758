#!/usr/bin/env python3
"""Compares heed's multi-head blocks with PyTorch's, in one process and on the same numbers.

For each workload of heed_perf --blocks the programs take turns (heed, peer, heed, peer, ...), so
that whatever else the machine does hits all of them; a ratio is taken within a turn, and the
median over turns is printed. Before that their results are compared. PyTorch computes

    MHA     torch.nn.MultiheadAttention in eval mode, under inference_mode, without weights: what
            PyTorch has a fast path for
    SDPA    the same out of F.linear and F.scaled_dot_product_attention, and with enable_gqa what MHA
            has not: fewer key heads than query heads

and is needed: pip install torch numpy. Workloads may be bf16, and are with --bf16: then all tensors of
both are bfloat16. heed reads the matrices as PyTorch stores them, once, into heed_weights.

With --backward both compute gradients too, of the input, all matrices and biases, which lie as PyTorch
stores them and are as they are, since training changes them. Two lines for every workload:

    together    forward, which keeps what gradients need, and backward, as a step of training runs them
    alone       backward alone, of what one forward run has kept
"""

import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import for_each, imported, parser_of
from shape import Shape, listed
from turns import Table, seconds_per_call


class Problem:
    """Inputs, and matrices [out, in] with variance 1 / in, as PyTorch keeps them: those of queries,
    keys and values one below the other."""

    def __init__(self, torch, workload):
        s = self.shape = Shape(workload)
        offered = {"W", "nobias", "bf16"}
        if s.width is None or s.queries != s.keys or s.asks_for_more_than(offered) or s.causal:
            raise ValueError("only blocks (W) without options but nobias and bf16, of one length")
        torch.manual_seed(1)
        self.bf16 = "bf16" in s.options
        draw = lambda *sizes: torch.randn(*sizes).to(torch.bfloat16 if self.bf16 else torch.float32)
        normal = lambda rows, columns: draw(rows, columns) / columns**0.5
        self.outs = [heads * features for heads, features in (
            (s.heads, s.features), (s.key_heads, s.features), (s.key_heads, s.value_features))]
        self.w_in = normal(sum(self.outs), s.width)
        self.w_out = normal(s.width, s.heads * s.value_features)
        biased = "nobias" not in s.options
        self.b_in = draw(sum(self.outs)) if biased else None
        self.b_out = draw(s.width) if biased else None
        self.x = draw(s.batch, s.queries, s.width)

    def learn(self, torch):
        """Requires gradients of everything, from this one of out."""
        self.grad_out = torch.randn_like(self.x)
        for tensor in self.learnt().values():
            tensor.requires_grad_()
        return self

    def learnt(self):
        named = {"x": self.x, "w_in": self.w_in, "b_in": self.b_in, "w_out": self.w_out,
                 "b_out": self.b_out}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def matrices_and_biases(self, named):
        """Those of queries, keys, values and out, of all as learnt() names them."""
        parts = lambda tensor: [None] * 3 if tensor is None else tensor.split(self.outs)
        return ([*parts(named["w_in"]), named["w_out"]],
                [*parts(named.get("b_in")), named.get("b_out")])

    def tolerance(self):
        """What float32 may be off by: sums of n products of about the size of values, 1, are a
        random walk of n roundings; 64 times that leaves room for four in a row and a softmax.
        bfloat16 rounds what lies between products, and results, which are up to 8, to 8 bits."""
        if self.bf16:
            return 16 * 2**-8
        return 64 * max(self.shape.width, self.shape.queries) ** 0.5 * 2**-24


def about(info):
    return f"{info['isa']}, product {info['product']}, {info['executor']}"


class Heed:
    """From matrices that are prepared once, into a tensor that is there."""

    def __init__(self, heed, torch, problem, threads):
        s, context = problem.shape, heed.Context(threads=threads)
        matrices = [heed.Weights(w.T, b, context=context)
                    for w, b in zip(*problem.matrices_and_biases(problem.learnt()))]
        self.x, self.out = problem.x, torch.empty_like(problem.x)
        self.plan = heed.multihead_plan(
            self.x, out=self.out, heads=s.heads, key_heads=s.key_heads, context=context,
            **dict(zip(("w_query", "w_key", "w_value", "w_out"), matrices)))
        self.about = about({**context.describe(), **self.plan.describe()})

    def __call__(self):
        return self.plan(self.x, out=self.out)


class HeedTraining:
    """The same from matrices as they are, with gradients of x, w_in, b_in, w_out and b_out."""

    def __init__(self, heed, torch, problem, threads):
        s, self.heed, self.context = problem.shape, heed, heed.Context(threads=threads)
        self.x, self.grad_out = problem.x.detach(), problem.grad_out
        self.out, self.kept = torch.empty_like(self.x), heed.Kept()
        given = {name: tensor.detach() for name, tensor in problem.learnt().items()}
        self.gradients = {name: torch.empty_like(tensor) for name, tensor in given.items()}
        self.block = {"heads": s.heads, "key_heads": s.key_heads, "context": self.context,
                      **self.named(problem, given)}
        self.grads = {f"grad_{name}": tensor
                      for name, tensor in self.named(problem, self.gradients).items()}
        self.about = about(self.context.describe())

    @staticmethod
    def named(problem, tensors):
        """Matrices [in, out] and biases as heed calls them."""
        names = ("query", "key", "value", "out")
        matrices, biases = problem.matrices_and_biases(tensors)
        named = {f"w_{name}": matrix.T for name, matrix in zip(names, matrices)}
        named.update({f"b_{name}": bias for name, bias in zip(names, biases) if bias is not None})
        return named

    def forward(self):
        self.heed.multihead(self.x, keep=self.kept, out=self.out, **self.block)

    def backward(self):
        self.heed.multihead_backward(self.x, grad_out=self.grad_out, grad_query=self.gradients["x"],
                                     keep=self.kept, **self.block, **self.grads)
        return list(self.gradients.values())


class TorchTraining:
    """SDPA under autograd."""

    def __init__(self, torch, problem):
        self.torch, self.problem = torch, problem
        self.block = sdpa(torch, problem, None)

    def forward(self):
        self.out = self.block()

    def backward(self):
        """Of the latest out, as often as wanted."""
        return self.torch.autograd.grad(self.out, list(self.problem.learnt().values()),
                                        self.problem.grad_out, retain_graph=True)


def mha(torch, problem, _threads):
    s = problem.shape
    if s.key_heads != s.heads or s.value_features != s.features or s.width != s.heads * s.features:
        return None
    module = torch.nn.MultiheadAttention(s.width, s.heads, bias=problem.b_in is not None,
                                         batch_first=True, dtype=problem.x.dtype).eval()
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


def check_gradients(workload, problem, heed, peer):
    """Those of matrices are sums over all rows; terms as large as the largest cancel."""
    rows = problem.shape.batch * problem.shape.queries
    heed.forward(), peer.forward()
    for name, ours, theirs in zip(problem.learnt(), heed.backward(), peer.backward()):
        difference = (ours - theirs).abs().max().item()
        most = problem.tolerance() * max(1, rows / problem.shape.queries) ** 0.5 * theirs.abs().max().item()
        if not difference <= most:
            sys.exit(f"{workload}: gradients of {name} differ by {difference:.3g}, more than {most:.3g}")


def compare_gradients(package, torch, table, workload, threads):
    problem = Problem(torch, workload)
    if problem.bf16:
        raise ValueError("gradients are compared in float32 alone")
    problem.learn(torch)
    torch.set_num_threads(threads)
    heed, peer = HeedTraining(package, torch, problem, threads), TorchTraining(torch, problem)
    check_gradients(workload, problem, heed, peer)
    table.add_training(workload, (heed, peer), threads == 1)
    return heed.about


def compare(package, torch, table, workload, threads):
    problem = Problem(torch, workload)
    torch.set_num_threads(threads)
    heed = Heed(package, torch, problem, threads)
    calls = [heed, mha(torch, problem, threads), sdpa(torch, problem, threads)]
    with torch.inference_mode():
        check(workload, problem, calls)
        turns = [call and (lambda call=call: seconds_per_call(call, threads == 1)) for call in calls]
        table.add(workload, turns)
    return heed.about


def main():
    parser = parser_of(__doc__, epilog=(
        "HEED_ISA, HEED_PRODUCT and HEED_PARALLEL choose as in any program."))
    parser.add_argument("--bf16", action="store_true", help="the default blocks in bfloat16")
    parser.add_argument("--backward", action="store_true", help="gradients, beside SDPA's autograd")
    options = parser.parse_args()
    torch, heed = imported("torch", "heed")
    print(f"heed {heed.__version__}, torch {torch.__version__}")
    names, width, compared = ["heed", "MHA", "SDPA"], 36, compare
    if options.backward:
        names, width, compared = ["heed", "SDPA"], 36 + len(" together "), compare_gradients
    table = Table(names, options.threads, options.repetitions, width=width)
    about = []
    blocks = [name + "_bf16" * options.bf16 for name in listed("kBlockWorkloads")]
    for_each(options.workload or blocks, lambda workload: about.append(
        compared(heed, torch, table, workload, options.threads)))
    if options.backward:
        table.print_ratios()
    print(f"heed: {about[-1]}")


if __name__ == "__main__":
    main()
