//! Finds the script groups of a transaction, in ckb-script's order: locks, then types, each sorted by script
//! hash.

use std::collections::{BTreeMap, HashMap};

use ckb_types::prelude::*;

use crate::Mock;

/// A script and the cells that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Hash of the script.
    pub script_hash: [u8; 32],
    /// Whether it is the type script of its cells, rather than the lock.
    pub is_type: bool,
    /// Inputs whose cells have it.
    pub inputs: Vec<u32>,
    /// Outputs that have it; empty for a lock, since locks of outputs do not run.
    pub outputs: Vec<u32>,
}

/// Sorted by kind, locks first, then by hash.
type Found = BTreeMap<(bool, [u8; 32]), Group>;

/// The groups of `mock`, in the order in which they run.
#[must_use]
pub fn groups(mock: &Mock) -> Vec<Group> {
    let mock = mock.as_ckb();
    let raw = mock.tx.raw();
    let cells: HashMap<_, _> = mock
        .mock_info
        .inputs
        .iter()
        .map(|input| (input.input.previous_output().as_slice().to_vec(), &input.output))
        .collect();
    let mut found = Found::new();
    for (input, index) in raw.inputs().into_iter().zip(0..) {
        // `check` guarantees that it exists.
        let Some(cell) = cells.get(input.previous_output().as_slice()) else { continue };
        of(&mut found, false, cell.lock().calc_script_hash().into()).inputs.push(index);
        if let Some(script) = cell.type_().to_opt() {
            of(&mut found, true, script.calc_script_hash().into()).inputs.push(index);
        }
    }
    for (output, index) in raw.outputs().into_iter().zip(0..) {
        if let Some(script) = output.type_().to_opt() {
            of(&mut found, true, script.calc_script_hash().into()).outputs.push(index);
        }
    }
    found.into_values().collect()
}

fn of(found: &mut Found, is_type: bool, script_hash: [u8; 32]) -> &mut Group {
    let group = || Group { script_hash, is_type, inputs: Vec::new(), outputs: Vec::new() };
    found.entry((is_type, script_hash)).or_insert_with(group)
}
