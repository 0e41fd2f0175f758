#!/usr/bin/env python3
"""Reads the symbols of libheed and of the objects that are compiled for one CPU each.

    check.py library LIBHEED_SO [--header NAME] [--limit BYTES] [--zig] [--mach-o]
    check.py kernels OBJECT...
    check.py abi C_COMPILER [--write FILE]        does heed.h keep what programs were compiled with?
    check.py self-test COMPILER [ARGUMENT...]     does it notice objects that break the rules?

A kernel object is compiled with flags of its own (cmake/kernels.cmake). An inline function in
it is a weak symbol, of which the linker keeps one copy for the whole library: it may keep the
copy made for AVX-512, and the library then dies on an older CPU. A static constructor runs
before anybody has asked what the CPU is. Hence the rules here: tables go out, nothing else.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

NM = os.environ.get("NM", "nm")
READELF = os.environ.get("READELF", "readelf")
STRIP = os.environ.get("STRIP", "strip")

# What a kernel object may need from outside: what compilers emit calls to by themselves, and
# what lives in libc, compiled for every CPU.
UNDEFINED_ALLOWED = re.compile(
    r"^(memcpy|memset|memmove|__stack_chk_fail|__stack_chk_guard|_GLOBAL_OFFSET_TABLE_)$")

# Weak symbols that are harmless: xsimd keeps pointers to wrappers of the NEON intrinsics, so that
# objects for neon hold copies of them; NEON is part of every aarch64 CPU, so that they run wherever
# any other copy does.
WEAK_ON_NEON = re.compile(r"^xsimd::kernel::wrap::")


# zig puts its C++ library into a library, and its linker exports that one's operators and symbols of its
# own, whatever it is told. That of macOS leaves the C++ library where it is.
OF_ZIG = re.compile(r"^(operator (new|delete)\b|__dso_handle$|_mh_dylib_header$)")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(path, *flags):
    """(letter, name) of each symbol, names demangled."""
    for line in output_of(NM, "-C", *flags, path).splitlines():
        match = re.match(r"^[0-9a-fA-F]*\s+([A-Za-z?-])\s+(.*)$", line)
        if match:
            yield match.group(1), match.group(2)


# Objects that are no family of a vector instruction set: the tables of scalar, and products of those
# that add a unit to another.
OTHERS = {
    "scalar": [f"kScalar{family}{type}" for family in ("Panels", "Rows", "Numbers")
               for type in ("F32", "F64")],
    "avx512bf16": ["kAvx512Bf16Pairs", "kAvx512Bf16RowPairs"],
    "amx": ["kAmxPairs", "kAmxTwoParts", "kAmxExactOnePart"],
    "neonbf16": ["kNeonBf16Pairs"],
}


def tables_of(path):
    """The tables that an object must have, by where CMake puts it (heed_add_families)."""
    name = os.path.basename(path).split(".")[0]
    family = re.search(r"kernels_(\w+)_(\w+)\.dir/", path)
    if family is None:
        return {"heed::" + table for table in OTHERS[name]}
    isa, type = family.groups()
    return {"heed::k" + isa.capitalize() + table.capitalize() + type.upper()
            for table in (["rows", "nodes"] if name == "rows" else [name])}


def kernel_faults(path):
    missing = tables_of(path)
    faults = []
    for letter, name in symbols(path):
        if letter in "WwVvu":
            if "_neon_" not in path or not WEAK_ON_NEON.match(name):
                faults.append(f"weak symbol ({letter}): {name}")
        elif letter == "U":
            if not UNDEFINED_ALLOWED.match(name):
                faults.append(f"needs from outside: {name}")
        elif letter == "C" or letter.isupper():
            if name in missing:
                missing.remove(name)
            else:
                faults.append(f"global symbol ({letter}): {name}")
        if "_GLOBAL__sub_I_" in name or name.startswith("__static_init"):
            faults.append(f"static constructor: {name}")
        if "guard variable for" in name:
            faults.append(f"static made on first use: {name}")
    faults += [f"has no table {table}" for table in missing]
    sections = output_of(READELF, "-SW", path)
    for section in sorted(set(re.findall(r"\.(?:init_array|ctors|preinit_array)\S*", sections))):
        faults.append(f"static constructor: section {section}")
    return faults


def check_kernels(paths):
    faults = [f"{path}: {fault}" for path in paths for fault in kernel_faults(path)]
    if not any(path.endswith("/scalar.cpp.o") for path in paths):
        faults.append("no scalar kernels among: " + " ".join(paths))
    return faults


def library_faults(path, header, limit, zig, mach_o):
    faults = []
    if mach_o:
        names = [name.removeprefix("_") for _, name in symbols(path, "--extern-only", "--defined-only")]
    else:
        names = [name for _, name in symbols(path, "-D", "--defined-only")]
    if zig:
        names = [name for name in names if not OF_ZIG.match(name)]
    for name in names:
        if not name.split("@")[0].startswith("heed_"):
            faults.append(f"{path}: exports {name}")
    for name in declared(header):
        if name not in names:
            faults.append(f"{path}: does not export {name}, which {header} declares")
    size = os.path.getsize(path) if mach_o else stripped_size(path)
    if size >= limit:
        faults.append(f"{path}: {size} bytes stripped; it must be less than {limit}")
    else:
        print(f"{len(names)} symbols, {size} bytes" + ("" if mach_o else " stripped"))
    return faults


def declared(header):
    """The functions of a header of api/."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../api", header)
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^HEED_API [^;(]*?\b(heed_\w+)\(", file.read(), re.MULTILINE)


# ---- The binary interface -----------------------------------------------------------------------

# That of the last release, or of 0.1.0 before it is out: `check.py abi cc --write tests/symbols/heed.abi`
# where a release may change it (a new minor version before 1.0, a new major version later).
ABI = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heed.abi")

# The header says that structs grow at their ends, and libheed has another name per minor version.
MAY_GROW = """
[suppress_type]
  type_kind = struct
  has_data_member_inserted_at = end
"""


def header_text():
    path = os.path.join(os.path.dirname(ABI), "../../api/heed.h")
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_abi(compiler, header, path):
    """Writes the types and functions of the header. A library with each function and nothing in it
    has them all, and nothing of the engine's own types."""
    functions = re.findall(r"^HEED_API ([^;]+);", header, re.MULTILINE)
    assert len(functions) > 50
    text = header + "\n".join(f"{function} {{ __builtin_trap(); }}" for function in functions)
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "heed.c"), os.path.join(folder, "libheed.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([*compiler, "-std=c11", "-g", "-O0", "-w", "-fPIC", "-shared", "-nostdlib",
                        f"-fdebug-prefix-map={folder}=.", source, "-o", library], check=True)
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                        "--no-elf-needed", "--out-file", path, library], check=True)


