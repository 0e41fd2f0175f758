#!/usr/bin/env python3
"""The command line of heed_perf: what it lists, refuses and counts, alone and over ranks.

    run.py HEED_PERF CLASS...

No case depends on a time: what one counter says of a run is compared with what the others say.
"""

import json
import math
import os
import re
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

HELP = [r"--backward [^\n]*\n +Instead of all else, gradients", r"or, with --backward,\n  B1_H16_L1024_D64\n",
        r"--decode [^\n]*\n +Instead of all else, few query rows", r"or, with --decode,\n  B1_H1_Lq1_Lkv128_D128\n",
        r"\[_layers<n>\]", r"\[_keys<n>\|_ragged\|_packed\]\[_pages<n>\[_nhd\]\]"]

# Arguments, and the rows that they mean: the kinds and workloads of them.
LISTED = [
    (["--decode", "--shape", "B1_H1_Lq1_Lkv16_D8"], ["decode/B1_H1_Lq1_Lkv16_D8"]),
    (["--decode", "--shape", "B2_H4_Hkv2_Lq4_Lkv64_D8_layers3_causalBR_ragged_bf16"],
     ["decode/B2_H4_Hkv2_Lq4_Lkv64_D8_layers3_causalBR_ragged_bf16"]),
    (["--decode", "--shape", "B1_H1_Lq1_Lkv1048576_D128_layers8"],
     ["decode/B1_H1_Lq1_Lkv1048576_D128_layers8"]),
    (["--no-stages", "--shape", "B1_H1_Lq1_Lkv16_D8"], ["attention/B1_H1_Lq1_Lkv16_D8"]),
    (["--no-stages", "--shape", "B1_H1_Lq1_Lkv16_D8_i8"], ["attention/B1_H1_Lq1_Lkv16_D8_i8"]),
    (["--no-stages", "--shape", "B1_H1_Lq1_Lkv16_D8_layers2"], ["attention/B1_H1_Lq1_Lkv16_D8_layers2"]),
    (["--backward", "--shape", "B1_H1_Lq4_Lkv16_D8_bf16"], ["backward/B1_H1_Lq4_Lkv16_D8_bf16"]),
    (["--backward", "--shape", "B1_H1_L4_D8_W8", "--shape", "er_N10_deg2_H1_D8"],
     ["backward/B1_H1_L4_D8_W8", "backward/er_N10_deg2_H1_D8"]),
    (["--decode", "--shape", "append4_Hkv2_D8_i8"], ["append/append4_Hkv2_D8_i8"]),
    (["--shape", "append4_Hkv2_D8_rotary"], ["append/append4_Hkv2_D8_rotary"]),
    (["--no-stages", "--shape", "B1_H1_L16777216_D64_window9"],
     ["attention/B1_H1_L16777216_D64_window9"]),
    (["--forms", "--shape", "B2_H1_L16_D8_layers2_ragged"], ["form/B2_H1_L16_D8_layers2_ragged"]),
    (["--no-stages", "--shape", "B2_H1_L16_D8_ragged_pages16_nhd"],
     ["attention/B2_H1_L16_D8_ragged_pages16_nhd"]),
]

