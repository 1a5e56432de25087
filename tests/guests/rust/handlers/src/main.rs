//! A small machine whose instructions are functions in a table, each of which may panic. The last argument is
//! the number of rounds; `bounds`, `overflow`, `expect` or `divide` before it makes the last round panic.
#![no_std]
#![no_main]

extern crate atomics as _;

use alloc::vec::Vec;
use core::hint::black_box;

use ckb_std::{default_alloc, entry, env};

entry!(main);
default_alloc!();

/// State of a program.
struct State {
    stack: Vec<u64>,
    memory: [u64; 32],
    next: usize,
    steps: u32,
}

type Handler = fn(&mut State, u8);

static HANDLERS: [Handler; 10] =
    [push, add, subtract, multiply, divide, load, store, jump_back, duplicate, turn];

impl State {
    fn pop(&mut self) -> u64 {
        self.stack.pop().expect("the stack is empty")
    }
}

fn push(state: &mut State, operand: u8) {
    state.stack.push(u64::from(operand));
}

fn add(state: &mut State, _: u8) {
    let (right, left) = (state.pop(), state.pop());
    state.stack.push((left & 0xffff_ffff) + (right & 0xffff_ffff));
}

fn subtract(state: &mut State, _: u8) {
    let (right, left) = (state.pop(), state.pop());
    state.stack.push(left - right);
}

fn multiply(state: &mut State, operand: u8) {
    let left = state.pop();
    state.stack.push((left & 0xffff_ffff) * (u64::from(operand) + 3));
}

fn divide(state: &mut State, operand: u8) {
    let left = state.pop();
    state.stack.push(left / black_box(u64::from(operand)));
}

fn load(state: &mut State, operand: u8) {
    state.stack.push(state.memory[usize::from(operand)]);
}

fn store(state: &mut State, operand: u8) {
    state.memory[usize::from(operand)] = state.pop();
}

fn jump_back(state: &mut State, operand: u8) {
    if state.memory[0] > 0 {
        state.memory[0] -= 1;
        state.next -= usize::from(operand);
    }
}

fn duplicate(state: &mut State, _: u8) {
    let top = *state.stack.last().expect("nothing to duplicate");
    state.stack.push(top);
}

fn turn(state: &mut State, operand: u8) {
    let top = state.pop();
    state.stack.push(top.rotate_left(u32::from(operand)) ^ 0x5bd1_e995);
}

fn run(program: &[(u8, u8)]) -> (u64, u32) {
    let mut state = State { stack: Vec::new(), memory: [0; 32], next: 0, steps: 0 };
    while let Some((code, operand)) = program.get(state.next) {
        state.next += 1;
        state.steps += 1;
        HANDLERS[usize::from(*code)](&mut state, *operand);
    }
    (state.pop(), state.steps)
}

/// Counts down in `memory[0]` and mixes in `memory[1]`; `last` is its final part.
fn program(turns: u8, last: &[(u8, u8)]) -> Vec<(u8, u8)> {
    let mut program = Vec::from([(0, turns), (6, 0), (0, 7), (6, 1)]);
    program.extend([(5, 1), (3, 4), (9, 13), (0, 200), (1, 0), (8, 0), (4, 9), (1, 0), (6, 1), (7, 10)]);
    program.extend([(0, 90), (0, 50), (2, 0), (5, 1), (1, 0)]);
    program.extend(last);
    program
}

fn main() -> i8 {
    let words: Vec<&str> = env::argv().iter().filter_map(|word| word.to_str().ok()).collect();
    let rounds = words.last().and_then(|word| word.parse().ok()).unwrap_or(1_u32);
    let last = match words.first() {
        Some(&"bounds") => &[(5, 99)][..],
        Some(&"overflow") => &[(0, 1), (0, 2), (2, 0)],
        Some(&"expect") => &[(1, 0)],
        Some(&"divide") => &[(4, 0)],
        _ => &[],
    };
    let mut sum = 0_u64;
    for round in 0..rounds {
        let end = if round + 1 == rounds { last } else { &[] };
        let (result, steps) = run(&program((round % 200) as u8, end));
        sum = sum.rotate_left(7) ^ result ^ u64::from(steps);
    }
    ((sum ^ sum >> 32) & 0x7f) as i8
}
