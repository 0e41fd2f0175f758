// The system calls of the emulated machine: those that a statically linked C or C++ program with
// one thread makes. A call that is missing here says so in the program's output.

#include <asm/errno.h>
#include <asm/mman.h>
#include <asm/prctl.h>
#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/resource.h>
#include <linux/stat.h>
#include <linux/time_types.h>
#include <linux/uio.h>
#include <linux/utsname.h>

#include "stub.h"

static const u64 kTicksPerSecond = 100000000;  // `ips` in run.sh: one tick per instruction

void syscall_entry(void);  // stub.S; calls handle_syscall

static u64 heap_end;
static u64 mmap_end;
static bool tiles_given;

static i64 write_bytes(u64 file, const char* bytes, u64 count) {
  if (file != 1 && file != 2) return -EBADF;
  for (u64 i = 0; i < count; ++i) put_char(bytes[i]);
  return (i64)count;
}

static i64 write_vectors(u64 file, const struct iovec* vectors, u64 count) {
  i64 total = 0;
  for (u64 i = 0; i < count; ++i) {
    const i64 written = write_bytes(file, vectors[i].iov_base, vectors[i].iov_len);
    if (written < 0) return written;
    total += written;
  }
  return total;
}

// Standard input, output and error are one terminal. glibc knows terminals by their device number
// and writes to them line by line: what was printed before a crash is seen.
static i64 stat_terminal(u64 file, struct stat* status) {
  if (file > 2) return -ENOENT;
  memset(status, 0, sizeof *status);
  status->st_mode = S_IFCHR | 0620;
  status->st_rdev = 136 << 8;  // the first pseudo-terminal
  status->st_blksize = 1024;
  return 0;
}

static i64 grow_heap(u64 end) {
  if (end >= heap_end && end < kHeapEnd) {
    memset((void*)heap_end, 0, end - heap_end);
    heap_end = end;
  }
  return (i64)heap_end;
}

// Hands out each byte once, so that it is zero without being cleared. Large regions start at a
// multiple of 2 MiB. munmap gives nothing back.
static i64 map_memory(u64 bytes, u64 flags) {
  if (!(flags & MAP_ANONYMOUS)) return -ENODEV;
  if (flags & MAP_FIXED) return -EINVAL;
  if (bytes > kMemoryEnd) return -ENOMEM;
  bytes = round_up(bytes, kPageBytes);
  const u64 start = round_up(mmap_end, bytes >= kLargePageBytes ? kLargePageBytes : kPageBytes);
  if (start + bytes > kMemoryEnd) return -ENOMEM;
  mmap_end = start + bytes;
  return (i64)start;
}

static i64 set_thread_state(u64 code, u64 address) {
  enum { kFsBase = 0xc0000100, kGsBase = 0xc0000101 };
  enum { kRequestAmx = 0x1023 };  // ARCH_REQ_XCOMP_PERM, which older headers lack
  switch (code) {
    case ARCH_SET_FS:
      write_msr(kFsBase, address);
      return 0;
    case ARCH_SET_GS:
      write_msr(kGsBase, address);
      return 0;
    case kRequestAmx:
      return tiles_given ? 0 : -EPERM;
    default:
      return -EINVAL;
  }
}

// Time starts at 0 with the machine and counts instructions.
static i64 clock_time(struct __kernel_timespec* time) {
  const u64 now = read_ticks();
  time->tv_sec = (i64)(now / kTicksPerSecond);
  time->tv_nsec = (i64)(now % kTicksPerSecond * 1000000000 / kTicksPerSecond);
  return 0;
}

static i64 time_in_seconds(i64* time) {
  const i64 now = (i64)(read_ticks() / kTicksPerSecond);
  if (time) *time = now;
  return now;
}

static i64 time_of_day(struct __kernel_old_timeval* time) {
  const u64 now = read_ticks();
  time->tv_sec = (i64)(now / kTicksPerSecond);
  time->tv_usec = (i64)(now % kTicksPerSecond * 1000000 / kTicksPerSecond);
  return 0;
}

static i64 system_name(struct new_utsname* name) {
  memset(name, 0, sizeof *name);
  memcpy(name->sysname, "Linux", 6);
  memcpy(name->nodename, "emulation", 10);
  memcpy(name->release, "6.1.0", 6);
  memcpy(name->machine, "x86_64", 7);
  return 0;
}

