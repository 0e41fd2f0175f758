#!/usr/bin/env python3
"""A model of attention over many machines, held against runs that can be made on one.

    heed_perf --ranks 1,2 --benchmark_out=RUNS.json
    scaling.py check RUNS.json      what the model says of these runs, and how far it is off
    scaling.py ring                 times on 8 to 1,024 machines, and what of their messages is hidden
    scaling.py length               the shortest sequences of which 0.9 of the messages are hidden
    scaling.py graph                a step over an R-MAT graph of 10^9 edges
    scaling.py plot RUNS.json CHART.svg

The rate of computing and latency and bandwidth of the network are numbers: measured by the runs for
`check`, given for the others. ranks/ring_model.py and ranks/graph_model.py say what is made of them.
scaling.py COMMAND --help lists the options.
"""

import argparse
import json
import os
import re
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "ranks"), os.path.join(HERE, "peers")]
try:
    import graph_model
    import ring_model
except ImportError as problem:  # it is not heed's to install
    print(f"skipped: {problem}; pip install numpy")
    sys.exit(77)
from shape import Shape


def problem_of(name, ranks, weak):
    shape = Shape(name)
    element = 2 if {"bf16", "f16"} & set(shape.options) else 8 if "f64" in shape.options else 4
    placement = "zigzag" if shape.causal else "full"
    return ring_model.Problem(shape.keys * (ranks if weak else 1), shape.features, shape.heads,
                              shape.key_heads, element, placement, shape.batch)


