//! Compressed instructions: fields in, 16-bit word out. Register fields of three bits name x8 to x15.

use super::Register;

/// Number of [`arithmetic`] operations.
pub const ARITHMETIC: u32 = 18;

fn word(parts: &[(u32, u32)]) -> u16 {
    let bits = parts.iter().fold(0, |bits, (value, shift)| bits | value << shift);
    (bits & 0xffff) as u16
}

/// Moves bits `from..from+width` of `value` to position `to`.
fn moved(value: u32, from: u32, width: u32, to: u32) -> (u32, u32) {
    (value >> from & ((1 << width) - 1), to)
}

/// The register-only operation with number `kind`. `rd` and `rs2` lose their upper bits where the form has
/// three bits. Unencodable forms (an immediate of zero, `c.lui` into sp) become a neighbouring encodable one.
/// Hints with rd = x0 or a zero immediate stay: their legality depends on the VM version.
#[must_use]
pub fn arithmetic(kind: u32, rd: Register, rs2: Register, immediate: u32) -> u16 {
    let (rd, rs2) = (u32::from(rd & 31), u32::from(rs2 & 31));
    let six = [moved(immediate, 0, 5, 2), moved(immediate, 5, 1, 12)];
    let with = |opcode: u32, field: u32| word(&[(opcode, 0), (field, 7), six[0], six[1]]);
    let small = rd & 7;
    let pair = |code: u32| word(&[(0x8c01 | code, 0), (small, 7), (rs2 & 7, 2)]);
    match kind {
        0 => with(0x0001, rd),
        1 => with(0x2001, rd.max(1)),
        2 => with(0x4001, rd),
        3 => {
            let rd = if rd == 2 { 3 } else { rd };
            word(&[(0x6001, 0), (rd, 7), moved(immediate | 1, 0, 5, 2), six[1]])
        }
        4..=6 => with(0x8001 + 0x400 * (kind - 4), small),
        7..=12 => pair([0, 0x20, 0x40, 0x60, 0x1000, 0x1020][kind as usize - 7]),
        13 => with(0x0002, rd),
        14 | 15 => word(&[(0x8002, 0), (kind & 1, 12), (rd, 7), (rs2.max(1), 2)]),
        16 => {
            let offset = (immediate & 255).max(1) << 2;
            let high = [moved(offset, 4, 2, 11), moved(offset, 6, 4, 7)];
            word(&[(0, 0), (small, 2), moved(offset, 3, 1, 5), moved(offset, 2, 1, 6), high[0], high[1]])
        }
        _ => 0x0001,
    }
}

/// `c.lw`, `c.ld`, `c.sw`, `c.sd` (0 to 3): `value` and `base` are x8 to x15, the offset is scaled to the
/// width.
#[must_use]
pub fn memory(kind: u32, value: Register, base: Register, offset: u32) -> u16 {
    let (value, base) = (u32::from(value & 7), u32::from(base & 7));
    let opcode = [0x4000, 0x6000, 0xc000, 0xe000][kind as usize & 3];
    let low = if kind & 1 == 0 {
        [moved(offset, 2, 1, 6), moved(offset, 6, 1, 5)]
    } else {
        [moved(offset, 6, 2, 5), (0, 0)]
    };
    word(&[(opcode, 0), (value, 2), (base, 7), moved(offset, 3, 3, 10), low[0], low[1]])
}

/// `c.lwsp`, `c.ldsp`, `c.swsp`, `c.sdsp` (0 to 3).
#[must_use]
pub fn stack(kind: u32, register: Register, offset: u32) -> u16 {
    let register = u32::from(register & 31);
    let (target, middle) = ((register.max(1), 7), moved(offset, 5, 1, 12));
    match kind & 3 {
        0 => word(&[(0x4002, 0), target, moved(offset, 2, 3, 4), middle, moved(offset, 6, 2, 2)]),
        1 => word(&[(0x6002, 0), target, moved(offset, 3, 2, 5), middle, moved(offset, 6, 3, 2)]),
        2 => word(&[(0xc002, 0), (register, 2), moved(offset, 2, 4, 9), moved(offset, 6, 2, 7)]),
        _ => word(&[(0xe002, 0), (register, 2), moved(offset, 3, 3, 10), moved(offset, 6, 3, 7)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words from `riscv64-unknown-elf-as`.
    #[test]
    fn words_are_those_of_gnu_as() {
        assert_eq!(arithmetic(0, 10, 0, 0x3f), 0x157d, "c.addi a0, -1");
        assert_eq!(arithmetic(3, 10, 0, 0x3f), 0x757d, "c.lui a0, 0xfffff");
        assert_eq!(arithmetic(5, 10, 0, 33), 0x9505, "c.srai a0, 33");
        assert_eq!(arithmetic(12, 10, 11, 0), 0x9d2d, "c.addw a0, a1");
        assert_eq!(arithmetic(14, 1, 31, 0), 0x80fe, "c.mv ra, t6");
        assert_eq!(arithmetic(16, 10, 0, 129), 0x0448, "c.addi4spn a0, sp, 516");
        assert_eq!(memory(0, 10, 11, 68), 0x41e8, "c.lw a0, 68(a1)");
        assert_eq!(memory(3, 10, 11, 200), 0xe5e8, "c.sd a0, 200(a1)");
        assert_eq!(stack(0, 10, 252), 0x557e, "c.lwsp a0, 252(sp)");
        assert_eq!(stack(1, 10, 504), 0x757e, "c.ldsp a0, 504(sp)");
        assert_eq!(stack(2, 10, 252), 0xdfaa, "c.swsp a0, 252(sp)");
        assert_eq!(stack(3, 10, 504), 0xffaa, "c.sdsp a0, 504(sp)");
    }
}
