"""Attention and its gradients on the same tensors: heed's, and PyTorch's, by autograd."""

from shape import BIASES, DROPOUT, MASKS, TYPES, Shape


def sdpa(torch, shape, tensors, mask=None):
    """PyTorch's attention."""
    return torch.nn.functional.scaled_dot_product_attention(
        *tensors, attn_mask=mask, dropout_p=shape.dropout, is_causal=shape.causal,
        enable_gqa=shape.heads != shape.key_heads)


class Problem:
    """The tensors of a workload's layer, and the gradient of its out. A bias is learnt too."""

    def __init__(self, torch, workload, layer=0, learns=True):
        s = self.shape = Shape(workload)
        if s.asks_for_more_than(MASKS, BIASES, TYPES, DROPOUT) or (learns and s.layers > 1) or (
                s.bottom_right and s.queries != s.keys):
            raise ValueError(
                "PyTorch has causal (from the first row on), masks, biases, dropout and types alone")
        if s.asks_for_several():
            raise ValueError("PyTorch takes one of a mask, a bias and causal")
        kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
        self.kind = kinds.get(s.one_of(TYPES), torch.float32)
        take = lambda array: torch.from_numpy(array).to(self.kind).requires_grad_(learns)
        self.inputs = {name: take(array) for name, array in zip(("query", "key", "value"), s.tensors(layer))}
        self.mask = torch.from_numpy(s.mask()) if s.one_of(MASKS) else None
        if s.one_of(BIASES):
            self.inputs["bias"] = take(s.bias())
        sizes = (s.batch, s.heads, s.queries, s.value_features)
        self.grad_out = torch.randn(sizes, generator=torch.Generator().manual_seed(4)).to(self.kind)

    def names(self):
        """Of the gradients, in order."""
        return list(self.inputs)


class Heed:
    """Into tensors that are there: out, and gradients."""

    def __init__(self, heed, torch, problem, threads, isa=None):
        self.heed, self.grad_out = heed, problem.grad_out
        given = {name: tensor.detach() for name, tensor in problem.inputs.items()}
        self.inputs = [given.pop(name) for name in ("query", "key", "value")]
        self.scores = {name: tensor for name, tensor in {**given, "attn_mask": problem.mask}.items()
                       if tensor is not None}
        self.scores["seed"] = 1  # of what is dropped, if anything is
        self.options = {"causal": "top_left" if problem.shape.causal else False,
                        "dropout": problem.shape.dropout,
                        "context": heed.Context(threads=threads or None, isa=isa)}
        self.out = torch.empty_like(problem.grad_out)
        self.gradients = {name: torch.empty_like(tensor, requires_grad=False)
                          for name, tensor in problem.inputs.items()}
        self.plan = heed.plan(*self.inputs, out=self.out, return_lse=True, **self.scores, **self.options)
        info = self.plan.describe()
        self.about = f"{info['isa']}, {info['executor']}"

    def forward(self):
        """out, and what backward needs of it."""
        self.lse = self.plan(*self.inputs, out=self.out, **self.scores).lse
        return self.out

    def backward(self):
        self.heed.attention_backward(
            *self.inputs, self.out, self.lse, self.grad_out, **self.scores, **self.options,
            **{f"grad_{name}": tensor for name, tensor in self.gradients.items()})
        return list(self.gradients.values())


class PyTorch:
    def __init__(self, torch, problem):
        self.torch, self.problem, self.mask = torch, problem, problem.inputs.get("bias", problem.mask)

    def forward(self):
        tensors = (self.problem.inputs[name] for name in ("query", "key", "value"))
        self.out = sdpa(self.torch, self.problem.shape, tensors, self.mask)
        return self.out

    def backward(self):
        """Of the latest out, as often as wanted."""
        return self.torch.autograd.grad(self.out, list(self.problem.inputs.values()),
                                        self.problem.grad_out, retain_graph=True)
