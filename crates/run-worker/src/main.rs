//! The jailed child around the machine: no LLVM, no tokio.

fn main() {}
