"""Tests of attend, run as: run.py ATTEND GROUP

A group is usage, files, shapes, results, options, map, colours or numpy. The tensors are written by
support.py, so that only the group numpy needs NumPy, and only colours needs a terminal; without it
that group ends with status 77, "skipped".
"""

import importlib
import os
import sys
import unittest

from support import AttendTest

SKIPPED = 77

# Where the class of a group is.
GROUPS = {"usage": "usage.Usage", "files": "files.Files", "shapes": "files.Shapes",
          "results": "results.Results", "options": "options.Options", "map": "map.Map",
          "colours": "map.Colours", "numpy": "with_numpy.NumPy"}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in GROUPS:
        sys.exit(__doc__)
    AttendTest.program = os.path.abspath(sys.argv[1])
    module, name = GROUPS[sys.argv[2]].split(".")
    try:
        group = getattr(importlib.import_module(module), name)
    except ImportError as error:
        if error.name != "numpy":
            raise
        print("no NumPy")
        sys.exit(SKIPPED)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(group)
    result = unittest.TextTestRunner().run(suite)
    if result.wasSuccessful() and len(result.skipped) == result.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
