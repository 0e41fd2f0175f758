#!/usr/bin/env python3
"""Tests of encoder, run as: tests.py ENCODER"""

import os
import re
import subprocess
import sys
import tempfile
import unittest


class Encoder(unittest.TestCase):
    program = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        with open(os.path.join(self.folder.name, name), "wb") as file:
            file.write(content)

    def encode(self, *arguments, **environment):
        return subprocess.run([self.program, *arguments], cwd=self.folder.name,
                              env={**os.environ, "COLUMNS": "100", **environment},
                              capture_output=True, text=True, timeout=120, check=False)

    def pictures(self, *arguments, **environment):
        result = self.encode(*arguments, **environment)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_help(self):
        self.assertIn("Usage: encoder", self.pictures("--help"))

    def test_wrong_command_lines(self):
        for arguments, problem in [
                ([], "FILE is missing"),
                (["a", "b"], "'b' is one too many"),
                (["--rows"], "--rows needs a value"),
                (["--rows", "0", "a"], "--rows is 0, not an integer from 1 to 8192"),
                (["--seed", "-1", "a"], "--seed is -1, not an integer from 0"),
                (["--seed", "9x", "a"], "--seed is 9x"),
                (["--fast", "a"], "'--fast' is not understood")]:
            result = self.encode(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn("encoder: " + problem, result.stderr)

    def test_files_that_cannot_be_encoded(self):
        self.write("empty.txt", b" \n\t")
        self.write("long.txt", b"word " * 8193)
        for name, problem in [("none.txt", "none.txt: No such file"), (".", ".: Is a directory"),
                              ("empty.txt", "empty.txt: there is no word in it"),
                              ("long.txt", "long.txt: more than 8192 words")]:
            result = self.encode(name)
            self.assertEqual((result.returncode, result.stdout), (1, ""), name)
            self.assertIn("encoder: " + problem, result.stderr)

    def test_what_heed_refuses(self):
        self.write("t.txt", b"a word")
        result = self.encode("t.txt", HEED_ISA="z80")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("HEED_ISA", result.stderr)

    def test_words(self):
        self.write("t.txt", "The tide's high-water;the caf\u00e9\r\nthe TIDE'S end.".encode())
        text = self.pictures("t.txt", "--rows", "100")
        self.assertIn("10 words, 7 of them different", text)
        self.assertEqual(text.count("what rows 0 to 9 attend, of 10 keys"), 2 * 4)
        first = text.split("\n\n")[1].splitlines()[1:]
        self.assertEqual([line.split()[0] for line in first],
                         ["The", "tide's", "high-water", ";", "the", "caf\u00e9", "the", "TIDE'S",
                          "end", "."])

    def test_one_word_attends_itself(self):
        self.write("t.txt", b"alone")
        text = self.pictures("t.txt")
        self.assertEqual(re.findall(r"^alone (.*)$", text, re.MULTILINE), ["|@|  alone 1.00"] * 8)

    def test_seeds(self):
        self.write("t.txt", b"When the Sun lines up with the Moon the range grows .")
        first = self.pictures("t.txt", "--seed", "5")
        self.assertEqual(first, self.pictures("t.txt", "--seed", "5", HEED_THREADS="1"))
        self.assertNotEqual(first, self.pictures("t.txt", "--seed", "6"))

    def test_layers_differ(self):
        self.write("t.txt", b"a small tide of its own")
        pictures = [p.split("\n", 1)[1] for p in self.pictures("t.txt").split("\n\n")[1:]]
        self.assertEqual(len(set(pictures)), 8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Encoder.program = os.path.abspath(sys.argv.pop())
    unittest.main()
