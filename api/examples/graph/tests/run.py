"""Tests of the programs on graphs, run as: run.py PROGRAM, which is messages or neighbours."""

import importlib
import os
import sys
import unittest

from support import ProgramTest


def main():
    name = os.path.splitext(os.path.basename(sys.argv[1]))[0] if len(sys.argv) == 2 else ""
    if name not in ("messages", "neighbours"):
        sys.exit(__doc__)
    ProgramTest.program = os.path.abspath(sys.argv[1])
    group = getattr(importlib.import_module("test_" + name), name.capitalize())
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(group)
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
