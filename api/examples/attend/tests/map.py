import math
import os
import subprocess
import unittest

from npy_files import npy
from support import FILES, AttendTest


class Weighted(AttendTest):
    """Tensors whose weights are known."""

    def write_rows(self, *rows):
        """Tensors whose weights are these, in two heads: the second sees them backwards."""
        keys = len(rows[0])
        identity = [float(i == j) for i in range(keys) for j in range(keys)]
        logs = [[math.log(w) if w else -1e9 for w in row] for row in rows]
        forward = [s for row in logs for s in row]
        backward = [s for row in logs for s in row[::-1]]
        self.write("q.npy", npy((2, len(rows), keys), forward + backward))
        self.write("k.npy", npy((2, keys, keys), 2 * identity))
        self.write("v.npy", npy((2, keys, keys), 2 * identity))


class Map(Weighted):
    """The heat map, as characters."""

    def map(self, *options, **environment):
        result = self.attend("--quiet", "--scale", "1", *options, **environment)
        return self.assert_works(result).splitlines()

    def test_characters(self):
        self.write_rows([0.5, 0.25, 0.125, 0.125], [0, 1, 0, 0], [0.25] * 4)
        self.write("t.txt", b"to\nbe\r\nor\nnot")
        self.assertEqual(self.map("--map", "0", "--tokens", "t.txt"), [
            "head 0: what rows 0 to 2 attend, of 4 keys",
            "0 |@+::|  to 0.50  be 0.25  or 0.12",
            "1 | @  |  be 1.00",
            "2 |@@@@|  to 0.25  be 0.25  or 0.25"])
        self.assertEqual(self.map("--map", "1", "--rows", "1,1"), [
            "head 1: what rows 1 to 1 attend, of 4 keys",
            "1 |  @ |  2 1.00"])

    def test_words_of_rows(self):
        self.write_rows([0.5, 0.5], [0, 1])
        self.write("t.txt", "caf\u00e9\n\x1b[31mconsiderably long\n".encode())
        self.assertEqual(self.map("--map", "0", "--tokens", "t.txt")[1:], [
            "caf\u00e9         |@@|  caf\u00e9 0.50  ?[31mconside 0.50",
            "?[31mconside | @|  ?[31mconside 1.00"])

    def test_causal(self):
        self.write_rows([0.5, 0.25, 0.125, 0.125], [0.25] * 4)
        self.assertEqual(self.map("--map", "1", "--causal", "-1")[1:], [
            "0 |    |  nothing",
            "1 |@   |  0 1.00"])

    def test_not_a_number(self):
        self.write_rows([0.5, 0.5], [math.nan, 0.5])
        result = self.attend("--quiet", "--scale", "1", "--map", "0")
        self.assertEqual(result.stdout.splitlines()[2], "1 |??|  NaN")
        self.assertIn("--out has NaN", result.stderr)

    def test_width(self):
        self.write_rows([1 / 64] * 63 + [1 / 64], [0] * 31 + [1] + [0] * 32)
        for columns, cells in ((200, 64), (60, 32), (20, 16)):
            lines = self.map("--map", "0", COLUMNS=str(columns))
            self.assertEqual(len(lines[2].split("|")[1]), cells, lines)
            self.assertEqual(("to a cell" in lines[0]), cells < 64)
            self.assertEqual(lines[2].split("|")[1].count("@"), 1)

    def test_default_rows(self):
        self.write_rows(*[[0.5, 0.5]] * 40)
        self.assertEqual(len(self.map("--map", "0")), 1 + 32)

    def test_grouped_heads_and_report(self):
        self.write("q.npy", npy((2, 4, 1, 2), [9.0, 0.0, 0.0, 9.0] * 4))
        self.write("k.npy", npy((2, 2, 2, 2), [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0] * 2))
        self.write("v.npy", npy((2, 2, 2, 2)))
        got = [self.map("--map", str(head))[1] for head in range(4)]
        self.assertEqual(got, ["0 |@ |  0 1.00", "0 | @|  1 1.00",
                               "0 | @|  1 1.00", "0 |@ |  0 1.00"])
        result = self.attend("--map", "0")
        self.assertIn("out.npy\n\nhead 0: ", result.stdout)

    def test_errors(self):
        self.write_rows([0.5, 0.5], [0, 1])
        self.write("t.txt", b"one\ntwo\nthree\n")
        for options, *words in (
            (["--map", "2"], "--map is 2", "2 heads"),
            (["--map", "0", "--rows", "1,2"], "--rows ends with 2", "last row is 1"),
            (["--map", "0", "--tokens", "none.txt"], "none.txt: cannot be opened"),
            (["--map", "0", "--tokens", "."], ".: cannot be read"),
            (["--map", "0", "--tokens", "t.txt"], "t.txt: lines are 3, keys 2"),
        ):
            self.assert_fails(self.attend(*options), 1, *words)
            self.assertFalse(os.path.exists(self.path("out.npy")))
        self.write_inputs((1, 2, 0, 4), (1, 2, 5, 4), (1, 2, 5, 4))
        self.assert_fails(self.attend("--map", "0"), 1, "--map of an empty problem")


class Colours(Weighted):
    """The heat map on a terminal."""

    def test_colours(self):
        self.write_rows([0.5, 0.5], [0, 1])
        for environment, colours in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                     ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            master, slave = self.open_terminal()
            process = subprocess.Popen([self.program, *FILES, "--quiet", "--map", "0"], stdout=slave,
                                       cwd=self.folder, env={**os.environ, "NO_COLOR": "",
                                                             **environment})
            os.close(slave)
            self.assertEqual(process.wait(60), 0)
            shown = os.read(master, 10000).decode()
            os.close(master)
            self.assertEqual("\x1b[38;5;16;48;5;229m \x1b[0m" in shown, colours, shown)
            self.assertEqual("@" in shown, not colours, shown)