def abi_faults(compiler, header, released=ABI):
    with tempfile.TemporaryDirectory() as folder:
        now, grow = os.path.join(folder, "now.abi"), os.path.join(folder, "grow.suppr")
        write_abi(compiler, header, now)
        with open(grow, "w", encoding="utf-8") as file:
            file.write(MAY_GROW)
        differ = ["abidiff", "--no-added-syms", released, now]
        grown = subprocess.run([*differ, "--suppr", grow], capture_output=True, text=True)
        whole = subprocess.run([*differ, "--leaf-changes-only"], capture_output=True, text=True)
    if grown.returncode:
        return [grown.stdout + grown.stderr]
    # Members of other types in a struct that is as large as before pass as grown.
    return [whole.stdout] if re.search("data member (change|deletion)", whole.stdout) else []


# Changes of the header, and whether programs that were compiled before survive them.
HEADER_CHANGES = [
    (r"(  uint64_t tasks;)", r"  uint64_t chores;\n\1", False),
    (r"int64_t edges; ", "int32_t edges; ", False),
    (r"HEED_STATUS_BUSY = 8", "HEED_STATUS_BUSY = 18", False),
    (r"^HEED_API const char\* heed_last_error\(void\);", "", False),
    (r"heed_isa_get\(size_t index", "heed_isa_get(double index", False),
    (r"(?=^HEED_API size_t heed_isa_count)", "HEED_API int heed_new(void);\n", True),
    (r"HEED_STATUS_CORRUPT = 10", r"\g<0>, HEED_STATUS_NEW = 11", True),
    (r"(?=\} heed_attention_args;)", "  const void* new_tensor;\n", True),
]


