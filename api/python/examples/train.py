"""Tune a small transformer on a text, with heed beside PyTorch's own attention.

    pip install torch transformers
    python train.py [FILE] [--steps N]

A Llama for letters is made from a configuration, with random weights; nothing is downloaded. Two
copies of it learn what comes next in FILE (the README of the C API unless given), with the same
batches in turns: one attends with PyTorch ("sdpa"), one with heed, forwards and backwards. Prints
both losses as they fall, how far they are ever apart, and the time of a step.
"""

import argparse
import copy
import statistics
import time
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import heed.torch
import heed.transformers

TEXT = Path(__file__).parents[3] / "api" / "README.md"
WAYS = ("sdpa", "heed")
BATCH, LENGTH = 8, 128


def read(path: Path) -> tuple[list[str], torch.Tensor]:
    """The letters that there are, and the text as their numbers."""
    text = path.read_text(encoding="utf-8")
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    return letters, torch.tensor([number[letter] for letter in text])


def models(letters: int) -> dict[str, LlamaForCausalLM]:
    """The same model twice."""
    config = LlamaConfig(
        vocab_size=letters,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
    )
    made = LlamaForCausalLM(config)
    both = {way: copy.deepcopy(made) for way in WAYS}
    for way, model in both.items():
        model.set_attn_implementation(way)
    return both


def train(text, both, steps):
    """The losses of all steps, and their seconds."""
    optimizers = {w: torch.optim.AdamW(m.parameters(), lr=2e-3) for w, m in both.items()}
    losses, seconds = {w: [] for w in WAYS}, {w: [] for w in WAYS}
    for step in range(steps):
        begins = torch.randint(len(text) - LENGTH, (BATCH,))
        batch = torch.stack([text[i : i + LENGTH] for i in begins])
        for way in WAYS if step % 2 else reversed(WAYS):
            start = time.perf_counter()
            optimizers[way].zero_grad()
            loss = both[way](input_ids=batch, labels=batch).loss
            loss.backward()
            optimizers[way].step()
            seconds[way].append(time.perf_counter() - start)
            losses[way].append(loss.item())
    return losses, seconds


def main() -> None:
    """Train, compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=TEXT, help="the text")
    parser.add_argument("--steps", type=int, default=40, help="how many (40)")
    arguments = parser.parse_args()
    letters, text = read(arguments.file)
    if len(text) <= LENGTH or arguments.steps < 2:
        parser.error(f"there must be 2 steps, and a text of more than {LENGTH} letters")

    heed.transformers.register()
    torch.manual_seed(0)
    both = models(len(letters))
    losses, seconds = train(text, both, arguments.steps)

    last = arguments.steps - 1
    for step in sorted({0, last // 4, last // 2, 3 * last // 4, last}):
        told = "  ".join(f"{way} {losses[way][step]:.4f}" for way in WAYS)
        print(f"step {step + 1:3}  {told}")
    apart = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    print(f"the losses are at most {apart:.1e} apart")
    for way in WAYS:
        print(f"{1e3 * statistics.median(seconds[way]):7.1f} ms a step with {way}")
    print("who attended:", heed.torch.report())


if __name__ == "__main__":
    main()
