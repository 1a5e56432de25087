//! Finds the operands of branches in an input's bytes, as positions for the other operand.

use crate::FuzzInput;

/// Maximum stored positions of an input.
const POSITIONS_MAX: usize = 1024;
/// Maximum positions of one operand: frequent bytes are uninformative.
const POSITIONS_OF_ONE_MAX: usize = 8;

/// A position in an input, and bytes that would probably make a branch go the other way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) field: usize,
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The positions in `fields` of operands of `compared`, with the other operand.
pub(crate) fn positions(fields: &FuzzInput, compared: &[(u64, u64)]) -> Vec<Position> {
    let mut places = Vec::new();
    // Wide operands first: they rarely occur by chance.
    for width in [8, 4, 2, 1] {
        for (a, b) in compared.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
            for (held, wanted) in operands(a, b, width) {
                find(fields, (&held, &wanted), &mut places);
                if places.len() >= POSITIONS_MAX {
                    places.truncate(POSITIONS_MAX);
                    return places;
                }
            }
        }
    }
    places
}

/// Both operands in `width` bytes and both byte orders, if they fit and do not fit a smaller width.
fn operands(a: u64, b: u64, width: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fits = |number: u64| width == 8 || number >> (8 * width) == 0;
    // Operands of 4 bytes are often sign-extended in a register.
    let low = |number: u64| if width == 4 { number & u64::from(u32::MAX) } else { number };
    let (a, b) = (low(a), low(b));
    if !fits(a) || !fits(b) || (width > 1 && a.max(b) >> (4 * width) == 0 && a == 0) {
        return Vec::new();
    }
    let little = |number: u64| number.to_le_bytes()[..width].to_vec();
    let big = |number: u64| number.to_be_bytes()[8 - width..].to_vec();
    let mut found = vec![(little(a), little(b))];
    if width > 1 {
        found.push((big(a), big(b)));
    }
    found
}

fn find(fields: &FuzzInput, (held, wanted): (&[u8], &[u8]), places: &mut Vec<Position>) {
    let mut count = 0;
    for (field, bytes) in fields.0.iter().enumerate() {
        for (at, _) in bytes.windows(held.len()).enumerate().filter(|(_, window)| *window == held) {
            places.push(Position { field, at, bytes: wanted.to_vec() });
            count += 1;
            if count == POSITIONS_OF_ONE_MAX {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_is_found_where_the_input_has_it() {
        let fields = FuzzInput(vec![vec![9, 9], vec![7, 0x78, 0x56, 0x34, 0x12, 7]]);
        let found = positions(&fields, &[(0x1234_5678, 0xcafe_f00d)]);
        assert!(found.contains(&Position { field: 1, at: 1, bytes: vec![0x0d, 0xf0, 0xfe, 0xca] }));
        let found = positions(&fields, &[(9, 40)]);
        assert!(found.contains(&Position { field: 0, at: 1, bytes: vec![40] }));
        assert!(positions(&fields, &[(0xaaaa_bbbb, 0xcccc_dddd)]).is_empty());
    }
}
