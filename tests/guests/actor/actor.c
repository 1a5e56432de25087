/* The actor of the campaign of whole transactions: does what a list of orders says, which it reads from the first
 * witness. All its state is at fixed addresses, so that a test may lay the pages out as it likes. Built as CONSTANT
 * (numbers of system calls are constants, where they are known) or as COMPUTED (they never are). */
typedef unsigned long u64;
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned short u16;

#define ORDERS_MAX 64
#define ORDERS ((volatile u64 *)0x28000)
#define REGS ((volatile u64 *)0x2a000)
#define LINE ((volatile u8 *)0x2a100)
#define SCRATCH ((volatile u64 *)0x2a200)
#define ARGUMENT ((volatile u8 *)0x2b000)
#define ARGUMENT_MAX 8000
#define NEVER __attribute__((noinline))

void start(long argc, char **argv, u64 stack);
u64 answer(u64 a, u64 b);
u64 answer_late(u64 a, u64 b);
u64 answer_print(u64 a, u64 b);
u64 answer_store(u64 a, u64 b);

/* The stack begins below the pages of the arguments. What may be called from loaded code stands in the table. */
__asm__(".section .text.start,\"ax\"\n.globl _start\n.type _start,@function\n_start:\n"
	".option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
	"lw a0,0(sp)\naddi a1,sp,8\nmv a2,sp\nli sp,0x3e0000\nj start\n.size _start,.-_start\n"
	".balign 64\n.quad answer,answer_late,answer_print,answer_store\n.text\n");

#define ASK(number, a7_from)                                                                                         \
	{                                                                                                            \
		register u64 a0 __asm__("a0") = a[0], a1 __asm__("a1") = a[1], a2 __asm__("a2") = a[2],              \
			 a3 __asm__("a3") = a[3], a4 __asm__("a4") = a[4], a5 __asm__("a5") = a[5],                  \
			 a7 __asm__("a7") = a7_from;                                                                 \
		__asm__ volatile("ecall"                                                                             \
				 : "+r"(a0)                                                                          \
				 : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)                              \
				 : "memory");                                                                        \
		return a0;                                                                                           \
	}

static NEVER u64 ask_computed(u64 number, const u64 *a)
{
	ASK(number, number)
}

#ifdef CONSTANT
#define CASE(number)                                                                                                 \
	case number:                                                                                                 \
		ASK(number, number)
static NEVER u64 ask_constant(u64 number, const u64 *a)
{
	switch (number) {
		CASE(93)
		CASE(2041)
		CASE(2042)
		CASE(2043)
		CASE(2052)
		CASE(2074)
		CASE(2091)
		CASE(2092)
		CASE(2177)
		CASE(2601)
		CASE(2602)
		CASE(2603)
		CASE(2604)
		CASE(2605)
		CASE(2606)
		CASE(2607)
		CASE(2608)
	}
	return ask_computed(number, a);
}
#else
#define ask_constant ask_computed
#endif

static u64 ask(u64 is_computed, u64 number, u64 a0, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
	u64 a[6] = {a0, a1, a2, a3, a4, a5};
	return is_computed ? ask_computed(number, a) : ask_constant(number, a);
}

static NEVER volatile u8 *hex(volatile u8 *to, u64 number)
{
	int at = 60;
	while (at > 0 && number >> at == 0)
		at -= 4;
	for (; at >= 0; at -= 4)
		*to++ = (u8)"0123456789abcdef"[number >> at & 15];
	*to++ = ' ';
	return to;
}

static NEVER void print(u64 what, u64 result, u64 flags)
{
	volatile u8 *to = hex(hex(LINE, what), result);
	if (flags & 2)
		to = hex(to, ask(flags & 4, 2042, 0, 0, 0, 0, 0, 0));
	*to = 0;
	ask(flags & 4, 2177, (u64)LINE, 0, 0, 0, 0, 0);
}

/* A literal, or register plus offset if the upper byte is 0xa5. */
static inline u64 value(u64 word)
{
	return word >> 56 == 0xa5 ? REGS[word & 15] + (word >> 8 & 0xffffffff) : word;
}

static NEVER void store(u64 address, u64 number, u64 width)
{
	switch (width) {
	case 1:
		*(volatile u8 *)address = (u8)number;
		break;
	case 2:
		*(volatile u16 *)address = (u16)number;
		break;
	case 4:
		*(volatile u32 *)address = (u32)number;
		break;
	default:
		*(volatile u64 *)address = number;
	}
}

