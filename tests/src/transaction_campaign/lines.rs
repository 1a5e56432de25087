//! Long straight-line traces with fusions: functions without a branch, whose traces have about as many bytes
//! as one byte can count.

use crate::{
    asm::{compressed, encode, operations},
    generate::Random,
};

/// Number of traces in one segment.
const LINES: usize = 20;
/// `c.nop`.
const SHORT_NOP: u16 = 0x0001;
/// `ret`.
const RETURN: u16 = 0x8082;

/// Code of traces at `address`, and addresses to call: starts, and positions inside.
pub(super) fn lines(random: &mut Random, address: u64) -> (Vec<u8>, Vec<u64>) {
    let (mut code, mut entries) = (Vec::new(), Vec::new());
    for _ in 0..LINES {
        for _ in 0..random.below(4) {
            code.extend(SHORT_NOP.to_le_bytes());
        }
        let start = code.len();
        entries.push(address + start as u64);
        for _ in 0..random.below(4) {
            single(random, &mut code);
        }
        let is_short = random.one_in(4);
        for _ in 0..random.between(11, 15) {
            fusion(random, is_short, &mut code);
            if random.one_in(24) {
                single(random, &mut code);
            }
        }
        for _ in 0..random.below(5) {
            single(random, &mut code);
        }
        if random.one_in(2) {
            // Usually in the middle of a fusion.
            entries.push(address + (start + 4 * random.below(20) as usize) as u64);
        }
        word(&mut code, encode::r(0x33, 4, 0, 10, 11, 12));
        word(&mut code, encode::r(0x33, 0, 0, 10, 10, 14));
        code.extend(RETURN.to_le_bytes());
    }
    (code, entries)
}

fn word(code: &mut Vec<u8>, word: u32) {
    code.extend(word.to_le_bytes());
}

/// A single instruction, not fused.
fn single(random: &mut Random, code: &mut Vec<u8>) {
    match random.below(3) {
        0 => code.extend(compressed::arithmetic(15, 14, 13, 0).to_le_bytes()),
        _ => word(code, encode::i(0x13, 0, 14, 14, 1)),
    }
}

/// Five instructions that versions 1 and 2 fuse.
fn fusion(random: &mut Random, is_short: bool, code: &mut Vec<u8>) {
    let rows = match random.below(4) {
        0 => [
            ("sub", 12, 11, 12),
            ("sltu", 15, 11, 12),
            ("sub", 11, 12, 13),
            ("sltu", 13, 12, 11),
            ("or", 12, 13, 15),
        ],
        _ => [
            ("add", 11, 11, 12),
            ("sltu", 12, 11, 12),
            ("add", 11, 11, 13),
            ("sltu", 13, 11, 13),
            ("or", 12, 12, 13),
        ],
    };
    for (name, rd, rs1, rs2) in rows {
        if is_short && name == "add" && random.one_in(2) {
            code.extend(compressed::arithmetic(15, rd, rs2, 0).to_le_bytes());
        } else {
            word(code, operations::named(name).encode(rd, rs1, rs2, 0));
        }
    }
}
