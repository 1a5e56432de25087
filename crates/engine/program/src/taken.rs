//! Addresses that may become targets of indirect calls: code addresses found in data.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GuestAddr, Image};

/// Maximum functions of a table; longer tables are ignored.
const TABLE_FUNCTIONS_MAX: usize = 16;

/// Every even code address that loaded memory holds as an aligned 64-bit word, ascending, without duplicates.
///
/// These are hints: a false address costs compile time, a missed one costs a restart in the interpreter.
pub(crate) fn code_addresses_in_data(image: &Image) -> Vec<u64> {
    code_in_data(image, 8, |address| image.bytes(address).map(u64::from_le_bytes).filter(|word| *word != 0))
}

/// Every even code address that loaded memory holds as an aligned 32-bit word, ascending, without duplicates.
/// These are candidates for entries of absolute jump tables.
pub(crate) fn code_words_in_data(image: &Image) -> Vec<u64> {
    code_in_data(image, 4, |address| image.bytes(address).map(u32::from_le_bytes).map(u64::from))
}

/// The code addresses that `read` finds at multiples of `bytes` in loaded memory.
fn code_in_data(image: &Image, bytes: usize, read: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let is_code =
        |word: &u64| word.is_multiple_of(2) && image.is_executable(*word) && !image.is_constant(*word);
    let places = image.segments.iter().flat_map(|&(start, end)| (start..end).step_by(bytes));
    let mut found: Vec<u64> = places.filter_map(read).filter(is_code).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The tables at `constants` that hold two or more consecutive functions from `exposed`.
pub(crate) fn function_tables<'a>(
    image: &Image,
    constants: impl Iterator<Item = &'a u64>,
    exposed: &BTreeSet<u64>,
) -> BTreeMap<u64, Vec<GuestAddr>> {
    let constants: BTreeSet<u64> = constants.copied().filter(|address| address.is_multiple_of(8)).collect();
    let entry = |address: u64| {
        let word = u64::from_le_bytes(image.bytes::<8>(address)?);
        exposed.contains(&word).then_some(GuestAddr(word))
    };
    let table = |start: &u64| {
        let places = (0..=TABLE_FUNCTIONS_MAX as u64).map(|index| start.checked_add(8 * index));
        let entries: Vec<GuestAddr> = places.map_while(|place| entry(place?)).collect();
        (2..=TABLE_FUNCTIONS_MAX).contains(&entries.len()).then_some((*start, entries))
    };
    constants.iter().filter_map(table).collect()
}
