// The stub's life: read the program from the disk, start it, and report how it ended. stub.h has
// the overview.

#include "stub.h"

#include <elf.h>

// The first page of the disk, written by run.sh; the program's file follows it.
struct HeaderPage {
  u64 magic;  // "HEEDEMU1"
  u64 file_bytes;
  u32 argument_count;  // at least one; run.sh keeps both counts to 60
  u32 environment_count;
  char strings[4096 - 24];  // arguments, then NAME=VALUE, each ended by a NUL
};
static const u64 kHeaderMagic = 0x31554d4544454548;

// In the environment: arch_prctl refuses the tiles of AMX, as a filter of system calls may.
static const char kRefuseTiles[] = "EMULATION_TILES=refused";

// stub.S
_Noreturn void enter_program(u64 entry, u64 stack_pointer);
extern const u8 exception_entries[32][16];

// The compiler may call these two by name, so they are not static.
void* memcpy(void* to, const void* from, size_t bytes) {
  void* start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return start;
}

void* memset(void* to, int value, size_t bytes) {
  void* start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return start;
}

// ---- Output, and the two ways to end

// False, since bochs may have left a line of its own unfinished.
static bool at_line_start = false;

void put_char(char c) {
  out8(0xe9, (u8)c);
  at_line_start = c == '\n';
}

void put_text(const char* text) {
  while (*text) put_char(*text++);
}

static void put_hex(u64 value, int digits) {
  while (digits-- > 0) put_char("0123456789abcdef"[value >> 4 * digits & 15]);
}

void put_decimal(u64 value) {
  if (value >= 10) put_decimal(value / 10);
  put_char((char)('0' + value % 10));
}

void start_line(const char* text) {
  if (!at_line_start) put_char('\n');
  put_text(text);
}

// Bochs ends when it sees this word on this port.
static _Noreturn void shut_down(void) {
  for (const char* c = "Shutdown"; *c; ++c) out8(0x8900, (u8)*c);
  for (;;) __asm__ volatile("hlt");
}

_Noreturn void finish(u64 exit_status) {
  start_line("@@emulation exit ");
  put_decimal(exit_status);
  put_char('\n');
  shut_down();
}

// For what is wrong before the program runs.
static _Noreturn void refuse(const char* reason) {
  start_line("@@emulation refused ");
  put_text(reason);
  put_char('\n');
  shut_down();
}

// ---- Exceptions: all of them end the program

struct ExceptionFrame {
  u64 vector, error, rip, cs, flags, rsp, ss;
};

static const char* exception_name(u64 vector) {
  static const char* const names[32] = {
      [0] = "division error",      [3] = "breakpoint",  [6] = "invalid opcode",
      [13] = "general protection", [14] = "page fault", [19] = "SIMD floating-point error",
  };
  return names[vector] ? names[vector] : "exception";
}

static void put_field(const char* name, u64 value) {
  put_text(name);
  put_hex(value, 16);
}

_Noreturn void handle_exception(const struct ExceptionFrame* frame) {
  u64 fault_address;
  __asm__ volatile("mov %%cr2, %0" : "=r"(fault_address));
  start_line("[emulation] ");
  put_text(exception_name(frame->vector));
  put_text(", vector ");
  put_decimal(frame->vector);
  put_field(" error 0x", frame->error);
  put_field(" rip 0x", frame->rip);
  put_field(" rsp 0x", frame->rsp);
  put_field(" cr2 0x", fault_address);
  put_text(" code");
  for (u64 at = frame->rip; at < frame->rip + 12 && at < kMappedEnd; ++at) {
    put_char(' ');
    put_hex(*(const u8*)at, 2);
  }
  finish(128 + frame->vector);
}

struct Gate {
  u64 low, high;
};

static void install_exception_handlers(void) {
  static struct Gate table[32];
  for (int i = 0; i < 32; ++i) {
    const u64 entry = (u64)exception_entries[i];
    const u64 kernel_code_interrupt_gate = 0x8e00ull << 32 | 0x10 << 16;
    table[i].low = (entry & 0xffff) | kernel_code_interrupt_gate | (entry >> 16 & 0xffff) << 48;
    table[i].high = entry >> 32;
  }
  const struct __attribute__((packed)) {
    u16 limit;
    u64 base;
  } idt_register = {sizeof table - 1, (u64)table};
  __asm__ volatile("lidt %0" : : "m"(idt_register));
}

// ---- Loading the program

static const u64 kSectorBytes = 512;

enum AtaPort {
  kAtaData = 0x1f0,
  kAtaCount = 0x1f2,
  kAtaSector = 0x1f3,  // bits 0-7, then 8-15 and 16-23 in the next two
  kAtaDrive = 0x1f6,
  kAtaCommand = 0x1f7,  // written: a command; read: the status
  kAtaControl = 0x3f6,
};
enum AtaStatus { kAtaError = 0x01, kAtaDataReady = 0x08, kAtaFault = 0x20, kAtaBusy = 0x80 };

static void wait_for_data(void) {
  u8 status;
  do {
    status = in8(kAtaCommand);
  } while ((status & kAtaBusy) || !(status & (kAtaDataReady | kAtaError | kAtaFault)));
  if (status & (kAtaError | kAtaFault)) refuse("the disk cannot be read");
}

