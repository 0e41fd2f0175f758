"""Tests of the larger examples, run as: run.py PROGRAM GROUP

A group is one of those below. Only attend.numpy needs NumPy, and only attend.colours a terminal;
without it a group ends with status 77, "skipped".
"""

import importlib
import os
import sys
import unittest

from program import ProgramTest

EXAMPLES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77

# Where the class of a group is.
GROUPS = {"attend.usage": "usage.Usage", "attend.files": "files.Files",
          "attend.shapes": "files.Shapes", "attend.results": "results.Results",
          "attend.map": "map.Map",
          "attend.colours": "map.Colours", "attend.numpy": "with_numpy.NumPy",
          "encoder.usage": "usage.Usage", "generate.usage": "usage.Usage",
          "generate.files": "files.Files", "generate.texts": "texts.Texts",
          "generate.saved": "saved.Saved", "graph.factions": "test_factions.Factions",
          "graph.messages": "test_messages.Messages",
          "graph.neighbours": "test_neighbours.Neighbours", "train.usage": "usage.Usage"}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in GROUPS:
        sys.exit(__doc__ + "\n" + "\n".join(GROUPS))
    ProgramTest.program = os.path.abspath(sys.argv[1])
    module, name = GROUPS[sys.argv[2]].split(".")
    sys.path.insert(0, os.path.join(EXAMPLES, sys.argv[2].split(".")[0], "tests"))
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
