//! One relocation: what kind of reference it is, and whether the bytes at its place encode its target.

use object::elf::{self, RelocationType};

/// What refers to the target of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Nothing: a note of the linker, or thread-local storage.
    None,
    /// An instruction that branches, jumps or calls.
    Branch,
    /// An instruction or data that forms its address, or a part of it.
    Address,
    /// The lower half of an address whose upper half is at the target.
    LowerHalf,
}

/// The kind of reference that relocations of type `kind` are. None if the type is unknown.
pub(crate) fn reference(kind: RelocationType) -> Option<Reference> {
    Some(match kind {
        elf::R_RISCV_BRANCH
        | elf::R_RISCV_JAL
        | elf::R_RISCV_CALL
        | elf::R_RISCV_CALL_PLT
        | elf::R_RISCV_RVC_BRANCH
        | elf::R_RISCV_RVC_JUMP => Reference::Branch,
        elf::R_RISCV_PCREL_LO12_I | elf::R_RISCV_PCREL_LO12_S => Reference::LowerHalf,
        elf::R_RISCV_32
        | elf::R_RISCV_64
        | elf::R_RISCV_RELATIVE
        | elf::R_RISCV_JUMP_SLOT
        | elf::R_RISCV_IRELATIVE
        | elf::R_RISCV_GOT_HI20
        | elf::R_RISCV_PCREL_HI20
        | elf::R_RISCV_HI20
        | elf::R_RISCV_LO12_I
        | elf::R_RISCV_LO12_S
        | elf::R_RISCV_RVC_LUI
        | elf::R_RISCV_GPREL_I
        | elf::R_RISCV_GPREL_S
        | elf::R_RISCV_ADD8
        | elf::R_RISCV_ADD16
        | elf::R_RISCV_ADD32
        | elf::R_RISCV_ADD64
        | elf::R_RISCV_SUB6
        | elf::R_RISCV_SUB8
        | elf::R_RISCV_SUB16
        | elf::R_RISCV_SUB32
        | elf::R_RISCV_SUB64
        | elf::R_RISCV_SET6
        | elf::R_RISCV_SET8
        | elf::R_RISCV_SET16
        | elf::R_RISCV_SET32
        | elf::R_RISCV_32_PCREL
        | elf::R_RISCV_PLT32
        | elf::R_RISCV_GOT32_PCREL
        | elf::R_RISCV_SET_ULEB128
        | elf::R_RISCV_SUB_ULEB128 => Reference::Address,
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

/// A relocation that is to be compared with the bytes.
pub(crate) struct Site {
    pub(crate) kind: RelocationType,
    /// Its address.
    pub(crate) place: u64,
    /// Symbol and addend.
    pub(crate) target: u64,
    /// The address in the global pointer, if there is one.
    pub(crate) global_pointer: Option<u64>,
    /// Memory from `place` on.
    pub(crate) bytes: [u8; 8],
}

impl Site {
    /// The address that the bytes form, if it is the target. Parts of a difference are not compared here.
    pub(crate) fn formed(&self) -> Option<u64> {
        let word = low_word(u64::from_le_bytes(self.bytes));
        let number = match self.kind {
            elf::R_RISCV_GPREL_I => lower(word),
            elf::R_RISCV_GPREL_S => lower_of_store(word),
            _ => return self.holds().then_some(self.target),
        };
        let base = match word >> 15 & 31 {
            0 => 0,
            3 => self.global_pointer?,
            _ => return None,
        };
        let formed = number.wrapping_add(base);
        // GNU ld takes the global pointer off the addend that it keeps.
        [formed, number].contains(&self.target).then_some(formed)
    }

    fn holds(&self) -> bool {
        let distance = self.target.wrapping_sub(self.place);
        let double = u64::from_le_bytes(self.bytes);
        let [word, next, half] = [double, double >> 32, double & 0xffff].map(low_word);
        match self.kind {
            elf::R_RISCV_32 => u64::from(word) == self.target & 0xffff_ffff,
            elf::R_RISCV_64 => double == self.target,
            elf::R_RISCV_32_PCREL | elf::R_RISCV_PLT32 => u64::from(word) == distance & 0xffff_ffff,
            elf::R_RISCV_BRANCH => word & 0x7f == 0x63 && branch(word) == distance,
            elf::R_RISCV_JAL => word & 0x7f == 0x6f && jump(word) == distance,
            elf::R_RISCV_RVC_BRANCH => half & 0xc003 == 0xc001 && short_branch(half) == distance,
            elf::R_RISCV_RVC_JUMP => half & 0xe003 == 0xa001 && short_jump(half) == distance,
            elf::R_RISCV_CALL | elf::R_RISCV_CALL_PLT => {
                let is_pair =
                    word & 0x7f == 0x17 && next & 0x707f == 0x67 && word >> 7 & 31 == next >> 15 & 31;
                is_pair && upper(word).wrapping_add(lower(next)) & !1 == distance
            }
            elf::R_RISCV_PCREL_HI20 => word & 0x7f == 0x17 && upper(word) == rounded(distance),
            elf::R_RISCV_GOT_HI20 => word & 0x7f == 0x17,
            elf::R_RISCV_HI20 => word & 0x7f == 0x37 && upper(word) == rounded(self.target),
            elf::R_RISCV_RVC_LUI => {
                let number = signed(half >> 7 & 0x20 | half >> 2 & 0x1f, 6) << 12;
                // A linker writes `c.li` where the upper half is zero.
                let is_upper = half & 0xe003 == 0x6001 || half & 0xe003 == 0x4001 && number == 0;
                is_upper && number == rounded(self.target)
            }
            elf::R_RISCV_LO12_I => lower(word) == low(self.target),
            elf::R_RISCV_LO12_S => lower_of_store(word) == low(self.target),
            _ => true,
        }
    }
}

/// Whether the instruction in `bytes` adds the lower half of `distance`.
pub(crate) fn is_lower_half(kind: RelocationType, bytes: Option<[u8; 8]>, distance: u64) -> bool {
    let Some(word) = bytes.map(|bytes| low_word(u64::from_le_bytes(bytes))) else { return false };
    let number = if kind == elf::R_RISCV_PCREL_LO12_S { lower_of_store(word) } else { lower(word) };
    number == low(distance)
}

/// Whether the instruction in `bytes` loads or stores.
pub(crate) fn is_access(bytes: [u8; 8]) -> bool {
    matches!(bytes[0] & 0x7f, 0x03 | 0x23)
}

/// How many bits of a difference a relocation is about, and with which sign its target counts.
pub(crate) fn part_of_difference(kind: RelocationType) -> Option<(u32, u64)> {
    Some(match kind {
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

#[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn low_word(value: u64) -> u32 {
    value as u32
}

/// The lower `bits` of `value`, sign-extended.
fn signed(value: u32, bits: u32) -> u64 {
    (i64::from(value) << (64 - bits) >> (64 - bits)).cast_unsigned()
}

/// What `auipc` and `lui` add.
fn upper(word: u32) -> u64 {
    signed(word & 0xffff_f000, 32)
}

/// The upper half of `value` to which a signed lower half of 12 bits is added, as `lui` sign-extends it.
fn rounded(value: u64) -> u64 {
    upper(low_word(value.wrapping_add(0x800)))
}

/// The lower half of `value`.
fn low(value: u64) -> u64 {
    signed(low_word(value) & 0xfff, 12)
}

/// The number in a load or an addition.
fn lower(word: u32) -> u64 {
    signed(word >> 20, 12)
}

/// The number in a store.
fn lower_of_store(word: u32) -> u64 {
    signed(word >> 20 & 0xfe0 | word >> 7 & 0x1f, 12)
}

fn branch(word: u32) -> u64 {
    signed(word >> 19 & 0x1000 | word << 4 & 0x800 | word >> 20 & 0x7e0 | word >> 7 & 0x1e, 13)
}

fn jump(word: u32) -> u64 {
    signed(word >> 11 & 0x10_0000 | word & 0xf_f000 | word >> 9 & 0x800 | word >> 20 & 0x7fe, 21)
}

fn short_branch(half: u32) -> u64 {
    let bits = half >> 4 & 0x100 | half >> 7 & 0x18 | half << 1 & 0xc0 | half >> 2 & 6 | half << 3 & 0x20;
    signed(bits, 9)
}

fn short_jump(half: u32) -> u64 {
    let bits = half >> 1 & 0x800
        | half >> 7 & 0x10
        | half >> 1 & 0x300
        | half << 2 & 0x400
        | half >> 1 & 0x40
        | half << 1 & 0x80
        | half >> 2 & 0xe
        | half << 3 & 0x20;
    signed(bits, 12)
}
