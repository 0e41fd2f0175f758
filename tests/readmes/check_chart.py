#!/usr/bin/env python3
"""The table of peers in api/docs/numbers.md, the main README's sentence about it, the file of results and
the chart say the same: check_chart.py SOURCE"""

import json
import os
import re
import sys

sys.dont_write_bytecode = True
from markdown import told


NAMES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}


def faults_of(readme, table, found, chart):
    """The main README and the table as text, the results as perf/peers/results.py reads them, the chart
    as SVG."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    shown = {name: cells for name, *cells in rows[2:]}
    measured = {workload: [f"{times[peer]:.2f}" if peer in times else "-"
                           for peer in found["programs"] if peer != "heed"]
                for workload, times in found["times_as_long"].items()}
    faults = [] if shown == measured else [f"the table has {shown}, the results {measured}"]
    for peer, name in NAMES.items():
        least = f"{min(times[peer] for times in found['times_as_long'].values() if peer in times):.2f}"
        if not re.search(rf"{name} (takes )?at least {re.escape(least)} times", " ".join(readme.split())):
            faults.append(f"the main README does not say that {name} takes at least {least} times as long")
    texts = [text.partition(" \u2192")[0] for text in re.findall(r"<text[^>]*>([^<]*)</text>", chart)]
    for peer, version in found["programs"].items():
        if peer != "heed" and not any(version.partition("+")[0] in text for text in texts):
            faults.append(f"the chart lacks {peer} {version}")
    for workload, numbers in measured.items():
        faults += [f"the chart lacks {text}, of {workload}" for text in (workload, *numbers)
                   if text != "-" and text not in texts]
    return faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    peers = os.path.join(sys.argv[1], "perf", "peers")
    with open(os.path.join(peers, "attention.json"), encoding="utf-8") as file:
        found = json.load(file)
    with open(os.path.join(sys.argv[1], "README.md"), encoding="utf-8") as file:
        readme = file.read()
    with open(os.path.join(sys.argv[1], "api", "docs", "numbers.md"), encoding="utf-8") as file:
        table = re.search(r"^\| workload \| PyTorch 2[^\n]*\n(\|[^\n]*\n)+", file.read(), re.MULTILINE)
    with open(os.path.join(peers, "attention.svg"), encoding="utf-8") as file:
        chart = file.read()
    faults = faults_of(readme, table.group(0), found, chart)
    # Doctored ones are told apart.
    number = next(iter(found["times_as_long"].values()))["torch"]
    for doctored in ((readme, table.group(0).replace(f"{number:.2f}", "7.77", 1), found, chart),
                     (readme, table.group(0), found, chart.replace(f">{number:.2f}<", ">7.77<")),
                     (re.sub(r"at least \d", "at least 7", readme), table.group(0), found, chart)):
        if not faults_of(*doctored):
            faults.append("a number that was changed is not found")
    return told(faults)


if __name__ == "__main__":
    sys.exit(main())
