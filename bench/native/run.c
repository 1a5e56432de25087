/* What other engines call: runs a guest's main with the argument as text. For PolkaVM it is exported in the form that its
 * linker reads. */
#undef main

int guest_main(int argc, char **argv);

int run(int repetitions)
{
	char text[12], *at = text + sizeof text - 1, *arguments[2];
	*at = 0;
	do
		*--at = (char)('0' + repetitions % 10);
	while (repetitions /= 10);
	arguments[0] = at;
	arguments[1] = 0;
	return guest_main(1, arguments);
}

#ifdef __riscv
__asm__(".section .rodata.run_name, \"a\"\n"
	"run_name: .ascii \"run\"\n"
	".section .polkavm_metadata, \"aw\"\n"
	"run_metadata:\n"
	".byte 1\n.4byte 0\n.4byte 3\n.8byte run_name\n.byte 1\n.byte 1\n"
	".section .polkavm_exports, \"aw\"\n"
	".byte 1\n.8byte run_metadata\n.8byte run\n"
	".text\n");
#endif
