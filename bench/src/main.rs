//! Ratios against peers run in the same loop.

fn main() {}
