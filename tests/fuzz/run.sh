#!/usr/bin/env bash
# Fuzzes one target after the other and says how it goes. `./dev fuzz` builds and calls this:
#
#   run.sh PROGRAMS [TARGET|all [MINUTES]]     each target for so long; all, 1 minute
#
# What finds new ways through heed stays in build/fuzz-corpus/TARGET, beside the corpus here, and
# the next call goes on from there. A finding ends everything: its case and log lie in build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

programs=$1
chosen=${2:-all}
minutes=${3:-1}
pause=10

targets() { basename -a tests/fuzz/corpus/*/; }

# The latest of what libFuzzer said: branches covered, and inputs that it keeps.
progress() {
  grep -E '^#[0-9]+' "$1" | tail -n 1 |
    sed -E 's/^#([0-9]+).* cov: ([0-9]+).* corp: ([0-9]+).*/\1 \2 \3/'
}

tell() {
  local target=$1 log=$2 seconds=$3 executed branches inputs
  read -r executed branches inputs <<<"$(progress "$log")" || return 0
  printf '%-12s %3d:%02d  %9d runs  %5d branches  %4d inputs\n' "$target" \
    $((seconds / 60)) $((seconds % 60)) "$executed" "$branches" "$inputs"
}

fuzz() {
  local target=$1 program=$programs/fuzz_$1 log=build/fuzz-$1.log corpus=build/fuzz-corpus/$1
  [ -x "$program" ] || {
    echo "fuzz: there is no target \"$target\", only: $(targets | tr '\n' ' ')" >&2
    exit 2
  }
  mkdir -p "$corpus"
  "$program" -max_len=256 -timeout=30 -max_total_time=$((minutes * 60)) \
    -artifact_prefix="build/fuzz-$target-" "$corpus" "tests/fuzz/corpus/$target" >"$log" 2>&1 &
  local pid=$! begin=$SECONDS
  trap "kill $pid 2>/dev/null" EXIT
  while sleep "$pause" && kill -0 $pid 2>/dev/null; do
    tell "$target" "$log" $((SECONDS - begin))
  done
  trap - EXIT
  if wait $pid; then
    grep '^cases' "$log" | sed "s/^/$target: /"
    return
  fi
  grep -E '^finding|runtime error|ERROR|Test unit written' "$log" >&2 || tail -n 20 "$log" >&2
  echo "fuzz: again with $program FILE; all of it is in $log" >&2
  exit 1
}

[[ $minutes =~ ^[1-9][0-9]*$ ]] || {
  echo "fuzz: \"$minutes\" is no number of minutes" >&2
  exit 2
}
if [ "$chosen" = all ]; then
  for target in $(targets); do fuzz "$target"; done
else
  fuzz "$chosen"
fi
