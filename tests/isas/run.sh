#!/usr/bin/env bash
# Runs the tests on CPUs that this machine is not.
#
#   run.sh [--all|--full] X86 AARCH64
#
# X86      folder of static x86-64 programs with every ISA compiled in
# AARCH64  folder of those for aarch64
# --all    tests of rooms too, brief ones, and of ISAs that this CPU has, and has run, a few kinds;
#          otherwise which ISA each CPU chooses, and kernels of those that this one lacks
# --full   everything on every CPU, about five times as many cases
#
# Westmere and Haswell prove that the library falls back where AVX2 or AVX-512 is missing and
# that no wider instruction leaks into the code that decides; the emulated Skylake-X runs the
# AVX-512 kernels whatever this machine has, and the emulated Sapphire Rapids those of AVX512-BF16
# and AMX, of which it has all others too. Each tests the ISA that it would choose, and Sapphire
# Rapids the pairs of AVX512-BF16, too, which it would choose by name alone. So it is on Arm with and
# without BF16, whose BFDOT rounds in qemu as in processors without FEAT_EBF16. As many run at once as
# there are processors (HEED_JOBS for another number), those that take longest first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
size=brief
all=
elsewhere='~[large]~[precision]' # what pairs of Sapphire Rapids run, or no instruction set changes
if [ "${1-}" = --full ]; then
  size=small
  elsewhere=
fi
if [[ ${1-} == --* ]]; then
  all=1
  shift
fi
x86=$1
aarch64=$2
jobs=${HEED_JOBS:-$(nproc)}
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
left_out='~[files]~[oracle]' # no emulated CPU changes what tests the oracle alone
total=0
started=0
failed=0

# On the emulator, whose machine has no files and no threads, and which is slow:
# emulated MODEL ISA OPTION ... PROGRAM ... It knows AVX512-BF16 and AMX, and takes three fifths of the
# time of its version before.
emulated() (
  model=$1 isa=$2
  shift 2
  eval "$("$here/../emulation/bochs3.sh" "$x86/../bochs3")"
  "$here/../emulation/run.sh" --image "$outputs/emulation" --model "$model" --timeout 1800 \
    --env HEED_TEST_SIZE=$size --env HEED_TEST_ISA="$isa" "$@"
)

# has FLAG: whether this CPU does, so that its ISA's tests have run on it.
has() { [ "$size" != small ] && grep -qsw "$1" /proc/cpuinfo; }

# Of an ISA that has been tested: whether it runs, and meets no instruction of a wider one.
few="[shapes]$left_out,[special]$left_out,[plan]$left_out,[accumulate],[softmax],[rows]"

# tests_of FLAG TESTS: those, or the few if this CPU has the flag.
tests_of() { if has "$1"; then echo "$few"; else echo "$2"; fi; }

# some_of PROGRAM TESTS: those, or, of blocks and unless all is wanted, the few and their products: a
# block is attention between products, and attention the other programs have tried.
some_of() {
  if [ "$1" = test_multihead ] && [ "$size" != small ]; then
    echo "$few,[project]$left_out"
  else
    echo "$2"
  fi
}

# for_each_check FUNCTION: calls FUNCTION NAME COMMAND ... for all that there is to check.
for_each_check() {
  if [ -n "$all" ]; then rooms "$1"; else kernels "$1"; fi
  choices "$1"
}

# Kernels that no CPU here runs, by the tests that are about them alone.
kernels() {
  has avx512bw || "$1" "test_kernels, x86-64 Skylake-X (AVX-512)" \
    emulated corei7_skylake_x avx512 "$x86/test_kernels" "$left_out~[threads]"
  "$1" "test_kernels, aarch64" \
    env HEED_TEST_SIZE=$size qemu-aarch64-static -cpu cortex-a72 "$aarch64/test_kernels" "$left_out"
  "$1" "test_kernels of pairs, aarch64 (BF16)" env HEED_TEST_SIZE=$size HEED_TEST_ISA=neonbf16 \
    qemu-aarch64-static -cpu max "$aarch64/test_kernels" "[pairs],[table]"
}

