// The stub, the operating system of the emulated machine: what its parts share. The stub reads a
// static x86-64 Linux program from the disk, starts it (stub.c) and answers its system calls
// (syscalls.c). Program and stub share ring 0, one thread and one address space; interrupts stay
// off.

#ifndef HEED_TESTS_EMULATION_STUB_H_
#define HEED_TESTS_EMULATION_STUB_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

// Memory, mapped one to one; what lies above the stub is zero at the start:
//   0x00001000  page tables, then the boot sector (boot.S)
//   0x00100000  the stub (link.ld)
//   0x00400000  the program's segments, then its heap (brk), up to kHeapEnd
//   0x0f000000  the program's stack, growing down from kStackTop
//   0x0ff00000  the header page: what run.sh tells the stub
//   0x10000000  the program's file, then its mmap regions, up to kMemoryEnd
static const u64 kProgramStart = 0x00400000;
static const u64 kHeapEnd = 0x0f000000;
static const u64 kStackTop = 0x0fe00000;
static const u64 kHeaderPage = 0x0ff00000;
static const u64 kFileStart = 0x10000000;
static const u64 kMemoryEnd = 0x3e000000;  // of the 1 GiB in run.sh, less what the BIOS keeps
static const u64 kMappedEnd = 0x100000000;
static const u64 kPageBytes = 4096;
static const u64 kLargePageBytes = 2 << 20;

static inline u64 round_up(u64 value, u64 step) { return (value + step - 1) & ~(step - 1); }

// ---- The machine

static inline void out8(u16 port, u8 value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline u8 in8(u16 port) {
  u8 value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static inline void write_msr(u32 msr, u64 value) {
  __asm__ volatile("wrmsr" : : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)));
}

static inline u64 read_ticks(void) {
  u32 low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (u64)high << 32 | low;
}

// ---- stub.c

void* memcpy(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);

// Output goes to bochs's debug port, from there to run.sh. start_line ends an unfinished line
// first.
void put_char(char c);
void put_text(const char* text);
void put_decimal(u64 value);
void start_line(const char* text);

_Noreturn void finish(u64 exit_status);

// ---- syscalls.c

// Whether the program may ask for the tiles of AMX, as Linux has it.
void install_syscall_handler(u64 heap_start, u64 mmap_start, bool gives_tiles);

#endif  // HEED_TESTS_EMULATION_STUB_H_
