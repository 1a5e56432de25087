/* Ends an assembly guest: exit with a0. */
  .macro exit
  li a7, 93
  ecall
  .endm

/* A zero that no compiler sees: argc when there are no arguments. */
  .macro hidden_zero to
  lbu \to, 0(sp)
  .endm