static NEVER u64 load(u64 address, u64 width)
{
	switch (width) {
	case 1:
		return *(volatile u8 *)address;
	case 2:
		return *(volatile u16 *)address;
	case 4:
		return *(volatile u32 *)address;
	}
	return *(volatile u64 *)address;
}

static NEVER void fill_bytes(u64 at, u64 length, u64 with)
{
	for (u64 end = at + length; at < end; at++)
		*(volatile u8 *)at = (u8)with;
}

static NEVER void fill_words(u64 at, u64 length, u64 with)
{
	for (u64 end = at + length; at < end; at += 8)
		*(volatile u64 *)at = with;
}

static NEVER void copy(u64 to, u64 from, u64 length)
{
	for (u64 i = 0; i + 8 <= length; i += 8)
		*(volatile u64 *)(to + i) = *(volatile u64 *)(from + i);
}

static NEVER u64 sum(u64 at, u64 length)
{
	u64 hash = 0xcbf29ce484222325;
	for (u64 end = at + length; at < end; at += 8)
		hash = (hash ^ *(volatile u64 *)at) * 0x100000001b3;
	return hash;
}

static NEVER u64 work(u64 rounds)
{
	volatile u64 table[16];
	u64 state = rounds + 1;
	for (u64 i = 0; i < 16; i++)
		table[i] = i * 0x9e3779b97f4a7c15;
	for (u64 i = 0; i < rounds; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		table[state & 15] += state;
		state += table[state >> 8 & 15];
	}
	return state;
}

u64 NEVER answer(u64 a, u64 b)
{
	return work((a ^ b) & 31) + a * 3 + b;
}

u64 NEVER answer_late(u64 a, u64 b)
{
	for (u64 i = 0; i < (b & 7); i++)
		a = answer(a, i);
	return a;
}

u64 NEVER answer_print(u64 a, u64 b)
{
	print(0xcb, a ^ b, 0);
	return a + 1;
}

u64 NEVER answer_store(u64 a, u64 b)
{
	store(SCRATCH[30], a, 8);
	return b;
}

static u64 arguments(u64 child, u64 form, volatile u64 *argv)
{
	u64 argc = form & 0xff, length = form >> 8;
	if (length > ARGUMENT_MAX)
		length = ARGUMENT_MAX;
	ARGUMENT[0] = (u8)('A' + child);
	for (u64 i = 1; i <= length; i++)
		ARGUMENT[i] = (u8)('a' + (i & 15));
	ARGUMENT[length + 1] = 0;
	for (u64 i = 0; i < argc && i < 4; i++)
		argv[i] = (u64)ARGUMENT;
	return argc;
}

static NEVER u64 spawn(volatile u64 *w, u64 is_computed, u64 *pid)
{
	volatile u64 *s = SCRATCH;
	for (u64 i = 0, fds = w[7]; i < 3; i++, fds >>= 8)
		s[10 + i] = fds & 0xff ? REGS[(fds & 0xff) - 1] : 0;
	s[13] = 0;
	s[14] = 0;
	s[0] = arguments(w[5], w[6], s + 4);
	s[1] = (u64)(s + 4);
	s[2] = (u64)(s + 14);
	s[3] = (u64)(s + 10);
	u64 result = ask(is_computed, 2601, value(w[1]), value(w[2]), value(w[3]), value(w[4]), (u64)s, 0);
	*pid = s[14];
	return result;
}

static NEVER u64 transfer(volatile u64 *w, u64 is_computed, u64 *length)
{
	SCRATCH[16] = value(w[4]);
	u64 result = ask(is_computed, w[1], value(w[2]), value(w[3]), (u64)(SCRATCH + 16), 0, 0, 0);
	*length = SCRATCH[16];
	return result;
}

static NEVER u64 load_data(volatile u64 *w, u64 is_computed)
{
	SCRATCH[17] = value(w[2]);
	u64 number = w[6] ? w[6] : 2092;
	u64 result = ask(is_computed, number, value(w[1]), (u64)(SCRATCH + 17), value(w[3]), value(w[4]), w[5], 0);
	return result << 32 | (SCRATCH[17] & 0xffffffff);
}

static u64 run(u64 at);

/* Goes on with the next order below `depth` frames. */
static NEVER u64 deep(u64 depth, u64 at)
{
	volatile u64 mark = depth * 0x1234567;
	u64 result = depth == 0 ? run(at) : deep(depth - 1, at);
	return result + (mark != depth * 0x1234567);
}

typedef u64 called(u64, u64, u64, u64, u64);