def abi_self_test(compiler):
    """Changes that break programs are found out, and those that do not are not."""
    faults = []
    header = header_text()
    with tempfile.TemporaryDirectory() as folder:
        before = os.path.join(folder, "before.abi")
        write_abi(compiler, header, before)
        for pattern, instead, allowed in HEADER_CHANGES:
            changed = re.sub(pattern, instead, header, count=1, flags=re.MULTILINE)
            assert changed != header, pattern
            found = abi_faults(compiler, changed, before)
            if bool(found) == allowed:
                faults.append(f"{pattern} -> {instead}: {found or 'passes'}")
    return faults


def stripped_size(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped")
        shutil.copy(path, copy)
        subprocess.run([STRIP, copy], check=True)
        return os.path.getsize(copy)


# ---- The test of the test ---------------------------------------------------------------------

TABLE = "namespace heed { extern const int kAvx2PanelsF32; const int kAvx2PanelsF32 = 1; }\n"

# Sources that break a rule each, and what must be said about them.
DOCTORED = {
    "weak symbol": TABLE + "inline int shared(int x) { return x + 1; }\n"
                           "namespace { [[gnu::used]] int (*const use)(int) = shared; }\n",
    "global symbol": TABLE + "int leaked(int x) { return x; }\n",
    "static constructor": TABLE + "namespace { struct S { S(); int x; }; int f() { volatile int y = 2;"
                                  " return y; } S::S() : x(f()) {} [[gnu::used]] S s; }\n",
    "needs from outside": TABLE + "namespace { void f(); }\nextern void away();\n"
                                  "namespace { [[gnu::used]] void f() { away(); } }\n",
    "has no table": "namespace heed { extern const int kSse2PanelsF32; const int kSse2PanelsF32 = 1; }\n",
}


def compiled(compiler, folder, source):
    path = os.path.join(folder, "kernels_avx2_f32.dir", "panels.cpp")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    made = path + ".o"
    subprocess.run([*compiler, "-std=c++17", "-c", path, "-o", made], check=True)
    return made


def self_test(compiler):
    """Objects that break the rules are found out, and one that keeps them is not."""
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for expected, source in DOCTORED.items():
            found = kernel_faults(compiled(compiler, folder, source))
            if not any(expected in fault for fault in found):
                faults.append(f"a doctored object passes: {expected}; found {found}")
        found = kernel_faults(compiled(compiler, folder, TABLE))
        if found:
            faults.append(f"a good object fails: {found}")
    return faults


def main():
    parser = argparse.ArgumentParser(description="Checks the symbols of libheed.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    library = kinds.add_parser("library")
    library.add_argument("path")
    library.add_argument("--header", default="heed.h")
    library.add_argument("--zig", action="store_true", help="linked by zig")
    library.add_argument("--mach-o", action="store_true", help="of macOS, as large as it is")
    # With room for compilers: that of g++ 14 is 40 KB larger than that of g++ 12.
    library.add_argument("--limit", type=int, default=2_450_000)
    kernels = kinds.add_parser("kernels")
    kernels.add_argument("paths", nargs="+")
    abi = kinds.add_parser("abi")
    abi.add_argument("compiler", nargs="+")
    abi.add_argument("--write", metavar="FILE")
    test = kinds.add_parser("self-test")
    test.add_argument("compiler", nargs="+")
    arguments = parser.parse_args()
    if arguments.kind == "library":
        faults = library_faults(arguments.path, arguments.header, arguments.limit, arguments.zig,
                                arguments.mach_o)
    elif arguments.kind == "kernels":
        faults = check_kernels(arguments.paths)
    elif arguments.kind == "abi" and arguments.write:
        write_abi(arguments.compiler, header_text(), arguments.write)
        faults = []
    elif arguments.kind == "abi":
        faults = abi_faults(arguments.compiler, header_text()) + abi_self_test(arguments.compiler)
    else:
        faults = self_test(arguments.compiler)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
