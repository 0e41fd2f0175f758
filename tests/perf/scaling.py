#!/usr/bin/env python3
"""perf/scaling.py: what its models must be, and its command line; and tables and charts of what was
measured, which say what the files of results do.

    scaling.py SOURCE        SOURCE is the folder of the sources
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
PROGRAM = os.path.join(SOURCE, "perf", "scaling.py")
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "perf", "ranks"), os.path.join(SOURCE, "perf", "peers")]
try:
    import graph_model
    import ring_model
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)
import numpy as np

FAST = ring_model.Network(0, 1e30)
SLOW = ring_model.Network(1e-3, 1e6)
KINDS = ("full", "zigzag", "contiguous")


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def texts_of(*path):
    """The words of a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", text_of(*path))


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments], text=True, check=False, capture_output=True)


class Ring(unittest.TestCase):
    def test_every_pair_is_computed_once(self):
        for kind in KINDS:
            for ranks in (1, 2, 3, 7, 64):
                with self.subTest(kind, ranks=ranks):
                    problem = ring_model.Problem(4096, placement=kind)
                    pairs = ring_model.schedule(problem, ranks).pairs
                    whole = 4096**2 / (1 if kind == "full" else 2)
                    self.assertAlmostEqual(pairs.sum() / whole, 1, delta=1e-12)
                    shares = pairs.sum(axis=1) * ranks / whole
                    if kind == "contiguous" and ranks > 1:
                        self.assertAlmostEqual(shares[-1], 2 - 1 / ranks, delta=1e-12)
                    else:
                        np.testing.assert_allclose(shares, 1)

    def test_what_is_sent_arrives(self):
        """A rank attends what came to it, by the way that ranks send it, and nothing comes twice."""
        for kind in KINDS:
            ranks, problem = 5, ring_model.Problem(100, placement=kind)
            plan = ring_model.schedule(problem, ranks)
            for n in range(ranks - 1):
                came = np.roll(plan.up[:, n], 1) + np.roll(plan.down[:, n], -1)
                self.assertTrue(((came > 0) | (plan.pairs[:, n + 1] == 0)).all(), (kind, n))
            self.assertEqual(plan.up[:, -1].sum() + plan.down[:, -1].sum(), 0)

    def test_times(self):
        problem = ring_model.Problem(1 << 16)
        alone = ring_model.times(problem, 1, 1e12, SLOW)
        self.assertAlmostEqual(alone.run * 1e12 / (4 * 128 * 2.0**31), 1, delta=1e-12)
        self.assertEqual((alone.exchange, alone.hidden), (0, 1))
        for ranks in (2, 3, 8):
            free = ring_model.times(problem, ranks, 1e12, FAST)
            self.assertAlmostEqual(free.run * ranks / alone.run, 1, delta=1e-9)
            slow = ring_model.times(problem, ranks, 1e12, SLOW)
            self.assertGreater(slow.run, slow.exchange)  # messages of a rank follow each other
            self.assertLess(slow.hidden, 0.5)
            # Twice the work for each byte hides more.
            more = ring_model.times(ring_model.replace(problem, length=2 * problem.length), ranks, 1e12, SLOW)
            self.assertGreater(more.hidden, slow.hidden)

    def test_bytes_and_lengths(self):
        problem = ring_model.Problem(120, 64, 8, 2, 2)
        # Rank 1 of 3: its own first chunk and the one that passes, and its second one.
        self.assertEqual(ring_model.sent_bytes(problem, 3), 3 * 20 * 2 * 64 * 2 * 2)
        network = ring_model.Network(3e-6, 12.5e9)
        for ranks in (2, 16):
            least = ring_model.least_length(problem, ranks, 2e12, network)
            hidden = [ring_model.times(ring_model.replace(problem, length=n), ranks, 2e12, network).hidden
                      for n in (least / 2, least)]
            self.assertTrue(hidden[0] < 0.9 <= hidden[1], hidden)
        self.assertIsNone(ring_model.least_length(problem, 2, 1e30, SLOW))


