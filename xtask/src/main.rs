//! The rules of the house, checked: dependency direction, budgets, first lines, unsafe.

fn main() {}
