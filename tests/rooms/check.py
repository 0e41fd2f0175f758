#!/usr/bin/env python3
"""Includes between the rooms of engine/ go one way: fails on any that the table below does not name.

usage: check.py DIRECTORY-OF-THE-PROJECT
       check.py self-test
"""
import pathlib
import re
import sys
import tempfile

COMMON = ["kernels", "runtime", "tensor", "parallel", "context"]

# Each room, and those that it may include besides itself.
ROOMS = {
    "kernels": [],
    "runtime": ["kernels"],
    "tensor": ["kernels", "runtime"],
    "parallel": ["runtime"],
    "context": ["kernels", "runtime", "tensor", "parallel"],
    "projection": COMMON,
    "dense": COMMON,
    "multihead": [*COMMON, "projection", "dense", "backward"],
    "graph": [*COMMON, "projection"],
    "cache": [*COMMON, "dense"],
    "backward": [*COMMON, "dense"],
    "mpi": ["runtime"],
    "check": [*COMMON, "projection", "dense", "multihead", "graph", "cache", "backward"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def wrong_includes(project):
    """What each file of engine/ includes from a room that its own may not know."""
    engine = project / "engine"
    for file in sorted(engine.rglob("*.?pp")):
        room = file.relative_to(engine).parts[0]
        name = file.relative_to(project)
        if room not in ROOMS:
            yield f"{name}: the room {room} is not in the table of {pathlib.Path(__file__).name}"
            continue
        for included in INCLUDE.findall(file.read_text()):
            parts = included.split("/")
            if included == "api/heed.h" and room != "kernels":
                continue
            if included == "api/heed_mpi.h" and room == "mpi":
                continue
            if parts[0] != "engine" or len(parts) < 3:
                yield f'{name} includes "{included}"; give its path from the project\'s root'
            elif parts[1] != room and parts[1] not in ROOMS[room]:
                allowed = ", ".join(ROOMS[room]) or "no other room"
                yield f'{name} includes "{included}"; {room} may include {allowed}'


def self_test():
    """Finds an include that goes the wrong way, and nothing in one that goes the right way."""
    with tempfile.TemporaryDirectory() as directory:
        project = pathlib.Path(directory)
        for room, included in {"tensor": "engine/dense/plan.hpp", "dense": "engine/tensor/rows.hpp",
                               "kernels": "api/heed.h", "attic": "engine/attic/old.hpp"}.items():
            (project / "engine" / room).mkdir(parents=True)
            (project / "engine" / room / "a.hpp").write_text(f'#include "{included}"\n')
        found = list(wrong_includes(project))
    starts = ("engine/attic/a.hpp: the room attic", 'engine/kernels/a.hpp includes "api/heed.h"',
              'engine/tensor/a.hpp includes "engine/dense/plan.hpp"')
    if len(found) != len(starts) or not all(map(str.startswith, found, starts)):
        sys.exit("found " + "; ".join(found or ["nothing"]))


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] == "self-test":
        return self_test()
    found = list(wrong_includes(pathlib.Path(sys.argv[1])))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
