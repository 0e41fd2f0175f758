#!/usr/bin/env python3
"""Cuts a release into build/release-VERSION; `./dev release` calls it.

    release.py [--isas LIST] [--wheels FOLDER] [--tag]
    release.py --check          do all places say the version of api/heed.h?

The version is that of api/heed.h. Made are the source archive of the last commit, which is built and tried
in a folder without git; wheels, where --wheels has them; the binary interface (tests/symbols); an SBOM;
recipes of packages with version and checksum filled in; and SHA256SUMS. --tag then makes the tag of git,
if the tree is clean and CHANGELOG.md says the day. Nothing is pushed.
"""
import argparse
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "cmake/packaging"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def git(*words):
    return run("git", "-C", ROOT, *words, capture_output=True).stdout.strip()


def fail(message):
    sys.exit(f"release: {message}")


# ---- The version, and who repeats it ------------------------------------------------------------


def version():
    header = (ROOT / "api/heed.h").read_text()
    return ".".join(re.search(rf"^#define HEED_VERSION_{part} (\d+)$", header, re.MULTILINE)[1]
                    for part in ("MAJOR", "MINOR", "PATCH"))


def repeated(number):
    """Places that have to say the version: a file, and what must stand in it."""
    minor = number.rpartition(".")[0]
    return [
        ("CHANGELOG.md", rf"^## {re.escape(number)}, (unreleased|\d{{4}}-\d\d-\d\d)$"),
        (".github/CITATION.cff", rf"^version: {re.escape(number)}$"),
        ("cmake/packaging/debian/changelog", rf"\Aheed \({re.escape(number)}-1\) "),
        ("cmake/packaging/debian/control", rf"^Package: libheed{re.escape(minor)}$"),
    ]


def check_repeated(number):
    for name, pattern in repeated(number):
        if not re.search(pattern, (ROOT / name).read_text(), re.MULTILINE):
            fail(f"{name} does not say {number}, the version of api/heed.h")


def check_changelog(number):
    """The newest section is this version's, and says something; gives its day, or "unreleased"."""
    text = (ROOT / "CHANGELOG.md").read_text()
    _, first, body = re.split(r"^## (.*)$", text, maxsplit=1, flags=re.MULTILINE)
    if not first.startswith(f"{number}, "):
        fail(f"the first section of CHANGELOG.md is \"{first}\", not that of {number}")
    if not re.search(r"^- ", body.split("\n## ")[0], re.MULTILINE):
        fail(f"CHANGELOG.md has no change in {number}")
    return first.partition(", ")[2]


# ---- What is made -------------------------------------------------------------------------------


def source_archive(out, number):
    """The last commit; the same bytes for the same commit and version of git."""
    path = out / f"heed-{number}.tar.xz"
    tar = subprocess.run(["git", "-C", ROOT, "archive", "--format=tar", f"--prefix=heed-{number}/", "HEAD"],
                         check=True, capture_output=True).stdout
    path.write_bytes(lzma.compress(tar, preset=6))
    return path


