import math
import os

from definition import Computed, only
from npy_files import npy, read_npy


class Results(Computed):
    def test_ranks(self):
        self.check((7, 5), (9, 5), (9, 3))
        self.check((2, 7, 5), (2, 9, 5), (2, 9, 3))
        self.check((2, 3, 7, 5), (2, 3, 9, 5), (2, 3, 9, 4))

    def test_vector_query(self):
        self.check((5,), (9, 5), (9, 3))

    def test_grouped_heads(self):
        self.check((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5))

    def test_causal(self):
        shapes = (2, 4, 5), (2, 7, 5), (2, 7, 3)
        self.check(*shapes, "--causal", "top-left", change=only(lambda i, j: j <= i))
        self.check(*shapes, "--causal", "bottom-right", change=only(lambda i, j: j <= i + 3))
        self.check(*shapes, "--causal", "-2", change=only(lambda i, j: j <= i - 2))
        self.check(*shapes, "--causal=1", change=only(lambda i, j: j <= i + 1))

    def test_scale(self):
        self.check((4, 5), (7, 5), (7, 3), "--scale", "1", scale=1)
        self.check((4, 5), (7, 5), (7, 3), "--scale", "-0.25", scale=-0.25)

    def test_choices(self):
        self.check((4, 5), (7, 5), (7, 3), "--isa", "scalar", "--executor", "serial")

    def test_types(self):
        """Read as they are, in any mix that heed knows; out is of the queries' type."""
        shapes = (2, 4, 5), (2, 7, 5), (2, 7, 3)
        for descr, unit in (("<f2", 2**-11), ("<f4", 1e-6), ("<f8", 1e-14)):
            with self.subTest(descr=descr):
                self.check(*shapes, descr=descr, delta=10 * unit)
        self.write_inputs((1, 3), (1, 3), (1, 2))
        self.write("v.npy", npy((1, 2), [0.5, 1.25], descr="'<f2'"))
        self.assert_works(self.attend())
        self.assertEqual(read_npy(self.path("out.npy")), ((1, 2), [0.5, 1.25]))
        self.write("v.npy", npy((1, 2), [0.5, 1.25], descr="'<f8'"))
        self.assert_fails(self.attend(), 1, "--value is float64; all three must be, or none")

    def test_report(self):
        self.check((4, 5), (7, 5), (7, 3), "--isa", "scalar")
        os.rename(self.path("out.npy"), self.path("e.npy"))
        result = self.attend("--isa", "scalar", "--expect", "e.npy", "--repeat", "3")
        self.assert_works(result)
        labels = [line.split()[0] for line in result.stdout.splitlines()]
        self.assertEqual(labels, "query key value isa executor strategy tiles tasks workspace time "
                                 "speed out error".split())
        self.assertTrue(all(line[11] != " " and line[10] == " "
                            for line in result.stdout.splitlines()), result.stdout)
        for words in ("[4, 5]", "isa        scalar\n", "strategy   prefill\n", "1 thread\n", "median of 3 runs",
                      "max 0.00e+00"):
            self.assertIn(words, result.stdout)
        result = self.attend("--quiet")
        self.assert_works(result)
        self.assertEqual(result.stdout, "")

    def test_tolerance(self):
        self.check((4, 5), (7, 5), (7, 3))
        shape, values = read_npy(self.path("out.npy"))
        values[5] += 0.125
        self.write("e.npy", npy(shape, values))
        options = ("--expect", "e.npy", "--quiet")
        self.assert_fails(self.attend(*options), 1, "e.npy", "0.125", "--tolerance, 1e-05")
        self.assert_fails(self.attend(*options, "--tolerance", "0.1249"), 1, "--tolerance")
        self.assert_works(self.attend(*options, "--tolerance", "0.1251"))
        values[5] = math.nan
        self.write("e.npy", npy(shape, values))
        self.assert_fails(self.attend(*options, "--tolerance", "1e30"), 1, "inf")

    def test_special_values(self):
        self.write("q.npy", npy((1, 1), [1.0]))
        self.write("k.npy", npy((1, 1), [1.0]))
        self.write("v.npy", npy((1, 2), [math.nan, math.inf]))
        self.write("e.npy", npy((1, 2), [math.nan, math.inf]))
        result = self.attend("--expect", "e.npy", "--quiet")
        self.assertEqual((result.returncode, result.stderr), (
            0, "attend: --out has NaN, 1 of its 2 numbers; NaN or infinity stands in --value\n"))

    def test_nan_is_said(self):
        """With the inputs that it may come from."""
        self.write("q.npy", npy((2, 1), [1.0, math.nan]))
        self.write("k.npy", npy((2, 1), [1.0, 1.0]))
        self.write("v.npy", npy((2, 1), [1.0, math.inf]))
        result = self.attend()
        self.assertEqual((result.returncode, result.stderr), (
            0, "attend: --out has NaN, 1 of its 2 numbers; NaN or infinity stands in --query, "
               "--value\n"))