class Graph(unittest.TestCase):
    def test_formula(self):
        """Of a graph without duplicates to speak of it is what is counted."""
        graph = graph_model.Rmat(12, 4096 * 4, (0.25, 0.25, 0.25, 0.25))
        edges = graph_model.sample(graph)
        for ranks in (2, 5):
            mean, most, inner = graph_model.counted_rows(*edges, 4096, ranks)
            self.assertAlmostEqual(mean / graph_model.expected_rows(graph, ranks), 1, delta=0.02)
            self.assertTrue(mean <= most < 1.2 * mean)
            # All of 4 sources, on average, are own.
            self.assertTrue(0 < inner < ranks**-1)
        self.assertEqual(graph_model.expected_rows(graph, 1), 0)
        self.assertEqual(graph_model.counted_rows(*edges, 4096, 1), (0, 0, 1))

    def test_counted(self):
        sources, destinations = np.array([0, 0, 1, 3, 3]), np.array([1, 2, 3, 0, 3])
        # Half of the edges end at 0, 1 or 2, which need 3; it needs 1, and itself.
        mean, most, inner = graph_model.counted_rows(sources, destinations, 4, 2)
        self.assertEqual((mean, most), (1, 1))
        self.assertAlmostEqual(inner, 2 / 5)  # the edges into 1 and 2

    def test_sample(self):
        sources, destinations = graph_model.sample(graph_model.Rmat(10, 30000))
        self.assertEqual(len(set(zip(sources.tolist(), destinations.tolist()))), len(sources))
        self.assertTrue(0 <= sources.min() and sources.max() < 1024)
        degrees = np.sort(np.bincount(sources, minlength=1024))[::-1]
        self.assertGreater(degrees[0], 10 * degrees.mean())  # a power law

    def test_extrapolated(self):
        graph = graph_model.Rmat(16, 1 << 20)
        found = graph_model.extrapolated(graph, 8, graph_model.samples(graph, (10, 12, 14)))
        self.assertEqual([edges for edges, _ in found.ratios], [1 << 14, 1 << 16, 1 << 18])
        mean, _, inner = graph_model.counted_rows(*graph_model.sample(graph), 1 << 16, 8)
        self.assertAlmostEqual(found.rows / mean, 1, delta=0.02)
        self.assertAlmostEqual(found.inner, inner, delta=0.01)


def row(name, real_time, **counters):
    return {"run_name": name + "/threads:1/isa:scalar/iterations:1/manual_time", "run_type": "iteration",
            "real_time": real_time, **counters}


class CommandLine(unittest.TestCase):
    def check(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"benchmarks": rows}, file)
            return run("check", path)

    def test_check(self):
        """Two ranks that take half as long, and messages that take no time."""
        flops = 4 * 64 * 2 * 1024**2 / 2
        network = {"cores": 2, "latency_us": 0.0, "network_gbps": 1e9, "hidden": 0.5, "gflop": flops * 1e-9,
                   "mean_compute_ms": 500}
        done = self.check([row("strong/B1_H2_L1024_D64_causal/ranks:1", 1e3, gflops=flops * 1e-9, cores=2),
                           row("strong/B1_H2_L1024_D64_causal/ranks:2", 400, **network),
                           row("strong/B1_H2_L1024_D64_causal/ranks:4", 500, **network),
                           row("weak/B1_H2_L1024_D64_causal/ranks:1", 1e3, gflops=flops * 1e-9, cores=2),
                           row("weak/B1_H2_L1024_D64_causal/ranks:2", 2e3, **network)])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"strong \S+/ranks:2/threads:1 +400\.0 +500\.0 +\+25\.0% +\+25\.0% +0\.50 +1\.00\n")
        # Four ranks of two processors are as fast as two.
        self.assertRegex(done.stdout, r"/ranks:4/threads:1 +500\.0 +500\.0 +[+-]0\.0% .* OVERSUBSCRIBED\n")
        self.assertRegex(done.stdout, r"weak \S+/ranks:2/threads:1 +2000\.0 +2000\.0 +[+-]0\.0%")
        self.assertIn("with rates of one rank alone: largest error 25.0%, mean 8.3%", done.stdout)
        self.assertIn("with rates of the same run: largest error ", done.stdout)

    def test_check_of_graphs(self):
        """Two ranks of half the edges each, a third of whose time the messages take, half of that hidden."""
        name = "strong/rmat_N1048576_deg32_H4_D16"
        edges = {"edges": 32e6, "medges": 32, "inner": 0, "balance": 1, "cores": 2, "ranks": 2}
        messages = {"remote_rows": 250_000, "row_bytes": 400, "network_gbps": 0.4, "latency_us": 0}
        done = self.check([row(f"{name}/ranks:1", 1e3, **edges),
                           row(f"{name}/ranks:2", 750, **edges, **messages, mean_compute_ms=500)])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # 500 ms of edges, and 250 of rows, which nothing of the former hides.
        found = re.search(r"ranks:2/threads:1 +750\.0 +750\.0 +[+-]0\.0% +[+-]0\.0% +rows 250,000, formula (\S+)\n",
                          done.stdout)
        self.assertIsNotNone(found, done.stdout)
        formula = graph_model.expected_rows(graph_model.Rmat(20, 2**25), 2)
        self.assertEqual(int(found[1].replace(",", "")), round(formula))
        half = {**edges, "inner": 0.5}
        done = self.check([row(f"{name}/ranks:1", 1e3, **edges),
                           row(f"{name}/ranks:2", 500, **half, **messages, mean_compute_ms=500)])
        self.assertRegex(done.stdout, r"ranks:2/threads:1 +500\.0 +500\.0 +[+-]0\.0%")

    def test_refused(self):
        network = {"cores": 2, "latency_us": 1.0, "network_gbps": 1.0, "hidden": 0.5, "gflop": 1.0,
                   "mean_compute_ms": 1.0}
        for rows, words in [([], "it has no row of several ranks"),
                            ([row("strong/B1_H2_L10_D8/ranks:2", 1, **network)], "has no row of 1 rank")]:
            done = self.check(rows)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        for arguments, words in [(("ring", "--machines", "0"), "--machines must be above 0"),
                                 (("length", "--gbit", "-1"), "--gbit must be above 0"),
                                 (("graph", "--sampled", "8"), "--sampled must be at least 9"),
                                 (("ring", "--placement", "here"), "invalid choice: 'here'"), ((), "required")]:
            done = run(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_tables(self):
        for arguments, words in [
                (("ring", "--machines", "8,64", "--gbit", "100"), r"\n +8 \| .*\n +64 \| .*\n$"),
                (("length", "--machines", "8"), r"\n +128 +32 +8 +8( +[\d,]+){3}\n$"),
                (("graph", "--machines", "8", "--sampled", "11", "--scale", "20", "--edges", "20000000"),
                 r"\n +8( +[01]\.\d+){4} ")]:
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, words)


