#!/usr/bin/env python3
"""Includes between the rooms of engine/ go one way: fails on any that the table below does not name.
Words are used as engine/README.md decides. And no call in engine/kernels can find a function of
xsimd's instead of heed's.

usage: check.py DIRECTORY-OF-THE-PROJECT [XSIMD-INCLUDE-DIRECTORY]
       check.py self-test
"""
import ast
import pathlib
import re
import sys
import tempfile

COMMON = ["kernels", "runtime", "tensor", "parallel", "context"]

# Each room, or folder of one with includes of its own, and those that it may include besides itself.
ROOMS = {
    "kernels": [],
    "runtime": ["kernels"],
    "tensor": ["kernels", "runtime"],
    "parallel": ["runtime"],
    "context": ["kernels", "runtime", "tensor", "parallel"],
    "projection": COMMON,
    "dense": COMMON,
    "dense/backward": [*COMMON, "dense"],
    "multihead": [*COMMON, "projection", "dense", "dense/backward"],
    "graph": [*COMMON, "projection"],
    "cache": [*COMMON, "dense"],
    "mpi": ["kernels", "runtime", "tensor"],
    "audit": [*COMMON, "projection", "dense", "multihead", "graph", "cache", "dense/backward"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def room_of(parts):
    """The room of a file whose path from engine/ has these parts."""
    inner = "/".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def wrong_includes(project):
    """What each file of engine/ includes from a room that its own may not know."""
    engine = project / "engine"
    for file in sorted(engine.rglob("*.?pp")):
        room = room_of(file.relative_to(engine).parts)
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
            elif room_of(parts[1:]) not in [room, *ROOMS[room]]:
                allowed = ", ".join(ROOMS[room]) or "no other room"
                yield f'{name} includes "{included}"; {room} may include {allowed}'


# The table in engine/README.md of words that have another in their place.
DECIDED = "| not | but | in |\n| --- | --- | --- |\n"


def decided_words(project):
    """Of each row of the table: what finds the word, whether it is a name, its replacement, rooms."""
    table = (project / "engine" / "README.md").read_text().partition(DECIDED)[2]
    for row in table.partition("\n\n")[0].splitlines():
        words, instead, rooms = (cell.strip() for cell in row.strip("|").split("|"))
        for word in words.split(", "):
            found = re.compile(rf"\b{re.escape(word.strip('`'))}\b")
            yield found, word.startswith("`"), instead, rooms.split(", ")


def sources(project):
    """Each file whose words are decided, and its room: in the engine, or beside it."""
    engine = project / "engine"
    for file in sorted(engine.rglob("*.?pp")):
        yield file, file.relative_to(engine).parts[0]
    for room, files in {"api": "api/*.?pp", "module": "api/python/module/*.?pp",
                        "package": "api/python/heed/**/*.py"}.items():
        for file in sorted(project.glob(files)):
            yield file, room


def code_and_comments(file):
    """The lines of a file, each in two halves; lines of a docstring are comments."""
    text = file.read_text()
    documented = set()
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                documented.update(range(node.lineno, node.end_lineno + 1))
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.partition("  # " if file.suffix == ".py" else "//")
        if number in documented or (file.suffix == ".py" and line.lstrip().startswith("#")):
            code, comment = "", line
        yield number, code, comment


def wrong_words(project):
    """Uses of words that have another in their place: names in code, others in comments."""
    rules = list(decided_words(project))
    for file, room in sources(project):
        for number, code, comment in code_and_comments(file):
            for found, is_name, instead, rooms in rules:
                used = found.search(code if is_name else comment)
                if used and (room in rooms or "all" in rooms):
                    yield f'{file.relative_to(project)}:{number}: "{used[0]}"; say {instead}'


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
BRACKET = re.compile(r"namespace\s*([\w:]*)[^{;()]*\{|([a-z_]\w*)\s*\(|[(){}]")
# A name and its bracket: called where no type stands before it; V spelled out, it is heed's.
CALL = re.compile(r"(?:\breturn|[^\w>*&\s])\s*(?<![:.\w])(?<!->)([a-z_]\w*)\(")


def functions(text, namespace):
    """The names of functions that a file declares in the namespace, or in a nameless one in it."""
    inside, parentheses, names = [], 0, set()
    for match in BRACKET.finditer(COMMENT.sub("", text)):
        space, name = match.groups()
        bracket = match[0][-1]
        if name and parentheses == 0 and [i for i in inside if i != ""] == [namespace]:
            names.add(name)
        if bracket == "{":
            inside.append(space)  # None: no namespace
        elif bracket == "}" and inside:
            inside.pop()
        else:
            parentheses += {"(": 1, ")": -1}.get(bracket, 0)
    return names


def ambiguous_calls(project, xsimd):
    """Unqualified calls of what xsimd has a name for too: it is in vectors' namespace."""
    taken = set()
    for file in (xsimd / "xsimd").rglob("*.hpp"):
        taken |= functions(file.read_text(errors="replace"), "xsimd")
    kernels = sorted((project / "engine" / "kernels").glob("*.?pp"))
    texts = {file: COMMENT.sub("", file.read_text()) for file in kernels}
    own = set().union(*(functions(text, "heed") for text in texts.values()))
    for file, text in texts.items():
        for name in sorted(own & taken & set(CALL.findall(text))):
            yield f"{file.relative_to(project)} calls {name}(), a name of xsimd's too"


def self_test():
    """Finds an include that goes the wrong way, and words that have another in their place."""
    with tempfile.TemporaryDirectory() as directory:
        project = pathlib.Path(directory)
        for room, included in {"tensor": "engine/dense/plan.hpp", "dense": "engine/tensor/rows.hpp",
                               "dense/backward": "engine/dense/plan.hpp",
                               "kernels": "api/heed.h", "attic": "engine/attic/old.hpp"}.items():
            (project / "engine" / room).mkdir(parents=True)
            (project / "engine" / room / "a.hpp").write_text(f'#include "{included}"\n')
        (project / "xsimd").mkdir()
        (project / "xsimd" / "api.hpp").write_text(
            "namespace xsimd { template <class V> V fma(V x) { return x; }"
            " namespace detail { int low(int); } struct S { int high(); }; int store(int); }")
        (project / "engine/kernels/b.hpp").write_text(
            "namespace heed { namespace { int fma(int); int low(int); int high(); int store(int);"
            " int a = fma(1) + low(1) + high() + store<V>(1) + heed::store(1); } }")
        (project / "engine/README.md").write_text(
            f"{DECIDED}| but for | except | all |\n| `mend` | repair | tensor |\n\n| attic | roof | all |")
        (project / "engine/tensor/c.hpp").write_text("int mend;  // attic\nint a;  // mend\n")
        (project / "engine/dense/c.hpp").write_text("int mend;  // all but for one\n")
        (project / "api/python/module").mkdir(parents=True)
        (project / "api/python/module/c.hpp").write_text("int a;  // all but for one\n")
        (project / "api/python/heed").mkdir()
        (project / "api/python/heed/c.py").write_text('"""Words.\n\nAll but for one.\n"""\nmend = 1\n')
        found = [*wrong_includes(project), *wrong_words(project),
                 *ambiguous_calls(project, project)]
    starts = ("engine/attic/a.hpp: the room attic", 'engine/kernels/a.hpp includes "api/heed.h"',
              'engine/tensor/a.hpp includes "engine/dense/plan.hpp"',
              'engine/dense/c.hpp:1: "but for"; say except',
              'engine/tensor/c.hpp:1: "mend"; say repair',
              'api/python/module/c.hpp:1: "but for"; say except',
              'api/python/heed/c.py:3: "but for"; say except',
              "engine/kernels/b.hpp calls fma()")
    if len(found) != len(starts) or not all(map(str.startswith, found, starts)):
        sys.exit("found " + "; ".join(found or ["nothing"]))


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] == "self-test":
        return self_test()
    project, *xsimd = map(pathlib.Path, sys.argv[1:])
    found = [*wrong_includes(project), *wrong_words(project)]
    if xsimd:
        found += ambiguous_calls(project, *xsimd)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
