#!/usr/bin/env python3
"""heed_perf --ranks, which starts ranks of MPI: its rows, what they count, and what is refused.

    ranks.py HEED_PERF

No case depends on a time: what one counter says of a run is compared with what the others say.
"""

import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf", "ranks"))
try:
    import ring_model
except ImportError:  # it needs NumPy
    ring_model = None

PROGRAM = sys.argv.pop(1)
BRIEF = ["--isa", "scalar", "--benchmark_repetitions=1"]

SHAPE = "B1_H2_L60_D8_causal"
COUNTERS = {"ranks", "cores", "gflop", "gflops", "balance", "compute_ms", "mean_compute_ms", "wait_ms",
            "rounds", "workspace_mbytes", "max_error", "rms_error", "error_bound"}
COMPARED = {"efficiency", "exchange_ms", "hidden", "latency_us", "network_gbps"}


def run(*arguments, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEED_", "OMPI_ALLOW"))}
    quiet = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    return subprocess.run([PROGRAM, "--ranks", *arguments], env={**kept, **quiet, **variables},
                          text=True, check=False, capture_output=True, stdin=subprocess.DEVNULL)


class Ranks(unittest.TestCase):
    def rows(self, shape):
        """Of 1 and of 3 ranks: which kind, how many ranks, and the row."""
        done = run("1,3", *BRIEF, "--shape", shape, "--benchmark_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {"/".join(row["run_name"].split("/")[:3]): row for row in json.loads(done.stdout)["benchmarks"]}
        named = {f"{kind}/{shape}/ranks:{n}": (kind, n) for kind in ("strong", "weak") for n in (1, 3)}
        self.assertEqual(set(rows), set(named))
        return [(*named[name], row) for name, row in rows.items()]

    def test_counted(self):
        for kind, ranks, row in self.rows(SHAPE):
            with self.subTest(kind, ranks=ranks):
                self.check(row, ranks, 60 * (ranks if kind == "weak" else 1))
                found = (COMPARED | {"speedup"}).intersection(row)
                self.assertEqual(found, set() if ranks == 1 else
                                 COMPARED if kind == "weak" else COMPARED | {"speedup"})
                if "speedup" in row:
                    self.assertAlmostEqual(row["efficiency"] * ranks / row["speedup"], 1, delta=1e-9)

    def check(self, row, ranks, length):
        self.assertTrue(COUNTERS.issubset(row), COUNTERS - set(row))
        self.assertEqual((row["ranks"], row["rounds"]), (ranks, ranks))
        self.assertAlmostEqual(row["gflop"] * 1e9, 4 * 8 * 2 * length * (length + 1) / 2, delta=1e-3)
        seconds = row["real_time"] * 1e-3
        self.assertAlmostEqual(row["gflop"] / seconds / row["gflops"], 1, delta=1e-6)
        # Zigzag: chunks are all as long, so that pairs differ by those of a chunk with itself alone.
        self.assertTrue(1 <= row["balance"] < 1.05, row["balance"])
        self.assertLessEqual(row["mean_compute_ms"], row["compute_ms"] * (1 + 1e-9))
        self.assertLessEqual(row["compute_ms"], row["real_time"])
        self.assertLess(row["max_error"], 1e-6)
        label = "ring zigzag" + (" OVERSUBSCRIBED" if ranks > row["cores"] else "")
        self.assertEqual(row["label"], label)
        # As the model of scaling.py has it, but for what messages are rounded up to.
        if ring_model is not None:
            sent = ring_model.sent_bytes(ring_model.Problem(length, 8, 2, 2), ranks)
            self.assertAlmostEqual(row["sent_mbytes"] * 1e6, sent, delta=0.01 * sent)
        if ranks > 1:
            for counter in ("exchange_ms", "latency_us", "network_gbps", "efficiency"):
                self.assertGreater(row[counter], 0, counter)
            self.assertAlmostEqual(row["hidden"], 1 - row["exposed_ms"] / row["exchange_ms"], delta=1e-6)
            self.assertAlmostEqual(row["mpi_ms"], row["real_time"] - row["compute_ms"] - row["exposed_ms"],
                                   delta=1e-6 * row["real_time"])

    def test_graphs(self):
        for kind, ranks, row in self.rows("er_N300_deg4_H2_D8"):
            with self.subTest(kind, ranks=ranks):
                nodes = 300 * (ranks if kind == "weak" else 1)
                self.assertTrue(0.9 * 4 * nodes < row["edges"] <= 4 * nodes, row["edges"])
                self.assertAlmostEqual(row["edges"] * 1e-3 / row["real_time"] / row["medges"], 1, delta=1e-6)
                # Ranges differ by a node's edges at most.
                self.assertTrue(1 <= row["balance"] < 1.2, row["balance"])
                self.assertTrue(0 <= row["inner"] <= 1, row["inner"])
                self.assertEqual(row["inner"] == 1, ranks == 1)
                self.assertEqual(row["remote_rows"] == 0, ranks == 1)
                self.assertLess(row["remote_rows"], nodes)
                self.assertEqual(row["row_bytes"], 2 * 2 * 8 * 4)
                self.assertLess(row["max_error"], 1e-6)
                self.assertEqual("speedup" in row, ranks > 1 and kind == "strong")
                self.assertEqual(row["label"], "graph ranges" + (" OVERSUBSCRIBED" if ranks > row["cores"] else ""))

    def test_table(self):
        done = run("2", *BRIEF, "--shape", "B1_H2_Hkv1_L64_D8_bf16_lse")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = done.stdout[done.stdout.index("Medians:"):]
        self.assertRegex(table, r"speedup +efficiency +balance +hidden +wait ms +MPI ms +exchange ms +cores")
        self.assertRegex(table, r"strong B1_H2_Hkv1_L64_D8_bf16_lse/ranks:2 +scalar +1 ")
        self.assertRegex(table, r"weak B1_H2_Hkv1_L64_D8_bf16_lse/ranks:2 +scalar +1 ")

    def test_refused(self):
        for shape, status, words in [("B1_H1_L8_D8_hard", 1, "hard attention (desc.hard)"),
                                     ("B1_H1_L8_D8_sums", 1, "column sums (desc.sum_columns) is not supported"),
                                     # At once, before anything runs.
                                     ("B1_H1_L8_D8_W8", 2, "shapes of dense attention and of graphs"),
                                     ("er_N100_deg4_H1_D8_lse", 2, "graphs without bias, lse and weights")]:
            with self.subTest(shape):
                done = run("1,2", *BRIEF, "--shape", shape, "--benchmark_filter=^strong/")
                self.assertEqual(done.returncode, status)
                self.assertIn(words, done.stdout + done.stderr)

    def test_not_started(self):
        done = run("2", *BRIEF, HEED_PERF_MPIEXEC="/nowhere/mpiexec")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "heed_perf: /nowhere/mpiexec: No such file or directory\n"))
        alone = subprocess.run([PROGRAM + "_mpi", "--ranks", "2"], text=True, check=False,
                               capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("--ranks has 2, but mpiexec started 1", alone.stderr)
        alone = subprocess.run([PROGRAM + "_mpi"], text=True, check=False, capture_output=True,
                               stdin=subprocess.DEVNULL)
        self.assertIn("heed_perf_mpi is started by heed_perf --ranks", alone.stderr)


if __name__ == "__main__":
    unittest.main()
