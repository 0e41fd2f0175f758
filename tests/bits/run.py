#!/usr/bin/env python3
"""Runs two builds of libheed on the same random problems and compares every bit that comes out.

    ./dev bits OLD [NEW]

OLD and NEW are each a libheed.so, or a commit of this repository, which is built for it; without
NEW, OLD is compared with the sources as they are here. A problem follows from its area and seed
alone. It runs on every instruction set of this CPU (HEED_TEST_ISA=avx2: on that one), with an
executor, threads and tiles that follow from the seed, too. NaN are compared as such, not by their
bits: which operand's payload survives is the compiler's choice.

Ends with 0 if all bits are the same, with 1 if not, with 2 if there is nothing to compare.
"""
import argparse
import difflib
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN_NUMBERS = 6


class Failure(Exception):
    """Why nothing can be compared."""


# ---- Libraries ----------------------------------------------------------------------------------


def run_quietly(command, log):
    """Runs a command whose output matters only if it fails."""
    with open(log, "a") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
            raise Failure(f"{command[0]} failed; {log} says why")


def git(*arguments):
    """What git says; None where it fails, or is not there."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def build(sources, tree, log):
    """The library of these sources, as users get it."""
    options = [f"-DHEED_BUILD_{part}=OFF" for part in ("TESTS", "PERF", "EXAMPLES")]
    jobs = ["--parallel", os.environ["HEED_JOBS"]] if "HEED_JOBS" in os.environ else []
    run_quietly(["cmake", "-S", sources, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 *options], log)
    run_quietly(["cmake", "--build", tree, "--target", "heed", *jobs], log)
    return tree / "libheed.so"


def library_of_commit(commit, name):
    """The library of a commit, built once and kept."""
    kept = ROOT / "build" / "bits"
    library = kept / f"{commit}.so"
    if library.exists():
        return library
    kept.mkdir(parents=True, exist_ok=True)
    print(f"building {name}, {commit[:12]}", flush=True)
    tree = kept / commit
    log = kept / f"{commit}.log"
    sources = tree / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", sources], stdin=archive.stdout)
    if archive.wait() != 0 or unpacked.returncode != 0:
        raise Failure(f"{name} cannot be unpacked into {sources}")
    partial = library.with_suffix(".new")
    partial.write_bytes(build(sources, tree / "build", log).read_bytes())
    partial.rename(library)
    return library


def library_of(name):
    """A library's path: of a file, of a commit, or of the sources here."""
    if name is None:
        print("building the sources here", flush=True)
        tree = ROOT / "build" / "bits" / "here"
        tree.mkdir(parents=True, exist_ok=True)
        return build(ROOT, tree, tree / "log").resolve()
    if os.path.isfile(name):
        return pathlib.Path(name).resolve()
    commit = git("rev-parse", "--verify", "--quiet", name + "^{commit}")
    if commit is None:
        raise Failure(f'"{name}" is neither a library nor a commit of this repository')
    return library_of_commit(commit, name)


# ---- Problems -----------------------------------------------------------------------------------