rooms() {
  local test tests="test_dense test_multihead test_graph test_operations test_kernels"
  for test in $tests; do
    "$1" "$test, x86-64 Skylake-X (AVX-512)" emulated corei7_skylake_x avx512 "$x86/$test" \
      "$(tests_of avx512bw "$(some_of "$test" "$left_out~[threads]~[backward]$elsewhere")")"
  done
  # Apart, because the emulator would take too long over both.
  has avx512bw || "$1" "test_operations of gradients, x86-64 Skylake-X (AVX-512)" \
    emulated corei7_skylake_x avx512 "$x86/test_operations" \
    "[backward]$left_out~[threads]~[large]$elsewhere"
  local isa flag
  for isa in avx512bf16 amx; do
    flag=avx512_bf16
    [ "$isa" != amx ] || flag=amx_bf16
    "$1" "test_dense of pairs, x86-64 Sapphire Rapids ($isa)" \
      emulated sapphire_rapids "$isa" "$x86/test_dense" \
      "$(tests_of $flag "[pages],[special]")"
    "$1" "test_operations of pairs, x86-64 Sapphire Rapids ($isa)" \
      emulated sapphire_rapids "$isa" "$x86/test_operations" \
      "$(tests_of $flag "[precision],[plan],[forms]~[backward],[leaks]~[backward]")"
    "$1" "test_kernels of pairs, x86-64 Sapphire Rapids ($isa)" \
      emulated sapphire_rapids "$isa" "$x86/test_kernels" "$(tests_of $flag "[pairs],[rows],[table]")"
  done
  for test in $tests; do
    "$1" "$test, aarch64" \
      env HEED_TEST_SIZE=$size qemu-aarch64-static -cpu cortex-a72 "$aarch64/$test" \
      "$(some_of "$test" "$left_out")"
  done
  for test in test_multihead test_operations test_kernels; do
    "$1" "$test of pairs, aarch64 (BF16)" \
      env HEED_TEST_SIZE=$size HEED_TEST_ISA=neonbf16 \
      qemu-aarch64-static -cpu max "$aarch64/$test" "[precision],[pairs],[table]"
  done
  for test in $tests; do
    "$1" "$test, x86-64 Haswell (no AVX-512)" env HEED_TEST_SIZE=$size HEED_TEST_ISA=avx2 \
      qemu-x86_64-static -cpu Haswell "$x86/$test" "$(tests_of avx2 "$left_out")"
    "$1" "$test, x86-64 Westmere (no AVX)" env HEED_TEST_SIZE=$size HEED_TEST_ISA=sse2 \
      qemu-x86_64-static -cpu Westmere "$x86/$test" "$(tests_of sse2 "$left_out")"
  done
}

# The ISA that each CPU must choose by itself.
choices() {
  "$1" "Westmere chooses sse2" qemu-x86_64-static -cpu Westmere "$x86/test_choice" sse2
  "$1" "Haswell chooses avx2" qemu-x86_64-static -cpu Haswell "$x86/test_choice" avx2
  "$1" "emulated Haswell chooses avx2" emulated corei7_haswell_4770 avx2 "$x86/test_choice" avx2
  "$1" "Skylake-X chooses avx512" emulated corei7_skylake_x avx512 "$x86/test_choice" avx512
  "$1" "Sapphire Rapids chooses amx" emulated sapphire_rapids amx "$x86/test_choice" amx
  "$1" "Sapphire Rapids without tiles chooses avx512" \
    emulated sapphire_rapids avx512 --env EMULATION_TILES=refused "$x86/test_choice" avx512
  "$1" "aarch64 chooses neon" qemu-aarch64-static -cpu cortex-a72 "$aarch64/test_choice" neon
  "$1" "aarch64 with BF16 chooses neonbf16" \
    qemu-aarch64-static -cpu max "$aarch64/test_choice" neonbf16
}

count() { total=$((total + 1)); }

# start NAME COMMAND ...: runs it when there is room, shows its output only if it fails.
start() {
  if [ "$started" -ge "$jobs" ]; then finish_one; fi
  started=$((started + 1))
  report "$started" "$@" &
}

report() {
  local number=$1 name=$2 start=$SECONDS status=0
  shift 2
  "$@" >"$outputs/$number" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    printf '%2d/%d  ok    %-44s %4d s\n' "$number" "$total" "$name" $((SECONDS - start))
  else
    printf '%2d/%d  FAIL  %-44s status %d\n%s\n' "$number" "$total" "$name" "$status" \
      "$(tail -n 60 "$outputs/$number")"
  fi
  return "$status"
}

finish_one() { wait -n || failed=$((failed + 1)); }

"$here/../emulation/build.sh" "$outputs/emulation" >/dev/null
"$here/../emulation/bochs3.sh" "$x86/../bochs3" >/dev/null  # once, before several ask for it
for_each_check count
for_each_check start
for ((i = started < jobs ? started : jobs; i > 0; --i)); do finish_one; done
printf '%d passed, %d failed\n' $((started - failed)) "$failed"
[ "$failed" -eq 0 ]
