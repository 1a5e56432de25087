//! ELF bytes to Image to Program: segments, functions, blocks of decoded instructions. Knows no LLVM.
