import itertools
import os
import unittest

from npy_files import npy, read_npy
from support import AttendTest


class Files(AttendTest):
    """A file that cannot be read or written: status 1, and stderr names it and the reason."""

    def test_wrong_inputs(self):
        good = npy((1, 2, 5, 4))
        plain = "{'descr': '<f4', 'fortran_order': False, 'shape': "
        cases = [
            (b"", "empty, not an npy file"),
            (b"PK\x03\x04 a zip file, as of np.savez", "not an npy file"),
            (good[:7], "truncated", "header"),
            (good[:9], "truncated", "header"),
            (good[:40], "truncated", "header"),
            (good[:-1], "truncated", "160", "159"),
            (good[: -4 * 40], "truncated", "160", "holds 0"),
            (good + b"\0", "too long", "160", "161"),
            (npy((1, 2, 5, 4), version=(3, 0)), "version 3.0"),
            (npy((1, 2, 5, 4), version=(1, 7)), "version 1.7"),
            (npy((1, 2, 5, 4), descr="'<i4'"), "dtype '<i4'", "'<f4'"),
            (npy((1, 2, 5, 4), descr="'>f4'"), "dtype '>f4'"),
            (npy((1, 2, 5, 4), descr="'|u1'"), "bool or uint8, not floats"),
            (npy((1, 2, 5, 4), descr="[('x', '<f4'), ('y', '<i4')]"), "dtype [('x', '<f4'), ("),
            (npy((1, 2, 5, 4), descr="'\x1b[31m'"), "dtype '?[31m'"),
            (npy((1, 2, 5, 4), fortran="True"), "Fortran order", "numpy.ascontiguousarray"),
            (npy((1, 2, 5, 4), fortran="Maybe"), "fortran_order Maybe"),
            (npy(()), "0 dimensions"),
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
            self.assert_fails(self.attend("--out", path), 1, f"{path}: cannot be written",
                              printed=True)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        self.write_inputs()
        self.assert_fails(self.attend("--out", "/dev/full"), 1, "/dev/full: cannot be written",
                          printed=True)

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
            ((1, 4, 3, 0), (1, 2, 5, 0), v, "features of --query is 0"),
            ((4,), (1, 5, 4), (1, 5, 6), "--key has 3 axes, --query has 1"),
            ((4,), (4,), (4,), "--key has 1 axis"),
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
