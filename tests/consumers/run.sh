#!/bin/sh
# run.sh KIND: builds and runs program/ as a user of heed would. KIND is
#
#   shared          an installed libheed.so, whole and by component, found by find_package and by
#                   pkg-config, from C and from C++
#   static          an installed libheed.a, likewise
#   subdirectory    heed's sources inside another project, shared
#   subdirectory-static
#   alone           heed's own defaults; tests and perf without what they need; and no xsimd
#
# CMake passes in, by environment: HEED_SOURCE and HEED_BUILD (folders), CMAKE, GENERATOR,
# CC, CXX, PKG_CONFIG (empty where there is none), MPICC (empty where heed has no MPI), CMAKE_FLAGS (further cache settings, separated by
# newlines).
set -eu

kind=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
consumer=$(cd -- "$(dirname -- "$0")" && pwd)/program

fail() {
  echo "run.sh: $*" >&2
  exit 1
}

# run COMMAND...: silent unless it fails.
run() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    fail "failed: $*"
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
  run "$CMAKE" -S "$source" -B "$build" -G "$GENERATOR" -DCMAKE_C_COMPILER="$CC" "$@"
}

# try NAME LINKED PROGRAM: the program runs, and was told that heed is LINKED, shared or static.
try() {
  run "$3"
  grep -q ", $2: " "$work/log" || fail "$1: expected a program of a $2 heed: $(cat "$work/log")"
  echo "$1: $(cat "$work/log")"
}

# consume LANGUAGE LINKED [SETTING...]: through CMake. A project in C has no C++ compiler to offer.
consume() {
  build=$work/consumer-$1
  language=$1
  linked=$2
  shift 2
  configure "$consumer" "$build" -DCONSUMER_LANGUAGE="$language" "$@"
  run "$CMAKE" --build "$build"
  try "CMake, $language" "$linked" "$build/program"
}

# consume_flags LINKED PACKAGE SOURCE COMPILER...: through what pkg-config says.
consume_flags() {
  linked=$1
  package=$2
  source=$3
  shift 3
  static=
  if [ "$linked" = static ]; then static=--static; fi
  PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name heed.pc)")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046,SC2086  # flags are words
  run "$@" "$consumer/$source" -o "$work/program" \
    $("$PKG_CONFIG" $static --cflags "$package") -x none $("$PKG_CONFIG" $static --libs "$package") \
    -Wl,-rpath,"$("$PKG_CONFIG" --variable=libdir heed)"
  try "pkg-config, $*" "$linked" "$work/program"
}

# consume_everyhow LINKED: from C and C++, through CMake and pkg-config, and over MPI.
consume_everyhow() {
  consume C "$1" -DCMAKE_PREFIX_PATH="$work/prefix"
  consume CXX "$1" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$CXX"
  if [ -n "$MPICC" ]; then
    consume C "$1" -DCMAKE_PREFIX_PATH="$work/prefix" -DCONSUMER_MPI=ON
  fi
  if [ -z "$PKG_CONFIG" ]; then
    echo "no pkg-config, so heed.pc is not tried"
    return
  fi
  consume_flags "$1" heed program.c "$CC" -x c
  consume_flags "$1" heed program.c "$CXX" -x c++
  if [ -n "$MPICC" ]; then consume_flags "$1" heed-mpi ranks.c "$MPICC" -x c; fi
}

