#!/usr/bin/env python3
"""Does what a README says, in a copy of the sources, as a reader would.

    run.py SOURCE BUILD README...     SOURCE and BUILD are folders, README a path inside SOURCE

  - Blocks of sh run, one after the other, in one shell at the root of the sources.
  - A block of text that begins with "$ COMMAND" shows what the command prints: it is run there, and its
    output compared. "..." stands for any lines; what depends on the machine is not compared.
  - Programs (c with a main, cmake, python) are built and run against the installed build, those that
    include heed_mpi.h on two ranks; python with the package of the build, in the environment that has most
    libraries, and not where a library lacks. A block of text after one shows what it prints.
  - Links, headings, tables and commands are where they belong (markdown.py).

rules.py lists the commands that do not run as they stand, and why. Status 77: what all of them need is
not there.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
import markdown
from rules import NEEDS, RULES

# Lines of reports: the label is compared, what follows depends on the machine.
MACHINES = re.compile(r"^(isa|executor|tiles|tasks|workspace|time|speed|error|max error)  *.*")

# What programs in Python may need that is not everywhere.
LIBRARIES = ("numpy", "torch", "transformers", "torch_geometric", "onnx", "numba", "mpi4py", "ml_dtypes")

# What stands before a README's lines of CMake.
PROJECT = "cmake_minimum_required(VERSION 3.25)\nproject(readme LANGUAGES C)\n"


class Session:
    """A copy of the sources, with the build that is tested as build/release and installed as $PREFIX."""

    def __init__(self, source, build, folder):
        self.root, self.build = os.path.join(folder, "heed"), os.path.abspath(build)
        shutil.copytree(source, self.root, symlinks=True, ignore=shutil.ignore_patterns(
            "build", ".git", "__pycache__"))
        os.makedirs(os.path.join(self.root, "build"))
        os.symlink(self.build, os.path.join(self.root, "build", "release"))
        python = os.path.join(os.path.dirname(self.build), "python")
        if os.path.exists(python):
            os.symlink(python, os.path.join(self.root, "build", "python"))
        self.package = os.path.join(self.build, "api", "python")
        self.python = next((path for path in (f"{python}-full/bin/python", f"{python}/bin/python")
                            if os.path.exists(path)), sys.executable)
        os.makedirs(os.path.join(folder, "bin"))
        os.symlink(shutil.which(self.cached("CMAKE_C_COMPILER")), os.path.join(folder, "bin", "cc"))
        # ./dev installs packages unless they are there: here they are.
        with open(os.path.join(folder, "bin", "dpkg-query"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho install ok installed\n")
        os.chmod(file.name, 0o755)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("HEED_") and name not in ("CFLAGS", "NO_COLOR", "DESTDIR")}
        self.prefix = os.path.join(folder, "prefix")
        self.libraries = os.path.join(self.prefix, self.cached("CMAKE_INSTALL_LIBDIR"))
        self.environment = {**kept, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "PREFIX": self.prefix,
                            "PKG_CONFIG_PATH": os.path.join(self.libraries, "pkgconfig"),
                            "HEED_WERROR": self.cached("HEED_WERROR"), "PYTHONPATH": self.package,
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1",
                            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                            "OMPI_MCA_btl": "^tcp",  # which warns where a machine has no network
                            "PATH": os.path.join(folder, "bin") + os.pathsep + kept["PATH"]}
        self.installed = False

    def install(self):
        """Once, for commands and programs in C; those in Python take the package where it was built."""
        if self.installed:
            return
        self.installed = True
        made = self.run(["cmake", "--install", self.build, "--prefix", self.prefix])
        if made.returncode != 0:
            sys.exit(f"{self.build} cannot be installed:\n{made.stdout}")

    def cached(self, name):
        with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as file:
            return re.search(rf"^{name}:\w+=(.*)$", file.read(), re.MULTILINE).group(1)

    def run(self, command, **more):
        return subprocess.run(command, cwd=self.root, env=self.environment, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more)

    def write(self, name, text):
        path = os.path.join(self.root, "build", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


# ---- Commands ---------------------------------------------------------------------------------

def is_command(block):
    return block.kind == "text" and block.text.startswith("$ ")


def commands_of(block):
    """(line, command, expected output or None) of a block; commands may be continued with a \\."""
    found, number, shown = [], block.line, block.kind == "text"
    lines = block.text.splitlines()
    while lines:
        line, start = lines.pop(0), number
        number += 1
        if shown and not line.startswith("$ "):
            found[-1][2].append(line)
            continue
        while line.endswith("\\") and lines:
            line = line[:-1] + lines.pop(0)
            number += 1
        command = line[2:] if shown else line.strip()
        if command and not command.startswith("#"):
            found.append((start, command, [] if shown else None))
    return found


def shortened(readme, command, used):
    """What runs instead of a command, or None; the rules that say so are noted in `used`."""
    for rule in RULES:
        name, pattern, replacement, _ = rule
        if name != readme or not re.search(pattern, command):
            continue
        used.add(rule)
        if replacement is None:
            return None
        command = re.sub(pattern, replacement, command)
    return command


def same_output(expected, output):
    """Whether they agree line by line; "..." stands for any lines."""
    masked = [MACHINES.sub(r"\1", line.rstrip()) for line in output]
    parts = [[]]
    for line in expected:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(MACHINES.sub(r"\1", line.rstrip()))
    at = 0
    for number, part in enumerate(parts):
        last = number + 1 == len(parts)
        starts = range(at, len(masked) - len(part) + 1) if number > 0 else [0]
        start = next((s for s in reversed(starts) if masked[s : s + len(part)] == part), None) if last \
            else next((s for s in starts if masked[s : s + len(part)] == part), None)
        if start is None:
            return False
        at = start + len(part)
    return at == len(masked)


def command_faults(session, readme, blocks):
    """Runs all of them in one shell, so that variables and folders stay as they are set."""
    used, script, shown = set(), ["set -e", "trap 'echo \"$at\" >&3' EXIT"], []
    for block in blocks:
        if block.kind != "sh" and not is_command(block):
            continue
        for line, command, expected in commands_of(block):
            runs = shortened(readme, command, used)
            if runs is None:
                continue
            script.append(f"at={shlex.quote(f'line {line}, {command}')}")
            if expected is None:
                script.append(runs)
            else:
                path = os.path.join(session.root, "build", f"output-{line}")
                shown.append((line, command, expected, path))
                script.append(f"{{ {runs}\n}} >{path}")
    script.append("at=end")
    at_path = session.write("at", "")
    with open(at_path, "w", encoding="utf-8") as at:
        os.dup2(at.fileno(), 3, inheritable=True)
        made = session.run(["bash", session.write("script", "\n".join(script) + "\n")], pass_fds=(3,))
    with open(at_path, encoding="utf-8") as at:
        reached = at.read().strip()
    if reached != "end":
        return [f"{reached}: it fails with status {made.returncode}:\n{made.stdout[-3000:]}"], used
    faults = []
    for line, command, expected, path in shown:
        with open(path, encoding="utf-8") as file:
            output = file.read().splitlines()
        if not same_output(expected, output):
            faults.append(f"line {line}, {command}: it prints\n" + "\n".join(output))
    return faults, used


# ---- Programs ---------------------------------------------------------------------------------

def c_faults(session, block, expected):
    source = session.write(f"program-{block.line}/embed.c", block.text)
    program = os.path.splitext(source)[0]
    compiler, libraries, launcher = "cc", ["-lheed", "-lm"], []
    if "heed_mpi.h" in block.text:
        if not os.path.exists(os.path.join(session.prefix, "include", "heed_mpi.h")):
            return []
        compiler, libraries = session.cached("MPI_C_COMPILER"), ["-lheed_mpi", *libraries]
        launcher = [session.cached("MPIEXEC_EXECUTABLE"), "-n", "2"]
    made = session.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        f"-I{session.prefix}/include", source, "-o", program,
                        f"-L{session.libraries}", f"-Wl,-rpath,{session.libraries}", *libraries])
    if made.returncode == 0:
        made = session.run([*launcher, program])
    if made.returncode != 0:
        return [f"line {block.line}: the program fails:\n{made.stdout}"]
    if expected is not None and not same_output(expected.splitlines(), made.stdout.splitlines()):
        return [f"line {block.line}: the program prints\n{made.stdout}"]
    return []


def cmake_faults(session, block, programs):
    """The project of a README is about its first program."""
    folder = os.path.join("build", f"project-{block.line}")
    session.write(f"project-{block.line}/CMakeLists.txt", block.text if "project(" in block.text else PROJECT + block.text)
    session.write(f"project-{block.line}/embed.c", programs[0].text)
    for command in (["cmake", "-S", folder, "-B", folder, f"-DCMAKE_PREFIX_PATH={session.prefix}"],
                    ["cmake", "--build", folder], [os.path.join(folder, "embed")]):
        made = session.run(command)
        if made.returncode != 0:
            return [f"line {block.line}: {shlex.join(command)} fails:\n{made.stdout}"]
    return []


def python_faults(session, block, expected):
    if re.search(r"\bimport heed\b|\bfrom heed\b", block.text) and not glob.glob(session.package + "/heed/_heed*.so"):
        return []
    made = session.run([session.python, session.write(f"program-{block.line}.py", block.text)])
    lacking = re.search(r"ModuleNotFoundError: (?:No module named '|.*pip install )(\w+)", made.stdout)
    if lacking and lacking.group(1) in LIBRARIES:
        print(f"line {block.line} needs {lacking.group(1)}")
        return []
    if made.returncode != 0:
        return [f"line {block.line}: it fails:\n{made.stdout}"]
    if expected is not None and not same_output(expected.splitlines(), made.stdout.splitlines()):
        return [f"line {block.line}: it prints\n{made.stdout}"]
    return []


def program_faults(session, blocks):
    programs, faults = [], []
    for block, after in zip(blocks, [*blocks[1:], None]):
        shown = after is not None and after.kind == "text" and not is_command(after)
        expected = after.text if shown else None
        if block.kind == "c" and "int main(" in block.text:
            faults += c_faults(session, block, expected)
            programs.append(block)
        elif block.kind == "cmake":
            faults += cmake_faults(session, block, programs)
        elif block.kind == "python":
            faults += python_faults(session, block, expected)
    return faults


# ---- A README ---------------------------------------------------------------------------------

def faults_of(text, readme, session):
    """Commands come before programs, which may read what they write."""
    blocks = markdown.blocks_of(text)
    faults = markdown.link_faults(text, os.path.join(session.root, os.path.dirname(readme)))
    faults += markdown.form_faults(text)
    if any(block.kind in ("sh", "c", "cmake") or is_command(block) for block in blocks):
        session.install()
    found, used = command_faults(session, readme, blocks)
    faults += found + program_faults(session, blocks)
    return faults + [f"a rule without a command: {rule[1]}" for rule in RULES
                     if rule[0] == readme and rule not in used]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, build, *readmes = sys.argv[1:]
    needed = NEEDS.get(readmes[0])
    if needed and not shutil.which(needed.replace("build/release", os.path.abspath(build))):
        print(f"{needed} is not there")
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        session = Session(source, build, folder)
        for readme in readmes:
            with open(os.path.join(source, readme), encoding="utf-8") as file:
                found = faults_of(file.read(), readme, session)
            faults += [f"{readme}: {fault}" for fault in found]
    return markdown.told(faults)


if __name__ == "__main__":
    sys.exit(main())