# Arguments, and what is said about them.
REFUSED = [
    (["--ranks", "2", "--forms"], "--forms excludes --ranks"),
    (["--ranks", "1,2", "--decode"], "--decode excludes --ranks"),
    (["--ranks", "0"], "--ranks: Value 0 not in range"),
    (["--ranks", "2", "--shape", "B1_H1_L4_D8_W8"],
     '--ranks: takes shapes of dense attention and of graphs, which "B1_H1_L4_D8_W8" is not'),
    (["--ranks", "2", "--shape", "B1_H1_L4_D8_mask"],
     '--ranks: takes shapes of one layer, without mask and bias, which "B1_H1_L4_D8_mask" is not'),
    (["--ranks", "2", "--shape", "B1_H1_Lq4_Lkv8_D8"], 'shape "B1_H1_Lq4_Lkv8_D8": L is missing'),
    (["--decode", "--forms"], "--forms excludes --decode"),
    (["--decode", "--blocks"], "--blocks excludes --decode"),
    (["--decode", "--graphs"], "--graphs excludes --decode"),
    (["--decode", "--shape", "B1_H1_L4_D8_W8"],
     '--decode: takes shapes of dense attention, or rows to append, which "B1_H1_L4_D8_W8" is not'),
    (["--decode", "--shape", "er_N10_deg2_H1_D8"],
     '--decode: takes shapes of dense attention, or rows to append, which "er_N10_deg2_H1_D8" is not'),
    (["--backward", "--forms"], "--backward excludes --forms"),
    (["--backward", "--decode"], "--backward excludes --decode"),
    (["--backward", "--shape", "append1_Hkv1_D8"],
     '--backward: takes shapes of attention, of blocks and of graphs, which "append1_Hkv1_D8" is not'),
    (["--backward", "--shape", "B1_H1_L4_D8", "--shape", "B1_H1_L4_D8_layers2"],
     '--backward: takes shapes of one layer, which "B1_H1_L4_D8_layers2" is not'),
    (["--backward", "--shape", "B1_H1_L4_D8_hard"], "hard attention is not differentiable"),
    (["--backward", "--shape", "B1_H1_L4_D8_f8"], "gradients of 8-bit numbers are not supported"),
    (["--backward", "--shape", "B1_H1_L4_D8_pages16"], "gradients of keys and values in pages"),
    (["--backward", "--shape", "B1_H1_L4_D8_weights"], "weights_point is 4; it must be 0"),
    (["--backward", "--shape", "B1_H1_L4_D8_sums"], "sum_columns is 1; it must be 0"),
    (["--forms", "--shape", "append1_Hkv1_D8"], 'dense attention, which "append1_Hkv1_D8" is not'),
    (["--blocks", "--shape", "append1_Hkv1_D8"], '--blocks: takes blocks'),
    (["--graphs", "--shape", "append1_Hkv1_D8"], "--graphs: takes shapes of graphs"),
    (["--shape", "append_Hkv1_D8"], '"append" is outside 1 ... 16777216'),
    (["--shape", "append1_D8"], "Hkv is missing"),
    (["--shape", "append1_Hkv1_D8_f64"], '"f64" is not understood'),
    (["--shape", "append1_Hkv1_D8_f8_i8"], "i8 excludes f8"),
    (["--shape", "append1_Hkv1_D7_rotary"], "rotary needs an even D"),
    (["--shape", "append1_Hkv1_D8_pages8"], "pages have a multiple of 16 rows"),
    (["--shape", "append1_Hkv1024_D128_layers99"], "a cache of more than 2^30 elements is too large"),
    (["--forms", "--shape", "er_N10_deg2_H1_D8"],
     '--forms: takes shapes of dense attention, which "er_N10_deg2_H1_D8" is not'),
    (["--shape", "B1_H1_L4_D8_layers0"], '"layers0" is outside 1 ... 16777216'),
    (["--shape", "B1_H1_L4_D8_layers"], '"layers" is outside 1 ... 16777216'),
    (["--shape", "B1_H1_L4_D8_layers2_layers3"], "layers is given twice"),
    (["--shape", "B1_H1_L4_D8_ragged2"], '"ragged2" is not understood'),
    (["--shape", "B1_H1_L4_D8_ragged_keys2"], "keys excludes ragged"),
    (["--shape", "B1_H1_L4_D8_ragged_packed"], "ragged excludes packed"),
    (["--shape", "B1_H1_L4_D8_W8_layers2"], "W excludes layers"),
    (["--shape", "B1_H1_L4_D8_W8_pages16"], "W excludes pages"),
    (["--shape", "B1_H1_L4_D8_packed_pages16"], "pages excludes packed"),
    (["--shape", "B1_H1_L4_D8_W8_i8"], "W excludes i8"),
    (["--shape", "B1_H1_L4_D8_f16_f8"], "f16 excludes f8"),
    (["--shape", "B1_H1_L4_D8_pages24"], "pages have a multiple of 16 rows"),
    (["--shape", "B1_H1_L4_D8_pages"], '"pages" is outside 1 ... 16777216'),
    (["--shape", "B1_H1_L4_D8_nhd"], "nhd needs pages"),
    (["--shape", "B1_H1_Lq1_Lkv1048576_D128_layers9"], "more than 2^30 elements is too large"),
    (["--shape", "B1_H1_L16777216_D64"], "a run of more than 2^44 flops takes too long"),
    (["--backward", "--shape", "B1_H1_L1000000_D64_causal"], "more than 2^44 flops takes too long"),
    (["--shape", "er_N10_deg2_H1_D8_layers2"], '"layers2" is not understood'),
]