def try_source(archive, number, isas):
    """Builds, installs and uses what the archive has, where no git is around. Gives the version of xsimd
    that it was built with."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as opened:
            opened.extractall(folder)
        source, build, prefix = (Path(folder) / name for name in (f"heed-{number}", "build", "prefix"))
        environment = {**os.environ, "GIT_DIR": "/nonexistent"}
        run("cmake", "-S", source, "-B", build, f"-DHEED_ISAS={isas}", "-DHEED_BUILD_EXAMPLES=OFF",
            env=environment, stdout=subprocess.DEVNULL)
        run("cmake", "--build", build, "--parallel", os.environ.get("HEED_JOBS", str(os.cpu_count())),
            env=environment, stdout=subprocess.DEVNULL)
        run("cmake", "--install", build, "--strip", "--prefix", prefix, stdout=subprocess.DEVNULL)
        [package] = prefix.glob("**/pkgconfig/heed.pc")
        flags = run("pkg-config", "--cflags", "--libs", package, capture_output=True).stdout.split()
        program = Path(folder) / "embed"
        library = package.parents[1]
        run("cc", source / "api/examples/embed.c", "-o", program, *flags, f"-Wl,-rpath,{library}")
        answer = run(program, capture_output=True).stdout.strip()
        if answer != "0.307790":
            fail(f"the program of README prints {answer}, not 0.307790")
        if not (library / f"libheed.so.{number}").exists():
            fail(f"there is no libheed.so.{number}")
        cache = (build / "CMakeCache.txt").read_text()
        folder = re.search(r"^HEED_XSIMD_INCLUDE_DIR:PATH=(.*)$", cache, re.MULTILINE)[1]
        config = (Path(folder) / "xsimd/config/xsimd_config.hpp").read_text()
        return ".".join(re.search(rf"XSIMD_VERSION_{part} (\d+)", config)[1]
                        for part in ("MAJOR", "MINOR", "PATCH"))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_recipes(out, number, archive):
    """Packages' recipes, of which some name the archive and its checksum. HEED_HOMEPAGE, HEED_URL and
    HEED_CONTACT of the environment say where the release will be, which nothing here knows."""
    values = {"VERSION": number, "SHA256": digest(archive),
              "SHA512": hashlib.sha512(archive.read_bytes()).hexdigest(),
              "HOMEPAGE": os.environ.get("HEED_HOMEPAGE", "https://heed.invalid"),
              "CONTACT": os.environ.get("HEED_CONTACT", "maintainers@heed.invalid")}
    values["URL"] = os.environ.get("HEED_URL", f"{values['HOMEPAGE']}/{archive.name}")
    for folder in sorted(path for path in RECIPES.iterdir() if path.is_dir()):
        shutil.copytree(folder, out / "recipes" / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (out / "recipes").rglob("*"):
        if path.is_file():
            path.write_text(re.sub(r"@HEED_([A-Z0-9]+)@", lambda found: values[found[1]], path.read_text()))


# ---- The bill of materials ----------------------------------------------------------------------


def sbom(number, archive, wheels, xsimd):
    """SPDX 2.3. There is no generator for what CMake finds, and it is short: the source archive has no
    code of others; a wheel has xsimd and nanobind compiled in, and robin-map, a part of nanobind."""

    def package(name, version, licence, **more):
        identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
        return {"SPDXID": identifier, "name": name, "versionInfo": version, "licenseConcluded": licence,
                "licenseDeclared": licence, "copyrightText": "NOASSERTION", "filesAnalyzed": False,
                "downloadLocation": "NOASSERTION", **more}

    def of_file(path):
        return package(path.name, number, "MIT", packageFileName=path.name, supplier="Organization: The heed authors",
                       checksums=[{"algorithm": "SHA256", "checksumValue": digest(path)}])

    source = of_file(archive)
    made = [of_file(wheel) for wheel in wheels]
    parts = {
        "xsimd": package("xsimd", xsimd, "BSD-3-Clause", downloadLocation="https://github.com/xtensor-stack/xsimd"),
        "oneTBB": package("oneTBB", "2021 or later", "Apache-2.0",
                          downloadLocation="https://github.com/uxlfoundation/oneTBB"),
        "nanobind": package("nanobind", "3.1 or later", "BSD-3-Clause",
                            downloadLocation="https://github.com/wjakob/nanobind"),
        "robin-map": package("robin-map", "NOASSERTION", "MIT", comment="as nanobind has it",
                             downloadLocation="https://github.com/Tessil/robin-map"),
    }

    def relation(kind, one, other):
        return {"spdxElementId": one["SPDXID"], "relationshipType": kind, "relatedSpdxElement": other["SPDXID"]}

    document = {"SPDXID": "SPDXRef-DOCUMENT"}
    relations = [relation("DESCRIBES", document, each) for each in [source, *made]]
    relations += [
        relation("BUILD_DEPENDENCY_OF", parts["xsimd"], source),
        relation("OPTIONAL_DEPENDENCY_OF", parts["oneTBB"], source),
        relation("OPTIONAL_DEPENDENCY_OF", parts["nanobind"], source),
        relation("CONTAINS", parts["nanobind"], parts["robin-map"]),
    ]
    for each in made:
        relations.append(relation("GENERATED_FROM", each, source))
        relations += [relation("STATIC_LINK", each, parts[name]) for name in ("xsimd", "nanobind", "robin-map")]
    commit = git("rev-parse", "HEAD")
    day = datetime.fromtimestamp(int(git("log", "-1", "--format=%ct")), timezone.utc)
    return {
        **document,
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "name": f"heed-{number}",
        "documentNamespace": f"https://spdx.org/spdxdocs/heed-{number}-{commit}",
        "creationInfo": {"created": day.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: heed-release.py"]},
        "packages": [source, *made, *parts.values()],
        "relationships": relations,
    }


# ---- All of it ----------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description="Cuts a release.")
    parser.add_argument("--isas", default="ALL", help="what is compiled to try the archive")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that were built of this commit")
    parser.add_argument("--tag", action="store_true", help="make the tag, too")
    parser.add_argument("--check", action="store_true", help="look whether all say the same version")
    arguments = parser.parse_args()

    number = version()
    check_repeated(number)
    day = check_changelog(number)
    if arguments.check:
        return
    dirty = git("status", "--porcelain")
    if arguments.tag and day == "unreleased":
        fail(f"CHANGELOG.md says that {number} is unreleased: write the day, and commit")
    if arguments.tag and dirty:
        fail("a tag needs a tree without changes:\n" + dirty)
    if dirty:
        print("release: changes that are not committed are left out", file=sys.stderr)

    out = ROOT / f"build/release-{number}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    archive = source_archive(out, number)
    print(f"{archive.name}: builds it without git", flush=True)
    xsimd = try_source(archive, number, arguments.isas)
    wheels = []
    for wheel in sorted(arguments.wheels.glob(f"heed-{number}-*.whl")) if arguments.wheels else []:
        wheels.append(Path(shutil.copy(wheel, out)))
    run(sys.executable, ROOT / "tests/symbols/check.py", "abi", "cc", "--write", out / f"heed-{number}.abi")
    bill = out / f"heed-{number}.spdx.json"
    bill.write_text(json.dumps(sbom(number, archive, wheels, xsimd), indent=1) + "\n")
    write_recipes(out, number, archive)
    files = sorted(path for path in out.iterdir() if path.is_file())
    (out / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in files))
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=out)
    for path in sorted(out.iterdir()):
        print(f"{path.relative_to(ROOT)}{'/' if path.is_dir() else f' {path.stat().st_size:,} bytes'}")
    if not wheels:
        print("no wheels among it: ./dev wheels makes them")
    if arguments.tag:
        git("tag", "-a", f"v{number}", "-m", f"heed {number}")
        print(f"made the tag v{number}; nothing was pushed")


if __name__ == "__main__":
    main()
