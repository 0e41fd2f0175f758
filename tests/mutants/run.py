#!/usr/bin/env python3
"""Breaks the engine in one place after the other and sees whether a test notices.

    ./dev mutants [NAME ...]     all mutants, or those named: gradient-of-cap, 'gradient-*'
    ./dev mutants --list         what they break, and where
    ./dev mutants --changed COMMIT
                                 those of files that differ from that commit's

table.py says what is broken and which test programs should fail. Everything happens on a copy of
the sources in build/mutants; those here are not touched. A mutant's programs run on small sweeps
first (HEED_TEST_SIZE), and on full ones if it survives. ccache, where it is installed, makes what
is restored cheap.

Ends with 0 if all are killed, with 1 if one survives, with 2 if something else is wrong.
"""
import argparse
import fnmatch
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from table import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutants"
SOURCES = COPY / "sources"
TREE = COPY / "tree"
LOG = COPY / "log"
LONGEST = 900  # seconds of a program on full sweeps: what takes longer goes round in circles
PATIENCE = 10  # times what a program takes on small sweeps without a mutant
MOST_MEMORY = 8 << 30
UNCOMPILED = []  # mutants that say nothing


class Failure(Exception):
    """Why mutants say nothing about the tests."""


# ---- Sources ------------------------------------------------------------------------------------


def engine_sources(root):
    return [path for room in ("engine", "api") for path in sorted((root / room).rglob("*"))
            if path.suffix in (".cpp", ".hpp")]


def places(mutants, root):
    """{mutant: (file, begin, end)}; every fragment must be there once."""
    texts = {path: path.read_text() for path in engine_sources(root)}
    found, wrong = {}, []
    for mutant in mutants:
        pattern = re.compile(r"\s+".join(map(re.escape, mutant.fragment.split())))
        hits = [(path, *match.span()) for path, text in texts.items()
                for match in pattern.finditer(text)]
        if len(hits) == 1:
            found[mutant] = hits[0]
            continue
        where = ", ".join(f"{path.relative_to(root)}" for path, *_ in hits) or "nowhere"
        wrong.append(f'  {mutant.name}: "{mutant.fragment}" is in {where}')
    if wrong:
        raise Failure("each fragment of tests/mutants/table.py must be in the sources once:\n" +
                      "\n".join(wrong))
    return found


def copy_sources():
    """Brings the copy up to date, and touches only what differs."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, check=True)
    names = {name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()}
    for name in names:
        original, copy = ROOT / name, SOURCES / name
        if copy.is_file() and copy.read_bytes() == original.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, copy)
        copy.chmod(original.stat().st_mode)
    for copy in [path for path in SOURCES.rglob("*") if path.is_file()]:
        if str(copy.relative_to(SOURCES)) not in names:
            copy.unlink()


# ---- Programs -----------------------------------------------------------------------------------


def isas():
    """The instruction sets whose kernels are built beside the scalar ones: one for vectors, and
    where the CPU has it that of pairs too, whose kernels take most of the time."""
    try:
        cpu = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return [""]
    vectors = next((isa for flag, isa in ((" avx2", "avx2"), (" sse2", "sse2"), (" asimd", "neon"))
                    if flag in cpu), "")
    return [vectors, f"{vectors};avx512bf16"] if " avx512_bf16" in cpu else [vectors]


def build(programs):
    """Whether the programs can be built."""
    jobs = ["--parallel", os.environ["HEED_JOBS"]] if "HEED_JOBS" in os.environ else []
    command = ["cmake", "--build", TREE, "--target", *programs, *jobs]
    with open(LOG, "ab") as log:
        return subprocess.run(command, stdout=log, stderr=log).returncode == 0


def configure(wanted):
    """Turns to the tree of these instruction sets."""
    global TREE
    TREE = COPY / f"tree-{wanted.replace(';', '-')}"
    if (TREE / "build.ninja").exists():
        return
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DHEED_ISAS={wanted}", "-DHEED_CBLAS=OFF",
               "-DHEED_BUILD_PERF=OFF", "-DHEED_BUILD_EXAMPLES=OFF", "-DHEED_BUILD_TESTS=ON"]
    with open(LOG, "ab") as log:
        command = ["cmake", "-S", SOURCES, "-B", TREE, "-G", "Ninja", *options]
        if subprocess.run(command, stdout=log, stderr=log).returncode != 0:
            raise Failure(f"cmake failed; {LOG} says why")


def program_paths():
    return {path.name: path for path in TREE.rglob("test_*")
            if path.is_file() and os.access(path, os.X_OK) and not path.suffix}


def limit():
    """Mutants may write where they should not and want memory without end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def fails(program, size, longest=LONGEST):
    """How a program fails, or None if it does not."""
    environment = dict(os.environ, HEED_TEST_SIZE=size)
    try:
        done = subprocess.run([program_paths()[program], "--abort"], env=environment,
                              preexec_fn=limit, capture_output=True, timeout=longest)
    except subprocess.TimeoutExpired:
        return "never ends"
    with open(LOG, "ab") as log:
        log.write(done.stdout[-4000:] + done.stderr[-4000:])
    if done.returncode < 0:
        return f"died of signal {-done.returncode}"
    if done.returncode == 0:
        return None
    case = re.search(rb"^-{79}\n(.+)$", done.stdout, re.MULTILINE)
    return f'"{case.group(1).decode()}"' if case else f"ended with {done.returncode}"


