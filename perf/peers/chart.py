#!/usr/bin/env python3
"""Draws a file of attention.py --json as bars: chart.py RESULTS.json CHART.svg

Needs matplotlib. The same file gives the same picture, to be read on light and on dark paper.
"""

import json
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

TITLES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}
COLOURS = ["#d9822b", "#3d8fd1", "#5aa469"]
INK = "#737880"  # as far from white as from black
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "heed", "font.family": "sans-serif", "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False}
LONGEST = 3.0  # longer bars are cut, and say so
THICK = 0.76  # of a workload's bars together


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        found = json.load(file)  # for every workload how many times as long as heed each program takes
    workloads = found["times_as_long"]
    peers = [name for name in found["programs"] if name != "heed"]
    if not peers:
        sys.exit(f"{sys.argv[1]}: it has no program beside heed")
    labels = {name: f"{TITLES.get(name, name)} {version.partition('+')[0]}"
              for name, version in found["programs"].items()}
    matplotlib.rcParams.update(STYLE)
    thick = THICK / len(peers)
    figure, axes = plt.subplots(figsize=(8, 0.3 + 0.55 * len(workloads) * max(1, len(peers) / 2)))
    for number, peer in enumerate(peers):
        for row, times in enumerate(workloads.values()):
            if peer not in times:
                continue
            place = row + (number - (len(peers) - 1) / 2) * thick
            long = times[peer]
            axes.barh(place, min(long, LONGEST), thick, color=COLOURS[number % len(COLOURS)],
                      label=labels.pop(peer, None))
            text = f"{long:.2f}" if long <= LONGEST else f"{long:.2f} \u2192"
            axes.text(min(long, LONGEST) + 0.03, place, text, va="center", fontsize=9)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xlim(0, LONGEST + 0.4)
    axes.set_yticks(range(len(workloads)), workloads)
    axes.invert_yaxis()
    axes.set_xlabel(f"times as long as heed {found['programs']['heed']}, which takes 1; "
                    f"{found['threads']} threads, medians of {found['turns']} turns")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.08), ncol=len(peers))
    figure.savefig(sys.argv[2], transparent=True, bbox_inches="tight",
                   metadata={"Date": None, "Creator": "perf/peers/chart.py"})


if __name__ == "__main__":
    main()
