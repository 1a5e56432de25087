//! Addresses that may become targets of indirect calls: code addresses found in data.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GuestAddr, Image};

/// Functions of a table, at most: longer tables are ignored.
const TABLE_FUNCTIONS_MAX: usize = 16;

/// Every even code address that stands as an aligned 64-bit word in loaded memory, ascending, once each.
///
/// A hint: a number that only looks like a code address costs compile time, a missed one costs a restart in the
/// interpreter when it is called.
pub(crate) fn code_addresses_in_data(image: &Image) -> Vec<u64> {
    let mut found = Vec::new();
    for &(start, end) in &image.segments {
        let first = start.next_multiple_of(8);
        for address in (first..end.saturating_sub(7)).step_by(8) {
            let Some(bytes) = image.bytes::<8>(address) else { break };
            let word = u64::from_le_bytes(bytes);
            if word != 0 && word % 2 == 0 && image.is_executable(word) && !image.is_constant(word) {
                found.push(word);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Every even code address that stands as an aligned 32-bit word in loaded memory, ascending, once each:
/// candidates for entries of absolute jump tables.
pub(crate) fn code_words_in_data(image: &Image) -> Vec<u64> {
    let mut found = Vec::new();
    for &(start, end) in &image.segments {
        for address in (start..end.saturating_sub(3)).step_by(4) {
            let Some(bytes) = image.bytes::<4>(address) else { break };
            let word = u64::from(u32::from_le_bytes(bytes));
            if word % 2 == 0 && image.is_executable(word) && !image.is_constant(word) {
                found.push(word);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// At which of `constants` two or more of the functions `exposed` stand one after another, and which.
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