static u64 run(u64 at)
{
	for (; at < ORDERS_MAX; at++) {
		volatile u64 *w = ORDERS + at * 8;
		u64 order = w[0] & 0xff, flags = w[0] >> 8 & 0xff, to = w[0] >> 16 & 15, is_computed = flags & 4;
		u64 result = 0, second = 0;
		switch (order) {
		case 0:
			return 0;
		case 1:
			result = ask(is_computed, w[1], value(w[2]), value(w[3]), value(w[4]), value(w[5]), value(w[6]), value(w[7]));
			break;
		case 2:
			for (u64 i = 0; i < w[4]; i++)
				store(value(w[1]) + i * w[5], value(w[2]) + i, w[3]);
			break;
		case 3:
			result = load(value(w[1]), w[2]);
			break;
		case 4:
			if (w[4])
				fill_words(value(w[1]), w[2], value(w[3]));
			else
				fill_bytes(value(w[1]), w[2], value(w[3]));
			break;
		case 5:
			result = sum(value(w[1]), w[2]);
			break;
		case 6:
			copy(value(w[1]), value(w[2]), w[3]);
			break;
		case 7:
			result = ((called *)value(w[1]))(value(w[2]), value(w[3]), value(w[4]), value(w[5]), value(w[6]));
			break;
		case 8:
			result = work(w[1]);
			break;
		case 9:
			REGS[to] -= 1;
			result = REGS[to];
			if (result)
				at = w[1] - 1;
			break;
		case 10:
			result = spawn(w, is_computed, &second);
			break;
		case 11:
			SCRATCH[18] = SCRATCH[19] = 0;
			result = ask(is_computed, 2604, (u64)(SCRATCH + 18), 0, 0, 0, 0, 0);
			REGS[(to + 1) & 15] = SCRATCH[19];
			second = SCRATCH[18];
			break;
		case 12:
			result = transfer(w, is_computed, &second);
			break;
		case 13:
			SCRATCH[20] = 0x77;
			result = ask(is_computed, 2602, value(w[1]), (u64)(SCRATCH + 20), 0, 0, 0, 0);
			second = SCRATCH[20];
			break;
		case 14: {
			u64 argc = arguments(w[5], w[6], SCRATCH + 4);
			result = ask(is_computed, 2043, value(w[1]), value(w[2]), value(w[3]), value(w[4]), argc,
				     (u64)(SCRATCH + 4));
			break;
		}
		case 15:
			SCRATCH[21] = w[1];
			SCRATCH[22] = SCRATCH[23] = SCRATCH[24] = 0;
			result = ask(is_computed, 2607, (u64)(SCRATCH + 22), (u64)(SCRATCH + 21), 0, 0, 0, 0);
			for (u64 i = 1; i < 3; i++)
				REGS[(to + i) & 15] = SCRATCH[22 + i];
			second = SCRATCH[22];
			break;
		case 16:
			result = load_data(w, is_computed);
			break;
		case 17:
			result = value(w[1]);
			break;
		case 18:
			if (REGS[to] == w[1])
				at += w[2];
			continue;
		case 19:
			return deep(w[1], at + 1);
		case 20:
			return value(w[1]);
		}
		if (order == 10 || order == 11 || order == 15)
			REGS[to] = second;
		else if (order != 9)
			REGS[to] = result;
		if (flags & 1)
			print(at << 8 | order, order >= 10 && order <= 15 ? result << 32 | (second & 0xffffffff) : result, flags);
	}
	return 0;
}

/* The first letter of the first argument, else the first byte of the script's own arguments, says which orders are
 * meant; a number for each at the beginning of the witness says where they start and how many there are. */
void NEVER start(long argc, char **argv, u64 stack)
{
	u64 which;
	volatile u64 *s = SCRATCH;
	/* Without arguments nothing is written where argc is read; a segment may have filled it. */
	if (stack < 0x3ffff0 && argc > 0) {
		which = (u8)argv[0][0] - 'A';
	} else {
		s[16] = 128;
		ask(0, 2052, (u64)ARGUMENT, (u64)(s + 16), 0, 0, 0, 0);
		which = ARGUMENT[53];
	}
	s[16] = 8;
	ask(0, 2074, (u64)(s + 18), (u64)(s + 16), which * 8, 0, 1, 0);
	u64 count = s[18] >> 32 & 63, from = s[18] & 0xffffffff;
	s[16] = count * 64;
	ask(0, 2074, (u64)ORDERS, (u64)(s + 16), from, 0, 1, 0);
	ORDERS[count * 8] = 0;
	ask(0, 93, run(0), 0, 0, 0, 0, 0);
	for (;;)
		;
}
