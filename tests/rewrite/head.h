typedef u64 buffer[16];
int setj(buffer) __attribute__((returns_twice)); void longj(buffer, long) __attribute__((noreturn));
struct context { u64 sp, ra, s[12]; };
u64 switch_to(struct context *, struct context *, u64);
u64 both(u64, u64);
__asm__(".text\n"
".globl setj\n.type setj,@function\nsetj: sd ra,0(a0); sd sp,104(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n sd s\\n,8+8*\\n(a0)\n.endr\n li a0,0\n ret\n.size setj,.-setj\n"
".globl longj\n.type longj,@function\nlongj: ld ra,0(a0); ld sp,104(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n ld s\\n,8+8*\\n(a0)\n.endr\n seqz a0,a1\n add a0,a0,a1\n ret\n.size longj,.-longj\n"
".globl switch_to\n.type switch_to,@function\nswitch_to: sd sp,0(a0); sd ra,8(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n sd s\\n,16+8*\\n(a0)\n.endr\n ld sp,0(a1); ld ra,8(a1)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n ld s\\n,16+8*\\n(a1)\n.endr\n mv a0,a2\n ret\n.size switch_to,.-switch_to\n"
/* Results in t3 and t4, and nothing else is changed: a convention that no compiler has. */
".type odd,@function\nodd: mul t3,a0,a1; mulhu t4,a0,a1; ret\n.size odd,.-odd\n"
".globl both\n.type both,@function\nboth: mv t0,ra; call odd; add a0,t3,t4; sltu t5,a0,t3; add a0,a0,t5; mv ra,t0; ret\n.size both,.-both\n"
".macro small name, number\n.type \\name,@function\n\\name: mul a2,a0,a1; mulhu a3,a0,a1; xor a0,a2,a3; addi a0,a0,\\number; ret\n.size \\name,.-\\name\n.endm\n"
"small g0, 1\nsmall g1, 2\nsmall g2, 3\n"
".section .rodata\n.balign 8\n.globl words, halves, bytes\nwords: .word g0,g1,g2\nhalves: .half g0-g0,g1-g0,g2-g0\nbytes: .byte g0-g0,g1-g0,g2-g0\n.text\n");
extern const u32 words[]; extern const u16 halves[]; extern const u8 bytes[]; u64 g0(u64, u64), border(u64, u64);
static buffer env; static struct context contexts[3]; static u64 stacks[3][512]; static u64 out, running; static int failures;
