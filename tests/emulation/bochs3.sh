#!/usr/bin/env bash
# usage: bochs3.sh DIRECTORY
#
# Puts bochs 3.0, Debian 13's, into DIRECTORY on systems whose own is older (Debian 12 has 2.7, which
# ends at AVX-512 VNNI), and changes nothing else: packages are unpacked with the libraries that they
# want (packages.sh) and started by their own dynamic linker. 160 packages, 55 MB; what is there
# already is kept. Prints what run.sh wants to know, which is nothing where the system's own bochs will
# do:
#
#   eval "$(tests/emulation/bochs3.sh build/bochs3)"
#   tests/emulation/run.sh --image IMAGE --model sapphire_rapids PROGRAM
set -euo pipefail

if [ $# -ne 1 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
if bochs --help cpu 2>&1 | grep sapphire_rapids >/dev/null; then exit 0; fi
mkdir -p "$1"
top=$(cd "$1" && pwd)
libraries=$top/root/usr/lib/x86_64-linux-gnu
share=$top/root/usr/share/bochs

if [ ! -x "$top/bochs" ]; then
  "$(dirname "${BASH_SOURCE[0]}")/../systems/packages.sh" --suite trixie "$top/root" \
    bochs bochs-term bochsbios vgabios
  cat >"$top/bochs" <<END
#!/bin/sh
export LTDL_LIBRARY_PATH="$libraries/bochs/plugins" BXSHARE="$share"
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$top/root/usr/bin/bochs-bin" "\$@"
END
  chmod +x "$top/bochs"
fi
printf 'export BOCHS=%q BXSHARE_DIR=%q BXVGA=%q\n' "$top/bochs" "$share" "$share/VGABIOS-lgpl-latest"
