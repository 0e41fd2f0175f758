#!/usr/bin/env bash
# usage: compilers.sh BUILD CLANG
#
# Reads the sources with compilers and versions of xsimd that this system does not have: the g++ and
# xsimd of Debian 13, and the newest xsimd with the newest clang; and with the g++ for Windows that it
# has. Nothing is generated; the packages are unpacked in BUILD (packages.sh). Kernels are read for one
# instruction set, the Python module as BUILD/release is configured for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -eq 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "tests/systems/compilers.sh" >&2; exit 2; }
build=$(realpath "$1") clang=$2
newer=$build/debian-13 newest=$build/debian-sid

tests/systems/packages.sh --suite trixie "$newer" g++ libxsimd-dev
tests/systems/packages.sh --suite sid --alone "$newest" libxsimd-dev

# That g++ needs a newer C library than this system's: each of its programs is started by its own
# dynamic linker.
machine=$(g++ -print-multiarch)
version=$(basename "$(echo "$newer/usr/libexec/gcc/$machine"/[0-9]*)")
start=$newer/usr/lib/$machine
start=("$start"/ld-linux-*.so.* --library-path "$start")
mkdir -p "$newer/started"
printf '#!/bin/sh\nexec %s "$@"\n' "${start[*]} $newer/usr/libexec/gcc/$machine/$version/cc1plus" \
  >"$newer/started/cc1plus"
chmod +x "$newer/started/cc1plus"
export GCC_EXEC_PREFIX=$newer/usr/lib/gcc/
gcc=("${start[@]}" "$newer/usr/bin/$machine-g++-$version" "--sysroot=$newer" -B "$newer/started")

flags=(-fsyntax-only -fvisibility=hidden -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror -I. -DHEED_BUILDING)
vectors=(-O2 -DNDEBUG -ffp-contract=off -fno-exceptions -fno-rtti)
case $machine in
  x86_64*) vectors+=(-mavx2 -mfma -mf16c -DHEED_KERNEL_ISA=Avx2) ;;
  *) vectors+=(-DHEED_KERNEL_ISA=Neon) ;;
esac
vectors+=(-DHEED_KERNEL_TYPE=F32)
families=(engine/kernels/{numbers,panels,rows}.cpp)

# Where the Python module's headers are, and Python's, and MPI's.
mapfile -t include < <(python3 - "$build/release/compile_commands.json" <<'END'
import json
import re
import sys

commands = [entry["command"] for entry in json.load(open(sys.argv[1]))
            if "/api/python/module/" in entry["file"]]
flags = [re.findall(r"-I\S+|-isystem \S+|-D\S+", command) for command in commands]
print(*dict.fromkeys(sum(flags, [])), sep="\n")
END
)
mapfile -t include < <(printf '%s\n' "${include[@]}" | tr ' ' '\n')

failed=0
# read_all NAME COMMAND ... -- FILE ...: as many at once as there are processors.
read_all() {
  local name=$1 command=()
  shift
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  shift
  if printf '%s\0' "$@" | xargs -0 -n 1 -P "${HEED_JOBS:-$(nproc)}" "${command[@]}" "${flags[@]}"; then
    echo "ok    $name"
  else
    echo "FAIL  $name"
    failed=1
  fi
}

# All but what needs other packages.
mapfile -t engine < <(git ls-files 'api/*.cpp' 'engine/*.cpp' |
  grep -Ev '^(engine/(kernels|mpi)/|api/(python|heed_mpi|examples))|/(tbb|cblas)\.cpp$')
read_all "g++ $version: the engine" "${gcc[@]}" -fopenmp -- "${engine[@]}"
read_all "g++ $version, xsimd of Debian 13: kernels" "${gcc[@]}" "${vectors[@]}" -- \
  engine/kernels/scalar.cpp "${families[@]}"
read_all "$clang, newest xsimd: kernels" "$clang" "${vectors[@]}" -isystem "$newest/usr/include" -- \
  "${families[@]}"
mapfile -t on_windows < <(printf '%s\n' "${engine[@]}" | grep -v /openmp.cpp)
read_all "g++ for Windows: the engine" env -u GCC_EXEC_PREFIX x86_64-w64-mingw32-g++-posix \
  -Wno-format -Wno-format-extra-args -idirafter /usr/include -- "${on_windows[@]}"
read_all "g++ $version: the Python module" "${gcc[@]}" "${include[@]}" -- api/python/module/*.cpp
read_all "$clang: the Python module" "$clang" "${include[@]}" -- api/python/module/*.cpp
exit "$failed"
