//! Program to IR: what each block does, its cycles and its address checks; text form and verifier.
