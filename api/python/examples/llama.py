"""A Llama of Hugging Face transformers that attends with heed.

    pip install torch transformers
    python llama.py

The model is made from a configuration, with random weights; nothing is downloaded. With a model of
your own, from_pretrained(name, attn_implementation="heed") is all there is to change.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import heed.torch
import heed.transformers

heed.transformers.register()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=500,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
    pad_token_id=0,
)
model = LlamaForCausalLM(config).eval()
prompts = torch.randint(1, 500, (2, 12))
prompts[0, :5] = 0  # a shorter one, padded on the left
mask = (prompts != 0).long()

tokens = {}
for implementation in ("sdpa", "heed"):
    model.set_attn_implementation(implementation)
    tokens[implementation] = model.generate(
        prompts, attention_mask=mask, max_new_tokens=20, do_sample=False
    )
print("generated:", tuple(tokens["heed"].shape))
print("the same tokens as with sdpa:", torch.equal(tokens["heed"], tokens["sdpa"]))
print("who attended:", heed.torch.report())
