//! Names functions without symbols by the constant tables that they reference.

use std::collections::{BTreeMap, BTreeSet};

use antares_program::{Block, Op, Program, Reg};
use object::{Object, ObjectSegment, read::elf::ElfFile64};

/// Maximum distance of a reference from the start of a table.
const TABLE_BYTES: u64 = 8;

/// The first bytes of tables that only one algorithm has.
const TABLES: [(&str, &[u8]); 8] = [
    ("aes", &[0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5]),
    ("blake2", &[14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3]),
    ("blake2", &[14, 0, 0, 0, 10, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0]),
    // The initial state, which both have in common.
    ("blake2b or sha512", &[0x08, 0xc9, 0xbc, 0xf3, 0x67, 0xe6, 0x09, 0x6a]),
    ("crc32", &[0x96, 0x30, 0x07, 0x77, 0x2c, 0x61, 0x0e, 0xee]),
    ("keccak", &[0x8a, 0x80, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0, 0, 0x80]),
    ("sha256", &[0x98, 0x2f, 0x8a, 0x42, 0x91, 0x44, 0x37, 0x71]),
    ("sha512", &[0x22, 0xae, 0x28, 0xd7, 0x98, 0x2f, 0x8a, 0x42]),
];

/// Distance of the found sequence from the start of its table.
const fn before(name: &str) -> u64 {
    match name.as_bytes() {
        b"blake2" => 64,
        b"keccak" => 16,
        b"crc32" => 4,
        _ => 0,
    }
}

/// Algorithm names by entry of the functions that reference their tables. Only a hint: a function may
/// reference a table for another reason.
pub(crate) fn recognised(elf: &[u8], program: &Program) -> BTreeMap<u64, String> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(elf) else { return BTreeMap::new() };
    let tables: Vec<(u64, u64, &str)> = tables(&file).collect();
    let mut found = BTreeMap::new();
    if tables.is_empty() {
        return found;
    }
    for function in &program.functions {
        let mut names = BTreeSet::new();
        for block in &function.blocks {
            constants(block, |value| {
                names.extend(
                    tables.iter().filter(|(from, to, _)| (*from..*to).contains(&value)).map(|table| table.2),
                );
            });
        }
        if !names.is_empty() {
            found.insert(function.entry.0, Vec::from_iter(names).join(", "));
        }
    }
    found
}

/// Address ranges of references to each table.
fn tables<'a>(file: &'a ElfFile64<'a>) -> impl Iterator<Item = (u64, u64, &'static str)> + 'a {
    file.segments().flat_map(|segment| {
        let (address, data) = (segment.address(), segment.data().unwrap_or_default());
        TABLES.into_iter().filter_map(move |(name, bytes)| {
            let at = data.windows(bytes.len()).position(|window| window == bytes)?;
            let start = address.checked_add(at as u64)?;
            Some((start.saturating_sub(before(name)), start.checked_add(TABLE_BYTES)?, name))
        })
    })
}

/// Calls `see` with every constant that `block` computes from immediates and addresses of its own code.
fn constants(block: &Block, mut see: impl FnMut(u64)) {
    let mut known: BTreeMap<Reg, u64> = BTreeMap::new();
    for (pc, instruction) in &block.instructions {
        let of =
            |register| known.get(&register).map(|value: &u64| value.wrapping_add_signed(instruction.imm));
        let value = match instruction.op {
            Op::Lui | Op::LoadImm => Some(instruction.imm.cast_unsigned()),
            Op::Auipc => Some(pc.0.wrapping_add_signed(instruction.imm)),
            Op::Addi | Op::Addiw => of(instruction.rs1),
            // The address of a load counts, too.
            _ => {
                of(instruction.rs1).into_iter().for_each(&mut see);
                None
            }
        };
        match value {
            Some(value) => {
                see(value);
                known.insert(instruction.rd, value);
            }
            None => drop(known.remove(&instruction.rd)),
        }
    }
}
