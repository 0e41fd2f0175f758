#!/usr/bin/env bash
# usage: bochs3.sh DIRECTORY
#
# Puts bochs 3.0, Debian 13's, into DIRECTORY on systems whose own is older (Debian 12 has 2.7, which
# ends at AVX-512 VNNI), and changes nothing else: packages are downloaded by apt, with its own mirror
# and key, unpacked with the libraries that they want, and started by their own dynamic linker. 160
# packages, 55 MB; what is there already is kept. Prints what run.sh wants to know, which is nothing
# where the system's own bochs will do:
#
#   eval "$(tests/emulation/bochs3.sh build/bochs3)"
#   tests/emulation/run.sh --image IMAGE --model sapphire_rapids PROGRAM
set -euo pipefail

die() {
  echo "bochs3.sh: $*" >&2
  exit 1
}

if [ $# -ne 1 ]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
if bochs --help cpu 2>&1 | grep -q sapphire_rapids; then exit 0; fi
mkdir -p "$1"
top=$(cd "$1" && pwd)
libraries=$top/root/usr/lib/x86_64-linux-gnu
share=$top/root/usr/share/bochs

# The first Debian mirror of apt's configuration, in either of its formats.
mirror() {
  local found
  found=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
  [ -n "$found" ] ||
    found=$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' /etc/apt/sources.list 2>/dev/null |
      head -n 1)
  [ -n "$found" ] || die "found no Debian mirror in apt's configuration"
  echo "$found"
}

download() {
  local at
  at=$(mirror)
  mkdir -p "$top"/{parts,lists/partial,cache/archives/partial,root}
  printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' "$at" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$top/parts/trixie.sources"
  local apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$top/parts"
    -o "Dir::State::Lists=$top/lists" -o "Dir::Cache=$top/cache" -o Dir::State::status=/dev/null)
  "${apt[@]}" update >&2
  "${apt[@]}" install -y --no-install-recommends --download-only \
    bochs bochs-term bochsbios vgabios >&2
  local package
  for package in "$top"/cache/archives/*.deb; do dpkg -x "$package" "$top/root"; done
  rm -rf "$top/cache" "$top/lists"
}

if [ ! -x "$top/bochs" ]; then
  download
  cat >"$top/bochs" <<END
#!/bin/sh
export LTDL_LIBRARY_PATH="$libraries/bochs/plugins" BXSHARE="$share"
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$top/root/usr/bin/bochs-bin" "\$@"
END
  chmod +x "$top/bochs"
fi
printf 'export BOCHS=%q BXSHARE_DIR=%q BXVGA=%q\n' "$top/bochs" "$share" "$share/VGABIOS-lgpl-latest"
