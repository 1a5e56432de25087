//! Lays out sections and resolves labels: items in, bytes out.

use std::collections::HashMap;

use super::{Item, Label, encode};

/// A list of items and its address.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Address of the first item.
    pub address: u64,
    pub items: &'a [Item],
}

/// Addresses of labels.
pub type Labels = HashMap<Label, u64>;

/// Why items cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An undefined label.
    #[error("no label {0}")]
    NoLabel(Label),
    /// A target out of range of its instruction.
    #[error("{0:?} is out of reach")]
    OutOfReach(Item),
}

/// Addresses of all labels of all sections.
#[must_use]
pub fn labels(sections: &[Placed<'_>]) -> Labels {
    let mut labels = Labels::new();
    for section in sections {
        let mut address = section.address;
        for item in section.items {
            if let Item::Label(label) = item {
                labels.insert(*label, address);
            }
            address += item.size(address);
        }
    }
    labels
}

/// Size of a section in bytes.
#[must_use]
pub fn size(section: Placed<'_>) -> u64 {
    section.items.iter().fold(section.address, |address, item| address + item.size(address)) - section.address
}

/// Bytes of a section.
///
/// # Errors
/// [`LayoutError`].
pub fn assemble(section: Placed<'_>, labels: &Labels) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::new();
    let mut address = section.address;
    for item in section.items {
        emit(item, address, labels, &mut bytes)?;
        address += item.size(address);
    }
    Ok(bytes)
}

fn emit(item: &Item, address: u64, labels: &Labels, bytes: &mut Vec<u8>) -> Result<(), LayoutError> {
    let place = |label: &Label| labels.get(label).copied().ok_or(LayoutError::NoLabel(*label));
    let far = || LayoutError::OutOfReach(item.clone());
    let distance = |to: u64| to.wrapping_sub(address).cast_signed();
    let mut word = |word: u32| bytes.extend_from_slice(&word.to_le_bytes());
    match item {
        Item::Label(_) => {}
        Item::Word(bits) => word(*bits),
        Item::Half(bits) => bytes.extend_from_slice(&bits.to_le_bytes()),
        Item::Branch { funct3, rs1, rs2, to, plus } => {
            let to = distance(place(to)?) + i64::from(*plus);
            word(encode::b(*funct3, *rs1, *rs2, to).ok_or_else(far)?);
        }
        Item::Jump { rd, to } => word(encode::jal(*rd, distance(place(to)?)).ok_or_else(far)?),
        Item::FarJump { is_absolute, rd, through, to } => {
            let to = place(to)?;
            let value = if *is_absolute { to.cast_signed() } else { distance(to) };
            let (upper, lower) = encode::split(value).ok_or_else(far)?;
            word(encode::u(if *is_absolute { 0x37 } else { 0x17 }, *through, upper));
            word(encode::i(0x67, 0, *rd, *through, lower));
        }
        Item::Address { is_absolute, rd, of, plus } => {
            let of = place(of)?;
            let value = if *is_absolute { of.cast_signed() } else { distance(of) };
            let (upper, lower) = encode::split(value + i64::from(*plus)).ok_or_else(far)?;
            word(encode::u(if *is_absolute { 0x37 } else { 0x17 }, *rd, upper));
            word(encode::i(if *is_absolute { 0x1b } else { 0x13 }, 0, *rd, *rd, lower));
        }
        Item::Entry32(to) => word(u32::try_from(place(to)?).map_err(|_| far())?),
        Item::EntryRelative { to, base } => {
            let value = place(to)?.wrapping_sub(place(base)?).cast_signed();
            word(i32::try_from(value).map_err(|_| far())?.cast_unsigned());
        }
        Item::Entry64(to) => bytes.extend_from_slice(&place(to)?.to_le_bytes()),
        Item::Data(value) => bytes.extend_from_slice(&value.to_le_bytes()),
        Item::Align(_) => bytes.resize(bytes.len() + usize::try_from(item.size(address)).unwrap_or(0), 0),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words from `riscv64-unknown-elf-as`.
    #[test]
    fn jumps_are_encoded_as_by_gnu_as() {
        let items = [
            Item::Label(0),
            Item::Branch { funct3: 0, rs1: 10, rs2: 11, to: 1, plus: 0 },
            Item::Jump { rd: 1, to: 0 },
            Item::Label(1),
        ];
        let section = Placed { address: 0x1000, items: &items };
        let bytes = assemble(section, &labels(&[section])).unwrap();
        assert_eq!(bytes, [0x63, 0x04, 0xb5, 0x00, 0xef, 0xf0, 0xdf, 0xff], "{bytes:02x?}");
    }
}
