"""Attention and its gradients on the same tensors: heed's through its C API, PyTorch's by autograd."""

import ctypes

from shape import BIASES, MASKS, TYPES, Shape


class Problem:
    """A workload's tensors, and the gradient of its out. A bias is learnt too."""

    def __init__(self, torch, workload):
        s = self.shape = Shape(workload)
        if s.asks_for_more_than(MASKS, BIASES, TYPES) or s.layers > 1 or (
                s.bottom_right and s.queries != s.keys):
            raise ValueError("PyTorch has causal (from the first row on), masks, biases and types alone")
        if (s.one_of(MASKS) is not None) + (s.one_of(BIASES) is not None) + s.causal > 1:
            raise ValueError("PyTorch takes one of a mask, a bias and causal")
        kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
        self.kind = kinds.get(s.one_of(TYPES), torch.float32)
        take = lambda array: torch.from_numpy(array).to(self.kind)
        self.inputs = {name: take(array).requires_grad_()
                       for name, array in zip(("query", "key", "value"), s.tensors())}
        self.mask = torch.from_numpy(s.mask()) if s.one_of(MASKS) else None
        if s.one_of(BIASES):
            self.inputs["bias"] = take(s.bias()).requires_grad_()
        sizes = (s.batch, s.heads, s.queries, s.value_features)
        self.grad_out = torch.randn(sizes, generator=torch.Generator().manual_seed(4)).to(self.kind)

    def names(self):
        """Of the gradients, in order."""
        return list(self.inputs)


class Heed:
    def __init__(self, library, torch, problem, threads, isa=None):
        s, self.library, self.problem = problem.shape, library, problem
        options = library.struct("heed_context_options", threads=threads,
                                 **({"isa": isa.encode()} if isa else {}))
        self.context = library.make("heed_context_create", options)
        kind = {torch.float32: library.HEED_DTYPE_F32, torch.bfloat16: library.HEED_DTYPE_BF16,
                torch.float16: library.HEED_DTYPE_F16, torch.float64: library.HEED_DTYPE_F64}[problem.kind]
        desc = self.desc = s.desc(library, causal=library.HEED_CAUSAL_TOP_LEFT if s.causal else 0)
        back = library.struct("heed_attention_backward_desc", attention=ctypes.addressof(desc))
        for layout in (desc.query, desc.key, desc.value, desc.out, back.grad_out, back.grad_query,
                       back.grad_key, back.grad_value, desc.bias, back.grad_bias):
            layout.dtype = kind
        bias = problem.inputs.get("bias")
        for layout, scores in ((desc.mask, problem.mask), (desc.bias, bias)):
            if scores is not None:
                layout.batch, layout.heads, layout.rows, layout.keys = scores.shape
        real = torch.float64 if problem.kind is torch.float64 else torch.float32
        self.out = torch.full_like(problem.grad_out, float("nan"))
        self.lse = torch.full(self.out.shape[:3], float("nan"), dtype=real)
        pointers = {**problem.inputs, "out": self.out, "lse": self.lse, "mask": problem.mask}
        self.args = library.struct("heed_attention_args", **{
            name: tensor.data_ptr() for name, tensor in pointers.items() if tensor is not None})
        self.gradients = {name: torch.full_like(tensor, float("nan"), requires_grad=False)
                          for name, tensor in problem.inputs.items()}
        self.back_args = library.struct(
            "heed_attention_backward_args", attention=ctypes.addressof(self.args),
            grad_out=problem.grad_out.data_ptr(),
            **{f"grad_{name}": tensor.data_ptr() for name, tensor in self.gradients.items()})
        self.forward_plan, self.forward_room = self.plan("heed_attention_plan", desc)
        self.back_plan, self.back_room = self.plan("heed_attention_backward_plan", back)

    def plan(self, kind, desc):
        plan = self.library.make(f"{kind}_create", self.context, desc)
        info = self.library.describe(f"{kind}_describe", plan, "heed_attention_info")
        self.about = f"{info.isa.decode()}, {info.executor.decode()}"
        return plan, self.library.workspace(info.workspace_bytes)

    def forward(self):
        """out, and what backward needs of it."""
        self.library.call("heed_attention_plan_run", self.forward_plan, self.args, *self.forward_room)
        return self.out

    def backward(self):
        self.library.call("heed_attention_backward_plan_run", self.back_plan, self.back_args, *self.back_room)
        return list(self.gradients.values())

    def close(self):
        self.library.destroy("heed_attention_backward_plan_destroy", self.back_plan)
        self.library.destroy("heed_attention_plan_destroy", self.forward_plan)
        self.library.destroy("heed_context_destroy", self.context)


class PyTorch:
    def __init__(self, torch, problem):
        s, self.torch, self.problem = problem.shape, torch, problem
        self.options = {"is_causal": s.causal, "enable_gqa": s.heads != s.key_heads,
                        "attn_mask": problem.inputs.get("bias", problem.mask)}

    def forward(self):
        tensors = (self.problem.inputs[name] for name in ("query", "key", "value"))
        self.out = self.torch.nn.functional.scaled_dot_product_attention(*tensors, **self.options)
        return self.out

    def backward(self):
        """Of the latest out, as often as wanted."""
        return self.torch.autograd.grad(self.out, list(self.problem.inputs.values()),
                                        self.problem.grad_out, retain_graph=True)
