#!/usr/bin/env bash
# run.sh RELEASE [COMMAND]: README's commands on a bare Debian, on a clean clone of the last commit, to
# their end; or another command. RELEASE is one of those in the table below. The system lies in
# build/systems, or in HEED_SYSTEMS, and is used again, with what was installed there. It sees the files
# of the folder HEED_FILES in /files. Wants root and debootstrap.
#
# Of this system it takes what leads to packages: the mirror, proxies, certificates, pip's
# configuration; and of its environment HEED_* and the compilers' launcher.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

declare -A names=([11]=bullseye [12]=bookworm [13]=trixie)
release=${1-}
name=${names[${release:-none}]-}
if [ -z "$name" ]; then
  echo "run.sh: RELEASE is \"$release\"; it may be ${!names[*]}" >&2
  exit 2
fi
shift
command=${*:-./dev run && ./dev test}
root=${HEED_SYSTEMS:-$PWD/build/systems}/$release

if [ ! -e "$root/etc/.complete" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase --include=ca-certificates,git "$name" "$root" \
    "$(tests/systems/mirror.sh)" >"$root.log" || { tail -n 20 "$root.log" >&2; exit 1; }
  touch "$root/etc/.complete"
fi

# Files go there too; folders that pip reads are mounted below.
apt-config dump | grep -E '^Acquire::https?::' >"$root/etc/apt/apt.conf.d/99outside" || true
pip=$(python3 -m pip config list 2>/dev/null || true)
{
  echo '[global]'
  sed -nE "s/^global\.([a-z-]+)='(.*)'$/\1 = \2/p" <<<"$pip"
} >"$root/etc/pip.conf"
folders=()
for path in /etc/ssl/certs/ca-certificates.crt /etc/resolv.conf \
  $(grep -oE "(file:/)?/[^' ]+" <<<"$pip" | sed 's,^file://,,'); do
  if [ -f "$path" ]; then install -D -m 644 "$path" "$root$path"; fi
  # Of an index of packages, the packages lie beside it.
  if [ -d "$path" ]; then folders+=("${path%/simple}"); fi
done

rm -rf "$root/heed"
git clone -q . "$root/heed"
rm -rf "$root/files"
[ -z "${HEED_FILES-}" ] || cp -r "$HEED_FILES" "$root/files"

mapfile -t environment < <(env |
  grep -iE '^(HEED_|CMAKE_C(XX)?_COMPILER_LAUNCHER=|PIP_|[a-z]+_proxy=|[A-Z_]+_(CA_BUNDLE|CERT_FILE|CERT_DIR)=)')
# Mounts end with the command.
export root
# shellcheck disable=SC2016  # expanded by that shell
unshare --mount --pid --fork bash -euc '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  folders=$1 && shift
  for folder in $folders; do
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
  done
  exec chroot "$root" "$@"' mounted "${folders[*]}" \
  env -i HOME=/root TERM="${TERM-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  "${environment[@]}" bash -euc "cd /heed; $command"
