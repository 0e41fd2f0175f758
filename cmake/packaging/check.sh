#!/usr/bin/env bash
# usage: check.sh debian|conan ...
#
# Builds packages of the release that `./dev release` has cut, from its archive and its recipes, and tries
# them. HEED_ISAS=scalar compiles plain C++ alone. Debian's are installed in a bare Debian 12 (as root).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
releases=(build/release-*/heed-*.tar.xz)
[ ${#releases[@]} -eq 1 ] && [ -e "${releases[0]}" ] || { echo "check.sh: one build/release-... is needed, of ./dev release" >&2; exit 2; }
archive=$root/${releases[0]}
release=$(dirname "$archive")
version=${release##*-}

# silent COMMAND ...: the end of what it says, if it fails.
silent() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; return 1; }; }

try_debian() {
  local cmake_dir
  mkdir "$work/heed"
  cp "$archive" "$work/heed_$version.orig.tar.xz"
  tar -xf "$archive" -C "$work/heed" --strip-components=1
  cp -a "$release/recipes/debian" "$work/heed"
  cmake_dir=$(build/python/bin/python -m nanobind --cmake_dir)
  # -d: nanobind is no package that Debian has.
  (cd "$work/heed" && nanobind_ROOT=$cmake_dir CCACHE_DIR=${CCACHE_DIR:-$HOME/.cache/ccache} \
    silent dpkg-buildpackage -us -uc -d)
  # No bug asks for the package.
  lintian --allow-root --fail-on warning --suppress-tags initial-upload-closes-no-bugs "$work"/*.changes
  silent tests/systems/run.sh 12 true
  silent chroot build/systems/12 apt-get -q update
  # The launcher of this system's compilers is not there.
  silent env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER autopkgtest "$work"/*.deb "$work"/heed_*.dsc -- chroot "$root/build/systems/12"
  grep -E ' (PASS|FAIL|SKIP)' "$work/log"
  silent chroot build/systems/12 apt-get -qy purge libheed0.1 libheed-dev python3-heed
}

# conan of an environment of its own, and nothing of this user's.
try_conan() {
  export CONAN_HOME=$work/conan HEED_ARCHIVE=$archive HEED_XSIMD_INCLUDE_DIR=${HEED_XSIMD_INCLUDE_DIR:-/usr/include}
  local conan=build/packages-python/bin/conan shared
  silent "$conan" profile detect
  for shared in False True; do
    silent "$conan" create "$release/recipes/conan" -o "heed/*:shared=$shared" -o "heed/*:isas=${HEED_ISAS:-ALL}"
    grep -h "^heed $version" "$work/log"
  done
}

for kind in "$@"; do
  case $kind in debian | conan) ;; *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "try_$kind"
  rm -rf "$work"
done
