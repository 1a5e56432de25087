//! Words of a script: texts in its file, numbers in its code, and numbers that cause overflows.

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_ir::Op;

/// Maximum words.
const WORDS_MAX: usize = 1024;
/// Bytes of a text.
const TEXT_BYTES: std::ops::RangeInclusive<usize> = 3..=64;
/// Maximum operations to inspect.
const OPERATIONS_MAX: u64 = 2_000_000;

/// The version as which code is read.
const VM_VERSION: u32 = 2;

/// The words of `elf`, each once, in order.
pub(crate) fn words(elf: &[u8]) -> Vec<Vec<u8>> {
    let mut words = edges();
    words.extend(numbers(elf));
    words.extend(texts(elf));
    let mut known = std::collections::HashSet::new();
    words.retain(|word| known.insert(word.clone()));
    words.truncate(WORDS_MAX);
    words
}

/// Boundary values of 4, 8 and 16 bytes.
fn edges() -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for bytes in [4, 8, 16] {
        let mut top = vec![0; bytes];
        top[bytes - 1] = 0x80;
        let mut half = vec![0xff; bytes];
        half[bytes - 1] = 0x7f;
        words.extend([vec![0xff; bytes], vec![0; bytes], top, half]);
    }
    words
}

/// Large constants of the lifted program, in 4 or 8 bytes.
fn numbers(elf: &[u8]) -> Vec<Vec<u8>> {
    let options = CompileOptions { vm_version: VM_VERSION, isa: Isa::of_version(VM_VERSION) };
    let limits = CompileLimits::default();
    let Ok(image) = antares_program::read(elf, options, &limits) else { return Vec::new() };
    let Ok(program) = antares_program::recover(&image, &limits, &Hints::default()) else { return Vec::new() };
    let Ok(module) = antares_lift::lift(&program, OPERATIONS_MAX) else { return Vec::new() };
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    let numbers = blocks.flat_map(|block| &block.ops).filter_map(|op| match op {
        Op::Const(number) if number.unsigned_abs() > 0xff => Some(*number),
        _ => None,
    });
    let code = program.code_start..program.code_end;
    let is_data = |number: &i64| !code.contains(&number.cast_unsigned());
    let numbers: std::collections::BTreeSet<i64> = numbers.filter(is_data).collect();
    let word = |number: i64| match i32::try_from(number) {
        Ok(number) => number.to_le_bytes().to_vec(),
        Err(_) => number.to_le_bytes().to_vec(),
    };
    numbers.into_iter().map(word).take(WORDS_MAX / 2).collect()
}

/// Printable texts.
fn texts(elf: &[u8]) -> Vec<Vec<u8>> {
    let lines = elf.split(|byte| !(0x20..0x7f).contains(byte));
    let lines = lines.filter(|line| TEXT_BYTES.contains(&line.len()));
    // Names of sections and of the compiler come last.
    lines.map(<[u8]>::to_vec).take(WORDS_MAX / 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_file_and_turning_points_are_words() {
        let words = words(b"\0\x01magic word\0\xff\0ab\0");
        assert!(words.contains(&b"magic word".to_vec()));
        assert!(!words.contains(&b"ab".to_vec()));
        assert!(words.contains(&vec![0xff; 16]));
    }
}
