//! What a verdict on a transaction is about: hashes of all that its scripts may look at.

use std::collections::HashMap;

use ckb_types::{
    bytes::Bytes,
    core::ScriptHashType,
    packed::{Byte32, CellOutput, OutPoint, Script},
    prelude::*,
};

use crate::{Environment, Mock};

/// Which transaction it is, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionFacts {
    /// ckb's hash of the transaction, which has no witnesses.
    pub tx_hash: [u8; 32],
    /// ckb's hash of the transaction with its witnesses.
    pub witness_hash: [u8; 32],
    /// ckb's hash of what came along: cells of inputs, cells of deps, headers, extensions. Each list has its
    /// length first (four bytes, little-endian), and its entries by their bytes, each once. An entry of a
    /// cell is its out point, the hash of its output, the hash of its data, and 1 with the hash of its block
    /// or 33 times 0. One of a header is its hash, one of an extension its block and the hash of its bytes.
    pub cells_hash: [u8; 32],
    /// VM version of the scripts that run, by their hash; none where no version that is active runs one.
    pub vm_versions: HashMap<[u8; 32], Option<u32>>,
}

/// The facts of `mock` under the rules of `environment`. Data whose hash is not known is hashed.
#[must_use]
pub fn facts(mock: &Mock, environment: &Environment) -> TransactionFacts {
    let ckb = mock.as_ckb();
    let info = &ckb.mock_info;
    let inputs = info.inputs.iter().enumerate().map(|(at, entry)| {
        let place = entry.input.previous_output();
        cell(&place, &entry.output, mock.input_data_hash(at), entry.header.as_ref())
    });
    let deps = info.cell_deps.iter().enumerate().map(|(at, entry)| {
        cell(&entry.cell_dep.out_point(), &entry.output, mock.dep_data_hash(at), entry.header.as_ref())
    });
    let headers = info.header_deps.iter().map(|header| header.hash().as_slice().to_vec());
    let extension = |(block, extension): &(Byte32, Bytes)| {
        [block.as_slice(), &ckb_hash::blake2b_256(extension.as_ref() as &[u8])].concat()
    };
    let lists = [
        list(inputs.collect()),
        list(deps.collect()),
        list(headers.collect()),
        list(info.extensions.iter().map(extension).collect()),
    ];
    TransactionFacts {
        tx_hash: ckb.tx.calc_tx_hash().into(),
        witness_hash: ckb.tx.calc_witness_hash().into(),
        cells_hash: ckb_hash::blake2b_256(lists.concat()),
        vm_versions: vm_versions(mock, environment),
    }
}

fn cell(place: &OutPoint, output: &CellOutput, data_hash: [u8; 32], block: Option<&Byte32>) -> Vec<u8> {
    let output_hash = ckb_hash::blake2b_256(output.as_slice());
    let block = block.map_or([0; 33].to_vec(), |hash| [&[1], hash.as_slice()].concat());
    [place.as_slice(), &output_hash, &data_hash, &block].concat()
}

/// The order in which a caller names things says nothing.
fn list(mut entries: Vec<Vec<u8>>) -> Vec<u8> {
    entries.sort_unstable();
    entries.dedup();
    // Lists of a transaction are short: it is checked.
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    [&count.to_le_bytes()[..], &entries.concat()].concat()
}

fn vm_versions(mock: &Mock, environment: &Environment) -> HashMap<[u8; 32], Option<u32>> {
    let ckb = mock.as_ckb();
    let version = |script: Script| {
        let hash_type = ScriptHashType::try_from(script.hash_type()).ok();
        let version = hash_type.and_then(|hash_type| environment.vm_version(hash_type));
        (script.calc_script_hash().into(), version)
    };
    let inputs = ckb.mock_info.inputs.iter();
    let of_inputs = inputs.flat_map(|entry| [Some(entry.output.lock()), entry.output.type_().to_opt()]);
    let of_outputs = ckb.tx.raw().outputs().into_iter().map(|output| output.type_().to_opt());
    of_inputs.chain(of_outputs).flatten().map(version).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::synthetic::AsLock;

    /// Facts of a small transaction that was changed as JSON.
    fn after(change: impl Fn(&mut Value)) -> TransactionFacts {
        let of = Bytes::from_static;
        let lock =
            AsLock { elf: of(b"code"), args: of(b"args"), witness: Some(of(b"seal")), data: of(b"data") };
        let mut json: Value = serde_json::from_slice(&lock.to_mock().unwrap().to_json()).unwrap();
        change(&mut json);
        facts(&Mock::from_json(json.to_string().as_bytes()).unwrap(), &Environment::of_version(1))
    }

    #[test]
    fn nothing_that_scripts_may_look_at_is_left_out() {
        let facts = after(|_| ());
        let versions: Vec<_> = facts.vm_versions.values().copied().collect();
        assert_eq!(versions, [Some(1)]);
        let block = json!(format!("0x{}", "07".repeat(32)));
        let cells: [(&str, Value); 6] = [
            ("/mock_info/inputs/0/data", json!("0x00")),
            ("/mock_info/inputs/0/output/capacity", json!("0x1")),
            ("/mock_info/inputs/0/header", block.clone()),
            ("/mock_info/cell_deps/0/data", json!("0x00")),
            ("/mock_info/cell_deps/0/output/type/args", json!("0x00")),
            ("/mock_info/extensions", json!([[block, "0x00"]])),
        ];
        for (path, value) in cells {
            let changed = after(|json| {
                let (parent, key) = path.rsplit_once('/').unwrap();
                json.pointer_mut(parent).unwrap()[key] = value.clone();
            });
            assert_ne!(changed.cells_hash, facts.cells_hash, "{path}");
            let rest = (changed.tx_hash, changed.witness_hash);
            assert_eq!(rest, (facts.tx_hash, facts.witness_hash), "{path}");
        }
        let resealed = after(|json| json["tx"]["witnesses"][0] = json!("0x00"));
        assert_ne!(resealed.witness_hash, facts.witness_hash);
        assert_eq!((resealed.tx_hash, resealed.cells_hash), (facts.tx_hash, facts.cells_hash));
        let other = after(|json| json["tx"]["version"] = json!("0x1"));
        assert_ne!((other.tx_hash, other.witness_hash), (facts.tx_hash, facts.witness_hash));
    }

    #[test]
    fn the_order_in_which_cells_are_told_says_nothing() {
        let entries = || vec![vec![2], vec![1], vec![2]];
        assert_eq!(list(entries()), [2, 0, 0, 0, 1, 2]);
        assert_eq!(list(Vec::new()), [0; 4]);
    }
}
