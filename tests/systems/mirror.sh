#!/usr/bin/env bash
# Prints the first Debian mirror of apt's configuration, in either of its formats.
addresses=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
  sed -nE 's/^(URIs:|deb (\[[^]]*\] )?) *([^ ]*debian[^ ]*).*/\3/p')
[ -n "$addresses" ] || {
  echo "mirror.sh: found no Debian mirror in apt's configuration" >&2
  exit 1
}
echo "${addresses%%$'\n'*}"