def killer(programs, seconds):
    """The program that notices, and how; None if none does."""
    for program in programs:
        how = fails(program, "small", 30 + PATIENCE * seconds[program])
        if how is not None:
            return f"{program}: {how}"
    for program in programs:
        how = fails(program, "")
        if how is not None:
            return f"{program} (full sweeps): {how}"
    return None


# ---- Mutants ------------------------------------------------------------------------------------


def try_mutant(mutant, place, seconds):
    """Whether it is killed, and what there is to say about that."""
    path, begin, end = place
    original = path.read_text()
    path.write_text(original[:begin] + mutant.instead + original[end:])
    try:
        if not build(mutant.programs):
            UNCOMPILED.append(mutant)
            return True, f"by the compiler, which should not be; {LOG} says why"
        how = killer(mutant.programs, seconds)
    finally:
        path.write_text(original)
    return how is not None, how or f"not by {', '.join(mutant.programs)}"


def try_all(mutants, wanted, found, numbers):
    """Those that survive with kernels of these instruction sets."""
    if not mutants:
        return []
    configure(wanted)
    healthy = check_healthy(sorted({program for mutant in mutants for program in mutant.programs}))
    survivors = []
    for mutant in mutants:
        begin = time.monotonic()
        killed, how = try_mutant(mutant, found[mutant], healthy)
        seconds = time.monotonic() - begin
        if not killed:
            survivors.append(mutant)
        print(f"{numbers[mutant]:3} of {len(numbers)}  {'killed  ' if killed else 'SURVIVES'} "
              f"{mutant.name:20} {seconds:4.0f} s  {how}", flush=True)
    return survivors


def check_healthy(programs):
    """How long each program takes without a mutant. All must pass, or nothing is said about the
    mutants."""
    print(f"building {' '.join(programs)} without a mutant", flush=True)
    if not build(programs):
        raise Failure(f"the copy in {SOURCES} does not build; {LOG} says why")
    seconds = {}
    for program in programs:
        begin = time.monotonic()
        how = fails(program, "small")
        if how is not None:
            raise Failure(f"without a mutant {program} fails: {how}")
        seconds[program] = time.monotonic() - begin
    return seconds


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help="a mutant, or several by a pattern; all if absent")
    parser.add_argument("--list", action="store_true", help="say what mutants break, and where")
    parser.add_argument("--changed", metavar="COMMIT", help="only mutants of files that differ from that commit's")
    options = parser.parse_args(arguments)
    chosen = []
    for name in options.names:
        found = [mutant for mutant in MUTANTS if fnmatch.fnmatchcase(mutant.name, name)]
        if not found:
            raise Failure(f'there is no mutant "{name}"; --list names them')
        chosen += [mutant for mutant in found if mutant not in chosen]
    return options, chosen or MUTANTS


def of_changed(mutants, commit):
    listed = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", "-z", commit],
                            capture_output=True, check=True)
    changed = {ROOT / name for name in listed.stdout.decode().split("\0") if name}
    return [mutant for mutant, (path, *_) in places(mutants, ROOT).items() if path in changed]


def tell_all(mutants):
    for mutant, (path, begin, _) in places(mutants, ROOT).items():
        line = path.read_text().count("\n", 0, begin) + 1
        print(f"{mutant.name:22} {mutant.breaks}\n{'':22} {path.relative_to(ROOT)}:{line}")


def main(arguments):
    options, mutants = parse(arguments)
    if options.changed:
        mutants = of_changed(mutants, options.changed)
    if options.list:
        return tell_all(mutants)
    places(mutants, ROOT)  # before anything takes long
    COPY.mkdir(parents=True, exist_ok=True)
    LOG.write_bytes(b"")
    copy_sources()
    found = places(mutants, SOURCES)
    numbers = {mutant: number for number, mutant in enumerate(mutants, 1)}
    vectors, *pairs = isas()
    # Kernels of pairs are tried where there are some, and so is what survives without them.
    of_pairs = [mutant for mutant in mutants if pairs and "pairs" in found[mutant][0].name]
    survivors = try_all([mutant for mutant in mutants if mutant not in of_pairs], vectors, found, numbers)
    if pairs:
        survivors = try_all(of_pairs + survivors, pairs[0], found, numbers)
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants killed")
    for mutant in survivors:
        print(f"  {mutant.name} survives: {mutant.breaks}")
    for mutant in UNCOMPILED:
        print(f"  {mutant.name} does not compile")
    return 2 if UNCOMPILED else 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(f"mutants: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
