// The stub's assembly: the CPU's set-up, and the ways in and out of C.

    .code64
    .section .text.start, "ax"

// From the boot sector, at 1 MiB.
    .globl _start
_start:
    lea stack_top(%rip), %rsp

    mov %cr0, %rax
    and $~0xc, %rax                 // EM and TS off: floating-point instructions do not trap
    or $0x22, %rax                  // MP, NE
    mov %rax, %cr0
    mov %cr4, %rax
    or $0x600, %rax                 // OSFXSR, OSXMMEXCPT: SSE
    mov %rax, %cr4
    fninit

    // Where the CPU has XSAVE, enable every register state that it offers and that a program may
    // use: x87, SSE, AVX (bits 0-2), the three of AVX-512 (5-7), PKRU (9) and the two of AMX (17,
    // 18). Programs read XCR0 before they use AVX or AVX-512: this is what makes the CPU's features
    // usable.
    mov $1, %eax
    cpuid
    bt $26, %ecx
    jnc 1f
    mov %cr4, %rax
    or $0x40000, %rax               // OSXSAVE
    mov %rax, %cr4
    mov $0xd, %eax
    xor %ecx, %ecx
    cpuid                           // eax: the states this CPU offers
    and $0x602e7, %eax
    xor %edx, %edx
    xor %ecx, %ecx
    xsetbv
1:
    call stub_main                  // does not return

    .text

// The target of SYSCALL: rax is the number, rdi rsi rdx r10 r8 r9 are the arguments, rcx and r11
// hold the program's rip and flags. The program runs in ring 0 too, so the way back is a jump.
// Nothing is written to the program's stack: the 128 bytes below its pointer belong to the program.
    .globl syscall_entry
syscall_entry:
    mov %rsp, program_rsp(%rip)
    lea stack_top(%rip), %rsp
    push %rcx
    push %r11
    push %r9
    push %r8
    push %r10
    push %rdx
    push %rsi
    push %rdi
    mov %rax, %rdi
    mov %rsp, %rsi                  // the six arguments, now an array
    call handle_syscall
    pop %rdi
    pop %rsi
    pop %rdx
    pop %r10
    pop %r8
    pop %r9
    mov 8(%rsp), %rcx
    popfq                           // from r11's place
    mov program_rsp(%rip), %rsp
    jmp *%rcx

// enter_program(entry, stack pointer): registers start as Linux leaves them. rdx = 0 matters: it
// would be a function for atexit.
    .globl enter_program
enter_program:
    mov %rsi, %rsp
    mov %rdi, %rcx
    xor %eax, %eax
    xor %ebx, %ebx
    xor %edx, %edx
    xor %esi, %esi
    xor %edi, %edi
    xor %ebp, %ebp
    jmp *%rcx

// One entry per exception, 16 bytes apart; each leaves a struct ExceptionFrame on the stack.
// Vectors 8, 10 to 14, 17 and 21 come with an error code; the others get a zero in its place.
    .set VECTORS_WITH_ERROR_CODE, 0x227d00
    .globl exception_entries
    .balign 16
exception_entries:
    .set vector, 0
    .rept 32
    .balign 16
    .if !((VECTORS_WITH_ERROR_CODE >> vector) & 1)
    push $0
    .endif
    push $vector
    jmp exception_common
    .set vector, vector + 1
    .endr

exception_common:
    mov %rsp, %rdi
    and $-16, %rsp
    call handle_exception           // does not return

    .bss
    .balign 64
    .space 65536
stack_top:
program_rsp:
    .quad 0
