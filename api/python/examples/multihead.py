"""A multi-head block with the weights of PyTorch's nn.MultiheadAttention.

pip install torch
python multihead.py
"""

import torch

import heed

WIDTH, HEADS = 64, 8
torch.manual_seed(0)
block = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
x = torch.randn(2, 10, WIDTH)

# PyTorch keeps [out, in], and the three of queries, keys and values as one. Prepared once:
matrices = {
    f"w_{name}": heed.Weights(weight.T, bias)
    for name, weight, bias in zip(
        ("query", "key", "value", "out"),
        (*block.in_proj_weight.detach().chunk(3), block.out_proj.weight.detach()),
        (*block.in_proj_bias.detach().chunk(3), block.out_proj.bias.detach()),
        strict=True,
    )
}
found = heed.multihead(x, **matrices, heads=HEADS, causal=True, return_weights=True)

with torch.inference_mode():
    not_attended = torch.ones(10, 10, dtype=torch.bool).triu(1)
    out, weights = block(x, x, x, attn_mask=not_attended, average_attn_weights=False)
print(
    "out:    ", tuple(found.out.shape), "as PyTorch's:", torch.allclose(found.out, out, atol=1e-5)
)
print("weights:", tuple(found.weights.shape), torch.allclose(found.weights, weights, atol=1e-5))
