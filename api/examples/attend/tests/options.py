import math

from definition import Computed, hardmax, only
from npy_files import npy, read_npy


class Options(Computed):
    """Every option against the definition."""

    SHAPES = (2, 4, 5), (2, 7, 5), (2, 7, 3)  # two heads, four rows, seven keys

    def test_masks(self):
        for shape in ((2, 4, 7), (4, 7), (1, 4, 7), (2, 1, 7), (2, 4, 1), (7,), (1,), (1, 2, 4, 7)):
            for descr in ("|b1", "|u1"):
                values = [self.random.choice((0, 0, 1, 1 if descr == "|b1" else 200))
                          for _ in range(math.prod(shape))]
                self.write("m.npy", npy(shape, values, descr=repr(descr)))
                _, heads, rows, keys = (1,) * (4 - len(shape)) + shape

                def change(b, h, i, j, score):
                    at = (h % heads * rows + i % rows) * keys + j % keys
                    return score if values[at] else -math.inf

                with self.subTest(shape=shape, descr=descr):
                    self.check(*self.SHAPES, "--mask", "m.npy", change=change)

    def test_biases(self):
        for shape in ((2, 4, 7), (4, 1), (7,)):
            values = self.write_random("b.npy", shape)
            _, heads, rows, keys = (1,) * (4 - len(shape)) + shape

            def change(b, h, i, j, score):
                return score + values[(h % heads * rows + i % rows) * keys + j % keys]

            with self.subTest(shape=shape):
                self.check(*self.SHAPES, "--bias", "b.npy", change=change)

    def test_windows(self):
        for options, allowed in (
            (("--window", "1,2", "--alignment", "top-left"), lambda i, j: i - 1 <= j <= i + 2),
            (("--window", "1,-1", "--alignment", "2"), lambda i, j: i + 1 <= j),
            (("--window=-1,0", "--alignment", "bottom-right"), lambda i, j: j <= i + 3),
            (("--window", "1,0", "--causal", "bottom-right"), lambda i, j: i + 2 <= j <= i + 3),
            (("--window", "0,0", "--alignment", "-2"), lambda i, j: j == i - 2),
        ):
            with self.subTest(options=options):
                self.check(*self.SHAPES, *options, change=only(allowed))
        self.check((5, 4), (5, 4), (5, 4), "--window", "1,1",
                   change=only(lambda i, j: abs(i - j) <= 1))

    def test_scores(self):
        self.check(*self.SHAPES, "--softcap", "0.5",
                   change=lambda b, h, i, j, s: 0.5 * math.tanh(s / 0.5))
        self.check(*self.SHAPES, "--temperature", "3", change=lambda b, h, i, j, s: s / 3)
        self.check(*self.SHAPES, "--temperature", "inf", change=lambda b, h, i, j, s: 0.0)
        self.check(*self.SHAPES, "--hard", weigh=hardmax)

    def test_types(self):
        for dtype, descr, unit in (("f16", "<f2", 2**-11), ("f32", "<f4", 1e-6),
                                   ("f64", "<f8", 1e-14), ("bf16", "<f4", 2**-8)):
            with self.subTest(dtype=dtype):
                # Converted: rounding the inputs moves scores of up to 9 by as many units.
                self.check(*self.SHAPES, "--dtype", dtype, out_descr=descr, delta=100 * unit)
                # Read as they are.
                if dtype != "bf16":
                    self.check(*self.SHAPES, descr=descr, delta=10 * unit)

    def test_conversion(self):
        """A single key has weight 1: what is written is its value, rounded."""
        for dtype, descr, cases in (
            # value, rounded; ties go to the even neighbour
            ("f16", "<f2", ((1 + 2**-11, 1), (1 + 3 * 2**-11, 1 + 2**-9), (65519, 65504),
                            (65520, math.inf), (-1e9, -math.inf), (2**-24, 2**-24),
                            (2**-25, 0), (3 * 2**-25, 2**-23), (1 - 2**-12, 1),
                            (2**-14 - 2**-25, 2**-14), (math.nan, math.nan))),
            ("bf16", "<f4", ((1 + 2**-8, 1), (1 + 3 * 2**-8, 1 + 2**-6), (-2**100, -2**100),
                             (3.4028e38, math.inf), (math.nan, math.nan))),
        ):
            values = [value for value, _ in cases]
            self.write("q.npy", npy((1, 1), [0.0]))
            self.write("k.npy", npy((1, 1), [0.0]))
            self.write("v.npy", npy((1, len(values)), values))
            result = self.attend("--dtype", dtype)
            self.assertEqual(result.returncode, 0)
            self.assertIn("--out has NaN, 1 of its", result.stderr)
            _, got = read_npy(self.path("out.npy"), descr)
            for x, (value, wanted) in zip(got, cases):
                self.assertTrue(x == wanted or math.isnan(x) and math.isnan(wanted),
                                f"{dtype}: {value} became {x}, not {wanted}")

    def test_weights(self):
        options = ("--weights", "w.npy", "--softcap", "0.5", "--causal", "bottom-right")
        cap = lambda s: 0.5 * math.tanh(s / 0.5)
        change = lambda b, h, i, j, s: cap(s) if j <= i + 3 else -math.inf
        for point in ("scores", "capped", "masked", "probabilities", None):
            more = ("--weights-point", point) if point else ()
            _, scores, weights = self.check(*self.SHAPES, *options, *more, change=change)
            masked = [change(0, 0, n // 7 % 4, n % 7, s) for n, s in enumerate(scores)]
            wanted = {"scores": scores, "capped": [cap(s) for s in scores], "masked": masked}
            shape, got = read_npy(self.path("w.npy"))
            self.assertEqual(shape, (2, 4, 7))
            with self.subTest(point=point):
                self.assert_close(got, wanted.get(point, weights))
        _, _, weights = self.check((5,), (9, 5), (9, 3), "--weights", "w.npy", descr="<f8",
                                   delta=1e-14)
        shape, got = read_npy(self.path("w.npy"), "<f8")
        self.assertEqual(shape, (9,))
        self.assert_close(got, weights, 1e-14)

    def test_report(self):
        self.write("m.npy", npy((4, 7), [1] * 28, descr="'|b1'"))
        self.write("b.npy", npy((7,), [0.0] * 7))
        for name, shape in zip(("q.npy", "k.npy", "v.npy"), self.SHAPES):
            self.write(name, npy(shape))
        result = self.attend("--mask", "m.npy", "--bias", "b.npy", "--window", "2,-1",
                             "--alignment", "1", "--softcap", "30", "--temperature", "2",
                             "--dtype", "f64", "--weights", "w.npy")
        self.assert_works(result)
        for line in ("mask       [4, 7]                m.npy",
                     "bias       [7]                   b.npy",
                     "type       float64", "window     2 before, all after",
                     "alignment  offset 1", "softcap    30", "softmax    temperature 2",
                     "weights    [2, 4, 7]             w.npy"):
            self.assertIn(line + "\n", result.stdout)
