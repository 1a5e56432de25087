//! One relocation: its kind of reference, and whether the bytes encode its target.

use antares_program::{Decoder, Image, Instruction, Op, Reg};
use object::elf::{self, RelocationType};

use super::state::shape;

/// What references the target of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Nothing: a linker hint, or thread-local storage.
    None,
    /// An instruction that branches, jumps or calls.
    Branch,
    /// An instruction that forms the address, or a part of it.
    Part,
    /// Data that contains the address, or a part of it.
    Address,
    /// The lower half of an address whose upper half is at the target.
    LowerHalf,
}

/// Kind of reference of relocations of type `kind`. `None` if the type is unknown.
pub(crate) fn reference(kind: RelocationType) -> Option<Reference> {
    Some(match kind {
        elf::R_RISCV_BRANCH
        | elf::R_RISCV_JAL
        | elf::R_RISCV_CALL
        | elf::R_RISCV_CALL_PLT
        | elf::R_RISCV_RVC_BRANCH
        | elf::R_RISCV_RVC_JUMP => Reference::Branch,
        elf::R_RISCV_PCREL_LO12_I | elf::R_RISCV_PCREL_LO12_S => Reference::LowerHalf,
        elf::R_RISCV_GOT_HI20
        | elf::R_RISCV_PCREL_HI20
        | elf::R_RISCV_HI20
        | elf::R_RISCV_LO12_I
        | elf::R_RISCV_LO12_S
        | elf::R_RISCV_RVC_LUI
        | elf::R_RISCV_GPREL_I
        | elf::R_RISCV_GPREL_S => Reference::Part,
        elf::R_RISCV_32
        | elf::R_RISCV_64
        | elf::R_RISCV_RELATIVE
        | elf::R_RISCV_JUMP_SLOT
        | elf::R_RISCV_IRELATIVE
        | elf::R_RISCV_32_PCREL
        | elf::R_RISCV_PLT32
        | elf::R_RISCV_GOT32_PCREL => Reference::Address,
        _ if part_of_difference(kind).is_some() => Reference::Address,
        elf::R_RISCV_NONE
        | elf::R_RISCV_RELAX
        | elf::R_RISCV_ALIGN
        | elf::R_RISCV_TPREL_HI20
        | elf::R_RISCV_TPREL_LO12_I
        | elf::R_RISCV_TPREL_LO12_S
        | elf::R_RISCV_TPREL_ADD
        | elf::R_RISCV_TPREL_I
        | elf::R_RISCV_TPREL_S => Reference::None,
        _ => return None,
    })
}

/// A relocation to compare with the loaded bytes.
pub(crate) struct Site {
    pub(crate) kind: RelocationType,
    /// Its address.
    pub(crate) place: u64,
    /// Symbol and addend.
    pub(crate) target: u64,
    /// Value of the global pointer, if there is one.
    pub(crate) global_pointer: Option<u64>,
}

impl Site {
    /// The address formed here, if it matches the target. Does not compare parts of a difference.
    pub(crate) fn formed(&self, image: &Image, decoder: &mut Decoder<'_>) -> Option<u64> {
        let distance = self.target.wrapping_sub(self.place);
        let word = || image.bytes(self.place).map(u32::from_le_bytes).map(u64::from);
        let holds = match self.kind {
            elf::R_RISCV_32 => word()? == self.target & 0xffff_ffff,
            elf::R_RISCV_32_PCREL | elf::R_RISCV_PLT32 => word()? == distance & 0xffff_ffff,
            elf::R_RISCV_64 => image.bytes(self.place).map(u64::from_le_bytes)? == self.target,
            _ if matches!(reference(self.kind), Some(Reference::Branch | Reference::Part)) => {
                return self.formed_by(decoder, distance);
            }
            _ => true,
        };
        holds.then_some(self.target)
    }

    /// The address that an instruction forms.
    fn formed_by(&self, decoder: &mut Decoder<'_>, distance: u64) -> Option<u64> {
        let Instruction { op, rd, rs1, imm, .. } = decoder.decode(self.place)?;
        let number = imm.cast_unsigned();
        let holds = match self.kind {
            elf::R_RISCV_CALL | elf::R_RISCV_CALL_PLT => {
                let next = decoder.decode(self.place + 4)?;
                let is_pair = (op, next.op, next.rs1) == (Op::Auipc, Op::Jalr, rd);
                is_pair && number.wrapping_add(next.imm.cast_unsigned()) & !1 == distance
            }
            elf::R_RISCV_PCREL_HI20 => op == Op::Auipc && number == rounded(distance),
            elf::R_RISCV_GOT_HI20 => op == Op::Auipc,
            // Linkers write `c.li` if the upper half is zero.
            elf::R_RISCV_RVC_LUI if op == Op::Addi => rs1 == Reg::ZERO && number == 0 && self.target < 0x800,
            elf::R_RISCV_HI20 | elf::R_RISCV_RVC_LUI => op == Op::Lui && number == rounded(self.target),
            elf::R_RISCV_LO12_I | elf::R_RISCV_LO12_S => number == low(self.target),
            elf::R_RISCV_GPREL_I | elf::R_RISCV_GPREL_S => {
                let base = match rs1 {
                    Reg::ZERO => 0,
                    Reg(3) => self.global_pointer?,
                    _ => return None,
                };
                let formed = number.wrapping_add(base);
                // GNU ld subtracts the global pointer from the retained addend.
                return [formed, number].contains(&self.target).then_some(formed);
            }
            _ => (shape(op).is_none() && op != Op::Jalr) && number == distance,
        };
        holds.then_some(self.target)
    }
}

/// Bits of a variable-length difference.
pub(crate) const ULEB128: u32 = 65;

/// Reads a ULEB128 number at `place`.
pub(crate) fn uleb128(image: &Image, place: u64) -> Option<u64> {
    let mut number = 0;
    for (at, shift) in (place..).zip((0..64).step_by(7)) {
        let [byte] = image.bytes(at)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Number of bits of a difference, and the sign of the relocation's target in it.
pub(crate) fn part_of_difference(kind: RelocationType) -> Option<(u32, u64)> {
    Some(match kind {
        elf::R_RISCV_SET6 => (6, 1),
        elf::R_RISCV_SUB6 => (6, u64::MAX),
        elf::R_RISCV_SET_ULEB128 => (ULEB128, 1),
        elf::R_RISCV_SUB_ULEB128 => (ULEB128, u64::MAX),
        elf::R_RISCV_ADD8 | elf::R_RISCV_SET8 => (8, 1),
        elf::R_RISCV_ADD16 | elf::R_RISCV_SET16 => (16, 1),
        elf::R_RISCV_ADD32 | elf::R_RISCV_SET32 => (32, 1),
        elf::R_RISCV_ADD64 => (64, 1),
        elf::R_RISCV_SUB8 => (8, u64::MAX),
        elf::R_RISCV_SUB16 => (16, u64::MAX),
        elf::R_RISCV_SUB32 => (32, u64::MAX),
        elf::R_RISCV_SUB64 => (64, u64::MAX),
        _ => return None,
    })
}

/// The upper half of `value`, rounded for a signed 12-bit lower half, sign-extended like `lui`.
fn rounded(value: u64) -> u64 {
    let upper = value.wrapping_add(0x800) & 0xffff_f000;
    (upper.cast_signed() << 32 >> 32).cast_unsigned()
}

/// The lower half of `value`.
pub(crate) fn low(value: u64) -> u64 {
    (value.cast_signed() << 52 >> 52).cast_unsigned()
}
