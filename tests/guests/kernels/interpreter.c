/* A stack machine: a switch (jump table) in a loop and calls through a table of function pointers; the argument is
 * the number of runs of its little program. */
#include <stdint.h>
#include "argument.h"

enum { PUSH, ADD, SUB, MUL, XOR, SHL, DUP, SWAP, JUMP_IF, LOAD, STORE, CALL, DROP, LESS, HALT, OVER };

typedef int64_t (*function)(int64_t, int64_t);

__attribute__((noinline)) static int64_t add3(int64_t a, int64_t b) { return a + b * 3; }
__attribute__((noinline)) static int64_t mix(int64_t a, int64_t b) { return a ^ (b >> 3); }
__attribute__((noinline)) static int64_t times5(int64_t a, int64_t b) { return a * 5 - b; }
__attribute__((noinline)) static int64_t either(int64_t a, int64_t b) { return (a | b) + 1; }

function functions[4] = { add3, mix, times5, either };
static int64_t memory[64];

__attribute__((noinline)) static int64_t run(const int32_t *code, int64_t input)
{
	int64_t stack[32];
	int64_t *sp = stack;
	long pc = 0;
	*sp = input;
	for (;;) {
		int32_t word = code[pc++];
		int32_t operand = word >> 8;
		switch (word & 255) {
		case PUSH: *++sp = operand; break;
		case ADD: sp[-1] += sp[0]; sp--; break;
		case SUB: sp[-1] -= sp[0]; sp--; break;
		case MUL: sp[-1] *= sp[0]; sp--; break;
		case XOR: sp[-1] ^= sp[0]; sp--; break;
		case SHL: sp[0] = (int64_t)((uint64_t)sp[0] << (operand & 63)); break;
		case DUP: sp[1] = sp[0]; sp++; break;
		case SWAP: { int64_t top = sp[0]; sp[0] = sp[-1]; sp[-1] = top; break; }
		case JUMP_IF: if (*sp--) pc = operand; break;
		case LOAD: *++sp = memory[operand & 63]; break;
		case STORE: memory[operand & 63] = *sp--; break;
		case CALL: sp[-1] = functions[operand & 3](sp[-1], sp[0]); sp--; break;
		case DROP: sp--; break;
		case LESS: sp[-1] = sp[-1] < sp[0]; sp--; break;
		case OVER: sp[1] = sp[-1]; sp++; break;
		case HALT: return *sp;
		default: return -1;
		}
	}
}

#define I(operation, operand) ((operation) | ((operand) << 8))
static int32_t program[64] = {
	I(STORE, 0), I(PUSH, 20), I(STORE, 1),
	/* 3: */ I(LOAD, 0), I(PUSH, 7), I(MUL, 0), I(LOAD, 1), I(CALL, 0), I(DUP, 0), I(SHL, 3), I(XOR, 0),
	I(LOAD, 1), I(CALL, 1), I(PUSH, 13), I(CALL, 2), I(OVER, 0), I(DROP, 0), I(LOAD, 0), I(SWAP, 0), I(SUB, 0),
	I(LOAD, 1), I(CALL, 3), I(STORE, 0), I(LOAD, 1), I(PUSH, 1), I(SUB, 0), I(DUP, 0), I(STORE, 1), I(PUSH, 0),
	I(SWAP, 0), I(LESS, 0), I(JUMP_IF, 3), I(LOAD, 0), I(HALT, 0),
};

int main(int argc, char **argv)
{
	int64_t hash = argc;
	long runs = argument(argc, argv, 100);
	for (long i = 0; i < runs; i++)
		hash = run(program, hash + i);
	return (hash ^ (hash >> 32)) & 0x7f;
}
