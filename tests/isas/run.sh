#!/usr/bin/env bash
# Runs the tests on CPUs that this machine is not.
#
#   run.sh STATIC_BUILD AARCH64_BUILD
#
# STATIC_BUILD   folder of the preset `static`: x86-64 programs with every ISA compiled in
# AARCH64_BUILD  folder of the preset `aarch64`
#
# Westmere and Haswell prove that the library falls back where AVX2 or AVX-512 is missing and
# that no wider instruction leaks into the code that decides; the emulated Skylake-X runs the
# AVX-512 kernels whatever this machine has. Each tests the ISA that it would choose. As many run
# at once as there are processors (HEED_JOBS for another number), those that take longest first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
static=$1
aarch64=$2
jobs=${HEED_JOBS:-$(nproc)}
export HEED_TEST_SIZE=small
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
started=0
failed=0

# check NAME COMMAND ...: runs it when there is room, shows its output only if it fails.
check() {
  if [ "$started" -ge "$jobs" ]; then finish_one; fi
  started=$((started + 1))
  report "$outputs/$started" "$@" &
}

report() {
  local output=$1 name=$2 start=$SECONDS status=0
  shift 2
  "$@" >"$output" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    printf 'ok    %-44s %4d s\n' "$name" $((SECONDS - start))
  else
    printf 'FAIL  %-44s status %d\n%s\n' "$name" "$status" "$(tail -n 60 "$output")"
  fi
  return "$status"
}

finish_one() { wait -n || failed=$((failed + 1)); }

# On the emulator, whose machine has no files and no threads, and which is slow.
emulated() {
  local model=$1
  shift
  "$here/../emulation/run.sh" --image "$static/emulation" --model "$model" --timeout 1800 \
    --env HEED_TEST_SIZE=small --env HEED_TEST_ISA=avx512 "$@"
}

"$here/../emulation/build.sh" "$static/emulation" >/dev/null

tests="test_dense test_multihead test_graph test_kernels"
left_out='~[files]~[oracle]' # no emulated CPU changes what tests the oracle alone
for test in $tests; do
  check "$test, x86-64 Skylake-X (AVX-512)" \
    emulated corei7_skylake_x "$static/tests/$test" "$left_out~[threads]"
done
for test in $tests; do
  check "$test, x86-64 Haswell (no AVX-512)" \
    env HEED_TEST_ISA=avx2 qemu-x86_64-static -cpu Haswell "$static/tests/$test" "$left_out"
  check "$test, aarch64" qemu-aarch64-static "$aarch64/tests/$test" "$left_out"
  check "$test, x86-64 Westmere (no AVX)" \
    env HEED_TEST_ISA=sse2 qemu-x86_64-static -cpu Westmere "$static/tests/$test" "$left_out"
done

# The ISA that each CPU must choose by itself.
check "Westmere chooses sse2" qemu-x86_64-static -cpu Westmere "$static/tests/isas/test_choice" sse2
check "Haswell chooses avx2" qemu-x86_64-static -cpu Haswell "$static/tests/isas/test_choice" avx2
check "emulated Haswell chooses avx2" emulated corei7_haswell_4770 "$static/tests/isas/test_choice" avx2
check "Skylake-X chooses avx512" emulated corei7_skylake_x "$static/tests/isas/test_choice" avx512
check "aarch64 chooses neon" qemu-aarch64-static "$aarch64/tests/isas/test_choice" neon

for ((i = started < jobs ? started : jobs; i > 0; --i)); do finish_one; done
printf '%d passed, %d failed\n' $((started - failed)) "$failed"
[ "$failed" -eq 0 ]
