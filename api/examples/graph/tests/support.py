"""Runs of the programs, and what they must not do."""

import importlib.util
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GRAPH = os.path.dirname(HERE)  # where the sources, the data and the pictures are


def attend_support():
    """The module of this name that belongs to attend, for its .npy files."""
    path = os.path.join(GRAPH, "..", "attend", "tests", "support.py")
    spec = importlib.util.spec_from_file_location("attend_support", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ProgramTest(unittest.TestCase):
    program = ""  # a path; set before tests run
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_program(self, *arguments):
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("HEED_") and k not in ("COLUMNS", "NO_COLOR")}
        return subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, text=True,
                              timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean)

    def output_of(self, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def assert_fails(self, status, arguments, *words):
        result = self.run_program(*arguments)
        name = os.path.basename(self.program)
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertTrue(result.stderr.startswith(name + ": "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
