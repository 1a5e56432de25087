//! The command antares: serve, compile, run, explain.

fn main() {}