# expect_component NAME BUILD FILE...: what the component consists of, without folders and versions.
expect_component() {
  component=$1
  build=$2
  shift 2
  run "$CMAKE" --install "$build" --strip --component "$component" --prefix "$work/$component"
  found=$(find "$work/$component" ! -type d | sed 's,.*/,,; s,Targets-.*,Targets-TYPE.cmake,;
    s,\.so\.[0-9.]*$,.so.VERSION,' | LC_ALL=C sort -u | tr '\n' ' ')
  [ "$found" = "$* " ] || fail "$component consists of \"$found\", not \"$* \""
}

config="heedConfig.cmake heedConfigVersion.cmake heedTargets-TYPE.cmake heedTargets.cmake"

case $kind in
  shared)
    expect_component runtime "$HEED_BUILD" LICENSE libheed.so.VERSION
    # shellcheck disable=SC2086  # one name per word
    expect_component development "$HEED_BUILD" heed.h heed.pc $config libheed.so
    if [ -n "$MPICC" ]; then
      expect_component mpi "$HEED_BUILD" libheed_mpi.so.VERSION
      expect_component mpi-development "$HEED_BUILD" heed-mpi.pc heedMpiTargets-TYPE.cmake \
        heedMpiTargets.cmake heed_mpi.h libheed_mpi.so
    fi
    run "$CMAKE" --install "$HEED_BUILD" --prefix "$work/prefix"
    consume_everyhow shared
    ;;
  static)
    # A release would optimise, whatever its flags say: heed adds its own.
    configure "$HEED_SOURCE" "$work/heed" -DCMAKE_CXX_COMPILER="$CXX" -DBUILD_SHARED_LIBS=OFF \
      -DCMAKE_BUILD_TYPE=Debug -DHEED_BUILD_EXAMPLES=OFF
    run "$CMAKE" --build "$work/heed"
    # shellcheck disable=SC2086
    expect_component development "$work/heed" LICENSE heed.h heed.pc $config libheed.a
    run "$CMAKE" --install "$work/heed" --prefix "$work/prefix"
    consume_everyhow static
    ;;
  # No build type and, for a static one, no BUILD_SHARED_LIBS: heed must not choose for its parent.
  subdirectory)
    consume CXX shared -DCMAKE_CXX_COMPILER="$CXX" -DCONSUMER_SOURCE_DIR="$HEED_SOURCE" \
      -DBUILD_SHARED_LIBS=ON
    ;;
  subdirectory-static)
    consume C static -DCMAKE_CXX_COMPILER="$CXX" -DCONSUMER_SOURCE_DIR="$HEED_SOURCE"
    ;;
  # As README builds the library: of tests and perf nothing, whatever is there to build them with.
  alone)
    configure "$HEED_SOURCE" "$work/heed" -DCMAKE_CXX_COMPILER="$CXX"
    for room in tests perf; do
      [ ! -e "$work/heed/$room" ] || fail "builds $room without being asked"
    done
    for part in TESTS:Catch2 PERF:benchmark; do
      ! (configure "$HEED_SOURCE" "$work/heed" -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_${part%:*}=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_${part#*:}=ON) 2>"$work/refusal" ||
        fail "HEED_BUILD_${part%:*}=ON is ignored where it lacks something"
      grep -q "HEED_BUILD_${part%:*} is ON but ${part#*:}" "$work/refusal" || fail "$(cat "$work/refusal")"
    done
    # The last setting of a name counts. One that was fetched before stands for one that is fetched.
    xsimd=$(printf '%s\n' "$CMAKE_FLAGS" | sed -n 's/^-DHEED_XSIMD_INCLUDE_DIR=//p')
    mkdir -p "$work/xsimd/include"
    ln -s "$xsimd/xsimd" "$work/xsimd/include/xsimd"
    set -- -DCMAKE_CXX_COMPILER="$CXX" -DHEED_XSIMD_INCLUDE_DIR=HEED_XSIMD_INCLUDE_DIR-NOTFOUND \
      -DCMAKE_IGNORE_PATH="$xsimd" -DFETCHCONTENT_SOURCE_DIR_XSIMD="$work/xsimd" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    ! (configure "$HEED_SOURCE" "$work/no-xsimd" "$@") 2>"$work/refusal" || fail "builds without xsimd"
    grep -q "install libxsimd-dev" "$work/refusal" || fail "$(cat "$work/refusal")"
    configure "$HEED_SOURCE" "$work/fetched" "$@" -DHEED_FETCH_XSIMD=ON
    run grep -q "$work/xsimd/include" "$work/fetched/compile_commands.json"
    ;;
  *)
    echo "run.sh: KIND is \"$kind\"; see the head of this file" >&2
    exit 2
    ;;
esac
