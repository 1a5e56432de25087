# The script of `helm test`: counts down from 1000 and exits with 0. Made with
#   riscv64-unknown-elf-gcc -march=rv64imc -mabi=lp64 -nostdlib -static -s -Wl,-n -Wl,--build-id=none -o smoke.elf smoke.s
# smoke.cycles is what ckb-vm charges for it, as `antares run --tier interpreter --json smoke.elf` says.
    .globl _start
_start:
    li a0, 1000
again:
    addi a0, a0, -1
    bnez a0, again
    li a7, 93
    ecall