def rows_of(path):
    """(kind, workload, ranks, threads, isa) of medians, or of rows that ran once."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["benchmarks"]
    rows = {}
    for row in found:
        name = re.fullmatch(r"(strong|weak)/(\w+)/ranks:(\d+)/threads:(\d+)/isa:(\w+)/.*", row["run_name"])
        if name is None or row.get("error_occurred"):
            continue
        if row["run_type"] == "aggregate" and row["aggregate_name"] != "median":
            continue
        kind, workload, ranks, threads, isa = name.groups()
        rows[kind, workload, int(ranks), int(threads), isa] = row  # a median comes after what it is of
    return rows


def times_of_graph(row, rate, network):
    """A step over a graph, from the rows that the rank which gets most gets: as graph() has it."""
    compute = row["edges"] * row["balance"] / row["ranks"] / rate
    exchange = row["remote_rows"] * row["row_bytes"] / network.bandwidth + (row["ranks"] - 1) * network.latency
    return graph_model.step(compute, exchange, row["inner"])


def compared(rows):
    """Of every row with several ranks: the row, its name, what the model says from the rate of one rank by
    itself, and from the mean rate of ranks in that very run, which other programs slowed alike: seconds, and
    what of the messages is hidden, None for graphs."""
    for (kind, workload, ranks, threads, isa), row in rows.items():
        if ranks == 1:
            continue
        alone = rows.get((kind, workload, 1, threads, isa))
        if alone is None:
            raise SystemExit(f"{kind}/{workload} has no row of 1 rank: heed_perf --ranks 1,{ranks}")
        # More threads than processors share them.
        share = min(1.0, row["cores"] / (ranks * threads))
        network = ring_model.Network(row["latency_us"] * 1e-6, row["network_gbps"] * 1e9)
        name = (kind, workload, ranks, threads)
        if "medges" in row:
            rates = alone["medges"] * 1e6 * share, row["edges"] * 1e3 / ranks / row["mean_compute_ms"]
            yield row, name, *((times_of_graph(row, rate, network), None) for rate in rates)
            continue
        problem = problem_of(workload, ranks, kind == "weak")
        rates = alone["gflops"] * 1e9 * share, row["gflop"] * 1e12 / ranks / row["mean_compute_ms"]
        said = (ring_model.times(problem, ranks, rate, network) for rate in rates)
        yield row, name, *((times.run, times.hidden) for times in said)


def rmat_rows(workload, ranks, weak):
    """That a rank gets of an R-MAT graph by the formula, None of other graphs."""
    found = re.search(r"^rmat_(?:.*_)?N(\d+)", workload)
    degree = re.search(r"_deg(\d+)", workload)
    if found is None:
        return None
    nodes = int(found[1]) * (ranks if weak else 1)
    return graph_model.rows_of_nodes(nodes, nodes * int(degree[1]), ranks)


def check(options):
    rows = rows_of(options.runs)
    errors = []
    print(f"{'row':56} {'measured ms':>12} {'model ms':>10} {'error':>7} {'same run':>9} {'hidden':>7} {'model':>6}")
    for row, (kind, workload, ranks, threads), *said in compared(rows):
        errors.append([seconds * 1e3 / row["real_time"] - 1 for seconds, _ in said])
        name = f"{kind} {workload}/ranks:{ranks}/threads:{threads}"
        mark = " OVERSUBSCRIBED" if ranks * threads > row["cores"] else ""
        hidden = f"{'':7} {'':6}" if said[0][1] is None else f"{row['hidden']:7.2f} {said[0][1]:6.2f}"
        formula = rmat_rows(workload, ranks, kind == "weak")
        if formula is not None:
            mark = f" rows {row['remote_rows']:,.0f}, formula {formula:,.0f}{mark}"
        line = (f"{name:56} {row['real_time']:12.1f} {said[0][0] * 1e3:10.1f} {errors[-1][0]:+7.1%} "
                f"{errors[-1][1]:+9.1%} {hidden}{mark}")
        print(line.rstrip())
    if not errors:
        sys.exit(f"{options.runs}: it has no row of several ranks")
    for what, of in zip(("of one rank alone", "of the same run"), zip(*errors)):
        sizes = [abs(error) for error in of]
        print(f"with rates {what}: largest error {max(sizes):.1%}, mean {sum(sizes) / len(sizes):.1%}")


def networks(options):
    return {gbit: ring_model.Network(options.latency_us * 1e-6, gbit * 1e9 / 8) for gbit in options.gbit}


def problem_given(options, length):
    return ring_model.Problem(length, options.features, options.heads, options.key_heads or options.heads,
                              options.element_bytes, options.placement)


def ring(options):
    problem = problem_given(options, options.length)
    print(f"L {options.length:,}, D {problem.features}, H {problem.heads}, key heads {problem.key_heads}, "
          f"{problem.bytes} bytes, {problem.placement}, {options.tflops:g} TFLOP/s a machine")
    print(f"{'machines':>8}" + "".join(f" | {f'{gbit:g} Gbit/s: s':>16} efficiency hidden" for gbit in options.gbit))
    alone = ring_model.times(problem, 1, options.tflops * 1e12, ring_model.Network(0, 1)).run
    for ranks in options.machines:
        line = f"{ranks:8}"
        for network in networks(options).values():
            said = ring_model.times(problem, ranks, options.tflops * 1e12, network)
            line += f" | {said.run:16.4g} {alone / said.run / ranks:10.2f} {said.hidden:6.2f}"
        print(line)


def length(options):
    print(f"shortest sequence of which 0.9 of the messages are hidden, {options.placement}, "
          f"{options.tflops:g} TFLOP/s a machine, {options.element_bytes} bytes")
    print(f"{'D':>5} {'H':>4} {'Hkv':>4} {'machines':>8}" + "".join(f"{f'{g:g} Gbit/s':>14}" for g in options.gbit))
    for features, heads, key_heads in ((64, 1, 1), (128, 1, 1), (128, 32, 32), (128, 32, 8)):
        for ranks in options.machines:
            problem = ring_model.Problem(0, features, heads, key_heads, options.element_bytes, options.placement)
            line = f"{features:5} {heads:4} {key_heads:4} {ranks:8}"
            for network in networks(options).values():
                least = ring_model.least_length(problem, ranks, options.tflops * 1e12, network)
                line += f"{least:14,}" if least else f"{'-':>14}"
            print(line)


def graph(options):
    given = graph_model.Rmat(options.scale, options.edges)
    made = list(graph_model.samples(given, range(options.sampled - 4, options.sampled + 1, 2)))
    print(f"R-MAT, 2^{given.scale} nodes, {given.edges:,} edges, {options.row_bytes} bytes a row, "
          f"{options.medges:g}e6 edges/s a machine; ratios to the formula are of samples of "
          + ", ".join(f"2^{smaller.scale}" for smaller, _ in made) + " nodes")
    print(f"{'machines':>8} {'ratios':>20} {'used':>6} {'rows a rank gets':>17} {'MB':>8} {'compute s':>10}"
          + "".join(f" | {f'{gbit:g} Gbit/s: s':>16} efficiency" for gbit in options.gbit))
    for ranks in options.machines:
        found = graph_model.extrapolated(given, ranks, made)
        compute = given.edges / ranks / (options.medges * 1e6)
        line = f"{ranks:8} {' '.join(f'{ratio:.3f}' for _, ratio in found.ratios):>20} {found.ratio:6.3f}"
        line += f" {found.rows:17,.0f} {found.rows * options.row_bytes * 1e-6:8.1f} {compute:10.4f}"
        for network in networks(options).values():
            exchange = found.rows * options.row_bytes / network.bandwidth + (ranks - 1) * network.latency
            step = graph_model.step(compute, exchange, found.inner)
            line += f" | {step:16.4f} {compute / step:10.2f}"
        print(line)


def plot(options):
    import scaling_chart

    scaling_chart.draw(options.chart, options.runs, list(compared(rows_of(options.runs))))


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(dest="command", required=True)

    def command(function, text, machines=(8, 32, 128, 512, 1024)):
        one = commands.add_parser(function.__name__, help=text)
        one.set_defaults(run=function)
        if machines is None:
            return one
        one.add_argument("--machines", type=numbers(int), default=list(machines), metavar="N[,M...]")
        one.add_argument("--gbit", type=numbers(float), default=[25, 100, 400], metavar="G[,...]",
                         help="of the network of a machine, one way")
        one.add_argument("--latency-us", type=float, default=3, metavar="T", help="of a message")
        return one

    def attention(one):
        one.add_argument("--tflops", type=float, default=2, metavar="T", help="10^12 flop/s that a machine does")
        one.add_argument("--placement", choices=("zigzag", "full", "contiguous"), default="zigzag")
        one.add_argument("--element-bytes", type=int, choices=(2, 4, 8), default=4)

    command(check, "the model beside runs", None).add_argument("runs", metavar="RUNS.json")
    one = command(ring, "times on many machines")
    attention(one)
    for name, default in (("length", 1 << 20), ("features", 128), ("heads", 32), ("key_heads", 8)):
        one.add_argument("--" + name.replace("_", "-"), type=int, default=default, metavar="N")
    attention(command(length, "shortest sequences that hide messages", (2, 8, 64, 1024)))
    one = command(graph, "a step over a large graph")
    for name, default, text in (("scale", 25, "2^N nodes"), ("edges", 10**9, "of the graph"),
                                ("sampled", 17, "the largest sample has 2^N nodes"),
                                ("row-bytes", 512, "of a node's key and value")):
        one.add_argument("--" + name, type=int, default=default, metavar="N", help=text)
    one.add_argument("--medges", type=float, default=200, metavar="R", help="10^6 edges/s that a machine does")
    one = command(plot, "draw the model and runs", None)
    one.add_argument("runs", metavar="RUNS.json")
    one.add_argument("chart", metavar="CHART.svg")
    return made


def main():
    options = parser().parse_args()
    for name in ("machines", "gbit"):
        if any(number <= 0 for number in getattr(options, name, [])):
            sys.exit(f"scaling.py: --{name} must be above 0")
    if getattr(options, "sampled", 9) < 9:
        sys.exit("scaling.py: --sampled must be at least 9")
    options.run(options)


if __name__ == "__main__":
    main()