// One CPU, number 0.
static i64 cpu_affinity(u8* mask, u64 bytes) {
  if (bytes < 8) return -EINVAL;
  memset(mask, 0, 8);
  mask[0] = 1;
  return 8;
}

static i64 resource_limit(struct rlimit64* old_limit) {
  if (old_limit) old_limit->rlim_cur = old_limit->rlim_max = 8 << 20;
  return 0;
}

// The same sequence in each run (xorshift64): a failure can be run again.
static i64 random_bytes(u8* bytes, u64 count) {
  static u64 state = 88172645463325252ull;
  for (u64 i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bytes[i] = (u8)state;
  }
  return (i64)count;
}

static _Noreturn void die_by_signal(u64 signal) {
  start_line("[emulation] killed by signal ");
  put_decimal(signal);
  finish(128 + signal);
}

static i64 unknown_syscall(u64 number) {
  start_line("[emulation] unknown system call ");
  put_decimal(number);
  put_char('\n');
  return -ENOSYS;
}

// One call to a line, as a table.
// clang-format off
i64 handle_syscall(u64 number, const u64 arg[6]) {
  switch (number) {
    case __NR_exit:
    case __NR_exit_group: finish(arg[0] & 255);
    case __NR_kill:
    case __NR_tkill: die_by_signal(arg[1]);
    case __NR_tgkill: die_by_signal(arg[2]);

    case __NR_write: return write_bytes(arg[0], (const char*)arg[1], arg[2]);
    case __NR_writev: return write_vectors(arg[0], (const struct iovec*)arg[1], arg[2]);
    case __NR_fstat: return stat_terminal(arg[0], (struct stat*)arg[1]);
    case __NR_newfstatat: return stat_terminal(arg[0], (struct stat*)arg[2]);
    case __NR_brk: return grow_heap(arg[0]);
    case __NR_mmap: return map_memory(arg[1], arg[3]);
    case __NR_arch_prctl: return set_thread_state(arg[0], arg[1]);
    case __NR_time: return time_in_seconds((i64*)arg[0]);
    case __NR_gettimeofday: return time_of_day((struct __kernel_old_timeval*)arg[0]);
    case __NR_clock_gettime: return clock_time((struct __kernel_timespec*)arg[1]);
    case __NR_uname: return system_name((struct new_utsname*)arg[0]);
    case __NR_sched_getaffinity: return cpu_affinity((u8*)arg[2], arg[1]);
    case __NR_prlimit64: return resource_limit((struct rlimit64*)arg[3]);
    case __NR_getrusage: memset((void*)arg[1], 0, sizeof(struct rusage)); return 0;
    case __NR_getrandom: return random_bytes((u8*)arg[0], arg[1]);

    // One process, one thread, both number 1.
    case __NR_getpid:
    case __NR_gettid:
    case __NR_set_tid_address: return 1;

    // Input is at its end; the rest succeeds by doing nothing.
    case __NR_read:
    case __NR_close:
    case __NR_mprotect:
    case __NR_munmap:
    case __NR_madvise:
    case __NR_rt_sigaction:
    case __NR_rt_sigprocmask:
    case __NR_sigaltstack:
    case __NR_futex:
    case __NR_set_robust_list:
    case __NR_sched_setaffinity:
    case __NR_sched_yield:
    case __NR_nanosleep:
    case __NR_clock_nanosleep: return 0;

    // There are no files.
    case __NR_open:
    case __NR_openat:
    case __NR_access:
    case __NR_readlink:
    case __NR_readlinkat: return -ENOENT;
    case __NR_ioctl: return -ENOTTY;

    // C libraries do without these.
    case __NR_mremap: return -ENOMEM;
    case __NR_rseq:
    case __NR_clone:
    case __NR_clone3: return -ENOSYS;

    default: return unknown_syscall(number);
  }
}
// clang-format on

void install_syscall_handler(u64 heap_start, u64 mmap_start, bool gives_tiles) {
  heap_end = heap_start;
  mmap_end = mmap_start;
  tiles_given = gives_tiles;

  enum { kStar = 0xc0000081, kLstar = 0xc0000082, kFlagMask = 0xc0000084 };
  write_msr(kStar, 0x10ull << 32);  // code segment 0x10, stack segment 0x18
  write_msr(kLstar, (u64)syscall_entry);
  write_msr(kFlagMask, 0x700);  // clear the trap, interrupt and direction flags
}
