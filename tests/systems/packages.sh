#!/usr/bin/env bash
# usage: packages.sh [--suite NAME] [--architecture NAME] [--alone] FOLDER PACKAGE ...
#
# Unpacks Debian packages of another release or architecture into FOLDER and installs nothing: apt
# downloads them by its own mirror and key, with what they depend on or --alone. A package may be
# given as NAME|OTHER, where releases call it differently. What FOLDER holds already is kept.
set -euo pipefail

suite=
architecture=$(dpkg --print-architecture)
alone=
while [[ ${1-} == --* ]]; do
  case $1 in
    --suite) suite=$2; shift ;;
    --architecture) architecture=$2; shift ;;
    --alone) alone=1 ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
shift
[ ! -d "$folder" ] || exit 0

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state"/{lists/partial,archives/partial,sources}
touch "$state/status"
apt=(-qq -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture"
  -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state"
  -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none)

if [ -n "$suite" ]; then
  address=$("$(dirname "${BASH_SOURCE[0]}")/mirror.sh")
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$address" "$suite" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$state/sources/suite.sources"
  apt+=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$state/sources")
fi
apt-get "${apt[@]}" update >&2

names=()
for package in "$@"; do
  apt-cache "${apt[@]}" show --no-all-versions "${package%|*}" >/dev/null 2>&1 || package=${package#*|}
  names+=("${package%|*}")
done
if [ -n "$alone" ]; then
  (cd "$state/archives" && apt-get "${apt[@]}" download "${names[@]}" >&2)
else
  apt-get "${apt[@]}" install -y --no-install-recommends --download-only "${names[@]}" >&2
fi
mkdir -p "$folder.new"
for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$folder.new"; done
mv "$folder.new" "$folder"