// Programmed input from the first disk, at most 255 sectors to a command.
static void read_disk(u64 sector, u64 bytes, void* to) {
  const u64 end = sector + round_up(bytes, kSectorBytes) / kSectorBytes;
  while (sector < end) {
    const u64 count = end - sector < 255 ? end - sector : 255;
    while (in8(kAtaCommand) & kAtaBusy) continue;
    out8(kAtaDrive, (u8)(0xe0 | (sector >> 24 & 15)));
    out8(kAtaCount, (u8)count);
    out8(kAtaSector, (u8)sector);
    out8(kAtaSector + 1, (u8)(sector >> 8));
    out8(kAtaSector + 2, (u8)(sector >> 16));
    out8(kAtaCommand, 0x20);  // read
    for (u64 i = 0; i < count; ++i) {
      wait_for_data();
      u64 words = kSectorBytes / 2;
      __asm__ volatile("rep insw" : "+D"(to), "+c"(words) : "d"(kAtaData) : "memory");
    }
    sector += count;
  }
}

struct Program {
  u64 entry;
  u64 end;
  u64 headers;  // the program headers' address in memory
  u64 header_bytes, header_count;
};

static bool is_elf_x86_64(const Elf64_Ehdr* file) {
  return *(const u32*)file->e_ident == 0x464c457f && file->e_ident[EI_CLASS] == ELFCLASS64 &&
         file->e_machine == EM_X86_64;
}

static void load_segment(const Elf64_Phdr* segment, u64 address) {
  if (address < kProgramStart || address + segment->p_memsz > kHeapEnd)
    refuse("the program has a segment outside the memory for programs");
  memcpy((void*)address, (const void*)(kFileStart + segment->p_offset), segment->p_filesz);
  memset((void*)(address + segment->p_filesz), 0, segment->p_memsz - segment->p_filesz);
}

static struct Program load_program(void) {
  const Elf64_Ehdr* file = (const Elf64_Ehdr*)kFileStart;
  if (!is_elf_x86_64(file)) refuse("the program is not an ELF file for x86-64");
  const u64 bias = file->e_type == ET_DYN ? kProgramStart : 0;  // a static PIE can go anywhere
  struct Program program = {
      .entry = file->e_entry + bias,
      .header_bytes = file->e_phentsize,
      .header_count = file->e_phnum,
  };
  const Elf64_Phdr* segments = (const Elf64_Phdr*)(kFileStart + file->e_phoff);
  for (u64 i = 0; i < program.header_count; ++i) {
    const Elf64_Phdr* segment = &segments[i];
    if (segment->p_type == PT_INTERP) refuse("the program is not linked statically");
    if (segment->p_type != PT_LOAD) continue;
    const u64 address = segment->p_vaddr + bias;
    load_segment(segment, address);
    if (address + segment->p_memsz > program.end) program.end = address + segment->p_memsz;
    const u64 offset = file->e_phoff - segment->p_offset;
    if (file->e_phoff >= segment->p_offset && offset < segment->p_filesz)
      program.headers = address + offset;
  }
  return program;
}

// ---- The start of the program: its stack, as the System V ABI for x86-64 describes it

static const char* push_strings(u64** top, u32 count, const char* text) {
  for (u32 i = 0; i < count; ++i) {
    *(*top)++ = (u64)text;
    while (*text++) continue;
  }
  *(*top)++ = 0;
  return text;
}

static bool has_string(u32 count, const char* text, const char* wanted) {
  for (u32 i = 0; i < count; ++i) {
    const char* w = wanted;
    while (*text && *text == *w) ++text, ++w;
    if (!*text && !*w) return true;
    while (*text++) continue;
  }
  return false;
}

static u32 hardware_capabilities(void) {
  u32 eax = 1, ebx, ecx = 0, edx;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return edx;
}

static void push_auxiliary_vector(u64* top, const struct Program* program, u64 name) {
  static const u8 random[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const u64 vector[][2] = {
      {AT_PHDR, program->headers},
      {AT_PHENT, program->header_bytes},
      {AT_PHNUM, program->header_count},
      {AT_PAGESZ, kPageBytes},
      {AT_BASE, 0},
      {AT_FLAGS, 0},
      {AT_ENTRY, program->entry},
      {AT_UID, 0},
      {AT_EUID, 0},
      {AT_GID, 0},
      {AT_EGID, 0},
      {AT_PLATFORM, (u64) "x86_64"},
      {AT_HWCAP, hardware_capabilities()},
      {AT_CLKTCK, 100},
      {AT_SECURE, 0},
      {AT_RANDOM, (u64)random},
      {AT_EXECFN, name},
      {AT_NULL, 0},
  };
  memcpy(top, vector, sizeof vector);
}

_Noreturn void stub_main(void) {
  start_line("@@emulation begin\n");
  install_exception_handlers();
  out8(kAtaControl, 0x02);  // the disk raises no interrupts
  read_disk(0, kPageBytes, (void*)kHeaderPage);
  const struct HeaderPage* header = (const struct HeaderPage*)kHeaderPage;
  if (header->magic != kHeaderMagic) refuse("run.sh and stub.bin disagree");
  if (kFileStart + header->file_bytes > kMemoryEnd) refuse("the program does not fit in memory");
  read_disk(kPageBytes / kSectorBytes, header->file_bytes, (void*)kFileStart);

  const struct Program program = load_program();
  u64* const stack = (u64*)(kStackTop - kPageBytes);
  u64* top = stack;
  *top++ = header->argument_count;
  const char* environment = push_strings(&top, header->argument_count, header->strings);
  install_syscall_handler(round_up(program.end, kPageBytes),
                          round_up(kFileStart + header->file_bytes, kLargePageBytes),
                          !has_string(header->environment_count, environment, kRefuseTiles));
  push_strings(&top, header->environment_count, environment);
  push_auxiliary_vector(top, &program, (u64)header->strings);
  enter_program(program.entry, (u64)stack);
}
