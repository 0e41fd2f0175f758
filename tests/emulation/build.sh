#!/bin/sh
# build.sh DIRECTORY: builds the emulated machine's boot.img and stub.bin in DIRECTORY, for run.sh.
# Needs a C compiler (CC, default gcc) and binutils (LD, OBJCOPY) for x86-64.
set -eu

if [ $# -ne 1 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
  echo "usage: build.sh DIRECTORY    builds boot.img and stub.bin in DIRECTORY" >&2
  exit 2
fi
mkdir -p -- "$1"
out=$(cd -- "$1" && pwd)
source=$(cd -- "$(dirname -- "$0")" && pwd)
cc=${CC:-gcc}
ld=${LD:-ld}
objcopy=${OBJCOPY:-objcopy}

objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

# A 1.44 MB floppy of which only the boot sector is written.
$cc -c "$source/boot.S" -o "$objects/boot.o"
$ld -m elf_x86_64 -Ttext=0x7c00 -o "$objects/boot.elf" "$objects/boot.o"
$objcopy -O binary -j .text "$objects/boot.elf" "$objects/boot.img"
truncate -s 1440K "$objects/boot.img"

# The stub shares the CPU with the program it serves: it must not touch vector registers, nor the
# 128 bytes below a stack pointer.
$cc -c "$source/stub.S" -o "$objects/entry.o"
for part in stub syscalls; do
  $cc -c -std=c11 -O2 -Wall -Wextra -ffreestanding -fno-stack-protector -fno-pic -fno-pie \
    -fcf-protection=none -mno-red-zone -mgeneral-regs-only "$source/$part.c" -o "$objects/$part.o"
done
$ld -m elf_x86_64 -z noexecstack --no-warn-rwx-segments -T "$source/link.ld" \
  -o "$objects/stub.elf" "$objects/entry.o" "$objects/stub.o" "$objects/syscalls.o"
$objcopy -O binary --set-section-flags .bss=alloc,load,contents \
  "$objects/stub.elf" "$objects/stub.bin"
if [ "$(stat -c %s "$objects/stub.bin")" -gt 131072 ]; then
  echo "build.sh: stub.bin is larger than the 128 KiB that bochs 2.7 loads in one piece" >&2
  exit 1
fi

mv "$objects/boot.img" "$objects/stub.bin" "$out/"
