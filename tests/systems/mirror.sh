#!/usr/bin/env bash
# Prints the first Debian mirror of apt's configuration, in either of its formats, or Debian's own.
addresses=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
  sed -nE 's/^(URIs:|deb (\[[^]]*\] )?) *([^ ]*debian[^ ]*).*/\3/p')
mirror=${addresses%%$'\n'*}
echo "${mirror:-http://deb.debian.org/debian}"