class Numbers(unittest.TestCase):
    maxDiff = None

    def test_what_it_shows_is_printed(self):
        numbers = text_of("api", "docs", "numbers.md")
        shown = re.findall(r"^```text\nscaling\.py (.*)\n((?:.*\n)*?)```$", numbers, re.MULTILINE)
        self.assertEqual([words.split()[0] for words, _ in shown], ["check", "ring", "length", "graph"])
        for words, text in shown:
            with self.subTest(words):
                done = run(*words.replace("perf/", os.path.join(SOURCE, "perf", "")).split())
                self.assertEqual(done.stdout, text)

    def test_chart(self):
        texts = texts_of("perf", "ranks", "scaling.svg")
        for gbit in (25, 100, 400):
            self.assertEqual(sum(text.startswith(f"{gbit} Gbit/s, L ") for text in texts), 3)
        runs = json.loads(text_of("perf", "ranks", "runs.json"))["benchmarks"]
        runs = [row for row in runs if row["ranks"] > 1]
        marks = [text for text in texts if text in {str(int(row["ranks"])) for row in runs}]
        self.assertGreaterEqual(len(marks), len(runs))

    def test_peers(self):
        """The table, the main README's sentence about it and the chart."""
        found = json.loads(text_of("perf", "peers", "attention.json"))
        peers = {name: version for name, version in found["programs"].items() if name != "heed"}
        measured = {workload: [f"{times[peer]:.2f}" if peer in times else "-" for peer in peers]
                    for workload, times in found["times_as_long"].items()}
        table = re.search(r"^\| workload \| PyTorch 2[^\n]*\n(\|[^\n]*\n)+", text_of("api", "docs", "numbers.md"),
                          re.MULTILINE)[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        self.assertEqual({name: cells for name, *cells in rows[2:]}, measured)
        for peer, name in {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}.items():
            least = min(times[peer] for times in found["times_as_long"].values() if peer in times)
            self.assertRegex(" ".join(text_of("README.md").split()),
                             rf"{name} (takes )?at least {re.escape(f'{least:.2f}')} times")
        texts = [text.partition(" \u2192")[0] for text in texts_of("perf", "peers", "attention.svg")]
        for peer, version in peers.items():
            self.assertTrue(any(version.partition("+")[0] in text for text in texts), (peer, version))
        for workload, numbers in measured.items():
            self.assertLessEqual({workload, *numbers} - {"-"}, set(texts), workload)


if __name__ == "__main__":
    unittest.main()