# Workloads, the bytes of keys and values that a run of them reads, its new tokens, layers and flops.
COUNTED = [
    ("B1_H1_Lq1_Lkv128_D128", 128 * 256 * 4, 1, 1, 4 * 128 * 128),
    ("B1_H4_Hkv2_Lq3_Lkv40_D8_Dv16_causalBR", 2 * 40 * 24 * 4, 3, 1, 2 * 24 * 4 * (38 + 39 + 40)),
    ("B2_H2_Lq1_Lkv40_D8_keys30_bf16", 2 * 2 * 30 * 16 * 2, 2, 1, 4 * 8 * 2 * 2 * 30),
    ("B1_H2_Lq1_Lkv40_D8_layers5_f16", 5 * 2 * 40 * 16 * 2, 1, 5, 5 * 4 * 8 * 2 * 40),
    ("B1_H1_Lq1_Lkv40_D8_f64", 40 * 16 * 8, 1, 1, 4 * 8 * 40),
    ("B1_H1_Lq1_Lkv100_D8_causalBR_left9", 10 * 16 * 4, 1, 1, 4 * 8 * 10),
    # Fewer keys than rows: the last rows attend none.
    ("B1_H1_Lq40_Lkv10_D8_causalTL_left1", 10 * 16 * 4, 40, 1, 4 * 8 * (1 + 9 * 2 + 1)),
    # Sequences of 20 and 40 keys and of 2 and 4 rows.
    ("B2_H2_Lq4_Lkv40_D8_packed", 60 * 2 * 16 * 4, 6, 1, 4 * 8 * 2 * (2 * 20 + 4 * 40)),
    # What of a page is past the end is not read.
    ("B2_H4_Hkv2_Lq3_Lkv40_D8_Dv16_keys30_pages16", 2 * 2 * 30 * 24 * 4, 6, 1, 2 * 24 * 2 * 4 * 3 * 30),
    ("B1_H2_Lq1_Lkv40_D8_layers3_pages32_nhd_bf16", 3 * 2 * 40 * 16 * 2, 1, 3, 3 * 4 * 8 * 2 * 40),
    ("B1_H1_Lq1_Lkv100_D8_causalBR_left9_pages16", 10 * 16 * 4, 1, 1, 4 * 8 * 10),
    # A row of integers has a scale of 4 bytes.
    ("B2_H4_Hkv2_Lq1_Lkv40_D8_Dv16_layers3_i8", 3 * 2 * 2 * 40 * (24 + 8), 2, 3, 3 * 2 * 24 * 2 * 4 * 40),
    ("B1_H2_Lq1_Lkv40_D8_layers2_i8_keys30_pages16_nhd", 2 * 2 * 30 * (16 + 8), 1, 2, 2 * 4 * 8 * 2 * 30),
    ("B1_H2_Lq1_Lkv40_D8_f8", 2 * 40 * 16, 1, 1, 4 * 8 * 2 * 40),
]

# Rows to append, the bytes that are stored of one, layers, and how far what is stored may be off.
APPENDED = [
    ("append3_Hkv2_D8_Dv24", 2 * 32 * 4, 1, 1e-5),
    ("append70_Hkv2_D8_layers3_bf16_rotary", 2 * 16 * 2, 3, 0.02),
    ("append5_Hkv1_D8_f16_pages16", 16 * 2, 1, 0.002),
    ("append5_Hkv3_D8_layers2_i8", 3 * (16 + 8), 2, 0.02),
    ("append9000_Hkv1_D8_f8", 16, 1, 0.3),
]

# Workloads with gradients, what five products do more than two, and how far gradients may be off.
DIFFERENTIATED = [
    ("B1_H2_L40_D8", 2.5, 1e-5),
    ("B1_H2_Lq40_Lkv10_D8_Dv24", 144 / 64, 1e-5),
    ("B2_H2_L100_D8_causal_left9_lse", 2.5, 1e-5),
    ("B3_H4_Hkv2_Lq30_Lkv40_D24_packed", 2.5, 1e-5),
    ("B2_H4_Hkv1_L40_D8_keys30_sink_alibi", 2.5, 1e-5),
    ("B1_H2_L40_D8_headmask_headbias_softcap2_score", 2.5, 1e-5),
    ("B2_H2_L40_D8_keymask_bias", 2.5, 1e-5),
    ("B1_H4_Hkv2_L40_D8_bf16", 2.5, 0.05),
    ("B1_H2_L40_D8_f16", 2.5, 0.005),
    ("B1_H2_L40_D8_f64", 2.5, 1e-13),
]

