#!/usr/bin/env bash
# Runs a static x86-64 Linux program on an emulated CPU; print_help below says how.
set -u

readonly max_strings=60          # arguments, and as many environment variables
readonly header_bytes=4096       # struct HeaderPage in stub.c
readonly cylinder_bytes=$((16 * 63 * 512))
readonly rig_failure=125
readonly timed_out=124

bochs=${BOCHS:-bochs}
bios=${BXSHARE_DIR:-/usr/share/bochs}/BIOS-bochs-latest
vga_bios=${BXVGA:-/usr/share/bochs/VGABIOS-lgpl-latest}
display=${BXGUI:-rfb, options=\"timeout=0\"}

print_help() {
  cat <<'END'
usage: run.sh --image DIR [options] [--] program [arguments...]

Runs a statically linked x86-64 Linux program on a CPU emulated by bochs and prints what the program
prints (standard output and error together).

  --image DIR         where build.sh put boot.img and stub.bin
  --model MODEL       the CPU to emulate; default corei7_skylake_x (`bochs --help cpu` lists them)
  --env NAME=VALUE    set an environment variable of the program, which has no others; repeatable
  --timeout SECONDS   default 600
  -h, --help          this text

Exit status: the program's own; 128 + N where signal N or CPU exception N ended it (6, an invalid
opcode or abort(): 134; 13, general protection: 141; 14, a page fault: 142), and the last line says
which; 124 after the timeout; 125 where the program could not be run, or the machine broke down.

Environment: BOCHS (the binary, default bochs), BXSHARE_DIR (the directory of BIOS-bochs-latest,
default /usr/share/bochs), BXVGA (the VGA BIOS file), BXGUI (bochs's display_library, default rfb).
END
}

die() {
  echo "run.sh: $*" >&2
  exit "$rig_failure"
}

need_file() {  # need_file PATH HINT
  [[ -f $1 && -r $1 ]] || die "cannot read $1 ($2)"
}

parse_command_line() {
  image='' model=corei7_skylake_x timeout_seconds=600 environment=() command_line=()
  while (($#)); do
    case $1 in
      -h | --help) print_help; exit 0 ;;
      --image | --model | --env | --timeout)
        (($# >= 2)) || die "$1 needs a value"
        case $1 in
          --image) image=$2 ;;
          --model) model=$2 ;;
          --env) environment+=("$2") ;;
          --timeout) timeout_seconds=$2 ;;
        esac
        shift 2 ;;
      --) shift; break ;;
      -*) die "unknown option $1 (-h prints help)" ;;
      *) break ;;
    esac
  done
  command_line=("$@")
}

check_request() {
  ((${#command_line[@]})) || die "no program given (-h prints help)"
  [[ -n $image ]] || die "--image is missing: the directory that build.sh filled"
  [[ $timeout_seconds =~ ^[1-9][0-9]*$ ]] || die "--timeout takes seconds, not '$timeout_seconds'"
  [[ $model =~ ^[a-z0-9_]+$ ]] || die "'$model' is not the name of a CPU model"
  local variable
  for variable in ${environment[@]+"${environment[@]}"}; do
    [[ $variable =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die "--env takes NAME=VALUE, not '$variable'"
  done
  ((${#command_line[@]} <= max_strings)) ||
    die "${#command_line[@]} arguments, the program's name among them; $max_strings is the limit"
  ((${#environment[@]} <= max_strings)) ||
    die "${#environment[@]} environment variables; $max_strings is the limit"
}

check_files() {
  need_file "${command_line[0]}" "the program to run"
  need_file "$image/boot.img" "build.sh makes it"
  need_file "$image/stub.bin" "build.sh makes it"
  command -v "$bochs" >/dev/null ||
    die "no emulator '$bochs' (on Debian: apt-get install bochs bochs-term bochsbios vgabios)"
  need_file "$bios" "Debian: bochsbios; BXSHARE_DIR names another directory"
  need_file "$vga_bios" "Debian: vgabios; BXVGA names another file"
}

put_integer() {  # put_integer BYTES VALUE: little-endian
  local i
  for ((i = 0; i < $1; ++i)); do
    printf "\\x$(printf %02x $(($2 >> 8 * i & 255)))"
  done
}

put_header() {  # struct HeaderPage in stub.c
  printf HEEDEMU1
  put_integer 8 "$(stat -L -c %s -- "${command_line[0]}")"
  put_integer 4 ${#command_line[@]}
  put_integer 4 ${#environment[@]}
  printf '%s\0' "${command_line[@]}" ${environment[@]+"${environment[@]}"}
}

# The header page, the program's file, and zeros up to a whole cylinder.
make_disk() {  # make_disk PATH
  put_header >"$1"
  local used
  used=$(stat -c %s "$1")
  ((used <= header_bytes)) ||
    die "arguments and environment are $((used - header_bytes)) bytes too long; they share one page"
  truncate -s "$header_bytes" "$1" && cat -- "${command_line[0]}" >>"$1" &&
    truncate -s "%$cylinder_bytes" "$1" || die "cannot write the disk image $1"
}

# The amount of memory and the instructions per second are also known to stub.h and syscalls.c.
print_configuration() {
  local cylinders=$(($(stat -c %s "$work/disk") / cylinder_bytes))
  cat <<END
megs: 1024
cpu: model=$model, count=1, ips=100000000, reset_on_triple_fault=0
clock: sync=none
romimage: file="$bios", options=fastboot
vgaromimage: file="$vga_bios"
optramimage1: file="$image/stub.bin", address=0x100000
floppya: 1_44="$image/boot.img", status=inserted, write_protected=1
boot: floppy
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path="$work/disk", mode=flat, cylinders=$cylinders, heads=16, spt=63
display_library: $display
port_e9_hack: enabled=1
log: "$work/log"
panic: action=fatal
error: action=ignore
info: action=ignore
END
}

# Prints the program's output as it comes: what lies between the stub's "begin" and its last word.
# Debian's bochs starts in its debugger; "c", continue, is what it reads first.
emulate() {
  timeout --foreground -k 5 "$timeout_seconds" "$bochs" -q -f "$work/configuration" <<<c 2>&1 |
    tee "$work/output" |
    sed -u -e '1,/^@@emulation begin$/d' -e '/^@@emulation /,$d'
  return "${PIPESTATUS[0]}"
}

stub_said() {  # stub_said WORD: what follows that word in the stub's last line
  sed -n "s/^@@emulation $1 //p" "$work/output" | tail -n 1
}

main() {
  parse_command_line "$@"
  check_request
  check_files
  work=$(mktemp -d) || die "cannot make a temporary directory"
  trap 'rm -rf "$work"' EXIT
  make_disk "$work/disk"
  print_configuration >"$work/configuration"

  emulate
  local emulator_status=$? exit_status reason
  exit_status=$(stub_said exit)
  [[ -z $exit_status ]] || exit "$exit_status"
  reason=$(stub_said refused)
  [[ -z $reason ]] || die "${command_line[0]}: $reason"
  if ((emulator_status == 124 || emulator_status == 137)); then
    echo "run.sh: ${command_line[0]} ran past $timeout_seconds seconds" >&2
    exit "$timed_out"
  fi
  ! grep -q "wrong value for parameter 'model'" "$work/output" ||
    die "bochs knows no CPU model '$model' (bochs --help cpu lists them)"
  tail -n 15 "$work/output" >&2
  die "the machine stopped before ${command_line[0]} ended (bochs's status is $emulator_status)"
}

main "$@"
