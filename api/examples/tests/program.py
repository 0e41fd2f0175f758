"""Runs of a program in a folder of its own, and how they end."""

import os
import subprocess
import tempfile
import unittest


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

    def run_program(self, *arguments, **environment):
        return self.run_with({"text": True, "capture_output": True}, *arguments, **environment)

    def run_with(self, options, *arguments, **environment):
        """`options` are subprocess.run's."""
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("HEED_") and k not in ("COLUMNS", "NO_COLOR")}
        return subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, timeout=120,
                              check=False, env={**clean, **environment}, **options)

    @staticmethod
    def open_terminal():
        """Its two ends: what reads, and what programs write to."""
        try:
            import pty

            return pty.openpty()
        except (ImportError, OSError) as error:
            raise unittest.SkipTest(f"no terminal: {error}") from error

    def assert_works(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def output_of(self, *arguments, **environment):
        return self.assert_works(self.run_program(*arguments, **environment))

    def assert_fails(self, result, status, *words, printed=False):
        name = os.path.splitext(os.path.basename(self.program))[0]
        self.assertEqual((result.returncode, result.stdout != ""), (status, printed), result.stderr)
        self.assertTrue(result.stderr.startswith(name + ": "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
