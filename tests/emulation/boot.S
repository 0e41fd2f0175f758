// The floppy's boot sector: from real mode to long mode in one step, then on to the stub, which
// bochs has placed at 1 MiB (`optramimage1` in run.sh).
//
// What it leaves behind: the low 4 GiB mapped one to one, writable and executable; code segment
// 0x10, data segments 0x18; SYSCALL enabled; interrupts off, for good.

    .set PAGE_TABLES, 0x1000        // PML4, then the PDPT, then four page directories
    .set PDPT, PAGE_TABLES + 0x1000
    .set PAGE_DIRECTORIES, PAGE_TABLES + 0x2000
    .set PAGE_TABLE_BYTES, 0x6000
    .set PRESENT_WRITABLE, 0x3
    .set PRESENT_WRITABLE_2M, 0x83
    .set STACK, 0x90000             // only until the stub takes its own
    .set STUB, 0x100000

    .set MSR_EFER, 0xc0000080

    .code16
    .globl _start
_start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp

    // bochs can also be a CPU without long mode. Bit 29 says so, in a leaf that not all CPUs have.
    movl $0x80000000, %eax
    cpuid
    cmpl $0x80000001, %eax
    jb no_long_mode
    movl $0x80000001, %eax
    cpuid
    btl $29, %edx
    jnc no_long_mode

    // Open address line A20 (bit 1); bit 0 of the same port would reset the machine.
    inb $0x92, %al
    orb $0x02, %al
    andb $0xfe, %al
    outb %al, $0x92

    // One PML4 entry, four PDPT entries and 2048 pages of 2 MiB make 4 GiB.
    movw $PAGE_TABLES, %di
    xorl %eax, %eax
    movw $PAGE_TABLE_BYTES / 4, %cx
    rep stosl
    movl $PDPT + PRESENT_WRITABLE, PAGE_TABLES
    movl $PAGE_DIRECTORIES + 0x0000 + PRESENT_WRITABLE, PDPT
    movl $PAGE_DIRECTORIES + 0x1000 + PRESENT_WRITABLE, PDPT + 8
    movl $PAGE_DIRECTORIES + 0x2000 + PRESENT_WRITABLE, PDPT + 16
    movl $PAGE_DIRECTORIES + 0x3000 + PRESENT_WRITABLE, PDPT + 24
    movw $PAGE_DIRECTORIES, %di
    movl $PRESENT_WRITABLE_2M, %eax
    movw $2048, %cx
1:  movl %eax, (%di)
    addl $0x200000, %eax
    addw $8, %di
    loop 1b

    lgdtl gdt_register
    movl $PAGE_TABLES, %eax
    movl %eax, %cr3
    movl $0x20, %eax                // CR4.PAE
    movl %eax, %cr4
    movl $MSR_EFER, %ecx
    rdmsr
    orl $0x101, %eax                // LME: long mode; SCE: the SYSCALL instruction
    wrmsr
    movl $0x80000001, %eax          // CR0.PG and CR0.PE at once: straight into long mode
    movl %eax, %cr0
    ljmpl $0x10, $long_mode

// Says why, as the stub's refuse() would, and asks bochs to end.
no_long_mode:
    movw $refusal, %si
    movw $0xe9, %dx
    call put
    movw $shutdown, %si
    movw $0x8900, %dx
    call put
    hlt

put:                                // writes the string at si to port dx
    lodsb
    testb %al, %al
    jz 1f
    outb %al, %dx
    jmp put
1:  ret

refusal:
    .asciz "\n@@emulation begin\n@@emulation refused this CPU model has no 64-bit mode\n"
shutdown:
    .asciz "Shutdown"

    .code64
long_mode:
    movw $0x18, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $STACK, %esp
    movl $STUB, %eax
    jmp *%rax

    // Selectors: 0x08 32-bit code (unused), 0x10 64-bit code, 0x18 data. SYSCALL wants the last two
    // next to each other.
    .balign 8
gdt:
    .quad 0, 0x00cf9b000000ffff, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_register:
    .word gdt_register - gdt - 1
    .long gdt

    .org 510
    .word 0xaa55                    // what the BIOS takes for a boot sector
