"""Tests of attend, run as: test_attend.py ATTEND GROUP

A group is usage, files, shapes, results or numpy. The tensors are written here, byte by byte, so
that only the group numpy needs NumPy; without it that group ends with status 77, "skipped".
"""

import itertools
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
SKIPPED = 77


def npy(shape, values=None, *, descr="'<f4'", fortran="False", version=(1, 0), header=None):
    """The bytes of an npy file; every part can be made wrong."""
    if values is None:
        values = [0.0] * math.prod(shape)
    if header is None:
        axes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        header = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': ({axes}), }}\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    start = b"\x93NUMPY" + bytes(version) + length + header.encode()
    return start + struct.pack(f"<{len(values)}f", *values)


def read_npy(path):
    """The shape and values of a file that attend wrote, which must be exactly as NumPy writes."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    length = struct.unpack("<H", content[8:10])[0]
    assert (10 + length) % 64 == 0, length
    header = content[10 : 10 + length].decode("ascii")
    assert header.endswith("\n"), header
    fields = eval(header)  # our own program's output
    assert list(fields) == ["descr", "fortran_order", "shape"], header
    assert fields["descr"] == "<f4" and fields["fortran_order"] is False, header
    data = content[10 + length :]
    return fields["shape"], list(struct.unpack(f"<{len(data) // 4}f", data))


class AttendTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def write_inputs(self, query=(1, 2, 3, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 4)):
        for name, shape in (("q.npy", query), ("k.npy", key), ("v.npy", value)):
            self.write(name, npy(shape))

    def run_attend(self, arguments, environment=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HEED_")}
        clean["HEED_THREADS"] = "1"
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**clean, **(environment or {})})

    def attend(self, *more, environment=None):
        files = ["--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", "out.npy"]
        return self.run_attend([*files, "--repeat", "1", *more], environment)

    def assert_fails(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertTrue(result.stderr.startswith("attend: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_works(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Usage(AttendTest):
    """A wrong command line: status 2, and stderr names the option."""

    def test_help(self):
        for option in ("--help", "-h"):
            result = self.run_attend([option])
            self.assert_works(result)
            for word in ("Usage:", "--causal", "--tolerance", "scalar", "serial", "Example:"):
                self.assertIn(word, result.stdout)

    def test_wrong_options(self):
        self.write_inputs()
        cases = [
            (["--wrong"], "unknown", "'--wrong'"),
            (["--wrong=1"], "unknown", "'--wrong=1'"),
            (["-x"], "unknown", "'-x'"),
            (["--e", "x"], "ambiguous", "'--e'"),
            (["--quiet=1"], "takes no value", "--quiet=1"),
            (["more.npy"], "unexpected", "'more.npy'"),
            (["--scale"], "--scale needs a value"),
            (["--tolerance", "small"], "--tolerance", "'small'"),
            (["--tolerance", "-1"], "--tolerance", "-1"),
            (["--tolerance", "nan"], "--tolerance", "'nan'"),
            (["--scale", "0"], "--scale", "0"),
            (["--scale", "1x"], "--scale", "'1x'"),
            (["--scale", "inf"], "--scale", "'inf'"),
            (["--scale", ""], "--scale", "''"),
            (["--causal", "left"], "--causal", "'left'"),
            (["--causal", "9223372036854775808"], "--causal", "9223372036854775808"),
            (["--threads", "0"], "--threads", "1 ... 4294967295"),
            (["--threads", "4294967297"], "--threads", "1 ... 4294967295"),
            (["--threads", "two"], "--threads", "'two'"),
            (["--repeat", "0"], "--repeat", "1 ... 1000000"),
            (["--repeat", "99999999999999999999"], "--repeat", "1 ... 1000000"),
        ]
        for options, *words in cases:
            with self.subTest(options=options):
                result = self.attend(*options)
                self.assert_fails(result, 2, *words, "attend --help")
                self.assertEqual(result.stdout, "")
                self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_missing_options(self):
        given = []
        for name in ("--query", "--key", "--value", "--out"):
            self.assert_fails(self.run_attend(given), 2, f"{name} is missing")
            given += [name, "x.npy"]

    def test_what_heed_refuses(self):
        self.write_inputs()
        cases = [
            (["--isa", "mmx"], {}, "isa", "mmx", "scalar"),
            (["--executor", "fork"], {}, "executor", "fork", "serial"),
            (["--threads", "5000"], {}, "threads", "5000", "1024"),
            ([], {"HEED_ISA": "mmx"}, "HEED_ISA", "mmx", "scalar"),
            ([], {"HEED_TILE_Q": "many"}, "HEED_TILE_Q", "many"),
        ]
        for options, environment, *words in cases:
            with self.subTest(options=options, environment=environment):
                self.assert_fails(self.attend(*options, environment=environment), 1, *words)


class Files(AttendTest):
    """A file that cannot be read or written: status 1, and stderr names it and the reason."""

    def test_wrong_inputs(self):
        good = npy((1, 2, 5, 4))
        plain = "{'descr': '<f4', 'fortran_order': False, 'shape': "
        cases = [
            (b"", "not an npy file"),
            (b"PK\x03\x04 a zip file, as of np.savez", "not an npy file"),
            (good[:7], "truncated", "header"),
            (good[:9], "truncated", "header"),
            (good[:40], "truncated", "header"),
            (good[:-1], "truncated", "160", "159"),
            (good[: -4 * 40], "truncated", "160", "holds 0"),
            (good + b"\0", "too long", "160", "161"),
            (npy((1, 2, 5, 4), version=(3, 0)), "version 3.0"),
            (npy((1, 2, 5, 4), version=(1, 7)), "version 1.7"),
            (npy((1, 2, 5, 4), descr="'<f8'"), "dtype '<f8'", "'<f4'"),
            (npy((1, 2, 5, 4), descr="'>f4'"), "dtype '>f4'"),
            (npy((1, 2, 5, 4), descr="[('x', '<f4'), ('y', '<i4')]"), "dtype [('x', '<f4'), ("),
            (npy((1, 2, 5, 4), descr="'\x1b[31m'"), "dtype '?[31m'"),
            (npy((1, 2, 5, 4), fortran="True"), "Fortran order"),
            (npy((1, 2, 5, 4), fortran="Maybe"), "fortran_order Maybe"),
            (npy(()), "0 dimensions"),
            (npy((40,)), "(40,)", "1 dimension,"),
            (npy((1, 1, 2, 5, 4)), "(1, 1, 2, 5, 4)", "5 dimensions"),
            (npy((1 << 31, 1 << 31, 4), []), "(2147483648, 2147483648, 4)", "too large"),
            (npy((1, 1 << 64), []), "too large"),
            (npy((1, 1 << 50), []), "truncated"),
            (npy((), header=plain + "(2, -3)}"), "malformed shape (2, -3)"),
            (npy((), header=plain + "(2 3)}"), "malformed shape (2 3)"),
            (npy((), header=plain + "[2, 3]}"), "malformed shape [2, 3]"),
            (npy((), header=plain + "(2, 3}"), "malformed npy header"),
            (npy((), header=plain + "(2, 3)"), "malformed npy header"),
            (npy((), header=plain + "(2, 3)} {"), "malformed npy header"),
            (npy((), header=plain + "(2, 3), 'more': 1}"), "malformed npy header"),
            (npy((), header=""), "malformed npy header"),
            (npy((), header="{}"), "malformed npy header"),
            (npy((), header="{'shape': (2, 3)}"), "malformed npy header"),
            (npy((), header=plain + "(2, 3)}" + 10000 * " "), "header of 10", "limit of 10000"),
        ]
        self.write_inputs()
        for content, *words in cases:
            with self.subTest(content=content[:120]):
                self.write("k.npy", content)
                self.assert_fails(self.attend(), 1, "k.npy: ", *words)
                self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_every_input_is_named(self):
        for name in ("q.npy", "k.npy", "v.npy", "e.npy"):
            self.write_inputs()
            self.write("e.npy", npy((1, 2, 3, 4)))
            os.remove(self.path(name))
            self.assert_fails(self.attend("--expect", "e.npy"), 1, f"{name}: cannot be opened")
            os.mkdir(self.path(name))
            self.assert_fails(self.attend("--expect", "e.npy"), 1, f"{name}: cannot be read")
            os.rmdir(self.path(name))

    def test_unwritable_output(self):
        self.write_inputs()
        for path in ("nowhere/out.npy", "."):
            self.assert_fails(self.attend("--out", path), 1, f"{path}: cannot be written")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        self.write_inputs()
        self.assert_fails(self.attend("--out", "/dev/full"), 1, "/dev/full: cannot be written")

    def test_accepted_spellings(self):
        self.write_inputs()
        headers = [
            '{"shape": (1,2,5,4), "fortran_order": False, "descr": "<f4"}',
            "{ 'shape' : ( 1 , 2 , 5 , 4 , ) , 'descr' : '<f4' , 'fortran_order' : False , } \n",
        ]
        for header, version in itertools.product(headers, ((1, 0), (2, 0))):
            self.write("k.npy", npy((1, 2, 5, 4), header=header, version=version))
            self.assert_works(self.attend())


class Shapes(AttendTest):
    """Shapes that do not fit together: status 1, and stderr names the axis and both sizes."""

    def test_mismatches(self):
        q, k, v = (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)
        cases = [
            ((4, 3, 4), k, v, "--key has 4 axes, --query has 3"),
            (q, k, (2, 5, 6), "--value has 3 axes, --key has 4"),
            (q, (2, 2, 5, 4), v, "batch of --key is 2, of --query 1"),
            (q, k, (3, 2, 5, 6), "batch of --value is 3, of --key 1"),
            (q, (1, 3, 5, 4), (1, 3, 5, 6), "heads of --query is 4", "heads of --key, 3"),
            (q, (1, 0, 5, 4), (1, 0, 5, 6), "heads of --query is 4", "heads of --key, 0"),
            (q, k, (1, 4, 5, 6), "heads of --value is 4, of --key 2"),
            (q, k, (1, 2, 7, 6), "length of --value is 7, of --key 5"),
            (q, (1, 2, 5, 8), v, "features of --key is 8, of --query 4"),
            (q, k, (1, 2, 5, 0), "features of --value is 0"),
            ((1, 4, 3, 0), (1, 2, 5, 0), v, "features is 0"),
        ]
        for query, key, value, *words in cases:
            with self.subTest(query=query, key=key, value=value):
                self.write_inputs(query, key, value)
                self.assert_fails(self.attend(), 1, *words)
                self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_expected_output(self):
        self.write_inputs((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6))
        for shape, words in (
            ((4, 3, 6), "--expect has 3 axes, --out has 4"),
            ((1, 4, 3, 4), "features of --expect is 4, of --out 6"),
            ((1, 4, 5, 6), "length of --expect is 5, of --out 3"),
        ):
            self.write("e.npy", npy(shape))
            self.assert_fails(self.attend("--expect", "e.npy"), 1, words)

    def test_empty(self):
        self.write_inputs((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 6))
        self.assert_works(self.attend())
        self.assertEqual(read_npy(self.path("out.npy")), ((1, 2, 3, 6), [0.0] * 36))
        self.write_inputs((0, 2, 3, 4), (0, 2, 5, 4), (0, 2, 5, 4))
        self.write("e.npy", npy((0, 2, 3, 4)))
        result = self.attend("--expect", "e.npy")
        self.assert_works(result)
        self.assertNotIn("nan", result.stdout)
        self.assertEqual(read_npy(self.path("out.npy")), ((0, 2, 3, 4), []))


def naive_attention(shapes, tensors, scale, offset):
    """The definition, in double precision; shapes have four axes, offset None means no mask."""
    (batch, heads, rows, features), (_, key_heads, keys, _), (_, _, _, width) = shapes
    query, key, value = tensors
    out = []
    for b, h, i in itertools.product(range(batch), range(heads), range(rows)):
        at = ((b * heads + h) * rows + i) * features
        q = query[at : at + features]
        first = (b * key_heads + h // (heads // key_heads)) * keys
        attended = [j for j in range(keys) if offset is None or j <= i + offset]
        scores = []
        for j in attended:
            k = key[(first + j) * features : (first + j + 1) * features]
            scores.append(scale * sum(x * y for x, y in zip(q, k)))
        weights = [math.exp(s - max(scores)) for s in scores]
        for f in range(width):
            total = sum(w * value[(first + j) * width + f] for w, j in zip(weights, attended))
            out.append(total / sum(weights) if attended else 0.0)
    return out


class Results(AttendTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(7)

    def write_random(self, name, shape):
        values = [self.random.uniform(-2, 2) for _ in range(math.prod(shape))]
        self.write(name, npy(shape, values))
        return values

    def check(self, query, key, value, *options, scale=None, offset=None):
        """Runs attend on random tensors and compares its output with the definition."""
        shapes = [query, key, value]
        tensors = [self.write_random(name, shape)
                   for name, shape in zip(("q.npy", "k.npy", "v.npy"), shapes)]
        padded = [(1,) * (4 - len(shape)) + shape for shape in shapes]
        scale = scale or 1 / math.sqrt(query[-1])
        wanted = naive_attention(padded, tensors, scale, offset)
        self.assert_works(self.attend(*options))
        shape, got = read_npy(self.path("out.npy"))
        self.assertEqual(shape, query[:-1] + value[-1:])
        self.assertEqual(len(got), len(wanted))
        for x, y in zip(got, wanted):
            self.assertAlmostEqual(x, y, delta=1e-5)

    def test_ranks(self):
        self.check((7, 5), (9, 5), (9, 3))
        self.check((2, 7, 5), (2, 9, 5), (2, 9, 3))
        self.check((2, 3, 7, 5), (2, 3, 9, 5), (2, 3, 9, 4))

    def test_grouped_heads(self):
        self.check((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5))

    def test_causal(self):
        shapes = (2, 4, 5), (2, 7, 5), (2, 7, 3)
        self.check(*shapes, "--causal", "top-left", offset=0)
        self.check(*shapes, "--causal", "bottom-right", offset=3)
        self.check(*shapes, "--causal", "-2", offset=-2)
        self.check(*shapes, "--causal=1", offset=1)

    def test_scale(self):
        self.check((4, 5), (7, 5), (7, 3), "--scale", "1", scale=1)
        self.check((4, 5), (7, 5), (7, 3), "--scale", "-0.25", scale=-0.25)

    def test_choices(self):
        self.check((4, 5), (7, 5), (7, 3), "--isa", "scalar", "--executor", "serial")

    def test_report(self):
        self.check((4, 5), (7, 5), (7, 3), "--isa", "scalar")
        result = self.attend("--isa", "scalar", "--expect", "out.npy", "--repeat", "3")
        self.assert_works(result)
        labels = [line.split()[0] for line in result.stdout.splitlines()]
        self.assertEqual(labels, "query key value isa executor tiles tasks workspace time speed "
                                 "out error".split())
        self.assertTrue(all(line[11] != " " and line[10] == " "
                            for line in result.stdout.splitlines()), result.stdout)
        for words in ("[4, 5]", "isa        scalar\n", "1 thread\n", "median of 3 runs",
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
        self.assert_works(self.attend("--expect", "e.npy"))


class NumPy(AttendTest):
    """What NumPy writes is read, and what attend writes NumPy reads."""

    def test_round_trip(self):
        import numpy

        generator = numpy.random.default_rng(7)
        for shape in ((6, 5), (2, 6, 5), (1, 2, 6, 5), (123, 1, 6, 5)):
            for version in ((1, 0), (2, 0)):
                # A single key has weight 1: the output is its value, repeated, bit for bit.
                value = generator.standard_normal((*shape[:-2], 1, 7)).astype("<f4")
                key = numpy.ones((*shape[:-2], 1, shape[-1]), "<f4")
                for name, tensor in (("q", numpy.ones(shape, "<f4")), ("k", key), ("v", value)):
                    with open(self.path(name + ".npy"), "wb") as file:
                        numpy.lib.format.write_array(file, tensor, version)
                self.assert_works(self.attend())
                out = numpy.load(self.path("out.npy"))
                self.assertEqual(out.dtype, numpy.dtype("<f4"))
                wanted = numpy.broadcast_to(value, (*shape[:-1], 7))
                numpy.testing.assert_array_equal(out, wanted)
                # The same bytes as NumPy's own writer of version 1.0.
                with open(self.path("same.npy"), "wb") as file:
                    numpy.lib.format.write_array(file, numpy.ascontiguousarray(wanted), (1, 0))
                with open(self.path("same.npy"), "rb") as same, \
                        open(self.path("out.npy"), "rb") as written:
                    self.assertEqual(written.read(), same.read())

    def test_foreign_arrays(self):
        import numpy

        self.write_inputs()
        for array, word in (
            (numpy.zeros((1, 2, 5, 4)), "<f8"),
            (numpy.zeros((1, 2, 5, 4), "<f2"), "<f2"),
            (numpy.zeros((1, 2, 5, 4), numpy.int8), "|i1"),
            (numpy.asfortranarray(numpy.zeros((1, 2, 5, 4), "<f4")), "Fortran order"),
        ):
            numpy.save(self.path("k.npy"), array)
            self.assert_fails(self.attend(), 1, "k.npy: ", word)


def main():
    global PROGRAM
    groups = {"usage": Usage, "files": Files, "shapes": Shapes, "results": Results, "numpy": NumPy}
    if len(sys.argv) != 3 or sys.argv[2] not in groups:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv[1])
    if sys.argv[2] == "numpy":
        try:
            import numpy  # noqa: F401
        except ImportError:
            print("no NumPy")
            sys.exit(SKIPPED)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(groups[sys.argv[2]])
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
