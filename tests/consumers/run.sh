#!/bin/sh
# run.sh KIND: builds and runs program/ as a user of heed would. KIND is
#
#   shared          an installed libheed.so, found by find_package
#   static          an installed libheed.a, found by find_package
#   subdirectory    heed's sources inside another project, shared
#   subdirectory-static
#
# CMake passes in, by environment: HEED_SOURCE and HEED_BUILD (folders), CMAKE, GENERATOR,
# CC, CXX, CMAKE_FLAGS (further cache settings, separated by newlines).
set -eu

kind=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
consumer=$(cd -- "$(dirname -- "$0")" && pwd)/program

# run COMMAND...: silent unless it fails.
run() {
  if ! "$@" >"$work/log" 2>&1; then
    echo "run.sh: failed: $*" >&2
    cat "$work/log" >&2
    exit 1
  fi
}

# configure SOURCE BUILD [SETTING...]
configure() {
  source=$1
  build=$2
  shift 2
  old_ifs=$IFS
  IFS='
'
  # shellcheck disable=SC2086  # one argument per line
  set -- ${CMAKE_FLAGS-} "$@"
  IFS=$old_ifs
  run "$CMAKE" -S "$source" -B "$build" -G "$GENERATOR" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$CC" "$@"
}

# consume LANGUAGES [SETTING...]: builds the program and runs it; its output shows that it ran.
consume() {
  languages=$1
  shift
  configure "$consumer" "$work/consumer" -DCONSUMER_LANGUAGES="$languages" "$@"
  run "$CMAKE" --build "$work/consumer"
  run "$work/consumer/program"
  cat "$work/log"
}

# expect_package: one header is installed, and nothing of the engine.
expect_package() {
  extra=$(find "$work/prefix" -name '*.hpp' -o -path '*/include/*' ! -name heed.h)
  [ -z "$extra" ] || { echo "run.sh: installed, but not meant to be: $extra" >&2; exit 1; }
}

case $kind in
  shared)
    run "$CMAKE" --install "$HEED_BUILD" --prefix "$work/prefix"
    expect_package
    # A project without C++ must be able to link it.
    consume C -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  static)
    configure "$HEED_SOURCE" "$work/heed" -DCMAKE_CXX_COMPILER="$CXX" -DBUILD_SHARED_LIBS=OFF \
      -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_PERF=OFF -DHEED_BUILD_EXAMPLES=OFF
    run "$CMAKE" --build "$work/heed"
    run "$CMAKE" --install "$work/heed" --prefix "$work/prefix"
    expect_package
    consume 'C;CXX' -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  subdirectory)
    consume 'C;CXX' -DCMAKE_CXX_COMPILER="$CXX" -DCONSUMER_SOURCE_DIR="$HEED_SOURCE"
    ;;
  subdirectory-static)
    consume 'C;CXX' -DCMAKE_CXX_COMPILER="$CXX" -DCONSUMER_SOURCE_DIR="$HEED_SOURCE" \
      -DBUILD_SHARED_LIBS=OFF
    ;;
  *)
    echo "run.sh: KIND is \"$kind\"; see the head of this file" >&2
    exit 2
    ;;
esac