BACKWARD_COUNTERS = {"gflops", "of_peak", "forward_gflops", "forward_of_peak", "of_forward",
                     "workspace_mbytes", "rms_error", "max_error", "error_bound", "workers"}

COUNTERS = {"mbytes", "gbps", "read_gbps", "spread_gbps", "of_read", "of_spread", "tokens/s", "call_us",
            "gflops", "rms_error", "max_error", "error_bound", "workers"}

RANK_COUNTERS = {"ranks", "cores", "gflop", "gflops", "balance", "compute_ms", "mean_compute_ms", "wait_ms",
                 "rounds", "workspace_mbytes", "max_error", "rms_error", "error_bound"}
COMPARED = {"efficiency", "exchange_ms", "hidden", "latency_us", "network_gbps"}

SCALAR = ["--isa", "scalar"]
ONE = [*SCALAR, "--threads", "1"]
BRIEF = ["--benchmark_repetitions=1", "--benchmark_min_time=0.001"]


def run(*arguments, program=PROGRAM, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEED_", "OMPI_ALLOW"))}
    quiet = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl": "^tcp"}
    return subprocess.run([program, *arguments], env={**kept, **quiet, **variables}, text=True, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL)


def shapes(names):
    return [word for name in names for word in ("--shape", name)]


def decoded(names, kind="--decode"):
    """The rows of a run with --decode or the like, by workload."""
    done = run(kind, *ONE, *BRIEF, *shapes(names), "--benchmark_format=json")
    rows = {row["run_name"].split("/")[1]: row for row in json.loads(done.stdout)["benchmarks"]}
    return done, rows


class CommandLine(unittest.TestCase):
    maxDiff = None

    def test_help(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in HELP:
            self.assertRegex(done.stdout, words)

    def test_listed(self):
        for arguments, names in LISTED:
            with self.subTest(arguments):
                done = run(*arguments, *ONE, "--benchmark_list_tests")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                lines = [re.sub(r"/threads:1(/isa:scalar)?/real_time$", "", line)
                         for line in done.stdout.splitlines()]
                self.assertEqual(lines, names)

    def test_standard(self):
        done = run("--decode", *ONE, "--benchmark_list_tests")
        names = done.stdout.splitlines()
        self.assertEqual(len(names), len(set(names)))
        appended = [name for name in names if name.startswith("append/append")]
        self.assertGreater(len(appended), 5)
        self.assertGreater(len(names) - len(appended), 40)
        for name in set(names).difference(appended):
            self.assertRegex(name, r"^decode/B\d+_H\d+(_Hkv\d+)?_Lq(1|4|16|256)_Lkv\d+_D(64|128)")

    def test_standard_backward(self):
        names = run("--backward", *ONE, "--benchmark_list_tests").stdout.splitlines()
        self.assertEqual(len(names), len(set(names)))
        for form in ("causal", "mask", "packed", "bf16", "f16"):
            self.assertTrue(any(f"_{form}/" in name for name in names), form)
        for name in names:
            self.assertRegex(name, r"^backward/B\d+_H\d+\w+/threads:1/isa:scalar/real_time$")

    def test_standard_backward_of_blocks_and_graphs(self):
        for flag in ("--blocks", "--graphs"):
            forward, backward = (
                run(*flags, flag, *ONE, "--benchmark_list_tests").stdout.splitlines()
                for flags in ([], ["--backward"]))
            self.assertGreater(len(forward), 5)
            self.assertEqual([name.partition("/")[2] for name in forward],
                             [name.removeprefix("backward/") for name in backward])

    def test_refused(self):
        for arguments, words in REFUSED:
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)


class Counters(unittest.TestCase):
    def check(self, row, size, tokens, layers, flops):
        self.assertTrue(COUNTERS.issubset(row), COUNTERS - set(row))
        for name in COUNTERS - {"rms_error", "max_error"}:
            self.assertGreater(row[name], 0, name)
            self.assertTrue(math.isfinite(row[name]), name)
        seconds = row["call_us"] * 1e-6 * layers
        for name, value in [("mbytes", size * 1e-6), ("gbps", size * 1e-9 / seconds),
                            ("tokens/s", tokens / seconds), ("gflops", flops * 1e-9 / seconds),
                            ("of_read", row["gbps"] / row["read_gbps"]),
                            ("of_spread", row["gbps"] / row["spread_gbps"])]:
            self.assertAlmostEqual(row[name] / value, 1, delta=1e-9, msg=name)
        compared = {name: row[name] for name in ("of_contiguous", "of_float32") if name in row}
        workload = row["run_name"].split("/")[1]
        self.assertEqual(set(compared), {"of_contiguous"} if "_pages" in workload else
                         {"of_float32"} if re.search("_(bf16|f16|i8|f8)", workload) else set())
        for name, value in compared.items():
            self.assertTrue(value > 0 and math.isfinite(value), name)

    def test_counted(self):
        done, rows = decoded([name for name, *_ in COUNTED])
        self.assertEqual((done.returncode, list(rows)), (0, [name for name, *_ in COUNTED]))
        for name, *counts in COUNTED:
            with self.subTest(name):
                self.check(rows[name], *counts)

    def test_appended(self):
        done, rows = decoded([name for name, *_ in APPENDED])
        self.assertEqual((done.returncode, list(rows)), (0, [name for name, *_ in APPENDED]))
        for name, size, layers, error in APPENDED:
            with self.subTest(name):
                row = rows[name]
                appended = int(re.match(r"append(\d+)", name)[1])
                seconds = row["call_us"] * 1e-6
                self.assertAlmostEqual(row["rows/s"] * seconds / appended, 1, delta=1e-9)
                self.assertAlmostEqual(row["gbps"] * 1e9 / row["rows/s"] / size, 1, delta=1e-9)
                self.assertGreater(row["of_copy"], 0)
                self.assertLess(row["max_error"], error)

    def differentiated(self, names):
        done, rows = decoded(names, "--backward")
        self.assertEqual((done.returncode, list(rows)), (0, names))
        return rows.values()

    def check_work(self, row, times):
        """Of gradients over that of the forward run."""
        work = row["gflops"] / row["forward_gflops"] * (row["of_forward"] - 1)
        self.assertAlmostEqual(work / times, 1, delta=1e-9)
        self.assertAlmostEqual(row["gflops"] / row["peak_gflops"] / row["of_peak"], 1, delta=1e-9)

    def test_differentiated(self):
        rows = self.differentiated([name for name, *_ in DIFFERENTIATED])
        for (name, times, error), row in zip(DIFFERENTIATED, rows):
            with self.subTest(name):
                for counter in BACKWARD_COUNTERS:
                    self.assertGreater(row[counter], 0, counter)
                    self.assertTrue(math.isfinite(row[counter]), counter)
                self.check_work(row, times)
                self.assertLessEqual(row["rms_error"], row["max_error"])
                self.assertLess(row["max_error"], error)
                self.assertFalse({"speedup", "peak_target", "speedup_target"}.intersection(row))

    def test_differentiated_blocks(self):
        """Products are two for one, and attention's five for two; see kept for what is read again."""
        rows = self.differentiated(["B2_H4_Hkv2_L23_D8_W24_nobias", "B1_H2_L16_D8_W16"])
        for row, (heads, rows_, width, columns) in zip(rows, [(4, 46, 24, 96), (2, 16, 16, 64)]):
            pairs = heads * rows_ * (23 if rows_ == 46 else 16)
            forward = 2 * rows_ * width * columns + pairs * 4 * 8
            backward = 4 * rows_ * width * columns + pairs * (8 * 8 + 2 * 8)
            self.check_work(row, backward / forward)
            self.assertGreater(row["kept_mbytes"], 0)
            self.assertGreater(row["workspace_mbytes"], 0)
            self.assertLess(row["max_error"], row["error_bound"])

    def test_differentiated_graphs(self):
        for row in self.differentiated(["er_N60_deg4_H2_D8", "rmat_N64_deg3_H3_D4_headbias", "hubs_N200_deg5_H1_D7"]):
            self.assertAlmostEqual(row["forward_medges"] / row["medges"] / (row["of_forward"] - 1), 1,
                                   delta=1e-9)
            self.assertAlmostEqual(row["gbps"] / row["gather_gbps"] / row["of_gather"], 1, delta=1e-9)
            for counter in ("edges", "of_scores", "build_ms", "max_error", "rms_error"):
                self.assertGreater(row[counter], 0, counter)

    def test_two_threads(self):
        """What is promised of a row depends on its threads."""
        name = "B32_H12_L128_D64"
        done = run("--backward", "--threads", "1,2", *BRIEF, *shapes([name]), "--benchmark_format=json")
        one, two = json.loads(done.stdout)["benchmarks"]
        self.assertEqual((one["peak_target"], two["speedup_target"]), (0.55, 1.9))
        self.assertFalse({"speedup", "speedup_target"}.intersection(one))
        self.assertNotIn("peak_target", two)
        self.assertGreater(two["speedup"], 0)
        self.assertGreater(two["workspace_mbytes"], one["workspace_mbytes"])

    def test_ragged(self):
        """Lengths differ, are the same in every run, and lie between 1/8 and all of the keys."""
        names = [f"B{n}_H1_Lq1_Lkv800_D8_ragged" for n in range(1, 9)]
        row_bytes = 16 * 4
        bytes_up_to = [0] + [round(decoded(names)[1][name]["mbytes"] * 1e6) for name in names]
        lengths = [(b - a) / row_bytes for a, b in zip(bytes_up_to, bytes_up_to[1:])]
        self.assertGreater(len(set(lengths)), 4)
        self.assertTrue(all(100 <= n <= 800 for n in lengths), lengths)

    def test_screen(self):
        """The table alone, with what rows say of themselves; before it the rows, where they are asked for."""
        for kind in (["--decode"], ["--backward"], ["--no-stages"]):
            with self.subTest(kind):
                arguments = [*kind, *ONE, *BRIEF, *shapes(["B1_H2_L16_D8"])]
                alone = run(*arguments)
                self.assertEqual(alone.returncode, 0)
                self.assertRegex(alone.stdout, r"^\nMedians:\nworkload .* label\nB1_H2_L16_D8 .* scalar .*\n$")
                rows, table = run(*arguments, "--details").stdout.split("\nMedians:\n")
                self.assertRegex(rows, r"\n\w+/B1_H2_L16_D8/threads:1")
                self.assertEqual(table.split()[:3], alone.stdout.split()[1:4])

    def test_target(self):
        """The shape with a promise that is small; the table says whether it is kept."""
        done = run("--decode", *ONE, *BRIEF, *shapes(["B1_H1_Lq1_Lkv128_D128"]))
        self.assertEqual(done.returncode, 0)
        table = done.stdout[done.stdout.index("Medians:"):]
        self.assertRegex(table, r"us a call +tokens/s +of_read +of_spread +target +GB/s")
        self.assertRegex(table, r"call_us < 3\.00 +(met|missed)")


class Ranks(unittest.TestCase):
    """Of MPI, which --ranks starts."""

    def rows(self, shape):
        """Of 1 and of 3 ranks: which kind, how many ranks, and the row."""
        done = run("--ranks", "1,3", *SCALAR, *BRIEF, "--shape", shape, "--benchmark_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {"/".join(row["run_name"].split("/")[:3]): row for row in json.loads(done.stdout)["benchmarks"]}
        named = {f"{kind}/{shape}/ranks:{n}": (kind, n) for kind in ("strong", "weak") for n in (1, 3)}
        self.assertEqual(set(rows), set(named))
        return [(*named[name], row) for name, row in rows.items()]

    def test_counted(self):
        for kind, ranks, row in self.rows("B1_H2_L60_D8_causal"):
            with self.subTest(kind, ranks=ranks):
                self.check(row, ranks, 60 * (ranks if kind == "weak" else 1))
                found = (COMPARED | {"speedup"}).intersection(row)
                self.assertEqual(found, set() if ranks == 1 else
                                 COMPARED if kind == "weak" else COMPARED | {"speedup"})
                if "speedup" in row:
                    self.assertAlmostEqual(row["efficiency"] * ranks / row["speedup"], 1, delta=1e-9)

    def check(self, row, ranks, length):
        self.assertTrue(RANK_COUNTERS.issubset(row), RANK_COUNTERS - set(row))
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
        done = run("--ranks", "2", *SCALAR, *BRIEF, "--shape", "B1_H2_Hkv1_L64_D8_bf16_lse")
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
                done = run("--ranks", "1,2", *SCALAR, *BRIEF, "--shape", shape, "--benchmark_filter=^strong/")
                self.assertEqual(done.returncode, status)
                self.assertIn(words, done.stdout + done.stderr)

    def test_not_started(self):
        done = run("--ranks", "2", *SCALAR, *BRIEF, HEED_PERF_MPIEXEC="/nowhere/mpiexec")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "heed_perf: /nowhere/mpiexec: No such file or directory\n"))
        alone = run("--ranks", "2", program=PROGRAM + "_mpi")
        self.assertEqual(alone.returncode, 2)
        self.assertIn("--ranks has 2, but mpiexec started 1", alone.stderr)
        self.assertIn("heed_perf_mpi is started by heed_perf --ranks", run(program=PROGRAM + "_mpi").stderr)


if __name__ == "__main__":
    unittest.main()
