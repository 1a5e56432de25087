//! Handwritten linked ELF files: code, functions and relocations.

use antares_tests::asm::encode;

/// Address of code.
pub(crate) const CODE: u64 = 0x10000;
/// Address of data.
pub(crate) const DATA: u64 = 0x20000;

pub(crate) const FUNCTION: u8 = 2;
pub(crate) const LABEL: u8 = 0;

/// A symbol: name, first word of code, words, type.
pub(crate) type Symbol = (&'static str, usize, usize, u8);

/// A relocation: its address, type and target.
pub(crate) type Relocation = (u64, u32, u64);

/// A file.
#[derive(Clone, Default)]
pub(crate) struct Linked {
    pub(crate) code: Vec<u32>,
    pub(crate) data: Vec<u8>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) relocations: Vec<Relocation>,
    /// Distance of the code from `CODE`.
    pub(crate) above: u64,
}

/// Bytes before the loaded part.
pub(crate) const HEADERS: usize = 64 + 2 * 56;
const RELA_TEXT: u64 = 3;

impl Linked {
    /// A file with one function, which consists of this code.
    pub(crate) fn of(code: &[u32]) -> Self {
        let symbols = vec![("main", 0, code.len(), FUNCTION)];
        Self { code: code.to_vec(), symbols, relocations: vec![(CODE, 0, CODE)], ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let base = CODE + self.above;
        let code: Vec<u8> = self.code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut strings = b"\0".to_vec();
        let mut symbols = vec![0; 24];
        symbols.extend(symbol(0, 3, base, 0));
        for (name, first, words, kind) in &self.symbols {
            symbols.extend(symbol(strings.len() as u32, *kind, base + 4 * *first as u64, 4 * *words as u64));
            strings.extend(name.bytes().chain([0]));
        }
        let mut relocations = Vec::new();
        for (place, kind, target) in &self.relocations {
            relocations.extend(place.to_le_bytes());
            relocations.extend((1_u64 << 32 | u64::from(*kind)).to_le_bytes());
            relocations.extend(target.wrapping_sub(base).to_le_bytes());
        }
        let mut body = Vec::new();
        let mut place = |bytes: &[u8]| {
            let at = body.len();
            body.extend_from_slice(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
            ((HEADERS + at) as u64, bytes.len() as u64)
        };
        // Code and data start at page boundaries, as do their addresses.
        let padding = vec![0; 4096 - HEADERS];
        place(&padding);
        let code_at = place(&code);
        place(&vec![0; 4096 - code.len().next_multiple_of(8) % 4096]);
        let data_at = place(&self.data);
        let parts = [place(&relocations), place(&symbols), place(&strings)];
        let sections = (HEADERS + body.len()) as u64;
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
        file.extend([base, 64, sections].iter().flat_map(|number| number.to_le_bytes()));
        file.extend([1, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 6, 0, 5, 0]);
        for (flags, address, (at, length), memory) in [(5_u32, base, code_at, 0), (6, DATA, data_at, 4096)] {
            file.extend([1, flags].iter().flat_map(|number: &u32| number.to_le_bytes()));
            let numbers = [at, address, address, length, length.max(memory), 4096];
            file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        file.extend(body);
        file.extend([0; 64]);
        file.extend(section(1, 6, [base, code_at.0, code_at.1], [0, 0], 0));
        file.extend(section(1, 3, [DATA, data_at.0, data_at.1], [0, 0], 0));
        file.extend(section(4, 0x40, [0, parts[0].0, parts[0].1], [4, 1], 24));
        file.extend(section(2, 0, [0, parts[1].0, parts[1].1], [5, 2], 24));
        file.extend(section(RELA_TEXT as u32, 0, [0, parts[2].0, parts[2].1], [0, 0], 0));
        file
    }
}

fn symbol(name: u32, kind: u8, address: u64, size: u64) -> Vec<u8> {
    let mut bytes = name.to_le_bytes().to_vec();
    bytes.extend([0x10 | kind, 0, 1, 0]);
    bytes.extend([address, size].iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// A section header: type, flags; address, offset, size; link, info; bytes of an entry.
fn section(kind: u32, flags: u64, place: [u64; 3], about: [u32; 2], entry: u64) -> Vec<u8> {
    let mut bytes = [0_u32, kind].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    bytes.extend([flags, place[0], place[1], place[2]].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(about.iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([8, entry].iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// An operation on two registers.
pub(crate) fn two(funct7: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    encode::r(0x33, funct3, funct7, rd as u8, rs1 as u8, rs2 as u8)
}

pub(crate) fn add(rd: u32, rs1: u32, rs2: u32) -> u32 {
    two(0, 0, rd, rs1, rs2)
}

pub(crate) fn mul(rd: u32, rs1: u32, rs2: u32) -> u32 {
    two(1, 0, rd, rs1, rs2)
}

pub(crate) fn mulhu(rd: u32, rs1: u32, rs2: u32) -> u32 {
    two(1, 3, rd, rs1, rs2)
}

pub(crate) fn addi(rd: u32, rs1: u32, number: i32) -> u32 {
    encode::i(0x13, 0, rd as u8, rs1 as u8, number)
}

pub(crate) fn lui(rd: u32, number: u32) -> u32 {
    encode::u(0x37, rd as u8, number)
}

/// A load of `funct3`'s width.
pub(crate) fn load(funct3: u32, rd: u32, base: u32, offset: u32) -> u32 {
    encode::i(3, funct3, rd as u8, base as u8, offset as i32)
}

/// A store of `funct3`'s width.
pub(crate) fn store(funct3: u32, data: u32, base: u32, offset: u32) -> u32 {
    encode::s(funct3, base as u8, data as u8, offset as i32)
}

/// A branch over `words`: 0 if equal, 1 if not.
pub(crate) fn branch(funct3: u32, rs1: u32, rs2: u32, words: i32) -> u32 {
    encode::b(funct3, rs1 as u8, rs2 as u8, 4 * i64::from(words)).unwrap()
}

/// A jump over `words`, with the return address in `rd`.
pub(crate) fn jal(rd: u32, words: i32) -> u32 {
    encode::jal(rd as u8, 4 * i64::from(words)).unwrap()
}

/// A jump to the address in `base`.
pub(crate) fn jalr(rd: u32, base: u32) -> u32 {
    encode::i(0x67, 0, rd as u8, base as u8, 0)
}

pub(crate) const RET: u32 = 0x8067;
pub(crate) const ECALL: u32 = 0x73;
pub(crate) const NOP: u32 = 0x13;