class Progress:
    """One line that is written over on a terminal, and seldom a new one elsewhere."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.told = time.monotonic()

    def tell(self, text):
        pause = 0.2 if self.terminal else 20
        if time.monotonic() - self.told < pause:
            return
        self.told = time.monotonic()
        print(f"\r{text}\033[K" if self.terminal else text, end="" if self.terminal else "\n",
              flush=True)

    def end(self, text):
        print(f"\r{text}\033[K" if self.terminal else text, flush=True)


def start(program, library, *arguments):
    return subprocess.Popen([program, library, *map(str, arguments)], stdout=subprocess.PIPE,
                            text=True)


def answer(process, library, area, seed):
    """What the library makes of the next problem: {run: hash} and the description."""
    line = process.stdout.readline()
    if not line:
        status = process.wait()
        how = f"died of signal {-status}" if status < 0 else f"ended with {status}"
        raise Failure(f"{library} {how} at {area} {seed}")
    head, _, description = line.rstrip("\n").partition(" | ")
    _, at, *runs = head.split()
    if int(at) != seed:
        raise Failure(f"{library} answered {head} instead of {area} {seed}")
    return dict(run.split("=") for run in runs), description


def compare_area(program, libraries, area, seeds, progress):
    """The problems that differ: (seed, runs, description)."""
    both = [start(program, library, area, seeds[0], seeds[-1]) for library in libraries]
    different = []
    try:
        for seed in seeds:
            old, new = (answer(process, library, area, seed)
                        for process, library in zip(both, libraries))
            if old[0].keys() != new[0].keys():
                raise Failure(f"the libraries have other instruction sets: {' '.join(old[0])} and "
                              f"{' '.join(new[0])}; HEED_TEST_ISA chooses one")
            runs = [run for run in old[0]
                    if old[0][run] != new[0][run] and "unknown" not in (old[0][run], new[0][run])]
            if runs or old[1] != new[1]:
                different.append((seed, runs, new[1]))
            progress.tell(f"{area:8} {seed - seeds[0] + 1:6} of {len(seeds)}, "
                          f"{len(different)} different")
    finally:
        for process in both:
            process.kill()
            process.wait()
    progress.end(f"{area:8} {len(seeds):6} problems, {len(old[0]):2} runs each: " +
                 (f"{len(different)} DIFFERENT" if different else "same"))
    return different


def numbers(program, library, area, seed):
    """Every number of one problem, a line each, behind the run and output that it belongs to."""
    done = subprocess.run([program, library, area, str(seed)], stdout=subprocess.PIPE, text=True)
    run = output = ""
    lines = []
    for line in done.stdout.splitlines()[1:]:
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            run = line
        elif depth == 2:
            output = line.strip()
            if ": " in output:
                lines.append(f"{run} {output}")
        else:
            lines.append(f"{run} {output} {line.strip()}")
    return lines


def show(program, libraries, area, problem):
    """The first numbers that differ, and how to see all of them."""
    seed, runs, description = problem
    print(f"\n{area} {seed}: {description}\n  differs in {' '.join(runs) or 'its description'}")
    old, new = (numbers(program, library, area, seed) for library in libraries)
    lines = [line for line in difflib.unified_diff(old, new, n=0, lineterm="")
             if line[0] in "+-" and line[:3] not in ("---", "+++")]
    removed = [line for line in lines if line[0] == "-"][:SHOWN_NUMBERS]
    added = [line for line in lines if line[0] == "+"][:SHOWN_NUMBERS]
    for line in removed + added:
        print(f"    {line}")
    for library in libraries:
        print(f"  {program} {library} {area} {seed}")


# ---- Command line -------------------------------------------------------------------------------


def positive(text):
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no number from 1 on')
    return number


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev bits", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a libheed.so or a commit")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the same; the sources here if absent")
    parser.add_argument("--areas", metavar="A,B", help="some areas only: dense, long, merge, block, "
                        "graph, hub, refused")
    parser.add_argument("--problems", metavar="N", type=positive,
                        help="so many of each area instead of the usual number")
    parser.add_argument("--first", metavar="SEED", type=positive, default=1,
                        help="begin with this seed")
    parser.add_argument("--show", metavar="N", type=positive, default=3,
                        help="show so many problems that differ, per area")
    parser.add_argument("--program", default=ROOT / "build/release/tests/heed_bits",
                        help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def areas_of(program, wanted):
    """{area: usual number of problems}"""
    try:
        told = subprocess.run([program, "--areas"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f"{program} does not run: {error}") from error
    areas = {line.split()[0]: int(line.split()[1]) for line in told.stdout.splitlines()}
    for name in wanted.split(",") if wanted else []:
        if name not in areas:
            raise Failure(f'there is no area "{name}", only {", ".join(areas)}')
    return {name: count for name, count in areas.items()
            if not wanted or name in wanted.split(",")}


def main(arguments):
    options = parse(arguments)
    areas = areas_of(options.program, options.areas)
    libraries = [library_of(options.old), library_of(options.new)]
    print(f"old {libraries[0]}\nnew {libraries[1]}", flush=True)
    progress = Progress()
    found = 0
    problems = 0
    for area, usual in areas.items():
        count = options.problems or usual
        seeds = range(options.first, options.first + count)
        different = compare_area(options.program, libraries, area, seeds, progress)
        for problem in different[:options.show]:
            show(options.program, libraries, area, problem)
        found += len(different)
        problems += count
    print(f"{found} of {problems} problems differ" if found else f"{problems} problems, same bits")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(f"bits: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
