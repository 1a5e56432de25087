//! The jailed child around the compiler.

fn main() {}
