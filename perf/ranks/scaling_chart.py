"""The pictures of scaling.py: efficiency by machines for each network, and runs beside the model.

Needs matplotlib. The same file gives the same picture, to be read on light and on dark paper.
"""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import ring_model
from chart import COLOURS, INK, STYLE

MACHINES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
LENGTHS = [1 << 15, 1 << 17, 1 << 20]
GBIT = [25, 100, 400]
FLOPS = 2e12
LATENCY = 3e-6


def draw(path, source, runs):
    """runs: rows, their names and what the model says of them from two rates."""
    matplotlib.rcParams.update(STYLE)
    figure, (model, beside) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=[3, 2])
    for colour, gbit in zip(COLOURS, GBIT):
        network = ring_model.Network(LATENCY, gbit * 1e9 / 8)
        for style, length in zip((":", "--", "-"), LENGTHS):
            problem = ring_model.Problem(length, 128, 32, 8, 2)
            alone = ring_model.times(problem, 1, FLOPS, network).run
            values = [alone / n / ring_model.times(problem, n, FLOPS, network).run for n in MACHINES]
            model.plot(MACHINES, values, style, color=colour, linewidth=1.5,
                       label=f"{gbit} Gbit/s, L {length:,}")
    model.set_xscale("log", base=2)
    model.set_xticks(MACHINES, [str(n) for n in MACHINES])
    model.set_ylim(0, 1.05)
    model.set_xlabel("machines of 2 TFLOP/s; causal, D 128, H 32, 8 key heads, 16 bits")
    model.set_ylabel("efficiency, model")
    model.legend(frameon=False, fontsize=8, loc="lower left")
    measured = [row["real_time"] for row, *_ in runs]
    said = [seconds * 1e3 for _, _, (seconds, _), _ in runs]
    ends = [min(measured + said) / 2, max(measured + said) * 2]
    beside.plot(ends, ends, color=INK, linewidth=1)
    for (row, (kind, _, ranks, threads), *_), x, y in zip(runs, measured, said):
        shared = ranks * threads > row["cores"]
        beside.plot(x, y, "^" if kind == "weak" else "o", color=COLOURS[min(ranks, 4) // 2 - 1],
                    fillstyle="none" if shared else "full")
        beside.annotate(f"{ranks}", (x, y), fontsize=7, xytext=(4, -2), textcoords="offset points")
    beside.set_xscale("log")
    beside.set_yscale("log")
    beside.set_xlabel("measured ms (hollow: more ranks than processors)")
    beside.set_ylabel("model ms")
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": "perf/scaling.py", "Title": source})
